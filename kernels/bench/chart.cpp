#include "kernels/bench/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptxbuilder/error.h"

namespace ptxbuilder::bench {
namespace {

// The layout of a chart, in pixels.
constexpr double kLeft = 70, kTop = 40, kPlotHeight = 260, kBottom = 120, kLegend = 210;
constexpr double kHeight = kTop + kPlotHeight + kBottom;
// The colours of the series. Most colour-blind readers can distinguish them (Okabe and Ito).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#000000"};

std::string escaped(const std::string& text) {
  std::string safe;
  for (char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else
      safe += c;
  }
  return safe;
}

// Returns the smallest number that is 1, 2 or 5 times a power of ten and divides the range up to `most` into
// at most six steps.
double tick_step(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 6)));
  for (double factor : {1.0, 2.0, 5.0})
    if (most / (factor * power) <= 6) return factor * power;
  return 10 * power;
}

// The frame of a chart. Maps values and labels to positions.
class Plot {
 public:
  Plot(const Chart& chart, double width) : chart_(chart), width_(width - kLeft - kLegend) {
    double most = 0;
    for (const Series& s : chart.series)
      for (const auto& value : s.values) most = std::max(most, value.value_or(0));
    step_ = tick_step(most > 0 ? most : 1);
    top_ = std::max(1.0, std::ceil(most / step_)) * step_;
  }

  std::string text() const {
    std::string all =
        fmt::format("<text x=\"{}\" y=\"20\" font-weight=\"bold\">{}</text>\n", kLeft, escaped(chart_.title));
    all += axes();
    for (size_t i = 0; i < chart_.series.size(); ++i) all += legend(i) + (chart_.lines ? line(i) : bars(i));
    return all;
  }

 private:
  double slot() const { return width_ / static_cast<double>(std::max<size_t>(chart_.labels.size(), 1)); }
  double x(size_t label) const { return kLeft + (static_cast<double>(label) + 0.5) * slot(); }
  double y(double value) const { return kTop + kPlotHeight * (1 - value / top_); }
  static const char* colour(size_t series) { return kColours[series % std::size(kColours)]; }

  std::string axes() const {
    std::string all;
    for (int i = 0; static_cast<double>(i) * step_ <= top_ * 1.0001; ++i) {
      const double value = static_cast<double>(i) * step_;
      all += fmt::format(
          "<line x1=\"{0}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ccc\"/>"
          "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
          kLeft, kLeft + width_, y(value), kLeft - 6, y(value) + 4, value);
    }
    for (size_t i = 0; i < chart_.labels.size(); ++i) {
      const double at = kTop + kPlotHeight + 14;
      const bool slanted = !chart_.lines;
      all += fmt::format("<text x=\"{0:.1f}\" y=\"{1}\" text-anchor=\"{2}\"{3}>{4}</text>\n", x(i), at,
                         slanted ? "end" : "middle",
                         slanted ? fmt::format(" transform=\"rotate(-40 {:.1f} {})\"", x(i), at) : "",
                         escaped(chart_.labels[i]));
    }
    all += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", kLeft + width_ / 2,
                       kTop + kPlotHeight + (chart_.lines ? 34 : 110), escaped(chart_.horizontal));
    all += fmt::format(
        "<text x=\"{0}\" y=\"{1}\" transform=\"rotate(-90 {0} {1})\" "
        "text-anchor=\"middle\">{2}</text>\n",
        18, kTop + kPlotHeight / 2, escaped(chart_.vertical));
    return all;
  }

  std::string legend(size_t i) const {
    const double at = kTop + 18 * static_cast<double>(i);
    return fmt::format(
        "<rect x=\"{0:.1f}\" y=\"{1}\" width=\"12\" height=\"12\" fill=\"{2}\"/>"
        "<text x=\"{3:.1f}\" y=\"{4}\">{5}</text>\n",
        kLeft + width_ + 14, at, colour(i), kLeft + width_ + 32, at + 10, escaped(chart_.series[i].name));
  }

  std::string line(size_t i) const {
    std::string points, marks;
    const Series& series = chart_.series[i];
    for (size_t j = 0; j < series.values.size(); ++j) {
      if (!series.values[j]) continue;
      const double at = y(*series.values[j]);
      points += fmt::format("{:.1f},{:.1f} ", x(j), at);
      marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>", x(j), at, colour(i));
    }
    return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>{}\n", points,
                       colour(i), marks);
  }

  std::string bars(size_t i) const {
    const double width = 0.8 * slot() / static_cast<double>(chart_.series.size());
    const Series& series = chart_.series[i];
    std::string all;
    for (size_t j = 0; j < series.values.size(); ++j) {
      if (!series.values[j]) continue;
      const double at = y(*series.values[j]);
      all += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
                         x(j) - 0.4 * slot() + static_cast<double>(i) * width, at, width,
                         kTop + kPlotHeight - at, colour(i));
    }
    return all;
  }

  const Chart& chart_;
  double width_, step_, top_;
};

using Group = std::vector<const ShapeResult*>;  // the results that one chart shows

bool on_a_line(const ShapeResult& x, const ShapeResult& y) {
  return axis_of(x.problem).rest == axis_of(y.problem).rest && type_text(x.problem) == type_text(y.problem);
}

bool over_axis(const Group& group) {
  return group.size() > 1 && std::all_of(group.begin(), group.end(),
                                         [&](const ShapeResult* r) { return on_a_line(*r, *group[0]); });
}

std::vector<std::string> contenders_of(const Group& group) {
  std::vector<std::string> names;
  for (const ShapeResult* r : group)
    for (const Entry& e : r->entries)
      if (std::find(names.begin(), names.end(), e.contender) == names.end()) names.push_back(e.contender);
  return names;
}

// Returns a chart of the contenders that took part and are in `wanted`; if `wanted` is empty, of all
// contenders that took part.
Chart chart_of(const RunResult& run, const Group& group, const std::string& title,
               const std::vector<std::string>& wanted) {
  Chart chart;
  const Problem& first = group[0]->problem;
  const Axis axis = axis_of(first);
  chart.lines = over_axis(group);
  const bool alike = std::all_of(group.begin(), group.end(), [&](const ShapeResult* r) {
    return type_text(r->problem) == type_text(first);
  });
  chart.title = fmt::format("{}{}{}, {}{}", title, chart.lines ? axis.rest + ", " : "",
                            alike ? type_text(first) : "others", name(group[0]->regime),
                            group[0]->warm ? ", warm" : "");
  chart.horizontal = chart.lines ? axis.name : axis.all;
  chart.vertical = "TFLOP/s";
  for (const ShapeResult* r : group)
    chart.labels.push_back(chart.lines ? axis_of(r->problem).value : size_text(r->problem));
  for (const std::string& name : contenders_of(group)) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
    Series series;
    series.name = name;
    bool any = false;
    for (const ShapeResult* r : group) {
      std::optional<double> value, ratio;
      if (const Entry* e = counting_entry(*r, name)) {
        const EntrySummary s = summary(*r, *e, reference_of(run, *r), run.multiprocessors);
        value = s.tflops;
        if (s.ratio) ratio = s.ratio->median;
      }
      any = any || value;
      series.values.push_back(value);
      series.ratios.push_back(ratio);
    }
    if (any) chart.series.push_back(std::move(series));
  }
  return chart;
}

// Divides the results into groups, one for each chart. Results that differ only in K form a separate group,
// which is drawn as lines, and all other results share a chart.
std::vector<Group> groups_of(const RunResult& run) {
  std::vector<Group> groups;
  for (const ShapeResult& r : run.results) {
    auto alike = [&](const ShapeResult& x) { return x.regime == r.regime && x.warm == r.warm; };
    auto has_line = [&](const ShapeResult& x) {
      return axis_of(x.problem).splits &&
             std::any_of(run.results.begin(), run.results.end(),
                         [&](const ShapeResult& y) { return &x != &y && alike(y) && on_a_line(x, y); });
    };
    const bool on_one = has_line(r);
    auto same = [&](const Group& g) {
      return alike(*g[0]) && (on_one ? on_a_line(*g[0], r) : !has_line(*g[0]));
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(groups.end(), Group{});
    group->push_back(&r);
  }
  return groups;
}

}  // namespace

std::string svg(const std::vector<Chart>& charts) {
  size_t labels = 0;
  for (const Chart& c : charts) {
    labels = std::max(labels, c.labels.size());
    for (const Series& s : c.series)
      if (s.values.size() != c.labels.size())
        throw Error(fmt::format("svg: series '{}' has {} values for {} labels", s.name, s.values.size(),
                                c.labels.size()));
  }
  const double width = kLeft + kLegend + std::max(480.0, 44.0 * static_cast<double>(labels));
  const double height = kHeight * static_cast<double>(std::max<size_t>(charts.size(), 1));
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height);
  for (size_t i = 0; i < charts.size(); ++i)
    text += fmt::format("<g transform=\"translate(0 {:.0f})\">\n{}</g>\n", kHeight * static_cast<double>(i),
                        Plot(charts[i], width).text());
  return text + "</svg>\n";
}

std::string table(const Chart& chart) {
  std::string text = fmt::format("{}, {}", chart.title, chart.vertical);
  const bool ratios = std::any_of(chart.series.begin(), chart.series.end(), [](const Series& s) {
    return std::any_of(s.ratios.begin(), s.ratios.end(), [](const auto& r) { return r.has_value(); });
  });
  text += fmt::format("{}:\n\n| {} |", ratios ? " (ratio)" : "", chart.horizontal);
  std::string rule = "|---|";
  for (const std::string& label : chart.labels) {
    text += fmt::format(" {} |", label);
    rule += "---|";
  }
  text += fmt::format("\n{}\n", rule);
  for (const Series& series : chart.series) {
    text += fmt::format("| {} |", series.name);
    for (size_t i = 0; i < series.values.size(); ++i) {
      text += series.values[i] ? fmt::format(" {:.1f}", *series.values[i]) : " -";
      if (i < series.ratios.size() && series.ratios[i]) text += fmt::format(" ({:.2f})", *series.ratios[i]);
      text += " |";
    }
    text += "\n";
  }
  return text;
}

std::vector<Chart> charts(const RunResult& run) {
  std::vector<Chart> all;
  for (const Group& group : groups_of(run)) {
    std::vector<Chart> compared;
    if (over_axis(group)) {
      compared.push_back(chart_of(run, group, "Stages: ", {"gemm_multistage 1 stage", "gemm_multistage"}));
      compared.push_back(chart_of(
          run, group, "Schedules: ",
          {"gemm_multistage", "gemm_warp_specialized", "gemm_pingpong", "ptxbuilder", run.reference}));
    }
    // Omits charts that do not have both sides of a comparison.
    std::erase_if(compared, [&](const Chart& c) {
      return c.series.size() < 2 || std::all_of(c.series.begin(), c.series.end(),
                                                [&](const Series& s) { return s.name == run.reference; });
    });
    if (compared.size() < 2) compared = {chart_of(run, group, "", {})};
    all.insert(all.end(), compared.begin(), compared.end());
  }
  return all;
}

}  // namespace ptxbuilder::bench
