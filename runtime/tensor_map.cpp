#include "runtime/tensor_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::runtime {
namespace {

constexpr uint64_t kMaxExtent = uint64_t{1} << 32;  // in elements, inclusive
constexpr uint64_t kStrideEnd = uint64_t{1} << 40;  // in bytes, exclusive
constexpr uint32_t kMaxBox = hopper::box_extent, kMaxElementStride = hopper::element_stride;
constexpr uint32_t kMostPixels = hopper::im2col_pixels;
constexpr uint64_t kSmallMemory = 128 * 1024;  // in bytes

using Breach = std::optional<TensorMapBreach>;

// Returns a breach of a rule. `nearest` contains the legal values near the current value, the best first.
template <class... Args>
Breach breaks(const char* member, int index, std::vector<uint64_t> nearest,
              fmt::format_string<Args...> format, Args&&... args) {
  return TensorMapBreach{member, index, std::move(nearest), fmt::format(format, std::forward<Args>(args)...)};
}

// Returns whether `value` is a multiple of `of`, which must be a power of two. This avoids a division,
// because each launch checks every address and stride.
bool is_multiple(uint64_t value, uint64_t of) { return (value & (of - 1)) == 0; }

uint64_t round_down(uint64_t value, uint64_t to) { return value / to * to; }
uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// Returns the multiples of `to` nearest to `value`. The higher one comes first, because a box that is rounded
// up still covers all its elements, and a stride that is rounded up adds padding. 0 is not offered as the
// lower multiple.
std::vector<uint64_t> multiples(uint64_t value, uint64_t to) {
  std::vector<uint64_t> both = {round_up(value, to)};
  if (value >= to) both.push_back(round_down(value, to));
  return both;
}

// Returns the nearest multiples as a string such as "48 or 64".
std::string neighbours(uint64_t value, uint64_t to) {
  uint64_t below = round_down(value, to), above = round_up(value, to);
  return below == 0 ? fmt::format("{}", above) : fmt::format("{} or {}", below, above);
}

// Returns the alignment of addresses and strides in bytes: 32 if the map interleaves by 32, otherwise 16.
uint64_t alignment(const TensorMapRecipe& recipe) { return recipe.interleave == Interleave::b32 ? 32 : 16; }

const char* alignment_reason(const TensorMapRecipe& recipe) {
  return recipe.interleave == Interleave::b32 ? " (interleave 32)" : "";
}

Breach box_breach(const TensorMapRecipe& recipe) {
  for (int i = 0; i < recipe.rank(); ++i)
    if (recipe.box[i] == 0 || recipe.box[i] > kMaxBox) {
      const uint32_t nearest = std::clamp(recipe.box[i], 1u, kMaxBox);
      return breaks("box", i, {nearest}, "box[{}] = {} is not in 1 to {} elements; nearest: {}", i,
                    recipe.box[i], kMaxBox, nearest);
    }
  if (recipe.interleave != Interleave::none) return {};
  uint64_t size = static_cast<uint64_t>(size_of(recipe.dtype)), inner = recipe.box[0] * size;
  if (inner % 16 != 0)
    return breaks("box", 0, multiples(recipe.box[0], 16 / size),
                  "box[0] = {} x {} = {} B is not a multiple of 16 B; nearest: {} elements", recipe.box[0],
                  name(recipe.dtype), inner, neighbours(recipe.box[0], 16 / size));
  uint64_t span = static_cast<uint64_t>(span_bytes(recipe.swizzle));
  if (span != 0 && inner > span)
    return breaks(
        "box", 0, {span / size},
        "box[0] = {} x {} = {} B exceeds the span of swizzle {}, {} B; at most {} elements, or swizzle none",
        recipe.box[0], name(recipe.dtype), inner, name(recipe.swizzle), span, span / size);
  return {};
}

Breach element_strides_breach(const TensorMapRecipe& recipe) {
  for (int i = 0; i < recipe.rank(); ++i)
    if (uint32_t stride = recipe.element_strides[i]; stride == 0 || stride > kMaxElementStride) {
      const uint32_t nearest = std::clamp(stride, 1u, kMaxElementStride);
      return breaks("element_strides", i, {nearest},
                    "element_strides[{}] = {} is not in 1 to {}; nearest: {}", i, stride, kMaxElementStride,
                    nearest);
    }
  if (recipe.interleave == Interleave::none && recipe.element_strides[0] != 1)
    return breaks(
        "element_strides", 0, {1},
        "element_strides[0] = {} would be ignored: without interleave, TMA has no stride in dimension 0; use "
        "1",
        recipe.element_strides[0]);
  return {};
}

// The rules for im2col maps. All dimensions of a corner share 16 bits.
Breach im2col_breach(const TensorMapView& a) {
  const bool wanted = a.recipe.pixels != 0;
  if (wanted != (a.im2col != nullptr))
    return breaks("im2col", -1, {}, "the map is for {}, but a tensor {} corners was given; give {}",
                  wanted ? "pixels" : "boxes", wanted ? "without" : "with",
                  wanted ? "it by runtime::im2col()"
                         : "a tensor without corners, or load its pixels with Im2colOffsets");
  if (!wanted) return {};
  const Im2col& walk = *a.im2col;
  const size_t inner = a.shape.size() - 2;  // number of dimensions between the channels and the images
  if (walk.lower.size() != inner || walk.upper.size() != inner ||
      (!walk.steps.empty() && walk.steps.size() != inner))
    return breaks(
        "im2col", -1, {},
        "the corners have {} and {} dimensions and the steps {}, but an im2col map of rank {} needs {}",
        walk.lower.size(), walk.upper.size(), walk.steps.size(), a.shape.size(), inner);
  const int limit = inner == 1 ? 1 << 15 : inner == 2 ? 1 << 7 : 1 << 4;
  for (size_t d = 0; d < inner; ++d) {
    for (const int corner : {walk.lower[d], walk.upper[d]})
      if (corner < -limit || corner >= limit)
        return breaks("im2col", -1, {}, "a corner is {}, but must be {} to {} for rank {}", corner, -limit,
                      limit - 1, a.shape.size());
    if (static_cast<int64_t>(a.shape[d + 1]) + walk.upper[d] <= walk.lower[d])
      return breaks("im2col", -1, {}, "the corners {} and {} leave no pixel of {} along dimension {}",
                    walk.lower[d], walk.upper[d], a.shape[d + 1], d + 1);
    if (const uint32_t step = a.element_stride(d + 1); step < 1 || step > kMaxElementStride)
      return breaks("im2col", -1, {}, "the step is {} pixels along dimension {}, but must be 1 to {}", step,
                    d + 1, kMaxElementStride);
  }
  return {};
}

Breach strides_breach(const TensorMapView& a) {
  const uint64_t align = alignment(a.recipe),
                 row = a.shape[0] * static_cast<uint64_t>(size_of(a.recipe.dtype));
  for (size_t k = 0; k < a.strides.size(); ++k) {
    const uint64_t stride = a.strides[k];
    const int i = static_cast<int>(k);
    if (stride >= kStrideEnd)
      return breaks("strides", i, {kStrideEnd - align},
                    "the stride of dimension {}, {} B, is not below 2^40 B; at most {} B", i + 1, stride,
                    kStrideEnd - align);
    // Any dimension except the first may have the largest stride, so each stride is compared only with the
    // row. Three cases are not compared: an interleaved map, whose rows are not contiguous; a dimension of
    // one element, whose stride is never used; and pixels, which may overlap the next pixels, as in a line of
    // a window.
    const bool is_held =
        a.recipe.interleave == Interleave::none && a.shape[k + 1] > 1 && a.recipe.pixels == 0 && !a.overlaps;
    const uint64_t least = is_held ? row : 0;
    if (stride < least)
      return breaks("strides", i, {round_up(row, align)},
                    "the stride of dimension {}, {} B, is less than a row of {} x {} = {} B; at least {} B",
                    i + 1, stride, a.shape[0], name(a.recipe.dtype), row, round_up(row, align));
    if (!is_multiple(stride, align)) {
      const bool below = round_down(stride, align) >= std::max(least, align);
      const uint64_t above = round_up(stride, align);
      return breaks("strides", i, below ? multiples(stride, align) : std::vector<uint64_t>{above},
                    "the stride of dimension {}, {} B, is not a multiple of {} B{}; nearest: {} B", i + 1,
                    stride, align, alignment_reason(a.recipe),
                    below ? neighbours(stride, align) : fmt::format("{}", above));
    }
  }
  return {};
}

Breach address_breach(const TensorMapView& a) {
  const uint64_t align = alignment(a.recipe);
  if (is_multiple(a.address, align)) return {};
  return breaks("address", -1, {round_down(a.address, align)},
                "the address {:#x} is not a multiple of {} B{}; nearest: {:#x}", a.address, align,
                alignment_reason(a.recipe), round_down(a.address, align));
}

Breach placed_breach(const TensorMapView& a) {
  const auto rank = static_cast<size_t>(a.recipe.rank());
  if (a.shape.size() != rank)
    return breaks("shape", -1, {}, "the tensor has rank {}, the box has rank {}", a.shape.size(), rank);
  if (a.strides.size() != rank - 1)
    return breaks("strides", -1, {}, "{} strides were given for rank {}; give {}, for dimensions 1 to {}",
                  a.strides.size(), rank, rank - 1, rank - 1);
  if (Breach broken = address_breach(a)) return broken;
  for (size_t i = 0; i < rank; ++i)
    if (a.shape[i] == 0 || a.shape[i] > kMaxExtent) {
      const uint64_t nearest = std::clamp(a.shape[i], uint64_t{1}, kMaxExtent);
      return breaks("shape", static_cast<int>(i), {nearest},
                    "shape[{}] = {} is not in 1 to 2^32 elements; nearest: {}", i, a.shape[i], nearest);
    }
  if (Breach broken = strides_breach(a)) return broken;
  return im2col_breach(a);
}

void throw_if(const Breach& broken) {
  if (broken) throw Error("tensor map: " + broken->text);
}

}  // namespace

std::optional<TensorMapBreach> breach(const TensorMapRecipe& recipe) {
  const int rank = recipe.rank();
  if (rank < 1 || rank > 5) return breaks("box", -1, {}, "the rank is {}, but must be 1 to 5", rank);
  if (recipe.interleave != Interleave::none && rank < 3)
    return breaks("interleave", -1, {static_cast<uint64_t>(Interleave::none)},
                  "the rank is {} with interleave {}, but an interleaved map must have rank 3 to 5", rank,
                  name(recipe.interleave));
  if (recipe.element_strides.size() != recipe.box.size())
    return breaks("element_strides", -1, {},
                  "{} element strides were given for a box of rank {}; give one for each dimension",
                  recipe.element_strides.size(), rank);
  if (recipe.interleave == Interleave::b32 && recipe.swizzle != Swizzle::b32)
    return breaks("swizzle", -1, {static_cast<uint64_t>(Swizzle::b32)},
                  "interleave 32 needs swizzle 32, not {}", name(recipe.swizzle));
  if (recipe.oob_fill == OobFill::nan && !tma_fills_nan(recipe.dtype))
    return breaks(
        "oob_fill", -1, {static_cast<uint64_t>(OobFill::zero)},
        "out-of-bounds fill nan is not possible for {}: only f16, bf16, tf32, f32 and f64 have NaN; use zero",
        name(recipe.dtype));
  if (recipe.pixels != 0 && rank < 3)
    return breaks("pixels", -1, {}, "the rank is {}, but an im2col map must have rank 3 to 5", rank);
  if (recipe.pixels > kMostPixels)
    return breaks("pixels", -1, {}, "{} pixels were requested, but the number must be 1 to {}", recipe.pixels,
                  kMostPixels);
  if (Breach broken = box_breach(recipe)) return broken;
  return element_strides_breach(recipe);
}

std::optional<TensorMapBreach> breach(const TensorMapView& a) {
  if (Breach broken = breach(a.recipe)) return broken;
  return placed_breach(a);
}

std::optional<TensorMapArguments> nearest_legal(TensorMapArguments a,
                                                std::vector<TensorMapBreach>* breaches) {
  for (int change = 0; change < 64; ++change) {
    const Breach broken = breach(a);
    if (!broken) return a;
    if (breaches) breaches->push_back(*broken);
    if (broken->nearest.empty()) return std::nullopt;
    const uint64_t value = broken->nearest.front();
    const auto i = static_cast<size_t>(std::max(0, broken->index));
    const std::string_view member = broken->member;
    if (member == "box") a.recipe.box[i] = static_cast<uint32_t>(value);
    if (member == "element_strides") a.recipe.element_strides[i] = static_cast<uint32_t>(value);
    if (member == "interleave") a.recipe.interleave = static_cast<Interleave>(value);
    if (member == "swizzle") a.recipe.swizzle = static_cast<Swizzle>(value);
    if (member == "oob_fill") a.recipe.oob_fill = static_cast<OobFill>(value);
    if (member == "address") a.address = value;
    if (member == "shape") a.shape[i] = value;
    if (member == "strides") a.strides[i] = value;
  }
  return std::nullopt;
}

void check(const TensorMapRecipe& recipe) { throw_if(breach(recipe)); }

void check(const TensorMapView& a) { throw_if(breach(a)); }

void check_placed(const TensorMapView& a) { throw_if(placed_breach(a)); }

void check_address(const TensorMapView& a) { throw_if(address_breach(a)); }

uint64_t extent_bytes(const TensorMapView& a) {
  unsigned __int128 bytes = a.shape[0] * static_cast<uint64_t>(size_of(a.recipe.dtype));
  for (size_t i = 0; i < a.strides.size(); ++i)
    bytes += static_cast<unsigned __int128>(a.shape[i + 1] - 1) * a.strides[i];
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  return bytes > kMost ? kMost : static_cast<uint64_t>(bytes);
}

std::array<uint64_t, 4> packed_strides(DType dtype, std::span<const uint64_t> shape) {
  std::array<uint64_t, 4> strides = {};
  uint64_t bytes = static_cast<uint64_t>(size_of(dtype));
  for (size_t i = 0; i + 1 < shape.size(); ++i) {
    if (__builtin_mul_overflow(bytes, shape[i], &bytes) || bytes > kStrideEnd) bytes = kStrideEnd;
    strides.at(i) = bytes;
  }
  return strides;
}

void correct_small_map(TensorMap& encoded, const TensorMapView& a, int compute_capability) {
  const bool blackwell = compute_capability >= 100 && compute_capability < 130;
  if (!blackwell || extent_bytes(a) >= kSmallMemory) return;
  const std::array packed = packed_strides(a.recipe.dtype, a.shape);
  if (std::equal(a.strides.begin(), a.strides.end(), packed.begin())) return;  // the tensor has no gaps
  encoded.bytes[85 / 8] &= ~(std::byte{1} << (85 % 8));
}

}  // namespace ptxbuilder::runtime
