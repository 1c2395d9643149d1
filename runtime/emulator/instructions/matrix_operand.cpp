#include "runtime/emulator/instructions/matrix_operand.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbuilder::runtime::emulator {

void check_descriptor(Warp& w, const MatrixDescriptor& d, const char* what) {
  if (d.base_offset)
    w.fail(Fault::operand, fmt::format("the descriptor of {} has base offset {}: the emulator takes 0 alone",
                                       what, d.base_offset));
}

void touch_matrix(Warp& w, const MatrixDescriptor& d, bool mn_major, uint32_t first, uint32_t rows,
                  uint32_t bytes_k, Access deed, const char* what) {
  uint32_t low = ~0u, high = 0;
  // Neighbouring units are recorded together.
  uint32_t from = 0, to = 0;
  auto flush = [&] {
    if (to > from) w.touch_async(w.cta, from, to - from, false, deed, what);
  };
  for_each_unit(d, mn_major, first, rows, bytes_k, [&](uint32_t, uint32_t, uint32_t address) {
    low = std::min(low, address);
    high = std::max(high, address + 16);
    if (low < shared_reserved || high > w.cta.shared.size())
      w.fail(Fault::out_of_bounds, fmt::format("{} the shared address {:#x}, outside of the CTA's {} B", what,
                                               address, w.cta.shared.size() - shared_reserved));
    if (address == to) {
      to += 16;
    } else if (address + 16 == from) {
      from = address;
    } else {
      flush();
      from = address;
      to = address + 16;
    }
  });
  flush();
}

}  // namespace ptxbuilder::runtime::emulator
