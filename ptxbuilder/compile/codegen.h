// Generates PTX with LLVM's NVPTX back end from a finished Builder, or from the LLVM IR of a file. For
// modules in memory, see ptxbuilder/llvm.h.
#pragma once

#include <chrono>
#include <string>

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/sidecar.h"

namespace ptxbuilder {

class Cache;

// Finishes the kernel if that has not been done yet. The text's .version is the lowest that its target and
// instructions allow. The text is loaded from `cache` if the cache has it for the same IR, version of LLVM,
// target and .version. Otherwise it is stored there; a failure to store it is ignored. Safe on many threads
// at once, each with its own kernel. Throws Error with LLVM's diagnostics.
std::string generate_ptx(Builder& builder, Cache* cache = nullptr);

// The options with which a foreign module becomes PTX.
struct ModuleOptions {
  // The target, such as "sm_90a". Empty: the target-cpu of the module's functions, else sm_90a; if that lacks
  // one of the module's rows or inline-asm instructions, the lowest target that has them all.
  std::string target = {};
  int ptx_version = 0;  // ten times the .version; 0 for the lowest that target, rows and inline asm need
  std::string libdevice =
      {};  // a file; if empty, CUDA_PATH and /usr/local/cuda are searched when a module needs it
  // The time limit of code generation, which runs in a child process, because LLVM terminates the process if
  // it cannot select IR.
  std::chrono::milliseconds time_limit = std::chrono::seconds(120);
};

// The PTX of a module. The kernels are in their order, with the signatures that are known, and each note
// describes a difference from the module.
struct ModulePtx {
  std::string ptx = {};
  std::vector<ModuleKernel> kernels = {};
  std::vector<std::string> notes = {};
};

// Compiles a module in LLVM's IR, text (.ll) or bitcode. Errors refer to it as `name`. Throws Error with line
// and column for text that does not parse, for a module without a kernel, and like
// generate_ptx(llvm::Module&) of ptxbuilder/llvm.h. signatures_of() there returns the signatures.
ModulePtx ptx_of_ir(std::string_view ir, const std::string& name, const ModuleOptions& options = {},
                    Where where = Where::here());

// "22.1.8"
std::string llvm_version();

}  // namespace ptxbuilder
