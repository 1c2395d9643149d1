// Compiles a kernel or a module to the files that a launch needs: PTX, a cubin, and sidecars.
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
  bool assemble = true;  // if false, generates only PTX, for the driver's JIT or the emulator
  // If true, generates only PTX if ptxas is not found. If `ptxas` is set, that file must exist.
  bool else_ptx = false;
  std::string ptxas = {};  // file of ptxas; if empty, PATH, CUDA_PATH and /usr/local are searched
  bool cache = true;       // if true, stores PTX and cubins on disk
  Cache::Options cache_options = {};
  PtxasOptions ptxas_options = {};
  std::string keep = {};      // folder to which every stage of a kernel is written (stages.h); "" for none
  std::string nvdisasm = {};  // file of nvdisasm, for the SASS in `keep`; "" to search for it
  // Called with a kernel's PTX before ptxas runs.
  std::function<void(const std::string& ptx, const Signature& signature)> generated = {};
};

// A compiled kernel.
struct Compiled {
  Signature signature;  // includes the registers, spills and stack that ptxas reported
  std::string ir;       // LLVM IR, if requested
  std::string ptx;
  std::string cubin;  // empty if not assembled
  Assembled assembled;
  KeptStages kept;  // if CompilerOptions::keep is set

  // The durations of the two steps, in milliseconds.
  struct Milliseconds {
    double ptx = 0, cubin = 0;  // time for LLVM or the cache, and for ptxas or the cache
  } milliseconds;
};

// A compiled foreign module. Spills, stack and differences from the module are errors for a Kernel, but for a
// foreign module they are only described in `notes`.
struct CompiledModule {
  std::string ptx;
  std::string cubin;                  // empty if not assembled
  std::vector<ModuleKernel> kernels;  // known signatures include the reports of ptxas
  Assembled assembled;
  std::vector<std::string> notes;
};

// Compiles kernels. The constructor searches for the tools. Many threads may use one Compiler at once.
class Compiler {
 public:
  // Throws Error if `assemble` is true, ptxas is not found, and `else_ptx` is false.
  explicit Compiler(CompilerOptions options = {});

  // Finishes a kernel if necessary, and compiles it. Throws Error if a check of the kernel fails, or if LLVM
  // or ptxas reports an error. Advisories, spills and stack that ptxas reports are errors unless the kernel
  // waives them.
  Compiled compile(Kernel kernel, bool with_ir = false, Where where = Where::here()) const;

  // Returns the kernel of `original` with `ptx` in place of its PTX, and with the reports of ptxas on `ptx`.
  // The kernel in `ptx` must be launched in the same way as the original. Throws the same errors of ptxas as
  // compile(), unless `waived` names the cause.
  Compiled replaced(const Compiled& original, std::string ptx,
                    const std::vector<std::string>& waived = {}) const;

  // Compiles a foreign module in LLVM IR. Errors refer to the module as `name`. Throws Error under the same
  // conditions as ptx_of_ir(), and for advisories of ptxas that `waived` does not name. Spills and stack that
  // `waived` does not name become notes.
  CompiledModule compile_ir(std::string_view ir, const std::string& name, const ModuleOptions& options = {},
                            const std::vector<std::string>& waived = {}, Where where = Where::here()) const;
  // Compiles a module in memory without changing it. The result's kernels are those that signatures_of()
  // returns.
  CompiledModule compile(const llvm::Module& module, const ModuleOptions& options = {},
                         const std::vector<std::string>& waived = {}, Where where = Where::here()) const;

  // Builds and compiles kernels with `threads` threads; 0 means the number of hardware threads. Results are
  // in the order of the builders. If some fail, throws one Error that lists all failures.
  std::vector<Compiled> compile_all(const std::vector<std::function<Kernel()>>& builders,
                                    unsigned threads = 0) const;

  const Ptxas* ptxas() const { return ptxas_ ? &*ptxas_ : nullptr; }
  const std::string& why_no_ptxas() const {
    return why_no_ptxas_;
  }  // returns "" if ptxas was found or was not needed
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

// Writes NAME.ptx and NAME.json into a folder, and NAME.cubin and NAME.ll if these results are not empty.
// Creates the folder if necessary. Returns the names of the files. Throws Error if a file cannot be written.
std::vector<std::string> write_files(const Compiled& compiled, const std::string& folder);

// Writes the files of a module: NAME.ptx, NAME.cubin, and the sidecars of known signatures.
// ptxbuilder/sidecar.h describes the names of sidecars. Removes earlier sidecars of kernels whose signatures
// are no longer known. Throws Error if a file cannot be written, or if a file with the name of a sidecar is
// not a sidecar.
std::vector<std::string> write_files(const CompiledModule& compiled, const std::string& name,
                                     const std::string& folder);

}  // namespace ptxbuilder
