// Compares copies with CuTe's. copy_oracle/cute.txt holds the output of copy_oracle/cute.cpp, and comments
// there describe each line.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "error_kit.h"
#include "ptxbuilder/plan/mma_atom.h"
#include "ptxbuilder/plan/tensor_copy.h"
#include "ptxbuilder/plan/tiled_copy.h"

namespace ptxbuilder::test::copy_oracle_test {
using enum DType;

namespace {

struct Hash {
  uint64_t value = 0xcbf29ce484222325;
  void add(int64_t number) {
    for (int i = 0; i < 8; ++i)
      value = (value ^ static_cast<uint64_t>((number >> (8 * i)) & 0xff)) * 0x100000001b3;
  }
};

Swizzle swizzle_of(int span) {
  return span == 128 ? Swizzle::b128 : span == 64 ? Swizzle::b64 : Swizzle::b32;
}

std::string boxes(DType type, const std::string& major, int swizzle, int mn, int k) {
  // In memory, either k is contiguous, or m and n are.
  const bool along_k = major == "k";
  std::vector<int64_t> extents = along_k ? std::vector<int64_t>{mn, k} : std::vector<int64_t>{k, mn};
  TensorCopy copy(type, extents, {}, swizzle_of(swizzle));
  ComposedLayout lies = copy.shared_layout();
  Hash hash;
  for (int64_t j = 0; j < k; ++j)
    for (int64_t i = 0; i < mn; ++i) hash.add(lies(along_k ? IntTuple{i, j} : IntTuple{j, i}));
  return fmt::format("tma {} {} {} {} {} | {} | {} | {:016x}", name(type), major, swizzle, mn, k,
                     copy.boxes().count(), fmt::join(copy.recipe().box, " "), hash.value);
}

std::string addresses(const std::string& instruction, DType type, int swizzle, int rows, int cols) {
  ComposedLayout memory = panel_layout(type, rows, cols, swizzle_of(swizzle));
  const bool loads = instruction == "ldmatrix";
  // Either 2 x 2 warps of mma.sync, with neighbours 16 rows apart, or the accumulators of wgmma.
  Layout one = within_rows(MmaAtom::mma_sync(f32, f16, f16, 16).layout_a(), 16, 16, 64);
  Layout held = loads ? repeated(one, {{2, 16}, {2, 0}}, {{2, 32}, {cols / 16, 16 * 64}})
                      : MmaAtom::wgmma(f32, f16, f16, cols).layout_c();
  TiledCopy copy(loads ? CopyAtom::ldmatrix(4) : CopyAtom::stmatrix(4), type, held, memory);
  Hash hash;
  std::vector<int64_t> of37;
  for (int t = 0; t < copy.threads(); ++t)
    for (int a = 0; a < copy.accesses(); ++a) {
      hash.add(copy.address(t, a));
      if (t == 37) of37.push_back(copy.address(t, a));
    }
  return fmt::format("{} {} {} {} {} | {} {} | {:016x} | {}", instruction, name(type), swizzle, rows, cols,
                     copy.threads(), copy.accesses(), hash.value, fmt::join(of37, " "));
}

}  // namespace

TEST_CASE("boxes, layouts and addresses equal CuTe's") {
  std::ifstream in(PTXBUILDER_TEST_DIR "/plan/copy_oracle/cute.txt");
  int count = 0;
  for (std::string line; std::getline(in, line); ++count) {
    std::istringstream words(line);
    std::string what, type, major;
    int swizzle = 0, first = 0, second = 0;
    words >> what >> type;
    if (what == "tma") words >> major;
    words >> swizzle >> first >> second;
    REQUIRE(dtype_from_name(type));
    CHECK(line == (what == "tma" ? boxes(*dtype_from_name(type), major, swizzle, first, second)
                                 : addresses(what, *dtype_from_name(type), swizzle, first, second)));
  }
  CHECK(count == 4 * 3 * 4 + 2 * 3 * 3 + 9);
}

}  // namespace ptxbuilder::test::copy_oracle_test
