// Tests steps with cluster launch control. Neither Hopper nor the emulator supports it, so the test checks
// that ptxas accepts the PTX, and checks the order of the instructions.
#include "library_kit.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/tile/scheduler.h"

namespace ptxbuilder::test::cluster_launch_test {
namespace {

Kernel steps_of_launch(const char* target) {
  Kernel k("steps", {.target = target, .line_info = false});
  auto [out] = k.params<gptr<u32>>("out");
  k.grid({{"m", "3"}, {"n", "5"}});
  dynamic_scheduling_loop(k, [&, out = out](const LoopStep& s) {
    if_(tid_x() == 0, [&] { out[s.index["m"] * 5 + s.index["n"]] = s.number; });
  });
  return k;
}

}  // namespace

TEST_CASE("cluster launch control: the next CTA is requested before the body, and read after it") {
  for (const char* target : {"sm_100", "sm_120"}) {
    Kernel k = steps_of_launch(target);
    const std::string ptx = ptx_of(k);
    CAPTURE(ptx);
    size_t at = 0;
    for (const char* part :
         {"mbarrier.init.shared::cta.b64", "bar.sync 0;", "mbarrier.arrive.expect_tx",
          "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128", "st.global",
          "mbarrier.try_wait.parity", "ld.shared", "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128",
          "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128", "fence.proxy.async",
          "bar.sync 0;"}) {
      const size_t found = ptx.find(part, at);
      REQUIRE_MESSAGE(found != std::string::npos, part << " is not after the part before");
      at = found + 1;
    }
    Compiler compiler;
    CHECK_FALSE(compiler.compile(steps_of_launch(target)).cubin.empty());
  }
}

}  // namespace ptxbuilder::test::cluster_launch_test
