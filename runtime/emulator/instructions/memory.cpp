// Executes loads, stores and prefetches (PTX ISA, ld, st, ldu, prefetch, mapa, getctarank).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/together.h"

namespace ptxbuilder::runtime::emulator {
namespace {

struct MemoryAccess {
  AddressOperand address;
  RegisterList data;       // registers of the vector; no_register for _
  uint8_t register_bytes;  // size of each register; at least the size of an element
  Space space;
  Order order;
  Scope scope;
};

void require_aligned(Warp& w, uint64_t address, uint32_t bytes, int lane) {
  if (address % bytes)
    w.fail(Fault::misaligned,
           fmt::format("the address {:#x} is not a multiple of the {} B that are accessed", address, bytes),
           lane);
}

template <class T>
void put(std::byte* r, int lane, int width, T value) {
  switch (width) {
    case 1:
      reinterpret_cast<uint8_t*>(r)[lane] = static_cast<uint8_t>(value);
      break;
    case 2:
      reinterpret_cast<uint16_t*>(r)[lane] = static_cast<uint16_t>(value);
      break;
    case 4:
      reinterpret_cast<uint32_t*>(r)[lane] = static_cast<uint32_t>(value);
      break;
    default:
      reinterpret_cast<uint64_t*>(r)[lane] = static_cast<uint64_t>(value);
  }
}

struct Quad {
  uint64_t low, high;
};

template <class T>
void move_lane(Warp& w, std::span<const Register> registers, int width, int lane, std::byte* place,
               bool store) {
  for (size_t k = 0; k < registers.size(); ++k) {
    if (registers[k] == no_register) continue;
    std::byte *data = w.at<std::byte>(registers[k]), *at = place + k * sizeof(T);
    if (store) {
      std::memcpy(at, data + static_cast<ptrdiff_t>(lane) * width, sizeof(T));
    } else if constexpr (sizeof(T) == 16) {
      std::memcpy(data + static_cast<ptrdiff_t>(lane) * 16, at, 16);
    } else {
      T value;
      std::memcpy(&value, at, sizeof(T));
      put(data, lane, width, value);
    }
  }
}

// Tracks undefined values in the data that a lane loads or stores.
template <bool store>
void follow_access(Warp& w, std::span<const Register> data, uint32_t bytes,
                   const UndefinedValues::Place& place, int lane) {
  store ? w.undefined.store(data, place, bytes, lane) : w.undefined.load(data, place, bytes, lane);
}

template <bool store>
GlobalAccess global_access(const Warp& w, uint64_t address, uint32_t bytes, int lane) {
  return {.address = address,
          .bytes = bytes,
          .writes = store,
          .deed = w.access(),
          .what = store ? "this writes" : "this reads",
          .lane = lane};
}

// Moves vectors of n elements, one per lane, that are contiguous in memory.
template <class T, bool store, size_t n>
void move_vectors(Warp& w, std::span<const Register> registers, const Together& t, std::byte* place) {
  std::array<T, 32> unused;
  std::array<T*, n> data;
  for (size_t k = 0; k < n; ++k)
    data[k] = registers[k] == no_register ? unused.data() : w.at<T>(registers[k]) + t.first;
  T* memory = reinterpret_cast<T*>(place);
  auto move = [&](size_t count) {
#ifndef __clang__
#pragma GCC ivdep
#endif
    for (size_t lane = 0; lane < count; ++lane)
      for (size_t k = 0; k < n; ++k)
        if constexpr (store)
          memory[n * lane + k] = data[k][lane];
        else
          data[k][lane] = memory[n * lane + k];
  };
  t.count == 32 ? move(32) : move(t.count);  // the constant 32 lets the compiler vectorise the loop
}

// Moves the data of lanes that access memory together, if the registers are as wide as the elements. Returns
// false for vectors whose size is not 1, 2 or 4.
template <class T, bool store>
bool move_together(Warp& w, std::span<const Register> registers, const Together& t, std::byte* place) {
  if (!store && t.each == 0) {
    for (size_t k = 0; k < registers.size(); ++k) {
      if (registers[k] == no_register) continue;
      T value;
      std::memcpy(&value, place + k * sizeof(T), sizeof(T));
      T* data = w.at<T>(registers[k]) + t.first;
      t.count == 32 ? std::fill_n(data, 32, value) : std::fill_n(data, t.count, value);
    }
    return true;
  }
  switch (registers.size()) {
    case 1:
      move_vectors<T, store, 1>(w, registers, t, place);
      return true;
    case 2:
      move_vectors<T, store, 2>(w, registers, t, place);
      return true;
    case 4:
      move_vectors<T, store, 4>(w, registers, t, place);
      return true;
    default:
      return false;
  }
}

// Executes a plain access by lanes that access memory together. Returns false if the accesses must be
// executed one by one, either to report a fault or because the memory is weak.
template <class T, bool store>
bool execute_together(Warp& w, const MemoryAccess& x, std::span<const Register> data, const Together& t) {
  const auto size = static_cast<uint32_t>(sizeof(T) * data.size());
  const uint64_t address = w.address(x.address, t.first);
  const uint32_t whole = t.each ? t.each * t.count : size;
  if (address % size) return false;
  Cta* owner;
  uint32_t offset = 0;
  std::byte* place = w.place_together(address, whole, x.space, owner, offset);
  if (!place) return false;
  const bool is_global = !owner && reaches_global(x.space, address);
  if (is_global && (w.weak() || (store && !w.may_write()))) return false;
  const auto each_lane = [&](std::byte* at, bool stores) {
    for (uint32_t k = 0; k < t.count; ++k)
      move_lane<T>(w, data, x.register_bytes, t.first + static_cast<int>(k), at + k * t.each, stores);
  };
  const auto values = [&](std::byte* to) {
    if (store) each_lane(to, true);
    return store;
  };
  if (owner) {
    const SharedAccess access{*owner, offset, whole, store, t.first, values, t.each};
    w.touch(access);
    for (uint32_t k = 0; k < (t.each ? 1 : t.count); ++k)
      w.touch_lanes({*owner, offset, whole, store, t.first + static_cast<int>(k), {}, t.each});
  } else if (is_global) {
    GlobalAccess access = global_access<store>(w, address, whole, t.first);
    access.each = t.each;
    if (!t.each) access.count = t.count;
    access.values = values;
    w.touch_global(access);
  }
  if (w.undefined.concern(store, owner, false))
    for (uint32_t k = 0; k < t.count; ++k)
      follow_access<store>(w, data, sizeof(T), {owner, offset + k * t.each, false, 0},
                           t.first + static_cast<int>(k));
  if (owner) owner->shadow.uninitialised.reset();
  if (x.register_bytes != sizeof(T) || !move_together<T, store>(w, data, t, place)) each_lane(place, store);
  return true;
}

// Finds the offset of each lane's access in the shared memory of its own CTA. Returns false if a lane
// accesses other memory, or if its access would fault.
bool find_own(const Warp& w, const MemoryAccess& x, Lanes lanes, uint32_t size,
              std::array<uint32_t, 32>& offsets) {
  const bool is_generic = x.space == Space::generic;
  if (!is_generic && x.space != Space::shared && x.space != Space::cluster) return false;
  const uint64_t begin = w.grid().kernel.uses_reserved ? 0 : shared_reserved, end = w.cta.shared.size();
  if (end < begin + size) return false;
  bool are_there = true;
  for_lanes(lanes, [&](int lane) {
    uint64_t at = w.address(x.address, lane);
    const bool is_in_window = in_window(at, shared_window);
    if (is_in_window) at -= shared_window;
    are_there &= (is_in_window || !is_generic) & (at - begin <= end - size - begin) & (at % size == 0);
    offsets[static_cast<size_t>(lane)] = static_cast<uint32_t>(at);
  });
  return are_there;
}

// Executes a plain access by lanes to any addresses in the shared memory of their own CTA. Returns false if a
// lane accesses other memory, or if its access would fault.
template <class T, bool store>
bool execute_scattered(Warp& w, const MemoryAccess& x, std::span<const Register> data, Lanes lanes) {
  const auto size = static_cast<uint32_t>(sizeof(T) * data.size());
  std::array<uint32_t, 32> offsets;
  if (!find_own(w, x, lanes, size, offsets)) return false;
  const auto values = [&](std::byte* to) {
    if (store)
      for_lanes(lanes, [&](int lane) {
        move_lane<T>(w, data, x.register_bytes, lane, to + static_cast<uint32_t>(lane) * size, store);
      });
    return store;
  };
  const int first = __builtin_ctz(lanes);
  const SharedAccess access{
      w.cta, offsets[static_cast<size_t>(first)], size, store, first, values, 0, &offsets, lanes};
  w.touch(access);
  w.touch_lanes(access);
  if (w.undefined.concern(store, &w.cta, false))
    access.each_place([&](uint32_t offset, int lane) {
      follow_access<store>(w, data, sizeof(T), {&w.cta, offset, false, 0}, lane);
    });
  w.cta.shadow.uninitialised.reset();
  access.each_place([&](uint32_t offset, int lane) {
    move_lane<T>(w, data, x.register_bytes, lane, w.cta.shared.data() + offset, store);
  });
  return true;
}

template <class T, bool store>
void execute_access(Warp& w, const MemoryAccess& x, Lanes lanes) {
  const auto data = w.listed(x.data);
  const auto size = static_cast<uint32_t>(sizeof(T) * data.size());
  const Order order = w.instruction->guesses ? Order::relaxed : x.order;
  const bool is_plain = order == Order::none;
  const auto t = together(w, x.address, lanes, size);
  if (!store && w.cluster().ahead && !w.cluster().ahead->empty()) {
    bool awaits = false;
    if (t)
      awaits = w.awaits_sum(w.address(x.address, t->first), t->each ? t->each * t->count : size);
    else
      for_lanes(lanes, [&](int lane) { awaits |= w.awaits_sum(w.address(x.address, lane), size); });
    if (awaits) return w.await_turn();
  }
  if (is_plain && t && !(store && t->each == 0 && t->count > 1) && execute_together<T, store>(w, x, data, *t))
    return w.undefined.end_store();
  if (is_plain && execute_scattered<T, store>(w, x, data, lanes)) return w.undefined.end_store();
  if (x.order != Order::none) w.causality.told(lanes, w.alive);
  for_lanes(lanes, [&](int lane) {
    if (is_plain && execute_together<T, store>(w, x, data, {lane, 1, 0})) return;
    const uint64_t address = w.address(x.address, lane);
    require_aligned(w, address, size, lane);
    Cta* owner;
    uint32_t offset = 0;
    std::byte* place = w.place(address, size, x.space, lane, owner, offset);
    const bool is_global = !owner && reaches_global(x.space, address);
    if (store && is_global) w.require_writable(lane);
    WeakMemory* weak = is_global ? w.weak() : nullptr;
    const uint64_t at = owner ? offset : address;
    // A volatile access to shared memory both acquires and releases.
    const bool orders = order != Order::none, both_ways = owner && order == Order::older;
    if (weak && !store) {
      const WeakMemory::Value value = weak->load(w, address, place);
      place = const_cast<std::byte*>(value.bytes);  // the value is only read
      if (orders) w.order_before(value.passed, order, x.scope);
    } else if (orders && (!store || both_ways)) {
      w.order_before(owner, at, order, x.scope);
    }
    auto values = [&](std::byte* to) {
      if (store) move_lane<T>(w, data, x.register_bytes, lane, to, store);
      return store;
    };
    if (owner) {
      order == Order::none ? w.touch({*owner, offset, size, store, lane, values})
                           : w.touch_ordered(*owner, offset, size, store, lane, order, values);
    } else if (is_global) {
      GlobalAccess access = global_access<store>(w, address, size, lane);
      access.is_strong = order != Order::none;
      access.scope = x.scope;
      access.values = values;
      w.touch_global(access);
    }
    if (owner && order == Order::none) w.touch_lanes({*owner, offset, size, store, lane});
    const bool local =
        x.space == Space::local || (x.space == Space::generic && in_window(address, local_window));
    if (w.undefined.concern(store, owner, local)) {
      follow_access<store>(w, data, sizeof(T),
                           {owner, offset, local, x.space == Space::local ? address : address - local_window},
                           lane);
      if (owner) owner->shadow.uninitialised.reset();
    }
    if (weak && store) place = weak->begin_store(w, address, size, place);
    move_lane<T>(w, data, x.register_bytes, lane, place, store);
    if (!store && orders && is_global && lane == __builtin_ctz(lanes)) w.strong_read(address, place, size);
    if (weak && store) weak->end_store(w, address, false);
    if (orders && (store || both_ways)) w.order_after(owner, at, order, x.scope, lane);
  });
  w.undefined.end_store();
}

template <bool store>
void run_access(Decode& d, Type type, const MemoryAccess& x) {
  switch (type) {
    case Type::s8:
      return d.run<execute_access<int8_t, store>>(x);
    case Type::s16:
      return d.run<execute_access<int16_t, store>>(x);
    case Type::s32:
      return d.run<execute_access<int32_t, store>>(x);
    default:
      break;
  }
  switch (bytes(type)) {
    case 1:
      return d.run<execute_access<uint8_t, store>>(x);
    case 2:
      return d.run<execute_access<uint16_t, store>>(x);
    case 4:
      return d.run<execute_access<uint32_t, store>>(x);
    case 8:
      return d.run<execute_access<uint64_t, store>>(x);
    case 16:
      return d.run<execute_access<Quad, store>>(x);
    default:
      d.refuse("it does not take this type");
  }
}

Space take_space(Decode& d) {
  std::string_view s = d.one_of({"global", "shared::cta", "shared::cluster", "shared", "local",
                                 "param::entry", "param::func", "param", "const"});
  if (s.empty()) return Space::generic;
  if (s == "global") return Space::global;
  if (s == "shared::cluster") return Space::cluster;
  if (s.starts_with("shared")) return Space::shared;
  if (s == "local") return Space::local;
  if (s == "const") return Space::constant;
  return Space::param;
}

Order take_order(Decode& d) {
  const bool old = d.has("volatile") || d.has("mmio");
  const std::string_view named = d.one_of({"relaxed", "acquire", "release"});
  if (named.empty() || old) return old ? Order::older : Order::none;
  d.decoder.names_semantics();
  return named == "acquire" ? Order::acquire : named == "release" ? Order::release : Order::relaxed;
}

void decode_access(Decode& d, bool store) {
  const Order order = take_order(d);
  const bool strong = order != Order::none;
  const bool scoped = d.has("gpu") || d.has("sys");
  Space space = take_space(d);
  const Type type = d.type();
  const ptx_text::Operand &data = d.operand(store ? 1 : 0), &place = d.operand(store ? 0 : 1);
  Space symbol = Space::generic;
  const AddressOperand address = d.address(place, 0, &symbol);
  // The .param space of a call is in the thread's own memory, and the .param space of the entry is in the
  // launch's memory. If the address is the name of a variable, the variable determines the state space.
  if ((space == Space::param && symbol == Space::local) || space == Space::generic) space = symbol;
  const bool may_be_global = space == Space::global || space == Space::generic;
  if (strong && may_be_global && (scoped || !store)) d.decoder.communicates();
  if (may_be_global) d.turn(strong ? Turn::waits : store ? Turn::stores : Turn::free);
  auto parts = Decode::parts(data);
  if (const auto all = static_cast<size_t>(bytes(type)) * parts.size(); all > 16)
    d.reject(fmt::format("one access has {} B, but sm_90 has at most 16", all));
  // All registers of a vector have the same width. Constants among them get that width.
  Type each = type;
  for (const ptx_text::Operand* o : parts)
    if (const uint8_t width = d.register_bytes(*o); width > bytes(type) && width <= 8)
      each = width == 2 ? Type::b16 : width == 4 ? Type::b32 : Type::b64;
  const std::vector<Register> registers = store ? d.sources(parts, each) : d.sinks(parts, each);
  const MemoryAccess x{address, d.list(registers), static_cast<uint8_t>(bytes(each)), space,
                       order,   take_scope(d)};
  if (store)
    d.passes(Flow::stores, registers);
  else
    d.flow = Flow::handled;
  store ? run_access<true>(d, type, x) : run_access<false>(d, type, x);
}

// mapa: d is the address that corresponds to a in CTA b of the cluster.
template <class T>
void execute_mapa(Warp& w, const Binary& x, Lanes lanes) {
  for_lanes(lanes, [&](int k) {
    const uint32_t rank = w.at<uint32_t>(x.b)[k];
    const uint64_t address = w.at<T>(x.a)[k];
    if (rank >= w.cluster().ctas.size())
      w.fail(Fault::out_of_bounds,
             fmt::format("CTA {} is not in the cluster of {}", rank, w.cluster().ctas.size()), k);
    const uint64_t window = in_window(address, shared_window) ? shared_window : 0;
    w.at<T>(x.d)[k] = static_cast<T>(window + (static_cast<uint64_t>(rank + 1) << 24) +
                                     ((address - window) & shared_offset_mask));
  });
}

void decode_mapa(Decode& d) {
  Type type = d.type();
  const Binary x{d.destination(0, type), d.source(1, type), d.source(2, Type::u32)};
  bytes(type) == 8 ? d.run<execute_mapa<uint64_t>>(x) : d.run<execute_mapa<uint32_t>>(x);
}

template <class T>
void execute_getctarank(Warp& w, const Unary& x, Lanes lanes) {
  for_lanes(lanes, [&](int k) {
    uint32_t offset;
    w.at<uint32_t>(x.d)[k] = w.resolve_shared(w.at<T>(x.a)[k], offset, k).rank;
  });
}

void decode_getctarank(Decode& d) {
  Type type = d.type();
  const Unary x{d.destination(0, Type::u32), d.source(1, type)};
  bytes(type) == 8 ? d.run<execute_getctarank<uint64_t>>(x) : d.run<execute_getctarank<uint32_t>>(x);
}

void decode_hint(Decode& d) { d.run<execute_nothing>(); }

struct CreatePolicy {
  Register policy;
};

// A cache policy is an opaque 64-bit value.
void execute_policy(Warp& w, const CreatePolicy& x, Lanes lanes) {
  for_lanes(lanes, [&](int k) { w.at<uint64_t>(x.policy)[k] = 0x1000'0000'0000'0000; });
}

void decode_policy(Decode& d) {
  if (d.has("fractional") && d.count() > 1) {
    const ptx_text::Operand& o = d.operand(1);
    const bool literal = o.kind == ptx_text::Operand::Kind::number;
    if (const double part = literal ? std::strtod(o.text.c_str(), nullptr) : 1;
        !o.text.starts_with("0f") && (part <= 0 || part > 1))
      d.reject(fmt::format("the fraction is {}, but must be above 0 and at most 1", o.text));
  }
  d.run<execute_policy>({d.destination(0, Type::b64)});
}

}  // namespace

void add_memory(DecodeTable& t) {
  t["ld"] = [](Decode& d) { decode_access(d, false); };
  t["ldu"] = [](Decode& d) { decode_access(d, false); };
  t["st"] = [](Decode& d) { decode_access(d, true); };
  // On one device, a multimem address refers to ordinary memory.
  t["multimem.st"] = [](Decode& d) { decode_access(d, true); };
  t["multimem.ld_reduce"] = [](Decode& d) { decode_access(d, false); };
  t["prefetch"] = decode_hint;
  t["prefetchu"] = decode_hint;
  t["applypriority"] = decode_hint;
  t["discard"] = decode_hint;
  t["createpolicy"] = decode_policy;
  t["mapa"] = decode_mapa;
  t["getctarank"] = decode_getctarank;
}

}  // namespace ptxbuilder::runtime::emulator
