#include "ptxbuilder/tile/bulk.h"

#include <fmt/format.h>

#include <numeric>

#include "ptxbuilder/article.h"
#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder {
namespace {

// Returns the number of bytes of a view that each of `ctas` CTAs copies.
uint32_t bulk_bytes(const TileView& view, DType type, u32 start, int ctas, std::string_view operation) {
  const SharedTile& tile = view.tile();
  if (type != tile.dtype())
    throw Error(
        fmt::format("{}: the elements are {} in global memory, but the view belongs to {}; a bulk copy does "
                    "not convert types",
                    operation, name(type), with_article(view.whole().describe())));
  if (tile.swizzle() != Swizzle::none || (tile.panels() > 1 && tile.rows() > 1))
    throw Error(
        fmt::format("{}: the view of {} x {} elements of {} is not contiguous, but a bulk copy needs "
                    "contiguous elements: whole rows without swizzle",
                    operation, view.row_count(), tile.cols(), with_article(view.whole().describe())));
  constexpr int kMost = (1 << 20) - 1;  // most bytes that a barrier can expect (PTX ISA, mbarrier, tx-count)
  if (view.bytes() % (16 * ctas) != 0 || view.bytes() > kMost)
    throw Error(
        fmt::format("{}: {} B cannot be divided among {} CTAs: each bulk copy must move a multiple of 16 B, "
                    "and at most {} B",
                    operation, view.bytes(), ctas, kMost / 16 * 16));
  if (auto known = Builder::current().constant(start);
      known && known->value * static_cast<uint64_t>(size_of(type)) % 16 != 0)
    throw Error(
        fmt::format("{}: the copy begins at element {}, byte {}, but must begin at a multiple of 16 B",
                    operation, known->value, known->value * static_cast<uint64_t>(size_of(type))));
  return static_cast<uint32_t>(view.bytes() / ctas);
}

gmem element_of(gmem base, DType type, u32 index) {
  return base + u64(index) * static_cast<uint64_t>(size_of(type));
}

// Records the copy for the proof as a copy of boxes that the CTAs of a group share. A box consists of rows,
// or of the columns of a single row. The copy is not recorded if a CTA's part does not consist of complete
// rows.
void record_bulk(bool is_store, const TileView& view, const MulticastGroups& groups) {
  const SharedTile& tile = view.tile();
  const int rows = view.row_count(), parts = groups.count(), dimension = rows > 1 ? 1 : 0;
  int extents[] = {tile.cols(), rows};
  if (extents[dimension] % parts != 0) return;
  extents[dimension] /= parts;
  KernelRecord& kernel = detail::TileContext::of(Builder::current()).record;
  CopyRecord record;
  record.is_store = is_store;
  record.is_bulk = true;
  record.view = detail::record_view(kernel, view);
  record.boxes.rank = 2;
  record.boxes.parts = parts;
  record.boxes.digits = {{parts, dimension, extents[dimension], view.bytes() / parts}};
  record.recipe.dtype = tile.dtype();
  record.recipe.box = {static_cast<uint32_t>(extents[0]), static_cast<uint32_t>(extents[1])};
  record.steps = {{.cols = 1}, {.rows = 1}};
  record.groups = groups;
  kernel.copies.push_back(std::move(record));
}

// Calls `copy` for each row of a view with the row's address in shared memory, its number, and its address in
// the matrix. Rows are processed in groups: all row numbers of a group are loaded before the first of them is
// used.
void each_row(const TileView& view, const detail::RowsByIndex& rows, bool clamps,
              const std::function<void(smem, u32, gmem)>& copy) {
  constexpr int kMost = 8;
  const int count = view.row_count(), row_bytes = view.bytes() / count;
  const int together = std::gcd(count, kMost);
  const auto body = [&](u32 first) {
    std::vector<u32> numbers;
    for (int i = 0; i < together; ++i) {
      const u32 number = rows.index(first + static_cast<uint32_t>(i));
      numbers.push_back(clamps ? min(number, rows.count - 1) : number);
    }
    for (int i = 0; i < together; ++i) {
      const u32 row = first + static_cast<uint32_t>(i);
      const u64 element = u64(numbers[static_cast<size_t>(i)]) * u64(rows.stride) + u64(rows.column);
      copy(view.address() + row * static_cast<uint32_t>(row_bytes), numbers[static_cast<size_t>(i)],
           rows.first + element * static_cast<uint64_t>(size_of(rows.type)));
    }
  };
  if (together == count) return body(0);
  for_(0, u32(static_cast<uint32_t>(count)), static_cast<uint32_t>(together), body);
}

// Returns the number of bytes in a row of a view. The rows are copied separately.
uint32_t row_bytes_of(const TileView& view, const detail::RowsByIndex& rows, std::string_view operation) {
  detail::check_upright(view, operation);
  (void)bulk_bytes(view, rows.type, rows.column, 1, operation);
  const int bytes = view.bytes() / view.row_count();
  if (auto known = Builder::current().constant(rows.stride);
      known && known->value * static_cast<uint64_t>(size_of(rows.type)) % 16 != 0)
    throw Error(fmt::format(
        "{}: rows of the matrix are {} elements ({} B) apart, but the distance must be a multiple of 16 B",
        operation, known->value, known->value * static_cast<uint64_t>(size_of(rows.type))));
  return static_cast<uint32_t>(bytes);
}

}  // namespace

namespace detail {

void bulk_gather(const LoadView& to, const RowsByIndex& from) {
  const uint32_t bytes = row_bytes_of(to.place(), from, "bulk_gather");
  if (const int ctas = multicast_groups(to.multicast_axes()).count(); ctas > 1)
    throw Error(fmt::format(
        "bulk_gather: {} CTAs share the rows, but each CTA must load its own: do not use multicast", ctas));
  if (to.fill() != OobFill::zero)
    throw Error(
        fmt::format("bulk_gather: the view fills elements outside with {}, which is not possible here: "
                    "numbers beyond the last row already mean the last row",
                    name(to.fill())));
  begin_load(to, "bulk_gather");
  const std::optional<u64> policy = cache_policy(to.eviction());
  const isa::Row& row = isa::cp_async_bulk_load({false, policy.has_value()});
  each_row(to.place(), from, true, [&](smem place, u32, gmem source) {
    std::vector<Argument> arguments = {place, source, u32(bytes), *to.barrier()};
    if (policy) arguments.emplace_back(*policy);
    Builder::current().emit(row, arguments, to.condition());
  });
  record_bulk(false, to.place(), {});
}

void bulk_scatter(std::optional<CopyReduction> reduction, const RowsByIndex& to, const CopyView& from) {
  const std::string_view operation = reduction ? "bulk_scatter_reduce" : "bulk_scatter";
  const uint32_t bytes = row_bytes_of(from.place(), to, operation);
  if (reduction) check_reduction(*reduction, to.type, operation);
  const std::optional<u64> policy = cache_policy(from.eviction());
  const isa::Row& row = reduction ? isa::cp_reduce_async_bulk({*reduction, to.type, policy.has_value()})
                                  : isa::cp_async_bulk_store({policy.has_value()});
  each_row(from.place(), to, false, [&](smem place, u32 number, gmem target) {
    pred is_there = number < to.count;
    if (from.condition()) is_there = is_there & *from.condition();
    std::vector<Argument> arguments = {target, place, u32(bytes)};
    if (policy) arguments.emplace_back(*policy);
    Builder::current().emit(row, arguments, is_there);
  });
  record_bulk(true, from.place(), {});
}

void bulk_load(const LoadView& to, gmem from, DType type, u32 start) {
  const MulticastGroups groups = multicast_groups(to.multicast_axes());
  const int count = groups.count();
  const uint32_t bytes = bulk_bytes(to.place(), type, start, count, "bulk_load");
  if (to.fill() != OobFill::zero)
    throw Error(
        fmt::format("bulk_load: the view fills elements outside with {}, but a bulk copy has no tensor, and "
                    "so nothing is outside",
                    name(to.fill())));
  begin_load(to, "bulk_load");
  gmem source = element_of(from, type, start);
  smem place = to.place().address();
  std::optional<u16> mask;
  if (count > 1) {
    const GroupMember member = group_member(groups);
    u32 part = member.place.value() * bytes;
    source = source + u64(part);
    place = place + part;
    mask = member.mask;
  }
  const std::optional<u64> policy = cache_policy(to.eviction());
  std::vector<Argument> arguments = {place, source, u32(bytes), *to.barrier()};
  if (mask) arguments.emplace_back(*mask);
  if (policy) arguments.emplace_back(*policy);
  const isa::Row& row = isa::cp_async_bulk_load({mask.has_value(), policy.has_value()});
  Builder::current().emit(row, arguments, to.condition());
  record_bulk(false, to.place(), groups);
}

void bulk_store(std::optional<CopyReduction> reduction, gmem to, DType type, u32 start,
                const CopyView& from) {
  const std::string_view operation = reduction ? "bulk_reduce" : "bulk_store";
  const uint32_t bytes = bulk_bytes(from.place(), type, start, 1, operation);
  check_upright(from.place(), operation);
  if (reduction) check_reduction(*reduction, type, operation);
  const std::optional<u64> policy = cache_policy(from.eviction());
  std::vector<Argument> arguments = {element_of(to, type, start), from.place().address(), u32(bytes)};
  if (policy) arguments.emplace_back(*policy);
  const isa::Row& row = reduction ? isa::cp_reduce_async_bulk({*reduction, type, policy.has_value()})
                                  : isa::cp_async_bulk_store({policy.has_value()});
  Builder::current().emit(row, arguments, from.condition());
  record_bulk(true, from.place(), {});
}

}  // namespace detail

}  // namespace ptxbuilder
