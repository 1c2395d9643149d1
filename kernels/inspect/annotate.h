// Annotates a kernel's machine code with the PTX and the C++ that each instruction comes from, and lists the
// instructions of each line of C++.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct Annotation {
  std::string kernel, ptx;
  std::string cubin;     // "": none, so only the PTX is annotated
  std::string nvdisasm;  // a file; "": search for it
  std::string folder;    // the folder of the C++ files that .file directives name; "": the working folder
  std::string ncu;       // a file that `ncu --page source --csv` wrote; "": none
  bool json = false;
};

// Returns a table of the lines of C++, followed by the listing; or one JSON object. Throws Error.
std::string annotate(const Annotation& what);

struct AnnotateOptions {
  std::string folder;  // the folder of the C++ files; "": the working folder
  std::string ncu;     // a profile's source page as CSV; "": none
};

// Prints a kernel's PTX and SASS with the C++ in the margin. If ptxas or nvdisasm is not available, only the
// PTX is printed, and a note on standard error says so. Throws Error.
void annotate_kernel(const Family& family, const Fields& fields, const ExecuteOptions& options,
                     const AnnotateOptions& more);

}  // namespace ptxbuilder::command
