#include "kernels/attention/parts.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/watchdog.h"

namespace ptxbuilder::kernels {
namespace {

constexpr uint64_t kMark = 0x9e6c63d0876a9a47;  // an arbitrary number that does not occur by chance
constexpr uint64_t kMarkWords = sizeof kMark / sizeof(float);
constexpr int kRowNumbers = 2;  // each row has two numbers: its largest score and the sum of its weights
constexpr int kVector = 4;      // number of adjacent columns per thread
// Limits for the values, and for the parts, that a thread loads at once. Consumers of latent values have
// fewer registers for them.
constexpr int kValuesInFlight = 96, kValuesOfGroupInFlight = 64, kMostInFlight = 16;

}  // namespace

AttentionParts::AttentionParts(int columns, const AttentionSizes& sizes, gptr<f32> memory, u32 number,
                               int group)
    : sizes_(sizes),
      columns_(columns),
      group_(group),
      most_rows_(min(sizes.queries, kConsumerRows)),
      values_(memory),
      numbers_(values_),
      marks_(values_) {
  const u64 rows = u64(places()) * u64(most_rows_), marks = u64(places()) * uint64_t{group > 0 ? 2u : 1u};
  const u64 words = rows * static_cast<uint64_t>(columns_ + kRowNumbers) + marks * kMarkWords;
  values_ = values_ + u64(number) * words;
  numbers_ = values_ + rows * static_cast<uint64_t>(columns_);
  marks_ = gmem(numbers_ + rows * uint64_t{kRowNumbers});
}

size_t AttentionParts::bytes(const AttentionOperation& o, int64_t queries, int64_t ctas) {
  // If values are latent, each of two warpgroups has half of the columns, and parts form groups, which have
  // their own marks.
  const int warpgroups = o.has_latent_values() ? 2 : 1, marks = warpgroups;
  const auto rows = static_cast<size_t>(std::min<int64_t>(queries, kConsumerRows)),
             columns = static_cast<size_t>(o.value_depth / warpgroups + kRowNumbers);
  return static_cast<size_t>(ctas * kPartsOfCta * warpgroups) *
         (rows * columns * sizeof(float) + static_cast<size_t>(marks) * sizeof kMark);
}

GlobalTensor<f32, 2> AttentionParts::values_of(u32 n, u32 rows) const {
  const u64 row = u64(n) * u64(most_rows_);
  return GlobalTensor(values_ + row * static_cast<uint64_t>(columns_), {rows, columns_});
}
GlobalTensor<f32, 1> AttentionParts::numbers_of(u32 n, u32 rows, int which) const {
  const u64 row = u64(n * kRowNumbers + which) * u64(most_rows_);
  return GlobalTensor(numbers_ + row, {rows});
}
// Consecutive parts belong to consecutive CTAs of the same team.
u32 AttentionParts::place_of(const AttentionWork& w, u32 part) const {
  const u32 cta = ctaid_x() + (part - w.part->number) * *sizes_.teams;
  return cta * kPartsOfCta + select(part == 0, u32(1), u32(0));
}
gmem AttentionParts::mark_of(u32 n) const { return marks_ + u64(n) * uint64_t{sizeof kMark}; }

void AttentionParts::give(const AttentionWork& w, const RegisterTile<f32>& most,
                          const RegisterTile<f32>& total, const Accumulator& values) const {
  const u32 own = place_of(w, w.part->number);
  store(values_of(own, rows(w)).tile(0, 0), load<f32>(values));
  store(numbers_of(own, rows(w), 0).as_col().tile(0, 0), most);
  store(numbers_of(own, rows(w), 1).as_col().tile(0, 0), total);
  // The last part is marked too, because the CTA that combines the parts waits for its own mark as well as
  // for all others.
  mark(own);
}

void AttentionParts::mark(u32 n) const {
  sync_warpgroup();
  if_((tid_x() & 127) == 0, [&] { st_release_gpu_global_u64(mark_of(n), u64(kMark)); });
}

// Waits until all parts have arrived. Each thread waits for some of them.
void AttentionParts::wait(const AttentionWork& w, const Range& parts) const {
  Var<u32> part(tid_x() & 127);
  while_([&] { return part.value() < parts.count; },
         [&] {
           constexpr AcquireForm form = {Scope::gpu, DType::u64};
           const gmem given = mark_of(parts.first_mark + place_of(w, parts.number(part)));
           detail::wait_while(
               {.counter = given, .is_wide = true, .what = "the mark of another part of the keys"},
               [&] { return ld_acquire<form>(given) != u64(kMark); }, [] { nanosleep(20); });
           (gptr<u64>(given))[0] = u64(0);
           part = part.value() + 128;
         });
  sync_warpgroup();
}

// Returns the layout in which the threads share rows of the sums. The number of rows is a multiple of 8,
// since a part of a swizzled tile can begin only at such rows. If the number of columns is not a power of
// two, rows cannot be reduced in this layout, so the accumulator's layout is used.
RegisterLayout AttentionParts::layout() const {
  if (!has_whole_rows()) return wgmma_layout(kConsumerRows, columns_);
  return strided({std::max(8, 128 * kVector / columns_), columns_}, kVector);
}
bool AttentionParts::has_whole_rows() const { return std::has_single_bit(static_cast<unsigned>(columns_)); }

pred AttentionParts::is_first_of(u32 row) const {
  if (!has_whole_rows()) return laneid() % 4 == 0;
  return row * (columns_ / kVector) % 128 == (tid_x() & 127);
}

void AttentionParts::add_group(const AttentionWork& w, f32 exponent) const {
  const u32 number = w.part->number, count = w.part->count;
  const pred is_last = ((number + 1) % group_ == 0u) | (number + 1 == count);
  if_((count > u32(group_)) & is_last, [&] {
    const u32 first = number / group_ * group_, own = place_of(w, number);
    const Range parts = {number + 1 - first, [&](u32 i) { return first + i; }, 0};
    add(w, parts, exponent, [&](u32 row, const Sums& sums) {
      sync_warpgroup();  // wait until other threads have loaded the numbers of these rows
      store(values_of(own, rows(w)).tile(row, 0), sums.values);
      store(numbers_of(own, rows(w), 0).as_col().tile(row, 0), sums.most);
      store(numbers_of(own, rows(w), 1).as_col().tile(row, 0), sums.total);
    });
    mark(own + places());
  });
}

void AttentionParts::complete(const AttentionWork& w, f32 exponent,
                              const std::function<void(u32, const Sums&)>& body) const {
  const u32 count = w.part->count;
  if (group_ == 0) return add(w, {count, [](u32 i) { return i; }, 0}, exponent, body);
  const pred has_groups = count > u32(group_);
  const u32 step = select(has_groups, u32(group_), u32(1));
  const Range parts = {(count + step - 1) / step, [&](u32 i) { return min(i * step + step, count) - 1; },
                       select(has_groups, places(), u32(0))};
  add(w, parts, exponent, body);
}

void AttentionParts::add(const AttentionWork& w, const Range& parts, f32 exponent,
                         const std::function<void(u32, const Sums&)>& body) const {
  wait(w, parts);
  const RegisterLayout layout = this->layout(), by_row = layout.reduced_rows();
  const int values = group_ > 0 ? kValuesOfGroupInFlight : kValuesInFlight;
  const int at_once = std::clamp(values * 128 / (layout.rows() * layout.cols()), 1, kMostInFlight);
  for_(0, rows(w), layout.rows(), [&](u32 row) {
    Var<RegisterTile<f32>> most(RegisterTile<f32>(f32(-INFINITY), by_row)),
        total(RegisterTile<f32>(f32(0), by_row)), values(RegisterTile<f32>(f32(0), layout));
    for_(0, parts.count, at_once, [&](u32 begin) {
      std::vector<Sums> some;
      for (int i = 0; i < at_once; ++i) {
        // Parts beyond the last are treated as having no rows, so that nothing is loaded and their weight is
        // 0.
        const u32 n = place_of(w, parts.number(begin + i)),
                  there = select(begin + i < parts.count, rows(w), u32(0));
        const auto number = [&](int which, float none) {
          return load<f32>(numbers_of(n, there, which).as_col().tile(row, 0), by_row, f32(none));
        };
        some.push_back(
            {number(0, -INFINITY), number(1, 0), load<f32>(values_of(n, there).tile(row, 0), layout)});
      }
      const RegisterTile<f32> before = most.value();
      RegisterTile<f32> greatest = before;
      for (const Sums& one : some) greatest = max(greatest, one.most);
      // The largest score is -inf if the row sees no key; 0 then serves as the reference.
      const RegisterTile<f32> reference = select(greatest == -INFINITY, f32(0), greatest);
      const auto weight = [&](const RegisterTile<f32>& of) {
        return exp2((of - reference) * exponent, Approx::yes);
      };
      RegisterTile<f32> sum = total.value() * weight(before), products = values.value() * weight(before);
      for (int i = 0; i < at_once; ++i) {
        const Sums& one = some[static_cast<size_t>(i)];
        const RegisterTile<f32> factor = weight(one.most);
        sum = sum + one.total * factor;
        products = products + one.values * factor;
      }
      most = greatest, total = sum, values = products;
    });
    body(row, {most.value(), total.value(), values.value()});
  });
}

}  // namespace ptxbuilder::kernels
