#include "runtime/emulator/machine/launch.h"

#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/emulator/machine/polls.h"
#include "runtime/emulator/machine/turns.h"
#include "runtime/interrupt.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// The clusters first, first + step, ... of a grid, some of which are resident and take turns.
class Share {
 public:
  Share(const Grid& grid, uint64_t first, uint64_t step, uint64_t all,
        std::chrono::steady_clock::time_point deadline, std::atomic<bool>& cancelled,
        std::atomic<uint64_t>& done)
      : grid_(grid),
        next_(first),
        step_(step),
        all_(all),
        deadline_(deadline),
        cancelled_(cancelled),
        done_(done) {
    // Short turns let CTAs that talk to each other interleave finely; long ones are faster.
    constexpr uint64_t slices[] = {200'000, 3'000, 40'000, 400'000}, of_talkers[] = {200'000, 20, 3'000, 300};
    slice_ = (grid.kernel.communicates ? of_talkers : slices)[grid.seed % 4];
    if (grid.kernel.takes_turns) {
      const auto threads = static_cast<size_t>(grid.kernel.allocates ? 1 : std::max(1, grid.options.threads));
      turns_ = std::make_unique<Turns>(grid, all, threads, slice_, [this] {
        return !cancelled_ && std::chrono::steady_clock::now() < deadline_ && !is_interrupted();
      });
    }
    const Dim3 c = grid.launch.cluster;
    most_ = std::max(1u, uint32_t{hopper::multiprocessors} / (c.x * c.y * c.z));
  }

  void run(EmulatorStatistics& statistics) {
    const std::function<bool()> goes_on = [this] {
      check_deadline();
      return !cancelled_;
    };
    while (!cancelled_) {
      if (resident_.empty() && !admit()) return;
      if (grid_.kernel.communicates &&
          grid_.seed != 0) {  // who begins, and who goes on, is nobody's to rely on
        while (resident_.size() < 8 && admit()) continue;
        std::ranges::shuffle(resident_, engine_);
      }
      bool progress = false;
      for (size_t i = 0; i < resident_.size() && !cancelled_;) {
        const auto outcome = resident_[i]->run(slice_, goes_on);
        progress |= outcome != Cluster::Outcome::stalled;
        check_deadline();
        if (outcome == Cluster::Outcome::finished) {
          count(*resident_[i], statistics);
          resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          ++i;
        }
      }
      // Whoever is not done may wait for one that has not begun.
      if (!resident_.empty()) progress |= admit();
      stalls_ = progress ? 0 : stalls_ + 1;
      if (stalls_ > 3) resident_.front()->deadlock();
    }
  }

 private:
  bool admit() {
    if (next_ >= all_ || resident_.size() >= most_) return false;
    resident_.push_back(turns_ ? turns_->take() : std::make_unique<Cluster>(grid_, next_));
    next_ += step_;
    return true;
  }

  void count(const Cluster& c, EmulatorStatistics& statistics) {
    c.count_in(statistics);
    const uint64_t so_far = done_ += c.ctas.size();
    if (grid_.options.progress) grid_.options.progress(so_far, all_ * c.ctas.size());
  }

  void check_deadline() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_look_) return;
    next_look_ = std::min(now + std::chrono::milliseconds(20), deadline_);
    const bool is_late = now >= deadline_;
    if (!is_late && !is_interrupted()) return;
    const std::string picture = resident_.empty() ? "" : resident_.front()->picture();
    throw EmulatorError(
        Fault::time_limit, 0,
        fmt::format(
            "{}: kernel {} was {}; {} of {} CTAs were{}{}", name(Fault::time_limit), grid_.kernel.name,
            is_late ? "not done in time, of which synchronize(), or --time-limit, gives more" : "interrupted",
            done_.load(), all_ * (resident_.empty() ? 1 : resident_[0]->ctas.size()), picture,
            describe_polls(resident_)));
  }

  const Grid& grid_;
  uint64_t next_, step_, all_;
  std::chrono::steady_clock::time_point deadline_, next_look_ = {};
  std::atomic<bool>& cancelled_;
  std::atomic<uint64_t>& done_;
  std::deque<std::unique_ptr<Cluster>> resident_;
  uint64_t slice_;
  std::mt19937_64 engine_{grid_.seed};
  size_t most_;
  int stalls_ = 0;
  std::unique_ptr<Turns> turns_;  // where the order of clusters counts
};

}  // namespace

void run_grid(const Grid& grid, std::chrono::steady_clock::time_point deadline,
              EmulatorStatistics& statistics) {
  const Dim3 g = grid.launch.grid, c = grid.launch.cluster;
  const uint64_t clusters = uint64_t{g.x / c.x} * (g.y / c.y) * (g.z / c.z);
  const auto threads = static_cast<uint64_t>(grid.kernel.takes_turns ? 1 : std::max(1, grid.options.threads));
  std::atomic<bool> cancelled = false;
  std::atomic<uint64_t> done = 0;
  ++statistics.launches;
  if (threads == 1 || clusters == 1)
    return Share(grid, 0, 1, clusters, deadline, cancelled, done).run(statistics);
  std::mutex mutex;
  // Of several failures the one of the first share counts, so that a seed has one report.
  std::vector<std::exception_ptr> failures(threads);
  std::vector<std::thread> workers;
  for (uint64_t t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      EmulatorStatistics own;
      try {
        Share(grid, t, threads, clusters, deadline, cancelled, done).run(own);
      } catch (...) {
        failures[t] = std::current_exception();
      }
      std::lock_guard lock(mutex);
      statistics.ctas += own.ctas;
      statistics.asynchronous_operations += own.asynchronous_operations;
      statistics.warp_instructions += own.warp_instructions;
    });
  for (std::thread& worker : workers) worker.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace ptxbuilder::runtime::emulator
