// Adds commands that take a kernel, such as `ptxb NAME KERNEL --field value` or, in an executable with only
// one kernel, `mine NAME`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/family/commands.h"
#include "kernels/family/family.h"

namespace ptxbuilder::command {

struct ChosenKernel {
  const Family& family;
  const Fields& fields;
  std::vector<std::string> given;  // names of the fields that the command line sets
};

// Adds the command to `commands`, with an option for each field of each kernel. A registered command of the
// same form, such as "tune" "gemm", takes precedence. `add_options` adds the other options of one kernel's
// command. `run` returns the exit code, and may throw Error.
void add_kernel_command(std::vector<Command>& commands, const Arguments& top, const std::string& name,
                        const std::string& help,
                        const std::function<void(const Arguments& app, const Family& family)>& add_options,
                        std::function<int(const ChosenKernel&)> run);

}  // namespace ptxbuilder::command
