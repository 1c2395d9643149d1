// The rules of registers that wgmma holds on to (PTX ISA, wgmma.mma_async, wgmma.fence).
#include <fmt/format.h>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {
void Warp::check_matrix_registers() {
  if (!cluster().checks) return;
  const Kernel& kernel = grid().kernel;
  const MatrixUse& use = kernel.matrix_uses.at(here());
  auto check = [&](uint32_t r, bool writes) {
    for (const auto& [live, group] : wgmma_live) {
      const uint32_t* list = kernel.lists.data() + live->list;
      for (uint32_t k = 0; k < live->list_size; ++k) {
        const bool accumulator = k < live->mode[6];
        if (list[k] != r || (!accumulator && !writes)) continue;
        fail(
            Fault::matrix_registers,
            fmt::format(
                "this {} {}, {} of the wgmma of line {} (group {}), for which no wgmma.wait_group has waited",
                writes ? "writes" : "reads", kernel.register_name(r),
                accumulator ? "an accumulator" : "an A register", kernel.lines[pc_of(*live)].ptx, group));
      }
    }
    if (r / 128 >= matrix_touched.size()) matrix_touched.resize(r / 128 + 1, 0);
    matrix_touched[r / 128] = fences;
  };
  for (uint32_t r : use.reads) check(r, false);
  for (uint32_t r : use.writes) check(r, true);
}

void Warp::check_wgmma_registers(const Instruction& i, uint32_t accumulators) {
  if (!cluster().checks) return;
  const Kernel& kernel = grid().kernel;
  if (!wgmma_fenced) fail(Fault::matrix_fence, "no wgmma.fence stands before the first wgmma.mma_async");
  const uint32_t* list = kernel.lists.data() + i.list;
  for (uint32_t k = 0; k < i.list_size; ++k) {
    const uint32_t r = list[k];
    if (r / 128 < matrix_touched.size() && matrix_touched[r / 128] == fences)
      fail(Fault::matrix_fence,
           fmt::format("{} was touched after the last wgmma.fence, and this uses it as {}",
                       kernel.register_name(r), k < accumulators ? "an accumulator" : "A"));
    if (k < accumulators) continue;
    for (const auto& [live, group] : wgmma_live)
      for (uint32_t a = 0; a < live->mode[6]; ++a)
        if (kernel.lists[live->list + a] == r)
          fail(Fault::matrix_registers,
               fmt::format(
                   "A register {} is an accumulator of the wgmma of line {}, which has not been waited for",
                   kernel.register_name(r), kernel.lines[pc_of(*live)].ptx));
  }
}

}  // namespace ptxbuilder::runtime::emulator
