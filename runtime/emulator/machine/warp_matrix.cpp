// The rules of registers that wgmma holds on to (PTX ISA, wgmma.mma_async, wgmma.fence).
#include <fmt/format.h>

#include <algorithm>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {
namespace {

bool contains(std::span<const Register> registers, Register r) {
  return std::find(registers.begin(), registers.end(), r) != registers.end();
}

}  // namespace

void Warp::check_matrix_registers() {
  if (!cluster().checks) return;
  const Kernel& kernel = grid().kernel;
  const MatrixUse& use = kernel.matrix_uses.at(here());
  auto check = [&](Register r, bool writes) {
    auto report = [&](const LiveWgmma& live, const char* role) {
      find(Fault::matrix_registers,
           fmt::format(
               "this {} {}, {} of the wgmma of line {} (group {}), for which no wgmma.wait_group has waited",
               writes ? "writes" : "reads", kernel.register_name(r), role, kernel.lines[live.pc].ptx,
               live.group));
    };
    for (const LiveWgmma& live : wgmma_live) {
      if (contains(listed(live.registers.accumulators), r)) report(live, "an accumulator");
      if (writes && contains(listed(live.registers.a), r)) report(live, "an A register");
    }
    const auto n = static_cast<size_t>(r.at / 128);
    if (n >= matrix_touched.size()) matrix_touched.resize(n + 1, 0);
    matrix_touched[n] = fences;
  };
  for (Register r : use.reads) check(r, false);
  for (Register r : use.writes) check(r, true);
}

void Warp::check_wgmma_registers(const MatrixRegisters& registers) {
  if (!cluster().checks) return;
  const Kernel& kernel = grid().kernel;
  if (!wgmma_fenced) find(Fault::matrix_fence, "no wgmma.fence stands before the first wgmma.mma_async");
  auto require_untouched = [&](Register r, const char* role) {
    const auto n = static_cast<size_t>(r.at / 128);
    if (n < matrix_touched.size() && matrix_touched[n] == fences)
      find(Fault::matrix_fence,
           fmt::format("{} was touched after the last wgmma.fence, and this uses it as {}",
                       kernel.register_name(r), role));
  };
  for (Register r : listed(registers.accumulators)) require_untouched(r, "an accumulator");
  for (Register r : listed(registers.a)) {
    require_untouched(r, "A");
    for (const LiveWgmma& live : wgmma_live)
      if (contains(listed(live.registers.accumulators), r))
        find(Fault::matrix_registers,
             fmt::format(
                 "A register {} is an accumulator of the wgmma of line {}, which has not been waited for",
                 kernel.register_name(r), kernel.lines[live.pc].ptx));
  }
}

}  // namespace ptxbuilder::runtime::emulator
