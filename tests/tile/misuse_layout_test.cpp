// Tests misuse of layouts: descriptors, operands, instructions, tiles, boxes, clusters and barriers that do
// not fit. Each case throws an Error that names the rule, the values and the line, before there is PTX. Each
// case has a twin that is accepted.
#include "misuse_kit.h"
#include "ptxbuilder/plan/mma_atom.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::test::misuse_layout_test {
namespace {

// Creates an operand of wgmma.
void operand(DType type, Major major, Swizzle swizzle, int mn, int k, Where where) {
  WgmmaOperand(type, major, swizzle, mn, k, where);
}

WgmmaOperand a_operand(DType type = DType::bf16, Major major = Major::k, int mn = 128, int k = 64) {
  return WgmmaOperand(type, major, Swizzle::b128, mn, k);
}

MmaAtom atom(int n = 64, DType type = DType::bf16) { return MmaAtom::wgmma(DType::f32, type, type, n); }

// Creates a tiled product of two operands.
void tiled(const WgmmaOperand& a, const WgmmaOperand& b, Where where) { TiledMma(atom(), a, b, where); }

// Loads a whole tile at the coordinates of a case.
template <class... C>
void load_tile(DType type, TileShape shape, Swizzle swizzle, Where where, C... coordinates) {
  Kernel k("k");
  auto [A] = k.params<TensorMap>("A");
  SharedTile tile(k.builder(), type, shape, swizzle, 1, "", where);
  Barriers bar(k, {1});
  sync_threads();
  tma_load({tile[0].on(bar[0]), where}, A, coordinates...);
  done(k);
}

// Loads a tile that the CTAs of a cluster share along x.
void load_shared(std::array<uint32_t, 3> cluster, int rows, bool one_coordinate, Where where) {
  Kernel k("k");
  k.cluster(cluster[0], cluster[1], cluster[2]);
  auto [A] = k.params<TensorMap>("A");
  auto tile = k.shared<bf16>({rows, 64}, Swizzle128B);
  Barriers bar(k, {1});
  sync_cluster();
  LoadView view = tile[0].on(bar[0]).multicast(ClusterAxis::x);
  if (one_coordinate)
    tma_load({view, where}, A, 0);
  else
    tma_load({view, where}, A, 0, 0);
  done(k);
}

// Loads twice through one tensor map.
void load_both(DType first, DType second, Swizzle one, Swizzle two, Where where) {
  Kernel k("k");
  auto [A] = k.params<TensorMap>("A");
  SharedTile a(k.builder(), first, {64, 64}, one, 1, "", where);
  SharedTile b(k.builder(), second, {64, 64}, two, 1, "", where);
  Barriers bar(k, {1});
  sync_threads();
  tma_load(a[0].on(bar[0]), A, 0, 0);
  tma_load({b[0].on(bar[0]), where}, A, 0, 64);
  done(k);
}

// Multiplies two views: `a` takes one from the tile of A, and `b` takes one from the tile of B.
void multiply(DType type, TileShape a_shape, TileShape b_shape, Swizzle swizzle, bool a_transposed,
              bool b_transposed, Where where) {
  Kernel k("k");
  SharedTile a(k.builder(), type, a_shape, swizzle, 1, "", where);
  SharedTile b(k.builder(), type, b_shape, swizzle, 1, "", where);
  Accumulator acc(64, 64);
  wgmma_group([&] {
    mma(acc, a_transposed ? a[0].transposed() : a[0], b_transposed ? b[0].transposed() : b[0], where);
  });
  wgmma_wait(0);
  done(k);
}

}  // namespace

TEST_CASE("descriptors") {
  check_cases({
      {"a start between chunks",
       {"descriptor: the start address is 8 B, but must be a multiple of 16 B below 256 KiB"},
       [](bool bad) { HERE MatrixDescriptor{.start_address = bad ? 8u : 16u}.encode(marked); }},
      {"a start beyond shared memory",
       {"descriptor: the start address is 262144 B"},
       [](bool bad) { HERE MatrixDescriptor{.start_address = bad ? 262144u : 262128u}.encode(marked); }},
      {"a leading offset between chunks",
       {"descriptor: the leading byte offset is 24 B, but must be a multiple of 16 B"},
       [](bool bad) { HERE MatrixDescriptor{.leading_byte_offset = bad ? 24u : 32u}.encode(marked); }},
      {"a stride that does not fit",
       {"descriptor: the stride byte offset is 1048576 B"},
       [](bool bad) { HERE MatrixDescriptor{.stride_byte_offset = bad ? 1u << 20 : 1024}.encode(marked); }},
      {"a base offset of 8",
       {"descriptor: the base offset is 8, but must be 0 to 7"},
       [](bool bad) { HERE MatrixDescriptor{.base_offset = bad ? 8u : 7u}.encode(marked); }},
      {"bits that must be 0",
       {"descriptor: 0x4000004000014000 sets the bits 0x0000000000004000, which must be 0"},
       [](bool bad) { HERE MatrixDescriptor::decode(0x4000004000010000 | (bad ? 0x4000 : 0), marked); }},
  });
}

TEST_CASE("operands of wgmma") {
  check_cases({
      {"f64",
       {"wgmma operand: ", "the type is f64, but must be f16, bf16, tf32, e4m3, e5m2, s8 or u8"},
       [](bool bad) {
         HERE operand(bad ? DType::f64 : DType::tf32, Major::k, Swizzle::b128, 64, 32, marked);
       }},
      {"tf32 along m",
       {"tf32 cannot be MN-major: wgmma only transposes 16-bit elements, but tf32 has 32"},
       [](bool bad) {
         HERE operand(bad ? DType::tf32 : DType::f16, Major::mn, Swizzle::b128, 64, 64, marked);
       }},
      {"a row of 96 B in 128 B swizzle",
       {"48 bf16 along k are 96 B, but must be a multiple of 128 B; the widest swizzle that fits is 32 B, or "
        "use 64 along k"},
       [](bool bad) {
         HERE operand(DType::bf16, Major::k, bad ? Swizzle::b128 : Swizzle::b32, 64, 48, marked);
       }},
      {"a row of 64 B along n in 128 B swizzle",
       {"32 bf16 along mn are 64 B, but must be a multiple of 128 B; the widest swizzle that fits is 64 B"},
       [](bool bad) {
         HERE operand(DType::bf16, Major::mn, bad ? Swizzle::b128 : Swizzle::b64, 32, 64, marked);
       }},
      {"half an instruction",
       {"8 along k is not a multiple of 16, the number in the 32 B of an instruction; the nearest is 16"},
       [](bool bad) { HERE operand(DType::bf16, Major::k, Swizzle::none, 64, bad ? 8 : 16, marked); }},
      {"half an instruction of bytes",
       {"16 along k is not a multiple of 32, the number in the 32 B of an instruction; the nearest is 32"},
       [](bool bad) { HERE operand(DType::e4m3, Major::k, Swizzle::none, 64, bad ? 16 : 32, marked); }},
      {"rows that are not a multiple of 8",
       {"60 along mn is not a multiple of 8; the nearest is 64"},
       [](bool bad) { HERE operand(DType::s8, Major::k, Swizzle::b128, bad ? 60 : 64, 128, marked); }},
      {"nothing",
       {"there are no elements"},
       [](bool bad) { HERE operand(DType::f16, Major::k, Swizzle::b128, bad ? 0 : 8, 64, marked); }},
      {"a part across an atom",
       {"a part has 12 of the 128 elements along mn of K-major bf16 128x64 with 128 B swizzle, but must have "
        "a multiple of 8"},
       [](bool bad) { HERE a_operand().part(bad ? 12 : 16, marked); }},
      {"a part larger than the whole",
       {"a part has 136 of the 128 elements along mn"},
       [](bool bad) { HERE a_operand().part(bad ? 136 : 128, marked); }},
      {"blocks that do not divide",
       {"a block has 48 elements along mn, but the number must be a multiple of 8, the atom's extent, and "
        "divide 128"},
       [](bool bad) { HERE a_operand().advances_mn(bad ? 48 : 32, marked); }},
      {"blocks smaller than an atom",
       {"a block has 32 elements along mn, but the number must be a multiple of 64, the atom's extent"},
       [](bool bad) { HERE a_operand(DType::bf16, Major::mn).advances_mn(bad ? 32 : 64, marked); }},
  });
}

TEST_CASE("instructions") {
  check_cases({
      {"n = 12",
       {"m64n12k16.f32.bf16.bf16", "; n is 8 to 256 in steps of 8 (d = f16 or f32)"},
       [](bool bad) {
         HERE MmaAtom::wgmma(DType::f32, DType::bf16, DType::bf16, bad ? 12 : 16, Major::k, Major::k, marked);
       }},
      {"n = 40 into s32",
       {"n40k32"},
       [](bool bad) {
         HERE MmaAtom::wgmma(DType::s32, DType::s8, DType::u8, bad ? 40 : 48, Major::k, Major::k, marked);
       }},
      {"bytes along m",
       {"wgmma: e5m2 cannot be MN-major: only 16-bit elements can be transposed"},
       [](bool bad) {
         HERE MmaAtom::wgmma(DType::f32, DType::e5m2, DType::e4m3, 64, bad ? Major::mn : Major::k, Major::k,
                             marked);
       }},
      {"tf32 along n with registers",
       {"wgmma: tf32 cannot be MN-major"},
       [](bool bad) {
         HERE MmaAtom::wgmma_a_in_registers(DType::f32, DType::tf32, DType::tf32, 64,
                                            bad ? Major::mn : Major::k, marked);
       }},
      {"tf32 into f16",
       {".f16.tf32.tf32", "; a is ", "f16, e4m3 or e5m2 (d = f16)"},
       [](bool bad) {
         HERE MmaAtom::wgmma(bad ? DType::f16 : DType::f32, DType::tf32, DType::tf32, 64, Major::k, Major::k,
                             marked);
       }},
      {"f16 times bf16",
       {".f32.f16.bf16", "; b is ", "f16 (a = f16)"},
       [](bool bad) {
         HERE MmaAtom::wgmma(DType::f32, DType::f16, bad ? DType::bf16 : DType::f16, 64, Major::k, Major::k,
                             marked);
       }},
      {"e4m3 into s32",
       {".s32.e4m3.e4m3", "; a is ", "u8 or s8 (d = s32)"},
       [](bool bad) {
         HERE MmaAtom::wgmma(bad ? DType::s32 : DType::f16, DType::e4m3, DType::e4m3, 64, Major::k, Major::k,
                             marked);
       }},
      {"a tile of another type",
       {"tiled mma: A is K-major f16 128x64 with 128 B swizzle, but the instruction needs K-major bf16"},
       [](bool bad) { HERE tiled(a_operand(bad ? DType::f16 : DType::bf16), a_operand(), marked); }},
      {"a tile of another major",
       {"tiled mma: B is MN-major bf16 128x64 with 128 B swizzle, but the instruction needs K-major bf16"},
       [](bool bad) { HERE tiled(a_operand(), a_operand(DType::bf16, bad ? Major::mn : Major::k), marked); }},
      {"96 rows",
       {"tiled mma: m is 96, but must be a multiple of the instruction's 64"},
       [](bool bad) { HERE tiled(a_operand(DType::bf16, Major::k, bad ? 96 : 192), a_operand(), marked); }},
      {"96 columns",
       {"tiled mma: B is K-major bf16 96x64 with 128 B swizzle, but the instruction needs multiples of "
        "64x16"},
       [](bool bad) { HERE tiled(a_operand(), a_operand(DType::bf16, Major::k, bad ? 96 : 192), marked); }},
      {"two depths",
       {"tiled mma: A is K-major bf16 128x128 with 128 B swizzle and B is K-major bf16 128x64 with 128 B "
        "swizzle, but both must have the same k"},
       [](bool bad) {
         HERE tiled(a_operand(DType::bf16, Major::k, 128, bad ? 128 : 64), a_operand(), marked);
       }},
      {"a tile for registers",
       {"tiled mma: A is K-major bf16 128x64 with 128 B swizzle, but the instruction reads A from registers"},
       [](bool bad) {
         HERE TiledMma(bad ? MmaAtom::wgmma_a_in_registers(DType::f32, DType::bf16, DType::bf16, 64) : atom(),
                       a_operand(), a_operand(), marked);
       }},
      {"the descriptor of registers",
       {"tiled mma: A is in registers and has no descriptor"},
       [](bool bad) {
         TiledMma in_registers(MmaAtom::wgmma_a_in_registers(DType::f32, DType::bf16, DType::bf16, 64), 64,
                               a_operand());
         TiledMma shared(atom(), a_operand(), a_operand());
         HERE(bad ? in_registers : shared).descriptor_a(0, 0, 0, marked);
       }},
      {"an instruction of one warp",
       {"reads B from registers, not through a descriptor"},
       [](bool bad) {
         HERE TiledMma(bad ? MmaAtom::mma_sync(DType::f32, DType::bf16, DType::bf16, 16) : atom(), 64,
                       a_operand(), marked);
       }},
  });
}

TEST_CASE("tiles and boxes") {
  check_cases({
      {"a row of 96 bytes in 64 B swizzle",
       {"shared: a row of 96 e4m3 is 96 B, but must be a multiple of the swizzle's 64 B"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<e4m3>({64, 96}, bad ? Swizzle64B : Swizzle32B);
         done(k);
       }},
      {"stages between patterns of 64 B swizzle",
       {"shared: a stage is 256 B, but must be a multiple of 512 B, or the next one would not be aligned"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<bf16>({bad ? 4 : 8, 32}, Swizzle64B, 2);
         done(k);
       }},
      {"stages between lines",
       {"shared: a stage is 48 B, but must be a multiple of 128 B, or the next one would not be aligned"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<bf16>({1, 24}, SwizzleNone, bad ? 2 : 1);
         done(k);
       }},
      {"panels of -8 columns",
       {"shared: the width of a panel is -8 columns, but must divide the row of 64 bf16"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<bf16>({64, 64, bad ? -8 : 8});
         done(k);
       }},
      {"panels of 8 bytes",
       {"shared: the width of a panel is 4 columns, but must divide the row of 64 bf16 and be a multiple of "
        "16 B"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<bf16>({64, 64, bad ? 4 : 16});
         done(k);
       }},
      {"no stages",
       {"shared: rows, cols and stages must be positive, but are 64, 64 and 0"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<bf16>({64, 64}, Swizzle128B, bad ? 0 : 1);
         done(k);
       }},
      {"stages beyond shared memory",
       {"shared memory: 245760 bytes exceed the 232448 that a CTA may have"},
       [](bool bad) {
         Kernel k("k");
         int stages = bad ? 5 : 4;
         k.shared<bf16>({128, 64}, Swizzle128B, stages);
         HERE k.shared<bf16>({256, 64}, Swizzle128B, stages);
         done(k);
       }},
      {"a row wider than a box",
       {"tma_load: box extent 528 along dimension 0 exceeds 256 for a u8 8x528 tile, no swizzle",
        "a multiple of 128 is copied",
        "or declare it in panels, such as k.shared<...>({.rows = 8, .cols = 528, .panel_cols = 176})"},
       [](bool bad) {
         HERE load_tile(DType::u8, {8, bad ? 528 : 512}, Swizzle::none, marked, 0, 0);
       }},
      {"a row wider than a box, which no multiple of 256 divides",
       {"tma_load: box extent 264 along dimension 0 exceeds 256 for a bf16 8x264 tile, no swizzle",
        ".panel_cols = 88"},
       [](bool bad) {
         HERE load_tile(DType::bf16, {8, 264, bad ? 0 : 88}, Swizzle::none, marked, 0, 0);
       }},
      {"a tile higher than a box",
       {"tma_load: box extent 260 along dimension 1 exceeds 256 for an s8 260x128 tile, 128 B swizzle",
        "a multiple of 8 is copied", "or copy fewer of its 260 rows at a time: tile[s].rows(first, count)"},
       [](bool bad) {
         HERE load_tile(DType::s8, {bad ? 260 : 264, 128}, Swizzle::b128, marked, 0, 0);
       }},
      {"one map for two swizzles",
       {"tma_load: the tensor map 'A' already serves copies with a box of 64x64 bf16 elements and 128 B "
        "swizzle; a bf16 64x64 tile, no swizzle needs 64x64 and none: declare a second map"},
       [](bool bad) {
         HERE load_both(DType::bf16, DType::bf16, Swizzle::b128, bad ? Swizzle::none : Swizzle::b128, marked);
       }},
      {"one map for two types",
       {"tma_load: the tensor map 'A' already serves copies with a box of 64x64 bf16 elements"},
       [](bool bad) {
         HERE load_both(DType::bf16, bad ? DType::f16 : DType::bf16, Swizzle::b128, Swizzle::b128, marked);
       }},
      {"one map for two ranks",
       {"tma_load: the tensor map 'A' already serves copies with a box of 64x8 bf16 elements"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         auto tile = k.shared<bf16>({8, 64}, Swizzle128B, 2);
         Barriers bar(k, {1});
         sync_threads();
         tma_load(tile[0].on(bar[0]), A, 0, 0);
         HERE bad ? tma_load(tile[1].on(bar[0]), A, 0, 8, 0) : tma_load(tile[1].on(bar[0]), A, 0, 8);
         done(k);
       }},
      {"no rows of a view",
       {"rows: 0 of 64 rows were requested, but the count must be a multiple of 8"},
       [](bool bad) {
         Kernel k("k");
         TileView view = k.shared<bf16>({64, 64}, Swizzle128B)[0];
         HERE view.rows(0, bad ? 0 : 8);
         done(k);
       }},
      {"rows of rows",
       {"rows: 32 rows from row 8 of 32"},
       [](bool bad) {
         Kernel k("k");
         TileView view = k.shared<bf16>({64, 64}, Swizzle128B)[0].rows(32, 32);
         HERE view.rows(bad ? 8 : 0, 32);
         done(k);
       }},
  });
}

TEST_CASE("products of tiles") {
  check_cases({
      {"tf32 along m",
       {"mma: A is a tf32 32x64 tile, 128 B swizzle, transposed: tf32 cannot be MN-major"},
       [](bool bad) {
         HERE multiply(DType::tf32, bad ? TileShape{32, 64} : TileShape{64, 32}, {64, 32}, Swizzle::b128, bad,
                       false, marked);
       }},
      {"panels of 32 B",
       {"mma: A is a bf16 64x64 tile in panels of 16, no swizzle: wgmma reads tiles with 32, 64 or 128 B "
        "swizzle, or tiles without swizzle in panels of 16 B: {64, 64, 8}"},
       [](bool bad) {
         int panel = bad ? 16 : 8;
         HERE multiply(DType::bf16, {64, 64, panel}, {64, 64, panel}, Swizzle::none, false, false, marked);
       }},
      {"a tile that is to be transposed",
       {"mma: the shapes do not match in D 64x64 += A 64x32 B 64x32"},
       [](bool bad) {
         HERE multiply(DType::bf16, {64, 32}, {32, 64}, Swizzle::b64, false, !bad, marked);
       }},
      {"a transposed tile of 24 deep",
       {"mma: A is a bf16 24x64 tile, 128 B swizzle, transposed: 24 along k is not a multiple of 16"},
       [](bool bad) {
         int depth = bad ? 24 : 32;
         HERE multiply(DType::bf16, {depth, 64}, {depth, 64}, Swizzle::b128, true, true, marked);
       }},
      {"no rows of an accumulator",
       {"accumulator: m is 0, but must be a multiple of 64"},
       [](bool bad) {
         Kernel k("k");
         HERE Accumulator acc(bad ? 0 : 64, 64);
         done(k);
       }},
      {"an accumulator of 4 columns",
       {"accumulator: n is 4, but must be a multiple of 8 from 8 to 256"},
       [](bool bad) {
         Kernel k("k");
         HERE Accumulator acc(64, bad ? 4 : 8);
         done(k);
       }},
  });
}

TEST_CASE("clusters and barriers") {
  check_cases({
      {"24 rows for 5 CTAs",
       {"tma_load: 24 rows of 128 B cannot be divided among 5 CTAs: each must fetch an equal number of rows, "
        "a multiple of 128 B"},
       [](bool bad) {
         HERE load_shared({5, 1, 1}, bad ? 24 : 40, false, marked);
       }},
      {"a vector for 2 CTAs",
       {"tma_load: multicast divides the rows; give the coordinate of the rows too"},
       [](bool bad) {
         HERE load_shared({2, 1, 1}, 16, bad, marked);
       }},
      {"NaN of integers",
       {"tma_load: NaN cannot be filled in outside of s32; TMA supports it for f16, bf16, tf32, f32 and f64"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared(bad ? DType::s32 : DType::f32, {64, 32}, Swizzle128B)[0];
         Barriers bar(k, {1});
         sync_threads();
         HERE tma_load(view.on(bar[0]).outside(OobFill::nan), A, 0, 0);
         done(k);
       }},
      {"one map for two fills",
       {"tma_load: the tensor map 'A' already serves loads that find nan outside the tensor, not zero: "
        "declare "
        "a second map"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared<f32>({64, 32}, Swizzle128B)[0];
         Barriers bar(k, {1});
         sync_threads();
         tma_store(A, view, 0, 0);  // stores read nothing outside of the tensor, so they accept either
         tma_load(view.on(bar[0]).outside(OobFill::nan), A, 0, 0);
         tma_store(A, view, 0, 0);
         HERE tma_load(view.on(bar[0]).outside(bad ? OobFill::zero : OobFill::nan), A, 0, 0);
         done(k);
       }},
      {"rows for CTAs along two axes",
       {"tma_load: 24 rows of 32 B cannot be divided among 4 CTAs: each must fetch an equal number of rows, "
        "a multiple of 128 B"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2, 2);
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared<bf16>({bad ? 24 : 32, 16}, Swizzle32B)[0];
         Barriers bar(k, {1});
         sync_cluster();
         HERE tma_load(view.on(bar[0]).multicast(ClusterAxis::x | ClusterAxis::y), A, 0, 0);
         done(k);
       }},
      {"a load into a view with rows and columns exchanged",
       {"tma_load: the view of a bf16 64x64 tile", "cannot exchange rows and columns"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared<bf16>({64, 64}, Swizzle128B)[0];
         Barriers bar(k, {1});
         sync_threads();
         HERE tma_load((bad ? view.transposed() : view).on(bar[0]), A, 0, 0);
         done(k);
       }},
      {"a store of a view with rows and columns exchanged",
       {"tma_store: the view of a bf16 64x64 tile", "cannot exchange rows and columns"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared<bf16>({64, 64}, Swizzle128B)[0];
         HERE tma_store(A, bad ? view.transposed() : view, 0, 0);
         done(k);
       }},
      {"a prefetch that completes on a barrier",
       {"tma_prefetch: the view has a barrier, an L2 hint or a fill value"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared<bf16>({64, 64}, Swizzle128B)[0];
         Barriers bar(k, {1});
         sync_threads();
         HERE tma_prefetch(bad ? view.on(bar[0]) : view.when(tid_x() == 0), A, 0, 0);
         done(k);
       }},
      {"a prefetch with a hint to L2",
       {"tma_prefetch: the view has a barrier, an L2 hint or a fill value"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared<bf16>({64, 64}, Swizzle128B)[0];
         HERE tma_prefetch(bad ? view.evict(Eviction::first) : view.when(tid_x() == 0), A, 0, 0);
         done(k);
       }},
      {"a list of six coordinates",
       {"tma_load: a tensor must have 1 to 5 coordinates, not 6"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared<bf16>({64, 64}, Swizzle128B)[0];
         Barriers bar(k, {1});
         sync_threads();
         const std::vector<u32> at(bad ? 6 : 2, u32(0));
         HERE tma_load(view.on(bar[0]), A, at);
         done(k);
       }},
      {"a column that is not aligned",
       {"tma_reduce: the box begins at element -3 of the innermost dimension, -12 B from its start, but TMA "
        "needs multiples of 16 B"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared<f32>({64, 32}, Swizzle128B)[0];
         HERE tma_reduce(CopyReduction::add, A, view, bad ? -3 : -4, -3);
         done(k);
       }},
      {"a reduction that the type has not",
       {"tma_reduce: min is not possible for f32; f32 has add, and min takes u32, s32, u64, s64, f16, bf16"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         TileView view = k.shared<f32>({64, 32}, Swizzle128B)[0];
         HERE tma_reduce(bad ? CopyReduction::min : CopyReduction::add, A, view, 0, 0);
         done(k);
       }},
      {"a reduction of a type that has none",
       {"tma_reduce: or is not possible for e4m3; e4m3 has none, and or takes u32, s32, u64"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared(bad ? DType::e4m3 : DType::u32, {64, 32});
         HERE tma_reduce(CopyReduction::bit_or, A, tile[0], 0, 0);
         done(k);
       }},
      {"a map for whole tiles and for slices",
       {"tma_load: the tensor map 'A' already serves copies with a box of 64x64 bf16 elements",
        "needs 64x32"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2);
         auto [A] = k.params<TensorMap>("A");
         auto tile = k.shared<bf16>({64, 64}, Swizzle128B, 2);
         Barriers bar(k, {1});
         sync_cluster();
         tma_load(tile[0].on(bar[0]), A, 0, 0);
         LoadView second = tile[1].on(bar[0]);
         HERE tma_load(bad ? second.multicast(ClusterAxis::x) : second, A, 0, 0);
         done(k);
       }},
      {"17 CTAs",
       {"cluster: 17 x 1 x 1 CTAs were requested, but a cluster must have 1 to 16"},
       [](bool bad) {
         Kernel k("k");
         HERE k.cluster(bad ? 17 : 16);
         done(k);
       }},
      {"a cluster after what depends on it",
       {"cluster: 4 x 1 x 1 CTAs were requested after roles or barriers had been made for 1; call cluster() "
        "before them"},
       [](bool bad) {
         Kernel k("k");
         auto tile = k.shared<bf16>({8, 64});
         if (!bad) {
           HERE k.cluster(4);
         }
         Pipeline pipe(k, 1, {tile}, 1, Producers::cluster);
         if (bad) {
           HERE k.cluster(4);
         }
         sync_cluster();
         done(k);
       }},
      {"phases of 33 barriers",
       {"phases: there are 33 barriers, but the register of parities has 32"},
       [](bool bad) {
         Kernel k("k");
         Barriers bars(k, std::vector<int>(bad ? 33 : 32, 1));
         HERE Phases phases(bars);
         sync_threads();
         done(k);
       }},
      {"the phase of a barrier that is not there",
       {"barriers: barrier 2 was requested, but there are 2"},
       [](bool bad) {
         Kernel k("k");
         Barriers bars(k, {1, 1});
         sync_threads();
         Phases phases(bars);
         HERE phases.wait(bad ? 2 : 1);
         done(k);
       }},
      {"cluster barriers without an axis",
       {"cluster barriers: no axis was given; give x, y, z or some of them"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2);
         HERE ClusterBarriers bars(k, 1, bad ? ClusterAxes() : ClusterAxis::x);
         sync_cluster();
         bars.arrive(0);
         done(k);
       }},
      {"cluster barriers at which nobody arrives",
       {"cluster barriers: nobody arrives at them, so a wait would never end"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2);
         HERE ClusterBarriers bars(k, 1, ClusterAxis::x);
         sync_cluster();
         if (!bad) bars.arrive(0);
         done(k);
       }},
      {"no cluster barriers",
       {"barriers: there must be at least one"},
       [](bool bad) {
         Kernel k("k");
         HERE ClusterBarriers bars(k, bad ? 0 : 1, ClusterAxis::x);
         sync_threads();
         bars.arrive(0);
         done(k);
       }},
      {"a pipeline of no stages",
       {"pipeline: 0 stages and 2 consumers were requested, but both numbers must be at least one"},
       [](bool bad) {
         Kernel k("k");
         auto tile = k.shared<bf16>({64, 64}, Swizzle128B);
         HERE Pipeline pipe(k, bad ? 0 : 1, {tile}, 2);
         sync_threads();
         done(k);
       }},
  });
}

}  // namespace ptxbuilder::test::misuse_layout_test
