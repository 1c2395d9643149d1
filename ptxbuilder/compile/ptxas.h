// Finds NVIDIA's assembler, reads its version, and uses it to turn PTX text into cubins.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/advisories.h"
#include "ptxbuilder/compile/cache.h"

namespace ptxbuilder {

// The places to search for ptxas or another CUDA tool, in the order of the members. The first ptxas of
// version 13.0 or newer is used. If there is none, the newest ptxas of at least version 12.4 is used.
struct PtxasSearch {
  std::string file;                           // if set, only this file is tried
  std::string path;                           // folders separated by colons, as in $PATH
  std::string cuda_path;                      // a CUDA toolkit, as in $CUDA_PATH or $CUDA_HOME
  std::string install_folder = "/usr/local";  // contains folders such as cuda and cuda-13.0; the newest is
                                              // tried first

  // Returns a search that uses the environment variables PATH, CUDA_PATH and CUDA_HOME or, if `file` is not
  // empty, tries only `file`.
  static PtxasSearch from_environment(std::string file = "");
  // Returns the files to try, which may not exist.
  std::vector<std::string> candidates(const std::string& tool = "ptxas") const;
};

// The options of one run of ptxas.
struct PtxasOptions {
  int optimization = 3;    // -O; below 1, ptxas serializes wgmma
  bool line_info = false;  // -lineinfo: maps SASS to PTX lines; if the PTX contains `.loc`, SASS is always
                           // mapped to C++ lines
  std::chrono::milliseconds time_limit = std::chrono::seconds(120);
};

// The result of one run of ptxas.
struct PtxasOutput {
  std::string cubin;  // an ELF file
  std::string log;    // input of parse_notes()
};

// An installed ptxas.
class Ptxas {
 public:
  // Finds ptxas, and runs it to get its version. Running ptxas takes about 15 ms, and is not necessary if
  // `cache` contains the version. If no suitable ptxas is found, throws an Error that lists the files that
  // were tried and the reasons why they are unsuitable, and explains how to get ptxas.
  explicit Ptxas(const PtxasSearch& search = PtxasSearch::from_environment(), Cache* cache = nullptr);

  const std::string& path() const { return path_; }
  PtxasVersion version() const { return version_; }
  const std::string& build() const { return build_; }  // "13.0.88 cuda_13.0.r13.0/compiler.36424714_0"

  // Returns the target that `.target` names, such as "sm_90a". Throws Error if `ptx` has no `.target sm_...`.
  static std::string_view target_of(std::string_view ptx);
  // Returns the arguments for assembling `ptx`, without the files. The architecture is that of its `.target`.
  static std::vector<std::string> arguments(std::string_view ptx, const PtxasOptions& options);

  // Assembles PTX text. Many threads may call this function at once. If ptxas rejects the text, throws an
  // Error that contains every message, with the C++ line from `.loc`. Also throws Error if ptxas crashes or
  // exceeds its time limit.
  PtxasOutput assemble(std::string_view ptx, const PtxasOptions& options = {}) const;

 private:
  std::string path_, build_;
  PtxasVersion version_;
};

}  // namespace ptxbuilder
