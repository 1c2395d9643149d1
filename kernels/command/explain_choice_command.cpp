// `ptxb explain-choice` shows why a matrix product uses its tile.
#include <fmt/format.h>

#include <random>

#include "kernels/family/commands.h"
#include "kernels/gemm/product_form.h"
#include "kernels/measure/operation.h"
#include "kernels/tune/choice_report.h"
#include "kernels/tune/product_words.h"
#include "kernels/tune/tune.h"
#include "kernels/tune/tune_report.h"
#include "ptxbuilder/file_text.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::bench::explain_choice_command {

struct Words {
  ProductWords product;
  std::string tuned_file;
  int top = 8, multiprocessors = hopper::multiprocessors;
  bool measure = false, json = false;
};

// Measures the tiles. Returns the exit code, which is 3 if a result is wrong.
int measure(ChoiceReport& report, size_t top) {
  const Gpu gpu;
  MethodOptions options = {
      .rounds = 12, .burst_milliseconds = 10, .least_launches = 10, .warm_up_seconds = 1};
  options.seed = std::random_device()();
  Method method(gpu, nullptr, options);
  report.multiprocessors = gpu.device().properties().multiprocessors;
  OurOptions ours;
  if (!report.file.empty()) ours.tiles = {text(report.choice.tile)};
  const ShapeResult result = tune(method, report.problem, product_tiles(gpu, static_cast<int>(top), ours));
  bool right = true;
  for (const TunedTile& t : tuned_tiles(result, text(report.choice.tile), report.multiprocessors))
    if (t.timed()) report.microseconds[t.tile] = t.microseconds;
  for (const Entry& e : result.entries) right = right && e.wrong.empty();
  return right ? 0 : 3;
}

int run(const Words& w) {
  const GemmProblem problem = w.product.problem();
  std::optional<kernels::GemmTile> tuned;
  if (!w.tuned_file.empty()) {
    file_text(w.tuned_file);  // throws if the file cannot be read; a product would treat it like an empty
                              // file
    tuned = kernels::tile_in(w.tuned_file, operation_of(problem), {problem.m, problem.n, problem.k, 1});
  }
  ChoiceReport report =
      explain_choice(problem, w.multiprocessors, static_cast<size_t>(w.top), tuned, w.tuned_file);
  const int code = w.measure ? measure(report, static_cast<size_t>(w.top)) : 0;
  fmt::print("{}", w.json ? choice_json(report) : choice_text(report));
  return code;
}

command::Command add(const command::Arguments& ptxb) {
  const command::Arguments app = ptxb.command(
      "explain-choice",
      "show why a matrix product gets its tile: the terms of the model, and the next best tiles");
  auto words = std::make_shared<Words>();
  Words& w = *words;
  add_product(app, w.product);
  app.option("--top", w.top, "number of the model's best tiles that are shown").from(1, 100).with_default();
  app.option("--multiprocessors", w.multiprocessors,
             "number of SMs that the model assumes; with --measure, that of the GPU")
      .from(1, 1024)
      .with_default();
  app.option("--tuned-file", w.tuned_file,
             "a file that MatmulOptions::tune wrote to ~/.cache/ptxbuilder/matmul, from which the product's "
             "tile is chosen");
  app.flag("--measure", w.measure, "also print measured times, on a GPU");
  app.flag("--json", w.json, "as JSON");
  return {app, [words] { return run(*words); }};
}

const command::CommandRegistration registration(add);

}  // namespace ptxbuilder::bench::explain_choice_command
