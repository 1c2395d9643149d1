// Families of copies: of contiguous bytes, of a tensor's boxes, and those that reduce. families.h says what a
// family is.
#pragma once

#include <array>
#include <span>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/isa/made_row.h"

namespace ptxbuilder::isa {

namespace detail {

// What multicast adds to the name, the mnemonic and the operands, and what a cache hint does.
constexpr std::string_view multicast_name(bool multicast) { return multicast ? "_multicast" : ""; }
constexpr std::string_view multicast_modifier(bool multicast) {
  return multicast ? ".multicast::cluster" : "";
}
constexpr std::string_view multicast_operand(bool multicast) { return multicast ? ", {cta_mask:b16}" : ""; }
constexpr std::string_view hint_name(bool hint) { return hint ? "_cache_hint" : ""; }
constexpr std::string_view hint_modifier(bool hint) { return hint ? ".L2::cache_hint" : ""; }
constexpr std::string_view hint_operand(bool hint) { return hint ? ", {policy:b64}" : ""; }

}  // namespace detail

// ---- Cache policies ----

// When the L2 cache evicts the lines that a copy touches (PTX ISA, createpolicy): in the normal order;
// first, for data that nobody reads again; or last, for data that many read.
enum class Eviction : uint8_t { normal, first, last };

// PTX ISA, createpolicy.fractional: the policy for the lines of a copy, all of them.
constexpr MadeRow createpolicy_evict_row(Eviction eviction) {
  constexpr std::array<std::string_view, 3> names = {"normal", "first", "last"};
  const std::string_view order = names[static_cast<size_t>(eviction)];
  return {{"createpolicy_evict_$", {order}},
          {"createpolicy.fractional.L2::evict_$.b64 {policy:=b64};", {order}},
          Effect::pure,
          74,
          Sm::sm_80};
}

template <Eviction eviction>
constexpr const Row& createpolicy_evict() {
  return detail::constant<createpolicy_evict_row, eviction>;
}

// ---- Contiguous bytes ----

// PTX ISA, cp.async: 4, 8 or 16 bytes by one thread; operands dst, src. With zfill there is a third, bytes:
// so many are read, and zeros follow them. 4 and 8 bytes stay in L1, 16 pass it by.
struct AsyncCopyForm {
  int bytes;
  bool zfill = false;
};

#define PTXBUILDER_ASYNC_COPY_BYTES "it copies 4, 8 or 16 bytes"

constexpr bool exists(const AsyncCopyForm& f) { return f.bytes == 4 || f.bytes == 8 || f.bytes == 16; }

constexpr MadeRow cp_async_row(const AsyncCopyForm& f) {
  return {{"cp_async_$$", {f.bytes, f.zfill ? "_zfill" : ""}},
          {"cp.async.$.shared::cta.global [{dst:smem}], [{src:gmem}], $$;",
           {f.bytes == 16 ? "cg" : "ca", f.bytes, f.zfill ? Text(", {bytes:u32<0..$>}", {f.bytes}) : Text()}},
          Effect::memory,
          70,
          Sm::sm_80};
}

template <AsyncCopyForm form>
constexpr const Row& cp_async() {
  static_assert(exists(form), "cp.async: " PTXBUILDER_ASYNC_COPY_BYTES);
  return detail::constant<cp_async_row, form>;
}

// PTX ISA, cp.async.bulk. Loads have operands dst, src, bytes, bar, then cta_mask when multicast and policy
// when a cache hint is given; stores have dst, src, bytes, then policy.
struct BulkLoadForm {
  bool multicast = false, cache_hint = false;
};

constexpr MadeRow cp_async_bulk_load_row(const BulkLoadForm& f) {
  return {{"cp_async_bulk_load$$", {detail::multicast_name(f.multicast), detail::hint_name(f.cache_hint)}},
          {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes$$ [{dst:smem}], [{src:gmem}], "
           "{bytes:u32<0..1048560/16>}, [{bar:smem}]$$;",
           {detail::multicast_modifier(f.multicast), detail::hint_modifier(f.cache_hint),
            detail::multicast_operand(f.multicast), detail::hint_operand(f.cache_hint)}},
          Effect::memory,
          80,
          Sm::sm_90};
}

template <BulkLoadForm form>
constexpr const Row& cp_async_bulk_load() {
  return detail::constant<cp_async_bulk_load_row, form>;
}

struct BulkStoreForm {
  bool cache_hint = false;
};

constexpr MadeRow cp_async_bulk_store_row(const BulkStoreForm& f) {
  return {{"cp_async_bulk_store$", {detail::hint_name(f.cache_hint)}},
          {"cp.async.bulk.global.shared::cta.bulk_group$ [{dst:gmem}], [{src:smem}], "
           "{bytes:u32<0..1048560/16>}$;",
           {detail::hint_modifier(f.cache_hint), detail::hint_operand(f.cache_hint)}},
          Effect::memory,
          80,
          Sm::sm_90};
}

template <BulkStoreForm form>
constexpr const Row& cp_async_bulk_store() {
  return detail::constant<cp_async_bulk_store_row, form>;
}

// ---- Tensor copies ----

#define PTXBUILDER_TENSOR_RANKS "a tensor map has rank 1 to 5"

namespace detail {

constexpr bool is_tensor_rank(int rank) { return rank >= 1 && rank <= 5; }

// "[{map:tmap}, {{{c0:s32}, {c1:s32}}}]"
constexpr Text tensor_at(int rank) {
  Text text("[{map:tmap}, {{", {});
  for (int i = 0; i < rank; ++i) text.add("${c$:s32}", {i ? ", " : "", i});
  text.add("}}]", {});
  return text;
}

}  // namespace detail

// PTX ISA, cp.async.bulk.tensor, tile mode: rank 1 to 5. Loads have operands dst, map, c0.., bar, then
// cta_mask when multicast and policy when a cache hint is given; stores have map, c0.., src, then policy.
struct TensorLoadForm {
  int rank;
  bool multicast = false, cache_hint = false;
};

constexpr bool exists(const TensorLoadForm& f) { return detail::is_tensor_rank(f.rank); }

constexpr MadeRow cp_async_bulk_tensor_load_row(const TensorLoadForm& f) {
  return {{"cp_async_bulk_tensor_$d_load$$",
           {f.rank, detail::multicast_name(f.multicast), detail::hint_name(f.cache_hint)}},
          {"cp.async.bulk.tensor.$d.shared::cluster.global.mbarrier::complete_tx::bytes$$ [{dst:smem}], $, "
           "[{bar:smem}]$$;",
           {f.rank, detail::multicast_modifier(f.multicast), detail::hint_modifier(f.cache_hint),
            detail::tensor_at(f.rank), detail::multicast_operand(f.multicast),
            detail::hint_operand(f.cache_hint)}},
          Effect::memory,
          80,
          Sm::sm_90};
}

template <TensorLoadForm form>
constexpr const Row& cp_async_bulk_tensor_load() {
  static_assert(exists(form), "cp.async.bulk.tensor: " PTXBUILDER_TENSOR_RANKS);
  return detail::constant<cp_async_bulk_tensor_load_row, form>;
}

// PTX ISA, cp.async.bulk.prefetch.tensor: the same box into L2 alone; operands map, c0...
struct TensorPrefetchForm {
  int rank;
};

constexpr bool exists(const TensorPrefetchForm& f) { return detail::is_tensor_rank(f.rank); }

constexpr MadeRow cp_async_bulk_tensor_prefetch_row(const TensorPrefetchForm& f) {
  return {{"cp_async_bulk_tensor_$d_prefetch", {f.rank}},
          {"cp.async.bulk.prefetch.tensor.$d.L2.global $;", {f.rank, detail::tensor_at(f.rank)}},
          Effect::memory,
          80,
          Sm::sm_90};
}

template <TensorPrefetchForm form>
constexpr const Row& cp_async_bulk_tensor_prefetch() {
  static_assert(exists(form), "cp.async.bulk.prefetch.tensor: " PTXBUILDER_TENSOR_RANKS);
  return detail::constant<cp_async_bulk_tensor_prefetch_row, form>;
}

struct TensorStoreForm {
  int rank;
  bool cache_hint = false;
};

constexpr bool exists(const TensorStoreForm& f) { return detail::is_tensor_rank(f.rank); }

constexpr MadeRow cp_async_bulk_tensor_store_row(const TensorStoreForm& f) {
  return {{"cp_async_bulk_tensor_$d_store$", {f.rank, detail::hint_name(f.cache_hint)}},
          {"cp.async.bulk.tensor.$d.global.shared::cta.bulk_group$ $, [{src:smem}]$;",
           {f.rank, detail::hint_modifier(f.cache_hint), detail::tensor_at(f.rank),
            detail::hint_operand(f.cache_hint)}},
          Effect::memory,
          80,
          Sm::sm_90};
}

template <TensorStoreForm form>
constexpr const Row& cp_async_bulk_tensor_store() {
  static_assert(exists(form), "cp.async.bulk.tensor: " PTXBUILDER_TENSOR_RANKS);
  return detail::constant<cp_async_bulk_tensor_store_row, form>;
}

// ---- Copies that reduce ----

// What a reduction does with the element that is there: old + new, the least, the greatest, their bits, old +
// 1 or 0 from new on (inc), old - 1 or new at 0 and above new (dec).
enum class CopyReduction : uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };
inline constexpr std::array kCopyReductions = {
    CopyReduction::add, CopyReduction::min,     CopyReduction::max,    CopyReduction::inc,
    CopyReduction::dec, CopyReduction::bit_and, CopyReduction::bit_or, CopyReduction::bit_xor};

constexpr std::string_view name(CopyReduction reduction) {  // "add", "and"
  constexpr std::array<std::string_view, 8> names = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  return names[static_cast<size_t>(reduction)];
}

namespace detail {

inline constexpr std::array kAdded = {DType::u32,  DType::s32, DType::u64, DType::f16,
                                      DType::bf16, DType::f32, DType::f64};
inline constexpr std::array kCompared = {DType::u32, DType::s32, DType::u64,
                                         DType::s64, DType::f16, DType::bf16};
inline constexpr std::array kCounted = {DType::u32};
// PTX has the bits of s32 under the name of u32's; of s64 an H100 stops at them as illegal instructions.
inline constexpr std::array kBits = {DType::u32, DType::s32, DType::u64};

}  // namespace detail

// That the reduction has.
constexpr std::span<const DType> types_of(CopyReduction reduction) {
  switch (reduction) {
    case CopyReduction::add:
      return detail::kAdded;
    case CopyReduction::min:
    case CopyReduction::max:
      return detail::kCompared;
    case CopyReduction::inc:
    case CopyReduction::dec:
      return detail::kCounted;
    default:
      return detail::kBits;
  }
}

// PTX ISA, cp.reduce.async.bulk.tensor: a store that reduces; the tensor map knows the type.
struct TensorReductionForm {
  int rank;
  CopyReduction reduction;
  bool cache_hint = false;
};

constexpr bool exists(const TensorReductionForm& f) { return detail::is_tensor_rank(f.rank); }

constexpr MadeRow cp_reduce_async_bulk_tensor_row(const TensorReductionForm& f) {
  return {{"cp_reduce_async_bulk_tensor_$d_$$", {f.rank, name(f.reduction), detail::hint_name(f.cache_hint)}},
          {"cp.reduce.async.bulk.tensor.$d.global.shared::cta.$.bulk_group$ $, [{src:smem}]$;",
           {f.rank, name(f.reduction), detail::hint_modifier(f.cache_hint), detail::tensor_at(f.rank),
            detail::hint_operand(f.cache_hint)}},
          Effect::memory,
          80,
          Sm::sm_90};
}

template <TensorReductionForm form>
constexpr const Row& cp_reduce_async_bulk_tensor() {
  static_assert(exists(form), "cp.reduce.async.bulk.tensor: " PTXBUILDER_TENSOR_RANKS);
  return detail::constant<cp_reduce_async_bulk_tensor_row, form>;
}

// PTX ISA, cp.reduce.async.bulk: contiguous elements into global memory; operands dst, src, bytes, then
// policy.
struct BulkReductionForm {
  CopyReduction reduction;
  DType type;
  bool cache_hint = false;
};

constexpr bool exists(const BulkReductionForm& f) {
  for (DType type : types_of(f.reduction))
    if (type == f.type) return true;
  return false;
}

constexpr MadeRow cp_reduce_async_bulk_row(const BulkReductionForm& f) {
  const bool of_bits = f.reduction >= CopyReduction::bit_and;
  const DType type = of_bits && f.type == DType::s32 ? DType::u32 : f.type;
  const bool rounds = f.reduction == CopyReduction::add && size_of(type) == 2;
  return {{"cp_reduce_async_bulk_$_$$", {name(f.reduction), name(type), detail::hint_name(f.cache_hint)}},
          {"cp.reduce.async.bulk.global.shared::cta.bulk_group$.$$.$ [{dst:gmem}], [{src:smem}], "
           "{bytes:u32<0..1048560/16>}$;",
           {detail::hint_modifier(f.cache_hint), name(f.reduction), rounds ? ".noftz" : "",
            !of_bits             ? name(type)
            : size_of(type) == 8 ? "b64"
                                 : "b32",
            detail::hint_operand(f.cache_hint)}},
          Effect::memory,
          80,
          Sm::sm_90};
}

template <BulkReductionForm form>
constexpr const Row& cp_reduce_async_bulk() {
  static_assert(exists(form),
                "cp.reduce.async.bulk: add takes u32, s32, u64, f16, bf16, f32, f64; min and max take u32, "
                "s32, u64, s64, f16, bf16; inc and dec take u32; and, or, xor take u32, s32, u64");
  return detail::constant<cp_reduce_async_bulk_row, form>;
}

}  // namespace ptxbuilder::isa
