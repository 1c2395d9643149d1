"""Runs typical CUDA C++ kernels on the emulator: correct ones run without a fault, and planted faults are named.

  python3 tests/emulator/cuda/cuda_kernels.py [NAME...] [--bin build/release/bin] [--options "-O0 -Xcicc -O0"] [--seeds 10] [--kept]
  python3 tests/emulator/cuda/cuda_kernels.py --emit DIR   writes the correct ones as PTX and launch files
  python3 tests/emulator/cuda/cuda_kernels.py --bless      writes ptx/ again

Before each kernel in the .cu files is a line `//: NAME: threads=..., expect=[...], plants=[...]` with Python expressions: how to launch the
kernel, the expected beginning of `out` (zeros follow), and the kind of fault that must be reported for each plant, with alternatives
separated by |. nvcc compiles the PTX, which is stored in build/corpus. With --kept, or without nvcc, only the kernels run whose PTX is in
ptx/ (`kept=True`). Some kernels are correct only as optimised code (`optimised=True`). For example, accumulators of wgmma must stay in
their registers. Without optimisation, atomicCAS() also becomes a call of a function, and the emulator does not follow the guess of a plain
load into a function. The exit code is 0 if everything is as expected, and 1 otherwise.
"""
import argparse
import concurrent.futures
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = f"{os.path.dirname(os.path.dirname(os.path.dirname(HERE)))}/build/corpus/cuda"


def heat(count, steps):
    s = [0] + [64 * i for i in range(1, count + 1)] + [4096]
    for _ in range(steps):
        s = [0] + [(s[i - 1] + s[i + 1]) // 2 for i in range(1, count + 1)] + [4096]
    return s[1:-1]


def life(size, steps):
    world = [[(y * size + x) * 7 % 5 < 2 for x in range(size)] for y in range(size)]
    for _ in range(steps):
        near = [[sum(world[(y + dy) % size][(x + dx) % size] for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dx or dy) for x in range(size)]
                for y in range(size)]
        world = [[near[y][x] == 3 or near[y][x] == 2 and world[y][x] for x in range(size)] for y in range(size)]
    return [int(world[y][x]) for y in range(size) for x in range(size)]


def convolve():
    w = (1, 4, 6, 4, 1)
    return [sum(w[a] * w[b] * (((y + a) * 20 + x + b) % 11) for a in range(5) for b in range(5)) for y in range(16) for x in range(16)]


def walsh(count):
    s, half = [i % 9 for i in range(count)], 1
    while half < count:
        s = [s[i] + s[i + half] if i // half % 2 == 0 else s[i - half] - s[i] for i in range(count)]
        half *= 2
    return s


def product(size, depth):
    return [sum((y * depth + k) % 7 * ((k * size + x) % 5) for k in range(depth)) for y in range(size) for x in range(size)]


def collatz(v):
    steps = 0
    while v != 1:
        v, steps = (v // 2 if v % 2 == 0 else 3 * v + 1), steps + 1
    return steps


def tripled():
    """Returns for each lane whether the 32-bit sequence 3 v + 1 reaches 3 modulo 7 within 64 steps. Division truncates, as in C++."""
    found = []
    for v in range(32):
        steps = 0
        while steps < 64 and (v % 7 if v >= 0 else -(-v % 7)) != 3:
            v, steps = (3 * v + 1 + 2**31) % 2**32 - 2**31, steps + 1
        found.append(int(steps < 64))
    return found


def bits(i):
    v = i * 2654435761 % 2**32
    first = v | 0x80000000
    reversed = int(f"{v:032b}"[::-1], 2)
    return 32 - (v | 1).bit_length() + 3 * bin(v).count("1") + 5 * (first & -first).bit_length() + reversed // 2**27 + (v >> 24)


def rounded():
    import math
    x = [i * 0.75 - 8 for i in range(32)]
    return [round(v) + 100 * int(v) + 10000 * math.ceil(v) + 1000000 * math.floor(v) for v in x]


class Kernel:
    def __init__(self, file, name, words):
        self.file, self.name, self.plants = file, name, words.pop("plants", [])
        expect = [(v + 2**31) % 2**32 - 2**31 for v in words.pop("expect")]
        self.expect = expect + [0] * (1024 - len(expect))
        self.block, self.grid = words.pop("threads"), words.pop("grid", 1)
        self.cluster, self.dynamic = words.pop("cluster", 1), words.pop("dynamic", 0)
        self.cooperative, self.kept, self.optimised = (words.pop(word, False) for word in ("cooperative", "kept", "optimised"))
        if words:
            sys.exit(f"{file}: {name}: unknown: {', '.join(words)}")

    def entry(self, plant):
        return f"_Z{len(self.name)}{self.name}ILi{plant}EEvPiPKii"

    def launch(self, plant):
        return {"entry": self.entry(plant), "grid": self.grid, "block": self.block, "cluster": self.cluster,
                "dynamic_shared_bytes": self.dynamic, "cooperative": self.cooperative,
                "buffers": [{"name": "out", "dtype": "s32", "shape": [1024]},
                            {"name": "in", "dtype": "s32", "shape": [4096], "init": "iota"}],
                "parameters": [{"pointer": "out"}, {"pointer": "in"}, {"scalar": "s32", "value": 256}],
                "outputs": [{"buffer": "out", "equals": self.expect}]}


def kernels():
    found = []
    for file in sorted(glob.glob(f"{HERE}/*.cu")):
        with open(file) as f:
            for block in re.findall(r"(?:^//: .*\n)+", f.read(), re.M):
                name, words = re.sub(r"\s*\n//: |^//: |\n$", " ", block).strip().split(":", 1)
                found.append(Kernel(os.path.basename(file), name, eval(f"dict({words})")))
    return found


def compiled(file, list, options):
    """Compiles a file's kernels, with all planted faults, to one module with nvcc."""
    wrapper = f'#include "{HERE}/{file}"\n' + "".join(
        f"template __global__ void {k.name}<{p}>(int*, const int*, int);\n" for k in list for p in range(len(k.plants) + 1))
    with open(f"{HERE}/{file}") as f, open(f"{HERE}/kernels.h") as h:
        key = hashlib.sha256((wrapper + options + f.read() + h.read()).encode()).hexdigest()[:12]
    ptx = f"{WORK}/{file[:-3]}{options.replace(' ', '')}-{key}.ptx"
    if not os.path.exists(ptx):
        os.makedirs(WORK, exist_ok=True)
        with open(f"{ptx}.cu", "w") as f:
            f.write(wrapper)
        command = ["nvcc", "-std=c++17", "-arch=sm_90a", "-ptx", "-diag-suppress=20012", *options.split(), f"{ptx}.cu", "-o", f"{ptx}.new"]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"{' '.join(command)}: {ran.stderr}{ran.stdout}")
        os.rename(f"{ptx}.new", ptx)
    with open(ptx) as f:
        return f.read()


def alone(text, entry):
    """Reduces a module to one kernel and the names that the kernel uses, without comments and source lines."""
    items, item, depth = [], [], 0
    for line in text.splitlines():
        code = line.partition("//")[0].rstrip()
        if not code.strip() or re.match(r"\s*\.(?:loc|file)\s", code):
            continue
        item.append(code)
        depth += sum(code.count(c) for c in "({") - sum(code.count(c) for c in ")}")
        if depth == 0 and (code.endswith((";", "}")) or code.startswith((".version", ".target", ".address_size"))):
            items.append("\n".join(item))
            item = []
    named, begin = {}, r"(?:\.\w+\s+)*(?:\.entry\s+|\.func\s*(?:\([^)]*\)\s*)?|\.(?:global|const|shared)\b[^;=\[{]*?)"
    for item in items:
        if name := re.match(begin + r"([\w$]+)\s*[(\[=;]", item):
            named.setdefault(name[1], []).append(item)
    kept, open = set(), [entry]
    while open:
        name = open.pop()
        if name in named and name not in kept:
            kept.add(name)
            open += [word for item in named[name] for word in re.findall(r"[\w$]+", item)]
    wanted = {item for name in kept for item in named[name]}
    return "\n".join(item for item in items if item in wanted or item.startswith((".version", ".target", ".address_size"))) + "\n"


def simulated(bin, text, kernel, plant, seeds):
    with tempfile.TemporaryDirectory() as folder:
        ptx, launch = f"{folder}/{kernel.name}.ptx", f"{folder}/{kernel.name}.json"
        with open(ptx, "w") as f:
            f.write(text)
        with open(launch, "w") as f:
            json.dump(kernel.launch(plant), f)
        command = [f"{bin}/ptxb", "sim", ptx, "--launch", launch, "--seed", "0", "--seeds", str(seeds), "--time-limit", "60", "--json"]
        ran = subprocess.run(command, capture_output=True, text=True)
    try:
        return ran.returncode, json.loads(ran.stdout)
    except ValueError:
        return ran.returncode, {"faults": [{"kind": "none", "report": ran.stderr.strip()}], "comparisons": []}


def judged(bin, text, kernel, plant, seeds):
    """Returns what is wrong with the emulator's report about a kernel, or None if nothing is."""
    code, said = simulated(bin, text, kernel, plant, seeds)
    kinds = sorted({f["kind"] for f in said["faults"]})
    told = "; ".join([f["report"].partition("\n")[0] for f in said["faults"][:1]] + [c["first_wrong"] for c in said["comparisons"]])
    if plant == 0:
        return None if code == 0 else f"FALSE  {kernel.name}: exit code {code} {kinds} {told}"
    wanted = kernel.plants[plant - 1].split("|")
    if code == 1 and any(word in kind for word in wanted for kind in kinds):
        return None
    return f"MISSED {kernel.name}, plant {plant} ({kernel.plants[plant - 1]}): exit code {code} {kinds} {told}"


def kept_texts(all):
    """Returns the stored PTX as a dictionary whose keys are (kernel, plant)."""
    made = {}
    for k in all:
        for plant in range(len(k.plants) + 1 if k.kept else 0):
            with open(f"{HERE}/ptx/{k.name}.{plant}.ptx") as f:
                made[k, plant] = f.read()
    return made


def texts(all, options):
    """Compiles all kernels with nvcc. Returns the PTX as a dictionary whose keys are (kernel, plant)."""
    files = sorted({k.file for k in all})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        modules = dict(zip(files, pool.map(lambda file: compiled(file, [k for k in kernels() if k.file == file], options), files)))
    return {(k, plant): alone(modules[k.file], k.entry(plant)) for k in all for plant in range(len(k.plants) + 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--options", default="-O3")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kept", action="store_true", help="only those of ptx/, unchanged")
    parser.add_argument("--emit")
    parser.add_argument("--bless", action="store_true")
    o = parser.parse_args()
    all = [k for k in kernels() if not o.names or k.name in o.names]
    if o.options != "-O3":
        all = [k for k in all if not k.optimised]
    made = kept_texts(all) if o.kept or not shutil.which("nvcc") else texts(all, o.options)
    if o.emit or o.bless:
        folder = o.emit or f"{HERE}/ptx"
        os.makedirs(folder, exist_ok=True)
        for (k, plant), text in made.items():
            if k.kept if o.bless else plant == 0:
                with open(f"{folder}/{k.name}.{plant}.ptx" if o.bless else f"{folder}/{k.name}.ptx", "w") as f:
                    f.write(text)
        for k in all if o.emit else []:
            with open(f"{folder}/{k.name}.json", "w") as f:
                json.dump(k.launch(0), f)
        return 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = list(pool.map(lambda asked: judged(o.bin, asked[1], *asked[0], o.seeds), made.items()))
    for text in filter(None, wrong):
        print(text)
    false, missed = (sum(w is not None and w.startswith(word) for w in wrong) for word in ("FALSE", "MISSED"))
    right = sum(plant == 0 for _, plant in made)
    print(f"{o.options}: {right} kernels, {false} not right; {len(made) - right} plants, {missed} not named")
    return int(false + missed > 0 or not made)


if __name__ == "__main__":
    sys.exit(main())
