"""Compares the extension's declarations of XLA's and DLPack's interfaces with their headers: layouts_test.py CC TOP.

jaxlib ships XLA's header, and PyTorch ships DLPack's. A header that no Python here has is left out, with a message.
"""
import os
import subprocess
import sys

import kit

cc, top = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))


def said_by(code):
    for python in kit.pythons():
        done = subprocess.run([python, "-c", code], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    return None


words = []
for macro, folder, owner in (("XLA", said_by("import jax; print(jax.ffi.include_dir())"), "JAX"),
                             ("DLPACK", said_by("import os, torch; print(os.path.join(os.path.dirname(torch.__file__), 'include/ATen'))"),
                              "PyTorch")):
    if folder:
        words += [f"-D{macro}", "-isystem", folder]
    else:
        print(f"left out: {macro}, since no Python here has {owner}")
if not words:
    print("SKIPPED: no Python here has JAX or PyTorch")
    sys.exit(77)
command = [cc, "-std=gnu11", "-fsyntax-only", f"-I{top}", *words, os.path.join(here, "layouts.c")]
done = subprocess.run(command, capture_output=True, text=True)
kit.check(done.returncode == 0, done.stderr)
kit.end()
