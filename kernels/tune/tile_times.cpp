#include "kernels/tune/tile_times.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "kernels/gemm/split.h"
#include "kernels/measure/operation.h"
#include "kernels/measure/results.h"

namespace ptxbuilder::bench {
namespace {

using kernels::split;

constexpr std::string_view kReference = "cuBLASLt";

template <class Number>
bool parse_number(std::string_view text, Number& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0;
}

bool parse_time(std::string_view word, TimedProduct& product) {
  const size_t equals = word.find('=');
  double value = 0;
  if (equals == std::string_view::npos || !parse_number(word.substr(equals + 1), value)) return false;
  const std::string_view name = word.substr(0, equals);
  if (name == kReference)
    product.reference = value;
  else if (name == "MHz")
    product.megahertz = value;
  else
    product.tiles.push_back({checked(product.operation, kernels::parse_tile(std::string(name))), value});
  return true;
}

TimedProduct parse_line(std::string_view line) {
  const std::vector<std::string_view> words = split(line, ' ');
  const Error bad(
      fmt::format("'{}' must be a product with its times, such as 'bf16 bf16 TN 4096 4096 4096 "
                  "cuBLASLt=190.1 128x256x64_4=191.2'",
                  line.substr(0, 80)));
  if (words.size() < 7) throw bad;
  const auto a = dtype_from_name(words[0]), d = dtype_from_name(words[1]);
  GemmProblem types;
  TimedProduct product;
  if (!a || !d || !parse_number(words[3], product.size.m) || !parse_number(words[4], product.size.n) ||
      !parse_number(words[5], product.size.k))
    throw bad;
  types.a = types.b = *a;
  types.d = *d;
  types.set_layout(std::string(words[2]));
  product.operation = operation_of(types);
  for (size_t i = 6; i < words.size(); ++i)
    if (!parse_time(words[i], product)) throw bad;
  return product;
}

}  // namespace

std::string tile_times(const RunResult& run) {
  std::string text;
  for (const ShapeResult& r : run.results) {
    const auto& p = std::get<GemmProblem>(r.problem);
    std::string line = fmt::format("{} {} {} {} {} {}", name(p.a), name(p.d), p.layout(), p.m, p.n, p.k);
    std::vector<double> clocks;
    for (const Entry& e : r.entries)
      if (e.counts()) clocks.push_back(summary(r, e, "", 0).sm_mhz);
    if (!clocks.empty() && median(clocks) > 0) line += fmt::format(" MHz={:.0f}", median(clocks));
    std::set<std::string> seen;
    for (const Entry& e : r.entries) {
      if (!e.counts() || e.step) continue;
      std::string tile = e.configuration.substr(0, e.configuration.find(','));
      if (e.contender == run.reference)
        tile = kReference;
      else if (!e.ours)
        continue;
      if (seen.insert(tile).second)
        line += fmt::format(" {}={:.4g}", tile, summary(r, e, "", 0).microseconds);
    }
    if (!seen.empty()) text += line + "\n";
  }
  return text;
}

std::vector<TimedProduct> parse_tile_times(std::string_view text) {
  std::vector<TimedProduct> all;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) continue;
    try {
      all.push_back(parse_line(line));
    } catch (const Error& e) {
      throw Error(fmt::format("line {} of the times: {}", number, e.what()));
    }
  }
  return all;
}

}  // namespace ptxbuilder::bench
