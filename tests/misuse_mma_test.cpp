// Misuse of products beyond 16-bit types, of fragments and of tiles in panels: each case throws an Error that
// names the rule, the values and the line, and has a twin that is accepted.
#include "misuse_kit.h"
#include "ptxbuilder/tile/cluster_sum.h"
#include "ptxbuilder/tile/mma.h"
#include "ptxbuilder/tile/raster.h"
#include "ptxbuilder/tile/stream_sum.h"

using namespace ptxbuilder;
using namespace ptxbuilder::test;

namespace {

SharedTile tile(Kernel& k, DType type, TileShape shape, Swizzle swizzle = Swizzle128B) {
  return SharedTile(k.builder(), type, shape, swizzle, 1, "", Where::here());
}

// D += A B of one tile, K-major unless said.
struct Types {
  DType d, a, b;
  int n = 64;
  bool b_transposed = false;
  MmaOptions options = {};
};

void product(const Types& t, Where where) {
  Kernel k("k");
  int depth = 128 / size_of(t.a), b_depth = t.b_transposed ? t.n : 128 / size_of(t.b);
  SharedTile a = tile(k, t.a, {64, depth}), b = tile(k, t.b, {t.n, b_depth});
  Accumulator acc(64, t.n, t.d);
  TileView right = t.b_transposed ? b[0].transposed() : b[0];
  wgmma_group([&] { mma(acc, a[0], right, t.options, where); });
  wgmma_wait(0);
  done(k);
}

std::vector<u32> registers(int count) { return std::vector<u32>(static_cast<size_t>(count), tid_x()); }

}  // namespace

TEST_CASE("types of products") {
  check_cases({
      {"an accumulator of bf16",
       {"accumulator: bf16 is none of f32, f16, s32"},
       [](bool bad) {
         Kernel k("k");
         HERE Accumulator acc(64, 64, bad ? DType::bf16 : DType::f16);
         done(k);
       }},
      {"a width that s32 has not",
       {"accumulator: n = 40 must be a multiple of 8 from 8 to 256, in s32 from 32 on of 16"},
       [](bool bad) {
         Kernel k("k");
         HERE Accumulator acc(64, 40, bad ? DType::s32 : DType::f32);
         done(k);
       }},
      {"e4m3 times s8",
       {"mma: A is a e4m3 64x128 tile, 128 B swizzle and B a s8 64x128 tile",
        "must be equal, or e4m3 and e5m2"},
       [](bool bad) {
         HERE product({DType::f32, DType::e4m3, bad ? DType::s8 : DType::e5m2}, marked);
       }},
      {"bf16 into f16",
       {"wgmma: f16 += bf16 x bf16: types may be"},
       [](bool bad) {
         HERE product({bad ? DType::f16 : DType::f32, DType::bf16, DType::bf16}, marked);
       }},
      {"s8 into f32",
       {"wgmma: f32 += s8 x u8: types may be"},
       [](bool bad) {
         HERE product({bad ? DType::f32 : DType::s32, DType::s8, DType::u8}, marked);
       }},
      {"bytes along n",
       {"mma: B is a e4m3 128x128 tile, 128 B swizzle, transposed: e4m3 cannot be MN-major: wgmma transposes "
        "elements of 16 bits alone"},
       [](bool bad) {
         HERE product({DType::f32, DType::e4m3, DType::e4m3, 128, bad}, marked);
       }},
      {"saturation of floats",
       {".satfinite is for s8 and u8"},
       [](bool bad) {
         HERE product({bad ? DType::f32 : DType::s32,
                       bad ? DType::e4m3 : DType::s8,
                       bad ? DType::e4m3 : DType::s8,
                       64,
                       false,
                       {.saturate = true}},
                      marked);
       }},
      {"negated integers",
       {"mma: negate_a and negate_b are for floating types, and D is s32"},
       [](bool bad) {
         HERE product({bad ? DType::s32 : DType::f32,
                       bad ? DType::s8 : DType::e4m3,
                       bad ? DType::s8 : DType::e4m3,
                       64,
                       false,
                       {.negate_a = true}},
                      marked);
       }},
      {"an f32 value of an s32 accumulator",
       {"accumulator: a value of f32 from an accumulator of s32"},
       [](bool bad) {
         Kernel k("k");
         Accumulator acc(64, 64, bad ? DType::s32 : DType::f32);
         HERE acc.value(0, 0);
         done(k);
       }},
  });
}

TEST_CASE("tiles in panels") {
  check_cases({
      {"panels that do not divide a row",
       {"shared: panels of 24 columns in a row of 64 f16; they must divide it, and be multiples of 16 B"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<f16>({64, 64, bad ? 24 : 8}, SwizzleNone);
         done(k);
       }},
      {"panels beside a swizzle",
       {"shared: panels of 8 columns in a tile with 128 B swizzle"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<f16>({64, 64, bad ? 8 : 0}, Swizzle128B);
         done(k);
       }},
      {"a product of tiles in rows",
       {"mma: A is a f16 64x64 tile, no swizzle: wgmma reads tiles with 32, 64 or 128 B swizzle, or without "
        "in "
        "panels of 16 B: {64, 64, 8}"},
       [](bool bad) {
         Kernel k("k");
         SharedTile t = k.shared<f16>({64, 64, bad ? 0 : 8}, SwizzleNone);
         Accumulator acc(64, 64);
         HERE mma(acc, t[0], t[0]);
         done(k);
       }},
  });
}

TEST_CASE("fragments") {
  check_cases({
      {"five registers",
       {"fragment: 5 registers; a fragment has four for each 32 B along k"},
       [](bool bad) {
         Kernel k("k");
         HERE Fragment f(DType::bf16, registers(bad ? 5 : 8));
         done(k);
       }},
      {"a fragment of f32",
       {"fragment: f32 is none of f16, bf16, tf32"},
       [](bool bad) {
         Kernel k("k");
         HERE Fragment f(bad ? DType::f32 : DType::tf32, registers(4));
         done(k);
       }},
      {"a fragment of 128 rows",
       {"load_fragment: the source has 128 along m, but a fragment 64"},
       [](bool bad) {
         Kernel k("k");
         TileView view = k.shared<bf16>({128, 64}, Swizzle128B)[0];
         HERE load_fragment(bad ? view : view.rows(64, 64));
         done(k);
       }},
      {"a fragment of bytes from a transposed tile",
       {"load_fragment: the source is a s8 64x128 tile, 128 B swizzle, transposed: s8 cannot be MN-major"},
       [](bool bad) {
         Kernel k("k");
         TileView view = tile(k, DType::s8, {64, 128})[0];
         HERE load_fragment(bad ? view.transposed() : view);
         done(k);
       }},
      {"s8 from f32",
       {"to_fragment: s8 from f32; f32 becomes f16, bf16, e4m3 or e5m2, and s32 s8 or u8"},
       [](bool bad) {
         Kernel k("k");
         Accumulator acc(64, 64, bad ? DType::f32 : DType::s32);
         HERE to_fragment(DType::s8, acc);
         done(k);
       }},
      {"e4m3 of 16 columns",
       {"to_fragment: 8 elements a thread; e4m3 take multiples of 16, 32 along k"},
       [](bool bad) {
         Kernel k("k");
         Accumulator acc(64, bad ? 16 : 32);
         HERE to_fragment(DType::e4m3, acc);
         done(k);
       }},
      {"a fragment of an accumulator in flight",
       {"accumulator: read while an mma may still write it"},
       [](bool bad) {
         Kernel k("k");
         SharedTile t = k.shared<f16>({64, 64}, Swizzle128B);
         Accumulator acc(64, 64);
         wgmma_group([&] { mma(acc, t[0], t[0]); });
         wgmma_wait(bad ? 1 : 0);
         HERE to_fragment(DType::f16, acc);
         done(k);
       }},
      {"a fragment that is not deep enough",
       {"mma: D 64x64 += A 64x32 B 64x64: the shapes do not fit"},
       [](bool bad) {
         Kernel k("k");
         SharedTile t = k.shared<bf16>({64, 64}, Swizzle128B);
         Accumulator acc(64, 64);
         Fragment f(DType::bf16, registers(bad ? 8 : 16));
         HERE mma(acc, f, t[0]);
         done(k);
       }},
      {"a fragment for two blocks",
       {"mma: D 128x64 += A 64x64 B 64x64: the shapes do not fit"},
       [](bool bad) {
         Kernel k("k");
         SharedTile t = k.shared<bf16>({64, 64}, Swizzle128B);
         Accumulator acc(bad ? 128 : 64, 64);
         Fragment f(DType::bf16, registers(16));
         HERE mma(acc, f, t[0]);
         done(k);
       }},
      {"a fragment of another type",
       {"mma: A is a bf16 64x64 fragment and B a f16 64x64 tile", "their types must be equal"},
       [](bool bad) {
         Kernel k("k");
         SharedTile t = k.shared<f16>({64, 64}, Swizzle128B);
         Accumulator acc(64, 64);
         Fragment f(bad ? DType::bf16 : DType::f16, registers(16));
         HERE mma(acc, f, t[0]);
         done(k);
       }},
  });
}

TEST_CASE("sums over CTAs, and the order of tiles") {
  check_cases({
      {"a stream sum of no CTA",
       {"stream sum: 64 x 64 sums of 1 warpgroups in 0 CTAs; at least one each"},
       [](bool bad) {
         Kernel k("k");
         HERE StreamSum sum(k, 64, 64, 1, bad ? 0 : 132);
         done(k);
       }},
      {"a stream sum of other accumulators",
       {"stream sum: an accumulator of 64 x 128 f32 where 64 x 64 f32 was declared"},
       [](bool bad) {
         Kernel k("k");
         StreamSum sum(k, 64, 64, 1, 4);
         Accumulator acc(64, bad ? 128 : 64);
         acc.fill(0);
         HERE sum.give(acc);
         done(k);
       }},
      {"a stream sum of integers",
       {"stream sum: an accumulator of 64 x 64 s32 where 64 x 64 f32 was declared"},
       [](bool bad) {
         Kernel k("k");
         StreamSum sum(k, 64, 64, 1, 4);
         Accumulator acc(64, 64, bad ? DType::s32 : DType::f32);
         if (!bad) acc.fill(0);
         HERE sum.take(acc, 1);
         done(k);
       }},
      {"a cluster sum without a cluster",
       {"cluster sum: a cluster of 1 x 1 x 1 CTAs; it takes 2 or more along x"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(bad ? 1 : 2);
         HERE ClusterSum sum(k, 64, 64, 1);
         sync_threads();
         done(k);
       }},
      {"a cluster sum of columns that do not divide",
       {"cluster sum: 40 columns for 2 CTAs; each takes a multiple of 8"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2);
         HERE ClusterSum sum(k, 64, bad ? 40 : 48, 1);
         sync_threads();
         done(k);
       }},
      {"a raster of groups without rows",
       {"grouped_raster: a group has at least one row, not 0"},
       [](bool bad) {
         Kernel k("k");
         HERE grouped_raster(ctaid_x(), 4, 4, bad ? 0 : 2);
         done(k);
       }},
  });
}
