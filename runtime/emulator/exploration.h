// An exploration runs all schedules of a small program one by one, or the most revealing schedules of a large
// program. It uses dynamic partial-order reduction with source sets and sleep sets (Abdulla and others, POPL
// 2014).
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

// The places that one step of a schedule accesses. Two steps clash if both access a place and at least one of
// them writes it. Otherwise the order of the two steps does not matter.
class Footprint {
 public:
  void add(uint64_t place, bool writes);
  bool clashes(const Footprint& other) const;
  void clear() { places_.clear(); }
  const std::map<uint64_t, bool>& places() const { return places_; }  // places, and whether each is written

  // A place that a step writes if it may access anything, and that all other steps read.
  static constexpr uint64_t anything = ~uint64_t{0};

 private:
  std::map<uint64_t, bool> places_;
};

// Chooses the schedules for a program that is run repeatedly. The first half of the schedules enumerates all
// of them in order. If there are more, the second half starts over and preempts at accesses that clash: it
// first tries schedules that differ from the plain one in one place, then in two, and so on.
class Exploration {
 public:
  explicit Exploration(uint64_t most) : most_(most) {}
  // Runs one schedule, named like a result of schedule(). Throws an Error if `schedule` is not such a name.
  explicit Exploration(const std::string& schedule);

  // Begins the next schedule. Returns false if there are no more, or if the requested number has run.
  bool begin();
  // Records that the schedule has run to completion.
  void end();
  uint64_t explored() const { return explored_; }
  bool is_complete() const { return is_complete_; }
  // Returns the current schedule's name. It lists the choices that are not the plain ones, such as
  // "17:2,23:0", or is "plain".
  std::string schedule() const;

  // Thrown if the current schedule is equivalent to others. The device's state is then the same as after a
  // launch.
  struct Abandoned {};

  // --- called by the machine ---
  void begin_launch();
  // Picks the process that continues, and returns its index in `processes`, the list of processes that can
  // continue. A process has the same name in all schedules.
  size_t pick(std::span<const uint64_t> processes);
  // Picks one of `count` values. The last value is the plain one.
  size_t value(size_t count);
  // Called when the process that was picked last has finished its step. The step has started the processes
  // `begun`. It has also ended the wait of the processes `met`, for example at a barrier. On any schedule,
  // their next actions come after this step.
  void done(const Footprint& footprint, std::span<const uint64_t> begun = {},
            std::span<const uint64_t> met = {});

 private:
  enum class Mode : uint8_t { exhausting, directed, replay };
  using Deviations = std::map<uint32_t, uint32_t>;  // the choices that differ from the plain ones, indexed by
                                                    // position in the schedule
  struct Sleeper {
    uint64_t process;
    Footprint next;
  };
  struct Node {
    std::vector<uint64_t> processes;  // empty if a value is chosen
    size_t count = 0, plain = 0, chosen = 0;
    std::vector<bool> wanted;  // one element per process
    Footprint footprint;       // footprint of the chosen process
    std::vector<Sleeper> tried, asleep;
  };
  struct Step {
    size_t process, number, node;  // `number` counts the steps of the process
    std::vector<uint32_t> clock;   // for each process, the number of its steps that come before this one
  };
  struct Place {
    size_t write = 0;           // number of the step + 1; 0 if there was no write
    std::vector<size_t> reads;  // steps that have read the place since that write
  };

  bool advance();  // moves to the next schedule of the enumeration
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
  Deviations asked_;  // deviations of the current schedule; unused in `exhausting` mode
  std::deque<Deviations> planned_;
  std::set<Deviations> known_;  // all deviations that were ever planned
  // The state of the current schedule and its launch.
  std::vector<Sleeper> asleep_;
  std::unordered_map<uint64_t, size_t> numbers_;  // numbers of processes, indexed by name
  std::vector<uint64_t> names_;                   // name of each process
  std::vector<std::vector<uint32_t>> clocks_;     // clock of each process
  std::vector<Step> steps_;
  std::unordered_map<uint64_t, Place> places_;
  uint64_t last_ = ~uint64_t{0};  // the process that was picked last
};

}  // namespace ptxbuilder::runtime
