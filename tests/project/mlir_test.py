"""Runs the commands that kernels/command/README.md shows for an MLIR kernel, in a copy of tests/project/mlir.

  mlir_test.py PTXB SOURCE

The kernel must be correct, and a fault must be found in copies without a fence or a barrier.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77
TOOLS = ["mlir-opt-22", "mlir-translate-22"]
GOOD, FAILED, WRONG = 0, 1, 3  # exit codes of ptxb
NO_PTXAS = "no ptxas of version"


def commands(source):
    """Returns the indented lines in the README's section."""
    with open(os.path.join(source, "kernels/command/README.md")) as file:
        section = file.read().split("## A kernel from MLIR\n")[1].split("\n## ")[0]
    return "".join(line[4:] for line in section.splitlines(keepends=True) if line.startswith("    "))


def check(what, ran, code, words):
    if ran.returncode != code or words not in ran.stdout:
        sys.exit(f"{what}: exit code {ran.returncode}, expected {code} and '{words}'; it printed:\n{ran.stdout}")
    print(f"{what}: {words}")


def main(ptxb, source):
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"SKIPPED: no {' and '.join(missing)}, of Debian's package mlir-22-tools")
        return SKIPPED
    script = commands(source)
    simulates = script[script.index("ptxb sim "):]
    environment = {**os.environ, "PATH": os.path.dirname(ptxb) + os.pathsep + os.environ["PATH"]}
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, "mlir")
        shutil.copytree(os.path.join(source, "tests/project/mlir"), folder)

        def run(text):
            return subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

        ran = run(script)
        if NO_PTXAS in ran.stdout:
            print("SKIPPED: " + ran.stdout[ran.stdout.index(NO_PTXAS):])
            return SKIPPED
        check("the README's commands", ran, GOOD, "y: all 8192 elements are right")
        check("the sidecar", ran, GOOD, "wrote ./stdin.json")

        with open(os.path.join(folder, "y.bin"), "r+b") as file:
            file.seek(4 * (9 * 512 + 392))
            file.write(struct.pack("f", 1e3))
        check("with another reference", run(simulates), WRONG, "WRONG, 1 of 8192 elements; the first: y[392, 9] is")

        path = os.path.join(folder, "rms_norm.mlir")
        with open(path) as file:
            kernel = file.read()
        barrier = kernel.rindex("    gpu.barrier\n")
        for what, broken, code, words in (
                ("without its fence", kernel.replace("    nvvm.fence.mbarrier.init\n", ""), GOOD,
                 "note: a copy will signal mbarrier __mbarrier, but no fence.mbarrier_init"),
                ("without its second barrier", kernel[:barrier] + kernel[barrier:].replace("    gpu.barrier\n", ""), FAILED,
                 "race: this ")):
            with open(path, "w") as file:
                file.write(broken)
            check(what, run(script), code, words)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
