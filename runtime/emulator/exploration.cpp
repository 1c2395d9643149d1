#include "runtime/emulator/exploration.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ptxbuilder/error.h"

namespace ptxbuilder::runtime {

void Footprint::add(uint64_t place, bool writes) { places_[place] |= writes; }

bool Footprint::clashes(const Footprint& other) const {
  auto a = places_.begin(), b = other.places_.begin();
  while (a != places_.end() && b != other.places_.end()) {
    if (a->first == b->first && (a->second || b->second)) return true;
    a->first < b->first ? ++a : ++b;
  }
  return false;
}

Exploration::Exploration(const std::string& schedule) : mode_(Mode::replay) {
  if (schedule == "plain") return;
  const char *at = schedule.data(), *end = at + schedule.size();
  auto number = [&](char behind) {
    uint32_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    const bool is_last = next == end;
    const bool is_cut = is_last ? behind == ':' : *next != behind || next + 1 == end;
    if (error != std::errc() || is_cut)
      throw Error(fmt::format("schedule '{}': it must be 'plain' or PLACE:CHOICE,... as --explore prints it",
                              schedule));
    at = is_last ? end : next + 1;
    return value;
  };
  do {
    const uint32_t place = number(':');
    asked_[place] = number(',');
  } while (at != end);
}

bool Exploration::begin() {
  depth_ = 0;
  asleep_.clear();
  if (mode_ == Mode::replay) return runs_++ == 0;
  if (explored_ >= most_) return false;
  if (mode_ == Mode::exhausting) {
    if (runs_++ == 0) return true;
    if (!advance()) {
      is_complete_ = true;
      return false;
    }
    // `runs_` also counts schedules that were abandoned because they are equivalent to others. Such schedules
    // also take time, so they count toward the limit.
    if (explored_ < (most_ + 1) / 2 && runs_ < 8 * most_) return true;
    mode_ = Mode::directed;
    planned_.push_back({});
  }
  if (planned_.empty()) return false;
  asked_ = std::move(planned_.front());
  planned_.pop_front();
  nodes_.clear();
  return true;
}

void Exploration::end() { ++explored_; }

// Returns to the last choice that has an untried alternative, and chooses the alternative. Returns false if
// there is none.
bool Exploration::advance() {
  for (; !nodes_.empty(); nodes_.pop_back()) {
    Node& n = nodes_.back();
    if (n.processes.empty()) {
      if (n.chosen == 0) continue;
      --n.chosen;
      return true;
    }
    n.tried.push_back({n.processes[n.chosen], n.footprint});
    for (size_t k = 0; k < n.processes.size(); ++k) {
      auto is_it = [&](const Sleeper& s) { return s.process == n.processes[k]; };
      if (!n.wanted[k] || std::ranges::any_of(n.tried, is_it) || std::ranges::any_of(n.asleep, is_it))
        continue;
      n.chosen = k;
      return true;
    }
  }
  return false;
}

std::string Exploration::schedule() const {
  std::string text;
  for (size_t i = 0; i < std::min(depth_, nodes_.size()); ++i)
    if (nodes_[i].chosen != nodes_[i].plain)
      text += fmt::format("{}{}:{}", text.empty() ? "" : ",", i, nodes_[i].chosen);
  return text.empty() ? "plain" : text;
}

void Exploration::begin_launch() {
  asleep_.clear();
  numbers_.clear();
  clocks_.clear();
  names_.clear();
  steps_.clear();
  places_.clear();
  last_ = ~uint64_t{0};
}

Exploration::Node& Exploration::add_node(size_t count, size_t plain) {
  Node n;
  n.count = count;
  n.plain = n.chosen = plain;
  if (const auto asked = asked_.find(static_cast<uint32_t>(nodes_.size())); asked != asked_.end()) {
    if (asked->second >= count)
      throw Error(
          fmt::format("schedule: choice {} was requested at place {}, but there are {}: the schedule belongs "
                      "to another program",
                      asked->second, nodes_.size(), count));
    n.chosen = asked->second;
  }
  nodes_.push_back(std::move(n));
  return nodes_.back();
}

size_t Exploration::pick(std::span<const uint64_t> processes) {
  if (depth_ == nodes_.size()) {
    const auto last = std::ranges::find(processes, last_);
    Node& n = add_node(processes.size(),
                       last == processes.end() ? 0 : static_cast<size_t>(last - processes.begin()));
    n.processes.assign(processes.begin(), processes.end());
    if (mode_ == Mode::exhausting) {
      n.asleep = asleep_;
      auto sleeps = [&](uint64_t p) {
        return std::ranges::any_of(n.asleep, [&](const Sleeper& s) { return s.process == p; });
      };
      if (sleeps(processes[n.chosen])) {
        const auto awake = std::ranges::find_if_not(processes, sleeps);
        if (awake == processes.end()) {
          nodes_.pop_back();
          throw Abandoned();
        }
        n.chosen = static_cast<size_t>(awake - processes.begin());
      }
    }
    n.wanted.assign(processes.size(), false);
    n.wanted[n.chosen] = true;
  } else if (!std::ranges::equal(nodes_[depth_].processes, processes)) {
    throw Error(
        "explore: the same choices led to a different execution: the program reads a clock, or something "
        "else that changes");
  }
  picked_ = depth_++;
  last_ = processes[nodes_[picked_].chosen];
  return nodes_[picked_].chosen;
}

size_t Exploration::value(size_t count) {
  if (count <= 1) return 0;
  if (depth_ == nodes_.size()) {
    const size_t chosen = add_node(count, count - 1).chosen;
    for (size_t k = 0; k < count && mode_ == Mode::directed; ++k)
      if (k != chosen) plan(depth_, k);
  }
  return nodes_[depth_++].chosen;
}

size_t Exploration::number_of(uint64_t process) {
  const auto [at, is_new] = numbers_.try_emplace(process, clocks_.size());
  if (is_new) {
    clocks_.emplace_back();
    names_.push_back(process);
  }
  return at->second;
}

void Exploration::join(std::vector<uint32_t>& clock, const std::vector<uint32_t>& other) {
  if (clock.size() < other.size()) clock.resize(other.size(), 0);
  for (size_t k = 0; k < other.size(); ++k) clock[k] = std::max(clock[k], other[k]);
}

void Exploration::done(const Footprint& footprint, std::span<const uint64_t> begun,
                       std::span<const uint64_t> met) {
  Node& node = nodes_[picked_];
  node.footprint = footprint;
  const size_t process = number_of(last_);
  // A sleeping process wakes up if the step accesses what the process is about to access.
  std::vector<Sleeper> asleep;
  for (const auto* list : {&node.asleep, &node.tried})
    for (const Sleeper& s : *list)
      if (s.process != last_ && !s.next.clashes(footprint)) asleep.push_back(s);
  asleep_ = std::move(asleep);

  std::vector<size_t> earlier;  // steps that clash with this step
  for (const auto& [place, writes] : footprint.places()) {
    const Place& p = places_[place];
    if (p.write) earlier.push_back(p.write - 1);
    if (writes) earlier.insert(earlier.end(), p.reads.begin(), p.reads.end());
  }
  std::ranges::sort(earlier, std::greater<>());
  std::vector<uint32_t> clock = clocks_[process];
  for (const uint64_t other : met) join(clock, clocks_[number_of(other)]);
  std::vector<size_t> races;  // steps that precede this step only because of the schedule
  for (const size_t i : earlier) {
    const Step& s = steps_[i];
    if (s.process == process) continue;
    if (!is_behind(clock, s)) races.push_back(i);
    join(clock, s.clock);
  }
  if (clock.size() <= process) clock.resize(process + 1, 0);
  ++clock[process];
  clocks_[process] = clock;
  for (const auto& others : {begun, met})
    for (const uint64_t other : others) join(clocks_[number_of(other)], clock);
  steps_.push_back({process, clock[process], picked_, std::move(clock)});
  for (const size_t race : races) reverse(race);
  for (const auto& [place, writes] : footprint.places()) {
    Place& p = places_[place];
    if (writes) {
      p.write = steps_.size();
      p.reads.clear();
    } else {
      std::erase_if(p.reads, [&](size_t i) { return steps_[i].process == process; });
      p.reads.push_back(steps_.size() - 1);
    }
  }
}

bool Exploration::is_behind(const std::vector<uint32_t>& clock, const Step& earlier) {
  return earlier.process < clock.size() && clock[earlier.process] >= earlier.number;
}

// Plans to try the last step before an earlier one, together with the steps in between on which it depends.
// At the choice that picked the earlier step, marks one of the processes that can begin this sequence as
// wanted.
void Exploration::reverse(size_t earlier) {
  const Step &first = steps_[earlier], &last = steps_.back();
  if (mode_ == Mode::directed) return want(first.node, names_[last.process]);
  Node& node = nodes_[first.node];
  std::vector<size_t> between;  // steps that do not depend on the earlier one, and the last step
  std::vector<bool> has_step(clocks_.size());
  uint64_t wanted = 0;
  for (size_t i = earlier + 1; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    const bool is_last = i + 1 == steps_.size();
    if (!is_last && is_behind(s.clock, first)) continue;
    const bool begins = !has_step[s.process] && std::ranges::none_of(between, [&](size_t k) {
      return is_behind(s.clock, steps_[k]);
    });
    has_step[s.process] = true;
    between.push_back(i);
    if (!begins) continue;
    wanted = names_[s.process];
    for (size_t k = 0; k < node.processes.size(); ++k)
      if (node.wanted[k] && node.processes[k] == wanted) return;
  }
  want(first.node, wanted);
}

// Marks a process to be tried at a choice. If the process cannot continue there, marks all that can.
void Exploration::want(size_t node, uint64_t process) {
  Node& n = nodes_[node];
  const auto at = std::ranges::find(n.processes, process);
  for (size_t k = 0; k < n.processes.size(); ++k) {
    if (at != n.processes.end() && n.processes[k] != process) continue;
    n.wanted[k] = true;
    if (mode_ == Mode::directed && k != n.chosen) plan(node, k);
  }
}

void Exploration::plan(size_t node, size_t choice) {
  Deviations d;
  for (size_t i = 0; i < node; ++i)
    if (nodes_[i].chosen != nodes_[i].plain)
      d[static_cast<uint32_t>(i)] = static_cast<uint32_t>(nodes_[i].chosen);
  if (choice != nodes_[node].plain) d[static_cast<uint32_t>(node)] = static_cast<uint32_t>(choice);
  constexpr size_t most_planned = 100'000;
  if (known_.size() < most_planned && known_.insert(d).second) planned_.push_back(std::move(d));
}

}  // namespace ptxbuilder::runtime
