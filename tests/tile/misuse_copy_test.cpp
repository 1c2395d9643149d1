// Tests misuse of tiled copies, tensor copies and shared places. Each case throws an Error that names the
// rule, the values and the line, and has a twin that is accepted.
#include "misuse_kit.h"
#include "ptxbuilder/plan/bank_conflicts.h"
#include "ptxbuilder/product/warp_mma.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/semaphore.h"
#include "ptxbuilder/tile/tma_tensor.h"

namespace ptxbuilder::test::misuse_copy_test {
namespace {

Layout rows_of_threads(int64_t elements) { return threads_along_rows(16, 64, 128, elements); }
ComposedLayout swizzled() { return panel_layout(DType::bf16, 16, 64, Swizzle::b128); }

// Loads a tensor copy into a tile of 16 KB.
void load_tensor(const TensorCopy& copy, std::vector<Slice> (*slices)(bool), bool bad, Where where) {
  Kernel k("k");
  auto [A] = k.params<TensorMap>("A");
  SharedTile tile = k.shared<u32>({128, 32}, Swizzle128B);
  Barriers bar(k, {1});
  sync_threads();
  tma_load(copy, tile[0].address(), A, slices(bad), bar[0], std::nullopt, where);
  done(k);
}

// Loads a tensor copy into a view, and stores it.
void load_view(const TensorCopy& copy, DType type, TileShape shape, int rows, Where where) {
  Kernel k("k");
  auto [A] = k.params<TensorMap>("A");
  SharedTile tile = k.shared(type, shape, Swizzle128B);
  Barriers bar(k, {1});
  sync_threads();
  std::vector<Slice> slices;
  for (int64_t extent : copy.extents()) slices.push_back(ds(0, extent));
  tma_load(copy, tile[0].rows(0, rows).on(bar[0]), A, slices, where);
  done(k);
}

// Makes a bulk load into the view that `view` returns for a tile and a barrier.
void load_bulk(TileShape shape, Swizzle swizzle, LoadView (*view)(const TileView&, smem), Where where) {
  Kernel k("k");
  auto [A] = k.params<gptr<f16>>("A");
  SharedTile tile = k.shared<f16>(shape, swizzle);
  Barriers bar(k, {1});
  sync_threads();
  bulk_load(view(tile[0], bar[0]), A, 0, where);
  done(k);
}

LoadView completing(const TileView& tile, smem barrier) { return tile.on(barrier); }

}  // namespace

TEST_CASE("copy instructions") {
  check_cases({
      {"cp.async of a size it has not",
       {"cp.async: 12 bytes", "4, 8 or 16"},
       [](bool bad) { HERE CopyAtom::cp_async(bad ? 12 : 16); }},
      {"a vector of a size it has not",
       {"vector: 32 bytes", "1, 2, 4, 8 or 16"},
       [](bool bad) { HERE CopyAtom::vector(bad ? 32 : 16); }},
      {"three matrices",
       {"ldmatrix: 3 matrices", "1, 2 or 4"},
       [](bool bad) { HERE CopyAtom::ldmatrix(bad ? 3 : 2); }},
      {"eight matrices",
       {"stmatrix: 8 matrices", "1, 2 or 4"},
       [](bool bad) { HERE CopyAtom::stmatrix(bad ? 8 : 4); }},
      {"bytes transposed",
       {"ldmatrix.x4.trans", "e4m3", "only 16-bit elements"},
       [](bool bad) { HERE CopyAtom::ldmatrix(4, true).held(bad ? DType::e4m3 : DType::f16); }},
      {"an access below an element",
       {"a 2 B vector", "it moves less than one f32 element, which has 4 B"},
       [](bool bad) { HERE CopyAtom::vector(bad ? 2 : 4).held(DType::f32); }},
      {"matrices of 64-bit elements",
       {"stmatrix.x1", "f64", "at most 32 bits"},
       [](bool bad) { HERE CopyAtom::stmatrix(1).held(bad ? DType::f64 : DType::f32); }},
  });
}

TEST_CASE("tiled copies") {
  check_cases({
      {"elements that the swizzle takes apart",
       {"tiled copy by a 16 B vector", "thread 0, access 0", "which are not contiguous"},
       [](bool bad) {
         Layout down = make_layout({{16, 8}, 8}, {{1, 128}, 16});
         ComposedLayout by_columns{upcast(byte_swizzle(Swizzle::b128), 2), 0, make_layout({64, 16}, {1, 64})};
         HERE TiledCopy(CopyAtom::vector(16), DType::bf16, down, bad ? by_columns : swizzled());
       }},
      {"a start that is not aligned",
       {"begins at byte 8, which is not a multiple of 16"},
       [](bool bad) {
         ComposedLayout shifted{byte_swizzle(Swizzle::none), bad ? 4 : 8, make_layout({16, 64}, {64, 1})};
         HERE TiledCopy(CopyAtom::vector(16), DType::bf16, rows_of_threads(8), shifted);
       }},
      {"half a warp for a matrix",
       {"16 threads are not a number of whole warps"},
       [](bool bad) {
         Layout of16 = make_layout({16, 4}, {1, 16}), of32 = make_layout({{4, 8}, 2}, {{16, 1}, 8});
         ComposedLayout plain = panel_layout(DType::bf16, 8, 8, Swizzle::none);
         HERE TiledCopy(CopyAtom::ldmatrix(1), DType::bf16, bad ? of16 : of32, plain);
       }},
      {"values that do not fill an access",
       {"a thread's 8 values are not a multiple of the 16"},
       [](bool bad) {
         const DType type = bad ? DType::u8 : DType::bf16;
         ComposedLayout plain = panel_layout(type, 16, 64, Swizzle::none);
         HERE TiledCopy(CopyAtom::cp_async(16), type, rows_of_threads(8), plain);
       }},
      {"a tile that is too small",
       {"the tile has 512 elements, but a thread holds element 1023"},
       [](bool bad) {
         Layout held = threads_along_rows(16, 64, 128, 1);
         ComposedLayout plain = panel_layout(DType::f32, bad ? 8 : 16, 64, Swizzle::none);
         HERE TiledCopy(CopyAtom::vector(4), DType::f32, held, plain);
       }},
      {"layouts of another rank",
       {"must be of (thread, value) and of (row, column)"},
       [](bool bad) {
         Layout one = make_layout(128), two = make_layout({128, 1});
         ComposedLayout plain = panel_layout(DType::f32, 1, 128, Swizzle::none);
         HERE TiledCopy(CopyAtom::vector(4), DType::f32, bad ? one : two, plain);
       }},
      {"pieces that do not divide a row",
       {"a 16x64 tile by 128 threads, 24 elements", "do not divide a row"},
       [](bool bad) { HERE threads_along_rows(16, 64, 128, bad ? 24 : 32 / 4); }},
      {"rows that do not divide among threads",
       {"its 16 rows of 8 pieces cannot be divided"},
       [](bool bad) { HERE threads_along_rows(16, 64, bad ? 96 : 128, 8); }},
      {"conflicts",
       {"128 threads x 1 times a 16 B vector", "112 bank conflicts in 16 phases", "8 wavefronts"},
       [](bool bad) {
         TiledCopy columns(CopyAtom::vector(16), DType::bf16, make_layout({{16, 8}, 8}, {{1, 128}, 16}),
                           panel_layout(DType::bf16, 16, 64, bad ? Swizzle::none : Swizzle::b128));
         HERE check_conflict_free(columns);
       }},
  });
}

TEST_CASE("tensor copies") {
  check_cases({
      {"a row of no multiple of 16 bytes",
       {"tensor copy of 8x20 f16", "is 40 B", "such as 24 elements"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {8, bad ? 20 : 24});
       }},
      {"a swizzle wider than the row",
       {"128 B swizzle needs a last dimension of a multiple of 128 B, but it is 64 B"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {8, bad ? 32 : 64}, {}, Swizzle::b128);
       }},
      {"a tile that is not the swizzle's span",
       {"64 B swizzle needs a last dimension of 64 B, but it is 128 B"},
       [](bool bad) {
         const Swizzle swizzle = bad ? Swizzle::b64 : Swizzle::b128;
         HERE TensorCopy(DType::f16, {64, 128}, {TileTransform{{64, 64}}}, swizzle);
       }},
      {"a tiling that does not divide",
       {"tile transform {64, 64}", "dimension 1 has 96 elements", "take 128"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {64, bad ? 96 : 128}, {TileTransform{{64, 64}}});
       }},
      {"more tiled dimensions than there are",
       {"tile transform {2, 64, 64}: it has 3 dimensions, but the tensor has 2"},
       [](bool bad) {
         std::vector<int64_t> two = {64, 64}, three = {2, 64, 64};
         HERE TensorCopy(DType::f16, {64, 64}, {TileTransform{bad ? three : two}});
       }},
      {"a tile of nothing",
       {"tile transform {0, 64}", "at least 1"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {64, 64}, {TileTransform{{bad ? 0 : 64, 64}}});
       }},
      {"a permutation that names a dimension twice",
       {"transpose transform {0, 0}", "each of the 2 dimensions once"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {64, 64}, {TransposeTransform{{0, bad ? 0 : 1}}});
       }},
      {"a transposition within the swizzle's pattern",
       {"innermost dimension after the transforms", "since TMA copies contiguous elements"},
       [](bool bad) {
         std::vector<int> inner = {0, 1, 3, 2}, tiles = {1, 0, 2, 3};
         std::vector<CopyTransform> both = {TileTransform{{64, 64}}, TransposeTransform{bad ? inner : tiles}};
         HERE TensorCopy(DType::f16, {128, 128}, both);
       }},
      {"six dimensions",
       {"its tensor map would have 6 dimensions, but at most 5"},
       [](bool bad) {
         std::vector<int64_t> extents = {2, 2, 2, 64};
         std::vector<int64_t> two = {2, 64}, one = {64};
         HERE TensorCopy(DType::f16, extents, {TileTransform{bad ? two : one}});
       }},
      {"a last dimension beyond a box",
       {"has 512 elements after the transforms, but a box has at most 256"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {8, 512}, {TileTransform{{8, bad ? 512 : 256}}}, Swizzle::none);
       }},
      {"boxes that are not aligned",
       {"its 3 boxes of 64 B would not be aligned to 128 B"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {bad ? 2 : 4, 48}, {}, Swizzle::b32);
       }},
      {"a stride of no multiple of 16 bytes",
       {"the stride is 200 B, or 1 elements, along dimension 0", "multiple of 16 B"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {64, 64});
         HERE copy.map_tensor({100, 100}, {bad ? 100 : 104, 1});
       }},
      {"a last stride that is not 1",
       {"the last stride is 2, but must be 1"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {64, 64});
         HERE copy.map_tensor({64, 64}, {128, bad ? 2 : 1});
       }},
      {"a tensor that needs rounding",
       {"dimension 0 has 100 elements, but must have fewer than 64 or a multiple"},
       [](bool bad) {
         TensorCopy exact(DType::f16, {64, 64}, {TileTransform{{64, 64}}}),
             rounded(DType::f16, {64, 64}, {TileTransform{{64, 64}, Rounding::down}});
         HERE(bad ? exact : rounded).map_tensor({100, 128}, {128, 1});
       }},
  });
}

TEST_CASE("collapsed dimensions and such that are left out") {
  check_cases({
      {"collapsing all",
       {"collapse leading {64, 1}: it names 2 of 2 dimensions, but must name at least the first and not the "
        "last, which stays as it is"},
       [](bool bad) {
         std::vector<int64_t> both = {64, 1}, first = {64};
         HERE TensorCopy(DType::f16, {1, 64}, {CollapseLeading{bad ? both : first}});
       }},
      {"collapsing by no stride",
       {"collapse leading {0, 64}: a stride must be at least 1 element"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {1, 1, 64}, {CollapseLeading{{bad ? 0 : 128, 64}}});
       }},
      {"collapsing what is in tiles",
       {"collapse leading {8, 8}: dimension 0 is already in tiles or collapsed"},
       [](bool bad) {
         std::vector<CopyTransform> tiled = {TileTransform{{1, 1, 64}}, CollapseLeading{{8, 8}}},
                                    first = {CollapseLeading{{8, 8}}, TileTransform{{1, 64}}};
         HERE TensorCopy(DType::f16, {1, 1, 64}, bad ? tiled : first);
       }},
      {"several elements along what is collapsed",
       {"tensor copy of 2x1x64 f16: collapsed dimensions are copied one element at a time"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {bad ? 2 : 1, 1, 64}, {CollapseLeading{{128, 64}}});
       }},
      {"a tensor of other strides than were collapsed",
       {"strides of 256 and 64 elements along dimensions 0 and 1 do not match the 2 and 1 with which these "
        "were collapsed"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {1, 1, 64}, {CollapseLeading{{128, 64}}});
         HERE copy.map_tensor({4, 2, 64}, {bad ? 256 : 128, 64, 1});
       }},
      {"leaving out what has elements",
       {"drop unit {0}: dimension 0 has 2 elements or is part of a tile, but only a dimension of 1 element "
        "can be left out"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {bad ? 2 : 1, 8, 64}, {DropUnit{{0}}});
       }},
      {"leaving out a dimension twice",
       {"drop unit {0, 0}: it must name dimensions 0 to 2, each once; the last stays"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {1, 1, 8, 64}, {DropUnit{{0, bad ? 0 : 1}}});
       }},
      {"leaving out the last",
       {"drop unit {1}: it must name dimensions 0 to 0, each once"},
       [](bool bad) {
         HERE TensorCopy(DType::f16, {1, 8}, {DropUnit{{bad ? 1 : 0}}});
       }},
      {"a tensor with elements along what is left out",
       {"drop unit {0}: dimension 0 has 3 elements"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {1, 8, 64}, {DropUnit{{0}}});
         HERE copy.map_tensor({bad ? 3 : 1, 8, 64}, {512, 64, 1});
       }},
      {"a start along what is left out",
       {"tma_load: dimension 0 begins at 1, but must begin at 0, since the copy drops it"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {1, 8, 64}, {DropUnit{{0}}});
         HERE load_tensor(
             copy,
             [](bool b) {
               return std::vector{ds(b ? 1 : 0, 1), ds(0, 8), ds(0, 64)};
             },
             bad, marked);
       }},
  });
}

TEST_CASE("tensor copies and views") {
  check_cases({
      {"a view of another type",
       {"tma_load: a copy of 64x64 f16 in 1 box of 64x64 was used with a view of 64 x 64 of a bf16 64x64 "
        "tile",
        "it needs 64 x 64 f16"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {64, 64});
         HERE load_view(copy, bad ? DType::bf16 : DType::f16, {64, 64}, 64, marked);
       }},
      {"a view of another extent",
       {"tma_load: a copy of 2x32x64 f16 in 1 box of 2x32x64 was used with a view of 32 x 64",
        "it needs 64 x 64 f16"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {2, 32, 64});
         HERE load_view(copy, DType::f16, {64, 64}, bad ? 32 : 64, marked);
       }},
      {"rows of panels that are apart",
       {"tma_load: the view has 32 of the 64 rows of an f16 64x128 tile, 128 B swizzle, so its panels are "
        "not contiguous"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {32, 128});
         HERE load_view(copy, DType::f16, {bad ? 64 : 32, 128}, 32, marked);
       }},
      {"a tile that is not aligned to the pattern",
       {"tma_load: the view of an f16 64x64 tile, no swizzle must begin at a multiple of 1024 B",
        "of the 128 B swizzle; make the tile with that swizzle"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         k.shared<u8>({1, bad ? 128 : 1024});
         SharedTile tile = k.shared<f16>({64, 64});
         Barriers bar(k, {1});
         sync_threads();
         TensorCopy copy(DType::f16, {64, 64});
         HERE tma_load(copy, tile[0].on(bar[0]), A, {ds(0, 64), ds(0, 64)});
         done(k);
       }},
      {"a view without a barrier",
       {"tma_load: the view has no barrier to complete on"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared<f16>({64, 64}, Swizzle128B)[0];
         Barriers bar(k, {1});
         sync_threads();
         TensorCopy copy(DType::f16, {64, 64});
         HERE tma_load(copy, bad ? view : view.on(bar[0]), A, {ds(0, 64), ds(0, 64)});
         done(k);
       }},
      {"a reduction that the type has not",
       {"tma_reduce: xor is not possible for f16; f16 has add, min, max, and xor takes u32, s32, u64"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared<f16>({64, 64}, Swizzle128B)[0];
         TensorCopy copy(DType::f16, {64, 64});
         CopyReduction reduction = bad ? CopyReduction::bit_xor : CopyReduction::max;
         HERE tma_reduce(reduction, copy, A, {ds(0, 64), ds(0, 64)}, view);
         done(k);
       }},
      {"parts for CTAs that are not whole rows",
       {"a copy of 4x64 f16 in 1 box of 4x64 cannot be divided among 8 CTAs into equal parts that are "
        "multiples of a row of 64 f16"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {4, 64});
         HERE copy.divided(bad ? 8 : 4);
       }},
  });
}

TEST_CASE("slices") {
  check_cases({
      {"a slice of another length",
       {"tma_load: the slice has 32 elements along dimension 0, but must have the extent of a copy of 64x64 "
        "f16"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {64, 64});
         HERE load_tensor(
             copy,
             [](bool b) {
               return std::vector{ds(0, b ? 32 : 64), ds(0, 64)};
             },
             bad, marked);
       }},
      {"a dimension without a slice",
       {"tma_load: 1 slices were given, but a copy of 64x64 f16", "2 dimensions"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {64, 64});
         HERE load_tensor(
             copy,
             [](bool b) {
               std::vector slices{ds(0, 64), ds(0, 64)};
               if (b) slices.pop_back();
               return slices;
             },
             bad, marked);
       }},
      {"a start within a tile",
       {"tma_load: dimension 1 begins at 96, but must begin at a multiple of its tile, 64"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {64, 64}, {TileTransform{{64, 64}}});
         HERE load_tensor(
             copy,
             [](bool b) {
               return std::vector{ds(64, 64), ds(b ? 96 : 128, 64)};
             },
             bad, marked);
       }},
      {"a column that is not aligned",
       {"tma_load: the box begins at element 4 of the innermost dimension, 8 B from its start, but TMA needs "
        "multiples of 16 B"},
       [](bool bad) {
         TensorCopy copy(DType::f16, {64, 64});
         HERE load_tensor(
             copy,
             [](bool b) {
               return std::vector{ds(3, 64), ds(b ? 4 : 8, 64)};
             },
             bad, marked);
       }},
      {"a map with two boxes",
       {"tma_load: the tensor map 'A' already serves copies with a box of 64x64 f16", "second map"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B);
         Barriers bar(k, {1});
         sync_threads();
         tma_load(TensorCopy(DType::f16, {64, 64}), tile[0].address(), A, {ds(0, 64), ds(0, 64)}, bar[0]);
         const int rows = bad ? 32 : 64;
         const TensorCopy other(DType::f16, {rows, 64});
         HERE tma_load(other, tile[0].address(), A, {ds(0, rows), ds(0, 64)}, bar[0]);
         done(k);
       }},
      {"a part of a swizzle's pattern",
       {"shared_slice: parts of 4x64", "part 1 begins 512 B into a pattern of 1024 B"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({16, 64}, Swizzle128B);
         const Slice rows = ds(8, bad ? 4 : 8);
         HERE shared_slice(DType::f16, tile[0].layout(), tile[0].address(), rows, ds(0, 64));
         done(k);
       }},
      {"a part that does not divide the tile",
       {"shared_slice: the length is 24, but must divide the extent 64 along dimension 0"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B);
         const Slice rows = ds(0, bad ? 24 : 32);
         HERE shared_slice(DType::f16, tile[0].layout(), tile[0].address(), rows, ds(0, 64));
         done(k);
       }},
      {"a part beyond the tile",
       {"shared_slice: the slice of 32 begins at 64 of 64 along dimension 0, but must begin at a multiple"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B);
         const Slice rows = ds(bad ? 64 : 32, 32);
         HERE shared_slice(DType::f16, tile[0].layout(), tile[0].address(), rows, ds(0, 64));
         done(k);
       }},
      {"a grid barrier inside a role",
       {"grid barrier: all threads of a CTA must arrive at it"},
       [](bool bad) {
         Kernel k("k");
         auto [counter] = k.params<gptr<u32>>("counter");
         GridBarrier all(counter);
         if (!bad) all.sync();
         k.warpgroups(1, 0, [&](u32) { HERE if (bad) all.sync(); });
         done(k);
       }},
      {"a semaphore that only a CTA sees",
       {"red_release_add: red.release.cta.global.add.u32 does not exist; scope is gpu or sys"},
       [](bool bad) {
         Kernel k("k");
         auto [counter] = k.params<gptr<u32>>("counter");
         HERE Semaphore(counter, bad ? Scope::cta : Scope::gpu).signal();
         done(k);
       }},
      {"a wait at a semaphore that only a cluster sees",
       {"ld_acquire: ld.acquire.cluster.global.u32 does not exist; scope is gpu or sys"},
       [](bool bad) {
         Kernel k("k");
         auto [counter] = k.params<gptr<u32>>("counter");
         HERE Semaphore(counter, bad ? Scope::cluster : Scope::sys).wait(u32(1));
         done(k);
       }},
      {"a bulk copy that CTAs cannot share",
       {"bulk_load: 32 B cannot be divided among 4 CTAs", "a multiple of 16 B"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<gptr<f16>>("A");
         k.cluster(4);
         SharedTile tile = k.shared<f16>({1, bad ? 16 : 32});
         Barriers bar(k, {1});
         sync_cluster();
         HERE bulk_load(tile[0].on(bar[0]).multicast(ClusterAxis::x), A, 0);
         sync_cluster();
         done(k);
       }},
      {"a bulk copy from a place that is not aligned",
       {"bulk_store: the copy begins at element 4, byte 8"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<gptr<f16>>("A");
         SharedTile tile = k.shared<f16>({1, 64});
         HERE bulk_store(A, bad ? 4 : 8, tile[0]);
         done(k);
       }},
      {"a bulk copy into a swizzled tile",
       {"bulk_load: the view of 8 x 64 elements of an f16 8x64 tile, 128 B swizzle", "without swizzle"},
       [](bool bad) {
         HERE load_bulk({8, 64}, bad ? Swizzle128B : SwizzleNone, completing, marked);
       }},
      {"a bulk copy into panels",
       {"bulk_load: the view of 8 x 64 elements of an f16 8x64 tile in panels of 8",
        "needs contiguous elements"},
       [](bool bad) {
         HERE load_bulk({8, 64, bad ? 8 : 64}, SwizzleNone, completing, marked);
       }},
      {"a bulk copy of another type",
       {"bulk_store: the elements are f16 in global memory", "f32 8x64 tile", "does not convert types"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<gptr<f16>>("A");
         SharedTile tile = k.shared(bad ? DType::f32 : DType::f16, {8, 64});
         HERE bulk_store(A, 0, tile[0]);
         done(k);
       }},
      {"a bulk copy without a barrier",
       {"bulk_load: the view has no barrier"},
       [](bool bad) {
         auto alone = [](const TileView& tile, smem) -> LoadView { return tile; };
         HERE load_bulk({8, 64}, SwizzleNone, bad ? alone : completing, marked);
       }},
      {"a bulk copy with something outside",
       {"bulk_load: the view fills elements outside with nan", "no tensor"},
       [](bool bad) {
         auto filled = [](const TileView& tile, smem barrier) {
           return tile.on(barrier).outside(OobFill::nan);
         };
         HERE load_bulk({8, 64}, SwizzleNone, bad ? filled : completing, marked);
       }},
      {"a bulk reduction of a type that has it not",
       {"bulk_reduce: inc is not possible for f16", "inc takes u32"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<gptr<f16>>("A");
         SharedTile tile = k.shared<f16>({8, 64});
         HERE bulk_reduce(bad ? CopyReduction::inc : CopyReduction::add, A, 0, tile[0]);
         done(k);
       }},
      {"a tile by an interleaved tensor map",
       {"tma_load: the tensor map 'A' is encoded with interleave 16"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TensorMapRecipe recipe{.dtype = DType::f16, .box = {64, 8, 1}, .element_strides = {1, 1, 1}};
         if (bad) recipe.interleave = Interleave::b16;
         k.encode(A, recipe);
         SharedTile tile = k.shared<f16>({8, 64});
         Barriers bar(k, {1});
         sync_threads();
         HERE tma_load(tile[0].on(bar[0]), A, 0, 0, 0);
         done(k);
       }},
      {"a tensor map that only instructions copy by, without its encoding",
       {"k: no copy uses the tensor map 'A', so its box is not known; if instruction<...> copies, declare "
        "the box with k.encode(A, ...)"},
       [](bool bad) {
         Kernel k("k");
         HERE auto [A] = k.params<TensorMap>("A");
         if (!bad) k.encode(A, {.dtype = DType::f16, .box = {64}, .element_strides = {1}});
         prefetch_tensormap(A);
         done(k);
       }},
      {"an encoding of six dimensions",
       {"encode: the box has 6 extents and 6 element strides, but a tensor map must have 1 to 5 dimensions"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         const std::vector<uint32_t> each(bad ? 6 : 5, 1);
         HERE k.encode(A, {.dtype = DType::f16, .box = each, .element_strides = each});
       }},
      {"an encoding with a stride for another number of dimensions",
       {"encode: the box has 2 extents and 1 element strides"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         const std::vector<uint32_t> strides(bad ? 1 : 2, 1);
         HERE k.encode(A, {.dtype = DType::f16, .box = {64, 8}, .element_strides = strides});
       }},
      {"an encoding of another kernel's tensor map",
       {"k: the tensor map is neither a parameter of this kernel"},
       [](bool bad) {
         Kernel other("other");
         auto [B] = other.params<TensorMap>("B");
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         HERE k.encode(bad ? B : A, {.dtype = DType::f16, .box = {64}, .element_strides = {1}});
       }},
      {"an encoding of no dimensions",
       {"encode: the box has 0 extents"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TensorMapRecipe recipe{.dtype = DType::f16, .box = {64}, .element_strides = {1}};
         if (bad) recipe.box.clear();
         HERE k.encode(A, recipe);
       }},
      {"an encoding of a tensor map that serves copies",
       {"encode: the tensor map 'A' already serves copies"},
       [](bool bad) {
         Kernel k("k");
         auto [A, B] = k.params<TensorMap, TensorMap>("A", "B");
         SharedTile tile = k.shared<f16>({8, 64});
         Barriers bar(k, {1});
         sync_threads();
         tma_load(tile[0].on(bar[0]), A, 0, 0);
         HERE k.encode(bad ? A : B, {.dtype = DType::f16, .box = {64}, .element_strides = {1}});
       }},
  });
}

TEST_CASE("copies of threads") {
  check_cases({
      {"a load by a copy that stores",
       {"load from shared memory: stmatrix.x1 cannot do that"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({8, 8});
         TiledCopy copy(bad ? CopyAtom::stmatrix(1) : CopyAtom::ldmatrix(1), DType::f16,
                        make_layout({{4, 8}, 2}, {{16, 1}, 8}), tile[0].layout());
         HERE load(copy, tile[0].address(), tid_x());
         done(k);
       }},
      {"registers that are too few",
       {"store: 1 registers were given, but 1 accesses of a 16 B vector need 4"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({16, 64}, Swizzle128B);
         TiledCopy copy(CopyAtom::vector(16), DType::f16, rows_of_threads(8), tile[0].layout());
         std::vector<u32> registers(bad ? 1 : 4, tid_x());
         HERE store(copy, tile[0].address(), tid_x(), registers);
         done(k);
       }},
      {"accesses that are not there",
       {"load: accesses 1 to 2 are not all part of 128 threads x 2 times"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({32, 64}, Swizzle128B);
         TiledCopy copy(CopyAtom::vector(16), DType::f16, threads_along_rows(32, 64, 128, 8),
                        tile[0].layout());
         HERE load(copy, tile[0].address(), tid_x(), 1, bad ? 2 : 1);
         done(k);
       }},
      {"cp.async of what is not a row in global memory",
       {"tiled copy by a 16 B vector", "which are not contiguous"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<gptr<f16>>("A");
         SharedTile tile = k.shared<f16>({16, 64}, Swizzle128B);
         Layout down = make_layout({{2, 64}, 8}, {{8, 16}, 1});  // eight rows of a column
         ComposedLayout columns{byte_swizzle(Swizzle::none), 0, make_layout({16, 64})};
         TiledCopy copy(CopyAtom::cp_async(16), DType::f16, bad ? down : rows_of_threads(8),
                        bad ? columns : tile[0].layout());
         GlobalTile from{gmem(A), 64};
         HERE load_async(copy, tile[0].address(), from, tid_x());
         done(k);
       }},
      {"a warp's product with too few registers",
       {"mma: 2 registers of A, 2 of B and 4 of D were given", "needs 4, 2 and 4"},
       [](bool bad) {
         Kernel k("k");
         std::vector<u32> a(bad ? 2 : 4, tid_x()), b(2, tid_x());
         std::vector<Var<f32>> d;
         for (int i = 0; i < 4; ++i) d.emplace_back(0);
         HERE mma(MmaAtom::mma_sync(DType::f32, DType::bf16, DType::bf16, 16), d, a, b);
         done(k);
       }},
      {"a pack into bytes",
       {"pack: the type is e4m3"},
       [](bool bad) {
         Kernel k("k");
         HERE pack(bad ? DType::e4m3 : DType::f16, 1.0f, 2.0f);
         done(k);
       }},
  });
}

TEST_CASE("places that are shared") {
  check_cases({
      {"a barrier in a shared place",
       {"so make it outside of shared_union"},
       [](bool bad) {
         Kernel k("k");
         if (!bad) Barriers(k, {1});
         k.shared_union(
             [&] {
               return k.shared<f16>({64, 64}, Swizzle128B);
             },
             [&] {
               HERE if (bad) Barriers(k, {1});
               return 0;
             });
         sync_threads();
         done(k);
       }},
      {"more than there is, where the objects share a place",
       {"shared memory: 262144 bytes exceed the 232448", "small 16384 at 0, large 262144 at 0"},
       [](bool bad) {
         Kernel k("k");
         k.shared_union(
             [&] {
               return k.shared<f16>({128, 64}, Swizzle128B, 1, "small");
             },
             [&] {
               HERE return k.shared<f16>({128, 64}, Swizzle128B, bad ? 16 : 14, "large");
             });
         done(k);
       }},
  });
}

// The test checks how much memory alternatives take, and where each object is.
TEST_CASE("a shared place is as large as its largest alternative, and each object is aligned as it needs") {
  Kernel k("k");
  SharedTile before = k.shared<f32>({1, 4}, SwizzleNone, 1, "before");  // 16 bytes
  auto [a, b] = k.shared_union(
      [&] {
        return k.shared<bf16>({64, 64}, Swizzle128B, 2, "a");
      },
      [&] {
        SharedTile small = k.shared<f32>({1, 4}, SwizzleNone, 1, "small");
        return std::pair(small, k.shared<f32>({8, 32}, Swizzle128B, 1, "b"));
      });
  SharedTile after = k.shared<f32>({1, 4}, SwizzleNone, 1, "after");
  CHECK(before.offset() == 0);
  CHECK(a.offset() == 1024);
  CHECK(b.first.offset() == 128);
  CHECK(b.second.offset() == 1024);
  CHECK(after.offset() == 1024 + 2 * 8192);
  const auto& objects = k.signature().shared;
  std::vector<std::string> names;
  for (const SharedObject& o : objects) names.push_back(o.name);
  CHECK(names == std::vector<std::string>{"before", "small", "a", "b", "after"});
  CHECK(signature_from_json(to_json(k.signature()), "k.json") == k.signature());
  done(k);
}

}  // namespace ptxbuilder::test::misuse_copy_test
