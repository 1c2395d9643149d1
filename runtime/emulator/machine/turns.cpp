#include "runtime/emulator/machine/turns.h"

namespace ptxbuilder::runtime::emulator {

Turns::Turns(const Grid& grid, uint64_t clusters, size_t threads, uint64_t budget,
             std::function<bool()> goes_on)
    : grid_(grid),
      clusters_(clusters),
      budget_(budget),
      window_(3 * threads),
      is_alone_(threads == 1 || clusters == 1),
      goes_on_(std::move(goes_on)) {
  for (size_t k = 1; !is_alone_ && k < threads; ++k) workers_.emplace_back([this] { work(); });
}

Turns::~Turns() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Turns::run_ahead(uint64_t index, Ahead& ahead) const {
  try {
    ahead.cluster = std::make_unique<Cluster>(grid_, index);
    ahead.cluster->ahead = std::make_unique<Sums>(is_alone_ && !grid_.weak);
    ahead.cluster->run(budget_, goes_on_);
  } catch (...) {
    ahead.failure = std::current_exception();
  }
}

void Turns::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(
        lock, [&] { return is_over_ || (ahead_.size() < window_ && taken_ + ahead_.size() < clusters_); });
    if (is_over_) return;
    const uint64_t index = taken_ + ahead_.size();
    const auto mine = ahead_.emplace_back(std::make_shared<Ahead>());
    lock.unlock();
    run_ahead(index, *mine);
    lock.lock();
    mine->is_done = true;
    changed_.notify_all();
  }
}

std::unique_ptr<Cluster> Turns::take() {
  std::unique_lock lock(mutex_);
  std::shared_ptr<Ahead> next;
  if (ahead_.empty()) {
    next = std::make_shared<Ahead>();
    ++taken_;
    lock.unlock();
    run_ahead(taken_ - 1, *next);
  } else {
    next = ahead_.front();
    changed_.wait(lock, [&] { return next->is_done; });
    ahead_.pop_front();
    ++taken_;
    lock.unlock();
  }
  changed_.notify_all();
  if (next->failure) std::rethrow_exception(next->failure);
  next->cluster->begin_turn();
  return std::move(next->cluster);
}

}  // namespace ptxbuilder::runtime::emulator
