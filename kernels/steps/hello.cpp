// hello: every thread prints and stores its number.
#include "kernels/family/family.h"
#include "kernels/family/run.h"

namespace ptxbuilder::kernels {
namespace {

Kernel hello(uint32_t ctas, uint32_t threads) {
  Kernel k("hello");
  auto [out] = k.params<gptr<u32>>("out");
  k.threads(threads);
  k.grid(std::to_string(ctas));
  k.describe({{"out", "gets each thread's number in the grid"}});
  u32 i = ctaid_x() * threads + tid_x();
  print("hello from thread %u of CTA %u\n", {tid_x(), ctaid_x()});
  out[i] = i;
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  uint64_t count = static_cast<uint64_t>(f["ctas"] * f["threads"]);
  command::Tensor out = run.output(DType::u32, {count});
  run.launch({out.pointer()});
  run.check(out, 1, [](size_t i) { return command::Expected{static_cast<double>(i), 0}; });
  run.measure(0, 4 * static_cast<double>(count));
}

const command::Registration registration({
    .name = "hello",
    .summary = "printf from every thread",
    .fields = {{"ctas", 2, "CTAs of the grid"}, {"threads", 4, "threads of a CTA"}},
    .build =
        [](const command::Fields& f) {
          return hello(static_cast<uint32_t>(f["ctas"]), static_cast<uint32_t>(f["threads"]));
        },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels
