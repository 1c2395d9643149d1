// Tests reading and comparing SASS, with the output of nvdisasm 13.1.80 for cubins of ptxas 13.0.88.
#include "ptxbuilder/analysis/sass.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "error_kit.h"
#include "ptxbuilder/analysis/diff.h"

namespace ptxbuilder::test::sass_test {
using namespace analysis;

namespace {

std::string recorded(const std::string& name) {
  std::ifstream file(PTXBUILDER_TEST_DIR "/analysis/sass/" + name + ".sass");
  return {std::istreambuf_iterator<char>(file), {}};
}

SassKernel only(const std::string& text) {
  std::vector<SassKernel> kernels = parse_sass(text);
  REQUIRE(kernels.size() == 1);
  return kernels[0];
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Returns a kernel with the given lines, in which labels end with a colon.
std::string kernel(const std::string& name, std::initializer_list<const char*> lines) {
  std::string text = "\t.section .text." + name + ",\"ax\",@progbits\n" + name + ":\n";
  int address = 0;
  for (const std::string line : lines) {
    char begin[32];
    std::snprintf(begin, sizeof begin, "        /*%04x*/   ", 16 * address);
    if (line.back() == ':')
      text += line + "\n";
    else
      ++address, text += begin + line + " ;\n";
  }
  return text;
}

const Event* find(const std::vector<Region>& regions, const std::string& region, const std::string& event) {
  for (const Region& r : regions)
    for (const Event& e : r.events)
      if (r.name == region && e.kind == event) return &e;
  return nullptr;
}

}  // namespace

TEST_CASE("instructions, guards, labels and lines are read") {
  const SassKernel k = only(recorded("saxpy"));
  CHECK(k.name == "saxpy");
  REQUIRE(k.instructions.size() == 19);  // without the NOPs after them
  CHECK(k.instructions[4].text() == "LEA R7, R0, R7, 0x5");
  CHECK(k.instructions[4].line == 35);
  CHECK(k.instructions[6].guard == "@P0");
  CHECK(k.instructions[6].opcode == "EXIT");
  CHECK(k.instructions[6].address == 0x60);
  CHECK(k.instructions[12].opcode == "LDG.E");
  CHECK(k.instructions[12].root() == "LDG");
  CHECK(k.instructions[18].target == 18);  // the branch to itself after the end
  CHECK(k.labels.at(18) == std::vector<std::string>{".L_x_0"});
  const auto counts = histogram(k);
  CHECK(counts.at("LDG") == 2);
  CHECK(counts.at("FFMA") == 1);
  CHECK_FALSE(counts.contains("NOP"));
}

TEST_CASE("the mainloops of a GEMM belong to its producer and its consumers") {
  const SassKernel k = only(recorded("gemm_warp_specialized"));
  const std::vector<SassLoop> loops = mainloops(k);
  REQUIRE(loops.size() == 2);
  CHECK(loops[0].name == "loop of UTMALDG");
  CHECK(loops[1].name == "loop of HGMMA");
  CHECK(histogram(k, loops[0]).at("UTMALDG") == 2);
  const auto consumer = histogram(k, loops[1]);
  CHECK(consumer.at("HGMMA") == 4);
  CHECK(consumer.at("SYNCS") == 3);  // a wait, the wait in its slow path after the end, and an arrival
  CHECK_FALSE(consumer.contains("STSM"));
  CHECK(histogram(k).at("STSM") == 16);
  const std::vector<Region> all = regions(k);
  CHECK(find(all, "SASS loop of HGMMA", "WARPGROUP.DEPBAR.LE gsb0, 0x0"));
  CHECK(find(all, "SASS loop of HGMMA", "HGMMA.64x256x16.F32.BF16 gsb0"));
}

TEST_CASE("two loops of a kind have numbers, and an outer loop is not one of them") {
  const SassKernel k = only(kernel(
      "k", {".L_a:", "S2R R1, SR_TID.X", ".L_b:", "HMMA.16816.F32 R0, R1, R2, R3", "@P0 BRA `(.L_b)",
            ".L_c:", "HMMA.16816.F32 R0, R1, R2, R3", "BRA.U UP0, `(.L_c)", "@P1 BRA `(.L_a)", "EXIT"}));
  const std::vector<SassLoop> loops = mainloops(k);
  REQUIRE(loops.size() == 2);
  CHECK(loops[0].name == "loop of HMMA");
  CHECK(loops[0].instructions == std::vector<int>{1, 2});
  CHECK(loops[1].name == "loop of HMMA 2");
  CHECK(loops[1].instructions == std::vector<int>{3, 4});
}

TEST_CASE("a kernel does not differ from itself, and planted changes are found") {
  const std::string text = recorded("gemm_warp_specialized");
  const std::vector<Region> original = regions(only(text));
  CHECK(diff(original, regions(only(text))).empty());
  CHECK(diff(original, regions(only(replaced(text, ".L_x_12)", ".L_x_12)  ")))).empty());

  struct Plant {
    const char *from, *to, *region, *event;
  };
  for (const Plant& plant : {
           Plant{"WARPGROUP.DEPBAR.LE gsb0, 0x0", "WARPGROUP.DEPBAR.LE gsb0, 0x1", "SASS loop of HGMMA",
                 "WARPGROUP.DEPBAR.LE gsb0, 0x0"},
           {"HGMMA.64x256x16.F32.BF16 R24, gdesc[UR20]", "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR20]",
            "SASS loop of HGMMA", "HGMMA.64x256x16.F32.BF16"},
           {"UTMALDG.2D [UR4]", "UTMALDG.3D [UR4]", "SASS loop of UTMALDG", "UTMALDG.2D"},
           {"WARPGROUP.ARRIVE", "NOP", "SASS loop of HGMMA", "WARPGROUP.ARRIVE"},
           {"UIADD3.64 UR20, UR12, 0x2", "UMOV UR20, 0x2, 0x0", "SASS loop of HGMMA", "UIADD3"},
           {"LDC R5, c[0x0][0xc]", "STL [R1], R5", "SASS", "spill stores (STL)"},
           {"USETMAXREG.DEALLOC.CTAPOOL 0x28", "USETMAXREG.DEALLOC.CTAPOOL 0x38", "SASS instructions",
            "all, with operands"},
           {"STSM.16.M88.4 [R", "STSM.16.MT88.4 [R", "SASS instructions", "all, with operands"},
           {"`(.L_x_13)", "`(.L_x_31)", "", ""},
       }) {
    CAPTURE(std::string(plant.from));
    const std::vector<Difference> differences =
        diff(original, regions(only(replaced(text, plant.from, plant.to))));
    REQUIRE_FALSE(differences.empty());
    if (*plant.region) CHECK(differences[0].region == plant.region);
    if (*plant.event) CHECK(differences[0].event == plant.event);
  }

  SassKernel more = only(text);
  more.registers = 255;
  const std::vector<Difference> registers = diff(original, regions(more));
  REQUIRE(registers.size() == 1);
  CHECK(analysis::text(registers[0]).starts_with("SASS: registers, count: 0 in A, 255 in B"));
}

TEST_CASE("names of labels do not matter, but their places do") {
  auto with = [](const char* label, const char* target) {
    const std::string text = kernel("k", {"BSSY B0, `(LABEL)", "@P0 BRA `(LABEL)", "S2R R1, SR_TID.X",
                                          "LABEL:", "BSYNC B0", "OTHER:", "EXIT"});
    std::string renamed = text;
    for (size_t at; (at = renamed.find("(LABEL)")) != std::string::npos;) renamed.replace(at + 1, 5, target);
    renamed = replaced(replaced(renamed, "LABEL:", std::string(label) + ":"), "OTHER:", ".L_other:");
    return regions(only(renamed));
  };
  CHECK(diff(with(".L_x_1", ".L_x_1"), with(".L_x_77", ".L_x_77")).empty());
  CHECK(diff(with(".L_x_1", ".L_x_1"), with(".L_x_1", ".L_other")).size() == 1);
}

TEST_CASE("two columns have the counts, and the loops side by side") {
  const std::string text = recorded("gemm_warp_specialized");
  const SassKernel a = only(text);
  const SassKernel b = only(replaced(text, "WARPGROUP.ARRIVE", "BAR.ARV 0x1, 0x80"));
  const std::string columns = side_by_side(a, b);
  CAPTURE(columns);
  for (const char* row : {"  HGMMA                 4      4\n", "  WARPGROUP             2      1  -1\n",
                          "  BAR                   9     10  +1\n", "loop of HGMMA: 50 instructions"})
    CHECK(columns.find(row) != std::string::npos);
  const size_t only_a = columns.find("  WARPGROUP.ARRIVE "),
               only_b = columns.find(" |   BAR.ARV 0x1, 0x80\n");
  CHECK(only_a != std::string::npos);
  CHECK(only_b == std::string::npos);  // a bar of 44 columns precedes it
  CHECK(columns.find("| BAR.ARV 0x1, 0x80\n") != std::string::npos);
}

TEST_CASE("several kernels, device functions that are called, and broken text") {
  const std::string two = kernel("first", {"CALL.REL.NOINC `(helper)", "EXIT"}) +
                          "\t.section .nv.info,\"\",@progbits\n\t/*0000*/ .byte 1\n" +
                          kernel("second", {"EXIT"});
  const std::vector<SassKernel> kernels = parse_sass(two);
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].instructions.size() == 2);
  CHECK(kernels[1].name == "second");
  CHECK(parse_sass("").empty());
  CHECK(parse_sass("no SASS\n/*0000*/ at all").empty());
  CHECK_ERROR(parse_sass(".section .text.k\n/*0000*/ EXIT"),
              "SASS line 2: an instruction does not end with ';'");
  CHECK_ERROR(parse_sass(".section .text.k\n/*0000 EXIT;"), "SASS line 2: an address is not closed");
  CHECK_ERROR(parse_sass(".section .text.k\n/*zz*/ EXIT;"),
              "SASS line 2: an address is not a hexadecimal number");
  CHECK_ERROR(parse_sass(kernel("k", {"BRA `(.L_none)"})), "the label '.L_none' of 'k' does not exist");
  CHECK(mainloops(parse_sass(".section .text.k\n")[0]).empty());
}

}  // namespace ptxbuilder::test::sass_test
