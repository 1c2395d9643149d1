// The matrix product of clusters verifies on every schedule, and its mutants are reported.
#include "pipeline_mutants.h"

namespace ptxbuilder::test::gemm_mutants_test {

// CTAs of a cluster do not meet at the end: whoever counts the stages hands back those that are filled again,
// and no other.
TEST_CASE("emulator: gemm with clusters and its mutants") {
  Subject subject("gemm", {{"m", 128},
                           {"n", 136},
                           {"k", 264},
                           {"bm", 64},
                           {"bn", 64},
                           {"stages", 2},
                           {"consumers", 1},
                           {"cluster_m", 2},
                           {"sms", 4}});
  const char* const counted = "setp.gt.s32";  // of a tile's last stage, of one under a store, of the others
  const std::vector<Fault> too_many = {Fault::early_exit, Fault::arrival_count};
  check_mutants(
      subject,
      loading() + multiplying() +
          std::vector<Mutant>{
              {"a tile's last stage is always handed back", counted, 0, set_operand(2, -100), too_many},
              {"a tile's last stage is never handed back",
               counted,
               0,
               set_operand(2, 100),
               {Fault::deadlock}},
              {"stages are always handed back late", counted, 2, set_operand(2, -100), too_many},
              {"a stage more is handed back late", counted, 2, add_to(2, -1), too_many},
              {"a stage less is handed back late", counted, 2, add_to(2, 1), {Fault::deadlock}}});
}

}  // namespace ptxbuilder::test::gemm_mutants_test
