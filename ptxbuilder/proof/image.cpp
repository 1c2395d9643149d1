#include "ptxbuilder/proof/image.h"

#include <fmt/format.h>

#include <array>
#include <set>

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

int bank_ways(std::span<const int> addresses, int64_t start, int bytes, int matrices) {
  constexpr int kWarp = 32, kRows = 8, kBanks = 32, kBankBytes = 4;
  const int together = matrices > 0 ? kRows : std::min(kWarp, kBanks * kBankBytes / bytes);
  const int used = matrices > 0 ? kRows * matrices : kWarp;  // number of lanes whose addresses are used
  const int threads = static_cast<int>(addresses.size());
  size_t most = 1;
  for (int first = 0; first < threads; first += together) {
    if (first % kWarp >= used) continue;
    std::array<std::set<int64_t>, kBanks> words;
    for (int lane = first; lane < std::min(first + together, threads); ++lane)
      for (int byte = 0; byte < bytes; byte += std::min(kBankBytes, bytes)) {
        const int64_t word = (start + addresses[static_cast<size_t>(lane)] + byte) / kBankBytes;
        words[static_cast<size_t>(word % kBanks)].insert(word);
      }
    for (const auto& bank : words) most = std::max(most, bank.size());
  }
  return static_cast<int>(most);
}

}  // namespace ptxbuilder::detail
