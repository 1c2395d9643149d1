#include "runtime/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

namespace ptxbuilder::runtime {
namespace {

using namespace report_format;
using Site = ReportFormat::Site;

uint64_t volume(Dim3 d) { return uint64_t{d.x} * d.y * d.z; }

uint64_t bytes_for(const Signature& signature, uint64_t ctas) {
  const uint64_t warps = (signature.threads + 31) / 32;
  return kHeaderBytes + uint64_t{signature.report->messages} * kMessageBytes +
         (signature.report->watchdog_milliseconds
              ? std::min<uint64_t>(ctas, kMostCtas) * warps * kWarpSlotBytes
              : 0);
}

template <class T>
T read_at(std::span<const std::byte> memory, uint64_t offset) {
  T value{};
  if (offset + sizeof value <= memory.size()) std::memcpy(&value, memory.data() + offset, sizeof value);
  return value;
}

std::string cta_in_words(uint32_t cta, Dim3 grid) {
  return fmt::format("CTA ({}, {}, {})", cta % grid.x, cta / grid.x % grid.y, cta / grid.x / grid.y);
}

template <class T>
T as(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::string value_in_words(char type, uint64_t bits) {
  switch (type) {
    case 's':
    case 'S':
      return fmt::format("{}", static_cast<int64_t>(bits));
    case 'f':
      return fmt::format("{}", as<float>(bits));
    case 'F':
      return fmt::format("{}", as<double>(bits));
    case 'p':
      return bits ? "true" : "false";
    case 'x':
    case 'X':
      return fmt::format("{:#x}", bits);
    default:
      return fmt::format("{}", bits);
  }
}

std::string filled(const Site& site, const ReportedMessage& message) {
  std::string text;
  size_t value = 0;
  for (size_t i = 0; i < site.text.size(); ++i) {
    if (site.text.compare(i, 2, "{}") != 0 || value >= site.types.size() || value >= kMostValues) {
      text += site.text[i];
      continue;
    }
    text += value_in_words(site.types[value], message.values[value]);
    ++value, ++i;
  }
  return text;
}

// A warp of a launch that is waiting.
struct Waiting {
  uint32_t warp;  // number in its CTA
  Slot slot;
  const Site* site;
  std::string role;
};

// Interprets the contents of the slots of a launch.
class Picture {
 public:
  Picture(const Signature& signature, Dim3 grid, std::span<const std::byte> memory)
      : signature_(signature), report_(*signature.report), grid_(grid) {
    const uint32_t warps = (signature.threads + 31) / 32;
    const uint64_t first = kHeaderBytes + uint64_t{report_.messages} * kMessageBytes;
    const uint64_t count = std::min<uint64_t>(volume(grid), kMostCtas) * warps;
    for (uint64_t i = 0; i < count; ++i) {
      const auto slot = read_at<Slot>(memory, first + i * kWarpSlotBytes);
      const auto warp = static_cast<uint32_t>(i % warps);
      const bool waits = slot.state == WarpState::waits || slot.state == WarpState::at_barrier;
      if (waits && slot.site >= 1 && slot.site <= report_.sites.size())
        waiting_.push_back({warp, slot, &report_.sites[slot.site - 1], role_of(warp)});
      else if (slot.state == WarpState::ended)
        ended_.push_back({warp, slot, nullptr, role_of(warp)});
      else if (slot.state == WarpState::runs)
        ++running_;
    }
    // Warps whose wait has exceeded its limit come first, because the other warps wait for them.
    std::stable_sort(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) {
      return (a.slot.state == WarpState::waits) > (b.slot.state == WarpState::waits);
    });
  }

  std::string text() const {
    if (waiting_.empty()) return {};
    std::string all =
        fmt::format("\n  watchdog: {} warps wait, {} run elsewhere, {} have ended; a wait may take {} ms",
                    waiting_.size(), running_, ended_.size(), report_.watchdog_milliseconds);
    std::vector<const Waiting*> told;
    constexpr size_t kMost = 16;
    for (const Waiting& w : waiting_) {
      if (std::any_of(told.begin(), told.end(), [&](const Waiting* other) { return is_like(w, *other); }))
        continue;
      told.push_back(&w);
      if (told.size() > kMost) {
        all += "\n  ...";
        break;
      }
      all += "\n  " + line(w);
    }
    for (const Waiting* w : told)
      if (w->site->kind == Site::Kind::mbarrier) all += "\n  " + mbarrier(*w);
    all += ended_in_words();
    return all + "\n  likely: " + likely(*told.front());
  }

 private:
  std::string role_of(uint32_t warp) const {
    for (const ProfileFormat::Role& role : report_.roles)
      if (warp >= role.first_warp && warp - role.first_warp < role.warps) return role.name;
    return {};
  }

  std::string warp_in_words(const Waiting& w) const {
    return fmt::format("{} warp {}{}", cta_in_words(w.slot.cta, grid_), w.warp,
                       w.role.empty() ? "" : " (" + w.role + ")");
  }

  std::string object(const Waiting& w) const {
    for (const SharedObject& o : signature_.shared)
      if (w.slot.object >= o.offset && w.slot.object < o.offset + o.bytes * o.stages)
        return o.stages > 1 ? fmt::format("{}[{}]", o.name, (w.slot.object - o.offset) / o.bytes) : o.name;
    return fmt::format("at byte {} of dynamic shared memory", w.slot.object);
  }

  static bool is_like(const Waiting& a, const Waiting& b) {
    return a.slot.state == b.slot.state && a.slot.site == b.slot.site && a.role == b.role &&
           (a.slot.state == WarpState::at_barrier ||
            (a.slot.object == b.slot.object && a.slot.expected == b.slot.expected));
  }

  std::string line(const Waiting& w) const {
    size_t more = 0, ctas = 0;
    uint32_t last = w.slot.cta;
    for (const Waiting& other : waiting_) {
      if (&other == &w || !is_like(other, w)) continue;
      ++more;
      if (other.slot.cta != last) ++ctas;
      last = other.slot.cta;
    }
    std::string text = warp_in_words(w);
    if (more) text += fmt::format(" and {} more{}", more, ctas ? fmt::format(", of {} CTAs,", ctas + 1) : "");
    text += more ? " wait " : " waits ";
    switch (w.site->kind) {
      case Site::Kind::mbarrier:
        text += fmt::format("for phase parity {} of mbarrier {}", w.slot.expected & 1, object(w));
        break;
      case Site::Kind::counter:
        text += w.site->text == kGridBarrier
                    ? fmt::format("for {} at {:#x}, which {} CTAs have not reached", w.site->text,
                                  w.slot.counter, missing_ctas(w))
                    : fmt::format("for {} at {:#x}, which is {} but should become {}", w.site->text,
                                  w.slot.counter, w.slot.word, w.slot.expected);
        break;
      default:
        text += "at " + w.site->text;
    }
    return text + ", " + w.site->line;
  }

  std::string mbarrier(const Waiting& w) const {
    // An H100 returns 0 for the mbarrier's word.
    if (w.slot.word == 0)
      return fmt::format("mbarrier {}: the device does not show what is missing", object(w));
    if (!is_initialised(w))
      return fmt::format("mbarrier {} holds {:#018x}, which is not an mbarrier", object(w), w.slot.word);
    const MbarrierWord m = decode(w.slot.word);
    std::string text =
        fmt::format("mbarrier {} of {} is in the phase of parity {}: {} of {} arrivals are missing",
                    object(w), cta_in_words(w.slot.cta, grid_), w.slot.expected & 1, m.pending, m.expected);
    if (m.bytes > 0) text += fmt::format(", {} B are expected but have not arrived", m.bytes);
    if (m.bytes < 0) text += fmt::format(", {} B more have arrived than were expected", -m.bytes);
    return text;
  }

  std::string ended_in_words() const {
    std::string text;
    const uint32_t cta = waiting_.front().slot.cta;
    std::vector<uint32_t> warps;
    for (const Waiting& w : ended_)
      if (w.slot.cta == cta) warps.push_back(w.warp);
    for (size_t i = 0; i < warps.size();) {
      size_t j = i;
      while (j + 1 < warps.size() && warps[j + 1] == warps[j] + 1 &&
             role_of(warps[j + 1]) == role_of(warps[i]))
        ++j;
      const std::string role = role_of(warps[i]);
      text +=
          fmt::format("\n  {} warp{} {}{}{} ended", cta_in_words(cta, grid_),
                      i == j ? fmt::format(" {}", warps[i]) : fmt::format("s {} to {}", warps[i], warps[j]),
                      role.empty() ? "" : fmt::format("({}) ", role), i == j ? "has" : "have", "");
      i = j + 1;
    }
    return text;
  }

  // Each CTA adds 1 to the counter, except the first, which adds 2^31 minus the number of the other CTAs
  // (GridBarrier::sync).
  static uint64_t missing_ctas(const Waiting& w) {
    constexpr uint64_t kAll = uint64_t{1} << 31;
    const uint64_t come = w.slot.word & (kAll - 1);
    return come > kAll / 2 ? kAll - come : w.slot.expected - come;
  }

  // Returns false if an mbarrier was never initialised, or was overwritten.
  static bool is_initialised(const Waiting& w) {
    const MbarrierWord m = decode(w.slot.word);
    return (w.slot.word & 1) == 0 && m.expected > 0 && m.pending <= m.expected;
  }

  // Returns the roles of the CTA's warps that have ended, except roles that are still waiting.
  std::string gone(uint32_t cta) const {
    std::string roles;
    for (const ProfileFormat::Role& role : report_.roles) {
      const auto is_of = [&](const Waiting& w) { return w.slot.cta == cta && w.role == role.name; };
      if (std::any_of(waiting_.begin(), waiting_.end(), is_of)) continue;
      if (std::any_of(ended_.begin(), ended_.end(), is_of)) roles += (roles.empty() ? "" : ", ") + role.name;
    }
    return roles;
  }

  std::string likely(const Waiting& w) const {
    const std::string left = gone(w.slot.cta);
    switch (w.site->kind) {
      case Site::Kind::mbarrier:
        return likely_of_mbarrier(w, left);
      case Site::Kind::counter:
        if (w.site->text == kGridBarrier)
          return "some CTAs do not reach the grid's barrier: they have ended, wait elsewhere, or do not run "
                 "yet";
        return fmt::format(
            "{} fewer signals arrived than are needed: a signal is missing, or its sender has ended or does "
            "not run at the same time",
            w.slot.expected > w.slot.word ? fmt::format("{}", w.slot.expected - w.slot.word) : "some");
      case Site::Kind::cluster:
        return "a CTA of the cluster does not reach its barrier: it has ended, or waits elsewhere";
      default: {
        const auto here = std::count_if(waiting_.begin(), waiting_.end(), [&](const Waiting& other) {
          return other.slot.cta == w.slot.cta && other.slot.site == w.slot.site;
        });
        return fmt::format("{} warps have reached it, which is fewer than it is for{}", here,
                           left.empty() ? "" : ": the role " + left + " has ended");
      }
    }
  }

  std::string likely_of_mbarrier(const Waiting& w, const std::string& left) const {
    if (w.slot.word == 0)
      return left.empty()
                 ? fmt::format(
                       "arrivals or bytes are missing at {}: run it on the emulator, which shows which",
                       object(w))
                 : fmt::format("the role {} has ended; its arrivals may be missing at {}", left, object(w));
    if (!is_initialised(w))
      return "the mbarrier is not initialised when threads wait for it, or was overwritten: its init, with a "
             "fence.mbarrier_init and a barrier of the threads, must come before all uses";
    const MbarrierWord m = decode(w.slot.word);
    const std::string name = object(w);
    if (m.bytes > 0 && m.pending == 0)
      return fmt::format(
          "{} expects {} B more than its copies deliver: expect_tx has too many bytes, or a copy is missing",
          name, m.bytes);
    if (m.bytes < 0)
      return fmt::format(
          "{} has received {} B more than were expected: expect_tx has too few bytes, or is missing", name,
          -m.bytes);
    if (m.bytes > 0) return fmt::format("{} lacks bytes and arrivals: copies were not issued", name);
    if (m.pending < m.expected)
      return fmt::format("{} is initialised for {} arrivals but gets {}: the count is too high{}", name,
                         m.expected, m.expected - m.pending,
                         left.empty() ? ", or some threads that should arrive are waiting"
                                      : ", or the role " + left + " has ended too early");
    if (!left.empty())
      return fmt::format("nobody arrives at {} in this phase: the role {} has ended", name, left);
    return fmt::format(
        "nobody has arrived at {} in this phase: the threads that should arrive are waiting, or the parity "
        "belongs to a phase too far ahead",
        name);
  }

  const Signature& signature_;
  const ReportFormat& report_;
  Dim3 grid_;
  std::vector<Waiting> waiting_, ended_;
  size_t running_ = 0;
};

// Assembles tiles from the elements that their threads have reported.
class PrintedTiles {
 public:
  // Adds an element to its tile. A tile appears among the messages at the position of its first element.
  void take(const ReportedMessage& message, std::vector<KernelMessages::Message>& messages) {
    for (const uint64_t word : message.values) {
      if (!(word & kIsElement)) continue;
      const TileElementWord e = tile_element(word);
      const Source source{message.site, message.cta, message.thread / 128};
      // A second value of the same element belongs to the warpgroup's next print of the tile.
      const uint32_t turn = turns_[{source, e.row, e.col}]++;
      const auto [place, is_new] = numbers_.try_emplace({source, turn}, tiles_.size());
      if (is_new) {
        tiles_.push_back({source, messages.size(), {}});
        messages.push_back({false, {}});
      }
      tiles_[place->second].elements[{e.row, e.col}] = e.bits;
    }
  }

  void tell(const ReportFormat& report, Dim3 grid, std::vector<KernelMessages::Message>& messages) const {
    for (const Tile& tile : tiles_) {
      const Site& site = report.sites[tile.source.site - 1];
      uint32_t rows = 0, cols = 0;
      for (const auto& [at, bits] : tile.elements) {
        rows = std::max(rows, at.first + 1);
        cols = std::max(cols, at.second + 1);
      }
      std::vector<std::vector<std::string>> words(rows, std::vector<std::string>(cols, "?"));
      size_t width = 1;
      for (const auto& [at, bits] : tile.elements) {
        std::string& word = words[at.first][at.second] =
            element_in_words(site.types.empty() ? 'u' : site.types[0], bits);
        width = std::max(width, word.size());
      }
      std::string text =
          fmt::format("{}: {} warpgroup {}: {}, {} x {}", site.line, cta_in_words(tile.source.cta, grid),
                      tile.source.warpgroup, site.text, rows, cols);
      for (uint32_t r = 0; r < rows; ++r) {
        text += fmt::format("\n  {:3}:", r);
        for (const std::string& word : words[r]) text += fmt::format(" {:>{}}", word, width);
      }
      messages[tile.message].text = std::move(text);
    }
  }

 private:
  struct Source {
    uint32_t site, cta, warpgroup;
    auto operator<=>(const Source&) const = default;
  };
  struct Tile {
    Source source;
    size_t message;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> elements;  // indexed by row and column
  };

  static std::string element_in_words(char type, uint32_t bits) {
    if (type == 'f') return fmt::format("{:.5g}", as<float>(bits));
    return value_in_words(type, type == 's' ? static_cast<uint64_t>(static_cast<int32_t>(bits)) : bits);
  }

  std::map<std::tuple<Source, uint32_t, uint32_t>, uint32_t> turns_;
  std::map<std::pair<Source, uint32_t>, size_t> numbers_;
  std::vector<Tile> tiles_;
};

}  // namespace

std::string describe_waits(const Signature& signature, Dim3 grid, std::span<const std::byte> memory) {
  if (!signature.report || !signature.report->watchdog_milliseconds || volume(grid) == 0) return {};
  return Picture(signature, grid, memory).text();
}

KernelMessages read_messages(const Signature& signature, Dim3 grid, std::span<const std::byte> memory) {
  KernelMessages all;
  const uint32_t room = signature.report->messages, written = read_at<ReportHeader>(memory, 0).messages;
  all.lost = written > room ? written - room : 0;
  PrintedTiles tiles;
  for (uint32_t i = 0; i < std::min(written, room); ++i) {
    const auto message = read_at<ReportedMessage>(memory, kHeaderBytes + uint64_t{i} * kMessageBytes);
    if (message.site < 1 || message.site > signature.report->sites.size()) continue;  // still incomplete
    const Site& site = signature.report->sites[message.site - 1];
    if (site.kind == Site::Kind::tile) {
      tiles.take(message, all.messages);
      continue;
    }
    all.messages.push_back({site.kind == Site::Kind::check,
                            fmt::format("{}: {} thread {}: {}", site.line, cta_in_words(message.cta, grid),
                                        message.thread, filled(site, message))});
  }
  tiles.tell(*signature.report, grid, all.messages);
  return all;
}

KernelReport::KernelReport(Device& device, const Signature& signature)
    : device_(device), signature_(signature) {}

Address KernelReport::memory_for(Dim3 grid) {
  const std::lock_guard lock(mutex_);
  if (memories_.empty() || memories_.back().ctas < std::min<uint64_t>(volume(grid), kMostCtas)) {
    const uint64_t ctas = volume(grid);
    memories_.push_back({grid, device_.map_memory(bytes_for(signature_, ctas)), ctas});
  }
  memories_.back().grid = grid;
  return memories_.back().mapped->address();
}

void KernelReport::on_print(std::function<void(const std::string&)> print) {
  const std::lock_guard lock(mutex_);
  print_ = std::move(print);
}

std::string KernelReport::about_failure() {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const Memory& m : memories_) {
    for (const auto& message : read_messages(signature_, m.grid, m.mapped->bytes()).messages)
      text += fmt::format("\n  {} {}", message.is_check ? "check failed" : "printed", message.text);
    text += describe_waits(signature_, m.grid, m.mapped->bytes());
  }
  return text;
}

void KernelReport::work_done() {
  const std::lock_guard lock(mutex_);
  if (signature_.report->messages == 0) return;
  std::vector<std::string> failed;
  uint64_t lost = 0;
  for (const Memory& m : memories_) {
    const std::span<std::byte> bytes = m.mapped->bytes();
    const KernelMessages all = read_messages(signature_, m.grid, bytes);
    if (read_at<ReportHeader>(bytes, 0).messages == 0) continue;
    std::fill_n(bytes.begin(), kHeaderBytes + uint64_t{signature_.report->messages} * kMessageBytes,
                std::byte{0});
    lost += all.lost;
    for (const auto& message : all.messages)
      if (message.is_check)
        failed.push_back(message.text);
      else if (print_)
        print_(message.text);
      else
        fmt::print("{}\n", message.text);
  }
  constexpr size_t kMost = 10;
  const std::string without = lost ? fmt::format("\n  there was no room for {} messages", lost) : "";
  if (failed.empty()) {
    if (lost && print_)
      print_(fmt::format("there was no room for {} messages of kernel {}", lost, signature_.kernel));
    else if (lost)
      fmt::print("there was no room for {} messages of kernel {}\n", lost, signature_.kernel);
    return;
  }
  std::string text = fmt::format("kernel {}: {} checks failed", signature_.kernel, failed.size());
  for (size_t i = 0; i < std::min(failed.size(), kMost); ++i) text += "\n  " + failed[i];
  if (failed.size() > kMost) text += "\n  ...";
  throw Error(text + without, Error::Kind::device);
}

}  // namespace ptxbuilder::runtime
