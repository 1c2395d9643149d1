"""Reads a kernel's profile by Perfetto's own definitions of its messages, and holds it to the table that the kernel prints.

  perfetto_test.py KERNEL FOLDER   KERNEL is an executable; FOLDER has Python's package `perfetto`, as scripts/setup puts it
"""

import collections
import json
import os
import subprocess
import sys
import tempfile

kernel, folder = sys.argv[1:]
sys.path.insert(0, folder)
try:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
except ImportError:
    print("SKIPPED: no Python package perfetto, which scripts/setup takes from PyPI")
    sys.exit(77)  # what ctest takes for a skipped test


def slices_of(packets):
    """The durations of the slices of each track by name, in the order of time, as a reader of traces stacks them."""
    names, tracks, open_slices, found = {}, {}, collections.defaultdict(list), collections.defaultdict(list)
    for packet in packets:
        names.update((name.iid, name.name) for name in packet.interned_data.event_names)
        if packet.HasField("track_descriptor") and packet.track_descriptor.name:
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
    for packet in sorted((p for p in packets if p.HasField("track_event")), key=lambda p: p.timestamp):
        event = packet.track_event
        stack = open_slices[event.track_uuid]
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            stack.append((names[event.name_iid], packet.timestamp))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            name, begin = stack.pop()
            found[tracks[event.track_uuid].split(", ")[1], name].append(packet.timestamp - begin)
    assert not any(open_slices.values()), "slices that do not end"
    return found


with tempfile.TemporaryDirectory() as place:
    file = os.path.join(place, "trace")
    ran = subprocess.run([kernel, "--m", "264", "--n", "256", "--k", "256", "--device", "emulator", "--assembler", "none",
                          "--no-cache", "--profile", file, "--json"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    profile = json.loads(ran.stdout)["profile"]
    trace = Trace()
    with open(file, "rb") as bytes_of:
        trace.ParseFromString(bytes_of.read())
slices = slices_of(trace.packet)
compared = 0
for row in profile["rows"]:
    durations = slices[row["role"], row["region"].split("/")[-1] or row["role"]]
    assert len(durations) == row["count"], (row, len(durations))
    assert sum(durations) + len(durations) >= row["total_ns"], (row, sum(durations))  # net times leave out what recording costs
    assert max(durations) <= profile["time_ns"] + 1, row
    compared += 1
assert compared == 7, profile["rows"]
print(f"{compared} regions of {len(trace.packet)} packets, as the table has them")
