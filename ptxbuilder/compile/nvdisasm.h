// Finds NVIDIA's disassembler, and turns cubins into SASS text with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/ptxas.h"

namespace ptxbuilder {

// Returns the files to try for nvdisasm: in the folders where ptxas is searched for, and in the wheels
// nvidia-cuda-nvdisasm and triton of each Python on `search.path`, which are in
// lib/python*/{site,dist}-packages next to its bin folder.
std::vector<std::string> nvdisasm_candidates(const PtxasSearch& search);

class Nvdisasm {
 public:
  // Throws Error that states where nvdisasm was searched for, and how to get it.
  explicit Nvdisasm(const PtxasSearch& search = PtxasSearch::from_environment());

  const std::string& path() const { return path_; }

  // Returns the disassembly of all code in a cubin. With `ptx_lines`, comments state the PTX lines if the
  // cubin contains them (PtxasOptions::line_info). Throws Error if nvdisasm fails.
  std::string disassemble(std::string_view cubin, bool ptx_lines = false) const;
  // Returns the same text without lines, but with a table of the registers that are live at each instruction,
  // with one character per register (analysis/sass_registers.h). Throws Error if nvdisasm fails.
  std::string life_ranges(std::string_view cubin) const;

 private:
  std::string run(std::vector<std::string> options, std::string_view cubin) const;

  std::string path_;
};

}  // namespace ptxbuilder
