// Families: rows that differ along axes only. For each there are the form that names a member, the rules that
// a form keeps, and one function that makes its row, at compile time for a typed call and at run time for the
// table.
//
//   isa::ldmatrix<MatrixForm{.matrices = 4}>()  the row, as a constant; a wrong form does not compile
//   isa::ldmatrix({.matrices = 4})              the same of the table (rows.h); a wrong form throws Error
#pragma once

#include <array>
#include <span>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/isa/made_row.h"

namespace ptxbuilder::isa {

// ---- Tensor cores ----

// What is multiplied, a x b, and what the products are added up in.
struct TensorCoreTypes {
  DType d, a, b;
};

// Of wgmma and mma.sync alike, but for single bits.
inline constexpr std::array kTensorCoreTypes = [] {
  using enum DType;
  return std::to_array<TensorCoreTypes>({{f16, f16, f16},
                                         {f32, f16, f16},
                                         {f32, bf16, bf16},
                                         {f32, tf32, tf32},
                                         {f16, e4m3, e4m3},
                                         {f16, e4m3, e5m2},
                                         {f16, e5m2, e4m3},
                                         {f16, e5m2, e5m2},
                                         {f32, e4m3, e4m3},
                                         {f32, e4m3, e5m2},
                                         {f32, e5m2, e4m3},
                                         {f32, e5m2, e5m2},
                                         {s32, s8, s8},
                                         {s32, s8, u8},
                                         {s32, u8, s8},
                                         {s32, u8, u8}});
}();

constexpr bool has_types(const TensorCoreTypes& types) {
  for (const TensorCoreTypes& t : kTensorCoreTypes)
    if (t.d == types.d && t.a == types.a && t.b == types.b) return true;
  return false;
}

#define PTXBUILDER_TENSOR_CORE_TYPES                                                                     \
  "types may be f16, bf16, tf32 (A and B alike), e4m3 or e5m2 (also mixed) into f32; f16, e4m3 or e5m2 " \
  "into f16; s8 or u8 (also mixed) into s32"

namespace detail {

// The class of an operand with `elements` of a D fragment a thread: f16 lies two to a register.
constexpr Text fragment(DType d, int elements) {
  if (d == DType::f16) return {"b32x$", {elements / 2}};
  return {"$x$", {name(d), elements}};
}

// s8, u8 and b1 have fewer widths than the floating types.
constexpr bool is_integer_width(int n) { return n >= 8 && n <= 256 && (n == 8 || n == 24 || n % 16 == 0); }

// `shape_and_types` as "m64n8k16.f32.bf16.bf16".
constexpr Text wgmma_syntax(const Text& shape_and_types, const Text& d, bool a_in_registers,
                            const Text& modifiers) {
  return {"wgmma.mma_async.sync.aligned.$ {d:+$}, {a:$}, {b:b64}, {scale_d:pred}$;",
          {shape_and_types, d, a_in_registers ? "b32x4" : "b64", modifiers}};
}

}  // namespace detail

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

constexpr int wgmma_depth(DType ab) { return 32 / size_of(ab); }  // k: 32 bytes

// Whether there is such an n for accumulators of type d.
constexpr bool wgmma_has_width(DType d, int n) {
  return d == DType::s32 ? detail::is_integer_width(n) : n >= 8 && n <= 256 && n % 8 == 0;
}

constexpr bool exists(const WgmmaForm& f) {
  return has_types({f.d, f.a, f.b}) && wgmma_has_width(f.d, f.n) && (!f.satfinite || f.d == DType::s32);
}

constexpr MadeRow wgmma_mma_async_row(const WgmmaForm& f) {
  const bool integer = f.d == DType::s32, of_16_bits = size_of(f.a) == 2;
  const int k = wgmma_depth(f.a);
  const Text types = {"m64n$k$.$.$.$$",
                      {f.n, k, name(f.d), name(f.a), name(f.b), f.satfinite ? ".satfinite" : ""}};
  const Text modifiers = {"$$$",
                          {integer ? "" : ", {scale_a:imm<-1..1/2>}, {scale_b:imm<-1..1/2>}",
                           of_16_bits && !f.a_in_registers ? ", {trans_a:imm<0..1>}" : "",
                           of_16_bits ? ", {trans_b:imm<0..1>}" : ""}};
  return {{"wgmma_mma_async_m64n$k$_$_$_$$_$",
           {f.n, k, name(f.d), name(f.a), name(f.b), f.satfinite ? "_satfinite" : "",
            f.a_in_registers ? "rs" : "ss"}},
          detail::wgmma_syntax(types, detail::fragment(f.d, f.n / 2), f.a_in_registers, modifiers),
          Effect::memory,
          integer && f.a != f.b ? 84 : 80,
          Sm::sm_90a};
}

template <WgmmaForm form>
constexpr const Row& wgmma_mma_async() {
  static_assert(has_types({form.d, form.a, form.b}), "wgmma: " PTXBUILDER_TENSOR_CORE_TYPES);
  static_assert(wgmma_has_width(form.d, form.n),
                "wgmma: n must be a multiple of 8 from 8 to 256, and into s32 from 32 on of 16");
  static_assert(!form.satfinite || form.d == DType::s32, "wgmma: .satfinite is for s8 and u8");
  return detail::constant<wgmma_mma_async_row, form>;
}

// The same for single bits, D[64,n] += popcount(A[64,256] & B[256,n]) in s32, 32 bits to a register of A.
struct WgmmaBitsForm {
  int n;
  bool a_in_registers = false;
};

constexpr bool exists(const WgmmaBitsForm& f) { return wgmma_has_width(DType::s32, f.n); }

constexpr MadeRow wgmma_mma_async_bits_row(const WgmmaBitsForm& f) {
  const Text types = {"m64n$k256.s32.b1.b1.and.popc", {f.n}};
  return {{"wgmma_mma_async_m64n$k256_s32_b1_b1_and_popc_$", {f.n, f.a_in_registers ? "rs" : "ss"}},
          detail::wgmma_syntax(types, detail::fragment(DType::s32, f.n / 2), f.a_in_registers, {}),
          Effect::memory,
          80,
          Sm::sm_90a};
}

template <WgmmaBitsForm form>
constexpr const Row& wgmma_mma_async_bits() {
  static_assert(exists(form), "wgmma: n must be 8, 24 or a multiple of 16 up to 256");
  return detail::constant<wgmma_mma_async_bits_row, form>;
}

// PTX ISA, mma.sync: D[16,8] = A[16,k] B[k,8] + C of one warp, A by rows and B by columns, types as wgmma. k
// is 16 or 32 bytes. Operands d, a, b, c.
struct MmaForm {
  DType d, a, b;
  int k;
  bool satfinite = false;
};

constexpr bool mma_has_depth(DType ab, int k) { return k * size_of(ab) == 16 || k * size_of(ab) == 32; }

constexpr bool exists(const MmaForm& f) {
  return has_types({f.d, f.a, f.b}) && mma_has_depth(f.a, f.k) && (!f.satfinite || f.d == DType::s32);
}

// A and B fill 8 (k of 16 bytes) or 16 bytes of a thread's registers a row.
constexpr MadeRow mma_sync_row(const MmaForm& f) {
  const int halves = f.k * size_of(f.a) / 16;
  const Text c = detail::fragment(f.d, 4);
  int version = 70;
  Sm sm = Sm::sm_80;
  if (is_fp8(f.a)) version = f.d == DType::f32 && halves == 2 ? 84 : 87, sm = Sm::sm_89;
  if (f.a == DType::f16 && halves == 1) version = 65, sm = Sm::sm_75;
  return {
      {"mma_sync_m16n8k$_$_$_$$", {f.k, name(f.d), name(f.a), name(f.b), f.satfinite ? "_satfinite" : ""}},
      {"mma.sync.aligned.m16n8k$.row.col$.$.$.$.$ {d:=$}, {a:b32x$}, {b:b32x$}, {c:$};",
       {f.k, f.satfinite ? ".satfinite" : "", name(f.d), name(f.a), name(f.b), name(f.d), c, 2 * halves,
        halves, c}},
      Effect::memory,
      version,
      sm};
}

template <MmaForm form>
constexpr const Row& mma_sync() {
  static_assert(has_types({form.d, form.a, form.b}), "mma.sync: " PTXBUILDER_TENSOR_CORE_TYPES);
  static_assert(mma_has_depth(form.a, form.k), "mma.sync: k must be 16 or 32 bytes of the type of A");
  static_assert(!form.satfinite || form.d == DType::s32, "mma.sync: .satfinite is for s8 and u8");
  return detail::constant<mma_sync_row, form>;
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

// What a cache hint adds to the name, the mnemonic and the operands.
constexpr std::string_view hint_name(bool hint) { return hint ? "_cache_hint" : ""; }
constexpr std::string_view hint_modifier(bool hint) { return hint ? ".L2::cache_hint" : ""; }
constexpr std::string_view hint_operand(bool hint) { return hint ? ", {policy:b64}" : ""; }

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
           {f.rank, f.multicast ? "_multicast" : "", detail::hint_name(f.cache_hint)}},
          {"cp.async.bulk.tensor.$d.shared::cluster.global.mbarrier::complete_tx::bytes$$ [{dst:smem}], $, "
           "[{bar:smem}]$$;",
           {f.rank, f.multicast ? ".multicast::cluster" : "", detail::hint_modifier(f.cache_hint),
            detail::tensor_at(f.rank), f.multicast ? ", {cta_mask:b16}" : "",
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
  return {
      {"cp_reduce_async_bulk_$_$$", {name(f.reduction), name(type), detail::hint_name(f.cache_hint)}},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group$.$$.$ [{dst:gmem}], [{src:smem}], {bytes:u32}$;",
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

// ---- Matrices between shared memory and registers ----

// PTX ISA, ldmatrix and stmatrix: 1, 2 or 4 8x8 matrices of 16-bit elements, d or s, in as many b32 registers
// a thread.
struct MatrixForm {
  int matrices;
  bool transposed = false;
};

#define PTXBUILDER_MATRICES "it moves 1, 2 or 4 matrices"

constexpr bool exists(const MatrixForm& f) { return f.matrices == 1 || f.matrices == 2 || f.matrices == 4; }

constexpr MadeRow ldmatrix_row(const MatrixForm& f) {
  return {{"ldmatrix_x$$", {f.matrices, f.transposed ? "_trans" : ""}},
          {"ldmatrix.sync.aligned.m8n8.x$$.shared::cta.b16 {d:=b32x$}, [{address:smem}];",
           {f.matrices, f.transposed ? ".trans" : "", f.matrices}},
          Effect::memory,
          78,
          Sm::sm_75};
}

constexpr MadeRow stmatrix_row(const MatrixForm& f) {
  return {{"stmatrix_x$$", {f.matrices, f.transposed ? "_trans" : ""}},
          {"stmatrix.sync.aligned.m8n8.x$$.shared::cta.b16 [{address:smem}], {s:b32x$};",
           {f.matrices, f.transposed ? ".trans" : "", f.matrices}},
          Effect::memory,
          78,
          Sm::sm_90};
}

template <MatrixForm form>
constexpr const Row& ldmatrix() {
  static_assert(exists(form), "ldmatrix: " PTXBUILDER_MATRICES);
  return detail::constant<ldmatrix_row, form>;
}

template <MatrixForm form>
constexpr const Row& stmatrix() {
  static_assert(exists(form), "stmatrix: " PTXBUILDER_MATRICES);
  return detail::constant<stmatrix_row, form>;
}

// ---- Conversions that pack ----

#define PTXBUILDER_PACKED "two f32 pack into f16, bf16, e4m3 or e5m2"
#define PTXBUILDER_PACKED_INTEGERS "two s32 pack into s8 or u8"

// PTX ISA, cvt with packing: two f32, `high` and `low`, to nearest even, to one b32 of two f16 or bf16, or to
// one b16 of two e4m3 or e5m2, which clamp at their greatest value.
constexpr bool packs(DType to) { return is_half(to) || is_fp8(to); }

constexpr MadeRow cvt_pack_row(DType to) {
  const bool clamps = is_fp8(to);
  return {{"cvt_rn_$$x2_f32", {clamps ? "satfinite_" : "", name(to)}},
          {"cvt.rn.$$x2.f32 {d:=$}, {high:f32}, {low:f32};",
           {clamps ? "satfinite." : "", name(to), clamps ? "b16" : "b32"}},
          Effect::pure,
          clamps ? 78 : 70,
          clamps ? Sm::sm_90 : Sm::sm_80};
}

template <DType to>
constexpr const Row& cvt_pack() {
  static_assert(packs(to), "cvt: " PTXBUILDER_PACKED);
  return detail::constant<cvt_pack_row, to>;
}

// PTX ISA, cvt.pack: two s32, `high` and `low`, clamped to s8 or u8, in the low half of a b32 whose high half
// is the low half of `above`.
constexpr MadeRow cvt_pack_integer_row(DType to) {
  return {{"cvt_pack_sat_$_s32", {name(to)}},
          {"cvt.pack.sat.$.s32.b32 {d:=b32}, {high:s32}, {low:s32}, {above:b32};", {name(to)}},
          Effect::pure,
          65,
          Sm::sm_75};
}

template <DType to>
constexpr const Row& cvt_pack_integer() {
  static_assert(is_int8(to), "cvt.pack: " PTXBUILDER_PACKED_INTEGERS);
  return detail::constant<cvt_pack_integer_row, to>;
}

}  // namespace ptxbuilder::isa
