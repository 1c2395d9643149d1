// What the commands read that look at PTX: a kernel of this program, or files.
#pragma once

#include <string>
#include <vector>

#include "kernels/command/commands.h"

namespace ptxbuilder::command {

// What words of a command line name, as one text: "gemm" "bm=128" is "kernel:gemm bm=128", and in a program
// of one kernel fields alone are, or no words; every other word stands for itself, such as a file's name.
// Throws UsageError for more than one of these.
std::string named(const std::vector<std::string>& words);

// Whether named() or somebody else names a kernel of this program.
bool names_kernel(const std::string& from);
// The PTX of "kernel:NAME bm=128 ...". Throws Error for a kernel, field or value that is not there, and from
// building it.
std::string kernel_ptx(const std::string& from);

// From what a command takes PTX: its words in the help, and how they are read, where `kernel` is the one that
// is wanted, or empty.
struct PtxReader {
  const char* help;
  std::string (*read)(const std::string& from, const std::string& kernel);
};
// Kernels of this program, and PTX text in a file.
extern const PtxReader own_ptx;

// Commands of `ptxb`, and of every executable that has kernels.
Command explain_command(const Arguments& app, const PtxReader& reader);
Command lint_command(const Arguments& app, const PtxReader& reader);

}  // namespace ptxbuilder::command
