// Executes the instructions that change tensor maps (PTX ISA, tensormap.replace,
// tensormap.cp_fenceproxy, fence.proxy.tensormap).
#include <fmt/format.h>

#include "runtime/emulator/instructions/copies.h"
#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/tensor_map_contents.h"
#include "runtime/tensor_map.h"

namespace ptxbuilder::runtime::emulator {
namespace {

constexpr uint32_t map_bytes = 128;

enum class Field : uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  fill_mode
};
constexpr std::string_view field_names[] = {
    "global_address", "rank",     "box_dim",           "global_dim",   "global_stride",
    "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode"};

// Returns the data type for a value of .elemtype (PTX ISA, tensormap.replace). Types with .ftz and types of
// four bits are not supported.
std::optional<DType> element_type_of(uint64_t value) {
  constexpr DType types[] = {DType::u8,  DType::u16, DType::u32, DType::s32, DType::u64,  DType::s64,
                             DType::f16, DType::f32, DType::f32, DType::f64, DType::bf16, DType::tf32};
  if (value == 8 || value >= std::size(types)) return std::nullopt;
  return types[value];
}

// Returns the memory of a map that is about to change, and records the change.
std::byte* changed_map(Warp& w, uint64_t address, Space space, int lane, bool releases) {
  if (address % 64)
    w.fail(Fault::misaligned, fmt::format("the tensor map's address {:#x} is not a multiple of 64", address),
           lane);
  Cta* owner;
  uint32_t offset = 0;
  std::byte* place = w.place(address, map_bytes, space, lane, owner, offset);
  if (owner) {
    w.touch({*owner, offset, map_bytes, true, lane});
    return place;
  }
  w.global(address, map_bytes, lane, true, "this");
  MapChange& change = w.cluster().map_changes[address];
  ++change.version;
  change.pc = w.here();
  if (releases) change.released = change.version;
  return place;
}

struct Replace {
  AddressOperand addr;
  Register new_val;
  Field field;
  uint8_t ord;  // for fields that have one value per dimension
  Space space;

  bool wide() const { return field == Field::global_address || field == Field::global_stride; }
  bool has_ord() const { return field >= Field::box_dim && field <= Field::element_stride; }
};

void execute_replace(Warp& w, const Replace& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const uint64_t address = w.address(x.addr, lane);
    const uint64_t value = x.wide() ? w.at<uint64_t>(x.new_val)[lane] : w.at<uint32_t>(x.new_val)[lane];
    std::byte* place = changed_map(w, address, x.space, lane, false);
    MapContents m = map_contents(place);
    // Triton creates a map by replacing all fields of a map of zeros.
    if (std::all_of(place, place + map_bytes, [](std::byte b) { return b == std::byte{0}; }))
      m.magic = map_magic;
    if (m.magic != map_magic)
      w.fail(
          Fault::operand,
          fmt::format("there is no tensor map at {:#x}, nor 128 B of zeros that could become one", address),
          lane);
    auto refuse = [&](const char* what) {
      w.fail(Fault::operand,
             fmt::format("{} {} of a tensor map: {}", field_names[static_cast<size_t>(x.field)], value, what),
             lane);
    };
    switch (x.field) {
      case Field::global_address:
        m.address = value;
        break;
      case Field::rank:
        if (value > 4) refuse("it is the rank less 1, and must be 0 to 4");
        m.rank = static_cast<uint8_t>(value + 1);
        break;
      case Field::box_dim:
        m.box[x.ord] = static_cast<uint16_t>(std::min<uint64_t>(value, 0xffff));
        break;
      case Field::global_dim:
        m.shape[x.ord] = value;
        break;
      case Field::global_stride:
        m.strides[x.ord] = value;
        break;
      case Field::element_stride:
        m.element_strides[x.ord] = static_cast<uint8_t>(std::min<uint64_t>(value, 0xff));
        break;
      case Field::elemtype:
        if (!element_type_of(value)) refuse("a type that the emulator does not know");
        m.dtype = *element_type_of(value);
        break;
      case Field::interleave_layout:
        if (value != 0) refuse("the emulator does not run interleaved maps");
        break;
      case Field::swizzle_mode:
        if (value > 3) refuse("it must be 0 to 3, for none, 32, 64 and 128 B");
        m.swizzle = static_cast<Swizzle>(value);
        break;
      case Field::fill_mode:
        if (value > 1) refuse("it must be 0 for zero or 1 for NaN");
        m.fill = static_cast<OobFill>(value);
        break;
    }
    std::memcpy(place, &m, sizeof m);
  });
}

void decode_replace(Decode& d) {
  Replace x{};
  x.field = static_cast<Field>(std::ranges::find_if(field_names, [&](auto name) { return d.has(name); }) -
                               std::begin(field_names));
  x.space = d.has("shared::cta") ? Space::shared : d.has("global") ? Space::global : Space::generic;
  x.addr = d.address(d["map"]);
  if (x.has_ord()) x.ord = static_cast<uint8_t>(d.immediate(1));
  if (x.field == Field::global_stride && x.ord > 3)
    d.refuse("global_stride has dimensions 0 to 3, but dimension 4 was named");
  x.new_val = d.source(d["value"], d.type());
  d.decoder.communicates();
  d.turn(Turn::waits);
  d.run<execute_replace>(x);
}

struct CopyMap {
  AddressOperand dst, src;
};

// Executes tensormap.cp_fenceproxy, which makes one copy for the whole warp.
void execute_copy_map(Warp& w, const CopyMap& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  const int lane = __builtin_ctz(lanes);
  Cta* owner;
  uint32_t offset;
  const std::byte* from = w.place(w.address(x.src, lane), map_bytes, Space::shared, lane, owner, offset);
  w.touch({*owner, offset, map_bytes, false, lane});
  std::memcpy(changed_map(w, w.address(x.dst, lane), Space::global, lane, true), from, map_bytes);
}

void decode_copy_map(Decode& d) {
  d.decoder.communicates();
  d.turn(Turn::waits);
  d.run<execute_copy_map>({d.address(d.operand(0)), d.address(d.operand(1))});
}

void execute_release(Warp& w, Lanes) {
  for (auto& [address, change] : w.cluster().map_changes) change.released = change.version;
}

struct AcquireMap {
  AddressOperand addr;
};

void execute_acquire(Warp& w, const AcquireMap& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const uint64_t address = w.address(x.addr, lane);
    const auto found = w.cluster().map_changes.find(address);
    if (found == w.cluster().map_changes.end()) return;
    MapChange& change = found->second;
    std::erase_if(change.acquired,
                  [&](const MapChange::Acquired& a) { return a.actor == w.causality.actor(); });
    change.acquired.push_back({w.causality.actor(), w.causality.time(), change.released});
  });
}

}  // namespace

void decode_map_fence(Decode& d) {
  if (d.has("release")) return d.run<execute_release>();
  d.run<execute_acquire>({d.address(d["map"])});
}

void check_changed_map(Warp& w, uint64_t address, const MapContents& m, int lane) {
  auto found = w.cluster().map_changes.find(address);
  if (found == w.cluster().map_changes.end()) return;
  const MapChange& change = found->second;
  const bool acquired = std::ranges::any_of(change.acquired, [&](const MapChange::Acquired& a) {
    return a.version >= change.version && w.causality.knowledge().seen[a.actor] >= a.time;
  });
  if (w.cluster().checks && !acquired)
    w.find(Fault::proxy_fence,
           fmt::format(
               "the tensor map at {:#x} was changed at line {}, and no {} follows", address,
               w.grid().kernel.lines[change.pc].ptx,
               change.released < change.version
                   ? "fence.proxy.tensormap::generic.release"
                   : "fence.proxy.tensormap::generic.acquire, by this warp or one that it has waited for"),
           lane);
  if (m.rank < 1 || m.rank > std::size(m.shape))
    w.fail(Fault::operand,
           fmt::format(
               "the tensor map at {:#x}, as it was changed, has rank {}, which is not in 1 to 5: set it by "
               "tensormap.replace.tile.rank",
               address, m.rank),
           lane);
  TensorMapArguments a;
  a.recipe.dtype = m.dtype;
  a.recipe.swizzle = m.swizzle;
  a.recipe.oob_fill = m.fill;
  a.recipe.box.assign(m.box, m.box + m.rank);
  a.recipe.element_strides.assign(m.element_strides, m.element_strides + m.rank);
  a.address = m.address;
  a.shape.assign(m.shape, m.shape + m.rank);
  a.strides.assign(m.strides, m.strides + m.rank - 1);
  if (auto broken = breach(a))
    w.fail(Fault::operand,
           fmt::format("the tensor map at {:#x}, as it was changed: {}", address, broken->text), lane);
}

void add_tensormap(DecodeTable& t) {
  t["tensormap.replace"] = decode_replace;
  t["tensormap.cp_fenceproxy"] = decode_copy_map;
}

}  // namespace ptxbuilder::runtime::emulator
