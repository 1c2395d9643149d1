// Lists the instructions that CUTLASS 4.7 uses (isa/cutlass.txt) but the manual of isa/manual.h lacks, each
// with the reason.
#pragma once

#include <array>
#include <string_view>

namespace ptxbuilder::test {

struct CutlassException {
  std::string_view mnemonic, reason;
  std::string_view like = {};  // a key of the manual with the same operands, which ptxas accepts
};

inline constexpr std::array kCutlassExceptions = {
    CutlassException{"bra", "it names a label, which is not an operand of a row"},
    CutlassException{"dp2a.s32.s32", "ptxas requires .lo or .hi", "dp2a.lo.s32.s32"},
    CutlassException{"cvt.rn.bf16x2.e4m3x2", "ptxas has only .f16x2", "cvt.rn.f16x2.e4m3x2"},
    CutlassException{"mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1."
                     "e2m1.f32.ue8m0",
                     "ptxas requires .ue4m3 with 4X",
                     "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1."
                     "e2m1.f32.ue4m3"},
    CutlassException{"mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4nvf4.block_scale."
                     "scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0",
                     "ptxas requires .ue4m3 with 4X",
                     "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4nvf4.block_scale."
                     "scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"},
};

}  // namespace ptxbuilder::test
