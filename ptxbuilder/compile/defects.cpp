#include "ptxbuilder/compile/defects.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbuilder {
namespace {

// Returns whether an instruction is a wgmma.mma_async with A in registers. The first pair of braces contains
// the accumulators, and a second pair, if there is one, contains A (PTX ISA).
bool is_wgmma_with_a_in_registers(std::string_view instruction) {
  return instruction.starts_with("wgmma.mma_async") && std::ranges::count(instruction, '{') >= 2;
}

bool is_sparse_wgmma(std::string_view instruction) { return instruction.starts_with("wgmma.mma_async.sp"); }

bool is_such_of_bytes(std::string_view instruction) {
  const std::string_view mnemonic = instruction.substr(0, instruction.find_first_of(" \t"));
  return is_wgmma_with_a_in_registers(instruction) &&
         (mnemonic.find(".s8") != std::string_view::npos || mnemonic.find(".u8") != std::string_view::npos);
}

struct DefectRow {
  Defect defect;
  bool (*is_hit)(std::string_view instruction);  // null if the instruction that triggers the defect is not
                                                 // known
};

constexpr DefectRow defect_rows[] = {
    {{"wgmma-a-registers",
      {12, 0, 0},
      PtxasVersion{13, 3, 0},
      "wgmma.mma_async with A in registers",
      "Registers of a wgmma's A operand may be reused before the wgmma has read them.",
      "Use ptxas 13.3 or newer, or read A from shared memory; `ptxb report` looks for it in the machine "
      "code.",
      "github.com/triton-lang/triton/pull/11781, CUDA 13.3 release notes"},
     is_wgmma_with_a_in_registers},
    {{"wgmma-metadata",
      {12, 0, 0},
      std::nullopt,
      "wgmma.mma_async.sp",
      "The register of a sparse wgmma's metadata may be reused before the wgmma has read it.",
      "Wait for the products before metadata is loaded again, as mma() of a SparseTile requires; `ptxb "
      "report` looks for it in the machine code.",
      "seen on an H100 with 13.0.88, and in the machine code of 12.4.131 to 13.5.37"},
     is_sparse_wgmma},
    {{"wgmma-bytes",
      {12, 8, 0},
      PtxasVersion{12, 9, 0},
      "wgmma.mma_async of s8 or u8 with A in registers",
      "The products are wrong if B has a swizzle of 32 bytes.",
      "Use ptxas 12.9 or newer, or another swizzle.",
      "github.com/jax-ml/jax, jax/experimental/mosaic/gpu/wgmma.py"},
     is_such_of_bytes},
    {{"shared-write",
      {12, 8, 0},
      PtxasVersion{13, 1, 80},
      "",
      "Correct PTX of a Hopper kernel was compiled to an out-of-range write to shared memory (seen with "
      "12.8.93 and 13.0.88).",
      "Use ptxas 13.1.80 or newer if results are wrong, or if compute-sanitizer finds such a write.",
      "github.com/fla-org/flash-linear-attention/pull/1262"},
     nullptr},
    {{"causal-attention",
      {12, 8, 0},
      PtxasVersion{12, 9, 86},
      "",
      "Causal attention of Pallas had wrong results on Hopper.",
      "Use ptxas 12.9.86 or newer.",
      "github.com/jax-ml/jax, jax/experimental/pallas/ops/gpu/attention_mgpu.py"},
     nullptr},
};

// Calls `take(instruction, line)` for each wgmma instruction. A line may contain several instructions.
template <class Take>
void for_each_wgmma(std::string_view ptx, Take take) {
  constexpr std::string_view wgmma = "wgmma.mma_async";
  int line = 1;
  size_t counted = 0;
  for (size_t at = ptx.find(wgmma); at != std::string_view::npos; at = ptx.find(wgmma, at + 1)) {
    line += static_cast<int>(std::count(ptx.begin() + static_cast<ptrdiff_t>(counted),
                                        ptx.begin() + static_cast<ptrdiff_t>(at), '\n'));
    counted = at;
    const std::string_view before = ptx.substr(0, at);
    const std::string_view on_line = before.substr(before.rfind('\n') + 1);
    if (on_line.find("//") != std::string_view::npos) continue;  // the instruction is in a comment
    take(ptx.substr(at, ptx.find(';', at) - at), line);
  }
}

}  // namespace

std::vector<Defect> all_defects() {
  std::vector<Defect> all;
  for (const DefectRow& row : defect_rows) all.push_back(row.defect);
  return all;
}

std::vector<Defect> known_defects(PtxasVersion version) {
  std::vector<Defect> all = all_defects();
  std::erase_if(all, [&](const Defect& d) { return !d.is_in(version); });
  return all;
}

std::vector<PossibleDefect> possible_defects(std::string_view ptx, PtxasVersion version) {
  std::vector<PossibleDefect> found;
  for (const DefectRow& row : defect_rows) {
    if (!row.is_hit || !row.defect.is_in(version)) continue;
    PossibleDefect possible;
    possible.defect = row.defect;
    possible.version = version;
    for_each_wgmma(ptx, [&](std::string_view instruction, int line) {
      if (row.is_hit(instruction) && possible.count++ == 0) possible.ptx_line = line;
    });
    if (possible.count == 0) continue;
    possible.source = LineMap(ptx).at(possible.ptx_line);
    found.push_back(std::move(possible));
  }
  return found;
}

std::string PossibleDefect::text() const {
  return fmt::format(
      "ptxas {} has a known defect that {} may meet; the kernel has {}{} (PTX line {}): {} {} ({}) To "
      "suppress this warning, waive \"{}\".",
      to_string(version), defect.instruction, count,
      source ? fmt::format(", the first at {}", to_string(source)) : "", ptx_line, defect.description,
      defect.remedy, defect.source, defect.name);
}

}  // namespace ptxbuilder
