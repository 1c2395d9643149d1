// Emits a note if a tensor copy has filled a tile with one swizzle and wgmma reads the tile with another: the
// product is probably wrong.
#include <fmt/format.h>

#include "runtime/emulator/checks/checks.h"

namespace ptxbuilder::runtime::emulator {
namespace {

std::string in_words(Swizzle s) { return s == Swizzle::none ? "none" : fmt::format("{} B", span_bytes(s)); }

class Swizzles final : public Observer {
 public:
  explicit Swizzles(size_t ctas) : filled_(ctas) {}

  void tile_fill(Warp& w, const TileCopy& c) override {
    auto& filled = filled_[c.cta.rank];
    const uint32_t end = c.offset + c.bytes;
    auto at = filled.lower_bound(c.offset);
    if (at != filled.begin() && std::prev(at)->second.end > c.offset) --at;
    while (at != filled.end() && at->first < end) at = filled.erase(at);
    filled[c.offset] = {end, w.here(), c.swizzle};
  }

  void tile_read(Warp& w, const char* operand, uint32_t offset, Swizzle swizzle) override {
    const auto& filled = filled_[w.cta.rank];
    auto at = filled.upper_bound(offset);
    if (at == filled.begin()) return;
    const Tile& tile = std::prev(at)->second;
    if (offset >= tile.end || tile.swizzle == swizzle) return;
    w.note(
        fmt::format("the descriptor of {} has swizzle {}, but the tensor map of the copy of line {} that "
                    "filled {} has swizzle {}",
                    operand, in_words(swizzle), w.grid().kernel.lines[tile.pc].ptx, w.cta.name(offset),
                    in_words(tile.swizzle)));
  }

 private:
  struct Tile {
    uint32_t end, pc;
    Swizzle swizzle;
  };
  std::vector<std::map<uint32_t, Tile>> filled_;  // one map per CTA, indexed by the tile's offset
};

}  // namespace

void add_swizzles(Observers& observers, Cluster& cluster) {
  if (cluster.grid.reports->wants_notes()) observers.add(std::make_unique<Swizzles>(cluster.ctas.size()));
}

}  // namespace ptxbuilder::runtime::emulator
