#include "kernels/inspect/ncu.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "ptxbuilder/error.h"

namespace ptxbuilder::command {
namespace {

// Returns the cells of a CSV line such as "a","b ""c""",d.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      cells.back() += line[i++];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      cells.emplace_back();
    else if (line[i] != '\r')
      cells.back() += line[i];
  }
  return cells;
}

struct Columns {
  size_t source, samples;
};

std::optional<Columns> columns_of(const std::vector<std::string>& cells) {
  const auto source = std::find(cells.begin(), cells.end(), "Source");
  const auto samples = std::find_if(cells.begin(), cells.end(), [](const std::string& cell) {
    return cell.starts_with("Warp Stall Sampling") || cell.starts_with("Sampling Data") ||
           cell.starts_with("# Samples");
  });
  if (source == cells.end() || samples == cells.end()) return std::nullopt;
  return Columns{static_cast<size_t>(source - cells.begin()), static_cast<size_t>(samples - cells.begin())};
}

}  // namespace

std::vector<Sampled> parse_ncu(std::string_view csv) {
  std::vector<Sampled> all;
  std::optional<Columns> columns;
  for (int number = 1; !csv.empty(); ++number) {
    const std::string_view line = csv.substr(0, csv.find('\n'));
    csv.remove_prefix(std::min(line.size() + 1, csv.size()));
    const std::vector<std::string> cells = cells_of(line);
    if (!columns) {
      columns = columns_of(cells);
      continue;
    }
    if (cells.size() == 1 || columns_of(cells)) break;  // the table ends here, or another header begins
    if (cells.size() <= std::max(columns->source, columns->samples))
      throw Error(fmt::format("line {}: {} columns, fewer than the header has", number, cells.size()));
    std::string digits = cells[columns->samples];
    std::erase(digits, ',');
    Sampled s{.instruction = cells[columns->source]};
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), s.samples);
    if (read.ec != std::errc() && !digits.empty())
      throw Error(fmt::format("line {}: '{}' is not a number of samples", number, digits));
    all.push_back(std::move(s));
  }
  if (!columns)
    throw Error(
        "there is no header with the columns Source and Warp Stall Sampling; write it with `ncu --import "
        "FILE.ncu-rep --page source --print-source sass --csv`");
  return all;
}

}  // namespace ptxbuilder::command
