#include "ptxbuilder/tile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/ir/open_body.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/region_chain.h"
#include "ptxbuilder/tile/report.h"

namespace ptxbuilder {
namespace {

using namespace profile_format;
using detail::TileContext;
using Event = ProfileFormat::Event;
using Kind = ProfileFormat::Kind;

// The settings of the innermost scope. Without a scope, `records` is 0, and nothing is recorded.
struct Asked {
  uint32_t records = 0;
  ProfileScope::Detail detail{};
};
constinit thread_local Asked asked;

constexpr uint32_t kIdle = uint32_t{1} << 31;  // larger than the number of records of any warp
constexpr uint32_t kSlotBytes = 4;             // size of a counter for the records of a warp's diverged lanes

void check_name(std::string_view what, std::string_view name) {
  if (name.empty()) throw Error(fmt::format("{}: the name is empty", what));
}

uint32_t body_now() {
  const detail::OpenBody* body = detail::OpenBody::innermost();
  return body ? body->number() : 0;
}

// The lanes of a warp that execute the code being emitted, if the warp executes it at all.
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
  Profiling(uint32_t records, ProfileScope::Detail detail) : detail_(detail) { format_.records = records; }

  void record(Kind kind, uint32_t name, u32 value = 0);
  void record_next(uint32_t name);
  void record_time();
  void record(Builder::When when, const isa::Row& row);
  void record_wait(const std::function<pred()>& has_to_wait, const std::function<void()>& loop);
  void record_waits(uint32_t name, const std::function<void()>& body);
  bool records_instructions() const { return detail_ == ProfileScope::Detail::instructions; }
  uint32_t number_of(std::string_view name);
  void begin_role(std::string name, int first_warpgroup, int warpgroups);
  void end_role();
  void name_role(std::string name) { format_.roles.back().name = format_.names[role_] = std::move(name); }
  void write_full();
  void end();

 private:
  smem slot();
  template <class T>
  T get(llvm::Value*& variable);
  template <class T>
  void set(llvm::Value*& variable, T value);
  uint32_t add_name(std::string name);
  uint32_t number_of(const ProfileFormat::Site& site);
  enum class Time : uint8_t { now, before };
  void note(Kind kind, uint32_t name, u32 value, Time time = Time::now);
  void write_noted();
  void write(uint32_t site, std::span<llvm::Value* const> words, std::span<const Builder::Place> stores,
             const std::function<void(const std::function<void()>&)>& rest);
  void complete(std::string_view what, const std::function<void()>& wait);
  void write_apart(Kind kind, uint32_t name, u32 value);
  void start();
  void calibrate();

  ProfileScope::Detail detail_;
  ProfileFormat format_;
  std::map<std::string, uint32_t, std::less<>> names_;  // numbers of the names of regions, marks and spans
  std::map<ProfileFormat::Site, uint32_t> sites_;
  uint32_t role_ = 0;             // number of the role being emitted
  bool completes_ = false;        // true while a wait that the profile adds is being emitted
  std::optional<uint32_t> wait_;  // number of the name of the wait_region() being emitted
  // Variables of each thread, which start() sets. They hold the address of the header of the thread's warp,
  // and the index of the next unit. The index is at least kIdle in lanes that do not record.
  llvm::Value *header_ = nullptr, *next_ = nullptr;
  std::optional<uint32_t> slots_;  // offset of the counters of diverged lanes in shared memory

  // Holds a record whose events have been noted, but whose stores have not been emitted yet.
  struct Noted {
    ProfileFormat::Site site;
    std::vector<llvm::Value*> words;
    uint32_t body = 0;
    std::vector<Builder::Place> stores;  // places at which full units are stored
    Builder::Place last;                 // place after the last event and its stores
    bool is_event = true;                // true if `last` is right after the last event

    bool is_full() const {
      const auto units = static_cast<uint32_t>(stores.size() + 1);
      return words.size() >= kWords + (units - 1) * kWordsOfUnit;
    }
  };
  Noted noted_;
};

// Returns the address of this warp's record counter for diverged lanes. The shared memory is allocated for
// the first record.
smem Profiling::slot() {
  Builder& builder = Builder::current();
  constexpr int kMostWarps = hopper::cta_threads / 32;
  if (!slots_) slots_ = builder.allocate_shared("profile", kSlotBytes, kMostWarps, kSlotBytes);
  return builder.shared_base() + ((tid_x() >> 5) * kSlotBytes + *slots_);
}

template <class T>
T Profiling::get(llvm::Value*& variable) {
  Builder& builder = Builder::current();
  if (!variable) variable = builder.declare_variable(T::cls);
  return T(builder.load_variable(variable, T::cls));
}

template <class T>
void Profiling::set(llvm::Value*& variable, T value) {
  Builder& builder = Builder::current();
  if (!variable) variable = builder.declare_variable(T::cls);
  builder.store_variable(variable, value.handle());
}

uint32_t Profiling::add_name(std::string name) {
  format_.names.push_back(std::move(name));
  return static_cast<uint32_t>(format_.names.size() - 1);
}

uint32_t Profiling::number_of(std::string_view name) {
  auto known = names_.find(name);
  if (known == names_.end()) known = names_.emplace(std::string(name), add_name(std::string(name))).first;
  return known->second;
}

uint32_t Profiling::number_of(const ProfileFormat::Site& site) {
  const auto [known, is_new] = sites_.try_emplace(site, static_cast<uint32_t>(sites_.size() + 1));
  if (is_new) format_.sites.push_back(site);
  return known->second;
}

void Profiling::begin_role(std::string name, int first_warpgroup, int warpgroups) {
  role_ = add_name(name);
  constexpr uint32_t kWarps = hopper::warpgroup_threads / 32;
  format_.roles.push_back({std::move(name), static_cast<uint32_t>(first_warpgroup) * kWarps,
                           static_cast<uint32_t>(warpgroups) * kWarps});
  record(Kind::begin, role_);
}

// Records the end of a role. A warp's role ends when all lanes of the warp have finished, including an
// elected lane.
void Profiling::end_role() {
  bar_warp_sync(0xffffffff);
  record(Kind::end, role_);
}

// Records an event. If entire warps or a single lane execute the code, the same lane always records, so it
// can count records in a register. If the lanes have diverged, any of them may record.
void Profiling::record(Kind kind, uint32_t name, u32 value) {
  if (lanes_that_come() != Lanes::some) return note(kind, name, value);
  const u32 together = instruction<"activemask.b32">();
  if_((together & instruction<"mov.u32 %lanemask_lt">()) == 0, [&] { write_apart(kind, name, value); });
  bar_warp_sync(together);
}

// Begins a region at the time of the warp's last event. Diverged lanes do not always have a last event.
void Profiling::record_next(uint32_t name) {
  if (lanes_that_come() == Lanes::some) return record(Kind::begin, name);
  note(Kind::begin, name, 0, Time::before);
}

// Records only the time. The event is the end of a region that cannot be open, because no other region has
// its name.
void Profiling::record_time() {
  if (lanes_that_come() != Lanes::some) note(Kind::end, number_of(""), 0);
}

// Records a wait. The wait has a separate, complete record, and the record of the surrounding body continues
// after the wait. Units of the surrounding record that the wait's record would overwrite are stored first.
void Profiling::record_wait(const std::function<pred()>& has_to_wait, const std::function<void()>& loop) {
  if (!wait_) return loop();
  if (!noted_.stores.empty()) write_noted();
  const uint32_t site = number_of({{Kind::begin, *wait_, 0}, {Kind::end, *wait_, 1}});
  if_(has_to_wait(), [&] {
    const u32 begin = instruction<"mov.u32 %clock">();
    loop();
    const u32 end = instruction<"mov.u32 %clock">();
    const std::array<llvm::Value*, 2> clocks = {begin.handle(), end.handle()};
    write(site, clocks, {}, [](const std::function<void()>& emission) { emission(); });
  });
}

// Records the waits in `body`. Records an ordinary region if the lanes have diverged, because they write one
// record for each time, or if instructions are regions, because these need the beginning of the outer region.
void Profiling::record_waits(uint32_t name, const std::function<void()>& body) {
  const bool whole = lanes_that_come() == Lanes::some || detail_ == ProfileScope::Detail::instructions;
  if (whole) record(Kind::begin, name);
  const std::optional<uint32_t> outer =
      std::exchange(wait_, whole ? std::nullopt : std::optional<uint32_t>(name));
  body();
  wait_ = outer;
  if (whole) record(Kind::end, name);
}

// Records instructions. An instruction that waits or copies forms a region. The products of a group form a
// single region, from their fence to their end, because no code may be inserted between them.
void Profiling::record(Builder::When when, const isa::Row& row) {
  constexpr std::array<std::string_view, 12> kTimed = {
      "mbarrier.try_wait",    "mbarrier.test_wait",   "bar.sync",      "barrier.sync",
      "barrier.cluster.wait", "wgmma.wait_group",     "cp.async.wait", "cp.async.bulk.wait_group",
      "cp.async.bulk",        "cp.reduce.async.bulk", "st.async",      "griddepcontrol.wait"};
  if (completes_) return;
  const std::string_view word = row.mnemonic();
  const bool before = when == Builder::When::before;
  const auto is = [&](std::string_view timed) { return word.starts_with(timed); };
  if (is("wgmma.fence") && before) return record(Kind::begin, number_of("wgmma group"));
  if (is("wgmma.commit_group") && !before) {
    record(Kind::end, number_of("wgmma group"));
    return complete("wgmma", [] { wgmma_wait_group(0); });
  }
  if (is("cp.async.bulk.commit_group"))
    return before ? void() : complete("store", [] { cp_async_bulk_wait_group(0); });
  const auto* const timed = std::find_if(kTimed.begin(), kTimed.end(), is);
  if (timed != kTimed.end()) record(before ? Kind::begin : Kind::end, number_of(*timed));
}

// Adds a wait right after an operation has been issued, to show when the operation completes. Only profiled
// kernels contain such a wait.
void Profiling::complete(std::string_view what, const std::function<void()>& wait) {
  const uint32_t number = number_of(fmt::format("{}{}", what, kCompletion));
  record(Kind::begin, number);
  completes_ = true;
  wait();
  completes_ = false;
  record(Kind::end, number);
}

namespace {

u64 bits(gmem address) { return u64(detail::convert(Class::gmem, Class::u64, address.handle())); }
gmem address(u64 bits) { return gmem(detail::convert(Class::u64, Class::gmem, bits.handle())); }

// Returns the address of a unit minus the header's size. The store adds the header's size. The address is
// computed in a single asm instruction, because ptxas would otherwise split the computation, and execute half
// of it in the previous iteration.
gmem unit_at(u64 header, u32 index) {
  return address(instruction<"mad.wide.u32">(index, u32(kRecordBytes), header));
}

// Stores one unit of a record. The first unit begins with the site.
void store_unit(gmem record, uint32_t unit, uint32_t site, std::span<llvm::Value* const> words, pred fits) {
  const auto word = [&](uint32_t i) {
    const uint32_t at = unit * kWordsOfUnit + i;
    if (at == 0) return u32(site);
    return at <= words.size() ? u32(words[at - 1]) : u32(0);
  };
  static_assert(kWords + 1 == kWordsOfUnit && kWordsOfUnit == 4);
  instruction<"st.global.v4.u32">.when(fits)(record + u64(sizeof(Header) + unit * kRecordBytes),
                                             {word(0), word(1), word(2), word(3)});
}

}  // namespace

// Adds an event to the record of the current body. A warp that multiplies must not lose time between its
// products, so recording issues as few instructions per step as possible. An event right after another event
// does not read the clock. The events of a body form one record, because all code between them runs equally
// often, and share the site, the address and the count. A full unit is stored after the next products are
// issued, or when another event follows.
void Profiling::note(Kind kind, uint32_t name, u32 value, Time time) {
  Builder& builder = Builder::current();
  const bool is_here = !noted_.site.empty() && noted_.body == body_now();
  const bool shares = is_here && noted_.is_event && builder.is_at(noted_.last) &&
                      noted_.site.back().clock != ProfileFormat::kBefore;
  const bool reads = !shares && time == Time::now;
  const size_t more = (reads ? 1 : 0) + (ProfileFormat::has_value(kind) ? 1 : 0);
  const bool fits = is_here && noted_.words.size() + more <= kMostWords;
  if (fits) {
    if (noted_.is_full()) noted_.stores.push_back(builder.remember_place());
    builder.emit_at(noted_.last, [] {});
  } else {
    write_noted();
  }
  noted_.body = body_now();
  uint32_t clock = ProfileFormat::kBefore;
  if (fits && shares) {
    clock = noted_.site.back().clock;
  } else if (time == Time::now) {
    clock = static_cast<uint32_t>(noted_.words.size());
    noted_.words.push_back(instruction<"mov.u32 %clock">().handle());
  }
  noted_.site.push_back({kind, name, clock});
  if (ProfileFormat::has_value(kind)) {
    noted_.site.back().value = static_cast<uint32_t>(noted_.words.size());
    noted_.words.push_back(value.handle());
  }
  noted_.last = builder.remember_place();
  noted_.is_event = true;
}

void Profiling::write_full() {
  if (!noted_.is_full() || noted_.body != body_now()) return;
  Builder& builder = Builder::current();
  noted_.stores.push_back(builder.remember_place());
  builder.emit_at(noted_.last, [] {});
  noted_.last = builder.remember_place();
  noted_.is_event = false;
}

void Profiling::write_noted() {
  if (noted_.site.empty()) return;
  Builder& builder = Builder::current();
  const bool is_here = noted_.body == body_now();
  const auto rest = [&](const std::function<void()>& emission) {
    builder.emit_at(noted_.last, is_here ? std::function<void()>([] {}) : emission);
    if (is_here) emission();
  };
  write(number_of(noted_.site), noted_.words, noted_.stores, rest);
  noted_ = {};
}

// Emits the stores of a record, beginning with those at `stores`, and counts its units.
void Profiling::write(uint32_t site, std::span<llvm::Value* const> words,
                      std::span<const Builder::Place> stores,
                      const std::function<void(const std::function<void()>&)>& rest) {
  const uint32_t units = units_of(static_cast<uint32_t>(words.size()));
  std::optional<u32> next;
  std::optional<gmem> record;
  std::optional<pred> fits;
  uint32_t unit = 0;
  const auto store_next = [&] {
    if (unit == 0) {
      next = get<u32>(next_);
      record = unit_at(get<u64>(header_), *next);
      fits = *next < format_.records;
    }
    store_unit(*record, unit++, site, words, *fits);
  };
  for (const Builder::Place& place : stores) Builder::current().emit_at(place, store_next);
  rest([&] {
    while (unit < units) store_next();
    set(next_, *next + units);
  });
}

// Writes a separate record for one event. Diverged lanes may execute this code at the same time.
void Profiling::write_apart(Kind kind, uint32_t name, u32 value) {
  const bool has_value = ProfileFormat::has_value(kind);
  std::optional<u32> clock;
  if (kind == Kind::end) clock = instruction<"mov.u32 %clock">();
  const u32 count = instruction<"atom.relaxed.cta.shared::cta.add.u32">(slot(), 1);
  const gmem to = unit_at(get<u64>(header_), count + place_of_apart(format_.records));
  if (!clock) clock = instruction<"mov.u32 %clock">();
  std::vector<llvm::Value*> words = {clock->handle()};
  if (has_value) words.push_back(value.handle());
  store_unit(to, 0, number_of({{kind, name, 0, has_value ? 1u : 0}}), words,
             count < apart_records(format_.records));
}

// Emits code at the kernel's entry, where there is no control flow yet. The lane that records for its warp is
// the lane that elect() would choose.
void Profiling::start() {
  Builder& builder = Builder::current();
  const uint32_t threads = builder.signature().threads, warps = (threads + 31) / 32;
  builder.emit_at_entry([&] {
    const u32 warp = tid_x() >> 5, cta = ctaid_x() + nctaid_x() * (ctaid_y() + nctaid_y() * ctaid_z());
    const u32 before = kCalibrationRecords + (cta * warps + warp) * warp_records(format_.records);
    const gmem header = builder.own_parameter(kParameter) + u64(before) * kRecordBytes;
    const pred leads = elect_sync(lanes_of_warp(threads));
    set(header_, bits(header));
    set(next_, select(leads, u32(0), u32(kIdle)));
    if (slots_) instruction<"st.shared.u32">.when(leads)(slot(), u32(0));
    instruction<"st.global.v2.u32">.when(leads)(header, {u32(1), smid()});
    const u64 clock = clock64(), nanoseconds = globaltimer();
    const gmem clocks = header + offsetof(Header, first_clock);
    instruction<"st.global.v2.u64">.when(leads)(clocks, {clock, nanoseconds});
    instruction<"st.global.v2.u64">.when(leads)(clocks + 16, {u64(0), u64(0)});
    meet_warp(threads);
  });
}

void Profiling::end() {
  Builder& builder = Builder::current();
  meet_warp(builder.signature().threads);
  write_noted();
  const u32 records = get<u32>(next_);
  if_(records < kIdle, [&] {
    const u64 clock = clock64(), nanoseconds = globaltimer();
    const gmem header = address(get<u64>(header_));
    instruction<"st.global.v2.u64">(header + offsetof(Header, last_clock), {clock, nanoseconds});
    const u32 apart = slots_ ? instruction<"ld.shared.u32">(slot()) : u32(0);
    instruction<"st.global.v2.u32">(header + offsetof(Header, records), {records, apart});
  });
  calibrate();
  start();
  builder.signature().profile = format_;
}

// Measures the cost of recording, in the grid's first warp, when this warp has finished the kernel and still
// has space for the records. The condition holds either for all lanes of a warp or for none.
void Profiling::calibrate() {
  constexpr uint32_t kTogether = 8;  // records per iteration; all but one exclude the loop's cost
  const auto record_nothing = [&] {
    set(header_, bits(Builder::current().own_parameter(kParameter)) - sizeof(Header));
    set(next_, select(get<u32>(next_) < kIdle, u32(0), u32(kIdle)));
    for_(0, u32(kCalibrationRecords / kTogether), [&](u32) {
      for (uint32_t i = 0; i < kTogether; ++i) {
        std::array<llvm::Value*, kWords> clocks;
        for (llvm::Value*& clock : clocks) clock = instruction<"mov.u32 %clock">().handle();
        write(0, clocks, {}, [](const std::function<void()>& emission) { emission(); });
      }
    });
  };
  if_(tid_x() < 32, [&] { if_((ctaid_x() | ctaid_y() | ctaid_z()) == 0, record_nothing); });
}

std::shared_ptr<Profiling> begin_profiling(Builder& builder) {
  if (asked.records == 0) return nullptr;
  add_own_pointer(builder, kParameter, "where the kernel records its profile");
  auto profiling = std::make_shared<Profiling>(asked.records, asked.detail);
  builder.on_instruction(
      [p = profiling.get()](Builder::When when, const isa::Row& row, std::span<const Argument>) {
        if (p->records_instructions()) p->record(when, row);
        if (when == Builder::When::behind && row.mnemonic().starts_with("wgmma.commit_group"))
          p->write_full();
      });
  return profiling;
}

void begin_profiled_role(Profiling& profiling, std::string name, int first_warpgroup, int warpgroups) {
  profiling.begin_role(std::move(name), first_warpgroup, warpgroups);
}
void end_profiled_role(Profiling& profiling) { profiling.end_role(); }
void end_profiling(Profiling& profiling) { profiling.end(); }

namespace {

void in_region(std::string_view name, const std::function<void()>& body, Where where, bool is_next) {
  const CallersLine line(where);
  check_name("region", name);
  Builder& builder = Builder::current();
  builder.check_current();
  Profiling* const profiling = TileContext::of(builder).profiling.get();
  const uint32_t number = profiling ? profiling->number_of(name) : 0;
  if (profiling) {
    const AtLine at_the_call(where);
    is_next ? profiling->record_next(number) : profiling->record(Kind::begin, number);
  }
  builder.run_body("region", line, body);
  if (profiling) {
    const AtLine at_the_call(where);
    profiling->record(Kind::end, number);
  }
}

}  // namespace

void in_region(std::string_view name, const std::function<void()>& body, Where where) {
  in_region(name, body, where, false);
}

void in_wait_region(std::string_view name, const std::function<void()>& body, Where where) {
  const CallersLine line(where);
  check_name("wait_region", name);
  Builder& builder = Builder::current();
  builder.check_current();
  TileContext& context = TileContext::of(builder);
  const uint32_t waits = context.waits;
  const auto run = [&] { builder.run_body("wait_region", line, body); };
  if (Profiling* const profiling = context.profiling.get())
    profiling->record_waits(profiling->number_of(name), run);
  else
    run();
  if (context.waits == waits)
    throw Error(
        where,
        fmt::format(
            "wait_region: '{}' does not wait for an mbarrier or a counter; use region() for other code",
            name));
}

void record_wait(const std::function<pred()>& has_to_wait, const std::function<void()>& loop) {
  TileContext& context = TileContext::of(Builder::current());
  ++context.waits;
  context.profiling ? context.profiling->record_wait(has_to_wait, loop) : loop();
}

void in_next_region(std::string_view name, const std::function<void()>& body, Where where) {
  in_region(name, body, where, true);
}

void record_time() {
  Builder& builder = Builder::current();
  builder.check_current();
  if (Profiling* const profiling = TileContext::of(builder).profiling.get()) profiling->record_time();
}

namespace {

void record_value(std::string_view what, std::string_view name, Kind kind, u32 bits) {
  check_name(what, name);
  Builder& builder = Builder::current();
  builder.check_current();
  Profiling* const profiling = TileContext::of(builder).profiling.get();
  if (profiling) profiling->record(kind, profiling->number_of(name), bits);
}

}  // namespace

}  // namespace detail

ProfileScope::ProfileScope(uint32_t records, Detail detail, Where where)
    : outer_records_(asked.records), outer_detail_(asked.detail) {
  CallersLine line(where);
  if (records < kLeastRecords || records > kMostRecords)
    throw Error(fmt::format(
        "ProfileScope: room for {} records of a warp was requested, but the number must be {} to {}", records,
        kLeastRecords, kMostRecords));
  asked = {records, detail};
}

ProfileScope::~ProfileScope() { asked = {outer_records_, outer_detail_}; }

void mark(std::string_view name, u32 value, Where where) {
  AtLine line(where);
  detail::record_value("mark", name, Kind::mark_u32, value);
}
void mark(std::string_view name, s32 value, Where where) {
  AtLine line(where);
  detail::record_value("mark", name, Kind::mark_s32, u32(value));
}
void mark(std::string_view name, f32 value, Where where) {
  AtLine line(where);
  detail::record_value("mark", name, Kind::mark_f32, bit_cast<u32>(value));
}

void begin_span(std::string_view name, u32 number, Where where) {
  AtLine line(where);
  detail::record_value("begin_span", name, Kind::span_begin, number);
}
void end_span(std::string_view name, u32 number, Where where) {
  AtLine line(where);
  detail::record_value("end_span", name, Kind::span_end, number);
}

void name_role(std::string name, Where where) {
  AtLine line(where);
  check_name("name_role", name);
  TileContext& context = TileContext::of(Builder::current());
  if (context.role < 0) throw Error("name_role: call it in a role");
  if (context.reporting) context.reporting->name_role(name);
  if (context.profiling) context.profiling->name_role(std::move(name));
}

}  // namespace ptxbuilder
