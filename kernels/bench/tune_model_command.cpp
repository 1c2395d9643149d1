// `ptxb tune model`: fits the model of a product's time to measured times of tiles.
#include <fmt/format.h>

#include "kernels/bench/files.h"
#include "kernels/bench/model_fit.h"
#include "kernels/bench/tune_commands.h"
#include "kernels/command/commands.h"
#include "ptxbuilder/file_text.h"

namespace ptxbuilder::bench {
namespace {

struct Words {
  std::vector<std::string> times;
  std::string write;
  int parts = 5;
};

void show(const char* name, const Fit& fit) {
  fmt::print(
      "{:16} predictions {:5.2f} % off; its tile {:5.2f} % slower than the fastest, {:.1f} % at worst; {} "
      "products\n",
      name, 100 * fit.error, 100 * fit.behind, 100 * fit.worst, fit.products);
  std::fflush(stdout);
}

int run(const Words& w) {
  std::vector<TimedProduct> products;
  for (const std::string& file : w.times)
    for (TimedProduct& p : parse_tile_times(file_text(file)))
      if (p.tiles.size() > 1) products.push_back(std::move(p));
  if (products.empty()) throw Error("no product has the times of two tiles");
  const kernels::ModelConstants now;
  show("as it is", fit_of(products, now));
  const kernels::ModelConstants constants = fitted(products, now);
  show("fitted", fit_of(products, constants));
  if (w.parts > 1) show("by others' fit", cross_validated(products, now, w.parts));
  fmt::print("\n{}", constants_text(now, constants));
  if (!w.write.empty()) write_file(w.write, model_text(file_text(w.write), constants));
  return 0;
}

}  // namespace

command::Command add_tune_model(const command::Arguments& tune) {
  const command::Arguments app = tune.command(
      "model",
      "the constants of the model of a product's time, by times that gemm_bench --set fit --times measured");
  auto words = std::make_shared<Words>();
  app.option("TIMES", words->times, "files of times, such as kernels/gemm/fit_times.txt").required();
  app.option("--parts", words->parts,
             "of the products: each is also judged by constants that were fitted to the others; 1: not")
      .from(1, 100)
      .with_default();
  app.option("--write", words->write, "put the constants into this file, such as kernels/gemm/model.def");
  return {app, [words] { return run(*words); }};
}

}  // namespace ptxbuilder::bench
