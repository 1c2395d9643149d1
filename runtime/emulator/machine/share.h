// The clusters of a grid that one host thread runs. Some of them are resident and take turns.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <random>

#include "runtime/emulator/machine/machine.h"
#include "runtime/emulator/machine/turns.h"

namespace ptxbuilder::runtime::emulator {

class Share {
 public:
  struct Limits {
    std::chrono::steady_clock::time_point deadline;
    std::atomic<bool>& cancelled;
    // When the deadline has passed, describes the threads that are polling. Set only if the description must
    // also cover clusters of other shares.
    std::function<std::string()> describe_polls = nullptr;
  };
  // The share runs every `step`-th of the grid's `all` clusters, starting with cluster `first`. `done` counts
  // the CTAs that have ended.
  Share(const Grid& grid, uint64_t first, uint64_t step, uint64_t all, Limits limits,
        std::atomic<uint64_t>& done);

  void run(EmulatorStatistics& statistics);
  // Runs one turn of each resident cluster. The result `polling` means that some clusters poll global memory
  // and all others wait.
  enum class Outcome : uint8_t { running, polling, stalled, finished };
  Outcome take_turns(EmulatorStatistics& statistics);
  const std::deque<std::unique_ptr<Cluster>>& resident() const { return resident_; }

 private:
  bool admit();
  void count(const Cluster& c, EmulatorStatistics& statistics);
  void check_deadline();

  const Grid& grid_;
  uint64_t next_, step_, all_;
  Limits limits_;
  std::chrono::steady_clock::time_point next_look_ = {};
  std::atomic<uint64_t>& done_;
  std::deque<std::unique_ptr<Cluster>> resident_;
  uint64_t slice_;
  std::mt19937_64 engine_{grid_.seed};
  size_t most_;
  std::function<bool()> goes_on_;
  std::unique_ptr<Turns> turns_;  // set if the order of clusters matters
};

}  // namespace ptxbuilder::runtime::emulator
