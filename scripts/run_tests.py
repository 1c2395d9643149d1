#!/usr/bin/env python3
"""Runs the tests of a configured build folder with ctest. The last line summarizes the results.

  scripts/run_tests.py [--times] [--only=FILE] FOLDER [ARG...]
    ARG      goes to ctest, such as -L unit or -R pattern
    --times  finally prints how long the build and each test took, compared with the times in tests/times.json, and replaces those times
    --only   runs only the tests whose names are in the file, one per line

Tests that take longer than the budget of tests/README.md are listed. The exit code is that of ctest. It is an error if no test matches a
filter, or if a test cannot be started.
"""
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

import test_times

BUDGET = 20  # seconds for one test


def reason_of_skip(case):
    """Returns the reason that a skipped test has printed, or None if it was not skipped."""
    skipped = case.find("skipped")
    if case.get("status") == "disabled":
        return "disabled"
    if skipped is None or not skipped.get("message", "").startswith("SKIP_"):
        return None
    words = re.findall(r"SKIPPED: *(.*)", case.findtext("system-out", ""))
    return ", ".join(dict.fromkeys(word.strip() for word in words)) or "it does not say why"


def summary(cases):
    passed, failed, skipped = 0, 0, {}
    for case in cases:
        reason = reason_of_skip(case)
        if reason is not None:
            skipped.setdefault(reason, []).append(case.get("name"))
        elif case.get("status") == "run":
            passed += 1
        else:
            failed += 1
    if not cases:
        return "tests: none ran"
    count = sum(map(len, skipped.values()))
    line = f"tests: {passed + failed} ran, {passed} passed, {failed} failed, {count} skipped"
    for reason, names in sorted(skipped.items(), key=lambda entry: sorted(entry[1])):
        line += "; " + " ".join(sorted(names)) + ": " + reason
    return line


def seconds_of(cases):
    return {case.get("name"): float(case.get("time")) for case in cases if case.get("status") == "run"}


def over_budget(seconds):
    """Returns a line that names the tests that take too long, or "" if there are none."""
    long = sorted(((time, name) for name, time in seconds.items() if time > BUDGET), reverse=True)
    return "" if not long else (f"over the budget of {BUDGET} s of a test (tests/README.md): " +
                                ", ".join(f"{name} {time:.0f} s" for time, name in long))


def main(folder, arguments, times=False, only=None):
    results = os.path.abspath(os.path.join(folder, "tests.xml"))
    if os.path.exists(results):
        os.remove(results)
    if only:
        with open(only) as names:
            arguments = ["-R", "^(" + "|".join(re.escape(name) for name in names.read().split()) + ")$", *arguments]
    # A test may print anywhere in its output why it is skipped, but ctest truncates the output to 1 KiB by default.
    code = subprocess.run(["ctest", "--test-dir", folder, "--no-tests=error", "--output-on-failure",
                           "--output-junit", results, "--test-output-size-passed", "1048576",
                           "--parallel", str(len(os.sched_getaffinity(0))), *arguments]).returncode
    cases = xml.etree.ElementTree.parse(results).findall("testcase") if os.path.exists(results) else []
    if long := over_budget(seconds_of(cases)):
        print(long)
    if times:
        test_times.tell(folder, seconds_of(cases))
    print(summary(cases), flush=True)
    return code


if __name__ == "__main__":
    words = sys.argv[1:]
    options = {}
    while words and words[0].startswith("--"):
        option, _, value = words.pop(0).partition("=")
        if option == "--help":
            print(__doc__.strip())
            sys.exit(0)
        if option not in ("--times", "--only"):
            sys.exit(f"{option} is not an option of run_tests.py; see --help")
        options[option[2:]] = value or True
    if not words:
        print(__doc__.strip())
        sys.exit(2)
    sys.exit(main(words[0], words[1:], **options))
