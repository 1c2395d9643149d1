#include "kernels/inspect/diff_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "ptxbuilder/analysis/alignment.h"

namespace ptxbuilder::command {
namespace {

using namespace analysis;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --dim: #656d76; --line: #d0d7de; --mark: #fff3bf;
  --tensor: #8250df; --copy: #0969da; --barrier: #bc4c00; --order: #cf222e; --memory: #1a7f37; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --dim: #8b949e; --line: #30363d; --mark: #4d3b00;
  --tensor: #d2a8ff; --copy: #79c0ff; --barrier: #ffa657; --order: #ff7b72; --memory: #7ee787; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 90rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
code { overflow-wrap: anywhere; }
code, .ptx { font-family: ui-monospace, monospace; font-size: 12.5px; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
.sides > * { min-width: 0; }
.difference { border-left: 4px solid var(--line); padding: .2rem .7rem; margin: .5rem 0; }
.result { border-color: var(--order); } .protocol { border-color: var(--barrier); } .pipeline { border-color: var(--tensor); }
.resources { border-color: var(--copy); }
.difference .sides { gap: .7rem; overflow-wrap: anywhere; }
.effect, .dim { color: var(--dim); }
.ptx { border: 1px solid var(--line); border-radius: 6px; overflow: auto; max-height: 75vh; white-space: pre; padding: .3rem 0; }
.ptx div { padding: 0 .6rem; width: max-content; min-width: 100%; } .ptx .dim { display: inline-block; min-width: 3.5rem; user-select: none; }
.tensor { color: var(--tensor); } .copy { color: var(--copy); } .barrier { color: var(--barrier); } .order { color: var(--order); }
.memory { color: var(--memory); }
[data-pair] { cursor: pointer; } .alone .dim::after { content: " \25cf"; } .marked, :target { background: var(--mark); }
figure { margin: 0; overflow-x: auto; } svg { max-width: 100%; height: auto; } svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
summary { cursor: pointer; } a { color: var(--copy); }
@media (max-width: 50rem) { .sides { grid-template-columns: 1fr; } .ptx { max-height: 60vh; } }
)";

// A line shows its partner on the other side; a tap brings it into view.
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

std::string escaped(std::string_view text) {
  std::string all;
  for (char c : text) switch (c) {
      case '<':
        all += "&lt;";
        break;
      case '>':
        all += "&gt;";
        break;
      case '&':
        all += "&amp;";
        break;
      case '"':
        all += "&quot;";
        break;
      default:
        all += c;
    }
  return all;
}

// What an instruction is drawn as; "" for arithmetic.
std::string_view class_of(const Operation& o) {
  if (o.is_wgmma() || o.is("mma")) return "tensor";
  if (o.is("cp")) return "copy";
  if (o.is("mbarrier")) return "barrier";
  if (o.is("wgmma") || o.is("fence") || o.is("bar") || o.is("barrier") || o.is("griddepcontrol") ||
      o.is("setmaxnreg"))
    return "order";
  if (o.is("ld") || o.is("st") || o.is("ldmatrix") || o.is("stmatrix") || o.is("atom") || o.is("red"))
    return "memory";
  return "";
}

// --- What differs ---

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
  std::map<std::string, std::string> others;  // by region
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

// --- Roles and barriers ---

std::string expected(const Sum& bytes) {
  return bytes.is_constant() ? fmt::format("{} B", bytes.constant) : "expects bytes";
}

// A line for each role, and for each array of barriers an arrow from who fills a phase to who waits for it.
std::string drawing(const PageSide& side) {
  constexpr int kColumn = 170, kRow = 44, kTop = 64, kLeft = 130;
  const auto& roles = side.kernel.portrait.roles;
  const int columns = std::max(1, static_cast<int>(roles.size()));
  const int width = kLeft + columns * kColumn,
            height = kTop + kRow * static_cast<int>(side.kernel.portrait.barriers.size()) + 10;
  auto x = [&](int role) { return kLeft + role * kColumn + kColumn / 2; };
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" width={} height={} role=img aria-label=\"roles and barriers\">\n", width,
      height, width, height);
  for (int r = 0; at(r) < roles.size(); ++r) {
    const Role& role = roles[at(r)];
    std::string more = role.registers ? fmt::format("{} registers", *role.registers) : "";
    svg += fmt::format(
        "<rect x={} y=6 width={} height=40 rx=6 fill=none stroke=\"var(--line)\"/>"
        "<text x={} y=23 text-anchor=middle>{}, {} warp{}</text><text x={} y=39 text-anchor=middle "
        "class=dim>{}</text>"
        "<line x1={} y1=46 x2={} y2={} stroke=\"var(--line)\"/>\n",
        x(r) - 78, 156, x(r), escaped(role.name), role.warps.size(), role.warps.size() == 1 ? "" : "s", x(r),
        more, x(r), x(r), height - 4);
  }
  int y = kTop + 14;
  for (const BarrierArray& barrier : side.kernel.portrait.barriers) {
    svg += fmt::format("<text x=4 y={}>{} {}</text><text x=4 y={} class=dim>{} arrival{}</text>\n", y,
                       barrier.count, escaped(barrier.name), y + 14,
                       barrier.arrivals ? fmt::format("{}", *barrier.arrivals) : "?",
                       barrier.arrivals == 1 ? "" : "s");
    std::map<int, std::pair<std::string, bool>> fill;  // by role: what it does; whether across the cluster
    std::map<int, bool> wait;
    for (const BarrierUse& use : barrier.uses) {
      if (use.role == kNone) continue;
      if (use.kind == BarrierUse::Kind::waits) {
        wait[use.role] = true;
        continue;
      }
      auto& [what, remote] = fill[use.role];
      remote |= use.remote;
      const std::string word = use.kind == BarrierUse::Kind::expects  ? expected(use.amount)
                               : use.kind == BarrierUse::Kind::copies ? "copies"
                                                                      : "arrives";
      if (what.find(word) == std::string::npos) what += (what.empty() ? "" : ", ") + word;
    }
    for (const auto& [role, done] : fill)
      svg += fmt::format(
          "<circle cx={} cy={} r=4 fill=\"var(--barrier)\"/><text x={} y={} text-anchor=middle "
          "class=dim>{}{}</text>\n",
          x(role), y, x(role), y - 8, escaped(done.first.substr(0, 26)), done.second ? ", remote" : "");
    for (const auto& [role, is] : wait) {
      svg += fmt::format("<rect x={} y={} width=9 height=9 fill=\"var(--copy)\"/>\n", x(role) - 4, y - 4);
      for (const auto& [from, done] : fill) {
        if (from == role) continue;
        const int sign = x(role) > x(from) ? 1 : -1, end = x(role) - 7 * sign;
        svg += fmt::format("<path d=\"M{} {}H{}m{} -4l{} 4l{} 4\" fill=none stroke=\"var(--barrier)\"{}/>\n",
                           x(from) + 5 * sign, y, end, -6 * sign, 6 * sign, -6 * sign,
                           done.second ? " stroke-dasharray=\"5 3\"" : "");
      }
    }
    y += kRow;
  }
  return fmt::format("<figure>{}</svg></figure>", svg);
}

// --- Loops ---

// The operations of a loop that are more than arithmetic, in order.
std::vector<int> marked(const PageSide& side, const Mainloop& loop) {
  std::vector<int> all;
  for (int block : side.kernel.graph.loops[at(loop.loop)].blocks)
    for (int i = side.kernel.graph.blocks[at(block)].first; i < side.kernel.graph.blocks[at(block)].last; ++i)
      if (!class_of(side.kernel.code.operations[at(i)]).empty()) all.push_back(i);
  return all;
}

// Pairs of operations whose mnemonics begin alike, such as try_wait, in the order of both.
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

// The PTX of a loop. `pair_of` numbers the operations that have a partner.
std::string lines(const PageSide& side, char letter, const Mainloop& loop,
                  const std::map<int, int>& pair_of) {
  std::map<uint32_t, int> by_line;  // the operation that begins there
  for (int i : marked(side, loop)) by_line.emplace(side.kernel.code.operations[at(i)].at.line, i);
  std::istringstream text(side.ptx);
  std::string all;
  uint32_t number = 0;
  for (std::string line; std::getline(text, line);) {
    if (++number < loop.first_line || number > loop.last_line) continue;
    std::replace(line.begin(), line.end(), '\t', ' ');
    const auto found = by_line.find(number);
    std::string attributes;
    if (found != by_line.end()) {
      const auto pair = pair_of.find(found->second);
      attributes = fmt::format(" class=\"{}{}\"", class_of(side.kernel.code.operations[at(found->second)]),
                               pair == pair_of.end() ? " alone" : "");
      if (pair != pair_of.end()) attributes += fmt::format(" data-pair={}", pair->second);
    }
    all += fmt::format("<div id={}{}{}><span class=dim>{}</span>{}</div>", letter, number, attributes, number,
                       escaped(line));
  }
  return fmt::format("<div class=ptx>{}</div>", all);
}

std::string role_of(const PageSide& side, const Mainloop& loop) {
  return loop.role == kNone ? "all roles" : side.kernel.portrait.roles[at(loop.role)].name;
}

std::string loops(const PageSide& a, const PageSide& b) {
  std::string all;
  std::vector<bool> met(b.kernel.portrait.loops.size(), false);
  int number = 0;
  for (const Mainloop& x : a.kernel.portrait.loops) {
    size_t j = 0;
    while (j < met.size() && (met[j] || role_of(b, b.kernel.portrait.loops[j]) != role_of(a, x))) ++j;
    std::map<int, int> of_a, of_b;
    std::string other = "<p class=dim>B has no such loop.</p>";
    if (j < met.size()) {
      met[j] = true;
      const Mainloop& y = b.kernel.portrait.loops[j];
      for (const auto& [p, q] : pairs(a, marked(a, x), b, marked(b, y))) of_a[p] = of_b[q] = ++number;
      other = lines(b, 'B', y, of_b);
    }
    all += fmt::format("<h3>Loop of {}</h3><div class=sides><div>{}</div><div>{}</div></div>\n",
                       escaped(role_of(a, x)), lines(a, 'A', x, of_a), other);
  }
  for (size_t j = 0; j < met.size(); ++j)
    if (!met[j])
      all += fmt::format(
          "<h3>Loop of {}</h3><div class=sides><p class=dim>A has no such loop.</p><div>{}</div></div>\n",
          escaped(role_of(b, b.kernel.portrait.loops[j])), lines(b, 'B', b.kernel.portrait.loops[j], {}));
  return all.empty() ? "<p class=dim>Neither has a loop that copies or multiplies.</p>" : all;
}

std::string title(const PageSide& side, char letter) {
  return fmt::format("<div><b>{}</b> {}<br><code>{}</code></div>", letter, escaped(side.from),
                     escaped(side.kernel.code.name));
}

}  // namespace

std::string diff_page(const PageSide& a, const PageSide& b, const std::vector<Difference>& differences) {
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width, "
      "initial-scale=1\">\n<title>{} and {}</title>\n<style>{}</style></head>\n<body>\n<h1>How two kernels "
      "differ</h1>\n"
      "<div class=sides>{}{}</div>\n<h2>What differs</h2>\n{}<h2>Roles and barriers</h2>\n"
      "<p class=dim>An arrow runs from who fills a phase (round) to who waits for it (square); across the "
      "cluster it is "
      "dashed.</p>\n<div class=sides>{}{}</div>\n<h2>Loops</h2>\n<p class=dim><span class=tensor>tensor "
      "core</span> "
      "<span class=copy>copy</span> <span class=barrier>mbarrier</span> <span class=order>order</span> "
      "<span class=memory>memory</span>. A dot marks what has no partner on the other side; a tap on any "
      "other line shows "
      "its partner.</p>\n{}\n<script>{}</script>\n</body></html>\n",
      escaped(a.kernel.code.name), escaped(b.kernel.code.name), kStyle, title(a, 'A'), title(b, 'B'),
      words(differences), drawing(a), drawing(b), loops(a, b), kScript);
}

}  // namespace ptxbuilder::command
