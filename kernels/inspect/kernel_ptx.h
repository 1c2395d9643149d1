// Reads the PTX of a kernel of this program, or of a file, for commands that examine PTX.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/family/commands.h"

namespace ptxbuilder::command {

// Converts the words of a command line that name a source to one string: "gemm" "bm=128" becomes "kernel:gemm
// bm=128". In a program with only one kernel, a list of fields, or an empty list, also names that kernel.
// Other words, such as the name of a file, are not changed. Throws UsageError if the words name several
// sources.
std::string named(const std::vector<std::string>& words);

// Returns whether `from`, in the form that named() returns, names a kernel of this program.
bool names_kernel(const std::string& from);
// Returns the PTX of "kernel:NAME bm=128 ...". Throws Error if a kernel, field or value does not exist, or if
// the kernel cannot be built.
std::string kernel_ptx(const std::string& from);

// A way to read PTX for a command. `help` describes the words that name a source, and `read` returns the
// source's PTX. Its argument `kernel` is the name of the requested kernel, or empty.
struct PtxReader {
  const char* help;
  std::string (*read)(const std::string& from, const std::string& kernel);
};
// Reads kernels of this program, and files of PTX text.
extern const PtxReader own_ptx;

// Runs `work` and returns its exit code. If there is an error, including output that cannot be written,
// prints it and returns 2.
int with_errors_as_2(const std::function<int()>& work);
// Calls `work` with the PTX that the words name, and returns its exit code. If there is an error, prints it
// with the source of the PTX and returns 2. If no word names a source, the error is `nothing_named`.
int run_on_ptx(std::string_view nothing_named, const std::vector<std::string>& words,
               const std::string& kernel, const PtxReader& reader,
               const std::function<int(const std::string& ptx)>& work);

}  // namespace ptxbuilder::command
