// Commands that examine PTX read a kernel of this program, or a file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/family/commands.h"

namespace ptxbuilder::command {

// Returns the source that the words of a command line name, as one text: "gemm" "bm=128" becomes "kernel:gemm
// bm=128". In a program with one kernel, that kernel is named by fields only, or by no words. Every other
// word, such as a file's name, is not changed. Throws UsageError for more than one of these.
std::string named(const std::vector<std::string>& words);

// Returns whether the text names a kernel of this program, as named() writes it.
bool names_kernel(const std::string& from);
// Returns the PTX of "kernel:NAME bm=128 ...". Throws Error if a kernel, field or value does not exist, and
// the errors of building the kernel.
std::string kernel_ptx(const std::string& from);

// The source from which a command reads PTX: `help` describes the words, and `read` returns their PTX.
// `kernel` names the requested kernel, or is empty.
struct PtxReader {
  const char* help;
  std::string (*read)(const std::string& from, const std::string& kernel);
};
// Returns a source for kernels of this program, and files of PTX text.
extern const PtxReader own_ptx;

// Returns the exit code of `work`. Errors, including output that cannot be written, are printed and give 2.
int with_errors_as_2(const std::function<int()>& work);
// Runs a command on the PTX that its words name, and returns the exit code of `work`. Errors name the source
// of the PTX, and return 2; if no word names anything, the error is `nothing_named`.
int run_on_ptx(std::string_view nothing_named, const std::vector<std::string>& words,
               const std::string& kernel, const PtxReader& reader,
               const std::function<int(const std::string& ptx)>& work);

}  // namespace ptxbuilder::command
