// Executes atomic operations (PTX ISA, atom, red).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/reduce.h"
#include "runtime/emulator/instructions/together.h"
#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime::emulator {

uint64_t reduce(Reduction op, Type type, uint64_t a, uint64_t b) {
  const int width = bytes(type);
  if (is_float(type)) {
    switch (type) {
      case Type::f32: {
        float x = std::bit_cast<float>(static_cast<uint32_t>(a)),
              y = std::bit_cast<float>(static_cast<uint32_t>(b));
        float r = op == Reduction::add ? x + y : op == Reduction::min ? std::fmin(x, y) : std::fmax(x, y);
        return std::bit_cast<uint32_t>(r);
      }
      case Type::f64: {
        double x = std::bit_cast<double>(a), y = std::bit_cast<double>(b);
        return std::bit_cast<uint64_t>(op == Reduction::add   ? x + y
                                       : op == Reduction::min ? std::fmin(x, y)
                                                              : std::fmax(x, y));
      }
      case Type::f16x2:
      case Type::bf16x2: {
        Type half = type == Type::f16x2 ? Type::f16 : Type::bf16;
        return reduce(op, half, a & 0xffff, b & 0xffff) | reduce(op, half, a >> 16, b >> 16) << 16;
      }
      default: {
        const bool brain = type == Type::bf16;
        auto load = [&](uint64_t bits) {
          return brain ? from_bf16(static_cast<uint16_t>(bits)) : from_f16(static_cast<uint16_t>(bits));
        };
        float x = load(a), y = load(b);
        float r = op == Reduction::add ? x + y : op == Reduction::min ? std::fmin(x, y) : std::fmax(x, y);
        return brain ? to_bf16(r) : to_f16(r);
      }
    }
  }
  auto wide = [&](uint64_t x) {
    return is_signed(type) ? static_cast<int64_t>(x << (64 - 8 * width)) >> (64 - 8 * width) : 0;
  };
  switch (op) {
    case Reduction::add:
      return a + b;
    case Reduction::min:
      return is_signed(type) ? (wide(a) < wide(b) ? a : b) : std::min(a, b);
    case Reduction::max:
      return is_signed(type) ? (wide(a) > wide(b) ? a : b) : std::max(a, b);
    case Reduction::and_:
      return a & b;
    case Reduction::or_:
      return a | b;
    case Reduction::xor_:
      return a ^ b;
    case Reduction::inc:
      return a >= b ? 0 : a + 1;
    case Reduction::dec:
      return a == 0 || a > b ? b : a - 1;
    case Reduction::exch:
      return b;
    default:
      return b;
  }
}

namespace {

template <class Code, class F>
void reduce_codes(std::byte* place, const std::byte* data, uint32_t bytes, F result) {
  for (uint32_t at = 0; at < bytes; at += sizeof(Code)) {
    Code a, b;
    std::memcpy(&a, place + at, sizeof(Code));
    std::memcpy(&b, data + at, sizeof(Code));
    const auto r = static_cast<Code>(result(a, b));
    std::memcpy(place + at, &r, sizeof(Code));
  }
}

}  // namespace

void reduce_into(std::byte* place, const std::byte* data, uint32_t bytes_in_all, Reduction op, Type type) {
  if (op == Reduction::add && type == Type::f32)  // the most frequent case
    return reduce_codes<float>(place, data, bytes_in_all, [](float a, float b) { return a + b; });
  const auto result = [&](uint64_t a, uint64_t b) { return reduce(op, type, a, b); };
  switch (bytes(type)) {
    case 2:
      return reduce_codes<uint16_t>(place, data, bytes_in_all, result);
    case 4:
      return reduce_codes<uint32_t>(place, data, bytes_in_all, result);
    default:
      return reduce_codes<uint64_t>(place, data, bytes_in_all, result);
  }
}

Reduction take_reduction(Decode& d) {
  constexpr std::pair<std::string_view, Reduction> names[] = {
      {"add", Reduction::add},  {"min", Reduction::min}, {"max", Reduction::max},
      {"and", Reduction::and_}, {"or", Reduction::or_},  {"xor", Reduction::xor_},
      {"inc", Reduction::inc},  {"dec", Reduction::dec}, {"cas", Reduction::cas}};
  for (auto [name, op] : names)
    if (d.has(name)) return op;
  return Reduction::exch;
}

namespace {

struct Atomic {
  AddressOperand a;
  RegisterList b;
  RegisterList d;  // receive the previous values; empty for red, and no_register for _
  Register c;      // for cas, the value that is stored if b is found
  Reduction op;
  Type type;
  Space space;
  Order order;
  Scope scope;
};

// Adds operands, which are contiguous like the memory, to global memory at an address.
void add_to(Warp& w, const Atomic& x, uint64_t address, const std::byte* operands, size_t all) {
  std::byte* place = w.grid().memory.find(address, static_cast<uint32_t>(all))->at(address);
  WeakMemory* weak = w.weak();
  if (weak) weak->begin_atomic(address, static_cast<uint32_t>(all), place);
  reduce_into(place, operands, static_cast<uint32_t>(all), x.op, x.type);
  if (weak) weak->end_store(w, address, true);
}

// Copies the operands of `count` lanes, starting at lane `first`, to contiguous memory.
void gather(const Warp& w, const Atomic& x, int first, int count, std::byte* to) {
  const auto width = static_cast<uint32_t>(bytes(x.type));
  const auto registers = w.listed(x.b);
  if (registers.size() == 1) {
    std::memcpy(to, w.at<std::byte>(registers[0]) + static_cast<uint32_t>(first) * width,
                static_cast<uint32_t>(count) * width);
    return;
  }
  for (int lane = first; lane < first + count; ++lane)
    for (const Register r : registers) {
      std::memcpy(to, w.at<std::byte>(r) + static_cast<uint32_t>(lane) * width, width);
      to += width;
    }
}

// The postponed additions to global memory of one instruction. Each address gets the same number of bytes.
struct PutOff {
  std::vector<uint64_t> addresses = {};
  std::vector<std::byte> operands = {};

  // Records an addition of `added` bytes by `count` lanes, starting at lane `first`, to contiguous memory.
  void add(Warp& w, const Atomic& x, uint64_t address, int first, int count, uint32_t added) {
    addresses.push_back(address);
    const size_t from = operands.size();
    operands.resize(from + added);
    gather(w, x, first, count, operands.data() + from);
    w.cluster().ahead->note(address, added);
  }
};

GlobalAccess addition(const Warp& w, const Atomic& x, uint64_t address, uint32_t bytes, int lane) {
  return {.address = address,
          .bytes = bytes,
          .writes = true,
          .deed = w.access(),
          .what = "this adds to",
          .lane = lane,
          .updates = true,
          .is_strong = true,
          .scope = x.scope};
}

// Reports the accesses of all lanes to the checks as one access, if the lanes access contiguous global memory
// and none of its words passes on any knowledge. Returns whether that was the case.
bool touch_together(Warp& w, const Atomic& x, Lanes lanes, uint32_t size) {
  if (w.weak()) return false;
  const auto t = together(w, x.a, lanes, size);
  if (!t || t->count == 1 || t->each != size) return false;
  const uint64_t address = w.address(x.a, t->first);
  Cta* owner;
  uint32_t offset;
  if (address % size || !w.place_together(address, size * t->count, x.space, owner, offset) || owner ||
      !reaches_global(x.space, address) || !w.may_write())
    return false;
  if (w.cluster().checks && !w.cluster().ahead)
    for (uint32_t k = 0; k < t->count; ++k)
      if (w.grid().order->passed(address + k * size)) return false;
  GlobalAccess access = addition(w, x, address, size * t->count, t->first);
  access.each = size;
  w.touch_global(access);
  return true;
}

void execute_atomic(Warp& w, const Atomic& x, Lanes lanes) {
  const Reduction op = x.op;
  const Type type = x.type;
  const auto b = w.listed(x.b), d = w.listed(x.d);
  const auto width = static_cast<uint32_t>(bytes(type)), length = x.b.size;
  constexpr uint32_t nowhere = ~0u;
  if (w.cluster().ahead && w.causality.has_published()) return w.await_turn();
  std::array<uint32_t, 32> places;  // offset of each lane's access in the CTA's shared memory
  PutOff sums;
  const bool is_told = touch_together(w, x, lanes, width * length);
  const int first = __builtin_ctz(lanes);
  places.fill(nowhere);
  const bool are_put_off = is_told && w.cluster().ahead;
  if (are_put_off) {
    const uint64_t address = w.address(x.a, first);
    const int count = __builtin_popcount(lanes);
    const uint32_t added = width * length * static_cast<uint32_t>(count);
    if (w.cluster().ahead->has_turn()) {
      std::array<std::byte, size_t{32} * 16> operands;
      gather(w, x, first, count, operands.data());
      w.cluster().ahead->note(address, added);
      add_to(w, x, address, operands.data(), added);
    } else {
      sums.add(w, x, address, first, count, added);
    }
  }
  for_lanes(are_put_off ? Lanes{} : lanes, [&](int lane) {
    const uint64_t address = w.address(x.a, lane);
    if (address % (width * length))
      w.fail(Fault::misaligned,
             fmt::format("the address {:#x} is not a multiple of {} B", address, width * length), lane);
    Cta* owner;
    uint32_t offset = 0;
    std::byte* place = w.place(address, width * length, x.space, lane, owner, offset);
    const uint64_t at = owner ? offset : address;
    WeakMemory* weak = owner ? nullptr : w.weak();
    const bool is_ahead = !owner && w.cluster().ahead;
    if (!is_ahead && !is_told) w.order_before(owner, at, x.order, x.scope);
    if (owner) {
      w.touch_ordered(*owner, offset, width * length, true, lane, x.order);
    } else {
      w.require_writable(lane);
      if (!is_told) w.touch_global(addition(w, x, address, width * length, lane));
    }
    bool stores = true;
    places[static_cast<size_t>(lane)] = owner == &w.cta ? offset : nowhere;
    if (is_ahead) return sums.add(w, x, address, lane, 1, width * length);
    for (uint32_t k = 0; k < length; ++k) {
      unsigned __int128 old = 0, operand = 0, result;
      std::memcpy(&old, place + k * width, width);
      if (!owner && !d.empty() && k == 0 && lane == first) w.strong_read(address, place, width);
      std::memcpy(&operand, w.at<std::byte>(b[k]) + static_cast<uint32_t>(lane) * width, width);
      if (op == Reduction::cas) {
        unsigned __int128 fresh = 0;
        std::memcpy(&fresh, w.at<std::byte>(x.c) + static_cast<uint32_t>(lane) * width, width);
        result = old == operand ? fresh : old;
        stores = old == operand;
      } else if (op == Reduction::exch) {
        result = operand;
      } else {
        result = reduce(op, type, static_cast<uint64_t>(old), static_cast<uint64_t>(operand));
      }
      if (weak && k == 0)
        stores ? weak->begin_atomic(address, width * length, place) : weak->load_newest(w, address);
      std::memcpy(place + k * width, &result, width);
      if (!d.empty() && d[k] != no_register)
        std::memcpy(w.at<std::byte>(d[k]) + static_cast<uint32_t>(lane) * width, &old, width);
    }
    if (weak && stores) weak->end_store(w, address, true);
    if (stores || !weak) w.order_after(owner, at, x.order, x.scope, lane);
  });
  for (const LaneAccess kind : {LaneAccess::atomic_checked, LaneAccess::atomic_recorded})
    for_lanes(lanes, [&](int lane) {
      if (const uint32_t offset = places[static_cast<size_t>(lane)]; offset != nowhere)
        w.touch_lanes({w.cta, offset, width * length, true, lane}, kind);
    });
  w.causality.told(lanes, w.alive);
  if (!sums.addresses.empty())
    w.cluster().ahead->put_off([&w, &x, sums = std::move(sums)] {
      const size_t each = sums.operands.size() / sums.addresses.size();
      for (size_t k = 0; k < sums.addresses.size(); ++k)
        add_to(w, x, sums.addresses[k], sums.operands.data() + k * each, each);
    });
}

void decode_atomic(Decode& d, bool returns) {
  const std::string_view semantics = d.one_of({"relaxed", "acquire", "release", "acq_rel"});
  const Order order = semantics == "relaxed"   ? Order::relaxed
                      : semantics == "acquire" ? Order::acquire
                      : semantics == "release" ? Order::release
                      : semantics == "acq_rel" ? Order::both
                                               : Order::older;
  if (!semantics.empty()) d.decoder.names_semantics();
  std::string_view named = d.one_of({"global", "shared::cta", "shared::cluster", "shared"});
  Space space = named.empty() ? Space::generic : named == "global" ? Space::global : Space::cluster;
  const Reduction op = take_reduction(d);
  const Type type = d.type();
  const size_t first = returns ? 1 : 0;
  Space symbol = Space::generic;
  const AddressOperand address = d.address(d.operand(first), 0, &symbol);
  if (space == Space::generic) space = symbol;
  if (space != Space::cluster && space != Space::shared) {
    d.decoder.communicates();
    const bool adds = !returns && (order == Order::relaxed || order == Order::older);
    d.turn(adds ? Turn::sums : Turn::waits);
  }
  Atomic x{address,      d.list(d.sources(Decode::parts(d.operand(first + 1)), type)),
           {},           no_register,
           op,           type,
           space,        order,
           take_scope(d)};
  if (returns && !d.operand(0).is_name("_")) x.d = d.list(d.sinks(Decode::parts(d.operand(0)), type));
  if (op == Reduction::cas) x.c = d.source(first + 2, type);
  d.needs_all();
  d.run<execute_atomic>(x);
}

}  // namespace

void add_atomic(DecodeTable& t) {
  t["atom"] = [](Decode& d) { decode_atomic(d, true); };
  t["red"] = [](Decode& d) { decode_atomic(d, false); };
  t["multimem.red"] = [](Decode& d) { decode_atomic(d, false); };
}

}  // namespace ptxbuilder::runtime::emulator
