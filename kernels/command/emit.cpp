// `emit` writes the files of a kernel.
#include <memory>

#include "kernels/command/kernel_commands.h"
#include "kernels/family/kernel_command.h"
#include "kernels/family/run_line.h"
#include "kernels/inspect/register_warning.h"

namespace ptxbuilder::command {

void add_emit(std::vector<Command>& commands, const Arguments& top) {
  auto words = std::make_shared<RunWords>();
  add_kernel_command(
      commands, top, "emit", "write PTX, cubin, LLVM IR and sidecar of a kernel",
      [words](const Arguments& app, const Family&) {
        add_emit_option(app, *words);
        add_keep_option(app, *words);
        app.flag("--sass", words->options.sass,
                 "also write SASS: NAME.sass in the folder, or to standard output without one");
        add_nvdisasm_option(app, *words);
        app.check([words] {
          const ExecuteOptions& o = words->options;
          return o.emit.empty() && o.compiler.keep.empty() && !o.sass
                     ? "--emit DIR, --keep DIR or --sass is required"
                     : "";
        });
        add_compile_options(app, *words);
      },
      [words](const ChosenKernel& chosen) {
        settle(*words);
        words->options.compiler.generated = warn_of_registers;
        return static_cast<int>(execute(chosen.family, chosen.fields, words->options));
      });
}

}  // namespace ptxbuilder::command
