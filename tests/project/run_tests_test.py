"""Runs scripts/run_tests.py on tests that pass, fail, are skipped, hang, cannot be started, or do not exist.

  run_tests_test.py RUN_TESTS FOLDER   RUN_TESTS is the script, and FOLDER is created anew
"""
import os
import shutil
import subprocess
import sys

run_tests, folder = sys.argv[1:]

TESTS = {
    "good": 'sh -c "echo fine"',
    "bad": "false",
    "hangs": "sleep 600",
    "skipped": """sh -c "echo 'SKIPPED: no <device> here'; exit 77" """,
    "skipped_too": """sh -c "head -c 100000 /dev/zero | tr '\\\\0' x; echo; echo 'SKIPPED: no <device> here'; exit 77" """,
    "fails_and_skips": """sh -c "echo 'SKIPPED: half of it'; exit 1" """,
    "missing": "/nonexistent/program",
}

# Each case has the arguments, whether the exit code must be 0, and the expected last line.
CASES = [
    (["-R", "^good$"], True, "tests: 1 ran, 1 passed, 0 failed, 0 skipped"),
    (["-R", "^(good|bad)$"], False, "tests: 2 ran, 1 passed, 1 failed, 0 skipped"),
    (["-R", "^hangs$"], False, "tests: 1 ran, 0 passed, 1 failed, 0 skipped"),
    (["-R", "^missing$"], False, "tests: 1 ran, 0 passed, 1 failed, 0 skipped"),
    (["-R", "^fails_and_skips$"], False, "tests: 1 ran, 0 passed, 1 failed, 0 skipped"),
    (["-R", "^(good|skipped.*)$"], True,
     "tests: 1 ran, 1 passed, 0 failed, 2 skipped; skipped skipped_too: no <device> here"),
    (["-R", "no_test_is_named_so"], False, "tests: none ran"),
    (["-L", "no_label_is_named_so"], False, "tests: none ran"),
]

shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
with open(os.path.join(folder, "only.txt"), "w") as out:
    out.write("good\nskipped\n")
CASES.append(([f"--only={folder}/only.txt"], True, "tests: 1 ran, 1 passed, 0 failed, 1 skipped; skipped: no <device> here"))
with open(os.path.join(folder, "CTestTestfile.cmake"), "w") as out:
    for name, command in TESTS.items():
        limit = 1 if name == "hangs" else 60
        out.write(f"add_test({name} {command})\n"
                  f"set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT {limit})\n")

problems = []
for arguments, good, expected in CASES:
    options = [word for word in arguments if word.startswith("--only=")]
    done = subprocess.run([run_tests, *options, folder, *(word for word in arguments if word not in options)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    last = done.stdout.splitlines()[-1]
    if (done.returncode == 0) != good or last != expected:
        problems.append(f"{arguments}: exits with {done.returncode}, and its last line is\n  {last}\nnot\n  {expected}")
print("\n".join(problems) or f"{len(CASES)} runs end as they should")
sys.exit(bool(problems))
