// Tests differences between kernels: a disguised kernel has none, and a planted change must be the first
// difference.
#include "ptxbuilder/analysis/diff.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/kit/golden_kit.h"
#include "tests/kit/options.h"
#include "tests/kit/ptx_disguise.h"

namespace ptxbuilder::test::diff_test {
using namespace analysis;

namespace {

// --draws=1000 disguises each kernel 1000 times. By default, it is disguised a few times.
const int& draws = option("draws", 0);

std::vector<Region> regions_of(const std::string& text) {
  KernelAnalysis kernel(text);
  return regions(kernel);
}

// A change of a kernel's text, and words that the first difference must contain.
struct Plant {
  const char* kernel;
  const char* from;
  const char* to;
  const char* words;
  int place = 1;  // number of the matching place
};

constexpr Plant kPlants[] = {
    {"gemm_warp_specialized", "], 49152", "], 49136", "ring: bytes expected: 49152 B in A"},
    {"gemm_warp_specialized", "setmaxnreg.dec.sync.aligned.u32 40", "setmaxnreg.dec.sync.aligned.u32 56",
     "roles: producer: 1 warp of 40 registers in A, 1 warp of 56"},
    {"gemm_warp_specialized", "setmaxnreg.inc.sync.aligned.u32 232", "setmaxnreg.inc.sync.aligned.u32 240",
     "roles: consumer: 8 warps of 232 registers in A, 8 warps of 240"},
    {"gemm_warp_specialized", ".maxntid 384", ".maxntid 256", "launch: threads: 384 in A, 256 in B"},
    {"gemm_warp_specialized", "], 8;", "], 7;", "ring: arrivals that free a stage: 8 in A, 7 in B"},
    {"gemm_warp_specialized", "m64n256k16.f32.bf16.bf16", "m64n256k16.f32.f16.f16",
     "mainloop: products in an iteration: 4 x m64n256k16.f32.bf16.bf16 in A"},
    {"gemm_warp_specialized", "1, 1, 0, 0;", "1, -1, 0, 0;",
     "mainloop: scales and transposes: 1, 1, 0, 0 in A"},
    {"gemm_warp_specialized", "1, 1, 0, 0;", "1, 1, 0, 1;",
     "mainloop: scales and transposes: 1, 1, 0, 0 in A", 3},
    {"gemm_warp_specialized", "wgmma.wait_group.sync.aligned 0", "wgmma.wait_group.sync.aligned 1",
     "mainloop: order: wait for full, fence, products, commit, wait until 0 groups are left"},
    {"gemm_warp_specialized", "wgmma.fence.sync.aligned;", "",
     "wait for full, products, commit, wait until 0 groups are left, arrive at empty in B"},
    {"gemm_warp_specialized", "wgmma.commit_group.sync.aligned;", "",
     "wait for full, fence, products, wait until 0 groups are left, arrive at empty in B"},
    {"gemm_warp_specialized", "fence.proxy.async.shared::cta;", "",
     "epilogue: fences: one for each store in A (line 306), 3 for 4 stores in B", 2},
    {"gemm_warp_specialized", "fence.mbarrier_init.release.cluster;", "",
     "start and end: fence of barriers: yes in A, no in B; may mean barriers that other CTAs may use "
     "uninitialized"},
    {"gemm_warp_specialized", "cp.async.bulk.commit_group;", "",
     "epilogue: groups of stores: one for each store in A (line 312), 3 for 4 stores in B"},
    {"gemm_warp_specialized", "cp.async.bulk.wait_group.read 1", "cp.async.bulk.wait_group.read 2",
     "cp.async.bulk.wait_group.read, groups left: 1 in A"},
    {"gemm_warp_specialized", "bar.sync 0", "bar.sync 1",
     "all roles outside of its loops: bar.sync, operands: 0 in A"},
    {"gemm_warp_specialized", "mbarrier.try_wait.parity.shared::cta.b64",
     "mbarrier.test_wait.parity.shared::cta.b64", "loop of producer: wait, form: mbarrier.try_wait"},
    {"gemm_warp_specialized", "stmatrix.sync.aligned.m8n8.x4.shared",
     "stmatrix.sync.aligned.m8n8.x4.trans.shared", "15 x stmatrix.m8n8.x4 in B"},
    {"gemm_warp_specialized", "cvt.rn.bf16x2.f32", "cvt.rz.bf16x2.f32",
     "epilogue: conversions: cvt.rn.bf16x2.f32 in A"},
    {"gemm_warp_specialized", "setp.eq.b32", "setp.ne.b32", ""},
    {"gemm_warp_specialized", "4611686293305360386", "4611686293305360388",
     "mainloop: places of A: at 0, 32, 64, 96 B in A (line 206), at 0, 64, 64, 96 B in B"},
    {"gemm_warp_specialized", "4611686293305360384", "4611686843061174272",
     "swizzle 128, stride 3072 B, leading 16 B in B"},
    {"gemm_warp_specialized", ".2d.shared::cluster", ".3d.shared::cluster", "copies in: dimensions: 2d in A"},
    {"gemm_warp_specialized", ".minnctapersm 1", ".minnctapersm 2",
     "launch: CTAs that an SM must hold: 1 in A, 2 in B"},
    {"gemm_warp_specialized", "196640", "196704", ""},
    {"gemm_pingpong", "], 32768", "], 16384", "ring: bytes expected: 32768 B in A"},
    {"gemm_warp_specialized", "{%r311, %r9}", "{%r9, %r311}", "loop of producer: copy in, coordinates"},
    {"gemm_warp_specialized", "%p20, %r294, 4", "%p20, %r294, 3", "no: 4 for loads and 3 for products in B"},
    {"gemm_warp_specialized", ", 196608;", ", 196616;",
     "loop of consumer: wait, barrier: full of 4 8 B apart in A", 3},
    {"gemm_warp_specialized", "mov.pred \t%p24, 0", "mov.pred \t%p24, 1",
     "loop of consumer: wgmma, adds to the accumulator"},
    {"gemm_warp_specialized", "@%p22 bra", "@!%p22 bra",
     "loop of producer: branch, condition: a wait has not ended in A (line 146), a wait has ended in B"},
    {"gemm_warp_specialized", "[%r307], %r319;", "[%r307], %r319, 1000;",
     "ring: waits of the loops: mbarrier.try_wait.parity.b64 in A"},
    {"saxpy", "@%p1 bra", "@!%p1 bra", "all roles outside of its loops: branch, condition: setp.ge"},
    {"saxpy", "add.s64 \t%rd1,", "add.frobnicate \t%rd1,", ""},
    {"saxpy", "fma.rn.f32", "fma.rz.f32", "1 x fma.rn.f32 in A (line 32), 1 x fma.rz.f32 in B"},
    {"add_multicast", ".multicast::cluster", "", ""},
    {"gemm_warp_specialized", "@%p15 cp.async.bulk.wait_group", "@!%p15 cp.async.bulk.wait_group",
     "predicate"},
    {"gemm_cp_async_wgmma", "mul.hi.u32", "mul.hi.s32", ""},
    {"gemm_tma_mma_sync", "bfe.u32", "bfe.s32", ""},
    {"gemm_warp_specialized", ".align 1024", ".align 128",
     "launch: alignment of shared memory: 1024 B in A, 128 B"},
    {"gemm_warp_specialized", "sm_90a", "sm_20", "launch: target: sm_90a in A, sm_20"},
    {"gemm_warp_specialized", "param_0[128]", "param_0[129]", "launch: parameters: "},
    {"gemm_persistent", "wgmma.wait_group.sync.aligned 0", "wgmma.wait_group.sync.aligned 1",
     "mainloop: order: wait for full, fence, products, commit, wait until 0 groups are left"},
};

std::string planted(const Plant& plant) {
  std::string text = golden(plant.kernel);
  CAPTURE(std::string(plant.from));
  size_t at = std::string::npos;
  for (int i = 0; i < plant.place; ++i) at = text.find(plant.from, at + 1);
  REQUIRE(at != std::string::npos);
  return text.replace(at, std::string(plant.from).size(), plant.to);
}

}  // namespace

TEST_CASE("a kernel does not differ from itself in any disguise") {
  constexpr size_t kDraws = 250;  // minimum number of draws for all kernels together
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(PTXBUILDER_TEST_DIR "/golden"))
    if (entry.path().extension() == ".ptx") names.push_back(entry.path().stem());
  uint64_t seed = std::random_device()();
  for (const std::string& name : names) {
    const std::string text = golden(name);
    const std::vector<Region> regions = regions_of(text);
    for (size_t draw = 0; draws > 0 ? draw < at(draws) : draw * names.size() < kDraws; ++draw) {
      CAPTURE(name);
      CAPTURE(++seed);
      const std::string told = report(diff(regions, regions_of(test::Disguise(seed)(text))));
      REQUIRE(told == "");
    }
  }
}

TEST_CASE("a planted change is the first difference") {
  for (const Plant& plant : kPlants) {
    CAPTURE(std::string(plant.kernel));
    CAPTURE(std::string(plant.from));
    const std::vector<Difference> differences =
        diff(regions_of(golden(plant.kernel)), regions_of(planted(plant)));
    CHECK_FALSE(differences.empty());
    if (differences.empty()) continue;
    CHECK(report(differences).find(analysis::text(differences[0])) != std::string::npos);
    const std::string first = analysis::text(differences[0]), words = plant.words;
    if (first.find(words) == std::string::npos) CHECK(first == words);
  }
}

TEST_CASE("other kernels differ in all their regions, from either side") {
  const auto a = regions_of(golden("gemm_persistent")), b = regions_of(golden("saxpy"));
  const auto forth = diff(a, b), back = diff(b, a);
  CHECK(forth.size() == back.size());
  CHECK(forth.size() > 20);
  for (size_t i = 1; i < forth.size(); ++i) CHECK(forth[i - 1].weight <= forth[i].weight);
}

TEST_CASE("a repeated difference is reported once and counted, unless all are requested") {
  const std::string text = golden("gemm_warp_specialized");
  std::string other = text;
  for (size_t at = 0; (at = other.find("], 8;", at)) != std::string::npos; ++at)
    other.replace(at, 5, "], 7;");
  const auto few = diff(regions_of(text), regions_of(other));
  CHECK(report(few).find("; and 3 more such") != std::string::npos);
  CHECK(report(few, true).find("more such") == std::string::npos);

  const auto many = diff(regions_of(text), regions_of(golden("gemm_pingpong")));
  const std::string counted = report(many), whole = report(many, true);
  CHECK(counted.find("more in detail, which --all shows\n") != std::string::npos);
  CHECK(counted.find("schedule: tiles of a CTA: one in A, several, in a loop in B") != std::string::npos);
  CHECK(counted.size() < whole.size() / 4);
  for (const Difference& d : many) CHECK(whole.find(analysis::text(d)) != std::string::npos);
}

TEST_CASE("other spellings of the same are no difference") {
  struct Spelling {
    const char* kernel;
    std::vector<std::pair<const char*, const char*>> edits;
  };
  const Spelling spellings[] = {
      {"gemm_warp_specialized", {{"bar.sync 0;", "barrier.cta.sync.aligned 0;"}}},
      {"gemm_warp_specialized",
       {{"mbarrier.arrive.shared::cta.b64", "mbarrier.arrive.release.cta.shared::cta.b64"}}},
      {"gemm_warp_specialized",
       {{"mbarrier.try_wait.parity.shared::cta", "mbarrier.try_wait.parity.acquire.cta.shared::cta"}}},
      {"gemm_warp_specialized",
       {{"setp.eq.b32 \t%p19", "setp.ne.b32 \t%p19"}, {"@%p19 mbar", "@!%p19 mbar"}}},
      {"saxpy", {{"setp.ge.u32", "setp.lt.u32"}, {"@%p1 bra", "@!%p1 bra"}}},
      {"gemm_persistent", {{"and.b32 \t%r54, %r41, 3", "rem.u32 \t%r54, %r41, 4"}}},
      {"gemm_persistent", {{"shr.u32 \t%r5, %r41, 2", "div.u32 \t%r5, %r41, 4"}}},
  };
  for (const Spelling& spelling : spellings) {
    std::string text = golden(spelling.kernel);
    const std::vector<Region> before = regions_of(text);
    for (const auto& [from, to] : spelling.edits) {
      CAPTURE(std::string(from));
      const size_t at = text.find(from);
      REQUIRE(at != std::string::npos);
      text.replace(at, std::string(from).size(), to);
    }
    CAPTURE(std::string(spelling.edits[0].second));
    CHECK(report(diff(before, regions_of(text))) == "");
  }
}

TEST_CASE("order is reported where it matters, as one difference") {
  const std::string text = golden("gemm_warp_specialized");
  const std::vector<Region> before = regions_of(text);
  // Moves the first line that contains `what` after the next line that contains `behind`.
  const auto moved = [&](const char* what, const char* behind) {
    const size_t begin = text.rfind('\n', text.find(what)) + 1, end = text.find('\n', begin) + 1;
    const size_t to = text.find('\n', text.find(behind, end)) + 1;
    REQUIRE(to > end);
    return regions_of(text.substr(0, begin) + text.substr(end, to - end) + text.substr(begin, end - begin) +
                      text.substr(to));
  };
  CHECK(report(diff(before, moved("mbarrier.init", "mbarrier.init"))) == "");
  CHECK(report(diff(before, moved("fence.mbarrier_init", "fence.proxy"))) == "");
  CHECK(report(diff(before, moved("cp.async.bulk.tensor", "cp.async.bulk.tensor"))) == "");
  CHECK(report(diff(before, moved("mbarrier.init", "fence.mbarrier_init")))
            .find("mbarrier.init, place: at the start in A (line 32), after fence.mbarrier_init") !=
        std::string::npos);
  const std::string late = report(diff(before, moved("wgmma.fence", "wgmma.mma_async")));
  CHECK(late.find("mainloop: order: wait for full, fence, products") != std::string::npos);
  CHECK(late.find("wgmma.fence.sync.aligned, place: after ") != std::string::npos);
  CHECK(late.find("nothing in") == std::string::npos);
}

TEST_CASE("a stored value is a result, and is reported in words") {
  const std::string text = golden("saxpy");
  std::string other = text;
  const size_t at = other.find("st.global.b32");
  const size_t comma = other.find(',', at);
  other.replace(comma, other.find(';', comma) - comma, ", %r6");
  const std::vector<Difference> differences = diff(regions_of(text), regions_of(other));
  REQUIRE_FALSE(differences.empty());
  CHECK(differences[0].weight == Weight::result);
  CHECK(report(differences).find("st.global.b32, operands: fma.rn.f32(") != std::string::npos);
  CHECK(report(differences).find("#") == std::string::npos);
}

TEST_CASE("a missing instruction has an effect") {
  const std::string text = golden("gemm_warp_specialized");
  for (const char* gone :
       {"wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;", "fence.proxy.async.shared::cta;",
        "fence.mbarrier_init.release.cluster;", "bar.sync 0;"}) {
    CAPTURE(std::string(gone));
    std::string other = text;
    REQUIRE(other.find(gone) != std::string::npos);
    other.erase(other.find(gone), std::string(gone).size());
    bool is_told = false;
    for (const Difference& d : diff(regions_of(text), regions_of(other)))
      if (!d.is_fact && d.b.empty() && d.attribute.empty()) is_told |= !d.effect.empty();
    CHECK(is_told);
  }
}

TEST_CASE("an unknown instruction is reported as such") {
  std::string other = golden("saxpy");
  other.replace(other.find("fma.rn.f32"), 10, "frobnicate");
  const std::string told = report(diff(regions_of(golden("saxpy")), regions_of(other)));
  CHECK(told.find("unknown: the effect of frobnicate: nothing in A, 1 in B") != std::string::npos);
}

// ---- Objects, functions, constants and conditions ----

namespace {

// A kernel with named variables of each space, two functions, tables, barriers and branches.
constexpr const char* kCalls = R"(.version 8.0
.target sm_90a
.address_size 64
.const .align 4 .b32 left[4] = {1, 2, 3, 4};
.const .align 4 .b32 right[4] = {5, 6, 7, 8};
.const .align 4 .f32 scale = 0f3F800000;
.global .align 4 .b32 counter;
.global .align 4 .b32 errors;
.global .align 8 .u64 tables[2] = {left, right};
.global .align 8 .u64 steps[2] = {twice, half};
.func (.param .b32 r) twice(.param .b32 a, .param .b32 b)
{
  .reg .b32 %v, %w;
  ld.param.b32 %v, [a];
  ld.param.b32 %w, [b];
  shl.b32 %v, %v, 1;
  sub.u32 %v, %v, %w;
  st.param.b32 [r], %v;
  ret;
}
.func (.param .b32 r) half(.param .b32 a, .param .b32 b)
{
  .reg .b32 %v, %w;
  ld.param.b32 %v, [a];
  ld.param.b32 %w, [b];
  shr.u32 %v, %v, 1;
  sub.u32 %v, %v, %w;
  st.param.b32 [r], %v;
  ret;
}
.func (.reg .b32 %r) plain(.reg .b32 %a, .reg .b32 %b)
{
  sub.u32 %r, %a, %b;
  ret;
}
.visible .entry k(.param .u64 X, .param .u32 N)
.maxntid 64
{
  .reg .pred %p, %q, %z;
  .reg .b32 %t, %v, %w, %n, %i, %a, %b, %c;
  .reg .b64 %x, %o, %f, %g;
  .shared .align 8 .b64 full;
  .shared .align 8 .b64 empty;
  .shared .align 16 .b8 front[256];
  .shared .align 16 .b8 back[256];
  .local .align 4 .b32 mine[2];
  ld.param.u64 %x, [X];
  ld.param.u32 %n, [N];
  mov.u32 %t, %tid.x;
  setp.eq.u32 %z, %t, 0;
  @!%z bra READY;
  mbarrier.init.shared::cta.b64 [full], 1;
  mbarrier.init.shared::cta.b64 [empty], 64;
READY:
  bar.sync 0;
  mul.wide.s32 %o, %n, 4;
  add.u64 %o, %x, %o;
  ld.global.b32 %v, [%o];
  st.local.b32 [mine], %v;
  st.local.b32 [mine+4], %t;
  ld.const.b32 %w, [left+4];
  ld.const.b32 %a, [right+4];
  {
    .param .b32 p0;
    .param .b32 p1;
    .param .b32 r0;
    st.param.b32 [p0], %v;
    st.param.b32 [p1], %w;
    call.uni (r0), twice, (p0, p1);
    ld.param.b32 %b, [r0];
  }
  {
    .param .b32 p0;
    .param .b32 p1;
    .param .b32 r0;
    st.param.b32 [p0], %a;
    st.param.b32 [p1], %w;
    call.uni (r0), half, (p0, p1);
    ld.param.b32 %c, [r0];
  }
  call (%i), plain, (%b, %c);
  shl.b32 %w, %t, 2;
  mov.u32 %a, front;
  add.u32 %a, %a, %w;
  st.shared.b32 [%a], %i;
  mov.u32 %c, back;
  add.u32 %c, %c, %w;
  st.shared.b32 [%c], %b;
  mbarrier.arrive.shared::cta.b64 _, [empty];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [empty], 0;
  @!%p bra WAIT;
  bar.sync 1;
  bar.sync 2;
  ld.shared.b32 %a, [front+8];
  ld.shared.b32 %b, [back+8];
  setp.lt.s32 %p, %a, %b;
  setp.gt.u32 %q, %n, 7;
  @%p bra LESS;
  mov.b32 %v, %a;
  bra BOTH;
LESS:
  mov.b32 %v, %b;
BOTH:
  @%q bra SKIP;
  atom.global.add.u32 %w, [counter], %v;
SKIP:
  @%p ret;
  red.global.add.u32 [errors], %v;
  ld.global.u64 %f, [tables+8];
  ld.global.u64 %g, [steps];
  st.global.u64 [%x+16], %f;
  st.global.u64 [%x+24], %g;
  ld.local.b32 %w, [mine];
  st.global.b32 [%x], %w;
  ld.volatile.global.b32 %a, [%x];
  ld.volatile.global.b32 %b, [%x];
  st.global.b32 [%x+4], %a;
  mov.u32 %a, %clock;
  mov.u32 %b, %clock;
  sub.u32 %a, %b, %a;
  st.global.b32 [%x+8], %a;
  mov.u32 %i, 0;
LOOP:
  add.u32 %i, %i, 1;
  mul.lo.u32 %v, %v, %v;
  mul.lo.u32 %v, %v, 5;
  xor.b32 %v, %v, %i;
  setp.lt.u32 %q, %i, %n;
  @%q bra LOOP;
  st.global.b32 [%x+12], %v;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%x], [front], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
)";

// A part of the kernel's text, its replacement, and the number of the occurrence that is replaced.
struct Edit {
  const char* from;
  const char* to;
  int place = 1;
};

constexpr Edit kEdits[] = {
    // variables
    {"[left+4]", "[right+4]"},
    {"[right+4]", "[left+4]"},
    {"[left+4]", "[left+8]"},
    {"[counter]", "[errors]"},
    {"[errors]", "[counter]"},
    {"mov.u32 %a, front", "mov.u32 %a, back"},
    {"mov.u32 %c, back", "mov.u32 %c, front"},
    {"[front+8]", "[back+8]"},
    {"[back+8]", "[front+8]"},
    {"[front], 256", "[back], 256"},
    {"[mine+4], %t", "[mine], %t"},
    {"%w, [mine]", "%w, [mine+4]"},
    {"[tables+8]", "[tables]"},
    {"[steps]", "[steps+8]"},
    {"[steps]", "[tables]"},
    // constants and declarations
    {"{1, 2, 3, 4}", "{1, 2, 4, 3}"},
    {"{5, 6, 7, 8}", "{5, 6, 7, 9}"},
    {"{left, right}", "{right, left}"},
    {"{twice, half}", "{half, twice}"},
    {"0f3F800000", "0f40000000"},
    {".shared .align 16 .b8 back[256]", ".shared .align 16 .b8 back[512]"},
    // functions
    {"shl.b32 %v, %v, 1", "shl.b32 %v, %v, 2"},
    {"shr.u32 %v, %v, 1", "shr.s32 %v, %v, 1"},
    {"sub.u32 %v, %v, %w", "sub.u32 %v, %w, %v"},
    {"sub.u32 %v, %v, %w", "sub.u32 %v, %w, %v", 2},
    {"sub.u32 %r, %a, %b", "sub.u32 %r, %b, %a"},
    {"sub.u32 %r, %a, %b", "add.u32 %r, %a, %b"},
    {"(r0), twice,", "(r0), half,"},
    {"(r0), half,", "(r0), twice,"},
    {"twice, (p0, p1)", "twice, (p1, p0)"},
    {"half, (p0, p1)", "half, (p1, p0)"},
    {"[p0], %v", "[p0], %w"},
    {"[p1], %w", "[p1], %v"},
    {"plain, (%b, %c)", "plain, (%c, %b)"},
    {"ld.param.b32 %w, [b]", "ld.param.b32 %w, [a]"},
    {"[r], %v", "[r], %w", 2},
    // barriers and their order
    {"[full], 1", "[full], 2"},
    {"init.shared::cta.b64 [full]", "init.shared::cta.b64 [empty]"},
    {"_, [empty]", "_, [full]"},
    {"%p, [empty], 0", "%p, [full], 0"},
    {"%p, [empty], 0", "%p, [empty], 1"},
    {"bar.sync 1;\n  bar.sync 2", "bar.sync 2;\n  bar.sync 1"},
    {"bar.sync 0", "bar.sync 1"},
    {"bar.sync 2", "bar.sync 1"},
    {"_, [empty];\nWAIT:", "_, [empty];\nbar.sync 3;\nWAIT:"},
    // conditions, and which values come from which branch
    {"@%p bra LESS", "@!%p bra LESS"},
    {"@%p bra LESS", "@%q bra LESS"},
    {"@%q bra SKIP", "@%p bra SKIP"},
    {"@%p ret", "@!%p ret"},
    {"@%p ret", "@%q ret"},
    {"@%p ret;", ""},
    {"mov.b32 %v, %a", "mov.b32 %v, %b"},
    {"mov.b32 %v, %a;\n  bra BOTH;\nLESS:\n  mov.b32 %v, %b",
     "mov.b32 %v, %b;\n  bra BOTH;\nLESS:\n  mov.b32 %v, %a"},
    {"@!%z bra", "@%z bra"},
    {"setp.lt.s32", "setp.lt.u32"},
    {"setp.gt.u32 %q, %n, 7", "setp.gt.u32 %q, %n, 8"},
    // values
    {"mul.wide.s32", "mul.wide.u32"},
    {"[%x+4], %a", "[%x+4], %b"},
    {"sub.u32 %a, %b, %a", "sub.u32 %a, %a, %b"},
    {"mul.lo.u32 %v, %v, 5", "mul.lo.u32 %v, %v, 6"},
    {"xor.b32 %v, %v, %i", "xor.b32 %v, %v, %n"},
    {"add.u32 %i, %i, 1", "add.u32 %i, %i, 2"},
    {"mov.u32 %i, 0", "mov.u32 %i, 1"},
    {".add.u32 [%x], [front]", ".max.u32 [%x], [front]"},
    {".add.u32 [%x], [front]", ".add.s32 [%x], [front]"},
    {"ld.param.u64 %x, [X]", "ld.param.u64 %x, [X+8]"},
    {"ld.param.u32 %n", "ld.param.u16 %n"},
};

std::string edited(std::string text, const Edit& edit) {
  size_t at = std::string::npos;
  for (int i = 0; i < edit.place; ++i) at = text.find(edit.from, at + 1);
  REQUIRE(at != std::string::npos);
  return text.replace(at, std::string(edit.from).size(), edit.to);
}

// Returns the differences in the form that `ptxb diff` prints.
std::string compared(const std::string& a, const std::string& b) {
  const auto module_a = std::make_shared<const ptx_text::Module>(ptx_text::parse(a)),
             module_b = std::make_shared<const ptx_text::Module>(ptx_text::parse(b));
  const auto variables = have_same_variables(*module_a, *module_b) ? KernelAnalysis::Variables::by_name
                                                                   : KernelAnalysis::Variables::by_use;
  KernelAnalysis in_a(module_a, "", variables), in_b(module_b, "", variables);
  return report(diff(regions(in_a), regions(in_b)));
}

// The same kind of edit, for kernels of tests/emulator/faults.
struct EditOf {
  const char* kernel;
  const char* from;
  const char* to;
  int place = 1;
};

constexpr EditOf kEditsOf[] = {
    // which barrier, which stage, and in which order
    {"ring", "mov.u32 %full, full", "mov.u32 %full, empty"},
    {"ring", "mov.u32 %empty, empty", "mov.u32 %empty, full", 2},
    {"ring", "[full+8], 1", "[full+8], 2"},
    {"ring", "init.shared::cta.b64 [full+8]", "init.shared::cta.b64 [full]"},
    {"ring", "[%empty], %parity", "[%full], %parity"},
    {"ring", "_, [%empty];", "_, [%full];"},
    {"ring", "_, [%full], 2048", "_, [%empty], 2048"},
    {"ring", "2048, [%full]", "2048, [%empty]"},
    {"ring", "[%a], [%from], 2048", "[%a+1024], [%from], 2048"},
    {"ring", "[%full], 2048", "[%full], 2064"},
    {"ring", "shl.b32 %x, %stage, 11", "shl.b32 %x, %stage, 10"},
    {"ring", "shl.b32 %x, %stage, 11", "shl.b32 %x, %stage, 10", 2},
    {"ring", "and.b32 %stage, %i, 1", "and.b32 %stage, %i, 3", 2},
    {"ring", "xor.b32 %parity, %parity, 1;\n", ""},
    {"ring", "mov.u32 %b, b", "mov.u32 %b, a"},
    {"ring", "mov.u32 %b, b", "mov.u32 %b, a", 2},
    {"ring", "mov.u32 %a, a", "mov.u32 %a, b"},
    {"ring", "{%d0, %d1, %d2, %d3}, %da, %db", "{%d0, %d1, %d2, %d3}, %db, %da"},
    {"ring", "0x0000001000080000", "0x0000001000100000"},
    {"ring", "1, 1, 1, 0, 0", "1, 1, 1, 0, 1"},
    {"ring", "1, 1, 1, 0, 0", "1, -1, 1, 0, 0"},
    {"ring", "st.shared.b16 [%b], 0x3f80;\n  fence.proxy.async.shared::cta;",
     "fence.proxy.async.shared::cta;\n  st.shared.b16 [%b], 0x3f80;"},
    {"ring", "0x3f80", "0x3f81"},
    {"ring", "bar.sync 1, 128;\n", ""},
    {"ring", "@%lane0 mbarrier.arrive", "@%first mbarrier.arrive"},
    {"ring", "wgmma.wait_group.sync.aligned 0;\n  @%lane0 mbarrier.arrive.shared::cta.b64 _, [%empty];",
     "@%lane0 mbarrier.arrive.shared::cta.b64 _, [%empty];\n  wgmma.wait_group.sync.aligned 0;"},
    {"words", "ld.shared.b32 %x, [%a];\n  mbarrier.arrive.shared::cta.b64 _, [%empty];",
     "mbarrier.arrive.shared::cta.b64 _, [%empty];\n  ld.shared.b32 %x, [%a];"},
    {"words", "bar.sync 1, 64", "bar.sync 2, 64"},
    {"words", "add.u64 %from, %from, 256", "add.u64 %from, %from, 128"},
    {"words", "setp.ge.u32 %is_producer, %t, 64", "setp.ge.u32 %is_producer, %t, 32"},
    // copies
    {"copies", "mov.u32 %a, tail", "mov.u32 %a, a", 2},
    {"copies", "mov.u32 %a, tail", "mov.u32 %a, a"},
    {"copies", "cp.async.wait_group 0", "cp.async.wait_group 1"},
    {"copies", "[%o], 16", "[%o], 16, 8"},
    {"copies", "xor.b32 %x, %x, 2048", "xor.b32 %x, %x, 1024"},
    {"copies", "cp.async.cg.shared.global [%a], [%o]", "cp.async.cg.shared.global [%a], [%from]", 2},
    {"through", "[%buffer], 1024", "[%buffer], 512"},
    {"through", "cp.async.bulk.wait_group.read 0", "cp.async.bulk.wait_group.read 1"},
    {"through", "[tile+1024], [%source]", "[tile+1024], [%from]"},
    {"through", "[%o], [tile], 1024", "[%o], [tile+16], 1024"},
    {"through", "{%t, %t, %t, %t}", "{%t, %t, %next, %t}"},
    {"through", "add.u32 %next, %i, 2", "add.u32 %next, %i, 1"},
    // clusters
    {"peers", "mapa.shared::cluster.u32 %theirs, %own, %rank", "mapa.shared::cluster.u32 %theirs, %own, 0"},
    {"peers", "mov.u32 %own, told", "mov.u32 %own, tile"},
    {"peers", "arrive.release.cluster.shared::cluster", "arrive.relaxed.cluster.shared::cluster"},
    {"peers", "try_wait.parity.acquire.cluster", "try_wait.parity.acquire.cta"},
    {"peers", "xor.b32 %rank, %rank, 1", "xor.b32 %rank, %rank, 0"},
    {"ends", "barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n", ""},
    {"ends", "barrier.cluster.arrive.release", "barrier.cluster.arrive.relaxed"},
    {"ends", ".reqnctapercluster 2", ".reqnctapercluster 4"},
};

}  // namespace

TEST_CASE("other variables, functions, constants, orders and conditions are differences, in disguise too") {
  const uint64_t seed = std::random_device()();
  CAPTURE(seed);
  for (uint64_t draw = 0; draw < (draws > 0 ? at(draws) : 100); ++draw) {
    CAPTURE(draw);
    REQUIRE(compared(kCalls, test::Disguise(seed + draw)(kCalls)) == "");
  }
  for (const Edit& edit : kEdits) {
    CAPTURE(std::string(edit.from));
    CAPTURE(std::string(edit.to));
    const std::string other = edited(kCalls, edit);
    CHECK(compared(kCalls, other) != "");
    CHECK(compared(other, kCalls) != "");
    CHECK(compared(other, other) == "");
    CHECK(compared(kCalls, test::Disguise(seed)(other)) != "");
  }
}

TEST_CASE("other barriers, stages, tiles, copies and CTAs are differences, in disguise too") {
  const uint64_t seed = std::random_device()();
  CAPTURE(seed);
  for (const EditOf& edit : kEditsOf) {
    CAPTURE(std::string(edit.kernel));
    CAPTURE(std::string(edit.from));
    CAPTURE(std::string(edit.to));
    std::ifstream file(fmt::format("{}/emulator/faults/{}.ptx", PTXBUILDER_TEST_DIR, edit.kernel));
    const std::string text(std::istreambuf_iterator<char>(file), {}),
        other = edited(text, {edit.from, edit.to, edit.place});
    CHECK(compared(text, other) != "");
    CHECK(compared(other, text) != "");
    CHECK(compared(text, test::Disguise(seed)(text)) == "");
    CHECK(compared(text, test::Disguise(seed)(other)) != "");
  }
}

TEST_CASE("a difference far from the stored value is reported") {
  // One kernel has a chain of values, and another one has registers that pass on their values.
  const auto kernel = [](const std::string& body) {
    return ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 X)\n{\n.reg .pred "
           "%p;\n"
           ".reg .b32 %r<60>;\n.reg .b64 %x;\nld.param.u64 %x, [X];\n" +
           body + "st.global.b32 [%x], %r0;\nret;\n}\n";
  };
  const auto chain = [&](int first) {
    std::string body = fmt::format("mov.u32 %r0, %tid.x;\nxor.b32 %r0, %r0, {};\n", first);
    for (int i = 0; i < 50; ++i) body += fmt::format("mul.hi.u32 %r0, %r0, {};\n", 1000003 + i);
    return kernel(body);
  };
  CHECK(compared(chain(1), chain(1)) == "");
  CHECK(compared(chain(1), chain(2)) != "");
  const auto ring = [&](const std::string& last) {
    std::string body = "mov.u32 %r59, 0;\n", loop = "L:\n";
    for (int i = 0; i < 40; ++i) body += fmt::format("mov.u32 %r{}, 0;\n", i);
    for (int i = 0; i < 39; ++i) loop += fmt::format("mov.u32 %r{}, %r{};\n", i, i + 1);
    loop += "add.u32 %r59, %r59, 1;\n" + last + "\nsetp.lt.u32 %p, %r59, 100;\n@%p bra L;\n";
    return kernel(body + loop);
  };
  CHECK(compared(ring("mov.u32 %r39, %tid.x;"), ring("mov.u32 %r39, %tid.x;")) == "");
  CHECK(compared(ring("mov.u32 %r39, %tid.x;"), ring("mov.u32 %r39, %tid.y;")) != "");
}

}  // namespace ptxbuilder::test::diff_test
