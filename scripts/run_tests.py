#!/usr/bin/env python3
"""Runs the tests of a configured build folder by ctest; the last line says what became of them.

  scripts/run_tests.py FOLDER [ARG...]   further words go to ctest, as -L unit or -R pattern

Exits with ctest's code. A filter that no test passes is an error, and so is a test that cannot be started.
"""
import os
import re
import subprocess
import sys
import xml.etree.ElementTree


def reason_of_skip(case):
    """Why a test was skipped, in its own words; None where it was not."""
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


def main(folder, arguments):
    results = os.path.abspath(os.path.join(folder, "tests.xml"))
    if os.path.exists(results):
        os.remove(results)
    # A test says why it is skipped anywhere in what it prints, of which ctest keeps 1 KiB unless told.
    code = subprocess.run(["ctest", "--test-dir", folder, "--no-tests=error", "--output-on-failure",
                           "--output-junit", results, "--test-output-size-passed", "1048576",
                           "--parallel", str(len(os.sched_getaffinity(0))), *arguments]).returncode
    cases = xml.etree.ElementTree.parse(results).findall("testcase") if os.path.exists(results) else []
    print(summary(cases), flush=True)
    return code


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] == "--help":
        print(__doc__.strip())
        sys.exit(0 if "--help" in sys.argv else 2)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
