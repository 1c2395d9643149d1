#include "runtime/emulator/machine/polls.h"

#include <fmt/format.h>

#include <chrono>
#include <map>

namespace ptxbuilder::runtime::emulator {
namespace {

// A read that one instruction of a warp repeats. Only the read by the first lane is recorded.
struct Poll {
  int lane = 32;
  uint64_t address = 0, value = 0, state = 0;
  std::string place = {};  // name of the address
  uint32_t times = 0;      // consecutive repetitions with the warp in this state
  uint64_t last = 0;       // value of Warp::executed() at the last read
  uint64_t period = 0;
};

using PollsOfWarps = std::map<std::pair<const Warp*, uint32_t>, Poll>;

class PollObserver final : public Observer {
 public:
  explicit PollObserver(PollsOfWarps& polls) : polls_(polls) {}

  void global_access(Warp& w, const Allocation& allocation, const GlobalAccess& a) override {
    const uint64_t offset = a.address - allocation.address;
    if (!a.writes || a.updates)
      add(w, a.lane, a.address, allocation.bytes.get() + offset, a.bytes,
          [&] { return allocation.name_of(offset); });
  }
  void shared_access(Warp& w, const SharedAccess& a) override {
    if (a.writes) return;
    a.each_place([&](uint32_t offset, int lane) {
      add(w, lane, offset, a.cta.shared.data() + offset, a.bytes, [&] { return a.cta.name(offset); });
    });
  }

 private:
  template <class Name>
  void add(const Warp& w, int lane, uint64_t address, const std::byte* bytes, uint32_t count, Name name) {
    Poll& poll = polls_[{&w, w.here()}];
    if (lane < 0 || lane > poll.lane) return;
    uint64_t value = 0;
    std::memcpy(&value, bytes, std::min<size_t>(count, sizeof value));
    const uint64_t state = w.state();
    if (poll.lane != lane || poll.address != address || poll.value != value || poll.state != state)
      poll = {lane, address, value, state, name(), 0, w.executed(), 0};
    ++poll.times;
    poll.period = std::max(poll.period, w.executed() - poll.last);
    poll.last = w.executed();
  }

  PollsOfWarps& polls_;
};

}  // namespace

std::string describe_polls(const std::vector<const Residents*>& launches) {
  constexpr uint64_t steps = 1'000, least_times = 8, most_lines = 8;
  constexpr auto patience = std::chrono::milliseconds(200);
  PollsOfWarps polls;
  std::vector<Cluster*> clusters;
  for (const Residents* launch : launches)
    for (const auto& cluster : *launch) clusters.push_back(cluster.get());
  for (Cluster* cluster : clusters) cluster->observers.add(std::make_unique<PollObserver>(polls));
  const auto end = std::chrono::steady_clock::now() + patience;
  const auto goes_on = [&] { return std::chrono::steady_clock::now() < end; };
  try {
    for (int round = 0; round < 64; ++round)
      for (Cluster* cluster : clusters)
        if (goes_on()) cluster->run(steps, goes_on);
  } catch (const EmulatorError&) {
    // Faults are ignored here, because the report will be that the launch has run out of time.
  }
  // A warp that has not read for the time of two passes of its loop has left the loop.
  constexpr uint64_t burst = 1'000;
  struct Line {
    const Warp* warp;
    const Poll* poll;
    size_t warps;
  };
  // Indexed by device, instruction and place.
  std::map<std::tuple<uint32_t, uint32_t, std::string>, Line> lines;
  for (const auto& [key, poll] : polls) {
    const auto [warp, pc] = key;
    if (poll.times < least_times || !warp->alive) continue;
    if (warp->executed() - poll.last > 2 * poll.period + burst) continue;
    Line& line = lines.try_emplace({warp->grid().device, pc, poll.place}, warp, &poll, 0).first->second;
    ++line.warps;
    const auto order = [](const Warp& w) {
      return std::tuple(w.grid().device, w.cta.id.z, w.cta.id.y, w.cta.id.x, w.index);
    };
    if (order(*warp) < order(*line.warp)) line.warp = warp, line.poll = &poll;
  }
  std::string text;
  size_t shown = 0;
  for (const auto& [key, line] : lines) {
    if (++shown > most_lines) return text + "\n  ...";
    const Warp& w = *line.warp;
    const Kernel& kernel = w.grid().kernel;
    text +=
        fmt::format("\n  CTA ({}, {}, {}){} warp {} lane {}{} polls {}, where it reads {} each time: {}: {}",
                    w.cta.id.x, w.cta.id.y, w.cta.id.z, w.grid().of_device(), w.index, line.poll->lane,
                    line.warps > 1 ? fmt::format(" (and {} more)", line.warps - 1) : "", line.poll->place,
                    line.poll->value, kernel.place(std::get<1>(key)), kernel.texts[std::get<1>(key)]);
  }
  return text;
}

}  // namespace ptxbuilder::runtime::emulator
