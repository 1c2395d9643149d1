"""libptxbuilder.so exports ptxb_* alone, and ptxb.h is C11 and C++ without a warning: exports_test.py SO HEADER CC CXX."""

import re
import subprocess
import sys

library, header, cc, cxx = sys.argv[1:]
symbols = subprocess.run(["nm", "-D", "--defined-only", "--extern-only", library], check=True, capture_output=True, text=True).stdout
names = {line.split()[-1].split("@")[0] for line in symbols.splitlines()}
declared = set(re.findall(r"PTXB_API [^;(]*?(ptxb_\w+)\(", open(header).read()))
problems = [f"exports {name}, which ptxb.h does not declare" for name in sorted(names - declared)]
problems += [f"does not export {name}" for name in sorted(declared - names)]
if len(declared) < 10:
    problems.append(f"ptxb.h declares {len(declared)} functions")
for words in ([cc, "-std=c11", "-x", "c"], [cxx, "-std=c++11", "-x", "c++"]):
    done = subprocess.run(
        words + ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-include", header, "/dev/null"],
        capture_output=True, text=True)
    if done.returncode:
        problems.append(f"{' '.join(words)}: {done.stderr}")
print("\n".join(problems) or f"{len(names)} functions")
sys.exit(bool(problems))
