// Reads Nsight Compute's view of a kernel's machine code: the source page of a profile as CSV.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder::command {

struct Sampled {
  std::string instruction;  // as written there: "HGMMA.64x256x16.F32.BF16 R24, ..."
  uint64_t samples = 0;     // samples that found a warp at this instruction
};

// Returns the instructions of the first kernel, from the output of `ncu --page source --csv`: the rows under
// a header with the columns "Source" and one that begins with "Warp Stall Sampling", "Sampling Data" or "#
// Samples". Throws Error "line N: ..." if there is no such header, and if a row has fewer columns.
std::vector<Sampled> parse_ncu(std::string_view csv);

}  // namespace ptxbuilder::command
