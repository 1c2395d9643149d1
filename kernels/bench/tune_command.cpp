// `ptxb tune`: measures, on a GPU, the tiles that a kernel may have for one size.
#include "kernels/bench/tune_commands.h"

namespace ptxbuilder::bench {
namespace {

command::Command add(const command::Arguments& ptxb) {
  const command::Arguments tune = ptxb.command(
      "tune", "measure the tiles of a kernel for one size, on a GPU, or fit the model to such times");
  const std::vector<command::Command> kernels = {add_tune_gemm(tune), add_tune_attention(tune),
                                                 add_tune_model(tune)};
  tune.needs_command();
  return {tune, [kernels] {
            for (const command::Command& kernel : kernels)
              if (kernel.arguments.chosen()) return kernel.run();
            return 2;
          }};
}

const command::CommandRegistration registration(add);

}  // namespace
}  // namespace ptxbuilder::bench
