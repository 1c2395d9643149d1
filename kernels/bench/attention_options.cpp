#include "kernels/bench/attention_options.h"

#include "kernels/measure/attention_shapes.h"
#include "kernels/measure/shapes.h"

namespace ptxbuilder::bench {
namespace {

struct AttentionWords : CommonWords {
  std::string set = "grid";
  std::vector<std::string> groups, shapes;
};

std::vector<Case> chosen_cases(const AttentionWords& words, uint64_t seed) {
  if (!words.groups.empty() && !words.shapes.empty())
    throw UsageError("--shape and --shapes cannot be used together");
  std::vector<Case> cases;
  for (const std::string& text : words.shapes) cases.push_back({"given", parse_attention(text)});
  if (!cases.empty()) return cases;
  const AttentionSet& set = attention_set(words.set);
  return of_groups(set.name, set.cases(seed), words.groups);
}

}  // namespace

Options parse_attention_options(const std::vector<std::string>& words) {
  Options options;
  AttentionWords chosen;
  const command::CommandLine line(
      "Measures this project's attention and that of other processes in interleaved, paired rounds",
      "attention_bench");
  const command::Arguments& app = line.arguments();
  app.option("--set", chosen.set,
             "grid; extra: shared keys, other widths, packed sequences that --seed draws; or e4m3, compared "
             "with bf16")
      .shown_as("NAME");
  app.option("--shapes", chosen.groups, "groups of the set, separated by commas; all unless given")
      .by_comma()
      .shown_as("GROUP,...");
  app.option("--shape", chosen.shapes,
             "a shape instead of the set's, with :causal, :left=N, :right=N and :bf16 or :e4m3 after it; may "
             "be repeated")
      .shown_as("bN_sN_hN_dN");
  add_method_options(app, chosen, options);
  app.option("--contenders", options.contenders,
             "those that run, separated by commas; else all. Contenders of other options always run")
      .by_comma()
      .shown_as("NAME,...");
  app.option("--tiles", options.ours.tiles,
             "our tiles to compare, separated by commas: 128x176_2_turns,128x128_3_persistent")
      .by_comma()
      .shown_as("TILE,...");
  app.option("--tune", options.ours.candidates,
             "measure the N tiles with the best predictions for each shape, in addition to the chosen one")
      .from(1, 100)
      .shown_as("N");
  add_peer_options(app, chosen, options);
  add_compiler_options(app, chosen, options);
  add_report_options(app, options);
  add_chart_option(app, options);
  line.parse(words);
  check_device(chosen);
  read_words([&] {
    settle(chosen, options);
    options.cases = chosen_cases(chosen, options.method.seed);
  });
  return options;
}

}  // namespace ptxbuilder::bench
