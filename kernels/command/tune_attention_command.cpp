// `ptxb tune attention` measures the tiles that attention may use, for one or more sizes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/family/commands.h"
#include "kernels/tune/our_attention.h"
#include "kernels/tune/tune.h"
#include "kernels/tune/tune_report.h"
#include "kernels/tune/tune_words.h"

namespace ptxbuilder::bench::tune_attention_command {

using kernels::AttentionTile;

struct Words {
  std::string dtype = "f16";
  std::vector<int64_t> queries, keys, batches;
  AttentionProblem problem = {.heads = 16, .key_heads = 0, .value_depth = 0};  // 0: as heads and depth
  std::vector<std::string> tiles;
  TuneWords tune;
  bool only = false, json = false;
};

std::vector<AttentionProblem> problems_of(const Words& w) {
  AttentionProblem p = w.problem;
  p.type = *dtype_from_name(w.dtype);
  if (p.key_heads == 0) p.key_heads = p.heads;
  if (p.value_depth == 0) p.value_depth = p.depth;
  if (p.heads % p.key_heads != 0)
    throw Error(fmt::format("--heads {} must be a multiple of --key-heads {}", p.heads, p.key_heads));
  const std::vector<int64_t> keys = w.keys.empty() ? w.queries : w.keys,
                             batches =
                                 w.batches.empty() ? std::vector<int64_t>(w.queries.size(), 1) : w.batches;
  if (keys.size() != w.queries.size() || batches.size() != w.queries.size())
    throw Error(
        fmt::format("{} lengths of queries, {} of keys and {} numbers of batches were given, but their "
                    "counts must be equal",
                    w.queries.size(), keys.size(), batches.size()));
  std::vector<AttentionProblem> all;
  for (size_t i = 0; i < keys.size(); ++i) {
    p.queries = w.queries[i], p.keys = keys[i], p.batches = batches[i];
    place(p);  // throws an Error that names the broken rule, even if there is no GPU
    all.push_back(p);
  }
  return all;
}

std::vector<AttentionTile> tiles_of(const Words& w, const AttentionProblem& problem) {
  const PlacedProblem placed = place(problem);
  std::vector<AttentionTile> tiles;
  if (!w.only) tiles = kernels::attention_candidates(placed.operation, placed.size);
  for (const std::string& word : w.tiles) {
    const AttentionTile tile = kernels::parse_attention_tile(word);
    if (std::ranges::find(tiles, tile) == tiles.end()) tiles.push_back(tile);
  }
  return tiles;
}

int run(const Words& w) {
  const std::vector<AttentionProblem> problems = problems_of(w);
  const Gpu gpu;
  const auto kernels = attention_kernels(gpu, w.tune.our_options());
  std::vector<Contenders> contenders;
  for (const AttentionProblem& problem : problems) {
    contenders.push_back(attention_tiles(gpu, kernels, tiles_of(w, problem)));
    for (const auto& one : contenders.back()) one->announce(problem);
  }
  Method method(gpu, nullptr, w.tune.method_options());
  const int multiprocessors = gpu.device().properties().multiprocessors;
  std::vector<std::string> objects;
  bool wrong = false;
  for (size_t i = 0; i < problems.size(); ++i) {
    const ShapeResult result = tune(method, problems[i], contenders[i]);
    const PlacedProblem placed = place(problems[i]);
    const std::string chosen =
        text(kernels::choose_attention(placed.operation, placed.size, multiprocessors));
    const std::vector<TunedTile> tiles = tuned_tiles(result, chosen, multiprocessors);
    wrong = wrong || std::ranges::any_of(result.entries, [](const Entry& e) { return !e.wrong.empty(); });
    if (w.json)
      objects.push_back(tune_json(problems[i], tiles));
    else
      fmt::print("{}", tune_table(problems[i], tiles));
  }
  if (w.json) fmt::print("[{}]\n", fmt::join(objects, ","));
  return wrong ? 3 : 0;
}

command::Command add(const command::Arguments& tune) {
  const command::Arguments app =
      tune.command("attention", "measure all tiles of attention, for one size or several");
  auto words = std::make_shared<Words>();
  Words& w = *words;
  AttentionProblem& p = w.problem;
  app.option("--queries", w.queries, "rows of a head of Q; several are separated by commas")
      .required()
      .by_comma();
  app.option("--keys", w.keys, "rows of a head of K and V; by default those of --queries").by_comma();
  app.option("--batches", w.batches, "batches of each; 1 by default").by_comma();
  const auto count = [&](const char* option, int64_t& value, int64_t most, const char* help) {
    app.option(option, value, help).from(int64_t{1}, most);
  };
  count("--heads", p.heads, 1 << 16, "heads of Q in a batch; 16 by default");
  count("--key-heads", p.key_heads, 1 << 16, "heads of K and V; by default those of --heads");
  count("--depth", p.depth, 256, "columns of Q and K; 128 by default");
  count("--value-depth", p.value_depth, 256, "columns of V and O; by default those of --depth");
  app.flag("--causal", p.causal,
           "whether a query sees only the keys up to its own; the last query sees all keys");
  app.option("--left", p.left, "number of keys before its own that a query sees; all by default")
      .from(int64_t{0}, int64_t{1} << 30);
  app.option("--dtype", w.dtype, "type of Q, K, V and O; O is bf16 if the others are e4m3")
      .among({"f16", "bf16", "e4m3"})
      .with_default();
  app.option("--tile", w.tiles, "another tile to measure, such as 128x176_2_turns; may be repeated");
  app.flag("--only", w.only, "only these tiles");
  add_tune_options(app, w.tune);
  app.flag("--json", w.json, "as JSON");
  return {app, [words] { return run(*words); }};
}

const command::CommandRegistration registration(add, "tune");

}  // namespace ptxbuilder::bench::tune_attention_command
