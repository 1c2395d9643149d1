// Tensor copies (PTX ISA, cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, and the prefetches of both).
#include <fmt/format.h>

#include <array>

#include "runtime/emulator/instructions/copies.h"
#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/tensor_map.h"
#include "runtime/emulator/machine/trace.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// list: shared address, map address, barrier address (loads), then the coordinates; r[0] multicast mask.
// mode: 0 rank, 1 Reduction, 2 whether it reduces.

MapContents read_map(Warp& w, const Instruction& i, int lane) {
  const uint64_t address = w.listed_address(i, 3, lane);
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
    w.fail(Fault::operand, fmt::format("the tensor map at {:#x} is none that was encoded: {}", address, what),
           lane);
  if (const uint32_t row = m.box[0] * m.element_bytes(), span = 16u << static_cast<int>(m.swizzle);
      m.swizzle != Swizzle::none && row < span)
    w.fail(Fault::operand,
           fmt::format("rows of {} B in a box whose swizzle spans {} B: hardware does not pack them, and the "
                       "emulator does not know where it puts them; make the box as wide as its swizzle",
                       row, span),
           lane);
  if (m.rank != i.mode[0])
    w.fail(Fault::operand, fmt::format("a tensor map of rank {} in a {}d copy", m.rank, i.mode[0]), lane);
  return m;
}

// The place of a box, innermost first. Along the innermost dimension it is a multiple of 16 B: the manual
// does not say so, but an H100 stops at anything else as an illegal instruction, in loads, stores and
// prefetches.
std::array<int32_t, 5> read_coordinates(Warp& w, const Instruction& i, const MapContents& m, uint32_t first,
                                        int lane) {
  std::array<int32_t, 5> c{};
  for (uint32_t d = 0; d < i.mode[0]; ++d) c[d] = w.at<int32_t>(w.listed(i, first + d))[lane];
  if (const int64_t bytes = int64_t{c[0]} * m.element_bytes(); bytes % 16)
    w.fail(
        Fault::misaligned,
        fmt::format("a box begins at element {} of the innermost dimension, {} B from its start; TMA takes "
                    "multiples of 16 B",
                    c[0], bytes),
        lane);
  return c;
}

// 128 B: what TMA asks of a shared address; the swizzle patterns come from the address itself.
constexpr uint32_t shared_align = 128;

void check_tensor(Warp& w, const MapContents& m, int lane) {
  uint64_t bytes = m.shape[0] * m.element_bytes();
  for (int d = 1; d < m.rank; ++d) bytes += (m.shape[d] - 1) * m.strides[d - 1];
  w.global(m.address, static_cast<uint32_t>(std::min<uint64_t>(bytes, 0xffffffff)), lane, false,
           "the tensor of this map");
}

// Copies bytes [0, bytes) of a row between a buffer and swizzled shared memory, in the 16-byte units that
// swizzles move.
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
  if (m.fill == OobFill::zero) return void(std::fill(row.begin(), row.end(), std::byte{0}));
  const uint32_t size = m.element_bytes();  // NaN: all ones but the sign
  for (uint32_t k = 0; k < row.size(); ++k)
    row[k] = std::byte{k % size == size - 1 ? uint8_t{0x7f} : uint8_t{0xff}};
}

void execute_load(Warp& w, const Instruction& i, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const MapContents m = read_map(w, i, lane);
    check_tensor(w, m, lane);
    const auto coordinates = read_coordinates(w, i, m, 9, lane);
    const uint32_t mask = i.r[0] == no_register ? 0 : w.at<uint16_t>(i.r[0])[lane], bytes = m.box_bytes();
    auto landings = begin_load(w, w.listed_address(i, 0, lane), w.listed_address(i, 6, lane), mask, bytes,
                               shared_align, lane);
    const uint64_t began = w.cluster().steps;
    w.cluster().post([&w, &i, m, coordinates, landings, bytes, lane, began] {
      w.instruction = &i;
      std::vector<std::byte> row(m.box[0] * m.element_bytes());
      for_each_row(m, coordinates, [&](const BoxRow& r) {
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

void execute_store(Warp& w, const Instruction& i, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const MapContents m = read_map(w, i, lane);
    check_tensor(w, m, lane);
    const auto coordinates = read_coordinates(w, i, m, 6, lane);
    for (int32_t c : coordinates)  // the same: an illegal instruction on an H100, where loads may
      if (c < 0)
        w.fail(Fault::operand,
               fmt::format("a store's box begins at coordinate {}; only loads may begin in front of a tensor",
                           c),
               lane);
    const uint32_t bytes = m.box_bytes();
    Cta* source;
    uint32_t offset;
    w.place(w.listed_address(i, 0, lane), bytes, Space::shared, lane, source, offset);
    if (offset % shared_align)
      w.fail(Fault::misaligned,
             fmt::format("the source {} is not a multiple of {} B", source->name(offset), shared_align),
             lane);
    w.touch_async(*source, offset, bytes, false, store_access(w, lane), "this copy reads");
    auto data = std::make_shared<std::vector<std::byte>>(bytes);
    const bool reduces = i.mode[2];
    const auto op = static_cast<Reduction>(i.mode[1]);
    post_store(
        w, i, lane, *source,
        [=] { swizzled_copy<false>(source->shared.data(), offset, data->data(), bytes, m.swizzle); },
        [&w, m, coordinates, data, reduces, op, lane] {
          for_each_row(m, coordinates, [&](const BoxRow& r) {
            if (r.last <= r.first) return;
            // Whole units of 16 B at the end of a row, so beyond a tensor that ends within one (as an H100
            // does).
            const uint32_t size = m.element_bytes(), end = std::min((r.last * size + 15) / 16 * 16, r.bytes),
                           n = end - r.first * size;
            std::byte* to = w.global(r.address, n, lane, true, "this copy");
            const std::byte* from = data->data() + r.linear + r.first * size;
            if (reduces)
              reduce_into(to, from, n, op, m.type());
            else
              std::memcpy(to, from, n);
          });
        });
  });
}

void execute_prefetch(Warp& w, const Instruction& i, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const MapContents m = read_map(w, i, lane);
    check_tensor(w, m, lane);
    read_coordinates(w, i, m, 6, lane);
  });
}

uint8_t take_rank(Decode& d) {
  for (uint8_t rank = 1; rank <= 5; ++rank) {
    constexpr std::string_view names[] = {"1d", "2d", "3d", "4d", "5d"};
    if (d.take(names[rank - 1])) return rank;
  }
  d.refuse("it names no rank");
}

void list_coordinates(Decode& d, const ptx::Operand& o) {
  if (o.kind != ptx::Operand::Kind::address || o.parts.size() != 2) d.refuse("expected [map, {coordinates}]");
  auto parts = Decode::parts(o.parts[1]);
  if (parts.size() != d.out.mode[0])
    d.refuse(fmt::format("{} coordinates for a {}d copy", parts.size(), d.out.mode[0]));
  for (const ptx::Operand* c : parts) d.list(d.source(*c, Type::s32));
}

void decode_tensor(Decode& d, bool reduces) {
  d.out.mode[0] = take_rank(d);
  const bool hint = d.take("L2::cache_hint"), multicast = d.take("multicast::cluster");
  d.take("tile");
  if (d.modifiers.size() < 2) d.refuse("it names no destination and source");
  const bool stores = d.modifiers[0] == "global";
  d.take("global");
  d.take_any({"shared::cluster", "shared::cta"});
  const bool signals = d.take("mbarrier::complete_tx::bytes"), groups = d.take("bulk_group");
  if (reduces) d.out.mode[1] = static_cast<uint8_t>(take_reduction(d));
  d.out.mode[2] = reduces;
  d.done();
  if (stores != groups || stores == signals) d.refuse("the completion mechanism does not fit the direction");
  const size_t operands = (stores ? 2u : 3u + multicast) + hint;
  d.expect(operands, operands);
  const ptx::Operand &map = d.operand(stores ? 0 : 1), &shared = d.operand(stores ? 1 : 0);
  d.list_address(d.address(shared));
  d.list_address(d.address(map, 0));
  if (!stores) d.list_address(d.address(d.operand(2)));
  list_coordinates(d, map);
  if (multicast) d.out.r[0] = d.source(3, Type::b16);
  d.out.execute = stores ? execute_store : execute_load;
}

void decode_prefetch(Decode& d) {
  d.out.mode[0] = take_rank(d);
  d.take_any({"L2", "global", "tile", "L2::cache_hint"});
  d.done();
  d.list_address({});
  d.list_address(d.address(d.operand(0), 0));
  list_coordinates(d, d.operand(0));
  d.out.execute = execute_prefetch;
}

}  // namespace

void add_tensor(DecodeTable& t) {
  t["cp.async.bulk.tensor"] = [](Decode& d) { decode_tensor(d, false); };
  t["cp.reduce.async.bulk.tensor"] = [](Decode& d) { decode_tensor(d, true); };
  t["cp.async.bulk.prefetch.tensor"] = decode_prefetch;
}

}  // namespace ptxbuilder::runtime::emulator
