// Reads the machine code of a profiled kernel, with samples, from the CSV of a source page of Nsight Compute.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder::command {

struct Sampled {
  std::string instruction;  // as in the file, for example "HGMMA.64x256x16.F32.BF16 R24, ..."
  uint64_t samples = 0;     // number of samples that found a warp at this instruction
};

// Returns the instructions of the first kernel, from the output of `ncu --page source --csv`. These are the
// rows after a header that has a column "Source" and a column that begins with "Warp Stall Sampling",
// "Sampling Data" or "# Samples". Throws Error "line N: ..." if there is no such header, or if a row has
// fewer columns.
std::vector<Sampled> parse_ncu(std::string_view csv);

}  // namespace ptxbuilder::command
