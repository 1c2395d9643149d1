// `ptxb tune gemm` measures the tiles that the model predicts to be best for a product, and reports the
// fastest.
#include <fmt/format.h>

#include "kernels/family/commands.h"
#include "kernels/measure/files.h"
#include "kernels/tune/product_words.h"
#include "kernels/tune/tune.h"
#include "kernels/tune/tune_report.h"
#include "kernels/tune/tune_words.h"
#include "kernels/tune/tuned_table.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::bench::tune_gemm_command {

struct Words {
  ProductWords product;
  std::string device = "cuda", write;
  bool json = false;
  int top = 8;
  TuneWords tune;
};

int run(const Words& w) {
  const GemmProblem problem = w.product.problem();
  // If options are incompatible, choose() throws an Error that names them, even if there is no GPU.
  const kernels::GemmSize size = {problem.m, problem.n, problem.k, 1};
  choose(operation_of(problem), size, hopper::multiprocessors);
  if (w.device == "emulator")
    throw Error(
        "--device emulator: tuning needs a Hopper GPU, since the speed of an emulator says nothing about a "
        "GPU");
  const Gpu gpu;
  const int multiprocessors = gpu.device().properties().multiprocessors;
  Method method(gpu, nullptr, w.tune.method_options());
  RunResult measured;
  measured.multiprocessors = multiprocessors;
  measured.results.push_back(tune(method, problem, product_tiles(gpu, w.top, w.tune.our_options())));
  const std::vector<TunedTile> tiles = tuned_tiles(
      measured.results[0], text(choose(operation_of(problem), size, multiprocessors)), multiprocessors);
  fmt::print("{}", w.json ? tune_json(problem, tiles) : tune_table(problem, tiles));
  for (const Entry& entry : measured.results[0].entries)
    if (!entry.wrong.empty()) return 3;
  const std::string row = tuned_rows(measured);
  if (row.empty()) throw Error("no tile could be timed");
  if (w.write.empty()) return 0;
  write_file(w.write, merge_tuned(read_file_if_any(w.write), row));
  if (!w.json) fmt::print("{} has {}", w.write, row);
  return 0;
}

command::Command add(const command::Arguments& tune) {
  const command::Arguments app =
      tune.command("gemm", "measure the tiles that the model predicts to be the best for one matrix product");
  auto words = std::make_shared<Words>();
  Words& w = *words;
  const command::Option slow = add_product(app, w.product);
  app.option("--top", w.top, "number of the model's best tiles that are measured")
      .from(1, 100)
      .with_default();
  add_tune_options(app, w.tune);
  app.option("--device", w.device, "the emulator has no speed that is worth measuring")
      .among({"cuda", "auto", "emulator"})
      .with_default();
  app.flag("--json", w.json, "print JSON, with every term of the prediction");
  const command::Option write =
      app.option("--write", w.write,
                 "put the fastest tile into its place in this table, such as kernels/gemm/tuned.def");
  slow.excludes(write);  // the table is for fast accumulation
  return {app, [words] { return run(*words); }};
}

const command::CommandRegistration registration(add, "tune");

}  // namespace ptxbuilder::bench::tune_gemm_command
