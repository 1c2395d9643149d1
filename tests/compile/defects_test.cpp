// Tests the known defects of ptxas: which versions have them, and which PTX they can affect.
#include "ptxbuilder/compile/defects.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

namespace ptxbuilder::test::defects_test {
namespace {

// The second instruction is on line 7, and comes from gemm.cpp:12.
std::string kernel(const std::string& wgmma) {
  return ".version 8.0\n.target sm_90a\n.file 1 \"gemm.cpp\"\n.entry k()\n{\n.loc 1 12 3\n" + wgmma +
         "\nret;\n}\n";
}

const std::string from_registers =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, %rd1, 1, 1, "
    "1, 0;";
const std::string from_shared =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd2, %rd1, 1, 1, 1, 0, 0;";

std::set<std::string_view> names(const std::string& ptx, PtxasVersion version) {
  std::set<std::string_view> all;
  for (const PossibleDefect& d : possible_defects(ptx, version)) all.insert(d.defect.name);
  return all;
}

}  // namespace

TEST_CASE("known defects begin and end with their versions") {
  CHECK(known_defects({12, 4, 131}).size() == 2);
  CHECK(known_defects({12, 8, 93}).size() == 5);
  CHECK(known_defects({12, 9, 86}).size() == 3);
  CHECK(known_defects({13, 0, 88}).size() == 3);
  CHECK(known_defects({13, 1, 79}).size() == 3);
  CHECK(known_defects({13, 1, 80}).size() == 2);
  CHECK(known_defects({13, 2, 86}).size() == 2);
  CHECK(known_defects({11, 8, 0}).empty());
  CHECK(to_string(PtxasVersion{13, 0, 88}) == "13.0.88");
}

TEST_CASE("a defect without a fixed version affects all later versions") {
  for (const PtxasVersion version : {PtxasVersion{13, 3, 0}, PtxasVersion{14, 0, 0}}) {
    const std::vector<Defect> known = known_defects(version);
    REQUIRE(known.size() == 1);
    CHECK(known[0].name == "wgmma-metadata");
    CHECK_FALSE(known[0].fixed_in);
  }
}

TEST_CASE("sparse products may lose their metadata") {
  std::string sparse = from_shared;
  sparse.replace(0, sparse.find(".sync"), "wgmma.mma_async.sp");
  sparse.replace(sparse.find("%rd1, 1"), 7, "%rd1, %r1, 0, 1");
  CHECK(names(kernel(sparse), {13, 0, 88}) == std::set<std::string_view>{"wgmma-metadata"});
  CHECK(names(kernel(sparse), {11, 8, 0}).empty());
}

TEST_CASE(
    "a kernel gets warnings about defects that its instructions can trigger, at the line of the first") {
  CHECK(names(kernel(from_shared), {13, 0, 88}).empty());
  CHECK(names(kernel(from_registers), {13, 3, 0}).empty());
  CHECK(names(kernel("// " + from_registers), {13, 0, 88}).empty());
  const auto found = possible_defects(kernel(from_registers + "\n" + from_registers), {13, 0, 88});
  REQUIRE(found.size() == 1);
  CHECK(found[0].count == 2);
  CHECK(found[0].ptx_line == 7);
  const std::string text = found[0].text();
  for (const char* part : {"ptxas 13.0.88", "gemm.cpp:12", "the kernel has 2", "PTX line 7", "13.3 or newer",
                           "waive \"wgmma-a-registers\""}) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("products of bytes have a defect of their own in ptxas 12.8") {
  std::string bytes = from_registers;
  bytes.replace(bytes.find("f32.bf16.bf16"), 13, "s32.s8.s8");
  CHECK(names(kernel(bytes), {12, 8, 93}) == std::set<std::string_view>{"wgmma-a-registers", "wgmma-bytes"});
  CHECK(names(kernel(bytes), {12, 9, 0}) == std::set<std::string_view>{"wgmma-a-registers"});
  CHECK(names(kernel(from_registers), {12, 8, 93}) == std::set<std::string_view>{"wgmma-a-registers"});
}

}  // namespace ptxbuilder::test::defects_test
