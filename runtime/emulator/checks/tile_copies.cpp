// Emits notes about tensor copies that are probably mistakes: tiles outside their tensor, multicasts of
// different blocks, and tiles that have already been sent.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <map>

#include "runtime/emulator/checks/checks.h"

namespace ptxbuilder::runtime::emulator {
namespace {

using Coordinates = std::array<int32_t, 5>;

Coordinates coordinates(const TileCopy& c) {
  Coordinates at{};
  std::copy_n(c.at.begin(), std::min(c.at.size(), at.size()), at.begin());
  return at;
}

// Formats coordinates from the outermost dimension to the innermost, like a BlockIndex.
std::string in_words(const Coordinates& at, size_t rank) {
  return fmt::format("({})", fmt::join(at.rend() - static_cast<ptrdiff_t>(rank), at.rend(), ", "));
}

class TileCopies final : public Observer {
 public:
  explicit TileCopies(Cluster& cluster) : sent_(cluster.ctas.size()) {}

  void tile_fill(Warp& w, const TileCopy& c) override {
    written(c.cta, c.offset, c.bytes);
    if (!c.is_plain) return;
    check_place(w, c);
    if (std::popcount(c.mask) > 1) check_multicast(w, c);
  }
  void tile_send(Warp& w, const TileCopy& c) override {
    if (!c.is_plain) return;
    check_place(w, c);
    const auto [found, is_new] =
        sent_[c.cta.rank].try_emplace(c.offset, Sent{c.bytes, w.here(), c.tensor, coordinates(c)});
    Sent& before = found->second;
    if (is_new) return;
    if (before.tensor == c.tensor && before.at != coordinates(c))
      w.note(
          fmt::format("this copy sends {} to {}, but nothing has written there since the copy of line {} "
                      "sent it to {}; a pipeline's body must write its outputs in every step",
                      c.cta.name(c.offset), in_words(coordinates(c), c.at.size()), line(w, before.pc),
                      in_words(before.at, c.at.size())));
    before = {c.bytes, w.here(), c.tensor, coordinates(c)};
  }
  void shared_access(Warp&, const SharedAccess& a) override {
    if (a.writes) a.each_place([&](uint32_t offset, int) { written(a.cta, offset, a.bytes); });
  }
  void async_access(Warp&, const AsyncAccess& a) override {
    if (a.writes) written(a.cta, a.offset, a.bytes);
  }

 private:
  struct Sent {
    uint32_t bytes, pc;
    Address tensor;
    Coordinates at;
  };
  // A part of a block that several CTAs fill together: the number of copies that have filled the part, and
  // the latest of these copies.
  struct Part {
    uint64_t copies = 0;
    uint32_t issuer = 0, pc = 0, bytes = 0;
    Address tensor = 0;
    Coordinates at = {};
  };
  // One stage of an object in dynamic shared memory, as a range of offsets in the CTA's shared memory.
  struct Stage {
    uint32_t begin, bytes;
  };

  static uint32_t line(const Warp& w, uint32_t pc) { return w.grid().kernel.lines[pc].ptx; }

  static std::optional<Stage> stage_of(const Cta& cta, uint32_t offset) {
    const Kernel& kernel = cta.cluster.grid.kernel;
    if (kernel.dynamic.empty()) return std::nullopt;
    const auto base = static_cast<uint32_t>(kernel.shared[kernel.dynamic[0]].offset);
    for (const SharedObject& o : cta.cluster.grid.shared) {
      const uint32_t first = base + o.offset;
      if (offset < first || offset - first >= uint64_t{o.bytes} * o.stages) continue;
      return Stage{first + (offset - first) / o.bytes * o.bytes, o.bytes};
    }
    return std::nullopt;
  }

  void written(const Cta& cta, uint32_t offset, uint32_t bytes) {
    auto& sent = sent_[cta.rank];
    if (sent.empty()) return;
    auto at = sent.lower_bound(offset);
    if (at != sent.begin() && std::prev(at)->first + std::prev(at)->second.bytes > offset) --at;
    while (at != sent.end() && at->first < offset + bytes) at = sent.erase(at);
  }

  // Emits a note if a tile is wholly outside its tensor. Some boxes of a tile may be outside, but not all: if
  // the distance of a box from the tensor exceeds the length of the tile, no box of the tile overlaps the
  // tensor.
  static void check_place(Warp& w, const TileCopy& c) {
    const auto stage = stage_of(c.cta, c.offset);
    if (!stage) return;
    const int64_t boxes = std::max(1u, stage->bytes / c.bytes);
    for (size_t d = 0; d < c.at.size(); ++d) {
      const int64_t first = c.at[d], box = c.box[d], all = static_cast<int64_t>(c.shape[d]);
      if (first - box * (boxes - 1) < all && first + box * boxes > 0) continue;
      w.note(
          fmt::format("this copy of {} begins at {}, so its whole tile is outside of the tensor, which has "
                      "{} elements along dimension {}, counted from the last; coordinates count elements, "
                      "but a BlockIndex counts blocks",
                      c.cta.name(c.offset), in_words(coordinates(c), c.at.size()), all, d));
      return;
    }
  }

  // Emits a note if several CTAs fill a stage by multicast with boxes of different blocks. Once the stage is
  // full, its boxes must fill the bounds of one block, and be in the order of their coordinates.
  void check_multicast(Warp& w, const TileCopy& c) {
    const auto stage = stage_of(c.cta, c.offset);
    if (!stage) return;
    auto& parts = parts_[{c.cta.rank, stage->begin}];
    Part& mine = parts[c.offset];
    mine = {mine.copies + 1, w.cta.rank, w.here(), c.bytes, c.tensor, coordinates(c)};
    uint64_t filled = 0;
    for (const auto& [offset, p] : parts) {
      if (p.copies != mine.copies || p.tensor != c.tensor || p.bytes != mine.bytes) return;
      filled += p.bytes;
    }
    if (filled != stage->bytes) return;
    Coordinates least = mine.at, most = mine.at;
    const Part* other = nullptr;
    bool in_order = true;
    for (auto a = parts.begin(); a != parts.end(); ++a) {
      if (a->second.issuer != mine.issuer) other = &a->second;
      for (size_t d = 0; d < least.size(); ++d) {
        least[d] = std::min(least[d], a->second.at[d]);
        most[d] = std::max(most[d], a->second.at[d]);
      }
      for (auto b = std::next(a); b != parts.end(); ++b)
        in_order = in_order && follows(a->second.at, b->second.at);
    }
    uint64_t boxes = 1;
    for (size_t d = 0; d < c.at.size(); ++d)
      boxes *= static_cast<uint64_t>(most[d] - least[d]) / std::max<uint64_t>(c.box[d], 1) + 1;
    if (!other || (in_order && boxes == parts.size())) return;
    w.note(
        fmt::format("the CTAs that fill {} by multicast load parts of different blocks: that of rank {} "
                    "begins at {}, but that of rank {}, by line {}, at {}; each fetches its part of one "
                    "block for all, so all must name the same block",
                    c.cta.name(stage->begin), mine.issuer, in_words(mine.at, c.at.size()), other->issuer,
                    line(w, other->pc), in_words(other->at, c.at.size())));
  }

  // Two boxes may differ along only one dimension, and the box that comes later in the stage must have the
  // greater coordinate.
  static bool follows(const Coordinates& a, const Coordinates& b) {
    const auto first = std::ranges::mismatch(a, b);
    if (first.in1 == a.end()) return false;
    const bool differ_again = !std::equal(first.in1 + 1, a.end(), first.in2 + 1);
    return differ_again || *first.in1 < *first.in2;
  }

  std::vector<std::map<uint32_t, Sent>> sent_;  // for each CTA, the unchanged tiles, indexed by offset
  // Indexed by stage, then by offset.
  std::map<std::pair<uint32_t, uint32_t>, std::map<uint32_t, Part>> parts_;
};

}  // namespace

void add_tile_copies(Observers& observers, Cluster& cluster) {
  if (cluster.grid.reports->wants_notes()) observers.add(std::make_unique<TileCopies>(cluster));
}

}  // namespace ptxbuilder::runtime::emulator
