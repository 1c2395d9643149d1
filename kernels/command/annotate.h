// A kernel's machine code with the PTX and the C++ that each instruction comes from, and what each line of
// C++ came to.
#pragma once

#include <string>

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

}  // namespace ptxbuilder::command
