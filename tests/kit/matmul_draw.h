// Products that are drawn from a seed: operation, tile, sizes, placement and data.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/gemm/kernel.h"
#include "matmul_kit.h"

namespace ptxbuilder::test {

class Draw {
 public:
  explicit Draw(uint64_t stream) : random_(stream) {}

  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  // Draws a number such that each order of magnitude is equally likely.
  int64_t spread(int64_t low, int64_t high) {
    const double from = std::log(static_cast<double>(low)), to = std::log(static_cast<double>(high) + 1);
    const double x = std::uniform_real_distribution<double>(from, to)(random_);
    return std::clamp(static_cast<int64_t>(std::exp(x)), low, high);
  }
  bool chance(int one_in) { return between(1, one_in) == 1; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<int64_t>(values.size()) - 1)];
  }
  uint64_t bits() { return random_(); }

 private:
  std::mt19937_64 random_;
};

// The largest sizes of products.
struct Scale {
  int64_t extent, volume;  // limits of m, n and k, and of the multiplications in whole tiles
};

struct RandomCase {
  MatmulCase product;
  kernels::GemmOperation operation;
  kernels::GemmTile tile;
  int multiprocessors;  // 0 for all; if there are few, CTAs process several tiles
};

// Draws the operations of the epilogue, in every combination that the rules allow.
inline void draw_epilogue(Draw& draw, MatmulCase& c) {
  using kernels::Activation, kernels::ActivationUse;
  c.alpha = draw.of({1.0F, 0.5F, -2.0F});
#define PTXBUILDER_VECTOR(name, word, type, shape, role, ...) \
  if (kernels::OperandRole::role > kernels::OperandRole::block_factor) c.name = draw.chance(3);
#include "kernels/gemm/product.def"
  c.activation = static_cast<Activation>(draw.between(0, kernels::activation_words.size() - 1));
  if (c.activation != Activation::none)
    c.use = draw.of({ActivationUse::value, ActivationUse::value, ActivationUse::slope, ActivationUse::gate});
  if (c.use != ActivationUse::gate) {
    c.beta = draw.of({0.0F, 1.0F, -0.75F});
    c.in_place = size_of(c.d) > 1 && draw.chance(2);  // C of an 8-bit D has a different type
  }
  c.amax_was = draw.of({0.0F, 0.0F, 0.5F, 1e30F});
  c.d_scale = !draw.chance(size_of(c.d) == 1 ? 4 : 3) == (size_of(c.d) == 1);
  // This factor has the effect that some elements of an 8-bit D are clamped, and that some are subnormal.
  c.d_scale_is =
      static_cast<float>(std::ldexp(draw.of({1.0, -1.0, 1.375}), static_cast<int>(draw.between(-10, 6))));
}

inline bool has_groups(const MatmulCase& c) { return c.group_ends || c.group_counts; }

// Draws packed weights of any form, if the other properties of the product allow them.
inline void draw_packed_form(Draw& draw, MatmulCase& c) {
  using kernels::WeightType;
  if (size_of(c.a) != 2 || (c.size.batches > 1 && !has_groups(c)) || c.groups_of_k || c.b_addresses ||
      c.use == kernels::ActivationUse::gate || !draw.chance(4))
    return;
  c.packed = {draw.of({WeightType::int4, WeightType::uint4, WeightType::int8, WeightType::e4m3}),
              draw.of<uint8_t>({0, 32, 64, 128}), draw.of({DType::f32, DType::f16, DType::bf16})};
  c.b_k_major = true;
}

inline MatmulCase draw_product(Draw& draw) {
  MatmulCase c;
  c.a = c.b = draw.of({DType::bf16, DType::bf16, DType::f16, DType::f16, DType::tf32, DType::e4m3,
                       DType::e5m2, DType::s8, DType::u8});
  const bool integer = c.a == DType::s8 || c.a == DType::u8;
  if (integer) c.b = draw.of({DType::s8, DType::u8});
  if (c.a == DType::e4m3 || c.a == DType::e5m2) c.b = draw.of({DType::e4m3, DType::e5m2});
  // f16 cannot represent the sums of integers.
  c.d = integer ? draw.of({DType::s32, DType::f32, DType::bf16, DType::e4m3, DType::e5m2})
                : draw.of({DType::bf16, DType::f16, DType::f32, DType::bf16, DType::e4m3, DType::e5m2});
  if (size_of(c.a) == 2) {
    c.a_k_major = draw.chance(2);
    c.b_k_major = draw.chance(2);
  }
  c.fast_accumulation = draw.chance(2);
  if (c.d != DType::s32 && !draw.chance(3)) draw_epilogue(draw, c);
  c.size = {1, 1, 1, draw.chance(3) ? draw.between(2, 5) : 1};
  if (draw.chance(4)) {
    c.group_ends = true;
    c.groups_of_k = size_of(c.a) == 2 && draw.chance(2);
    c.a_k_major = !c.groups_of_k;
    c.b_k_major = c.b_k_major && !c.groups_of_k;
    c.size.batches = draw.between(1, 9);
    if (!c.groups_of_k && draw.chance(3)) c.group_ends = false, c.group_counts = true;
  }
  if (has_groups(c) && !c.groups_of_k && draw.chance(3)) c.b_addresses = true;
  if (c.a_k_major && !c.groups_of_k && (has_groups(c) || c.size.batches == 1) && draw.chance(4)) {
    c.a_rows = true;
    c.rows_of_a = draw.spread(1, 300);
  }
  if (!c.groups_of_k && (has_groups(c) || c.size.batches == 1) && !c.amax && draw.chance(4)) {
    c.d_rows = true;  // the greatest stored number is unknown if a row is dropped
    c.beta = 0, c.in_place = false;
    if (size_of(c.d) > 1 && c.d != DType::s32 && draw.chance(2)) {
      c.d_rows = false, c.add_to_rows = true;
      c.d_scale = c.d_scale && c.d != DType::f16;  // the sums would overflow f16
    }
  }
  if (is_fp8(c.a) && draw.chance(2)) {
    c.a_scales_1x128 = true;
    (draw.chance(3) ? c.b_scales_1x128 : c.b_scales_128x128) = true;
  }
  draw_packed_form(draw, c);
  if (can_be_sparse(c.a) && !c.packed.is_packed() && !c.a_scales_1x128 && draw.chance(4)) {
    if (c.a_k_major && !has_groups(c) && !c.a_rows && draw.chance(2))
      c.a_metadata = true;
    else if (c.b_k_major && !c.groups_of_k && c.use != kernels::ActivationUse::gate)
      c.b_metadata = true;
  }
  c.seed = draw.bits();
  return c;
}

inline kernels::GemmTile draw_tile(Draw& draw, const kernels::GemmOperation& operation) {
  for (;;) {
    kernels::GemmTile t;
    t.bm = draw.of({64, 64, 128, 128, 192, 256});
    t.bn = static_cast<int>(8 * (draw.chance(3) ? draw.between(1, 40) : draw.between(1, 12)));
    t.consumers = static_cast<int>(draw.between(1, 3));
    t.pingpong = draw.chance(4);
    t.swapped = draw.chance(2);
    t.bk = draw.chance(4) ? 256 / size_of(operation.a) : 0;
    t.stages = draw.chance(2) ? static_cast<int>(draw.between(1, 6)) : 0;
    if (draw.chance(3)) {
      t.cluster_m = draw.of({1, 2, 2, 4});
      t.cluster_n = draw.of({1, 1, 2, 4});
    } else if (draw.chance(3)) {
      t.split_k = static_cast<int>(draw.between(2, 8));
      if (draw.chance(2)) t.cluster_m = draw.of({1, 2, 2, 4}), t.cluster_n = draw.of({1, 1, 2});
    } else if (draw.chance(2)) {
      t.split_last = static_cast<int>(draw.chance(3) ? draw.between(2, 12) : draw.between(2, 4));
      if (draw.chance(2)) t.cluster_m = draw.of({1, 2, 2, 4}), t.cluster_n = draw.of({1, 2, 2});
    }
    t.raster = {draw.of({16, 16, 1, 3, 8}), draw.chance(3), draw.chance(3)};
    t.ctas_per_sm = draw.chance(6) ? 2 : 1;
    t.inside = draw.chance(2);
    try {
      return checked(operation, t);
    } catch (const Error&) {
    }
  }
}

inline Lie draw_lie(Draw& draw, DType type) {
  const int64_t step = draw.chance(3) ? 1 : 16 / size_of(type);
  Lie lie;
  if (draw.chance(2)) lie.offset = step * draw.between(0, 5);
  if (draw.chance(2)) lie.gap = step * draw.between(0, 5);
  if (draw.chance(2)) lie.batch_gap = step * draw.between(0, 5);
  return lie;
}

// Returns the multiplications in all tiles; a device computes every tile completely.
inline int64_t volume(const RandomCase& c) {
  auto whole = [](int64_t extent, int64_t tile) { return (extent + tile - 1) / tile * tile; };
  const auto& [m, n, k, batches] = c.product.size;
  return whole(c.tile.swapped ? n : m, c.tile.bm * c.tile.cluster_m) *
         whole(c.tile.swapped ? m : n, c.tile.bn * c.tile.cluster_n) * whole(k, c.tile.bk) * batches;
}

// Returns the case's D, which begins after a guard.
inline kernels::Operand placed_output(const MatmulCase& c, const kernels::GemmOperation& operation) {
  const int64_t columns = operation.d_columns(c.size.n), stride = columns + c.d_lie.gap;
  kernels::DeviceMatrix d = {
      .type = c.d, .stride = stride, .batch_stride = stride * c.size.m + c.d_lie.batch_gap};
  d.memory.address = GuardedMatrix::kGuard + static_cast<uint64_t>(c.d_lie.offset * size_of(c.d));
  return matrix_operand("D", d, c.size.m, columns, operation.grouped_rows() ? 1 : c.size.batches);
}

inline RandomCase draw_case(uint64_t seed, size_t index, const Scale& scale) {
  Draw draw(seed * 0x9e3779b97f4a7c15 + index);
  RandomCase c;
  c.product = draw_product(draw);
  c.operation = operation_of(arguments_without_memory(c.product));
  int64_t extent = scale.extent;
  do {
    c.tile = draw_tile(draw, c.operation);
    // Rows without padding suit a tensor map if they are multiples of 16 bytes.
    auto size = [&] {
      const int64_t step = draw.chance(3) ? 1 : 16 / size_of(c.product.a);
      const int64_t any = draw.chance(2) ? draw.between(1, extent) : draw.spread(1, extent);
      return std::max<int64_t>(any / step * step, 1);
    };
    c.product.size.m = size();
    if (c.operation.group_counts)  // each group has the same number of rows in memory
      c.product.size.m =
          (c.product.size.m + c.product.size.batches - 1) / c.product.size.batches * c.product.size.batches;
    c.product.size.n = size();
    if (c.operation.gates()) c.product.size.n += c.product.size.n % 2;
    if (c.operation.scatters() || c.operation.group_counts)  // rows must be multiples of 16 bytes
      c.product.size.n = (c.product.size.n + 31) / 32 * 32;
    c.product.size.k = size();
    if (c.operation.is_sparse()) c.product.size.k = (c.product.size.k + 3) / 4 * 4;
    extent = std::max<int64_t>(extent - 1, 8);
  } while (volume(c) > scale.volume);
  c.product.a_lie = draw_lie(draw, c.product.a);
  c.product.b_lie = draw_lie(draw, c.product.b);
  if (c.product.b_addresses) {  // matrices and rows must start at multiples of 16 bytes
    const int64_t step = 16 / size_of(c.product.b) * (c.product.b_metadata ? 2 : 1);
    int64_t& along = c.product.b_k_major ? c.product.size.k : c.product.size.n;
    along = (along + 2 * step - 1) / (2 * step) * 2 * step;
    for (int64_t* gap : {&c.product.b_lie.offset, &c.product.b_lie.gap, &c.product.b_lie.batch_gap})
      *gap = *gap / step * step;
  }
  c.product.c_lie = draw_lie(draw, c.operation.addend());
  c.product.d_lie = draw_lie(draw, c.product.d);
  c.product.inputs_lie = draw_lie(draw, c.operation.addend());
  c.product.inputs_lie.batch_gap = 0;
  if (c.operation.scatters() || c.operation.group_counts) {
    const int64_t step = 16 / size_of(c.product.d);
    for (int64_t* gap : {&c.product.d_lie.offset, &c.product.d_lie.gap}) *gap = *gap / step * step;
  }
  c.operation.d_by_threads = !c.operation.has_groups() && !c.operation.scatters() &&
                             stored_by_threads(placed_output(c.product, c.operation));
  c.multiprocessors = draw.of({0, 1, 2, 5});
  return c;
}

}  // namespace ptxbuilder::test
