// Determines the order of a launch's clusters if their results depend on it. One cluster has the turn at a
// time, and the order does not depend on the number of host threads. Before its first turn, each cluster runs
// on any thread until it reaches an instruction that needs the turn.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/emulator/machine/cluster.h"

namespace ptxbuilder::runtime::emulator {

class Turns {
 public:
  // `threads` includes the thread that calls take(). A cluster runs ahead for `budget` instructions. It stops
  // soon after `goes_on` returns false.
  Turns(const Grid& grid, uint64_t clusters, size_t threads, uint64_t budget, std::function<bool()> goes_on);
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Returns the next cluster, which has run ahead and now has the turn. Rethrows the exception if the cluster
  // failed.
  std::unique_ptr<Cluster> take();

 private:
  struct Ahead {
    std::unique_ptr<Cluster> cluster;
    std::exception_ptr failure;
    bool is_done = false;
  };

  void run_ahead(uint64_t index, Ahead& ahead) const;
  void work();

  const Grid& grid_;
  const uint64_t clusters_, budget_, window_;
  const bool is_alone_;  // whether no other thread runs clusters ahead
  const std::function<bool()> goes_on_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Ahead>> ahead_;  // the clusters taken_, taken_ + 1, ...
  uint64_t taken_ = 0;
  bool is_over_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace ptxbuilder::runtime::emulator
