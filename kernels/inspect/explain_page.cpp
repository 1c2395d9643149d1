#include "kernels/inspect/explain_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/inspect/page.h"

namespace ptxbuilder::command {
namespace {

using namespace analysis;

// Returns a link to the line of an operation, or plain text if the line is not in a loop, because the page
// shows only lines in loops.
std::string line_of(const KernelAnalysis& kernel, int operation) {
  const uint32_t line = kernel.code.operations[at(operation)].at.line;
  const std::vector<Mainloop>& loops = kernel.portrait.loops;
  const bool is_shown = std::any_of(loops.begin(), loops.end(), [&](const Mainloop& loop) {
    return loop.first_line <= line && line <= loop.last_line;
  });
  return is_shown ? fmt::format("<a href=\"#L{}\">line {}</a>", line, line) : fmt::format("line {}", line);
}

std::string facts(const std::vector<Region>& design) {
  std::string all;
  for (const Region& region : design) {
    if (region.events.empty()) continue;
    std::string rows;
    for (const Event& fact : region.events)
      rows += fmt::format("<tr><td class=dim>{}</td><td>{}</td></tr>\n", escaped(fact.kind),
                          escaped(fact.attributes[0].value));
    all += fmt::format("<section><h3>{}</h3><table>{}</table></section>\n", escaped(region.name), rows);
  }
  return fmt::format("<div class=facts>{}</div>\n", all);
}

std::string barriers(const KernelAnalysis& kernel) {
  std::string all;
  for (const BarrierArray& barrier : kernel.portrait.barriers) {
    std::string uses;
    for (const BarrierUse& use : barrier.uses)
      uses +=
          fmt::format("<li>{} {}{}, {}</li>\n",
                      use.role == kNone ? "some" : escaped(kernel.portrait.roles[at(use.role)].name),
                      name(use.kind), use.remote ? ", of another CTA" : "", line_of(kernel, use.operation));
    all += fmt::format("<details><summary>{} {} at <code>{}</code></summary><ul>{}</ul></details>\n",
                       barrier.count, escaped(barrier.name), escaped(kernel.values.text(barrier.base)), uses);
  }
  return all;
}

std::string loops(const KernelAnalysis& kernel, const std::string& ptx) {
  std::string all;
  for (const Mainloop& loop : kernel.portrait.loops) {
    std::string steps;
    for (const Step& step : loop.steps)
      steps += fmt::format("<li class=\"{}\">{}<code>{}</code> {}</li>\n",
                           class_of(kernel.code.operations[at(step.first)]),
                           step.times > 1 ? fmt::format("{} x ", step.times) : "", escaped(step.text),
                           line_of(kernel, step.first));
    all += fmt::format("<h3>Loop of {}</h3><div class=sides><ol>{}</ol><div>{}</div></div>\n",
                       escaped(role_of(kernel, loop)), steps, lines(kernel, ptx, 'L', loop));
  }
  return all.empty() ? "<p class=dim>It has no loop that copies or multiplies.</p>\n" : all;
}

std::string unknowns(const KernelAnalysis& kernel) {
  std::string all;
  for (const std::string& what : kernel.portrait.unknowns) all += fmt::format("<li>{}</li>\n", escaped(what));
  return all.empty() ? all : fmt::format("<h2>What could not be followed</h2>\n<ul>{}</ul>\n", all);
}

}  // namespace

std::string explain_page(const std::string& from, const std::string& ptx, const KernelAnalysis& kernel,
                         const std::vector<Region>& design) {
  const int64_t threads = kernel.portrait.threads;
  return page(
      kernel.code.name, "What a kernel does",
      fmt::format("<p><code>{}</code><br>{}{}</p>\n<h2>Design</h2>\n{}<h2>Roles and barriers</h2>\n{}{}\n{}"
                  "<h2>Loops</h2>\n<p class=dim>{}</p>\n{}{}",
                  escaped(kernel.code.name), escaped(from),
                  threads > 0 ? fmt::format(", {} threads", threads) : "", facts(design), arrows_explained,
                  drawing(kernel), barriers(kernel), colours_explained, loops(kernel, ptx),
                  unknowns(kernel)));
}

}  // namespace ptxbuilder::command
