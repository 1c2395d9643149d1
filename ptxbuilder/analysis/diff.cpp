#include "ptxbuilder/analysis/diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "ptxbuilder/analysis/alignment.h"

namespace ptxbuilder::analysis {
namespace {

using RegionPairs = std::vector<std::pair<size_t, size_t>>;

bool same(const Event& x, const Event& y) {
  return x.kind == y.kind &&
         std::equal(x.attributes.begin(), x.attributes.end(), y.attributes.begin(), y.attributes.end(),
                    [](const auto& p, const auto& q) { return p.value == q.value; });
}

// Pairs events of the same kind in order, so that the number of pairs of equal events is as large as
// possible. Because the search takes quadratic time, equal events at the start and at the end are paired
// first. If many events remain, each of them is paired with the next event of its kind.
RegionPairs aligned(const std::vector<Event>& a, const std::vector<Event>& b) {
  RegionPairs head, tail;
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
  } else {
    // Two events of the same kind have the weight 2, and two equal events have the weight 3, so that an equal
    // event is preferred to other events of its kind.
    const auto worth = [&](size_t i, size_t j) -> uint32_t {
      const Event &x = a[first + i], &y = b[first + j];
      return x.kind != y.kind ? 0 : same(x, y) ? 3 : 2;
    };
    for (const auto& [i, j] : align(rows, columns, worth)) head.emplace_back(first + i, first + j);
  }
  head.insert(head.end(), tail.rbegin(), tail.rend());
  return head;
}

// A range [first, end) of neighbouring events that may be in any order.
struct Run {
  size_t first, end;
};
std::vector<Run> runs_of(const std::vector<Event>& all) {
  std::vector<Run> runs;
  for (size_t i = 0; i < all.size();) {
    size_t end = i + 1;
    while (!all[i].any_order.empty() && end < all.size() && all[end].any_order == all[i].any_order) ++end;
    for (const Run run{i, end}; i < end; ++i) runs.push_back(run);
  }
  return runs;
}

// Pairs equal events in runs of events that may be in any order, regardless of their positions.
void pair_in_runs(const std::vector<Event>& a, const std::vector<Event>& b, RegionPairs& pairs) {
  const std::vector<Run> runs_a = runs_of(a), runs_b = runs_of(b);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const size_t end_a = runs_a[pairs[i].first].end, end_b = runs_b[pairs[i].second].end;
    for (size_t j = i + 1; j < pairs.size() && pairs[j].first < end_a && pairs[j].second < end_b &&
                           !same(a[pairs[i].first], b[pairs[i].second]);
         ++j)
      if (same(a[pairs[i].first], b[pairs[j].second])) std::swap(pairs[i].second, pairs[j].second);
  }
}

std::string all_of(const Event& e) {
  std::string text;
  for (const Event::Attribute& attribute : e.attributes)
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", attribute.name,
                        attribute.name.empty() ? "" : " ", attribute.value);
  return text.empty() ? "one" : text;
}

// Returns the full description of an event. Two events are equal if their descriptions are equal.
std::string in_full(const Event& e) {
  std::string text = e.kind;
  for (const Event::Attribute& attribute : e.attributes) text += fmt::format("\n{}", attribute.value);
  return text;
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
    // The difference gets the less serious of the two weights.
    const Event::Attribute& lighter = y && y->weight > x.weight ? *y : x;
    differences.push_back({lighter.weight, region.name, a.kind, x.name, x.value, y ? y->value : "",
                           lighter.effect, a.line, b.line, region.is_fact});
  }
  for (const Event::Attribute& y : b.attributes)
    if (!attribute_in(a, y.name))
      differences.push_back(
          {y.weight, region.name, a.kind, y.name, "", y.value, y.effect, a.line, b.line, region.is_fact});
}

// Returns the position of event i, such as "after wgmma.fence".
std::string place_of(const std::vector<Event>& all, size_t i) {
  return i == 0 ? "at the start" : fmt::format("after {}", all[i - 1].kind);
}

// Reports the events without a partner. Equal events at different positions are reported as one difference,
// or not at all if they may be in any order.
void find_lone(const Region& region, const std::vector<Event>& a, const std::vector<Event>& b,
               const RegionPairs& pairs, std::vector<Difference>& differences) {
  std::vector<size_t> lone_a;
  std::map<std::string, std::set<size_t>> lone_b;  // events of b, indexed by kind and attributes
  std::set<size_t> paired_a, paired_b;
  for (const auto& [p, q] : pairs) paired_a.insert(p), paired_b.insert(q);
  for (size_t j = 0; j < b.size(); ++j)
    if (!paired_b.contains(j)) lone_b[in_full(b[j])].insert(j);
  const std::vector<Run> runs_a = runs_of(a), runs_b = runs_of(b);
  std::set<std::pair<size_t, size_t>> paired_runs;
  for (const auto& [p, q] : pairs) paired_runs.emplace(runs_a[p].first, runs_b[q].first);
  const auto is_one_run = [&](size_t i, size_t j) {
    return paired_runs.contains({runs_a[i].first, runs_b[j].first});
  };
  for (size_t i = 0; i < a.size(); ++i) {
    if (paired_a.contains(i)) continue;
    const auto alike = lone_b.find(in_full(a[i]));
    if (alike == lone_b.end()) {
      lone_a.push_back(i);
      continue;
    }
    const auto moved = alike->second.begin();
    if (!is_one_run(i, *moved))
      differences.push_back({a[i].weight, region.name, a[i].kind, "place", place_of(a, i),
                             place_of(b, *moved), "another order", a[i].line, b[*moved].line,
                             region.is_fact});
    alike->second.erase(moved);
    if (alike->second.empty()) lone_b.erase(alike);
  }
  for (size_t i : lone_a)
    differences.push_back({a[i].weight, region.name, a[i].kind, "", all_of(a[i]), "", a[i].effect, a[i].line,
                           0, region.is_fact});
  std::set<size_t> left_b;
  for (const auto& [words, events] : lone_b) left_b.insert(events.begin(), events.end());
  for (size_t j : left_b)
    differences.push_back({b[j].weight, region.name, b[j].kind, "", "", all_of(b[j]), b[j].effect, 0,
                           b[j].line, region.is_fact});
}

// Removes hashes from a description.
std::string without_hashes(std::string text) {
  for (size_t at = 0; (at = text.find(" #", at)) != std::string::npos;) {
    size_t end = at + 2;
    while (end < text.size() && std::isxdigit(static_cast<unsigned char>(text[end]))) ++end;
    if (end > at + 2)
      text.erase(at, end - at);
    else
      ++at;
  }
  return text;
}

// Finds differences between regions whose reported events are equal, by comparing all values that the
// instructions read, and the conditions under which they run. Instructions that may be in any order are
// compared as a set.
std::vector<Difference> what_is_not_told(const Region& a, const Region& b) {
  const auto exact = [](const Region& region) {
    std::vector<std::pair<uint64_t, uint32_t>> in_order, others;
    for (const Event& e : region.events)
      (e.any_order.empty() ? in_order : others).emplace_back(e.exact, e.line);
    std::sort(others.begin(), others.end());
    in_order.insert(in_order.end(), others.begin(), others.end());
    return in_order;
  };
  const auto x = exact(a), y = exact(b);
  const auto differs = std::mismatch(x.begin(), x.end(), y.begin(), y.end(),
                                     [](const auto& p, const auto& q) { return p.first == q.first; });
  const bool same = differs.first == x.end() && differs.second == y.end();
  if (same && a.exact == b.exact) return {};
  Difference d{
      Weight::result,
      a.name,
      same ? "numbers extended to more bits" : "values and conditions",
      "in all",
      fmt::format("#{:016x}", same ? a.exact : differs.first->first),
      fmt::format("#{:016x}", same ? b.exact : differs.second->first),
      same ? "numbers below 0 or beyond 32 bits" : "other values, or the same values computed differently"};
  if (!same) d.line_a = differs.first->second, d.line_b = differs.second->second;
  return {d};
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
    RegionPairs pairs = aligned(x, y);
    pair_in_runs(x, y, pairs);
    find_lone(either, x, y, pairs,
              differences);  // listed first, since a missing event is more informative than a count
    for (const auto& [p, q] : pairs) compare(either, x[p], y[q], differences);
  }
  if (differences.empty())
    for (const std::string& name : names) {
      const Region *in_a = region_in(a, name), *in_b = region_in(b, name);
      for (Difference& d : what_is_not_told(in_a ? *in_a : nothing, in_b ? *in_b : nothing))
        differences.push_back(std::move(d));
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
  std::string a = without_hashes(d.a), b = without_hashes(d.b);
  if (a == b) a = d.a, b = d.b;
  std::string words =
      fmt::format("{}: {}{}: {}, {}", d.region, d.event, d.attribute.empty() ? "" : ", " + d.attribute,
                  side("A", a, d.line_a), side("B", b, d.line_b));
  if (!d.effect.empty()) words += fmt::format("; may mean {}", d.effect);
  return words;
}

std::string report(const std::vector<Difference>& differences, bool all) {
  // Only the first of several differences of the same kind is reported.
  using Way = std::tuple<Weight, std::string, std::string, std::string>;
  std::map<Way, size_t> ways;
  std::map<std::string, std::map<std::string, size_t>> by_region;  // numbers of differences
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
    page += fmt::format("\n{} more in detail, which --all shows\n", differences.size() - facts);
    for (const auto& [region, events] : by_region) {
      std::vector<std::string> words;
      for (const auto& [event, times] : events) words.push_back(fmt::format("{} {}", times, event));
      page += fmt::format("  {}: {}\n", region, fmt::join(words, ", "));
    }
  }
  return page;
}

}  // namespace ptxbuilder::analysis
