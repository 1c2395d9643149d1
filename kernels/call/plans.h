// Stores a plan for each kind of call, so that the next call of that kind can use it.
#pragma once

#include <array>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "kernels/call/words_hash.h"

namespace ptxbuilder::kernels {

// A store of plans, indexed by keys of `words` numbers. Any thread may call its functions at any time.
template <size_t words, class Plan>
class Plans {
 public:
  using Key = std::array<uint64_t, words>;

  // Returns the plan that is stored for the key. If there is none, calls `make` and stores the plan that it
  // returns. If several threads make a plan at the same time, the first plan is stored. If `make` throws, the
  // exception is passed on and nothing is stored.
  template <class Make>
  Plan get(const Key& key, Make&& make) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto known = all_.find(key); known != all_.end()) return known->second;
    }
    Plan made = std::forward<Make>(make)();
    const std::lock_guard lock(mutex_);
    if (all_.size() >= kMost) all_.clear();
    return all_.emplace(key, std::move(made)).first->second;
  }

  // Replaces the plan that is stored for the key, if there is one.
  void replace(const Key& key, Plan plan) {
    const std::lock_guard lock(mutex_);
    all_.insert_or_assign(key, std::move(plan));
  }

 private:
  static constexpr size_t kMost = 1 << 16;  // when there are this many plans, all are discarded

  std::shared_mutex mutex_;
  std::unordered_map<Key, Plan, WordsHash> all_;
};

}  // namespace ptxbuilder::kernels
