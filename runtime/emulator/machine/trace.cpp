#include "runtime/emulator/machine/trace.h"

#include <fmt/format.h>

#include <fstream>

namespace ptxbuilder::runtime::emulator {
namespace {

constexpr size_t most_events = 2'000'000;  // about 250 MB of JSON, more than any viewer accepts

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 120)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c < ' ' ? ' ' : c;
  }
  return out;
}

}  // namespace

void Trace::begin(const Grid& grid) {
  std::lock_guard lock(mutex_);
  kernel_ = grid.kernel.name;
}

void Trace::event(const Cta& cta, const std::string& row, const std::string& name, uint64_t from, uint64_t to,
                  uint32_t line) {
  const std::string process = fmt::format("{} CTA ({}, {}, {})", kernel_, cta.id.x, cta.id.y, cta.id.z);
  std::lock_guard lock(mutex_);
  if (events_.size() >= most_events) return;
  auto number = [&](std::map<std::string, size_t>& numbers, const std::string& key, size_t in,
                    const char* kind, const std::string& shown) {
    auto [at, fresh] = numbers.try_emplace(key, numbers.size() + 1);
    if (fresh)
      events_.push_back(fmt::format(R"_({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":"{}"}}}})_",
                                    in ? in : at->second, in ? at->second : 0, kind, escaped(shown)));
    return at->second;
  };
  const size_t pid = number(processes_, process, 0, "process_name", process);
  const size_t tid = number(rows_, process + row, pid, "thread_name", row);
  events_.push_back(
      fmt::format(R"_({{"ph":"X","pid":{},"tid":{},"name":"{}","ts":{},"dur":{},"args":{{"ptx line":{}}}}})_",
                  pid, tid, escaped(name), from, std::max<uint64_t>(1, to - from), line));
}

void Trace::ran(const Warp& warp, uint64_t from, uint64_t to, uint32_t pc) {
  const Kernel& kernel = warp.grid().kernel;
  pc = std::min<uint32_t>(pc, static_cast<uint32_t>(kernel.texts.size()) - 1);
  event(warp.cta, fmt::format("warp {:2}", warp.index),
        kernel.texts[pc].substr(0, kernel.texts[pc].find(' ')), from, to, kernel.lines[pc].ptx);
}

void Trace::operation(const Warp& warp, const char* kind, uint64_t from, uint64_t to, uint32_t pc) {
  event(warp.cta, fmt::format("{} of warp {:2}", kind, warp.index), kind, from, to,
        warp.grid().kernel.lines[pc].ptx);
}

void Trace::phase(Mbarrier& barrier, const Cluster& cluster) {
  event(*barrier.cta, "mbarrier " + barrier.cta->name(barrier.offset),
        fmt::format("phase {}", barrier.phase - 1), barrier.phase_began, cluster.steps,
        cluster.grid.kernel.lines[barrier.init.pc].ptx);
  barrier.phase_began = cluster.steps;
}

void Trace::write() const {
  std::ofstream out(path_);
  out << "{\"traceEvents\":[\n";
  for (size_t i = 0; i < events_.size(); ++i) out << events_[i] << (i + 1 < events_.size() ? ",\n" : "\n");
  out << "]}\n";
  if (!out.flush()) throw Error(fmt::format("cannot write the trace {}", path_));
}

}  // namespace ptxbuilder::runtime::emulator
