// `ptxb tune gemm`: measures the tiles that the model likes best for one product, and keeps the fastest.
#include <fmt/format.h>

#include <random>

#include "kernels/family/commands.h"
#include "kernels/measure/files.h"
#include "kernels/tune/product_words.h"
#include "kernels/tune/tune.h"
#include "kernels/tune/tune_report.h"
#include "kernels/tune/tuned_table.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::bench::tune_gemm_command {

struct Words {
  ProductWords product;
  std::string device = "cuda", write;
  bool json = false, no_cache = false;
  int top = 8;
  MethodOptions method;
  OurOptions ours;
  std::optional<uint64_t> seed;
};

int run(const Words& w) {
  const GemmProblem problem = w.product.problem();
  // Throws Error that says what does not go together, where there is a GPU or not.
  const kernels::GemmSize size = {problem.m, problem.n, problem.k, 1};
  choose(operation_of(problem), size, hopper::multiprocessors);
  if (w.device == "emulator")
    throw Error(
        "--device emulator: tuning needs a Hopper GPU, since the speed of an emulator says nothing of one");
  const Gpu gpu;
  OurOptions ours = w.ours;
  ours.cache = !w.no_cache;
  MethodOptions options = w.method;
  options.seed = w.seed ? *w.seed : std::random_device()();
  const int multiprocessors = gpu.device().properties().multiprocessors;
  Method method(gpu, nullptr, options);
  RunResult measured;
  measured.multiprocessors = multiprocessors;
  measured.results.push_back(tune(method, problem, product_tiles(gpu, w.top, ours)));
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
      tune.command("gemm", "the tiles that the model likes best for one matrix product");
  auto words = std::make_shared<Words>();
  Words& w = *words;
  const command::Option slow = add_product(app, w.product);
  app.option("--top", w.top, "of the model's tiles, the first so many").from(1, 100).with_default();
  app.option("--rounds", w.method.rounds, "in each of which all tiles run once")
      .from(1, 10000)
      .with_default();
  app.option("--burst-ms", w.method.burst_milliseconds,
             "that launches follow each other in a round, at least")
      .from(0.1, 10000.0)
      .with_default();
  app.option("--warm-up", w.method.warm_up_seconds, "before the first round, in seconds")
      .from(0.0, 600.0)
      .with_default();
  app.option("--seed", w.seed, "of data and order; fresh unless given");
  app.option("--device", w.device, "the emulator has no speed worth knowing")
      .among({"cuda", "auto", "emulator"})
      .with_default();
  app.option("--ptxas", w.ours.ptxas, "the ptxas to take; else PATH, CUDA_PATH, /usr/local");
  app.flag("--driver-assembles", w.ours.driver_assembles,
           "compile PTX by the driver, though there is a ptxas");
  app.flag("--no-cache", w.no_cache, "assemble anew, and keep nothing");
  app.flag("--json", w.json, "as JSON, with every term of the prediction");
  const command::Option write = app.option(
      "--write", w.write, "put the fastest into this table, such as kernels/gemm/tuned.def, in its place");
  slow.excludes(write);  // the table is of fast accumulation
  return {app, [words] { return run(*words); }};
}

const command::CommandRegistration registration(add, "tune");

}  // namespace ptxbuilder::bench::tune_gemm_command
