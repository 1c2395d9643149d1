// Proves TMA copies: each element of a view is copied to the right address exactly once, in every CTA that
// shares the copy.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ptxbuilder/proof/image.h"

namespace ptxbuilder::detail {
namespace {

std::string verb_of(const CopyRecord& copy) {
  return fmt::format("{}_{}", copy.is_bulk ? "bulk" : "tma", copy.is_store ? "store" : "load");
}
std::string memory_of(const CopyRecord& copy) { return copy.is_bulk ? "contiguous memory" : copy.map; }

// Returns the axes in words, such as "x and z".
std::string axes_text(const MulticastGroups& groups) {
  std::vector<char> names;
  for (size_t i = 0; i < 3; ++i)
    if (groups.axes[i]) names.push_back("xyz"[i]);
  return fmt::format("{}", fmt::join(names, " and "));
}

int ctas(const MulticastGroups& groups) { return groups.extents[0] * groups.extents[1] * groups.extents[2]; }

// Returns the coordinates (x, y, z) of a rank.
std::array<int64_t, 3> place_of(const MulticastGroups& groups, int rank) {
  const int x = groups.extents[0], y = groups.extents[1];
  return {rank % x, rank / x % y, rank / x / y};
}

// Returns whether two CTAs share a load. They do if their positions differ only along the axes of the group.
bool share(const MulticastGroups& groups, int one, int other) {
  const auto at = place_of(groups, one), beside = place_of(groups, other);
  for (size_t i = 0; i < 3; ++i)
    if (!groups.axes[i] && at[i] != beside[i]) return false;
  return true;
}

// Checks one copy for every CTA, every stage, and every position at which its view may begin.
class Copy {
 public:
  Copy(const CopyRecord& copy, const TileRecord& tile, std::vector<Image>& images, bool reads)
      : copy_(copy), tile_(tile), images_(images), reads_(reads) {}

  Tried run() {
    const int receivers = copy_.groups.count() > 1 ? ctas(copy_.groups) : 1;
    for (int receiver = 0; receiver < receivers && !tried_.counterexample; ++receiver) {
      const std::vector<int64_t> parts = parts_for(receiver);
      for (Element corner : corners(copy_.view, tile_))
        for (int stage = 0; stage < tile_.stages && !tried_.counterexample; ++stage)
          bring(corner, parts, stage);
    }
    return std::move(tried_);
  }

 private:
  // Returns the parts of the copy that arrive at a CTA of the cluster.
  std::vector<int64_t> parts_for(int receiver) {
    const MulticastGroups& groups = copy_.groups;
    if (groups.count() == 1) return {0};
    std::vector<int64_t> parts;
    for (int sender = 0; sender < ctas(groups); ++sender) {
      const auto at = place_of(groups, sender);
      if (!(groups.first_mask << groups.first_rank(at) >> receiver & 1)) continue;
      if (!share(groups, sender, receiver))
        return fail({.operation = fmt::format("{} of '{}'", verb_of(copy_), memory_of(copy_)),
                     .reason = fmt::format("the CTA of rank {} sends to the CTA of rank {}, which is not in "
                                           "line with it along {}",
                                           sender, receiver, axes_text(groups)),
                     .where = copy_.where}),
               parts;
      parts.push_back(groups.place(at));
    }
    return parts;
  }

  // Checks one copy to one stage of one CTA. The copy must contain every element of the view exactly once,
  // and nothing else.
  void bring(Element corner, const std::vector<int64_t>& parts, int stage) {
    Image& image = images_[static_cast<size_t>(stage)];
    std::vector<bool> seen(static_cast<size_t>(copy_.view.rows) * static_cast<size_t>(copy_.view.cols));
    const std::string operation = fmt::format("{} of '{}'", verb_of(copy_), memory_of(copy_));
    const int64_t unit = copy_.is_bulk ? 16 : 128;  // alignment in bytes
    const int64_t stage_start = int64_t{tile_.offset} + int64_t{stage} * tile_.stage_bytes;
    for (int64_t part : parts) {
      for (int b = 0; b < copy_.boxes.boxes_of_part(); ++b) {
        const auto box = copy_.boxes.box(part, b);
        const int64_t start = start_of(tile_, stage, corner) + box.bytes;
        if (start % unit != 0)
          return fail(
              {.operation = operation,
               .address = start - stage_start,
               .puts = !copy_.is_store,
               .reason = fmt::format("a box starts there, but must start at a multiple of {} B", unit),
               .where = copy_.where});
        uint32_t count = 1;
        for (uint32_t extent : copy_.recipe.box) count *= extent;
        for (uint32_t i = 0; i < count; ++i) {
          const auto [row, col] = element_of(copy_, box, i);
          const int64_t at = where_tma_puts(copy_.recipe, static_cast<uint32_t>(start), i) - stage_start;
          const Element element{corner.row + row, corner.col + col};
          std::optional<Element> there = image.at(at);
          auto refuse = [&](const std::string& reason) {
            return fail({.operation = operation,
                         .wanted = element,
                         .found = there,
                         .address = at,
                         .puts = !copy_.is_store,
                         .reason = reason,
                         .where = copy_.where});
          };
          if (row < 0 || col < 0 || row >= copy_.view.rows || col >= copy_.view.cols)
            return refuse(fmt::format("the box contains it, but the view has {} x {} elements",
                                      copy_.view.rows, copy_.view.cols));
          if (!image.holds(at)) return refuse(fmt::format("a stage has {} B", tile_.stage_bytes));
          auto mark = seen[static_cast<size_t>(row) * static_cast<size_t>(copy_.view.cols) +
                           static_cast<size_t>(col)];
          if (mark) return refuse("it is brought twice");
          mark = true;
          if (reads_ && !(there == element))
            return refuse(there ? "TMA stores another element"
                                : "TMA stores an element that nothing has written");
          if (there && !(*there == element)) return refuse("two elements at one address");
          image.put(at, element);
        }
      }
    }
    for (size_t i = 0; i < seen.size(); ++i)
      if (!seen[i])
        return fail({.operation = operation,
                     .wanted = Element{corner.row + static_cast<int>(i) / copy_.view.cols,
                                       corner.col + static_cast<int>(i) % copy_.view.cols},
                     .reason = "no box contains it",
                     .where = copy_.where});
    tried_.elements += seen.size();
  }

  void fail(Counterexample wrong) { tried_.counterexample = std::move(wrong); }

  const CopyRecord& copy_;
  const TileRecord& tile_;
  std::vector<Image>& images_;
  bool reads_;
  Tried tried_;
};

}  // namespace

Tried try_copy(const CopyRecord& copy, const TileRecord& tile, std::vector<Image>& images, bool reads) {
  return Copy(copy, tile, images, reads).run();
}

std::string text_of(const CopyRecord& copy, const TileRecord& tile) {
  const int parts = copy.groups.count();
  const std::string shared = parts == 1
                                 ? ""
                                 : fmt::format(", {} for each of {} CTAs along {}",
                                               copy.boxes.boxes_of_part(), parts, axes_text(copy.groups));
  const std::string boxes = fmt::format(
      "{} of {}{}", copy.boxes.count() == 1 ? "1 box" : fmt::format("{} boxes", copy.boxes.count()),
      fmt::join(copy.recipe.box, "x"), shared);
  const std::string view = view_text(copy.view, tile);
  return copy.is_store ? fmt::format("{}: {} -> {}: {}", verb_of(copy), view, memory_of(copy), boxes)
                       : fmt::format("{}: {} -> {}: {}", verb_of(copy), memory_of(copy), view, boxes);
}

}  // namespace ptxbuilder::detail
