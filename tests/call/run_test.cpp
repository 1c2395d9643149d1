// Tests a kernel family's run, and its checks.
#include "kernels/family/run.h"

#include "copy_kit.h"
#include "library_kit.h"

namespace ptxbuilder::test::run_test {
namespace {

// Returns a kernel that stores only in its first launch.
Kernel stores_once() {
  Kernel k("stores_once");
  auto [y, launches] = k.params<gptr<f32>, gptr<s32>>("y", "launches");
  k.threads(32);
  k.grid("1");
  const s32 before = launches[0];
  sync_threads();
  if_(tid_x() == 0, [&, counter = launches] { counter[0] = before + 1; });
  if_(before == 0, [&, to = y] { to[tid_x()] = f32(7); });
  return k;
}

}  // namespace

TEST_CASE("each schedule of a check begins with a poisoned output") {
  const Running running;
  const Compiled compiled = running.compile(stores_once());
  for (const int schedules : {1, 2}) {
    runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
    command::RunOptions options;
    options.schedules = schedules;
    command::Run run(*running.device, kernel, options);
    command::Tensor y = run.output(DType::f32, {32}), launches = run.output(DType::s32, {1});
    launches.set(0, 0);
    launches.to_device();
    run.launch({y.pointer(), launches.pointer()});
    run.check(y, 1, [](size_t) { return command::Expected{7, 0}; });
    REQUIRE(run.verdict());
    CHECK(run.verdict()->wrong == (schedules == 1 ? 0 : 32));
  }
}

}  // namespace ptxbuilder::test::run_test
