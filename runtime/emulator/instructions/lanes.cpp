// What the lanes of a warp do together (PTX ISA, shfl.sync, vote.sync, match.sync, redux.sync, elect.sync,
// activemask, bar.warp.sync).
#include <fmt/format.h>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/reduce.h"

namespace ptxbuilder::runtime::emulator {
namespace {

Lanes first_mask(Warp& w, const Instruction& i, Lanes lanes) {
  return w.at<uint32_t>(i.r[6])[__builtin_ctz(lanes)];
}

void set_predicate(Warp& w, uint32_t at, Lanes lanes, Lanes value) {
  if (at == no_register) return;
  uint32_t& p = *w.at<uint32_t>(at);
  p = (p & ~lanes) | (value & lanes);
}

// shfl: r[0] result, r[1] predicate, r[2] a, r[3] b, r[4] c, r[6] member mask. mode[0]: up, down, bfly, idx.
void execute_shfl(Warp& w, const Instruction& i, Lanes lanes) {
  Lanes together;
  const Lanes mask = first_mask(w, i, lanes);
  if (!w.gather(lanes, mask, together)) return;
  uint32_t a[32];
  std::memcpy(a, w.at<uint32_t>(i.r[2]), sizeof a);
  const uint32_t *b = w.at<uint32_t>(i.r[3]), *c = w.at<uint32_t>(i.r[4]);
  Lanes in_range = 0;
  for_lanes(together, [&](int lane) {
    const int bound = static_cast<int>(c[lane] & 31), segment = static_cast<int>((c[lane] >> 8) & 31),
              by = static_cast<int>(b[lane] & 31);
    const int most = (lane & segment) | (bound & ~segment), least = lane & segment;
    int from = lane;
    bool ok = false;
    switch (i.mode[0]) {
      case 0:
        from = lane - by;
        ok = from >= most;
        break;
      case 1:
        from = lane + by;
        ok = from <= most;
        break;
      case 2:
        from = lane ^ by;
        ok = from <= most;
        break;
      default:
        from = least | (by & ~segment);
        ok = from <= most;
    }
    if (!ok) from = lane;
    if (!((together >> from) & 1) && ok)
      w.fail(Fault::divergence, fmt::format("this reads lane {}, which does not take part", from), lane);
    in_range |= static_cast<Lanes>(ok) << lane;
    if (i.r[0] != no_register) w.at<uint32_t>(i.r[0])[lane] = a[from];
  });
  set_predicate(w, i.r[1], together, in_range);
}

void decode_shfl(Decode& d) {
  if (!d.take("sync")) d.refuse("shfl without .sync is gone since PTX 6.4");
  auto mode = d.take_one({"up", "down", "bfly", "idx"});
  d.out.mode[0] = mode == "up" ? 0 : mode == "down" ? 1 : mode == "bfly" ? 2 : 3;
  Type type = d.take_type();
  d.done();
  d.require(bytes(type) == 4);
  d.expect(5, 5);
  const ptx::Operand& to = d.operand(0);
  const bool two = to.kind == ptx::Operand::Kind::binary && to.text == "|";
  d.out.r[0] = d.sink(two ? to.parts[0] : to, type);
  if (two) d.out.r[1] = d.sink(to.parts[1], Type::pred);
  d.out.r[2] = d.source(1, type);
  d.passes(Flow::shuffles, {d.out.r[2]});
  d.out.r[3] = d.source(2, Type::b32);
  d.out.r[4] = d.source(3, Type::b32);
  d.out.r[6] = d.source(4, Type::b32);
  d.out.execute = execute_shfl;
}

// vote: r[0] result, r[2] the predicate (negated by mode[1]). mode[0]: all, any, uni, ballot.
void execute_vote(Warp& w, const Instruction& i, Lanes lanes) {
  Lanes together;
  if (!w.gather(lanes, first_mask(w, i, lanes), together)) return;
  Lanes p = *w.at<uint32_t>(i.r[2]);
  if (i.mode[1]) p = ~p;
  p &= together;
  const bool yes = i.mode[0] == 0 ? p == together : i.mode[0] == 1 ? p != 0 : p == 0 || p == together;
  if (i.mode[0] < 3) return set_predicate(w, i.r[0], together, yes ? all_lanes : 0);
  for_lanes(together, [&](int k) { w.at<uint32_t>(i.r[0])[k] = p; });
}

void decode_vote(Decode& d) {
  if (!d.take("sync")) d.refuse("vote without .sync is gone since PTX 6.4");
  auto mode = d.take_one({"all", "any", "uni", "ballot"});
  d.take_any({"pred", "b32"});
  d.done();
  d.expect(3, 3);
  d.out.mode[0] = mode == "all" ? 0 : mode == "any" ? 1 : mode == "uni" ? 2 : 3;
  d.out.r[0] = d.destination(0, d.out.mode[0] == 3 ? Type::b32 : Type::pred);
  bool negated = false;
  if (auto value = ptx::integer_value(d.operand(1)))
    d.out.r[2] = d.source(1, Type::pred);
  else
    d.out.r[2] = d.predicate(d.operand(1), negated);
  d.out.mode[1] = negated;
  d.out.r[6] = d.source(2, Type::b32);
  d.out.execute = execute_vote;
}

template <class T>
void execute_match(Warp& w, const Instruction& i, Lanes lanes) {
  Lanes together;
  if (!w.gather(lanes, first_mask(w, i, lanes), together)) return;
  const T* a = w.at<T>(i.r[2]);
  Lanes masks[32] = {};
  for_lanes(together, [&](int k) {
    for_lanes(together, [&](int other) { masks[k] |= static_cast<Lanes>(a[other] == a[k]) << other; });
  });
  const bool all = masks[__builtin_ctz(together)] == together;
  for_lanes(together,
            [&](int k) { w.at<uint32_t>(i.r[0])[k] = i.mode[0] ? (all ? together : 0) : masks[k]; });
  set_predicate(w, i.r[1], together, all ? all_lanes : 0);
}

void decode_match(Decode& d) {
  d.out.mode[0] = d.take_one({"any", "all"}) == "all";
  d.take("sync");
  Type type = d.take_type();
  d.done();
  d.require(bytes(type) == 4 || bytes(type) == 8);
  const ptx::Operand& to = d.operand(0);
  const bool two = to.kind == ptx::Operand::Kind::binary && to.text == "|";
  d.out.r[0] = d.destination(two ? to.parts[0] : to, Type::b32);
  if (two) d.out.r[1] = d.sink(to.parts[1], Type::pred);
  d.out.r[2] = d.source(1, type);
  d.out.r[6] = d.source(2, Type::b32);
  d.out.execute = bytes(type) == 8 ? execute_match<uint64_t> : execute_match<uint32_t>;
}

void execute_redux(Warp& w, const Instruction& i, Lanes lanes) {
  Lanes together;
  if (!w.gather(lanes, first_mask(w, i, lanes), together)) return;
  const uint32_t* a = w.at<uint32_t>(i.r[2]);
  uint64_t sum = a[__builtin_ctz(together)];
  for_lanes(together & (together - 1), [&](int k) {
    sum = reduce(static_cast<Reduction>(i.mode[0]), static_cast<Type>(i.mode[1]), sum, a[k]) & 0xffffffff;
  });
  for_lanes(together, [&](int k) { w.at<uint32_t>(i.r[0])[k] = static_cast<uint32_t>(sum); });
}

void decode_redux(Decode& d) {
  d.take("sync");
  d.out.mode[0] = static_cast<uint8_t>(take_reduction(d));
  Type type = d.take_type();
  d.done();
  if (is_float(type)) d.refuse("redux of floats is not on sm_90");
  d.require(bytes(type) == 4);
  d.out.mode[1] = static_cast<uint8_t>(type);
  d.out.r[0] = d.destination(0, type);
  d.out.r[2] = d.source(1, type);
  d.out.r[6] = d.source(2, Type::b32);
  d.out.execute = execute_redux;
}

// The lowest lane of the mask is the leader; PTX leaves the choice open.
void execute_elect(Warp& w, const Instruction& i, Lanes lanes) {
  Lanes together;
  const Lanes mask = first_mask(w, i, lanes);
  if (!w.gather(lanes, mask, together)) return;
  const auto leader = static_cast<uint32_t>(__builtin_ctz(together));
  if (i.r[0] != no_register) for_lanes(together, [&](int k) { w.at<uint32_t>(i.r[0])[k] = leader; });
  set_predicate(w, i.r[1], together, Lanes{1} << leader);
}

void decode_elect(Decode& d) {
  d.take("sync");
  d.done();
  d.expect(2, 2);
  const ptx::Operand& to = d.operand(0);
  if (to.kind != ptx::Operand::Kind::binary || to.text != "|")
    d.refuse("elect.sync writes a register and a predicate, d|p");
  d.out.r[0] = d.sink(to.parts[0], Type::b32);
  d.out.r[1] = d.sink(to.parts[1], Type::pred);
  d.out.r[6] = d.source(1, Type::b32);
  d.out.execute = execute_elect;
}

void execute_activemask(Warp& w, const Instruction& i, Lanes lanes) {
  for_lanes(lanes, [&](int k) { w.at<uint32_t>(i.r[0])[k] = lanes; });
}

void execute_warp_sync(Warp& w, const Instruction& i, Lanes lanes) {
  Lanes together;
  w.gather(lanes, first_mask(w, i, lanes), together);
}

}  // namespace

void add_lanes(DecodeTable& t) {
  t["shfl"] = decode_shfl;
  t["vote"] = decode_vote;
  t["match"] = decode_match;
  t["redux"] = decode_redux;
  t["elect"] = decode_elect;
  t["activemask"] = [](Decode& d) {
    d.out.r[0] = d.destination(0, Type::b32);
    d.out.execute = execute_activemask;
  };
  for (std::string_view name : {"bar.warp.sync", "barrier.warp.sync"})
    t[name] = [](Decode& d) {
      d.out.r[6] = d.source(0, Type::b32);
      d.out.execute = execute_warp_sync;
    };
}

}  // namespace ptxbuilder::runtime::emulator
