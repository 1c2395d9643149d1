// From a finished Builder to PTX text, by LLVM's NVPTX back end.
#pragma once

#include <string>

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

// Finishes the kernel where that is not done yet. The text's .version is the least that its instructions
// need. Safe on many threads at once, each with its own kernel. Throws Error with LLVM's diagnostics.
std::string generate_ptx(Builder& builder);

// "22.1.8"
std::string llvm_version();

}  // namespace ptxbuilder
