// Proofs of copies by TMA: each element of a view comes by one box, to its place, in every CTA that shares
// it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ptxbuilder/proof/image.h"

namespace ptxbuilder::detail {
namespace {

// Element i of a box, the first dimension innermost, in the view.
Element element_of(const CopyRecord& copy, const CopyRecord::Slice& slice, const CopyRecord::Box& box,
                   uint32_t i) {
  Element e{slice.coordinate + box.rows, box.cols};
  for (size_t d = 0; d < copy.steps.size(); ++d) {
    const uint32_t extent = copy.recipe.box[d];
    e.row += static_cast<int>(i % extent) * copy.steps[d].rows;
    e.col += static_cast<int>(i % extent) * copy.steps[d].cols;
    i /= extent;
  }
  return e;
}

// "x and z"
std::string axes_text(const CopyRecord& copy) {
  std::vector<char> names;
  for (size_t i = 0; i < 3; ++i)
    if (copy.axes[i]) names.push_back("xyz"[i]);
  return fmt::format("{}", fmt::join(names, " and "));
}

// Which group a CTA is in, by the rank of its first, and its place there: along the shared axes, the first
// innermost.
struct PlaceInCluster {
  int group = 0, place = 0;
  PlaceInCluster(const CopyRecord& copy, int rank) {
    for (int i = 0, step = 1, before = 1; i < 3; ++i) {
      const auto axis = static_cast<size_t>(i);
      const int extent = copy.cluster[axis], at = rank / step % extent;
      if (copy.axes[axis]) {
        place += at * before;
        before *= extent;
      } else {
        group += at * step;
      }
      step *= extent;
    }
  }
};

// One copy, to every CTA and stage, and from wherever its view may begin.
class Copy {
 public:
  Copy(const CopyRecord& copy, const TileRecord& tile, std::vector<Image>& images, bool reads)
      : copy_(copy), tile_(tile), images_(images), reads_(reads) {}

  Tried run() {
    const int ctas = copy_.cluster[0] * copy_.cluster[1] * copy_.cluster[2];
    for (int receiver = 0; receiver < ctas && !tried_.counterexample; ++receiver) {
      const std::vector<int> slices = slices_for(receiver);
      if (slices.empty() && copy_.masks.empty()) continue;
      for (Element corner : corners(copy_.view, tile_))
        for (int stage = 0; stage < tile_.stages && !tried_.counterexample; ++stage)
          bring(corner, slices, stage);
    }
    return std::move(tried_);
  }

 private:
  // The slices that arrive at a CTA of the cluster.
  std::vector<int> slices_for(int receiver) {
    if (copy_.masks.empty()) return receiver == 0 ? std::vector<int>{0} : std::vector<int>{};
    std::vector<int> slices;
    const PlaceInCluster to(copy_, receiver);
    for (int sender = 0; sender < static_cast<int>(copy_.masks.size()); ++sender) {
      if (!(copy_.masks[static_cast<size_t>(sender)] >> receiver & 1)) continue;
      const PlaceInCluster from(copy_, sender);
      if (from.group != to.group)
        return fail({.operation = fmt::format("tma_load of '{}'", copy_.map),
                     .reason = fmt::format(
                         "the CTA of rank {} sends to the one of rank {}, which is not beside it along {}",
                         sender, receiver, axes_text(copy_)),
                     .where = copy_.where}),
               slices;
      slices.push_back(from.place);
    }
    return slices;
  }

  // One copy to one stage of one CTA: every element of the view once, and nothing else.
  void bring(Element corner, const std::vector<int>& slices, int stage) {
    Image& image = images_[static_cast<size_t>(stage)];
    std::vector<bool> seen(static_cast<size_t>(copy_.view.rows) * static_cast<size_t>(copy_.view.cols));
    const std::string operation =
        fmt::format("{} of '{}'", copy_.is_store ? "tma_store" : "tma_load", copy_.map);
    const int64_t stage_start = int64_t{tile_.offset} + int64_t{stage} * tile_.stage_bytes;
    for (int s : slices) {
      const CopyRecord::Slice& slice = copy_.slices[static_cast<size_t>(s)];
      for (int b = slice.first_box; b < slice.first_box + slice.boxes; ++b) {
        const CopyRecord::Box& box = copy_.boxes.at(static_cast<size_t>(b));
        const int64_t start = start_of(tile_, stage, {corner.row + slice.first_row, corner.col}) + box.bytes;
        if (start % 128 != 0)
          return fail({.operation = operation,
                       .address = start - stage_start,
                       .puts = !copy_.is_store,
                       .reason = "a box starts there, no multiple of 128 B",
                       .where = copy_.where});
        uint32_t count = 1;
        for (uint32_t extent : copy_.recipe.box) count *= extent;
        for (uint32_t i = 0; i < count; ++i) {
          const auto [row, col] = element_of(copy_, slice, box, i);
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
          if (row >= copy_.view.rows || col >= copy_.view.cols)
            return refuse(fmt::format("the box brings it, but the view has {} x {} elements", copy_.view.rows,
                                      copy_.view.cols));
          if (!image.holds(at)) return refuse(fmt::format("a stage has {} B", tile_.stage_bytes));
          auto mark = seen[static_cast<size_t>(row) * static_cast<size_t>(copy_.view.cols) +
                           static_cast<size_t>(col)];
          if (mark) return refuse("it is brought twice");
          mark = true;
          if (reads_ && !(there == element))
            return refuse(there ? "TMA stores another element" : "TMA stores what nothing has written");
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
                     .reason = "no box brings it",
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
  std::string shared = copy.masks.empty()
                           ? ""
                           : fmt::format(", in {} slices for {} CTAs along {}", copy.slices.size(),
                                         copy.slices.size(), axes_text(copy));
  std::string boxes =
      fmt::format("{} of {}{}", copy.boxes.size() == 1 ? "1 box" : fmt::format("{} boxes", copy.boxes.size()),
                  fmt::join(copy.recipe.box, "x"), shared);
  const std::string view = view_text(copy.view, tile);
  return copy.is_store ? fmt::format("tma_store: {} -> {}: {}", view, copy.map, boxes)
                       : fmt::format("tma_load: {} -> {}: {}", copy.map, view, boxes);
}

}  // namespace ptxbuilder::detail
