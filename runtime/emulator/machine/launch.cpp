#include "runtime/emulator/machine/launch.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/emulator/machine/share.h"

namespace ptxbuilder::runtime::emulator {
void run_grid(const Grid& grid, std::chrono::steady_clock::time_point deadline,
              EmulatorStatistics& statistics) {
  const uint64_t clusters = grid.clusters();
  const auto threads = static_cast<uint64_t>(grid.kernel.takes_turns ? 1 : std::max(1, grid.options.threads));
  std::atomic<bool> cancelled = false;
  std::atomic<uint64_t> done = 0;
  ++statistics.launches;
  if (threads == 1 || clusters == 1)
    return Share(grid, 0, 1, clusters, {deadline, cancelled}, done).run(statistics);
  std::mutex mutex;
  // If several shares fail, the failure of the first share is reported, so that each seed has one report.
  std::vector<std::exception_ptr> failures(threads);
  std::vector<std::thread> workers;
  for (uint64_t t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      EmulatorStatistics own;
      try {
        Share(grid, t, threads, clusters, {deadline, cancelled}, done).run(own);
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
