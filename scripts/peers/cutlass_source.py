"""Compiles CUTLASS's kernels and ours with the same tile, cluster, stages and schedule to PTX, with nvcc and with ptxb. The words of
build_cutlass identify a kernel: input, output, schedule, tile m n k, cluster m n, and stages (0 or none for as many as fit). This file is
not named cutlass, because scripts in this folder import the package of that name from PyPI.
"""
import datetime
import hashlib
import json
import os
import shutil
import subprocess
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = "scripts/peers/build_cutlass"


class Failure(Exception):
    """Raised if a command has failed; holds its output."""


def seconds(*command, **options):
    """Runs a command in the top folder, and returns the seconds that it took."""
    start = time.monotonic()
    ran = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if ran.returncode != 0:
        raise Failure(f"{' '.join(command)}: exit code {ran.returncode}\n{ran.stdout}")
    return time.monotonic() - start


def cpu_seconds(run):
    """Returns the processor time and the result of `run()`. Other work on the machine hardly affects the processor time."""
    def spent():
        times = os.times()
        return times.children_user + times.children_system

    before = spent()
    result = run()
    return spent() - before, result


def fields(words):
    """Returns the fields of our gemm that give the same kernel."""
    a, d, schedule, m, n, k, cluster_m, cluster_n, stages = (words.split() + ["0"])[:9]
    consumers = 2 if schedule.startswith("Pingpong") else 1 if schedule == "WarpSpecialized" else min(2, int(m) // 64)
    values = {"a": a, "d": d, "bm": m, "bn": n, "bk": k, "cluster_m": cluster_m, "cluster_n": cluster_n, "stages": stages,
              "consumers": str(consumers)}
    if schedule.startswith("Pingpong"):
        values["pingpong"] = "yes"
    if schedule == "StreamK":
        values["split_last"] = "2"  # the nearest form divides only the last wave
    if a in ("e4m3", "e5m2") and not schedule.endswith("Fast"):
        values["promote"] = "yes"
    return values


def options(words):
    return [word for name, value in fields(words).items() for word in ("--" + name, value)]


def ours(build, words, folder, *more):
    """Emits our kernel into a folder, and returns the seconds that this took."""
    return seconds(f"{build}/bin/ptxb", "emit", "gemm", "-o", folder, *options(words), *more)


def nvcc():
    """Returns nvcc's path, or None."""
    known = os.environ.get("NVCC") or shutil.which("nvcc") or os.environ.get("CUDA_PATH", "/usr/local/cuda") + "/bin/nvcc"
    return known if os.access(known, os.X_OK) else None


def missing():
    """Returns why CUTLASS's kernels cannot be built here, or None if they can."""
    if not nvcc():
        return "no nvcc: set NVCC to that of a CUDA 12.3 toolkit or newer"
    ran = subprocess.run([BUILD, "--headers"], cwd=TOP, capture_output=True, text=True)
    return None if ran.returncode == 0 else ran.stderr.strip()


def cutlass_ptx(words, fresh=False):
    """Returns three values: the path of CUTLASS's PTX for a kernel, the processor seconds that nvcc took, and the time when it ran. The PTX
    is stored in build/peers under a hash of its inputs."""
    headers = subprocess.run([BUILD, "--headers"], cwd=TOP, check=True, capture_output=True, text=True).stdout.strip()
    made_of = hashlib.sha256(f"2 {words}".encode())  # starts with the version of the stored files' format
    for path in (BUILD, "scripts/peers/cutlass_kernel.cu", "scripts/peers/cutlass_kernel.h", f"{headers}/cutlass/version.h"):
        with open(os.path.join(TOP, path), "rb") as file:
            made_of.update(file.read())
    made_of.update(subprocess.run([nvcc(), "--version"], check=True, capture_output=True).stdout)
    folder = os.path.join(TOP, "build/peers/ptx")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{words.replace(' ', '_')}-{made_of.hexdigest()[:12]}")
    if fresh or not os.path.exists(path + ".json"):
        took, _ = cpu_seconds(lambda: seconds(BUILD, "--ptx", words, path + ".ptx"))
        with open(path + ".json", "w") as file:
            json.dump({"seconds": took, "date": datetime.date.today().isoformat()}, file)
    with open(path + ".json") as file:
        made = json.load(file)
    return path + ".ptx", made["seconds"], made["date"]
