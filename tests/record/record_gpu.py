"""Tests recording on a GPU: programs of several kinds run under `ptxb record`, and `ptxb sim` runs the recordings.

  python3 tests/record/record_gpu.py PTXB

The programs launch a kernel that the driver links from PTX, a product with tensor maps, CUDA runtime code compiled by nvcc, a graph, a
Triton kernel, both alone and in a PyTorch graph, and a PyTorch kernel. A program is skipped if its tools are missing. The exit code is 0 if
all recordings replay, 1 if some do not, and 77 if there is no GPU.
"""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

RUNTIME = """
#include <cstdio>
__device__ float scale = 3;
struct Pair { const float* x; float* y; };
__global__ void scaled(Pair p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p.y[i] = scale * p.x[i];
}
int main() {
  const int n = 1000;
  float host[n], *x, *y;
  for (int i = 0; i < n; ++i) host[i] = i;
  cudaMalloc(&x, sizeof host), cudaMalloc(&y, sizeof host);
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  cudaMemset(y, 0, sizeof host);
  scaled<<<8, 128>>>(Pair{x, y}, n);
  cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
  std::printf("%g %s\\n", host[999], cudaGetErrorString(cudaGetLastError()));
  return host[999] == 2997 ? 0 : 1;
}
"""
GRAPH = """
#include <cstdio>
__global__ void scale(float* p, int n, float plus) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i] * 3 + plus;
}
int main() {
  const int n = 1000;
  float host[n], *p;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaMalloc(&p, sizeof host), cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  cudaMemsetAsync(p, 0, sizeof host, stream);
  scale<<<8, 128, 0, stream>>>(p, n, 5);
  scale<<<8, 128, 0, stream>>>(p, n, 7);
  cudaStreamEndCapture(stream, &graph), cudaGraphInstantiate(&exec, graph, 0), cudaGraphDestroy(graph);
  cudaGraphLaunch(exec, stream), cudaStreamSynchronize(stream);
  cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost);
  std::printf("%g %s\\n", host[999], cudaGetErrorString(cudaGetLastError()));
  return host[999] == 22 ? 0 : 1;
}
"""
TRITON = """
import torch, triton, triton.language as tl
@triton.jit
def add_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
x = torch.arange(1000, device="cuda", dtype=torch.float32)
y = torch.zeros_like(x)
add_kernel[(8,)](x, y, 1000, BLOCK=128)
assert torch.equal(y, x + 1)
"""
TRITON_GRAPH = TRITON + """
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y.zero_()
    add_kernel[(8,)](x, y, 1000, BLOCK=128)
y.zero_()
graph.replay()
assert torch.equal(y, x + 1)
"""
TORCH = """
import torch
x = torch.arange(1000, device="cuda", dtype=torch.float32)
torch.cuda.synchronize()
print((x * 2).sum().item())
"""


def run(words, **options):
    ran = subprocess.run(words, capture_output=True, text=True, timeout=200, **options)
    return ran.returncode, ran.stdout + ran.stderr


class Trial:
    def __init__(self, ptxb, work):
        self.ptxb, self.work, self.failed = ptxb, work, 0

    def say(self, name, is_right, words):
        self.failed += not is_right
        print(f"{'right' if is_right else 'WRONG'}: {name}: {words}", flush=True)

    def record(self, name, program, kernel, tolerance=None, most=1, **options):
        """Records the first launches of a kernel, and replays the last. Results may deviate by `tolerance` times the expected value."""
        folder = f"{self.work}/{name}"
        words = [self.ptxb, "record", "-o", folder, "--kernel", kernel, "--max", str(most), "--mb", "64", "--", *program]
        code, words = run(words, **options)
        made = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        if code or not made:
            return self.say(name, False, f"exit code {code}: {words[-800:]}")
        launch = f"{folder}/{made[-1]}/launch.json"
        with open(launch) as file:
            text = file.read()
        comments = "".join(line for line in text.splitlines(True) if line.startswith("//"))
        launch_of = json.loads(text[len(comments):])
        for output in launch_of["outputs"] if tolerance else []:
            output.update(tolerance=tolerance, relative=tolerance)
        with open(launch, "w") as file:
            json.dump(launch_of, file)
        code, replayed = run([self.ptxb, "sim", f"{folder}/{made[-1]}/kernel.ptx", "--launch", launch, "--time-limit", "150"])
        is_right = code == 0 and "elements are right" in replayed
        self.say(name, is_right, re.sub(r"\s+", " ", replayed if is_right else words + replayed)[-800:])


def main():
    if not os.path.exists("/dev/nvidiactl"):
        print("SKIPPED: there is no GPU")
        return 77
    ptxb = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        trial = Trial(ptxb, work)
        common = ["--device", "cuda", "--assembler", "driver", "--no-cache"]
        trial.record("linked", [ptxb, "run", "saxpy", "--n", "1000", *common], "saxpy")
        trial.record("tensor_maps", [ptxb, "run", "gemm_tma_mma_sync", "--m", "128", "--n", "128", "--k", "64", *common], "gemm", 0.02)
        if nvcc := shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc"):
            for name, text, kernel, options in (("runtime", RUNTIME, "scaled", []),
                                                ("shared_runtime", RUNTIME, "scaled", ["-cudart", "shared"]),
                                                ("graph", GRAPH, "scale", [])):
                with open(f"{work}/{name}.cu", "w") as file:
                    file.write(text)
                code, words = run([nvcc, "-gencode", "arch=compute_90,code=[compute_90,sm_90]", *options, "-o", f"{work}/{name}.out",
                                   f"{work}/{name}.cu"])
                if code:
                    trial.say(name, False, words)
                else:
                    trial.record(name, [f"{work}/{name}.out"], kernel, most=2)
        for name, needs, text, kernel in (("triton", ("torch", "triton"), TRITON, "add_kernel"),
                                          ("triton_graph", ("torch", "triton"), TRITON_GRAPH, "add_kernel"),
                                          ("torch", ("torch",), TORCH, "")):
            if any(importlib.util.find_spec(module) is None for module in needs):
                print(f"left out: {name}: this Python has not all of {', '.join(needs)}")
                continue
            with open(f"{work}/{name}_program.py", "w") as file:
                file.write(text)
            environment = {**os.environ, "TRITON_CACHE_DIR": f"{work}/cache"}
            if name != "torch":
                trial.record(name, [sys.executable, f"{work}/{name}_program.py"], kernel, most=2, env=environment)
                continue
            # PyTorch ships its own kernels as cubins for most GPUs. The recorder must then tell the user what to do.
            code, words = run([ptxb, "record", "-o", f"{work}/torch", "--", sys.executable, f"{work}/{name}_program.py"], env=environment)
            is_told = "and no PTX" in words or "launches are in" in words
            trial.say(name, code == 0 and "999000" in words and is_told, re.sub(r"\s+", " ", words)[-800:])
    return 1 if trial.failed else 0


if __name__ == "__main__":
    sys.exit(main())
