// Commands that examine PTX use this to read a kernel of this program, or a file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/family/commands.h"

namespace ptxbuilder::command {

// Returns the source that the words of a command line name, as one text: "gemm" "bm=128" becomes "kernel:gemm
// bm=128". In a program with only one kernel, fields alone, or no words at all, name that kernel. Other
// words, such as the name of a file, are not changed. Throws UsageError if the words name several sources.
std::string named(const std::vector<std::string>& words);

// Returns whether the text names a kernel of this program, in the form that named() returns.
bool names_kernel(const std::string& from);
// Returns the PTX of "kernel:NAME bm=128 ...". Throws Error if a kernel, field or value does not exist, or if
// the kernel cannot be built.
std::string kernel_ptx(const std::string& from);

// The source that a command reads PTX from: `help` describes the words, and `read` returns their PTX.
// `kernel` is the name of the requested kernel, or empty.
struct PtxReader {
  const char* help;
  std::string (*read)(const std::string& from, const std::string& kernel);
};
// Reads kernels of this program, and files of PTX text.
extern const PtxReader own_ptx;

// Returns the exit code of `work`. Errors, including output that cannot be written, are printed and yield 2.
int with_errors_as_2(const std::function<int()>& work);
// Runs a command on the PTX that its words name, and returns the exit code of `work`. Errors name the source
// of the PTX, and yield 2. If no word names a source, the error is `nothing_named`.
int run_on_ptx(std::string_view nothing_named, const std::vector<std::string>& words,
               const std::string& kernel, const PtxReader& reader,
               const std::function<int(const std::string& ptx)>& work);

}  // namespace ptxbuilder::command
