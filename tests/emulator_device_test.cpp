// The emulator as a Device: seeds and threads, traces, statistics, time limits, and reports that name the
// builder's line.
#include <doctest/doctest.h>

#include <filesystem>

#include "emulator_kit.h"

namespace ptxbuilder::runtime {
namespace {

const std::string& gemm() {
  static const std::string text = test_file("emulator_ptx/gemm_128x256x64_bf16.ptx");
  return text;
}

// Runs a small GEMM and gives the bits of D, with what was counted.
std::vector<uint16_t> run(const EmulatorOptions& options, EmulatorStatistics* statistics = nullptr) {
  Bench bench(gemm(), 384, options);
  const uint32_t m = 256, n = 512, k = 192;
  Address a = bench.upload(random_bf16(m * k, 3)), b = bench.upload(random_bf16(n * k, 4));
  Address d = bench.upload(std::vector<uint16_t>(m * n));
  bench.run({4, 1, 1}, 229440, bench.map_2d(a, DType::bf16, m, k, 128, 64, Swizzle::b128),
            bench.map_2d(b, DType::bf16, n, k, 256, 64, Swizzle::b128),
            bench.map_2d(d, DType::bf16, m, n, 64, 64, Swizzle::b128), m / 128, n / 256, k / 64);
  if (statistics) *statistics = bench.device().statistics();
  return bench.download<uint16_t>(d, m * n);
}

TEST_CASE("emulator: a seed has one schedule, on any number of host threads, with checks or without") {
  for (uint64_t seed : {0, 1, 5}) {
    EmulatorOptions options;
    options.seed = seed;
    EmulatorStatistics first, again, threads, unchecked;
    auto d = run(options, &first);
    CHECK(run(options, &again) == d);
    CHECK(again.warp_instructions == first.warp_instructions);
    options.threads = 3;
    CHECK(run(options, &threads) == d);
    CHECK(threads.warp_instructions == first.warp_instructions);
    CHECK(threads.ctas == 4);
    options.race_check = false;
    CHECK(run(options, &unchecked) == d);
    CHECK(unchecked.warp_instructions == first.warp_instructions);
  }
  EmulatorOptions a, b;
  a.seed = 1, b.seed = 2;
  EmulatorStatistics of_a, of_b;
  CHECK(run(a, &of_a) == run(b, &of_b));  // a correct kernel does not depend on the schedule
  CHECK(of_a.warp_instructions != of_b.warp_instructions);
}

TEST_CASE("emulator: the trace is JSON with warps, copies, wgmma and phases; progress is told") {
  auto path =
      std::filesystem::temp_directory_path() / ("trace_" + std::to_string(std::random_device{}()) + ".json");
  EmulatorOptions options;
  options.trace_path = path.string();
  uint64_t last = 0, all = 0;
  options.progress = [&](uint64_t done, uint64_t of) { last = done, all = of; };
  run(options);
  CHECK(last == 4);
  CHECK(all == 4);
  std::ifstream in(path);
  std::stringstream s;
  s << in.rdbuf();
  const std::string text = s.str();
  CHECK(text.starts_with("{\"traceEvents\":["));
  CHECK(text.ends_with("]}\n"));
  for (const char* part : {"\"name\":\"wgmma\"", "\"name\":\"load\"", "\"name\":\"store\"",
                           "mbarrier gemm_smem+229376", "warp  4", "\"ph\":\"X\""})
    CHECK(text.find(part) != std::string::npos);
  std::filesystem::remove(path);
}

const char* const lines = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {
.reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .pred %p<2>;
.loc 1 40 7
ld.param.u64 %rd0, [p];
mov.u32 %r0, %tid.x;
.loc 1 41 9
L: ld.global.b32 %r1, [%rd0];
setp.ne.u32 %p0, %r1, 7;
@%p0 bra L;
.loc 1 42 5
st.global.b32 [%rd0+4096], %r0;
ret;
}
.file 1 "/home/author/kernels/wait.cpp"
)";

TEST_CASE("emulator: reports name the PTX line, the builder's line, the thread, the address and the seed") {
  EmulatorOptions options;
  options.seed = 11;
  Bench bench(lines, 64, options);
  Address p = bench.upload(std::vector<uint32_t>(4, 7));
  std::string what;
  CHECK(fault_of([&] { bench.run({3, 1, 1}, 0, p); }, &what) == Fault::out_of_bounds);
  for (const char* part :
       {"at PTX line 14: st.global.b32 [%rd0+4096], %r0", "from wait.cpp:42", "kernel k, CTA (0, 0, 0), warp",
        "lane 0", "0x700001000", "4080 B behind the end of the allocation 0x700000000 of 16 B", "seed 11"})
    CHECK_MESSAGE(what.find(part) != std::string::npos, what);
}

TEST_CASE("emulator: a kernel that spins for ever is stopped at the limit, and the device goes on") {
  Bench bench(lines, 32);
  Address p = bench.upload(std::vector<uint32_t>(2048, 6));
  std::string what;
  CHECK(fault_of(
            [&] {
              bench.run_for(std::chrono::milliseconds(200), {1, 1, 1}, 0, p);
            },
            &what) == Fault::time_limit);
  CHECK_MESSAGE(what.find("warp 0") != std::string::npos, what);
  bench.device().fill(p, 0, 4);
  const uint32_t seven = 7;
  bench.device().copy_in(p, &seven, 4);
  bench.run({1, 1, 1}, 0, p);
}

TEST_CASE("emulator: names of shared objects come from the sidecar") {
  std::string mutant = gemm();
  const std::string bytes = "[%r158], 49152;";
  mutant.replace(mutant.find(bytes), bytes.size(), "[%r158], 49136;");
  EmulatorOptions options;
  Bench bench(mutant, 384, options);
  bench.signature().shared = {{"A", 0, 16384, 4}, {"full", 229376, 8, 4}};
  const uint32_t m = 128, n = 256, k = 64;
  Address a = bench.upload(std::vector<uint16_t>(m * k)), b = bench.upload(std::vector<uint16_t>(n * k));
  std::string what;
  auto fault = fault_of(
      [&] {
        bench.run({1, 1, 1}, 229440, bench.map_2d(a, DType::bf16, m, k, 128, 64, Swizzle::b128),
                  bench.map_2d(b, DType::bf16, n, k, 256, 64, Swizzle::b128),
                  bench.map_2d(a, DType::bf16, m, k, 64, 64, Swizzle::b128), 1, 1, 1);
      },
      &what);
  CHECK(fault == Fault::tx_count);
  CHECK_MESSAGE(what.find("mbarrier full[0]") != std::string::npos, what);
}

TEST_CASE("emulator: what is no kernel, no PTX or no memory is refused") {
  auto device = open_emulator();
  Signature s = signature_of(lines, 32);
  CHECK_THROWS_WITH_AS(device->load("\x7f"
                                    "ELF...",
                                    s),
                       doctest::Contains("cubin"), Error);
  CHECK_THROWS_WITH_AS(device->load(".version 8.0\nadd;", s), doctest::Contains("ptx 2:1"), Error);
  s.kernel = "absent";
  CHECK_THROWS_WITH_AS(device->load(lines, s), doctest::Contains("absent"), Error);
  s = signature_of(lines, 32);
  CHECK_NOTHROW(device->load(lines, s));
  Address p = device->allocate(16);
  uint32_t word = 0;
  CHECK_NOTHROW(device->copy_out(&word, p + 12, 4));
  CHECK_THROWS_WITH_AS(device->copy_out(&word, p + 13, 4), doctest::Contains("not in device memory"), Error);
  device->release(p);
  CHECK_THROWS_WITH_AS(device->copy_in(p, &word, 4), doctest::Contains("released"), Error);
}

}  // namespace
}  // namespace ptxbuilder::runtime
