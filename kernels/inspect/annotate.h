// Annotates each instruction of a kernel's machine code with the PTX and the C++ that it comes from, and
// counts the instructions of each line of C++.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct Annotation {
  std::string kernel, ptx;
  std::string cubin;     // "": there is none, and only the PTX is annotated
  std::string nvdisasm;  // path of nvdisasm; "": search for it
  std::string folder;    // folder of the C++ files that the .file directives name; "": the working folder
  std::string ncu;       // path of a file that `ncu --page source --csv` wrote; "": none
  bool json = false;
};

// Returns a table of the lines of C++ followed by the listing, or a JSON object. Throws Error if a file or
// the profile cannot be read.
std::string annotate(const Annotation& what);

struct AnnotateOptions {
  std::string folder;  // folder of the C++ files; "": the working folder
  std::string ncu;     // path of a profile's source page as CSV; "": none
};

// Prints a kernel's PTX and SASS with the C++ in the margin. If ptxas or nvdisasm is not available, prints
// only the PTX, and a note to standard error. Throws Error when annotate() does.
void annotate_kernel(const Family& family, const Fields& fields, const ExecuteOptions& options,
                     const AnnotateOptions& more);

}  // namespace ptxbuilder::command
