#include "ptxbuilder/tile/watchdog.h"

#include <fmt/format.h>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/tile/profile.h"
#include "ptxbuilder/tile/report.h"

namespace ptxbuilder {
namespace {

using namespace report_format;
using SiteKind = ReportFormat::Site::Kind;

// The limit of the innermost scope, or 0 if no scope is open.
constinit thread_local uint32_t scope_milliseconds = 0;

// Handles a wait that exceeds its limit: writes the object for which the warp waits, and then marks the warp
// as waiting.
void write_wait(const detail::Reporting& report, const detail::Awaited& awaited, uint32_t site) {
  const pred leads = detail::is_leader();
  const gmem slot = report.slot();
  const u32 object = awaited.barrier ? u32(*awaited.barrier) - u32(Builder::current().shared_base()) : u32(0);
  instruction<"st.relaxed.sys.global.v4.u32">.when(leads)(
      slot + uint64_t{offsetof(Slot, lanes)},
      {instruction<"activemask.b32">(), awaited.expected, object, u32(0)});
  const u64 counter =
      awaited.counter ? u64(detail::convert(Class::gmem, Class::u64, awaited.counter->handle())) : u64(0);
  const u64 word = awaited.barrier   ? instruction<"ld.volatile.shared.u64">(*awaited.barrier)
                   : awaited.is_wide ? instruction<"ld.volatile.global.u64">(*awaited.counter)
                                     : u64(instruction<"ld.volatile.global.u32">(*awaited.counter));
  instruction<"st.relaxed.sys.global.v2.u64">.when(leads)(slot + uint64_t{offsetof(Slot, counter)},
                                                          {counter, word});
  report.write_state(WarpState::waits, site);
  instruction<"fence.acq_rel.sys">();  // makes the writes visible to the host before a trap
}

// Returns a description of the barrier and its number of threads, derived from the instruction's operands.
std::string barrier_in_words(std::span<const Argument> arguments) {
  const Builder& builder = Builder::current();
  auto known = [&](size_t i) -> std::optional<uint64_t> {
    if (i >= arguments.size()) return std::nullopt;
    if (const auto* number = std::get_if<int64_t>(&arguments[i])) return static_cast<uint64_t>(*number);
    const auto* value = std::get_if<Value>(&arguments[i]);
    const auto constant = value ? builder.constant(*value) : std::nullopt;
    return constant ? std::optional(constant->value) : std::nullopt;
  };
  const auto number = known(0), threads = known(1);
  const std::string of = threads                ? fmt::format("{} threads", *threads)
                         : arguments.size() > 1 ? std::string("some threads")
                                                : std::string("all threads of the CTA");
  return number ? fmt::format("barrier {} of {}", *number, of)
                : fmt::format("the barrier of its warpgroup, of {}", of);
}

// Emits while_(goes_on, body) with the watchdog's time limit. If the first attempt to wait succeeds, the
// clock is not read.
void watched_while(const detail::Awaited& awaited, const std::function<pred()>& goes_on,
                   const std::function<void()>& body) {
  const detail::Reporting* const report = detail::reporting();
  if (!report || !report->watches()) return while_(goes_on, body);
  const uint64_t limit = uint64_t{report->format().watchdog_milliseconds} * 1'000'000;
  const uint32_t site = detail::reporting()->site(awaited.barrier ? SiteKind::mbarrier : SiteKind::counter,
                                                  std::string(awaited.what));
  Var<u64> began(u64(0));
  Var<pred> is_late(pred(false));
  while_(goes_on, [&] {
    body();
    const u64 now = globaltimer();
    if_(began.value() == 0, [&] { began = now; });
    const u64 waited = now - began.value();
    if_(waited > limit, [&] {
      write_wait(*report, awaited, site);
      is_late = pred(true);
      if_(waited > 2 * limit, [&] { trap(); });
    });
  });
  if_(is_late.value(), [&] { report->write_state(WarpState::runs, 0); });
}

}  // namespace

WatchdogScope::WatchdogScope(uint32_t milliseconds, Where where) : outer_(scope_milliseconds) {
  const CallersLine line(where);
  if (milliseconds < 1 || milliseconds > kMostMilliseconds)
    throw Error(fmt::format("WatchdogScope: the limit is {} ms, but must be 1 to {}", milliseconds,
                            kMostMilliseconds));
  scope_milliseconds = milliseconds;
}
WatchdogScope::~WatchdogScope() { scope_milliseconds = outer_; }
uint32_t WatchdogScope::milliseconds() { return scope_milliseconds; }

namespace detail {

void wait_while(const Awaited& awaited, const std::function<pred()>& goes_on,
                const std::function<void()>& body) {
  record_wait(awaited.has_to_wait ? awaited.has_to_wait : goes_on,
              [&] { watched_while(awaited, goes_on, body); });
}

void watch_barriers(Builder& builder) {
  builder.on_instruction([](Builder::When when, const isa::Row& row, std::span<const Argument> arguments) {
    const std::string_view mnemonic = row.mnemonic();
    const bool is_cluster = mnemonic.starts_with("barrier.cluster.wait");
    const bool is_barrier = mnemonic.starts_with("bar.sync") || mnemonic.starts_with("barrier.sync") ||
                            mnemonic.starts_with("barrier.cta.sync") || mnemonic.starts_with("bar.cta.sync");
    if (!is_cluster && !is_barrier) return;
    Reporting& report = *reporting();
    if (when == Builder::When::behind) return report.write_state(WarpState::runs, 0);
    const uint32_t site = is_cluster ? report.site(SiteKind::cluster, "the cluster's barrier")
                                     : report.site(SiteKind::barrier, barrier_in_words(arguments));
    report.write_state(WarpState::at_barrier, site);
  });
}

}  // namespace detail

}  // namespace ptxbuilder
