#include "runtime/emulator/instructions/matrix_operand.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace ptxbuilder::runtime::emulator {

void check_descriptor(Warp& w, const MatrixDescriptor& d, const char* what) {
  if (d.base_offset)
    w.fail(Fault::operand,
           fmt::format("the descriptor of {} has base offset {}, but the emulator supports only 0", what,
                       d.base_offset));
}

namespace {

// Returns the pieces of shared memory that hold a matrix. Reports a matrix that is not wholly in shared
// memory.
std::vector<SharedPiece> pieces_of(const Warp& w, const MatrixDescriptor& d, bool mn_major, uint32_t first,
                                   uint32_t rows, uint32_t bytes_k, const char* what) {
  // Units are visited in the order of rows and columns. They are marked first, so that units that are
  // adjacent in memory form one piece.
  constexpr uint32_t unit = 16, of_a_word = 64;
  std::vector<uint64_t> marks(w.cta.shared.size() / unit / of_a_word + 1);
  uint32_t low = ~0u, high = 0;
  for_each_unit(d, mn_major, first, rows, bytes_k, [&](uint32_t, uint32_t, uint32_t address) {
    low = std::min(low, address);
    high = std::max(high, address + unit);
    if (low < shared_reserved || high > w.cta.shared.size())
      w.fail(Fault::out_of_bounds,
             fmt::format("{} the shared address {:#x}, which is outside of the CTA's {} B", what, address,
                         w.cta.shared.size() - shared_reserved));
    marks[address / unit / of_a_word] |= uint64_t{1} << (address / unit % of_a_word);
  });
  std::vector<SharedPiece> pieces;
  uint32_t from = 0, to = 0;
  auto flush = [&] {
    if (to > from) pieces.push_back({from * unit, (to - from) * unit});
  };
  for (uint32_t k = low / unit / of_a_word; k * of_a_word * unit < high; ++k)
    for (uint64_t rest = marks[k]; rest != 0;) {
      const auto skipped = static_cast<uint32_t>(std::countr_zero(rest)),
                 count = static_cast<uint32_t>(std::countr_one(rest >> skipped)),
                 begin = k * of_a_word + skipped;
      if (begin != to) {
        flush();
        from = begin;
      }
      to = begin + count;
      if (skipped + count == of_a_word) break;
      rest &= ~uint64_t{0} << (skipped + count);
    }
  flush();
  return pieces;
}

}  // namespace

void touch_matrix(Warp& w, const MatrixDescriptor& d, bool mn_major, uint32_t first, uint32_t rows,
                  uint32_t bytes_k, Access deed, const char* what) {
  const std::array<uint32_t, 8> matrix{d.start,  d.leading, d.stride, static_cast<uint32_t>(d.swizzle),
                                       mn_major, first,     rows,     bytes_k};
  auto& known = w.cluster().matrices;
  auto found = known.find(matrix);
  if (found == known.end())
    found = known.emplace(matrix, pieces_of(w, d, mn_major, first, rows, bytes_k, what)).first;
  for (const auto& [offset, bytes] : found->second) w.touch_async(w.cta, offset, bytes, false, deed, what);
}

}  // namespace ptxbuilder::runtime::emulator
