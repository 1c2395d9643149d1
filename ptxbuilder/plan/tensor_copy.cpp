#include "ptxbuilder/plan/tensor_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/plan/descriptor.h"

namespace ptxbuilder {
namespace {

constexpr int64_t kStrideLimit = 1LL << 40;  // exclusive limit, in bytes

std::vector<TensorMode> tiled(const std::vector<TensorMode>& modes, const TileTransform& by) {
  const size_t count = by.tiling.size(), kept = modes.size() - std::min(count, modes.size());
  if (count == 0 || count > modes.size())
    throw Error(fmt::format("tile transform {{{}}}: it has {} dimensions, but the tensor has {}",
                            fmt::join(by.tiling, ", "), count, modes.size()));
  std::vector<TensorMode> outer(modes.begin(), modes.begin() + static_cast<std::ptrdiff_t>(kept)), inner;
  for (size_t i = 0; i < count; ++i) {
    TensorMode mode = modes[kept + i];
    const int64_t tile = by.tiling[i];
    if (tile < 1)
      throw Error(
          fmt::format("tile transform {{{}}}: a tile must have at least 1 element along each dimension",
                      fmt::join(by.tiling, ", ")));
    if (mode.extent > tile && mode.extent % tile != 0 && by.rounding == Rounding::refuse)
      throw Error(fmt::format(
          "tile transform {{{}}}: dimension {} has {} elements, but must have fewer than {} or a multiple of "
          "it; round it, or take {}",
          fmt::join(by.tiling, ", "), kept + i, mode.extent, tile, (mode.extent + tile - 1) / tile * tile));
    const int64_t tiles =
        mode.extent <= tile ? 1 : (mode.extent + (by.rounding == Rounding::up ? tile - 1 : 0)) / tile;
    outer.push_back({tiles, mode.dimension, mode.step * tile});
    inner.push_back({std::min(mode.extent, tile), mode.dimension, mode.step});
  }
  outer.insert(outer.end(), inner.begin(), inner.end());
  return outer;
}

std::vector<TensorMode> transposed(const std::vector<TensorMode>& modes, const TransposeTransform& by) {
  std::vector<int> sorted = by.permutation, all(modes.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all)
    throw Error(fmt::format("transpose transform {{{}}}: it must name each of the {} dimensions once",
                            fmt::join(by.permutation, ", "), modes.size()));
  std::vector<TensorMode> result;
  for (int i : by.permutation) result.push_back(modes[static_cast<size_t>(i)]);
  return result;
}

// Returns whether a mode is an entire dimension of the tensor, that is, neither tiled nor collapsed.
bool is_whole(const std::vector<TensorMode>& modes, const TensorMode& mode) {
  return mode.parts.empty() && mode.step == 1 &&
         std::count_if(modes.begin(), modes.end(),
                       [&](const TensorMode& m) { return m.dimension == mode.dimension; }) == 1;
}

std::vector<TensorMode> collapsed(const std::vector<TensorMode>& modes, const CollapseLeading& by) {
  auto refuse = [&](const std::string& rule) {
    throw Error(fmt::format("collapse leading {{{}}}: {}", fmt::join(by.strides, ", "), rule));
  };
  const size_t count = by.strides.size();
  if (count < 1 || count >= modes.size())
    refuse(
        fmt::format("it names {} of {} dimensions, but must name at least the first and not the last, which "
                    "stays as it is",
                    count, modes.size()));
  int64_t common = 0;
  for (int64_t stride : by.strides) {
    if (stride < 1) refuse("a stride must be at least 1 element");
    common = std::gcd(common, stride);
  }
  TensorMode all{1, modes[0].dimension, 1, {}};
  for (size_t i = 0; i < count; ++i) {
    if (!is_whole(modes, modes[i])) refuse(fmt::format("dimension {} is already in tiles or collapsed", i));
    all.parts.push_back({modes[i].dimension, by.strides[i] / common});
    all.extent += (modes[i].extent - 1) * all.parts.back().steps;
  }
  std::vector<TensorMode> result = {all};
  result.insert(result.end(), modes.begin() + static_cast<std::ptrdiff_t>(count), modes.end());
  return result;
}

std::vector<TensorMode> without_units(const std::vector<TensorMode>& modes, const DropUnit& by) {
  auto refuse = [&](const std::string& rule) {
    throw Error(fmt::format("drop unit {{{}}}: {}", fmt::join(by.dimensions, ", "), rule));
  };
  std::vector<bool> drops(modes.size(), false);
  for (int i : by.dimensions) {
    const auto at = static_cast<size_t>(i);
    if (i < 0 || at + 1 >= modes.size() || drops[at])
      refuse(fmt::format("it must name dimensions 0 to {}, each once; the last stays", modes.size() - 2));
    if (modes[at].extent != 1 || !is_whole(modes, modes[at]))
      refuse(
          fmt::format("dimension {} has {} elements or is part of a tile, but only a dimension of 1 element "
                      "can be left out",
                      i, modes[at].extent));
    drops[at] = true;
  }
  std::vector<TensorMode> result;
  for (size_t i = 0; i < modes.size(); ++i)
    if (!drops[i]) result.push_back(modes[i]);
  return result;
}

int64_t largest_divisor(int64_t extent, int64_t limit) {
  int64_t d = std::min(extent, limit);
  while (extent % d != 0) --d;
  return d;
}

int64_t product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

std::string text(const std::vector<int64_t>& extents) { return fmt::format("{}", fmt::join(extents, "x")); }

}  // namespace

std::vector<TensorMode> transform(const std::vector<int64_t>& extents,
                                  const std::vector<CopyTransform>& transforms, Where where) {
  CallersLine line(where);
  std::vector<TensorMode> modes;
  for (int64_t e : extents) modes.push_back({e, static_cast<int>(modes.size()), 1});
  for (const CopyTransform& t : transforms) {
    if (const auto* tile = std::get_if<TileTransform>(&t))
      modes = tiled(modes, *tile);
    else if (const auto* transpose = std::get_if<TransposeTransform>(&t))
      modes = transposed(modes, *transpose);
    else if (const auto* collapse = std::get_if<CollapseLeading>(&t))
      modes = collapsed(modes, *collapse);
    else
      modes = without_units(modes, std::get<DropUnit>(t));
  }
  return modes;
}

TensorCopy::TensorCopy(DType type, std::vector<int64_t> extents, std::vector<CopyTransform> transforms,
                       std::optional<Swizzle> swizzle, Where where)
    : dtype_(type), extents_(std::move(extents)), transforms_(std::move(transforms)) {
  CallersLine line(where);
  auto refuse = [&](const std::string& rule) {
    throw Error(fmt::format("tensor copy of {} {}: {}", text(extents_), name(type), rule));
  };
  if (extents_.empty()) refuse("it must have at least one dimension");
  for (int64_t e : extents_)
    if (e < 1) refuse("an extent must be at least 1");
  const int last = static_cast<int>(extents_.size()) - 1;
  lies_ = transform(extents_, transforms_);
  for (const TensorMode& mode : lies_)
    if (!mode.parts.empty() && mode.extent != 1)
      refuse("collapsed dimensions are copied one element at a time, so their extents must be 1");
  const TensorMode inner = lies_.back();
  if (inner.dimension != last || inner.step != 1)
    refuse(
        fmt::format("the innermost dimension after the transforms must be part of the tensor's last "
                    "dimension, since TMA copies contiguous elements"));
  const int64_t row_bytes = inner.extent * size_of(type);
  if (row_bytes % hopper::bulk_unit != 0)
    refuse(fmt::format(
        "the last dimension is {} B, but must be a multiple of {} B, such as {} elements", row_bytes,
        hopper::bulk_unit,
        (row_bytes + hopper::bulk_unit - 1) / hopper::bulk_unit * hopper::bulk_unit / size_of(type)));
  map_ = lies_;
  const bool plain = transforms_.empty();
  if (swizzle)
    swizzle_ = *swizzle;
  else if (Swizzle widest = widest_swizzle(static_cast<int>(row_bytes));
           plain || span_bytes(widest) == row_bytes)
    swizzle_ = widest;
  if (const int span = span_bytes(swizzle_); span != 0 && (plain ? row_bytes % span != 0 : row_bytes != span))
    refuse(fmt::format("{} B swizzle needs a last dimension of {}{} B, but it is {} B", span,
                       plain ? "a multiple of " : "", span, row_bytes));
  if (plain) {
    int64_t width = inner.extent;
    if (swizzle_ != Swizzle::none)
      width = span_bytes(swizzle_) / size_of(type);
    else if (width > hopper::box_extent)
      width = largest_divisor(row_bytes / hopper::bulk_unit,
                              hopper::box_extent * size_of(type) / hopper::bulk_unit) *
              hopper::bulk_unit / size_of(type);
    lies_.back().extent = width;
    lies_.insert(lies_.begin(), {inner.extent / width, last, width});
  }
  if (map_rank() > hopper::tensor_rank)
    refuse(fmt::format("its tensor map would have {} dimensions, but at most {} are possible", map_rank(),
                       hopper::tensor_rank));
  choose_pieces();
  place_boxes();
}

// Chooses the extents of a box along lies_. Boxes are contiguous, so a dimension can be divided only if all
// outer dimensions are divided into single elements. Panels are parts of the map's last dimension, so each
// panel needs separate boxes.
void TensorCopy::choose_pieces() {
  const size_t panels = lies_.size() - map_.size();  // 1 if there are panels, otherwise 0
  pieces_.assign(lies_.size(), 1);
  bool cut = false;
  for (size_t i = lies_.size(); i-- > panels;) {
    pieces_[i] = cut ? 1 : largest_divisor(lies_[i].extent, hopper::box_extent);
    cut = cut || pieces_[i] < lies_[i].extent;
  }
  if (pieces_.back() < lies_.back().extent)
    throw Error(
        fmt::format("tensor copy of {} {}: the last dimension has {} elements after the transforms, but a "
                    "box has at most {}",
                    text(extents_), name(dtype_), lies_.back().extent, hopper::box_extent));
}

// Computes the digits of the boxes, in the order of lies_, in which panels are part of the map's last
// dimension.
void TensorCopy::place_boxes() {
  const size_t panels = lies_.size() - map_.size();
  box_.assign(pieces_.begin() + static_cast<std::ptrdiff_t>(panels), pieces_.end());
  boxes_.rank = map_rank();
  boxes_.digits.clear();
  int bytes = box_bytes();
  for (size_t i = lies_.size(); i-- > 0;) {
    const auto count = static_cast<int>(lies_[i].extent / pieces_[i]);
    if (count == 1) continue;
    const bool panel = i < panels;
    boxes_.digits.push_back({count, panel ? 0 : static_cast<int>(lies_.size() - 1 - i),
                             static_cast<int>(panel ? lies_[i].step : pieces_[i]), bytes});
    bytes *= count;
  }
  if (boxes_.count() > 1 && box_bytes() % hopper::tensor_shared_alignment != 0)
    throw Error(fmt::format("tensor copy of {} {}: its {} boxes of {} B would not be aligned to {} B",
                            text(extents_), name(dtype_), boxes_.count(), box_bytes(),
                            hopper::tensor_shared_alignment));
}

TensorCopy TensorCopy::divided(int parts, Where where) const {
  CallersLine line(where);
  if (parts < 1)
    throw Error(
        fmt::format("{}: {} parts were requested, but there must be at least one", describe(), parts));
  TensorCopy finer = *this;
  int64_t count = boxes_.count();
  for (size_t i = 0; i + 1 < lies_.size() && count % parts != 0; ++i) {
    int64_t& piece = finer.pieces_[i];
    const int64_t whole = piece;
    do {
      piece = largest_divisor(whole, piece - 1 > 0 ? piece - 1 : 1);
    } while (piece > 1 && count * (whole / piece) % parts != 0);
    count *= whole / piece;
  }
  if (count % parts != 0)
    throw Error(fmt::format(
        "{} cannot be divided among {} CTAs into equal parts that are multiples of a row of {} {}",
        describe(), parts, lies_.back().extent, name(dtype_)));
  finer.place_boxes();
  finer.boxes_.parts = parts;
  return finer;
}

int TensorCopy::bytes() const { return static_cast<int>(product(extents_)) * size_of(dtype_); }
int TensorCopy::box_bytes() const { return static_cast<int>(product(box_)) * size_of(dtype_); }

TensorMapRecipe TensorCopy::recipe() const {
  TensorMapRecipe recipe;
  recipe.dtype = dtype_;
  recipe.swizzle = swizzle_;
  recipe.box.assign(box_.rbegin(), box_.rend());
  recipe.element_strides.assign(box_.size(), 1);
  return recipe;
}

ComposedLayout TensorCopy::shared_layout() const {
  std::vector<std::vector<std::pair<TensorMode, int64_t>>> by_dimension(extents_.size());
  int64_t stride = 1;
  for (size_t i = lies_.size(); i-- > 0; stride *= lies_[i].extent)
    by_dimension[static_cast<size_t>(lies_[i].dimension)].emplace_back(lies_[i], stride);
  std::vector<Layout> modes;
  for (auto& parts : by_dimension) {
    std::sort(parts.begin(), parts.end(),
              [](const auto& a, const auto& b) { return a.first.step < b.first.step; });
    std::vector<IntTuple> shape, strides;
    for (const auto& [mode, step] : parts)
      if (mode.extent > 1) {
        shape.emplace_back(mode.extent);
        strides.emplace_back(step);
      }
    if (shape.size() > 1)
      modes.push_back(make_layout(IntTuple(shape), IntTuple(strides)));
    else
      modes.push_back(shape.empty() ? Layout() : make_layout(shape[0], strides[0]));
  }
  return {upcast(byte_swizzle(swizzle_), size_of(dtype_)), 0, concatenate(modes)};
}

TensorCopy::MappedTensor TensorCopy::map_tensor(const std::vector<int64_t>& extents,
                                                const std::vector<int64_t>& strides, Where where) const {
  CallersLine line(where);
  auto refuse = [&](const std::string& rule) {
    throw Error(fmt::format("tensor map for {}: {}", describe(), rule));
  };
  if (extents.size() != extents_.size() || strides.size() != extents_.size())
    refuse(fmt::format("the tensor has {} extents and {} strides", extents.size(), strides.size()));
  if (strides.back() != 1) refuse(fmt::format("the last stride is {}, but must be 1", strides.back()));
  MappedTensor mapped;
  std::vector<TensorMode> modes = transform(extents, transforms_);
  for (size_t i = modes.size(); i-- > 0;) {
    const TensorMode& mode = modes[i];
    mapped.shape.push_back(static_cast<uint64_t>(mode.extent));
    if (i + 1 == modes.size()) continue;
    int64_t elements = mode.step * strides[static_cast<size_t>(mode.dimension)];
    if (!mode.parts.empty()) elements /= mode.parts[0].steps;
    for (const TensorMode::Part& part : mode.parts) {
      const int64_t first = mode.parts[0].steps, stride = strides[static_cast<size_t>(part.dimension)];
      if (stride != elements * part.steps)
        refuse(fmt::format(
            "strides of {} and {} elements along dimensions {} and {} do not match the {} and {} with which "
            "these were collapsed",
            elements * first, stride, mode.parts[0].dimension, part.dimension, first, part.steps));
    }
    const int64_t step = elements * size_of(dtype_);
    if (step <= 0 || step % hopper::bulk_unit != 0 || step >= kStrideLimit)
      refuse(
          fmt::format("the stride is {} B, or {} elements, along dimension {}, but must be a positive "
                      "multiple of {} B below 2^40",
                      step, mode.step, mode.dimension, hopper::bulk_unit));
    mapped.strides.push_back(static_cast<uint64_t>(step));
  }
  return mapped;
}

std::string TensorCopy::describe() const {
  return fmt::format("a copy of {} {} in {} of {}", text(extents_), name(dtype_),
                     boxes_.count() == 1 ? std::string("1 box") : fmt::format("{} boxes", boxes_.count()),
                     text(box_));
}

}  // namespace ptxbuilder
