// Executes asynchronous copies (PTX ISA, cp.async, cp.async.bulk, cp.reduce.async.bulk, and their groups).
#include <fmt/format.h>

#include "runtime/emulator/instructions/copies.h"
#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/machine/trace.h"

namespace ptxbuilder::runtime::emulator {

void touch_landing(Warp& w, const Landing& l, uint32_t bytes, bool async, bool reduces, const char* what) {
  const Access deed{l.barrier->actor, l.phase + 1, w.here(), async, 0};
  if (!reduces || !w.cluster().checks) return w.touch_async(*l.cta, l.offset, bytes, true, deed, what);
  Clock of_others;
  of_others.raise(deed.actor, deed.time);
  w.causality.assuming({&of_others}, [&] {
    w.touch_async(*l.cta, l.offset, bytes, false, deed, "this adds to");
    w.touch_async(*l.cta, l.offset, bytes, true, deed, what);
  });
}

std::vector<Landing> begin_load(Warp& w, uint64_t destination, uint64_t barrier, uint32_t mask,
                                uint32_t bytes, uint32_t align, int lane, SignalledBy by, bool reduces) {
  std::vector<Landing> landings;
  auto land = [&](uint64_t to, uint64_t signal) {
    Landing l;
    w.place(to, bytes, Space::cluster, lane, l.cta, l.offset);
    if (l.offset % align)
      w.fail(Fault::misaligned,
             fmt::format("the destination {} is not a multiple of {} B", l.cta->name(l.offset), align), lane);
    l.barrier = &mbarrier_at(w, signal, lane, by);
    if (l.barrier->cta != l.cta)
      w.fail(Fault::operand, "the mbarrier and the destination are in different CTAs", lane);
    l.phase = l.barrier->phase;
    touch_landing(w, l, bytes, true, reduces, "this copy writes");
    begin_tx(*l.barrier, bytes);
    landings.push_back(l);
  };
  if (mask == 0) {
    land(destination, barrier);
  } else {
    const auto& ctas = w.cluster().ctas;
    if (mask >> ctas.size())
      w.fail(
          Fault::operand,
          fmt::format("the multicast mask {:#x} names CTAs beyond the {} of the cluster", mask, ctas.size()),
          lane);
    for (uint32_t rank = 0; rank < ctas.size(); ++rank)
      if ((mask >> rank) & 1) {
        const uint64_t there = uint64_t{rank + 1} << 24;
        land(there | (destination & shared_offset_mask), there | (barrier & shared_offset_mask));
      }
  }
  return landings;
}

void finish_load(Warp& w, const std::vector<Landing>& landings, uint32_t bytes) {
  for (const Landing& l : landings) {
    ++l.cta->writes;
    finish_tx(w, *l.barrier, bytes, l.phase);
  }
}

void touch_source(Warp& w, const std::vector<Landing>& landings, Address from, uint32_t bytes) {
  w.global(from, bytes, -1, false, "this copy");
  const Landing& first = landings[0];
  w.touch_global({.address = from,
                  .bytes = bytes,
                  .writes = false,
                  .deed = {first.barrier->actor, first.phase + 1, w.here(), true, 0},
                  .what = "this copy reads"});
}

void touch_target(Warp& w, Address to, uint32_t bytes, int lane, bool reduces, StoredBytes values) {
  w.global(to, bytes, lane, true, "this copy");
  const ThreadCopies& copies = w.bulk_of(static_cast<uint32_t>(lane));
  w.touch_global({.address = to,
                  .bytes = bytes,
                  .writes = true,
                  .deed = {copies.writing_actor, copies.open, w.here(), true, 0},
                  .what = reduces ? "this copy adds to" : "this copy writes",
                  .lane = lane,
                  .updates = reduces,
                  .is_strong = reduces,
                  .values = values});
}

Access store_access(Warp& w, int lane) {
  ThreadCopies& copies = w.bulk_of(static_cast<uint32_t>(lane));
  return {copies.actor, copies.open, w.here(), true, 0};
}

void adds_in_turn(Decode& d, bool reduces) {
  if (reduces) d.decoder.takes_turns();
  d.turn(reduces ? Turn::sums : Turn::stores);
}

void add_in_turn(Warp& w, Address to, uint64_t bytes, std::function<void()> add) {
  Sums* sums = w.cluster().ahead.get();
  if (!sums) return add();
  sums->note(to, bytes);
  sums->put_off(std::move(add));
}

void post_store(Warp& w, int lane, Cta& source, std::function<void()> take, std::function<void()> give) {
  ThreadCopies& copies = w.bulk_of(static_cast<uint32_t>(lane));
  const uint32_t group = copies.open;
  ++copies.reading[group];
  ++copies.writing[group];
  ++source.touching;
  const uint64_t began = w.cluster().steps;
  Cta* cta = &source;
  w.post([&w, &copies, cta, group, began, take = std::move(take), give = std::move(give)] {
    take();
    if (--copies.reading[group] == 0) copies.reading.erase(group);
    --cta->touching;
    w.cluster().changed();
    w.post([&w, &copies, group, began, give] {
      give();
      if (--copies.writing[group] == 0) {
        copies.writing.erase(group);
        for (Observer* o : w.cluster().observers.global_stored) o->global_stored(copies.writing_actor, group);
      }
      w.cluster().changed();
      if (w.grid().trace) w.grid().trace->operation(w, "store", began, w.cluster().steps, w.here());
    });
  });
}

namespace {

// --- bulk groups ---

void execute_bulk_commit(Warp& w, Lanes lanes) {
  for_lanes(lanes, [&](int lane) { ++w.bulk_of(static_cast<uint32_t>(lane)).open; });
}

struct BulkWaitGroup {
  WaitGroup group;
  bool read;  // .read: waits only until the copies have read their sources
};

void execute_bulk_wait(Warp& w, const BulkWaitGroup& x, Lanes lanes) {
  bool wait = false;
  for_lanes(lanes, [&](int lane) {
    auto at = w.bulk.find(static_cast<uint32_t>(lane));
    if (at == w.bulk.end()) return;
    const auto& left = x.read ? at->second.reading : at->second.writing;
    const int64_t target = int64_t{at->second.open} - 1 - x.group.n;
    wait |= !left.empty() && left.begin()->first <= target;
  });
  if (wait) return w.retry(Wait::bulk);
  for_lanes(lanes, [&](int lane) {
    auto at = w.bulk.find(static_cast<uint32_t>(lane));
    if (at == w.bulk.end()) return;
    const int64_t target = int64_t{at->second.open} - 1 - x.group.n;
    if (target <= 0) return;
    w.causality.learn(at->second.actor, static_cast<uint32_t>(target));
    if (!x.read) w.causality.learn(at->second.writing_actor, static_cast<uint32_t>(target));
  });
}

void decode_bulk_wait(Decode& d) {
  const bool read = d.has("read");
  d.run<execute_bulk_wait>({take_wait_group(d), read});
}

// --- bulk copies without tensors ---

// The operation that combines the copied data with the data at the destination.
struct ElementReduction {
  Reduction op;
  Type type;
};

// A copy to shared memory, from global memory or from the CTA's own shared memory.
struct BulkLoad {
  AddressOperand dst_mem, src_mem, mbar;
  Register size, cta_mask;  // cta_mask is no_register without .multicast::cluster
  std::optional<ElementReduction> reduction;
  bool from_shared;
};

// A copy from shared memory to global memory.
struct BulkStore {
  AddressOperand dst_mem, src_mem;
  Register size;
  std::optional<ElementReduction> reduction;
};

uint32_t bulk_bytes(Warp& w, Register size, int lane) {
  const uint32_t bytes = w.at<uint32_t>(size)[lane];
  if (bytes % 16)
    w.fail(Fault::operand, fmt::format("the bulk copy has {} B, but must have a multiple of 16 B", bytes),
           lane);
  return bytes;
}

void execute_bulk_load(Warp& w, const BulkLoad& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const uint32_t bytes = bulk_bytes(w, x.size, lane);
    const uint64_t from = w.address(x.src_mem, lane);
    if (from % 16)
      w.fail(Fault::misaligned, fmt::format("the source {:#x} is not a multiple of 16 B", from), lane);
    const uint32_t mask = x.cta_mask == no_register ? 0 : w.at<uint16_t>(x.cta_mask)[lane];
    Cta* source = nullptr;
    uint32_t source_offset = 0;
    if (x.from_shared) {
      w.place(from, bytes, Space::shared, lane, source, source_offset);
    } else if (bytes) {
      w.global(from, bytes, lane, false, "this copy");
    }
    auto landings = begin_load(w, w.address(x.dst_mem, lane), w.address(x.mbar, lane), mask, bytes, 16, lane,
                               SignalledBy::copy, x.reduction.has_value());
    if (!source && bytes) touch_source(w, landings, from, bytes);
    // A copy between CTAs reads its source until the phase of the same mbarrier completes.
    if (source) {
      w.touch_async(*source, source_offset, bytes, false,
                    {landings[0].barrier->actor, landings[0].phase + 1, w.here(), true, 0},
                    "this copy reads");
      ++source->touching;
    }
    const uint64_t began = w.cluster().steps;
    w.post([&w, &x, landings, bytes, from, lane, source, source_offset, began] {
      const std::byte* data = source  ? source->shared.data() + source_offset
                              : bytes ? w.global(from, bytes, lane, false, "this copy")
                                      : nullptr;
      for (const Landing& l : landings) {
        std::byte* place = l.cta->shared.data() + l.offset;
        if (bytes == 0) continue;
        if (x.reduction)
          reduce_into(place, data, bytes, x.reduction->op, x.reduction->type);
        else
          std::memcpy(place, data, bytes);
      }
      if (source) --source->touching;
      finish_load(w, landings, bytes);
      if (w.grid().trace) w.grid().trace->operation(w, "load", began, w.cluster().steps, w.here());
    });
  });
}

void execute_bulk_store(Warp& w, const BulkStore& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const uint32_t bytes = bulk_bytes(w, x.size, lane);
    const uint64_t to = w.address(x.dst_mem, lane);
    Cta* source;
    uint32_t offset;
    w.place(w.address(x.src_mem, lane), bytes, Space::shared, lane, source, offset);
    if (to % 16 || offset % 16)
      w.fail(
          Fault::misaligned,
          fmt::format("source {} and destination {:#x} must be multiples of 16 B", source->name(offset), to),
          lane);
    w.touch_async(*source, offset, bytes, false, store_access(w, lane), "this copy reads");
    const auto values = [&](std::byte* copy) {
      std::copy_n(source->shared.begin() + offset, bytes, copy);
      return !x.reduction;
    };
    if (bytes) touch_target(w, to, bytes, lane, x.reduction.has_value(), values);
    auto data = std::make_shared<std::vector<std::byte>>();
    post_store(
        w, lane, *source,
        [=] { data->assign(source->shared.begin() + offset, source->shared.begin() + offset + bytes); },
        [&w, &x, data, to, bytes, lane] {
          if (bytes == 0) return;
          if (x.reduction)
            return add_in_turn(w, to, bytes, [&w, &x, data, to, bytes, lane] {
              reduce_into(w.global(to, bytes, lane, true, "this copy"), data->data(), bytes, x.reduction->op,
                          x.reduction->type);
            });
          std::memcpy(w.global(to, bytes, lane, true, "this copy"), data->data(), bytes);
        });
  });
}

void decode_bulk(Decode& d, bool reducing) {
  std::optional<ElementReduction> reduction;
  if (reducing) reduction = {take_reduction(d), d.type()};
  const AddressOperand dst_mem = d.address(d["dst"]), src_mem = d.address(d["src"]);
  const Register size = d.source(d["bytes"], Type::u32);
  if (d.has("bulk_group")) {
    adds_in_turn(d, reducing);
    return d.run<execute_bulk_store>({dst_mem, src_mem, size, reduction});
  }
  const ptx_text::Operand* mask = d.find("cta_mask");
  d.run<execute_bulk_load>({dst_mem, src_mem, d.address(d["bar"]), size,
                            mask ? d.source(*mask, Type::b16) : no_register, reduction, !d.has("global")});
}

// --- cp.async ---

struct CpAsync {
  AddressOperand dst, src;
  uint32_t cp_size;
  Register src_size;     // no_register if omitted: then all cp_size bytes are copied
  Predicate ignore_src;  // its register is no_register if it is omitted
};

void execute_cp_async(Warp& w, const CpAsync& x, Lanes lanes) {
  struct Piece {
    uint32_t offset;
    uint64_t from;
    uint32_t take;
    int lane;
  };
  const uint32_t bytes = x.cp_size;
  if (w.copies.actor == 0) w.copies.actor = w.cluster().new_actor({ActorName::Kind::copy, &w.cta, w.index});
  const uint32_t sequence = ++w.copies.issued;
  w.copies.outstanding.insert(sequence);
  auto pieces = std::make_shared<std::vector<Piece>>();
  for_lanes(lanes, [&](int lane) {
    Cta* owner;
    Piece p{0, w.address(x.src, lane), bytes, lane};
    const uint64_t to = w.address(x.dst, lane);
    if (to % bytes || p.from % bytes)
      w.fail(Fault::misaligned, fmt::format("{:#x} and {:#x} must be multiples of {} B", to, p.from, bytes),
             lane);
    w.place(to, bytes, Space::shared, lane, owner, p.offset);
    if (x.src_size != no_register) p.take = w.at<uint32_t>(x.src_size)[lane];
    if (p.take > bytes)
      w.fail(Fault::operand, fmt::format("the src-size {} exceeds the {} B that are copied", p.take, bytes),
             lane);
    if (x.ignore_src.p != no_register && (w.truth(x.ignore_src) >> lane) & 1) p.take = 0;
    if (p.take) {
      w.global(p.from, p.take, lane, false, "this copy");
      w.touch_global({.address = p.from,
                      .bytes = p.take,
                      .writes = false,
                      .deed = {w.copies.actor, sequence, w.here(), false, 0},
                      .what = "this copy reads",
                      .lane = lane});
    }
    w.touch_async(*owner, p.offset, bytes, true, {w.copies.actor, sequence, w.here(), false, 0},
                  "this copy writes");
    w.touch_lanes({*owner, p.offset, bytes, true, lane});
    pieces->push_back(p);
  });
  ++w.cta.touching;
  w.post([&w, pieces, bytes, sequence] {
    for (const Piece& p : *pieces) {
      std::byte* to = w.cta.shared.data() + p.offset;
      std::memset(to, 0, bytes);
      if (p.take) std::memcpy(to, w.global(p.from, p.take, p.lane, false, "this copy"), p.take);
    }
    ++w.cta.writes;
    --w.cta.touching;
    w.copies.outstanding.erase(sequence);
    w.cluster().changed();
  });
}

void execute_cp_commit(Warp& w, Lanes) { w.copies.groups.push_back(w.copies.issued); }

// Makes the warp wait until all copies up to number `last` are done.
void wait_for_copies(Warp& w, uint32_t last) {
  if (!w.copies.outstanding.empty() && *w.copies.outstanding.begin() <= last) return w.retry(Wait::copies);
  if (last > 0) w.causality.learn(w.copies.actor, last);
}

void execute_cp_wait_group(Warp& w, const WaitGroup& x, Lanes) {
  const int64_t group = static_cast<int64_t>(w.copies.groups.size()) - 1 - x.n;
  wait_for_copies(w, group < 0 ? 0 : w.copies.groups[static_cast<size_t>(group)]);
}

void execute_cp_wait_all(Warp& w, Lanes) { wait_for_copies(w, w.copies.issued); }

void signal_when_copied(Warp& w, Mbarrier& m, uint32_t last, std::shared_ptr<Knowledge> k, int lane) {
  const auto ready = [&w, last] {
    return w.copies.outstanding.empty() || *w.copies.outstanding.begin() > last;
  };
  w.post(
      [&w, &m, last, k, lane, ready] {
        if (!ready()) return signal_when_copied(w, m, last, k, lane);
        if (w.cluster().checks) m.gathered.join(*k);
        --m.copies_to_arrive;
        arrive(w, m, 1, false, lane);
      },
      ready);
}

struct CpArrive {
  AddressOperand addr;
  bool noinc;
};

void execute_cp_arrive(Warp& w, const CpArrive& x, Lanes lanes) {
  auto k = std::make_shared<Knowledge>(w.causality.release());
  if (w.cluster().checks && w.copies.issued) k->seen.raise(w.copies.actor, w.copies.issued);
  for_lanes(lanes, [&](int lane) {
    Mbarrier& m = own_mbarrier_at(w, w.address(x.addr, lane), lane);
    if (!x.noinc) ++m.pending;
    ++m.copies_to_arrive;
    signal_when_copied(w, m, w.copies.issued, k, lane);
  });
}

void decode_cp_async(Decode& d) {
  CpAsync x{d.address(d["dst"]), d.address(d["src"]), static_cast<uint32_t>(d.immediate(2)), no_register, {}};
  if (const ptx_text::Operand* bytes = d.find("bytes")) x.src_size = d.source(*bytes, Type::u32);
  if (const ptx_text::Operand* ignore = d.find("ignore")) x.ignore_src = d.predicate(*ignore);
  d.turn(Turn::late);
  d.run<execute_cp_async>(x);
}

void decode_bulk_prefetch(Decode& d) { d.run<execute_nothing>(); }

}  // namespace

void add_copy(DecodeTable& t) {
  t["cp.async"] = decode_cp_async;
  t["cp.async.commit_group"] = [](Decode& d) { d.run<execute_cp_commit>(); };
  t["cp.async.wait_group"] = [](Decode& d) { d.run<execute_cp_wait_group>(take_wait_group(d)); };
  t["cp.async.wait_all"] = [](Decode& d) { d.run<execute_cp_wait_all>(); };
  t["cp.async.mbarrier.arrive"] = [](Decode& d) {
    const bool noinc = d.has("noinc");
    d.run<execute_cp_arrive>({d.address(d.operand(0)), noinc});
  };
  t["cp.async.bulk"] = [](Decode& d) { decode_bulk(d, false); };
  t["cp.reduce.async.bulk"] = [](Decode& d) { decode_bulk(d, true); };
  t["cp.async.bulk.prefetch"] = decode_bulk_prefetch;
  t["cp.async.bulk.commit_group"] = [](Decode& d) { d.run<execute_bulk_commit>(); };
  t["cp.async.bulk.wait_group"] = decode_bulk_wait;
}

}  // namespace ptxbuilder::runtime::emulator
