#include "runtime/emulator/machine/share.h"

#include <fmt/format.h>

#include "runtime/emulator/machine/polls.h"
#include "runtime/interrupt.h"

namespace ptxbuilder::runtime::emulator {

Share::Share(const Grid& grid, uint64_t first, uint64_t step, uint64_t all, Limits limits,
             std::atomic<uint64_t>& done)
    : grid_(grid), next_(first), step_(step), all_(all), limits_(std::move(limits)), done_(done) {
  // Short turns let CTAs that communicate interleave finely. Long turns are faster.
  constexpr uint64_t slices[] = {200'000, 3'000, 40'000, 400'000}, of_talkers[] = {200'000, 20, 3'000, 300};
  slice_ = (grid.kernel.communicates ? of_talkers : slices)[grid.seed % 4];
  if (grid.kernel.takes_turns) {
    const bool is_alone = grid.kernel.allocates || !grid.is_alone;
    const auto threads = static_cast<size_t>(is_alone ? 1 : std::max(1, grid.options.threads));
    turns_ = std::make_unique<Turns>(grid, all, threads, slice_, [this] {
      return !limits_.cancelled && std::chrono::steady_clock::now() < limits_.deadline && !is_interrupted();
    });
  }
  const Dim3 c = grid.launch.cluster;
  most_ = std::max(1u, uint32_t{hopper::multiprocessors} / (c.x * c.y * c.z));
  goes_on_ = [this] {
    check_deadline();
    return !limits_.cancelled;
  };
}

void Share::run(EmulatorStatistics& statistics) {
  int stalls = 0;
  while (!limits_.cancelled) {
    const Outcome outcome = take_turns(statistics);
    if (outcome == Outcome::finished) return;
    stalls = outcome == Outcome::stalled ? stalls + 1 : 0;
    if (stalls > 3) resident_.front()->deadlock();
  }
}

Share::Outcome Share::take_turns(EmulatorStatistics& statistics) {
  if (resident_.empty() && !admit()) return Outcome::finished;
  if (grid_.kernel.communicates && grid_.seed != 0) {  // programs must not rely on this order
    while (resident_.size() < 8 && admit()) continue;
    std::ranges::shuffle(resident_, engine_);
  }
  bool progress = false, polls = false;
  for (size_t i = 0; i < resident_.size() && !limits_.cancelled;) {
    const auto outcome = resident_[i]->run(slice_, goes_on_);
    progress |= outcome == Cluster::Outcome::running || outcome == Cluster::Outcome::finished;
    polls |= outcome == Cluster::Outcome::polling;
    check_deadline();
    if (outcome == Cluster::Outcome::finished) {
      count(*resident_[i], statistics);
      resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  // A CTA that is not finished may be waiting for a CTA that has not begun.
  if (!resident_.empty()) progress |= admit();
  return progress || resident_.empty() ? Outcome::running : polls ? Outcome::polling : Outcome::stalled;
}

bool Share::admit() {
  if (next_ >= all_ || resident_.size() >= most_) return false;
  resident_.push_back(turns_ ? turns_->take() : std::make_unique<Cluster>(grid_, next_));
  next_ += step_;
  return true;
}

void Share::count(const Cluster& c, EmulatorStatistics& statistics) {
  c.count_in(statistics);
  if (grid_.ended) *grid_.ended = GlobalKnowledge::join(*grid_.ended, c.known_at_end());
  const uint64_t so_far = done_ += c.ctas.size();
  if (grid_.options.progress) grid_.options.progress(so_far, all_ * c.ctas.size());
}

void Share::check_deadline() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return;
  next_look_ = std::min(now + std::chrono::milliseconds(20), limits_.deadline);
  const bool is_late = now >= limits_.deadline;
  if (!is_late && !is_interrupted()) return;
  const std::string picture = resident_.empty() ? "" : resident_.front()->picture();
  throw EmulatorError(
      Fault::time_limit, 0,
      fmt::format("{}: kernel {} was {}; {} of {} CTAs were{}{}", name(Fault::time_limit), grid_.kernel.name,
                  is_late
                      ? "not done in time (synchronize() with a longer limit, or --time-limit, gives it more)"
                      : "interrupted",
                  done_.load(), all_ * (resident_.empty() ? 1 : resident_[0]->ctas.size()), picture,
                  limits_.describe_polls ? limits_.describe_polls() : describe_polls({&resident_})));
}

}  // namespace ptxbuilder::runtime::emulator
