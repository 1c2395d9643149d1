// The table of all instruction rows: those of rows.def, and the families made by loops.
#pragma once

#include <array>
#include <optional>
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

// PTX ISA, wgmma.mma_async: D[64,n] += A[64,k] B[k,n]. Types: f16, bf16, tf32, e4m3 and e5m2 (mixed too) into
// f32; f16, e4m3 and e5m2 into f16; s8 and u8 (mixed too) into s32. n is a multiple of 8 up to 256, into s32
// from 32 on a multiple of 16. A comes by descriptor or from four registers a thread. Operands d, a, b,
// scale_d; of floating types scale_a, scale_b; of 16-bit types trans_a (descriptors only), trans_b.
struct WgmmaForm {
  DType d, a, b;
  int n;
  bool a_in_registers = false;
  bool satfinite = false;  // into s32: clamps in place of wrapping around
};
const Row& wgmma_mma_async(const WgmmaForm& form, Where where = Where::here());
int wgmma_depth(DType ab);             // k: 32 bytes
bool wgmma_has_width(DType d, int n);  // whether there is such an n for accumulators of type d

// The same for single bits, D[64,n] += popcount(A[64,256] & B[256,n]) in s32, 32 bits to a register of A.
const Row& wgmma_mma_async_bits(int n, bool a_in_registers, Where where = Where::here());

// PTX ISA, mma.sync: D[16,8] = A[16,k] B[k,8] + C of one warp, A by rows and B by columns, types as wgmma. k
// is 16 or 32 bytes. Operands d, a, b, c.
struct MmaForm {
  DType d, a, b;
  int k;
  bool satfinite = false;
};
const Row& mma_sync(const MmaForm& form, Where where = Where::here());

// PTX ISA, cp.async.bulk.tensor, tile mode: rank 1 to 5. Loads have operands dst, map, c0.., bar, then
// cta_mask when multicast and policy when a cache hint is given; stores have map, c0.., src, then policy.
struct TensorLoadForm {
  int rank;
  bool multicast = false, cache_hint = false;
};
const Row& cp_async_bulk_tensor_load(TensorLoadForm form, Where where = Where::here());

// PTX ISA, cp.async.bulk.prefetch.tensor: the same box into L2 alone; operands map, c0...
const Row& cp_async_bulk_tensor_prefetch(int rank, Where where = Where::here());

// PTX ISA, cp.reduce.async.bulk.tensor: what a store does with the element that is there: old + new, the
// least, the greatest, their bits, old + 1 or 0 from new on (inc), old - 1 or new at 0 and above new (dec).
enum class CopyReduction : uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };
inline constexpr std::array kCopyReductions = {
    CopyReduction::add, CopyReduction::min,     CopyReduction::max,    CopyReduction::inc,
    CopyReduction::dec, CopyReduction::bit_and, CopyReduction::bit_or, CopyReduction::bit_xor};
std::string_view name(CopyReduction reduction);        // "add", "and"
std::vector<DType> types_of(CopyReduction reduction);  // that it has

struct TensorStoreForm {
  int rank;
  std::optional<CopyReduction> reduction = std::nullopt;
  bool cache_hint = false;
};
const Row& cp_async_bulk_tensor_store(TensorStoreForm form, Where where = Where::here());

// PTX ISA, cp.reduce.async.bulk: the same of contiguous elements, into global memory.
struct BulkReductionForm {
  CopyReduction reduction;
  DType type;
  bool cache_hint = false;
};
const Row& cp_reduce_async_bulk(BulkReductionForm form, Where where = Where::here());

// PTX ISA, ldmatrix and stmatrix: 1, 2 or 4 8x8 matrices of 16-bit elements, d or s, in as many b32 registers
// a thread.
const Row& ldmatrix(int matrices, bool transposed, Where where = Where::here());
const Row& stmatrix(int matrices, bool transposed, Where where = Where::here());

// PTX ISA, cvt with packing: two f32, `high` and `low`, to nearest even, to one b32 of two f16 or bf16, or to
// one b16 of two e4m3 or e5m2, which clamp at their greatest value.
const Row& cvt_pack(DType to, Where where = Where::here());

// PTX ISA, cvt.pack: two s32, `high` and `low`, clamped to s8 or u8, in the low half of a b32 whose high half
// is the low half of `above`.
const Row& cvt_pack_integer(DType to, Where where = Where::here());

}  // namespace ptxbuilder::isa
