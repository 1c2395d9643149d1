// Moves the elements of a tile to another register layout.
#include <fmt/format.h>

#include <bit>
#include <map>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/plan/lane_exchange.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/registers/place.h"

namespace ptxbuilder::detail {
namespace {

// Emits an exchange between lanes, and holds the resulting registers. Values that depend on the lane's number
// are computed only once.
class Exchanged {
 public:
  Exchanged(const LaneExchange& exchange, const std::vector<u32>& words) : lane_(thread_in_warpgroup() & 31) {
    for (const LaneExchange::Step& s : exchange.steps) registers_.push_back(made(s, words));
    for (int step : exchange.words) words_.push_back(of(step));
  }
  const std::vector<u32>& words() const { return words_; }

 private:
  using Kind = LaneExchange::Step::Kind;

  const u32& of(int step) const { return registers_[static_cast<size_t>(step)]; }

  u32 made(const LaneExchange::Step& s, const std::vector<u32>& words) {
    switch (s.kind) {
      case Kind::word:
        return words[static_cast<size_t>(s.a)];
      case Kind::shuffle:
        if (auto mask = s.lanes.butterfly()) return shfl_sync_bfly(of(s.a), *mask);
        return shfl_sync_idx(of(s.a), value_of(s.lanes));
      case Kind::choose:
        return select(is_set(s.bit), of(s.b), of(s.a));
      case Kind::permute:
        return instruction<"prmt.b32">(of(s.a), of(s.b), value_of(s.lanes));
    }
    return of(s.a);
  }

  pred is_set(int bit) {
    std::optional<pred>& known = bits_[static_cast<size_t>(bit)];
    if (!known) known = (lane_ & (1u << bit)) != 0;
    return *known;
  }

  u32 value_of(const LaneFunction& f) {
    auto known = values_.find(f);
    if (known == values_.end()) known = values_.emplace(f, computed(f)).first;
    return known->second;
  }

  // Emits the computation of f. Bits of the lane's number that move by the same distance are shifted
  // together. A bit that affects several bits of the result is handled separately.
  u32 computed(const LaneFunction& f) {
    std::map<int, uint32_t> moved;  // mask of the bits for each distance of a left shift
    u32 value = f.at_0;
    for (int bit = 0; bit < 5; ++bit) {
      const uint32_t becomes = f.of_bit[static_cast<size_t>(bit)];
      if (std::has_single_bit(becomes))
        moved[std::countr_zero(becomes) - bit] |= 1u << bit;
      else if (becomes != 0)
        value = value ^ select(is_set(bit), u32(becomes), u32(0));
    }
    for (const auto& [distance, bits] : moved) {
      const u32 taken = lane_ & bits;
      value = value ^ (distance < 0 ? taken >> -distance : taken << distance);
    }
    return value;
  }

  u32 lane_;
  std::vector<u32> registers_, words_;
  std::array<std::optional<pred>, 5> bits_;
  std::map<LaneFunction, u32> values_;
};

// The arrangement of a tile that passes through shared memory. Rows are 16 bytes longer than necessary, so
// that they begin in different banks.
struct ThroughMemory {
  ThroughMemory(DType dtype, const RegisterLayout& layout)
      : row((layout.cols() * size_of(dtype) + 15) / 16 * 16 + (layout.rows() > 1 ? 16 : 0)),
        rows{byte_swizzle(Swizzle::none), 0,
             make_layout({layout.rows(), layout.cols()}, {row / size_of(dtype), 1})} {}

  int row;  // distance between rows, in bytes
  ComposedLayout rows;
};

// Returns the number of instructions of the path through shared memory, for the comparison with an exchange.
// It includes the accesses, an additional shift for each access of less than one register, two barriers, and
// 8 instructions for addresses. Addresses need about 14 instructions, 8 more than the lanes of an exchange.
int instructions_through_memory(DType dtype, const RegisterLayout& from, const RegisterLayout& to) {
  constexpr int kBarriers = 2, kAddresses = 8;
  const ThroughMemory memory(dtype, from);
  auto accesses = [&](const RegisterLayout& layout) {
    const int vector = widest_vector(layout, memory.rows, size_of(dtype));
    return layout.values() / vector * (vector * size_of(dtype) < 4 ? 2 : 1);
  };
  return accesses(from) + accesses(to) + kBarriers + kAddresses;
}

TileValues through_memory(const TileValues& x, const RegisterLayout& layout) {
  const ThroughMemory memory(*x.dtype, layout);
  smem space = scratch(layout.rows() * memory.row);
  sync_warpgroup();
  store_shared(space, memory.rows, x);
  sync_warpgroup();
  return load_shared(space, memory.rows, *x.dtype, layout);
}

}  // namespace

TileValues tile_layout_cast(const TileValues& x, const RegisterLayout& layout) {
  if (x.layout == layout) return x;
  auto refuse = [&](const char* why) {
    throw Error(
        fmt::format("layout_cast: {} cannot be cast to {}: {}", x.layout.describe(), layout.describe(), why));
  };
  if (!(x.layout.extent() == layout.extent())) refuse("their extents differ");
  if (layout.is_splat()) refuse("a splat is one value, but the tile may hold many");
  int per = per_word(x.dtype);
  if (x.layout.is_splat())
    return {x.dtype, layout,
            std::vector<Value>(static_cast<size_t>((layout.values() + per - 1) / per), x.words[0])};
  auto exchange = exchange_within_warps(x.layout, layout, size_of(*x.dtype));
  if (exchange && exchange->instructions() <= instructions_through_memory(*x.dtype, x.layout, layout))
    return tile_of_registers(*x.dtype, layout, Exchanged(*exchange, registers_of(x)).words());
  return through_memory(x, layout);
}

}  // namespace ptxbuilder::detail
