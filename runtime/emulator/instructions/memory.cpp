// Loads, stores and prefetches (PTX ISA, ld, st, ldu, prefetch, mapa, getctarank).
#include <fmt/format.h>

#include "runtime/emulator/instructions/handlers.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// mode: 0 registers' width, 1 registers in the vector, 2 whether the access orders others, 7 the base's
// width. r[0] or the list are the data, r[5] the base.

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
void move_lane(Warp& w, const Instruction& i, int lane, std::byte* place, bool store) {
  const int width = i.mode[0];
  for (uint32_t k = 0; k < i.mode[1]; ++k) {
    const uint32_t r = i.mode[1] == 1 ? i.r[0] : w.listed(i, k);
    if (r == no_register) continue;
    std::byte *data = w.at<std::byte>(r), *at = place + k * sizeof(T);
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

// Shared accesses of all lanes one behind the other are recorded as one.
bool consecutive(const Warp& w, const Instruction& i, Lanes lanes, uint32_t bytes) {
  if (lanes != all_lanes || i.mode[7] != 4) return false;
  const uint32_t* base = w.at<uint32_t>(i.r[5]);
  for (uint32_t k = 1; k < 32; ++k)
    if (base[k] != base[0] + k * bytes) return false;
  return true;
}

template <class T, bool store>
void execute_access(Warp& w, const Instruction& i, Lanes lanes) {
  const uint32_t size = sizeof(T) * i.mode[1];
  if (i.space == Space::shared && !i.mode[2] && consecutive(w, i, lanes, size)) {
    const uint64_t first = w.address(i.r[5], 4, i.immediate, 0);
    Cta* owner;
    uint32_t offset;
    require_aligned(w, first, size, 0);
    w.place(first + 31 * size, size, Space::shared, 31, owner, offset);
    std::byte* place = w.place(first, 32 * size, Space::shared, 0, owner, offset);
    w.touch(*owner, offset, 32 * size, store, 0);
    for (int lane = 0; lane < 32; ++lane)
      move_lane<T>(w, i, lane, place + static_cast<uint32_t>(lane) * size, store);
    return;
  }
  for_lanes(lanes, [&](int lane) {
    const uint64_t address = w.address(i.r[5], i.mode[7], i.immediate, lane);
    require_aligned(w, address, size, lane);
    Cta* owner;
    uint32_t offset = 0;
    std::byte* place = w.place(address, size, i.space, lane, owner, offset);
    if (store && !owner && i.space != Space::local && !in_window(address, local_window))
      w.global(address, size, lane, true, "this");
    if (i.mode[2]) w.order_before(owner, offset);
    if (owner) w.touch(*owner, offset, size, store, lane);
    move_lane<T>(w, i, lane, place, store);
    if (i.mode[2]) w.order_after(owner, offset);
  });
}

template <bool store>
Handler access_of(Decode& d, Type type) {
  switch (type) {
    case Type::s8:
      return execute_access<int8_t, store>;
    case Type::s16:
      return execute_access<int16_t, store>;
    case Type::s32:
      return execute_access<int32_t, store>;
    default:
      break;
  }
  switch (bytes(type)) {
    case 1:
      return execute_access<uint8_t, store>;
    case 2:
      return execute_access<uint16_t, store>;
    case 4:
      return execute_access<uint32_t, store>;
    case 8:
      return execute_access<uint64_t, store>;
    case 16:
      return execute_access<Quad, store>;
    default:
      d.refuse("it does not take this type");
  }
}

Space take_space(Decode& d) {
  std::string_view s = d.take_one({"global", "shared::cta", "shared::cluster", "shared", "local",
                                   "param::entry", "param::func", "param", "const"});
  if (s.empty()) return Space::generic;
  if (s == "global") return Space::global;
  if (s == "shared::cluster") return Space::cluster;
  if (s.starts_with("shared")) return Space::shared;
  if (s == "local") return Space::local;
  if (s == "const") return Space::constant;
  return Space::param;
}

void decode_access(Decode& d, bool store) {
  const bool strong = d.take_any({"volatile", "relaxed", "acquire", "release", "mmio"});
  const bool scoped = d.take_any({"gpu", "sys"});
  d.take_any({"weak",
              "cta",
              "cluster",
              "unified",
              "ca",
              "cg",
              "cs",
              "lu",
              "cv",
              "nc",
              "wb",
              "wt",
              "L1::evict_normal",
              "L1::evict_unchanged",
              "L1::evict_first",
              "L1::evict_last",
              "L1::no_allocate",
              "L2::64B",
              "L2::128B",
              "L2::256B",
              "L2::evict_normal",
              "L2::evict_first",
              "L2::evict_last"});
  const bool hint = d.take("L2::cache_hint");
  d.out.space = take_space(d);
  std::string_view vector = d.take_one({"v2", "v4", "v8"});
  Type type = d.take_type();
  d.done();
  d.expect(hint ? 3 : 2, hint ? 3 : 2);
  const ptx::Operand &data = d.operand(store ? 1 : 0), &place = d.operand(store ? 0 : 1);
  Space symbol = Space::generic;
  AddressOperand a = d.address(place, 0, &symbol);
  // .param of a call is the thread's own memory, .param of the entry is the launch's.
  if (d.out.space == Space::param && symbol == Space::local) d.out.space = Space::local;
  if (strong && (d.out.space == Space::global || d.out.space == Space::generic) && (scoped || !store))
    d.decoder.communicates();
  auto parts = Decode::parts(data);
  if (parts.size() != (vector.empty() ? 1u : static_cast<size_t>(vector[1] - '0')))
    d.refuse("the data do not match the vector length");
  d.out.mode[1] = static_cast<uint8_t>(parts.size());
  // All registers of a vector are as wide; constants beside them are made so.
  Type each = type;
  for (const ptx::Operand* o : parts)
    if (const uint8_t width = d.register_bytes(*o); width > bytes(type) && width <= 8)
      each = width == 2 ? Type::b16 : width == 4 ? Type::b32 : Type::b64;
  d.out.mode[0] = static_cast<uint8_t>(bytes(each));
  for (const ptx::Operand* o : parts) {
    const uint32_t r = store ? d.source(*o, each) : d.sink(*o, each);
    if (parts.size() == 1)
      d.out.r[0] = r;
    else
      d.list(r);
  }
  d.out.mode[2] = strong;
  d.out.mode[7] = a.base_bytes;
  d.out.r[5] = a.base;
  d.out.immediate = a.displacement;
  d.out.execute = store ? access_of<true>(d, type) : access_of<false>(d, type);
}

void nothing(Warp&, const Instruction&, Lanes) {}

// mapa: r[0] = address of r[1] in CTA r[2].
template <class T>
void execute_mapa(Warp& w, const Instruction& i, Lanes lanes) {
  for_lanes(lanes, [&](int k) {
    const uint32_t rank = w.at<uint32_t>(i.r[2])[k];
    const uint64_t address = w.at<T>(i.r[1])[k];
    if (rank >= w.cluster().ctas.size())
      w.fail(Fault::out_of_bounds,
             fmt::format("CTA {} is not in the cluster of {}", rank, w.cluster().ctas.size()), k);
    const uint64_t window = in_window(address, shared_window) ? shared_window : 0;
    w.at<T>(i.r[0])[k] = static_cast<T>(window + (static_cast<uint64_t>(rank + 1) << 24) +
                                        ((address - window) & shared_offset_mask));
  });
}

void decode_mapa(Decode& d) {
  d.take("shared::cluster");
  Type type = d.take_type();
  d.done();
  d.expect(3, 3);
  d.require(bytes(type) == 4 || bytes(type) == 8);
  d.out.r[0] = d.destination(0, type);
  d.out.r[1] = d.source(1, type);
  d.out.r[2] = d.source(2, Type::u32);
  d.out.execute = bytes(type) == 8 ? execute_mapa<uint64_t> : execute_mapa<uint32_t>;
}

template <class T>
void execute_getctarank(Warp& w, const Instruction& i, Lanes lanes) {
  for_lanes(lanes, [&](int k) {
    uint32_t offset;
    w.at<uint32_t>(i.r[0])[k] = w.resolve_shared(w.at<T>(i.r[1])[k], offset, k).rank;
  });
}

void decode_getctarank(Decode& d) {
  d.take("shared::cluster");
  Type type = d.take_type();
  d.done();
  d.expect(2, 2);
  d.require(bytes(type) == 4 || bytes(type) == 8);
  d.out.r[0] = d.destination(0, Type::u32);
  d.out.r[1] = d.source(1, type);
  d.out.execute = bytes(type) == 8 ? execute_getctarank<uint64_t> : execute_getctarank<uint32_t>;
}

void decode_hint(Decode& d) { d.out.execute = nothing; }

// createpolicy: an opaque 64-bit value.
void execute_policy(Warp& w, const Instruction& i, Lanes lanes) {
  for_lanes(lanes, [&](int k) { w.at<uint64_t>(i.r[0])[k] = 0x1000'0000'0000'0000; });
}

}  // namespace

void add_memory(DecodeTable& t) {
  t["ld"] = [](Decode& d) { decode_access(d, false); };
  t["ldu"] = [](Decode& d) { decode_access(d, false); };
  t["st"] = [](Decode& d) { decode_access(d, true); };
  t["prefetch"] = decode_hint;
  t["prefetchu"] = decode_hint;
  t["applypriority"] = decode_hint;
  t["discard"] = decode_hint;
  t["createpolicy"] = [](Decode& d) {
    d.out.r[0] = d.destination(0, Type::b64);
    d.out.execute = execute_policy;
  };
  t["mapa"] = decode_mapa;
  t["getctarank"] = decode_getctarank;
}

}  // namespace ptxbuilder::runtime::emulator
