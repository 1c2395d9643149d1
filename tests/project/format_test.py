"""Checks that clang-format has formatted every C++ and CUDA file of the project, and names the first differing line of each other file.

  format_test.py SOURCE KNOWN   SOURCE is the top of the project; KNOWN stores checksums of correct files, which are not checked again
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys

VERSION = 14  # the version of Debian 12; others break lines differently
FOLDERS = ("ptxbuilder", "runtime", "kernels", "tests", "scripts")
SUFFIXES = (".h", ".cpp", ".inl", ".cu")


def clang_format():
    seen = []
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if path := shutil.which(name):
            version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout.strip()
            if f"version {VERSION}." in version:
                return path, version
            seen.append(version)
    print(f"SKIPPED: no clang-format {VERSION} here, which scripts/setup installs" + "".join(f"; {v}" for v in seen))
    sys.exit(77)  # ctest marks a test with this exit code as skipped


def sums_of(files, version):
    """Returns a checksum of each file together with the style and the program's version."""
    with open(".clang-format", "rb") as style:
        rule = version.encode() + style.read()
    sums = {}
    for path in files:
        with open(path, "rb") as file:
            sums[path] = hashlib.sha256(rule + path.encode() + file.read()).hexdigest()
    return sums


def main(source, known):
    known = os.path.abspath(known)
    os.chdir(source)
    files = sorted(os.path.join(folder, name) for top in FOLDERS for folder, _, names in os.walk(top)
                   for name in names if name.endswith(SUFFIXES))
    if len(files) < 400:
        sys.exit(f"only {len(files)} files were found: the check itself is broken")
    (program, version), cores = clang_format(), len(os.sched_getaffinity(0))
    sums, right = sums_of(files, version), set()
    if os.path.exists(known):
        with open(known) as file:
            right = set(file.read().split())
    asked = [path for path in files if sums[path] not in right]
    running = [subprocess.Popen([program, "--dry-run", *asked[i::cores]], stderr=subprocess.PIPE, text=True)
               for i in range(min(cores, len(asked)))]
    first = {}
    for process in running:
        said = process.communicate()[1]
        if process.returncode:
            sys.exit(said)
        for file, line in re.findall(r"^(\S+?):(\d+):\d+: warning: code should be clang-formatted", said, re.M):
            first.setdefault(file, line)
    for file, line in sorted(first.items()):
        print(f"{file}:{line}: not as {os.path.basename(program)} leaves it; clang-format -i {file} mends it")
    with open(known, "w") as file:
        file.write("\n".join(sums[path] for path in files if path not in first) + "\n")
    print(f"{len(files)} files, {len(first)} of them not formatted; {len(asked)} were not known from the last run")
    sys.exit(bool(first))


main(*sys.argv[1:])
