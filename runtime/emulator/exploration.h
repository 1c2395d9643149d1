// An exploration runs all schedules of a small program one by one, or the revealing ones of a large program:
// dynamic partial-order reduction with source sets and sleep sets (Abdulla and others, POPL 2014).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ptxbuilder::runtime {

// The places that one step of a schedule touches. Two steps clash if both touch a place that one of them
// writes: otherwise their order does not matter.
class Footprint {
 public:
  void add(uint64_t place, bool writes);
  bool clashes(const Footprint& other) const;
  void clear() { places_.clear(); }
  const std::map<uint64_t, bool>& places() const { return places_; }  // and whether each is written

  // A step that may touch anything writes this place, and all others read it.
  static constexpr uint64_t anything = ~uint64_t{0};

 private:
  std::map<uint64_t, bool> places_;
};

// Whoever runs a program repeatedly asks this class for the next schedule. The first half of the schedules
// goes through all of them in turn. If there are more schedules than that, the second half starts over and
// preempts at accesses that clash: first schedules that differ from the plain one in one place, then in two.
class Exploration {
 public:
  explicit Exploration(uint64_t most) : most_(most) {}
  // Runs one schedule, named as schedule() names it. Throws Error for anything else.
  explicit Exploration(const std::string& schedule);

  // Begins the next schedule; returns false if there are no more, or if the requested number has run.
  bool begin();
  // Records that the schedule has run to completion.
  void end();
  uint64_t explored() const { return explored_; }
  bool is_complete() const { return is_complete_; }
  // Returns the current schedule's name: "17:2,23:0", the choices that are not the plain ones; or "plain".
  std::string schedule() const;

  // Thrown if the current schedule is equivalent to others. The device's state is as after a launch.
  struct Abandoned {};

  // --- what the machine asks ---
  void begin_launch();
  // Picks the process that goes on, by its number in the list of the processes that can. A process has one
  // name in all schedules.
  size_t pick(std::span<const uint64_t> processes);
  // Picks one of `count` values; the last is the plain one.
  size_t value(size_t count);
  // The process that was picked last has finished its step, which has started other processes, and has ended
  // the wait of those that met it, at a barrier: what these do next comes after this step on any schedule.
  void done(const Footprint& footprint, std::span<const uint64_t> begun = {},
            std::span<const uint64_t> met = {});

 private:
  enum class Mode : uint8_t { exhausting, directed, replay };
  using Deviations = std::map<uint32_t, uint32_t>;  // choices that are not the plain ones, by their place
  struct Sleeper {
    uint64_t process;
    Footprint next;
  };
  struct Node {
    std::vector<uint64_t> processes;  // empty where a value is chosen
    size_t count = 0, plain = 0, chosen = 0;
    std::vector<bool> wanted;  // of the processes
    Footprint footprint;       // of the chosen one
    std::vector<Sleeper> tried, asleep;
  };
  struct Step {
    size_t process, number, node;  // the number is among those of its process
    std::vector<uint32_t> clock;   // by process: steps that come before this one
  };
  struct Place {
    size_t write = 0;           // a step's number + 1; 0 if there was no write
    std::vector<size_t> reads;  // since that write
  };

  bool advance();  // to the next schedule of those that are exhausted
  void want(size_t node, uint64_t process);
  void plan(size_t node, size_t choice);
  Node& add_node(size_t count, size_t plain);
  size_t number_of(uint64_t process);
  static void join(std::vector<uint32_t>& clock, const std::vector<uint32_t>& other);
  static bool is_behind(const std::vector<uint32_t>& clock, const Step& earlier);
  void reverse(size_t earlier);

  Mode mode_ = Mode::exhausting;
  uint64_t most_ = 1, explored_ = 0, runs_ = 0;
  bool is_complete_ = false;
  std::vector<Node> nodes_;
  size_t depth_ = 0, picked_ = 0;
  Deviations asked_;  // of the schedule under way, unless exhausting
  std::deque<Deviations> planned_;
  std::set<Deviations> known_;  // that were ever planned
  // The state of the schedule under way, and of its launch.
  std::vector<Sleeper> asleep_;
  std::unordered_map<uint64_t, size_t> numbers_;  // of processes
  std::vector<uint64_t> names_;                   // of processes
  std::vector<std::vector<uint32_t>> clocks_;     // of processes
  std::vector<Step> steps_;
  std::unordered_map<uint64_t, Place> places_;
  uint64_t last_ = ~uint64_t{0};  // the process that was picked last
};

}  // namespace ptxbuilder::runtime
