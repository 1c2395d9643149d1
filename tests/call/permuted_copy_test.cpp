// Compares copies that reorder the modes of tensors with plain loops, for random modes, gaps, sizes and
// alignments.
//
//   permuted_copy_test [--device=emulator|cuda|auto] [--permuted_copies=N]
#include "kernels/call/permuted_copy.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "error_kit.h"
#include "options.h"
#include "runtime/buffer.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::permuted_copy_test {
using kernels::PermutedCopy;

namespace {

const size_t& count = test::option<size_t>("permuted_copies", 24);

struct Drawn {
  PermutedCopy copy;
  int64_t read = 1, written = 1;  // elements from the first to the last
};

// Returns strides that grow along the modes in a random order, sometimes with gaps.
int64_t lay_out(std::vector<PermutedCopy::Mode>& modes, int64_t PermutedCopy::Mode::*stride, bool gaps,
                std::mt19937_64& random) {
  std::vector<size_t> order(modes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::shuffle(order, random);
  int64_t next = 1, last = 0;
  for (const size_t i : order) {
    modes[i].*stride = next;
    last += (modes[i].extent - 1) * next;
    next = next * modes[i].extent + (gaps && random() % 3 == 0 ? 8 : 0);
  }
  return last + 1;
}

Drawn drawn(std::mt19937_64& random) {
  Drawn d;
  d.copy.element_bytes = 1 << random() % 3;
  const size_t modes = 1 + random() % 8;
  int64_t all = 1;
  for (size_t i = 0; i < modes; ++i) {
    const int64_t most = std::max<int64_t>(1, 60000 / all);
    const int64_t extent = std::min<int64_t>(most, random() % 2 ? 8 << random() % 4 : 1 + random() % 40);
    d.copy.modes.push_back({extent, 0, 0});
    all *= extent;
  }
  const bool gaps = random() % 3 == 0;
  d.read = lay_out(d.copy.modes, &PermutedCopy::Mode::from, gaps, random);
  d.written = lay_out(d.copy.modes, &PermutedCopy::Mode::to, gaps, random);
  return d;
}

// Calls `work` with the first byte of each element on both sides.
void each_element(const PermutedCopy& copy, const std::function<void(size_t from, size_t to)>& work) {
  std::vector<int64_t> at(copy.modes.size(), 0);
  while (true) {
    int64_t from = 0, to = 0;
    for (size_t i = 0; i < at.size(); ++i) from += at[i] * copy.modes[i].from, to += at[i] * copy.modes[i].to;
    work(static_cast<size_t>(from * copy.element_bytes), static_cast<size_t>(to * copy.element_bytes));
    size_t i = 0;
    while (i < at.size() && ++at[i] == copy.modes[i].extent) at[i++] = 0;
    if (i == at.size()) return;
  }
}

// Copies random bytes, and compares the whole target with plain loops. Returns the form.
kernels::PermutedCopyForm check_copy(runtime::Device& device, kernels::PermutedCopier& copier, Drawn d,
                                     size_t offset, std::mt19937_64& random) {
  const auto bytes = [&](int64_t elements) {
    return offset + static_cast<size_t>(elements) * static_cast<size_t>(d.copy.element_bytes);
  };
  std::vector<uint8_t> from(bytes(d.read)), expected(bytes(d.written));
  for (uint8_t& byte : from) byte = static_cast<uint8_t>(random());
  for (uint8_t& byte : expected) byte = static_cast<uint8_t>(random());
  const auto source = runtime::Buffer::of(device, from);
  const auto target = runtime::Buffer::of(device, expected);
  d.copy.from = {source.address() + offset, from.size() - offset};
  d.copy.to = {target.address() + offset, expected.size() - offset};
  each_element(d.copy, [&](size_t read, size_t written) {
    std::memcpy(&expected[offset + written], &from[offset + read], static_cast<size_t>(d.copy.element_bytes));
  });
  const kernels::PermutedCopyForm form = form_of(d.copy);
  copier(form, {});
  device.synchronize();
  std::string words = fmt::format("{} B, offset {}:", d.copy.element_bytes, offset);
  for (const PermutedCopy::Mode& mode : d.copy.modes)
    words += fmt::format(" {} ({}, {})", mode.extent, mode.from, mode.to);
  INFO(words);
  CHECK(target.copy_out<uint8_t>() == expected);
  return form;
}

}  // namespace

TEST_CASE("random copies equal those of plain loops, and touch nothing else") {
  const auto device = runtime::open_device(device_name);
  kernels::PermutedCopier copier(*device, {});
  std::mt19937_64 random(20);
  int wide = 0, transposed = 0, squares = 0;
  for (size_t i = 0; i < count; ++i) {
    const Drawn d = drawn(random);
    const size_t offset = random() % 3 ? 0 : static_cast<size_t>(d.copy.element_bytes);
    const kernels::PermutedCopyForm form = check_copy(*device, copier, d, offset, random);
    wide += form.vector > 1, transposed += form.transposes;
    squares += form.vector > 1 && form.transposes;
  }
  MESSAGE(fmt::format("{} copies: {} of vectors, {} transposed, {} both", count, wide, transposed, squares));
  CHECK(squares > 0);
  CHECK(wide > squares);
  CHECK(transposed > squares);
}

TEST_CASE("planes that alternate on one side are copied in vectors") {
  const auto device = runtime::open_device(device_name);
  kernels::PermutedCopier copier(*device, {});
  std::mt19937_64 random(21);
  for (const int bytes : {1, 2, 4})
    for (const int64_t planes : {2, 3, 7}) {
      // The mode of 48 is around the planes on one side, and innermost on the other; 5 rows are outermost, or
      // between the planes.
      const bool rows_between = random() % 2, apart_in_copy = random() % 2;
      const int64_t row = 64, plane = rows_between ? 5 * row : row;
      Drawn d{
          {bytes,
           {{planes, 1, plane}, {48, planes, 1}, {5, 48 * planes + 16, rows_between ? row : planes * row}},
           {},
           {}},
          5 * (48 * planes + 16),
          planes * 5 * row};
      if (!apart_in_copy) {
        for (PermutedCopy::Mode& mode : d.copy.modes) std::swap(mode.from, mode.to);
        std::swap(d.read, d.written);
      }
      const kernels::PermutedCopyForm form = check_copy(*device, copier, d, 0, random);
      CHECK(form.planes == planes);
      CHECK(form.planes_are_in_copy == apart_in_copy);
      CHECK(form.vector == (bytes == 4 ? 4 : 8));
    }
  // Vectors would begin at addresses that are not their multiples.
  const PermutedCopy odd{2, {{2, 1, 481}, {480, 2, 1}}, {0, 1 << 20}, {0, 1 << 20}};
  CHECK(form_of(odd).planes == 1);
}

TEST_CASE("short modes fill blocks together") {
  // Both sides have an inner mode of 8 elements, and 64 elements of two modes are adjacent.
  const PermutedCopy copy{2, {{8, 1, 512}, {8, 8, 64}, {64, 64, 1}}, {0, 1 << 20}, {1 << 20, 1 << 20}};
  const kernels::PermutedCopyForm form = form_of(copy);
  CHECK(form.transposes);
  CHECK(form.vector == 8);
  CHECK(form.rows.size() == 1);
  CHECK(form.columns.size() == 2);
}

TEST_CASE("modes that are contiguous on one side together are on that side's axis") {
  // In the copy, the mode of 40 immediately follows the mode of 24.
  const PermutedCopy copy{
      2, {{24, 192640, 1}, {40, 4816, 24}, {4816, 1, 960}}, {0, 1 << 30}, {1 << 30, 1 << 30}};
  const kernels::PermutedCopyForm form = form_of(copy);
  REQUIRE(form.rows.size() == 2);
  CHECK(form.rows[0].extent == 3);
  CHECK(form.rows[1].extent == 40);
  CHECK(form.columns.size() == 1);
}

TEST_CASE("a block has as many rows of squares as leave few threads without one") {
  // There are 10 pieces along the rows. All other modes are contiguous in the source or far apart on both
  // sides.
  const PermutedCopy copy{
      2, {{80, 16, 1}, {16, 1, 80}, {2048, 1280, 1280}}, {0, 1 << 30}, {1 << 30, 1 << 30}};
  const kernels::PermutedCopyForm form = form_of(copy);
  CHECK(form.block_rows == 10);
  CHECK(form.block_columns == 12);
}

TEST_CASE("a block has one row of squares if there are no more") {
  const PermutedCopy copy{
      2, {{8, 1776 * 392, 1}, {392, 1, 8}, {1776, 392, 3136}}, {0, 1 << 30}, {1 << 30, 1 << 30}};
  const kernels::PermutedCopyForm form = form_of(copy);
  CHECK(form.block_rows == 1);
  CHECK(form.block_columns == 128);
}

TEST_CASE("pieces along an axis are below 2^31") {
  const PermutedCopy copy{
      2, {{1 << 20, 1, 1}, {1 << 20, 1 << 21, 1 << 21}}, {0, int64_t{1} << 42}, {1, int64_t{1} << 42}};
  const kernels::PermutedCopyForm form = form_of(copy);
  CHECK(form.vector == 1);
  CHECK(form.columns.size() == 1);
  CHECK(form.rows.size() == 1);
}

TEST_CASE("ten modes that do not fold are refused") {
  PermutedCopy copy;
  for (int64_t i = 0; i < 10; ++i) copy.modes.push_back({2, int64_t{1} << (9 - i), int64_t{1} << i});
  CHECK_ERROR(form_of(copy), "10 modes that do not fold, but may have at most 9");
}

}  // namespace ptxbuilder::test::permuted_copy_test
