#include "kernels/inspect/diff_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "kernels/inspect/page.h"
#include "ptxbuilder/analysis/alignment.h"

namespace ptxbuilder::command {
namespace {

using namespace analysis;

// Hovering over a line highlights the corresponding line on the other side; a tap scrolls that line into
// view.
constexpr std::string_view kScript = R"(
const partners = line => document.querySelectorAll(`[data-pair="${line.dataset.pair}"]`);
for (const line of document.querySelectorAll('[data-pair]')) {
  line.onmouseenter = () => partners(line).forEach(l => l.classList.add('marked'));
  line.onmouseleave = () => partners(line).forEach(l => l.classList.remove('marked'));
  line.onclick = () => partners(line).forEach(l => { if (l !== line) {
    const box = l.closest('.ptx');
    box.scrollTop = l.offsetTop - box.offsetTop - box.clientHeight / 2;
  } });
}
)";

// --- Differences ---

std::string cell(char side, const std::string& value, uint32_t line) {
  const std::string where = line ? fmt::format(" <a href=\"#{}{}\">line {}</a>", side, line, line) : "";
  return fmt::format("<div><b>{}</b> {}{}</div>", side, value.empty() ? "nothing" : escaped(value), where);
}

std::string told(const Difference& d) {
  return fmt::format(
      "<div class=\"difference {}\"><b>{}: {}{}</b> <span class=dim>{}</span><div "
      "class=sides>{}{}</div>{}</div>\n",
      name(d.weight), escaped(d.region), escaped(d.event),
      d.attribute.empty() ? "" : ", " + escaped(d.attribute), name(d.weight), cell('A', d.a, d.line_a),
      cell('B', d.b, d.line_b),
      d.effect.empty() ? "" : fmt::format("<div class=effect>may mean {}</div>", escaped(d.effect)));
}

std::string words(const std::vector<Difference>& differences) {
  if (differences.empty()) return "<p>No difference of meaning.</p>\n";
  std::string facts;
  std::map<std::string, std::string> others;  // indexed by region
  std::map<std::string, int> numbers;
  for (const Difference& d : differences) {
    if (d.is_fact)
      facts += told(d);
    else
      others[d.region] += told(d), ++numbers[d.region];
  }
  if (!others.empty()) facts += "<h3>Instruction by instruction</h3>\n";
  for (const auto& [region, all] : others)
    facts += fmt::format("<details{}><summary>{}: {}</summary>{}</details>\n",
                         differences.size() <= 12 ? " open" : "", escaped(region), numbers[region], all);
  return facts;
}

// --- Loops ---

// Pairs the operations of two loops in order. The mnemonics of a pair begin with the same words, such as
// try_wait.
std::vector<std::pair<int, int>> pairs(const PageSide& a, const std::vector<int>& x, const PageSide& b,
                                       const std::vector<int>& y) {
  auto same = [&](size_t i, size_t j) -> uint32_t {
    const auto &p = a.kernel.code.operations[at(x[i])].words, &q = b.kernel.code.operations[at(y[j])].words;
    return p[0] == q[0] && (p.size() < 2 || q.size() < 2 || p[1] == q[1]);
  };
  std::vector<std::pair<int, int>> found;
  for (const auto& [i, j] : align(x.size(), y.size(), same)) found.emplace_back(x[i], y[j]);
  return found;
}

std::string loops(const PageSide& a, const PageSide& b) {
  std::string all;
  std::vector<bool> met(b.kernel.portrait.loops.size(), false);
  int number = 0;
  for (const Mainloop& x : a.kernel.portrait.loops) {
    size_t j = 0;
    while (j < met.size() &&
           (met[j] || role_of(b.kernel, b.kernel.portrait.loops[j]) != role_of(a.kernel, x)))
      ++j;
    std::map<int, int> of_a, of_b;
    std::string other = "<p class=dim>B has no such loop.</p>";
    if (j < met.size()) {
      met[j] = true;
      const Mainloop& y = b.kernel.portrait.loops[j];
      for (const auto& [p, q] : pairs(a, marked(a.kernel, x), b, marked(b.kernel, y)))
        of_a[p] = of_b[q] = ++number;
      other = lines(b.kernel, b.ptx, 'B', y, &of_b);
    }
    all += fmt::format("<h3>Loop of {}</h3><div class=sides><div>{}</div><div>{}</div></div>\n",
                       escaped(role_of(a.kernel, x)), lines(a.kernel, a.ptx, 'A', x, &of_a), other);
  }
  const std::map<int, int> none;
  for (size_t j = 0; j < met.size(); ++j)
    if (!met[j])
      all += fmt::format(
          "<h3>Loop of {}</h3><div class=sides><p class=dim>A has no such loop.</p><div>{}</div></div>\n",
          escaped(role_of(b.kernel, b.kernel.portrait.loops[j])),
          lines(b.kernel, b.ptx, 'B', b.kernel.portrait.loops[j], &none));
  return all.empty() ? "<p class=dim>Neither has a loop that copies or multiplies.</p>" : all;
}

std::string title(const PageSide& side, char letter) {
  return fmt::format("<div><b>{}</b> {}<br><code>{}</code></div>", letter, escaped(side.from),
                     escaped(side.kernel.code.name));
}

}  // namespace

std::string diff_page(const PageSide& a, const PageSide& b, const std::vector<Difference>& differences) {
  return page(
      fmt::format("{} and {}", a.kernel.code.name, b.kernel.code.name), "How two kernels differ",
      fmt::format("<div class=sides>{}{}</div>\n<h2>What differs</h2>\n{}<h2>Roles and barriers</h2>\n{}<div "
                  "class=sides>{}{}</div>\n<h2>Loops</h2>\n<p class=dim>{} A dot marks an operation without "
                  "a partner on the other side; a tap on any other line shows its "
                  "partner.</p>\n{}\n<script>{}</script>\n",
                  title(a, 'A'), title(b, 'B'), words(differences), arrows_explained, drawing(a.kernel),
                  drawing(b.kernel), colours_explained, loops(a, b), kScript));
}

}  // namespace ptxbuilder::command
