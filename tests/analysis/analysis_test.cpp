// Control flow and values of PTX: small kernels whose answers are known, and every golden kernel under new
// names and another order of its instructions.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "ptxbuilder/analysis/values.h"
#include "tests/kit/error_kit.h"
#include "tests/kit/ptx_disguise.h"

namespace ptxbuilder::test::analysis_test {
using namespace analysis;

namespace {

std::string kernel(const std::string& body) {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
         ".visible .entry k(.param .u64 x, .param .u32 n)\n{\n.reg .pred %p<9>;\n.reg .b32 %r<40>;\n"
         ".reg .b64 %rd<20>;\n" +
         body + "\n}\n";
}

// A kernel with all that is known of it.
struct Analysed {
  explicit Analysed(const std::string& text)
      : module(ptx_text::parse(text)), code(Code::of(module)), graph(Graph::of(code)), values(code, graph) {}
  Analysed(const Analysed&) = delete;

  ptx_text::Module module;
  Code code;
  Graph graph;
  Values values;

  // The text of the address of the n-th st.
  std::string address(int n = 0) {
    for (int i = 0; i < static_cast<int>(code.operations.size()); ++i)
      if (const Operation& o = code.operations[static_cast<size_t>(i)]; o.is("st") && n-- == 0)
        return values.text(values.of(i, o.operands[0]));
    return "no store";
  }
};

// The hashes of what all instructions with an effect read, sorted: what a kernel does, but for its order.
std::vector<uint64_t> meaning(const std::string& text) {
  Analysed a(text);
  std::vector<uint64_t> hashes;
  for (int i = 0; i < static_cast<int>(a.code.operations.size()); ++i) {
    const Operation& o = a.code.operations[static_cast<size_t>(i)];
    if (!a.graph.reaches(a.graph.block_of[static_cast<size_t>(i)])) continue;
    if (!o.writes.empty() && !o.updates) continue;
    uint64_t hash = std::hash<std::string>()(o.text->opcode);
    if (o.guard != kNone) hash = hash * 31 + a.values.hash(a.values.before(i, o.guard)) + o.negated;
    for (size_t n = o.updates ? 1 : 0; n < o.operands.size(); ++n)
      hash = hash * 31 + a.values.hash(a.values.of(i, o.operands[n]));
    hashes.push_back(hash);
  }
  std::sort(hashes.begin(), hashes.end());
  return hashes;
}

std::vector<std::filesystem::path> golden_kernels() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(PTXBUILDER_TEST_DIR "/golden"))
    if (entry.path().extension() == ".ptx") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("instructions say what they read and write") {
  const Analysed a(kernel(R"(
    { .reg .b32 %r1; mov.u32 %r1, %tid.x; st.shared.u32 [smem+4], %r1; }
    setp.lt.and.u32 %p1|%p2, %r1, %r2, %p3;
    @!%p1 add.s32 %r3, %r1, 7;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r4, %r5, %r6, %r7}, %rd1, %rd2, %p2, 1, 1, 0, 0;
    mbarrier.arrive.shared::cta.b64 _, [%r8+16];
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd3, {%r9, %r10}], [%r11];
    bar.sync 1, %r12;
    frobnicate.b32 %r13, %r14;
    ret;)"));
  auto operation = [&](int i) -> const Operation& { return a.code.operations[static_cast<size_t>(i)]; };
  auto name = [&](int reg) { return a.code.registers[static_cast<size_t>(reg)].name; };
  CHECK(operation(0).writes.size() == 1);
  // The inner %r1 is another register than the outer one.
  CHECK(operation(0).writes[0] == operation(1).reads[0]);
  CHECK(operation(0).writes[0] != operation(2).reads[0]);
  CHECK(name(operation(2).writes[1]) == "%p2");
  CHECK(operation(2).reads.size() == 3);
  CHECK(name(operation(3).guard) == "%p1");
  CHECK(operation(3).negated);
  CHECK(operation(4).writes.size() == 4);
  CHECK(operation(4).reads.size() == 4 + 3);  // the accumulators too
  CHECK(operation(5).writes.empty());
  CHECK(operation(6).reads.size() == 4);
  CHECK(operation(6).writes.empty());
  CHECK(operation(7).writes.empty());
  CHECK(name(operation(8).writes[0]) == "%r13");  // what is not known writes its first operand
  CHECK_FALSE(operation(9).falls_through);
}

TEST_CASE("blocks, dominators and loops") {
  const Analysed a(kernel(R"(
    mov.u32 %r1, 0;
OUTER:
    mov.u32 %r2, 0;
INNER:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 8;
    @%p1 bra INNER;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p2, %r1, 8;
    @%p2 bra OUTER;
    @%p3 bra RIGHT;
    bra.uni JOIN;
    trap;
RIGHT:
    mov.u32 %r3, 1;
JOIN:
    ret;)"));
  const Graph& g = a.graph;
  REQUIRE(g.loops.size() == 2);
  CHECK(g.loops[0].header == 1);
  CHECK(g.loops[1].header == 2);
  CHECK(g.loops[1].parent == 0);
  CHECK(g.loops[1].depth == 2);
  CHECK(g.loops[0].blocks == std::vector<int>{1, 2, 3});
  CHECK(g.loops[1].blocks == std::vector<int>{2});
  CHECK(g.blocks[2].loop == 1);
  REQUIRE(g.blocks.size() == 9);  // entry, two headers, latch, test, bra JOIN, trap, RIGHT, JOIN
  CHECK_FALSE(g.reaches(6));
  CHECK(g.blocks[8].dominator == 4);
  CHECK(g.dominates(1, 8));
  CHECK_FALSE(g.dominates(7, 8));
  CHECK(g.blocks[4].loop == kNone);
}

TEST_CASE("an indexed branch goes to all of its list") {
  const Analysed a(kernel("L: .branchtargets A, B;\nbrx.idx %r1, L;\nA: mov.u32 %r2, 1;\nret;\nB: ret;"));
  CHECK(a.graph.blocks[0].successors.size() == 2);
}

TEST_CASE("values are sums") {
  CHECK(Analysed(
            kernel(
                "mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mad.lo.s32 %r3, %r1, 12, %r2; add.s32 %r4, %r3, 7;"
                "mov.b32 %r5, smem; sub.s32 %r6, %r5, %r4; st.shared.u32 [%r6+9], %r1; ret;"))
            .address() == "-16 %tid.x + shared + 2");
  CHECK(Analysed(
            kernel("ld.param.u64 %rd1, [x]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, %ctaid.x;"
                   "mul.wide.u32 %rd3, %r1, 512; add.s64 %rd4, %rd2, %rd3; st.global.u32 [%rd4], %r1; ret;"))
            .address() == "512 %ctaid.x + ld(parameter 0)");
  // A descriptor's fields, and its halves put together again.
  CHECK(
      Analysed(
          kernel("mov.b32 %r1, smem; shr.u32 %r2, %r1, 4; cvt.u64.u32 %rd1, %r2; and.b64 %rd2, %rd1, 16383;"
                 "or.b64 %rd3, %rd2, 4611686293305294848; mov.b64 {%r3, %r4}, %rd3; mov.b64 %rd4, {%r3, %r4};"
                 "mov.b64 {%r5, %r6}, %rd4; st.shared.u32 [%r5], %r6; ret;"))
          .address() == "part(and.b64(shr.32(shared, 4), 16383) + 4611686293305294848, 0)");
  // Loads are values of their own.
  CHECK(Analysed(kernel("ld.shared.u32 %r1, [smem]; ld.shared.u32 %r2, [smem]; sub.s32 %r3, %r1, %r2;"
                        "st.shared.u32 [%r3], %r1; ret;"))
            .address() != "0");
  CHECK(Analysed(kernel("mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;"
                        "sub.s32 %r4, %r2, %r3; st.shared.u32 [%r4], %r1; ret;"))
            .address() == "0");
}

TEST_CASE("loops have counters, and what they only hand on is no change") {
  Analysed a(kernel(R"(
    mov.b32 %r1, smem;
    mov.u32 %r2, 5;
    mov.u32 %r3, %tid.x;
LOOP:
    mov.b32 %r9, %r1;
    mov.b32 %r10, %r3;
    st.shared.u32 [%r9], %r2;
    mad.lo.u32 %r4, %r2, 64, %r9;
    st.shared.u32 [%r4+8], %r10;
    add.u32 %r2, %r2, 2;
    mov.b32 %r1, %r9;
    mov.b32 %r3, %r10;
    setp.lt.u32 %p1, %r2, 99;
    @%p1 bra LOOP;
    st.shared.u32 [%r3], %r2;
    ret;)"));
  CHECK(a.address(0) == "shared");
  CHECK(a.address(1) == "64 counter(5, +2) + shared + 8");
  CHECK(a.address(2) == "%tid.x");
}

TEST_CASE("two values that a loop swaps are no copies") {
  Analysed a(
      kernel("mov.b32 %r1, 1;\nmov.b32 %r2, 2;\nLOOP: st.shared.u32 [%r1], %r2;\nmov.b32 %r3, %r1;\n"
             "mov.b32 %r1, %r2;\nmov.b32 %r2, %r3;\n@%p1 bra LOOP;\nret;"));
  CHECK(a.address().starts_with("meet("));
}

TEST_CASE("a guarded instruction leaves one of two values") {
  Analysed a(kernel("mov.u32 %r1, 1;\n@%p1 mov.u32 %r1, 2;\nst.shared.u32 [%r1], %r1;\nret;"));
  CHECK(a.address() == "if(unwritten, 2, 1)");
}

TEST_CASE("what is wrong is named") {
  CHECK_ERROR(Analysed(kernel("bra NOWHERE;")), "ptx 10:1: the label 'NOWHERE' is not there");
  CHECK_ERROR(Analysed(kernel("@q ret;")), "the predicate 'q' is not declared");
  const ptx_text::Module two = ptx_text::parse(kernel("ret;") + ".entry other() { ret; }");
  CHECK_ERROR(Code::of(two), "the module has 2 kernels, and one has to be named: k, other");
  CHECK_ERROR(Code::of(two, "third"), "the module has no kernel 'third'; it has: k, other");
  CHECK(Code::of(two, "other").operations.size() == 1);
}

TEST_CASE("a kernel without instructions") {
  const Analysed a(kernel(""));
  CHECK(a.code.operations.empty());
  CHECK(a.graph.loops.empty());
}

TEST_CASE("a kernel that branches back to its first instruction") {
  Analysed a(
      kernel("$L: add.u32 %r1, %r2, 1;\nmov.u32 %r2, %r1;\nst.shared.u32 [%r2], %r3;\n"
             "setp.lt.u32 %p1, %r2, 9;\n@%p1 bra $L;\nret;"));
  CHECK(a.address() == "counter(unwritten, +1) + 1");
  Analysed kept(kernel("$L: st.shared.u32 [%r2], %r3;\nadd.u32 %r2, %r2, 0;\n@%p1 bra $L;\nret;"));
  CHECK(kept.address().starts_with("meet("));
  Analysed endless(kernel("$L: st.shared.u32 [%r2], %r3;\nbra $L;\nmov.u32 %r2, 1;\nret;"));
  CHECK(endless.address() == "unwritten");
  Analysed unreached(kernel("ret;\n$L: add.u32 %r1, %r2, 1;\nst.shared.u32 [%r2], %r3;\nbra $L;"));
  CHECK(unreached.address() == "unwritten");
}

TEST_CASE("every golden kernel means the same under new names and in another order") {
  uint64_t seed = std::random_device()();
  int changed = 0;
  for (const auto& file : golden_kernels()) {
    const std::string text = read(file);
    const std::vector<uint64_t> expected = meaning(text);
    for (int draw = 0; draw < 8; ++draw) {
      CAPTURE(file.filename());
      CAPTURE(++seed);
      const std::string disguised = test::Disguise(seed)(text);
      changed += disguised != text;
      REQUIRE(meaning(disguised) == expected);
    }
  }
  CHECK(changed > 100);
}

TEST_CASE("another constant is another meaning") {
  const std::string text = read(PTXBUILDER_TEST_DIR "/golden/gemm_warp_specialized.ptx");
  auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const size_t at = other.find(from);
    REQUIRE(at != std::string::npos);
    return other.replace(at, from.size(), to);
  };
  const std::vector<uint64_t> meant = meaning(text);
  CHECK(meaning(with(", 49152", ", 49136")) != meant);
  CHECK(meaning(with("setp.eq.b32", "setp.ne.b32")) != meant);
  CHECK(meaning(with("196640", "196648")) != meant);
}

}  // namespace ptxbuilder::test::analysis_test
