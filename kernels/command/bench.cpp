// `bench` builds a kernel, runs and times it.
#include <memory>

#include "kernels/command/kernel_commands.h"
#include "kernels/family/kernel_command.h"
#include "kernels/family/run_line.h"
#include "kernels/inspect/comparison.h"
#include "kernels/inspect/register_warning.h"

namespace ptxbuilder::command {

void add_bench(std::vector<Command>& commands, const Arguments& top) {
  auto words = std::make_shared<RunWords>();
  words->options.compare = compare_edited;
  words->bench = true;
  add_kernel_command(
      commands, top, "bench", "time a kernel",
      [words](const Arguments& app, const Family&) {
        add_emit_option(app, *words);
        add_keep_option(app, *words);
        add_run_options(app, *words);
        app.flag("--verify", words->verify, "verify as well");
        add_compile_options(app, *words);
      },
      [words](const ChosenKernel& chosen) {
        settle(*words);
        words->options.compiler.generated = warn_of_registers;
        return static_cast<int>(execute(chosen.family, chosen.fields, words->options));
      });
}

}  // namespace ptxbuilder::command
