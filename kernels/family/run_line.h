// Parses and runs the command line that runs a kernel. Other commands that build kernels share its options.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/family/command_line.h"
#include "kernels/family/execute.h"

namespace ptxbuilder::command {

// The values that a command line sets.
struct RunWords {
  ExecuteOptions options;
  int64_t assembler = 0;  // an enumerator of Assembler
  std::map<std::string, int64_t> fields;
  bool verify = false, bench = false, no_cache = false;
  std::optional<uint64_t> seed;
  double time_limit_seconds = 60;
  uint64_t cache_megabytes = 1024;
};

void add_compile_options(const Arguments& app, RunWords& words);
void add_device_options(const Arguments& app, RunWords& words);
// Adds the options that run a kernel, including `--ptx` if words.options.compare is set.
void add_run_options(const Arguments& app, RunWords& words);
// Adds the option that names the folder for the kernel's files.
void add_emit_option(const Arguments& app, RunWords& words);
// Adds the option that names the folder for the files of all stages of the kernel.
void add_keep_option(const Arguments& app, RunWords& words);
void add_nvdisasm_option(const Arguments& app, RunWords& words);
// Sets words.options from the other members, after the words have been parsed.
void settle(RunWords& words);

inline constexpr const char* what_prove_does =
    "follow every element from the tensor through shared memory to the matrix instruction";

// Lists the kernels of this program, and returns the exit code.
int list_kernels(bool json, bool with_fields);

// Additional functions for the kernel of a program, if they are linked into it.
struct Beside {
  decltype(ExecuteOptions::compare) compare = nullptr;  // if set, there is an option for edited PTX
  int (*prove)(const Family& family, const Fields& fields, bool json) = nullptr;  // if set, there is an
                                                                                  // option --prove
};

// Runs the only kernel of a program as `words` specify, and returns the exit code. `footer` is shown at the
// end of the help.
int run_line(const Family& family, const std::string& footer, const Beside& beside,
             const std::vector<std::string>& words);

}  // namespace ptxbuilder::command
