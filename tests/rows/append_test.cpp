// Tests that keys and values of new tokens are stored in their slots of a paged cache, and that nothing else
// in the cache is written.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "error_kit.h"
#include "kernels/rows/operations.h"
#include "kernels/rows/rows.h"
#include "library_kit.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test::append_test {
namespace {

constexpr int64_t kTokens = 5, kHeads = 3, kPages = 3, kPageRows = 4, kColumns = 4, kPositions = 6;
constexpr size_t kHead = 2 * kColumns, kCache = kPages * kHeads * kPageRows * kHead;
using Floats = std::vector<float>;

// A call with its tensors in device memory, and their numbers on the host.
struct Call {
  Call() : device(runtime::open_emulator()), rows(*device) {
    call.operation = &kernels::row_operation("append");
    for (const auto& [extents, scale] :
         {std::pair(std::vector{kTokens, kHeads, int64_t{2}, kColumns}, 1.F),
          std::pair(std::vector{kTokens, kHeads, int64_t{2}, kColumns}, -3.F),
          std::pair(std::vector{kPages, kHeads, kPageRows, int64_t{2}, kColumns}, 0.F),
          std::pair(std::vector{kPages, kHeads, kPageRows, int64_t{2}, kColumns}, 0.F)}) {
      int64_t count = 1;
      for (const int64_t extent : extents) count *= extent;
      Floats x(static_cast<size_t>(count), NAN);
      for (size_t i = 0; scale != 0 && i < x.size(); ++i) x[i] = scale * static_cast<float>(i + 1);
      call.tensors.push_back(kernels::RowOperand{DType::f32, extents, put(x)});
    }
    call.tensors.resize(10);
  }

  template <class T>
  runtime::View put(const std::vector<T>& x) {
    memory.emplace_back(*device, x.size() * sizeof(T));
    device->copy_in(memory.back().address(), x.data(), x.size() * sizeof(T));
    return memory.back();
  }
  template <class T>
  kernels::RowOperand index(const std::vector<T>& x) {
    return {sizeof(T) == 8 ? DType::s64 : DType::s32, {static_cast<int64_t>(x.size())}, put(x)};
  }
  Floats cache(size_t tensor) {
    Floats x(kCache);
    device->copy_out(x.data(), call.tensors[tensor]->memory.address, kCache * sizeof(float));
    return x;
  }
  void run() {
    rows(call);
    device->synchronize();
  }

  std::unique_ptr<runtime::Device> device;
  kernels::Rows rows;
  std::vector<runtime::Buffer> memory;
  kernels::RowCall call;
};

float given(int64_t token, int64_t head, size_t element, float scale) {
  return scale *
         static_cast<float>((token * kHeads + head) * int64_t{kHead} + static_cast<int64_t>(element) + 1);
}

// Checks that the caches hold the new rows in the slots, and NaN everywhere else, as before.
void check(Call& c, const std::vector<int64_t>& slots) {
  const Floats keys = c.cache(2), values = c.cache(3);
  size_t wrong = 0;
  for (int64_t page = 0; page < kPages; ++page)
    for (int64_t head = 0; head < kHeads; ++head)
      for (int64_t row = 0; row < kPageRows; ++row)
        for (size_t e = 0; e < kHead; ++e) {
          const size_t at = static_cast<size_t>((page * kHeads + head) * kPageRows + row) * kHead + e;
          const auto token = std::find(slots.begin(), slots.end(), page * kPageRows + row);
          if (token == slots.end())
            wrong += !std::isnan(keys[at]) || !std::isnan(values[at]);
          else
            wrong += keys[at] != given(token - slots.begin(), head, e, 1) ||
                     values[at] != given(token - slots.begin(), head, e, -3);
        }
  CHECK(wrong == 0);
}

}  // namespace

// Keys and values are neighbours in one tensor [page, row, 2, head, column].
TEST_CASE("caches with gaps between pages, heads and rows") {
  Call c, compact;
  const std::vector<int32_t> slots = {7, 0, -1, 11, 4};
  const runtime::View both = c.put(Floats(2 * kCache, NAN));
  constexpr int64_t kHeadsOfRow = kHeads * int64_t{kHead};
  for (const size_t i : {2, 3}) {
    kernels::RowOperand& x = *c.call.tensors[i];
    const size_t skipped = i == 2 ? 0 : static_cast<size_t>(kHeadsOfRow) * sizeof(float);
    x.memory = {both.address + skipped, both.bytes - skipped};
    x.strides = {kPageRows * 2 * kHeadsOfRow, int64_t{kHead}, 2 * kHeadsOfRow, kColumns, 1};
  }
  c.call.tensors[4] = c.index(slots), compact.call.tensors[4] = compact.index(slots);
  c.run();
  compact.run();
  Floats got(2 * kCache);
  c.device->copy_out(got.data(), both.address, got.size() * sizeof(float));
  size_t wrong = 0;
  for (const size_t i : {2, 3}) {
    const Floats expected = compact.cache(i);
    for (int64_t e = 0; e < static_cast<int64_t>(kCache); ++e) {
      const int64_t of_head = e % kHead, row = e / kHead % kPageRows, head = e / kHead / kPageRows % kHeads,
                    page = e / kHead / kPageRows / kHeads;
      const float x = got[static_cast<size_t>(((page * kPageRows + row) * 2 + static_cast<int64_t>(i) - 2) *
                                                  kHeadsOfRow +
                                              head * int64_t{kHead} + of_head)],
                  right = expected[static_cast<size_t>(e)];
      wrong += !(x == right || (std::isnan(x) && std::isnan(right)));
    }
  }
  CHECK(wrong == 0);

  kernels::RowOperand& keys = *c.call.tensors[2];
  const auto refused = [&](std::vector<int64_t> strides, const char* words) {
    const std::vector<int64_t> right = keys.strides;
    keys.strides = std::move(strides);
    CHECK_ERROR(c.rows(c.call), words);
    keys.strides = right;
  };
  refused({96, 8, 48, 8, 2}, "append: k_cache has gaps between its columns");
  refused({96, 8, 48}, "append: k_cache has 5 dimensions, but 3 strides");
  refused({192, 0, 48, 4, 1},
          "append: k_cache of f32: the head stride is 0 elements, but must be at least the 8 of a row");
  refused({24, 8, 48, 4, 1}, "4 rows of 8 in 3 heads in 3 pages overlap, but they are written");
  c.call.tensors[0]->strides = {48, 8, 4, 1};
  CHECK_ERROR(c.rows(c.call), "append: k has gaps");
}

TEST_CASE("tokens go to their slots, by indices of both types") {
  Call narrow, wide;
  narrow.call.tensors[4] = narrow.index<int32_t>({7, -1, 0, 12, 10});
  narrow.run();
  check(narrow, {7, -1, 0, 12, 10});
  // A number that is 3 only in its low 32 bits is not a slot.
  wide.call.tensors[4] = wide.index<int64_t>({11, (int64_t{1} << 32) + 3, -1, 5, INT64_MIN});
  wide.run();
  check(wide, {11, -1, -1, 5, -1});
  wide.call.tensors[4] = wide.index<int64_t>({-1, -1, 2, -1, 1});  // a known call
  wide.run();
  check(wide, {11, -1, 2, 5, 1, -1, -1});
}

TEST_CASE("keys are rotated by the angles of their positions") {
  Call c;
  c.call.tensors[4] = c.index<int64_t>({3, 8, -1, 4, 0});
  Floats cos, sin;
  for (int i = 0; i < kPositions * kColumns; ++i)
    cos.push_back(static_cast<float>(i)), sin.push_back(static_cast<float>(100 - i));
  const std::vector<int64_t> angles = {kPositions, kColumns};
  c.call.tensors[5] = kernels::RowOperand{DType::f32, angles, c.put(cos)};
  c.call.tensors[6] = kernels::RowOperand{DType::f32, angles, c.put(sin)};
  c.call.tensors[7] = c.index<int32_t>({5, 0, 99, 2, 6});  // the last position is outside of the table
  c.run();
  const Floats keys = c.cache(2), values = c.cache(3);
  const auto key = [&](int64_t slot, int64_t head, size_t e) {
    return keys[static_cast<size_t>((slot / kPageRows * kHeads + head) * kPageRows + slot % kPageRows) *
                    kHead +
                e];
  };
  size_t wrong = 0;
  for (const auto& [token, slot, position] : {std::tuple{0, 3, 5}, std::tuple{1, 8, 0}, std::tuple{3, 4, 2}})
    for (int64_t head = 0; head < kHeads; ++head)
      for (size_t e = 0; e < kColumns; ++e) {
        const float a = given(token, head, e, 1), b = given(token, head, e + kColumns, 1);
        const size_t angle = static_cast<size_t>(position * kColumns) + e;
        wrong += std::abs(key(slot, head, e) - (a * cos[angle] - b * sin[angle])) > 1e-2F;
        wrong += std::abs(key(slot, head, e + kColumns) - (b * cos[angle] + a * sin[angle])) > 1e-2F;
      }
  CHECK(wrong == 0);
  CHECK(std::isnan(key(0, 0, 0)));
  CHECK(!std::isnan(values[0]));  // values are not rotated, so they need no position
}

// A cache of e4m3 holds the nearest number, or the greatest number if that is exceeded. There is a scale for
// each head or one for all heads, and it belongs to all pages or to each page.
TEST_CASE("caches of e4m3 hold what is left after a division by scales") {
  Floats of_heads(kHeads * kPages), of_pages(kPages);
  for (size_t i = 0; i < of_heads.size(); ++i) of_heads[i] = 0.1F * static_cast<float>(i + 1);
  for (size_t i = 0; i < of_pages.size(); ++i) of_pages[i] = 0.3F * static_cast<float>(i + 1);
  const auto length = [](const Floats& all) { return static_cast<int64_t>(all.size()); };
  for (const auto& [scales, pages] : {std::pair(Floats{0.5F, 0.03F, 7}, int64_t{0}),
                                      {Floats{0.9F}, 0},
                                      {Floats{}, 0},
                                      {Floats{0.9F}, 1},
                                      {of_heads, kPages},
                                      {of_pages, kPages}}) {
    Call c;
    const int64_t each = length(scales) / std::max<int64_t>(pages, 1);
    c.call.tensors[4] = c.index<int32_t>({7, -1, 0, 11, 10});
    for (const size_t cache : {2, 3})
      c.call.tensors[cache] = kernels::RowOperand{DType::e4m3, c.call.tensors[cache]->extents,
                                                  c.put(std::vector<uint8_t>(kCache, 0x7f))};
    for (const size_t scale : {8, 9})
      if (!scales.empty())
        c.call.tensors[scale] = kernels::RowOperand{
            DType::f32, pages == 0 ? std::vector{each} : std::vector{pages, each}, c.put(scales)};
    c.run();
    size_t wrong = 0, kept = 0;
    for (const auto& [tensor, factor] : {std::pair(size_t{2}, 1.F), {3, -3.F}}) {
      std::vector<uint8_t> cache(kCache);
      c.device->copy_out(cache.data(), c.call.tensors[tensor]->memory.address, kCache);
      for (const auto& [token, slot] : {std::pair(0, 7), {2, 0}, {3, 11}, {4, 10}})
        for (int64_t head = 0; head < kHeads; ++head)
          for (size_t e = 0; e < kHead; ++e) {
            const size_t at =
                static_cast<size_t>((slot / kPageRows * kHeads + head) * kPageRows + slot % kPageRows) *
                    kHead +
                e;
            const int64_t of = (pages > 1 ? slot / kPageRows * each : 0) + std::min(head, each - 1);
            const float scale = scales.empty() ? 1 : scales[static_cast<size_t>(of)];
            wrong +=
                cache[at] != encode(DType::e4m3, static_cast<double>(given(token, head, e, factor) / scale));
          }
      for (const uint8_t x : cache) kept += x == 0x7f;
    }
    CHECK(wrong == 0);
    CHECK(kept == 2 * (kCache - 4 * kHeads * kHead));
  }
}

TEST_CASE("two tokens of one slot are a race") {
  Call c;
  c.call.tensors[4] = c.index<int32_t>({7, -1, 0, 7, 10});
  CHECK(contains(error_of([&] { c.run(); }), "race"));
}

TEST_CASE("misuse of append is refused") {
  Call c;
  c.call.tensors[4] = c.index<int32_t>({7, -1, 0, 3, 10});
  const kernels::RowCall right = c.call;
  const auto refused = [&](const std::string& words) {
    CHECK_MESSAGE(contains(error_of([&] { c.rows(c.call); }), words), words);
    c.call = right;
  };
  c.call.tensors[7] = c.index<int32_t>({0, 1, 2, 3, 4});
  refused("append: position is given, but cos is not: they must be given together");
  c.call.tensors[5] = kernels::RowOperand{DType::f32, {kPositions, kColumns}, c.put(Floats(24))};
  refused("append: sin is not given, but cos is: they must be given together");
  c.call.tensors[2] = c.call.tensors[3];
  refused("append: k_cache overlaps v_cache");
  c.call.tensors[4] = c.index<int32_t>({7, -1, 0, 3});
  refused("append: slots must have the shape [rows], but is [4]: an earlier tensor has 5 rows");
  c.call.tensors[3]->type = DType::bf16;
  refused("append: v_cache is bf16; its type must be that of k, f32, or e4m3");
  c.call.tensors[8] = kernels::RowOperand{DType::f32, {2}, c.put(Floats(2))};
  refused("append: 2 scales were given, but there must be one, or one for each of 3 heads");
  c.call.tensors[8] = kernels::RowOperand{DType::f32, {2, 3}, c.put(Floats(6))};
  refused(fmt::format("append: 2 scale_pages were given, but there must be one, or one for each of {} pages",
                      kPages));
  c.call.tensors[0]->memory.address = c.call.tensors[2]->memory.address;
  refused("overlaps");
  // Nothing is stored in caches without pages.
  c.call.tensors[2]->extents[0] = c.call.tensors[3]->extents[0] = 0;
  c.run();
}

}  // namespace ptxbuilder::test::append_test
