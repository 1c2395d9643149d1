// Tests the benchmark's method with a mock driver, a mock cuBLASLt and a mock NVML, whose device memory is
// host memory: which contenders are timed, checked, compared and left out.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "kernels/bench/peers/cublaslt.h"
#include "kernels/measure/burst.h"
#include "kernels/measure/check.h"
#include "kernels/measure/interleave.h"
#include "tests/bench/host_attention.h"
#include "tests/bench/mock_gemm_gpu.h"
#include "tests/kit/error_kit.h"
#include "tests/kit/mock_libcuda.h"

namespace ptxbuilder::test::bench_method_test {
using namespace bench;

namespace {

constexpr const char* kMock = PTXBUILDER_MOCK_GEMM_GPU;

template <class State>
State& state(const char* symbol) {
  static void* library = dlopen(kMock, RTLD_NOW);
  REQUIRE(library);
  return *reinterpret_cast<State* (*)()>(dlsym(library, symbol))();
}

struct Fixture {
  MockGemmGpu& mock = state<MockGemmGpu>("mock_gemm_gpu");
  MockDriver& driver = state<MockDriver>("mock_driver");
  Fixture() {
    mock = {};
    driver = {};
  }
};

GemmProblem problem(const char* layout = "TN", DType input = DType::bf16, DType output = DType::bf16) {
  GemmProblem p;
  p.m = 24, p.n = 20, p.k = 40;
  p.a = p.b = input;
  p.d = output;
  p.set_layout(layout);
  return p;
}

double at(runtime::View memory, DType type, int64_t i) {
  uint32_t bits = 0;
  const auto bytes = static_cast<size_t>(size_of(type));
  std::memcpy(&bits, reinterpret_cast<const std::byte*>(memory.address) + static_cast<size_t>(i) * bytes,
              bytes);
  return decode(type, bits);
}

// A contender that computes the product of a GemmProblem on the host, and adds an error.
class Host final : public ContenderOf<GemmProblem> {
 public:
  explicit Host(std::string name, double error = 0) : name_(std::move(name)), error_(error) {}
  std::string name() const override { return name_; }
  std::string refuses(const GemmProblem& p) const override { return p.k > 1000 ? "it takes K to 1000" : ""; }
  void prepare(const GemmProblem& p, std::span<const GemmProblem::Set> sets) override {
    if (p.m > 1000) throw Error("it has no memory for M over 1000");
    problem_ = p;
    sets_.assign(sets.begin(), sets.end());
  }
  void launch(size_t set) override {
    launched.insert(set);
    const GemmProblem& p = problem_;
    const GemmProblem::Set& s = sets_.at(set);
    for (int64_t m = 0; m < p.m; ++m)
      for (int64_t n = 0; n < p.n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < p.k; ++k)
          sum += at(s.a, p.a, p.a_k_major ? m * p.lda() + k : k * p.lda() + m) *
                 at(s.b, p.b, p.b_k_major ? n * p.ldb() + k : k * p.ldb() + n);
        if (m == wrong_row && n == 3) sum += error_;
        const uint64_t bits = encode(p.d, sum);
        const auto bytes = static_cast<size_t>(size_of(p.d));
        std::memcpy(reinterpret_cast<std::byte*>(s.d.address) + static_cast<size_t>(m * p.ldd() + n) * bytes,
                    &bits, bytes);
      }
  }
  std::string configuration() const override { return "the host"; }

  std::set<size_t> launched;
  int64_t wrong_row = 1;

 private:
  std::string name_;
  double error_;
  GemmProblem problem_;
  std::vector<GemmProblem::Set> sets_;
};

MethodOptions quick() {
  return {.rounds = 6,
          .burst_milliseconds = 0.1,
          .least_launches = 1,
          .warm_up_seconds = 0,
          .rest_milliseconds = 0,
          .seed = 5};
}

Case given(const GemmProblem& p) { return {"given", p}; }

}  // namespace

TEST_CASE("each round has every contender once, in an order that changes") {
  std::vector<size_t> calls;
  auto measure = [&](size_t i) {
    calls.push_back(i);
    Sample s;
    s.microseconds = static_cast<double>(calls.size());
    return s;
  };
  const auto samples = interleave(4, 20, 9, measure, [] { return false; });
  REQUIRE(samples.size() == 4);
  std::set<std::vector<size_t>> orders;
  for (size_t round = 0; round < 20; ++round) {
    const std::vector<size_t> order(calls.begin() + static_cast<std::ptrdiff_t>(4 * round),
                                    calls.begin() + static_cast<std::ptrdiff_t>(4 * round + 4));
    CHECK(std::set<size_t>(order.begin(), order.end()).size() == 4);
    orders.insert(order);
    for (size_t place = 0; place < 4; ++place)
      CHECK(samples[order[place]][round].microseconds == static_cast<double>(4 * round + place + 1));
  }
  CHECK(orders.size() > 5);
  calls.clear();
  CHECK(interleave(2, 20, 9, measure, [] { return true; })[1].size() ==
        5);  // the deadline passes after five whole rounds
}

TEST_CASE("buffer sets have three times the size of the L2") {
  const GemmProblem p = problem();
  CHECK(set_count(p, false, 0) == 2);
  const auto bytes = static_cast<size_t>(bench::bytes(p));
  CHECK(set_count(p, false, 10 * bytes) == 30);
  CHECK(set_count(p, false, 10 * bytes + 1) == 31);
  CHECK(set_count(p, false, size_t{1} << 40) == 256);
  CHECK(set_count(p, true, size_t{1} << 40) == 1);
}

TEST_CASE("numbers are rounded to their types") {
  for (DType type : {DType::f16, DType::bf16, DType::e4m3, DType::e5m2}) {
    CAPTURE(name(type));
    const uint32_t all = 1u << (8 * size_of(type));
    for (uint32_t bits = 0; bits < all; ++bits) {
      const double value = decode(type, bits);
      if (std::isfinite(value) && encode(type, value) != bits) {
        CAPTURE(bits);
        FAIL("a number does not survive the way there and back");
      }
    }
  }
  CHECK(decode(DType::e4m3, 0x7e) == 448);
  CHECK(decode(DType::e5m2, 0x7b) == 57344);
  CHECK(decode(DType::e4m3, 0x01) == 0x1p-9);
  CHECK(encode(DType::bf16, 1 + 0x1p-8) == 0x3f80);      // a tie, to even
  CHECK(encode(DType::bf16, 1 + 3 * 0x1p-8) == 0x3f82);  // a tie, to even
  CHECK(decode(DType::s8, encode(DType::s8, -200)) == -128);
  CHECK(decode(DType::tf32, encode(DType::tf32, 1 + 0x1p-12)) == 1);
}

TEST_CASE_FIXTURE(Fixture, "random contents equal the host's, and are N(0,1)") {
  const Gpu gpu(kMock);
  const RandomBlock block(gpu, DType::bf16, 3);
  std::mt19937_64 random(4);
  const size_t count = 3 * RandomBlock::kCount + 5;
  const RandomContents contents(count, random);
  runtime::Buffer buffer(gpu.device(), count * 2);
  contents.write(gpu, block, buffer.address());
  double sum = 0, squares = 0;
  for (size_t i = 0; i < count; i += 997) {
    const double value = at(buffer, DType::bf16, static_cast<int64_t>(i));
    REQUIRE(value == contents.value(block, i));
    sum += value;
    squares += value * value;
  }
  const double n = static_cast<double>(count / 997);
  CHECK(std::abs(sum / n) < 0.05);
  CHECK(squares / n == doctest::Approx(1).epsilon(0.05));
  CHECK(at(buffer, DType::bf16, static_cast<int64_t>(count - 1)) == contents.value(block, count - 1));
}

TEST_CASE_FIXTURE(Fixture,
                  "cuBLASLt computes the product that the problem defines, in every layout and type") {
  const Gpu gpu(kMock);
  CublasLt cublaslt(gpu, kMock);
  CHECK(cublaslt.version() == "13.1.0");
  Contenders contenders;
  contenders.push_back(std::make_unique<Host>("host"));
  contenders.push_back(std::make_unique<CublasLt>(gpu, kMock));
  Method method(gpu, nullptr, quick());
  const Regime regimes[] = {Regime::sustained};
  auto measure = [&](const GemmProblem& p) {
    auto results = method.measure(given(p), regimes, contenders, "cuBLASLt", Clock::time_point::max());
    REQUIRE(results.size() == 1);
    for (const Entry& e : results[0].entries) {
      CAPTURE(type_text(p));
      CHECK(e.left_out == "");
      CHECK(e.wrong == "");
      CHECK(e.samples.size() == 6);
    }
    CHECK(results[0].reference_rows == 24);
  };
  for (const char* layout : {"TN", "NN", "NT", "TT"}) measure(problem(layout));
  CHECK(mock.fast_accumulation == -1);
  CHECK(mock.workspace_bytes == size_t{32} << 20);
  CHECK(mock.workspace_given == size_t{32} << 20);
  measure(problem("NN", DType::f16, DType::f32));
  CHECK(mock.compute_type == 68);
  measure(problem("TN", DType::e4m3, DType::bf16));
  CHECK(mock.fast_accumulation == 1);
  measure(problem("TN", DType::tf32, DType::f32));
  CHECK(mock.compute_type == 77);
  measure(problem("TN", DType::s8, DType::s32));
  CHECK(mock.compute_type == 72);
}

TEST_CASE_FIXTURE(Fixture, "alpha and beta scale") {
  const Gpu gpu(kMock);
  const lt::Api api(kMock);
  const GemmProblem p = problem("TN", DType::f16, DType::f32);
  std::vector<uint16_t> ones(1000, 0x3c00);
  std::vector<float> d(static_cast<size_t>(p.m * p.ldd()), 10);
  auto view = [](auto& values) {
    return runtime::View{reinterpret_cast<runtime::Address>(values.data()),
                         values.size() * sizeof(values[0])};
  };
  const GemmProblem::Set set = {view(ones), view(ones), view(d)};
  const MatmulPlan plan(api, nullptr, p);
  CHECK(plan.algorithms() == 3);
  CHECK(plan.describe(1) == "heuristic 2 of 3, algorithm 61, tile 61, stages 61, split-K 61, cluster 61");
  plan.run(0, set, 0, nullptr, 2, 0.5);
  CHECK(d[0] == 2 * 40 + 5);
}

TEST_CASE_FIXTURE(Fixture,
                  "a refused plan is skipped, and if all are refused, this is an error with the status") {
  const Gpu gpu(kMock);
  runtime::Buffer memory(gpu.device(), 1 << 16);
  const GemmProblem::Set set = {memory, memory, memory};
  {
    CublasLt cublaslt(gpu, kMock);
    mock.refused_algorithms = 2;
    cublaslt.prepare(problem(), std::span(&set, 1));
    CHECK(cublaslt.configuration().rfind("heuristic 3 of 3", 0) == 0);
    mock.refused_algorithms = 3;
    CHECK_ERROR(cublaslt.prepare(problem(), std::span(&set, 1)), "runs none of the plans");
    mock.algorithms = 0;
    CHECK_ERROR(cublaslt.prepare(problem(), std::span(&set, 1)), "CUBLAS_STATUS_NOT_SUPPORTED (15)");
  }
  CHECK(mock.descriptors == 0);
  CHECK(driver.captured_graphs == 0);
  CHECK(driver.graphs == 0);
  CHECK_ERROR(CublasLt(gpu, "/nowhere/libcublasLt.so"), "--cublaslt FILE");
}

TEST_CASE_FIXTURE(Fixture,
                  "a wrong result is named and not timed, whether the sample or the reference shows it") {
  const Gpu gpu(kMock);
  Method method(gpu, nullptr, quick());
  const Regime regimes[] = {Regime::sustained, Regime::cool};
  Contenders contenders;
  contenders.push_back(std::make_unique<Host>("right"));
  contenders.push_back(std::make_unique<Host>("wrong", 50));
  contenders.push_back(std::make_unique<Host>("not a number", NAN));
  contenders.push_back(std::make_unique<CublasLt>(gpu, kMock));
  const GemmProblem p = problem("TN", DType::f16, DType::f32);
  auto results = method.measure(given(p), regimes, contenders, "cuBLASLt", Clock::time_point::max());
  REQUIRE(results.size() == 2);
  for (const ShapeResult& r : results) {
    CHECK(r.entries[0].counts());
    CHECK(r.entries[1].wrong != "");
    CHECK(r.entries[1].samples.empty());
    CHECK(r.entries[2].wrong != "");
    CHECK(r.entries[3].counts());
    const EntrySummary s = summary(r, r.entries[0], "cuBLASLt", 132);
    REQUIRE(s.ratio);
    CHECK(s.ratio->rounds == 6);
  }
  CHECK(results[1].regime == Regime::cool);
  CHECK(static_cast<Host&>(*contenders[0]).launched.size() == results[0].sets);
  CHECK(results[0].sets > 1);

  // Nothing is compared with a wrong reference.
  mock.error = 50;
  results = method.measure(given(p), regimes, contenders, "cuBLASLt", Clock::time_point::max());
  CHECK(results[0].entries[0].counts());
  CHECK(results[0].entries[3].wrong != "");
  CHECK(results[0].reference_rows == 0);
}

TEST_CASE_FIXTURE(Fixture, "a contender that refuses or fails is left out, with its reason") {
  const Gpu gpu(kMock);
  Method method(gpu, nullptr, quick());
  const Regime regimes[] = {Regime::sustained};
  Contenders contenders;
  contenders.push_back(std::make_unique<Host>("host"));
  contenders.push_back(std::make_unique<CublasLt>(gpu, kMock));
  GemmProblem p = problem();
  p.k = 1008, p.m = 2, p.n = 8;
  auto results = method.measure(given(p), regimes, contenders, "cuBLASLt", Clock::time_point::max());
  CHECK(results[0].entries[0].left_out == "it takes K to 1000");
  CHECK(results[0].entries[1].counts());
  p.k = 8, p.m = 1008;
  results = method.measure(given(p), regimes, contenders, "cuBLASLt", Clock::time_point::max());
  CHECK(results[0].entries[0].left_out == "it has no memory for M over 1000");
  CHECK(results[0].entries[1].counts());
}

TEST_CASE("every element is compared, in chunks of rows that fit") {
  const GemmProblem p = problem();
  const auto row = static_cast<size_t>(p.n * 2);
  Rows got{{0, 1}, std::vector<std::byte>(2 * row)}, other = got;
  const std::vector<Expected> expected = {{0, 0, 0, 0.01}};
  CHECK(compare(p.output(), got, other, expected) == "");
  const uint32_t one = encode(DType::bf16, 1);
  std::memcpy(got.bytes.data() + row + 6, &one, 2);
  CHECK(compare(p.output(), got, other, expected)
            .rfind("1 of 40 elements differ from the reference's: D[1, 3] is 1 and 0", 0) == 0);
  got.rows.pop_back();
  CHECK_ERROR(compare(p.output(), got, other, expected), "one result has 1 rows and the other 2");
}

TEST_CASE_FIXTURE(Fixture, "large outputs are sampled by rows, including the first and the last") {
  const Gpu gpu(kMock);
  const GemmProblem p = problem();
  runtime::Buffer d(gpu.device(), static_cast<size_t>(p.output().bytes()));
  for (int64_t i = 0; i < p.m; ++i) {
    const uint64_t bits = encode(DType::bf16, static_cast<double>(i));
    std::memcpy(reinterpret_cast<std::byte*>(d.address()) + i * p.ldd() * 2, &bits, 2);
  }
  const Rows some = download(gpu, p.output(), d, static_cast<size_t>(5 * p.n * 2)),
             all = download(gpu, p.output(), d);
  CHECK(some.rows == std::vector<int64_t>{0, 5, 11, 17, 23});
  CHECK(all.rows.size() == 24);
  for (const Rows* rows : {&some, &all})
    for (size_t i = 0; i < rows->rows.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, rows->bytes.data() + i * static_cast<size_t>(p.n) * 2, 2);
      CHECK(decode(DType::bf16, bits) == static_cast<double>(rows->rows[i]));
    }
}

TEST_CASE_FIXTURE(Fixture, "a recording that fails leaves the capture") {
  const Gpu gpu(kMock);
  CHECK_ERROR(Graph(gpu, [] { throw Error("no launch today"); }), "no launch today");
  CHECK(driver.captures == 1);
  CHECK(driver.captured_graphs == 0);
  {
    const Graph graph(gpu, [] {});
  }
  CHECK(driver.captured_graphs == 0);
  CHECK(driver.graphs == 0);
}

TEST_CASE_FIXTURE(Fixture, "without a GPU it says that one is needed") {
  driver.device_count = 0;
  CHECK_ERROR(Gpu{kMock}.l2_bytes(), "a benchmark needs a Hopper GPU");
  CHECK_ERROR(Gpu{"/nowhere/libcuda.so.1"}.l2_bytes(), "a benchmark needs a Hopper GPU");
}

TEST_CASE("NVML's values, and missing ones") {
  const Nvml nvml("0000:1B:00.0", kMock);
  const Telemetry t = nvml.sample();
  CHECK(t.sm_mhz == 1755);
  CHECK(t.watts == 690.5);
  CHECK(t.celsius == 0);
  CHECK(limit_names(t.limits) == "power cap, thermal slowdown (software)");
  CHECK(nvml.driver_version() == "");
  CHECK(nvml.joules() == 0);
  CHECK_ERROR(Nvml("0000:00:00.0", kMock), "status 6");
  CHECK_ERROR(Nvml("0000:1B:00.0", "/nowhere/libnvidia-ml.so.1"), "is not found");
}

TEST_CASE("power is measured between two steps of the counter") {
  const auto start = std::chrono::steady_clock::now();
  auto counter = [&](double watts) {
    // The power is 5 kW for the first 40 ms, which do not count. The counter makes a step every 10 ms.
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return 1000 + watts * std::floor(seconds * 100) / 100 + (seconds < 0.04 ? 5000 * seconds : 200);
  };
  EnergyMeter meter([&] { return counter(600); }, 0.05);
  meter.watch(0.1);
  meter.watch(0.2);
  CHECK(meter.watts() == doctest::Approx(600).epsilon(0.1));
  EnergyMeter still([] { return 5.0; }, 0);
  still.watch(0.01);
  CHECK(still.watts() == 0);
}

TEST_CASE_FIXTURE(Fixture, "a brief check finds only a wrong sample; energy needs NVML") {
  const Gpu gpu(kMock);
  MethodOptions options = quick();
  options.checked_elements = 4;  // the corners
  options.compares_rows = false;
  const Regime regimes[] = {Regime::sustained};
  Contenders contenders;
  contenders.push_back(std::make_unique<Host>("right"));
  contenders.push_back(std::make_unique<Host>("wrong", 50));
  contenders.push_back(std::make_unique<CublasLt>(gpu, kMock));
  const GemmProblem p = problem("TN", DType::f16, DType::f32);
  auto measure = [&] {
    Method method(gpu, nullptr, options);
    return method.measure(given(p), regimes, contenders, "cuBLASLt", Clock::time_point::max())[0];
  };
  const ShapeResult brief = measure();
  CHECK(brief.entries[0].counts());
  CHECK(brief.entries[1].counts());
  CHECK(brief.reference_rows == 0);
  options.checked_elements = 20000;
  const ShapeResult more = measure();
  CHECK(more.entries[0].counts());
  CHECK(more.entries[1].wrong.find(" of 20000 sampled elements are wrong") != std::string::npos);
  options.energy_seconds = 0.1;
  CHECK_ERROR(measure(), "the energy of a product is measured with NVML, which is not available");
}

namespace {

AttentionProblem attention() {
  AttentionProblem p;
  p.batches = 2, p.queries = 9, p.keys = 12, p.heads = 4, p.key_heads = 2, p.depth = 24, p.value_depth = 16;
  return p;
}

class HostAttention final : public ContenderOf<AttentionProblem> {
 public:
  explicit HostAttention(std::string name, double shift = 0) : name_(std::move(name)), shift_(shift) {}
  std::string name() const override { return name_; }
  std::string refuses(const AttentionProblem&) const override { return ""; }
  void prepare(const AttentionProblem& p, std::span<const AttentionProblem::Set> sets) override {
    problem_ = p;
    sets_.assign(sets.begin(), sets.end());
  }
  void launch(size_t set) override {
    const AttentionProblem::Set& s = sets_.at(set);
    const auto bytes = [](runtime::View view) { return reinterpret_cast<std::byte*>(view.address); };
    attend_on_host(problem_, bytes(s.q), bytes(s.k), bytes(s.v), bytes(s.o), shift_);
  }
  std::string configuration() const override { return "the host"; }

 private:
  std::string name_;
  double shift_;
  AttentionProblem problem_;
  std::vector<AttentionProblem::Set> sets_;
};

}  // namespace

TEST_CASE_FIXTURE(
    Fixture,
    "attention of every mask, heads that share keys and packed sequences is checked against float64") {
  const Gpu gpu(kMock);
  MethodOptions options = quick();
  options.checked_elements = 8 * 40;  // rows of O
  Method method(gpu, nullptr, options);
  const Regime regimes[] = {Regime::sustained};
  Contenders contenders;
  contenders.push_back(std::make_unique<HostAttention>("right"));
  contenders.push_back(std::make_unique<HostAttention>("off", 0.05));
  contenders.push_back(std::make_unique<HostAttention>("not a number", NAN));
  contenders.push_back(std::make_unique<Host>("product"));
  std::vector<AttentionProblem> problems(6, attention());
  problems[1].causal = true;
  problems[2].left = 2, problems[2].right = 1;
  problems[3].causal = true, problems[3].left = 0, problems[3].type = DType::bf16;
  problems[4].keys = 5;  // the first queries see no key
  problems[4].causal = true;
  problems[5].pack({3, 1, 9});
  problems[5].causal = true;
  for (const AttentionProblem& p : problems) {
    CAPTURE(type_text(p));
    const ShapeResult r =
        method.measure({"given", p}, regimes, contenders, "right", Clock::time_point::max()).at(0);
    CHECK(r.entries[0].wrong == "");
    CHECK(r.entries[0].samples.size() == 6);
    CHECK(r.entries[1].wrong != "");  // found by the sample, or by the rows of the first contender
    CHECK(r.entries[2].wrong != "");
    CHECK(r.entries[3].left_out == "it takes matrix products alone");
    CHECK(r.reference_rows == static_cast<size_t>(p.output().rows));
  }
  const auto refused =
      method.measure({"given", problem()}, regimes, contenders, "", Clock::time_point::max());
  CHECK(refused[0].entries[0].left_out == "it takes attention alone");
  CHECK(refused[0].entries[3].counts());
}

TEST_CASE("attention's work is counted for the pairs that its mask leaves") {
  AttentionProblem p = attention();
  const double each = 2 * (24 + 16) * 4;  // operations for a pair of rows, in all heads
  CHECK(p.flops() == each * 2 * 9 * 12);
  p.causal = true;  // the first of nine queries sees 4 of 12 keys
  CHECK(p.flops() == each * 2 * (4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12));
  p.left = 1;
  CHECK(p.flops() == each * 2 * 9 * 2);
  p.left = -1;
  p.pack({3, 1, 9});
  CHECK(p.flops() == each * (6 + 1 + 45));
  CHECK(p.output().rows == 13 * 4);
  CHECK(p.inputs()[1].rows == 13 * 2);
  CHECK(size_text(p) == "p3_s9_h4/2_d24/16:causal");
  CHECK(type_text(p) == "f16 causal");
  p = attention();
  p.left = 5;
  p.type = DType::bf16;
  CHECK(size_text(p) == "b2_s9/12_h4/2_d24/16:left=5:bf16");
  CHECK(type_text(p) == "bf16 left 5");
}

}  // namespace ptxbuilder::test::bench_method_test
