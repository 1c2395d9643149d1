// Executes instructions in which the lanes of a warp cooperate (PTX ISA, shfl.sync, vote.sync, match.sync,
// redux.sync, elect.sync, activemask, bar.warp.sync).
#include <fmt/format.h>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/reduce.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// Calls f for each group of lanes with the same member mask, once all lanes of the group have arrived.
template <class F>
void for_groups(Warp& w, Register membermask, Lanes lanes, F f) {
  for (const Lanes together : w.gather(lanes, w.at<uint32_t>(membermask))) f(together);
}

enum class ShuffleMode : uint8_t { up, down, bfly, idx };

struct Shuffle {
  Register d, p;  // each may be no_register
  Register a, b, c, membermask;
  ShuffleMode mode;
};

void shuffle(Warp& w, const Shuffle& x, Lanes together) {
  uint32_t a[32];
  std::memcpy(a, w.at<uint32_t>(x.a), sizeof a);
  const Lanes undefined = w.undefined.follows() ? w.undefined.in(x.a) : 0;
  Lanes result = 0, outside = 0;
  const uint32_t *b = w.at<uint32_t>(x.b), *c = w.at<uint32_t>(x.c);
  Lanes in_range = 0;
  for_lanes(together, [&](int lane) {
    const int bound = static_cast<int>(c[lane] & 31), segment = static_cast<int>((c[lane] >> 8) & 31),
              by = static_cast<int>(b[lane] & 31);
    const int most = (lane & segment) | (bound & ~segment), least = lane & segment;
    int from = lane;
    bool ok = false;
    switch (x.mode) {
      case ShuffleMode::up:
        from = lane - by;
        ok = from >= most;
        break;
      case ShuffleMode::down:
        from = lane + by;
        ok = from <= most;
        break;
      case ShuffleMode::bfly:
        from = lane ^ by;
        ok = from <= most;
        break;
      case ShuffleMode::idx:
        from = least | (by & ~segment);
        ok = from <= most;
    }
    if (!ok) from = lane;
    outside |= static_cast<Lanes>(!((together >> from) & 1)) << lane;
    result |= static_cast<Lanes>((undefined >> from) & 1) << lane;
    in_range |= static_cast<Lanes>(ok) << lane;
    if (x.d != no_register) w.at<uint32_t>(x.d)[lane] = a[from];
  });
  w.set_predicate(x.p, together, in_range);
  if (x.d == no_register || !w.cluster().checks) return;
  if (result || w.undefined.follows())
    w.undefined.set(x.d, together, result, result ? w.undefined.origin_of(x.a) : Origin{});
  if (outside)  // the value of a lane that does not participate is undefined
    w.undefined.set(
        x.d, outside, outside,
        {no_register, w.here(),
         fmt::format("this reads a lane that does not take part; the reading lanes are {:#x}", outside)});
}

void execute_shfl(Warp& w, const Shuffle& x, Lanes lanes) {
  for_groups(w, x.membermask, lanes, [&](Lanes together) { shuffle(w, x, together); });
}

void decode_shfl(Decode& d) {
  auto named = d.one_of({"up", "down", "bfly", "idx"});
  const ShuffleMode mode = named == "up"     ? ShuffleMode::up
                           : named == "down" ? ShuffleMode::down
                           : named == "bfly" ? ShuffleMode::bfly
                                             : ShuffleMode::idx;
  Type type = d.type();
  const ptx_text::Operand& to = d.operand(0);
  const bool two = to.kind == ptx_text::Operand::Kind::binary && to.text == "|";
  const Shuffle x{d.sink(two ? to.parts[0] : to, type),
                  two ? d.sink(to.parts[1], Type::pred) : no_register,
                  d.source(1, type),
                  d.source(2, Type::b32),
                  d.source(3, Type::b32),
                  d.source(4, Type::b32),
                  mode};
  d.passes(Flow::handled, {x.a});
  d.needs_all();
  d.run<execute_shfl>(x);
}

enum class VoteMode : uint8_t { all, any, uni, ballot };

struct Vote {
  Register d;  // a predicate, except for ballot
  Predicate a;
  Register membermask;
  VoteMode mode;
};

void vote(Warp& w, const Vote& x, Lanes together) {
  const Lanes yes = w.truth(x.a) & together;
  auto agree = [&](bool result) { w.set_predicate(x.d, together, result ? all_lanes : 0); };
  switch (x.mode) {
    case VoteMode::all:
      return agree(yes == together);
    case VoteMode::any:
      return agree(yes != 0);
    case VoteMode::uni:
      return agree(yes == 0 || yes == together);
    case VoteMode::ballot:
      for_lanes(together, [&](int k) { w.at<uint32_t>(x.d)[k] = yes; });
  }
}

void execute_vote(Warp& w, const Vote& x, Lanes lanes) {
  for_groups(w, x.membermask, lanes, [&](Lanes together) { vote(w, x, together); });
}

void decode_vote(Decode& d) {
  auto named = d.one_of({"all", "any", "uni", "ballot"});
  const VoteMode mode = named == "all"   ? VoteMode::all
                        : named == "any" ? VoteMode::any
                        : named == "uni" ? VoteMode::uni
                                         : VoteMode::ballot;
  const Register to = d.destination(0, mode == VoteMode::ballot ? Type::b32 : Type::pred);
  const Predicate a =
      ptx_text::integer_value(d.operand(1)) ? Predicate{d.source(1, Type::pred)} : d.predicate(d.operand(1));
  const Register membermask = d.source(2, Type::b32);
  d.passes(Flow::collective, {a.p});
  d.needs(membermask);
  d.run<execute_vote>({to, a, membermask, mode});
}

struct Match {
  Register d, p;  // each may be no_register
  Register a, membermask;
  bool all;  // .all if true, otherwise .any
};

template <class T>
void execute_match(Warp& w, const Match& x, Lanes lanes) {
  const T* a = w.at<T>(x.a);
  for_groups(w, x.membermask, lanes, [&](Lanes together) {
    Lanes masks[32] = {};
    for_lanes(together, [&](int k) {
      for_lanes(together, [&](int other) { masks[k] |= static_cast<Lanes>(a[other] == a[k]) << other; });
    });
    const bool all = masks[__builtin_ctz(together)] == together;
    if (x.d != no_register)
      for_lanes(together, [&](int k) { w.at<uint32_t>(x.d)[k] = x.all ? (all ? together : 0) : masks[k]; });
    w.set_predicate(x.p, together, all ? all_lanes : 0);
  });
}

void decode_match(Decode& d) {
  const bool all = d.one_of({"any", "all"}) == "all";
  Type type = d.type();
  const ptx_text::Operand& to = d.operand(0);
  const bool two = to.kind == ptx_text::Operand::Kind::binary && to.text == "|";
  const Match x{two ? d.sink(to.parts[0], Type::b32) : d.destination(to, Type::b32),
                two ? d.sink(to.parts[1], Type::pred) : no_register, d.source(1, type),
                d.source(2, Type::b32), all};
  d.passes(Flow::collective, {x.a});
  d.needs(x.membermask);
  bytes(type) == 8 ? d.run<execute_match<uint64_t>>(x) : d.run<execute_match<uint32_t>>(x);
}

struct Redux {
  Register d, a, membermask;
  Reduction op;
  Type type;
};

void execute_redux(Warp& w, const Redux& x, Lanes lanes) {
  const uint32_t* a = w.at<uint32_t>(x.a);
  for_groups(w, x.membermask, lanes, [&](Lanes together) {
    uint64_t sum = a[__builtin_ctz(together)];
    for_lanes(together & (together - 1), [&](int k) { sum = reduce(x.op, x.type, sum, a[k]) & 0xffffffff; });
    for_lanes(together, [&](int k) { w.at<uint32_t>(x.d)[k] = static_cast<uint32_t>(sum); });
  });
}

void decode_redux(Decode& d) {
  const Reduction op = take_reduction(d);
  Type type = d.type();
  const Redux x{d.destination(0, type), d.source(1, type), d.source(2, Type::b32), op, type};
  d.passes(Flow::collective, {x.a});
  d.needs(x.membermask);
  d.run<execute_redux>(x);
}

struct Elect {
  Register d, p;  // each may be no_register
  Register membermask;
};

// Elects the lowest lane of the mask. PTX does not specify which lane is elected.
void execute_elect(Warp& w, const Elect& x, Lanes lanes) {
  for_groups(w, x.membermask, lanes, [&](Lanes together) {
    const auto leader = static_cast<uint32_t>(__builtin_ctz(together));
    if (x.d != no_register) for_lanes(together, [&](int k) { w.at<uint32_t>(x.d)[k] = leader; });
    w.set_predicate(x.p, together, Lanes{1} << leader);
  });
}

void decode_elect(Decode& d) {
  const ptx_text::Operand& to = d.operand(0);
  const Elect x{d.sink(to.parts[0], Type::b32), d.sink(to.parts[1], Type::pred), d.source(1, Type::b32)};
  d.needs(x.membermask);
  d.run<execute_elect>(x);
}

struct ActiveMask {
  Register d;
};

void execute_activemask(Warp& w, const ActiveMask& x, Lanes lanes) {
  for_lanes(lanes, [&](int k) { w.at<uint32_t>(x.d)[k] = lanes; });
}

struct WarpSync {
  Register membermask;
};

void execute_warp_sync(Warp& w, const WarpSync& x, Lanes lanes) {
  w.gather(lanes, w.at<uint32_t>(x.membermask), true);
}

}  // namespace

void add_lanes(DecodeTable& t) {
  t["shfl"] = decode_shfl;
  t["vote"] = decode_vote;
  t["match"] = decode_match;
  t["redux"] = decode_redux;
  t["elect"] = decode_elect;
  t["activemask"] = [](Decode& d) { d.run<execute_activemask>({d.destination(0, Type::b32)}); };
  t["bar.warp.sync"] = [](Decode& d) { d.run<execute_warp_sync>({d.source(0, Type::b32)}); };
}

}  // namespace ptxbuilder::runtime::emulator
