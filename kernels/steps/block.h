// Contains the code that the kernels for one block of f16 share, such as the size of the block, loads with
// TMA, and the check.
#pragma once

#include "kernels/family/family.h"
#include "kernels/family/run.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/commit.h"

namespace ptxbuilder::kernels {

inline constexpr TileExtent kBlock = {128, 128};

// Loads two blocks with one thread, beginning at rows `l_row` and `r_row` of the maps. All threads wait for
// both blocks.
inline void load_both(smem loaded, const LoadView& l, TensorMap L, u32 l_row, const LoadView& r, TensorMap R,
                      u32 r_row) {
  elect([&] {
    mbarrier_arrive_expect_tx(loaded, l.place().bytes() + r.place().bytes());
    tma_load(l.on(loaded), L, 0, l_row);
    tma_load(r.on(loaded), R, 0, r_row);
  });
  barrier_wait(loaded, 0);
}

// Sets the descriptions of the parameters `l`, `r` and `out`, which are blocks with rows of 128 f16.
inline void describe_addition(Kernel& k, const char* l, const char* r, const char* out) {
  k.describe({{l, "the left block: 128 columns"}, {r, "the right block"}, {out, "the sum"}});
}

// Runs and checks l + r for `rows` rows; l is repeated every `l_rows` rows. Every element must be exact. The
// arguments are tensor maps if `tensor_maps`, and pointers otherwise.
inline void check_addition(command::Run& run, bool tensor_maps, uint64_t rows, uint64_t l_rows) {
  const uint64_t cols = static_cast<uint64_t>(kBlock.cols);
  command::Tensor l = run.normal(DType::f16, {cols, l_rows}), r = run.normal(DType::f16, {cols, rows});
  command::Tensor out = run.output(DType::f16, {cols, rows});
  auto argument = [&](const command::Tensor& t) { return tensor_maps ? t.tensor() : t.pointer(); };
  run.launch({argument(l), argument(r), argument(out)});
  run.check(out, 1, [&](size_t i) {
    double sum = l[i % l.count()] + r[i];
    return command::Expected{decode(DType::f16, encode(DType::f16, sum)), 0};
  });
  double count = static_cast<double>(out.count());
  run.measure(count, 2 * (count + count + static_cast<double>(l.count())));
}

}  // namespace ptxbuilder::kernels
