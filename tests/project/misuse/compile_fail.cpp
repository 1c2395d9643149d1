// clang-format off
// This file holds misuse that the C++ compiler refuses. The bits of LOW choose cases 0 to 63, and those of
// HIGH cases 64 and above. Each chosen case must fail to compile, with a diagnostic that matches the
// expression after "CASE n:". With -DTWIN, the file instead holds the accepted twin of every case.
// tests/project/misuse/run compiles it. An expression is always on one line, however long.
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/tma.h"
#include "ptxbuilder/tile/kernel.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/registers/partial.h"
#include "ptxbuilder/tile/tma_tensor.h"
#include "ptxbuilder/tile/cooperative_copy.h"

using namespace ptxbuilder;

#ifdef TWIN
#define IS(n) 1
#define ONE_OF(wrong, right) right
#else
#define IS(n) (((n) < 64 ? LOW : HIGH) >> (n) % 64 & 1)
#define ONE_OF(wrong, right) wrong
#endif

// Structs of kernel parameters: a valid one, one that contains a struct, and one with an incomplete list of members.
struct Flat {
  u32 x;
  f32 y;
  static constexpr auto fields() { return std::tuple{field("x", &Flat::x), field("y", &Flat::y)}; }
};
struct Nested {
  Flat inner;
  static constexpr auto fields() { return std::tuple{field("inner", &Nested::inner)}; }
};
struct Short {
  f32 y;
  u32 x;
  static constexpr auto fields() { return std::tuple{field("y", &Short::y)}; }
};

PTXBUILDER_ROW(ld_generic, "ld.u32 {d:=u32}, [{a:generic}];", memory, 63, sm_75)

void misuse(Kernel& k, pred p, u32 narrow, s32 with_sign, u64 wide, f32 real, smem shared, cluster_smem remote,
            gptr<u32> global, gptr<f32> reals, TensorMap map, TileView view, Accumulator& acc,
            const RegisterTile<f32>& tile, const TensorCopy& copy, const TiledCopy& tiled) {
  // Some cases do not use all of these variables; the casts avoid warnings.
  (void)k, (void)p, (void)narrow, (void)with_sign, (void)wide, (void)real, (void)shared, (void)remote, (void)global;
  (void)map, (void)view, (void)reals, (void)tile, (void)acc, (void)copy, (void)tiled;

#if IS(1)
  // CASE 1: no known conversion.*u64.*u32
  bar_warp_sync(ONE_OF(wide, u32(wide)));
#endif
#if IS(2)
  // CASE 2: no known conversion.*u32.*smem
  mbarrier_inval(ONE_OF(narrow, shared));
#endif
#if IS(3)
  // CASE 3: (no match for|invalid operands).*operator.?\+|invalid operands to binary expression
  narrow = narrow + ONE_OF(with_sign, u32(with_sign));
#endif
#if IS(4)
  // CASE 4: a device predicate is not known while the kernel is built: use if_\(p
  ONE_OF(if (p) wgmma_fence(), if_(p, [] { wgmma_fence(); }));
#endif
#if IS(5)
  // CASE 5: a device predicate is not known while the kernel is built: use if_\(p
  ONE_OF(if (p && narrow < 3) wgmma_fence(), if_(p && narrow < 3, [] { wgmma_fence(); }));
#endif
#if IS(6)
  // CASE 6: an instruction with a result cannot be guarded
  ONE_OF(mbarrier_arrive_state, mbarrier_arrive).when(p)(shared);
#endif
#if IS(7)
  // CASE 7: no match for call|no matching function|too few arguments
  bar_sync ONE_OF((1), (1, 128));
#endif
#if IS(8)
  // CASE 8: no known conversion.*int.*Where
  bar_sync ONE_OF((1, 128, 3), (1, 128));
#endif
#if IS(9)
  // CASE 9: no known conversion.*(gptr|Pointer).*smem
  mbarrier_inval(ONE_OF(global, shared));
#endif
#if IS(10)
  // CASE 10: no known conversion.*u32.*(Immediate|InputOf)
  bar_sync_all(ONE_OF(narrow, 0));
#endif
#if IS(11)
  // CASE 11: no known conversion.*f32.*u32
  bar_warp_sync(ONE_OF(real, bit_cast<u32>(real)));
#endif
#if IS(12)
  // CASE 12: no known conversion.*double.*u32
  bar_warp_sync(ONE_OF(1.0, 1));
#endif
#if IS(13)
  // CASE 13: no known conversion.*bool.*u32
  bar_warp_sync(ONE_OF(true, 1));
#endif
#if IS(14)
  // CASE 14: deleted function
  k.params<ONE_OF(sptr<f32>, gptr<f32>)>("x");
#endif
#if IS(15)
  // CASE 15: (cannot convert|no known conversion|could not convert|no matching).*u32.*pred
  if_(ONE_OF(narrow, narrow != 0), [] {});
#endif
#if IS(16)
  // CASE 16: no known conversion.*u64.*u32
  narrow = select(p, narrow, ONE_OF(wide, u32(wide)));
#endif
#if IS(17)
  // CASE 17: deleted (function|constructor)
  Var<u32> from(narrow), to(ONE_OF(from, from.value()));
#endif
#if IS(18)
  // CASE 18: (no match for|no viable overloaded).*=
  global[0] = ONE_OF(real, u32(real));
#endif
#if IS(19)
  // CASE 19: 1, 2, 4, ... elements in one access
  load<ONE_OF(3, 4)>(global);
#endif
#if IS(20)
  // CASE 20: no known conversion.*cluster_smem.*smem
  mbarrier_inval(ONE_OF(remote, shared));
#endif
#if IS(21)
  // CASE 21: (no known conversion|cannot convert).*(gptr|Pointer).*TensorMap
  tma_load(view, ONE_OF(global, map), 0, 0);
#endif
#if IS(22)
  // CASE 22: constraints not satisfied
  wgmma_fence.when(ONE_OF(true, pred(true)))();
#endif
#if IS(23)
  // CASE 23: no match for .*operator|no viable overloaded operator
  (sptr<u32>(shared))[ONE_OF(wide, u32(wide))] = 1;
#endif
#if IS(24)
  // CASE 24: constraints not satisfied
  for_(0, ONE_OF(real, narrow), [](ONE_OF(f32, u32)) {});
#endif
#if IS(25)
  // CASE 25: no match for .*operator~|invalid argument type
  ONE_OF(~real, ~narrow);
#endif
#if IS(26)
  // CASE 26: no match for .*operator%=|no viable overloaded|invalid operands
  ONE_OF(reals, global)[0] %= 3;
#endif
#if IS(27)
  // CASE 27: no match for .*operator\+=|no viable overloaded|invalid operands
  global[0] += ONE_OF(with_sign, u32(with_sign));
#endif
#if IS(28)
  // CASE 28: a struct's fields are scalars and gptr<T>
  k.params<ONE_OF(Nested, Flat)>("s");
#endif
#if IS(29)
  // CASE 29: (no|could not|not).*(convert|default|match).*(u32|Short)
  k.params<ONE_OF(Short, Flat)>("s");
#endif

  // A partial sum cannot be used as a complete sum.
  auto part = partial_rows<Reduction::add>(tile);
  (void)part;
#if IS(30)
  // CASE 30: no match for .*operator\*|invalid operands
  tile* ONE_OF(part, complete(part));
#endif
#if IS(31)
  // CASE 31: no matching function for call to .*store
  store(reals, ONE_OF(part, complete(part)));
#endif
#if IS(32)
  // CASE 32: no matching function for call to .*broadcast
  broadcast(ONE_OF(part, complete(part)), tile.layout());
#endif
#if IS(33)
  // CASE 33: no matching function for call to .*max
  max(ONE_OF(part, complete(part)), 0);
#endif
#if IS(34)
  // CASE 34: no match for .*operator\+|invalid operands
  part + ONE_OF(complete(part), part);
#endif
#if IS(35)
  // CASE 35: no match for .*operator&|invalid operands
  ONE_OF(tile, row_index(tile.layout())) & 3;
#endif
#if IS(36)
  // CASE 36: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*CopyView
  mma(acc, ONE_OF(view.when(p), view), view);
#endif
#if IS(37)
  // CASE 37: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*CopyView
  mma(acc, view, ONE_OF(view.evict(Eviction::first), view));
#endif
#if IS(38)
  // CASE 38: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*LoadView
  mma(acc, ONE_OF(view.multicast(ClusterAxis::x), view), view);
#endif
#if IS(39)
  // CASE 39: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(CopyView|store)
  store(ONE_OF(view.when(p), view), tile);
#endif
#if IS(40)
  // CASE 40: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(CopyView|load)
  load<f32>(ONE_OF(view.when(p), view));
#endif
#if IS(41)
  // CASE 41: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(CopyView|load)
  load(tiled, ONE_OF(view.when(p), view), narrow);
#endif
#if IS(42)
  // CASE 42: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(CopyView|SharedPlace)
  load_async(tiled, ONE_OF(view.when(p), view), GlobalTile{gmem(global), narrow}, narrow);
#endif
#if IS(43)
  // CASE 43: CopyView.*has no member named .*rows|no member named .rows. in .*CopyView
  (void)view ONE_OF(.when(p).rows(0, 8), .rows(0, 8).when(p));
#endif
#if IS(44)
  // CASE 44: LoadView.*has no member named .*transposed|no member named .transposed. in .*LoadView
  (void)view ONE_OF(.on(shared).transposed(), .transposed());
#endif
#if IS(45)
  // CASE 45: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(LoadView|tma_store)
  tma_store(map, ONE_OF(view.on(shared), view), 0, 0);
#endif
#if IS(46)
  // CASE 46: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(LoadView|tma_store)
  tma_store(map, ONE_OF(view.outside(OobFill::nan), view.when(p)), 0, 0);
#endif
#if IS(47)
  // CASE 47: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(LoadView|tma_store)
  tma_store(map, ONE_OF(view.multicast(ClusterAxis::x), view.evict(Eviction::first)), 0, 0);
#endif
#if IS(48)
  // CASE 48: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(LoadView|tma_reduce)
  tma_reduce(CopyReduction::add, map, ONE_OF(view.expecting(shared), view.when(p)), 0, 0);
#endif
#if IS(49)
  // CASE 49: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(LoadView|tma_store)
  tma_store(copy, map, {ds(0, 8)}, ONE_OF(view.on(shared), view.when(p)));
#endif
#if IS(50)
  // CASE 50: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(LoadView|bulk_store)
  bulk_store(global, 0, ONE_OF(view.on(shared), view.when(p)));
#endif
#if IS(51)
  // CASE 51: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(CopyView|shared_slice)
  shared_slice(ONE_OF(view.when(p), view), ds(0, 8), ds(0, 8));
#endif
#if IS(52)
  // CASE 52: (cannot convert|no known conversion|could not convert|no matching|invalid initialization|no viable conversion).*(CopyView|MatrixProduct)
  MatrixProduct(view, ONE_OF(view.evict(Eviction::last), view));
#endif
#if IS(53)
  // CASE 53: no match for call|no matching function for call
  GlobalTensor(reals, {narrow, narrow})ONE_OF((0), (0, 0)) = 1;
#endif
#if IS(54)
  // CASE 54: no matching function|no match
  store(GlobalTensor(ONE_OF(global, reals), {narrow, narrow}).tile(0, 0), tile);
#endif

  // A form chooses an instruction from its family, and also its operands.
  const std::array<u32, 2> two = {narrow, narrow};
  const std::array<u32, 4> four = {narrow, narrow, narrow, narrow};
  const std::array<f32, 4> sums = {real, real, real, real};
  (void)two, (void)four, (void)sums;
#if IS(55)
  // CASE 55: static assertion failed.*wgmma_mma_async: b is .*bf16 .a = bf16.|static_assert failed.*wgmma_mma_async: b is 
  (void)wgmma_mma_async<WgmmaForm{DType::f32, DType::bf16, ONE_OF(DType::f16, DType::bf16), 8}>;
#endif
#if IS(56)
  // CASE 56: wgmma_mma_async: n is 8 to 256 in steps of 8 .d = f16 or f32.
  (void)wgmma_mma_async<WgmmaForm{DType::f32, DType::bf16, DType::bf16, ONE_OF(12, 16)}>;
#endif
#if IS(57)
  // CASE 57: wgmma_mma_async: satfinite is false .d = f16 or f32.
  (void)wgmma_mma_async<WgmmaForm{.d = DType::f32, .a = DType::f16, .b = DType::f16, .n = 8, .satfinite = ONE_OF(true, false)}>;
#endif
#if IS(58)
  // CASE 58: wgmma_mma_async_bits: n is 8 to 32 in steps of 8 or 48 to 256 in steps of 16
  (void)wgmma_mma_async_bits<WgmmaBitsForm{.n = ONE_OF(40, 48)}>;
#endif
#if IS(59)
  // CASE 59: mma_sync: k is .*8 or 16 .a = f16 or bf16.
  (void)mma_sync<MmaForm{DType::f32, DType::bf16, DType::bf16, ONE_OF(32, 16)}>;
#endif
#if IS(60)
  // CASE 60: cp_async_bulk_tensor_load: rank is 1 to 5
  (void)cp_async_bulk_tensor_load<TensorLoadForm{.rank = ONE_OF(6, 5), .multicast = true}>;
#endif
#if IS(61)
  // CASE 61: cp_reduce_async_bulk: type is .*u32 .reduction = inc or dec.
  (void)cp_reduce_async_bulk<BulkReductionForm{CopyReduction::inc, ONE_OF(DType::f32, DType::u32)}>;
#endif
#if IS(62)
  // CASE 62: ldmatrix: matrices is 1, 2 or 4
  (void)ldmatrix<MatrixForm{.matrices = ONE_OF(3, 4)}>;
#endif
#if IS(63)
  // CASE 63: cvt_pack: to is f16, bf16, e4m3 or e5m2
  (void)cvt_pack<ONE_OF(DType::f32, DType::f16)>;
#endif
#if IS(64)
  // CASE 64: no known conversion.*array<.*2>.*ListOf<.*4>
  stmatrix<MatrixForm{.matrices = 4}>(shared, ONE_OF(two, four));
#endif
#if IS(65)
  // CASE 65: no known conversion.*u32, 4>.*f32, 4>
  mma_sync<MmaForm{DType::f32, DType::bf16, DType::bf16, 16}>(four, two, ONE_OF(four, sums));
#endif
#if IS(66)
  // CASE 66: no match for call|no matching function|too few arguments
  mma_sync<MmaForm{DType::f32, DType::bf16, DType::bf16, 16}>ONE_OF((four, two), (four, two, sums));
#endif
#if IS(67)
  // CASE 67: an instruction with a result cannot be guarded
  ONE_OF(ldmatrix<MatrixForm{.matrices = 1}>, mbarrier_inval).when(p)(shared);
#endif
#if IS(68)
  // CASE 68: (conversion from|no viable conversion|could not convert).*array
  std::array<u32, ONE_OF(2, 4)> matrices = ldmatrix<MatrixForm{.matrices = 4}>(shared);
#endif
#if IS(69)
  // CASE 69: no match for call|no matching function
  wgmma_mma_async<WgmmaForm{DType::f32, DType::bf16, DType::bf16, 8}>(ONE_OF(four, sums), wide, wide, p, 1, 1, 0, 0);
#endif
#if IS(70)
  // CASE 70: no known conversion.*(gptr|Pointer).*generic_address
  ld_generic(ONE_OF(global, generic_address(global)));
#endif
#if IS(71)
  // CASE 71: cp_async: bytes is 4, 8 or 16
  (void)cp_async<AsyncCopyForm{.bytes = ONE_OF(12, 16)}>;
#endif
#if IS(72)
  // CASE 72: red_release_add: scope is gpu or sys
  (void)red_release_add<ONE_OF(Scope::cta, Scope::gpu)>;
#endif
#if IS(73)
  // CASE 73: ld_acquire: type is u32 or u64
  (void)ld_acquire<AcquireForm{Scope::gpu, ONE_OF(DType::f32, DType::u64)}>;
#endif
#if IS(74)
  // CASE 74: cvt_f16x2_to: to is e4m3 or e5m2
  (void)cvt_f16x2_to<ONE_OF(DType::bf16, DType::e4m3)>;
#endif
#if IS(75)
  // CASE 75: no match for .*operator\*|invalid operands
  tile* ONE_OF(global[0], reals[0]);
#endif

  // An element is read when its value is used, not when `auto` names its place.
#if IS(76)
  // CASE 76: an element that is kept with auto would be read when it is used
  ONE_OF(auto, u32) kept = global[0];
  global[1] = kept;
#endif
#if IS(77)
  // CASE 77: an element that is kept with auto would be read when it is used
  ONE_OF(const auto&, f32) factor = reals[0];
  reals[1] = real * factor;
#endif
#if IS(78)
  // CASE 78: an element that is kept with auto would be read when it is used
  ONE_OF(auto, u32) at = GlobalTensor(global, {narrow, narrow})(0, 1);
  bar_warp_sync(ONE_OF(at.value(), at));
#endif
#if IS(79)
  // CASE 79: no match for .*=|no viable overloaded|passing .* as .this. argument discards|cannot bind
  ONE_OF(auto place = global[0]; place = narrow, global[0] = narrow);
#endif
#if IS(80)
  // CASE 80: the type of the bound is the type of the index
  for_(0, ONE_OF(10, u32(10)), [](u32) {});
#endif
}
