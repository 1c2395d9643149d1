"""Builds the wheel, installs it into a fresh environment, and tests it there: wheel_test.py BUILD TOP

Reports files that do not belong in the wheel, and the size of the wheel.
"""
import email
import glob
import os
import re
import shutil
import subprocess
import sys
import zipfile

import kit

sys.path.append(os.path.join(kit.TOP, "tests/project"))
import shipped

build, top = sys.argv[1:]
LIMIT = 32 << 20  # in bytes
work = f"{build}/wheel_test"


def run(*command, code=0, **words):
    done = subprocess.run(command, capture_output=True, text=True, **words)
    if done.returncode != code:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return (done.stderr if code else done.stdout).strip()


maker = kit.python_with("scikit_build_core", "numpy", "ml_dtypes")
if not maker:
    print("SKIPPED: no Python here has scikit-build-core, numpy and ml_dtypes")
    sys.exit(77)
shutil.rmtree(work, ignore_errors=True)
run(f"{top}/scripts/wheel", build, f"{work}/wheel", env={**os.environ, "PTXBUILDER_WHEEL_PYTHON": maker})
wheel, = glob.glob(f"{work}/wheel/*")
platform = f"manylinux_{shipped.oldest_glibc().replace('.', '_')}_x86_64"
kit.check(re.fullmatch(rf"ptxbuilder-[\d.]+-cp310-abi3-{platform}\.whl", os.path.basename(wheel)), wheel)
kit.check(os.path.getsize(wheel) < LIMIT, f"{os.path.getsize(wheel)} bytes")
version, soname = ".".join(shipped.version_numbers()), f"libptxbuilder.so.{shipped.abi_version()}"
kit.check(os.path.basename(wheel).split("-")[1] == version, f"version.h says {version}, pyproject.toml another")
archive = zipfile.ZipFile(wheel)
names = archive.namelist()
modules = {os.path.relpath(path, f"{top}/kernels/python") for ending in (".py", ".pyi", ".typed")
           for path in glob.glob(f"{top}/kernels/python/ptxbuilder/**/*{ending}", recursive=True)}
others = {name for name in names if ".dist-info/" not in name} - modules
kit.check(modules <= set(names) and others == {
    f"ptxbuilder-{version}.data/scripts/ptxb", f"ptxbuilder-{version}.data/data/lib/ptxbuilder/libcuda.so.1",
    f"ptxbuilder-{version}.data/data/lib/ptxbuilder/libptxb_record.so",
    *(f"ptxbuilder/{x}" for x in ("_ext.abi3.so", soname))}, names)
folder = f"ptxbuilder-{version}.dist-info"
problems = shipped.problems_of_licenses(lambda name: archive.read(f"{folder}/licenses/linked_in/{name}").decode())
kit.check(not problems, problems)
kit.check("LLVM Exceptions" in archive.read(f"{folder}/licenses/LICENSE").decode())
said = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
kit.check(said["License-File"] == "LICENSE" and said["License-Expression"] == "Apache-2.0 WITH LLVM-exception", said)
kit.check(said["Author"] and "Hopper" in said["Keywords"] and "Typing :: Typed" in said.get_all("Classifier"), said)

# Installs the wheel as pip would, into a separate environment that borrows numpy from another one.
run(maker, "-m", "venv", "--without-pip", f"{work}/venv")
python = f"{work}/venv/bin/python"
site = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])")
run(maker, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", wheel)
lent = run(maker, "-c", "import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))")
for path in (path for name in ("numpy", "numpy.libs", "ml_dtypes") for path in glob.glob(f"{lent}/{name}")):
    os.symlink(path, os.path.join(site, os.path.basename(path)))
alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
code = """
import numpy as np, ptxbuilder as pb
a, b = (np.random.default_rng(i).standard_normal((64, 64)).astype(np.float16) for i in range(2))
d = pb.matmul(a, b, device="emulator", out_dtype="f32")
assert abs(d - a.astype("d") @ b.astype("d")).max() < 1e-4
print(pb.__file__, pb.__version__)
"""
said = run(python, "-c", code, env=alone, cwd=work)
kit.check(said.startswith(work), "another ptxbuilder is imported")
kit.check(said.endswith(" " + version), said)
with_path = {**alone, "LD_LIBRARY_PATH": "/nonexistent"}
run(python, "-c", code, env=with_path, cwd="/")

# Checks that the command writes a kernel that the package loads, and that it runs a kernel. Without a ptxas, the command must report this
# or work without it.
bare = {"PATH": f"{work}/venv/bin", "HOME": work}
kit.check(run("ptxb", "--version", env=bare, cwd="/") == f"ptxbuilder {version}", "another version of ptxb")
run("ptxb", "emit", "saxpy", "--emit", work, "--assembler", "none", env=bare, cwd="/")
kit.check("verified: 8192 of 8192" in run("ptxb", "run", "saxpy", "--device", "emulator", "--assembler", "none", env=bare, cwd="/"))
kit.check("no ptxas of version" in run("ptxb", "emit", "saxpy", "--emit", work, "--ptxas", "/nonexistent", env=bare, cwd="/", code=1))
code = """
import numpy as np, ptxbuilder as pb
x, y = np.arange(9, dtype=np.float32), np.ones(9, np.float32)
assert (pb.load("saxpy", updates=["y"], device="emulator")(x=x, y=y, alpha=2.0, count=9, device="emulator") == 2 * x + 1).all()
"""
run(python, "-c", code, env=alone, cwd=work)

# Checks that its libraries have the right exports. They and the command must need only libc, and contain no path of the build.
for path, exports, needed in ((f"{site}/ptxbuilder/{soname}", r"ptxb_\w+", ""), (f"{work}/venv/bin/ptxb", None, ""),
                              (f"{work}/venv/lib/ptxbuilder/libcuda.so.1", r"cu\w+|ptxbuilder_last_kernel", ""),
                              (f"{work}/venv/lib/ptxbuilder/libptxb_record.so", r"cu\w+|dlsym", ""),
                              (f"{site}/ptxbuilder/_ext.abi3.so", r"PyInit__ext", soname)):
    name = os.path.basename(path)
    if exports:
        symbols = [symbol for symbol, _ in shipped.exports_of(path)]
        others = [symbol for symbol in symbols if not re.fullmatch(exports, symbol)]
        kit.check(symbols and not others, name, others)
    libraries = shipped.needed_by(path)
    libc = {x for x in libraries if re.fullmatch(r"lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux-x86-64\.so\.2", x)}
    kit.check(not shipped.newer_than_oldest_glibc(path), name, shipped.newer_than_oldest_glibc(path))
    kit.check(libraries - libc == ({needed} if needed else set()), name, libraries)
    content = open(path, "rb").read()
    kit.check(os.path.realpath(build).encode() + b"/" not in content, f"{name} has a path of the build in it")

# Checks the wheel's tag with PyPI's own tool.
auditor = kit.python_with("auditwheel")
if auditor:
    said = run(auditor, "-m", "auditwheel", "show", wheel)
    fitting = re.search(r'platform tag:\s*"(\w+)"', said)
    kit.check(fitting and fitting[1] == platform, said)
else:
    print("left out: auditwheel, which no Python here has")
print(f"{os.path.basename(wheel)}, {os.path.getsize(wheel) >> 10} KiB")
kit.end()
