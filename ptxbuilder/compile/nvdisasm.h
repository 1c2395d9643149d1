// Finds NVIDIA's disassembler, and uses it to turn a cubin into SASS text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/ptxas.h"

namespace ptxbuilder {

// Returns the files to try for nvdisasm: in the folders of ptxas, and in the wheels nvidia-cuda-nvdisasm and
// triton of the Pythons on `search.path`, in lib/python*/{site,dist}-packages next to their bin.
std::vector<std::string> nvdisasm_candidates(const PtxasSearch& search);

class Nvdisasm {
 public:
  // Throws Error that states where it searched for nvdisasm, and how to get it.
  explicit Nvdisasm(const PtxasSearch& search = PtxasSearch::from_environment());

  const std::string& path() const { return path_; }

  // Returns all code of a cubin. With `ptx_lines`, comments contain the lines of its PTX if the cubin has
  // them (PtxasOptions::line_info). Throws Error when nvdisasm fails.
  std::string disassemble(std::string_view cubin, bool ptx_lines = false) const;
  // Returns the same without lines, but with a table of the registers that are live at each instruction, one
  // character for each register (analysis/sass_registers.h). Throws as disassemble() does.
  std::string life_ranges(std::string_view cubin) const;

 private:
  std::string run(std::vector<std::string> options, std::string_view cubin) const;

  std::string path_;
};

}  // namespace ptxbuilder
