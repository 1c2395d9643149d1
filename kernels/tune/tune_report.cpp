#include "kernels/tune/tune_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/measure/problem_json.h"
#include "kernels/tune/attention_operation.h"

namespace ptxbuilder::bench {
namespace {

using Json = nlohmann::ordered_json;

void predict_time(TunedTile& t, const GemmProblem& p, int multiprocessors) {
  const kernels::GemmOperation o = operation_of(p);
  t.terms = predict(o, {p.m, p.n, p.k, 1}, kernels::checked(o, kernels::parse_tile(t.tile)), multiprocessors);
  t.predicted = t.terms->microseconds();
}
void predict_time(TunedTile& t, const AttentionProblem& p, int multiprocessors) {
  const PlacedProblem placed = place(p);
  t.predicted =
      predict(placed.operation, placed.size, kernels::parse_attention_tile(t.tile), multiprocessors);
}

TunedTile tuned_tile(const ShapeResult& result, const Entry& entry, int multiprocessors) {
  TunedTile t;
  t.tile = entry.configuration.substr(0, entry.configuration.find(','));
  if (t.tile.empty())
    t.tile = entry.contender;
  else
    std::visit([&](const auto& p) { predict_time(t, p, multiprocessors); }, result.problem);
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

// Returns whether x took less time than y.
bool faster(const TunedTile& x, const TunedTile& y) {
  if (x.timed() != y.timed()) return x.timed();
  return x.timed() && x.microseconds < y.microseconds;
}

}  // namespace

std::string limiting_term(const kernels::Prediction& p) {
  if (p.multiply >= std::max(p.l2, p.memory)) return "multiply";
  return p.l2 >= p.memory ? "l2" : "memory";
}

std::vector<TunedTile> tuned_tiles(const ShapeResult& result, const std::string& chosen,
                                   int multiprocessors) {
  std::vector<TunedTile> tiles;
  for (const Entry& entry : result.entries) {
    TunedTile fresh = tuned_tile(result, entry, multiprocessors);
    fresh.chosen = fresh.tile == chosen;
    const auto known =
        std::find_if(tiles.begin(), tiles.end(), [&](const TunedTile& t) { return t.tile == fresh.tile; });
    if (known == tiles.end())
      tiles.push_back(std::move(fresh));
    else if (faster(fresh, *known))
      *known = std::move(fresh);
  }
  std::sort(tiles.begin(), tiles.end(), [](const TunedTile& x, const TunedTile& y) {
    return faster(x, y) || (!faster(y, x) && x.tile < y.tile);
  });
  return tiles;
}

std::string tune_table(const Problem& problem, const std::vector<TunedTile>& tiles) {
  const bool has_terms = std::holds_alternative<GemmProblem>(problem);
  std::string text = fmt::format("{} {}\n{:32} {:>11} {:>12} {:>9} {:>9}{}\n", size_text(problem),
                                 type_text(problem), "tile", "measured us", "predicted us", "TFLOP/s",
                                 "pred/meas", has_terms ? "  limited by" : "");
  for (const TunedTile& t : tiles) {
    const std::string tile = t.tile + (t.chosen ? " (chosen now)" : "");
    if (!t.timed()) {
      text += fmt::format("{:32} {}\n", tile, t.problem);
      continue;
    }
    text += fmt::format("{:32} {:>11.2f} {:>12.2f} {:>9.1f} {:>9.2f}{}\n", tile, t.microseconds, t.predicted,
                        flops(problem) / t.microseconds * 1e-6, t.predicted / t.microseconds,
                        t.terms ? "  " + limiting_term(*t.terms) : "");
  }
  return text;
}

std::string tune_json(const Problem& problem, const std::vector<TunedTile>& tiles) {
  Json json = Json::parse(problem_json(problem));
  json["tiles"] = Json::array();
  for (const TunedTile& t : tiles) {
    Json one = {{"tile", t.tile}, {"chosen", t.chosen}, {"predicted_us", t.predicted}};
    if (t.terms)
      one.update({{"multiply_us", t.terms->multiply},
                  {"l2_us", t.terms->l2},
                  {"memory_us", t.terms->memory},
                  {"overhead_us", t.terms->overhead},
                  {"limited_by", limiting_term(*t.terms)}});
    if (t.timed()) {
      one["median_us"] = t.microseconds;
      one["quartiles_us"] = {t.low_quartile, t.high_quartile};
      one["tflops"] = flops(problem) / t.microseconds * 1e-6;
      // Attention's report uses these names.
      if (std::holds_alternative<AttentionProblem>(problem))
        one.update({{"us", t.microseconds}, {"low_us", t.low_quartile}, {"high_us", t.high_quartile}});
    } else {
      one["problem"] = t.problem;
    }
    json["tiles"].push_back(std::move(one));
  }
  return json.dump(1) + "\n";
}

}  // namespace ptxbuilder::bench
