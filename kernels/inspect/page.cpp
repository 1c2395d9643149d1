#include "kernels/inspect/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

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
[data-pair] { cursor: pointer; } .sides .alone .dim::after { content: " \25cf"; } .marked, :target { background: var(--mark); }
figure { margin: 0; overflow-x: auto; } svg { max-width: 100%; height: auto; } svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(22rem, 100%), 1fr)); gap: 0 1.5rem; }
table { border-collapse: collapse; width: 100%; } td { padding: .1rem .6rem .1rem 0; vertical-align: top; overflow-wrap: anywhere; }
td:first-child { width: 55%; } ol, ul { padding-left: 1.6rem; margin: .2rem 0; } li { overflow-wrap: anywhere; }
summary { cursor: pointer; } a { color: var(--copy); }
@media (max-width: 50rem) { .sides { grid-template-columns: 1fr; } .ptx { max-height: 60vh; } }
)";

std::string expected(const Sum& bytes) {
  return bytes.is_constant() ? fmt::format("{} B", bytes.constant) : "expects bytes";
}

}  // namespace

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

std::string drawing(const KernelAnalysis& kernel) {
  constexpr int kColumn = 170, kRow = 44, kTop = 64, kLeft = 130;
  const auto& roles = kernel.portrait.roles;
  const int columns = std::max(1, static_cast<int>(roles.size()));
  const int width = kLeft + columns * kColumn,
            height = kTop + kRow * static_cast<int>(kernel.portrait.barriers.size()) + 10;
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
  for (const BarrierArray& barrier : kernel.portrait.barriers) {
    svg += fmt::format("<text x=4 y={}>{} {}</text><text x=4 y={} class=dim>{} arrival{}</text>\n", y,
                       barrier.count, escaped(barrier.name), y + 14,
                       barrier.arrivals ? fmt::format("{}", *barrier.arrivals) : "?",
                       barrier.arrivals == 1 ? "" : "s");
    std::map<int, std::pair<std::string, bool>> fill;  // indexed by role: its operations, and whether they
                                                       // act across the cluster
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

std::vector<int> marked(const KernelAnalysis& kernel, const Mainloop& loop) {
  std::vector<int> all;
  for (int block : kernel.graph.loops[at(loop.loop)].blocks)
    for (int i = kernel.graph.blocks[at(block)].first; i < kernel.graph.blocks[at(block)].last; ++i)
      if (!class_of(kernel.code.operations[at(i)]).empty()) all.push_back(i);
  return all;
}

std::string lines(const KernelAnalysis& kernel, const std::string& ptx, char letter, const Mainloop& loop,
                  const std::map<int, int>* pair_of) {
  std::map<uint32_t, int> by_line;  // the operation that begins on each line
  for (int i : marked(kernel, loop)) by_line.emplace(kernel.code.operations[at(i)].at.line, i);
  std::istringstream text(ptx);
  std::string all;
  uint32_t number = 0;
  for (std::string line; std::getline(text, line);) {
    if (++number < loop.first_line || number > loop.last_line) continue;
    std::replace(line.begin(), line.end(), '\t', ' ');
    const auto found = by_line.find(number);
    std::string attributes;
    if (found != by_line.end()) {
      const auto pair = pair_of ? pair_of->find(found->second) : std::map<int, int>::const_iterator();
      const bool has_partner = pair_of && pair != pair_of->end();
      attributes = fmt::format(" class=\"{}{}\"", class_of(kernel.code.operations[at(found->second)]),
                               pair_of && !has_partner ? " alone" : "");
      if (has_partner) attributes += fmt::format(" data-pair={}", pair->second);
    }
    all += fmt::format("<div id={}{}{}><span class=dim>{}</span>{}</div>", letter, number, attributes, number,
                       escaped(line));
  }
  return fmt::format("<div class=ptx>{}</div>", all);
}

std::string role_of(const KernelAnalysis& kernel, const Mainloop& loop) {
  return loop.role == kNone ? "all roles" : kernel.portrait.roles[at(loop.role)].name;
}

std::string page(const std::string& title, const std::string& heading, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width, "
      "initial-scale=1\">\n<title>{}</title>\n<style>{}</style></head>\n<body>\n"
      "<h1>{}</h1>\n{}</body></html>\n",
      escaped(title), kStyle, escaped(heading), body);
}

}  // namespace ptxbuilder::command
