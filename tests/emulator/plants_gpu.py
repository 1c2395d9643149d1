"""Runs planted races on a GPU, and shows which of those that the emulator reports change a program's results in memory.

  build/release/bin/unit_tests emulator_global_test --write=DIR
  python3 tests/emulator/plants_gpu.py DIR [--times=N]

Each program and each of its plants is launched N times on memory of zeros. A plant is visible if some result never occurs in the
correct program, or if the plant does not end. The exit code is 0 if the table is printed, and 77 if there is no GPU.
"""
import argparse
import ctypes
import json
import os
import subprocess
import sys
import time

BYTES = 32768
NOT_READY = 600


def driver():
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        result = getattr(cuda, name)(*arguments)
        if result not in (0, NOT_READY):
            raise RuntimeError(f"{name}: {result}")
        return result
    return call


def launch(folder, programs, times):
    """Prints a line of JSON for each program: its results, and how often each occurred. A program that does not end terminates this
    process."""
    call = driver()
    call("cuInit", 0)
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(BYTES))
    device, number = ctypes.create_string_buffer(100), ctypes.c_int()
    call("cuDeviceGetName", device, 100, 0)
    call("cuDriverGetVersion", ctypes.byref(number))
    host = ctypes.create_string_buffer(BYTES)
    for name, ctas in programs:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        with open(os.path.join(folder, name + ".ptx"), "rb") as text:
            call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(text.read() + b"\0"))
        call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        left = {}
        for _ in range(times):
            call("cuMemsetD8_v2", memory, ctypes.c_ubyte(0), ctypes.c_size_t(BYTES))
            parameters = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
            call("cuLaunchKernel", function, ctas, 1, 1, 64, 1, 1, 0, None, parameters, None)
            end = time.monotonic() + 3
            while call("cuStreamQuery", None) == NOT_READY:
                if time.monotonic() > end:
                    print(json.dumps({"name": name, "left": {"no end": 1}}), flush=True)
                    os._exit(3)
            call("cuMemcpyDtoH_v2", host, memory, ctypes.c_size_t(BYTES))
            key = str(hash(host.raw))
            left[key] = left.get(key, 0) + 1
        print(json.dumps({"name": name, "left": left, "device": device.value.decode(), "cuda": number.value}), flush=True)
        call("cuModuleUnload", module)


def run_all(folder, programs, times):
    left, about = {}, {}
    while len(left) < len(programs):
        rest = [name for name, _, _ in programs if name not in left]
        ran = subprocess.run([sys.executable, __file__, folder, f"--times={times}", "--of", *rest], capture_output=True, text=True,
                             timeout=600, env={**os.environ, "PYTHONHASHSEED": "0"})
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        for line in lines:
            left[line["name"]] = line["left"]
            about = {k: line[k] for k in ("device", "cuda") if k in line} or about
        if not lines or (ran.returncode not in (0, 3) and lines[-1]["name"] == rest[-1]):
            lost = rest[len(lines)]
            left[lost] = {"error: " + (ran.stderr.strip().splitlines() or ["?"])[-1]: 1}
    return left, about


def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder")
    options.add_argument("--times", type=int, default=200)
    options.add_argument("--of", nargs="*")
    given = options.parse_args()
    with open(os.path.join(given.folder, "list.tsv"), encoding="utf-8") as lines:
        programs = [line.rstrip("\n").split("\t") for line in lines]
    if given.of:
        ctas = {name: int(count) for name, count, _ in programs}
        return launch(given.folder, [(name, ctas[name]) for name in given.of], given.times)
    try:
        driver()("cuInit", 0)
    except (OSError, RuntimeError) as error:
        print(f"SKIPPED: no GPU ({error})")
        return 77
    left, about = run_all(given.folder, programs, given.times)
    print(about, f"{given.times} launches each")
    shown = plants = 0
    for name, _, what in programs:
        if "." not in name:
            right = left[name]
            print(f"{name}\t{what}: {len(right)} results{' ' + next(iter(right)) if not next(iter(right)).lstrip('-').isdigit() else ''}")
            continue
        others = {key: count for key, count in left[name].items() if key not in right}
        plants += 1
        shown += bool(others)
        kinds = [key for key in others if not key.lstrip("-").isdigit()]
        print(f"  {name}\t{'shows' if others else 'does not show'}, {sum(others.values())} times {' '.join(kinds)}")
    print(f"{shown} of {plants} plants show")
    return 0


if __name__ == "__main__":
    sys.exit(main())
