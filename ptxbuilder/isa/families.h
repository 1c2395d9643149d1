// Families: rows that differ along axes only. For each there are the form that names a member, the rules that
// a form keeps, and one function that makes its row, at compile time for a typed call and at run time for the
// table. Those of copies are in copy_families.h.
//
//   isa::ldmatrix<MatrixForm{.matrices = 4}>()  the row, as a constant; a wrong form does not compile
//   isa::ldmatrix({.matrices = 4})              the same of the table (rows.h); a wrong form throws Error
//
// The manual (manual.h) has these rows and those of rows.def once more. To take them from there, every file
// that includes a typed call would have to read the whole manual: each row takes the compiler some 20 ms, and
// a kernel's headers have hundreds. manual_test holds the two against each other, row by row.
#pragma once

#include <array>

#include "ptxbuilder/isa/copy_families.h"

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

// The columns of each of the wgmmas that make n columns of sums: all, or where n is wider than one has them,
// half; 0 where there is no such n.
constexpr int wgmma_width_of(DType d, int n) {
  return wgmma_has_width(d, n) ? n : n > 256 && n % 2 == 0 && wgmma_has_width(d, n / 2) ? n / 2 : 0;
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

// ---- Conversions of pairs ----

#define PTXBUILDER_FP8 "two f16 convert to and from e4m3 or e5m2"
#define PTXBUILDER_PACKED "two f32 pack into f16, bf16, e4m3 or e5m2"
#define PTXBUILDER_PACKED_INTEGERS "two s32 pack into s8 or u8"

// sm_90 had them before sm_89.
inline constexpr EarlyFloor kEarlyFp8 = {78, Sm::sm_90};

// PTX ISA, cvt with packing: two f32, `high` and `low`, to nearest even, to one b32 of two f16 or bf16, or to
// one b16 of two e4m3 or e5m2, which clamp at their greatest value.
constexpr bool packs(DType to) { return is_half(to) || is_fp8(to); }

constexpr MadeRow cvt_pack_row(DType to) {
  const bool clamps = is_fp8(to);
  return {{"cvt_rn_$$x2_f32", {clamps ? "satfinite_" : "", name(to)}},
          {"cvt.rn.$$x2.f32 {d:=$}, {high:f32}, {low:f32};",
           {clamps ? "satfinite." : "", name(to), clamps ? "b16" : "b32"}},
          Effect::pure,
          clamps ? 81 : 70,
          clamps ? Sm::sm_89 : Sm::sm_80,
          clamps ? kEarlyFp8 : EarlyFloor{}};
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

// PTX ISA, cvt: two fp8 of a b16 to the two f16 of a b32 that hold them exactly, and two f16 to the nearest
// fp8, ties to even, which clamp at their greatest value.
constexpr MadeRow cvt_f16x2_from_row(DType from) {
  return {{"cvt_rn_f16x2_$x2", {name(from)}},
          {"cvt.rn.f16x2.$x2 {d:=b32}, {a:b16};", {name(from)}},
          Effect::pure,
          81,
          Sm::sm_89,
          kEarlyFp8};
}

constexpr MadeRow cvt_f16x2_to_row(DType to) {
  return {{"cvt_rn_satfinite_$x2_f16x2", {name(to)}},
          {"cvt.rn.satfinite.$x2.f16x2 {d:=b16}, {a:b32};", {name(to)}},
          Effect::pure,
          81,
          Sm::sm_89,
          kEarlyFp8};
}

template <DType from>
constexpr const Row& cvt_f16x2_from() {
  static_assert(is_fp8(from), "cvt: " PTXBUILDER_FP8);
  return detail::constant<cvt_f16x2_from_row, from>;
}

template <DType to>
constexpr const Row& cvt_f16x2_to() {
  static_assert(is_fp8(to), "cvt: " PTXBUILDER_FP8);
  return detail::constant<cvt_f16x2_to_row, to>;
}

// ---- Synchronization ----

// Which threads synchronize (PTX ISA, "Memory Consistency Model", scope): those of the CTA, the cluster, the
// GPU, or the system with its host and other GPUs.
enum class Scope : uint8_t { cta, cluster, gpu, sys };

constexpr std::string_view name(Scope scope) {
  constexpr std::array<std::string_view, 4> names = {"cta", "cluster", "gpu", "sys"};
  return names[static_cast<size_t>(scope)];
}

#define PTXBUILDER_GLOBAL_SCOPES "in global memory the scope is gpu or sys"
#define PTXBUILDER_ACQUIRED "it loads u32 or u64"

constexpr bool is_global(Scope scope) { return scope == Scope::gpu || scope == Scope::sys; }

// PTX ISA, ld.acquire, of u32 or u64 in global memory; operands d, a.
struct AcquireForm {
  Scope scope;
  DType type;
};

constexpr bool is_acquired(DType type) { return type == DType::u32 || type == DType::u64; }

constexpr bool exists(const AcquireForm& f) { return is_global(f.scope) && is_acquired(f.type); }

constexpr MadeRow ld_acquire_row(const AcquireForm& f) {
  return {{"ld_acquire_$_global_$", {name(f.scope), name(f.type)}},
          {"ld.acquire.$.global.$ {d:=$}, [{a:gmem}];", {name(f.scope), name(f.type), name(f.type)}},
          Effect::memory,
          63,
          Sm::sm_75};
}

template <AcquireForm form>
constexpr const Row& ld_acquire() {
  static_assert(is_global(form.scope), "ld.acquire: " PTXBUILDER_GLOBAL_SCOPES);
  static_assert(is_acquired(form.type), "ld.acquire: " PTXBUILDER_ACQUIRED);
  return detail::constant<ld_acquire_row, form>;
}

// PTX ISA, red.release: adds v to a u32 in global memory; operands a, v.
constexpr MadeRow red_release_add_row(Scope scope) {
  return {{"red_release_$_global_add_u32", {name(scope)}},
          {"red.release.$.global.add.u32 [{a:gmem}], {v:u32};", {name(scope)}},
          Effect::memory,
          63,
          Sm::sm_75};
}

template <Scope scope>
constexpr const Row& red_release_add() {
  static_assert(is_global(scope), "red.release: " PTXBUILDER_GLOBAL_SCOPES);
  return detail::constant<red_release_add_row, scope>;
}

// PTX ISA, atom.acquire: writes v where a b32 in global memory is as expected; operands d, what was there, a,
// expected, v.
constexpr MadeRow atom_acquire_cas_row(Scope scope) {
  return {{"atom_acquire_$_global_cas_b32", {name(scope)}},
          {"atom.acquire.$.global.cas.b32 {d:=b32}, [{a:gmem}], {expected:b32}, {v:b32};", {name(scope)}},
          Effect::memory,
          63,
          Sm::sm_75};
}

template <Scope scope>
constexpr const Row& atom_acquire_cas() {
  static_assert(is_global(scope), "atom.acquire: " PTXBUILDER_GLOBAL_SCOPES);
  return detail::constant<atom_acquire_cas_row, scope>;
}

// PTX ISA, fence.acq_rel, of each scope.
constexpr MadeRow fence_acq_rel_row(Scope scope) {
  const bool cluster = scope == Scope::cluster;
  return {{"fence_acq_rel_$", {name(scope)}},
          {"fence.acq_rel.$;", {name(scope)}},
          Effect::memory,
          cluster ? 78 : 63,
          cluster ? Sm::sm_90 : Sm::sm_75};
}

template <Scope scope>
constexpr const Row& fence_acq_rel() {
  return detail::constant<fence_acq_rel_row, scope>;
}

// PTX ISA, fence.proxy.async: orders what the generic proxy and the async proxy (TMA, wgmma) do in one state
// space, or in all.
enum class Space : uint8_t { all, shared, global };

constexpr MadeRow fence_proxy_async_row(Space space) {
  constexpr std::array<std::string_view, 3> names = {"", "_shared", "_global"};
  constexpr std::array<std::string_view, 3> modifiers = {"", ".shared::cta", ".global"};
  const auto i = static_cast<size_t>(space);
  return {{"fence_proxy_async$", {names[i]}},
          {"fence.proxy.async$;", {modifiers[i]}},
          Effect::memory,
          80,
          Sm::sm_90};
}

template <Space space>
constexpr const Row& fence_proxy_async() {
  return detail::constant<fence_proxy_async_row, space>;
}

}  // namespace ptxbuilder::isa
