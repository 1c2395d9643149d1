#include "ptxbuilder/analysis/diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace ptxbuilder::analysis {
namespace {

// The longest common subsequence of kinds: pairs of places. It is quadratic, so what is equal at both ends is
// paired first, and of what is longer still, each event with the next one of its kind.
std::vector<std::pair<size_t, size_t>> aligned(const std::vector<Event>& a, const std::vector<Event>& b) {
  auto same = [](const Event& x, const Event& y) {
    return x.kind == y.kind && x.attributes.size() == y.attributes.size() &&
           std::equal(x.attributes.begin(), x.attributes.end(), y.attributes.begin(),
                      [](const auto& p, const auto& q) { return p.value == q.value; });
  };
  std::vector<std::pair<size_t, size_t>> head, tail;
  size_t first = 0, end_a = a.size(), end_b = b.size();
  while (first < end_a && first < end_b && same(a[first], b[first])) head.emplace_back(first, first), ++first;
  while (end_a > first && end_b > first && same(a[end_a - 1], b[end_b - 1]))
    tail.emplace_back(--end_a, --end_b);
  const size_t rows = end_a - first, columns = end_b - first;
  constexpr size_t kMostCells = 1 << 24;
  if (rows > 0 && columns > kMostCells / rows) {
    for (size_t i = first, j = first; i < end_a; ++i)
      for (size_t other = j; other < std::min(end_b, j + 64); ++other)
        if (a[i].kind == b[other].kind) {
          head.emplace_back(i, other);
          j = other + 1;
          break;
        }
    head.insert(head.end(), tail.rbegin(), tail.rend());
    return head;
  }
  // Equal kinds count 2, equal in all 3, so that of several the equal one is taken.
  std::vector<std::vector<uint32_t>> best(rows + 1, std::vector<uint32_t>(columns + 1, 0));
  auto worth = [&](size_t i, size_t j) -> uint32_t {
    const Event &x = a[first + i], &y = b[first + j];
    return x.kind != y.kind ? 0 : same(x, y) ? 3 : 2;
  };
  for (size_t i = rows; i-- > 0;)
    for (size_t j = columns; j-- > 0;) {
      best[i][j] = std::max(best[i + 1][j], best[i][j + 1]);
      if (const uint32_t w = worth(i, j)) best[i][j] = std::max(best[i][j], best[i + 1][j + 1] + w);
    }
  for (size_t i = 0, j = 0; i < rows && j < columns;) {
    const uint32_t w = worth(i, j);
    if (w && best[i][j] == best[i + 1][j + 1] + w)
      head.emplace_back(first + i++, first + j++);
    else if (best[i][j] == best[i + 1][j])
      ++i;
    else
      ++j;
  }
  head.insert(head.end(), tail.rbegin(), tail.rend());
  return head;
}

std::string all_of(const Event& e) {
  std::string text;
  for (const Event::Attribute& attribute : e.attributes)
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", attribute.name,
                        attribute.name.empty() ? "" : " ", attribute.value);
  return text.empty() ? "one" : text;
}

void compare(const Region& region, const Event& a, const Event& b, std::vector<Difference>& differences) {
  auto attribute_in = [](const Event& e, const std::string& name) -> const Event::Attribute* {
    const auto found = std::find_if(e.attributes.begin(), e.attributes.end(),
                                    [&](const Event::Attribute& x) { return x.name == name; });
    return found == e.attributes.end() ? nullptr : &*found;
  };
  for (const Event::Attribute& x : a.attributes) {
    const Event::Attribute* y = attribute_in(b, x.name);
    if (y && y->value == x.value) continue;
    // Of two weights the lighter one, with what it says.
    const Event::Attribute& lighter = y && y->weight > x.weight ? *y : x;
    differences.push_back({lighter.weight, region.name, a.kind, x.name, x.value, y ? y->value : "",
                           lighter.effect, a.line, b.line, region.is_fact});
  }
  for (const Event::Attribute& y : b.attributes)
    if (!attribute_in(a, y.name))
      differences.push_back(
          {y.weight, region.name, a.kind, y.name, "", y.value, y.effect, a.line, b.line, region.is_fact});
}

}  // namespace

std::vector<Difference> diff(const std::vector<Region>& a, const std::vector<Region>& b) {
  std::vector<Difference> differences;
  auto region_in = [](const std::vector<Region>& all, const std::string& name) -> const Region* {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Region& r) { return r.name == name; });
    return found == all.end() ? nullptr : &*found;
  };
  const Region nothing;
  std::vector<std::string> names;
  for (const auto* all : {&a, &b})
    for (const Region& r : *all)
      if (std::find(names.begin(), names.end(), r.name) == names.end()) names.push_back(r.name);
  for (const std::string& name : names) {
    const Region *in_a = region_in(a, name), *in_b = region_in(b, name);
    const Region& either = in_a ? *in_a : *in_b;
    const std::vector<Event>&x = (in_a ? *in_a : nothing).events, &y = (in_b ? *in_b : nothing).events;
    size_t i = 0, j = 0;
    auto lone = [&](const Event& e, bool of_a) {
      differences.push_back({e.weight, name, e.kind, "", of_a ? all_of(e) : "", of_a ? "" : all_of(e),
                             e.effect, of_a ? e.line : 0, of_a ? 0 : e.line, either.is_fact});
    };
    for (const auto& [p, q] : aligned(x, y)) {
      for (; i < p; ++i) lone(x[i], true);
      for (; j < q; ++j) lone(y[j], false);
      compare(either, x[p], y[q], differences);
      ++i, ++j;
    }
    for (; i < x.size(); ++i) lone(x[i], true);
    for (; j < y.size(); ++j) lone(y[j], false);
  }
  std::stable_sort(differences.begin(), differences.end(), [](const Difference& p, const Difference& q) {
    return std::pair(p.weight, !p.is_fact) < std::pair(q.weight, !q.is_fact);
  });
  return differences;
}

std::string text(const Difference& d) {
  auto side = [](const char* which, const std::string& value, uint32_t line) {
    return fmt::format("{} in {}{}", value.empty() ? "nothing" : value, which,
                       line ? fmt::format(" (line {})", line) : "");
  };
  std::string words =
      fmt::format("{}: {}{}: {}, {}", d.region, d.event, d.attribute.empty() ? "" : ", " + d.attribute,
                  side("A", d.a, d.line_a), side("B", d.b, d.line_b));
  if (!d.effect.empty()) words += fmt::format("; may mean {}", d.effect);
  return words;
}

std::string report(const std::vector<Difference>& differences, bool all) {
  // Of those that differ in the same way, the first is told.
  using Way = std::tuple<Weight, std::string, std::string, std::string>;
  std::map<Way, size_t> ways;
  std::map<std::string, std::map<std::string, size_t>> by_region;  // and event
  size_t facts = 0;
  for (const Difference& d : differences) {
    facts += d.is_fact;
    if (d.is_fact) continue;
    ++ways[{d.weight, d.region, d.event, d.attribute}];
    ++by_region[d.region][d.event];
  }
  constexpr size_t kMostWays = 16;
  const bool counts_only = !all && facts > 0 && ways.size() > kMostWays;
  std::string page;
  std::optional<Weight> weight;
  std::set<Way> told;
  for (const Difference& d : differences) {
    const Way way = {d.weight, d.region, d.event, d.attribute};
    if (!d.is_fact && !all && (counts_only || !told.insert(way).second)) continue;
    if (weight != d.weight) page += fmt::format("{}{}\n", page.empty() ? "" : "\n", name(d.weight));
    weight = d.weight;
    const size_t more = d.is_fact || all ? 0 : ways[way] - 1;
    page += fmt::format("  {}{}\n", text(d), more ? fmt::format("; and {} more such", more) : "");
  }
  if (counts_only) {
    page += fmt::format("\nin detail: {} more, which --all tells\n", differences.size() - facts);
    for (const auto& [region, events] : by_region) {
      std::vector<std::string> words;
      for (const auto& [event, times] : events) words.push_back(fmt::format("{} {}", times, event));
      page += fmt::format("  {}: {}\n", region, fmt::join(words, ", "));
    }
  }
  return page;
}

}  // namespace ptxbuilder::analysis
