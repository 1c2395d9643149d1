// Finds NVIDIA's disassembler, and uses it to turn cubins into SASS text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/ptxas.h"

namespace ptxbuilder {

// Returns the files to try for nvdisasm. The files are in the folders in which ptxas is searched for, and in
// the wheels nvidia-cuda-nvdisasm and triton of each Python on `search.path`. These wheels are in
// lib/python*/{site,dist}-packages, in the parent of the Python's bin folder.
std::vector<std::string> nvdisasm_candidates(const PtxasSearch& search);

class Nvdisasm {
 public:
  // Finds nvdisasm. If it is not found, throws an Error that states where it was searched for, and how to get
  // it.
  explicit Nvdisasm(const PtxasSearch& search = PtxasSearch::from_environment());

  const std::string& path() const { return path_; }

  // Returns the disassembly of all code in a cubin. If `ptx_lines` is true and the cubin contains the PTX
  // lines (PtxasOptions::line_info), comments state them. Throws Error if nvdisasm fails.
  std::string disassemble(std::string_view cubin, bool ptx_lines = false) const;
  // Returns the disassembly of all code without PTX lines, and with a table of the registers that are live at
  // each instruction. The table has one character for each register (analysis/sass_registers.h). Throws Error
  // if nvdisasm fails.
  std::string life_ranges(std::string_view cubin) const;

 private:
  std::string run(std::vector<std::string> options, std::string_view cubin) const;

  std::string path_;
};

}  // namespace ptxbuilder
