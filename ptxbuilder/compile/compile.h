// Compiles a kernel or a module all the way to the files of a launch: PTX, a cubin, and sidecars.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/compile/assemble.h"
#include "ptxbuilder/compile/codegen.h"
#include "ptxbuilder/compile/stages.h"
#include "ptxbuilder/tile/kernel.h"

namespace llvm {
class Module;
}

namespace ptxbuilder {

// The options of a compilation.
struct CompilerOptions {
  bool assemble = true;    // false: only PTX, for the driver's JIT or the emulator
  bool else_ptx = false;   // also only PTX if no ptxas is found; a named ptxas must exist
  std::string ptxas = {};  // a file; if empty, PATH, CUDA_PATH and /usr/local are searched
  bool cache = true;       // keep PTX and cubins on disk
  Cache::Options cache_options = {};
  PtxasOptions ptxas_options = {};
  std::string keep = {};      // a folder for every stage of a kernel (stages.h); "" for none
  std::string nvdisasm = {};  // nvdisasm, which makes the kept SASS; "" to search for it
  // Is called with a kernel's PTX before ptxas runs.
  std::function<void(const std::string& ptx, const Signature& signature)> generated = {};
};

// A compiled kernel.
struct Compiled {
  Signature signature;  // with the registers, spills and stack that ptxas reported
  std::string ir;       // LLVM IR, on request
  std::string ptx;
  std::string cubin;  // empty when not assembled
  Assembled assembled;
  KeptStages kept;  // if CompilerOptions::keep is set

  // The time of each of the two steps.
  struct Milliseconds {
    double ptx = 0, cubin = 0;  // LLVM, and ptxas; or the cache
  } milliseconds;
};

// A foreign module. Problems that would be errors in a Kernel but not in a module are sentences in `notes`:
// spills, stack, and differences from the module.
struct CompiledModule {
  std::string ptx;
  std::string cubin;                  // empty when not assembled
  std::vector<ModuleKernel> kernels;  // with the reports of ptxas, if a signature is known
  Assembled assembled;
  std::vector<std::string> notes;
};

// Holds the tools for compiling, for which it searches once. Many threads may use it at once.
class Compiler {
 public:
  // Throws Error if `assemble` needs a ptxas, none is found, and `else_ptx` is not set.
  explicit Compiler(CompilerOptions options = {});

  // Finishes the kernel. Throws Error from its checks, from LLVM, and from ptxas, whose advisories, spills
  // and stack are errors unless the kernel waives them.
  Compiled compile(Kernel kernel, bool with_ir = false, Where where = Where::here()) const;

  // Returns the kernel of `original` with another PTX text, whose launches must be the same, and with the
  // reports of ptxas on this text. Throws Error from ptxas as above, unless `waived` names the cause.
  Compiled replaced(const Compiled& original, std::string ptx,
                    const std::vector<std::string>& waived = {}) const;

  // Compiles a foreign module in LLVM's IR. Errors call it `name`. Throws Error as ptx_of_ir() does, and from
  // ptxas for its advisories, unless `waived` names them; spills and stack become notes, unless `waived`
  // names them too.
  CompiledModule compile_ir(std::string_view ir, const std::string& name, const ModuleOptions& options = {},
                            const std::vector<std::string>& waived = {}, Where where = Where::here()) const;
  // Compiles a module in memory without changing it. The kernels are those of signatures_of().
  CompiledModule compile(const llvm::Module& module, const ModuleOptions& options = {},
                         const std::vector<std::string>& waived = {}, Where where = Where::here()) const;

  // Builds and compiles on `threads` threads (0: all threads of the machine). The results are in the order of
  // the builders. Throws one Error that lists every failure.
  std::vector<Compiled> compile_all(const std::vector<std::function<Kernel()>>& builders,
                                    unsigned threads = 0) const;

  const Ptxas* ptxas() const { return ptxas_ ? &*ptxas_ : nullptr; }
  const std::string& why_no_ptxas() const {
    return why_no_ptxas_;
  }  // empty if ptxas was found, or if it was not needed
  Cache* cache() const { return cache_.get(); }

 private:
  void assemble_into(Compiled& kernel, const std::vector<std::string>& waived,
                     const std::function<void(const Assembled&)>& made = nullptr) const;
  void assemble_and_keep(Compiled& kernel, const std::string& name,
                         const std::vector<std::string>& waived) const;
  CompiledModule assembled(ModulePtx generated, const ModuleOptions& options,
                           const std::vector<std::string>& waived) const;

  CompilerOptions options_;
  std::unique_ptr<Cache> cache_;
  std::optional<Ptxas> ptxas_;
  std::string why_no_ptxas_;
};

// Writes NAME.ptx and NAME.json, and NAME.cubin and NAME.ll if they exist, into a folder, which it creates if
// necessary. Returns the names of the files. Throws Error when a file cannot be written.
std::vector<std::string> write_files(const Compiled& compiled, const std::string& folder);

// Writes the files of a module: NAME.ptx, NAME.cubin, and the sidecars that are known, under the names of
// ptxbuilder/sidecar.h. Removes earlier sidecars of the module that are no longer known. Also throws Error if
// a file that is not a sidecar has such a name.
std::vector<std::string> write_files(const CompiledModule& compiled, const std::string& name,
                                     const std::string& folder);

}  // namespace ptxbuilder
