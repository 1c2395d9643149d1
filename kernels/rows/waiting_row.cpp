#include "kernels/rows/waiting_row.h"

#include <algorithm>

#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kBytesOfCopy = 16,
              kColumns = 128;  // kColumns is the number of bytes in a row of the allocation

int threads_of(const RowTile& t) { return t.warps * 32; }

}  // namespace

WaitingRow::WaitingRow(Kernel& kernel, const RowTile& t, const std::vector<Tensor>& tensors, u32 column,
                       u32 columns)
    : tile_(t) {
  for (const Tensor& x : tensors) {
    const int access = t.vector * size_of(x.type), copy = std::min(access, kBytesOfCopy);
    const SharedTile memory = kernel.shared<u8>(
        {t.pieces * t.vectors * threads_of(t) * access / kColumns, kColumns}, SwizzleNone, 1, x.name);
    places_.emplace(x.name,
                    Place{memory[0].address() + tid_x() * static_cast<uint32_t>(copy), access / copy, copy});
  }
  for (int piece = 0; piece < t.pieces; ++piece) {
    for (const Tensor& x : tensors) {
      const Place& place = places_.at(x.name);
      for (int vector = 0; vector < t.vectors; ++vector) {
        const u32 at =
            column + static_cast<uint32_t>(piece * t.columns_of_piece()) +
            (tid_x() % 32 + static_cast<uint32_t>(vector * t.lanes)) * static_cast<uint32_t>(t.vector);
        const pred inside = at < columns;
        const gmem from = x.start + u64(select(inside, at, u32(0))) * static_cast<uint64_t>(size_of(x.type));
        for (int copy = 0; copy < place.copies; ++copy) {
          const std::vector<Argument> arguments = {address(place, piece, vector, copy),
                                                   from + copy * place.bytes,
                                                   select(inside, u32(place.bytes), u32(0))};
          Builder::current().emit(isa::cp_async({place.bytes, true}), arguments, std::nullopt);
        }
      }
    }
    cp_async_commit_group();
  }
}

smem WaitingRow::address(const Place& place, int piece, int vector, int copy) const {
  return place.first + static_cast<uint32_t>(((piece * tile_.vectors + vector) * place.copies + copy) *
                                             threads_of(tile_) * place.bytes);
}

void WaitingRow::wait(int piece) {
  if (piece < arrived_) return;
  cp_async_wait_group(tile_.pieces - 1 - piece);
  arrived_ = piece + 1;
}

std::vector<u32> WaitingRow::load(const std::string& tensor, int piece) const {
  const Place& place = places_.at(tensor);
  std::vector<u32> registers;
  const auto append = [&](const auto& words) {
    registers.insert(registers.end(), words.begin(), words.end());
  };
  for (int vector = 0; vector < tile_.vectors; ++vector)
    for (int copy = 0; copy < place.copies; ++copy) {
      const sptr<u32> from(address(place, piece, vector, copy));
      if (place.bytes == 16) append(ptxbuilder::load<4>(from));
      if (place.bytes == 8) append(ptxbuilder::load<2>(from));
      if (place.bytes == 4) append(ptxbuilder::load<1>(from));
    }
  return registers;
}

}  // namespace ptxbuilder::kernels
