// Tests the counting of live registers with the life ranges in the output of nvdisasm, and the search for
// operands that are written too early.
#include "ptxbuilder/analysis/sass_registers.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <string>

#include "error_kit.h"

namespace ptxbuilder::test::sass_registers_test {
namespace {

using namespace analysis;

// A row contains an instruction, and one sign for each of the registers R0 to R11.
struct Row {
  const char* text;
  const char* signs;
};

// Both forms of a listing, without and with the table of life ranges.
struct Listing {
  std::string plain = "\t.section\t.text.k,\"ax\",@progbits\n", ranges = plain;

  Listing(std::initializer_list<Row> rows) {
    ranges += "  // |     000000000011  |\n  // |   # 012345678901  | # 012  |\n";
    int address = 0;
    for (const Row& row : rows) {
      const std::string text = fmt::format("        /*{:04x}*/  {} ;", address, row.text);
      plain += text + "\n";
      ranges += fmt::format("{:60} // |  9  {:12}  | 1 ^    |\n", text, row.signs);
      address += 16;
    }
  }
  SassKernel kernel() const { return parse_sass(plain).at(0); }
};

// A producer and a consumer. The consumer's wgmma adds to R4 to R7, with A in R8 and R9. nvdisasm shows R4 to
// R7 as live from the beginning.
const Listing two_roles = {
    {"S2R R0, SR_TID.X", "^   ::::    "},
    {"@P0 BRA `(.L_1)", ":   ::::    "},
    {"USETMAXREG.DEALLOC.CTAPOOL 0x18", ":   ::::    "},
    {"LDG.E R2, [R0.64]", "v ^ ::::    "},
    {"EXIT", "        "},
    {"NOP", "        "},
    {"USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8", ":   ::::    "},
    {"LDS R8, [R0]", "v   ::::^   "},
    {"FADD R9, R8, R8", "    ::::v^  "},
    {"HGMMA.64x16x16.F32.BF16 R4, R8, gdesc[UR4], R4, gsb0", "    xxxxvv  "},
    {"WARPGROUP.DEPBAR.LE gsb0, 0x0", "    ::::    "},
    {"EXIT", "    vvvv    "},
};

std::string uses(const RegisterPeak& peak) {
  std::string text;
  for (const auto& [what, count] : peak.uses) text += fmt::format("{} {}; ", what, count);
  return text;
}

// The label of the branch is in the text of both forms.
Listing with_label(Listing listing) {
  for (std::string* text : {&listing.plain, &listing.ranges}) {
    const size_t line = text->rfind('\n', text->find("TRY_ALLOC"));
    text->insert(line + 1, ".L_1:\n");
  }
  return listing;
}

}  // namespace

TEST_CASE("the registers of each role, by their contents at the point where most are live") {
  const Listing listing = with_label(two_roles);
  const SassKernel kernel = listing.kernel();
  const std::vector<RegisterPeak> peaks = register_peaks(kernel, parse_life_ranges(kernel, listing.ranges));
  REQUIRE(peaks.size() == 2);
  CHECK(peaks[0].granted == 24);
  CHECK(peaks[0].live == 2);  // the accumulators do not belong to this role
  CHECK(uses(peaks[0]) == "loaded from global memory 1; numbers of threads and CTAs 1; ");
  CHECK(peaks[1].granted == 232);
  CHECK(peaks[1].live == 6);
  CHECK(kernel.instructions[at(peaks[1].instruction)].root() == "LDS");
  CHECK(uses(peaks[1]) == "accumulators 4; numbers of threads and CTAs 1; operands of wgmma 1; ");
}

TEST_CASE("without roles there is one peak") {
  const Listing listing = {{"S2R R0, SR_TID.X", "^           "},
                           {"IMAD R1, R0, R0, R0", "x^          "},
                           {"EXIT", "            "}};
  const SassKernel kernel = listing.kernel();
  const std::vector<RegisterPeak> peaks = register_peaks(kernel, parse_life_ranges(kernel, listing.ranges));
  REQUIRE(peaks.size() == 1);
  CHECK_FALSE(peaks[0].granted);
  CHECK(peaks[0].live == 2);
}

TEST_CASE("a listing without a table, or with fewer rows, is an error") {
  const Listing listing = with_label(two_roles);
  const SassKernel kernel = listing.kernel();
  CHECK_ERROR(parse_life_ranges(kernel, listing.plain),
              "life ranges of 'k': there are 0 rows for 12 instructions");
  std::string shorter = listing.ranges;
  const size_t last = shorter.rfind("        /*00b0");
  shorter.erase(last, shorter.find('\n', last) + 1 - last);
  CHECK_ERROR(parse_life_ranges(kernel, shorter), "there are 11 rows for 12 instructions");
}

TEST_CASE(
    "a register of A that is written while its wgmma runs is found, but not one that is written after the "
    "wait") {
  constexpr const char* wgmma = "HGMMA.64x16x16.F32.BF16 R4, R8, gdesc[UR4], R4, gsb0";
  constexpr const char* other = "HGMMA.64x16x16.F32.BF16 R0, gdesc[UR8], R0, gsb0";
  auto found = [](const Listing& listing) {
    const SassKernel kernel = listing.kernel();
    return overwritten_operands(kernel, parse_life_ranges(kernel, listing.ranges));
  };
  const Row product = {wgmma, "    xxxxvv  "}, write = {"FADD R9, R2, R2", "  v      ^  "},
            wait_all = {"WARPGROUP.DEPBAR.LE gsb0, 0x0", "            "},
            wait_but_one = {"WARPGROUP.DEPBAR.LE gsb0, 0x1", "            "}, end = {"EXIT", "            "},
            next = {other, "xxxx        "};
  const auto early = found({product, write, wait_all, end});
  REQUIRE(early.size() == 1);
  CHECK(early[0].wgmma == 0);
  CHECK(early[0].writer == 1);
  CHECK(early[0].number == 9);
  CHECK(found({product, wait_all, write, end}).empty());
  CHECK(found({product, wait_but_one, write, end}).size() == 1);
  CHECK(found({product, next, wait_but_one, write, end}).empty());
  CHECK(found({product, next, write, wait_all, end}).size() == 1);
  CHECK(found({next, write, wait_all, end}).empty());
}

// ptxas 13.0.88 compiled this loop from PTX that has one group in flight.
TEST_CASE("a register of a sparse wgmma's metadata that the next step writes while the wgmma runs is found") {
  auto found = [](const char* wait) {
    Listing listing = {{"LDG.E R8, [R10.64]", "    ::::^ vv"},
                       {"@P0 LDG.E R8, [R10.64+0x200]", "    ::::^ vv"},
                       {"WARPGROUP.ARRIVE", "    ::::: ::"},
                       {"HGMMA.SP.64x16x32.F32.BF16 R4, gdesc[UR8], R4, R8, 0x0", "    xxxxv ::"},
                       {"HGMMA.SP.64x16x32.F32.BF16 R4, gdesc[UR8], R4, R8, 0x1, gsb0", "    xxxxv ::"},
                       {wait, "    ::::  ::"},
                       {"@!P0 BRA `(.L_1)", "    ::::  ::"},
                       {"WARPGROUP.DEPBAR.LE gsb0, 0x0", "    ::::    "},
                       {"EXIT", "            "}};
    for (std::string* text : {&listing.plain, &listing.ranges})
      text->insert(text->rfind('\n', text->find("LDG")) + 1, ".L_1:\n");
    const SassKernel kernel = listing.kernel();
    return overwritten_operands(kernel, parse_life_ranges(kernel, listing.ranges));
  };
  const auto early = found("WARPGROUP.DEPBAR.LE gsb0, 0x1");
  REQUIRE(early.size() == 2);
  for (const OverwrittenOperand& o : early) {
    CHECK(o.writer == 0);
    CHECK(o.number == 8);
  }
  CHECK(std::set<int>{early[0].wgmma, early[1].wgmma} == std::set<int>{3, 4});
  CHECK(found("WARPGROUP.DEPBAR.LE gsb0, 0x0").empty());
}

}  // namespace ptxbuilder::test::sass_registers_test
