// Generates PTX with LLVM's NVPTX back end, from a Builder or from a file with LLVM IR. For modules in
// memory, see ptxbuilder/llvm.h.
#pragma once

#include <chrono>
#include <string>

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/sidecar.h"

namespace ptxbuilder {

class Cache;

// Returns the PTX of a kernel, which is finished first if necessary. The text's .version is the lowest that
// its target and instructions allow. If `cache` contains the text for the same IR, version of LLVM, target
// and .version, it is loaded from there; otherwise it is stored there, and a failure to store it is ignored.
// Many threads may call this at once, each with its own kernel. Throws Error with LLVM's diagnostics.
std::string generate_ptx(Builder& builder, Cache* cache = nullptr);

// The options for generating PTX from a foreign module.
struct ModuleOptions {
  // The target, such as "sm_90a". If empty: the target-cpu of the module's functions, or else sm_90a; if that
  // does not support one of the module's rows or inline-asm instructions, the lowest target that supports all
  // of them.
  std::string target = {};
  int ptx_version = 0;  // ten times the .version; 0 for the lowest that target, rows and inline asm allow
  std::string libdevice =
      {};  // a file; if empty, it is searched for in CUDA_PATH and /usr/local/cuda when a module needs it
  // The time limit of code generation. It runs in a child process, because LLVM terminates the process if it
  // cannot select instructions.
  std::chrono::milliseconds time_limit = std::chrono::seconds(120);
};

// The PTX of a module. Kernels are in the module's order, with their signatures if these are known. Each note
// describes a difference from the module.
struct ModulePtx {
  std::string ptx = {};
  std::vector<ModuleKernel> kernels = {};
  std::vector<std::string> notes = {};
};

// Compiles a module in LLVM IR, as text (.ll) or bitcode. Errors refer to it as `name`. Throws Error with
// line and column for text that cannot be parsed, throws Error for a module without a kernel, and throws the
// errors of generate_ptx(llvm::Module&) in ptxbuilder/llvm.h, whose signatures_of() returns the signatures.
ModulePtx ptx_of_ir(std::string_view ir, const std::string& name, const ModuleOptions& options = {},
                    Where where = Where::here());

// Returns the version of LLVM, such as "22.1.8".
std::string llvm_version();

}  // namespace ptxbuilder
