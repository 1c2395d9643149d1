// Tests that the lanes of a warp are independent. They exit separately, wait for each other, and converge
// where the program requires it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "emulator_kit.h"

namespace ptxbuilder::runtime::emulator_threads_test {
namespace {

// Returns a kernel of `threads` threads around `body`. Registers: %r0 is tid.x, %r1 the lane, %rd0 the
// address of an array in global memory with an initially zero word for each thread, %rd1 the address of this
// thread's word, %r2 the address of `lock` in shared memory, %r3 tile + 4 tid.
std::string kernel(const std::string& body) {
  return fmt::format(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {{
.shared .align 8 .b8 lock[8]; .shared .align 16 .b8 tile[1024];
.reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p<6>; .reg .f32 %f<8>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %laneid; mov.u32 %r2, lock; mov.u32 %r3, tile; shl.b32 %r4, %r0, 2; add.u32 %r3, %r3, %r4;
ld.param.u64 %rd0, [p]; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd0, %rd1;
{}
ret;
}}
)",
                     body);
}

// The words that all threads have stored on every schedule, or the first report.
struct Result {
  std::vector<uint32_t> words;
  std::optional<Fault> fault;
  std::string what;
};

Result run_text(const std::string& text, uint32_t threads, uint64_t seeds) {
  Result r;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    EmulatorOptions options;
    options.seed = seed;
    r.fault = fault_of(
        [&] {
          Bench bench(text, threads, options);
          Address p = bench.upload(std::vector<uint32_t>(threads));
          bench.run_for(std::chrono::seconds(10), {1, 1, 1}, 0, p);
          const auto words = bench.download<uint32_t>(p, threads);
          if (seed == 0) r.words = words;
          CHECK(words == r.words);
        },
        &r.what);
    if (r.fault) return r;
  }
  return r;
}

Result run(const std::string& body, uint32_t threads = 64, uint64_t seeds = 12) {
  return run_text(kernel(body), threads, seeds);
}

// Returns `threads` words. The first `below` words are `value`, and the others are 0.
std::vector<uint32_t> constant(uint32_t threads, uint32_t value, uint32_t below = 1000) {
  std::vector<uint32_t> words(threads);
  for (uint32_t i = 0; i < std::min(threads, below); ++i) words[i] = value;
  return words;
}

void check(const char* name, const std::string& body, const std::vector<uint32_t>& expected) {
  CAPTURE(name);
  const Result r = run(body, static_cast<uint32_t>(expected.size()));
  CHECK_MESSAGE(!r.fault, r.what);
  CHECK(r.words == expected);
}

const std::string early = "setp.ge.u32 %p1, %r0, 50;\n@%p1 bra END;\n";

TEST_CASE("emulator: lanes that return leave, also those that jump to the last ret") {
  check("bar.sync",
        early +
            "st.shared.b32 [%r3], 7;\nbar.sync 0;\nld.shared.b32 %r5, [tile+4];\nst.global.b32 [%rd1], "
            "%r5;\nEND:",
        constant(64, 7, 50));
  check("barrier.sync without .aligned",
        early +
            "st.shared.b32 [%r3], 7;\nbarrier.sync 0;\nld.shared.b32 %r5, [tile+4];\nst.global.b32 [%rd1], "
            "%r5;\nEND:",
        constant(64, 7, 50));
  check("barrier.sync for a count of threads",
        early + "barrier.sync 1, 64;\nst.global.b32 [%rd1], 3;\nEND:", constant(64, 3, 50));
  check("barrier.red",
        early +
            "setp.lt.u32 %p2, %r0, 60;\nbarrier.red.popc.u32 %r5, 0, %p2;\nst.global.b32 [%rd1], %r5;\nEND:",
        constant(64, 50, 50));
  check("bar.warp.sync", early + "bar.warp.sync -1;\nst.global.b32 [%rd1], 3;\nEND:", constant(64, 3, 50));
  check("a vote",
        early +
            "setp.lt.u32 %p2, %r0, 60;\nvote.sync.all.pred %p3, %p2, -1;\nselp.u32 %r5, 1, 2, %p3;\n"
            "st.global.b32 [%rd1], %r5;\nEND:",
        constant(64, 1, 50));
  check("a shuffle", early + "shfl.sync.idx.b32 %r5, %r1, 4, 31, -1;\nst.global.b32 [%rd1], %r5;\nEND:",
        constant(64, 4, 50));
  check("the barrier of a cluster",
        early + "barrier.cluster.arrive;\nbarrier.cluster.wait;\nst.global.b32 [%rd1], 3;\nEND:",
        constant(64, 3, 50));
  check("those that arrived and left without waiting count once",
        "setp.lt.u32 %p1, %r0, 40;\n@%p1 bra A;\nbarrier.arrive 2, 64;\nbra END;\nA: barrier.sync 2, "
        "64;\nst.global.b32 [%rd1], 3;\nEND:",
        constant(64, 3, 40));
}

TEST_CASE("emulator: lanes of a warp that wait for each other go on") {
  check(
      "a lock that every lane takes",
      "setp.eq.u32 %p1, %r0, 0;\n@%p1 st.shared.b32 [%r2], 0;\n@%p1 st.shared.b32 [%r2+4], 0;\nbar.sync 0;\n"
      "L: atom.acquire.cta.shared.cas.b32 %r5, [%r2], 0, 1;\nsetp.ne.u32 %p2, %r5, 0;\n@%p2 bra L;\n"
      "ld.shared.b32 %r6, [%r2+4];\nadd.u32 %r6, %r6, 1;\nst.shared.b32 [%r2+4], %r6;\n"
      "atom.release.cta.shared.exch.b32 %r7, [%r2], 0;\nbar.sync 0;\nld.shared.b32 %r6, [%r2+4];\n"
      "st.global.b32 [%rd1], %r6;",
      constant(64, 64));
  check("a lane waits for what the next one stores",
        "st.shared.b32 [%r3], 0;\nbar.warp.sync -1;\nsetp.eq.u32 %p1, %r1, 31;\n@%p1 bra T;\n"
        "W: ld.volatile.shared.b32 %r5, [%r3+4];\nsetp.eq.u32 %p2, %r5, 0;\n@%p2 bra W;\n"
        "T: st.volatile.shared.b32 [%r3], 1;\nst.global.b32 [%rd1], 1;",
        constant(32, 1));
}

// Returns the kernel preceded by functions.
std::string with(const std::string& functions, const std::string& body) {
  std::string text = kernel(body);
  return text.insert(text.find(".visible"), functions);
}

void check_calls(const char* name, const std::string& functions, const std::string& body,
                 const std::vector<uint32_t>& expected) {
  CAPTURE(name);
  const Result r = run_text(with(functions, body), static_cast<uint32_t>(expected.size()), 4);
  CHECK_MESSAGE(!r.fault, r.what);
  CHECK(r.words == expected);
}

const std::string factorial = R"(.func (.param .b32 r) f(.param .b32 n) {
.reg .b32 %a<4>; .reg .pred %q;
ld.param.u32 %a1, [n]; setp.gt.u32 %q, %a1, 1; @%q bra MORE; st.param.b32 [r], 1; ret;
MORE: sub.u32 %a2, %a1, 1;
{ .param .b32 x; st.param.b32 [x], %a2; .param .b32 y; call.uni (y), f, (x); ld.param.b32 %a3, [y]; }
mul.lo.u32 %a3, %a3, %a1; st.param.b32 [r], %a3; ret; }
)";

TEST_CASE("emulator: functions call themselves and each other, by name and by address") {
  const auto of = [](auto f) {
    std::vector<uint32_t> words(32);
    for (uint32_t i = 0; i < 32; ++i) words[i] = f(i);
    return words;
  };
  check_calls(
      "recursion whose depth differs between lanes", factorial,
      "rem.u32 %r5, %r1, 9;\n{ .param .b32 x; st.param.b32 [x], %r5; .param .b32 y; call (y), f, (x); "
      "ld.param.b32 %r6, [y]; }\nst.global.b32 [%rd1], %r6;",
      of([](uint32_t i) {
        uint32_t product = 1;
        for (uint32_t k = 2; k <= i % 9; ++k) product *= k;
        return product;
      }));
  check_calls(
      "two functions that call each other, with arguments in registers, one under a guard",
      ".func (.reg .u32 r) odd(.reg .u32 n);\n"
      ".func (.reg .u32 r) even(.reg .u32 n) { .reg .pred q; .reg .u32 m; setp.eq.u32 q, n, 0; mov.u32 r, 1; "
      "sub.u32 m, n, 1; @!q call (r), odd, (m); ret; }\n"
      ".func (.reg .u32 r) odd(.reg .u32 n) { .reg .pred q; .reg .u32 m; setp.eq.u32 q, n, 0; mov.u32 r, 0; "
      "@q "
      "ret; sub.u32 m, n, 1; call (r), even, (m); ret; }\n",
      "call (%r5), even, (%r1);\nst.global.b32 [%rd1], %r5;", of([](uint32_t i) { return 1 - i % 2; }));
  check_calls(
      "a pointer to a variable of the caller",
      ".func add(.param .b64 p, .param .b32 n) { .reg .b64 %a; .reg .b32 %b<4>; .reg .pred %q; .local .b32 "
      "own;\n"
      "ld.param.u64 %a, [p]; ld.param.u32 %b1, [n]; setp.eq.u32 %q, %b1, 0; @%q ret;\n"
      "st.local.u32 [own], %b1; ld.u32 %b2, [%a]; add.u32 %b2, %b2, %b1; st.u32 [%a], %b2; sub.u32 %b1, %b1, "
      "1;\n"
      "{ .param .b64 x; st.param.b64 [x], %a; .param .b32 y; st.param.b32 [y], %b1; call add, (x, y); }\n"
      "ld.local.u32 %b3, [own]; ld.u32 %b2, [%a]; add.u32 %b2, %b2, %b3; st.u32 [%a], %b2; ret; }\n",
      ".local .b32 sum; .reg .b64 %q<3>;\nst.local.u32 [sum], 0; mov.u64 %q1, sum; cvta.local.u64 %q1, %q1;\n"
      "{ .param .b64 x; st.param.b64 [x], %q1; .param .b32 y; st.param.b32 [y], %r1; call add, (x, y); }\n"
      "ld.local.u32 %r5, [sum];\nst.global.b32 [%rd1], %r5;",
      of([](uint32_t i) { return i * (i + 1); }));
  check_calls(
      "calls by address, from a table, where lanes call two functions",
      ".func (.param .b32 r) twice(.param .b32 n) { .reg .b32 %a; ld.param.u32 %a, [n]; add.u32 %a, %a, %a; "
      "st.param.b32 [r], %a; ret; }\n"
      ".func (.param .b32 r) square(.param .b32 n) { .reg .b32 %a; ld.param.u32 %a, [n]; mul.lo.u32 %a, %a, "
      "%a; "
      "st.param.b32 [r], %a; ret; }\n.global .align 8 .u64 table[2] = {twice, square};\n"
      ".alias again, twice;\n",
      "and.b32 %r5, %r1, 1; mul.wide.u32 %rd2, %r5, 8; mov.u64 %rd3, table; add.s64 %rd2, %rd2, %rd3; "
      "ld.global.u64 %rd4, [%rd2];\n{ .param .b32 x; st.param.b32 [x], %r1; .param .b32 y;\n"
      "P: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (y), %rd4, (x), P; ld.param.b32 %r6, [y]; "
      "}\n"
      "{ .param .b32 x; st.param.b32 [x], %r6; .param .b32 y; call (y), again, (x); ld.param.b32 %r6, [y]; "
      "}\n"
      "st.global.b32 [%rd1], %r6;",
      of([](uint32_t i) { return 2 * (i % 2 ? i * i : 2 * i); }));
  check_calls(
      "alloca, where each lane asks for as much as it wants", "",
      "add.u32 %r5, %r1, 1; mul.wide.u32 %rd2, %r5, 4; stacksave.u64 %rd5; alloca.u64 %rd3, %rd2, 16; "
      "mul.wide.u32 %rd4, %r1, 4; add.u64 %rd3, %rd3, %rd4; st.local.u32 [%rd3], %r1; "
      "ld.local.u32 %r6, [%rd3]; stackrestore.u64 %rd5;\nst.global.b32 [%rd1], %r6;",
      of([](uint32_t i) { return i; }));
  check_calls("malloc",
              ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);\n",
              "{ .param .b64 x; st.param.b64 [x], 4; .param .b64 y; call (y), malloc, (x); ld.param.b64 "
              "%rd2, [y]; }\n"
              "st.u32 [%rd2], %r1; ld.u32 %r5, [%rd2];\n"
              "{ .param .b64 x; st.param.b64 [x], %rd2; call free, (x); }\nst.global.b32 [%rd1], %r5;",
              of([](uint32_t i) { return i; }));
  check_calls("registers of vector types", "",
              ".reg .v2 .u32 %v; .reg .v4 .b32 %q<2>;\nmov.v2.u32 %v, {%r1, 5}; add.u32 %r5, %v.x, %v.y; "
              "mov.v4.b32 %q1, {%r5, 0, 0, 0}; mov.u32 %q1.g, 1; add.u32 %r5, %q1.r, %q1.y;\nst.global.b32 "
              "[%rd1], %r5;",
              of([](uint32_t i) { return i + 6; }));
}

TEST_CASE("emulator: calls that cannot be are named") {
  const auto fault = [](const std::string& functions, const std::string& body, std::string* what) {
    const Result r = run_text(with(functions, body), 32, 1);
    *what = r.what;
    return r.fault;
  };
  std::string what;
  CHECK(fault(".func f() { call f; ret; }\n", "call f;", &what) == Fault::out_of_bounds);
  CHECK_MESSAGE(what.find("are nested so deeply") != std::string::npos, what);
  CHECK(fault("", "mov.u64 %rd2, 5;\ncall %rd2, P;\nP: .callprototype _ ();", &what) == Fault::operand);
  CHECK_MESSAGE(what.find("0x5 is not the address of a function") != std::string::npos, what);
  CHECK(
      fault(
          ".func f(.param .b64 p) { ret; }\n",
          "mov.u64 %rd2, f;\n{ .param .b32 x; st.param.b32 [x], 1; call %rd2, (x), P; }\nP: .callprototype _ "
          "(.param .b32 _);",
          &what) == Fault::operand);
  CHECK_MESSAGE(what.find("the arguments of this call are not those of f") != std::string::npos, what);
  CHECK(fault("", "alloca.u64 %rd2, 1000000, 16;", &what) == Fault::out_of_bounds);
  CHECK(fault("", "stackrestore.u64 64;", &what) == Fault::operand);
}

TEST_CASE("emulator: each group of lanes has its own mask") {
  const std::string group =
      "and.b32 %r5, %r1, 24;\nmov.u32 %r6, 255;\nshl.b32 %r6, %r6, %r5;\n";  // the mask of the lane's group
                                                                             // of eight
  auto sums = constant(32, 0);
  for (uint32_t i = 0; i < 32; ++i) sums[i] = 8 * (i / 8 * 8) + 28;
  check("a sum of each eight lanes", group + "redux.sync.add.u32 %r7, %r1, %r6;\nst.global.b32 [%rd1], %r7;",
        sums);
  check(
      "the same by shuffles",
      group +
          "mov.u32 %r7, %r1;\nshfl.sync.bfly.b32 %r8, %r7, 4, 0x181f, %r6;\nadd.u32 %r7, %r7, %r8;\n"
          "shfl.sync.bfly.b32 %r8, %r7, 2, 0x181f, %r6;\nadd.u32 %r7, %r7, %r8;\n"
          "shfl.sync.bfly.b32 %r8, %r7, 1, 0x181f, %r6;\nadd.u32 %r7, %r7, %r8;\nst.global.b32 [%rd1], %r7;",
      sums);
  auto alike = constant(32, 0);
  for (uint32_t i = 0; i < 32; ++i) alike[i] = (i % 5 < 2 ? 7u : 6u);
  check("lanes of one value, which match.sync finds",
        "rem.u32 %r5, %r1, 5;\nmatch.any.sync.b32 %r6, %r5, -1;\nredux.sync.add.u32 %r7, 1, %r6;\n"
        "st.global.b32 [%rd1], %r7;",
        alike);
  check("one warp barrier for lanes that come from several places",
        "st.shared.b32 [%r3], %r1;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bra A;\nbar.warp.sync -1;\nmov.u32 %r5, "
        "2;\nbra "
        "B;\nA: mov.u32 %r5, 2;\nbar.warp.sync -1;\nB: st.global.b32 [%rd1], %r5;",
        constant(32, 2));
  check("a guard that only some lanes pass",
        "setp.lt.u32 %p1, %r1, 16;\nmov.u32 %r5, 9;\n@%p1 redux.sync.add.u32 %r5, 1, 0xffff;\n"
        "@!%p1 redux.sync.add.u32 %r5, 1, 0xffff0000;\nst.global.b32 [%rd1], %r5;",
        constant(32, 16));
}

TEST_CASE("emulator: an .aligned instruction of a part of a warp is named, whichever it is") {
  const std::string half = "setp.ge.u32 %p1, %r1, 16;\n";
  for (const char* instruction :
       {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r2];",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r0};",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r0, %r0, %r0}, "
        "{%r0, %r0}, "
        "{0f00000000, 0f00000000, 0f00000000, 0f00000000};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r0;", "wgmma.fence.sync.aligned;",
        "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;",
        "setmaxnreg.dec.sync.aligned.u32 24;", "bar.sync 0;", "barrier.sync.aligned 0;", "bar.arrive 1, 128;",
        "barrier.cluster.arrive.aligned;"}) {
    CAPTURE(instruction);
    const std::string call = std::string(instruction) + "\n";
    for (const std::string& body :
         {half + "@%p1 bra A;\n" + call + "A: bar.sync 0;",
          half + "@%p1 bra A;\n" + call + "bra B;\nA: " + call + "B:", half + "@%p1 " + call}) {
      CAPTURE(body);
      const Result r = run(body, 128, 4);
      CHECK_MESSAGE(r.fault == Fault::divergence, r.what);
      CHECK_MESSAGE(r.what.find("of the warp must execute it together") != std::string::npos, r.what);
    }
  }
}

// ptxas 13.0 prints these register counts with -v for kernels that use setmaxnreg.
TEST_CASE("emulator: setmaxnreg begins with the registers that ptxas gives, and shares them") {
  const auto ran = [](uint32_t threads, int ctas, const char* of_first, const char* of_others) {
    std::string text =
        kernel(fmt::format("setp.lt.u32 %p1, %r0, 128;\n@%p1 bra A;\nsetmaxnreg.{}.sync.aligned.u32 "
                           "{};\nbra B;\nA: setmaxnreg.{}.sync.aligned.u32 {};\nB:",
                           std::string(of_others).substr(0, 3), std::string(of_others).substr(4),
                           std::string(of_first).substr(0, 3), std::string(of_first).substr(4)));
    text.insert(text.find(") {") + 1, fmt::format(" .maxntid {} .minnctapersm {} ", threads, ctas));
    return run_text(text, threads, 4);
  };
  const auto fits = [&](uint32_t threads, int ctas, const char* of_first, const char* of_others) {
    const Result r = ran(threads, ctas, of_first, of_others);
    CHECK_MESSAGE(!r.fault, r.what);
  };
  fits(256, 1, "dec 24", "inc 240");  // 240 at entry
  fits(384, 1, "dec 40", "inc 232");  // 168 at entry
  fits(288, 1, "dec 24",
       "inc 168");  // 168 at entry, because the incomplete third warpgroup counts as a complete one
  fits(256, 2, "dec 24", "inc 232");   // 128 at entry
  fits(512, 1, "dec 128", "inc 128");  // 128 at entry
  fits(128, 1, "dec 24", "inc 256");   // 256 at entry
  const auto fails = [&](uint32_t threads, int ctas, const char* of_first, const char* of_others,
                         const char* says) {
    const Result r = ran(threads, ctas, of_first, of_others);
    CHECK_MESSAGE(r.fault == Fault::register_budget, r.what);
    CHECK_MESSAGE(r.what.find(says) != std::string::npos, r.what);
  };
  fails(256, 2, "dec 24", "inc 240", "has 128 per thread");
  fails(384, 1, "dec 40", "inc 240", "waits for registers that nobody gives back");
  fails(384, 1, "dec 176", "inc 240", "setmaxnreg.dec to 176 registers, but the warp has 168");
}

// A warp stores a word, another warp loads it, and no barrier orders the two.
TEST_CASE("emulator: a line that is delayed comes after all that can go on without it") {
  const std::string text = kernel(
      "st.shared.u32 [tile], 0; bar.sync 0; setp.lt.u32 %p1, %r0, 32; @%p1 bra A; bra B;\n"
      "A: st.shared.u32 [tile], 7;\n"
      "bra C;\nB: ld.shared.u32 %r5, [tile];\nst.global.u32 [%rd1], %r5;\nC:");
  const auto line_of = [&](const char* instruction) {
    return static_cast<uint32_t>(
        std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(text.find(instruction)), '\n') + 1);
  };
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (const auto& [line, expected] :
         {std::pair(line_of("st.shared.u32 [tile], 7"), 0u), std::pair(line_of("ld.shared.u32 %r5"), 7u)}) {
      EmulatorOptions options;
      options.seed = seed;
      options.race_check = false;
      options.delayed = {line};
      Bench bench(text, 64, options);
      const Address p = bench.upload(std::vector<uint32_t>(64, 99));
      bench.run({1, 1, 1}, 0, p);
      CAPTURE(seed);
      CHECK(bench.download<uint32_t>(p, 64)[40] == expected);
    }
  EmulatorOptions options;
  options.delayed = {1};
  CHECK_THROWS_WITH_AS(open_emulator(options)->load(text, signature_of(text, 64)),
                       "ptx: a delay was requested for line 1, but kernel k has no instruction there", Error);
}

TEST_CASE("emulator: a mask that leaves out its own lane is named") {
  const Result r = run("redux.sync.add.u32 %r5, %r1, 0x7fffffff;", 32, 1);
  CHECK(r.fault == Fault::divergence);
  CHECK_MESSAGE(r.what.find("lane 31") != std::string::npos, r.what);
}

// Returns a kernel of two warps of a CTA around `body`. Each lane accesses shared memory at its own arbitrary
// address. Registers: %r0 is tid.x, %r1 the lane, %r2 the address of 4 KB of shared memory, %p0 "warp 0", %p1
// "this lane takes part", %r3 the address that the lane accesses, %r4 its value, %rd0 the address of 16 bytes
// of results for each thread.
std::string scattered_kernel(const std::string& body) {
  return fmt::format(R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 places, .param .u64 lanes, .param .u64 results) {{
.shared .align 16 .b8 data[4096];
.reg .b16 %h<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p<4>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %laneid; mov.u32 %r2, data; setp.lt.u32 %p0, %r0, 32;
ld.param.u64 %rd1, [places]; ld.param.u64 %rd2, [lanes]; ld.param.u64 %rd0, [results];
mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; ld.global.u32 %r3, [%rd1]; add.u32 %r3, %r3, %r2;
ld.global.u32 %r5, [%rd2]; shr.u32 %r5, %r5, %r1; and.b32 %r5, %r5, 1; setp.ne.u32 %p1, %r5, 0;
mul.wide.u32 %rd3, %r0, 16; add.u64 %rd0, %rd0, %rd3; mad.lo.u32 %r4, %r1, 0x01010101, 0x10203040;
{}
ret;
}}
)",
                     body);
}

struct Trial {
  std::vector<uint32_t> places;  // offset of each lane in shared memory
  uint32_t lanes = ~0u;          // mask of the lanes that take part
  uint64_t seed = 0;
  std::vector<std::string> notes = {};
};

// Returns the results, 4 words for each thread.
std::vector<uint32_t> run_scattered(const std::string& body, Trial& trial, uint32_t threads = 64) {
  EmulatorOptions options;
  options.seed = trial.seed;
  options.note = [&](const std::string& text) { trial.notes.push_back(text); };
  Bench bench(scattered_kernel(body), threads, options);
  const Address places = bench.upload(trial.places), lanes = bench.upload(std::vector<uint32_t>{trial.lanes}),
                results = bench.upload(std::vector<uint32_t>(256, 0xeeeeeeee));
  bench.run({1, 1, 1}, 0, places, lanes, results);
  return bench.download<uint32_t>(results, 256);
}

// Returns offsets for 32 lanes in arbitrary order, at least `size` apart.
std::vector<uint32_t> anywhere(uint32_t size, uint32_t seed) {
  std::vector<uint32_t> all(4096 / size);
  std::iota(all.begin(), all.end(), 0);
  std::ranges::shuffle(all, std::mt19937(seed));
  all.resize(32);
  for (uint32_t& place : all) place *= size;
  return all;
}

std::string report(const std::string& body, Trial trial) {
  std::string what = "no fault";
  fault_of([&] { run_scattered(body, trial); }, &what);
  return what;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("lanes store and load anywhere, of every width, all of them or some") {
  struct Width {
    const char* type;
    const char* stored;  // PTX that computes %r4 and the values derived from it
    uint32_t size, words;
  };
  const Width widths[] = {{"u8", "%r4", 1, 1},
                          {"u16", "%h0", 2, 1},
                          {"u32", "%r4", 4, 1},
                          {"b64", "%rd4", 8, 2},
                          {"v2.u32", "{%r4, %r6}", 8, 2},
                          {"v2.u16", "{%h0, %h1}", 4, 1},
                          {"v4.u32", "{%r4, %r6, %r7, %r8}", 16, 4},
                          {"v2.b64", "{%rd4, %rd5}", 16, 4}};
  for (const Width& w : widths)
    for (const uint32_t lanes : {~0u, 0x80000001u, 0x5a5af00fu, 0x00000040u}) {
      CAPTURE(w.type);
      CAPTURE(lanes);
      Trial trial{anywhere(w.size, w.size + lanes % 7), lanes};
      // Each lane stores, and loads from the same place, which no other lane overwrites. It then stores the
      // loaded registers, 16 bytes in all, as its result.
      const std::string loaded = w.size == 1   ? "ld.shared.u8 %r10, [%r3];"
                                 : w.size == 2 ? "ld.shared.u16 %r10, [%r3];"
                                 : w.words == 1
                                     ? "ld.shared.u32 %r10, [%r3];"
                                     : (w.words == 2 ? "ld.shared.v2.u32 {%r10, %r11}, [%r3];"
                                                     : "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r3];");
      const std::vector<uint32_t> out = run_scattered(
          fmt::format("add.u32 %r6, %r4, 1; add.u32 %r7, %r4, 2; add.u32 %r8, %r4, 3;\n"
                      "mov.b32 {{%h0, %h1}}, %r4; mov.b64 %rd4, {{%r4, %r6}}; mov.b64 %rd5, {{%r7, %r8}};\n"
                      "mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0;\n"
                      "@%p1 st.shared.{} [%r3], {}; bar.warp.sync -1; @%p1 {}\n"
                      "st.global.v4.u32 [%rd0], {{%r10, %r11, %r12, %r13}};",
                      w.type, w.stored, loaded),
          trial, 32);
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t value = lane * 0x01010101 + 0x10203040,
                       mask = w.size < 4 ? (1u << 8 * w.size) - 1 : ~0u;
        for (uint32_t k = 0; k < 4; ++k)
          CHECK(out[4 * lane + k] == (lanes >> lane & 1 && k < w.words ? (value + k) & mask : 0));
      }
      CHECK(trial.notes.empty());
    }
}

TEST_CASE("of lanes anywhere, the one that is wrong is named") {
  const std::string store = "@%p0 st.shared.u32 [%r3], %r4;", load = "@!%p0 ld.shared.u32 %r10, [%r3];",
                    show = "@!%p0 st.global.u32 [%rd0], %r10;";
  Trial trial{anywhere(4, 3)};
  CHECK(report(store + "bar.sync 0;" + load + show, trial) == "no fault");
  // A lane of another warp accesses the place before any barrier. Each lane is tested alone, so that the
  // report names it.
  for (const int lane : {0, 9, 31}) {
    CAPTURE(lane);
    Trial one = trial;
    one.lanes = 1u << lane;
    const std::string text = report("@%p1 bra S; bra T; S: " + store + " T: " + load + show, one);
    CHECK(has(text, "race"));
    CHECK(has(text, fmt::format("data+{}", one.places[static_cast<size_t>(lane)])));
  }
  // A lane of the same warp accesses the place.
  const std::string apart =
      "xor.b32 %r6, %r1, 3; mad.lo.u32 %r6, %r6, 132, %r2; mad.lo.u32 %r3, %r1, 132, %r2;"
      "@%p0 st.shared.u32 [%r3], %r4; {}"
      "@%p0 ld.shared.u32 %r10, [%r6]; @%p0 st.global.u32 [%rd0], %r10;";
  CHECK(has(report(fmt::format(fmt::runtime(apart), ""), trial), "of this warp wrote"));
  CHECK(report(fmt::format(fmt::runtime(apart), "bar.warp.sync -1;"), trial) == "no fault");
  // One lane is out of bounds, at a misaligned address, or reads what nothing has written.
  for (const uint32_t lane : {0u, 17u, 31u}) {
    CAPTURE(lane);
    const std::string name = fmt::format(", lane {}", lane);
    Trial outside = trial, odd = trial;
    outside.places[lane] = 4096;
    odd.places[lane] += 2;
    const std::string of_outside = report(store, outside), of_odd = report(store, odd);
    CHECK(has(of_outside, "outside the CTA's"));
    CHECK(has(of_outside, name));
    CHECK(has(of_odd, "not a multiple of the 4 B"));
    CHECK(has(of_odd, name));
    Trial unwritten = trial;
    unwritten.lanes = ~(1u << lane);
    CHECK(has(report("@%p1 bra S; bra T; S: " + store + " T: bar.sync 0;" + load + show, unwritten),
              fmt::format("data+{}, which nothing had written", unwritten.places[lane])));
  }
  // Two warps that store the same value cause a note; if the values differ, they cause a race.
  Trial same = trial, other = trial;
  run_scattered("st.shared.u32 [%r3], %r4;", same);
  REQUIRE(!same.notes.empty());
  CHECK(has(same.notes[0], "the value that is already there"));
  CHECK(has(report("add.u32 %r4, %r4, %r0; st.shared.u32 [%r3], %r4;", other), "race"));
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_threads_test
