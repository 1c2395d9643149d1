#include "ptxbuilder/tile/tma_modes.h"

#include <fmt/format.h>

#include "ptxbuilder/article.h"

namespace ptxbuilder {
namespace {

// Returns the number of a tile's rows that run along the second-innermost dimension.
FoldedRows inner_rows(const TensorModes& tile, const TileView& place, std::string_view operation) {
  tile.check_mapped(operation);
  const std::array<TensorModes::Axis, 2> axes = tile.axes(operation);
  const auto is_known = [](const TensorModes::Axis& axis) {
    return std::all_of(axis.parts.begin(), axis.parts.end(), [](const TensorModes::Axis::Part& part) {
      return part.count.known() && part.step.known() == 1;
    });
  };
  const auto count = [](const TensorModes::Axis& axis) {
    int64_t all = 1;
    for (const auto& part : axis.parts) all *= *part.count.known();
    return all;
  };
  const auto& rows = axes[0].parts;
  const auto& cols = axes[1].parts;
  const bool columns_follow = cols.empty() || (cols.size() == 1 && cols[0].dimension == 0);
  const bool rows_follow = rows.empty() ||
                           (rows.size() == 1 && (rows[0].dimension == 1 || rows[0].dimension == 2)) ||
                           (rows.size() == 2 && rows[0].dimension == 1 && rows[1].dimension == 2);
  if (!is_known(axes[0]) || !is_known(axes[1]) || !columns_follow || !rows_follow)
    throw Error(
        fmt::format("{}: the columns of the tile {} must run along dimension 0, and its rows along dimension "
                    "1, dimension 2 or both in this order, in steps of 1@0, 1@1 and 1@2 and with extents "
                    "that the host knows",
                    operation, to_string(tile.layout())));
  if (count(axes[0]) != place.row_count() || count(axes[1]) != place.tile().cols())
    throw Error(fmt::format("{}: the tile has {} x {} elements, {}, but the view of {} has {} x {}",
                            operation, count(axes[0]), count(axes[1]), to_string(tile.layout()),
                            with_article(place.whole().describe()), place.row_count(), place.tile().cols()));
  return {rows.empty() || rows[0].dimension == 2 ? 1 : static_cast<int>(*rows[0].count.known())};
}

std::vector<u32> corner(const TensorModes& tile) {
  std::vector<u32> at;
  for (const Index& i : tile.corner()) at.push_back(i.value());
  return at;
}

}  // namespace

void tma_load(detail::Destination to, TensorMap from, const TensorModes& tile) {
  AtLine line(to.where);
  const FoldedRows rows = inner_rows(tile, to.view.place(), "tma_load");
  if (rows.inner == to.view.place().row_count())
    tma_load(to, from, corner(tile));
  else
    tma_load(to, from, corner(tile), rows);
}

void tma_store(detail::MapArgument to, const CopyView& from, const TensorModes& tile) {
  AtLine line(to.where);
  const FoldedRows rows = inner_rows(tile, from.place(), "tma_store");
  if (rows.inner == from.place().row_count())
    tma_store(to, from, corner(tile));
  else
    tma_store(to, from, corner(tile), rows);
}

}  // namespace ptxbuilder
