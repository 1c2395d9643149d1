// Tests stores, reductions and copies that signal an mbarrier, within a CTA and across a cluster; tensor maps
// that a kernel changes; and instructions that are refused by name. Each has its own mutants.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <numeric>

#include "emulator_kit.h"
#include "error_kit.h"

namespace ptxbuilder::runtime::emulator_async_test {
namespace {

const std::string head = ".version 8.6\n.target sm_90a\n.address_size 64\n";

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

// Runs a kernel with one pointer and `ctas` CTAs, and returns the contents of the buffer after it. The buffer
// starts as `out`.
template <class T>
std::vector<T> run(const std::string& text, uint32_t ctas, uint32_t threads, const std::vector<T>& out,
                   uint64_t seed) {
  EmulatorOptions options;
  options.seed = seed;
  Bench bench(text, threads, options);
  Address at = bench.upload(out);
  bench.run({ctas, 1, 1}, 0, at);
  return bench.download<T>(at, out.size());
}

// Tries up to 20 seeds, and returns the first fault.
template <class F>
std::optional<Fault> first_fault(F run_seed, std::string* what = nullptr) {
  std::optional<Fault> fault;
  for (uint64_t seed = 0; seed < 20 && !fault; ++seed) fault = fault_of([&] { run_seed(seed); }, what);
  return fault;
}

// Returns a kernel with two CTAs. `body` sends data to %r3, the address of the other CTA's `box` of 512
// bytes, and signals the mbarrier %r4 there. The data is then written to global memory.
std::string exchange(const std::string& body, int expected) {
  return head + fmt::format(R"(.visible .entry k(.param .u64 out) .reqnctapercluster 2, 1, 1 {{
.shared .align 16 .b8 box[512]; .shared .align 16 .b8 mine[512]; .shared .align 8 .b8 bar[8];
.reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .f32 %f<4>; .reg .pred %p<4>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;
mov.u32 %r3, box; mov.u32 %r4, bar; mapa.shared::cluster.u32 %r3, %r3, %r2; mapa.shared::cluster.u32 %r4, %r4, %r2;
mov.u32 %r5, box; mov.u32 %r6, bar; mov.u32 %r7, mine; shl.b32 %r8, %r0, 4; add.u32 %r9, %r5, %r8; add.u32 %r10, %r7, %r8; add.u32 %r11, %r3, %r8;
mul.lo.u32 %r12, %r1, 1000; add.u32 %r12, %r12, %r0;
st.shared.v4.b32 [%r9], {{7, 7, 7, 7}};
st.shared.v4.b32 [%r10], {{%r12, %r12, %r12, %r12}};
setp.ne.u32 %p0, %r0, 0;
@%p0 bra A;
mbarrier.init.shared::cta.b64 [%r6], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], {};
A: fence.proxy.async; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
{}
W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r6], 0; @!%p1 bra W;
ld.shared.v4.b32 {{%r12, %r13, %r14, %r15}}, [%r9];
ld.param.u64 %rd0, [out]; mad.lo.u32 %r16, %r1, 512, %r8; cvt.u64.u32 %rd1, %r16; add.s64 %rd0, %rd0, %rd1;
st.global.v4.b32 [%rd0], {{%r12, %r13, %r14, %r15}};
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;
}})",
                            expected, body);
}

struct Exchange {
  const char *what, *body;
  int bytes;  // bytes that arrive
  std::function<uint32_t(uint32_t cta, uint32_t word)> expected;
};

TEST_CASE("emulator: what is sent to the other CTA of a cluster is there when its mbarrier says so") {
  const Exchange exchanges[] = {
      {"st.async.v4",
       "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r11], {%r12, %r0, %r12, 5}, "
       "[%r4];",
       512,
       [](uint32_t cta, uint32_t word) {
         const uint32_t lane = word / 4;
         return word % 4 == 3 ? 5 : word % 4 == 1 ? lane : (1 - cta) * 1000 + lane;
       }},
      {"st.async.b64",
       "mov.b64 %rd2, {%r12, %r0}; st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%r11+8], %rd2, "
       "[%r4];",
       256,
       [](uint32_t cta, uint32_t word) {
         return word % 4 < 2 ? 7 : word % 4 == 3 ? word / 4 : (1 - cta) * 1000 + word / 4;
       }},
      {"red.async.add",
       "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r3+16], %r12, "
       "[%r4];",
       128, [](uint32_t cta, uint32_t word) { return word == 4 ? 7 + (1 - cta) * 32000 + 31 * 16 : 7u; }},
      {"red.async.max of s32",
       "neg.s32 %r12, %r12; red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.max.s32 "
       "[%r11], %r12, [%r4];",
       128, [](uint32_t, uint32_t) { return 7u; }},
      {"red.async.xor",
       "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.xor.b32 [%r11], %r12, [%r4];",
       128, [](uint32_t cta, uint32_t word) { return word % 4 ? 7 : ((1 - cta) * 1000 + word / 4) ^ 7u; }},
      {"cp.async.bulk",
       "@!%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [%r7], 512, "
       "[%r4];",
       512, [](uint32_t cta, uint32_t word) { return (1 - cta) * 1000 + word / 4; }},
      {"cp.reduce.async.bulk",
       "@!%p0 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.s32 [%r3], "
       "[%r7], 512, [%r4];",
       512, [](uint32_t cta, uint32_t word) { return 7 + (1 - cta) * 1000 + word / 4; }},
      {"two of these at once",
       "setp.gt.u32 %p2, %r0, 1; @!%p2 "
       "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::"
       "bytes.add.s32 [%r3], [%r7], 512, [%r4];",
       1024, [](uint32_t cta, uint32_t word) { return 7 + 2 * ((1 - cta) * 1000 + word / 4); }}};
  for (const Exchange& e : exchanges) {
    CAPTURE(e.what);
    auto run_text = [](const std::string& text, uint64_t seed) {
      return run(text, 2, 32, std::vector<uint32_t>(256), seed);
    };
    const std::string text = exchange(e.body, e.bytes);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      std::vector<uint32_t> out;
      std::string what;
      CHECK_MESSAGE(!fault_of([&] { out = run_text(text, seed); }, &what), what);
      int wrong = 0;
      for (uint32_t i = 0; i < out.size(); ++i) wrong += out[i] != e.expected(i / 128, i % 128);
      CHECK(wrong == 0);
    }
    auto fault = [&](const std::string& from, const std::string& to) {
      return first_fault([&](uint64_t seed) { run_text(changed(text, from, to), seed); });
    };
    const std::string expect = fmt::format("[%r6], {};", e.bytes);
    CHECK(fault(expect, fmt::format("[%r6], {};", e.bytes + 16)) == Fault::tx_count);
    const auto fewer = fault(expect, fmt::format("[%r6], {};", e.bytes - 16));
    const bool named = fewer == Fault::tx_count || fewer == Fault::race;
    CHECK(named);
    CHECK(fault("@!%p1 bra W;", "") == Fault::race);
    // The release of the cluster barrier makes an mbarrier visible to threads, but not to copies.
    const bool copies = std::string(e.body).find("cp.") != std::string::npos;
    const std::string unfenced =
        changed(changed(text, "fence.mbarrier_init.release.cluster;", ""), "A: fence.proxy.async;", "A:");
    const auto of_init = first_fault([&](uint64_t seed) { run_text(unfenced, seed); });
    CHECK(of_init == (copies ? std::optional(Fault::mbarrier_init) : std::nullopt));
    CHECK(first_fault([&](uint64_t seed) {
            run_text(changed(unfenced, "cluster.arrive.aligned", "cluster.arrive.relaxed.aligned"), seed);
          }) == Fault::mbarrier_init);
    CHECK(fault("[%r4];", "[%r6];") == Fault::operand);  // the sender's own barrier
    CHECK(fault("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", "bar.sync 0;") !=
          std::nullopt);  // the peer may not be ready
    if (copies) CHECK(fault("A: fence.proxy.async;", "A:") == Fault::proxy_fence);
  }
}

TEST_CASE("emulator: st.async and red.async are held to alignment, types and places") {
  auto fault = [](const std::string& body, std::string* what = nullptr) {
    return first_fault(
        [&](uint64_t seed) { run(exchange(body, 512), 2, 32, std::vector<uint32_t>(256), seed); }, what);
  };
  const std::string st = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes",
                    red = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes";
  CHECK(fault(st + ".v4.b32 [%r11], {%r0, %r0, %r0, %r0}, [%r4];") == std::nullopt);
  CHECK(fault(st + ".v4.b32 [%r11+4], {%r0, %r0, %r0, %r0}, [%r4];") == Fault::misaligned);
  CHECK(fault(st + ".v4.b32 [%r11+2048], {%r0, %r0, %r0, %r0}, [%r4];") == Fault::out_of_bounds);
  std::string what;
  CHECK(fault("{ .reg .b16 %h; cvt.u16.u32 %h, %r0;" + st + ".b16 [%r11], %h, [%r4]; }", &what) ==
        Fault::unsupported);
  CHECK(fault(red + ".min.u64 [%r11], %rd1, [%r4];", &what) == Fault::unsupported);
  CHECK_MESSAGE(what.find("min.u32 is nearest: .u64 is given instead of .u32") != std::string::npos, what);
  CHECK(test::error_of([&] {
          fault("st.async.release.gpu.global.b32 [%rd1], %r0;");
        }).find("st.async.release.gpu.global.b32: it needs sm_100") != std::string::npos);
}

TEST_CASE("emulator: st.async and red.async need clusters, even of one CTA") {
  for (const char* const instruction :
       {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"})
    for (const bool has_clusters : {true, false}) {
      std::string text = exchange(std::string(instruction) + " [%r11], %r0, [%r4];", 128);
      const auto put = [&](const std::string& old, const std::string& by) {
        text.replace(text.find(old), old.size(), by);
      };
      put("xor.b32 %r2, %r1, 1;", "mov.u32 %r2, %r1;");
      put(".reqnctapercluster 2, 1, 1", has_clusters ? ".reqnctapercluster 1, 1, 1" : "");
      std::string what;
      const auto fault = fault_of([&] { run(text, 1, 32, std::vector<uint32_t>(128), 0); }, &what);
      CHECK(fault == (has_clusters ? std::nullopt : std::optional(Fault::operand)));
      CHECK((what.find("the kernel runs without clusters") != std::string::npos) == !has_clusters);
    }
}

// Returns a kernel whose only thread reduces `count` elements of shared memory into as many elements of
// global memory.
template <class T>
std::string reduction(const std::string& op) {
  return head + fmt::format(R"(.visible .entry k(.param .u64 out) {{
.shared .align 16 .b8 from[64];
.reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p<4>;
mov.u32 %r0, %tid.x; mov.u32 %r1, from; ld.param.u64 %rd0, [out]; shl.b32 %r2, %r0, 2; cvt.u64.u32 %rd1, %r2; add.s64 %rd1, %rd1, %rd0;
ld.global.b32 %r3, [%rd1+64]; add.u32 %r4, %r1, %r2; st.shared.b32 [%r4], %r3; fence.proxy.async.shared::cta; bar.sync 0;
setp.ne.u32 %p0, %r0, 0; @%p0 bra D;
cp.reduce.async.bulk.global.shared::cta.bulk_group.{} [%rd0], [%r1], 64;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
D: ret;
}})",
                            op);
}

// Reduces 64 bytes of `b` into 64 bytes of `a` in global memory.
template <class T>
void check_reduction(const std::string& op, std::vector<T> a, std::vector<T> b, std::vector<T> expected) {
  CAPTURE(op);
  const size_t n = 64 / sizeof(T);
  auto fill = [&](std::vector<T>& v) {
    const std::vector<T> first = v;
    for (size_t i = 0; i < n; ++i) i < v.size() ? void() : v.push_back(first[i % first.size()]);
  };
  fill(a), fill(b), fill(expected);
  std::vector<T> both = a;
  both.insert(both.end(), b.begin(), b.end());
  auto got = run(reduction<T>(op), 1, 16, both, 1);
  got.resize(n);
  CHECK(got == expected);
}

TEST_CASE("emulator: cp.reduce.async.bulk into global memory, for each operation and type") {
  using emulator::to_bf16, emulator::to_f16;
  check_reduction<uint32_t>("add.u32", {1, 0xffffffff}, {2, 2}, {3, 1});
  check_reduction<int32_t>("add.s32", {1, -5}, {-2, 2}, {-1, -3});
  check_reduction<uint64_t>("add.u64", {1, 0xffffffff}, {2, 2}, {3, 0x100000001});
  check_reduction<float>("add.f32", {1.5f, -2}, {2, 0.25f}, {3.5f, -1.75f});
  check_reduction<double>("add.f64", {1.5, 1e300}, {2, 1e300}, {3.5, 2e300});
  check_reduction<uint16_t>("add.noftz.f16", {to_f16(1.5f)}, {to_f16(-3)}, {to_f16(-1.5f)});
  check_reduction<uint16_t>("add.noftz.bf16", {to_bf16(1.5f)}, {to_bf16(-3)}, {to_bf16(-1.5f)});
  check_reduction<uint32_t>("min.u32", {1, 0xffffffff}, {2, 2}, {1, 2});
  check_reduction<int32_t>("min.s32", {1, -1}, {2, 2}, {1, -1});
  check_reduction<int64_t>("max.s64", {1, -1}, {-2, 2}, {1, 2});
  check_reduction<uint64_t>("max.u64", {1, ~0ull}, {2, 2}, {2, ~0ull});
  check_reduction<uint16_t>("max.f16", {to_f16(1.5f)}, {to_f16(-3)}, {to_f16(1.5f)});
  check_reduction<uint16_t>("min.bf16", {to_bf16(1.5f)}, {to_bf16(-3)}, {to_bf16(-3)});
  check_reduction<uint32_t>("inc.u32", {1, 5, 9}, {5, 5, 5}, {2, 0, 0});
  check_reduction<uint32_t>("dec.u32", {1, 0, 9}, {5, 5, 5}, {0, 5, 5});
  check_reduction<uint32_t>("and.b32", {12}, {10}, {8});
  check_reduction<uint64_t>("or.b64", {12}, {3ull << 40}, {12 | 3ull << 40});
  check_reduction<uint32_t>("xor.b32", {12}, {10}, {6});
  for (const char* op : {"add.s64", "min.f32", "inc.s32", "and.u32", "xor.s64"}) {
    CAPTURE(op);
    std::string what;
    CHECK(fault_of([&] { run(reduction<uint32_t>(op), 1, 16, std::vector<uint32_t>(32), 0); }, &what) ==
          Fault::unsupported);
    CHECK(what.find(" is nearest: .") != std::string::npos);
  }
}

// Warp 0 copies the tensor map in its parameter to shared memory, changes it to the second half of the
// tensor, and writes it to global memory. It then loads a box through the new map.
const std::string replace =
    head +
    R"(.visible .entry k(.param .align 64 .b8 in[128], .param .u64 out, .param .u64 place, .param .u64 data) {
.shared .align 128 .b8 tile[512]; .shared .align 128 .b8 map[128]; .shared .align 8 .b8 bar[8];
.reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p<4>;
mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, map; mov.u32 %r3, bar; shl.b32 %r4, %r0, 2; add.u32 %r5, %r2, %r4;
mov.b64 %rd0, in; cvt.u64.u32 %rd1, %r4; add.s64 %rd2, %rd0, %rd1; ld.param.b32 %r6, [%rd2]; st.shared.b32 [%r5], %r6;
ld.param.u64 %rd3, [place]; ld.param.u64 %rd4, [data];
setp.ne.u32 %p0, %r0, 0; bar.sync 0;
@%p0 bra A;
mbarrier.init.shared::cta.b64 [%r3], 1; fence.proxy.async;
tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r2], %rd4;
tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r2], 1, 3;
tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r2], 0, 256;
tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r2], 1, 4;
tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r2], 0;
A: bar.sync 0;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [%r2], 128;
fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;
@%p0 bra W;
mov.b32 %r7, 0;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd3, {%r7, %r7}], [%r3];
W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0; @!%p1 bra W;
ld.param.u64 %rd5, [out]; shl.b32 %r8, %r0, 4; add.u32 %r9, %r1, %r8; ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r9];
cvt.u64.u32 %rd6, %r8; add.s64 %rd5, %rd5, %rd6; st.global.v4.b32 [%rd5], {%r10, %r11, %r12, %r13};
ret;
})";

std::vector<float> run_replace(const std::string& text, uint64_t seed, int threads = 32) {
  EmulatorOptions options;
  options.seed = seed;
  Bench bench(text, threads, options);
  std::vector<float> data(32 * 8);
  std::iota(data.begin(), data.end(), 1.0f);
  Address in = bench.upload(data), out = bench.upload(std::vector<float>(128)),
          place = bench.upload(std::vector<float>(32));
  // The map has rows of 32 elements. The kernel changes it to three rows: every second row, starting at the
  // second.
  bench.run({1, 1, 1}, 0, bench.map_2d(in, DType::f32, 8, 32, 8, 32, Swizzle::none), out, place, in + 128);
  return bench.download<float>(out, 128);
}

TEST_CASE("emulator: a tensor map that the kernel changes serves once it is released and acquired") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<float> out;
    std::string what;
    CHECK_MESSAGE(!fault_of([&] { out = run_replace(replace, seed); }, &what), what);
    int wrong = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t row = i / 32;
      wrong += out[i] != (row < 3 ? static_cast<float>((2 * row + 1) * 32 + i % 32 + 1) : 0.0f);
    }
    CHECK(wrong == 0);
  }
  auto fault = [&](const std::string& from, const std::string& to, const char* text = "") {
    std::string what;
    auto found = first_fault([&](uint64_t seed) { run_replace(changed(replace, from, to), seed); }, &what);
    CHECK_MESSAGE(what.find(text) != std::string::npos, what);
    return found;
  };
  CHECK(fault("fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;", "", "tensormap::generic.acquire") ==
        Fault::proxy_fence);
  CHECK(fault("[%rd3], 128;\n@%p0", "[%rd3], 64;\n@%p0",
              "fence.proxy.tensormap::generic.acquire.gpu [{map:tmap}], 128;") == Fault::unsupported);
  CHECK(fault("b64 [%r2], 0, 256", "b64 [%r2], 0, 264", "264 B, is not a multiple of 16 B") ==
        Fault::operand);
  CHECK(fault("b64 [%r2], 0, 256", "b64 [%r2], 4, 256",
              "global_stride has dimensions 0 to 3, but dimension 4 was named") == Fault::unsupported);
  CHECK(fault("box_dim.shared::cta.b1024.b32 [%r2], 1, 4", "box_dim.shared::cta.b1024.b32 [%r2], 1, 257",
              "box[1] = 257 is not in 1 to 256") == Fault::operand);
  CHECK(fault("box_dim.shared::cta.b1024.b32 [%r2], 1, 4", "box_dim.shared::cta.b1024.b32 [%r2], 1, 2") ==
        Fault::tx_count);
  CHECK(fault("fill_mode.shared::cta.b1024.b32 [%r2], 0", "rank.shared::cta.b1024.b32 [%r2], 2", "") ==
        Fault::operand);
  CHECK(test::error_of([&] {
          fault("fill_mode.shared::cta.b1024.b32 [%r2], 0", "elemtype.shared::cta.b1024.b32 [%r2], 13");
        }).find("it needs sm_100f") != std::string::npos);
  CHECK(fault("fill_mode", "l2_mode", ".l2_mode is given instead of .") == Fault::unsupported);
  // A map that is changed in place must be released as well.
  const std::string again =
      "fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;\n@%p0 bra W;\n"
      "tensormap.replace.tile.fill_mode.global.b1024.b32 [%rd3], 0;";
  CHECK(fault("fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;\n@%p0 bra W;", again,
              "tensormap::generic.release") == Fault::proxy_fence);
  CHECK(fault("fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;\n@%p0 bra W;",
              again + "fence.proxy.tensormap::generic.release.gpu;",
              "tensormap::generic.acquire") == Fault::proxy_fence);
  CHECK(fault("fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;\n@%p0 bra W;",
              again + "fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;",
              "tensormap::generic.release") == Fault::proxy_fence);
  CHECK(fault("fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;\n@%p0 bra W;",
              again +
                  "fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu "
                  "[%rd3], 128;") == std::nullopt);
}

// Like Triton, this kernel creates the map from zeros, and the warp that loads through the map is not the
// warp that acquires it.
std::string made_of_zeros() {
  std::string text = changed(replace, "st.shared.b32 [%r5], %r6;", "@%p2 st.shared.b32 [%r5], 0;");
  text = changed(text, "ld.param.b32 %r6, [%rd2];", "setp.lt.u32 %p2, %r0, 32;");
  text = changed(text, "tensormap.replace.tile.global_dim",
                 R"(tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r2], 1;
tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r2], 0, 32;
tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r2], 0, 32;
tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r2], 0, 1;
tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r2], 1, 1;
tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r2], 7;
tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r2], 0;
tensormap.replace.tile.global_dim)");
  text = changed(text, "tensormap.cp_fenceproxy", "@!%p2 bra B;\ntensormap.cp_fenceproxy");
  text = changed(text, "[%rd3], 128;\n@%p0 bra W;",
                 "[%rd3], 128;\nB: bar.sync 0;\nsetp.ne.u32 %p3, %r0, 32;\n@%p3 bra W;");
  return changed(text, "ld.param.u64 %rd5, [out];", "@!%p2 ret;\nld.param.u64 %rd5, [out];");
}

TEST_CASE(
    "emulator: a tensor map may be made of zeros, and is acquired for all that the acquiring warp meets") {
  const std::string text = made_of_zeros();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<float> out;
    std::string what;
    CHECK_MESSAGE(!fault_of([&] { out = run_replace(text, seed, 64); }, &what), what);
    CHECK(out[0] == 33);
    CHECK(out[64 + 31] == 5 * 32 + 32);
    CHECK(out[96] == 0);
  }
  auto fault = [&](const std::string& from, const std::string& to, const char* words) {
    std::string what;
    auto found = first_fault([&](uint64_t seed) { run_replace(changed(text, from, to), seed, 64); }, &what);
    CHECK_MESSAGE(what.find(words) != std::string::npos, what);
    return found;
  };
  CHECK(fault("@%p2 st.shared.b32 [%r5], 0;", "@%p2 st.shared.b32 [%r5], 1;", "there is no tensor map at") ==
        Fault::operand);
  CHECK(fault("fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;", "",
              "tensormap::generic.acquire, by") == Fault::proxy_fence);
  CHECK(fault("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r2], 0, 32;", "", "box[0]") ==
        Fault::operand);
  CHECK(fault("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r2], 1;", "", "has rank 0") ==
        Fault::operand);
}

TEST_CASE("emulator: a multimem address stands for one place, and %envreg is 0") {
  const std::string text = head + R"(.visible .entry k(.param .u64 out) {
.reg .b32 %r<8>; .reg .b64 %rd<2>; .reg .f32 %f<4>;
ld.param.u64 %rd0, [out]; mov.u32 %r0, %envreg3; add.u32 %r0, %r0, 7;
multimem.st.relaxed.sys.global.b32 [%rd0], %r0;
multimem.red.release.sys.global.add.u32 [%rd0], 5;
multimem.ld_reduce.acquire.sys.global.add.u32 %r1, [%rd0];
multimem.st.global.v4.f32 [%rd0+16], {1.0, 2.0, 3.0, 4.0};
multimem.red.global.add.v4.f32 [%rd0+16], {1.0, 1.0, 1.0, 1.0};
multimem.ld_reduce.global.add.v4.f32 {%f0, %f1, %f2, %f3}, [%rd0+16];
add.f32 %f0, %f0, %f3; cvt.rzi.u32.f32 %r2, %f0; add.u32 %r1, %r1, %r2;
st.global.u32 [%rd0+4], %r1;
ret;
})";
  Bench bench(text, 1);
  const Address out = bench.upload(std::vector<uint32_t>(8));
  bench.run({1, 1, 1}, 0, out);
  const auto got = bench.download<uint32_t>(out, 2);
  CHECK(got[0] == 12);
  CHECK(got[1] == 12 + 2 + 5);
}

TEST_CASE("emulator: atomics of 128 bits, %tid as a vector, a copy whose source is not ignored") {
  const std::string text = head + R"(.visible .entry k(.param .u64 out) {
.reg .b128 %q<3>; .reg .b64 %rd<6>; .reg .b32 %r<8>; .reg .pred %p<2>; .shared .align 16 .b8 s[16];
ld.param.u64 %rd0, [out];
mov.b64 %rd1, 7; mov.b64 %rd2, 8; mov.b128 %q0, {%rd1, %rd2};
atom.global.exch.b128 %q1, [%rd0], %q0; mov.b128 {%rd3, %rd4}, %q1; st.global.u64 [%rd0+16], %rd4;
atom.global.cas.b128 %q1, [%rd0], %q1, %q0; mov.b128 {%rd3, %rd4}, %q1; st.global.u64 [%rd0+24], %rd4;
mov.v4.u32 {%r0, %r1, %r2, %r3}, %ntid; add.u32 %r0, %r0, %r3; mad.lo.u32 %r0, %r1, 10, %r0; st.global.u32 [%rd0+32], %r0;
setp.ne.u32 %p0, %r0, %r0; mov.u32 %r4, s;
cp.async.ca.shared.global [%r4], [%rd0], 4, !%p0; cp.async.wait_all; ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd0+36], %r5;
cp.async.ca.shared.global [%r4], [%rd0], 4, %p0; cp.async.wait_all; ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd0+40], %r5;
ret;
})";
  Bench bench(text, 1);
  const Address out = bench.upload(std::vector<uint64_t>{1, 2, 0, 0, 0, 9});
  bench.run({1, 1, 1}, 0, out);
  CHECK(bench.download<uint64_t>(out, 4) == std::vector<uint64_t>{7, 8, 2, 8});
  CHECK(bench.download<uint32_t>(out + 32, 3) == std::vector<uint32_t>{11, 0, 7});
}

TEST_CASE("emulator: what it does not run is named") {
  for (const auto& [text, named] :
       {std::pair{"tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%rd1, {%r1}];", "tex.1d.v4.f32.s32"},
        std::pair{"cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], "
                  "[%rd1, {%r1, %r1}], [%r1], {};",
                  ".im2col is one word too many"}}) {
    std::string what;
    const std::string kernel =
        head +
        ".visible .entry k(.param .u64 out) {\n.reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .b16 %h<4>; "
        ".reg .f32 %f<4>; .reg .pred %p<4>;\n" +
        text + "\nret;\n}";
    CHECK(fault_of([&] { run(kernel, 1, 128, std::vector<uint32_t>(32), 0); }, &what) == Fault::unsupported);
    CHECK_MESSAGE(what.find(named) != std::string::npos, what);
  }
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_async_test
