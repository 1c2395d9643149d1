"""Every C++ and CUDA file of the project is as clang-format leaves it; names the first line of each file that is not.

  format_test.py SOURCE   SOURCE is the top of the project
"""
import os
import re
import shutil
import subprocess
import sys

VERSION = 14  # Debian 12's; others break lines elsewhere
FOLDERS = ("ptxbuilder", "runtime", "kernels", "tests", "scripts")
SUFFIXES = (".h", ".cpp", ".inl", ".cu")


def clang_format():
    seen = []
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if path := shutil.which(name):
            version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout.strip()
            if f"version {VERSION}." in version:
                return path
            seen.append(version)
    print(f"SKIPPED: no clang-format {VERSION} here, which scripts/setup installs" + "".join(f"; {v}" for v in seen))
    sys.exit(77)  # what ctest takes for a skipped test


def main(source):
    os.chdir(source)
    files = sorted(os.path.join(folder, name) for top in FOLDERS for folder, _, names in os.walk(top)
                   for name in names if name.endswith(SUFFIXES))
    if len(files) < 400:
        sys.exit(f"only {len(files)} files were found: the check itself is broken")
    program, cores = clang_format(), len(os.sched_getaffinity(0))
    running = [subprocess.Popen([program, "--dry-run", *files[i::cores]], stderr=subprocess.PIPE, text=True)
               for i in range(cores)]
    first = {}
    for process in running:
        said = process.communicate()[1]
        if process.returncode:
            sys.exit(said)
        for file, line in re.findall(r"^(\S+?):(\d+):\d+: warning: code should be clang-formatted", said, re.M):
            first.setdefault(file, line)
    for file, line in sorted(first.items()):
        print(f"{file}:{line}: not as {os.path.basename(program)} leaves it; clang-format -i {file} mends it")
    print(f"{len(files)} files, {len(first)} of them not formatted")
    sys.exit(bool(first))


main(sys.argv[1])
