// Tests the library's own kernels, as currently built. They must verify on every schedule, and their mutants
// must be reported.
#include "pipeline_mutants.h"

namespace ptxbuilder::test::emulator_families_test {
namespace {

const char* const load = "cp.async.bulk.tensor.2d.shared";

}  // namespace

TEST_CASE("emulator: gemm_warp_specialized and its mutants") {
  const int stages = 2;
  Subject subject("gemm_warp_specialized",
                  {{"m", 128}, {"n", 72}, {"k", 200}, {"bm", 128}, {"bn", 64}, {"stages", stages}});
  check_mutants(
      subject,
      publishing() + loading() + multiplying() +
          std::vector<Mutant>{
              {"a full barrier for 2, by name",
               "mbarrier.init",
               0,
               add_to(1, 1),
               {Fault::deadlock},
               1,
               "full[0]"},
              {"an empty barrier for one less",
               "mbarrier.init",
               stages,
               add_to(1, -1),
               {Fault::arrival_count, Fault::phase_skipped, Fault::race}},
              {"an empty barrier for one more",
               "mbarrier.init",
               stages,
               add_to(1, 1),
               {Fault::deadlock},
               1,
               "mbarrier empty[0] (initialised for 9"},
              {"16 B too many expected, by name",
               "mbarrier.arrive.expect_tx",
               0,
               add_to(2, 16),
               {Fault::tx_count},
               1,
               "mbarrier full["},
              {"a copy twice as far", load, 0, add_to(0, 16384), {Fault::race}, 1, "tile 1 (bf16 64x64)[0]"},
              {"stages are not released", "mbarrier.arrive.shared", 0, drop, {Fault::deadlock}},
              {"the producer does not wait",
               "mbarrier.try_wait",
               0,
               do_not_wait,
               {Fault::race, Fault::arrival_count, Fault::tx_count}},
              {"the consumers do not wait",
               "mbarrier.try_wait",
               1,
               do_not_wait,
               {Fault::race, Fault::uninitialised}},
              {"setmaxnreg.inc too far", "setmaxnreg.inc", 0, add_to(0, 8), {Fault::register_budget}}});
}

TEST_CASE("emulator: gemm_tile and its mutants") {
  Subject subject("gemm_tile", {});
  check_mutants(
      subject,
      publishing() + loading() + multiplying() +
          std::vector<Mutant>{
              {"a panel of B is left out", load, 2, drop, {Fault::tx_count}},
              {"the first panel of B over A",
               load,
               1,
               add_to(0, -16384),
               {Fault::race},
               1,
               "tile 0 (f16 128x64)"},
              {"the other parity",
               "mbarrier.try_wait",
               0,
               set_operand(2, 1),
               {Fault::race},
               1,
               "tile 0 (f16 128x64)"},
              {"no wait", "mbarrier.try_wait", 0, do_not_wait, {Fault::race}},
              {"the stores are not committed",
               "cp.async.bulk.commit_group",
               0,
               drop,
               {Fault::race, Fault::early_exit},
               8},
              {"no barrier before a store", "bar.sync", 2, drop, {Fault::race, Fault::proxy_fence}}});
}

TEST_CASE("emulator: gemm_multistage and its mutants") {
  const int stages = 2;
  Subject subject("gemm_multistage",
                  {{"m", 128}, {"n", 72}, {"k", 456}, {"bm", 128}, {"bn", 64}, {"stages", stages}});
  check_mutants(
      subject,
      publishing() + loading() + multiplying() +
          std::vector<Mutant>{
              {"16 B too many expected ahead",
               "mbarrier.arrive.expect_tx",
               1,
               add_to(2, 16),
               {Fault::tx_count},
               1,
               "mbarrier full["},
              {"a copy ahead is left out", load, 2, drop, {Fault::tx_count}},
              {"a copy ahead a stage further", load, 2, add_to(0, 16384), {Fault::race}},
              {"an empty barrier for one less",
               "mbarrier.init",
               stages,
               add_to(1, -1),
               {Fault::arrival_count, Fault::phase_skipped, Fault::race}},
              {"an empty barrier for one more",
               "mbarrier.init",
               stages,
               add_to(1, 1),
               {Fault::deadlock},
               1,
               "mbarrier empty[0] (initialised for 5"},
              {"stages are not released", "mbarrier.arrive.shared", 0, drop, {Fault::deadlock}},
              {"no wait for a full stage",
               "mbarrier.try_wait",
               1,
               do_not_wait,
               {Fault::race, Fault::uninitialised}},
              {"no barrier before the store", "bar.sync", 2, drop, {Fault::race, Fault::proxy_fence}},
              {"the store is not committed",
               "cp.async.bulk.commit_group",
               0,
               drop,
               {Fault::race, Fault::early_exit},
               1}});
}

TEST_CASE("emulator: gemm_pingpong and its mutants") {
  const int stages = 2;
  Subject subject(
      "gemm_pingpong",
      {{"m", 128}, {"n", 136}, {"k", 136}, {"bm", 64}, {"bn", 64}, {"stages", stages}, {"ctas", 1}});
  check_mutants(
      subject,
      publishing(2) + loading() + multiplying(2) +
          std::vector<Mutant>{
              {"an empty barrier for one less",
               "mbarrier.init",
               stages,
               add_to(1, -1),
               {Fault::arrival_count, Fault::phase_skipped, Fault::race}},
              {"an empty barrier for both consumers",
               "mbarrier.init",
               stages,
               add_to(1, 4),
               {Fault::deadlock},
               1,
               "mbarrier empty[0] (initialised for 8"},
              {"a turn for one more",
               "mbarrier.init",
               2 * stages + 1,
               add_to(1, 1),
               {Fault::deadlock},
               1,
               "mbarrier turn[1] (initialised for 5"},
              {"a turn for one less",
               "mbarrier.init",
               2 * stages + 1,
               add_to(1, -1),
               {Fault::arrival_count, Fault::phase_skipped, Fault::race, Fault::deadlock}},
              {"stages are not released", "mbarrier.arrive.shared", 0, drop, {Fault::deadlock}},
              {"the turn is not passed", "mbarrier.arrive.shared", 1, drop, {Fault::deadlock}, 1, "turn["},
              {"the producer does not wait",
               "mbarrier.try_wait",
               0,
               do_not_wait,
               {Fault::race, Fault::arrival_count, Fault::tx_count}},
              {"the consumers do not wait for their turn",
               "mbarrier.try_wait",
               1,
               do_not_wait,
               {Fault::race, Fault::uninitialised, Fault::arrival_count, Fault::phase_skipped}},
              {"the consumers do not wait for stages",
               "mbarrier.try_wait",
               2,
               do_not_wait,
               {Fault::race, Fault::uninitialised}},
              {"no barrier before a store", "bar.sync", 2, drop, {Fault::race, Fault::proxy_fence}}});
}

TEST_CASE("emulator: gemm_persistent and its mutants") {
  const int stages = 2;
  Subject subject("gemm_persistent", {{"m", 128},
                                      {"n", 136},
                                      {"k", 136},
                                      {"bm", 64},
                                      {"bn", 64},
                                      {"stages", stages},
                                      {"cluster_m", 2},
                                      {"ctas", 4}});
  check_mutants(
      subject,
      loading() + multiplying() +
          std::vector<Mutant>{
              {"no fence after the init", "fence.", 0, drop, {Fault::mbarrier_init}, 2},
              {"no cluster barrier after the init",
               "barrier.cluster.",
               0,
               drop,
               {Fault::mbarrier_use, Fault::mbarrier_init},
               2},
              {"no cluster barrier at the end",
               "barrier.cluster.",
               2,
               drop,
               {Fault::early_exit, Fault::arrival_count},
               2},
              {"an empty barrier for one less",
               "mbarrier.init",
               stages,
               add_to(1, -1),
               {Fault::arrival_count, Fault::phase_skipped, Fault::race}},
              {"an empty barrier for one more",
               "mbarrier.init",
               stages,
               add_to(1, 1),
               {Fault::deadlock},
               1,
               "mbarrier empty[0]"},
              {"a multicast to this CTA alone", load, 1, set_operand(3, 1), {Fault::tx_count, Fault::race}},
              {"a multicast beyond the cluster", load, 1, set_operand(3, 7), {Fault::operand}},
              {"stages are not released", "mbarrier.arrive.shared", 0, drop, {Fault::deadlock}},
              {"stages are released to one CTA alone",
               "mapa",
               0,
               set_operand(2, 0),
               {Fault::arrival_count, Fault::deadlock, Fault::race, Fault::phase_skipped}},
              {"the producer does not wait",
               "mbarrier.try_wait",
               0,
               do_not_wait,
               {Fault::race, Fault::arrival_count, Fault::tx_count}},
              {"the consumers do not wait",
               "mbarrier.try_wait",
               1,
               do_not_wait,
               {Fault::race, Fault::uninitialised}},
              {"no barrier before a store", "bar.sync", 1, drop, {Fault::race, Fault::proxy_fence}}});
}

TEST_CASE("emulator: saxpy_tma and its mutants") {
  Subject subject("saxpy_tma", {{"m", 64}, {"n", 64}});
  check_mutants(
      subject,
      publishing() + loading() +
          std::vector<Mutant>{
              {"half the bytes expected", "mbarrier.arrive.expect_tx", 0, add_to(2, -128), {Fault::tx_count}},
              {"a copy to an odd place", "cp.async.bulk.tensor", 0, add_to(0, 16), {Fault::misaligned}},
              {"both copies to one place",
               "add.s32",
               2,
               set_operand(2, 0),
               {Fault::race},
               1,
               "tile 0 (f32 1x64)"},
              {"the other parity",
               "mbarrier.try_wait",
               0,
               set_operand(2, 1),
               {Fault::race, Fault::uninitialised}},
              {"no wait", "mbarrier.try_wait", 0, do_not_wait, {Fault::race}}});
}

}  // namespace ptxbuilder::test::emulator_families_test
