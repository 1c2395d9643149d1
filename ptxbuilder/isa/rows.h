// The table of all instruction rows: those of rows.def, and the families made by loops.
#pragma once

#include <span>

#include "ptxbuilder/isa/families.h"

namespace ptxbuilder::isa {

// Every row, those of rows.def first.
std::span<const Row> rows();

// The row of that function name, or nullptr.
const Row* find(std::string_view name);

// What a typed call of a row of the table is called in C++: "mbarrier_init", "ldmatrix<MatrixForm{.matrices =
// 4}>".
std::string_view typed_call(const Row& row);

// ---- rows.def ----
// One constant each, so that a call is typed at compile time: rows::mbarrier_init.
namespace rows_def {
#define PTX_ROW(name, syntax, effect, ptx_version, targets) \
  inline constexpr Row name = {#name, syntax, Effect::effect, ptx_version, Targets::parse(#targets)};
#define PTX_INTRINSIC(name, syntax, intrinsic, ptx_version, targets) \
  inline constexpr Row name = {#name, syntax, Effect::pure, ptx_version, Targets::parse(#targets), intrinsic};
#include "ptxbuilder/isa/rows.def"
#undef PTX_ROW
#undef PTX_INTRINSIC
}  // namespace rows_def

// ---- Families ----
// The row of a form; families.h says what each family does and which operands it has. Each throws Error that
// names the legal values when there is no such member; those without `where` have a row for every form.

const Row& wgmma_mma_async(const WgmmaForm& form, Where where = Where::here());
const Row& wgmma_mma_async_bits(const WgmmaBitsForm& form, Where where = Where::here());
const Row& mma_sync(const MmaForm& form, Where where = Where::here());
const Row& createpolicy_evict(Eviction eviction);
const Row& cp_async(const AsyncCopyForm& form, Where where = Where::here());
const Row& cp_async_bulk_load(const BulkLoadForm& form);
const Row& cp_async_bulk_store(const BulkStoreForm& form);
const Row& cp_async_bulk_tensor_load(const TensorLoadForm& form, Where where = Where::here());
const Row& cp_async_bulk_tensor_prefetch(const TensorPrefetchForm& form, Where where = Where::here());
const Row& cp_async_bulk_tensor_store(const TensorStoreForm& form, Where where = Where::here());
const Row& cp_reduce_async_bulk_tensor(const TensorReductionForm& form, Where where = Where::here());
const Row& cp_reduce_async_bulk(const BulkReductionForm& form, Where where = Where::here());
const Row& ldmatrix(const MatrixForm& form, Where where = Where::here());
const Row& stmatrix(const MatrixForm& form, Where where = Where::here());
const Row& cvt_pack(DType to, Where where = Where::here());
const Row& cvt_pack_integer(DType to, Where where = Where::here());
const Row& cvt_f16x2_from(DType from, Where where = Where::here());
const Row& cvt_f16x2_to(DType to, Where where = Where::here());
const Row& ld_acquire(const AcquireForm& form, Where where = Where::here());
const Row& red_release_add(Scope scope, Where where = Where::here());
const Row& atom_acquire_cas(Scope scope, Where where = Where::here());
const Row& fence_acq_rel(Scope scope);
const Row& fence_proxy_async(Space space);

}  // namespace ptxbuilder::isa
