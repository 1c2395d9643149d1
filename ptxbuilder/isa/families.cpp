// The table at run time: the rows of rows.def, and those of the families, made by loops over their axes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <deque>
#include <unordered_map>
#include <vector>

#include "ptxbuilder/isa/family_calls.h"
#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::isa {
namespace {

class Table {
 public:
  Table() {
    rows_.reserve(1536);  // a row is large: no copies while they grow in number
    for (const Row& row : {
#define PTX_ROW(name, ...) rows_def::name,
#define PTX_INTRINSIC(name, ...) rows_def::name,
#include "ptxbuilder/isa/rows.def"
#undef PTX_ROW
#undef PTX_INTRINSIC
         })
      rows_.push_back(row);
    add_copies();
    add_synchronization();
    add_wgmma();
    add_mma();
    add_tensor_copies();
    add_bulk_reductions();
    add_matrix_moves();
    add_conversions();
    for (const Row& row : rows_) by_name_.emplace(row.name, &row);
  }

  std::span<const Row> rows() const { return rows_; }

  const Row* find(std::string_view name) const {
    auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
  }

  std::string_view typed_call(std::string_view name) const {
    auto it = calls_.find(name);
    return it == calls_.end() ? name : std::string_view(it->second);
  }

 private:
  void add(const MadeRow& row, std::string_view family, std::string_view form) {
    rows_.push_back({keep(row.name.view()),
                     keep(row.syntax.view()),
                     row.effect,
                     row.ptx_version,
                     row.targets,
                     {},
                     row.early});
    calls_.emplace(rows_.back().name, fmt::format("{}<{}>", family, form));
  }

  std::string_view keep(std::string_view text) { return texts_.emplace_back(text); }

  void add_copies();
  void add_synchronization();
  void add_wgmma();
  void add_mma();
  void add_tensor_copies();
  void add_bulk_reductions();
  void add_matrix_moves();
  void add_conversions();

  std::deque<std::string> texts_;
  std::vector<Row> rows_;
  std::unordered_map<std::string_view, const Row*> by_name_;
  std::unordered_map<std::string_view, std::string> calls_;  // of members of families
};

const Table& table() {
  static const Table t;
  return t;
}

#define PTXBUILDER_ADD(family, ...) add(family##_row(__VA_ARGS__), #family, detail::written(__VA_ARGS__))

void Table::add_copies() {
  for (Eviction eviction : {Eviction::normal, Eviction::first, Eviction::last})
    PTXBUILDER_ADD(createpolicy_evict, eviction);
  for (int bytes : {4, 8, 16})
    for (bool zfill : {false, true}) PTXBUILDER_ADD(cp_async, AsyncCopyForm{bytes, zfill});
  for (bool multicast : {false, true})
    for (bool cache_hint : {false, true})
      PTXBUILDER_ADD(cp_async_bulk_load, BulkLoadForm{multicast, cache_hint});
  for (bool cache_hint : {false, true}) PTXBUILDER_ADD(cp_async_bulk_store, BulkStoreForm{cache_hint});
}

void Table::add_synchronization() {
  for (Scope scope : {Scope::gpu, Scope::sys}) {
    for (DType type : {DType::u32, DType::u64}) PTXBUILDER_ADD(ld_acquire, AcquireForm{scope, type});
    PTXBUILDER_ADD(red_release_add, scope);
    PTXBUILDER_ADD(atom_acquire_cas, scope);
  }
  for (Scope scope : {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys})
    PTXBUILDER_ADD(fence_acq_rel, scope);
  for (Space space : {Space::all, Space::shared, Space::global}) PTXBUILDER_ADD(fence_proxy_async, space);
}

void Table::add_wgmma() {
  for (const TensorCoreTypes& t : kTensorCoreTypes)
    for (bool satfinite : {false, true})
      for (bool a_in_registers : {false, true})
        for (int n = 8; n <= 256; n += 8)
          if (WgmmaForm form = {t.d, t.a, t.b, n, a_in_registers, satfinite}; exists(form))
            PTXBUILDER_ADD(wgmma_mma_async, form);
  for (bool a_in_registers : {false, true})
    for (int n = 8; n <= 256; n += 8)
      if (WgmmaBitsForm form = {n, a_in_registers}; exists(form)) PTXBUILDER_ADD(wgmma_mma_async_bits, form);
}

void Table::add_mma() {
  for (const TensorCoreTypes& t : kTensorCoreTypes)
    for (int bytes : {16, 32})
      for (bool satfinite : {false, true})
        if (MmaForm form = {t.d, t.a, t.b, bytes / size_of(t.a), satfinite}; exists(form))
          PTXBUILDER_ADD(mma_sync, form);
}

void Table::add_tensor_copies() {
  for (int rank = 1; rank <= 5; ++rank) {
    for (bool multicast : {false, true})
      for (bool cache_hint : {false, true})
        PTXBUILDER_ADD(cp_async_bulk_tensor_load, TensorLoadForm{rank, multicast, cache_hint});
    PTXBUILDER_ADD(cp_async_bulk_tensor_prefetch, TensorPrefetchForm{rank});
    for (bool cache_hint : {false, true})
      PTXBUILDER_ADD(cp_async_bulk_tensor_store, TensorStoreForm{rank, cache_hint});
    for (CopyReduction reduction : kCopyReductions)
      for (bool cache_hint : {false, true})
        PTXBUILDER_ADD(cp_reduce_async_bulk_tensor, TensorReductionForm{rank, reduction, cache_hint});
  }
}

void Table::add_bulk_reductions() {
  for (CopyReduction reduction : kCopyReductions)
    for (DType type : types_of(reduction))
      for (bool cache_hint : {false, true}) {
        if (reduction < CopyReduction::bit_and || type != DType::s32)  // whose bits are u32's
          PTXBUILDER_ADD(cp_reduce_async_bulk, BulkReductionForm{reduction, type, cache_hint});
      }
}

void Table::add_matrix_moves() {
  for (int matrices : {1, 2, 4})
    for (bool transposed : {false, true}) {
      PTXBUILDER_ADD(ldmatrix, MatrixForm{matrices, transposed});
      PTXBUILDER_ADD(stmatrix, MatrixForm{matrices, transposed});
    }
}

void Table::add_conversions() {
  for (DType to : {DType::f16, DType::bf16, DType::e4m3, DType::e5m2}) PTXBUILDER_ADD(cvt_pack, to);
  for (DType to : {DType::s8, DType::u8}) PTXBUILDER_ADD(cvt_pack_integer, to);
  for (DType fp8 : {DType::e4m3, DType::e5m2}) {
    PTXBUILDER_ADD(cvt_f16x2_from, fp8);
    PTXBUILDER_ADD(cvt_f16x2_to, fp8);
  }
}

#undef PTXBUILDER_ADD

const Row& row_of(const MadeRow& row) { return *find(row.name.view()); }

// The row of a form that exists by `rule`.
const Row& row_of(bool exists, const MadeRow& row, Where where, std::string_view operation,
                  std::string_view rule) {
  if (!exists) throw Error(where, fmt::format("{}: {}; there is no {}", operation, rule, row.name.view()));
  return row_of(row);
}

template <class Form>
std::string product(std::string_view operation, const Form& f) {
  return fmt::format("{}: {} += {} x {}", operation, name(f.d), name(f.a), name(f.b));
}

}  // namespace

std::span<const Row> rows() { return table().rows(); }

const Row* find(std::string_view name) { return table().find(name); }

std::string_view typed_call(const Row& row) { return table().typed_call(row.name); }

const Row& wgmma_mma_async(const WgmmaForm& f, Where where) {
  const std::string what = product("wgmma", f);
  if (!has_types({f.d, f.a, f.b}))
    throw Error(where, fmt::format("{}: {}", what, PTXBUILDER_TENSOR_CORE_TYPES));
  if (!wgmma_has_width(f.d, f.n))
    throw Error(where, fmt::format("{}: n = {} must be a multiple of 8 from 8 to 256{}", what, f.n,
                                   f.d == DType::s32 ? ", and from 32 on of 16" : ""));
  return row_of(exists(f), wgmma_mma_async_row(f), where, what, ".satfinite is for s8 and u8");
}

const Row& wgmma_mma_async_bits(const WgmmaBitsForm& f, Where where) {
  return row_of(exists(f), wgmma_mma_async_bits_row(f), where, "wgmma: s32 += b1 x b1",
                fmt::format("n = {} must be 8, 24 or a multiple of 16 up to 256", f.n));
}

const Row& mma_sync(const MmaForm& f, Where where) {
  const std::string what = product("mma", f);
  if (!has_types({f.d, f.a, f.b}))
    throw Error(where, fmt::format("{}: {}", what, PTXBUILDER_TENSOR_CORE_TYPES));
  return row_of(exists(f), mma_sync_row(f), where, what,
                fmt::format("k = {} must be {} or {}, and .satfinite is for s8 and u8", f.k,
                            16 / size_of(f.a), 32 / size_of(f.a)));
}

const Row& createpolicy_evict(Eviction eviction) { return row_of(createpolicy_evict_row(eviction)); }

const Row& cp_async(const AsyncCopyForm& f, Where where) {
  return row_of(exists(f), cp_async_row(f), where, "cp.async", PTXBUILDER_ASYNC_COPY_BYTES);
}

const Row& cp_async_bulk_load(const BulkLoadForm& f) { return row_of(cp_async_bulk_load_row(f)); }

const Row& cp_async_bulk_store(const BulkStoreForm& f) { return row_of(cp_async_bulk_store_row(f)); }

const Row& cp_async_bulk_tensor_load(const TensorLoadForm& f, Where where) {
  return row_of(exists(f), cp_async_bulk_tensor_load_row(f), where, "cp.async.bulk.tensor",
                PTXBUILDER_TENSOR_RANKS);
}

const Row& cp_async_bulk_tensor_prefetch(const TensorPrefetchForm& f, Where where) {
  return row_of(exists(f), cp_async_bulk_tensor_prefetch_row(f), where, "cp.async.bulk.prefetch.tensor",
                PTXBUILDER_TENSOR_RANKS);
}

const Row& cp_async_bulk_tensor_store(const TensorStoreForm& f, Where where) {
  return row_of(exists(f), cp_async_bulk_tensor_store_row(f), where, "cp.async.bulk.tensor",
                PTXBUILDER_TENSOR_RANKS);
}

const Row& cp_reduce_async_bulk_tensor(const TensorReductionForm& f, Where where) {
  return row_of(exists(f), cp_reduce_async_bulk_tensor_row(f), where, "cp.reduce.async.bulk.tensor",
                PTXBUILDER_TENSOR_RANKS);
}

const Row& cp_reduce_async_bulk(const BulkReductionForm& f, Where where) {
  std::vector<std::string_view> types;
  for (DType type : types_of(f.reduction)) types.push_back(name(type));
  return row_of(exists(f), cp_reduce_async_bulk_row(f), where, "cp.reduce.async.bulk",
                fmt::format("{} takes {}", name(f.reduction), fmt::join(types, ", ")));
}

const Row& ldmatrix(const MatrixForm& f, Where where) {
  return row_of(exists(f), ldmatrix_row(f), where, "ldmatrix", PTXBUILDER_MATRICES);
}

const Row& stmatrix(const MatrixForm& f, Where where) {
  return row_of(exists(f), stmatrix_row(f), where, "stmatrix", PTXBUILDER_MATRICES);
}

const Row& cvt_pack(DType to, Where where) {
  return row_of(packs(to), cvt_pack_row(to), where, "cvt", PTXBUILDER_PACKED);
}

const Row& cvt_pack_integer(DType to, Where where) {
  return row_of(is_int8(to), cvt_pack_integer_row(to), where, "cvt", PTXBUILDER_PACKED_INTEGERS);
}

const Row& cvt_f16x2_from(DType from, Where where) {
  return row_of(is_fp8(from), cvt_f16x2_from_row(from), where, "cvt", PTXBUILDER_FP8);
}

const Row& cvt_f16x2_to(DType to, Where where) {
  return row_of(is_fp8(to), cvt_f16x2_to_row(to), where, "cvt", PTXBUILDER_FP8);
}

const Row& ld_acquire(const AcquireForm& f, Where where) {
  return row_of(exists(f), ld_acquire_row(f), where, "ld.acquire",
                PTXBUILDER_GLOBAL_SCOPES ", and " PTXBUILDER_ACQUIRED);
}

const Row& red_release_add(Scope scope, Where where) {
  return row_of(is_global(scope), red_release_add_row(scope), where, "red.release", PTXBUILDER_GLOBAL_SCOPES);
}

const Row& atom_acquire_cas(Scope scope, Where where) {
  return row_of(is_global(scope), atom_acquire_cas_row(scope), where, "atom.acquire",
                PTXBUILDER_GLOBAL_SCOPES);
}

const Row& fence_acq_rel(Scope scope) { return row_of(fence_acq_rel_row(scope)); }

const Row& fence_proxy_async(Space space) { return row_of(fence_proxy_async_row(space)); }

}  // namespace ptxbuilder::isa
