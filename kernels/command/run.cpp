// `run` builds a kernel, runs it and verifies it; `bench` times it, and `profile` shows where its time goes.
#include <memory>

#include "kernels/command/kernel_commands.h"
#include "kernels/family/kernel_command.h"
#include "kernels/family/run_line.h"
#include "kernels/inspect/comparison.h"
#include "kernels/inspect/register_warning.h"

namespace ptxbuilder::command {
namespace {

// Adds a command that runs a kernel; `add_own` adds the options that only this command has.
void add_execution(
    std::vector<Command>& commands, const Arguments& top, const std::string& name, const std::string& help,
    const std::shared_ptr<RunWords>& words, const std::function<void(const Arguments&)>& add_own,
    const std::function<void(const Family&)>& choose = [](const Family&) {}) {
  words->options.compare = compare_edited;
  add_kernel_command(
      commands, top, name, help,
      [words, add_own](const Arguments& app, const Family&) {
        add_emit_option(app, *words);
        add_keep_option(app, *words);
        add_run_options(app, *words);
        add_own(app);
        add_compile_options(app, *words);
      },
      [words, choose](const ChosenKernel& chosen) {
        choose(chosen.family);
        settle(*words);
        words->options.compiler.generated = warn_of_registers;
        return static_cast<int>(execute(chosen.family, chosen.fields, words->options));
      });
}

}  // namespace

void add_run(std::vector<Command>& commands, const Arguments& top) {
  auto words = std::make_shared<RunWords>();
  words->verify = true;
  add_execution(commands, top, "run", "run a kernel and verify it against float64", words,
                [](const Arguments&) {});
}

void add_bench(std::vector<Command>& commands, const Arguments& top) {
  auto words = std::make_shared<RunWords>();
  words->bench = true;
  add_execution(commands, top, "bench", "time a kernel", words,
                [words](const Arguments& app) { app.flag("--verify", words->verify, "verify as well"); });
}

void add_profile(std::vector<Command>& commands, const Arguments& top) {
  auto words = std::make_shared<RunWords>();
  words->verify = true;
  add_execution(
      commands, top, "profile",
      "show where a kernel's time goes, and write a trace for ui.perfetto.dev to KERNEL.pftrace, or to the "
      "file that --profile names",
      words,
      [words](const Arguments& app) {
        app.flag("--bench", words->bench, "profile the last of many launches instead of the first");
      },
      [words](const Family& family) {
        if (words->options.profile.empty()) words->options.profile = family.name + ".pftrace";
      });
}

}  // namespace ptxbuilder::command
