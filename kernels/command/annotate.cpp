// `annotate` prints a kernel's machine code together with its C++ source.
#include "kernels/inspect/annotate.h"

#include <memory>

#include "kernels/command/kernel_commands.h"
#include "kernels/family/kernel_command.h"
#include "kernels/family/run_line.h"

namespace ptxbuilder::command {

void add_annotate(std::vector<Command>& commands, const Arguments& top) {
  struct Words : RunWords {
    AnnotateOptions annotate;
  };
  auto words = std::make_shared<Words>();
  add_kernel_command(
      commands, top, "annotate", "a kernel's SASS and PTX with the C++ next to it",
      [words](const Arguments& app, const Family&) {
        app.option("--ncu", words->annotate.ncu,
                   "samples: what `ncu --page source --print-source sass --csv` printed")
            .shown_as("FILE.csv");
        app.option("--source", words->annotate.folder,
                   "the folder of the C++ files; by default the working folder")
            .shown_as("DIR");
        add_nvdisasm_option(app, *words);
        add_compile_options(app, *words);
      },
      [words](const ChosenKernel& chosen) {
        settle(*words);
        annotate_kernel(chosen.family, chosen.fields, words->options, words->annotate);
        return static_cast<int>(Outcome::good);
      });
}

}  // namespace ptxbuilder::command
