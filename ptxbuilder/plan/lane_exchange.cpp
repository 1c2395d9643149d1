#include "ptxbuilder/plan/lane_exchange.h"

#include <algorithm>
#include <bit>
#include <map>

namespace ptxbuilder {
namespace {

constexpr int kLanes = 32;
constexpr uint32_t kAllLanes = ~0u;
using Step = LaneExchange::Step;
using OfLane = std::array<uint32_t, kLanes>;

bool has(uint32_t lanes, int lane) { return (lanes >> lane & 1) != 0; }

// Returns the LaneFunction that has the given values in `lanes`, which must contain at least one lane.
// Returns nullopt if there is no such function.
std::optional<LaneFunction> fitted(uint32_t lanes, const OfLane& values) {
  LaneFunction f;
  const int first = std::countr_zero(lanes);
  for (int bit = 0; bit < 5; ++bit)
    for (int lane = 0; lane < kLanes; ++lane)
      if (const int other = lane | 1 << bit; other != lane && has(lanes, lane) && has(lanes, other)) {
        f.of_bit[static_cast<size_t>(bit)] =
            values[static_cast<size_t>(lane)] ^ values[static_cast<size_t>(other)];
        break;
      }
  f.at_0 = values[static_cast<size_t>(first)] ^ f(static_cast<uint32_t>(first));
  for (int lane = 0; lane < kLanes; ++lane)
    if (has(lanes, lane) && f(static_cast<uint32_t>(lane)) != values[static_cast<size_t>(lane)])
      return std::nullopt;
  return f;
}

// The current position of an element: the lane, the register, and the position in the register.
struct Source {
  uint32_t lane, word, place;
};
using Sources = std::array<Source, kLanes>;  // sources for one value of the new layout, indexed by lane

// Returns the sources of all values, or nothing if a source is in another warp.
std::vector<Sources> sources_of(const RegisterLayout& from, const RegisterLayout& to, uint32_t per) {
  std::vector<std::vector<std::pair<int, int>>> holders(static_cast<size_t>(from.elements()));
  for (int lane = 0; lane < kLanes; ++lane)
    for (int v = 0; v < from.values(); ++v)
      holders[static_cast<size_t>(from.element(lane, v))].emplace_back(lane, v);
  std::vector<Sources> all;
  for (int v = 0; v < to.values(); ++v) {
    Sources sources;
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto& held = holders[static_cast<size_t>(to.element(lane, v))];
      const auto nearest = std::min_element(held.begin(), held.end(), [&](const auto& a, const auto& b) {
        return (a.first ^ lane) < (b.first ^ lane);
      });
      if (nearest == held.end()) return {};
      const auto [holder, value] = *nearest;
      for (int warp = kLanes; warp < RegisterLayout::kThreads; warp += kLanes)
        if (from.element(warp + holder, value) != to.element(warp + lane, v)) return {};
      const auto number = static_cast<uint32_t>(value);
      sources[static_cast<size_t>(lane)] = {static_cast<uint32_t>(holder), number / per, number % per};
    }
    all.push_back(sources);
  }
  return all;
}

// A register whose elements are gathered from other lanes. For each lane in `lanes`, `from` holds the source
// lane, and `word` holds the source register.
struct Group {
  uint32_t lanes = 0;
  OfLane from = {}, word = {};

  // Adds a lane's source. Returns false if the lane already has a different source.
  bool add(int lane, const Source& source) {
    const auto l = static_cast<size_t>(lane);
    if (has(lanes, lane)) return from[l] == source.lane && word[l] == source.word;
    lanes |= 1u << lane;
    from[l] = source.lane;
    word[l] = source.word;
    return true;
  }
};

class Planner {
 public:
  // If `by_distance` is true, the elements of a new register form a group if they have the same exclusive or
  // of source lane and destination lane. Otherwise, the elements at the same position of the register form a
  // group, in all lanes.
  explicit Planner(bool by_distance) : by_distance_(by_distance) {}

  // Plans the steps that compute the register with the given elements. Returns false if that is impossible.
  bool make(const std::vector<Sources>& places, uint32_t per) {
    std::vector<Group> groups;
    std::map<uint32_t, size_t> of_distance;
    std::vector<OfLane> group_at(places.size());  // index in `groups` for each position and lane
    for (size_t i = 0; i < places.size(); ++i) {
      Group group;
      for (int lane = 0; lane < kLanes; ++lane) {
        const Source& source = places[i][static_cast<size_t>(lane)];
        if (!by_distance_) {
          group.add(lane, source);
          continue;
        }
        const auto at = of_distance.try_emplace(source.lane ^ static_cast<uint32_t>(lane), groups.size());
        if (at.second) groups.emplace_back();
        if (!groups[at.first->second].add(lane, source)) return false;
        group_at[i][static_cast<size_t>(lane)] = static_cast<uint32_t>(at.first->second);
      }
      if (by_distance_) continue;
      const auto equal = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
        return g.from == group.from && g.word == group.word;
      });
      group_at[i].fill(static_cast<uint32_t>(equal - groups.begin()));
      if (equal == groups.end()) groups.push_back(group);
    }
    if (groups.size() > 4) return false;
    std::vector<int> registers;
    for (const Group& group : groups) {
      registers.push_back(gathered(group, group.lanes));
      if (registers.back() < 0) return false;
    }
    const int word = per == 1 ? registers[0] : combined(registers, places, group_at, per);
    plan_.words.push_back(word);
    return word >= 0;
  }

  LaneExchange plan() && { return std::move(plan_); }

 private:
  int step(const Step& s) {
    const auto [known, is_new] = known_.try_emplace(s, static_cast<int>(plan_.steps.size()));
    if (is_new) plan_.steps.push_back(s);
    return known->second;
  }

  // Returns the step that gathers a group's register for `lanes`. The step is a shuffle, or a selection
  // between the registers for two halves of the lanes that have no source register in common. Returns -1 if
  // neither is possible.
  int gathered(const Group& group, uint32_t lanes) {
    std::array<uint32_t, 5> set_in = {0xaaaaaaaa, 0xcccccccc, 0xf0f0f0f0, 0xff00ff00, 0xffff0000};
    auto words_of = [&](uint32_t some) {
      std::vector<uint32_t> words;
      for (int lane = 0; lane < kLanes; ++lane)
        if (has(some, lane)) words.push_back(group.word[static_cast<size_t>(lane)]);
      std::sort(words.begin(), words.end());
      words.erase(std::unique(words.begin(), words.end()), words.end());
      return words;
    };
    const std::vector<uint32_t> words = words_of(lanes);
    if (words.size() == 1)
      return shuffled(step({.kind = Step::Kind::word, .a = static_cast<int>(words[0])}), lanes, group.from);
    for (size_t bit = 0; bit < set_in.size(); ++bit) {
      const uint32_t set = lanes & set_in[bit], clear = lanes & ~set_in[bit];
      if (words_of(set).size() + words_of(clear).size() != words.size() || set == 0 || clear == 0) continue;
      const int a = gathered(group, clear), b = gathered(group, set);
      if (a < 0 || b < 0) return -1;
      return step({.kind = Step::Kind::choose, .a = a, .b = b, .bit = static_cast<int>(bit)});
    }
    return -1;
  }

  int shuffled(int word, uint32_t lanes, const OfLane& from) {
    OfLane distance;
    for (uint32_t lane = 0; lane < kLanes; ++lane) distance[lane] = from[lane] ^ lane;
    std::optional<LaneFunction> f = fitted(lanes, distance);
    if (f && f->is_constant()) {
      if (f->at_0 == 0) return word;
      f->of_bit = {1, 2, 4, 8, 16};
    } else {
      f = fitted(lanes, from);
    }
    return f ? step({.kind = Step::Kind::shuffle, .a = word, .lanes = *f}) : -1;
  }

  // Returns the step that moves the groups' elements to their new positions. The step is a permutation of two
  // registers or, for three or four registers, a permutation of two permutations.
  int combined(const std::vector<int>& registers, const std::vector<Sources>& places,
               const std::vector<OfLane>& group_at, uint32_t per) {
    auto pair = [&](size_t first) {
      std::vector<OfLane> chosen(places.size());
      std::vector<uint32_t> lanes(places.size());
      for (size_t i = 0; i < places.size(); ++i)
        for (size_t lane = 0; lane < kLanes; ++lane) {
          const uint32_t of_pair = group_at[i][lane] - static_cast<uint32_t>(first);
          if (of_pair > 1) continue;
          lanes[i] |= 1u << lane;
          chosen[i][lane] = of_pair * per + places[i][lane].place;
        }
      return permuted(registers[first], registers[std::min(first + 1, registers.size() - 1)], lanes, chosen,
                      per);
    };
    if (registers.size() <= 2) return pair(0);
    std::vector<OfLane> chosen(places.size());
    for (size_t i = 0; i < places.size(); ++i)
      for (size_t lane = 0; lane < kLanes; ++lane)
        chosen[i][lane] = static_cast<uint32_t>(i) + per * uint32_t{group_at[i][lane] > 1};
    const int low = pair(0), high = pair(2);
    if (low < 0 || high < 0) return -1;
    return permuted(low, high, std::vector<uint32_t>(places.size(), kAllLanes), chosen, per);
  }

  // Returns a permutation of a and b. `chosen` gives the number of the chosen element for each position and
  // lane; the elements of a are numbered first, followed by those of b. Lanes outside `lanes` may get any
  // values.
  int permuted(int a, int b, const std::vector<uint32_t>& lanes, const std::vector<OfLane>& chosen,
               uint32_t per) {
    const uint32_t bytes = 4 / per;
    LaneFunction selector;  // its value has four bits for each byte
    LaneFunction as_it_is{0x3210, {}};
    for (uint32_t i = 0; i < per; ++i) {
      std::optional<LaneFunction> place = LaneFunction{i, {}};
      if (i < chosen.size() && lanes[i] != 0) place = fitted(lanes[i], chosen[i]);
      if (!place) return -1;
      for (uint32_t byte = 0; byte < bytes; ++byte) {
        const uint32_t shift = 4 * (i * bytes + byte);
        selector.at_0 |= (place->at_0 * bytes + byte) << shift;
        for (size_t bit = 0; bit < selector.of_bit.size(); ++bit)
          selector.of_bit[bit] |= place->of_bit[bit] * bytes << shift;
      }
    }
    if (selector == as_it_is) return a;
    return step({.kind = Step::Kind::permute, .a = a, .b = b, .lanes = selector});
  }

  bool by_distance_;
  LaneExchange plan_;
  std::map<Step, int> known_;
};

}  // namespace

uint32_t LaneFunction::operator()(uint32_t lane) const {
  uint32_t value = at_0;
  for (size_t bit = 0; bit < of_bit.size(); ++bit)
    if ((lane >> bit & 1) != 0) value ^= of_bit[bit];
  return value;
}

std::optional<uint32_t> LaneFunction::butterfly() const {
  if (of_bit != std::array<uint32_t, 5>{1, 2, 4, 8, 16}) return std::nullopt;
  return at_0;
}

int LaneExchange::instructions() const {
  return static_cast<int>(
      std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.kind != Step::Kind::word; }));
}

std::optional<LaneExchange> exchange_within_warps(const RegisterLayout& from, const RegisterLayout& to,
                                                  int element_bytes) {
  if (!(from.extent() == to.extent()) || from.is_splat() || to.is_splat()) return std::nullopt;
  const size_t per = 4 / static_cast<size_t>(element_bytes);
  const std::vector<Sources> sources = sources_of(from, to, static_cast<uint32_t>(per));
  if (sources.empty()) return std::nullopt;
  std::optional<LaneExchange> best;
  for (bool by_distance : {false, true}) {
    if (by_distance && per == 1) break;  // a register with a single element needs no combination
    Planner planner(by_distance);
    bool can = true;
    for (size_t v = 0; v < sources.size() && can; v += per)
      can = planner.make({sources.begin() + static_cast<std::ptrdiff_t>(v),
                          sources.begin() + static_cast<std::ptrdiff_t>(std::min(v + per, sources.size()))},
                         static_cast<uint32_t>(per));
    if (!can) continue;
    LaneExchange plan = std::move(planner).plan();
    if (!best || plan.instructions() < best->instructions()) best = std::move(plan);
  }
  return best;
}

}  // namespace ptxbuilder
