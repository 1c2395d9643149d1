#include "ptxbuilder/tile/tma_tensor.h"

#include <fmt/format.h>

#include "ptxbuilder/article.h"
#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder {
namespace {

void check_slices(const TensorCopy& copy, const std::vector<Slice>& slices, std::string_view operation) {
  if (slices.size() != copy.extents().size())
    throw Error(fmt::format("{}: {} slices were given, but {} has {} dimensions", operation, slices.size(),
                            copy.describe(), copy.extents().size()));
  for (size_t i = 0; i < slices.size(); ++i)
    if (slices[i].length != copy.extents()[i])
      throw Error(
          fmt::format("{}: the slice has {} elements along dimension {}, but must have the extent of {}",
                      operation, slices[i].length, i, copy.describe()));
  detail::check_innermost(slices.back().start, copy.dtype(), operation);
  std::vector<bool> is_mapped(slices.size(), false);
  auto start = [&](size_t d) { return Builder::current().constant(slices[d].start); };
  for (const TensorMode& mode : copy.map_modes()) {
    const auto d = static_cast<size_t>(mode.dimension);
    is_mapped[d] = true;
    for (const TensorMode::Part& part : mode.parts) is_mapped[static_cast<size_t>(part.dimension)] = true;
    if (auto known = start(d); known && known->value % static_cast<uint64_t>(mode.step) != 0)
      throw Error(fmt::format("{}: dimension {} begins at {}, but must begin at a multiple of its tile, {}",
                              operation, d, known->value, mode.step));
  }
  for (size_t d = 0; d < slices.size(); ++d)
    if (auto known = start(d); !is_mapped[d] && known && known->value != 0)
      throw Error(fmt::format("{}: dimension {} begins at {}, but must begin at 0, since the copy drops it",
                              operation, d, known->value));
}

// Returns the starts of slices along the dimensions of the tensor map, innermost first. In a tiled dimension,
// the outermost part counts tiles from the slice's start, and the inner parts begin at 0.
std::vector<u32> coordinates(const TensorCopy& copy, const std::vector<Slice>& slices) {
  const std::vector<TensorMode>& modes = copy.map_modes();
  std::vector<u32> result;
  for (size_t m = modes.size(); m-- > 0;) {
    const TensorMode& mode = modes[m];
    const u32 start = slices[static_cast<size_t>(mode.dimension)].start;
    bool outermost = true;
    for (const TensorMode& other : modes)
      outermost = outermost && (other.dimension != mode.dimension || other.step <= mode.step);
    u32 first = 0;
    for (const TensorMode::Part& part : mode.parts)
      first = first + slices[static_cast<size_t>(part.dimension)].start * static_cast<uint32_t>(part.steps);
    if (mode.parts.empty() && outermost)
      first = mode.step == 1 ? start : start / static_cast<uint32_t>(mode.step);
    result.push_back(first);
  }
  return result;
}

// Throws Error unless the view holds the copy's elements contiguously.
void check_view(const TensorCopy& copy, const TileView& view, std::string_view operation) {
  const std::vector<int64_t>& extents = copy.extents();
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < extents.size(); ++d) rows *= extents[d];
  const SharedTile& tile = view.tile();
  if (copy.dtype() != tile.dtype() || rows != view.row_count() || extents.back() != tile.cols())
    throw Error(fmt::format("{}: {} was used with a view of {} x {} of {}; it needs {} x {} {}", operation,
                            copy.describe(), view.row_count(), tile.cols(),
                            with_article(view.whole().describe()), rows, extents.back(), name(copy.dtype())));
  if (tile.panels() > 1 && view.row_count() != tile.rows())
    throw Error(fmt::format(
        "{}: the view has {} of the {} rows of {}, so its panels are not contiguous, but {} "
        "needs contiguous elements",
        operation, view.row_count(), tile.rows(), with_article(view.whole().describe()), copy.describe()));
  // The swizzle's pattern begins at address 0, and a tile with that swizzle begins where the pattern does.
  const int pattern = 8 * span_bytes(copy.swizzle());
  if (pattern == 0 || tile.swizzle() == copy.swizzle()) return;
  if (tile.offset() % static_cast<uint32_t>(pattern) != 0 || view.whole().stage_bytes() % pattern != 0 ||
      view.first_row() != 0 || view.first_col() != 0)
    throw Error(
        fmt::format("{}: the view of {} must begin at a multiple of {} B, like the pattern of the {} B "
                    "swizzle; make the tile with that swizzle",
                    operation, with_article(view.whole().describe()), pattern, span_bytes(copy.swizzle())));
}

// Returns the record of a copy from or to a view, without device values.
CopyRecord plan(const TensorCopy& copy, bool is_store, TensorMap map, const TileView& view,
                const MulticastGroups& groups) {
  Builder& builder = Builder::current();
  CopyRecord record;
  record.is_store = is_store;
  record.view = detail::record_view(detail::TileContext::of(builder).record, view);
  record.map = builder.signature().parameters[builder.parameter_index(map)].name;
  record.recipe = copy.recipe();
  record.boxes = copy.boxes();
  record.groups = groups;
  const size_t last = copy.extents().size() - 1;
  // The distance in the view, in rows, between consecutive indices of each dimension.
  std::vector<int64_t> rows(last + 1, 1);
  for (size_t d = last; d-- > 1;) rows[d - 1] = rows[d] * copy.extents()[d];
  for (size_t m = copy.map_modes().size(); m-- > 0;) {
    const TensorMode& mode = copy.map_modes()[m];
    const auto d = static_cast<size_t>(mode.dimension);
    record.steps.push_back(d == last ? CopyRecord::Step{0, static_cast<int>(mode.step)}
                                     : CopyRecord::Step{static_cast<int>(mode.step * rows[d]), 0});
  }
  return record;
}

void store_boxes(std::optional<CopyReduction> reduction, const TensorCopy& copy, TensorMap to,
                 const std::vector<Slice>& slices, smem from, const std::optional<u64>& policy,
                 const std::optional<pred>& condition) {
  const std::string_view operation = reduction ? "tma_reduce" : "tma_store";
  check_slices(copy, slices, operation);
  detail::bind_tensor_map(to, copy.recipe(), std::nullopt, copy.describe(), operation);
  const isa::Row& row = detail::tensor_store_row(copy.map_rank(), reduction, policy.has_value());
  detail::each_box(copy.boxes(), 0, from, coordinates(copy, slices),
                   [&](smem address, const std::vector<Argument>& at) {
                     std::vector<Argument> arguments = {to};
                     arguments.insert(arguments.end(), at.begin(), at.end());
                     arguments.emplace_back(address);
                     if (policy) arguments.emplace_back(*policy);
                     Builder::current().emit(row, arguments, condition);
                   });
}

// Loads the boxes that this CTA fetches; `member` is empty if the CTA fetches all of them.
void load_boxes(const TensorCopy& copy, const std::optional<detail::GroupMember>& member, smem to,
                TensorMap from, const std::vector<Slice>& slices, smem barrier,
                const std::optional<u64>& policy, const std::optional<pred>& condition) {
  const isa::Row& row =
      isa::cp_async_bulk_tensor_load({copy.map_rank(), member.has_value(), policy.has_value()});
  detail::each_box(copy.boxes(), member ? member->place : 0, to, coordinates(copy, slices),
                   [&](smem address, const std::vector<Argument>& at) {
                     std::vector<Argument> arguments = {address, from};
                     arguments.insert(arguments.end(), at.begin(), at.end());
                     arguments.emplace_back(barrier);
                     if (member) arguments.emplace_back(member->mask);
                     if (policy) arguments.emplace_back(*policy);
                     Builder::current().emit(row, arguments, condition);
                   });
}

void store_view(std::optional<CopyReduction> reduction, const TensorCopy& copy, TensorMap to,
                const std::vector<Slice>& slices, const CopyView& from) {
  const std::string_view operation = reduction ? "tma_reduce" : "tma_store";
  detail::check_upright(from.place(), operation);
  check_view(copy, from.place(), operation);
  if (reduction) detail::check_reduction(*reduction, copy.dtype(), operation);
  store_boxes(reduction, copy, to, slices, from.place().address(), detail::cache_policy(from.eviction()),
              from.condition());
  detail::TileContext::of(Builder::current()).record.copies.push_back(plan(copy, true, to, from.place(), {}));
}

}  // namespace

SharedSlice shared_slice(DType type, const ComposedLayout& memory, smem start, Slice rows, Slice cols,
                         Where where) {
  AtLine line(where);
  const int64_t extents[] = {size(memory.shape()[0]), size(memory.shape()[1])};
  const Slice slices[] = {rows, cols};
  for (size_t i : {0, 1}) {
    const int64_t length = slices[i].length;
    if (length < 1 || extents[i] % length != 0)
      throw Error(
          fmt::format("shared_slice: the length is {}, but must divide the extent {} along dimension {}",
                      length, extents[i], i));
    auto known = Builder::current().constant(slices[i].start);
    if (known && (known->value % static_cast<uint64_t>(length) != 0 ||
                  known->value >= static_cast<uint64_t>(extents[i])))
      throw Error(
          fmt::format("shared_slice: the slice of {} begins at {} of {} along dimension {}, but must begin "
                      "at a multiple of the length, within the tile",
                      length, known->value, extents[i], i));
  }
  // The layout has the modes ((row and column within a part), (row and column of the part)).
  Layout parts = zipped_divide(memory.layout(), {rows.length, cols.length});
  const XorSwizzle& swizzle = memory.swizzle();
  const int64_t pattern =
      swizzle.bits() == 0 ? 1 : int64_t{1} << (swizzle.base() + swizzle.shift() + swizzle.bits());
  for (int64_t part = 0; part < size(parts[1]); ++part)
    if (parts[1](part) % pattern != 0)
      throw Error(
          fmt::format("shared_slice: parts of {}x{} in {} must begin at the start of the swizzle's pattern, "
                      "but part {} begins {} B into a pattern of {} B",
                      rows.length, cols.length, to_string(memory), part,
                      parts[1](part) % pattern * size_of(type), pattern * size_of(type)));
  auto number = [](Slice s) { return Index(s.start / static_cast<uint32_t>(s.length)); };
  Index offset = to_device(parts[1])({number(rows), number(cols)});
  smem address = start + LayoutInteger<Index>::multiply(offset, Index(size_of(type))).value();
  return {address, memory.with(parts[0])};
}

SharedSlice shared_slice(const TileView& tile, Slice rows, Slice cols, Where where) {
  AtLine line(where);
  SharedSlice slice = shared_slice(tile.tile().dtype(), tile.layout(), tile.address(), rows, cols);
  if (tile.filling()) slice.filling = tile;
  ViewRecord view = detail::record_view(detail::TileContext::of(Builder::current()).record, tile);
  auto narrow = [&](std::optional<int>& first, int& count, int& step, Slice by) {
    auto known = Builder::current().constant(by.start);
    if (known && first) {
      *first += static_cast<int>(known->value);
    } else {
      first.reset();
      step = static_cast<int>(by.length);
    }
    count = static_cast<int>(by.length);
  };
  narrow(view.first_row, view.rows, view.row_step, rows);
  narrow(view.first_col, view.cols, view.col_step, cols);
  // Two nested views with arbitrary starts have no common alignment, so only slices of a view that begins at
  // the tile's first element are recorded.
  if (tile.first_row() == 0 && tile.first_col() == 0 && !tile.is_transposed()) slice.view = view;
  return slice;
}

void tma_load(const TensorCopy& whole, const LoadView& to, TensorMap from, const std::vector<Slice>& slices,
              Where where) {
  AtLine line(where);
  check_view(whole, to.place(), "tma_load");
  check_slices(whole, slices, "tma_load");
  detail::begin_load(to, "tma_load");
  const MulticastGroups groups = detail::multicast_groups(to.multicast_axes());
  std::optional<detail::GroupMember> member;
  if (groups.count() > 1) member = detail::group_member(groups);
  const TensorCopy copy = whole.divided(groups.count());
  const std::optional<u64> policy = detail::cache_policy(to.eviction());
  detail::bind_tensor_map(from, copy.recipe(), to.fill(), copy.describe(), "tma_load");
  load_boxes(copy, member, to.place().address(), from, slices, *to.barrier(), policy, to.condition());
  detail::TileContext::of(Builder::current())
      .record.copies.push_back(plan(copy, false, from, to.place(), groups));
}

void tma_store(const TensorCopy& copy, TensorMap to, const std::vector<Slice>& slices, const CopyView& from,
               Where where) {
  AtLine line(where);
  store_view(std::nullopt, copy, to, slices, from);
}

void tma_reduce(CopyReduction reduction, const TensorCopy& copy, TensorMap to,
                const std::vector<Slice>& slices, const CopyView& from, Where where) {
  AtLine line(where);
  store_view(reduction, copy, to, slices, from);
}

void tma_load(const TensorCopy& copy, smem to, TensorMap from, const std::vector<Slice>& slices, smem barrier,
              std::optional<pred> condition, Where where) {
  AtLine line(where);
  check_slices(copy, slices, "tma_load");
  detail::bind_tensor_map(from, copy.recipe(), OobFill::zero, copy.describe(), "tma_load");
  load_boxes(copy, std::nullopt, to, from, slices, barrier, std::nullopt, condition);
}

void tma_store(const TensorCopy& copy, TensorMap to, const std::vector<Slice>& slices, smem from,
               std::optional<pred> condition, Where where) {
  AtLine line(where);
  store_boxes(std::nullopt, copy, to, slices, from, std::nullopt, condition);
}

}  // namespace ptxbuilder
