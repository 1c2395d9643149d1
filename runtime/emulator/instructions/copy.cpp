// Asynchronous copies (PTX ISA, cp.async, cp.async.bulk, cp.reduce.async.bulk, and their groups).
#include <fmt/format.h>

#include "runtime/emulator/instructions/copies.h"
#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/machine/trace.h"

namespace ptxbuilder::runtime::emulator {

void touch_landing(Warp& w, const Landing& l, uint32_t bytes, bool async, bool reduces, const char* what) {
  const Access deed{l.barrier->actor, l.phase + 1, w.here(), async, 0};
  if (!reduces || !w.cluster().checks) return w.touch_async(*l.cta, l.offset, bytes, true, deed, what);
  const Knowledge before = w.knowledge;
  w.knowledge.seen.raise(deed.actor, deed.time);
  w.touch_async(*l.cta, l.offset, bytes, false, deed, "this adds to");
  w.touch_async(*l.cta, l.offset, bytes, true, deed, what);
  w.knowledge = before;
}

std::vector<Landing> begin_load(Warp& w, uint64_t destination, uint64_t barrier, uint32_t mask,
                                uint32_t bytes, uint32_t align, int lane, bool reduces) {
  std::vector<Landing> landings;
  auto land = [&](uint64_t to, uint64_t signal) {
    Landing l;
    w.place(to, bytes, Space::cluster, lane, l.cta, l.offset);
    if (l.offset % align)
      w.fail(Fault::misaligned,
             fmt::format("the destination {} is not a multiple of {} B", l.cta->name(l.offset), align), lane);
    l.barrier = &mbarrier_at(w, signal, lane, true);
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
      w.fail(Fault::operand,
             fmt::format("the multicast mask {:#x} names CTAs beyond the cluster's {}", mask, ctas.size()),
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

Access store_access(Warp& w, int lane) {
  ThreadCopies& copies = w.bulk_of(static_cast<uint32_t>(lane));
  return {copies.actor, copies.open, w.here(), true, 0};
}

void post_store(Warp& w, const Instruction& i, int lane, Cta& source, std::function<void()> take,
                std::function<void()> give) {
  ThreadCopies& copies = w.bulk_of(static_cast<uint32_t>(lane));
  const uint32_t group = copies.open;
  ++copies.reading[group];
  ++copies.writing[group];
  ++source.touching;
  const uint64_t began = w.cluster().steps;
  Cta* cta = &source;
  w.cluster().post([&w, &i, &copies, cta, group, began, take = std::move(take), give = std::move(give)] {
    w.instruction = &i;
    take();
    if (--copies.reading[group] == 0) copies.reading.erase(group);
    --cta->touching;
    w.cluster().changed();
    w.cluster().post([&w, &i, &copies, group, began, give] {
      w.instruction = &i;
      give();
      if (--copies.writing[group] == 0) copies.writing.erase(group);
      w.cluster().changed();
      if (w.grid().trace) w.grid().trace->operation(w, "store", began, w.cluster().steps, w.here());
    });
  });
}

namespace {

// --- bulk groups ---

void execute_commit(Warp& w, const Instruction&, Lanes lanes) {
  for_lanes(lanes, [&](int lane) { ++w.bulk_of(static_cast<uint32_t>(lane)).open; });
}

// immediate: how many groups may be left; mode[0]: only the reads.
void execute_wait(Warp& w, const Instruction& i, Lanes lanes) {
  bool wait = false;
  for_lanes(lanes, [&](int lane) {
    auto at = w.bulk.find(static_cast<uint32_t>(lane));
    if (at == w.bulk.end()) return;
    const auto& left = i.mode[0] ? at->second.reading : at->second.writing;
    const int64_t target = int64_t{at->second.open} - 1 - i.immediate;
    wait |= !left.empty() && left.begin()->first <= target;
  });
  if (wait) return w.retry(Wait::bulk);
  for_lanes(lanes, [&](int lane) {
    auto at = w.bulk.find(static_cast<uint32_t>(lane));
    if (at == w.bulk.end()) return;
    const int64_t target = int64_t{at->second.open} - 1 - i.immediate;
    if (target > 0) w.knowledge.seen.raise(at->second.actor, static_cast<uint32_t>(target));
  });
}

void decode_wait(Decode& d) {
  d.out.mode[0] = d.take("read");
  d.done();
  d.expect(1, 1);
  d.out.immediate = d.immediate(0);
  d.out.execute = execute_wait;
}

// --- bulk copies that are no tensors ---

// list: destination, source and barrier addresses; r[0] bytes, r[1] multicast mask. mode: 0 what, 1
// Reduction, 2 Type.
enum : uint8_t { load, store, to_peer };

uint32_t bulk_bytes(Warp& w, const Instruction& i, int lane) {
  const uint32_t bytes = w.at<uint32_t>(i.r[0])[lane];
  if (bytes % 16)
    w.fail(Fault::operand, fmt::format("a bulk copy of {} B: multiples of 16 B are possible", bytes), lane);
  return bytes;
}

void execute_bulk_load(Warp& w, const Instruction& i, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const uint32_t bytes = bulk_bytes(w, i, lane);
    const uint64_t from = w.listed_address(i, 3, lane);
    if (from % 16)
      w.fail(Fault::misaligned, fmt::format("the source {:#x} is not a multiple of 16 B", from), lane);
    const uint32_t mask = i.r[1] == no_register ? 0 : w.at<uint16_t>(i.r[1])[lane];
    Cta* source = nullptr;
    uint32_t source_offset = 0;
    if (i.mode[0] == to_peer) {
      w.place(from, bytes, Space::shared, lane, source, source_offset);
    } else if (bytes) {
      w.global(from, bytes, lane, false, "this copy");
    }
    const auto type = static_cast<Type>(i.mode[2]);
    const auto op = static_cast<Reduction>(i.mode[1]);
    const bool reduces = type != Type::none;
    auto landings = begin_load(w, w.listed_address(i, 0, lane), w.listed_address(i, 6, lane), mask, bytes, 16,
                               lane, reduces);
    // The copy between CTAs reads until the same barrier's phase completes.
    if (source)
      w.touch_async(*source, source_offset, bytes, false,
                    {landings[0].barrier->actor, landings[0].phase + 1, w.here(), true, 0},
                    "this copy reads");
    const uint64_t began = w.cluster().steps;
    w.cluster().post([&w, &i, landings, bytes, from, lane, source, source_offset, began, reduces, op, type] {
      w.instruction = &i;
      const std::byte* data = source  ? source->shared.data() + source_offset
                              : bytes ? w.global(from, bytes, lane, false, "this copy")
                                      : nullptr;
      for (const Landing& l : landings) {
        std::byte* place = l.cta->shared.data() + l.offset;
        if (reduces)
          reduce_into(place, data, bytes, op, type);
        else
          std::memcpy(place, data, bytes);
      }
      finish_load(w, landings, bytes);
      if (w.grid().trace) w.grid().trace->operation(w, "load", began, w.cluster().steps, w.here());
    });
  });
}

void execute_bulk_store(Warp& w, const Instruction& i, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const uint32_t bytes = bulk_bytes(w, i, lane);
    const uint64_t to = w.listed_address(i, 0, lane);
    Cta* source;
    uint32_t offset;
    w.place(w.listed_address(i, 3, lane), bytes, Space::shared, lane, source, offset);
    if (to % 16 || offset % 16)
      w.fail(
          Fault::misaligned,
          fmt::format("source {} and destination {:#x} must be multiples of 16 B", source->name(offset), to),
          lane);
    if (bytes) w.global(to, bytes, lane, true, "this copy");
    w.touch_async(*source, offset, bytes, false, store_access(w, lane), "this copy reads");
    auto data = std::make_shared<std::vector<std::byte>>();
    const auto type = static_cast<Type>(i.mode[2]);
    const auto op = static_cast<Reduction>(i.mode[1]);
    post_store(
        w, i, lane, *source,
        [=] { data->assign(source->shared.begin() + offset, source->shared.begin() + offset + bytes); },
        [&w, data, to, bytes, lane, type, op] {
          if (bytes == 0) return;
          std::byte* place = w.global(to, bytes, lane, true, "this copy");
          if (type == Type::none) return void(std::memcpy(place, data->data(), bytes));
          reduce_into(place, data->data(), bytes, op, type);
        });
  });
}

// cp.async.bulk.dst.src{.completion}{.modifiers} [dst], [src], size{, [mbar]}{, mask}{, policy}
void decode_bulk(Decode& d, bool reducing) {
  const bool hint = d.take("L2::cache_hint"), multicast = d.take("multicast::cluster");
  auto where = d.modifiers;  // destination first
  if (where.size() < 2) d.refuse("it names no destination and source");
  const bool to_global = where[0] == "global", from_global = where[1] == "global";
  d.take(where[0]);
  d.take(where[1]);
  const bool signals = d.take("mbarrier::complete_tx::bytes"), groups = d.take("bulk_group");
  if (reducing) {
    d.out.mode[1] = static_cast<uint8_t>(take_reduction(d));
    d.take("noftz");
    const Type type = d.take_type();
    d.out.mode[2] = static_cast<uint8_t>(type);
    require_reduction(d, static_cast<Reduction>(d.out.mode[1]), type, to_global);
  }
  d.done();
  if (to_global != groups || to_global == signals)
    d.refuse("the completion mechanism does not fit the direction");
  if (reducing && from_global) d.refuse("a reduction has its source in shared memory");
  d.expect(3u + signals + multicast + hint, 3u + signals + multicast + hint);
  d.list_address(d.address(d.operand(0)));
  d.list_address(d.address(d.operand(1)));
  d.out.r[0] = d.source(2, Type::u32);
  if (signals) d.list_address(d.address(d.operand(3)));
  if (multicast) d.out.r[1] = d.source(4, Type::b16);
  d.out.mode[0] = to_global ? store : from_global ? load : to_peer;
  d.out.execute = to_global ? execute_bulk_store : execute_bulk_load;
}

// --- cp.async ---

// list: destination and source addresses; immediate the bytes, r[0] bytes of the source or none, r[1]
// ignore-src.
void execute_cp_async(Warp& w, const Instruction& i, Lanes lanes) {
  struct Piece {
    uint32_t offset;
    uint64_t from;
    uint32_t take;
    int lane;
  };
  const auto bytes = static_cast<uint32_t>(i.immediate);
  if (w.copy_actor == 0) w.copy_actor = w.cluster().new_actor({ActorName::Kind::copy, &w.cta, w.index});
  const uint32_t sequence = ++w.copy_sequence;
  w.copies_outstanding.insert(sequence);
  auto pieces = std::make_shared<std::vector<Piece>>();
  for_lanes(lanes, [&](int lane) {
    Cta* owner;
    Piece p{0, w.listed_address(i, 3, lane), bytes, lane};
    const uint64_t to = w.listed_address(i, 0, lane);
    if (to % bytes || p.from % bytes)
      w.fail(Fault::misaligned, fmt::format("{:#x} and {:#x} must be multiples of {} B", to, p.from, bytes),
             lane);
    w.place(to, bytes, Space::shared, lane, owner, p.offset);
    if (i.r[0] != no_register) p.take = std::min(bytes, w.at<uint32_t>(i.r[0])[lane]);
    if (i.r[1] != no_register && (*w.at<uint32_t>(i.r[1]) >> lane) & 1) p.take = 0;
    if (p.take) w.global(p.from, p.take, lane, false, "this copy");
    w.touch_async(*owner, p.offset, bytes, true, {w.copy_actor, sequence, w.here(), false, 0},
                  "this copy writes");
    pieces->push_back(p);
  });
  ++w.cta.touching;
  w.cluster().post([&w, &i, pieces, bytes, sequence] {
    w.instruction = &i;
    for (const Piece& p : *pieces) {
      std::byte* to = w.cta.shared.data() + p.offset;
      std::memset(to, 0, bytes);
      if (p.take) std::memcpy(to, w.global(p.from, p.take, p.lane, false, "this copy"), p.take);
    }
    ++w.cta.writes;
    --w.cta.touching;
    w.copies_outstanding.erase(sequence);
    w.cluster().changed();
  });
}

void execute_cp_commit(Warp& w, const Instruction&, Lanes) { w.copy_groups.push_back(w.copy_sequence); }

// immediate: groups that may be left, or -1 for wait_all.
void execute_cp_wait(Warp& w, const Instruction& i, Lanes) {
  uint32_t last = w.copy_sequence;
  if (i.immediate >= 0) {
    const int64_t group = static_cast<int64_t>(w.copy_groups.size()) - 1 - i.immediate;
    last = group < 0 ? 0 : w.copy_groups[static_cast<size_t>(group)];
  }
  if (!w.copies_outstanding.empty() && *w.copies_outstanding.begin() <= last) return w.retry(Wait::copies);
  if (last > 0) w.knowledge.seen.raise(w.copy_actor, last);
}

void signal_when_copied(Warp& w, const Instruction& i, Mbarrier& m, uint32_t last,
                        std::shared_ptr<Knowledge> k, int lane) {
  w.cluster().post([&w, &i, &m, last, k, lane] {
    if (!w.copies_outstanding.empty() && *w.copies_outstanding.begin() <= last)
      return signal_when_copied(w, i, m, last, k, lane);
    w.instruction = &i;
    if (w.cluster().checks) m.gathered.join(*k);
    --m.in_flight;
    arrive(w, m, 1, false, lane);
  });
}

// cp.async.mbarrier.arrive: mode[0] .noinc.
void execute_cp_arrive(Warp& w, const Instruction& i, Lanes lanes) {
  auto k = std::make_shared<Knowledge>(w.release());
  if (w.cluster().checks && w.copy_sequence) k->seen.raise(w.copy_actor, w.copy_sequence);
  for_lanes(lanes, [&](int lane) {
    Mbarrier& m = mbarrier_at(w, w.listed_address(i, 0, lane), lane, false);
    if (!i.mode[0]) ++m.pending;
    ++m.in_flight;
    signal_when_copied(w, i, m, w.copy_sequence, k, lane);
  });
}

void decode_cp_async(Decode& d) {
  auto cache = d.take_one({"ca", "cg"});
  const bool hint = d.take("L2::cache_hint");
  d.take_any({"shared", "shared::cta", "global", "L2::64B", "L2::128B", "L2::256B"});
  d.done();
  d.expect(3, 5);
  d.list_address(d.address(d.operand(0)));
  d.list_address(d.address(d.operand(1)));
  d.out.immediate = d.immediate(2);
  if (d.out.immediate != 16 && (cache == "cg" || (d.out.immediate != 4 && d.out.immediate != 8)))
    d.refuse(fmt::format("cp.async of {} B: .ca takes 4, 8 and 16, .cg takes 16", d.out.immediate));
  if (d.count() > 3u + hint) {
    bool is_predicate = false;
    try {
      d.out.r[0] = d.source(3, Type::u32);
    } catch (const Refused&) {
      is_predicate = true;
    }
    if (is_predicate) d.out.r[1] = d.source(3, Type::pred);
  }
  d.out.execute = execute_cp_async;
}

void decode_prefetch(Decode& d) {
  d.out.execute = [](Warp&, const Instruction&, Lanes) {};
}

}  // namespace

void reduce_into(std::byte* place, const std::byte* data, uint32_t bytes_in_all, Reduction op, Type type) {
  const auto width = static_cast<uint32_t>(bytes(type));
  for (uint32_t at = 0; at < bytes_in_all; at += width) {
    uint64_t a = 0, b = 0;
    std::memcpy(&a, place + at, width);
    std::memcpy(&b, data + at, width);
    uint64_t r = reduce(op, type, a, b);
    std::memcpy(place + at, &r, width);
  }
}

void add_copy(DecodeTable& t) {
  t["cp.async"] = decode_cp_async;
  t["cp.async.commit_group"] = [](Decode& d) { d.out.execute = execute_cp_commit; };
  t["cp.async.wait_group"] = [](Decode& d) {
    d.out.immediate = d.immediate(0);
    d.out.execute = execute_cp_wait;
  };
  t["cp.async.wait_all"] = [](Decode& d) {
    d.out.immediate = -1;
    d.out.execute = execute_cp_wait;
  };
  t["cp.async.mbarrier.arrive"] = [](Decode& d) {
    d.out.mode[0] = d.take("noinc");
    d.take_any({"shared", "shared::cta", "b64"});
    d.done();
    d.list_address(d.address(d.operand(0)));
    d.out.execute = execute_cp_arrive;
  };
  t["cp.async.bulk"] = [](Decode& d) { decode_bulk(d, false); };
  t["cp.reduce.async.bulk"] = [](Decode& d) { decode_bulk(d, true); };
  t["cp.async.bulk.prefetch"] = decode_prefetch;
  t["cp.async.bulk.commit_group"] = [](Decode& d) { d.out.execute = execute_commit; };
  t["cp.async.bulk.wait_group"] = decode_wait;
}

}  // namespace ptxbuilder::runtime::emulator
