// To PTX text, by LLVM's NVPTX back end: from a finished Builder, or from LLVM's IR as a file has it. Modules
// in memory: ptxbuilder/llvm.h.
#pragma once

#include <chrono>
#include <string>

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/sidecar.h"

namespace ptxbuilder {

class Cache;

// Finishes the kernel if that has not been done yet. The text's .version is the lowest that its target and
// instructions allow. It comes from `cache` if that has it of the same IR, version of LLVM, target and
// .version, and is kept there otherwise; where it cannot be kept, nothing is lost. Safe on many threads at
// once, each with its own kernel. Throws Error with LLVM's diagnostics.
std::string generate_ptx(Builder& builder, Cache* cache = nullptr);

// The options by which a module of somebody else's becomes PTX.
struct ModuleOptions {
  // The target, such as "sm_90a". Empty: the target-cpu of the module's functions, or without any sm_90a, or
  // where that lacks one of the module's rows, or instructions of inline asm, the lowest that has all.
  std::string target = {};
  int ptx_version = 0;  // ten times the .version; 0 for the least that target, rows and inline asm need
  std::string libdevice =
      {};  // a file; else CUDA_PATH and /usr/local/cuda are searched, where a module needs it
  // The time limit of code generation, which runs in a child process, because LLVM ends a process over IR
  // that it cannot select.
  std::chrono::milliseconds time_limit = std::chrono::seconds(120);
};

// A module becomes PTX. Its kernels stand in their order, with the signatures that are known, and each note
// says what will be otherwise than the module says.
struct ModulePtx {
  std::string ptx = {};
  std::vector<ModuleKernel> kernels = {};
  std::vector<std::string> notes = {};
};

// This compiles a module in LLVM's IR, text (.ll) or bitcode; `name` is what errors call it. Throws Error:
// with line and column for text that does not parse, for a module without a kernel, and as
// generate_ptx(llvm::Module&) of ptxbuilder/llvm.h does. The signatures are those of signatures_of(), there
// too.
ModulePtx ptx_of_ir(std::string_view ir, const std::string& name, const ModuleOptions& options = {},
                    Where where = Where::here());

// "22.1.8"
std::string llvm_version();

}  // namespace ptxbuilder
