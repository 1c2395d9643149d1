// Generates PTX with LLVM's NVPTX back end, from a Builder or from LLVM IR in a file. ptxbuilder/llvm.h
// generates PTX from modules in memory.
#pragma once

#include <chrono>
#include <string>

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/sidecar.h"

namespace ptxbuilder {

class Cache;

// Finishes a kernel if necessary, and returns its PTX. The .version is the lowest one that the target and the
// instructions allow. If `cache` contains the PTX for this IR, version of LLVM, target and .version, loads
// the PTX. Otherwise generates the PTX and stores it; a failure to store the PTX is ignored. Many threads may
// call this at once, each with its own kernel. Throws an Error with LLVM's diagnostics.
std::string generate_ptx(Builder& builder, Cache* cache = nullptr);

// The options for generating PTX from a foreign module.
struct ModuleOptions {
  // The target, such as "sm_90a". If empty, the target is the target-cpu of the module's functions, or else
  // sm_90a. If sm_90a does not support all of the module's rows and inline-asm instructions, the target is
  // the lowest one that does.
  std::string target = {};
  int ptx_version = 0;  // .version, times ten; 0 for the lowest that target, rows and asm allow
  std::string libdevice =
      {};  // file of libdevice; if empty, CUDA_PATH and /usr/local/cuda are searched when a module needs it
  // The time limit of code generation. Code generation runs in a child process, because LLVM terminates its
  // process if it cannot select instructions.
  std::chrono::milliseconds time_limit = std::chrono::seconds(120);
};

// The PTX of a module. `kernels` are in the module's order, with their signatures if these are known. Each
// note describes a difference between the PTX and the module.
struct ModulePtx {
  std::string ptx = {};
  std::vector<ModuleKernel> kernels = {};
  std::vector<std::string> notes = {};
};

// Compiles a module in LLVM IR, as text (.ll) or bitcode. Errors refer to the module as `name`. Throws an
// Error with line and column for text that cannot be parsed. Throws Error for a module without a kernel, and
// under the same conditions as generate_ptx(llvm::Module&) in ptxbuilder/llvm.h. The signatures are those
// that signatures_of() in that header returns.
ModulePtx ptx_of_ir(std::string_view ir, const std::string& name, const ModuleOptions& options = {},
                    Where where = Where::here());

// Returns the version of LLVM, such as "22.1.8".
std::string llvm_version();

}  // namespace ptxbuilder
