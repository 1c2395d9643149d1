// Tests control flow and values of PTX on small kernels with known answers, and on every golden kernel with
// new names and a new order of its instructions.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "ptxbuilder/analysis/diff.h"
#include "ptxbuilder/analysis/lint.h"
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

// A kernel with everything that the analysis finds out about it.
struct Analysed {
  explicit Analysed(const std::string& text)
      : module(ptx_text::parse(text)),
        code(Code::of(module)),
        graph(Graph::of(code)),
        values(code, graph, numbering) {}
  Analysed(const Analysed&) = delete;

  ptx_text::Module module;
  Code code;
  Graph graph;
  Numbering numbering;
  Values values;

  // Returns the text of the address of the n-th st.
  std::string address(int n = 0) {
    for (int i = 0; i < static_cast<int>(code.operations.size()); ++i)
      if (const Operation& o = code.operations[static_cast<size_t>(i)]; o.is("st") && n-- == 0)
        return values.text(values.of(i, o.operands[0]));
    return "no store";
  }
};

// Returns the sorted hashes of the operands of all instructions with an effect. They represent the effects of
// a kernel, except for their order.
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
    istypep.texref %p5, %rd6;
    ret;)"));
  auto operation = [&](int i) -> const Operation& { return a.code.operations[static_cast<size_t>(i)]; };
  auto name = [&](int reg) { return a.code.registers[static_cast<size_t>(reg)].name; };
  CHECK(operation(0).writes.size() == 1);
  // The inner %r1 and the outer %r1 are different registers.
  CHECK(operation(0).writes[0] == operation(1).reads[0]);
  CHECK(operation(0).writes[0] != operation(2).reads[0]);
  CHECK(name(operation(2).writes[1]) == "%p2");
  CHECK(operation(2).reads.size() == 3);
  CHECK(name(operation(3).guard) == "%p1");
  CHECK(operation(3).negated);
  CHECK(operation(4).writes.size() == 4);
  CHECK(operation(4).reads.size() == 4 + 3);  // reads include the accumulators
  CHECK(operation(5).writes.empty());
  CHECK(operation(6).reads.size() == 4);
  CHECK(operation(6).writes.empty());
  CHECK(operation(7).writes.empty());
  CHECK(name(operation(8).writes[0]) == "%r13");  // an unknown instruction writes its first operand
  CHECK(operation(9).row != nullptr);
  CHECK(name(operation(9).writes[0]) == "%p5");
  CHECK(name(operation(9).reads[0]) == "%rd6");
  CHECK_FALSE(operation(10).falls_through);
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
  CHECK(g.dominators.parent[8] == 4);
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
  // The fields of a descriptor are extracted, and its halves are combined again.
  CHECK(
      Analysed(
          kernel("mov.b32 %r1, smem; shr.u32 %r2, %r1, 4; cvt.u64.u32 %rd1, %r2; and.b64 %rd2, %rd1, 16383;"
                 "or.b64 %rd3, %rd2, 4611686293305294848; mov.b64 {%r3, %r4}, %rd3; mov.b64 %rd4, {%r3, %r4};"
                 "mov.b64 {%r5, %r6}, %rd4; st.shared.u32 [%r5], %r6; ret;"))
          .address() == "part(and.b64(shr.32(shared, 4), 16383) + 4611686293305294848, 0)");
  // Each load is a new value.
  CHECK(Analysed(kernel("ld.shared.u32 %r1, [smem]; ld.shared.u32 %r2, [smem]; sub.s32 %r3, %r1, %r2;"
                        "st.shared.u32 [%r3], %r1; ret;"))
            .address() != "0");
  CHECK(Analysed(kernel("mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;"
                        "sub.s32 %r4, %r2, %r3; st.shared.u32 [%r4], %r1; ret;"))
            .address() == "0");
}

TEST_CASE("loops have counters, and values that they only pass on do not change") {
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

TEST_CASE("two values that a loop swaps are not copies") {
  Analysed a(
      kernel("mov.b32 %r1, 1;\nmov.b32 %r2, 2;\nLOOP: st.shared.u32 [%r1], %r2;\nmov.b32 %r3, %r1;\n"
             "mov.b32 %r1, %r2;\nmov.b32 %r2, %r3;\n@%p1 bra LOOP;\nret;"));
  CHECK(a.address().starts_with("meet("));
}

TEST_CASE("a guarded instruction leaves one of two values") {
  Analysed a(kernel("mov.u32 %r1, 1;\n@%p1 mov.u32 %r1, 2;\nst.shared.u32 [%r1], %r1;\nret;"));
  CHECK(a.address() == "if(unwritten, 2, 1)");
}

TEST_CASE("errors are named") {
  CHECK_ERROR(Analysed(kernel("bra NOWHERE;")), "ptx 10:1: the label 'NOWHERE' does not exist");
  CHECK_ERROR(Analysed(kernel("@q ret;")), "the predicate 'q' is not declared");
  const ptx_text::Module two = ptx_text::parse(kernel("ret;") + ".entry other() { ret; }");
  CHECK_ERROR(Code::of(two), "the module has 2 kernels; choose one by name: k, other");
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

TEST_CASE("another constant changes the meaning") {
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

// ---- Cost ----

namespace {

// Returns a kernel with many branches. `part` is the text of each branch, with $ for its number.
std::string branches(int count, std::string_view part, bool in_a_loop = false) {
  std::string body =
      "ld.param.u64 %rd0, [x];\nld.param.u32 %r1, [n];\nmov.u32 %r0, %tid.x;\nmov.u32 %r9, 0;\nmov.u32 %r2, "
      "0;\n";
  if (in_a_loop) body += "LOOP:\nbar.sync 0;\n";
  for (int k = 0; k < count; ++k)
    for (char c : part) c == '$' ? body += std::to_string(k) : body += c;
  if (in_a_loop) body += "add.u32 %r9, %r9, 1;\nsetp.lt.u32 %p1, %r9, %r1;\n@%p1 bra LOOP;\n";
  std::string text = kernel(body + "EXIT:\nst.global.b32 [%rd0], %r2;\nret;");
  return text.replace(text.find("\n{"), 1, "\n.maxntid 256\n");
}

constexpr std::string_view kDiamond =
    "xor.b32 %r3, %r2, $;\nsetp.eq.s32 %p2, %r3, 7;\n@%p2 bra A$;\nand.b32 %r4, %r3, 255;\n"
    "setp.ne.s32 %p3, %r4, 0;\n@%p3 bra B$;\nadd.u32 %r4, %r4, 1;\nB$:\nselp.b32 %r2, %r4, %r3, %p3;\nbra "
    "C$;\n"
    "A$:\nadd.u32 %r2, %r2, 1;\nC$:\n";

}  // namespace

TEST_CASE("time grows as the instructions and branches do") {
  // Each of these kernels took minutes when the analysis copied the set of each branch to the next.
  const std::pair<const char*, std::string> kernels[] = {
      {"diamonds", branches(3000, kDiamond)},
      {"diamonds in a loop", branches(3000, kDiamond, true)},
      {"ways out",
       branches(3000, "ld.global.b32 %r2, [%rd0+$];\nsetp.eq.s32 %p2, %r2, $;\n@%p2 bra EXIT;\n")},
      {"returns", branches(3000, "ld.global.b32 %r2, [%rd0+$];\nsetp.eq.s32 %p2, %r2, $;\n@%p2 ret;\n")},
      {"loops", branches(3000, "L$:\nadd.u32 %r2, %r2, 3;\nsetp.lt.u32 %p2, %r2, %r1;\n@%p2 bra L$;\n")},
  };
  for (const auto& [name, text] : kernels) {
    CAPTURE(name);
    const auto start = std::chrono::steady_clock::now();
    KernelAnalysis a(text);
    CHECK(diff(regions(a), regions(a)).empty());
    for (const Finding& f : lint(*a.module)) CHECK_FALSE(f.is_undecided);
    CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < 10);
  }
}

TEST_CASE("if a kernel is too large for a rule, only this rule gives up, and says so") {
  const std::string text = branches(
      3000,
      "ld.global.b32 %r2, [%rd0+$];\nsetp.eq.s32 %p2, %r2, $;\n@%p2 bra A$;\nst.shared.b32 [smem+$], "
      "%r2;\nA$:\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [smem], 16;\ncp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group 0;\n");
  std::set<std::string_view> undecided, found;
  for (const Finding& f : lint(ptx_text::parse(text))) (f.is_undecided ? undecided : found).insert(f.rule);
  CHECK(undecided.contains("proxy-fence"));
  CHECK_FALSE(undecided.contains("bank-conflict"));
  CHECK(found.contains("misaligned"));
}

TEST_CASE("dominators are those that a search without them cannot get around") {
  std::mt19937_64 random(std::random_device{}());
  for (int draw = 0; draw < 400; ++draw) {
    const size_t nodes = 1 + random() % 12;
    Edges successors(nodes), predecessors(nodes);
    for (size_t e = random() % (3 * nodes); e-- > 0;) {
      const size_t from = random() % nodes, to = random() % nodes;
      successors[from].push_back(static_cast<int>(to));
      predecessors[to].push_back(static_cast<int>(from));
    }
    const DominatorTree tree = DominatorTree::of(successors, predecessors, 0);
    const auto reached_without = [&](int gone) {
      std::vector<bool> met(nodes, false);
      std::vector<int> waiting;
      if (gone != 0) waiting.push_back(0);
      while (!waiting.empty()) {
        const auto node = static_cast<size_t>(waiting.back());
        waiting.pop_back();
        if (met[node]) continue;
        met[node] = true;
        for (int next : successors[node])
          if (next != gone) waiting.push_back(next);
      }
      return met;
    };
    const std::vector<bool> all = reached_without(-1);
    for (size_t above = 0; above < nodes; ++above) {
      CHECK(tree.reaches(static_cast<int>(above)) == all[above]);
      const std::vector<bool> without = reached_without(static_cast<int>(above));
      for (size_t node = 0; node < nodes; ++node)
        if (all[above] && all[node])
          CHECK(tree.dominates(static_cast<int>(above), static_cast<int>(node)) == !without[node]);
    }
  }
}

TEST_CASE("a register holds what the last writer on each way left, or a meet of these") {
  // Computes the value at a use again, by following every path of a random graph back to its writers.
  std::mt19937_64 random(std::random_device{}());
  for (int draw = 0; draw < 200; ++draw) {
    const int blocks = 2 + static_cast<int>(random() % 7);
    std::string body = "mov.b32 %r1, 0;\n";
    for (int b = 0; b < blocks; ++b) {
      body += fmt::format("B{}:\nst.global.b32 [%rd0], %r1;\n", b);
      if (random() % 2) body += fmt::format("mov.b32 %r1, {};\n", 1 + b);
      body += fmt::format("@%p{} bra B{};\n", random() % 3, random() % static_cast<size_t>(blocks));
    }
    Analysed a(kernel(body + "ret;"));
    const Definitions definitions(a.code, a.graph);
    // Returns the writers that reach a definition through the points where paths meet; -1 means that there is
    // no writer.
    const auto writers = [&](Definition from) {
      std::set<int> all, met;
      std::vector<Definition> waiting = {from};
      while (!waiting.empty()) {
        const Definition d = waiting.back();
        waiting.pop_back();
        if (d.kind != Definition::Kind::meet) {
          all.insert(d.number);
        } else if (met.insert(d.number).second) {
          const auto [block, reg] = definitions.meets()[at(d.number)];
          for (int predecessor : a.graph.blocks[at(block)].predecessors)
            if (a.graph.reaches(predecessor)) waiting.push_back(definitions.behind(predecessor, reg));
        }
      }
      return all;
    };
    for (int i = 0; at(i) < a.code.operations.size(); ++i) {
      const Operation& store = a.code.operations[at(i)];
      if (!store.is("st") || !a.graph.reaches(a.graph.block_of[at(i)])) continue;
      const int reg = store.operands[1].number;
      std::set<int> expected;
      std::set<int> met;
      std::vector<std::pair<int, int>> waiting = {{a.graph.block_of[at(i)], i}};
      while (!waiting.empty()) {
        auto [block, behind] = waiting.back();
        waiting.pop_back();
        int writer = behind - 1;
        const int first = a.graph.blocks[at(block)].first;
        while (writer >= first && a.code.operations[at(writer)].writes != std::vector{reg}) --writer;
        if (writer >= first) {
          expected.insert(writer);
          continue;
        }
        for (int predecessor : a.graph.blocks[at(block)].predecessors)
          if (a.graph.reaches(predecessor) && met.insert(predecessor).second)
            waiting.emplace_back(predecessor, a.graph.blocks[at(predecessor)].last);
      }
      CHECK(writers(definitions.before(i, reg)) == expected);
    }
  }
}

TEST_CASE("if threads decide too many branches, only roles are given up, and this is reported") {
  std::string text = branches(20000, "setp.eq.u32 %p2, %r0, $;\n@%p2 bra A$;\nA$:\n");
  text.replace(text.find(".maxntid 256"), 12, ".maxntid 1024");
  const KernelAnalysis kernel(text);
  CHECK(kernel.portrait.roles.empty());
  REQUIRE(kernel.portrait.unknowns.size() == 1);
  CHECK(kernel.portrait.unknowns[0].find("which warps take which of 20000 branches") != std::string::npos);
  std::set<std::string_view> undecided;
  for (const Finding& f : lint(*kernel.module))
    if (f.is_undecided) undecided.insert(f.rule);
  CHECK(undecided.contains("undecided"));
}

}  // namespace ptxbuilder::test::analysis_test
