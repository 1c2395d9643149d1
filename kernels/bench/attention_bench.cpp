// attention_bench compares this project's attention on a GPU with that of other libraries, which run in other
// processes, for the shapes that matter in practice.
#include "kernels/bench/attention_options.h"
#include "kernels/bench/run.h"
#include "kernels/tune/our_attention.h"

int main(int argc, char** argv) {
  using namespace ptxbuilder;
  return command::guarded(
      [&] {
        const bench::Options options = bench::parse_attention_options({argv + 1, argv + argc});
        return static_cast<int>(bench::run(
            options, {.title = "Attention",
                      .inputs = "N(0,1) inputs",
                      .checks = "rows against float64 and the rest against ours",
                      .ours = [&](const bench::Gpu& gpu) { return bench::our_attention(gpu, options.ours); },
                      .against_peers = true}));
      },
      true);
}
