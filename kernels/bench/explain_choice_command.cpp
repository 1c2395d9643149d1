// `ptxb explain-choice`: why a matrix product gets its tile.
#include <fmt/format.h>

#include <random>

#include "kernels/bench/choice_report.h"
#include "kernels/bench/operation.h"
#include "kernels/bench/tune.h"
#include "kernels/bench/tune_report.h"
#include "kernels/command/commands.h"
#include "kernels/gemm/tuned_file.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::bench {
namespace {

struct Words {
  std::string dtype = "bf16", d_type, layout = "TN", tuned_file;
  GemmProblem problem;
  int top = 8, multiprocessors = hopper::multiprocessors;
  bool slow_accumulation = false, measure = false, json = false;
};

GemmProblem problem_of(const Words& w) {
  GemmProblem p = w.problem;
  p.a = p.b = *dtype_from_name(w.dtype);
  p.d = w.d_type.empty() ? usual_output(p.a) : *dtype_from_name(w.d_type);
  p.set_layout(w.layout);
  p.fast_accumulation = !w.slow_accumulation;
  return p;
}

// Exit code 3 for a wrong result.
int measure(ChoiceReport& report, size_t top) {
  const Gpu gpu;
  MethodOptions method = {.rounds = 12, .burst_milliseconds = 10, .least_launches = 10, .warm_up_seconds = 1};
  method.seed = std::random_device()();
  report.multiprocessors = gpu.device().properties().multiprocessors;
  OurOptions ours;
  if (!report.file.empty()) ours.tiles = {text(report.choice.tile)};
  const ShapeResult result = tune(gpu, report.problem, static_cast<int>(top), method, ours);
  bool right = true;
  for (const TunedTile& t : tuned_tiles(result, report.multiprocessors))
    if (t.timed()) report.microseconds[t.tile] = t.microseconds;
  for (const Entry& e : result.entries) right = right && e.wrong.empty();
  return right ? 0 : 3;
}

int run(const Words& w) {
  const GemmProblem problem = problem_of(w);
  std::optional<kernels::GemmTile> tuned;
  if (!w.tuned_file.empty())
    tuned = kernels::TunedFile(w.tuned_file, nullptr)
                .find(operation_of(problem), {problem.m, problem.n, problem.k, 1});
  ChoiceReport report =
      explain_choice(problem, w.multiprocessors, static_cast<size_t>(w.top), tuned, w.tuned_file);
  const int code = w.measure ? measure(report, static_cast<size_t>(w.top)) : 0;
  fmt::print("{}", w.json ? choice_json(report) : choice_text(report));
  return code;
}

command::Command add(const command::Arguments& ptxb) {
  const command::Arguments app = ptxb.command(
      "explain-choice", "why a matrix product gets its tile: the model's terms, and the runners-up");
  auto words = std::make_shared<Words>();
  Words& w = *words;
  auto size = [&](const char* name, int64_t& value, const char* help) {
    app.option(name, value, help).required().from(int64_t{1}, int64_t{1} << 24);
  };
  size("M", w.problem.m, "rows of D");
  size("N", w.problem.n, "columns of D");
  size("K", w.problem.k, "depth of the product");
  app.option("--dtype", w.dtype, "of A and B")
      .among({"bf16", "f16", "tf32", "e4m3", "e5m2", "s8"})
      .with_default();
  app.option("--d-type", w.d_type, "of D; as A, f32 of tf32, s32 of s8, bf16 of e4m3 and e5m2, unless given")
      .among({"bf16", "f16", "f32", "s32"});
  app.option("--layout", w.layout, "as cuBLAS is called for row-major data: NN is A[m,k] times B[k,n]")
      .among({"TN", "NN", "NT", "TT"})
      .with_default();
  app.flag("--slow-accumulation", w.slow_accumulation, "of e4m3 and e5m2: promote to f32 on the way");
  app.option("--top", w.top, "of the model's tiles, the first so many").from(1, 100).with_default();
  app.option("--multiprocessors", w.multiprocessors, "SMs that the model counts on; the GPU's with --measure")
      .from(1, 1024)
      .with_default();
  app.option(
      "--tuned-file", w.tuned_file,
      "what MatmulOptions::tune kept, one of ~/.cache/ptxbuilder/matmul: as a product with it is chosen");
  app.flag("--measure", w.measure, "on a GPU: the measured times too");
  app.flag("--json", w.json, "as JSON");
  return {app, [words] { return run(*words); }};
}

const command::CommandRegistration registration(add);

}  // namespace
}  // namespace ptxbuilder::bench
