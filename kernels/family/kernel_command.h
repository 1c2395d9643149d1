// Adds commands that take a kernel: `ptxb NAME KERNEL --field value`, and for an executable with one kernel
// `mine NAME`.
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
  std::vector<std::string> given;  // the names of the fields that have an option in the command line
};

// Adds the command, with an option for each field of each kernel, to `commands`, after the registered
// commands that take the place of a kernel, such as "tune" "gemm". `add_options` adds the other options of
// one kernel's command; `run` returns the exit code, and may throw Error.
void add_kernel_command(std::vector<Command>& commands, const Arguments& top, const std::string& name,
                        const std::string& help,
                        const std::function<void(const Arguments& app, const Family& family)>& add_options,
                        std::function<int(const ChosenKernel&)> run);

}  // namespace ptxbuilder::command
