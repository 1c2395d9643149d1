#include "runtime/tensor_map.h"

#include <doctest/doctest.h>

#include <string>

#include "tensor_map_cases.h"

namespace ptxbuilder::test::tensor_map_test {
using namespace runtime;

namespace {

std::string error_of(const TensorMapArguments& arguments) {
  try {
    check(arguments);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("each rule of tensor maps refuses its breach alone and names it") {
  CHECK(error_of(legal_tensor_map()) == "accepted");
  for (const TensorMapCase& rule : tensor_map_cases()) {
    CAPTURE(rule.rule);
    TensorMapArguments broken = legal_tensor_map(), kept = legal_tensor_map();
    rule.breaks(broken);
    rule.keeps(kept);
    const std::string message = error_of(broken);
    CAPTURE(message);
    CHECK(message.starts_with(std::string("tensor map: ") + rule.text));
    CHECK(error_of(kept) == "accepted");
  }
}

TEST_CASE("the nearest legal value named is legal") {
  TensorMapArguments a = legal_tensor_map();
  for (uint32_t inner : {56u, 64u}) {  // suggested for a box of 60 elements
    a.recipe.box[0] = inner;
    CHECK(error_of(a) == "accepted");
  }
  a = legal_tensor_map();
  a.shape[1] = 1;
  a.strides = {16};  // nothing steps along it, so the stride may be shorter than the row
  CHECK(error_of(a) == "accepted");
}

TEST_CASE("outer dimensions may be permuted: their strides need not grow") {
  TensorMapArguments a =
      legal_tensor_map();  // heads before positions: [position][head][64] seen as 64 x position x head
  a.recipe.box = {64, 128, 1};
  a.recipe.element_strides = {1, 1, 1};
  a.shape = {64, 512, 16};
  a.strides = {16 * 128, 128};
  CHECK(error_of(a) == "accepted");
  a.strides = {16 * 128, 112};
  CHECK(error_of(a).find("dimension 2, 112 B, is less than a row") != std::string::npos);
  a.overlaps = true;
  CHECK(error_of(a) == "accepted");
}

TEST_CASE("every element type has maps; the box counts elements") {
  for (DType type :
       {DType::u8, DType::s8, DType::u16, DType::s16, DType::u32, DType::s32, DType::u64, DType::s64,
        DType::f16, DType::bf16, DType::tf32, DType::e4m3, DType::e5m2, DType::f32, DType::f64}) {
    CAPTURE(name(type));
    TensorMapArguments a = legal_tensor_map();
    const auto size = static_cast<uint32_t>(size_of(type));
    a.recipe.dtype = type;
    a.recipe.box[0] = 128 / size;
    a.strides = {1024ull * size};
    CHECK(error_of(a) == "accepted");
    a.recipe.box[0] = 128 / size + 16 / size;
    CHECK(error_of(a).find("= 144 B exceeds the span of swizzle 128") != std::string::npos);
  }
}

TEST_CASE("strides of a tensor without gaps") {
  const uint64_t shape[] = {24, 3, 5};
  CHECK(packed_strides(DType::bf16, shape) == std::array<uint64_t, 4>{48, 144, 0, 0});
  CHECK(packed_strides(DType::u8, std::span(shape).first(1)) == std::array<uint64_t, 4>{});
  // A stride must not wrap around to a small one that would be accepted.
  const uint64_t huge[] = {1ull << 32, 1ull << 32, 2};
  CHECK(packed_strides(DType::f64, huge) == std::array<uint64_t, 4>{8ull << 32, 1ull << 40, 0, 0});
}

TEST_CASE("the extent of a tensor ends after its last element") {
  TensorMapArguments a = legal_tensor_map();
  CHECK(extent_bytes(a) == 1024 * 512 * 2);
  a.strides = {4096};
  CHECK(extent_bytes(a) == 511 * 4096 + 2048);
  a.shape = {1ull << 32, 1ull << 32};
  a.strides = {(1ull << 40) - 16};
  CHECK(extent_bytes(a) == ~0ull);
}

TEST_CASE("bit 85 is cleared for small tensors with gaps on Blackwell alone") {
  TensorMapArguments small = legal_tensor_map();
  small.shape = {64, 16};
  small.strides = {256};  // rows of 128 bytes
  auto bit_85 = [](const TensorMapArguments& a, int compute_capability) {
    TensorMap map;
    map.bytes.fill(std::byte{0xff});
    correct_small_map(map, a, compute_capability);
    size_t cleared = 0;
    for (std::byte b : map.bytes) cleared += b != std::byte{0xff};
    const bool bit = (map.bytes[10] & std::byte{0x20}) != std::byte{0};
    CHECK(cleared == (bit ? 0 : 1));
    return bit;
  };
  CHECK(!bit_85(small, 100));
  CHECK(!bit_85(small, 120));
  CHECK(bit_85(small, 90));
  TensorMapArguments dense = small, large = small;
  dense.strides = {128};
  CHECK(bit_85(dense, 100));
  large.shape = {64, 513};  // 512 x 256 + 128 bytes
  CHECK(bit_85(large, 100));
  large.shape = {64, 512};  // 128 bytes less than 128 KB
  CHECK(!bit_85(large, 100));
}

}  // namespace ptxbuilder::test::tensor_map_test
