"""Holds helpers that the tests of the Python package share."""
import contextlib
import hashlib
import os
import re
import subprocess
import sys
import threading

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def pythons():
    """Returns this Python, the Python in the environment that scripts/setup creates, and the Python that PTXBUILDER_TEST_PYTHON names."""
    others = [os.path.join(TOP, "build/python/bin/python3"), os.environ.get("PTXBUILDER_TEST_PYTHON")]
    return [sys.executable, *(python for python in others if python and os.path.exists(python))]


def python_with(*modules):
    """Returns the first Python that has the modules, or None. Finds modules without importing them, because importing JAX takes seconds."""
    code = "import importlib.util, sys; sys.exit(None in map(importlib.util.find_spec, sys.argv[1:]))"
    return next((python for python in pythons() if subprocess.run([python, "-c", code, *modules]).returncode == 0), None)


def use(*modules):
    """Runs the test with the first Python that has the modules, or skips it if there is none."""
    python = python_with(*modules)
    if python == sys.executable:
        return
    if python:
        os.execv(python, [python, *sys.argv])
    print(f"SKIPPED: no Python here has {' and '.join(modules)}")
    sys.exit(77)  # ctest marks a test with this exit code as skipped


def quick_xla():
    """Returns an environment in which XLA takes the least time for programs that run once or twice."""
    # Half of the time would be spent on programs that XLA has already compiled in the last run. Each test has its own folder, because two
    # tests that run at once must not write to one file. Each kind of CPU also has its own folder, because the programs contain its
    # instructions.
    flags = re.search(r"^(?:flags|Features)\s*:(.*)", open("/proc/cpuinfo").read(), re.M)
    cpu = hashlib.sha256(flags[1].encode() if flags else b"").hexdigest()[:12]
    test = os.path.basename(sys.argv[0]).removesuffix(".py")
    return {"XLA_FLAGS": os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0",
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
            "JAX_COMPILATION_CACHE_DIR": os.path.join(TOP, "build/jax", f"{test}-{cpu}"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


failures = 0


def check(holds, *words):
    """Counts and reports a failure. Returns whether there is none."""
    global failures
    if not holds:
        failures += 1
        line = sys._getframe(1).f_lineno
        print(f"FAIL line {line}:", *words, flush=True)
    return bool(holds)


@contextlib.contextmanager
def refused(*texts, kind=ValueError):
    """Checks that the code in its context raises an error that contains these words."""
    try:
        yield
    except kind as error:
        for text in texts:
            check(text in str(error), f"'{text}' is not in: {error}")
    else:
        check(False, f"nothing is refused, expected: {texts}")


def end():
    print(f"{failures} failures")
    sys.exit(failures != 0)


def in_threads(function, count):
    """Calls function(0), function(1), .. at once, and raises what any of them raises."""
    errors = []

    def one(index):
        try:
            function(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
