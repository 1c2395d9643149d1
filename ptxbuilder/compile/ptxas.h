// NVIDIA's assembler: finds it, knows its version, turns PTX text into a cubin.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/advisories.h"
#include "ptxbuilder/compile/cache.h"

namespace ptxbuilder {

// Ptxas, or another tool of CUDA's, is looked for here, in this order. The first ptxas of version 13.0 or
// newer is taken, or where there is none the newest from 12.4 on.
struct PtxasSearch {
  std::string file;                           // when set, this file and no other
  std::string path;                           // folders with colons between them, as in $PATH
  std::string cuda_path;                      // a CUDA toolkit, as in $CUDA_PATH or else $CUDA_HOME
  std::string install_folder = "/usr/local";  // holds cuda and cuda-13.0, ...; the newest of these first

  // The search by the variables PATH, CUDA_PATH and CUDA_HOME, or `file` alone where it is not empty.
  static PtxasSearch from_environment(std::string file = "");
  // The files to try, whether they exist or not.
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
  // Finds ptxas and asks it for its version, which takes some 15 ms unless `cache` knows it already.
  // Throws Error that says where it looked, what it found there, and how to get one.
  explicit Ptxas(const PtxasSearch& search = PtxasSearch::from_environment(), Cache* cache = nullptr);

  const std::string& path() const { return path_; }
  PtxasVersion version() const { return version_; }
  const std::string& build() const { return build_; }  // "13.0.88 cuda_13.0.r13.0/compiler.36424714_0"

  // The target that `.target` names, "sm_90a". Throws Error when there is no `.target sm_...` in it.
  static std::string_view target_of(std::string_view ptx);
  // The arguments with which `ptx` is assembled, without the files; the architecture is that of its
  // `.target`.
  static std::vector<std::string> arguments(std::string_view ptx, const PtxasOptions& options);

  // Safe from many threads at once. Throws Error when ptxas rejects the text, with every message, each with
  // the C++ line that `.loc` gives for it; also when it crashes or exceeds its time limit.
  PtxasOutput assemble(std::string_view ptx, const PtxasOptions& options = {}) const;

 private:
  std::string path_, build_;
  PtxasVersion version_;
};

}  // namespace ptxbuilder
