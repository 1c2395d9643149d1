#include "runtime/emulator/instructions/mbarrier.h"

#include <fmt/format.h>

#include "ptxbuilder/report_format.h"
#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/machine/trace.h"

namespace ptxbuilder::runtime::emulator {

namespace {

uint32_t line_of(const Warp& w, uint32_t pc) { return pc == no_pc ? 0 : w.grid().kernel.lines[pc].ptx; }

}  // namespace

Mbarrier& mbarrier_at(Warp& w, uint64_t address, int lane, SignalledBy by) {
  uint32_t offset;
  Cta& owner = w.resolve_shared(address, offset, lane);
  if (offset % 8)
    w.fail(Fault::misaligned, fmt::format("the mbarrier address {:#x} is not a multiple of 8", address),
           lane);
  auto found = owner.mbarriers.find(offset);
  if (found == owner.mbarriers.end()) {
    if (address > 0xffffffff && !in_window(address, shared_window))
      w.fail(Fault::mbarrier_use, fmt::format("{:#x} is not a shared address", address), lane);
    w.fail(Fault::mbarrier_use,
           fmt::format("there is no mbarrier at {}: none was initialised there, or it was invalidated",
                       owner.name(offset)),
           lane);
  }
  Mbarrier& m = *found->second;
  for (Observer* o : w.cluster().observers.mbarrier_use) o->mbarrier_use(w, m, lane, by);
  return m;
}

Mbarrier& own_mbarrier_at(Warp& w, uint64_t address, int lane) {
  Mbarrier& m = mbarrier_at(w, address, lane);
  if (m.cta != &w.cta)
    w.fail(Fault::mbarrier_use,
           fmt::format("this requires an mbarrier of .shared::cta, but {} belongs to another CTA; only "
                       "arrivals, expect_tx and complete_tx of .shared::cluster reach it",
                       name_for(w, m)),
           lane);
  return m;
}

void try_complete(Warp& w, Mbarrier& m) {
  if (m.pending > 0) return;
  if (m.tx < 0 && m.in_flight == 0)
    w.fail(Fault::tx_count, fmt::format("phase {} of mbarrier {}: copies transferred {} B more than were "
                                        "expected (last expect_tx at line {})",
                                        m.phase, name_for(w, m), -m.tx, line_of(w, m.last_expect)));
  if (m.tx != 0) return;
  if (m.copies_to_arrive > 0)
    w.fail(Fault::arrival_count,
           fmt::format("phase {} of mbarrier {} completes while {} arrivals by cp.async.mbarrier.arrive are "
                       "pending: it got more than its {} arrivals, not counting those that such an "
                       "instruction without .noinc both adds and makes",
                       m.phase, name_for(w, m), m.copies_to_arrive, m.count));
  if (m.in_flight > 0)
    w.fail(Fault::tx_count,
           fmt::format("phase {} of mbarrier {} completes while {} copies of {} B that signal it are in "
                       "flight: fewer bytes were expected than were issued (last expect_tx at line {})",
                       m.phase, name_for(w, m), m.in_flight, m.in_flight_bytes, line_of(w, m.last_expect)));
  for (Observer* o : w.cluster().observers.phase_completion) o->phase_completion(w, m);
  ++m.phase;
  m.pending = m.count;
  if (w.cluster().checks) {
    m.completed = std::move(m.gathered);
    m.gathered.clear();
    m.completed.seen.raise(m.actor, m.phase);
  }
  if (w.grid().trace) w.grid().trace->phase(m, w.cluster());
  w.cluster().changed();
}

void arrive(Warp& w, Mbarrier& m, uint32_t count, bool releases, int lane) {
  if (count > m.pending)
    w.fail(Fault::arrival_count,
           fmt::format("{} arrivals were made on mbarrier {}, but its phase {} lacks only {} of {}", count,
                       name_for(w, m), m.phase, m.pending, m.count),
           lane);
  if (w.cluster().checks && releases)
    m.gathered.join(lane < 0 ? w.causality.release() : w.causality.release_of(lane));
  m.last_arrival = w.here();
  m.warps[w.cta.rank] |= 1u << w.index;
  m.pending -= count;
  try_complete(w, m);
}

void expect_tx(Warp& w, Mbarrier& m, uint32_t bytes, int lane) {
  m.tx += bytes;
  m.last_expect = w.here();
  if (m.tx >= 1 << 20)
    w.fail(
        Fault::tx_count,
        fmt::format("mbarrier {} would expect {} B, but can expect at most 2^20 - 1", name_for(w, m), m.tx),
        lane);
}

void begin_tx(Mbarrier& m, uint32_t bytes) {
  ++m.in_flight;
  m.in_flight_bytes += bytes;
}

void finish_tx(Warp& w, Mbarrier& m, uint32_t bytes, uint32_t phase) {
  --m.in_flight;
  m.in_flight_bytes -= bytes;
  if (m.phase != phase)
    w.fail(Fault::tx_count,
           fmt::format("this copy of {} B signals mbarrier {}, but its phase {} completed without it", bytes,
                       name_for(w, m), phase));
  m.tx -= bytes;
  w.cluster().changed();
  try_complete(w, m);
}

namespace {

struct Init {
  AddressOperand addr;
  Register count;
};

void execute_init(Warp& w, const Init& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    uint32_t offset;
    Cta* owner;
    const uint64_t address = w.address(x.addr, lane);
    if (address % 8)
      w.fail(Fault::misaligned, fmt::format("the mbarrier address {:#x} is not a multiple of 8", address),
             lane);
    w.place(address, 8, Space::cluster, lane, owner, offset);
    const uint32_t count = w.at<uint32_t>(x.count)[lane];
    if (count == 0 || count >= 1 << 20)
      w.fail(Fault::operand,
             fmt::format("the mbarrier is initialised for {} arrivals, but the number must be 1 to 2^20 - 1",
                         count),
             lane);
    if (auto there = owner->mbarriers.find(offset); there != owner->mbarriers.end())
      w.fail(
          Fault::mbarrier_use,
          fmt::format("mbarrier {} is initialised again without mbarrier.inval; the first init is at line {}",
                      owner->name(offset), line_of(w, there->second->init.pc)),
          lane);
    w.touch({*owner, offset, 8, true, lane});
    auto m = std::make_unique<Mbarrier>();
    m->cta = owner;
    m->offset = offset;
    m->count = m->pending = count;
    m->actor = w.cluster().new_actor({ActorName::Kind::mbarrier, owner, offset});
    m->init = w.access();
    owner->mbarriers_from = std::min(owner->mbarriers_from, offset);
    owner->mbarriers_to = std::max(owner->mbarriers_to, offset + 8);
    owner->mbarriers[offset] = std::move(m);
  });
}

struct Inval {
  AddressOperand addr;
};

void execute_inval(Warp& w, const Inval& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    Mbarrier& m = own_mbarrier_at(w, w.address(x.addr, lane), lane);
    if (m.in_flight || m.copies_to_arrive)
      w.fail(Fault::mbarrier_use,
             fmt::format("mbarrier {} is invalidated while {} copies will signal it", name_for(w, m),
                         m.in_flight + m.copies_to_arrive),
             lane);
    Cta& owner = *m.cta;
    const uint32_t offset = m.offset;
    owner.mbarriers.erase(offset);
    w.touch({owner, offset, 8, true, lane});
  });
}

uint64_t state_of(const Mbarrier& m) { return (static_cast<uint64_t>(m.phase) << 32) | m.pending; }

struct Arrive {
  AddressOperand addr;
  Register state;     // no_register for _, and in the cluster form
  Register count;     // no_register for one arrival
  Register tx_count;  // for .expect_tx
  bool drop, releases, in_cluster;
};

void execute_arrive(Warp& w, const Arrive& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const uint64_t address = w.address(x.addr, lane);
    Mbarrier& m = x.in_cluster ? mbarrier_at(w, address, lane) : own_mbarrier_at(w, address, lane);
    const uint32_t count = x.count == no_register ? 1 : w.at<uint32_t>(x.count)[lane];
    if (x.tx_count != no_register) expect_tx(w, m, w.at<uint32_t>(x.tx_count)[lane], lane);
    if (x.state != no_register) w.at<uint64_t>(x.state)[lane] = state_of(m);
    for (Observer* o : w.cluster().observers.mbarrier_arrival) o->mbarrier_arrival(w, m, lane);
    if (x.drop) {
      if (m.count <= count)
        w.fail(
            Fault::arrival_count,
            fmt::format("arrive_drop of {} leaves mbarrier {} no arrivals to expect", count, name_for(w, m)),
            lane);
      m.count -= count;
    }
    arrive(w, m, count, x.releases, lane);
  });
}

void decode_arrive(Decode& d, bool drop) {
  const bool relaxed = d.has("relaxed");
  const bool in_cluster = d.has("shared::cluster");
  const ptx_text::Operand *state = d.find("state"), *bytes = d.find("bytes"), *count = d.find("count");
  Arrive x{d.address(d["bar"]), no_register, no_register, no_register, drop, !relaxed, in_cluster};
  if (state) x.state = d.sink(*state, Type::b64);
  if (bytes) x.tx_count = d.source(*bytes, Type::u32);
  if (count) x.count = d.source(*count, Type::u32);
  d.needs_all();
  d.run<execute_arrive>(x);
}

// Operands of expect_tx and complete_tx.
struct Tx {
  AddressOperand addr;
  Register tx_count;
};

void execute_expect(Warp& w, const Tx& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    expect_tx(w, mbarrier_at(w, w.address(x.addr, lane), lane), w.at<uint32_t>(x.tx_count)[lane], lane);
  });
}

void execute_complete_tx(Warp& w, const Tx& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    Mbarrier& m = mbarrier_at(w, w.address(x.addr, lane), lane);
    m.tx -= w.at<uint32_t>(x.tx_count)[lane];
    try_complete(w, m);
  });
}

template <auto handler>
void decode_tx(Decode& d) {
  d.run<handler>({d.address(d.operand(0)), d.source(1, Type::u32)});
}

// Writes the hardware's representation of an mbarrier to its memory, as far as it is known. A kernel may read
// this memory after it has waited in vain.
void write_word(const Mbarrier& m) {
  const uint64_t word =
      report_format::encode({static_cast<uint32_t>(m.phase & 1), static_cast<uint32_t>(m.pending),
                             static_cast<uint32_t>(m.count), static_cast<int32_t>(m.tx)});
  std::memcpy(m.cta->shared.data() + m.offset, &word, sizeof word);
}

// Operands of test_wait and try_wait.
struct PhaseWait {
  AddressOperand addr;
  Register wait_complete;
  Register phase;  // the mbarrier's state or its parity
  bool parity, acquires;
};

void execute_phase_wait(Warp& w, const PhaseWait& x, Lanes lanes) {
  Lanes passed = 0;
  const Mbarrier* waited = nullptr;
  uint32_t parity = 0;
  for_lanes(lanes, [&](int lane) {
    Mbarrier& m = own_mbarrier_at(w, w.address(x.addr, lane), lane);
    bool done;
    if (x.parity) {
      uint32_t p = w.at<uint32_t>(x.phase)[lane];
      if (p == ~0u) p = 1;  // the hardware tests the lowest bit, and LLVM passes -1 for true
      if (p > 1) w.fail(Fault::operand, fmt::format("the phase parity is {}, but must be 0 or 1", p), lane);
      done = (m.phase & 1) != p;
      parity = p;
    } else {
      const auto phase = static_cast<uint32_t>(w.at<uint64_t>(x.phase)[lane] >> 32);
      if (m.phase > phase + 1)
        w.find(Fault::phase_skipped,
               fmt::format("this waits for phase {} of mbarrier {}, which is in phase {}: a wait must be for "
                           "the current phase or the previous one",
                           phase, name_for(w, m), m.phase),
               lane);
      if (phase > m.phase)
        w.fail(Fault::operand, fmt::format("the state does not belong to mbarrier {}", name_for(w, m)), lane);
      done = m.phase != phase;
      parity = phase & 1;
    }
    for (Observer* o : w.cluster().observers.mbarrier_wait)
      o->mbarrier_wait(w, m, {lane, x.parity, parity, done});
    if (done) {
      if (x.acquires) w.causality.acquire(m.completed);
      passed |= Lanes{1} << lane;
    } else {
      waited = &m;
    }
  });
  w.set_predicate(x.wait_complete, lanes, passed);
  if (passed && x.acquires) w.causality.told(passed, w.alive);
  if (!waited) return;
  write_word(*waited);
  // The thread retries only once something in the cluster has changed, because a poll that cannot succeed
  // would waste a step.
  w.pause(Wait::mbarrier);
  w.fragment().object = waited->offset;
  w.fragment().generation = waited->cta->rank;
  w.fragment().phase = parity;
}

void decode_phase_wait(Decode& d) {
  const bool parity = d.has("parity"), acquires = !d.has("relaxed");
  const Register wait_complete = d.destination(0, Type::pred);
  const AddressOperand addr = d.address(d.operand(1));
  const Register phase = d.source(2, parity ? Type::u32 : Type::b64);
  if (const ptx_text::Operand* hint = d.find("nanoseconds")) d.source(*hint, Type::u32);
  d.needs_all();
  d.run<execute_phase_wait>({addr, wait_complete, phase, parity, acquires});
}

// mbarrier.pending_count: the lower half of a state is the number of missing arrivals.
struct PendingCount {
  uint32_t operator()(uint64_t state) const { return static_cast<uint32_t>(state); }
};

}  // namespace

void add_mbarrier(DecodeTable& t) {
  t["mbarrier.init"] = [](Decode& d) {
    d.run<execute_init>({d.address(d.operand(0)), d.source(1, Type::u32)});
  };
  t["mbarrier.inval"] = [](Decode& d) { d.run<execute_inval>({d.address(d.operand(0))}); };
  t["mbarrier.arrive"] = [](Decode& d) { decode_arrive(d, false); };
  t["mbarrier.arrive_drop"] = [](Decode& d) { decode_arrive(d, true); };
  t["mbarrier.expect_tx"] = decode_tx<execute_expect>;
  t["mbarrier.complete_tx"] = decode_tx<execute_complete_tx>;
  t["mbarrier.test_wait"] = t["mbarrier.try_wait"] = decode_phase_wait;
  t["mbarrier.pending_count"] = [](Decode& d) {
    d.run<unary<uint32_t, uint64_t, PendingCount>>({d.destination(0, Type::u32), d.source(1, Type::b64)});
  };
}

}  // namespace ptxbuilder::runtime::emulator
