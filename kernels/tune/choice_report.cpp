#include "kernels/tune/choice_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/gemm/scheduler.h"
#include "kernels/measure/operation.h"
#include "kernels/measure/problem_json.h"
#include "kernels/tune/tune_report.h"

namespace ptxbuilder::bench {
namespace {

using Json = nlohmann::ordered_json;
using kernels::Candidate;
using kernels::GemmTile;

std::string source_text(const ChoiceReport& r) {
  if (!r.file.empty()) return "your file of tuned tiles, " + r.file;
  if (r.choice.source == kernels::ChoiceSource::table)
    return "the table of tuned tiles (kernels/gemm/tuned.def), which has exactly this product";
  return "the model: no table has this product";
}

std::string sharing_text(const GemmTile& t) {
  const std::string divided =
      t.split_k > 1      ? fmt::format("{} CTAs divide k", t.split_k)
      : t.split_last > 1 ? fmt::format("up to {} CTAs divide k of a tile of the last wave", t.split_last)
                         : "";
  if (t.cluster_m * t.cluster_n == 1) return divided.empty() ? "no clusters" : divided;
  return fmt::format("{}{}clusters of {} x {}", divided, divided.empty() ? "" : ", ", t.cluster_m,
                     t.cluster_n);
}

// Describes how the tiles are distributed over the SMs.
std::string waves_text(const ChoiceReport& r, const GemmTile& t) {
  const kernels::GemmSize size = {r.problem.m, r.problem.n, r.problem.k, 1};
  const kernels::GemmGrid grid = gemm_grid(t, size.m, size.n, 1, r.multiprocessors);
  const double tiles = tiles_of(t, size) * t.split_k, ctas = grid.x * grid.y * grid.z;
  return fmt::format("{:.0f} tiles on {:.0f} CTAs, {:.2f} rounds; {}; launches {}", tiles, ctas, tiles / ctas,
                     sharing_text(t), t.overlaps ? "overlap" : "do not overlap");
}

double measured(const ChoiceReport& r, const Candidate& c) {
  const auto found = r.microseconds.find(text(c.tile));
  return found == r.microseconds.end() ? 0 : found->second;
}

}  // namespace

ChoiceReport explain_choice(const GemmProblem& p, int multiprocessors, size_t top,
                            const std::optional<GemmTile>& tuned, const std::string& file) {
  const kernels::GemmOperation o = operation_of(p);
  const kernels::GemmSize size = {p.m, p.n, p.k, 1};
  ChoiceReport r = {.problem = p,
                    .multiprocessors = multiprocessors,
                    .choice = choice_of(o, size, multiprocessors),
                    .file = "",
                    .tiles = {},
                    .microseconds = {}};
  if (tuned) {
    r.choice.tile = checked(o, *tuned);
    r.file = file;
  }
  r.tiles.push_back({r.choice.tile, predict(o, size, r.choice.tile, multiprocessors)});
  for (const Candidate& c : shortlist(o, size, multiprocessors, top))
    if (!(c.tile == r.choice.tile)) r.tiles.push_back(c);
  return r;
}

std::string choice_text(const ChoiceReport& r) {
  std::string all = fmt::format("{} {} on {} SMs\nchosen: {}, from {}\n        {}\n\n", size_text(r.problem),
                                type_text(r.problem), r.multiprocessors, text(r.choice.tile), source_text(r),
                                waves_text(r, r.choice.tile));
  all += fmt::format("{:34} {:>12} {:>7} {:>8} {:>9} {:>8} {:>8} {:>9} {:>6} {:>11}  {}\n", "tile",
                     "predicted us", "doubt", "to first", "multiply", "L2", "memory", "overhead", "MHz",
                     "measured us", "limited by");
  double least = INFINITY;
  for (const Candidate& c : r.tiles) least = std::min(least, doubted(c));
  for (const Candidate& c : r.tiles) {
    const kernels::Prediction& p = c.prediction;
    const double time = measured(r, c);
    all += fmt::format(
        "{:34} {:>12.2f} {:>5.0f} % {:>8.3f} {:>9.2f} {:>8.2f} {:>8.2f} {:>9.2f} {:>6.0f} {:>11}  {}\n",
        text(c.tile), p.microseconds(), 100 * (kernels::doubt(c.tile) - 1), doubted(c) / least, p.multiply,
        p.l2, p.memory, p.overhead, p.megahertz, time > 0 ? fmt::format("{:.2f}", time) : "-",
        limiting_term(p));
  }
  return all +
         "\nmultiply, L2 and memory act at once: the prediction is little more than the largest of "
         "them, plus the overhead.\n"
         "doubt is added for kinds of tiles that turned out slower than predicted; tiles are ordered by the "
         "sum.\n"
         "MHz is the clock within the power limit.\n";
}

std::string choice_json(const ChoiceReport& r) {
  Json json = Json::parse(problem_json(r.problem));
  json["multiprocessors"] = r.multiprocessors;
  json["chosen"] = text(r.choice.tile);
  json["from"] = !r.file.empty()                                   ? "file"
                 : r.choice.source == kernels::ChoiceSource::table ? "table"
                                                                   : "model";
  json["tiles"] = Json::array();
  if (!r.file.empty()) json["file"] = r.file;
  for (const Candidate& c : r.tiles) {
    const kernels::Prediction& q = c.prediction;
    Json one = {{"tile", text(c.tile)},
                {"predicted_us", q.microseconds()},
                {"doubt", kernels::doubt(c.tile)},
                {"multiply_us", q.multiply},
                {"l2_us", q.l2},
                {"memory_us", q.memory},
                {"overhead_us", q.overhead},
                {"sharpness", q.sharpness},
                {"clock_mhz", q.megahertz},
                {"watts_at_full_clock", q.watts},
                {"limited_by", limiting_term(q)}};
    if (const double time = measured(r, c); time > 0) one["median_us"] = time;
    json["tiles"].push_back(std::move(one));
  }
  return json.dump(1) + "\n";
}

}  // namespace ptxbuilder::bench
