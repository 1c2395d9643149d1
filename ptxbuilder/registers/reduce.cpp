// Reduces register tiles along rows or columns: in registers, between lanes, and between warps.
#include <fmt/format.h>

#include <bit>

#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/ir/uniform.h"
#include "ptxbuilder/registers/place.h"
#include "ptxbuilder/registers/values.h"
#include "ptxbuilder/tile/thread_address.h"

namespace ptxbuilder::detail {
namespace {

constexpr int kLaneBits = 5;  // number of lane bits among the seven bits of a thread's number

Value exchanged(Value value, Class cls, int lane_mask) {  // returns the value of lane ^ lane_mask
  u32 word = shfl_sync_bfly(bit_cast<u32>(u32(bit_cast<u32>(value).handle())), lane_mask);
  return cls == Class::f32 ? Value(bit_cast<f32>(word)) : Value(word);
}

Arithmetic arithmetic_of(Reduction operation) {
  constexpr Arithmetic operations[] = {Arithmetic::add, Arithmetic::max, Arithmetic::min, Arithmetic::mul};
  return operations[static_cast<int>(operation)];
}

// Reduces a thread's own 32-bit elements, separately for each row or column.
class Own {
 public:
  Own(Reduction operation, const TileValues& x, bool keep_rows)
      : operation_(operation),
        x_(x),
        reduced_(keep_rows ? x.layout.reduced_rows() : x.layout.reduced_cols()) {
    Additive rows = *additive_rows(x.layout), cols = *additive_cols(x.layout);
    kept_ = keep_rows ? rows : cols;
    const Additive& dropped = keep_rows ? cols : rows;
    for (size_t b = 0; b < kept_.bits.size(); ++b) {
      if (kept_.bits[b] != 0 && dropped.bits[b] != 0)
        throw Error(fmt::format(
            "reduce: the threads of {} run along rows and columns at once; layout_cast the tile first",
            x.layout.describe()));
      if (dropped.bits[b] != 0) shared_bits_ |= 1 << b;
    }
  }

  PartialValues result() const {
    PartialValues y{{x_.dtype, reduced_, {}}, shared_bits_};
    for (int v = 0; v < reduced_.values(); ++v) y.own.words.push_back(of(reduced_.of_value(v)));
    return y;
  }

 private:
  // Reduces the elements of one row or column as a balanced tree, to keep dependence chains short and
  // rounding errors small.
  Value of(int kept) const {
    const Class cls = word_class(x_.dtype);
    std::vector<Value> level;
    for (size_t v = 0; v < kept_.values.size(); ++v)
      if (kept_.values[v] == kept) level.push_back(x_.words[v]);
    while (level.size() > 1) {
      std::vector<Value> next;
      for (size_t i = 0; i + 1 < level.size(); i += 2)
        next.push_back(combined(operation_, cls, level[i], level[i + 1]));
      if (level.size() % 2) next.push_back(level.back());
      level = std::move(next);
    }
    return level[0];
  }

  Reduction operation_;
  const TileValues& x_;
  RegisterLayout reduced_;
  Additive kept_;
  int shared_bits_ = 0;
};

// Exchanges values between the warps whose numbers differ in the bits of the two-bit mask `warps`. Each warp
// writes its values, in a reduced layout, to shared memory, and reads the values of the other warps. If
// several lanes hold the same values, the values are written once.
void exchange_between_warps(Reduction operation, TileValues& x, int warps) {
  const Class cls = word_class(x.dtype);
  std::vector<Value>& values = x.words;
  std::array<int, 7> lane_bits = {};  // terms of a lane's offset, in bytes, among lanes with different values
  int lanes = 1, equal_lanes = 0;
  for (size_t b = 0; b < kLaneBits; ++b) {
    if (x.layout.of_thread(1 << b) == 0) {
      equal_lanes |= 1 << b;
      continue;
    }
    lane_bits[b] = lanes * 4;
    lanes *= 2;
  }
  smem space = scratch(static_cast<int>(values.size()) * lanes * 4 * 4);
  u32 thread = thread_in_warpgroup(), warp = thread >> kLaneBits,
      lane = sum_of_bits(Index(thread), lane_bits).value();
  auto at = [&](u32 of_warp, size_t v) {
    smem address = space + (of_warp * (lanes * 4) + lane);
    return (address + static_cast<uint32_t>(v) * static_cast<uint32_t>(4 * 4 * lanes)).handle();
  };
  sync_warpgroup();
  if_((thread & equal_lanes) == 0, [&] {
    for (size_t v = 0; v < values.size(); ++v) detail::store(at(warp, v), std::array<Value, 1>{values[v]});
  });
  sync_warpgroup();
  for (size_t v = 0; v < values.size(); ++v) {
    auto of = [&](int mask) { return Value(load(at(warp ^ mask, v), cls, 1)); };
    auto both = [&](Value a, Value b) { return combined(operation, cls, a, b); };
    // Every warp combines the same pairs, so that all results are equal.
    if (warps != 3) values[v] = both(values[v], of(warps));
    if (warps == 3) values[v] = both(both(values[v], of(1)), both(of(2), of(3)));
  }
}

}  // namespace

Value combined(Reduction operation, Class cls, Value a, Value b) {
  return Value(arithmetic(arithmetic_of(operation), cls, a.handle(), b.handle()));
}

PartialValues tile_partial(Reduction operation, const TileValues& x, bool keep_rows) {
  if (x.layout.is_splat())
    throw Error(fmt::format("reduce: {} holds one value; layout_cast it to a layout of all elements",
                            x.layout.describe()));
  const int sharing = std::popcount(static_cast<unsigned>(replicated_bits(x.layout)));
  const bool counts = operation == Reduction::add || operation == Reduction::prod;
  if (counts && (RegisterLayout::kThreads >> sharing) * x.layout.values() != x.layout.elements())
    throw Error(fmt::format(
        "reduce: more threads hold some elements of {} than others, and these elements would count more than "
        "once; layout_cast it to a layout whose threads share all of their elements or none",
        x.layout.describe()));
  return Own(operation, x, keep_rows).result();
}

TileValues tile_complete(Reduction operation, const PartialValues& x) {
  if (x.shared_bits != 0) check_whole_warpgroups("reduce");
  TileValues y = x.own;
  const Class cls = word_class(y.dtype);
  for (int b = 0; b < kLaneBits; ++b)
    if (x.shared_bits >> b & 1)
      for (Value& v : y.words) v = combined(operation, cls, v, exchanged(v, cls, 1 << b));
  if (x.shared_bits >> kLaneBits) exchange_between_warps(operation, y, x.shared_bits >> kLaneBits);
  bool same = true;
  for (int b = 0; b < 7; ++b) same = same && y.layout.of_thread(1 << b) == 0;
  if (same)
    for (Value v : y.words) same_in_warpgroup(v);
  return y;
}

TileValues tile_reduce(Reduction operation, const TileValues& x, bool keep_rows) {
  auto reduced = [&](const TileValues& words) {
    return tile_complete(operation, tile_partial(operation, words, keep_rows));
  };
  if (per_word(x.dtype) == 1) return reduced(x);
  return tile_convert(*x.dtype, reduced(tile_convert(DType::f32, x)));
}

void check_same_parts(const PartialValues& a, const PartialValues& b) {
  if (a.own.layout == b.own.layout && a.shared_bits == b.shared_bits) return;
  throw Error(
      fmt::format("partial: the parts of a reduction of {} are in {} threads, but those of a reduction of {} "
                  "are in {}; the same threads must share the rows and columns of both tiles",
                  a.own.layout.describe(), 1 << std::popcount(unsigned(a.shared_bits)),
                  b.own.layout.describe(), 1 << std::popcount(unsigned(b.shared_bits))));
}

PartialValues partial_combine(Reduction operation, const PartialValues& a, const PartialValues& b) {
  check_same_parts(a, b);
  return {tile_arithmetic(arithmetic_of(operation), a.own.dtype, operand_of(a.own), operand_of(b.own)),
          a.shared_bits};
}

PartialValues partial_scale(Arithmetic operation, const PartialValues& x, const TileOperand& factor) {
  if (factor.layout && !factor.layout->is_splat() && !(*factor.layout == x.own.layout))
    throw Error(factor.where, fmt::format("partial: a reduction of {} is scaled by a tile of {}, but this "
                                          "tile must have one value for each value of the reduction",
                                          x.own.layout.describe(), factor.layout->describe()));
  return {tile_arithmetic(operation, x.own.dtype, operand_of(x.own), factor), x.shared_bits};
}

TileValues tile_broadcast(const TileValues& x, const RegisterLayout& layout) {
  bool of_rows = x.layout.rows() == layout.rows() && x.layout.cols() == 1;
  bool of_cols = x.layout.cols() == layout.cols() && x.layout.rows() == 1;
  std::string wanted = "a tile with one value for each of its rows or each of its columns";
  if (x.layout.is_splat() && (of_rows || of_cols)) return {x.dtype, splat(layout.extent()), x.words};
  if (of_rows || of_cols) {
    RegisterLayout reduced = of_rows ? layout.reduced_rows() : layout.reduced_cols();
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
  throw Error(fmt::format("broadcast: the tile is {}, but {} needs {}", x.layout.describe(),
                          layout.describe(), wanted));
}

}  // namespace ptxbuilder::detail
