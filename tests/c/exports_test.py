"""Checks that libptxbuilder.so exports only ptxb_*, that the library and its symbols carry the ABI's version, and that ptxb.h compiles as
C11 and C++ without a warning. The library and ptxb must need no newer glibc than allowed: exports_test.py SO PTXB HEADER CC CXX."""

import os
import re
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../project"))
import shipped

library, ptxb, header, cc, cxx = sys.argv[1:]
exports = shipped.exports_of(library)
names = {name for name, _ in exports}
declared = set(re.findall(r"PTXB_API [^;(]*?(ptxb_\w+)\(", open(header).read()))
problems = [f"exports {name}, which ptxb.h does not declare" for name in sorted(names - declared)]
problems += [f"does not export {name}" for name in sorted(declared - names)]
if len(declared) < 10:
    problems.append(f"ptxb.h declares {len(declared)} functions")
soname, version = f"libptxbuilder.so.{shipped.abi_version()}", f"PTXBUILDER_{shipped.abi_version()}"
if shipped.soname_of(library) != soname:
    problems.append(f"is named {shipped.soname_of(library)}, and version.h makes it {soname}")
problems += [f"{name} has the version {given}, and version.h makes it {version}" for name, given in sorted(exports, key=str)
             if given != version]
problems += [f"{os.path.basename(path)} needs {symbol} of {needed}, newer than glibc {shipped.oldest_glibc()}"
             for path in (library, ptxb) for symbol, needed in shipped.newer_than_oldest_glibc(path)]
for words in ([cc, "-std=c11", "-x", "c"], [cxx, "-std=c++11", "-x", "c++"]):
    done = subprocess.run(
        words + ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-include", header, "/dev/null"],
        capture_output=True, text=True)
    if done.returncode:
        problems.append(f"{' '.join(words)}: {done.stderr}")
print("\n".join(problems) or f"{len(names)} functions of {version} in {soname}")
sys.exit(bool(problems))
