#include "ptxbuilder/tile/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/ir/open_body.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/report.h"

namespace ptxbuilder {
namespace {

using namespace profile_format;
using detail::TileContext;

// The room for events of the innermost scope; 0 without one.
constinit thread_local uint32_t scope_events = 0;

constexpr uint32_t kSlotBytes = 4;  // of a warp in shared memory: the events of lanes that went apart

void check_name(std::string_view what, std::string_view name) {
  if (name.empty()) throw Error(fmt::format("{}: its name is empty", what));
}

pred is_first_lane() { return laneid() == 0; }

// This says which lanes of a warp come to the code that is being emitted, if any does.
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
  uint8_t number_of(std::string_view what, std::string_view name);
  void begin_role(std::string name, int first_warpgroup, int warpgroups);
  void end_role();
  void name_role(std::string name) { format_.roles.back().name = format_.names[role_ - 1] = std::move(name); }
  void end();

 private:
  smem slot();
  llvm::Value* variable(llvm::Value*& known);
  pred leads();
  gmem unit(u32 index) const {
    return Builder::current().own_parameter(kParameter) + u64(index) * kUnitBytes;
  }
  uint8_t add_name(std::string_view what, std::string name);
  void write(EventKind kind, uint8_t name, u32 payload, std::optional<pred> leads);
  void write_apart(EventKind kind, uint8_t name, u32 payload);
  void start();
  void calibrate();

  ProfileFormat format_;
  std::map<std::string, uint8_t, std::less<>> numbers_;  // of regions and marks
  uint8_t role_ = 0;                                     // the number of the one that is being emitted
  // Variables of a thread, which start() sets: the events of its warp so far, and the unit of the first.
  llvm::Value *count_ = nullptr, *first_ = nullptr;
  std::optional<uint32_t> slots_;  // in shared memory, for lanes that go apart
  bool elects_ = false;
};

// The count of events of lanes that go apart, in shared memory that is allocated when the first is recorded.
smem Profiling::slot() {
  Builder& builder = Builder::current();
  constexpr int kMostWarps = hopper::cta_threads / 32;
  if (!slots_) slots_ = builder.allocate_shared("profile", kSlotBytes, kMostWarps, kSlotBytes);
  return builder.shared_base() + ((tid_x() >> 5) * kSlotBytes + *slots_);
}

llvm::Value* Profiling::variable(llvm::Value*& known) {
  if (!known) known = Builder::current().declare_variable(Class::u32);
  return known;
}

// The lane that records for its warp, which is the one that elect() takes. Where a CTA ends in the midst of a
// warp, nothing is elected.
pred Profiling::leads() {
  const Builder& builder = Builder::current();
  if (builder.signature().threads % 32 != 0) return is_first_lane();
  elects_ = true;
  return elect_sync(0xffffffff);
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

// The role of a warp ends when all of its lanes are done, also one that was elected.
void Profiling::end_role() {
  bar_warp_sync(0xffffffff);
  record(EventKind::end, role_);
}

// Lanes of a warp may run apart whenever they like, so which one records is settled by the code alone where
// whole warps come, or one lane. That lane is the same everywhere, so that it counts events in a register.
void Profiling::record(EventKind kind, uint8_t name, u32 payload) {
  switch (lanes_that_come()) {
    case Lanes::one:
      return write(kind, name, payload, std::nullopt);
    case Lanes::all:
      return write(kind, name, payload, leads());
    case Lanes::some:
      break;
  }
  const u32 together = instruction<"activemask.b32">();
  if_((together & instruction<"mov.u32 %lanemask_lt">()) == 0, [&] { write_apart(kind, name, payload); });
  bar_warp_sync(together);
}

namespace {

u64 what_of(EventKind kind, uint8_t name, u32 payload) {
  return u64(uint64_t{name} << 8 | static_cast<uint64_t>(kind)) | u64(payload) << 32;
}

}  // namespace

// The clock is read last where a region begins and first where it ends, so that little of what recording
// takes lies in the region.
void Profiling::write(EventKind kind, uint8_t name, u32 payload, std::optional<pred> leads) {
  Builder& builder = Builder::current();
  std::optional<u64> clock;
  if (kind == EventKind::end) clock = clock64();
  const u32 count(builder.load_variable(variable(count_), Class::u32));
  const u32 first(builder.load_variable(variable(first_), Class::u32));
  const pred fits = count < format_.events;
  const gmem to = unit(first + count);
  builder.store_variable(count_, (count + 1).handle());
  const u64 what = what_of(kind, name, payload);
  if (!clock) clock = clock64();
  instruction<"st.global.v2.u64">.when(leads ? fits & *leads : fits)(to, {what, *clock});
}

// Lanes that have gone apart may come here at once.
void Profiling::write_apart(EventKind kind, uint8_t name, u32 payload) {
  Builder& builder = Builder::current();
  std::optional<u64> clock;
  if (kind == EventKind::end) clock = clock64();
  const u32 count = instruction<"atom.relaxed.cta.shared::cta.add.u32">(slot(), 1);
  const u32 first(builder.load_variable(variable(first_), Class::u32));
  const gmem to = unit(first + format_.events + count);
  const u64 what = what_of(kind, name, payload);
  if (!clock) clock = clock64();
  instruction<"st.global.v2.u64">.when(count < apart_events(format_.events))(to, {what, *clock});
}

// Emits at the kernel's entry, where there is no control flow yet.
void Profiling::start() {
  Builder& builder = Builder::current();
  const uint32_t threads = builder.signature().threads, warps = (threads + 31) / 32;
  if (elects_ && threads % 32 != 0)
    throw Error(
        fmt::format("profile: regions stand ahead of threads({}), which ends in the midst of a warp; call it "
                    "before them",
                    threads));
  builder.emit_at_entry([&] {
    const u32 warp = tid_x() >> 5, cta = ctaid_x() + nctaid_x() * (ctaid_y() + nctaid_y() * ctaid_z());
    const u32 header = (cta * warps + warp) * warp_units(format_.events) + kCalibrationUnits;
    builder.store_variable(variable(first_), (header + kHeaderUnits).handle());
    builder.store_variable(variable(count_), u32(0).handle());
    const pred first = is_first_lane();
    if (slots_) instruction<"st.shared.u32">.when(first)(slot(), u32(0));
    instruction<"st.global.v2.u32">.when(first)(unit(header), {u32(1), smid()});
    const u64 clock = clock64(), nanoseconds = globaltimer();
    instruction<"st.global.v2.u64">.when(first)(unit(header + 1), {clock, nanoseconds});
    instruction<"st.global.v2.u64">.when(first)(unit(header + 2), {u64(0), u64(0)});
    meet_warp(threads);
  });
}

void Profiling::end() {
  Builder& builder = Builder::current();
  meet_warp(builder.signature().threads);
  if_(leads(), [&] {
    const u64 clock = clock64(), nanoseconds = globaltimer();
    const u32 count(builder.load_variable(variable(count_), Class::u32));
    const u32 first(builder.load_variable(variable(first_), Class::u32));
    const gmem header = unit(first - kHeaderUnits);
    instruction<"st.global.v2.u64">(header + offsetof(Header, last_clock), {clock, nanoseconds});
    const u32 apart = slots_ ? instruction<"ld.shared.u32">(slot()) : u32(0);
    instruction<"st.global.v2.u32">(header + offsetof(Header, events), {count, apart});
  });
  calibrate();
  start();
  builder.signature().profile = format_;
}

// The first warp of all, when it is done with the kernel, finds out what an event costs. Its events have room
// for as many as it records, so the condition is one that lets in whole warps for certain.
void Profiling::calibrate() {
  const auto empty_regions = [&] {
    Builder& builder = Builder::current();
    builder.store_variable(variable(first_), u32(0).handle());
    builder.store_variable(variable(count_), u32(0).handle());
    for_(0, u32(kCalibrationUnits / 2), [&](u32) {
      record(EventKind::begin, 0);
      record(EventKind::end, 0);
    });
  };
  if_(tid_x() < 32, [&] { if_((ctaid_x() | ctaid_y() | ctaid_z()) == 0, empty_regions); });
}

std::shared_ptr<Profiling> begin_profiling(Builder& builder) {
  if (scope_events == 0) return nullptr;
  add_own_pointer(builder, kParameter, "where the kernel records its profile");
  return std::make_shared<Profiling>(scope_events);
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

void record_mark(std::string_view name, EventKind kind, u32 bits) {
  check_name("mark", name);
  Builder& builder = Builder::current();
  builder.check_current();
  Profiling* const profiling = TileContext::of(builder).profiling.get();
  if (profiling) profiling->record(kind, profiling->number_of("mark", name), bits);
}

}  // namespace

}  // namespace detail

ProfileScope::ProfileScope(uint32_t events, Where where) : outer_(scope_events) {
  CallersLine line(where);
  if (events < kLeastEvents || events > kMostEvents)
    throw Error(fmt::format("ProfileScope: room for {} events of a warp; it is {} to {}", events,
                            kLeastEvents, kMostEvents));
  scope_events = events;
}

ProfileScope::~ProfileScope() { scope_events = outer_; }

void mark(std::string_view name, u32 value, Where where) {
  AtLine line(where);
  detail::record_mark(name, EventKind::mark_u32, value);
}
void mark(std::string_view name, s32 value, Where where) {
  AtLine line(where);
  detail::record_mark(name, EventKind::mark_s32, u32(value));
}
void mark(std::string_view name, f32 value, Where where) {
  AtLine line(where);
  detail::record_mark(name, EventKind::mark_f32, bit_cast<u32>(value));
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
