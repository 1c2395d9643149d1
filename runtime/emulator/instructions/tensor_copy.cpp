// Executes copies from shared memory to tensor memory (PTX ISA, tcgen05.cp). A descriptor describes the
// source matrix, as for products.
#include <fmt/format.h>

#include "runtime/emulator/decode/decoder.h"
#include "runtime/emulator/instructions/matrix_operand.h"
#include "runtime/emulator/instructions/tensor_memory.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// The matrix has `rows` rows of `bytes` bytes. Row r is copied to lane `(r % rows_each) * step + r /
// rows_each * behind`. There are `copies` such copies, each `apart` lanes after the previous one.
struct CopyShape {
  uint32_t rows, bytes;
  uint32_t rows_each = 128, behind = 0, step = 1, copies = 1, apart = 0;

  template <class F>
  void for_lanes_of(uint32_t row, F f) const {
    for (uint32_t copy = 0; copy < copies; ++copy)
      f(row % rows_each * step + row / rows_each * behind + copy * apart);
  }
};

struct TensorCopy {
  AddressOperand to;
  Register from;
  CopyShape shape;
};

void execute_tensor_copy(Warp& w, const TensorCopy& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const CopyShape& s = x.shape;
    const uint32_t columns = s.bytes / 4;
    const TensorPlace at(static_cast<uint32_t>(w.address(x.to, lane)));
    if (at.lane != 0)
      w.fail(Fault::operand,
             fmt::format("this copy begins at lane {} of tensor memory, but must begin at 0", at.lane), lane);
    TensorMemory& memory = allocated_at(w, at, columns, "this copy writes", lane);
    const uint64_t bits = w.at<uint64_t>(x.from)[lane];
    const MatrixDescriptor d(bits);
    check_descriptor(w, d, "the copy");
    if ((bits >> 46 & 7) != 1)
      w.fail(Fault::operand, "bits 48 to 46 of a matrix descriptor of tcgen05 must be 0b001", lane);
    const auto [deed, now] = issue(w, TensorMemory::Operation::copy, lane);
    touch_matrix(w, d, false, 0, s.rows, s.bytes, deed, "this copy reads");
    std::array<bool, TensorMemory::lanes / TensorMemory::half> halves{};
    for (uint32_t row = 0; row < s.rows; ++row)
      s.for_lanes_of(row, [&](uint32_t to) { halves[to / TensorMemory::half] = true; });
    for (uint32_t half = 0; half < halves.size(); ++half)
      for (uint32_t c = at.column; halves[half] && c < at.column + columns; ++c) {
        TensorMemory::Column& deeds = memory.deeds(half, c);
        require_ordered(w, deeds.wrote, true, now.operation, c, "this copy writes", lane);
        require_ordered(w, deeds.read, false, now.operation, c, "this copy writes", lane);
        deeds = {now, {}};
      }
    put_behind(w, [&w, d, s, column = at.column] {
      for_each_unit(d, false, 0, s.rows, s.bytes, [&](uint32_t row, uint32_t k, uint32_t address) {
        s.for_lanes_of(row, [&](uint32_t to) {
          std::memcpy(&w.cta.tensor->at(to, column + k / 4), w.cta.shared.data() + address, 16);
        });
      });
    });
  });
}

}  // namespace

void decode_tensor_copy(Decode& d) {
  if (d.has("cta_group::2") || d.has("b8x16"))
    d.refuse("the emulator copies to tensor memory for one CTA, and unpacks nothing");
  const CopyShape shape =
      d.has("128x256b")        ? CopyShape{128, 32}
      : d.has("128x128b")      ? CopyShape{128, 16}
      : d.has("4x256b")        ? CopyShape{.rows = 4, .bytes = 32, .step = 32}
      : d.has("warpx2::02_13") ? CopyShape{.rows = 64, .bytes = 16, .copies = 2, .apart = 64}
      : d.has("warpx2::01_23")
          ? CopyShape{.rows = 64, .bytes = 16, .rows_each = 32, .behind = 64, .copies = 2, .apart = 32}
          : CopyShape{.rows = 32, .bytes = 16, .copies = 4, .apart = 32};
  const TensorCopy x{d.address(d["taddr"]), d.source(d["s_desc"], Type::b64), shape};
  d.needs_all();
  d.run<execute_tensor_copy>(x);
}

}  // namespace ptxbuilder::runtime::emulator
