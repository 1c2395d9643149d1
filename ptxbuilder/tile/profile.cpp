#include "ptxbuilder/tile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/ir/open_body.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/report.h"

namespace ptxbuilder {
namespace {

using namespace profile_format;
using detail::TileContext;

// The innermost scope requests this; without a scope, no events.
struct Asked {
  uint32_t events = 0;
  ProfileScope::Detail detail{};
};
constinit thread_local Asked asked;

constexpr uint32_t kSlotBytes = 4;  // of a warp in shared memory: the events of diverged lanes

void check_name(std::string_view what, std::string_view name) {
  if (name.empty()) throw Error(fmt::format("{}: its name is empty", what));
}

uint32_t body_now() {
  const detail::OpenBody* body = detail::OpenBody::innermost();
  return body ? body->number() : 0;
}

// These say which lanes of a warp reach the code that is being emitted, if any lane does.
enum class Lanes : uint8_t { one, some, all };

Lanes lanes_that_come() {
  const detail::OpenBody* body = detail::OpenBody::innermost();
  if (!body) return Lanes::all;
  const detail::ThreadSet& threads = body->threads();
  if (threads.elected) return Lanes::one;
  return threads.divides_warps() ? Lanes::some : Lanes::all;
}

}  // namespace

namespace detail {

class Profiling {
 public:
  explicit Profiling(uint32_t events) { format_.events = events; }

  void record(EventKind kind, uint8_t name, u32 payload = 0);
  void record(Builder::When when, const isa::Row& row);
  uint8_t number_of(std::string_view what, std::string_view name);
  void begin_role(std::string name, int first_warpgroup, int warpgroups);
  void end_role();
  void name_role(std::string name) { format_.roles.back().name = format_.names[role_ - 1] = std::move(name); }
  void write_noted();
  void end();

 private:
  smem slot();
  u32 get(llvm::Value*& variable);
  void set(llvm::Value*& variable, u32 value);
  gmem unit(u32 index) const {
    return Builder::current().own_parameter(kParameter) + u64(index) * kUnitBytes;
  }
  uint8_t add_name(std::string_view what, std::string name);
  void note(EventKind kind, uint8_t name, u32 payload);
  uint32_t units_noted() const;
  void complete(std::string_view what, const std::function<void()>& wait);
  void write_apart(EventKind kind, uint8_t name, u32 payload);
  void start();
  void calibrate();

  ProfileFormat format_;
  std::map<std::string, uint8_t, std::less<>> numbers_;  // of regions and marks
  uint8_t role_ = 0;                                     // the number of the role that is being emitted
  bool completes_ = false;                               // a wait of its own is being emitted
  // Variables of a thread, which start() sets: the unit of its warp's next event; the unit after the last, or
  // 0 in lanes that do not record; and the unit of the warp's first event from diverged lanes.
  llvm::Value *next_ = nullptr, *end_ = nullptr, *apart_ = nullptr;
  std::optional<uint32_t> slots_;  // in shared memory, for diverged lanes

  // An event of one body that is noted but not yet written.
  struct Noted {
    EventKind kind;
    uint8_t name;
    llvm::Value *payload, *clock;
  };
  std::vector<Noted> noted_;
  uint32_t body_ = 0;  // of the noted events
  Builder::Place last_noted_;
};

// Returns the address of the event count of diverged lanes, in shared memory allocated for the first event.
smem Profiling::slot() {
  Builder& builder = Builder::current();
  constexpr int kMostWarps = hopper::cta_threads / 32;
  if (!slots_) slots_ = builder.allocate_shared("profile", kSlotBytes, kMostWarps, kSlotBytes);
  return builder.shared_base() + ((tid_x() >> 5) * kSlotBytes + *slots_);
}

u32 Profiling::get(llvm::Value*& variable) {
  Builder& builder = Builder::current();
  if (!variable) variable = builder.declare_variable(Class::u32);
  return u32(builder.load_variable(variable, Class::u32));
}

void Profiling::set(llvm::Value*& variable, u32 value) {
  Builder& builder = Builder::current();
  if (!variable) variable = builder.declare_variable(Class::u32);
  builder.store_variable(variable, value.handle());
}

uint8_t Profiling::add_name(std::string_view what, std::string name) {
  if (format_.names.size() == kMostNames)
    throw Error(
        fmt::format("{}: the kernel has {} names of roles, regions and marks, which is the most that an "
                    "event can tell apart; '{}' is one more",
                    what, kMostNames, name));
  format_.names.push_back(std::move(name));
  return static_cast<uint8_t>(format_.names.size());
}

uint8_t Profiling::number_of(std::string_view what, std::string_view name) {
  auto known = numbers_.find(name);
  if (known == numbers_.end())
    known = numbers_.emplace(std::string(name), add_name(what, std::string(name))).first;
  return known->second;
}

void Profiling::begin_role(std::string name, int first_warpgroup, int warpgroups) {
  role_ = add_name("role", name);
  constexpr uint32_t kWarps = hopper::warpgroup_threads / 32;
  format_.roles.push_back({std::move(name), static_cast<uint32_t>(first_warpgroup) * kWarps,
                           static_cast<uint32_t>(warpgroups) * kWarps});
  record(EventKind::begin, role_);
}

// The role of a warp ends when all of its lanes are done, including an elected one.
void Profiling::end_role() {
  bar_warp_sync(0xffffffff);
  record(EventKind::end, role_);
}

// Lanes of a warp may diverge at any time, so the code itself fixes which lane records if whole warps or one
// lane reach it. That lane is the same everywhere, so it can count events in a register.
void Profiling::record(EventKind kind, uint8_t name, u32 payload) {
  if (lanes_that_come() != Lanes::some) return note(kind, name, payload);
  const u32 together = instruction<"activemask.b32">();
  if_((together & instruction<"mov.u32 %lanemask_lt">()) == 0, [&] { write_apart(kind, name, payload); });
  bar_warp_sync(together);
}

// An instruction that waits or sends is a region; the products of a group are one region, from their fence to
// their end, since nothing may come between them.
void Profiling::record(Builder::When when, const isa::Row& row) {
  constexpr std::array<std::string_view, 12> kTimed = {
      "mbarrier.try_wait",    "mbarrier.test_wait",   "bar.sync",      "barrier.sync",
      "barrier.cluster.wait", "wgmma.wait_group",     "cp.async.wait", "cp.async.bulk.wait_group",
      "cp.async.bulk",        "cp.reduce.async.bulk", "st.async",      "griddepcontrol.wait"};
  if (completes_) return;
  const std::string_view word = row.mnemonic();
  const bool before = when == Builder::When::before;
  const auto is = [&](std::string_view timed) { return word.starts_with(timed); };
  if (is("wgmma.fence") && before) return record(EventKind::begin, number_of("profile", "wgmma group"));
  if (is("wgmma.commit_group") && !before) {
    record(EventKind::end, number_of("profile", "wgmma group"));
    return complete("wgmma", [] { wgmma_wait_group(0); });
  }
  if (is("cp.async.bulk.commit_group"))
    return before ? void() : complete("store", [] { cp_async_bulk_wait_group(0); });
  const auto* const timed = std::find_if(kTimed.begin(), kTimed.end(), is);
  if (timed != kTimed.end()) record(before ? EventKind::begin : EventKind::end, number_of("profile", *timed));
}

// A wait right after the issue, which only this build has, shows when the work is done.
void Profiling::complete(std::string_view what, const std::function<void()>& wait) {
  const uint8_t number = number_of("profile", fmt::format("{}{}", what, kCompletion));
  record(EventKind::begin, number);
  completes_ = true;
  wait();
  completes_ = false;
  record(EventKind::end, number);
}

namespace {

void write_units(gmem to, EventKind kind, uint8_t name, u32 payload, u32 clock, pred fits) {
  const u32 what(uint32_t{name} << 8 | static_cast<uint32_t>(kind));
  instruction<"st.global.v2.u32">.when(fits)(to, {what, clock});
  if (has_value(kind)) instruction<"st.global.v2.u32">.when(fits)(to + kUnitBytes, {u32(0), payload});
}

}  // namespace

// A warp that multiplies has no time to lose between its products. So only the clock is read here, and noted
// events are written together: after the issue of the next products, or at the start or end of a body in
// which other events are noted. Between such places, all code of a body runs equally often.
void Profiling::note(EventKind kind, uint8_t name, u32 payload) {
  Builder& builder = Builder::current();
  if (!noted_.empty() && (body_ != body_now() || units_noted() + units_of(kind) > kUnitsTogether))
    write_noted();
  if (!noted_.empty()) builder.emit_at(last_noted_, [] {});
  body_ = body_now();
  noted_.push_back({kind, name, payload.handle(), instruction<"mov.u32 %clock">().handle()});
  last_noted_ = builder.remember_place();
}

uint32_t Profiling::units_noted() const {
  uint32_t units = 0;
  for (const Noted& n : noted_) units += units_of(n.kind);
  return units;
}

void Profiling::write_noted() {
  if (noted_.empty()) return;
  Builder& builder = Builder::current();
  const auto write = [&] {
    const u32 next = get(next_);
    set(next_, next + units_noted());
    const pred fit = next < get(end_);
    gmem to = unit(next);
    for (const Noted& n : noted_) {
      write_units(to, n.kind, n.name, u32(n.payload), u32(n.clock), fit);
      to = to + units_of(n.kind) * kUnitBytes;
    }
  };
  const bool here = body_ == body_now();
  builder.emit_at(last_noted_, here ? [] {} : std::function<void()>(write));
  if (here) write();
  noted_.clear();
}

// Diverged lanes may run this at the same time.
void Profiling::write_apart(EventKind kind, uint8_t name, u32 payload) {
  std::optional<u32> clock;
  if (kind == EventKind::end) clock = instruction<"mov.u32 %clock">();
  const u32 count = instruction<"atom.relaxed.cta.shared::cta.add.u32">(slot(), units_of(kind));
  const gmem to = unit(get(apart_) + count);
  if (!clock) clock = instruction<"mov.u32 %clock">();
  write_units(to, kind, name, payload, *clock, count + units_of(kind) <= apart_events(format_.events));
}

// Emits at the kernel's entry, where there is no control flow yet. The lane that records for its warp is the
// one that elect() takes.
void Profiling::start() {
  Builder& builder = Builder::current();
  const uint32_t threads = builder.signature().threads, warps = (threads + 31) / 32;
  builder.emit_at_entry([&] {
    const u32 warp = tid_x() >> 5, cta = ctaid_x() + nctaid_x() * (ctaid_y() + nctaid_y() * ctaid_z());
    const u32 header = kCalibrationUnits + (cta * warps + warp) * warp_units(format_.events);
    const u32 first = header + kHeaderUnits, end = first + format_.events;
    const pred leads = elect_sync(lanes_of_warp(threads));
    set(next_, first);
    set(end_, select(leads, end, u32(0)));
    if (slots_) {
      set(apart_, end + kUnitsTogether);
      instruction<"st.shared.u32">.when(leads)(slot(), u32(0));
    }
    instruction<"st.global.v2.u32">.when(leads)(unit(header), {u32(1), smid()});
    const u64 clock = clock64(), nanoseconds = globaltimer();
    const gmem clocks = unit(header) + offsetof(Header, first_clock);
    instruction<"st.global.v2.u64">.when(leads)(clocks, {clock, nanoseconds});
    instruction<"st.global.v2.u64">.when(leads)(clocks + 16, {u64(0), u64(0)});
    meet_warp(threads);
  });
}

void Profiling::end() {
  Builder& builder = Builder::current();
  meet_warp(builder.signature().threads);
  write_noted();
  const u32 end = get(end_);
  if_(end != 0, [&] {
    const u64 clock = clock64(), nanoseconds = globaltimer();
    const u32 first = end - format_.events;
    const gmem header = unit(first - kHeaderUnits);
    instruction<"st.global.v2.u64">(header + offsetof(Header, last_clock), {clock, nanoseconds});
    const u32 apart = slots_ ? instruction<"ld.shared.u32">(slot()) : u32(0);
    instruction<"st.global.v2.u32">(header + offsetof(Header, events), {get(next_) - first, apart});
  });
  calibrate();
  start();
  builder.signature().profile = format_;
}

// The grid's first warp measures the cost of an event when it has finished the kernel. Its events have enough
// room for those that it records here, so the condition is one that only whole warps can pass.
void Profiling::calibrate() {
  const auto empty_regions = [&] {
    set(next_, u32(0));
    set(end_, select(get(end_) != 0, u32(kCalibrationUnits), u32(0)));
    for_(0, u32(kCalibrationUnits / kCalibrationTogether), [&](u32) {
      for (uint32_t i = 0; i < kCalibrationTogether; ++i)
        record(i % 2 ? EventKind::end : EventKind::begin, 0);
      write_noted();
    });
  };
  if_(tid_x() < 32, [&] { if_((ctaid_x() | ctaid_y() | ctaid_z()) == 0, empty_regions); });
}

std::shared_ptr<Profiling> begin_profiling(Builder& builder) {
  if (asked.events == 0) return nullptr;
  add_own_pointer(builder, kParameter, "where the kernel records its profile");
  auto profiling = std::make_shared<Profiling>(asked.events);
  builder.on_instruction([p = profiling.get(), all = asked.detail == ProfileScope::Detail::instructions](
                             Builder::When when, const isa::Row& row, std::span<const Argument>) {
    if (all) p->record(when, row);
    if (when == Builder::When::behind && row.mnemonic().starts_with("wgmma.commit_group")) p->write_noted();
  });
  return profiling;
}

void begin_profiled_role(Profiling& profiling, std::string name, int first_warpgroup, int warpgroups) {
  profiling.begin_role(std::move(name), first_warpgroup, warpgroups);
}
void end_profiled_role(Profiling& profiling) { profiling.end_role(); }
void end_profiling(Profiling& profiling) { profiling.end(); }

void in_region(std::string_view name, const std::function<void()>& body, Where where) {
  const CallersLine line(where);
  check_name("region", name);
  Builder& builder = Builder::current();
  builder.check_current();
  Profiling* const profiling = TileContext::of(builder).profiling.get();
  const uint8_t number = profiling ? profiling->number_of("region", name) : 0;
  auto record = [&](EventKind kind) {
    if (!profiling) return;
    const AtLine at_the_call(where);
    profiling->record(kind, number);
  };
  record(EventKind::begin);
  builder.run_body("region", line, body);
  record(EventKind::end);
}

namespace {

void record_value(std::string_view what, std::string_view name, EventKind kind, u32 bits) {
  check_name(what, name);
  Builder& builder = Builder::current();
  builder.check_current();
  Profiling* const profiling = TileContext::of(builder).profiling.get();
  if (profiling) profiling->record(kind, profiling->number_of(what, name), bits);
}

}  // namespace

}  // namespace detail

ProfileScope::ProfileScope(uint32_t events, Detail detail, Where where)
    : outer_events_(asked.events), outer_detail_(asked.detail) {
  CallersLine line(where);
  if (events < kLeastEvents || events > kMostEvents)
    throw Error(fmt::format("ProfileScope: room for {} events of a warp; it is {} to {}", events,
                            kLeastEvents, kMostEvents));
  asked = {events, detail};
}

ProfileScope::~ProfileScope() { asked = {outer_events_, outer_detail_}; }

void mark(std::string_view name, u32 value, Where where) {
  AtLine line(where);
  detail::record_value("mark", name, EventKind::mark_u32, value);
}
void mark(std::string_view name, s32 value, Where where) {
  AtLine line(where);
  detail::record_value("mark", name, EventKind::mark_s32, u32(value));
}
void mark(std::string_view name, f32 value, Where where) {
  AtLine line(where);
  detail::record_value("mark", name, EventKind::mark_f32, bit_cast<u32>(value));
}

void begin_span(std::string_view name, u32 number, Where where) {
  AtLine line(where);
  detail::record_value("begin_span", name, EventKind::span_begin, number);
}
void end_span(std::string_view name, u32 number, Where where) {
  AtLine line(where);
  detail::record_value("end_span", name, EventKind::span_end, number);
}

void name_role(std::string name, Where where) {
  AtLine line(where);
  check_name("name_role", name);
  TileContext& context = TileContext::of(Builder::current());
  if (context.role < 0) throw Error("name_role: outside of roles");
  if (context.reporting) context.reporting->name_role(name);
  if (context.profiling) context.profiling->name_role(std::move(name));
}

}  // namespace ptxbuilder
