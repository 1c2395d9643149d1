#include "kernels/tune/tuned_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::bench {
namespace {

struct Line {
  std::string text;
  std::string group;  // types and layout of the row; "" if the line is not a row
  std::tuple<long long, long long, long long> size = {};

  bool is_row() const { return !group.empty(); }
  bool same_product(const Line& other) const { return group == other.group && size == other.size; }
};

Line parse(std::string_view text, size_t number) {
  Line line;
  line.text = text;
  if (!text.starts_with("PTXBUILDER_TUNED")) return line;
  std::array<char, 8> a = {}, d = {}, layout = {};
  std::array<char, 64> tile = {};
  auto& [m, n, k] = line.size;
  int end = 0;
  const int found = std::sscanf(line.text.c_str(),
                                "PTXBUILDER_TUNED(%7[a-z0-9], %7[a-z0-9], \"%2[TN]\", %lld, %lld, %lld, "
                                "\"%63[a-z0-9_]\")%n",
                                a.data(), d.data(), layout.data(), &m, &n, &k, tile.data(), &end);
  if (found != 7 || static_cast<size_t>(end) != text.size() || !dtype_from_name(a.data()) ||
      !dtype_from_name(d.data()))
    throw Error(
        fmt::format("line {} of the tuned table is not a row: '{}'; the form is PTXBUILDER_TUNED(bf16, bf16, "
                    "\"TN\", 4096, 4096, 4096, \"128x256x64_4_swap\")",
                    number, text));
  line.group = fmt::format("{} {} {}", a.data(), d.data(), layout.data());
  return line;
}

std::vector<Line> parse_lines(std::string_view text) {
  std::vector<Line> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(parse(text.substr(0, end), lines.size() + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void merge(std::vector<Line>& table, const Line& row) {
  const auto same =
      std::find_if(table.begin(), table.end(), [&](const Line& l) { return l.same_product(row); });
  if (same != table.end()) {
    *same = row;
    return;
  }
  auto at = table.end();
  for (auto line = table.begin(); line != table.end(); ++line) {
    if (line->group != row.group) continue;
    at = line + 1;
    if (line->size > row.size) {
      at = line;
      break;
    }
  }
  table.insert(at, row);
}

}  // namespace

std::string merge_tuned(const std::string& table, const std::string& rows) {
  std::vector<Line> lines = parse_lines(table);
  for (const Line& row : parse_lines(rows))
    if (row.is_row()) merge(lines, row);
  std::string text;
  for (const Line& line : lines) text += line.text + "\n";
  return text;
}

std::string tuned_rows(const RunResult& run) {
  std::string text;
  for (const ShapeResult& r : run.results) {
    if (r.warm || r.regime != run.results.front().regime) continue;
    const Entry* best = nullptr;
    double least = 0;
    for (const Entry& e : r.entries) {
      if (!e.ours || e.step || !e.counts()) continue;
      const double time = summary(r, e, "", 0).microseconds;
      if (!best || time < least) std::tie(best, least) = std::tuple(&e, time);
    }
    if (!best) continue;
    const auto& p = std::get<GemmProblem>(r.problem);
    text +=
        fmt::format("PTXBUILDER_TUNED({}, {}, \"{}\", {}, {}, {}, \"{}\")\n", name(p.a), name(p.d),
                    p.layout(), p.m, p.n, p.k, best->configuration.substr(0, best->configuration.find(',')));
  }
  return text;
}

}  // namespace ptxbuilder::bench
