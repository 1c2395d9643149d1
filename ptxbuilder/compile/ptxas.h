// Finds NVIDIA's assembler, reads its version, and uses it to turn PTX text into a cubin.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/advisories.h"
#include "ptxbuilder/compile/cache.h"

namespace ptxbuilder {

// The places that are searched for ptxas or another CUDA tool, in this order. The first ptxas of version 13.0
// or newer is used or, if there is none, the newest from 12.4 on.
struct PtxasSearch {
  std::string file;       // if set, only this file
  std::string path;       // folders with colons between them, as in $PATH
  std::string cuda_path;  // a CUDA toolkit, as in $CUDA_PATH or else $CUDA_HOME
  std::string install_folder =
      "/usr/local";  // contains cuda and cuda-13.0, ...; the newest is searched first

  // The search with the variables PATH, CUDA_PATH and CUDA_HOME, or only `file` if it is not empty.
  static PtxasSearch from_environment(std::string file = "");
  // Returns the files to try, whether they exist or not.
  std::vector<std::string> candidates(const std::string& tool = "ptxas") const;
};

// The options of one run of ptxas.
struct PtxasOptions {
  int optimization = 3;  // -O; below 1 ptxas serializes wgmma
  bool line_info =
      false;  // -lineinfo: map SASS to PTX lines; PTX with `.loc` is mapped to C++ lines without it
  std::chrono::milliseconds time_limit = std::chrono::seconds(120);
};

// The result of one run of ptxas.
struct PtxasOutput {
  std::string cubin;  // an ELF file
  std::string log;    // for parse_notes()
};

// One ptxas of this machine.
class Ptxas {
 public:
  // Finds ptxas and runs it for its version, which takes about 15 ms unless `cache` has the version. Throws
  // Error that states where it searched, what it found there, and how to get ptxas.
  explicit Ptxas(const PtxasSearch& search = PtxasSearch::from_environment(), Cache* cache = nullptr);

  const std::string& path() const { return path_; }
  PtxasVersion version() const { return version_; }
  const std::string& build() const { return build_; }  // "13.0.88 cuda_13.0.r13.0/compiler.36424714_0"

  // The target that `.target` names, "sm_90a". Throws Error when `ptx` has no `.target sm_...`.
  static std::string_view target_of(std::string_view ptx);
  // The arguments with which `ptx` is assembled, without the files; the architecture is the one that its
  // `.target` names.
  static std::vector<std::string> arguments(std::string_view ptx, const PtxasOptions& options);

  // Safe from many threads at once. Throws Error when ptxas rejects the text, with every message and the C++
  // line that `.loc` gives for it; also when ptxas crashes or exceeds its time limit.
  PtxasOutput assemble(std::string_view ptx, const PtxasOptions& options = {}) const;

 private:
  std::string path_, build_;
  PtxasVersion version_;
};

}  // namespace ptxbuilder
