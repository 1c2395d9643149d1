// Runs CUTLASS as a contender in gemm_bench, in a separate process. It answers the lines that
// kernels/bench/peers/peer_process.h describes. With --self-test, it runs without the benchmark, on its own
// data.
#include <cuda_bf16.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <sstream>
#include <stdexcept>

#include "cutlass/version.h"
#include "cutlass_kernel.h"

namespace peer {

std::vector<const Kernel*>& kernels() {
  static std::vector<const Kernel*> all;
  return all;
}

namespace {

constexpr int kOneRound = 4;      // lowest number of launches in a first trial
constexpr size_t kFinalists = 6;  // kernels of the first trial that are tried again
constexpr double kGraphMicroseconds =
    2000;  // duration of a graph, which is long compared with the gap between two graphs

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

// The file that the benchmark passes as descriptor 3. It holds A and B of each set, and room for one D. All
// types have two bytes.
class File {
 public:
  File(const Problem& p, size_t sets)
      : a_(2 * p.m * p.lda), b_(2 * p.n * p.ldb), d_(2 * p.m * p.ldd), sets_(sets) {
    bytes_ = sets * (a_ + b_) + d_;
    struct stat state = {};
    if (fstat(3, &state) != 0 || static_cast<size_t>(state.st_size) != bytes_)
      throw std::runtime_error("descriptor 3 does not have the " + std::to_string(bytes_) +
                               " B of the matrices");
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("descriptor 3 cannot be mapped");
    memory_ = static_cast<char*>(memory);
  }
  File(const File&) = delete;
  ~File() { munmap(memory_, bytes_); }

  const char* a(size_t set) const { return memory_ + set * (a_ + b_); }
  const char* b(size_t set) const { return a(set) + a_; }
  char* d() const { return memory_ + sets_ * (a_ + b_); }
  size_t a_bytes() const { return a_; }
  size_t b_bytes() const { return b_; }
  size_t d_bytes() const { return d_; }

 private:
  size_t a_, b_, d_, sets_, bytes_ = 0;
  char* memory_ = nullptr;
};

// Device memory that is freed as a whole.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  ~Memory() {
    for (void* part : parts_) cudaFree(part);
  }
  void* allocate(size_t bytes) {
    void* part = nullptr;
    check(cudaMalloc(&part, bytes), "cudaMalloc");
    parts_.push_back(part);
    return part;
  }
  void* upload(const void* from, size_t bytes) {
    void* part = allocate(bytes);
    check(cudaMemcpy(part, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    return part;
  }

 private:
  std::vector<void*> parts_;
};

class Graph {
 public:
  Graph(cudaStream_t stream, const std::function<std::string()>& record) : stream_(stream) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    const std::string wrong = record();
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (!wrong.empty()) {
      if (graph) cudaGraphDestroy(graph);
      throw std::runtime_error(wrong);
    }
    check(ended, "cudaStreamEndCapture");
    const cudaError_t made = cudaGraphInstantiate(&exec_, graph, 0);
    cudaGraphDestroy(graph);
    check(made, "cudaGraphInstantiate");
    check(cudaGraphUpload(exec_, stream), "cudaGraphUpload");
  }
  Graph(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(exec_); }
  void launch() const { check(cudaGraphLaunch(exec_, stream_), "cudaGraphLaunch"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t exec_ = nullptr;
};

// Finds the best kernel for one problem.
class Chosen {
 public:
  Chosen(const Problem& problem, std::vector<Pointers> sets, const std::string& input,
         const std::string& output)
      : problem_(problem), sets_(std::move(sets)) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (cudaEvent_t* event : {&start_, &end_}) check(cudaEventCreate(event), "cudaEventCreate");
    choose(input, output);
  }
  Chosen(const Chosen&) = delete;
  ~Chosen() {
    graph_.reset();
    launches_.clear();
    cudaEventDestroy(start_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
    cudaFree(workspace_);
  }

  const std::string& configuration() const { return configuration_; }

  void launch(size_t set) {
    const std::string wrong = launches_.at(set)->queue(stream_, false);
    if (!wrong.empty()) throw std::runtime_error(wrong);
    check(cudaStreamSynchronize(stream_), "a launch");
  }

  // Returns the microseconds per launch.
  double burst(size_t launches) {
    if (!graph_) {
      const double rounds = std::round(kGraphMicroseconds / std::max(estimate_, 1.0) / sets_.size());
      per_graph_ = sets_.size() * static_cast<size_t>(std::max(1.0, rounds));
      graph_ = record(launches_, early_, per_graph_);
    }
    const size_t graphs = (std::max<size_t>(launches, 1) + per_graph_ - 1) / per_graph_;
    return time(*graph_, graphs) / static_cast<double>(graphs * per_graph_);
  }

 private:
  using Launches = std::vector<std::unique_ptr<Launch>>;

  // A candidate: its index among the kernels, its order, and its approximate time.
  struct Trial {
    const Kernel* kernel;
    Order order;
    bool early = false;
    double microseconds = 0;
  };

  Launches prepare(const Trial& trial) {
    const size_t bytes = trial.kernel->workspace_bytes(problem_, trial.order);
    if (bytes > workspace_bytes_) {
      check(cudaFree(workspace_), "cudaFree");
      workspace_ = nullptr, workspace_bytes_ = 0;
      check(cudaMalloc(&workspace_, bytes), "cudaMalloc");
      workspace_bytes_ = bytes;
    }
    Launches launches;
    for (const Pointers& set : sets_) {
      launches.push_back(trial.kernel->prepare(problem_, trial.order, set, workspace_, stream_));
      if (!launches.back()) return {};
    }
    return launches;
  }

  std::unique_ptr<Graph> record(const Launches& launches, bool early, size_t count) {
    return std::make_unique<Graph>(stream_, [&]() -> std::string {
      for (size_t i = 0; i < count; ++i)
        if (std::string wrong = launches[i % launches.size()]->queue(stream_, early); !wrong.empty())
          return wrong;
      return "";
    });
  }

  // Returns the microseconds of `runs` runs of the graph.
  double time(const Graph& graph, size_t runs) {
    check(cudaEventRecord(start_, stream_), "cudaEventRecord");
    for (size_t i = 0; i < runs; ++i) graph.launch();
    check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    check(cudaStreamSynchronize(stream_), "a burst");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start_, end_), "cudaEventElapsedTime");
    return 1000.0 * milliseconds;
  }

  // Runs every kernel once in every order, in a short burst.
  std::vector<Trial> first_trials(const std::string& input, const std::string& output) {
    std::vector<Trial> trials;
    for (const Kernel* kernel : kernels()) {
      if (kernel->input() != input || kernel->output() != output) continue;
      for (Order::Raster raster : {Order::heuristic, Order::along_m, Order::along_n})
        for (int swizzle : {1, 2, 4, 8}) {
          Trial trial{kernel, {raster, swizzle}};
          const Launches launches = prepare(trial);
          if (launches.empty()) continue;
          const size_t count = std::max<size_t>(kOneRound, std::min<size_t>(sets_.size(), 32));
          const auto graph = record(launches, false, count);
          time(*graph, 1);
          trial.microseconds = time(*graph, 1) / static_cast<double>(count);
          trials.push_back(trial);
        }
    }
    return trials;
  }

  static bool is_faster(const Trial& a, const Trial& b) { return a.microseconds < b.microseconds; }

  // Runs the fastest candidates once more, with and without early launches, in graphs that are as long as
  // those of burst().
  std::vector<Trial> finals(std::vector<Trial> trials) {
    std::sort(trials.begin(), trials.end(), is_faster);
    trials.resize(std::min(trials.size(), kFinalists));
    std::vector<Trial> finalists;
    for (Trial trial : trials) {
      const auto wanted = static_cast<size_t>(kGraphMicroseconds / std::max(trial.microseconds, 1.0));
      for (bool early : {false, true}) {
        if (early && trial.kernel->streams_k()) continue;
        trial.early = early;
        const Launches launches = prepare(trial);
        const size_t count = std::max(wanted, sets_.size());
        const auto graph = record(launches, early, count);
        std::vector<double> times;
        for (int i = 0; i < 4; ++i) times.push_back(time(*graph, 1) / static_cast<double>(count));
        std::sort(times.begin() + 1, times.end());  // the first time is left out, because it warms up
        trial.microseconds = times[2];
        finalists.push_back(trial);
      }
    }
    return finalists;
  }

  void choose(const std::string& input, const std::string& output) {
    const std::vector<Trial> first = first_trials(input, output);
    if (first.empty()) throw std::runtime_error("none of its kernels supports the problem");
    const std::vector<Trial> last = finals(first);
    const Trial best = *std::min_element(last.begin(), last.end(), is_faster);
    launches_ = prepare(best);
    early_ = best.early;
    estimate_ = best.microseconds;
    const char* rasters[] = {"heuristic", "along m", "along n"};
    std::ostringstream text;
    text << best.kernel->name() << ", raster " << rasters[best.order.raster] << ", swizzle "
         << best.order.most_swizzle << (early_ ? ", PDL" : "") << ", best of " << first.size();
    configuration_ = text.str();
  }

  Problem problem_;
  std::vector<Pointers> sets_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, end_ = nullptr;
  void* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  Launches launches_;
  bool early_ = false;
  double estimate_ = 0;
  std::string configuration_;
  std::unique_ptr<Graph> graph_;
  size_t per_graph_ = 0;
};

class Session {
 public:
  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "problem") return "ready " + problem(words);
    size_t number = 0;
    words >> number;
    if (!chosen_) throw std::runtime_error("there is no problem");
    if (verb == "launch") {
      check(cudaMemset(sets_.at(number).d, 0xff, file_->d_bytes()),
            "cudaMemset");  // removes the results of the trials
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      chosen_->launch(number);
      check(cudaMemcpy(file_->d(), sets_.at(number).d, file_->d_bytes(), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
      return "done";
    }
    if (verb == "burst") return "time " + std::to_string(chosen_->burst(number));
    throw std::runtime_error("'" + verb + "' is not known here");
  }

 private:
  std::string problem(std::istringstream& words) {
    chosen_.reset();
    memory_.reset();
    file_.reset();
    Problem p;
    std::string a, b, d, layout;
    size_t count = 0;
    words >> p.m >> p.n >> p.k >> a >> b >> d >> layout >> p.lda >> p.ldb >> p.ldd >> count;
    if (!words) throw std::runtime_error("these are not words of a problem");
    if (layout != "TN" || a != b || (a != "bf16" && a != "f16") || d != "bf16")
      throw std::runtime_error("its kernels support only bf16 or f16 in layout TN, with bf16 results");
    file_ = std::make_unique<File>(p, count);
    memory_ = std::make_unique<Memory>();
    sets_.clear();
    for (size_t i = 0; i < count; ++i)
      sets_.push_back({memory_->upload(file_->a(i), file_->a_bytes()),
                       memory_->upload(file_->b(i), file_->b_bytes()), memory_->allocate(file_->d_bytes())});
    chosen_ = std::make_unique<Chosen>(p, sets_, a, d);
    return chosen_->configuration();
  }

  std::unique_ptr<File> file_;
  std::unique_ptr<Memory> memory_;
  std::vector<Pointers> sets_;
  std::unique_ptr<Chosen> chosen_;
};

int serve() {
  std::cout << "peer 1 CUTLASS " << CUTLASS_MAJOR << "." << CUTLASS_MINOR << "." << CUTLASS_PATCH
            << std::endl;
  Session session;
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer;
    try {
      answer = session.answer(line);
    } catch (const std::exception& e) {
      answer = std::string("refused ") + e.what();
    }
    std::cout << answer << std::endl;
  }
  return 0;
}

// Runs M x N x K on random data, in two sets, and compares some elements with float64.
int self_test(const Problem& p) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  auto matrix = [&](size_t count) {
    std::vector<__nv_bfloat16> values(count);
    for (auto& v : values) v = __float2bfloat16(normal(random));
    return values;
  };
  const auto a = matrix(p.m * p.lda), b = matrix(p.n * p.ldb);
  Memory memory;
  auto upload = [&](const auto& values) { return memory.upload(values.data(), values.size() * 2); };
  const std::vector<__nv_bfloat16> nan(p.m * p.ldd, __float2bfloat16(NAN));
  std::vector<Pointers> sets;
  for (int i = 0; i < 2; ++i) sets.push_back({upload(a), upload(b), upload(nan)});
  Chosen chosen(p, sets, "bf16", "bf16");
  check(cudaMemcpy(sets[1].d, nan.data(), nan.size() * 2, cudaMemcpyHostToDevice), "cudaMemcpy");
  chosen.launch(1);
  std::vector<__nv_bfloat16> d(nan.size());
  check(cudaMemcpy(d.data(), sets[1].d, d.size() * 2, cudaMemcpyDeviceToHost), "cudaMemcpy");
  int wrong = 0;
  for (int i = 0; i < 100; ++i) {
    const int m = i == 0 ? p.m - 1 : random() % p.m, n = i == 0 ? p.n - 1 : random() % p.n;
    double sum = 0;
    for (int k = 0; k < p.k; ++k)
      sum += double(__bfloat162float(a[m * p.lda + k])) * double(__bfloat162float(b[n * p.ldb + k]));
    const double got = __bfloat162float(d[m * p.ldd + n]);
    if (!(std::abs(got - sum) <= 0.01 * std::abs(sum) + 0.01)) {
      if (wrong++ == 0) std::printf("WRONG: D[%d, %d] is %g and not %g\n", m, n, got, sum);
    }
  }
  const auto launches = static_cast<size_t>(20000 / std::max(chosen.burst(1), 1.0)) + 1;
  const double us = chosen.burst(launches);
  std::printf("%d x %d x %d: %.2f us, %.1f TFLOP/s, %s, %d of 100 elements wrong\n", p.m, p.n, p.k, us,
              2e-6 * double(p.m) * p.n * p.k / us, chosen.configuration().c_str(), wrong);
  return wrong == 0 ? 0 : 3;
}

int self_tests() {
  int worst = 0;
  for (auto [m, n, k] : {std::array{4096, 4096, 4096}, std::array{1024, 768, 512},
                         std::array{16, 10240, 8192}, std::array{1000, 1001, 1003}}) {
    auto padded = [](int columns) { return (columns + 7) / 8 * 8; };
    worst = std::max(worst, self_test({m, n, k, padded(k), padded(k), padded(n)}));
  }
  return worst;
}

}  // namespace
}  // namespace peer

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (argc > 2 || (argc == 2 && word != "--self-test")) {
    std::fprintf(stderr, "cutlass_peer: without words it answers gemm_bench; --self-test runs it alone\n");
    return 2;
  }
  try {
    return word == "--self-test" ? peer::self_tests() : peer::serve();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cutlass_peer: %s\n", e.what());
    return 1;
  }
}
