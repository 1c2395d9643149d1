// Mutants with typical errors of a kernel that loads with TMA, multiplies with wgmma and stores. Each test
// adds further mutants.
#pragma once

#include "mutation_kit.h"

namespace ptxbuilder::test {

// Returns mutants that omit a step that makes initialised barriers visible to the CTA. The kernel has `sets`
// sets of barriers.
inline std::vector<Mutant> publishing(int sets = 1) {
  return {
      {"no fence after the init",
       "fence.",
       0,
       drop,
       {},
       2 * sets,
       "no fence.mbarrier_init or fence.proxy.async"},
      {"no bar.sync after the init", "bar.sync", 0, drop, {Fault::mbarrier_use, Fault::mbarrier_init}},
  };
}

// Returns mutants whose error is at a barrier on which copies complete, before the wait on this barrier.
inline std::vector<Mutant> loading() {
  return {
      {"an mbarrier is not initialised", "mbarrier.init", 0, drop, {Fault::mbarrier_use}},
      {"a barrier for 2", "mbarrier.init", 0, add_to(1, 1), {Fault::deadlock}},
      {"16 B too many expected", "mbarrier.arrive.expect_tx", 0, add_to(2, 16), {Fault::tx_count}},
      {"16 B too few expected", "mbarrier.arrive.expect_tx", 0, add_to(2, -16), {Fault::tx_count}},
      {"no expect_tx", "mbarrier.arrive.expect_tx", 0, drop, {Fault::deadlock}},
      {"arrive without bytes",
       "mbarrier.arrive.expect_tx",
       0,
       arrive_without_bytes,
       {Fault::race, Fault::tx_count}},
      {"a copy is left out", "cp.async.bulk.tensor", 0, drop, {Fault::tx_count}},
      {"the next copy is left out", "cp.async.bulk.tensor", 1, drop, {Fault::tx_count}},
  };
}

// Returns mutants whose error is in the tensor-core products or in the epilogue, after the fences of `sets`
// sets of barriers.
inline std::vector<Mutant> multiplying(int sets = 1) {
  return {
      {"no wgmma.fence", "wgmma.fence", 0, drop, {Fault::matrix_fence}},
      {"no wgmma.commit_group", "wgmma.commit_group", 0, drop, {Fault::race, Fault::matrix_registers}},
      {"wait_group 1 for 0", "wgmma.wait_group", 0, add_to(0, 1), {Fault::race, Fault::matrix_registers}},
      {"no wait_group", "wgmma.wait_group", 0, drop, {Fault::race, Fault::matrix_registers}},
      {"no proxy fence before the store", "fence.proxy.async", sets, drop, {Fault::proxy_fence}},
      {"no wait for the stores", "cp.async.bulk.wait_group", 0, drop, {Fault::race, Fault::early_exit}, 8},
  };
}

inline std::vector<Mutant> operator+(std::vector<Mutant> a, const std::vector<Mutant>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace ptxbuilder::test
