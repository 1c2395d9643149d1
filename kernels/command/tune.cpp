// `tune` times a kernel for several values of its fields.
#include <fmt/format.h>

#include <memory>

#include "kernels/command/kernel_commands.h"
#include "kernels/family/kernel_command.h"
#include "kernels/family/run_line.h"
#include "kernels/tune/fields.h"

namespace ptxbuilder::command {

void add_tune(std::vector<Command>& commands, const Arguments& top, const Program& program) {
  struct Words : RunWords {
    TuneOptions tune;
  };
  auto words = std::make_shared<Words>();
  add_kernel_command(
      commands, top, "tune", "time a kernel for several values of its fields, on a GPU",
      [words](const Arguments& app, const Family&) {
        app.option("--field", words->tune.fields,
                   "a field and the values to try, such as bm=64,128; repeat the option for other fields: "
                   "all combinations are timed")
            .required()
            .shown_as("NAME=VALUE,...");
        app.option("--rounds", words->tune.rounds,
                   "number of rounds; each combination is timed once per round")
            .from(1, 10000)
            .with_default();
        add_device_options(app, *words);
        add_compile_options(app, *words);
      },
      [words, program](const ChosenKernel& chosen) {
        settle(*words);
        words->tune.program = program.is_ptxb || families().size() > 1
                                  ? fmt::format("{} run {}", program.name, chosen.family.name)
                                  : program.name;
        return static_cast<int>(
            tune(chosen.family, chosen.fields, chosen.given, words->options, words->tune));
      });
}

}  // namespace ptxbuilder::command
