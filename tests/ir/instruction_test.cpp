// Tests instruction<"...">, which makes any PTX instruction a typed call.
#include "ptxbuilder/ir/instruction.h"

#include <doctest/doctest.h>

#include "library_kit.h"
#include "ptxbuilder/compile/codegen.h"

namespace ptxbuilder::test::instruction_test {

TEST_CASE("instructions by mnemonic: operands, results, words after it, predicates") {
  Kernel k("all", {.line_info = false});
  auto [out] = k.params<gptr<u32>>("out");
  const gmem address(out);
  auto [low, high] = instruction<"ld.global.v2.f32">(address);
  const u32 ones = instruction<"popc.b32">(tid_x());
  const smem bar = k.builder().shared_base();
  const u64 state = instruction<"mbarrier.arrive.shared::cta.b64 count">(bar, 2);
  instruction<"st.global.v4.b32">.when(ones == 0u)(address, {ones, ones, 3, bit_cast<u32>(low + high)});
  instruction<"st.global.b64">(address, state);
  const std::string ptx = generate_ptx(k.builder());
  CAPTURE(ptx);
  for (const char* text : {"ld.global.v2.f32 {%r", "popc.b32 ", "mbarrier.arrive.shared::cta.b64 %rd", ", 2;",
                           " st.global.v4.b32 [%rd", "st.global.b64 [%rd"})
    CHECK(contains(ptx, text));
  CHECK(contains(ptx, "@%p"));
  CHECK(contains(ptx, ".version 7.8"));
}

TEST_CASE("instructions of other targets are refused with the targets that have them") {
  Kernel k("hopper", {.target = "sm_90a"});
  const std::string text = error_of([&] { instruction<"tcgen05.fence::before_thread_sync">(); });
  CHECK(contains(text, "instruction_test.cpp:" + std::to_string(__LINE__ - 1)));
  CHECK(contains(text,
                 "tcgen05.fence::before_thread_sync: needs sm_100f, sm_110f, but the kernel's target is "
                 "sm_90a; the lowest target that supports it is sm_100a"));
}

TEST_CASE("a target that is not stated is the lowest from sm_90 on that has all instructions") {
  const auto head = [](const std::function<void(Kernel&)>& body) {
    Kernel k("k", {.line_info = false});
    body(k);
    const std::string text = squeezed(ptx_of(k));
    CHECK(contains(text, " .target " + k.signature().target + " "));
    const size_t begin = text.find(".version");
    return text.substr(begin, text.find(" .address_size") - begin);
  };
  CHECK(head([](Kernel&) {}) == ".version 7.8 .target sm_90");
  CHECK(head([](Kernel& k) { k.cluster(2); }) == ".version 7.8 .target sm_90");
  CHECK(head([](Kernel&) { fence_mbarrier_init(); }) == ".version 8.0 .target sm_90");
  CHECK(head([](Kernel&) { wgmma_fence(); }) == ".version 8.0 .target sm_90a");
  CHECK(head([](Kernel&) { setmaxnreg_inc(64); }) == ".version 8.0 .target sm_90a");
  const auto fence = [] { instruction<"tcgen05.fence::before_thread_sync">(); };
  CHECK(head([&](Kernel&) { fence(); }) == ".version 8.6 .target sm_100a");
  CHECK(head([&](Kernel&) { setmaxnreg_inc(64), fence(); }) == ".version 8.6 .target sm_100a");
  CHECK(head([&](Kernel&) { fence(), instruction<"tcgen05.wait::ld.sync.aligned">(); }) ==
        ".version 8.6 .target sm_100a");
  CHECK(head([](Kernel& k) {
          auto [x] = k.params<gptr<u64>>("x");
          x[0] = instruction<"add.rn.f32x2">(x[0], x[1]);
        }) == ".version 8.6 .target sm_100");
  // Multicast exists on sm_90 too, but ptxas warns about it there.
  const auto multicast = [](Kernel& k) {
    const smem at = k.builder().shared_base();
    auto [from] = k.params<gptr<u32>>("from");
    cp_async_bulk_load<BulkLoadForm{.multicast = true}>(at, gmem(from), 16u, at, u16(3));
  };
  CHECK(head(multicast) == ".version 8.0 .target sm_90a");
  CHECK(head([&](Kernel& k) { multicast(k), fence(); }) == ".version 8.6 .target sm_100a");
  // The mnemonics in the author's text determine what the text needs.
  CHECK(head([](Kernel&) { ptx("griddepcontrol.wait;", {}); }) == ".version 7.8 .target sm_90");
  CHECK(head([](Kernel&) {
          ptx("{{ .reg .pred p; setp.eq.u32 p, 1, 1; @p wgmma.fence.sync.aligned; }}", {});
        }) == ".version 8.0 .target sm_90a");
  CHECK(head([](Kernel&) { ptx("tcgen05.fence::before_thread_sync;", {}); }) ==
        ".version 8.6 .target sm_100a");
}

TEST_CASE("Blackwell: tensor memory is a type of its own, and 8-bit registers exist only in text") {
  Kernel k("blackwell", {.target = "sm_100a", .line_info = false});
  auto [out] = k.params<gptr<u32>>("out");
  const smem slot = k.builder().shared_base();
  instruction<"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32">(slot, 64);
  const tmem columns(instruction<"ld.shared::cta.u32">(slot));
  const std::array<u32, 2> loaded = instruction<"tcgen05.ld.sync.aligned.32x32b.x2.b32">(columns + 32);
  instruction<"tcgen05.wait::ld.sync.aligned">();
  const u16 packed = instruction<"cvt.rn.satfinite.e2m1x2.f32">(f32(1), bit_cast<f32>(loaded[0]));
  instruction<"st.global.u16">(gmem(out), packed);
  instruction<"tcgen05.dealloc.cta_group::1.sync.aligned.b32">(columns, 64);
  const std::string ptx = generate_ptx(k.builder());
  CAPTURE(ptx);
  CHECK(contains(ptx, ".target sm_100a"));
  CHECK(contains(ptx, "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r"));
  CHECK(contains(ptx, "{ .reg .b8 narrow0; cvt.rn.satfinite.e2m1x2.f32 narrow0, "));
  CHECK(contains(ptx, " cvt.u16.u8 %rs"));
}

TEST_CASE("an immediate is an integer, not a number that would be rounded to one") {
  using Lop3 = decltype(instruction<"lop3.b32">);
  static_assert(std::is_invocable_v<Lop3, u32, u32, u32, int>);
  static_assert(std::is_invocable_v<Lop3, u32, u32, u32, uint64_t>);
  static_assert(!std::is_invocable_v<Lop3, u32, u32, u32, double>);
  static_assert(!std::is_invocable_v<Lop3, u32, u32, u32, float>);
}

TEST_CASE("the .version is the least in which the target has the instruction") {
  const auto version_of = [](const char* target, bool by_name) {
    Kernel k("k", {.target = target, .line_info = false});
    auto [out] = k.params<gptr<u16>>("out");
    const f32 x(tid_x());
    out[0] = by_name ? cvt_pack<DType::e4m3>(x, x) : instruction<"cvt.rn.satfinite.e4m3x2.f32">(x, x);
    const std::string ptx = generate_ptx(k.builder());
    return ptx.substr(ptx.find(".version"), 12);
  };
  for (const bool by_name : {false, true}) {
    CHECK(version_of("sm_89", by_name) == ".version 8.1");
    CHECK(version_of("sm_90", by_name) == ".version 7.8");
  }
}

TEST_CASE("setmaxnreg works on each target that has it") {
  for (const char* target : {"sm_90a", "sm_100a", "sm_120a"}) {
    Kernel k("k", {.target = target, .line_info = false});
    setmaxnreg_inc(64);
    CHECK(contains(generate_ptx(k.builder()), "setmaxnreg.inc.sync.aligned.u32 64;"));
  }
}

TEST_CASE("the llvm::Value is a null pointer") {
  Kernel k("k");
  const std::array<Argument, 1> nothing = {Value(nullptr)};
  CHECK(contains(
      error_of([&] { k.builder().emit(isa::rows_def::nanosleep, nothing, std::nullopt, Where::here()); }),
      "a null pointer was given as a value"));
}

}  // namespace ptxbuilder::test::instruction_test
