// Tests portraits of the golden kernels: roles, barriers and loops as their authors wrote them.
#include "ptxbuilder/analysis/portrait.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tests/kit/error_kit.h"
#include "tests/kit/golden_kit.h"

namespace ptxbuilder::test::portrait_test {
using namespace analysis;

namespace {

struct Painted : KernelAnalysis {
  using KernelAnalysis::KernelAnalysis;

  const BarrierArray& barrier(size_t i) const { return portrait.barriers.at(i); }
  // Returns text such as "producer expects 49152, consumer waits".
  std::string uses(size_t i) const {
    std::string all;
    for (const BarrierUse& use : barrier(i).uses) {
      all += all.empty() ? "" : ", ";
      all += use.role == kNone ? "?" : portrait.roles[static_cast<size_t>(use.role)].name;
      all += " " + std::string(name(use.kind));
      if (use.kind == BarrierUse::Kind::expects) all += " " + values.text(use.amount);
    }
    return all;
  }

  bool lists(const std::string& unknown) const {
    return std::any_of(portrait.unknowns.begin(), portrait.unknowns.end(),
                       [&](const std::string& what) { return what.starts_with(unknown); });
  }
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::vector<int> warps(int first, int last) {
  std::vector<int> all;
  for (int i = first; i <= last; ++i) all.push_back(i);
  return all;
}

}  // namespace

TEST_CASE("a producer, its idle warps, and consumers") {
  const Painted p(golden("gemm_warp_specialized"));
  REQUIRE(p.portrait.roles.size() == 3);
  CHECK(p.portrait.roles[0].name == "producer");
  CHECK(p.portrait.roles[0].warps == warps(0, 0));
  CHECK(p.portrait.roles[0].registers == 40);
  CHECK(p.portrait.roles[1].warps == warps(1, 3));
  CHECK(p.portrait.roles[2].name == "consumer");
  CHECK(p.portrait.roles[2].warps == warps(4, 11));
  CHECK(p.portrait.roles[2].registers == 232);

  REQUIRE(p.portrait.barriers.size() == 2);
  CHECK(p.values.text(p.barrier(0).base) == "shared + 196608");
  CHECK(p.barrier(0).count == 4);
  CHECK(p.barrier(0).arrivals == 1);
  CHECK(p.barrier(0).name == "full");
  CHECK(p.barrier(1).name == "empty");
  CHECK(p.uses(0) == "producer expects 49152, producer copies, producer copies, consumer waits");
  CHECK(p.barrier(1).arrivals == 8);
  CHECK(p.uses(1) == "producer waits, consumer arrives");

  REQUIRE(p.portrait.loops.size() == 2);
  const Mainloop& multiplies = p.portrait.loops[1];
  CHECK(multiplies.role == 2);
  REQUIRE(multiplies.steps.size() == 6);
  CHECK(multiplies.steps[2].times == 4);
  CHECK(
      multiplies.steps[2].text.starts_with("wgmma m64n256k16.f32.bf16.bf16, A swizzle 128 stride 1024 "
                                           "leading 16, B swizzle 128 stride 1024 leading 16; A at ["));
  CHECK(multiplies.steps[2].text.ends_with("B at [32768 stage(4) + shared + 65536] to +96 B"));
  CHECK(multiplies.steps[4].text == "wgmma.wait_group 0");
  CHECK(p.portrait.unknowns.empty());
}

TEST_CASE("barriers by warpgroup") {
  const Painted p(golden("gemm_pingpong"));
  REQUIRE(p.portrait.barriers.size() == 3);
  CHECK(p.barrier(2).count == 2);
  CHECK(p.uses(2) == "consumer waits, consumer arrives");
  CHECK(p.barrier(2).name == "other");
}

TEST_CASE("changes are visible") {
  const std::string text = golden("gemm_warp_specialized");
  CHECK(Painted(replaced(text, "], 49152", "], 49136")).uses(0).find("expects 49136") != std::string::npos);
  CHECK(Painted(replaced(text, "], 8;", "], 7;")).barrier(1).arrivals != Painted(text).barrier(1).arrivals);
  CHECK(Painted(replaced(text, "232;", "240;")).portrait.roles[2].registers == 240);
  CHECK(Painted(replaced(text, ".maxntid 384", ".maxntid 256")).portrait.roles[2].warps == warps(4, 7));
  const Painted nameless(replaced(text, ".maxntid 384", ""));
  CHECK(nameless.portrait.roles.empty());
  CHECK(nameless.portrait.unknowns[0].find("neither .maxntid nor .reqntid") != std::string::npos);
  CHECK(nameless.lists("which warps execute setmaxnreg.dec.sync.aligned.u32 40 at line"));
  CHECK(Painted(replaced(text, "wgmma.fence", "frobnicate"))
            .lists("the effect of frobnicate.sync.aligned at line"));
}

TEST_CASE("matrix instructions outside of loops are reported") {
  const Painted p(golden("wgmma_block"));
  CHECK(p.portrait.products_outside.size() == 16);
  CHECK(text(p).find("outside of loops: 16 matrix instructions") != std::string::npos);
  CHECK(Painted(golden("gemm_warp_specialized")).portrait.products_outside.empty());
}

TEST_CASE("descriptors are decoded where their address is known") {
  const Painted p(golden("wgmma_block"));
  int decoded = 0;
  for (int i = 0; i < static_cast<int>(p.code.operations.size()); ++i) {
    const Operation& o = p.code.operations[static_cast<size_t>(i)];
    if (!o.is("wgmma") || !o.has("mma_async")) continue;
    Numbering numbering;
    Values values(p.code, p.graph, numbering);
    const auto b = decode_descriptor(values, values.of(i, o.operands[2]));
    REQUIRE(b);
    CHECK(b->layout == 1);
    CHECK(b->stride_bytes == 1024);
    ++decoded;
  }
  CHECK(decoded > 0);
  Numbering numbering;
  Values values(p.code, p.graph, numbering);
  CHECK_FALSE(decode_descriptor(values, {.constant = 5}));
}

TEST_CASE("descriptors of other compilers") {
  // The field is one bit wider than it should be, and steps are added both before and after masking.
  const std::string text = R"(.version 8.0
.target sm_90a
.address_size 64
.shared .align 1024 .b8 tile[65536];
.entry k(.param .u32 n) .maxntid 128 {
  .reg .b32 %r<6>;
  .reg .b64 %rd<6>;
  .reg .f32 %f<4>;
  mov.u32 %r1, tile;
  shr.u32 %r2, %r1, 4;
  mov.u32 %r3, %tid.x;
  and.b32 %r4, %r3, 64;
  add.s32 %r5, %r2, %r4;
  add.s32 %r5, %r5, 512;
  and.b32 %r5, %r5, 32767;
  add.s32 %r5, %r5, 2;
  cvt.u64.u32 %rd1, %r5;
  or.b64 %rd2, %rd1, 4611686293305294848;
  bfe.u32 %r2, %r1, 4, 15;
  or.b32 %r2, %r2, 33554432;
  cvt.u64.u32 %rd3, %r2;
  or.b64 %rd4, %rd3, 4611686293305294848;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd2, %rd4, 1, 1, 1, 0, 1;
  shr.u32 %r2, %r1, 4;
  and.b32 %r2, %r2, 16320;
  cvt.u64.u32 %rd5, %r2;
  or.b64 %rd5, %rd5, 4611686293305294848;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd5, %rd4, 1, 1, 1, 0, 1;
  cvt.u64.u32 %rd5, %r3;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd5, %rd4, 1, 1, 1, 0, 1;
  ret;
}
)";
  Painted p(text);
  const int product = p.portrait.products_outside.at(0);
  const auto& operands = p.code.operations[static_cast<size_t>(product)].operands;
  const auto a = decode_descriptor(p.values, p.values.of(product, operands[1])),
             b = decode_descriptor(p.values, p.values.of(product, operands[2]));
  REQUIRE(a);
  REQUIRE(b);
  CHECK(p.values.text(a->address) == "16 and.32(%tid.x, 64) + shared + 8224");
  CHECK(a->stride_bytes == 1024);
  CHECK(a->layout == 1);
  CHECK(b->leading_bytes == 8192);
  CHECK(p.values.text(b->address) == "shared");
  REQUIRE(p.portrait.unknowns.size() == 1);
  CHECK(p.portrait.unknowns[0] == "the descriptor of A in wgmma at line 30: %tid.x");
}

TEST_CASE("every golden kernel has a portrait without anything unknown") {
  for (const auto& entry : std::filesystem::directory_iterator(PTXBUILDER_TEST_DIR "/golden")) {
    if (entry.path().extension() != ".ptx") continue;
    CAPTURE(entry.path());
    const Painted p(golden(entry.path().stem()));
    CHECK(p.portrait.unknowns == std::vector<std::string>{});
    CHECK(text(p).find("\nroles\n") != std::string::npos);
  }
}

TEST_CASE("a product without its descriptors is an instruction like any other") {
  const Painted p(
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() .maxntid 128 {\n"
      ".reg .f32 %f<4>; .reg .b64 %d;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
      "{%f0,%f1,%f2,%f3}, %d;\nret;\n}\n");
  CHECK(p.portrait.products_outside.empty());
  CHECK(!text(p).empty());
}

}  // namespace ptxbuilder::test::portrait_test
