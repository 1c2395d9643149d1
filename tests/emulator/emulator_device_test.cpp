// Tests the emulator as a Device: seeds and threads, traces, statistics, time limits, and reports that name
// the builder's line.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <random>
#include <thread>

#include "emulator_kit.h"
#include "runtime/emulator/machine/random_numbers.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::runtime::emulator_device_test {
namespace {

const std::string& gemm() {
  static const std::string text = test_file("emulator/ptx/gemm_128x256x64_bf16.ptx");
  return text;
}

// Runs a small GEMM, and returns the bits of D and the counters.
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

TEST_CASE("emulator: a map whose swizzle is not the descriptor's is named") {
  for (const Swizzle of_b : {Swizzle::b128, Swizzle::none}) {
    std::string notes;
    EmulatorOptions options;
    options.note = [&](const std::string& text) { notes += text + "\n"; };
    Bench bench(gemm(), 384, options);
    const uint32_t m = 128, n = 256, k = 64;
    Address a = bench.upload(random_bf16(m * k, 3)), b = bench.upload(random_bf16(n * k, 4));
    Address d = bench.upload(std::vector<uint16_t>(m * n));
    bench.run({1, 1, 1}, 229440, bench.map_2d(a, DType::bf16, m, k, 128, 64, Swizzle::b128),
              bench.map_2d(b, DType::bf16, n, k, 256, 64, of_b),
              bench.map_2d(d, DType::bf16, m, n, 64, 64, Swizzle::b128), 1, 1, 1);
    if (of_b == Swizzle::b128)
      CHECK_MESSAGE(notes.empty(), notes);
    else
      CHECK_MESSAGE(notes.find("the descriptor of B has swizzle 128 B, but the tensor map of the copy of "
                               "line 640 that filled gemm_smem+65536 has swizzle none") != std::string::npos,
                    notes);
  }
}

TEST_CASE("emulator: the trace is JSON with warps, copies, wgmma and phases; progress is reported") {
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
st.global.b32 [%rd0+4096], %r1;
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
       {"at PTX line 14: st.global.b32 [%rd0+4096], %r1", "from wait.cpp:42", "kernel k, CTA (0, 0, 0), warp",
        "lane 0", "0x700001000", "4080 B past the end of the allocation 0x700000000 of 16 B", "seed 11"})
    CHECK_MESSAGE(what.find(part) != std::string::npos, what);
}

TEST_CASE("emulator: reports name the chain of inlined calls, of both accesses of a race") {
  // .debug_str holds "pad", load(float) and "outer".
  const std::string text = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {
.reg .b32 %r<4>; .reg .b64 %rd<3>;
.loc 1 40 7
ld.param.u64 %rd0, [p];
mov.u32 %r0, %ctaid.x;
.loc 1 41 3
.loc 2 20 5, function_name $outer, inlined_at 1 41 3
.loc 2 10 9, function_name $strings + 4, inlined_at 2 20 5
st.global.b32 [%rd0], %r0;
.loc 1 42 3
.loc 2 30 5, function_name $inner, inlined_at 1 42 3
ld.global.b32 %r1, [%rd0];
.loc 1 43 3
st.global.b32 [%rd0+4], %r0;
ret;
}
.file 1 "kernel.cu"
.file 2 "tile.h"
.section .debug_str {
$strings:
.b8 112,97,100,0,95,90,52,108,111,97,100,102,0
$outer: .b8 111,117,116,101,114
.b8 0
}
)";
  std::vector<std::string> found;
  EmulatorOptions options;
  options.finding = [&](const EmulatorError& e) { found.emplace_back(e.what()); };
  Bench bench(text, 1, options);
  bench.run({2, 1, 1}, 0, bench.upload(std::vector<uint32_t>(4)));
  auto has = [&](const std::string& part) {
    return std::ranges::any_of(found,
                               [&](const std::string& f) { return f.find(part) != std::string::npos; });
  };
  CHECK(has(
      "wrote it at line 12 (tile.h:10, load(float) inlined at tile.h:20, outer inlined at kernel.cu:41), and "
      "nothing"));
  CHECK(
      has("from tile.h:10\n  load(float) inlined at tile.h:20\n  outer inlined at kernel.cu:41\n  kernel k"));
  CHECK(has("from kernel.cu:43\n  kernel k"));
}

TEST_CASE("emulator: long instructions do not put off the limit") {
  EmulatorOptions options;
  options.seed = 3;  // this seed has the longest turns
  Bench bench(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 %a<4>; .reg .b32 %b<2>; .reg .f32 %d<4>; .reg .pred %p;
mov.b32 %a0, 0; mov.b32 %a1, 0; mov.b32 %a2, 0; mov.b32 %a3, 0; mov.b32 %b0, 0; mov.b32 %b1, 0;
mov.f32 %d0, 0f00000000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0;
A: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%d0,%d1,%d2,%d3};
setp.eq.f32 %p, %d0, 0f00000000;
@%p bra A;
ret;
})",
              32, options);
  const std::clock_t began = std::clock();
  CHECK_THROWS_AS(bench.run_for(std::chrono::milliseconds(20), {1, 1, 1}, 0), TimeoutError);
  CHECK(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC < 0.2);
}

TEST_CASE("emulator: a kernel that spins for ever is stopped at the limit, and the device goes on") {
  Bench bench(lines, 32);
  Address p = bench.upload(std::vector<uint32_t>(2048, 6));
  std::string what;
  try {
    bench.run_for(std::chrono::milliseconds(200), {1, 1, 1}, 0, p);
  } catch (const TimeoutError& e) {
    what = e.what();
  }
  CHECK_MESSAGE(what.find("time limit: kernel k was not done in time") != std::string::npos, what);
  CHECK_MESSAGE(what.find("warp 0") != std::string::npos, what);
  bench.device().fill(p, 0, 4);
  const uint32_t seven = 7;
  bench.device().copy_in(p, &seven, 4);
  bench.run({1, 1, 1}, 0, p);
}

TEST_CASE("emulator: notes say what is no fault, once for each instruction") {
  const auto notes_of = [](const std::string& body) {
    std::vector<std::string> notes;
    EmulatorOptions options;
    options.note = [&](const std::string& text) { notes.push_back(text); };
    Bench bench(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b32 "
        "%r<4>; .reg .pred %p<3>; .shared .align 8 .b8 bar[8]; .shared .b32 word; mov.u32 %r0, %tid.x; "
        "setp.eq.u32 %p0, %r0, 0;\n@%p0 mbarrier.init.shared.b64 [bar], 64;\nbar.sync 0;\n" +
            body + "\nret;\n}",
        64, options);
    const Address p = bench.upload(std::vector<uint32_t>(4));
    for (int k = 0; k < 3; ++k) bench.run({2, 1, 1}, 0, p);
    return notes;
  };
  const std::string wait = "\nW: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;\n@!%p1 bra W;";
  const auto none = notes_of("mbarrier.arrive.shared.b64 _, [bar];\n@%p0 st.shared.b32 [word], 3;" + wait);
  CHECK(none.empty());
  const auto alone = notes_of("mbarrier.arrive.shared.b64 _, [bar];");
  REQUIRE(alone.size() == 1);
  CHECK_MESSAGE(
      alone[0].find("mbarrier bar completes 1 phase, and nobody ever waits for it") != std::string::npos,
      alone[0]);
  const auto same = notes_of("st.shared.b32 [word], 3;");
  REQUIRE(same.size() == 1);
  CHECK_MESSAGE(same[0].find("this writes to word the value that is already there") != std::string::npos,
                same[0]);
  CHECK_MESSAGE(same[0].find("at PTX line 8: st.shared.b32 [word], 3") != std::string::npos, same[0]);
  const auto left = notes_of("@%p0 mbarrier.arrive.shared.b64 _, [bar];");
  REQUIRE(left.size() == 1);
  CHECK_MESSAGE(left[0].find("the CTA exits with mbarrier bar in the middle of phase 0: it was initialised "
                             "for 64 arrivals, but got 1") != std::string::npos,
                left[0]);
  const auto unseen = notes_of(
      "mbarrier.arrive.shared.b64 _, [bar];\nbar.sync 0;\nmbarrier.arrive.shared.b64 _, "
      "[bar];\nW: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 1;\n@!%p1 bra W;");
  REQUIRE(unseen.size() == 1);
  CHECK_MESSAGE(
      unseen[0].find("phases 0 and 1 of mbarrier bar complete, and nobody has waited for the first") !=
          std::string::npos,
      unseen[0]);
}

// Returns a kernel of one or 32 threads around `body`, with its parameter in %rd0.
std::string around(const std::string& body, const std::string& module = "") {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n" + module +
         "\n.visible .entry k(.param .u64 p) {\n.reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>; .reg "
         ".b128 "
         "%q<2>; .reg .b16 %h<4>;\nld.param.u64 %rd0, [p];\n" +
         body + "\nret;\n}\n";
}

TEST_CASE("emulator: a reduction by a barrier counts predicates that are negated") {
  Bench bench(around("mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 5;\nbar.red.popc.u32 %r1, 0, !%p0;\n"
                     "bar.red.and.pred %p1, 0, !%p0; selp.u32 %r2, 1, 0, !%p1;\nsetp.ne.u32 %p2, %r0, 0;\n"
                     "@%p2 bra E;\nst.global.v2.u32 [%rd0], {%r1, %r2};\nE:"),
              32);
  const Address out = bench.upload(std::vector<uint32_t>(2));
  bench.run({1, 1, 1}, 0, out);
  CHECK(bench.download<uint32_t>(out, 2) == std::vector<uint32_t>{27, 1});
}

TEST_CASE("emulator: what it lacks is listed before it runs") {
  std::vector<std::string> notes;
  EmulatorOptions options;
  options.note = [&](const std::string& text) { notes.push_back(text); };
  Bench bench(around("bra E; frobnicate.b32 5;\ntex.1d.v4.f32.f32 {f, f, f, f}, [t, {f}];\nE:"), 32, options);
  bench.run({1, 1, 1}, 0, bench.upload(std::vector<uint32_t>(4)));
  REQUIRE(notes.size() == 1);
  CHECK_MESSAGE(
      notes[0].find("kernel k has 2 instructions that the emulator cannot execute:\n  line 8: frobnicate.b32 "
                    "5  [the emulator does not know this instruction]\n  line 9: tex.1d") !=
          std::string::npos,
      notes[0]);
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

TEST_CASE("emulator: what is not a kernel, no PTX or no memory is refused") {
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

Signature named_k() {
  Signature s;
  s.kernel = "k";
  s.threads = 32;
  return s;
}

// Runs a kernel, and returns the report, or "no fault" if there is none.
std::string report(const std::string& text) {
  std::string what;
  Bench bench(text, 32);
  Address p = bench.upload(std::vector<uint32_t>(64));
  fault_of([&] { bench.run({1, 1, 1}, 0, p); }, &what);
  return what;
}

TEST_CASE("emulator: an address in front of a memory space is out of bounds, as one after it is") {
  struct Case {
    const char *body, *says;
  };
  const std::string array = ".local .align 16 .b8 a[16];\nmov.u32 %r1, 7;\nmov.u64 %rd1, a;\n";
  const Case local[] = {
      {"st.local.u32 [%rd1], %r1;", "no fault"},
      {"st.local.u32 [%rd1+12], %r1;", "no fault"},
      {"st.local.u32 [%rd1+16], %r1;",
       "access out of bounds: 4 B at 0x10 are outside the thread's 16 B of local"},
      {"st.local.u32 [%rd1+-4], %r1;",
       "access out of bounds: 4 B at -4 are outside the thread's 16 B of local"},
      {"sub.u64 %rd1, %rd1, 16; st.local.v4.u32 [%rd1], {%r1, %r1, %r1, %r1};", "16 B at -16 are outside"},
      {"mov.u32 %r2, -16; st.local.u32 [%r2], %r1;", "4 B at 0xfffffff0 (-16) are outside"},
      {"cvta.local.u64 %rd1, %rd1; st.u32 [%rd1+12], %r1;", "no fault"},
      {"cvta.local.u64 %rd1, %rd1; st.u32 [%rd1+-4], %r1;", "4 B before the start of local memory"},
  };
  for (const Case& c : local) {
    const std::string what = report(around(array + c.body));
    CHECK_MESSAGE(what.find(c.says) != std::string::npos, what);
  }
  const Case parameter[] = {
      {"ld.param.u64 %rd1, [p];", "no fault"},
      {"ld.param.u64 %rd1, [p+8];", "8 B at 0x8 are outside the kernel's 8 B of parameters"},
      {"ld.param.u64 %rd1, [p+-8];", "8 B at -8 are outside the kernel's 8 B of parameters"},
      {"ld.param.u64 %rd1, [p-8];", "8 B at -8 are outside the kernel's 8 B of parameters"},
  };
  for (const Case& c : parameter) {
    const std::string what = report(around(c.body));
    CHECK_MESSAGE(what.find(c.says) != std::string::npos, what);
  }
  const std::string shared = ".shared .align 4 .b8 s[16];\nmov.u32 %r1, 7;\n";
  const Case in_shared[] = {
      {"st.shared.u32 [s+12], %r1;", "no fault"},
      {"st.shared.u32 [s+-4], %r1;", "out of bounds"},
      {"mov.u64 %rd1, 0x1000000000000400; st.shared.u32 [%rd1], %r1;",
       "0x1000000000000400 is not a shared address"},
  };
  for (const Case& c : in_shared) {
    const std::string what = report(around(shared + c.body));
    CHECK_MESSAGE(what.find(c.says) != std::string::npos, what);
  }
}

TEST_CASE("emulator: PTX that no assembler takes is refused at its line and column") {
  auto refused = [](const std::string& text) {
    try {
      open_emulator()->load(text, named_k());
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("");
  };
  struct Case {
    const char *module, *body, *says;
  };
  const char *callee = ".func f(.param .b32 a) { ret; }",
             *call = "{ .param .b32 x; .reg .b32 t; mov.b32 t, 1; st.param.b32 [x], t; call f, (x); }";
  const Case cases[] = {
      {"", ".shared .align 4 .b8 s[4];", ""},
      {"", ".shared .align 0 .b8 s[4];", "ptx 8:22: the alignment 0 of s is not a power of two"},
      {"", ".shared .align 0x10 .b8 s[4];", ""},
      {"", ".local .align 12 .b8 s[4];", "ptx 8:22: the alignment 12 of s is not a power of two"},
      {".global .align 0 .b8 g[4];", "", "ptx 4:22: the alignment 0 of g is not a power of two"},
      {"", ".shared .b8 s[232448];", ""},
      {"", ".shared .b8 s[232449];", "ptx 8:13: with the 232449 B of s, static shared memory has 232449 B"},
      {"", ".shared .b8 s[4294967300];", "ptx 8:13: with the 4294967300 B of s"},
      {"", ".shared .b8 s[0x7fffffffffffffff][4];", "ptx 8:13: s has more than"},
      {"", ".shared .b8 s[-4];", "ptx 8:13: the extent -4 of s is not a number"},
      {"", ".shared .b8 s[other];", "ptx 8:13: the extent other of s is not a number"},
      {"", ".local .b8 s[524289];",
       "ptx 8:12: with the 524289 B of s, the thread has 524289 B of local memory"},
      {".global .u64 q[1] = {zzz};", "", "ptx 4:22: zzz is not declared"},
      {".global .u32 z; .global .u64 q[2] = {z+4, generic(z)};", "", ""},
      {".global .u32 q[1] = {1, 2};", "", "ptx 4:21: q has 2 initial values, but only 1 fit"},
      {".global .b32 a[2][2] = {{{{{1}}}}, {2}};", "", "ptx 4:26: the initial values of a do not nest"},
      {".global .b32 a = {1};", "", "ptx 4:18: the initial values of a do not nest"},
      {".global .b32 a[2][2] = {1, 2};", "", "ptx 4:25: the initial values of a do not nest"},
      {".global .b32 a; .global .b64 a;", "", "ptx 4:30: a is declared twice"},
      {".global .b8 a[];", "", "ptx 4:13: a has no extent, and is not .extern"},
      {".nosuch 1, 2;", "", "ptx 4:1: there is no directive .nosuch"},
      {"", ".nosuch 1;", "ptx 8:1: there is no directive .nosuch"},
      {"", ".shared .b8 s[0];", "ptx 8:13: the extent 0 of s is not a number"},
      {"", ".shared .b8 s[(1<<62)*4];", "ptx 8:13: the extent (1<<62)*4 of s is not a number"},
      {"", ".shared .b8 s[4]; .local .b8 s[4];", "ptx 8:30: s is declared twice"},
      {"", "{ .shared .b8 s[4]; { .shared .b8 s[8]; } }", ""},
      {"", ".reg .b32 %s<4294967295>;",
       "ptx 8:11: %s<4294967295>: there cannot be more than 16777216 registers"},
      {"", ".reg .b32 %s<16777217>;", "ptx 8:11: %s<16777217>: there cannot be more than 16777216 registers"},
      {"", ".reg .b32 %s<16777216>;", ""},
      {"", "mov.u32 %other, 1;", "ptx 8:9: %other is not a register"},
      {"", "{ .reg .b32 a; mov.u32 a, other; }", "ptx 8:27: other is not declared"},
      {"", "bra nowhere;", "ptx 8:5: there is no label nowhere"},
      {"", "{ .reg .f32 a; mov.f32 a, 0f123; }", "ptx 8:27: 0f has 3 hexadecimal digits after it, not 8"},
      {"", "{ .reg .f64 a; mov.f64 a, 0d1; }", "ptx 8:27: 0d has 1 hexadecimal digits after it, not 16"},
      {"", "{ .reg .b64 a; createpolicy.fractional.L2::evict_last.b64 a, 9.5; }",
       "ptx 8:59: createpolicy.fractional.L2::evict_last.b64: the fraction is 9.5, but must be above 0 and "
       "at most 1"},
      {"", "{ .reg .b32 a<8>; ld.global.v8.b32 {a0, a1, a2, a3, a4, a5, a6, a7}, [%rd0]; }",
       "ptx 8:36: ld.global.v8.b32: it needs sm_100"},
      {".global .v4 .f32 q[1] = {{1.0, -2.0, 0f00000000, 4.0}};", "", ""},
      {"", "X: X: bra X;", "ptx 8:4: the label X is declared twice"},
      {"", "X: { X: bra X; }", ""},
      {"", ".reg .b32 %r<3>;", "ptx 8:11: %r is declared twice"},
      {"", ".reg .b32 %s<2000000000>; mov.u32 %s1999999999, 1;", ""},
      {callee, call, ""},
      {callee, "{ .param .b32 x; .param .b32 y; call f, (x, y); }",
       "ptx 8:38: this call of f has 2 arguments, but the function has 1"},
      {callee, "{ .param .b64 x; call f, (x); }",
       "ptx 8:23: this call of f: arguments 0 has 8 B, but the function's has 4 B"},
      {"", "{ .param .b32 x; .param .b32 y; call (x), f, (y); }",
       ""},  // the error appears when the call runs
      {".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);",
       "{ .param .b32 x; .param .b64 y; call (x), vprintf, (y); }",
       "ptx 8:43: this call of vprintf has 1 arguments, but the function has 2"},
  };
  for (const Case& c : cases) {
    const std::string what = refused(around(c.body, c.module));
    CHECK_MESSAGE(what.find(c.says) != std::string::npos, what);
  }
  std::string parameters = ".param .b32 a", arguments = "x";
  for (int k = 1; k < 256; ++k) parameters += fmt::format(", .param .b32 a{}", k), arguments += ", x";
  CHECK(refused(around("{ .param .b32 x; call f, (" + arguments + "); }",
                       ".func f(" + parameters + ") { ret; }")) == "");
  const std::string head = ".version 8.0\n.target sm_90a\n.address_size 64\n";
  const auto of_head = [&](const std::string& out, const std::string& in,
                           const std::string& directives = "") {
    std::string text = head + ".entry k() " + directives + " { ret; }";
    return refused(text.replace(text.find(out), out.size(), in));
  };
  CHECK(of_head("8.0", "8.1") == "");
  CHECK(of_head("8.0", "0.0") == "ptx 1:1: there is no PTX ISA version 0.0");
  CHECK(of_head("sm_90a", "sm_80, texmode_independent") == "");
  CHECK(of_head("sm_90a", "sm_4294967295") ==
        "ptx 2:1: the target sm_4294967295 does not exist, or sm_90a does not run its code");
  CHECK(of_head("sm_90a", "sm_100") ==
        "ptx 2:1: the target sm_100 does not exist, or sm_90a does not run its code");
  CHECK(of_head("sm_90a", "sm_90a, junk") == "ptx 2:1: the target has no option junk");
  CHECK(of_head("64", "0") == "ptx 3:1: the address size is 0, but sm_90 has 64");
  CHECK(of_head("8.0", "8.0", ".maxntid 0") == "ptx 4:12: .maxntid is 0, but must be at least 1");
  CHECK(of_head("8.0", "8.0", ".nosuch 1") == "ptx 4:12: there is no directive .nosuch");
  CHECK(of_head("8.0", "8.0", ".maxntid 32, 1, 1 .minnctapersm 1") == "");
  CHECK(refused(head + ".entry k(.param .align 0 .u64 p) { ret; }") ==
        "ptx 4:31: the alignment 0 of p is not a power of two");
  CHECK(refused(head + ".entry k(.param .b8 p[32764]) { ret; }") == "");
  CHECK(
      refused(head + ".entry k(.param .b8 p[32765]) { ret; }").find("the kernel has 32765 B of parameters") !=
      std::string::npos);
  CHECK(refused(head + ".entry k(.param .u64) { ret; }").find("a parameter of k has no name") !=
        std::string::npos);
  Signature narrow = named_k();
  narrow.parameters.push_back({.name = "n", .dtype = DType::u32, .tensor_map = {}});
  CHECK_THROWS_WITH_AS(open_emulator()->load(around(""), narrow),
                       "kernel 'k': parameter 0 'n' is 8 B in the PTX, but 4 B in the sidecar", Error);
}

TEST_CASE("emulator: an instruction on registers of another width is refused, and writes nothing") {
  // Each of these instructions would read or write beyond the registers that it names.
  for (const char* wrong :
       {"bfi.b16 %h0, %h1, %h2, 0, 1;", "add.cc.u16 %h0, %h1, %h2;", "add.sat.s16 %h0, %h1, %h2;",
        "selp.pred %p0, %p1, %p2, %p3;", "slct.b32.pred %r0, %r1, %r2, %p0;",
        "shfl.sync.idx.b16 %h0, %h1, 0, 31, -1;", "match.any.sync.b16 %r0, %h1, -1;",
        "redux.sync.add.u16 %h0, %h1, -1;", "bar.red.popc.pred %p0, 0, %p1;", "cvta.global.u16 %h0, %h1;",
        "atom.global.min.b128 %q0, [%rd0], %q1;", "atom.global.add.pred %p0, [%rd0], %p1;",
        "cvt.u32.b128 %r0, %q0;", "cvt.u64.u32 _, %r0;", "add.u32 _, %r0, %r1;", "mapa.u16 %h0, %h1, 0;",
        "ld.global.v2.u32 {%r0, %rd1}, [%rd0];",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f64.f32 {%r0,%r1,%r2,%r3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, "
        "{%r0,%r1,%r2,%r3};"}) {
    const std::string what = report(around(wrong));
    CHECK_MESSAGE(what.find("unsupported instruction: ") != std::string::npos, std::string(wrong) << what);
  }
  std::string many = "add";
  for (int i = 0; i < 300000; ++i) many += ".u32";
  CHECK(report(around(many + " %r0, %r0, %r0;"))
            .find("it has 300000 modifiers, but no instruction has more than 64") != std::string::npos);
  const auto printed = [](const char* format) {
    std::string bytes;
    for (const char* c = format; *c; ++c) bytes += fmt::format("{}, ", static_cast<int>(*c));
    return report(around(
        "mov.u64 %rd1, line; { .param .b32 r; .param .b64 f; .param .b64 a; cvta.global.u64 %rd1, %rd1; "
        "st.param.b64 [f], %rd1; st.param.b64 [a], %rd0; call (r), vprintf, (f, a); }",
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n.global .b8 line[" +
            std::to_string(std::string_view(format).size() + 1) + "] = {" + bytes + "0};"));
  };
  CHECK(printed("%4096d") == "no fault");
  for (const char* format : {"%999999999d", "%.4097f", "%5.99999999999999999999e"})
    CHECK(printed(format).find("needs more than the 4096 characters") != std::string::npos);
  CHECK(report(around("mov.u32 %r0, 1; st.global.v2.u8 [%rd0], {%r0, 2};")) == "no fault");
  CHECK(report(around("atom.global.add.u32 _, [%rd0], 1;")) == "no fault");
}

TEST_CASE("emulator: a vector of another length, and a wait for fewer than no groups, are refused") {
  struct Case {
    const char *body, *says;
  };
  const Case cases[] = {
      {"atom.global.v2.f32.add {%r0, %r1}, [%rd0], {0f00000000, 0f00000000};", "no fault"},
      {"atom.global.v2.f32.add _, [%rd0], {0f00000000, 0f00000000};", "no fault"},
      {"atom.global.v2.f32.add {%r0, %r1, %r2}, [%rd0], {0f00000000, 0f00000000};",
       "its operands should be: atom.global.add.v2.f32 {d:=f32x2}, [{a:gmem}], {b:f32x2};"},
      {"atom.global.v2.f32.add %r0, [%rd0], {0f00000000, 0f00000000};",
       "its operands should be: atom.global.add.v2.f32 {d:=f32x2}, [{a:gmem}], {b:f32x2};"},
      {"cp.async.wait_group 0;", "no fault"},
      {"cp.async.wait_group -1;", "its operands should be: cp.async.wait_group {pending:imm<0..63>};"},
      {"cp.async.bulk.wait_group 0;", "no fault"},
      {"cp.async.bulk.wait_group.read -1;", "its operands should be: cp.async.bulk.wait_group.read {"},
      {"wgmma.wait_group.sync.aligned 0;", "no fault"},
      {"wgmma.wait_group.sync.aligned -1;", "its operands should be: wgmma.wait_group.sync.aligned {"},
      {"wgmma.wait_group.sync.aligned;", "its operands should be: wgmma.wait_group.sync.aligned {"},
  };
  for (const Case& c : cases) {
    const std::string what = report(around(c.body));
    CHECK_MESSAGE(what.find(c.says) != std::string::npos, std::string(c.body) << what);
  }
}

// p[tid] += n
const char* const adds = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry adds(.param .u64 p, .param .u32 n) {
.reg .b32 %r<4>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [p];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd3, %rd1, %rd2;
ld.global.u32 %r3, [%rd3];
add.u32 %r3, %r3, %r1;
st.global.u32 [%rd3], %r3;
ret;
})";

Signature adds_signature() {
  Signature s;
  s.kernel = "adds";
  s.threads = 32;
  s.parameters = {{.name = "p", .kind = Parameter::Kind::pointer, .dtype = DType::u32},
                  {.name = "n", .kind = Parameter::Kind::scalar, .dtype = DType::u32}};
  return s;
}

TEST_CASE("emulator: sixteen threads launch one kernel on one device") {
  auto device = open_emulator({});
  LoadedKernel kernel(*device, adds, adds_signature());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      Buffer mine = Buffer::of(*device, std::vector<uint32_t>(32, i));
      for (uint32_t round = 0; round < 5; ++round)
        kernel.launch({.grid = {1}}, {pointer(mine, DType::u32), scalar(100 * i)});
      device->synchronize();
      wrong += mine.copy_out<uint32_t>() != std::vector<uint32_t>(32, i + 500 * i);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("emulator: a graph runs what was recorded, as often as it is launched") {
  auto device = open_emulator({});
  LoadedKernel kernel(*device, adds, adds_signature());
  Buffer values = Buffer::of(*device, std::vector<uint32_t>(32, 7));
  std::vector<uint32_t> result(32, 0xdeadbeef);
  auto add = [&](Stream stream, uint32_t n) {
    kernel.launch({.grid = {1}, .stream = stream}, {pointer(values, DType::u32), scalar(n)});
  };
  auto graph = device->capture([&](Stream stream) {
    device->queue_fill(values.address(), 0, values.bytes(), stream);
    add(stream, 5);
    add(stream, 6);
    add({}, 1000);  // queued on the device's own stream, so it is not part of the graph
    device->queue_copy_out(result.data(), values.address(), values.bytes(), stream);
  });
  CHECK(values.copy_out<uint32_t>() == std::vector<uint32_t>(32, 1007));
  CHECK(result == std::vector<uint32_t>(32, 0xdeadbeef));
  for (int round = 0; round < 2; ++round) {
    graph->launch();
    device->synchronize();
    CHECK(result == std::vector<uint32_t>(32, 11));
    add({}, 1);
  }
  CHECK_THROWS_WITH(device->capture([](Stream) { throw std::runtime_error("their own"); }), "their own");
  add({}, 1);
  CHECK(values.copy_out<uint32_t>() == std::vector<uint32_t>(32, 13));

  // One queue serves all streams, so an event is complete when it is queried.
  auto stream = device->create_stream();
  auto event = device->create_event();
  add(*stream, 2);
  event->record(*stream);
  event->hold({});
  CHECK(event->is_done());
  CHECK(values.copy_out<uint32_t>() == std::vector<uint32_t>(32, 15));
}

// CTA i stores a line of 128 bytes of its own, and in the last launch all CTAs store the same line.
TEST_CASE("emulator: a launch after others knows its own accesses to global memory, and not theirs") {
  Bench bench(R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 last, .param .u32 apart) {
.reg .b32 %r<8>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [last]; ld.param.u32 %r5, [apart];
mov.u32 %r2, %ctaid.x; xor.b32 %r2, %r2, %r1; mov.u32 %r3, %tid.x;
mad.lo.s32 %r4, %r2, %r5, %r3; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd1, %rd1, %rd2;
st.global.u32 [%rd1], %r2; ret;
})",
              32, {});
  const std::vector<uint32_t> zeros(8 * 32);
  const Address first = bench.upload(zeros), second = bench.upload(zeros);
  bench.run({8, 1, 1}, 0, first, uint32_t{0}, uint32_t{32});
  bench.run({8, 1, 1}, 0, second, uint32_t{7}, uint32_t{32});
  for (uint32_t i = 0; i < 8; ++i) CHECK(bench.download<uint32_t>(second, zeros.size())[32 * i] == i);
  CHECK_THROWS_AS(bench.run({8, 1, 1}, 0, first, uint32_t{0}, uint32_t{0}), EmulatorError);
}

// Schedules of a seed stay what they were, so that a seed that found something finds it again.
TEST_CASE("emulator: schedules draw the numbers of std::mt19937_64") {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0x9e3779b97f4a7c15}}) {
    std::mt19937_64 engine(seed);
    emulator::RandomNumbers numbers(seed);
    for (int i = 0; i < 1000; ++i) REQUIRE(numbers() == engine());
  }
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_device_test
