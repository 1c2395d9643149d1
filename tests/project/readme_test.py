"""Checks that the README is short, that its GEMM is the one in kernels/steps, and that its numbers and pictures match kernels/MEASURED.md.

  readme_test.py SOURCE
"""
import os
import re
import subprocess
import sys

MOST_WORDS = 900


def read(path):
    with open(path) as file:
        return file.read()


def main(source):
    os.chdir(source)
    readme, measured, faults = read("README.md"), read("kernels/MEASURED.md"), []
    if (words := len(readme.split())) >= MOST_WORDS:
        faults.append(f"README.md has {words} words: keep it below {MOST_WORDS}, and move details to the page of their subject")
    kernel = re.search(r"^Kernel gemm_pipelined.*?^}$", read("kernels/steps/gemm_pipelined.cpp"), re.M | re.S)[0]
    if kernel not in readme:
        faults.append("README.md: gemm_pipelined is not the function in kernels/steps/gemm_pipelined.cpp; copy that one")
    speeds = re.findall(r"^\| ([^|]*?) \| ([\d.]+) \| ([\d.]+) \|$", readme, re.M)
    if len(speeds) < 3:
        sys.exit("no speeds were found in README.md: the check itself is broken")
    for operation, mean, worst in speeds:
        if f"| {mean} | {worst} |" not in measured:
            faults.append(f"README.md: kernels/MEASURED.md has no row with {mean} and {worst}, as for {operation}")
    for path in re.findall(r"`((?:kernels|ptxbuilder|runtime|scripts|tests|\.github)/[\w./-]+)`", readme):
        if not os.path.exists(path):
            faults.append(f"README.md: there is no {path}")
    for path in re.findall(r"(?:srcset|src)=\"([^\"]+)\"", readme):
        if not os.path.exists(path):
            faults.append(f"README.md: there is no picture {path}")
    print("\n".join(faults) or f"{words} words, {len(speeds)} speeds")
    drawn = subprocess.run([sys.executable, "scripts/site/pictures.py", "."])
    sys.exit(bool(faults) or drawn.returncode)


main(*sys.argv[1:])
