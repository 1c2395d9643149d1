// Tests misuse of register tiles. Each case throws an Error that names the rule, the layouts and the line,
// and has a twin that is accepted.
#include "misuse_kit.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/registers/partial.h"

namespace ptxbuilder::test::misuse_register_test {
namespace {

constexpr TileExtent kExtent = {64, 32};

RegisterTile<f32> ones(const RegisterLayout& layout) { return RegisterTile<f32>(f32(1), layout); }
RegisterTile<f32> ordered() { return ones(wgmma_layout(64, 32)); }

}  // namespace

TEST_CASE("layouts") {
  check_cases({
      {"operands in different layouts",
       {"the register tiles have different layouts, wgmma_layout(64, 32) "
        "((4,8,4),(2,2,4)):((2,32,512),(1,256,8)) and strided(64 x 32, 4) (128,(4,4)):(4,(1,512)): cast one "
        "to the layout of the other, as in layout_cast(b, a.layout())"},
       [](bool bad) {
         Kernel k("k");
         auto other = ones(bad ? strided(kExtent, 4) : wgmma_layout(64, 32));
         HERE ordered() + other;
         done(k);
       }},
      {"operands of different layouts under a select",
       {"the register tiles have different layouts", "wgmma_8bit(32)"},
       [](bool bad) {
         Kernel k("k");
         auto x = ordered(), other = ones(bad ? wgmma_8bit(32) : wgmma_layout(64, 32));
         HERE max(x, other);
         done(k);
       }},
      {"a row of another layout's next to a tile",
       {"the register tiles have 64 x 32 and 64 x 1 elements in wgmma_layout(64, 32)",
        "and the rows of strided(64 x 32, 4)", "layout_cast the second to the rows of wgmma_layout(64, 32)"},
       [](bool bad) {
         Kernel k("k");
         auto x = ordered(), row = ones(bad ? strided(kExtent, 4).reduced_rows() : wgmma_row(64));
         HERE x - row;
         done(k);
       }},
      {"a column of another layout's before a tile",
       {"the register tiles have 64 x 32 and 1 x 32 elements in wgmma_layout(64, 32)", "wgmma_8bit(32)",
        "layout_cast the second to the columns of wgmma_layout(64, 32)"},
       [](bool bad) {
         Kernel k("k");
         auto x = ordered(), col = ones(bad ? wgmma_8bit(32).reduced_cols() : wgmma_col(32));
         HERE fma(col, 2, x);
         done(k);
       }},
      {"tiles of extents that have no dimension in common",
       {"the register tiles have 64 x 32 and 64 x 16 elements",
        "one of them must have one value for each row, or for each column, of the other"},
       [](bool bad) {
         Kernel k("k");
         auto x = ordered(), y = ones(wgmma_layout(64, bad ? 16 : 32));
         HERE y* x;
         done(k);
       }},
      {"a row of a tile that is one value",
       {"the register tiles have 64 x 32 and 64 x 1 elements in splat(64 x 32)", "layout_cast the splat"},
       [](bool bad) {
         Kernel k("k");
         auto x = ones(bad ? splat(kExtent) : wgmma_layout(64, 32)), row = ones(wgmma_row(64));
         HERE max(row, x);
         done(k);
       }},
      {"a row of a layout whose rows wander",
       {"strided(64 x 24, 4)", "its rows and columns are not separate"},
       [](bool bad) {
         Kernel k("k");
         auto x = ones(bad ? strided({64, 24}, 4) : wgmma_layout(64, 24)), row = ones(wgmma_row(64));
         HERE x* row;
         done(k);
       }},
      {"a Var of a row that would become a tile",
       {"a Var of wgmma_row(64)", "cannot hold a tile of wgmma_layout(64, 32)",
        "assign layout_cast(tile, variable.layout())"},
       [](bool bad) {
         Kernel k("k");
         Var<RegisterTile<f32>> row(ones(wgmma_row(64)));
         auto x = ones(bad ? wgmma_layout(64, 32) : wgmma_row(64));
         HERE row += x;
         done(k);
       }},
      {"elements that are too few",
       {"register tile: 15 elements were given, but a thread holds 16 of wgmma_layout(64, 32)"},
       [](bool bad) {
         Kernel k("k");
         std::vector<f32> elements(bad ? 15 : 16, f32(1));
         HERE RegisterTile<f32>::of(wgmma_layout(64, 32), elements);
         done(k);
       }},
      {"registers that are too many",
       {"register tile: 16 registers were given, but a thread has 16 bf16, 2 to a register, of "
        "wgmma_layout(64, 32)"},
       [](bool bad) {
         Kernel k("k");
         std::vector<u32> registers(bad ? 16 : 8, u32(1));
         HERE RegisterTile<bf16>::of_registers(wgmma_layout(64, 32), registers);
         done(k);
       }},
      {"bits shifted out",
       {"the shift by 32 must be by less than the 32 bits of the value"},
       [](bool bad) {
         Kernel k("k");
         auto x = row_index(wgmma_layout(64, 32));
         HERE x << (bad ? 32 : 31);
         done(k);
       }},
      {"parts of sums that other threads share",
       {"reduction of the rows of wgmma_layout(64, 32)", "are in 4 threads",
        "a reduction of the rows of strided(64 x 32, 4)", "are in 8"},
       [](bool bad) {
         Kernel k("k");
         auto a = partial_rows<Reduction::add>(ordered());
         auto b = partial_rows<Reduction::add>(ones(bad ? strided(kExtent, 4) : wgmma_layout(64, 64)));
         HERE a + b;
         done(k);
       }},
      {"a Var of parts that are of another layout",
       {"reduction of the rows of wgmma_layout(64, 32)",
        "a reduction of the columns of wgmma_layout(64, 32)"},
       [](bool bad) {
         Kernel k("k");
         auto x = ordered();
         Var<Partial<f32, Reduction::add>> sum(partial_rows<Reduction::add>(x));
         auto other = bad ? partial_cols<Reduction::add>(x) : partial_rows<Reduction::add>(x);
         HERE sum = other;
         done(k);
       }},
      {"parts scaled by a whole tile",
       {"reduction of the rows of wgmma_layout(64, 32)", "is scaled by a tile of wgmma_layout(64, 32)",
        "one value for each value of the reduction"},
       [](bool bad) {
         Kernel k("k");
         auto sum = partial_rows<Reduction::add>(ordered());
         auto factor = bad ? ordered() : ones(wgmma_row(64));
         HERE sum* factor;
         done(k);
       }},
      {"a broadcast of another layout's rows",
       {"broadcast: the tile is wgmma_row(64)", "but strided(64 x 32, 4)", "the rows of strided(64 x 32, 4)"},
       [](bool bad) {
         Kernel k("k");
         RegisterLayout to = bad ? strided(kExtent, 4) : wgmma_layout(64, 32);
         HERE broadcast(ones(wgmma_row(64)), to);
         done(k);
       }},
      {"a cast to another extent",
       {"layout_cast: wgmma_layout(64, 32)", "to wgmma_layout(64, 40)", "their extents differ"},
       [](bool bad) {
         Kernel k("k");
         RegisterLayout to = wgmma_layout(64, bad ? 40 : 32);
         HERE layout_cast(ordered(), to);
         done(k);
       }},
      {"a cast to a splat",
       {"layout_cast: wgmma_layout(64, 32)", "to splat(64 x 32)", "a splat is one value"},
       [](bool bad) {
         Kernel k("k");
         auto x = ones(bad ? wgmma_layout(64, 32) : splat(kExtent));
         HERE layout_cast(x, splat(kExtent));
         done(k);
       }},
      {"a reduction of rows that wander",
       {"strided(64 x 24, 4)", "its rows and columns are not separate",
        "layout_cast the tile first, for example to wgmma_layout(64, 24)"},
       [](bool bad) {
         Kernel k("k");
         auto x = ones(bad ? strided({64, 24}, 4) : wgmma_layout(64, 24));
         HERE reduce_rows(Reduction::max, x);
         done(k);
       }},
      {"a sum over elements that threads share in part",
       {"reduce: more threads hold some elements of windows (128,2):(1,1) than others"},
       [](bool bad) {
         Kernel k("k");
         auto x = ones(RegisterLayout({1, 129}, make_layout({128, 2}, {1, 1}), "windows"));
         HERE reduce_all(bad ? Reduction::add : Reduction::max, x);
         done(k);
       }},
      {"a reduction of a splat",
       {"reduce: splat(64 x 32)", "holds one value"},
       [](bool bad) {
         Kernel k("k");
         auto x = ones(bad ? splat(kExtent) : wgmma_layout(64, 32));
         HERE reduce_all(Reduction::add, x);
         done(k);
       }},
      {"vectors that do not divide",
       {"strided: 64 x 32 elements in vectors of 32 were requested, but the number of elements must be a "
        "multiple of 4096"},
       [](bool bad) {
         Kernel k("k");
         HERE strided(kExtent, bad ? 32 : 16);
         done(k);
       }},
      {"half of a wgmma",
       {"wgmma_layout: m is 32, but must be a multiple of 64"},
       [](bool bad) {
         Kernel k("k");
         HERE wgmma_layout(bad ? 32 : 64, 32);
         done(k);
       }},
      {"a layout that leaves elements out",
       {"mine: (128,8):(1,128) of 64 x 32 elements: no thread holds element 1024"},
       [](bool bad) {
         Kernel k("k");
         Layout layout = make_layout({128, bad ? 8 : 16}, {1, 128});
         HERE RegisterLayout(kExtent, layout, "mine");
         done(k);
       }},
      {"a layout of another number of threads",
       {"its modes must be 128 threads and their values"},
       [](bool bad) {
         Kernel k("k");
         Layout layout = bad ? make_layout({64, 32}, {1, 64}) : make_layout({128, 16}, {1, 128});
         HERE RegisterLayout(kExtent, layout);
         done(k);
       }},
      {"a loop that changes the layout",
       {"a Var of wgmma_layout(64, 32)", "cannot hold a tile of strided(64 x 32, 4)"},
       [](bool bad) {
         Kernel k("k");
         Var<RegisterTile<f32>> sum(ordered());
         auto next = ones(bad ? strided(kExtent, 4) : wgmma_layout(64, 32));
         HERE sum = next;
         done(k);
       }},
      {"a value that a thread has not",
       {"value 16 was requested, but a thread holds 16 of wgmma_layout(64, 32)"},
       [](bool bad) {
         Kernel k("k");
         HERE ordered().value(bad ? 16 : 15);
         done(k);
       }},
  });
}

TEST_CASE("memory and matrix products") {
  check_cases({
      {"a tile of another type",
       {"load: the tile in registers is bf16, but the one in shared memory is an f16 64x32 tile"},
       [](bool bad) {
         Kernel k("k");
         auto tile = k.shared<f16>({64, 32});
         if (bad) {
           HERE load<bf16>(tile[0]);
         } else {
           load<f16>(tile[0]);
         }
         done(k);
       }},
      {"a tile of another extent",
       {"store: wgmma_layout(64, 32)", "has 64 x 32 elements, but the view of an f32 64x64 tile",
        "has 64 x 64"},
       [](bool bad) {
         Kernel k("k");
         auto tile = k.shared<f32>({64, bad ? 64 : 32});
         HERE store(tile[0], ordered());
         done(k);
       }},
      {"rows closer than they are long",
       {"the rows have 32 elements, but are only 16 apart"},
       [](bool bad) {
         Kernel k("k");
         auto [p] = k.params<gptr<f32>>("p");
         u32 pitch = bad ? 16 : 48;
         HERE load(p, strided(kExtent, 4), pitch);
         done(k);
       }},
      {"a stride that is not a multiple",
       {"multiples_of: the stride is 36, but must be a multiple of 8"},
       [](bool bad) {
         Kernel k("k");
         auto [p] = k.params<gptr<f16>>("p");
         GlobalTensor x(p, {64, 32}, {bad ? 36 : 40, 1});
         HERE x.multiples_of(8);
         done(k);
       }},
      {"an extent that is not a multiple",
       {"multiples_of: the extent is 30, but must be a multiple of 8"},
       [](bool bad) {
         Kernel k("k");
         auto [p, n] = k.params<gptr<f16>, u32>("p", "n");
         GlobalTensor x(p, {n, bad ? 30u : 32u}, {64, 1});
         HERE x.multiples_of(8);
         done(k);
       }},
      {"multiples of no power of two",
       {"multiples_of: the number is 6, but must be a power of two"},
       [](bool bad) {
         Kernel k("k");
         auto [p, n] = k.params<gptr<f16>, u32>("p", "n");
         GlobalTensor x(p, {n, n});
         HERE x.multiples_of(bad ? 6 : 4);
         done(k);
       }},
      {"a coordinate below 0",
       {"the constant -1 does not fit in u32"},
       [](bool bad) {
         Kernel k("k");
         auto [p, n] = k.params<gptr<f16>, u32>("p", "n");
         GlobalTensor x(p, {n, n});
         HERE x(0, bad ? -1 : 1) = f16(0);
         done(k);
       }},
      {"rows stored to a tensor in which they overlap",
       {"store: 64 x 32 elements have strides of 16 between rows and 1 between columns, so several elements "
        "would share one address"},
       [](bool bad) {
         Kernel k("k");
         auto [p] = k.params<gptr<f32>>("p");
         GlobalTensor x(p, {64, bad ? 32 : 16}, {16, 1});
         load(x.tile(0, 0), wgmma_layout(64, 32));
         HERE store(x.tile(0, 0), ordered());
         done(k);
       }},
      {"columns stored to one place",
       {"store: 64 x 32 elements have strides of 1 between rows and 0 between columns, so several elements "
        "would share one address"},
       [](bool bad) {
         Kernel k("k");
         auto [p] = k.params<gptr<f32>>("p");
         GlobalTensor x(p, {64, 32}, {1, bad ? 0 : 64});
         HERE store(x.tile(0, 0), ordered());
         done(k);
       }},
      {"a tile of a tensor into a splat",
       {"load: splat(64 x 32)", "holds one value for all elements"},
       [](bool bad) {
         Kernel k("k");
         auto [p, n] = k.params<gptr<f16>, u32>("p", "n");
         GlobalTensor x(p, {n, n});
         RegisterLayout layout = bad ? splat(kExtent) : wgmma_layout(64, 32);
         HERE load(x.tile(0, 0), layout);
         done(k);
       }},
      {"more threads than a tile has",
       {"the CTA has 256 threads, but without roles, a tile needs a CTA of 128"},
       [](bool bad) {
         Kernel k("k");
         auto [p] = k.params<gptr<f32>>("p");
         k.threads(bad ? 256 : 128);
         HERE load(p, strided(kExtent, 4));
         done(k);
       }},
      {"an accumulator from another layout",
       {"store: the layout of the tile is strided(64 x 32, 4)",
        "but that of the accumulator is wgmma_layout(64, 32)", "store layout_cast(x, wgmma_layout(64, 32))"},
       [](bool bad) {
         Kernel k("k");
         Accumulator acc(64, 32);
         auto x = ones(bad ? strided(kExtent, 4) : wgmma_layout(64, 32));
         HERE store(acc, x);
         done(k);
       }},
      {"an accumulator of another type",
       {"load: the tile in registers is f16, but the accumulator is f32"},
       [](bool bad) {
         Kernel k("k");
         Accumulator acc(64, 32, bad ? DType::f32 : DType::f16);
         if (!bad) store(acc, RegisterTile<f16>(f16(f32(0)), acc.layout()));
         HERE load<f16>(acc);
         done(k);
       }},
      {"a part of an accumulator beyond its columns",
       {"load: 64 x 16 elements from (0, 24) of 64 x 32 were requested; they must be within these, rows in "
        "multiples of 64 and columns in multiples of 8"},
       [](bool bad) {
         Kernel k("k");
         Accumulator acc(64, 32);
         store(acc, ones(wgmma_layout(64, 32)));
         HERE load<f32>(acc, {0, bad ? 24 : 16, 64, 16});
         done(k);
       }},
      {"a part of a tile in another layout",
       {"part: the layout of the tile is strided(64 x 32, 4)",
        "layout_cast it to wgmma_layout(64, 32) first"},
       [](bool bad) {
         Kernel k("k");
         auto x = ones(bad ? strided(kExtent, 4) : wgmma_layout(64, 32));
         HERE x.part({0, 8, 64, 8});
         done(k);
       }},
  });
}

}  // namespace ptxbuilder::test::misuse_register_test
