// Tests misuse of products beyond 16-bit types, of A in registers, of groups and of tiles in panels. Each
// case throws an Error that names the rule, the values and the line, and has a twin that is accepted.
#include "misuse_kit.h"
#include "ptxbuilder/product/cluster_sum.h"
#include "ptxbuilder/product/global_sum.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::test::misuse_mma_test {
namespace {

SharedTile tile(Kernel& k, DType type, TileShape shape, Swizzle swizzle = Swizzle128B) {
  return SharedTile(k.builder(), type, shape, swizzle, 1, "", Where::here());
}

// The types of D += A B for one tile. Operands are K-major unless a case says otherwise.
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

template <class T>
RegisterTile<T> ones(const RegisterLayout& layout) {
  return astype<T>(RegisterTile<f32>(1, layout));
}

}  // namespace

TEST_CASE("types of products") {
  check_cases({
      {"an accumulator of bf16",
       {"accumulator: the type is bf16, but must be f32, f16 or s32"},
       [](bool bad) {
         Kernel k("k");
         HERE Accumulator acc(64, 64, bad ? DType::bf16 : DType::f16);
         done(k);
       }},
      {"a width that s32 has not",
       {"accumulator: n is 40, but must be a multiple of 8 from 8 to 256 (for s32, of 16 at 32 and above), "
        "or twice such a number"},
       [](bool bad) {
         Kernel k("k");
         HERE Accumulator acc(64, 40, bad ? DType::s32 : DType::f32);
         done(k);
       }},
      {"a width of two wgmmas that one has not",
       {"accumulator: n is 264, but must be a multiple of 8 from 8 to 256, or twice such a number"},
       [](bool bad) {
         Kernel k("k");
         HERE Accumulator acc(64, bad ? 264 : 272);
         done(k);
       }},
      {"wgmmas that do not divide the columns",
       {"accumulator: wgmmas of 40 columns cannot make 96"},
       [](bool bad) {
         Kernel k("k");
         Accumulator acc(64, 96);
         HERE acc.set_wgmma_columns(bad ? 40 : 48);
         done(k);
       }},
      {"e4m3 times s8",
       {"mma: A is an e4m3 64x128 tile, 128 B swizzle and B is an s8 64x128 tile",
        "must be equal, or e4m3 and e5m2"},
       [](bool bad) {
         HERE product({DType::f32, DType::e4m3, bad ? DType::s8 : DType::e5m2}, marked);
       }},
      {"bf16 into f16",
       {".f16.bf16.bf16 does not exist; a is ", "f16, e4m3 or e5m2 (d = f16)"},
       [](bool bad) {
         HERE product({bad ? DType::f16 : DType::f32, DType::bf16, DType::bf16}, marked);
       }},
      {"s8 into f32",
       {".f32.s8.u8 does not exist; a is ", "f16, bf16, tf32, e4m3 or e5m2 (d = f32)"},
       [](bool bad) {
         HERE product({bad ? DType::f32 : DType::s32, DType::s8, DType::u8}, marked);
       }},
      {"bytes along n",
       {"mma: B is an e4m3 128x128 tile, 128 B swizzle, transposed: e4m3 cannot be MN-major: wgmma only "
        "transposes 16-bit elements"},
       [](bool bad) {
         HERE product({DType::f32, DType::e4m3, DType::e4m3, 128, bad}, marked);
       }},
      {"saturation of floats",
       {".satfinite does not exist; satfinite is false (d = f16 or f32)"},
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
       {"mma: negate_a and negate_b are only for floating-point types, but D is s32"},
       [](bool bad) {
         HERE product({bad ? DType::s32 : DType::f32,
                       bad ? DType::s8 : DType::e4m3,
                       bad ? DType::s8 : DType::e4m3,
                       64,
                       false,
                       {.negate_a = true}},
                      marked);
       }},
      {"an f32 tile of an s32 accumulator",
       {"load: the tile in registers is f32, but the accumulator is s32"},
       [](bool bad) {
         Kernel k("k");
         Accumulator acc(64, 64, bad ? DType::s32 : DType::f32);
         if (bad)
           store(acc, RegisterTile<s32>(0, acc.layout()));
         else
           store(acc, RegisterTile<f32>(0, acc.layout()));
         HERE load<f32>(acc);
         done(k);
       }},
  });
}

TEST_CASE("tiles in panels") {
  check_cases({
      {"panels that do not divide a row",
       {"shared: the width of a panel is 24 columns, but must divide the row of 64 f16 and be a multiple of "
        "16 B"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<f16>({64, 64, bad ? 24 : 8}, SwizzleNone);
         done(k);
       }},
      {"panels with a swizzle",
       {"shared: panels of 8 columns were requested for a tile with 128 B swizzle"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<f16>({64, 64, bad ? 8 : 0}, Swizzle128B);
         done(k);
       }},
      {"a product of tiles in rows",
       {"mma: A is an f16 64x64 tile, no swizzle: wgmma reads tiles with 32, 64 or 128 B swizzle, or tiles "
        "without swizzle in panels of 16 B: {64, 64, 8}"},
       [](bool bad) {
         Kernel k("k");
         SharedTile t = k.shared<f16>({64, 64, bad ? 0 : 8}, SwizzleNone);
         Accumulator acc(64, 64);
         wgmma_group([&] { HERE mma(acc, t[0], t[0]); });
         done(k);
       }},
  });
}

namespace {

// Computes D += A B, where D is `m` x 64, A is in registers with `layout`, and B is a tile of f16.
template <class T>
void multiply(int m, const RegisterLayout& layout, Where where) {
  Kernel k("k");
  SharedTile t = k.shared<f16>({64, 64}, Swizzle128B);
  Accumulator acc(m, 64);
  auto a = ones<T>(layout);
  wgmma_group([&] { mma(acc, a, t[0], where); });
  wgmma_wait(0);
  done(k);
}

}  // namespace

TEST_CASE("A in registers") {
  check_cases({
      {"A of f32",
       {"wgmma_a: the type is f32, but must be f16, bf16, tf32, e4m3, e5m2, s8 or u8"},
       [](bool bad) {
         HERE bad ? multiply<f32>(64, wgmma_layout(64, 64), marked)
                  : multiply<f16>(64, wgmma_layout(64, 64), marked);
       }},
      {"A in the order of memory",
       {"mma: the layout of A is strided(64 x 64, 4)", "but f16 in registers needs wgmma_layout(64, 64)",
        "multiply layout_cast(a, wgmma_a(DType::f16, 64, 64))"},
       [](bool bad) {
         HERE multiply<f16>(64, bad ? strided({64, 64}, 4) : wgmma_layout(64, 64), marked);
       }},
      {"bytes in an accumulator's order",
       {"mma: the layout of A is wgmma_layout(64, 128)", "but e4m3 in registers needs wgmma_8bit(128)"},
       [](bool bad) {
         Kernel k("k");
         SharedTile t = k.shared<e4m3>({64, 128}, Swizzle128B);
         Accumulator acc(64, 64);
         auto bytes = ones<e4m3>(wgmma_layout(64, 128));
         auto a = bad ? bytes : layout_cast(bytes, wgmma_8bit(128));
         wgmma_group([&] { HERE mma(acc, a, t[0]); });
         done(k);
       }},
      {"A that is not deep enough",
       {"mma: the shapes do not match in D 64x64 += A 64x32 B 64x64"},
       [](bool bad) { HERE multiply<f16>(64, wgmma_layout(64, bad ? 32 : 64), marked); }},
      {"A of one block for two",
       {"mma: the shapes do not match in D 128x64 += A 64x64 B 64x64"},
       [](bool bad) { HERE multiply<f16>(128, wgmma_layout(bad ? 64 : 128, 64), marked); }},
      {"A of another type",
       {"mma: A is a bf16 64x64 tile in registers and B is an f16 64x64 tile", "their types must be equal"},
       [](bool bad) {
         HERE bad ? multiply<bf16>(64, wgmma_layout(64, 64), marked)
                  : multiply<f16>(64, wgmma_layout(64, 64), marked);
       }},
      {"A that the next round of a loop writes while the product reads it",
       {"mma: A in registers is written while the products of the group of misuse_mma_test.cpp:",
        " from the previous iteration of the loop may still read it; call wgmma_wait(1) first"},
       [](bool bad) {
         Kernel k("k");
         SharedTile t = k.shared<f16>({64, 64}, Swizzle128B);
         Accumulator acc(64, 64), other(64, 64);
         auto x = ones<f16>(wgmma_layout(64, 64));
         for_(0u, u32(4), [&](u32 i) {
           if (!bad) wgmma_wait(1);
           wgmma_group([&] { HERE mma(acc, x + f16(f32(i)), t[0]); });
           wgmma_group([&] { mma(other, t[0], t[0]); });
         });
         wgmma_wait(0);
         done(k);
       }},
      {"A that is computed after the group's first product",
       {"mma: A in registers is computed after the first product of the group of misuse_mma_test.cpp:",
        "(C7513)", "compute it before"},
       [](bool bad) {
         Kernel k("k");
         SharedTile t = k.shared<f16>({64, 64}, Swizzle128B);
         Accumulator acc(64, 64), other(64, 64);
         auto x = load<f16>(t[0], wgmma_layout(64, 64)), y = x + 1;
         wgmma_group([&] {
           mma(acc, x + 2, t[0]);
           HERE mma(other, bad ? x + 3 : y, t[0]);
         });
         wgmma_wait(0);
         done(k);
       }},
  });
}

TEST_CASE("groups of products, and the accumulators that they write") {
  auto with_tile = [](auto body) {
    return [body](bool bad) {
      Kernel k("k");
      SharedTile t = k.shared<f16>({64, 64}, Swizzle128B);
      Accumulator acc(64, 64), other(64, 64);
      auto multiply = [&](Accumulator& d) { wgmma_group([&] { mma(d, t[0], t[0]); }); };
      body(bad, t[0], acc, other, multiply);
      wgmma_wait(0);
      done(k);
    };
  };
  check_cases({
      {"a product outside a group",
       {"mma: call it in wgmma_group"},
       with_tile([](bool bad, TileView t, Accumulator& acc, Accumulator&, const auto&) {
         auto one = [&] { HERE mma(acc, t, t); };
         bad ? one() : wgmma_group(one);
       })},
      {"a group inside a group",
       {"wgmma_group: the group of misuse_mma_test.cpp:", "is not committed yet"},
       with_tile([](bool bad, TileView, Accumulator& acc, Accumulator& other, const auto& multiply) {
         auto inner = [&] { HERE wgmma_group([] {}); };
         multiply(acc);
         bad ? wgmma_group(inner) : inner();
         multiply(other);
       })},
      {"reading what nothing has written",
       {"accumulator: it is read, but no product or store has written it"},
       with_tile([](bool bad, TileView, Accumulator& acc, Accumulator&, const auto& multiply) {
         if (!bad) multiply(acc);
         wgmma_wait(0);
         HERE load<f32>(acc);
       })},
      {"reading what was zeroed",
       {"has written it since it was made or zeroed"},
       with_tile([](bool bad, TileView, Accumulator& acc, Accumulator&, const auto& multiply) {
         multiply(acc);
         wgmma_wait(0);
         if (bad) acc.zero();
         HERE load<f32>(acc);
       })},
      {"reading the last of two groups",
       {"accumulator: it is read or written while the products of the group of misuse_mma_test.cpp:",
        "may still write it; call wgmma_wait(0) first"},
       with_tile([](bool bad, TileView, Accumulator& acc, Accumulator& other, const auto& multiply) {
         multiply(acc);
         multiply(other);
         wgmma_wait(1);
         HERE load<f32>(bad ? other : acc);
       })},
      {"reading the first of two groups",
       {"may still write it; call wgmma_wait(1) first"},
       with_tile([](bool bad, TileView, Accumulator& acc, Accumulator& other, const auto& multiply) {
         multiply(acc);
         multiply(other);
         wgmma_wait(bad ? 2 : 1);
         HERE load<f32>(acc);
       })},
      {"writing in flight",
       {"accumulator: it is read or written while the products of the group of"},
       with_tile([](bool bad, TileView, Accumulator& acc, Accumulator&, const auto& multiply) {
         multiply(acc);
         if (!bad) wgmma_wait(0);
         HERE store(acc, RegisterTile<f32>(0, acc.layout()));
       })},
      {"writing after the first product of a group",
       {"accumulator: it is written after the first product of the group of", "(C7515)"},
       with_tile([](bool bad, TileView t, Accumulator& acc, Accumulator& other, const auto&) {
         const RegisterTile<f32> zeros(0, acc.layout());
         wgmma_group([&] {
           if (!bad) store(other, zeros);
           mma(acc, t, t);
           HERE if (bad) store(other, zeros);
           mma(other, t, t);
         });
       })},
      {"reading at a loop's beginning what its end leaves in flight",
       {"while the products of the group of misuse_mma_test.cpp:", "from the previous iteration of the loop"},
       with_tile([](bool bad, TileView, Accumulator& acc, Accumulator&, const auto& multiply) {
         multiply(acc);
         wgmma_wait(0);
         for_(0, ctaid_x(), [&](u32) {
           HERE load<f32>(acc);
           multiply(acc);
           wgmma_wait(bad ? 1 : 0);
         });
       })},
      {"the same in a loop of loops",
       {"from the previous iteration of the loop"},
       with_tile([](bool bad, TileView, Accumulator& acc, Accumulator&, const auto& multiply) {
         multiply(acc);
         wgmma_wait(0);
         for_(0, ctaid_x(), [&](u32) {
           for_(0, ctaid_x(), [&](u32) { HERE load<f32>(acc); });
           multiply(acc);
           if (!bad) wgmma_wait(0);
         });
       })},
  });
}

TEST_CASE("an exception from a group") {
  check_cases({
      {"a group that is not committed",
       {"k: an exception from the body of this wgmma_group left it unfinished: the author's"},
       [](bool bad) {
         Kernel k("k");
         try {
           HERE wgmma_group([&] {
             if (bad) throw std::runtime_error("the author's");
           });
         } catch (const std::runtime_error&) {
         }
         done(k);
       }},
  });
}

TEST_CASE("sums over CTAs, and the order of tiles") {
  check_cases({
      {"a global sum of no warpgroup",
       {"global sum: 64 x 64 sums of 0 warpgroups in 2 parts, 1 apart, were requested, but each number must "
        "be at least one"},
       [](bool bad) {
         Kernel k("k");
         auto [memory] = k.params<gptr<f32>>("memory");
         HERE GlobalSum(64, 64, 32, bad ? 0 : 1, 2, 1, memory);
         done(k);
       }},
      {"a global sum of other accumulators",
       {"global sum: the accumulator is 64 x 128 f32, but 64 x 64 f32 was declared"},
       [](bool bad) {
         Kernel k("k");
         auto [memory] = k.params<gptr<f32>>("memory");
         GlobalSum sum(64, 64, 32, 1, 2, 1, memory);
         Accumulator acc(64, bad ? 128 : 64);
         store(acc, RegisterTile<f32>(0, acc.layout()));
         HERE sum.give(acc, {2, 1, 1, 0});
         done(k);
       }},
      {"a global sum of pieces that do not divide",
       {"global sum: pieces have 24 columns, but the number must be a multiple of 8 that divides 64"},
       [](bool bad) {
         Kernel k("k");
         auto [memory] = k.params<gptr<f32>>("memory");
         HERE GlobalSum(64, 64, bad ? 24 : 16, 1, 2, 1, memory);
         done(k);
       }},
      {"a cluster sum without a cluster",
       {"cluster sum: the cluster has 1 x 1 x 1 CTAs, but must have at least 2 along x"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(bad ? 1 : 2);
         HERE ClusterSum sum(k, 64, 64, 1);
         sync_threads();
         done(k);
       }},
      {"a cluster sum of columns that do not divide",
       {"cluster sum: the number of columns is 44, but must be a multiple of 8"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2);
         HERE ClusterSum sum(k, 64, bad ? 44 : 40, 1);
         sync_threads();
         done(k);
       }},
      {"a raster of groups without rows",
       {"grouped_raster: a group must have at least one row, not 0"},
       [](bool bad) {
         Kernel k("k");
         HERE grouped_raster(ctaid_x(), 4, 4, bad ? 0 : 2);
         done(k);
       }},
  });
}

}  // namespace ptxbuilder::test::misuse_mma_test
