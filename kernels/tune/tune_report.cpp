#include "kernels/tune/tune_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/measure/problem_json.h"

namespace ptxbuilder::bench {
namespace {

using Json = nlohmann::ordered_json;

TunedTile tuned_tile(const ShapeResult& result, const Entry& entry, int multiprocessors) {
  TunedTile t;
  const auto& p = std::get<GemmProblem>(result.problem);
  t.tile = entry.configuration.substr(0, entry.configuration.find(','));
  if (t.tile.empty())
    t.tile = entry.contender;
  else
    t.predicted = predict(operation_of(p), {p.m, p.n, p.k, 1},
                          kernels::checked(operation_of(p), kernels::parse_tile(t.tile)), multiprocessors);
  if (entry.counts()) {
    const EntrySummary s = summary(result, entry, "", multiprocessors);
    t.microseconds = s.microseconds;
    t.low_quartile = s.low_quartile;
    t.high_quartile = s.high_quartile;
  } else {
    t.problem = !entry.left_out.empty() ? entry.left_out
                : !entry.wrong.empty()  ? "WRONG: " + entry.wrong
                                        : "no time left";
  }
  return t;
}

// Times are in microseconds.
bool faster(const TunedTile& x, const TunedTile& y) {
  if (x.timed() != y.timed()) return x.timed();
  return x.timed() && x.microseconds < y.microseconds;
}

}  // namespace

std::string limiting_term(const kernels::Prediction& p) {
  if (p.multiply >= std::max(p.l2, p.memory)) return "multiply";
  return p.l2 >= p.memory ? "l2" : "memory";
}

std::vector<TunedTile> tuned_tiles(const ShapeResult& result, int multiprocessors) {
  std::vector<TunedTile> tiles;
  for (size_t i = 0; i < result.entries.size(); ++i) {
    TunedTile fresh = tuned_tile(result, result.entries[i], multiprocessors);
    fresh.chosen = i == 0;
    const auto known =
        std::find_if(tiles.begin(), tiles.end(), [&](const TunedTile& t) { return t.tile == fresh.tile; });
    if (known == tiles.end()) {
      tiles.push_back(std::move(fresh));
    } else if (faster(fresh, *known)) {
      fresh.chosen = known->chosen;
      *known = std::move(fresh);
    }
  }
  std::sort(tiles.begin(), tiles.end(), [](const TunedTile& x, const TunedTile& y) {
    return faster(x, y) || (!faster(y, x) && x.tile < y.tile);
  });
  return tiles;
}

std::string tune_table(const GemmProblem& p, const std::vector<TunedTile>& tiles) {
  std::string text = fmt::format("{} {}\n{:32} {:>11} {:>12} {:>9} {:>9}  {}\n", size_text(p), type_text(p),
                                 "tile", "measured us", "predicted us", "TFLOP/s", "pred/meas", "limited by");
  for (const TunedTile& t : tiles) {
    const std::string tile = t.tile + (t.chosen ? " (chosen now)" : "");
    if (!t.timed()) {
      text += fmt::format("{:32} {}\n", tile, t.problem);
      continue;
    }
    const double predicted = t.predicted.microseconds();
    text += fmt::format("{:32} {:>11.2f} {:>12.2f} {:>9.1f} {:>9.2f}  {}\n", tile, t.microseconds, predicted,
                        p.flops() / t.microseconds * 1e-6, predicted / t.microseconds,
                        limiting_term(t.predicted));
  }
  return text;
}

std::string tune_json(const GemmProblem& p, const std::vector<TunedTile>& tiles) {
  Json json = Json::parse(problem_json(p));
  json["tiles"] = Json::array();
  for (const TunedTile& t : tiles) {
    Json one = {{"tile", t.tile},
                {"chosen", t.chosen},
                {"predicted_us", t.predicted.microseconds()},
                {"multiply_us", t.predicted.multiply},
                {"l2_us", t.predicted.l2},
                {"memory_us", t.predicted.memory},
                {"overhead_us", t.predicted.overhead},
                {"limited_by", limiting_term(t.predicted)}};
    if (t.timed()) {
      one["median_us"] = t.microseconds;
      one["quartiles_us"] = {t.low_quartile, t.high_quartile};
    } else {
      one["problem"] = t.problem;
    }
    json["tiles"].push_back(std::move(one));
  }
  return json.dump(1) + "\n";
}

}  // namespace ptxbuilder::bench
