// Executes tensor copies (PTX ISA, cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, and the prefetches of
// both).
#include <fmt/format.h>

#include <array>

#include "runtime/emulator/instructions/copies.h"
#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/tensor_map_contents.h"
#include "runtime/emulator/machine/numeric.h"
#include "runtime/emulator/machine/trace.h"

namespace ptxbuilder::runtime::emulator {
namespace {

enum class Mode : uint8_t { tile, im2col, im2col_no_offs };

// The operand [tensorMap, tensorCoords]. There is one coordinate per dimension, innermost first. For im2col,
// the coordinates are followed by offsets, one for each dimension except the first and the last.
struct TensorBox {
  AddressOperand tensor_map;
  RegisterList tensor_coords;

  uint32_t rank(Mode mode) const {
    return mode == Mode::im2col ? tensor_coords.size / 2 + 1 : tensor_coords.size;
  }
};

struct BoxLoad {
  TensorBox box;
  AddressOperand dst_mem, mbar;
  Register cta_mask;  // no_register without .multicast::cluster
};

struct BoxStore {
  TensorBox box;
  AddressOperand src_mem;
  std::optional<Reduction> reduction;  // elements have the map's type
};

MapContents read_map(Warp& w, const TensorBox& box, Mode mode, int lane) {
  const uint64_t address = w.address(box.tensor_map, lane);
  if (address % 64)
    w.fail(Fault::misaligned, fmt::format("the tensor map's address {:#x} is not a multiple of 64", address),
           lane);
  Cta* owner;
  uint32_t offset;
  MapContents m = map_contents(w.place(address, 128, Space::generic, lane, owner, offset));
  if (m.magic != map_magic)
    w.fail(Fault::operand, fmt::format("there is no tensor map at {:#x}", address), lane);
  if (!w.cluster().map_changes.empty()) check_changed_map(w, address, m, lane);
  if (const std::string what = unsound(m); !what.empty())
    w.fail(Fault::operand,
           fmt::format("the tensor map at {:#x} is not one that was encoded: {}", address, what), lane);
  if (const uint32_t row = m.box[0] * m.element_bytes(), span = 16u << static_cast<int>(m.swizzle);
      m.swizzle != Swizzle::none && row < span)
    w.fail(Fault::operand,
           fmt::format("rows of {} B are in a box whose swizzle spans {} B: hardware does not pack them, and "
                       "the emulator does not model where it puts them; make the box as wide as its swizzle",
                       row, span),
           lane);
  if (m.rank != box.rank(mode))
    w.fail(Fault::operand,
           fmt::format("the tensor map has rank {}, but the copy is {}d", m.rank, box.rank(mode)), lane);
  if (m.im2col != (mode != Mode::tile))
    w.fail(Fault::operand,
           fmt::format("the tensor map has mode {}, but the copy has mode {}", m.im2col ? "im2col" : "tile",
                       m.im2col ? "tile" : "im2col"),
           lane);
  return m;
}

// Returns the coordinates of a box, innermost first. The innermost one must be a multiple of 16 B: the manual
// does not state this, but an H100 reports an illegal instruction otherwise, for loads, stores and
// prefetches.
std::array<int32_t, 5> read_coordinates(Warp& w, const TensorBox& box, const MapContents& m, int lane) {
  std::array<int32_t, 5> c{};
  const auto coords = w.listed(box.tensor_coords);
  for (size_t d = 0; d < m.rank; ++d) c[d] = w.at<int32_t>(coords[d])[lane];
  if (const int64_t bytes = int64_t{c[0]} * m.element_bytes(); bytes % 16)
    w.fail(Fault::misaligned,
           fmt::format("a box begins at element {} of the innermost dimension, {} B from its start, but TMA "
                       "needs multiples of 16 B",
                       c[0], bytes),
           lane);
  // The first pixel must not precede the map's lower corner. The manual does not state this rule either, but
  // an H100 reports an illegal instruction.
  for (size_t d = 0; m.im2col && d + 2 < m.rank; ++d)
    if (c[d + 1] < m.lower[d])
      w.fail(Fault::operand,
             fmt::format("the first pixel is at {} along dimension {}, before the map's lower corner, {}: an "
                         "H100 stops there as at an illegal instruction",
                         c[d + 1], d + 1, m.lower[d]),
             lane);
  return c;
}

// Returns a function that calls its argument for each row of the box, or for each pixel.
template <class F>
std::function<void(F)> rows_of(Warp& w, const TensorBox& box, const MapContents& m, int lane) {
  const auto c = read_coordinates(w, box, m, lane);
  if (!m.im2col) return [=](F f) { for_each_row(m, c, f); };
  std::vector<uint16_t> offsets;
  for (Register r : w.listed(box.tensor_coords).subspan(m.rank)) offsets.push_back(w.at<uint16_t>(r)[lane]);
  return [=](F f) { for_each_pixel(m, c, offsets, f); };
}
using RowFunction = std::function<void(const BoxRow&)>;

// TMA requires that shared addresses are multiples of 128 B. The swizzle pattern depends on the address
// itself.
constexpr uint32_t shared_align = 128;

// Returns a description of a copy for the checks. It refers to the map and the coordinates.
TileCopy tile_copy(Cta& cta, uint32_t offset, const MapContents& m, const std::array<int32_t, 5>& at,
                   uint32_t mask = 0) {
  return {cta,
          offset,
          m.box_bytes(),
          m.swizzle,
          m.address,
          std::span(at).first(m.rank),
          std::span(m.box).first(m.rank),
          std::span(m.shape).first(m.rank),
          !m.im2col && !m.slides(),
          mask};
}

void check_tensor(Warp& w, const MapContents& m, int lane) {
  if (m.slides()) return;
  uint64_t bytes = m.shape[0] * m.element_bytes();
  for (int d = 1; d < m.rank; ++d) bytes += (m.shape[d] - 1) * m.strides[d - 1];
  w.global(m.address, static_cast<uint32_t>(std::min<uint64_t>(bytes, 0xffffffff)), lane, false,
           "the tensor of this map");
}

// Copies bytes [0, bytes) of a row between a buffer and swizzled shared memory, in units of 16 bytes, which
// swizzles leave intact.
template <bool to_shared>
void swizzled_copy(std::byte* shared, uint32_t at, std::byte* row, uint32_t bytes, Swizzle swizzle) {
  for (uint32_t k = 0; k < bytes; k += 16) {
    std::byte* there = shared + swizzled(at + k, swizzle);
    const uint32_t n = std::min(16u, bytes - k);
    if constexpr (to_shared)
      std::memcpy(there, row + k, n);
    else
      std::memcpy(row + k, there, n);
  }
}

void fill_outside(std::vector<std::byte>& row, const MapContents& m) {
  const uint16_t bits = m.fill == OobFill::nan ? nan_out_of_bounds : 0;
  for (uint32_t k = 0; k < row.size(); ++k) row[k] = static_cast<std::byte>(bits >> 8 * (k % 2));
}

template <Mode mode>
void execute_load(Warp& w, const BoxLoad& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const MapContents m = read_map(w, x.box, mode, lane);
    check_tensor(w, m, lane);
    const auto for_each = rows_of<RowFunction>(w, x.box, m, lane);
    const uint32_t mask = x.cta_mask == no_register ? 0 : w.at<uint16_t>(x.cta_mask)[lane],
                   bytes = m.box_bytes();
    auto landings = begin_load(w, w.address(x.dst_mem, lane), w.address(x.mbar, lane), mask, bytes,
                               shared_align, lane, SignalledBy::copy);
    if (!w.cluster().observers.tile_fill.empty()) {
      const auto at = read_coordinates(w, x.box, m, lane);
      for (Observer* o : w.cluster().observers.tile_fill)
        for (const Landing& l : landings) o->tile_fill(w, tile_copy(*l.cta, l.offset, m, at, mask));
    }
    if (!w.cluster().observers.global_access.empty())
      for_each([&](const BoxRow& r) {
        if (r.last > r.first) touch_source(w, landings, r.address, (r.last - r.first) * m.element_bytes());
      });
    const uint64_t began = w.cluster().steps;
    w.post([&w, m, for_each, landings, bytes, lane, began] {
      std::vector<std::byte> row(m.box[0] * m.element_bytes());
      for_each([&](const BoxRow& r) {
        const uint32_t size = m.element_bytes();
        if (r.last - r.first < m.box[0]) fill_outside(row, m);
        if (r.last > r.first)
          std::memcpy(row.data() + r.first * size,
                      w.global(r.address, (r.last - r.first) * size, lane, false, "this copy"),
                      (r.last - r.first) * size);
        for (const Landing& l : landings)
          swizzled_copy<true>(l.cta->shared.data(), l.offset + r.linear, row.data(), r.bytes, m.swizzle);
      });
      finish_load(w, landings, bytes);
      if (w.grid().trace) w.grid().trace->operation(w, "load", began, w.cluster().steps, w.here());
    });
  });
}

// Returns how many bytes of a row a store writes. Like an H100, it writes whole units of 16 B, and so may
// write beyond the end of a tensor that ends within a unit.
uint32_t row_bytes(const MapContents& m, const BoxRow& r) {
  const uint32_t size = m.element_bytes();
  return std::min((r.last * size + 15) / 16 * 16, r.bytes) - r.first * size;
}

template <Mode mode>
void execute_store(Warp& w, const BoxStore& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const MapContents m = read_map(w, x.box, mode, lane);
    check_tensor(w, m, lane);
    const auto for_each = rows_of<RowFunction>(w, x.box, m, lane);
    const auto at = read_coordinates(w, x.box, m, lane);
    for (int32_t c : at)  // an H100 reports an illegal instruction here too, but only for stores
      if (c < 0)
        w.fail(Fault::operand,
               fmt::format("a store's box begins at coordinate {}, but only loads may begin before the start "
                           "of a tensor",
                           c),
               lane);
    const uint32_t bytes = m.box_bytes();
    Cta* source;
    uint32_t offset;
    w.place(w.address(x.src_mem, lane), bytes, Space::shared, lane, source, offset);
    if (offset % shared_align)
      w.fail(Fault::misaligned,
             fmt::format("the source {} is not a multiple of {} B", source->name(offset), shared_align),
             lane);
    w.touch_async(*source, offset, bytes, false, store_access(w, lane), "this copy reads");
    for (Observer* o : w.cluster().observers.tile_send) o->tile_send(w, tile_copy(*source, offset, m, at));
    if (!w.cluster().observers.global_access.empty())
      for_each([&](const BoxRow& r) {
        if (r.last <= r.first) return;
        const auto values = [&](std::byte* copy) {
          std::vector<std::byte> row(r.bytes);
          swizzled_copy<false>(source->shared.data(), offset + r.linear, row.data(), r.bytes, m.swizzle);
          std::copy_n(row.begin() + r.first * m.element_bytes(), row_bytes(m, r), copy);
          return !x.reduction;
        };
        touch_target(w, r.address, row_bytes(m, r), lane, x.reduction.has_value(), values);
      });
    auto data = std::make_shared<std::vector<std::byte>>(bytes);
    post_store(
        w, lane, *source,
        [=] { swizzled_copy<false>(source->shared.data(), offset, data->data(), bytes, m.swizzle); },
        [&w, &x, m, for_each, data, lane] {
          for_each([&](const BoxRow& r) {
            if (r.last <= r.first) return;
            const uint32_t n = row_bytes(m, r);
            const std::byte* from = data->data() + r.linear + r.first * m.element_bytes();
            if (x.reduction)
              return add_in_turn(w, r.address, n, [&w, &x, m, data, from, n, lane, at = r.address] {
                reduce_into(w.global(at, n, lane, true, "this copy"), from, n, *x.reduction, m.type());
              });
            std::memcpy(w.global(r.address, n, lane, true, "this copy"), from, n);
          });
        });
  });
}

template <Mode mode>
void execute_prefetch(Warp& w, const TensorBox& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const MapContents m = read_map(w, x, mode, lane);
    check_tensor(w, m, lane);
    read_coordinates(w, x, m, lane);
  });
}

Mode mode_of(const Decode& d) {
  return d.has("im2col") ? Mode::im2col : d.has("im2col_no_offs") ? Mode::im2col_no_offs : Mode::tile;
}

// Decodes the operand [map, {coordinates}], and the offsets of im2col.
TensorBox take_box(Decode& d, const ptx_text::Operand& o, const ptx_text::Operand* offsets) {
  std::vector<Register> registers = d.sources(Decode::parts(o.parts[1]), Type::s32);
  if (offsets) {
    const std::vector<Register> more = d.sources(Decode::parts(*offsets), Type::b16);
    registers.insert(registers.end(), more.begin(), more.end());
  }
  return {d.address(o, 0), d.list(registers)};
}

void decode_tensor(Decode& d, bool reduces) {
  const Mode mode = mode_of(d);
  std::optional<Reduction> reduction;
  if (reduces) reduction = take_reduction(d);
  if (d.has("bulk_group")) {
    adds_in_turn(d, reduces);
    const BoxStore x{take_box(d, d.operand(0), nullptr), d.address(d["src"]), reduction};
    return mode == Mode::tile ? d.run<execute_store<Mode::tile>>(x)
                              : d.run<execute_store<Mode::im2col_no_offs>>(x);
  }
  const bool offsets = mode == Mode::im2col;
  const ptx_text::Operand* mask = d.find("cta_mask");
  const BoxLoad x{take_box(d, d.operand(1), offsets ? &d.operand(3) : nullptr), d.address(d["dst"]),
                  d.address(d["bar"]), mask ? d.source(*mask, Type::b16) : no_register};
  offsets ? d.run<execute_load<Mode::im2col>>(x) : d.run<execute_load<Mode::tile>>(x);
}

void decode_tensor_prefetch(Decode& d) {
  if (mode_of(d) == Mode::im2col)
    return d.run<execute_prefetch<Mode::im2col>>(take_box(d, d.operand(0), &d.operand(1)));
  d.run<execute_prefetch<Mode::tile>>(take_box(d, d.operand(0), nullptr));
}

}  // namespace

void add_tensor(DecodeTable& t) {
  t["cp.async.bulk.tensor"] = [](Decode& d) { decode_tensor(d, false); };
  t["cp.reduce.async.bulk.tensor"] = [](Decode& d) { decode_tensor(d, true); };
  t["cp.async.bulk.prefetch.tensor"] = decode_tensor_prefetch;
}

}  // namespace ptxbuilder::runtime::emulator
