// Compares the PTX of every kernel family, and the table of instructions, with stored files. `library_tests
// golden_test --bless` rewrites the files, so that a diff shows the change.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "kernels/family/family.h"
#include "library_kit.h"
#include "options.h"

namespace ptxbuilder::test::golden_test {

namespace fs = std::filesystem;

namespace {

const fs::path kGolden = fs::path(PTXBUILDER_TEST_DIR) / "golden";
const bool& bless = option("bless", false);

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Returns PTX without the parts that change if a line of C++ moves: line and file marks, debug sections and
// comments.
std::string without_lines(const std::string& ptx) {
  std::string kept;
  bool in_section = false;
  for (std::string line : lines_of(ptx)) {
    line = line.substr(0, line.find("//"));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.pop_back();
    size_t start = std::min(line.find_first_not_of(" \t"), line.size());
    std::string_view text = std::string_view(line).substr(start);
    if (text.starts_with(".section")) in_section = true;
    if (!in_section && !text.empty() && !text.starts_with(".loc\t") && !text.starts_with(".file\t") &&
        !text.starts_with("$L__tmp") && !text.starts_with("$L__func_end"))
      kept += line + '\n';
    if (in_section && text == "}") in_section = false;
  }
  return kept;
}

// Returns the first lines that differ, at most three, each with the previous text.
std::string difference(const std::string& golden, const std::string& now) {
  std::vector<std::string> before = lines_of(golden), after = lines_of(now);
  std::string report;
  int shown = 0;
  for (size_t i = 0; i < std::max(before.size(), after.size()) && shown < 3; ++i) {
    std::string b = i < before.size() ? before[i] : "(end)", a = i < after.size() ? after[i] : "(end)";
    if (a == b) continue;
    report += fmt::format("line {}:\n- {}\n+ {}\n", i + 1, b, a);
    ++shown;
  }
  return report;
}

void check_golden(const std::string& file, const std::string& text) {
  fs::path path = kGolden / file;
  if (bless) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream in(path, std::ios::binary);
  std::string golden{std::istreambuf_iterator<char>(in), {}};
  if (golden == text) {
    CHECK_FALSE(text.empty());
    return;
  }
  FAIL_CHECK(fmt::format("{} differs:\n{}if it should: library_tests golden_test --bless, and read the diff",
                         path.string(), difference(golden, text)));
}

std::string ptx_of_family(const command::Family& family) {
  Kernel kernel = family.build(command::Fields(family.fields));
  return generate_ptx(kernel.builder());
}

}  // namespace

TEST_CASE("the instruction table") {
  std::string text;
  for (const isa::Row& row : isa::rows())
    text += fmt::format("{:46} {:4} {:7} {:7} {}\n", row.name, isa::version_text(row.ptx_version),
                        row.targets.text(), row.effect == isa::Effect::pure ? "pure" : "memory", row.syntax);
  check_golden("isa.txt", text);
}

// The header that the build prints also contains the rows with short names, which are in isa.txt, and the
// manual's forms.
TEST_CASE("what is printed of the families of instructions") {
  std::ifstream in(PTXBUILDER_BIN "/../printed/ptxbuilder/isa/printed_rows.h", std::ios::binary);
  std::string text;
  bool is_told = false;
  for (std::string line; std::getline(in, line);) {
    if (line == "}  // namespace rows_def" || line.starts_with("#define PTXBUILDER_FAMILIES")) is_told = true;
    if (line.starts_with("#define PTXBUILDER_SHORT_NAMES")) is_told = false;
    if (is_told && !line.starts_with("          {\"")) text += line + "\n";
  }
  check_golden("families.txt", text);
}

TEST_CASE("PTX of every kernel family at its default fields") {
#if defined(__clang__)
  skip("the golden files are of g++: C++ compilers evaluate operands in different orders");
#else
  REQUIRE(command::families().size() >= 5);
  for (const command::Family& family : command::families()) {
    CAPTURE(family.name);
    check_golden(family.name + ".ptx", without_lines(ptx_of_family(family)));
  }
#endif
}

TEST_CASE("every golden file belongs to something") {
  std::set<std::string> known = {"isa.txt", "families.txt"};
  for (const command::Family& family : command::families()) known.insert(family.name + ".ptx");
  for (const auto& entry : fs::directory_iterator(kGolden))
    CHECK_MESSAGE(known.contains(entry.path().filename().string()), entry.path().string());
}

TEST_CASE("the comparison ignores some text and keeps other text") {
  const std::string ptx =
      "// made by LLVM\n.version 8.0\n\t.loc\t1 7 0                           // a.cpp:7:0\n"
      "\t.local .align 8 .b8 \ta[8];\n\tadd.s32 \t%r1, %r2, 3; // why\n$L__tmp0:\n$L__BB0_1:\n\t.file\t1 "
      "\"a.cpp\"\n"
      "\t.section\t.debug_loc\t{\n\t}\n\tret;\n";
  CHECK(without_lines(ptx) ==
        ".version 8.0\n\t.local .align 8 .b8 \ta[8];\n\tadd.s32 \t%r1, %r2, 3;\n$L__BB0_1:\n\tret;\n");
  CHECK(difference("a\nb\nc\n", "a\nX\nc\n") == "line 2:\n- b\n+ X\n");
  CHECK(difference("a\n", "a\nb\n") == "line 2:\n- (end)\n+ b\n");
}

// Offsets are in 16-byte units. A is K-major, 128 x 64, with rows of 128 bytes, so that k advances 32 bytes
// and the second 64 rows begin 64 x 128 bytes later. B is along n, so that 16 of k are 16 rows of 128 bytes.
TEST_CASE("the descriptors of gemm_tile's wgmmas") {
  std::string ptx = ptx_of_family(command::family("gemm_tile"));
  // A descriptor is the address in 16-byte units plus the fixed bits and the offset. The first offset is 0.
  std::map<std::string, std::pair<std::string, int64_t>> sums;
  std::regex add(R"((?:add\.s64|or\.b64)\s+(%rd\d+), (%rd\d+), (-?\d+);)");
  for (std::sregex_iterator i(ptx.begin(), ptx.end(), add), end; i != end; ++i)
    sums[(*i)[1]] = {(*i)[2], std::stoll((*i)[3])};
  std::vector<int64_t> a, b;
  std::set<std::string> a_bases, b_bases;
  std::regex wgmma(R"(wgmma\.mma_async[^}]*\}, (%rd\d+), (%rd\d+),)");
  for (std::sregex_iterator i(ptx.begin(), ptx.end(), wgmma), end; i != end; ++i) {
    auto [a_base, a_bits] = sums[(*i)[1]];
    auto [b_base, b_bits] = sums[(*i)[2]];
    a_bases.insert(a_base);
    b_bases.insert(b_base);
    a.push_back(a_bits);
    b.push_back(b_bits);
  }
  REQUIRE(a.size() == 8);
  for (std::vector<int64_t>* operand : {&a, &b}) {
    int64_t first = operand->front();
    for (int64_t& bits : *operand) bits -= first;
  }
  CHECK(a_bases.size() == 1);
  CHECK(b_bases.size() == 1);
  CHECK(a_bases != b_bases);
  CHECK(a == std::vector<int64_t>{0, 2, 4, 6, 512, 514, 516, 518});
  CHECK(b == std::vector<int64_t>{0, 128, 256, 384, 0, 128, 256, 384});
}

}  // namespace ptxbuilder::test::golden_test
