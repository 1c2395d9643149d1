// Reports violations of the rules for registers that wgmma and tcgen05.ld are still using (PTX ISA,
// wgmma.mma_async, wgmma.fence, tcgen05.wait).
#include <fmt/format.h>

#include <algorithm>

#include "runtime/emulator/checks/checks.h"

namespace ptxbuilder::runtime::emulator {
namespace {

bool contains(std::span<const Register> registers, Register r) {
  return std::find(registers.begin(), registers.end(), r) != registers.end();
}

class MatrixRegisterRules final : public Observer {
 public:
  explicit MatrixRegisterRules(const Cluster& cluster) {
    const std::vector<uint32_t> untouched(cluster.grid.kernel.register_bytes / 128 + 1, never);
    for (const auto& cta : cluster.ctas) touched_.emplace_back(cta->warps.size(), untouched);
  }

  void matrix_touch(Warp& w) override {
    const Kernel& kernel = w.grid().kernel;
    const MatrixUse& use = kernel.matrix_uses.at(w.here());
    std::vector<uint32_t>& touched = touched_[w.cta.rank][w.index];
    auto check = [&](Register r, bool writes) {
      auto report = [&](const LiveWgmma& live, const char* role) {
        w.find(Fault::matrix_registers,
               fmt::format(
                   "this {} {}, {} of the wgmma of line {} (group {}), for which no wgmma.wait_group has "
                   "waited",
                   writes ? "writes" : "reads", kernel.register_name(r), role, kernel.lines[live.pc].ptx,
                   live.group));
      };
      for (const LiveWgmma& live : w.wgmma.live) {
        if (contains(w.listed(live.registers.accumulators), r)) report(live, "an accumulator");
        if (writes && contains(w.listed(live.registers.a), r)) report(live, "an A register");
      }
      for (const TensorLoad& load : w.loading)
        if (contains(w.listed(load.registers), r))
          w.find(Fault::matrix_registers,
                 fmt::format(
                     "this {} {}, which the tcgen05.ld of {} loads, for which no tcgen05.wait::ld has waited",
                     writes ? "writes" : "reads", kernel.register_name(r), kernel.place(load.pc)));
      touched[number(r)] = w.wgmma.fences;
    };
    for (Register r : use.reads) check(r, false);
    for (Register r : use.writes) check(r, true);
  }

  void wgmma(Warp& w, const MatrixRegisters& registers) override {
    const Kernel& kernel = w.grid().kernel;
    if (w.wgmma.fences == 0)
      w.find(Fault::matrix_fence, "no wgmma.fence comes before the first wgmma.mma_async");
    const std::vector<uint32_t>& touched = touched_[w.cta.rank][w.index];
    auto require_untouched = [&](Register r, const char* role) {
      if (touched[number(r)] == w.wgmma.fences)
        w.find(Fault::matrix_fence,
               fmt::format("{} was touched after the last wgmma.fence, and this uses it as {}",
                           kernel.register_name(r), role));
    };
    for (Register r : w.listed(registers.accumulators)) require_untouched(r, "an accumulator");
    for (Register r : w.listed(registers.a)) {
      require_untouched(r, "A");
      for (const LiveWgmma& live : w.wgmma.live)
        if (contains(w.listed(live.registers.accumulators), r))
          w.find(Fault::matrix_registers,
                 fmt::format(
                     "A register {} is an accumulator of the wgmma of line {}, which has not been waited "
                     "for",
                     kernel.register_name(r), kernel.lines[live.pc].ptx));
    }
  }

 private:
  static constexpr uint32_t never = ~0u;

  static size_t number(Register r) { return static_cast<size_t>(r.at) / 128; }

  // The number of wgmma.fences that the warp had executed when another instruction last accessed a register.
  // Indexed by CTA, warp and register.
  std::vector<std::vector<std::vector<uint32_t>>> touched_;
};

}  // namespace

void add_matrix_registers(Observers& observers, Cluster& cluster) {
  observers.add(std::make_unique<MatrixRegisterRules>(cluster));
}

}  // namespace ptxbuilder::runtime::emulator
