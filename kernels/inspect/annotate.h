// A kernel's machine code with the PTX and the C++ from which each instruction comes, and the instructions of
// each line of C++.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct Annotation {
  std::string kernel, ptx;
  std::string cubin;     // "" for none: only the PTX is annotated
  std::string nvdisasm;  // a file; "" to look for it
  std::string folder;    // the folder of the C++ files that .file directives name; "" for the working folder
  std::string ncu;       // a file that `ncu --page source --csv` wrote; "" for none
  bool json = false;
};

// Returns a table by lines of C++, then the listing; or one JSON object. Throws Error.
std::string annotate(const Annotation& what);

struct AnnotateOptions {
  std::string folder;  // of the C++ files; "" for the working folder
  std::string ncu;     // a profile's source page as CSV; "" for none
};

// Prints a kernel with the C++ in the margin of its PTX and SASS. If ptxas or nvdisasm is not available, a
// note on standard error says so, and only the PTX is printed. Throws Error.
void annotate_kernel(const Family& family, const Fields& fields, const ExecuteOptions& options,
                     const AnnotateOptions& more);

}  // namespace ptxbuilder::command
