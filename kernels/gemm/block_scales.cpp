#include "kernels/gemm/block_scales.h"

#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kRows = 64, kColumns = 8;  // columns added at a time; more columns would take more registers

RegisterLayout part_layout() { return wgmma_layout(kRows, kColumns); }

// Returns the first scale of the box that contains scale `at`. Boxes begin at multiples of 16 bytes.
u32 box_begin(u32 at) { return at & ~uint32_t{kScalesOfBox - 1}; }

SharedTile shared_scales(Kernel& k, const char* name, const ScaleTiles::Shape& shape, int stages) {
  return k.shared(DType::f32, {shape.rows, shape.cols}, SwizzleNone, stages, name);
}

}  // namespace

BlockScales::BlockScales(Kernel& k, const GemmOperation& o, const TilePlan& t, const GemmParameters& p)
    : columns_(t.bn),
      unit_(scale_unit(t)),
      by_column_(o.b_scales_1x128),
      grouped_(o.grouped_rows()),
      m_(p.get<u32>("M")),
      map_of_a_(p.get<TensorMap>("a_scales_1x128")),
      map_of_b_(p.get<TensorMap>(by_column_ ? "b_scales_1x128" : "b_scales_128x128")),
      a_(shared_scales(k, "scales of A", scale_tiles(o, t).of_a, t.stages)),
      b_(shared_scales(k, "scales of B", scale_tiles(o, t).of_b, t.stages)) {}

// Rows outside all groups have a sum of zero. Their scales are loaded from beyond the last row, where TMA
// reads zeros, because zero times an arbitrary scale could be NaN.
void BlockScales::load(const Stage& s, u32 kt, const Work& work, const std::optional<u32>& groups,
                       const std::vector<u32>& of_a, const std::vector<u32>& of_b) const {
  u32 row = work.x;
  if (grouped_) row = box_begin(select(*work.batch < *groups, row, m_ + (kScalesOfBox - 1)));
  std::vector<u32> at_a = {row, kt}, at_b = {work.y, kt};
  if (!by_column_) at_b = {box_begin(kt), work.y / kScaleBlock};
  at_a.insert(at_a.end(), of_a.begin(), of_a.end());
  at_b.insert(at_b.end(), of_b.begin(), of_b.end());
  tma_load(a_[s], map_of_a_, at_a);
  tma_load(b_[s], map_of_b_, at_b);
}

BlockScales::Factors BlockScales::factors(const Stage& s, u32 kt, const Work& work, u32 row) const {
  const RegisterLayout layout = part_layout().reduced_rows();
  const RegisterTile<u32> of_thread = row_index(layout);
  const u32 first = grouped_ ? row + work.x % kScalesOfBox : row;
  const sptr<f32> rows(a_[s].address());
  Factors factors = {
      RegisterTile<f32>::of(layout, [&](int v) { return f32(rows[first + of_thread.value(v)]); }), {}, {}};
  const smem of_b = b_[s].address();
  if (by_column_) {
    factors.columns = of_b;
    return factors;
  }
  const u32 in_block = unit_ == kScaleBlock ? u32(0) : work.y % kScaleBlock;
  for (int col = 0; col < columns_; col += unit_)
    factors.blocks.push_back(sptr<f32>(of_b)[(in_block + col) / kScaleBlock * b_.cols() + kt % kScalesOfBox]);
  return factors;
}

void BlockScales::read() const {
  if (by_column_) bar_warp_sync(0xffffffff);  // otherwise the lanes converge for a wgmma after reading
}

void BlockScales::add(Accumulator& total, const Accumulator& sums, const Factors& factors, int first) const {
  std::vector<RegisterTile<f32>> by_block;
  for (const f32& block : factors.blocks) by_block.push_back(factors.rows * block);
  const RegisterLayout across = part_layout().reduced_cols();
  const RegisterTile<u32> of_thread = col_index(across);
  for (int col = 0; col < sums.n(); col += kColumns) {
    const TilePart from = {0, col, kRows, kColumns}, to = {0, first + col, kRows, kColumns};
    RegisterTile<f32> x = ptxbuilder::load<f32>(sums, from);
    if (by_column_) {
      const sptr<f32> columns(*factors.columns);
      x = x * RegisterTile<f32>::of(across,
                                    [&](int v) { return f32(columns[of_thread.value(v) + (first + col)]); });
    }
    const RegisterTile<f32>& factor =
        by_column_ ? factors.rows : by_block[static_cast<size_t>((first + col) / unit_)];
    store(total, fma(x, factor, ptxbuilder::load<f32>(total, to)), to);
  }
}

}  // namespace ptxbuilder::kernels
