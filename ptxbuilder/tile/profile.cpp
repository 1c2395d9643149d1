#include "ptxbuilder/tile/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/ir/open_body.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {
namespace {

using namespace profile_format;
using detail::TileContext;

// The room for events of the innermost scope; 0 without one.
constinit thread_local uint32_t scope_events = 0;

constexpr uint32_t kSlotBytes = 8;  // of a warp in shared memory: events so far, and the unit of its first

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

// The lanes of this warp meet, of a CTA of so many threads.
void meet_warp(uint32_t threads) {
  const uint32_t rest = threads % 32;
  if (rest == 0) return bar_warp_sync(0xffffffff);
  bar_warp_sync(select(tid_x() >> 5 == threads / 32, u32((uint32_t{1} << rest) - 1), u32(0xffffffff)));
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
  gmem unit(u32 index) const { return Builder::current().last_parameter() + u64(index) * kUnitBytes; }
  u32 first_unit() { return instruction<"ld.shared.u32">(slot() + 4); }
  uint8_t add_name(std::string_view what, std::string name);
  void write(EventKind kind, uint8_t name, u32 payload);
  void start();
  void calibrate();

  ProfileFormat format_;
  std::map<std::string, uint8_t, std::less<>> numbers_;  // of regions and marks
  uint8_t role_ = 0;                                     // the number of the one that is being emitted
  llvm::Value* slot_ = nullptr;                          // a variable, which start() sets
};

smem Profiling::slot() {
  Builder& builder = Builder::current();
  if (!slot_) slot_ = builder.declare_variable(Class::smem);
  return smem(builder.load_variable(slot_, Class::smem));
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
// whole warps come, or one lane.
void Profiling::record(EventKind kind, uint8_t name, u32 payload) {
  const auto write_here = [&] { write(kind, name, payload); };
  switch (lanes_that_come()) {
    case Lanes::one:
      return write_here();
    case Lanes::all:
      return if_(is_first_lane(), write_here);
    case Lanes::some:
      break;
  }
  const u32 together = instruction<"activemask.b32">();
  if_((together & instruction<"mov.u32 %lanemask_lt">()) == 0, write_here);
  bar_warp_sync(together);
}

// The clock is read last where a region begins and first where it ends, so that little of what recording
// takes lies in the region. Lanes that have gone apart may come here at once.
void Profiling::write(EventKind kind, uint8_t name, u32 payload) {
  std::optional<u64> clock;
  if (kind == EventKind::end) clock = clock64();
  const u32 count = instruction<"atom.relaxed.cta.shared::cta.add.u32">(slot(), 1);
  const gmem to = unit(first_unit() + count);
  const u64 what = u64(uint64_t{name} << 8 | static_cast<uint64_t>(kind)) | u64(payload) << 32;
  if (!clock) clock = clock64();
  instruction<"st.global.v2.u64">.when(count < format_.events)(to, {what, *clock});
}

// Emits at the kernel's entry, where there is no control flow yet.
void Profiling::start() {
  Builder& builder = Builder::current();
  const uint32_t warps = (builder.signature().threads + 31) / 32;
  const uint32_t offset = builder.allocate_shared("profile", kSlotBytes, static_cast<int>(warps), kSlotBytes);
  builder.emit_at_entry([&] {
    const u32 warp = tid_x() >> 5, cta = ctaid_x() + nctaid_x() * (ctaid_y() + nctaid_y() * ctaid_z());
    const smem own = builder.shared_base() + (warp * kSlotBytes + offset);
    builder.store_variable(slot_, own.handle());
    const u32 header = (cta * warps + warp) * (kHeaderUnits + format_.events) + kCalibrationUnits;
    const pred first = is_first_lane();
    instruction<"st.shared.v2.u32">.when(first)(own, {u32(0), header + kHeaderUnits});
    instruction<"st.global.v2.u32">.when(first)(unit(header), {u32(1), smid()});
    const u64 clock = clock64(), nanoseconds = globaltimer();
    instruction<"st.global.v2.u64">.when(first)(unit(header + 1), {clock, nanoseconds});
    instruction<"st.global.v2.u64">.when(first)(unit(header + 2), {u64(0), u64(0)});
    meet_warp(builder.signature().threads);
  });
}

void Profiling::end() {
  meet_warp(Builder::current().signature().threads);
  if_(is_first_lane(), [&] {
    const u64 clock = clock64(), nanoseconds = globaltimer();
    const u32 count = instruction<"atom.relaxed.cta.shared::cta.add.u32">(slot(), 0);
    const gmem header = unit(first_unit() - kHeaderUnits);
    instruction<"st.global.v2.u64">(header + offsetof(Header, last_clock), {clock, nanoseconds});
    instruction<"st.global.u32">(header + offsetof(Header, events), count);
  });
  calibrate();
  start();
  Builder::current().signature().profile = format_;
}

// The first warp of all, when it is done with the kernel, finds out what an event costs. Its events have room
// for as many as it records, so the condition is one that lets in whole warps for certain.
void Profiling::calibrate() {
  const auto empty_regions = [&] {
    if_(is_first_lane(), [&] { instruction<"st.shared.v2.u32">(slot(), {u32(0), u32(0)}); });
    for_(0, u32(kCalibrationUnits / 2), [&](u32) {
      record(EventKind::begin, 0);
      record(EventKind::end, 0);
    });
  };
  if_(tid_x() < 32, [&] { if_((ctaid_x() | ctaid_y() | ctaid_z()) == 0, empty_regions); });
}

std::shared_ptr<Profiling> begin_profiling(Builder& builder) {
  if (scope_events == 0) return nullptr;
  Parameter buffer;
  buffer.name = kParameter;
  buffer.kind = Parameter::Kind::pointer;
  buffer.dtype = DType::u64;
  buffer.meaning = "where the kernel records its profile";
  builder.add_last_parameter(std::move(buffer));
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
  if (context.profiling) context.profiling->name_role(std::move(name));
}

}  // namespace ptxbuilder
