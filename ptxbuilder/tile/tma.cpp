#include "ptxbuilder/tile/tma.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ptxbuilder/article.h"
#include "ptxbuilder/ir/cluster_value.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder::detail {
namespace {

constexpr int kSharedAlignment =
    128;  // alignment of a box in shared memory (CUDA programming guide, tensor map swizzle)

// The extents of a box: the columns of a panel, and the rows that one of the CTAs sharing a load fetches.
// Folded rows continue along one more dimension.
struct BoxExtents {
  int cols, rows, outer_rows = 1;
};

// The arrangement of a view's rows in the tensor. The rows run along one dimension, are folded along two
// dimensions with `inner` rows along the first, or are pixels.
struct RowsOfView {
  int inner = 0;
  bool pixels = false;
};

// Returns the end of an error message, which tells the author how to make the boxes of a tile small enough
// along a dimension.
std::string smaller_boxes(const SharedTile& tile, int dimension, int extent) {
  if (dimension > 0)
    return fmt::format("; or copy fewer of its {} rows at a time: tile[s].rows(first, count)", extent);
  const int bytes = size_of(tile.dtype());
  for (int panel = hopper::box_extent; panel > 0; --panel)
    if (tile.cols() % panel == 0 && panel * bytes % 16 == 0 &&
        panel * bytes * tile.rows() % kSharedAlignment == 0)
      return fmt::format(
          "; or declare it in panels, such as k.shared<...>({{.rows = {}, .cols = {}, .panel_cols = {}}})",
          tile.rows(), tile.cols(), panel);
  return "";
}

// Returns the largest number of columns or rows that a box may have. If `extent` does not fit into one box,
// the result is a multiple of `unit` that divides `extent`.
int box_extent(int extent, int dimension, int unit, const SharedTile& tile, std::string_view operation) {
  if (extent <= hopper::box_extent) return extent;
  if (extent % unit != 0)
    throw Error(
        fmt::format("{}: box extent {} along dimension {} exceeds {} for {}; a multiple of {} is copied in "
                    "several boxes{}",
                    operation, extent, dimension, hopper::box_extent, with_article(tile.describe()), unit,
                    smaller_boxes(tile, dimension, extent)));
  int most = hopper::box_extent / unit * unit;
  while (extent % most != 0) most -= unit;
  return most;
}

// Returns the extents of a box that holds `rows` folded rows.
BoxExtents folded(int rows, int inner, int cols, const SharedTile& tile, std::string_view operation) {
  const BoxExtents box = rows >= inner ? BoxExtents{cols, inner, rows / inner} : BoxExtents{cols, rows};
  if (inner < 1 || (rows % inner != 0 && inner % rows != 0))
    throw Error(
        fmt::format("{}: the view folds {} rows along the inner dimension, and a part has {} rows of {}, but "
                    "one number must divide the other",
                    operation, inner, rows, with_article(tile.describe())));
  if (std::max({box.cols, box.rows, box.outer_rows}) > hopper::box_extent || cols != tile.panel_cols())
    throw Error(fmt::format(
        "{}: folded rows need a box of {} x {} x {} for {}, but each extent must be at most {}", operation,
        cols, box.rows, box.outer_rows, with_article(tile.describe()), hopper::box_extent));
  return box;
}

// Returns the extents of the boxes of a view that `parts` CTAs copy in equal parts.
BoxExtents box_extents(const TileView& view, int parts, RowsOfView of, std::string_view operation) {
  const SharedTile& tile = view.tile();
  const int rows = view.row_count() / parts;
  if (tile.panel_row_bytes() % 16 != 0)
    throw Error(
        fmt::format("{}: {} has rows of {} B, which only threads can copy; TMA needs multiples of 16 B",
                    operation, with_article(tile.describe()), tile.panel_row_bytes()));
  const int cols =
      box_extent(tile.panel_cols(), 0, kSharedAlignment / size_of(tile.dtype()), tile, operation);
  if (of.inner != 0) return folded(rows, of.inner, cols, tile, operation);
  if (of.pixels) {
    if (cols != tile.panel_cols() || rows > hopper::im2col_pixels)
      throw Error(fmt::format(
          "{}: {} pixels of {} channels were requested for {}, but one copy has at most {} of {}", operation,
          rows, tile.panel_cols(), with_article(tile.describe()), hopper::im2col_pixels, hopper::box_extent));
    return {cols, rows};
  }
  // A box has no gaps, so if a row needs several boxes, each of them contains only this row. Boxes of 8 rows
  // are aligned, because a row has at least 16 bytes.
  return {cols, cols == tile.panel_cols() ? box_extent(rows, 1, 8, tile, operation) : 1};
}

// Returns the boxes of a view: one for each panel, or more if a box would be too large. Each of `parts` CTAs
// fetches an equal number of rows of each panel. A part may begin inside a swizzle's pattern, because the
// pattern depends on addresses rather than on boxes.
TmaBoxes boxes_of(const TileView& view, int rank, int parts, RowsOfView of, std::string_view operation) {
  const SharedTile& tile = view.tile();
  const int all = view.row_count(), rows = all / parts, row_bytes = tile.panel_row_bytes();
  TmaBoxes boxes;
  boxes.rank = rank;
  boxes.parts = parts;
  if (rank < 1 || rank > 5)
    throw Error(fmt::format("{}: a tensor must have 1 to 5 coordinates, not {}", operation, rank));
  if (parts > 1 && rank < 2)
    throw Error(
        fmt::format("{}: multicast divides the rows; give the coordinate of the rows too", operation));
  if (parts > 1 && (all % parts != 0 || rows * row_bytes % kSharedAlignment != 0))
    throw Error(
        fmt::format("{}: {} rows of {} B cannot be divided among {} CTAs: each must fetch an equal number of "
                    "rows, a multiple of {} B",
                    operation, all, row_bytes, parts, kSharedAlignment));
  if (rank == 1 && rows != 1)
    throw Error(fmt::format("{}: one coordinate was given for a tile of {} rows; give one for the rows too",
                            operation, rows));
  if (of.inner != 0 && rank < 3)
    throw Error(
        fmt::format("{}: folded rows need at least 3 coordinates, not {}; they run along the two dimensions "
                    "after the innermost",
                    operation, rank));
  if (of.pixels && rank < 3)
    throw Error(fmt::format("{}: pixels need 3 to 5 coordinates, not {}", operation, rank));
  if (of.pixels && parts > 1)
    throw Error(
        fmt::format("{}: {} CTAs share the pixels, but each CTA must load its own: do not use multicast",
                    operation, parts));
  const BoxExtents box = box_extents(view, parts, of, operation);
  auto divide = [&](int extent, int dimension, int into, int bytes) {
    if (extent != into) boxes.digits.push_back({extent / into, dimension, into, into * bytes});
  };
  if (tile.panels() > 1 && tile.panel_bytes() % kSharedAlignment != 0)
    throw Error(
        fmt::format("{}: {} has panels of {} B, but TMA needs each to begin at a multiple of {} B: use more "
                    "rows, a swizzle as wide as a row, or no swizzle",
                    operation, with_article(tile.describe()), tile.panel_bytes(), kSharedAlignment));
  divide(tile.panel_cols(), 0, box.cols, size_of(tile.dtype()));
  boxes.digits.push_back({tile.panels(), 0, tile.panel_cols(), tile.panel_bytes()});
  if (of.inner == 0) {
    divide(rows, 1, box.rows, row_bytes);
    divide(all, 1, rows, row_bytes);
    return boxes;
  }
  divide(of.inner, 1, box.rows, row_bytes);
  if (all != of.inner * box.outer_rows)
    boxes.digits.push_back(
        {all / (of.inner * box.outer_rows), 2, box.outer_rows, of.inner * box.outer_rows * row_bytes});
  return boxes;
}

// Throws Error if CTAs of a group are known on the host to use different coordinates for the block that they
// share.
void check_multicast(const MulticastGroups& groups, const std::vector<u32>& coordinates,
                     std::string_view operation) {
  for (size_t axis = 0; axis < groups.axes.size(); ++axis)
    for (size_t i = 0; i < coordinates.size() && groups.axes[axis] && groups.extents[axis] > 1; ++i)
      if (differs_along(coordinates[i], axis, groups.extents))
        throw Error(
            fmt::format("{}: with multicast along {} of the cluster, each CTA fetches its part of one block "
                        "for all CTAs, but coordinate {} differs between them; use the same block in all of "
                        "them, or load it without multicast",
                        operation, "xyz"[axis], i));
}

// Returns the tensor map's recipe for a view that is loaded in `parts` parts.
TensorMapRecipe recipe(const TileView& view, int rank, int parts, RowsOfView of, std::string_view operation) {
  const BoxExtents box = box_extents(view, parts, of, operation);
  TensorMapRecipe r;
  r.dtype = view.tile().dtype();
  r.swizzle = view.tile().swizzle();
  r.box.assign(static_cast<size_t>(rank), 1);
  r.box[0] = static_cast<uint32_t>(box.cols);
  const auto rows = static_cast<uint32_t>(box.rows);
  if (of.pixels)
    r.pixels = rows;
  else if (rank > 1)
    r.box[1] = rows;
  if (of.inner != 0) r.box[2] = static_cast<uint32_t>(box.outer_rows);
  r.element_strides.assign(static_cast<size_t>(rank), 1);
  return r;
}

// Returns the record of a copy from or to a view, without device values, and binds the tensor map to the
// copy.
CopyRecord plan(bool is_store, TensorMap map, const TileView& view, const MulticastGroups& groups,
                const std::vector<u32>& coordinates, std::optional<OobFill> fill, RowsOfView of,
                std::string_view operation) {
  Builder& builder = Builder::current();
  const int rank = static_cast<int>(coordinates.size());
  CopyRecord record;
  record.is_store = is_store;
  record.boxes = boxes_of(view, rank, groups.count(), of, operation);
  record.groups = groups;
  bind_tensor_map(map, recipe(view, rank, groups.count(), of, operation), fill,
                  with_article(view.tile().describe()), operation);
  check_innermost(coordinates[0], view.tile().dtype(), operation);
  const Parameter& parameter =
      builder.signature().parameters[builder.parameter_index(choices_of(map).front())];
  record.view = record_view(TileContext::of(builder).record, view);
  record.map = parameter.name;
  record.recipe = parameter.tensor_map;
  // The pixels form one dimension of the recorded box.
  if (of.pixels) record.recipe.box[1] = record.recipe.pixels;
  record.steps.resize(static_cast<size_t>(rank));
  record.steps[0].cols = 1;
  if (rank > 1) record.steps[1].rows = 1;
  if (of.inner != 0) record.steps[2].rows = of.inner;
  return record;
}

}  // namespace

void check_upright(const TileView& place, std::string_view operation) {
  if (place.is_transposed())
    throw Error(
        fmt::format("{}: the view of {} is transposed, but a copy cannot exchange rows and columns; pass the "
                    "view that is not transposed",
                    operation, with_article(place.whole().describe())));
}

void begin_load(const LoadView& to, std::string_view operation) {
  const TileView& place = to.place();
  check_upright(place, operation);
  if (!to.barrier())
    throw Error(fmt::format(
        "{}: the view has no barrier to complete on: take it from a pipeline's stage, or add .on(barrier)",
        operation));
  if (place.stage_barrier() && !place.filling())
    throw Error(fmt::format(
        "{}: this is a consumer's stage; loads must go into a producer's stage, which acquire() returns",
        operation));
  if (place.filling()) place.filling()->load(to);
  if (!to.expects()) return;
  const auto bytes = static_cast<uint32_t>(place.bytes());
  if (to.condition())
    mbarrier_arrive_expect_tx.when (*to.condition())(*to.barrier(), bytes);
  else
    mbarrier_arrive_expect_tx(*to.barrier(), bytes);
}

std::optional<u64> cache_policy(const std::optional<Eviction>& eviction) {
  if (!eviction) return std::nullopt;
  return u64(Builder::current().emit(isa::createpolicy_evict(*eviction), {}, std::nullopt)[0].handle());
}

void check_reduction(CopyReduction reduction, DType type, std::string_view operation) {
  const std::vector<DType> types = isa::types_of(reduction);
  if (std::find(types.begin(), types.end(), type) != types.end()) return;
  std::vector<std::string_view> has, takes;
  for (DType t : types) takes.push_back(name(t));
  for (CopyReduction other : isa::kCopyReductions) {
    const std::vector<DType> others = isa::types_of(other);
    if (std::find(others.begin(), others.end(), type) != others.end()) has.push_back(isa::name(other));
  }
  throw Error(fmt::format("{}: {} is not possible for {}; {} has {}, and {} takes {}", operation,
                          isa::name(reduction), name(type), name(type),
                          has.empty() ? "none" : fmt::format("{}", fmt::join(has, ", ")),
                          isa::name(reduction), fmt::join(takes, ", ")));
}

void check_innermost(u32 coordinate, DType type, std::string_view operation) {
  auto known = Builder::current().constant(coordinate);
  if (!known) return;
  const auto element = static_cast<int32_t>(known->value);
  if (int64_t bytes = int64_t{element} * size_of(type); bytes % 16 != 0)
    throw Error(
        fmt::format("{}: the box begins at element {} of the innermost dimension, {} B from its start, but "
                    "TMA needs multiples of 16 B",
                    operation, element, bytes));
}

ViewRecord record_view(KernelRecord& record, const TileView& view) {
  const SharedTile& tile = view.whole();
  const int number = record.number({tile.describe(), tile.dtype(), tile.rows(), tile.cols(), tile.offset(),
                                    tile.stage_bytes(), tile.stages(), tile.panel_row_bytes(),
                                    tile.panel_bytes(), tile.panel_cols()});
  return {number, view.first_row(), view.first_col(), view.row_count(), view.tile().cols()};
}

namespace {

void bind_one(TensorMap map, TensorMapRecipe wanted, std::optional<OobFill> fill, const std::string& copy,
              std::string_view operation) {
  Builder& builder = Builder::current();
  const size_t index = builder.parameter_index(map);
  Parameter& parameter = builder.signature().parameters[index];
  std::map<size_t, OobFill>& fills = TileContext::of(builder).fills;
  if (fill == OobFill::nan && !tma_fills_nan(wanted.dtype))
    throw Error(fmt::format(
        "{}: NaN cannot be filled in outside of {}; TMA supports it for f16, bf16, tf32, f32 and f64",
        operation, name(wanted.dtype)));
  if (fill) {
    const auto [first, is_new] = fills.try_emplace(index, *fill);
    if (!is_new && first->second != *fill)
      throw Error(
          fmt::format("{}: the tensor map '{}' already serves loads that find {} outside the tensor, not {}: "
                      "declare a second map",
                      operation, parameter.name, name(first->second), name(*fill)));
    parameter.tensor_map.oob_fill = *fill;
  }
  wanted.oob_fill = parameter.tensor_map.oob_fill;
  wanted.l2_promotion = parameter.tensor_map.l2_promotion;
  if (parameter.tensor_map.interleave != Interleave::none)
    throw Error(
        fmt::format("{}: the tensor map '{}' is encoded with interleave {}, but tiles are not interleaved: "
                    "declare a second map",
                    operation, parameter.name, name(parameter.tensor_map.interleave)));
  if (!parameter.tensor_map.box.empty() && !(parameter.tensor_map == wanted))
    throw Error(fmt::format(
        "{}: the tensor map '{}' already serves copies with a box of {} {} elements and {} B swizzle; {} "
        "needs {} and {}: declare a second map",
        operation, parameter.name, fmt::join(parameter.tensor_map.box, "x"), name(parameter.tensor_map.dtype),
        name(parameter.tensor_map.swizzle), copy, fmt::join(wanted.box, "x"), name(wanted.swizzle)));
  parameter.dtype = wanted.dtype;
  parameter.tensor_map = std::move(wanted);
}

}  // namespace

void bind_tensor_map(TensorMap map, TensorMapRecipe wanted, std::optional<OobFill> fill,
                     const std::string& copy, std::string_view operation) {
  for (const TensorMap& one : choices_of(map)) bind_one(one, wanted, fill, copy, operation);
}

void each_box(const TmaBoxes& boxes, const Index& part, smem start, const std::vector<u32>& coordinates,
              const std::function<void(smem, const std::vector<Argument>&)>& copy) {
  for (int i = 0; i < boxes.boxes_of_part(); ++i) {
    const auto box = boxes.box(part, i);
    std::vector<Argument> at;
    for (size_t d = 0; d < coordinates.size(); ++d) at.emplace_back(coordinates[d] + box.start[d].value());
    copy(start + box.bytes.value(), at);
  }
}

void emit_load(const Destination& to, TensorMap from, const std::vector<u32>& coordinates, int inner_rows,
               const std::vector<u32>& offsets) {
  AtLine line(to.where);
  Builder& builder = Builder::current(to.where);
  begin_load(to.view, "tma_load");
  const std::optional<u64> policy = cache_policy(to.view.eviction());
  const TileView& place = to.view.place();
  CopyRecord record = plan(false, from, place, multicast_groups(to.view.multicast_axes()), coordinates,
                           to.view.fill(), {inner_rows, !offsets.empty()}, "tma_load");
  if (!offsets.empty() && offsets.size() + 2 != coordinates.size())
    throw Error(
        fmt::format("tma_load: {} offsets of pixels were given for {} coordinates, but there must be one for "
                    "each dimension between the channels and the images",
                    offsets.size(), coordinates.size()));
  check_multicast(record.groups, coordinates, "tma_load");
  std::optional<GroupMember> member;
  if (record.groups.count() > 1) member = group_member(record.groups);
  const int rank = static_cast<int>(coordinates.size());
  const isa::Row& row = offsets.empty()
                            ? isa::cp_async_bulk_tensor_load({rank, member.has_value(), policy.has_value()})
                            : isa::cp_async_bulk_tensor_im2col_load({rank, policy.has_value()});
  each_box(record.boxes, member ? member->place : 0, place.address(), coordinates,
           [&](smem address, const std::vector<Argument>& at) {
             std::vector<Argument> arguments = {address, from};
             arguments.insert(arguments.end(), at.begin(), at.end());
             arguments.emplace_back(*to.view.barrier());
             for (const u32& offset : offsets) arguments.emplace_back(u16(offset));
             if (member) arguments.emplace_back(member->mask);
             if (policy) arguments.emplace_back(*policy);
             builder.emit(row, arguments, to.view.condition());
           });
  TileContext::of(builder).record.copies.push_back(std::move(record));
}

void emit_prefetch(const Destination& to, TensorMap from, const std::vector<u32>& coordinates) {
  AtLine line(to.where);
  Builder& builder = Builder::current(to.where);
  const TileView& place = to.view.place();
  check_upright(place, "tma_prefetch");
  if (to.view.own_barrier() || to.view.eviction() || to.view.fill() != OobFill::zero)
    throw Error(
        "tma_prefetch: the view has a barrier, an L2 hint or a fill value, but these are options of loads; a "
        "prefetch does not complete on a barrier or write to the view");
  const CopyRecord prefetched = plan(false, from, place, multicast_groups(to.view.multicast_axes()),
                                     coordinates, std::nullopt, {}, "tma_prefetch");
  check_multicast(prefetched.groups, coordinates, "tma_prefetch");
  Index part = 0;
  if (prefetched.groups.count() > 1) part = group_member(prefetched.groups).place;
  const isa::Row& row = isa::cp_async_bulk_tensor_prefetch({static_cast<int>(coordinates.size())});
  each_box(prefetched.boxes, part, place.address(), coordinates, [&](smem, const std::vector<Argument>& at) {
    std::vector<Argument> arguments = {from};
    arguments.insert(arguments.end(), at.begin(), at.end());
    builder.emit(row, arguments, to.view.condition());
  });
}

const isa::Row& tensor_store_row(int rank, std::optional<CopyReduction> reduction, bool cache_hint) {
  if (reduction) return isa::cp_reduce_async_bulk_tensor({rank, *reduction, cache_hint});
  return isa::cp_async_bulk_tensor_store({rank, cache_hint});
}

CopyRecord tma_store(const MapArgument& to, std::optional<CopyReduction> reduction, const CopyView& view,
                     const std::vector<u32>& coordinates, int inner_rows) {
  AtLine line(to.where);
  const std::string_view operation = reduction ? "tma_reduce" : "tma_store";
  const TileView& from = view.place();
  check_upright(from, operation);
  if (reduction) check_reduction(*reduction, from.tile().dtype(), operation);
  CopyRecord record = plan(true, to.map, from, {}, coordinates, std::nullopt, {inner_rows}, operation);
  const std::optional<u64> policy = cache_policy(view.eviction());
  const isa::Row& row = tensor_store_row(static_cast<int>(coordinates.size()), reduction, policy.has_value());
  each_box(record.boxes, 0, from.address(), coordinates, [&](smem address, const std::vector<Argument>& at) {
    std::vector<Argument> arguments = {to.map};
    arguments.insert(arguments.end(), at.begin(), at.end());
    arguments.emplace_back(address);
    if (policy) arguments.emplace_back(*policy);
    Builder::current().emit(row, arguments, view.condition());
  });
  TileContext::of(Builder::current()).record.copies.push_back(record);
  return record;
}

}  // namespace ptxbuilder::detail
