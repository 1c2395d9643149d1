// NVIDIA's disassembler: finds it, turns a cubin into SASS as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/ptxas.h"

namespace ptxbuilder {

// nvdisasm is looked for in these places: where ptxas is, and in the wheels nvidia-cuda-nvdisasm and triton
// of the Pythons on `search.path`, which keep it in lib/python*/{site,dist}-packages next to their bin.
std::vector<std::string> nvdisasm_candidates(const PtxasSearch& search);

class Nvdisasm {
 public:
  // Throws Error that says where it looked, and how to get one.
  explicit Nvdisasm(const PtxasSearch& search = PtxasSearch::from_environment());

  const std::string& path() const { return path_; }

  // All code of a cubin. With `ptx_lines`, comments give the lines of the PTX that it was assembled from,
  // where the cubin has them (PtxasOptions::line_info). Throws Error when nvdisasm does.
  std::string disassemble(std::string_view cubin, bool ptx_lines = false) const;
  // It prints the same with a table of the registers that are alive at each instruction, a sign for each, and
  // without lines (analysis/sass_registers.h). Throws as disassemble() does.
  std::string life_ranges(std::string_view cubin) const;

 private:
  std::string run(std::vector<std::string> options, std::string_view cubin) const;

  std::string path_;
};

}  // namespace ptxbuilder
