// ptxb: all kernels and tools in one executable.
#include "kernels/command/kernel_commands.h"
#include "kernels/command/main.h"
#include "kernels/inspect/ptx_source.h"

namespace ptxbuilder::command {
namespace {

// In `ptxb`, the commands accept any PTX, including that of cubins and object files.
const PtxReader any_ptx = {ptx_source_help, ptx_source};
const CommandRegistration explains([](const Arguments& ptxb) { return explain_command(ptxb, any_ptx); });
const CommandRegistration lints([](const Arguments& ptxb) { return lint_command(ptxb, any_ptx); });

}  // namespace
}  // namespace ptxbuilder::command

int main(int argc, char** argv) { return ptxbuilder::command::ptxb_main(argc, argv); }
