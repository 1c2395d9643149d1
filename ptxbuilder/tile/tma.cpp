#include "ptxbuilder/tile/tma.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder::detail {
namespace {

// The part of a view that this CTA fetches for its line of CTAs.
struct Part {
  TileView view;
  u32 first_row;
  u16 mask;
};

Part part_of(const LoadView& view, std::string_view operation) {
  const int count = ctas_along(view.multicast_axes()), all = view.place().row_count();
  if (all % (8 * count) != 0)
    throw Error(fmt::format("{}: {} rows for {} CTAs; each fetches a multiple of 8", operation, all, count));
  const ClusterGroup group = cluster_group(view.multicast_axes());
  const int rows = all / count;
  u32 first = group.index * rows;
  return {view.place().rows(first, rows), first, group.mask};
}

// The same for every CTA, as numbers.
void record_slices(CopyRecord& record, const TileView& view, ClusterAxes axes) {
  const int count = ctas_along(axes), rows = view.row_count() / count;
  for (int i = 0; i < count; ++i)
    record.slices.push_back({i * rows, i * rows, 0, static_cast<int>(record.boxes.size())});
  if (count > 1) record_group(record, axes);
}

TensorMapRecipe recipe(const TileView& view, int rank, std::string_view operation) {
  const SharedTile& tile = view.tile();
  if (rank < 1 || rank > 5)
    throw Error(fmt::format("{}: a tensor has 1 to 5 coordinates, not {}", operation, rank));
  if (rank == 1 && view.row_count() != 1)
    throw Error(fmt::format("{}: one coordinate for a tile of {} rows; give one for the rows too", operation,
                            view.row_count()));
  TensorMapRecipe r;
  r.dtype = tile.dtype();
  r.swizzle = tile.swizzle();
  r.box.assign(static_cast<size_t>(rank), 1);
  r.box[0] = static_cast<uint32_t>(tile.panel_cols());
  if (rank > 1) r.box[1] = static_cast<uint32_t>(view.row_count());
  r.element_strides.assign(static_cast<size_t>(rank), 1);
  for (int i = 0; i < rank; ++i)
    if (r.box[static_cast<size_t>(i)] > hopper::box_extent)
      throw Error(fmt::format("{}: box extent {} along dimension {} exceeds {}, for a {}", operation,
                              r.box[static_cast<size_t>(i)], i, hopper::box_extent, tile.describe()));
  return r;
}

// A box for each panel.
CopyRecord make_record(Builder& builder, bool is_store, TensorMap map, const TileView& view) {
  const SharedTile& tile = view.tile();
  const Parameter& parameter = builder.signature().parameters[builder.parameter_index(map)];
  CopyRecord record;
  record.is_store = is_store;
  record.view = record_view(TileContext::of(builder).record, view);
  record.map = parameter.name;
  record.recipe = parameter.tensor_map;
  for (int panel = 0; panel < tile.panels(); ++panel)
    record.boxes.push_back({tile.linear_offset(0, panel * tile.panel_cols()), 0, panel * tile.panel_cols()});
  record.steps.resize(record.recipe.box.size());
  record.steps[0].cols = 1;
  if (record.steps.size() > 1) record.steps[1].rows = 1;
  return record;
}

// Calls copy(address, coordinates) for each box of a view.
void each_box(const CopyRecord& record, const TileView& view, std::vector<u32> coordinates,
              const std::function<void(smem, const std::vector<u32>&)>& copy) {
  u32 first = coordinates[0];
  for (const CopyRecord::Box& box : record.boxes) {
    coordinates[0] = first + box.cols;
    copy(view.address() + box.bytes, coordinates);
  }
}

// What this CTA fetches of a box, and from where.
struct Fetch {
  Fetch(const Destination& to, TensorMap from, const std::vector<u32>& coordinates,
        std::optional<OobFill> fill, std::string_view operation)
      : view(to.view.place()), start(coordinates) {
    const int rank = static_cast<int>(coordinates.size());
    if (ctas_along(to.view.multicast_axes()) > 1) {
      if (rank < 2)
        throw Error(
            fmt::format("{}: multicast divides rows; give the coordinate of the rows too", operation));
      part = part_of(to.view, operation);
      view = part->view;
      start[1] = start[1] + part->first_row;
    }
    bind_tensor_map(from, recipe(view, rank, operation), fill, "a " + view.tile().describe(), operation);
    check_innermost(coordinates[0], view.tile().dtype(), operation);
  }

  std::optional<Part> part;
  TileView view;
  std::vector<u32> start;
};

void append_coordinates(std::vector<Argument>& arguments, const std::vector<u32>& coordinates) {
  for (u32 c : coordinates) arguments.emplace_back(c);
}

}  // namespace

void check_upright(const TileView& place, std::string_view operation) {
  if (place.is_transposed())
    throw Error(
        fmt::format("{}: a transposed view of a {}: a copy exchanges no rows and columns; give it "
                    "the view that is not transposed",
                    operation, place.whole().describe()));
}

void begin_load(const LoadView& to, std::string_view operation) {
  const TileView& place = to.place();
  check_upright(place, operation);
  if (!to.barrier())
    throw Error(
        fmt::format("{}: the view has no barrier to complete on: take it from a pipeline's stage, or "
                    "add .on(barrier)",
                    operation));
  if (place.stage_barrier() && !place.on_load())
    throw Error(
        fmt::format("{}: into a consumer's stage; loads go into a producer's, from acquire()", operation));
  if (place.on_load()) (*place.on_load())(to);
  if (!to.expects()) return;
  const auto bytes = static_cast<uint32_t>(place.bytes());
  if (to.condition())
    mbarrier_arrive_expect_tx.when (*to.condition())(*to.barrier(), bytes);
  else
    mbarrier_arrive_expect_tx(*to.barrier(), bytes);
}

std::optional<u64> cache_policy(const std::optional<Eviction>& eviction) {
  if (!eviction) return std::nullopt;
  switch (*eviction) {
    case Eviction::first:
      return createpolicy_evict_first();
    case Eviction::last:
      return createpolicy_evict_last();
    default:
      return createpolicy_evict_normal();
  }
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
  throw Error(fmt::format("{}: {} of {}; {} has {}, and {} takes {}", operation, isa::name(reduction),
                          name(type), name(type),
                          has.empty() ? "none" : fmt::format("{}", fmt::join(has, ", ")),
                          isa::name(reduction), fmt::join(takes, ", ")));
}

void check_innermost(u32 coordinate, DType type, std::string_view operation) {
  auto known = Builder::current().constant(coordinate);
  if (!known) return;
  const auto element = static_cast<int32_t>(known->value);
  if (int64_t bytes = int64_t{element} * size_of(type); bytes % 16 != 0)
    throw Error(
        fmt::format("{}: the box begins at element {} of the innermost dimension, {} B from its "
                    "start; TMA takes multiples of 16 B",
                    operation, element, bytes));
}

ViewRecord record_view(KernelRecord& record, const TileView& view) {
  const SharedTile& tile = view.whole();
  const int number = record.number({tile.describe(), tile.dtype(), tile.rows(), tile.cols(), tile.offset(),
                                    tile.stage_bytes(), tile.stages(), tile.panel_row_bytes(),
                                    tile.panel_bytes(), tile.panel_cols()});
  return {number, view.first_row(), view.first_col(), view.row_count(), view.tile().cols()};
}

void bind_tensor_map(TensorMap map, TensorMapRecipe wanted, std::optional<OobFill> fill,
                     const std::string& copy, std::string_view operation) {
  Builder& builder = Builder::current();
  const size_t index = builder.parameter_index(map);
  Parameter& parameter = builder.signature().parameters[index];
  std::map<size_t, OobFill>& fills = TileContext::of(builder).fills;
  if (fill == OobFill::nan && !tma_fills_nan(wanted.dtype))
    throw Error(fmt::format("{}: NaN outside of {}; TMA has it for f16, bf16, tf32, f32 and f64", operation,
                            name(wanted.dtype)));
  if (fill) {
    const auto [first, is_new] = fills.try_emplace(index, *fill);
    if (!is_new && first->second != *fill)
      throw Error(
          fmt::format("{}: the tensor map '{}' already serves loads that find {} outside the "
                      "tensor, not {}: declare a second map",
                      operation, parameter.name, name(first->second), name(*fill)));
    parameter.tensor_map.oob_fill = *fill;
  }
  wanted.oob_fill = parameter.tensor_map.oob_fill;
  wanted.l2_promotion = parameter.tensor_map.l2_promotion;
  if (parameter.tensor_map.interleave != Interleave::none)
    throw Error(
        fmt::format("{}: the tensor map '{}' is encoded with interleave {}, and tiles have none: "
                    "declare a second map",
                    operation, parameter.name, name(parameter.tensor_map.interleave)));
  if (!parameter.tensor_map.box.empty() && !(parameter.tensor_map == wanted))
    throw Error(fmt::format(
        "{}: the tensor map '{}' already serves copies with a box of {} {} elements and {} B "
        "swizzle; {} needs {} and {}: declare a second map",
        operation, parameter.name, fmt::join(parameter.tensor_map.box, "x"), name(parameter.tensor_map.dtype),
        name(parameter.tensor_map.swizzle), copy, fmt::join(wanted.box, "x"), name(wanted.swizzle)));
  parameter.dtype = wanted.dtype;
  parameter.tensor_map = std::move(wanted);
}

void emit_load(const Destination& to, TensorMap from, const std::vector<u32>& coordinates) {
  AtLine line(to.where);
  Builder& builder = Builder::current(to.where);
  begin_load(to.view, "tma_load");
  const std::optional<u64> policy = cache_policy(to.view.eviction());
  const Fetch fetch(to, from, coordinates, to.view.fill(), "tma_load");
  const isa::Row& row = isa::cp_async_bulk_tensor_load(
      {static_cast<int>(coordinates.size()), fetch.part.has_value(), policy.has_value()});
  CopyRecord record = make_record(builder, false, from, to.view.place());
  record_slices(record, to.view.place(), to.view.multicast_axes());
  each_box(record, fetch.view, fetch.start, [&](smem address, const std::vector<u32>& at) {
    std::vector<Argument> arguments = {address, from};
    append_coordinates(arguments, at);
    arguments.emplace_back(*to.view.barrier());
    if (fetch.part) arguments.emplace_back(fetch.part->mask);
    if (policy) arguments.emplace_back(*policy);
    builder.emit(row, arguments, to.view.condition());
  });
  TileContext::of(builder).record.copies.push_back(std::move(record));
}

void emit_prefetch(const Destination& to, TensorMap from, const std::vector<u32>& coordinates) {
  AtLine line(to.where);
  Builder& builder = Builder::current(to.where);
  check_upright(to.view.place(), "tma_prefetch");
  if (to.view.own_barrier() || to.view.eviction() || to.view.fill() != OobFill::zero)
    throw Error(
        "tma_prefetch: a view with a barrier, a hint to L2 or something outside, which say how a load "
        "goes; a prefetch completes on nothing and writes nothing");
  const Fetch fetch(to, from, coordinates, std::nullopt, "tma_prefetch");
  const isa::Row& row = isa::cp_async_bulk_tensor_prefetch(static_cast<int>(coordinates.size()));
  each_box(make_record(builder, false, from, to.view.place()), fetch.view, fetch.start,
           [&](smem, const std::vector<u32>& at) {
             std::vector<Argument> arguments = {from};
             append_coordinates(arguments, at);
             builder.emit(row, arguments, to.view.condition());
           });
}

void tma_store(const MapArgument& to, std::optional<CopyReduction> reduction, const CopyView& view,
               const std::vector<u32>& coordinates) {
  AtLine line(to.where);
  const std::string_view operation = reduction ? "tma_reduce" : "tma_store";
  int rank = static_cast<int>(coordinates.size());
  const TileView& from = view.place();
  check_upright(from, operation);
  if (reduction) check_reduction(*reduction, from.tile().dtype(), operation);
  bind_tensor_map(to.map, recipe(from, rank, operation), std::nullopt, "a " + from.tile().describe(),
                  operation);
  check_innermost(coordinates[0], from.tile().dtype(), operation);
  const std::optional<u64> policy = cache_policy(view.eviction());
  const isa::Row& row = isa::cp_async_bulk_tensor_store({rank, reduction, policy.has_value()});
  Builder& builder = Builder::current(to.where);
  CopyRecord record = make_record(builder, true, to.map, from);
  record_slices(record, from, {});
  each_box(record, from, coordinates, [&](smem address, const std::vector<u32>& at) {
    std::vector<Argument> arguments = {to.map};
    append_coordinates(arguments, at);
    arguments.emplace_back(address);
    if (policy) arguments.emplace_back(*policy);
    builder.emit(row, arguments, view.condition());
  });
  TileContext::of(builder).record.copies.push_back(std::move(record));
}

}  // namespace ptxbuilder::detail
