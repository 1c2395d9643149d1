#include "ptxbuilder/tile/proof_image.h"

#include <fmt/format.h>

namespace ptxbuilder::detail {

std::vector<Element> corners(const ViewRecord& view, const TileRecord& tile) {
  auto firsts = [](const std::optional<int>& first, int count, int extent, int step) {
    if (first) return std::vector<int>{*first};
    std::vector<int> all;
    for (int i = 0; i + count <= extent; i += step) all.push_back(i);
    return all;
  };
  std::vector<Element> all;
  const int col_step = view.col_step != 0 ? view.col_step : tile.panel_cols;
  for (int row : firsts(view.first_row, view.rows, tile.rows, view.row_step))
    for (int col : firsts(view.first_col, view.cols, tile.cols, col_step)) all.push_back({row, col});
  return all;
}

std::string view_text(const ViewRecord& view, const TileRecord& tile) {
  auto range = [](const std::optional<int>& first, int count, int extent, const std::string& step) {
    std::string text = fmt::format("{} of {} from ", count, extent);
    return first ? text + std::to_string(*first) : text.append("any ").append(step);
  };
  std::string text = tile.text;
  if (view.rows != tile.rows)
    text +=
        ", rows " + range(view.first_row, view.rows, tile.rows, fmt::format("multiple of {}", view.row_step));
  if (view.cols != tile.cols)
    text += ", columns " + range(view.first_col, view.cols, tile.cols,
                                 view.col_step ? fmt::format("multiple of {}", view.col_step) : "panel");
  return text;
}

}  // namespace ptxbuilder::detail
