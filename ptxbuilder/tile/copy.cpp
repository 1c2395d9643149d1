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
  // CTA (i, j) of the cluster has rank i + x j.
  uint32_t along_x = (1u << x) - 1, along_y = 0;
  for (uint32_t j = 0; j < y; ++j) along_y |= 1u << (x * j);
  u32 mask = axis == ClusterAxis::x ? u32(along_x) << (row * x) : u32(along_y) << column;
  return {view.rows(first, rows, where), first, u16(mask)};
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

// Calls copy(panel address, coordinates) for each panel of a view.
void each_panel(const TileView& view, std::vector<u32> coordinates,
                const std::function<void(smem, const std::vector<u32>&)>& copy) {
  const SharedTile& tile = view.tile();
  u32 first = coordinates[0];
  for (int panel = 0; panel < tile.panels(); ++panel) {
    coordinates[0] = first + panel * tile.panel_cols();
    copy(view.address() + panel * tile.panel_bytes(), coordinates);
  }
}

void append_coordinates(std::vector<Argument>& arguments, const std::vector<u32>& coordinates) {
  for (u32 c : coordinates) arguments.emplace_back(c);
}

}  // namespace

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
  each_panel(view, start, [&](smem address, const std::vector<u32>& at) {
    std::vector<Argument> arguments = {address, from};
    append_coordinates(arguments, at);
    arguments.emplace_back(*to.view.barrier());
    if (part) arguments.emplace_back(part->mask);
    builder.emit(row, arguments, std::nullopt, to.where);
  });
}

void tma_store(const MapArgument& to, const TileView& from, const std::vector<u32>& coordinates) {
  AtLine line(to.where);
  int rank = static_cast<int>(coordinates.size());
  bind_tensor_map(to.map, from, rank, "tma_store", to.where);
  const isa::Row& row = isa::cp_async_bulk_tensor_store(rank, to.where);
  each_panel(from, coordinates, [&](smem address, const std::vector<u32>& at) {
    std::vector<Argument> arguments = {to.map};
    append_coordinates(arguments, at);
    arguments.emplace_back(address);
    Builder::current(to.where).emit(row, arguments, std::nullopt, to.where);
  });
}

}  // namespace ptxbuilder::detail
