// `list` lists the kernels of the program.
#include <memory>

#include "kernels/command/kernel_commands.h"
#include "kernels/family/run_line.h"

namespace ptxbuilder::command {

Command list_command(const Arguments& top) {
  const Arguments app = top.command("list", "the kernels");
  auto json = std::make_shared<bool>(false);
  app.flag("--json", *json, "with their fields, as JSON");
  return {app, [json] { return list_kernels(*json, families().size() == 1); }};
}

}  // namespace ptxbuilder::command
