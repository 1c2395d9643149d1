#include "ptxbuilder/tile/copy.h"

#include <fmt/format.h>

namespace ptxbuilder::detail {
namespace {

constexpr int kBoxLimit = 256;  // elements along each dimension (CUDA driver API, cuTensorMapEncodeTiled)

// The part of a view that this CTA fetches for `mask`, the CTAs of its cluster along an axis.
struct Part {
  TileView view;
  u32 first_row;
  u16 mask;
};

uint32_t ctas_along(ClusterAxis axis, Where where) {
  auto [x, y, z] = Builder::current(where).signature().cluster;
  return axis == ClusterAxis::x ? x : y;
}

// CTA (i, j) of the cluster has rank i + x j: those of row 0, and of column 0.
uint32_t column_mask(uint32_t x) { return (1u << x) - 1; }
uint32_t row_mask(uint32_t x, uint32_t y) {
  uint32_t mask = 0;
  for (uint32_t j = 0; j < y; ++j) mask |= 1u << (x * j);
  return mask;
}

Part part_of(const TileView& view, ClusterAxis axis, Where where) {
  auto [x, y, z] = Builder::current(where).signature().cluster;
  uint32_t count = ctas_along(axis, where);
  if (z != 1)
    throw Error(where, fmt::format("tma_load: multicast in a cluster of {} x {} x {} CTAs; it serves x and y",
                                   x, y, z));
  if (view.row_count() % (8 * static_cast<int>(count)) != 0)
    throw Error(where, fmt::format("tma_load: {} rows for {} CTAs; each fetches a multiple of 8",
                                   view.row_count(), count));
  u32 column = cluster_ctaid_x(where), row = cluster_ctaid_y(where);
  int rows = view.row_count() / static_cast<int>(count);
  u32 first = (axis == ClusterAxis::x ? column : row) * rows;
  u32 mask = axis == ClusterAxis::x ? u32(column_mask(x)) << (row * x) : u32(row_mask(x, y)) << column;
  return {view.rows(first, rows, where), first, u16(mask)};
}

// The same for every CTA, as numbers.
void record_slices(CopyRecord& record, const TileView& view, std::optional<ClusterAxis> axis, Where where) {
  auto [x, y, z] = Builder::current(where).signature().cluster;
  const int count = axis ? static_cast<int>(ctas_along(*axis, where)) : 1, rows = view.row_count() / count;
  for (int i = 0; i < count; ++i) record.slices.push_back({i * rows, i * rows, rows});
  if (!axis) return;
  record.cluster = {static_cast<int>(x), static_cast<int>(y)};
  record.along_y = *axis == ClusterAxis::y;
  for (uint32_t rank = 0; rank < x * y; ++rank)
    record.masks.push_back(record.along_y ? row_mask(x, y) << (rank % x) : column_mask(x) << (rank / x * x));
}

TensorMapRecipe recipe(const TileView& view, int rank, std::string_view operation, Where where) {
  const SharedTile& tile = view.tile();
  if (rank < 1 || rank > 5)
    throw Error(where, fmt::format("{}: a tensor has 1 to 5 coordinates, not {}", operation, rank));
  if (rank == 1 && view.row_count() != 1)
    throw Error(where, fmt::format("{}: one coordinate for a tile of {} rows; give one for the rows too",
                                   operation, view.row_count()));
  TensorMapRecipe r;
  r.dtype = tile.dtype();
  r.swizzle = tile.swizzle();
  r.box.assign(static_cast<size_t>(rank), 1);
  r.box[0] = static_cast<uint32_t>(tile.panel_cols());
  if (rank > 1) r.box[1] = static_cast<uint32_t>(view.row_count());
  r.element_strides.assign(static_cast<size_t>(rank), 1);
  for (int i = 0; i < rank; ++i)
    if (r.box[static_cast<size_t>(i)] > kBoxLimit)
      throw Error(where, fmt::format("{}: box extent {} along dimension {} exceeds {}, for a {}", operation,
                                     r.box[static_cast<size_t>(i)], i, kBoxLimit, tile.describe()));
  return r;
}

// A box for each panel.
CopyRecord make_record(Builder& builder, bool is_store, TensorMap map, const TileView& view, Where where) {
  const SharedTile& tile = view.tile();
  const Parameter& parameter = builder.signature().parameters[builder.parameter_index(map, where)];
  CopyRecord record;
  record.is_store = is_store;
  record.view = record_view(TileContext::of(builder).record, view);
  record.map = parameter.name;
  record.recipe = parameter.tensor_map;
  record.where = where;
  for (int panel = 0; panel < tile.panels(); ++panel)
    record.boxes.push_back({panel * tile.panel_bytes(), panel * tile.panel_cols()});
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

void append_coordinates(std::vector<Argument>& arguments, const std::vector<u32>& coordinates) {
  for (u32 c : coordinates) arguments.emplace_back(c);
}

}  // namespace

ViewRecord record_view(KernelRecord& record, const TileView& view) {
  const SharedTile& tile = view.whole();
  const int number = record.number({tile.describe(), tile.dtype(), tile.rows(), tile.cols(), tile.offset(),
                                    tile.stage_bytes(), tile.stages(), tile.panel_row_bytes(),
                                    tile.panel_bytes(), tile.panel_cols()});
  return {number, view.first_row(), view.first_col(), view.row_count(), view.tile().cols()};
}

void bind_tensor_map(TensorMap map, const TileView& view, int rank, std::string_view operation, Where where) {
  Builder& builder = Builder::current(where);
  Parameter& parameter = builder.signature().parameters[builder.parameter_index(map, where)];
  TensorMapRecipe wanted = recipe(view, rank, operation, where);
  if (!parameter.tensor_map.box.empty() && !(parameter.tensor_map == wanted))
    throw Error(
        where,
        fmt::format("{}: the tensor map '{}' already serves copies with a box of {} {} elements and {} B "
                    "swizzle; a {} needs {} and {}: declare a second map",
                    operation, parameter.name, fmt::join(parameter.tensor_map.box, "x"),
                    name(parameter.tensor_map.dtype), name(parameter.tensor_map.swizzle),
                    view.tile().describe(), fmt::join(wanted.box, "x"), name(wanted.swizzle)));
  parameter.dtype = wanted.dtype;
  parameter.tensor_map = wanted;
}

void tma_load(const Destination& to, TensorMap from, const std::vector<u32>& coordinates) {
  AtLine line(to.where);
  Builder& builder = Builder::current(to.where);
  int rank = static_cast<int>(coordinates.size());
  if (!to.view.barrier())
    throw Error(to.where,
                "tma_load: the view has no barrier to complete on: take it from a pipeline's stage, or add "
                ".on(barrier)");
  if (to.view.on_copy()) (*to.view.on_copy())(to.view, to.where);
  std::optional<Part> part;
  if (auto axis = to.view.multicast_axis(); axis && ctas_along(*axis, to.where) > 1)
    part = part_of(to.view, *axis, to.where);
  const TileView& view = part ? part->view : to.view;
  std::vector<u32> start = coordinates;
  if (part) {
    if (rank < 2)
      throw Error(to.where, "tma_load: multicast divides rows; give the coordinate of the rows too");
    start[1] = start[1] + part->first_row;
  }
  bind_tensor_map(from, view, rank, "tma_load", to.where);
  const isa::Row& row =
      isa::cp_async_bulk_tensor_load({.rank = rank, .multicast = part.has_value()}, to.where);
  CopyRecord record = make_record(builder, false, from, to.view, to.where);
  record_slices(record, to.view, part ? to.view.multicast_axis() : std::nullopt, to.where);
  each_box(record, view, start, [&](smem address, const std::vector<u32>& at) {
    std::vector<Argument> arguments = {address, from};
    append_coordinates(arguments, at);
    arguments.emplace_back(*to.view.barrier());
    if (part) arguments.emplace_back(part->mask);
    builder.emit(row, arguments, std::nullopt, to.where);
  });
  TileContext::of(builder).record.copies.push_back(std::move(record));
}

void tma_store(const MapArgument& to, const TileView& from, const std::vector<u32>& coordinates) {
  AtLine line(to.where);
  int rank = static_cast<int>(coordinates.size());
  if (from.multicast_axis())
    throw Error(to.where,
                "tma_store: a multicast view: only loads are shared by CTAs; store the view itself");
  bind_tensor_map(to.map, from, rank, "tma_store", to.where);
  const isa::Row& row = isa::cp_async_bulk_tensor_store(rank, to.where);
  Builder& builder = Builder::current(to.where);
  CopyRecord record = make_record(builder, true, to.map, from, to.where);
  record_slices(record, from, std::nullopt, to.where);
  each_box(record, from, coordinates, [&](smem address, const std::vector<u32>& at) {
    std::vector<Argument> arguments = {to.map};
    append_coordinates(arguments, at);
    arguments.emplace_back(address);
    builder.emit(row, arguments, std::nullopt, to.where);
  });
  TileContext::of(builder).record.copies.push_back(std::move(record));
}

}  // namespace ptxbuilder::detail
