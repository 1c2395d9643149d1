// Tests the forms of the manual: their notation, finding their rows by key, and the instructions in NVIDIA's
// headers, which the forms must contain.
#include "ptxbuilder/isa/manual.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "cutlass_exceptions.h"
#include "error_kit.h"
#include "options.h"
#include "ptxbuilder/isa/nearest.h"
#include "ptxbuilder/isa/query.h"
#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::test::manual_test {
using isa::Choices, isa::Effect, isa::Form, isa::KeyParts;

namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string row_of(const Form& form, const std::string& key) {
  Choices choices;
  if (!isa::has_row(form, KeyParts(key), choices)) return "";
  const isa::MadeRow row = isa::detail::row_of(form, choices);
  CHECK(row.name.view() == key);
  return fmt::format("{} {} {}", row.syntax.view(), row.ptx_version, row.targets.text());
}

}  // namespace

TEST_CASE("a pattern's axes: text, class, count, floor") {
  constexpr Form load = {
      "ld<scope=.cta|.cluster@78/sm_90>.v<n=2|4><t=.u8=u16|.f32@86> {d:=<t>x<n>}, [{a:gmem}];",
      Effect::memory, 63, "sm_75"};
  CHECK(row_of(load, "ld.cta.v2.u8") == "ld.cta.v2.u8 {d:=u16x2}, [{a:gmem}]; 63 sm_75");
  CHECK(row_of(load, "ld.cluster.v4.f32") == "ld.cluster.v4.f32 {d:=f32x4}, [{a:gmem}]; 86 sm_90");
  CHECK(row_of(load, "ld.cta.v3.u8") == "");
  CHECK(row_of(load, "ld.cta.v2.u8 sink") == "");
  CHECK(row_of(load, "ld.cta.v2.u8.x") == "");

  constexpr Form copy = {
      "#<n=4|16>_fill cp<hint=|.hint>.<dim=2|3>d [{m:tmap}, {c:s32*<dim>}], {o:b16*<dim-1>}, <n><hint?, "
      "{p:b64}>;",
      Effect::memory, 80, "sm_90a+sm_100f"};
  CHECK(row_of(copy, "cp.2d 4_fill") ==
        "cp.2d [{m:tmap}, {{{c0:s32}, {c1:s32}}}], {{{o0:b16}}}, 4; 80 sm_90a, sm_100f");
  CHECK(row_of(copy, "cp.hint.3d 16_fill") ==
        "cp.hint.3d [{m:tmap}, {{{c0:s32}, {c1:s32}, {c2:s32}}}], {{{o0:b16}, {o1:b16}}}, 16, {p:b64}; 80 "
        "sm_90a, sm_100f");
  CHECK(row_of(copy, "cp.2d") == "");
  CHECK(row_of(copy, "cp.2d 8_fill") == "");

  constexpr Form same = {"mma.<d=f16=b32|f32>.<d> {d:+<d>x<d/8>}, {i:imm<0..8/2>};", Effect::pure, 70,
                         "sm_80"};
  CHECK(row_of(same, "mma.f32.f32") == "mma.f32.f32 {d:+f32x4}, {i:imm<0..8/2>}; 70 sm_80");
  CHECK(row_of(same, "mma.f32.f16") == "");
}

TEST_CASE("every row of the manual is found by its key, once") {
  std::set<std::string, std::less<>> keys;
  std::string wrong;
  isa::for_each_instruction([&](const isa::MadeRow& row, std::string_view section) {
    const isa::MadeRow found = isa::detail::find_row(row.name.view());
    if (!keys.insert(std::string(row.name.view())).second || found.syntax.view() != row.syntax.view() ||
        found.ptx_version != row.ptx_version || found.targets != row.targets || row.targets.empty() ||
        section.empty())
      wrong += fmt::format("{}\n", row.name.view());
    const isa::Row parsed = row.row();
    bool writes = row.effect == Effect::memory;
    for (const isa::Operand& o : parsed.operands) writes |= o.writes();
    if (!writes || !parsed.syntax.ends_with(';'))
      wrong += fmt::format("{}: nothing is written\n", row.name.view());
  });
  CHECK(wrong == "");
  CHECK(keys.size() > 20000);
  CHECK(isa::find_instruction("mbarrier.init.b65") == nullptr);
  CHECK(isa::find_instruction("") == nullptr);
  CHECK(&isa::instruction("tanh.approx.f32") == isa::find_instruction("tanh.approx.f32"));
  CHECK(isa::instruction<"tanh.approx.f32">().syntax == isa::instruction("tanh.approx.f32").syntax);
  const std::string text = error_of([] { isa::instruction("mbarrier.intt.b64"); });
  CHECK(contains(text, fmt::format("manual_test.cpp:{}", __LINE__ - 1)));
  CHECK(contains(text, "the manual has no row 'mbarrier.intt.b64'; mbarrier.in"));
  CHECK(contains(text, ".intt is given instead of .in"));
  CHECK(contains(text,
                 "use ptx(\"...\") for an instruction without a row, or declare a row with PTXBUILDER_ROW"));
  CHECK(isa::section_of(isa::instruction("tanh.approx.f32")).starts_with("Floating-Point"));
  CHECK(isa::example(isa::instruction("ld.global.v2.f32")) ==
        "std::array<f32, 2> d = instruction<\"ld.global.v2.f32\">(a);");
}

// These spellings, with this order of words, occur in published kernels.
TEST_CASE("spellings in use have rows") {
  std::string missing;
  for (const std::string_view key :
       {"mbarrier.try_wait.parity.shared.b64",
        "mbarrier.try_wait.shared.b64",
        "mbarrier.arrive.expect_tx.shared.b64 sink",
        "mbarrier.expect_tx.shared.b64",
        "ld.global.L1::evict_first.L2::cache_hint.v4.b32",
        "st.global.L1::evict_first.L2::cache_hint.v2.f32",
        "ld.global.L1::no_allocate.L2::256B.v4.s32",
        "ld.global.nc.L1::no_allocate.L2::256B.s32",
        "ld.weak.global.u32",
        "ld.weak.global.cg.v2.f32",
        "ld.relaxed.cta.shared.u32",
        "ld.acquire.cta.shared.u32",
        "ld.ca.f32",
        "ld.acquire.global.sys.v4.b32",
        "ld.global.acquire.gpu.b32",
        "ld.global.relaxed.cta.L1::no_allocate.v8.f32",
        "st.release.global.sys.v4.b32",
        "ld.relaxed.gpu.global.L1::no_allocate.L2::256B.v4.s32",
        "ld.global.nc.L2::cache_hint.L2::256B.b128",
        "ld.global.L1::no_allocate.L2::256B.v8.b32",
        "ld.global.nc.L1::no_allocate.L2::evict_first.v4.u64",
        "st.global.L1::evict_first.L2::cache_hint.v4.b64",
        "atom.relaxed.cta.shared.max.u32",
        "red.release.gpu.add.s32",
        "red.release.cluster.shared::cluster.add.s32",
        "red.relaxed.gpu.global.add.noftz.v2.bf16x2",
        "atom.add.release.gpu.global.s32",
        "atom.add.release.sys.global.s32",
        "atom.global.gpu.acq_rel.add.u32",
        "atom.cas.acquire.gpu.b32",
        "atom.global.acquire.sys.cas.b32",
        "atom.relaxed.global.gpu.add.noftz.f16",
        "red.add.release.sys.global.u64",
        "red.release.global.gpu.add.u32",
        "red.global.gpu.add.u32",
        "atom.cas.sys.global.b32",
        "cp.async.bulk.tensor.2d.tile::gather4.shared::cluster.global.mbarrier::complete_tx::bytes",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.tile",
        "cp.async.ca.shared.global 4_ignore_not",
        "setp.lt.and.u64 not",
        "set.lt.and.f32.f32",
        "mapa.u32",
        "multimem.ld_reduce.weak.add.acc::f32.v4.bf16x2",
        "multimem.ld_reduce.relaxed.sys.add.f32",
        "multimem.ld_reduce.sys.relaxed.global.add.acc::f32.v4.bf16x2",
        "multimem.ld_reduce.sys.relaxed.global.add.acc::f16.v4.e4m3x4",
        "multimem.st.weak.v4.f32",
        "multimem.st.sys.relaxed.global.v4.f32",
        "multimem.red.sys.release.add.u32",
        "mov.v4.u32 %tid"})
    if (!isa::find_instruction(key)) missing += fmt::format("{}\n", key);
  CHECK(missing == "");
}

// ptxas accepts most words in any order, but the rows have a fixed order. Each pair is from a published
// kernel.
TEST_CASE("a key whose words are in another order gets the row that has them") {
  for (const auto& [key, row] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"red.global.v4.f32.add", "red.global.add.v4.f32"},
           {"red.global.add.noftz.v4.bf16x2.L2::cache_hint", "red.global.add.noftz.L2::cache_hint.v4.bf16x2"},
           {"cvt.rn.e4m3x2.f32.satfinite", "cvt.rn.satfinite.e4m3x2.f32"},
           {"cvt.satfinite.rn.e5m2x2.f16x2", "cvt.rn.satfinite.e5m2x2.f16x2"},
           {"ld.acquire.sys.L1::no_allocate.global.u32", "ld.acquire.sys.global.L1::no_allocate.u32"},
           {"ld.global.volatile.b32", "ld.volatile.global.b32"},
           {"stmatrix.sync.aligned.x4.m8n8.shared.b16.trans",
            "stmatrix.sync.aligned.x4.trans.m8n8.shared.b16"},
           {"cp.async.bulk.tensor.1d.global.shared::cta.bulk_group.tile",
            "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group"},
           {"red.async.release.global.gpu.add.u32", "red.async.release.gpu.global.add.u32"}}) {
    CAPTURE(key);
    const std::string text = error_of([&, key = key] { isa::instruction(key); });
    CHECK_MESSAGE(contains(text, fmt::format("; {} has the same words;", row)), text);
    CHECK(isa::nearest(key).has_same_words);
  }
  // The types of a conversion must not be exchanged.
  CHECK_FALSE(isa::nearest("cvt.rn.satfinite.f32.e4m3x2").has_same_words);
}

TEST_CASE("the instructions of a text come after labels, guards and comments, with their operands counted") {
  const auto in = [](std::string_view text) {
    std::string all;
    for (const auto& [mnemonic, operands] : isa::instructions_in(text))
      all += fmt::format("{} {}; ", mnemonic, operands);
    return all;
  };
  CHECK(in("") == "");
  CHECK(in("ret;") == "");
  CHECK(in("{ .reg .pred p; again: mbarrier.try_wait.parity.b64 p, [$0], $1;\n"
           "  @!p bra.uni again; }\tst.v2.f32 [$2], {a, b};") ==
        "mbarrier.try_wait.parity.b64 3; bra.uni 1; st.v2.f32 2; ");
  CHECK(in("// add.u32 a, b, c;\n/* ; sub.u32 */ fence.proxy.async; // x\nmin.f32 a, b, c, d") ==
        "fence.proxy.async 0; min.f32 4; ");
  CHECK(in("/* open") == "");
  CHECK(isa::floor_of("min.f32", 3)->ptx_version < 86);
  CHECK(isa::floor_of("min.f32", 4)->ptx_version == 88);
  CHECK(isa::floor_of("min.f32", 9)->ptx_version == isa::floor_of("min.f32")->ptx_version);
}

namespace {

// Returns the instructions in asm statements of cuda::ptx, from a CUDA toolkit or the headers that
// scripts/setup downloads from PyPI.
std::set<std::string> used_by_cuda_ptx() {
  namespace fs = std::filesystem;
  fs::path folder;
  const char* const cuda_path = std::getenv("CUDA_PATH");
  for (const fs::path& root : {fs::path(PTXBUILDER_TEST_DIR) / "../build/ptxas/nvidia/cu13",
                               fs::path("/usr/local/cuda"), fs::path(cuda_path ? cuda_path : "")})
    if (fs::exists(root / "include/cccl/cuda/__ptx/instructions/generated"))
      folder = root / "include/cccl/cuda/__ptx/instructions/generated";
  std::set<std::string> used;
  if (folder.empty()) return used;
  const std::regex statement("asm *(volatile)? *\\(((\\s*\"([^\"\\\\]|\\\\.)*\")+)"),
      literal("\"(([^\"\\\\]|\\\\.)*)\"");
  for (const fs::directory_entry& header : fs::directory_iterator(folder)) {
    std::ifstream in(header.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (std::sregex_iterator asm_at(text.begin(), text.end(), statement), end; asm_at != end; ++asm_at) {
      const std::string literals = (*asm_at)[2];
      std::string body;
      for (std::sregex_iterator l(literals.begin(), literals.end(), literal); l != end; ++l) body += (*l)[1];
      body = std::regex_replace(body, std::regex("\\\\[nt]|[{]"), " ");
      std::stringstream lines(body);
      for (std::string line; std::getline(lines, line, ';');) {
        std::stringstream words(line);
        std::string word;
        words >> word;
        if (word.starts_with('@')) words >> word;
        if (word.size() > 1 && std::islower(static_cast<unsigned char>(word[0])) != 0 &&
            !word.starts_with("//"))
          used.insert(word);
      }
    }
  }
  return used;
}

// Returns the instructions that CUTLASS 4.7 uses.
std::set<std::string> used_by_cutlass() {
  std::ifstream in(PTXBUILDER_TEST_DIR "/isa/cutlass.txt");
  std::set<std::string> used;
  for (std::string mnemonic; std::getline(in, mnemonic);) used.insert(mnemonic);
  return used;
}

// Returns whether the manual has a mnemonic. `.shared` alone means `.shared::cta`, which some forms of the
// manual spell out.
bool is_in_the_manual(const std::string& mnemonic) {
  static const std::regex shared("\\.shared(?!::)");
  return !isa::rows_of(mnemonic).empty() ||
         !isa::rows_of(std::regex_replace(mnemonic, shared, ".shared::cta")).empty();
}

// Returns the number of instructions of the manual that neither cuda::ptx nor CUTLASS uses.
size_t count_extra() {
  static const size_t count = [] {
    std::set<std::string, std::less<>> extra;
    isa::for_each_instruction([&](const isa::MadeRow& row, std::string_view) {
      extra.emplace(KeyParts(row.name.view()).mnemonic);
    });
    for (const std::set<std::string>& used : {used_by_cuda_ptx(), used_by_cutlass()})
      for (const std::string& mnemonic : used) extra.erase(mnemonic);
    return extra.size();
  }();
  return count;
}

void check_all_are_in_the_manual(std::string_view whose, const std::set<std::string>& used,
                                 const std::set<std::string_view>& exceptions = {}) {
  std::string missing;
  size_t found = 0;
  for (const std::string& mnemonic : used) {
    const bool is_in = is_in_the_manual(mnemonic), is_exception = exceptions.contains(mnemonic);
    found += is_in;
    if (is_in == is_exception) missing += mnemonic + (is_in ? " is not an exception" : "") + "\n";
  }
  MESSAGE(whose << ": " << found << " mnemonics found, " << used.size() - found << " missing, "
                << exceptions.size()
                << " of them with a reason; extra, which neither cuda::ptx nor CUTLASS uses: "
                << count_extra());
  CHECK(missing == "");
}

}  // namespace

TEST_CASE("every instruction of cuda::ptx is in the manual") {
  const std::set<std::string> used = used_by_cuda_ptx();
  if (used.empty())
    return skip("no headers of cuda::ptx: neither a CUDA toolkit nor PyPI's nvidia-cuda-cccl");
  REQUIRE(used.size() > 500);
  check_all_are_in_the_manual("cuda::ptx", used);
}

TEST_CASE("every instruction of CUTLASS is in the manual, or is listed with its reason") {
  const std::set<std::string> used = used_by_cutlass();
  REQUIRE(used.size() > 1800);
  std::set<std::string_view> exceptions;
  for (const CutlassException& e : kCutlassExceptions) {
    CHECK(used.contains(std::string(e.mnemonic)));
    exceptions.insert(e.mnemonic);
  }
  check_all_are_in_the_manual("CUTLASS 4.7", used, exceptions);
}

}  // namespace ptxbuilder::test::manual_test
