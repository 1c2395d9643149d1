#include "ptxbuilder/analysis/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
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
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", attribute.name, attribute.value);
  return text.empty() ? "one" : text;
}

void compare(const std::string& region, const Event& a, const Event& b,
             std::vector<Difference>& differences) {
  auto value_in = [](const Event& e, const std::string& name) -> std::optional<std::string> {
    for (const Event::Attribute& attribute : e.attributes)
      if (attribute.name == name) return attribute.value;
    return std::nullopt;
  };
  for (const Event::Attribute& x : a.attributes)
    if (const auto other = value_in(b, x.name); other != x.value)
      differences.push_back(
          {x.weight, region, a.kind, x.name, x.value, other.value_or(""), x.effect, a.line, b.line});
  for (const Event::Attribute& y : b.attributes)
    if (!value_in(a, y.name))
      differences.push_back({y.weight, region, a.kind, y.name, "", y.value, y.effect, a.line, b.line});
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
    const std::vector<Event>&x = (in_a ? *in_a : nothing).events, &y = (in_b ? *in_b : nothing).events;
    size_t i = 0, j = 0;
    auto lone = [&](const Event& e, bool of_a) {
      differences.push_back({e.weight, name, e.kind, "", of_a ? all_of(e) : "", of_a ? "" : all_of(e), "",
                             of_a ? e.line : 0, of_a ? 0 : e.line});
    };
    for (const auto& [p, q] : aligned(x, y)) {
      for (; i < p; ++i) lone(x[i], true);
      for (; j < q; ++j) lone(y[j], false);
      compare(name, x[p], y[q], differences);
      ++i, ++j;
    }
    for (; i < x.size(); ++i) lone(x[i], true);
    for (; j < y.size(); ++j) lone(y[j], false);
  }
  std::stable_sort(differences.begin(), differences.end(),
                   [](const Difference& p, const Difference& q) { return p.weight < q.weight; });
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

}  // namespace ptxbuilder::analysis
