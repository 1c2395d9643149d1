// Tests operands of calls. The check for shared memory is compared with a search of all elements. Also tests
// the rules for their placement, and the layout of a copy.
#include "kernels/call/operand.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "error_kit.h"

namespace ptxbuilder::test::operand_test {
using kernels::Operand;

namespace {

Operand of(uint64_t address, DType type, int64_t columns, std::vector<Operand::Dimension> outer) {
  Operand x = {.name = "X", .type = type, .memory = {address, size_t{1} << 40}, .columns = columns};
  x.outer_count = outer.size();
  std::ranges::copy(outer, x.outer.begin());
  return x;
}

// Returns the addresses of all bytes, and whether any of them occurs twice.
std::pair<std::set<uint64_t>, bool> bytes_of(const Operand& x) {
  std::set<uint64_t> all;
  bool twice = false;
  std::vector<int64_t> firsts = {0};
  for (size_t d = 0; d < x.outer_count; ++d) {
    std::vector<int64_t> more;
    for (const int64_t first : firsts)
      for (int64_t i = 0; i < x.outer[d].extent; ++i) more.push_back(first + i * x.outer[d].stride);
    firsts = more;
  }
  for (const int64_t first : firsts)
    for (int64_t byte = 0; byte < x.columns * x.element_bytes(); ++byte)
      twice |= !all.insert(x.memory.address + static_cast<uint64_t>(first * x.element_bytes() + byte)).second;
  return {all, twice};
}

}  // namespace

TEST_CASE("parts of one larger tensor do not share memory") {
  const auto apart = [](const Operand& x, const Operand& y) { return !may_share(x, y) && !may_share(y, x); };
  const uint64_t at = 4096;
  const auto columns = [&](int64_t first, int64_t count) {
    return of(at + 2 * static_cast<uint64_t>(first), DType::f16, count, {{"row", 50, 128}});
  };
  CHECK(apart(columns(0, 48), columns(48, 80)));
  CHECK(!apart(columns(0, 49), columns(48, 80)));
  CHECK(!apart(columns(0, 8), columns(120, 16)));  // each row ends within the next row of the other
  // Q, K and V of one projection are [row, three, head, column], with batches.
  const auto heads = [&](uint64_t part, int64_t count) {
    return of(at + 2 * part * 4 * 64, DType::f16, 64,
              {{"row", 20, 3 * 4 * 64}, {"head", count, 64}, {"batch", 3, 20 * 3 * 4 * 64}});
  };
  CHECK(apart(heads(0, 4), heads(1, 4)));
  CHECK(apart(heads(0, 4), heads(2, 4)));
  CHECK(!apart(heads(0, 5), heads(1, 4)));
  // The parts of [batch, three, head, row, column] are planes of a batch.
  const auto planes = [&](uint64_t part, int64_t rows) {
    return of(at + 2 * part * 4 * 20 * 64, DType::f16, 64,
              {{"row", rows, 64}, {"head", 4, 20 * 64}, {"batch", 3, 3 * 4 * 20 * 64}});
  };
  CHECK(apart(planes(0, 20), planes(1, 20)));
  CHECK(!apart(planes(0, 21), planes(1, 20)));
  // An operand without elements shares no memory, wherever it is.
  CHECK(apart(columns(0, 48), of(at, DType::f16, 48, {{"row", 0, 128}})));
}

TEST_CASE("operands that share an element are always found, and rows that overlap too") {
  std::mt19937_64 random(1);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const auto operand = [&] {
    std::vector<Operand::Dimension> outer;
    const int64_t columns = draw(1, 4);
    int64_t stride = columns;
    for (int64_t d = draw(0, 3); d > 0; --d) {
      outer.push_back({"row", draw(1, 3), draw(0, 2) == 0 ? draw(columns, 40) : stride + draw(0, 3)});
      stride = outer.back().stride * outer.back().extent;
    }
    std::ranges::shuffle(outer, random);
    const DType type = draw(0, 1) ? DType::f16 : DType::f32;
    return of(static_cast<uint64_t>(1000 + 2 * draw(0, 40)), type, columns, outer);
  };
  int apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const Operand x = operand(), y = operand();
    const auto [xs, twice] = bytes_of(x);
    const auto [ys, _] = bytes_of(y);
    const bool shares = std::ranges::any_of(xs, [&](uint64_t byte) { return ys.contains(byte); });
    const bool found = may_share(x, y);
    if (shares) REQUIRE(found);
    if (!found && xs.size() * ys.size() > 0 && *xs.begin() < *ys.rbegin() && *ys.begin() < *xs.rbegin())
      ++apart;
    if (twice) REQUIRE(error_of([&] { check_no_self_overlap("test", x, Where{}); }) != "");
  }
  CHECK(apart > 100);  // interleaved operands
}

TEST_CASE("errors name the operation, the operand and the value") {
  Operand x = of(64, DType::f32, 8, {{"row", 4, 8}, {"head", 2, 32}});
  CHECK(error_of([&] { check_memory("test", x, Where{}); }) == "");
  const auto refused = [&](auto&& change, const char* words) {
    Operand y = x;
    change(y);
    CHECK_ERROR(check_memory("test", y, Where{}), words);
  };
  refused([](auto& y) { y.outer[1].stride = 7; },
          "test: X of f32: the head stride is 7 elements, but must be at least the 8 of a row");
  refused([](auto& y) { y.outer[0].stride = int64_t{1} << 38; },
          "4 B, but a tensor map supports less than 2^40 B");
  refused([](auto& y) { y.outer[0].stride = INT64_MAX; }, "less than 2^40 B");
  refused([](auto& y) { y.memory.address += 2; },
          "the address 0x42 must be a multiple of the 4 B of an element");
  refused([](auto& y) { y.memory.bytes = 255; },
          "4 x 8 elements with a row stride of 8, 2 heads with a stride of 32, need 256 B, but the memory "
          "has 255 B");
  x.outer[0].extent = 0;
  refused([](auto& y) { y.memory.bytes = 0, y.outer[1].extent = 2, y.outer[0].extent = 1; },
          "memory has 0 B");
  x.memory = {};
  CHECK(error_of([&] { check_memory("test", x, Where{}); }) == "");
  CHECK(kernels::stride_of(int64_t{1} << 40, int64_t{1} << 40) >= kernels::kStrideEnd);
}

TEST_CASE("a copy has rows at multiples of 16 bytes and no gaps, and includes all outer dimensions") {
  const Operand x =
      of(64, DType::f16, 5, {{"row", 3, 7}, {"head", 2, 30}, {"group", 2, 100}, {"batch", 2, 300}});
  Operand near = padded(x);
  CHECK(near.outer[0].stride == 8);
  CHECK(near.outer[3].stride == 8 * 3 * 2 * 2);
  CHECK(near.memory.bytes == 8 * 3 * 2 * 2 * 2 * 2);
  CHECK(near.aligned_for_tma());
  CHECK(padded(x, 16).outer[0].stride == 16);
  CHECK(kernels::workspace_bytes(x) == 512);
  near.memory.address = 1 << 20;
  const auto copies = copies_of(x, near);
  REQUIRE(copies.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(copies[i].from.memory.address == 64 + 2 * (i % 2 * 100 + i / 2 * 300));
    CHECK(copies[i].to.memory.address == (1 << 20) + 2 * 48 * i);
    CHECK(copies[i].shape.rows == 3);
    CHECK(copies[i].shape.batches == 2);
    CHECK(copies[i].to.batch_stride == 24);
  }
}

}  // namespace ptxbuilder::test::operand_test
