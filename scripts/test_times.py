"""Prints how the time of a build and of its tests was spent, compared with the stored times. scripts/run_tests.py --times uses this module.
Seconds are the summed run times of compilers, linkers or tests. Several of them run at once. In the build, each file counts with the time
of its most recent compilation.
"""
import collections
import json
import os
import re

KEPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "times.json")
LEAST = 1.0  # in seconds; parts that take less are added up as "others"


def of_build(folder):
    """Returns seconds by target, and seconds for all precompiled headers and for all linking."""
    times = {}
    with open(f"{folder}/.ninja_log") as log:
        for line in log:
            if not line.startswith("#"):
                start, end, _, output, _ = line.rstrip("\n").split("\t")
                times[output] = (int(end) - int(start)) / 1000
    sums = collections.Counter()
    for output, seconds in times.items():
        target = re.search(r"CMakeFiles/([^/]+)\.dir/", output)
        if os.path.exists(os.path.join(folder, output)):
            sums["precompiled headers" if "cmake_pch" in output else target[1] if target else "linking, archives"] += seconds
    return sums


def rounded(sums):
    """Returns the parts in the order of their names, with small ones merged."""
    parts = {name: round(seconds, 1) for name, seconds in sorted(sums.items()) if seconds >= LEAST}
    parts["others"] = round(sum(seconds for seconds in sums.values() if seconds < LEAST), 1)
    return parts


def table(title, before, now):
    print(f"{title:50}{'before':>10}{'now':>10}")
    for name in sorted(before.keys() | now.keys(), key=lambda name: -now.get(name, 0)):
        print(f"  {name[:46]:48}{before.get(name, 0):10.1f}{now.get(name, 0):10.1f}")
    print(f"  {'all':48}{sum(before.values()):10.1f}{sum(now.values()):10.1f}", flush=True)


def tell(folder, of_tests):
    """Prints both tables and stores the new seconds. `of_tests` holds the seconds of each test, indexed by its name."""
    before = {"build": {}, "tests": {}}
    if os.path.exists(KEPT):
        with open(KEPT) as file:
            before = json.load(file)
    now = {"build": rounded(of_build(folder)), "tests": rounded(of_tests)}
    table("seconds of the build, by target", before["build"], now["build"])
    table("seconds of the tests", before["tests"], now["tests"])
    with open(KEPT, "w") as file:
        file.write(json.dumps(now, indent=1) + "\n")
