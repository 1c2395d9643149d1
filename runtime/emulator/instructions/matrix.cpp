// Executes warp-level instructions that load, store and transpose matrices (PTX ISA, ldmatrix, stmatrix,
// movmatrix).
#include <fmt/format.h>

#include <array>

#include "runtime/emulator/instructions/handlers.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// Operands of ldmatrix and stmatrix, which access one matrix for each register. Lane 8 m + r provides the
// address of row r of matrix m. Lane l holds elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4.
struct MatrixAccess {
  AddressOperand p;
  RegisterList r;
  Space space;
  bool trans;
};

template <bool store>
void execute_rows(Warp& w, const MatrixAccess& x, Lanes lanes) {
  if (!w.together(lanes)) return;
  // The lanes have arrived here, but this does not yet order the earlier accesses of one lane before those of
  // another. The rows that stmatrix stores are therefore recorded only after the lanes have met.
  struct Row {
    Cta* owner;
    uint32_t offset;
    int lane;
  };
  std::array<Row, 32> rows;
  size_t count = 0;
  const auto registers = w.listed(x.r);
  const bool trans = x.trans;
  for (size_t m = 0; m < registers.size(); ++m) {
    Lanes undefined = 0;  // bits of undefined rows
    Cta* of_undefined = nullptr;
    uint32_t undefined_at = 0;
    uint16_t* data = w.at<uint16_t>(registers[m]);
    for (int row = 0; row < 8; ++row) {
      const int lane = 8 * static_cast<int>(m) + row;
      const uint64_t address = w.address(x.p, lane);
      if (address % 16)
        w.fail(Fault::misaligned, fmt::format("the row address {:#x} is not a multiple of 16", address),
               lane);
      Cta* owner;
      uint32_t offset;
      std::byte* place = w.place(address, 16, x.space, lane, owner, offset);
      if (owner) w.touch({*owner, offset, 16, store, lane});
      if (owner) {
        w.touch_lanes({*owner, offset, 16, store, lane}, store ? LaneAccess::checked : LaneAccess::plain);
        if (store) rows[count++] = {owner, offset, lane};
      }
      if (!store && owner && owner->shadow.uninitialised) {
        owner->shadow.uninitialised.reset();
        if (!owner->shadow.any_initialised(offset, 16)) {
          undefined |= Lanes{1} << row;
          of_undefined = owner;
          undefined_at = offset;
        }
      }
      for (int k = 0; k < 8; ++k) {
        const int holder = trans ? k * 4 + row / 2 : row * 4 + k / 2, part = trans ? row % 2 : k % 2;
        if constexpr (store)
          std::memcpy(place + 2 * k, &data[2 * holder + part], 2);
        else
          std::memcpy(&data[2 * holder + part], place + 2 * k, 2);
      }
    }
    if (store || (!undefined && !w.undefined.follows())) continue;
    w.undefined.set(registers[m], all_lanes, 0, {});
    if (!undefined) continue;
    // A lane holds two elements of one row, or, in the transposed matrix, of two adjacent rows.
    Lanes lanes_of_it = 0;
    for (int lane = 0; lane < 32; ++lane) {
      const int pair = lane % 4 * 2;
      const bool is_undefined = trans ? (undefined >> pair & 3) == 3 : (undefined >> (lane / 4) & 1) != 0;
      lanes_of_it |= static_cast<Lanes>(is_undefined) << lane;
    }
    w.undefined.set(
        registers[m], all_lanes, lanes_of_it,
        {no_register, w.here(),
         fmt::format("this reads {}, which nothing had written", of_undefined->name(undefined_at)), true});
  }
  w.causality.meet(w.lanes, w.alive);
  for (size_t k = 0; k < count; ++k)
    w.touch_lanes({*rows[k].owner, rows[k].offset, 16, true, rows[k].lane}, LaneAccess::recorded);
}

void decode_rows(Decode& d, bool store) {
  const Space space = d.has("shared") || d.has("shared::cta") ? Space::shared : Space::generic;
  const AddressOperand p = d.address(d["p"]);
  const auto parts = Decode::parts(d["r"]);
  const RegisterList r = d.list(store ? d.sources(parts, Type::b32) : d.destinations(parts, Type::b32));
  const MatrixAccess x{p, r, space, d.has("trans")};
  d.flow = Flow::handled;
  store ? d.run<execute_rows<true>>(x) : d.run<execute_rows<false>>(x);
}

void execute_movmatrix(Warp& w, const Unary& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  uint16_t from[64];
  std::memcpy(from, w.at<uint16_t>(x.a), sizeof from);
  uint16_t* to = w.at<uint16_t>(x.d);
  for (int row = 0; row < 8; ++row)
    for (int k = 0; k < 8; ++k) to[2 * (k * 4 + row / 2) + row % 2] = from[2 * (row * 4 + k / 2) + k % 2];
}

}  // namespace

void add_matrix(DecodeTable& t) {
  t["ldmatrix"] = [](Decode& d) { decode_rows(d, false); };
  t["stmatrix"] = [](Decode& d) { decode_rows(d, true); };
  t["movmatrix"] = [](Decode& d) {
    d.run<execute_movmatrix>({d.destination(0, Type::b32), d.source(1, Type::b32)});
  };
}

}  // namespace ptxbuilder::runtime::emulator
