// `ptxb tune model` fits the model that predicts the time of a product to times that were measured.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/family/commands.h"
#include "kernels/measure/files.h"
#include "kernels/tune/model_fit.h"
#include "ptxbuilder/file_text.h"

namespace ptxbuilder::bench::tune_model_command {

struct Words {
  std::vector<std::string> times;
  std::string write;
  int parts = 5;
  bool json = false;
};

nlohmann::ordered_json to_json(const Fit& fit) {
  return {{"error", fit.error}, {"behind", fit.behind}, {"worst", fit.worst}, {"products", fit.products}};
}

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
  if (products.empty()) throw Error("no product has times of two tiles");
  const kernels::ModelConstants now;
  nlohmann::ordered_json json;
  auto tell = [&](const char* name, const char* key, const Fit& fit) {
    json[key] = to_json(fit);
    if (!w.json) show(name, fit);
  };
  tell("as it is", "as_it_is", fit_of(products, now));
  const kernels::ModelConstants constants = fitted(products, now);
  tell("fitted", "fitted", fit_of(products, constants));
  if (w.parts > 1) tell("by others' fit", "by_others_fit", cross_validated(products, now, w.parts));
#define PTXBUILDER_CONSTANT(name, value, meaning) json["constants"][#name] = constants.name;
#include "kernels/gemm/model.def"
#undef PTXBUILDER_CONSTANT
  if (w.json)
    fmt::print("{}\n", json.dump());
  else
    fmt::print("\n{}", constants_text(now, constants));
  if (!w.write.empty()) write_file(w.write, model_text(file_text(w.write), constants));
  return 0;
}

command::Command add(const command::Arguments& tune) {
  const command::Arguments app = tune.command("model",
                                              "fit the constants of the model of a product's time to times "
                                              "that gemm_bench --set fit --times measured");
  auto words = std::make_shared<Words>();
  app.option("TIMES", words->times, "files of times, such as kernels/gemm/fit_times.txt").required();
  app.option("--parts", words->parts,
             "number of parts into which the products are divided; each part is also evaluated with "
             "constants that were fitted to the others; 1 for no such evaluation")
      .from(1, 100)
      .with_default();
  app.option("--write", words->write, "put the constants into this file, such as kernels/gemm/model.def");
  app.flag("--json", words->json, "as JSON");
  return {app, [words] { return run(*words); }};
}

const command::CommandRegistration registration(add, "tune");

}  // namespace ptxbuilder::bench::tune_model_command
