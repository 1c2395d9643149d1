// Declares the commands that `ptxb` and every executable with kernels have. Each command has its own file.
#pragma once

#include <string>
#include <vector>

#include "kernels/family/commands.h"
#include "kernels/family/family.h"
#include "kernels/inspect/kernel_ptx.h"

namespace ptxbuilder::command {

// A description of the program, which is `ptxb` or an executable with a user's own kernels.
struct Program {
  std::string name, summary;
  bool is_ptxb;
};

// Each of these functions adds one command.
void add_emit(std::vector<Command>& commands, const Arguments& top);
void add_run(std::vector<Command>& commands, const Arguments& top);
void add_bench(std::vector<Command>& commands, const Arguments& top);
void add_profile(std::vector<Command>& commands, const Arguments& top);
void add_annotate(std::vector<Command>& commands, const Arguments& top);
void add_report(std::vector<Command>& commands, const Arguments& top);
void add_tune(std::vector<Command>& commands, const Arguments& top, const Program& program);
void add_prove(std::vector<Command>& commands, const Arguments& top);
void add_export(std::vector<Command>& commands, const Arguments& top);
Command list_command(const Arguments& top);
Command explain_command(const Arguments& top, const PtxReader& reader);
Command lint_command(const Arguments& top, const PtxReader& reader);

// Tries to prove that a kernel's matrix instructions and stores read from shared memory the data that copies
// and registers have written to it. Prints the proof or a counterexample. Returns the exit code: 0, or the
// code for a wrong result.
int prove_family(const Family& family, const Fields& fields, bool json);

}  // namespace ptxbuilder::command
