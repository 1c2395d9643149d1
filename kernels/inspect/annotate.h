// A kernel's machine code with the PTX and the C++ that each instruction comes from, and what each line of
// C++ came to.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct Annotation {
  std::string kernel, ptx;
  std::string cubin;     // "" for none: the PTX alone is annotated
  std::string nvdisasm;  // a file; "" to look for it
  std::string folder;    // where the C++ files lie that .file directives name; "" for the working folder
  std::string ncu;       // a file that `ncu --page source --csv` wrote; "" for none
  bool json = false;
};

// A table by lines of C++, then the listing; or one JSON object. Throws Error.
std::string annotate(const Annotation& what);

struct AnnotateOptions {
  std::string folder;  // of the C++ files; "" for the working folder
  std::string ncu;     // a profile's source page as CSV; "" for none
};

// Prints a kernel with the C++ in the margin of its PTX and SASS. Where there is no ptxas or no nvdisasm, a
// note on standard error says so, and the PTX alone is printed. Throws Error.
void annotate_kernel(const Family& family, const Fields& fields, const ExecuteOptions& options,
                     const AnnotateOptions& more);

}  // namespace ptxbuilder::command
