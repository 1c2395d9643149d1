"""Passes PTX of every origin that can be made here through the parser and the analysis: see corpus.cpp.

  python3 tests/analysis/corpus.py [ours] [nvcc] [triton] [cutlass]    all of them unless some are named

ours: every kernel with its defaults, as golden/ keeps it, gemm in many forms, and in the forms that are compared with CUTLASS's. nvcc:
small kernels of CUDA C++ in tests/. triton: kernels of triton_kernels.py, in an environment of its own in build/triton, from PyPI; no GPU
is needed. cutlass: the kernels of scripts/cutlass-diff, which take nvcc minutes. The PTX is kept under build/corpus. lint must find
nothing in these, except in nvcc's, which has instructions in forms that no kernel needs. Exit code 0: everything was analysed; 1:
something was not; 77: none of the requested PTX could be made.
"""
import argparse
import glob
import hashlib
import os
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{TOP}/scripts/peers")
import cutlass_source as peer  # noqa: E402

WORK = f"{TOP}/build/corpus"


class Missing(Exception):
    """Raised if the tools of an origin are missing on this machine."""


def forms():
    """Yields forms of gemm, each as the fields that change its code."""
    for types in ({}, {"a": "f16", "d": "f16"}, {"a": "tf32", "d": "f32"}, {"a": "e4m3"}, {"a": "e4m3", "promote": "yes", "bn": "128"},
                  {"a": "s8", "d": "s32"}):
        for form in ({}, {"cluster_m": "2"}, {"pingpong": "yes", "bn": "128"}, {"split_last": "2", "bn": "128"},
                     {"split_k": "2", "bn": "128"}, {"bias": "yes", "activation": "gelu", "bn": "128"}, {"bm": "64", "bn": "64", "consumers": "1"},
                     {"beta": "yes", "alpha": "yes", "bn": "128"}):
            yield {**types, **form}


def pairs():
    """Returns the names of CUTLASS's kernels in scripts/cutlass-diff."""
    return subprocess.run([f"{TOP}/scripts/cutlass-diff", "--list"], check=True, capture_output=True, text=True).stdout.splitlines()


def ours(bin):
    folder = f"{WORK}/ours"
    shutil.rmtree(folder, ignore_errors=True)
    wanted = [["gemm", *(word for name, value in form.items() for word in ("--" + name, value))] for form in forms()]
    beside = [["gemm", *peer.options(words)] for words in pairs()]
    wanted += beside
    made, refused = [], []
    for i, words in enumerate(wanted):
        ran = subprocess.run([f"{bin}/ptxb", "emit", *words, "--assembler", "none", "-o", f"{folder}/{i}"], capture_output=True, text=True)
        if ran.returncode == 1 and words not in beside:  # a combination that does not exist
            refused.append((words, ran.stderr))
        elif ran.returncode != 0:
            sys.exit(f"corpus: ptxb emit {' '.join(words)}: exit code {ran.returncode}: {ran.stderr}")
        made += glob.glob(f"{folder}/{i}/*.ptx")
    if len(refused) > len(wanted) // 8:
        sys.exit(f"corpus: ptxb emit {' '.join(refused[0][0])}: {refused[0][1]}")
    return made + sorted(glob.glob(f"{TOP}/tests/golden/*.ptx"))


def nvcc(bin):
    if not peer.nvcc():
        raise Missing("no nvcc")
    os.makedirs(f"{WORK}/nvcc", exist_ok=True)
    made = []
    for source in ("tests/emulator/kernels.cu", "tests/analysis/async.cu"):
        for level in ("-O3", "-O0 -Xcicc -O0", "-O3 -lineinfo"):
            with open(f"{TOP}/{source}", "rb") as file:
                key = hashlib.sha256(file.read() + level.encode()).hexdigest()[:12]
            path = f"{WORK}/nvcc/{os.path.basename(source)}{level.replace(' ', '')}-{key}.ptx"
            if not os.path.exists(path):
                peer.seconds(peer.nvcc(), "-std=c++17", "-arch=sm_90a", *level.split(), "-ptx", f"{TOP}/{source}", "-o", path + ".new")
                os.rename(path + ".new", path)
            made.append(path)
    return made


def triton(bin):
    python = f"{TOP}/build/triton/bin/python"
    if not os.path.exists(python):
        if subprocess.run([sys.executable, "-m", "venv", f"{TOP}/build/triton"], capture_output=True).returncode != 0:
            raise Missing("no venv")
    if subprocess.run([python, "-c", "import triton"], capture_output=True).returncode != 0:
        ran = subprocess.run([python, "-m", "pip", "install", "-q", "triton", "numpy"], capture_output=True, text=True)
        if ran.returncode != 0:
            raise Missing(f"triton is not available: {ran.stderr.strip().splitlines()[-1]}")
    peer.seconds(python, f"{TOP}/tests/analysis/triton_kernels.py", f"{WORK}/triton")
    return sorted(glob.glob(f"{WORK}/triton/*.ptx"))


def cutlass(bin):
    if why := peer.missing():
        raise Missing(why)
    return [peer.cutlass_ptx(words)[0] for words in pairs()]


ORIGINS = {"ours": ours, "nvcc": nvcc, "triton": triton, "cutlass": cutlass}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("origins", nargs="*", metavar="ORIGIN", help=f"some of {', '.join(ORIGINS)}")
    parser.add_argument("--bin", default=f"{TOP}/build/release/bin", help="the folder of ptxb and analysis_corpus")
    parser.add_argument("--unknown", action="store_true", help="list what the analysis could not follow")
    words = parser.parse_args()
    if unknown := set(words.origins) - set(ORIGINS):
        parser.error(f"no origin {' '.join(unknown)}: {', '.join(ORIGINS)}")
    failed, missing = [], []
    for name in words.origins or ORIGINS:
        try:
            print(f"making {name}", flush=True)
            files = ORIGINS[name](words.bin)
        except Missing as why:
            missing.append(f"{name}: {why}")
            continue
        options = ["--unknown"] * words.unknown + ["--right"] * (name != "nvcc")
        failed.append(subprocess.run([f"{words.bin}/analysis_corpus", *options, *files]).returncode)
    if failed:
        for why in missing:
            print(f"not there: {why}")
        return max(failed)
    print(f"SKIPPED: {'; '.join(missing)}")
    return 77


if __name__ == "__main__":
    try:
        sys.exit(main())
    except peer.Failure as failure:
        sys.exit(f"corpus: {failure}")
