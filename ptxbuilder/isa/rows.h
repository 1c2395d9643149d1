// The table of all instruction rows: those of rows.def, and the families made by loops.
#pragma once

#include <span>
#include <vector>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/isa/row.h"

namespace ptxbuilder::isa {

// Every row, those of rows.def first.
std::span<const Row> rows();

// The row of that function name, or nullptr.
const Row* find(std::string_view name);

// ---- rows.def ----
// One constant each, so that a call is typed at compile time: rows::mbarrier_init.
namespace rows_def {
#define PTX_ROW(name, syntax, effect, ptx_version, sm) \
  inline constexpr Row name = {#name, syntax, Effect::effect, ptx_version, Sm::sm};
#define PTX_INTRINSIC(name, syntax, intrinsic, ptx_version, sm) \
  inline constexpr Row name = {#name, syntax, Effect::pure, ptx_version, Sm::sm, intrinsic};
#include "ptxbuilder/isa/rows.def"
#undef PTX_ROW
#undef PTX_INTRINSIC
}  // namespace rows_def

// ---- Families ----
// Each throws Error that names the legal values when there is no such member.

// PTX ISA, wgmma.mma_async: D[64,n] += A[64,k] B[k,n] with k = 16 for 16-bit types. D is f32 or f16, n a
// multiple of 8 up to 256; A comes by descriptor or from four registers a thread. Operands d, a, b, scale_d,
// scale_a, scale_b, trans_a (descriptors only), trans_b.
const Row& wgmma_mma_async(DType d, DType ab, int n, bool a_in_registers, Where where = Where::here());

// PTX ISA, cp.async.bulk.tensor, tile mode: rank 1 to 5. Loads have operands dst, map, c0.., bar, then
// cta_mask when multicast and policy when a cache hint is given; stores have map, c0.., src.
struct TensorLoadForm {
  int rank;
  bool multicast = false, cache_hint = false;
};
const Row& cp_async_bulk_tensor_load(TensorLoadForm form, Where where = Where::here());
const Row& cp_async_bulk_tensor_store(int rank, Where where = Where::here());

// PTX ISA, ldmatrix and stmatrix: 1, 2 or 4 8x8 matrices of 16-bit elements, d or s, in as many b32 registers
// a thread.
const Row& ldmatrix(int matrices, bool transposed, Where where = Where::here());
const Row& stmatrix(int matrices, bool transposed, Where where = Where::here());

// PTX ISA, cvt with packing: two f32, `high` and `low`, to one register of two f16 or bf16, round to nearest
// even.
const Row& cvt_pack(DType to, Where where = Where::here());

}  // namespace ptxbuilder::isa
