// Reductions of register tiles along rows or columns: in registers, between lanes, between warps.
#include <fmt/format.h>

#include <bit>

#include "ptxbuilder/ir/instructions.h"
#include "ptxbuilder/tile/register_place.h"
#include "ptxbuilder/tile/register_values.h"

namespace ptxbuilder::detail {
namespace {

constexpr int kLaneBits = 5;  // of the thread's seven

Value exchanged(Value value, Class cls, int lane_mask) {  // with the lane that differs in `lane_mask`
  u32 word = shfl_sync_bfly(bit_cast<u32>(u32(bit_cast<u32>(value).handle())), lane_mask);
  return cls == Class::f32 ? Value(bit_cast<f32>(word)) : Value(word);
}

// One reduction of a tile of 32-bit elements.
class Reduce {
 public:
  Reduce(Reduction operation, const TileValues& x, bool keep_rows, Where where)
      : operation_(operation),
        cls_(word_class(x.dtype)),
        x_(x),
        reduced_(keep_rows ? x.layout.reduced_rows(where) : x.layout.reduced_cols(where)),
        where_(where) {
    Additive rows = *additive_rows(x.layout), cols = *additive_cols(x.layout);
    kept_ = keep_rows ? rows : cols;
    const Additive& dropped = keep_rows ? cols : rows;
    for (size_t b = 0; b < kept_.bits.size(); ++b) {
      if (kept_.bits[b] != 0 && dropped.bits[b] != 0)
        throw Error(where, fmt::format("reduce: threads of {} go along rows and columns at once; layout_cast "
                                       "the tile first",
                                       x.layout.describe()));
      if (dropped.bits[b] != 0) shared_bits_ |= 1 << b;
    }
  }

  TileValues result() {
    TileValues y{x_.dtype, reduced_, {}};
    for (int v = 0; v < reduced_.values(); ++v) y.words.push_back(in_registers(reduced_.of_value(v)));
    for (int b = 0; b < kLaneBits; ++b)
      if (shared_bits_ >> b & 1)
        for (Value& v : y.words) v = combined(v, exchanged(v, cls_, 1 << b));
    if (shared_bits_ >> kLaneBits) between_warps(y.words);
    return y;
  }

 private:
  Value combined(Value a, Value b) const {
    constexpr Arithmetic operations[] = {Arithmetic::add, Arithmetic::max, Arithmetic::min, Arithmetic::mul};
    return Value(arithmetic(operations[static_cast<int>(operation_)], cls_, a.handle(), b.handle()));
  }

  // Of this thread's elements with the given row or column, as a tree: short dependences, small rounding.
  Value in_registers(int kept) const {
    std::vector<Value> level;
    for (size_t v = 0; v < kept_.values.size(); ++v)
      if (kept_.values[v] == kept) level.push_back(x_.words[v]);
    while (level.size() > 1) {
      std::vector<Value> next;
      for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(combined(level[i], level[i + 1]));
      if (level.size() % 2) next.push_back(level.back());
      level = std::move(next);
    }
    return level[0];
  }

  // Each warp leaves its values in shared memory, once for the lanes that hold the same, and takes the
  // others'.
  void between_warps(std::vector<Value>& values) const {
    std::array<int, 7> lane_bits = {};  // the place among the lanes that differ
    int lanes = 1, equal_lanes = 0;
    for (size_t b = 0; b < kLaneBits; ++b) {
      if (kept_.bits[b] == 0) {
        equal_lanes |= 1 << b;
        continue;
      }
      lane_bits[b] = lanes * 4;
      lanes *= 2;
    }
    smem space = scratch(static_cast<int>(values.size()) * lanes * 4 * 4, where_);
    u32 thread = thread_in_warpgroup(where_), warp = thread >> kLaneBits,
        lane = sum_of_bits(thread, lane_bits);
    auto at = [&](u32 of_warp, size_t v) {
      smem address = space + (of_warp * (lanes * 4) + lane);
      return (address + static_cast<uint32_t>(v) * static_cast<uint32_t>(4 * 4 * lanes)).handle();
    };
    sync_warpgroup(where_);
    if_((thread & equal_lanes) == 0,
        [&] {
          for (size_t v = 0; v < values.size(); ++v)
            detail::store(at(warp, v), std::array<Value, 1>{values[v]}, where_);
        },
        where_);
    sync_warpgroup(where_);
    for (size_t v = 0; v < values.size(); ++v) {
      auto of = [&](int mask) { return Value(load(at(warp ^ mask, v), cls_, 1, where_)); };
      // In every warp the same sums of the same pairs.
      int mask = shared_bits_ >> kLaneBits;
      if (mask != 3) values[v] = combined(values[v], of(mask));
      if (mask == 3) values[v] = combined(combined(values[v], of(1)), combined(of(2), of(3)));
    }
  }

  Reduction operation_;
  Class cls_;
  const TileValues& x_;
  RegisterLayout reduced_;
  Where where_;
  Additive kept_;
  int shared_bits_ = 0;  // of threads that share a row or column without holding the same elements of it
};

}  // namespace

TileValues tile_reduce(Reduction operation, const TileValues& x, bool keep_rows, Where where) {
  AtLine line(where);
  if (x.layout.is_splat())
    throw Error(where, fmt::format("reduce: {} holds one value; layout_cast it to a layout of all elements",
                                   x.layout.describe()));
  if (per_word(x.dtype) == 1) return Reduce(operation, x, keep_rows, where).result();
  TileValues wide = tile_convert(DType::f32, x, where);
  return tile_convert(*x.dtype, Reduce(operation, wide, keep_rows, where).result(), where);
}

TileValues tile_broadcast(const TileValues& x, const RegisterLayout& layout, Where where) {
  AtLine line(where);
  bool of_rows = x.layout.rows() == layout.rows() && x.layout.cols() == 1;
  bool of_cols = x.layout.cols() == layout.cols() && x.layout.rows() == 1;
  std::string wanted = "one value a row or one a column of it";
  if (x.layout.is_splat() && (of_rows || of_cols)) return {x.dtype, splat(layout.extent(), where), x.words};
  if (of_rows || of_cols) {
    RegisterLayout reduced = of_rows ? layout.reduced_rows(where) : layout.reduced_cols(where);
    if (reduced == x.layout) {
      Additive kept = of_rows ? *additive_rows(layout) : *additive_cols(layout);
      std::vector<Value> elements = elements_of(x), spread;
      for (int place : kept.values)
        for (int v = 0; v < reduced.values(); ++v)
          if (reduced.of_value(v) == place) spread.push_back(elements[static_cast<size_t>(v)]);
      return from_elements(x.dtype, layout, spread);
    }
    wanted = reduced.describe();
  }
  throw Error(where, fmt::format("broadcast: a tile of {} to {}, which takes {}", x.layout.describe(),
                                 layout.describe(), wanted));
}

}  // namespace ptxbuilder::detail
