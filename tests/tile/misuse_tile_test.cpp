// Tests misuse of tiles, copies, products, roles and pipelines, and of the tools around them. Each case
// throws an Error that names the rule, the values and the line, and has a twin that is accepted.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "folder_kit.h"
#include "kernels/family/family.h"
#include "misuse_kit.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::test::misuse_tile_test {

namespace fs = std::filesystem;

namespace {

// A product of two tiles. A case changes one part of it.
struct Product {
  TileShape a = {64, 64}, b = {128, 64};
  Swizzle swizzle = Swizzle128B;
  bool b_is_bf16 = false, b_transposed = false;
};

void product(const Product& p, Where where) {
  Kernel k("k");
  SharedTile sA = k.shared<f16>(p.a, p.swizzle);
  SharedTile sB = p.b_is_bf16 ? k.shared<bf16>(p.b, p.swizzle) : k.shared<f16>(p.b, p.swizzle);
  Accumulator acc(64, 128);
  TileView b = p.b_transposed ? sB[0].transposed() : sB[0];
  wgmma_group([&] { mma(acc, sA[0], b, where); });
  wgmma_wait(0);
  done(k);
}

// Builds a kernel with a ring of two stages of two tiles. The case provides `produce` and `consume`.
void ring(const std::function<void(Producer&, SharedTile, SharedTile, TensorMap, TensorMap)>& produce,
          const std::function<void(Consumer&)>& consume, Peeks peeks = Peeks::no) {
  Kernel k("k");
  auto [A, B] = k.params<TensorMap, TensorMap>("A", "B");
  SharedTile sA = k.shared<f16>({64, 64}, Swizzle128B, 2), sB = k.shared<f16>({128, 64}, Swizzle128B, 2);
  Pipeline pipe(k, 2, {sA, sB}, 1);
  k.warpgroups(1, 0, [&](u32) {
    Producer producer = pipe.producer();
    elect([&] { produce(producer, sA, sB, A, B); });
  });
  k.warpgroups(1, 0, [&](u32) {
    Consumer consumer = pipe.consumer(peeks);
    consume(consumer);
  });
  done(k);
}

void load_both(Producer& producer, SharedTile sA, SharedTile sB, TensorMap A, TensorMap B) {
  Stage s = producer.acquire();
  tma_load(sA[s], A, 0, 0);
  tma_load(sB[s], B, 0, 0);
}

// Builds a kernel with a ring of two stages of two tiles that the threads of a role fill. The case provides
// `produce`.
void thread_ring(const std::function<void(Producer&, SharedTile, SharedTile)>& produce) {
  Kernel k("k");
  SharedTile sA = k.shared<f16>({64, 64}, Swizzle128B, 2), sB = k.shared<f16>({128, 64}, Swizzle128B, 2);
  Pipeline pipe(k, 2, {sA, sB}, 1, ThreadProducers{});
  k.warpgroups(1, 0, [&](u32) {
    Producer producer = pipe.producer();
    produce(producer, sA, sB);
  });
  k.warpgroups(1, 0, [&](u32) {
    Consumer consumer = pipe.consumer();
    consumer.release(consumer.wait());
  });
  done(k);
}

void write_zeros(const TileView& to, Where where = Where::here()) {
  store(to, RegisterTile<f16>(f16(f32(0.0f)), strided({to.row_count(), 64}, 8)), where);
}

// Stores through the region that `staging` takes from a tile of the given shape, which is `before` bytes into
// shared memory.
void store_through(TileShape shape, Swizzle swizzle, int before, SharedRegion (*staging)(const SharedTile&),
                   Where where) {
  Kernel k("k");
  auto [D] = k.params<TensorMap>("D");
  if (before > 0) k.shared<u8>({1, before});
  SharedTile tile = k.shared<bf16>(shape, swizzle, 2);
  const StoreOptions options{.staging = staging(tile)};
  store<bf16>(D, RegisterTile<f32>(0, wgmma_layout(64, 64)), 0, 0, options, where);
  done(k);
}

SharedRegion whole(const SharedTile& tile) { return tile; }

// Builds a kernel with two rings of 1 KiB tiles, with 2 and 3 stages, whose consumers are in one role.
void two_rings(const std::function<void(Consumer&, Consumer&)>& consume) {
  Kernel k("k");
  auto [A] = k.params<TensorMap>("A");
  SharedTile one = k.shared<f16>({8, 64}, Swizzle128B, 2), two = k.shared<f16>({8, 64}, Swizzle128B, 3);
  Pipeline first(k, 2, {one}, 1), second(k, 3, {two}, 1);
  k.warpgroups(1, 0, [&](u32) {
    Producer to_first = first.producer(), to_second = second.producer();
    elect([&] {
      tma_load(one[to_first.acquire()], A, 0, 0);
      tma_load(two[to_second.acquire()], A, 0, 0);
    });
  });
  k.warpgroups(1, 0, [&](u32) {
    Consumer of_first = first.consumer(), of_second = second.consumer();
    consume(of_first, of_second);
  });
  done(k);
}

// Builds a kernel that defines its launch.
void launched(const std::function<void(Kernel&)>& say) {
  Kernel k("k");
  auto [A, n, x] = k.params<TensorMap, u32, f32>("A", "n", "x");
  SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B);
  Barriers loaded(k, {1});
  sync_threads();
  tma_load(tile[0].on(loaded[0]), A, 0, 0);
  say(k);
  done(k);
}

// Adds the consumer of a pipeline, in its own role.
void consume_in_role(Kernel& k, Pipeline& pipe) {
  k.warpgroups(1, 0, [&](u32) {
    Consumer ring = pipe.consumer();
    ring.release(ring.wait());
  });
}
void fill_in_role(Kernel& k, Pipeline& pipe, SharedTile tile, TensorMap map) {
  k.warpgroups(1, 0, [&](u32) {
    Producer ring = pipe.producer();
    elect([&] { tma_load(tile[ring.acquire()], map, 0, 0); });
  });
}

void take_one(Consumer& consumer) { consumer.release(consumer.wait()); }

// Builds a stage that the CTAs of a cluster share along `axes`.
template <class Producing>
void shared_stage(std::array<uint32_t, 3> cluster, ClusterAxes axes, Producing producers, Where where) {
  Kernel k("k");
  k.cluster(cluster[0], cluster[1], cluster[2]);
  auto [A] = k.params<TensorMap>("A");
  SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B, 2);
  Pipeline pipe(k, 2, {tile}, 1, producers);
  sync_cluster();
  Producer producer = pipe.producer();
  Consumer consumer = pipe.consumer();
  elect([&] { tma_load({tile[producer.acquire()].multicast(axes), where}, A, 0, 0); });
  take_one(consumer);
  done(k);
}

// Loads one box of `rows` x 64 f16 at the coordinates of a case.
template <class... C>
void load_box(int rows, Where where, C... coordinates) {
  Kernel k("k");
  auto [A] = k.params<TensorMap>("A");
  SharedTile tile = k.shared<f16>({rows, 64}, Swizzle128B);
  Barriers bar(k, {1});
  sync_threads();
  tma_load({tile[0].on(bar[0]), where}, A, coordinates...);
  done(k);
}

}  // namespace

TEST_CASE("misuse: what a kernel says of its launch") {
  check_cases({
      {"a grid over a parameter that there is not",
       {"grid.y = 'ceil_div(m, 8)', column 10: there is no 'm'; the names are extent(A, 0 to 1), n, "
        "multiprocessors"},
       [](bool bad) {
         launched([&](Kernel& k) { HERE k.grid("1", bad ? "ceil_div(m, 8)" : "ceil_div(n, 8)"); });
       }},
      {"a grid over an extent beyond the tensor's rank",
       {"grid.x = 'extent(A, 2)', column 1: there is no 'extent(A, 2)'"},
       [](bool bad) { launched([&](Kernel& k) { HERE k.grid(bad ? "extent(A, 2)" : "extent(A, 1)"); }); }},
      {"the meaning of a parameter that there is not",
       {"describe: no parameter is named 'm'; the parameters are A, n, x"},
       [](bool bad) {
         launched([&](Kernel& k) { HERE k.describe({{"A", "rows"}, {bad ? "m" : "n", "how many"}}); });
       }},
  });
}

TEST_CASE("tiles and shared memory") {
  check_cases({
      {"a row that is not a multiple of 16 B",
       {"shared: a row of 12 f16 is 24 B, but must be a multiple of 16 B"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<f16>({8, bad ? 12 : 16});
         done(k);
       }},
      {"a row that does not fit the swizzle",
       {"shared: a row of 48 f16 is 96 B, but must be a multiple of the swizzle's 128 B"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<f16>({64, 48}, bad ? Swizzle128B : Swizzle32B);
         done(k);
       }},
      {"no rows",
       {"rows, cols and stages must be positive, but are 0, 64 and 1"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<f16>({bad ? 0 : 1, 64});
         done(k);
       }},
      {"a stage that leaves the next unaligned",
       {"shared: a stage is 512 B, but must be a multiple of 1024 B"},
       [](bool bad) {
         Kernel k("k");
         HERE k.shared<f16>({bad ? 4 : 8, 64}, Swizzle128B, 2);
         done(k);
       }},
      {"more than shared memory",
       {"shared memory: 233472 bytes exceed the 232448 that a CTA may have", "tile 0 (f16 128x64) 16384",
        "tile 1 (f16 32x64) 217088"},
       [](bool bad) {
         Kernel k("k");
         k.shared<f16>({128, 64}, Swizzle128B);
         HERE k.shared<f16>({32, 64}, Swizzle128B, bad ? 53 : 52);
         done(k);
       }},
      {"more than an int counts",
       {"shared: 65536 x 65536 elements do not fit in shared memory"},
       [](bool bad) {
         Kernel k("k");
         int n = bad ? 65536 : 256;
         HERE k.shared<f16>({n, n});
         done(k);
       }},
      {"a stage that is not there",
       {"stage 2 of an f16 8x64 tile, 128 B swizzle was requested, but there are only 2"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B, 2);
         HERE tile[bad ? 2 : 1];
         done(k);
       }},
      {"a tile of another kernel",
       {"second: a tile of another kernel was used"},
       [](bool bad) {
         Kernel first("first");
         SharedTile a = first.shared<f16>({8, 64});
         Kernel second("second");
         SharedTile b = second.shared<f16>({8, 64});
         HERE(bad ? a : b)[0];
         done(second);
       }},
      {"rows that are not a multiple of 8",
       {"rows: 12 of 64 rows were requested, but the count must be a multiple of 8"},
       [](bool bad) {
         Kernel k("k");
         TileView view = k.shared<f16>({64, 64}, Swizzle128B)[0];
         HERE view.rows(0, bad ? 12 : 16);
         done(k);
       }},
      {"rows beyond the tile",
       {"rows: 32 rows from row 40 of 64"},
       [](bool bad) {
         Kernel k("k");
         TileView view = k.shared<f16>({64, 64}, Swizzle128B)[0];
         HERE view.rows(bad ? 40 : 32, 32);
         done(k);
       }},
      {"rows from the middle of a pattern",
       {"rows: 8 rows from row 4 of 64 were requested; the first must be a multiple of 8"},
       [](bool bad) {
         Kernel k("k");
         TileView view = k.shared<f16>({64, 64}, Swizzle128B)[0];
         HERE view.rows(bad ? 4 : 8, 8);
         done(k);
       }},
  });
}

TEST_CASE("TMA copies") {
  check_cases({
      {"a box of 257 rows",
       {"tma_load: box extent 257 along dimension 1 exceeds 256 for an f16 257x64 tile, 128 B swizzle"},
       [](bool bad) { HERE load_box(bad ? 257 : 256, marked, 0, 0); }},
      {"six coordinates",
       {"tma_load: a tensor must have 1 to 5 coordinates, not 6"},
       [](bool bad) {
         HERE bad ? load_box(8, marked, 0, 0, 0, 0, 0, 0) : load_box(8, marked, 0, 0, 0, 0, 0);
       }},
      {"one coordinate for many rows",
       {"tma_load: one coordinate was given for a tile of 8 rows"},
       [](bool bad) { HERE load_box(bad ? 8 : 1, marked, 0); }},
      {"a coordinate beyond 2^31",
       {"the constant 2147483648 does not fit in s32"},
       [](bool bad) { HERE load_box(8, marked, bad ? int64_t{1} << 31 : -8, 0); }},
      {"a view without a barrier",
       {"tma_load: the view has no barrier to complete on"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({8, 64});
         Barriers bar(k, {1});
         sync_threads();
         LoadView view = bad ? tile[0] : tile[0].on(bar[0]);
         HERE tma_load(view, A, 0, 0);
         done(k);
       }},
      {"a tensor map with two boxes",
       {"tma_load: the tensor map 'A' already serves copies with a box of 64x8 f16 elements and 128 B "
        "swizzle; an f16 16x64 tile, 128 B swizzle needs 64x16 and 128: declare a second map"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile one = k.shared<f16>({8, 64}, Swizzle128B),
                    two = k.shared<f16>({bad ? 16 : 8, 64}, Swizzle128B);
         Barriers bar(k, {2});
         sync_threads();
         tma_load(one[0].on(bar[0]), A, 0, 0);
         HERE tma_load(two[0].on(bar[0]), A, 0, 8);
         done(k);
       }},
      {"a store through a map of another box",
       {"tma_store: the tensor map 'A' already serves copies"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({16, 64}, Swizzle128B);
         Barriers bar(k, {2});
         sync_threads();
         tma_load(tile[0].on(bar[0]), A, 0, 0);
         TileView view = tile[0].rows(0, bad ? 8 : 16);
         HERE tma_store(A, view, 0, 8);
         done(k);
       }},
      {"a tensor map that no copy uses",
       {"k: no copy uses the tensor map 'B', so its box is not known"},
       [](bool bad) {
         Kernel k("k");
         HERE auto [A, B] = k.params<TensorMap, TensorMap>("A", "B");
         SharedTile tile = k.shared<f16>({8, 64});
         tma_store(A, tile[0], 0, 0);
         if (!bad) tma_store(B, tile[0], 0, 0);
         done(k);
       }},
      {"a tensor map of another kernel",
       {"second: the tensor map is neither a parameter of this kernel"},
       [](bool bad) {
         Kernel first("first");
         auto [A] = first.params<TensorMap>("A");
         Kernel second("second");
         auto [B] = second.params<TensorMap>("B");
         SharedTile tile = second.shared<f16>({8, 64});
         HERE tma_store(bad ? A : B, tile[0], 0, 0);
         done(second);
       }},
  });
}

TEST_CASE("accumulators and products") {
  check_cases({
      {"too wide an accumulator",
       {"accumulator: n is 264, but must be a multiple of 8 from 8 to 256"},
       [](bool bad) {
         Kernel k("k");
         HERE Accumulator acc(64, bad ? 264 : 256);
         done(k);
       }},
      {"an accumulator of 96 rows",
       {"accumulator: m is 96, but must be a multiple of 64"},
       [](bool bad) {
         Kernel k("k");
         HERE Accumulator acc(bad ? 96 : 128, 64);
         done(k);
       }},
      {"a block that is not there",
       {"accumulator: block 1 was requested, but there are 1"},
       [](bool bad) {
         Kernel k("k");
         Accumulator acc(64, 64);
         store(acc, RegisterTile<f32>(0, acc.layout()));
         HERE acc.registers(bad ? 1 : 0);
         done(k);
       }},
      {"tiles without swizzle",
       {"mma: A is an f16 64x64 tile, no swizzle: wgmma reads tiles with 32, 64 or 128 B swizzle, or tiles "
        "without swizzle in panels of 16 B: {64, 64, 8}"},
       [](bool bad) { HERE product({.swizzle = bad ? SwizzleNone : Swizzle64B}, marked); }},
      {"tiles of two types",
       {"mma: A is an f16 64x64 tile, 128 B swizzle and B is a bf16 128x64 tile, 128 B swizzle, but their "
        "types must be equal"},
       [](bool bad) { HERE product({.b_is_bf16 = bad}, marked); }},
      {"tiles of two depths",
       {"mma: the shapes do not match in D 64x128 += A 64x64 B 128x128"},
       [](bool bad) {
         HERE product({.b = {128, bad ? 128 : 64}}, marked);
       }},
      {"tiles of another extent",
       {"mma: the shapes do not match in D 64x128 += A 64x64 B 64x64"},
       [](bool bad) {
         HERE product({.b = {bad ? 64 : 128, 64}}, marked);
       }},
      {"a depth that is not a multiple of 16",
       {"mma: B is an f16 24x128 tile, 128 B swizzle, transposed: 24 along k is not a multiple of 16"},
       [](bool bad) {
         HERE product({.a = {64, 64}, .b = {bad ? 24 : 64, 128}, .b_transposed = true}, marked);
       }},
      {"tiles of f32",
       {"mma: A is an f32 64x32 tile, 128 B swizzle: the type is f32, but must be f16, bf16, tf32, e4m3, "
        "e5m2, s8 or u8"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = bad ? k.shared<f32>({64, 32}, Swizzle128B) : k.shared<f16>({64, 64}, Swizzle128B);
         Accumulator acc(64, 64);
         wgmma_group([&] { HERE mma(acc, tile[0], tile[0]); });
         done(k);
       }},
      {"a store of floats as integers",
       {"store: f32 cannot be stored as s32; a store rounds to f32, f16, bf16, e4m3 and e5m2, and does not "
        "convert to other types"},
       [](bool bad) {
         Kernel k("k");
         auto [D] = k.params<TensorMap>("D");
         Accumulator acc(64, 64);
         store(acc, RegisterTile<f32>(0, acc.layout()));
         HERE store(bad ? DType::s32 : DType::f16, D, acc, 0, 0);
         done(k);
       }},
      {"an epilogue of integers that stay integers",
       {"store: s32 cannot be stored as s32 through an epilogue"},
       [](bool bad) {
         Kernel k("k");
         auto [D] = k.params<TensorMap>("D");
         const RegisterTile<s32> x(0, wgmma_layout(64, 64));
         HERE store(bad ? DType::s32 : DType::bf16, D, x, 0, 0,
                    [](const RegisterTile<f32>& sums, const PanelPlace&) { return sums; });
         done(k);
       }},
      {"an epilogue that yields another layout",
       {"store: the epilogue made a tile of splat(64 x 64)", "from a tile of wgmma_layout(64, 64)"},
       [](bool bad) {
         Kernel k("k");
         auto [D] = k.params<TensorMap>("D");
         const RegisterTile<f32> x(0, wgmma_layout(64, 64));
         HERE store<bf16>(D, x, 0, 0, [&](const RegisterTile<f32>& sums, const PanelPlace&) {
           return bad ? RegisterTile<f32>(0, splat({64, 64})) : sums;
         });
         done(k);
       }},
      {"a store of a tile in another layout",
       {"part: the layout of the tile is strided(64 x 64, 4)",
        "layout_cast it to wgmma_layout(64, 64) first"},
       [](bool bad) {
         Kernel k("k");
         auto [D] = k.params<TensorMap>("D");
         const RegisterTile<f32> x(0, bad ? strided({64, 64}, 4) : wgmma_layout(64, 64));
         HERE store(D, x, 0, 0);
         done(k);
       }},
      {"a store of rows that have no box",
       {"store: the tile is 64 x 8 e4m3, but its rows must be a multiple of 64, and its columns multiples of "
        "8 and of 16 B"},
       [](bool bad) {
         Kernel k("k");
         auto [D] = k.params<TensorMap>("D");
         const RegisterTile<f32> x(0, wgmma_layout(64, bad ? 8 : 16));
         HERE store<e4m3>(D, x, 0, 0);
         done(k);
       }},
      {"a deferred tile that is never stored",
       {"take: no step() follows, so the last tile is not stored; call finish() after the last take()"},
       [](bool bad) {
         Kernel k("k");
         auto [D] = k.params<TensorMap>("D");
         DeferredStore out(DType::bf16, D, {64, 64});
         RegisterTile<f32> x(f32(1), wgmma_layout(64, 64));
         out.finish();
         HERE out.take(x, 0, 0);
         if (!bad) out.finish();
         done(k);
       }},
      {"a step that a deferred store has not",
       {"step: 1 of 1"},
       [](bool bad) {
         Kernel k("k");
         auto [D] = k.params<TensorMap>("D");
         DeferredStore out(DType::bf16, D, {64, 64});
         HERE out.step(bad ? 1 : 0);
         done(k);
       }},
      {"a panel beyond the tile",
       {"store: panel 2 was requested, but the tile has 2"},
       [](bool bad) {
         Kernel k("k");
         auto [D] = k.params<TensorMap>("D");
         PanelStore out(DType::bf16, D, {64, 128}, {.columns = 64});
         RegisterTile<f32> x(f32(1), wgmma_layout(64, 64));
         HERE out.store_panel(bad ? 2 : 1, x, 0, 0);
         done(k);
       }},
  });
}

TEST_CASE("roles and barriers") {
  check_cases({
      {"41 registers",
       {"warpgroups: registers must be 24 to 256 in steps of 8, or 0, but are 41"},
       [](bool bad) {
         Kernel k("k");
         HERE k.warpgroups(1, bad ? 41 : 40, [](u32) {});
         done(k);
       }},
      {"264 registers",
       {"24 to 256 in steps of 8, or 0, but are 264"},
       [](bool bad) {
         Kernel k("k");
         HERE k.warpgroups(1, bad ? 264 : 256, [](u32) {});
         done(k);
       }},
      {"a role of nobody",
       {"warpgroups: a role must have at least one warpgroup, not 0"},
       [](bool bad) {
         Kernel k("k");
         HERE k.warpgroups(bad ? 0 : 1, 0, [](u32) {});
         done(k);
       }},
      {"a role inside a role",
       {"warpgroups: a role cannot be made inside another role"},
       [](bool bad) {
         Kernel k("k");
         k.warpgroups(1, 0, [&](u32) {
           if (!bad) return;
           HERE k.warpgroups(1, 0, [](u32) {});
         });
         if (bad) return;
         HERE k.warpgroups(1, 0, [](u32) {});
         done(k);
       }},
      {"more registers than an SM has",
       {"warpgroups: the roles need 1 x 128 x 40 + 2 x 128 x 240 = 66560 registers, but an SM has 65536"},
       [](bool bad) {
         Kernel k("k");
         k.warpgroups(1, 40, [](u32) {});
         HERE k.warpgroups(2, bad ? 240 : 232, [](u32) {});
         done(k);
       }},
      {"more than 1024 threads",
       {"warpgroups: the roles have 1152 threads, but a CTA has at most 1024"},
       [](bool bad) {
         Kernel k("k");
         k.warpgroups(1, 0, [](u32) {});
         HERE k.warpgroups(bad ? 8 : 7, 0, [](u32) {});
         done(k);
       }},
      {"threads of a kernel with roles",
       {"threads: the roles determine the number of threads: 128 for each warpgroup"},
       [](bool bad) {
         Kernel k("k");
         if (bad) k.warpgroups(1, 0, [](u32) {});
         HERE k.threads(64);
         done(k);
       }},
      {"sync_threads() in a role",
       {"sync_threads: inside the role of warpgroups 1 to 2 (misuse_tile_test.cpp:", "k.named_barrier(256)"},
       [](bool bad) {
         Kernel k("k");
         NamedBarrier barrier = k.named_barrier(256);
         k.warpgroups(1, 0, [](u32) {});
         k.warpgroups(2, 0, [&](u32) {
           if (!bad) barrier.sync();
           HERE if (bad) sync_threads();
         });
         done(k);
       }},
      {"sync_threads() in the only role",
       {"sync_threads: inside the role of warpgroup 0 (", "k.named_barrier(128)"},
       [](bool bad) {
         Kernel k("k");
         k.warpgroups(1, 0, [&](u32) {
           if (!bad) commit_smem();
           HERE if (bad) sync_threads();
         });
         done(k);
       }},
      {"sync_warpgroup() in a CTA that is none",
       {"sync_warpgroup: the CTA has 256 threads and no roles", "k.warpgroups()"},
       [](bool bad) {
         Kernel k("k");
         if (bad) k.threads(256);
         HERE sync_warpgroup();
         done(k);
       }},
      {"a named barrier of half a warp",
       {"named_barrier: 48 threads were requested, but the number must be a multiple of 32 from 32 to 1024"},
       [](bool bad) {
         Kernel k("k");
         HERE k.named_barrier(bad ? 48 : 64);
         done(k);
       }},
      {"a named barrier of more threads than there are",
       {"named_barrier: 160 threads must arrive, but the CTA has 128, so a wait would never end"},
       [](bool bad) {
         Kernel k("k");
         HERE k.named_barrier(bad ? 160 : 128).sync();
         done(k);
       }},
      {"a named barrier of another kernel",
       {"second: a named barrier of another kernel was used"},
       [](bool bad) {
         Kernel first("first");
         NamedBarrier a = first.named_barrier(64);
         Kernel second("second");
         NamedBarrier b = second.named_barrier(64);
         HERE(bad ? a : b).arrive();
         done(second);
       }},
      {"16 named barriers",
       {"named_barrier: all 15 barriers of a CTA other than that of sync_threads() are held: ",
        "1 an instruction that names it (misuse_tile_test.cpp:", ", 8 named_barrier (misuse_tile_test.cpp:"},
       [](bool bad) {
         Kernel k("k");
         bar_sync(1, 128);
         for (int i = 0; i < 13; ++i) k.named_barrier(32);
         if (bad) k.named_barrier(32);
         HERE k.named_barrier(32);
         done(k);
       }},
      {"the number of a named barrier",
       {"bar.sync: barrier 9 is held by named_barrier (misuse_tile_test.cpp:", "returns a free one"},
       [](bool bad) {
         Kernel k("k");
         k.named_barrier(64).arrive();
         HERE bar_sync(bad ? 9 : 10, 64);
         done(k);
       }},
      {"the number of a warpgroup's barrier",
       {"bar.arrive: barrier 2 is held by warpgroup 1 (misuse_tile_test.cpp:"},
       [](bool bad) {
         Kernel k("k");
         k.warpgroups(1, 0, [](u32) {});
         k.warpgroups(1, 0, [&](u32) {
           commit_smem();
           HERE bar_arrive(bad ? 2 : 1, 160);
         });
         done(k);
       }},
      {"a warpgroup's barrier whose number an instruction has",
       {"barrier 1 is needed for warpgroup 0, but is held by an instruction that names it "
        "(misuse_tile_test.cpp:"},
       [](bool bad) {
         Kernel k("k");
         bar_sync(bad ? 1 : 3, 128);
         k.warpgroups(2, 0, [&](u32) { HERE commit_smem(); });
         done(k);
       }},
      {"the number of a named barrier in text",
       {"barrier.cta.red.popc.aligned.u32: barrier 9 is held by named_barrier"},
       [](bool bad) {
         Kernel k("k");
         k.named_barrier(128).sync();
         const char* const text = bad ? "barrier.cta.red.popc.aligned.u32 {n:=u32}, 9, {p:pred};"
                                      : "barrier.cta.red.popc.aligned.u32 {n:=u32}, 10, {p:pred};";
         Var<u32> n(0u);
         HERE ptx(text, {{"n", n}, {"p", tid_x() == 0}});
         done(k);
       }},
      {"the number of a named barrier in a hole of text",
       {"barrier.sync: barrier 9 is held by named_barrier"},
       [](bool bad) {
         Kernel k("k");
         k.named_barrier(128).sync();
         HERE ptx("{{ .reg .b32 x; barrier.sync {id:u32}, 128; }}", {{"id", u32(bad ? 9 : 11)}});
         done(k);
       }},
      {"barriers that nobody publishes",
       {"barrier: neither sync_threads() nor a role follows"},
       [](bool bad) {
         Kernel k("k");
         HERE Barriers bars(k, {1});
         if (!bad) sync_threads();
         done(k);
       }},
      {"a barrier at which nobody arrives",
       {"barriers: 0 arrivals were given, but the number must be 1 to 2^20 - 1"},
       [](bool bad) {
         Kernel k("k");
         HERE Barriers bars(k, {bad ? 0 : 1});
         sync_threads();
         done(k);
       }},
      {"no barriers",
       {"barriers: there must be at least one"},
       [](bool bad) {
         Kernel k("k");
         HERE Barriers bars(k, std::vector<int>(bad ? 0 : 1, 1));
         sync_threads();
         done(k);
       }},
      {"a barrier that is not there",
       {"barriers: barrier 2 was requested, but there are 2"},
       [](bool bad) {
         Kernel k("k");
         Barriers bars(k, {1, 1});
         sync_threads();
         HERE bars[bad ? 2 : 1];
         done(k);
       }},
  });
}

TEST_CASE("pipelines") {
  check_cases({
      {"no stages",
       {"pipeline: 0 stages and 1 consumers were requested, but both numbers must be at least one"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({8, 64});
         HERE Pipeline pipe(k, bad ? 0 : 1, {tile}, 1);
         sync_threads();
         done(k);
       }},
      {"no consumers",
       {"pipeline: 1 stages and -1 consumers were requested, but both numbers must be at least one"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({8, 64});
         HERE Pipeline pipe(k, 1, {tile}, bad ? -1 : 1);
         sync_threads();
         done(k);
       }},
      {"more consumers than warpgroups consume",
       {"pipeline: `consumers` is 2, so the warps of that many warpgroups must release every stage, but "
        "consumer() is called by 1 warpgroup: the producer would wait for ever; set `consumers` to the "
        "number of warpgroups that call it"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B, 2);
         HERE Pipeline pipe(k, 2, {tile}, 2);
         k.warpgroups(bad ? 1 : 2, 0, [&](u32) {
           Consumer consumer = pipe.consumer();
           take_one(consumer);
         });
         fill_in_role(k, pipe, tile, A);
         done(k);
       }},
      {"no tiles",
       {"pipeline: no tiles were given, but there must be at least one"},
       [](bool bad) {
         Kernel k("k");
         std::vector<SharedTile> tiles;
         if (!bad) tiles.push_back(k.shared<f16>({8, 64}));
         HERE Pipeline pipe(k, 1, tiles, 1);
         sync_threads();
         done(k);
       }},
      {"tiles of another number of stages",
       {"pipeline: it has 4 stages, but an f16 8x64 tile, no swizzle has 2"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({8, 64}, SwizzleNone, 2);
         HERE Pipeline pipe(k, bad ? 4 : 2, {tile}, 1);
         sync_threads();
         done(k);
       }},
      {"a stage that is never released",
       {"wait: the stage is never released, so the producer would wait for ever"},
       [](bool bad) {
         ring(load_both, [&](Consumer& consumer) {
           HERE Stage s = consumer.wait();
           if (!bad) consumer.release(s);
         });
       }},
      {"the last stage that is never released",
       {"release_previous: no release_last() follows, so the producer would wait for ever"},
       [](bool bad) {
         ring(load_both, [&](Consumer& consumer) {
           Stage s = consumer.wait();
           HERE consumer.release_previous(s, pred(true));
           if (!bad) consumer.release_last(pred(false));
         });
       }},
      {"a last stage where none was kept",
       {"release_last: release_previous() must be called before it"},
       [](bool bad) {
         ring(load_both, [&](Consumer& consumer) {
           Stage s = consumer.wait();
           if (bad) consumer.release(s);
           if (!bad) consumer.release_previous(s, pred(true));
           HERE consumer.release_last(pred(false));
         });
       }},
      {"a look ahead by a consumer that does not keep it",
       {"peek: the consumer must be made with Peeks::yes"},
       [](bool bad) {
         auto consume = [](Consumer& consumer) {
           HERE consumer.peek();
           consumer.release(consumer.wait());
         };
         ring(load_both, consume, bad ? Peeks::no : Peeks::yes);
       }},
      {"a stage of another pipeline released",
       {"release: this is a stage of another pipeline, with 2 stages of 1024 B, but the consumer's has 3 "
        "stages of 1024 B"},
       [](bool bad) {
         two_rings([&](Consumer& first, Consumer& second) {
           Stage a = first.wait(), b = second.wait();
           if (!bad) second.release(b);
           HERE(bad ? second : first).release(a);
         });
       }},
      {"a stage of another pipeline in a variable",
       {"Var<Stage>: it holds stages of one pipeline's consumer, with 2 stages of 1024 B, but was assigned "
        "one of "
        "another's, with 3 stages of 1024 B"},
       [](bool bad) {
         two_rings([&](Consumer& first, Consumer& second) {
           Stage a = first.wait(), b = second.wait();
           Var<Stage> kept(a);
           if (!bad) second.release(b);
           HERE kept = bad ? b : first.wait();
           first.release(kept);
         });
       }},
      {"a producer's stage in a variable",
       {"Var<Stage>: a producer's stage was given, but only a consumer's can be kept"},
       [](bool bad) {
         const auto produce = [&](Producer& producer, SharedTile sA, SharedTile sB, TensorMap A,
                                  TensorMap B) {
           Stage s = producer.acquire();
           tma_load(sA[s], A, 0, 0);
           tma_load(sB[s], B, 0, 0);
           if (!bad) return;
           HERE Var<Stage> kept(s);
         };
         ring(produce, take_one);
       }},
      {"a stage of another pipeline kept",
       {"release_previous: this is a stage of another pipeline, with 2 stages of 1024 B"},
       [](bool bad) {
         two_rings([&](Consumer& first, Consumer& second) {
           Stage a = first.wait(), b = second.wait();
           HERE second.release_previous(bad ? a : b, pred(true));
           second.release_last(pred(false));
           first.release(a);
         });
       }},
      {"a stage given back for the consumers of a cluster",
       {"give_back: CTAs of a cluster fill this stage together, so each consumer must release it"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2);
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({16, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {tile}, 2, bad ? Producers::cluster : Producers::own);
         k.warpgroups(1, 0, [&](u32) {
           Producer ring = pipe.producer();
           elect([&] {
             const LoadView to =
                 bad ? tile[ring.acquire()].multicast(ClusterAxis::x) : LoadView(tile[ring.acquire()]);
             tma_load(to, A, 0, 0);
             ring.lend();
           });
         });
         k.warpgroups(2, 0, [&](u32 wg) {
           Consumer ring = pipe.consumer();
           ring.release(ring.wait());
           Stage lent = ring.wait();
           HERE ring.give_back(lent, wg == 0u);
         });
         done(k);
       }},
      {"rows of a stage that the host does not know",
       {"where the 32 x 64 elements of a pipeline's f16 64x64 tile, 128 B swizzle begin, but the stage "
        "expects all of its bytes",
        "load rows or columns that begin at a host integer"},
       [](bool bad) {
         ring(
             [&](Producer& producer, SharedTile sA, SharedTile sB, TensorMap A, TensorMap B) {
               Stage s = producer.acquire();
               tma_load(sB[s], B, 0, 0);
               HERE tma_load(bad ? sA[s].rows(ctaid_x() * 8, 32) : sA[s], A, 0, 0);
             },
             take_one);
       }},
      {"a stage that completes elsewhere",
       {"tma_load: the view of a pipeline's stage completes on a barrier of its own"},
       [](bool bad) {
         ring(
             [&](Producer& producer, SharedTile sA, SharedTile sB, TensorMap A, TensorMap B) {
               Stage s = producer.acquire();
               tma_load(sB[s], B, 0, 0);
               HERE tma_load(bad ? LoadView(sA[s]).on(s.full_barrier()) : sA[s], A, 0, 0);
             },
             take_one);
       }},
      {"a load into a consumer's stage",
       {"tma_load: this is a consumer's stage; loads must go into a producer's stage, which acquire() "
        "returns"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {tile}, 1);
         sync_threads();
         Producer producer = pipe.producer();
         Consumer consumer = pipe.consumer();
         Stage full = consumer.wait();
         consumer.release(full);
         elect([&] {
           Stage filled = producer.acquire();
           if (bad) tma_load(tile[filled], A, 0, 0);
           HERE tma_load(tile[bad ? full : filled], A, 0, 0);
         });
         done(k);
       }},
      {"a producer of all threads",
       {"acquire: only one thread may call this, but 128 threads do; call it in elect()"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {tile}, 1);
         k.warpgroups(1, 40, [&](u32) {
           Producer ring = pipe.producer();
           if_(bad ? tid_x() < 128u : tid_x() == 0u, [&] { HERE tma_load(tile[ring.acquire()], A, 0, 0); });
         });
         consume_in_role(k, pipe);
         done(k);
       }},
      {"a consumer of one thread",
       {"wait: all 128 threads of a warpgroup must call this together, but in the elect at "
        "misuse_tile_test.cpp:"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {tile}, 1);
         k.warpgroups(1, 40, [&](u32) {
           Consumer ring = pipe.consumer();
           auto body = [&] { HERE ring.release(ring.wait()); };
           bad ? elect(body) : body();
         });
         fill_in_role(k, pipe, tile, A);
         done(k);
       }},
      {"stages that nobody fills",
       {"pipeline: 0 warpgroups fill its stages, but there must be at least one"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B, 2);
         HERE Pipeline pipe(k, 2, {tile}, 1, ThreadProducers{bad ? 0 : 1});
         sync_threads();
         done(k);
       }},
      {"a stage that threads fill and never commit",
       {"acquire: the stage is never committed, so its consumers would wait for ever"},
       [](bool bad) {
         thread_ring([&](Producer& producer, SharedTile sA, SharedTile sB) {
           HERE Stage s = producer.acquire();
           write_zeros(sA[s]);
           write_zeros(sB[s]);
           if (!bad) producer.commit(s);
         });
       }},
      {"a tile that is not filled when the stage is committed",
       {"commit: the f16 128x64 tile, 128 B swizzle (number 1 of the pipeline) is never filled in this "
        "stage, so its consumers would read old data"},
       [](bool bad) {
         thread_ring([&](Producer& producer, SharedTile sA, SharedTile sB) {
           Stage s = producer.acquire();
           write_zeros(sA[s]);
           if (!bad) producer.fills(s, sB);
           HERE producer.commit(s);
         });
       }},
      {"a stage that is committed twice",
       {"commit: this stage is already committed; each thread must commit it once"},
       [](bool bad) {
         thread_ring([&](Producer& producer, SharedTile sA, SharedTile sB) {
           Stage s = producer.acquire();
           write_zeros(sA[s]);
           write_zeros(sB[s]);
           producer.commit(s);
           if (!bad) {
             s = producer.acquire();
             write_zeros(sA[s]);
             write_zeros(sB[s]);
           }
           HERE producer.commit(s);
         });
       }},
      {"a stage that is filled when it is committed",
       {"store: the stage is already committed, so consumers may be reading it"},
       [](bool bad) {
         thread_ring([&](Producer& producer, SharedTile sA, SharedTile sB) {
           Stage s = producer.acquire();
           write_zeros(sA[s]);
           write_zeros(sB[s]);
           if (bad) producer.commit(s);
           HERE write_zeros(sB[s], marked);
           if (!bad) producer.commit(s);
         });
       }},
      {"a tile of no pipeline in a stage that threads fill",
       {"fills: the f16 128x64 tile, 128 B swizzle does not belong to the pipeline"},
       [](bool bad) {
         Kernel k("k");
         SharedTile one = k.shared<f16>({64, 64}, Swizzle128B, 2),
                    two = k.shared<f16>({128, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {one}, 1, ThreadProducers{});
         k.warpgroups(1, 0, [&](u32) {
           Producer producer = pipe.producer();
           Stage s = producer.acquire();
           write_zeros(one[s]);
           HERE producer.fills(s, bad ? two : one);
           producer.commit(s);
         });
         consume_in_role(k, pipe);
         done(k);
       }},
      {"a consumer's stage that is committed",
       {"commit: this is not a producer's stage; pass one that acquire() returned"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {tile}, 1, ThreadProducers{});
         sync_threads();
         Producer producer = pipe.producer();
         Consumer consumer = pipe.consumer();
         Stage filled = producer.acquire();
         write_zeros(tile[filled]);
         Stage full = consumer.wait();
         consumer.release(full);
         HERE producer.commit(bad ? full : filled);
         done(k);
       }},
      {"a stage of another pipeline that is committed",
       {"commit: this is a stage of another pipeline, with 3 stages of 8192 B, but the producer's has 2 "
        "stages of 8192 B"},
       [](bool bad) {
         Kernel k("k");
         SharedTile one = k.shared<f16>({64, 64}, Swizzle128B, 2),
                    two = k.shared<f16>({64, 64}, Swizzle128B, 3);
         Pipeline first(k, 2, {one}, 1, ThreadProducers{}), second(k, 3, {two}, 1, ThreadProducers{});
         sync_threads();
         Producer to_first = first.producer(), to_second = second.producer();
         Stage s = to_second.acquire();
         write_zeros(two[s]);
         HERE(bad ? to_first : to_second).commit(s);
         Consumer consumer = second.consumer();
         take_one(consumer);
         done(k);
       }},
      {"a commit of what TMA loads",
       {"commit: one thread fills the stage with TMA, whose copies commit themselves"},
       [](bool bad) {
         ring(
             [&](Producer& producer, SharedTile sA, SharedTile sB, TensorMap A, TensorMap B) {
               Stage s = producer.acquire();
               tma_load(sA[s], A, 0, 0);
               tma_load(sB[s], B, 0, 0);
               HERE if (bad) producer.commit(s);
             },
             take_one);
       }},
      {"threads that write to a stage of TMA",
       {"store: one thread fills the stage by TMA; to fill it by threads, make the pipeline with "
        "ThreadProducers"},
       [](bool bad) {
         Kernel k("k");
         auto [p, map] = k.params<gptr<u32>, TensorMap>("p", "map");
         SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {tile}, 1);
         sync_threads();
         Producer producer = pipe.producer();
         if_(p[0] == 1u, [&] {  // the number of threads is unknown
           Stage s = producer.acquire();
           tma_load(tile[s], map, 0, 0);
           HERE write_zeros(bad ? tile[s] : tile[0], marked);
         });
         Consumer consumer = pipe.consumer();
         take_one(consumer);
         done(k);
       }},
      {"cp.async to a stage of TMA",
       {"load_async: one thread fills the stage by TMA; to fill it by threads, make the pipeline with "
        "ThreadProducers"},
       [](bool bad) {
         Kernel k("k");
         auto [A, map] = k.params<gptr<f16>, TensorMap>("A", "map");
         SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {tile}, 1);
         sync_threads();
         const TiledCopy copy(CopyAtom::cp_async(16), DType::f16, threads_along_rows(64, 64, 128, 8),
                              tile[0].layout());
         Producer producer = pipe.producer();
         elect([&] {
           Stage s = producer.acquire();
           tma_load(tile[s], map, 0, 0);
           HERE load_async(copy, bad ? tile[s] : tile[0], GlobalTensor(A, {64, 64}).tile(0, 0), tid_x());
         });
         Consumer consumer = pipe.consumer();
         take_one(consumer);
         done(k);
       }},
      {"CTAs that share a load to a stage that threads fill",
       {"tma_load: 2 CTAs share the load into a stage that only the consumers of one CTA release; make the "
        "pipeline with the axes in ThreadProducers"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2);
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {tile}, 1, ThreadProducers{});
         sync_cluster();
         Producer producer = pipe.producer();
         Stage s = producer.acquire();
         const LoadView to = tile[s].when(tid_x() == 0);
         HERE tma_load(bad ? to.multicast(ClusterAxis::x) : to, A, 0, 0);
         producer.commit(s);
         Consumer consumer = pipe.consumer();
         take_one(consumer);
         done(k);
       }},
      {"CTAs that share a load under a condition to a stage that threads fill",
       {"tma_load: 2 CTAs share a load under a condition, or of a part of a tile, into a stage that threads "
        "fill"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2);
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {tile}, 1, ThreadProducers{1, ClusterAxis::x});
         sync_cluster();
         Producer producer = pipe.producer();
         Stage s = producer.acquire();
         const LoadView to = tile[s].multicast(ClusterAxis::x);
         elect([&] { HERE tma_load(bad ? to.when(tid_x() == 0) : to, A, 0, 0); });
         producer.commit(s);
         Consumer consumer = pipe.consumer();
         take_one(consumer);
         done(k);
       }},
      {"the only stage kept",
       {"release_previous: with one stage, the producer would wait for the stage that is kept"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         const int stages = bad ? 1 : 2;
         SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B, stages);
         Pipeline pipe(k, stages, {tile}, 1);
         sync_threads();
         Producer producer = pipe.producer();
         Consumer consumer = pipe.consumer();
         elect([&] { tma_load(tile[producer.acquire()], A, 0, 0); });
         Stage full = consumer.wait();
         HERE consumer.release_previous(full, pred(true));
         consumer.release_last(pred(false));
         done(k);
       }},
      {"a part of a stage that may not come",
       {"tma_load: the view of a pipeline's stage has a condition", "put acquire() under the condition too"},
       [](bool bad) {
         ring(
             [&](Producer& producer, SharedTile sA, SharedTile sB, TensorMap A, TensorMap B) {
               Stage s = producer.acquire();
               tma_load(sA[s], A, 0, 0);
               HERE tma_load(bad ? sB[s].when(pred(true)) : sB[s], B, 0, 0);
             },
             take_one);
       }},
      {"a stage that CTAs share, and one of them releases",
       {"tma_load: 2 CTAs share the load into a stage that only the consumers of one CTA release",
        "Producers::cluster"},
       [](bool bad) {
         HERE shared_stage({2, 1, 1}, ClusterAxis::x, bad ? Producers::own : Producers::cluster, marked);
       }},
      {"a stage that CTAs along two axes share",
       {"tma_load: CTAs along several axes share the load into a pipeline's stage", "along one axis"},
       [](bool bad) {
         const ClusterAxes both = ClusterAxis::x | ClusterAxis::y;
         HERE shared_stage({2, 2, 1}, bad ? both : ClusterAxis::y, bad ? both : ClusterAxis::y, marked);
       }},
      {"a stage that CTAs along z share, and those along x release",
       {"tma_load: 2 CTAs along z share the load into a stage that is released along other axes"},
       [](bool bad) {
         HERE shared_stage({2, 2, 2}, bad ? ClusterAxis::z : ClusterAxis::x, ClusterAxes(ClusterAxis::x),
                           marked);
       }},
      {"a stage that CTAs along z release, and those along x share",
       {"acquire: 2 CTAs along z release this stage but share none of its loads"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2, 1, 2);
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B, 2);
         ClusterAxes axes = ClusterAxis::x;
         if (bad) axes = axes | ClusterAxis::z;
         Pipeline pipe(k, 2, {tile}, 1, axes);
         sync_cluster();
         Producer producer = pipe.producer();
         Consumer consumer = pipe.consumer();
         elect([&] {
           HERE Stage stage = producer.acquire();
           tma_load(tile[stage].multicast(ClusterAxis::x), A, 0, 0);
         });
         take_one(consumer);
         done(k);
       }},
      {"a tile that is never loaded",
       {"acquire: the f16 128x64 tile, 128 B swizzle (number 1 of the pipeline) is never loaded into this "
        "stage"},
       [](bool bad) {
         ring(
             [&](Producer& producer, SharedTile sA, SharedTile sB, TensorMap A, TensorMap B) {
               load_both(producer, sA, sB, A, B);
               HERE Stage s = producer.acquire();
               tma_load(sA[s], A, 0, 0);
               if (!bad) tma_load(sB[s], B, 0, 0);
             },
             take_one);
       }},
      {"a panel that is never loaded",
       {"acquire: the f16 64x128 tile, 128 B swizzle (number 0 of the pipeline) is never loaded into this "
        "stage from row 0 of panel 1"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile sA = k.shared<f16>({64, 128}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {sA}, 1);
         k.warpgroups(1, 0, [&](u32) {
           Producer producer = pipe.producer();
           elect([&] {
             HERE Stage s = producer.acquire();
             for (int panel = 0; panel < (bad ? 1 : 2); ++panel)
               tma_load(sA[s].cols(panel * 64, 64), A, 0, 0, panel);
           });
         });
         k.warpgroups(1, 0, [&](u32) {
           Consumer consumer = pipe.consumer();
           take_one(consumer);
         });
         done(k);
       }},
      {"a tile that is loaded twice",
       {"tma_load: this tile of the stage is already loaded"},
       [](bool bad) {
         ring(
             [&](Producer& producer, SharedTile sA, SharedTile sB, TensorMap A, TensorMap B) {
               load_both(producer, sA, sB, A, B);
               Stage s = producer.acquire();
               tma_load(sA[s], A, 0, 0);
               if (!bad) tma_load(sB[s], B, 0, 0);
               if (!bad) s = producer.acquire();
               HERE tma_load(sA[s], A, 0, 0);
               if (!bad) tma_load(sB[s], B, 0, 0);
             },
             take_one);
       }},
      {"rows of a tile that are never loaded",
       {"acquire: the f16 16x64 tile, 128 B swizzle (number 0 of the pipeline) is never loaded into this "
        "stage from row 8"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({16, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {tile}, 1);
         k.warpgroups(1, 0, [&](u32) {
           Producer ring = pipe.producer();
           elect([&] {
             HERE Stage stage = ring.acquire();
             for (int row = 0; row < (bad ? 8 : 16); row += 8) tma_load(tile[stage].rows(row, 8), A, 0, row);
           });
         });
         consume_in_role(k, pipe);
         done(k);
       }},
      {"a tile that is not the pipeline's",
       {"tma_load: the f16 8x64 tile, 128 B swizzle does not belong to the pipeline"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile mine = k.shared<f16>({8, 64}, Swizzle128B, 2),
                    other = k.shared<f16>({8, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {mine}, 1);
         sync_threads();
         Producer producer = pipe.producer();
         elect([&] {
           Stage s = producer.acquire();
           HERE tma_load((bad ? other : mine)[s], A, 0, 0);
         });
         Consumer consumer = pipe.consumer();
         take_one(consumer);
         done(k);
       }},
      {"an end of a pipeline of a kernel that was moved from",
       {"kernel: it is used after it was moved from"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B, 2);
         Kernel other = std::move(k);
         HERE Pipeline pipe(bad ? k : other, 2, {tile}, 1);
         sync_threads();
         done(other);
       }},
      {"a tile of a kernel that was moved from",
       {"kernel: it is used after it was moved from"},
       [](bool bad) {
         Kernel k("k");
         Kernel other = std::move(k);
         HERE(bad ? k : other).shared<f16>({8, 64});
         done(other);
       }},
      {"a kernel compiled after it was moved from",
       {"kernel: it is used after it was moved from"},
       [](bool bad) {
         Kernel k("k");
         Kernel other = std::move(k);
         Compiler compiler({.assemble = false});
         HERE compiler.compile(std::move(bad ? k : other));
       }},
      {"stages that nobody waits for",
       {"pipeline: its stages are filled, but no consumer ever waits for them"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B, 2);
         HERE Pipeline pipe(k, 2, {tile}, 1);
         fill_in_role(k, pipe, tile, A);
         if (!bad) consume_in_role(k, pipe);
         done(k);
       }},
      {"stages that nobody fills, and somebody waits for",
       {"pipeline: consumers wait for its stages, but no producer ever acquires or lends them"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B, 2);
         HERE Pipeline pipe(k, 2, {tile}, 1);
         Pipeline other(k, 2, {tile}, 1);
         fill_in_role(k, bad ? other : pipe, tile, A);
         consume_in_role(k, pipe);
         done(k);
       }},
      {"a producer's stage released",
       {"release: this is not a consumer's stage; pass one that wait() returned"},
       [](bool bad) {
         Kernel k("k");
         auto [A, p] = k.params<TensorMap, gptr<u32>>("A", "p");
         SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B, 2);
         Pipeline pipe(k, 2, {tile}, 1);
         sync_threads();
         Producer producer = pipe.producer();
         Consumer consumer = pipe.consumer();
         Stage full = consumer.wait();
         if_(p[0] == 1u, [&] {
           Stage filled = producer.acquire();
           tma_load(tile[filled], A, 0, 0);
           HERE consumer.release(bad ? filled : full);
         });
         done(k);
       }},
  });
}

// The two ends of a pipeline may outlive it.
TEST_CASE("the ends of a pipeline that is gone") {
  Kernel k("k");
  auto [A] = k.params<TensorMap>("A");
  SharedTile tile = k.shared<f16>({8, 64}, Swizzle128B, 2);
  std::optional<Producer> producer;
  std::optional<Consumer> consumer;
  std::optional<WarpgroupTurn> turn;
  {
    Pipeline pipe(k, 2, {tile}, 1);
    Turns turns(k, 2);
    sync_threads();
    producer.emplace(pipe.producer());
    consumer.emplace(pipe.consumer());
    turn.emplace(turns.of(0));
  }
  elect([&] { tma_load(tile[producer->acquire()], A, 0, 0); });
  consumer->release(consumer->wait());
  turn->wait();
  turn->pass();
  done(k);
}

TEST_CASE("named barriers get numbers that nothing else has") {
  Kernel k("k");
  bar_sync(10, 128);
  std::vector<NamedBarrier> barriers;
  for (int i = 0; i < 8; ++i) barriers.push_back(k.named_barrier(64 + 32 * i));
  k.warpgroups(2, 0, [&](u32) {
    commit_smem();
    for (const NamedBarrier& b : barriers) b.sync();
    barriers[0].arrive();
  });
  k.warpgroups(1, 0, [](u32) {});
  const std::string text = ptx_of(k);
  // The barriers get the numbers 9, 11 to 15, and then 8 and below. Warpgroups 0 and 1 use 1 and 2.
  int i = 0;
  for (int id : {9, 11, 12, 13, 14, 15, 8, 7}) {
    CHECK(count(text, fmt::format("bar.sync {}, {};", id, 64 + 32 * i)) == 1);
    ++i;
  }
  CHECK(count(text, "bar.arrive 9, 64;") == 1);
}

// Errors of the command line and of the machine have no line of C++.
TEST_CASE("names, fields, files and tools") {
  check_cases(
      {
          {"an unknown kernel",
           {"no kernel is named 'saxpyy'; the kernels are ", "hello, ", "saxpy, saxpy_pipelined"},
           [](bool bad) { command::family(bad ? "saxpyy" : "saxpy"); }},
          {"an unknown field",
           {"no field is named 'q'; the fields are m, n, k, bm, bn, bk, stages, a, d, b_major"},
           [](bool bad) {
             command::Fields(command::family("gemm_warp_specialized").fields).set(bad ? "q" : "k", 64);
           }},
          {"a field that is not a multiple",
           {"field m = 7: it must be at least ", " and a multiple of 8"},
           [](bool bad) {
             command::Fields(command::family("gemm_warp_specialized").fields).set("m", bad ? 7 : 8);
           }},
          {"a field that is too small",
           {"field ctas = 0: it must be at least 1"},
           [](bool bad) { command::Fields(command::family("hello").fields).set("ctas", !bad); }},
          {"a field that is too large",
           {"field m = 2147483648: it must be below 2^31"},
           [](bool bad) {
             command::Fields(command::family("saxpy").fields).set("m", (int64_t{1} << 31) - !bad);
           }},
          {"a folder that cannot be made",
           {"/dev/null/x: the folder cannot be created: Not a directory"},
           [](bool bad) {
             Folder folder;
             Kernel k("k");
             Compiled compiled = Compiler({.assemble = false}).compile(std::move(k));
             std::vector<std::string> files = write_files(compiled, bad ? "/dev/null/x" : folder.path());
             CHECK(files.size() == 2);  // PTX and sidecar
             for (const std::string& file : files) CHECK(fs::file_size(file) > 0);
           }},
          {"no ptxas",
           {"/nowhere/bin/ptxas", "12.4"},
           [](bool bad) {
             Folder folder;
             std::string file =
                 folder.script("ptxas", "echo 'Cuda compilation tools, release 13.0, V13.0.88'");
             PtxasSearch search;
             search.path = bad ? "" : fs::path(file).parent_path().string();
             search.cuda_path = "/nowhere";
             search.install_folder = "/nowhere";
             Ptxas found(search);
             CHECK(found.path() == file);
           }},
          {"an unknown waiver",
           {"C9999", "C7510", "spills", "stack"},
           [](bool bad) { check(Notes{}, std::vector<std::string>{bad ? "C9999" : "C7510"}); }},
      },
      false);
}

TEST_CASE("staging that the author gives") {
  check_cases({
      {"staging of too few bytes",
       {"store: the staging is in 64 x 64 of a bf16 64x64 tile, 128 B swizzle, which has 8192 B, but 2 "
        "buffers of 64 x 64 bf16 for each of 1 warpgroups need 16384 B"},
       [](bool bad) {
         auto stage = [](const SharedTile& tile) -> SharedRegion { return tile[1]; };
         HERE store_through({64, 64}, Swizzle128B, 0, bad ? stage : whole, marked);
       }},
      {"staging within a swizzle's pattern",
       {"shared: a bf16 64x64 tile, 128 B swizzle cannot take the place of 2 stages of a bf16 64x64 tile, no "
        "swizzle, which begins at byte 128 of shared memory; it must begin at a multiple of 1024 B"},
       [](bool bad) {
         HERE store_through({64, 64}, Swizzle::none, bad ? 128 : 1024, whole, marked);
       }},
      {"staging that begins anywhere",
       {"place: the start of 128 x 64 of a bf16 128x64 tile, 128 B swizzle is only known on the device"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<bf16>({128, 64}, Swizzle128B, 2);
         const u32 stage = ctaid_x();
         const TileView at = bad ? tile[stage] : tile[1];
         HERE const SharedRegion place(at);
         CHECK(place.offset() == 16384);
         CHECK(place.bytes() == 16384);
         done(k);
       }},
      {"staging in several pieces",
       {"place: 64 x 128 of a bf16 128x128 tile, 128 B swizzle is not contiguous but in 2 pieces"},
       [](bool bad) {
         Kernel k("k");
         SharedTile tile = k.shared<bf16>({128, 128}, Swizzle128B);
         const TileView at = bad ? tile[0].rows(64, 64) : tile[0].cols(64, 64).rows(64, 64);
         HERE const SharedRegion place(at);
         CHECK(place.offset() == 16384 + 8192);
         CHECK(place.bytes() == 8192);
         done(k);
       }},
      {"staging in another kernel",
       {"shared: 1 stage of a u8 1x1024 tile, no swizzle belongs to another kernel, so a tile cannot take "
        "its place"},
       [](bool bad) {
         Kernel other("other");
         const SharedTile foreign = other.shared<u8>({1, 1024});
         done(other);
         Kernel k("k");
         const SharedTile own = k.shared<u8>({1, 1024});
         HERE SharedTile(bad ? foreign : own, DType::bf16, {1, 64}, Swizzle::none, 1);
         done(k);
       }},
  });
}

}  // namespace ptxbuilder::test::misuse_tile_test
