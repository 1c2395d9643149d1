#include "kernels/command/main.h"

#include <fmt/format.h>

#include <filesystem>

#include "kernels/command/kernel_commands.h"
#include "kernels/family/outcome.h"
#include "kernels/family/run_line.h"
#include "kernels/inspect/comparison.h"

namespace ptxbuilder::command {
namespace {

int commands_main(const Program& program, std::vector<std::string> words) {
  bool names_places = true;
  const auto main = [&] {
    const CommandLine line(program.summary, program.name);
    const Arguments top = line.arguments();
    top.needs_command();
    line.helps_with_all();
    std::vector<Command> commands = add_commands(top);
    add_emit(commands, top);
    add_run(commands, top);
    add_bench(commands, top);
    add_profile(commands, top);
    add_annotate(commands, top);
    add_report(commands, top);
    add_tune(commands, top, program);
    add_prove(commands, top);
    commands.push_back(list_command(top));
    if (!program.is_ptxb) {  // `ptxb` registers these commands itself, with more options
      commands.push_back(explain_command(top, own_ptx));
      commands.push_back(lint_command(top, own_ptx));
    }
    add_export(commands, top);
    if (!program.is_ptxb && families().size() == 1)  // the name of a single kernel may be omitted
      for (const Command& c : commands)
        if (const std::string& name = families().front().name; c.takes_kernel && !words.empty() &&
                                                               words[0] == c.arguments.name() &&
                                                               (words.size() == 1 || words[1] != name))
          words.insert(words.begin() + 1, name);
    line.parse(words);
    for (const Command& c : commands) {
      if (!c.arguments.chosen()) continue;
      names_places = !program.is_ptxb || c.takes_kernel;
      return c.run();
    }
    return static_cast<int>(Outcome::usage);
  };
  return guarded(main, names_places);
}

}  // namespace

int kernel_main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string executable = std::filesystem::path(argv[0]).filename();
  if (families().size() != 1)
    return commands_main({executable, "Builds, runs and measures kernels", false}, words);
  const Family& family = families().front();
  if (!words.empty() && !words[0].starts_with("-"))
    return commands_main({executable, family.summary, false}, words);
  return run_line(family,
                  fmt::format("Commands, each with --help, the most important first: {} run, bench, profile, "
                              "emit, report, prove, annotate, explain, lint, tune, export, list.",
                              executable),
                  {compare_edited, prove_family}, words);
}

int ptxb_main(int argc, char** argv) {
  return commands_main({"ptxb", "Builds, runs and measures Hopper kernels", true}, {argv + 1, argv + argc});
}

}  // namespace ptxbuilder::command
