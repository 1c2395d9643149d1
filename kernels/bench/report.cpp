#include "kernels/bench/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "kernels/bench/chart.h"
#include "kernels/measure/problem_json.h"

namespace ptxbuilder::bench {
namespace {

using Json = nlohmann::ordered_json;

// Converts text to a single line that fits in a table cell. This is needed because text from other programs
// may contain anything.
std::string cell(std::string text) {
  std::string clean;
  for (char c : text) {
    if (c == '|') clean += '\\';
    clean += c == '\n' ? ' ' : c;
  }
  return clean.empty() ? "-" : clean;
}

std::string or_dash(double value, const char* format) {
  return value > 0 ? fmt::format(fmt::runtime(format), value) : "-";
}

std::string shape_name(const ShapeResult& r) {
  return fmt::format("{} {}{}", r.group, size_text(r.problem), r.warm ? " warm" : "");
}

std::string table_line(const RunResult& run, const ShapeResult& r, const Entry& entry) {
  const std::string start = fmt::format("| {} | {} | {} | {} |", shape_name(r), name(r.regime),
                                        type_text(r.problem), cell(entry.contender));
  if (!entry.left_out.empty())
    return fmt::format("{} - | - | - | - | left out | - | - | {} |\n", start, cell(entry.left_out));
  if (!entry.wrong.empty())
    return fmt::format("{} - | - | - | - | WRONG | - | - | {} |\n", start, cell(entry.wrong));
  if (!entry.counts()) return fmt::format("{} - | - | - | - | no time left | - | - | - |\n", start);
  const std::string reference = reference_of(run, r);
  const EntrySummary s = summary(r, entry, reference, run.multiprocessors);
  std::string ratio = "- | - | -";
  if (entry.contender == reference) ratio = "1 | - | reference";
  if (s.ratio)
    ratio = fmt::format("{:.3f} | {:.3f} to {:.3f} | {}", s.ratio->median, s.ratio->interval.low,
                        s.ratio->interval.high, name(verdict(*s.ratio)));
  return fmt::format("{} {:.2f} | {:.1f} | {} | {} | {} | {} |\n", start, s.microseconds, s.tflops, ratio,
                     or_dash(s.sm_mhz, "{:.0f}"), or_dash(s.watts, "{:.0f}"), cell(entry.configuration));
}

std::string score_line(const Score& s, const std::string& reference) {
  std::string text = fmt::format("- {}, {}: ", s.contender, name(s.regime));
  if (s.shapes == 0)
    text += fmt::format("no shape of {} counts", s.of_shapes);
  else
    text += fmt::format("{:.3f} x {}, over {} of {} shapes with weight {:g}", s.mean, reference, s.shapes,
                        s.of_shapes, s.weight);
  for (const auto& [verdict, count] : s.verdicts) text += fmt::format(", {} {}", count, name(verdict));
  if (s.shapes > 0)
    text += fmt::format("; {} below 0.98, {} below 0.95, the worst {:.3f} of {}", s.below_98, s.below_95,
                        s.worst, s.worst_shape);
  if (s.groups.size() > 1)
    for (const char* before = "; "; const auto& [group, mean] : s.groups) {
      text += fmt::format("{}{} {:.3f}", before, group, mean);
      before = ", ";
    }
  return text + "\n";
}

Json to_json(const Sample& s) {
  Json json = {{"us", s.microseconds}};
  if (s.telemetry.sm_mhz > 0) json["sm_mhz"] = s.telemetry.sm_mhz;
  if (s.telemetry.watts > 0) json["watts"] = s.telemetry.watts;
  if (s.telemetry.celsius > 0) json["celsius"] = s.telemetry.celsius;
  if (s.telemetry.limits != 0) json["clock_limits"] = s.telemetry.limits;
  return json;
}

Json to_json(const Ratio& r) {
  return {{"median", r.median},
          {"quartiles", {r.low_quartile, r.high_quartile}},
          {"interval", {r.interval.low, r.interval.high}},
          {"rounds", r.rounds},
          {"verdict", name(verdict(r))}};
}

Json to_json(const RunResult& run, const ShapeResult& r, const Entry& e) {
  Json json = {{"contender", e.contender}, {"ours", e.ours}, {"configuration", e.configuration}};
  if (!e.left_out.empty()) json["left_out"] = e.left_out;
  if (!e.wrong.empty()) json["wrong"] = e.wrong;
  if (!e.counts()) return json;
  const EntrySummary s = summary(r, e, reference_of(run, r), run.multiprocessors);
  json["median_us"] = s.microseconds;
  json["quartiles_us"] = {s.low_quartile, s.high_quartile};
  json["tflops"] = s.tflops;
  if (s.flops_per_clock > 0) json["flops_per_clock_and_sm"] = s.flops_per_clock;
  if (s.limits != 0) json["clock_held_down_by"] = limit_names(s.limits);
  if (s.ratio) json["ratio"] = to_json(*s.ratio);
  if (e.joules > 0) json["joules"] = e.joules;
  for (const Sample& sample : e.samples) json["rounds"].push_back(to_json(sample));
  return json;
}

Json to_json(const RunResult& run, const ShapeResult& r) {
  Json json = {{"group", r.group}};
  json.update(Json::parse(size_json(r.problem)));
  json.update({{"weight", r.weight}, {"warm", r.warm}, {"regime", name(r.regime)}});
  json.update(Json::parse(type_json(r.problem)));
  json.update({{"buffer_sets", r.sets},
               {"launches_per_burst", r.launches},
               {"rows_compared_with_reference", r.reference_rows},
               {"rounds_counted", counted_rounds(r)},
               {"contenders", Json::array()}});
  if (run.reference == kFastestPeer) json["reference"] = reference_of(run, r);
  for (const Entry& e : r.entries) json["contenders"].push_back(to_json(run, r, e));
  return json;
}

Json to_json(const Score& s) {
  Json json = {{"contender", s.contender},
               {"regime", name(s.regime)},
               {"shapes", s.shapes},
               {"of_shapes", s.of_shapes},
               {"weight", s.weight}};
  if (s.shapes > 0) {
    json["mean"] = s.mean;
    json["groups"] = s.groups;
    json["worst"] = {{"ratio", s.worst}, {"shape", s.worst_shape}};
    json["below_0.98"] = s.below_98;
    json["below_0.95"] = s.below_95;
  }
  for (const auto& [verdict, count] : s.verdicts) json[std::string(name(verdict))] = count;
  return json;
}

}  // namespace

// Returns a table with the joules per product, and the ratio of the reference's joules to them; "" if energy
// was not measured.
std::string energy_table(const RunResult& run) {
  std::string lines;
  for (const ShapeResult& r : run.results) {
    const Entry* reference = counting_entry(r, reference_of(run, r));
    for (const Entry& e : r.entries) {
      if (!e.counts() || e.joules <= 0) continue;
      const EntrySummary s = summary(r, e, reference_of(run, r), run.multiprocessors);
      lines += fmt::format("| {} | {} | {:.4g} | {:.2f} | {} | {:.0f} | {} |\n", shape_name(r),
                           cell(e.contender), e.joules, e.joules / flops(r.problem) * 1e12,
                           or_dash(reference ? reference->joules / e.joules : 0, "{:.3f}"), s.sm_mhz,
                           cell(e.configuration));
    }
  }
  if (lines.empty()) return "";
  return "\n## Energy\n\n| shape | contender | J | pJ a flop | ratio | MHz | configuration "
         "|\n|---|---|---|---|---|---|---|\n" +
         lines;
}

std::string markdown(const RunResult& run) {
  std::string text = fmt::format("# {}\n\n", run.title);
  for (const auto& [key, value] : run.environment) text += fmt::format("- {}: {}\n", key, value);
  if (!run.method.empty()) text += "\n";
  for (const std::string& sentence : run.method) text += sentence + "\n";
  text += "\n## Scores\n\n";
  for (const Score& s : scores(run)) text += score_line(s, run.reference);
  for (const Score& s : best_peer_scores(run)) text += score_line(s, "the fastest peer of each shape");
  for (const Chart& chart : charts(run))
    if (chart.lines) text += "\n" + table(chart);
  text +=
      "\n## Times\n\n"
      "| shape | regime | types | contender | us | TFLOP/s | ratio | 95 % interval | verdict | MHz | W | "
      "configuration |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const ShapeResult& r : run.results)
    for (const Entry& entry : r.entries) text += table_line(run, r, entry);
  text += energy_table(run);
  if (!run.not_run.empty()) text += "\nNot run for lack of time:";
  for (const std::string& shape : run.not_run) text += fmt::format(" {}", shape);
  if (!run.not_run.empty()) text += "\n";
  return text;
}

std::string json(const RunResult& run) {
  Json json = {{"environment", run.environment}, {"method", run.method},     {"reference", run.reference},
               {"scores", Json::array()},        {"results", Json::array()}, {"not_run", run.not_run}};
  for (const Score& s : scores(run)) json["scores"].push_back(to_json(s));
  for (const Score& s : best_peer_scores(run)) json["best_peer_scores"].push_back(to_json(s));
  for (const ShapeResult& r : run.results) json["results"].push_back(to_json(run, r));
  return json.dump(1) + "\n";
}

std::string progress_lines(const ShapeResult& r, const std::string& reference) {
  std::string text;
  for (const Entry& e : r.entries) {
    text += fmt::format("{} {}: {} ", name(r.regime), shape_name(r), e.contender);
    if (!e.left_out.empty()) {
      text += fmt::format("left out: {}\n", e.left_out);
    } else if (!e.wrong.empty()) {
      text += fmt::format("WRONG: {}\n", e.wrong);
    } else if (!e.counts()) {
      text += "no time left\n";
    } else {
      const EntrySummary s = summary(r, e, reference, 0);
      text += fmt::format("{:.2f} us, {:.1f} TFLOP/s", s.microseconds, s.tflops);
      if (s.ratio)
        text += fmt::format(", {:.3f} x {}, {}", s.ratio->median, reference, name(verdict(*s.ratio)));
      if (s.sm_mhz > 0) text += fmt::format(", {:.0f} MHz, {:.0f} W", s.sm_mhz, s.watts);
      if (e.joules > 0) text += fmt::format(", {:.4g} J", e.joules);
      text += fmt::format(" ({})\n", e.configuration);
    }
  }
  return text;
}

}  // namespace ptxbuilder::bench
