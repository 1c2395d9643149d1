// `report` prints the resources that a compiled kernel uses, and what limits its speed.
#include "kernels/inspect/report.h"

#include <fmt/format.h>

#include <memory>

#include "kernels/command/kernel_commands.h"
#include "kernels/family/kernel_command.h"
#include "kernels/family/run_line.h"

namespace ptxbuilder::command {
namespace {

struct ReportWords : RunWords {
  ReportOptions report;
};

}  // namespace

void add_report(std::vector<Command>& commands, const Arguments& top) {
  auto words = std::make_shared<ReportWords>();
  add_kernel_command(
      commands, top, "report",
      "show registers, shared memory, occupancy, the work of loops, and what bounds a kernel's speed",
      [words](const Arguments& app, const Family&) {
        const Option measured = app.option("--measured", words->report.measured,
                                           "the time of this kernel, as the output of `bench --json`")
                                    .shown_as("FILE.json");
        app.flag("--bench", words->report.bench, "time it on a GPU").excludes(measured);
        app.option("--device", words->options.device, "the device for --bench: cuda, or auto")
            .shown_as("NAME");
        app.option("--launches", words->options.run.launches, "number of launches that --bench times")
            .from(1, 100000)
            .shown_as("N");
        add_nvdisasm_option(app, *words);
        add_compile_options(app, *words);
      },
      [words](const ChosenKernel& chosen) {
        settle(*words);
        const std::string json = report_json(chosen.family, chosen.fields, words->options, words->report);
        fmt::print("{}", words->options.json ? json + "\n" : report_text(json));
        return static_cast<int>(Outcome::good);
      });
}

}  // namespace ptxbuilder::command
