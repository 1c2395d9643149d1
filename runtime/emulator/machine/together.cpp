#include "runtime/emulator/machine/together.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>

#include "runtime/emulator/machine/polls.h"
#include "runtime/emulator/machine/share.h"

namespace ptxbuilder::runtime::emulator {
namespace {

class Together {
 public:
  Together(uint32_t devices, uint64_t seed, const std::function<Grid*(uint32_t)>& next,
           std::chrono::steady_clock::time_point deadline, EmulatorStatistics& statistics)
      : next_(next),
        deadline_(deadline),
        statistics_(statistics),
        launches_(devices),
        engine_(seed * 0x9e3779b97f4a7c15 + devices),
        in_turn_(seed == 0),
        late_(seed == 0 ? devices : static_cast<uint32_t>(engine_() % (2 * devices))) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  void run() {
    for (uint32_t device = 0; device < launches_.size(); ++device) begin(device);
    // A warp that polls continues once it sees another warp's store, which weak memory delays but always
    // shows in the end.
    constexpr int most_stalls = 8, most_polls = 20'000;
    int stalls = 0, polls = 0;
    while (std::ranges::any_of(launches_, [](const auto& l) { return l.share != nullptr; })) {
      if (!in_turn_) std::ranges::shuffle(order_, engine_);
      bool progress = false, any_polls = false;
      for (const uint32_t device : order_) {
        AtDevice& at = launches_[device];
        if (!at.share) continue;
        if (device == late_ && engine_() % 64 != 0) {  // the late device gets a turn only occasionally
          progress |= stalls == 0 && polls == 0;
          if (progress) continue;
        }
        const Share::Outcome outcome = at.share->take_turns(statistics_);
        progress |= outcome == Share::Outcome::running || outcome == Share::Outcome::finished;
        any_polls |= outcome == Share::Outcome::polling;
        if (outcome == Share::Outcome::finished) begin(device);
      }
      polls = progress ? 0 : polls + any_polls;
      stalls = progress || any_polls ? 0 : stalls + 1;
      if (stalls > most_stalls || polls > most_polls) deadlock();
    }
  }

 private:
  struct AtDevice {
    Grid* grid = nullptr;
    std::unique_ptr<Share> share;
    std::atomic<uint64_t> done = 0;
    GlobalKnowledge::Pointer known;  // from the finished launches
  };

  void begin(uint32_t device) {
    AtDevice& at = launches_[device];
    at.share.reset();
    at.grid = next_(device);
    if (!at.grid) return;
    ++statistics_.launches;
    at.grid->first_cluster = clusters_;
    at.grid->known = at.known;
    at.grid->ended = &at.known;
    const uint64_t all = at.grid->clusters();
    clusters_ += all;
    at.done = 0;
    at.share = std::make_unique<Share>(
        *at.grid, 0, 1, all,
        Share::Limits{deadline_, cancelled_, [this] { return describe_polls(residents()); }}, at.done);
  }

  std::vector<const Residents*> residents() const {
    std::vector<const Residents*> all;
    for (const AtDevice& at : launches_)
      if (at.share) all.push_back(&at.share->resident());
    return all;
  }

  [[noreturn]] void deadlock() const {
    std::string text =
        fmt::format("{}: the devices' launches wait for each other, and nothing in flight can wake one",
                    name(Fault::deadlock));
    for (const Residents* resident : residents())
      for (const auto& cluster : *resident)
        text += fmt::format("\n  kernel {}{}:{}", cluster->grid.kernel.name, cluster->grid.of_device(),
                            cluster->picture());
    throw EmulatorError(Fault::deadlock, 0, text + describe_polls(residents()));
  }

  const std::function<Grid*(uint32_t)>& next_;
  std::chrono::steady_clock::time_point deadline_;
  EmulatorStatistics& statistics_;
  std::vector<AtDevice> launches_;  // indexed by device
  std::vector<uint32_t> order_ = std::vector<uint32_t>(launches_.size());
  std::mt19937_64 engine_;
  bool in_turn_;
  uint32_t late_;  // the number of the late device; if no device has this number, none is late
  uint64_t clusters_ = 0;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace

void run_grids_together(uint32_t devices, uint64_t seed, const std::function<Grid*(uint32_t)>& next,
                        std::chrono::steady_clock::time_point deadline, EmulatorStatistics& statistics) {
  Together(devices, seed, next, deadline, statistics).run();
}

}  // namespace ptxbuilder::runtime::emulator
