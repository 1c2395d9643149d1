#include "kernels/gemm/convolution_form.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/call/kept_forms.h"

namespace ptxbuilder::kernels {
namespace {

using Along = ConvolutionArguments::Along;

constexpr char kConvolution[] = "convolution";
enum : size_t { kImage, kLine, kPixel, kChannel };  // dimensions of x and y; w has filters instead of images

// The constants from kMostStep to kMostOffset are limits of tensor maps of four dimensions (CUDA driver API,
// cuTensorMapEncodeIm2col; PTX ISA, cp.async.bulk.tensor).
constexpr int64_t kFewChannels =
    8;  // maximum number of channels for which x is packed: 16 bytes of 16-bit elements
constexpr int64_t kWindowStage = 64;  // 16-bit elements along k in a stage if an operand has windows
constexpr int64_t kMostStep = 8, kLeastCorner = -128, kMostCorner = 127, kMostOffset = 255;

[[noreturn]] void refuse_convolution(Where where, const std::string& what) {
  throw Error(where, "convolution: " + what);
}

runtime::View view_from(runtime::View memory, int64_t elements, DType type) {
  const auto bytes = static_cast<uint64_t>(elements * size_of(type));
  return {memory.address + bytes, memory.bytes - std::min<uint64_t>(bytes, memory.bytes)};
}

struct ImageTensor {
  const char* name;
  runtime::View memory;
  DType type;
  std::array<int64_t, 4> extents, strides;

  bool is_empty() const { return std::ranges::count(extents, 0) > 0; }
  runtime::View from(int64_t elements) const { return view_from(memory, elements, type); }
  Operand operand() const {
    Operand o = {
        .name = name, .type = type, .memory = memory, .columns = extents[kChannel], .outer_count = 3};
    const std::array words = {name == std::string_view("w") ? "filter" : "image", "line", "pixel"};
    for (size_t d = 0; d < 3; ++d) o.outer[2 - d] = {words[d], extents[d], strides[d]};
    return o;
  }
  // Returns the stride from one pixel to the next if it is the same over all lines and images.
  std::optional<int64_t> flat() const {
    int64_t count = 1, stride = extents[kChannel];
    for (const size_t d : {kPixel, kLine, kImage}) {
      if (extents[d] == 1) continue;
      if (count > 1 && strides[d] != stride_of(count, stride)) return std::nullopt;
      if (count == 1) stride = strides[d];
      count *= extents[d];
    }
    return stride;
  }
};

ImageTensor image_tensor(const char* name, const ContractionTensor& given, Where where) {
  if (given.extents.size() != 4 || (!given.strides.empty() && given.strides.size() != 4))
    refuse_convolution(
        where,
        fmt::format(
            "{}: it is [{}] with {} strides, but must have 4 dimensions: {}, lines, pixels and channels",
            name, fmt::join(given.extents, ", "), given.strides.size(),
            name == std::string_view("w") ? "filters" : "images"));
  ImageTensor t{name, given.memory, given.type, {}, {}};
  int64_t stride = 1;
  for (size_t d = 4; d-- > 0;) {
    t.extents[d] = given.extents[d];
    t.strides[d] = given.strides.empty() ? stride : given.strides[d];
    if (t.extents[d] < 0)
      refuse_convolution(where, fmt::format("{} of [{}]", name, fmt::join(given.extents, ", ")));
    stride = stride_of(std::max<int64_t>(t.extents[d], 1), stride);
  }
  if (t.extents[kChannel] > 1 && t.strides[kChannel] != 1)
    refuse_convolution(
        where,
        fmt::format(
            "{} has a stride of {} along its channels, which must be contiguous: store it with channels last",
            name, t.strides[kChannel]));
  check_memory(kConvolution, t.operand(), where);
  return t;
}

int64_t windows_along(const Along& a, int64_t extent, int64_t taps) {
  const int64_t room = extent + a.before + a.behind - a.spread * (taps - 1) - 1;
  return room < 0 ? 0 : room / a.step + 1;
}

void check_along(const char* name, const Along& a, Where where) {
  const auto in = [](int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; };
  if (!in(a.step, 1, kMostStep) || !in(a.spread, 1, kMostOffset) || !in(a.before, 0, -kLeastCorner) ||
      !in(a.behind, 0, kMostOffset))
    refuse_convolution(
        where,
        fmt::format(
            "along {}, the step is {}, the spread {}, and there are {} and {} pixels of zeros; for TMA, the "
            "step must be 1 to {}, the spread 1 to {}, and there must be at most {} pixels of zeros",
            name, a.step, a.spread, a.before, a.behind, kMostStep, kMostOffset, -kLeastCorner));
}

// Throws an Error if the positions of the windows, or the distances of their taps, exceed the ranges of a
// tensor map.
void check_corners(const PixelWindows& windows, Where where) {
  for (const auto& [name, d] : {std::pair{"w", windows.w}, {"h", windows.h}}) {
    const int64_t behind = d.first + (d.count - 1) * d.step + 1 - d.extent, reach = (d.taps - 1) * d.spread;
    if (d.first < kLeastCorner || behind < kLeastCorner || behind > kMostCorner || reach > kMostOffset)
      refuse_convolution(
          where, fmt::format(
                     "windows along {} of {} pixels begin at {} or later, {} apart, and reach {} pixels; for "
                     "TMA, they must begin at {} or later and up to {} past the end, and reach at most {}",
                     name, d.extent, d.first, d.step, reach, kLeastCorner, kMostCorner, kMostOffset));
  }
}

class ConvolutionFormer {
 public:
  ConvolutionFormer(const ConvolutionArguments& p, Where where)
      : p_(p),
        where_(where),
        x_(image_tensor("x", p.x, where)),
        w_(image_tensor("w", p.w, where)),
        y_(image_tensor("y", p.y, where)) {
    check();
  }

  ConvolutionForm form() {
    const ImageTensor& result = p_.result == ConvolutionResult::y   ? y_
                                : p_.result == ConvolutionResult::x ? x_
                                                                    : w_;
    if (result.is_empty()) return {};
    check_no_self_overlap(kConvolution, result.operand(), where_);
    for (const ImageTensor* other : {&x_, &w_, &y_})
      if (other != &result) check_apart(kConvolution, result.operand(), other->operand(), true, where_);
    // There is no product if one of the tensors is empty.
    const bool has_products = !x_.is_empty() && !w_.is_empty() && !y_.is_empty();
    if (p_.result == ConvolutionResult::y && !has_products)
      refuse_convolution(where_, "y is a sum of nothing: give x and w a channel, and w a line and a pixel");
    form_.fills = !has_products;
    for (group_ = 0; has_products && group_ < p_.groups; ++group_) {
      if (p_.result == ConvolutionResult::y) forward();
      if (p_.result == ConvolutionResult::x) gradients_of_x();
      if (p_.result == ConvolutionResult::w) gradient_of_w();
    }
    if (form_.fills && extent_bytes(result.operand()) != static_cast<__int128>(size_of(result.type)) *
                                                             result.extents[0] * result.extents[1] *
                                                             result.extents[2] * result.extents[3])
      refuse_convolution(
          where_,
          fmt::format(
              "{} has gaps, but elements that no window reaches must be made zero: store it without gaps",
              result.name));
    return std::move(form_);
  }

 private:
  void check() {
    const auto &x = x_.extents, &w = w_.extents, &y = y_.extents;
    check_along("h", p_.along_h, where_), check_along("w", p_.along_w, where_);
    if (p_.groups < 1 || x[kChannel] % p_.groups != 0 || w[kImage] % p_.groups != 0)
      refuse_convolution(where_, fmt::format("{} groups of {} channels and {} filters; both numbers must be "
                                             "multiples of the number of groups",
                                             p_.groups, x[kChannel], w[kImage]));
    if (w[kChannel] != x[kChannel] / p_.groups)
      refuse_convolution(
          where_,
          fmt::format("filters of {} channels for {} groups of x's {} channels; a filter must have {}",
                      w[kChannel], p_.groups, x[kChannel], x[kChannel] / p_.groups));
    const std::array<int64_t, 4> wanted = {x[kImage], windows_along(p_.along_h, x[kLine], w[kLine]),
                                           windows_along(p_.along_w, x[kPixel], w[kPixel]), w[kImage]};
    if (y != wanted)
      refuse_convolution(
          where_, fmt::format("y is [{}] for x of [{}] and w of [{}], but must be [{}]", fmt::join(y, ", "),
                              fmt::join(x, ", "), fmt::join(w, ", "), fmt::join(wanted, ", ")));
    const bool is_y = p_.result == ConvolutionResult::y;
    if (!is_y && (p_.bias.address != 0 || p_.activation != Activation::none))
      refuse_convolution(
          where_,
          "a gradient cannot have a bias or an activation: pass the gradient of the result without them");
    if (!is_y && (!is_half(p_.y.type) || p_.y.type != (p_.result == ConvolutionResult::x ? w_ : x_).type))
      refuse_convolution(
          where_, fmt::format("a gradient from {} and {}; both must be f16, or both bf16", name(y_.type),
                              name((p_.result == ConvolutionResult::x ? w_ : x_).type)));
  }
  int64_t flat(const ImageTensor& t) const {
    if (const auto stride = t.flat()) return *stride;
    refuse_convolution(
        where_,
        fmt::format(
            "the pixels of {} have strides of [{}] for extents of [{}]; all pixels must be one stride apart",
            t.name, fmt::join(t.strides, ", "), fmt::join(t.extents, ", ")));
  }

  int64_t channels() const { return w_.extents[kChannel]; }
  int64_t filters() const { return w_.extents[kImage] / p_.groups; }
  runtime::View group_of_x() const { return x_.from(group_ * channels()); }
  runtime::View group_of_y() const { return y_.from(group_ * filters()); }
  runtime::View group_of_w(int64_t behind = 0) const {
    return w_.from(group_ * filters() * w_.strides[kImage] + behind);
  }

  ConvolutionProduct& product(const ImageTensor& a, const ImageTensor& b, const ImageTensor& d) {
    ConvolutionProduct& one = form_.products.emplace_back();
    one.product.a.type = a.type, one.product.b.type = b.type, one.product.d.type = d.type;
    one.product.fast_accumulation = p_.fast_accumulation;
    return one;
  }
  void take(ConvolutionProduct& one, ProductModes modes) const {
    MatmulArguments& q = one.product;
    q.m = modes.m.extent(), q.n = modes.n.extent(), q.k = modes.k.extent();
    check_corners(modes.windows, where_);
    one.modes = modes;
  }

  // Returns the windows over x that the convolution multiplies.
  PixelWindows over_x() const {
    const auto along = [&](size_t d, const Along& a) {
      return PixelWindows::Along{.extent = x_.extents[d],
                                 .stride = x_.strides[d],
                                 .count = y_.extents[d],
                                 .first = -a.before,
                                 .step = a.step,
                                 .taps = w_.extents[d],
                                 .spread = a.spread};
    };
    return {along(kPixel, p_.along_w), along(kLine, p_.along_h), channels(), x_.extents[kImage],
            x_.strides[kImage]};
  }

  // Reserves memory in the workspace of `one`, in addition to its `scratch`, and returns the reserved memory.
  static runtime::View near(ConvolutionProduct& one, size_t bytes) {
    const auto workspace = static_cast<size_t>(ConvolutionMemory::workspace);
    const runtime::View place = {form_address(workspace, kTma) + one.scratch, bytes};
    one.scratch += static_cast<size_t>(round_up(static_cast<int64_t>(bytes), kPartAlignment));
    return place;
  }

  // The layout of a copy of x whose pixels have few channels. Each pixel is padded to `packed` channels, and
  // the pixels of a line are contiguous. If windows move in steps of several lines, `together` lines are
  // interleaved and count as one. A window then consists of `reach` contiguous elements from each of `taps`
  // lines.
  struct Packing {
    int64_t packed = kFewChannels, together = 1, width = 0, filter_width = 0, reach = 0, taps = 0;

    int64_t pixel() const { return packed * together; }  // elements from one pixel to the next
    int64_t line() const { return width * pixel(); }
    int64_t filter_line() const { return filter_width * pixel(); }
    int64_t filter() const { return taps * filter_line(); }
    int64_t stages() const { return taps * ((reach + kWindowStage - 1) / kWindowStage); }
  };
  Packing packing_of(int64_t together) const {
    const int64_t taps = w_.extents[kPixel], step = p_.along_w.step;
    Packing of;
    // Four channels suffice only if windows still begin at multiples of 16 bytes, as TMA requires.
    if (channels() <= kFewChannels / 2 && step * together % 2 == 0) of.packed = kFewChannels / 2;
    of.together = together;
    const int64_t unit = std::max<int64_t>(kFewChannels / of.pixel(), 1);
    of.width = round_up((y_.extents[kPixel] - 1) * step + taps, unit);
    of.filter_width = round_up(taps, unit);
    of.reach = taps * of.pixel();
    of.taps = round_up(w_.extents[kLine], together) / together;
    return of;
  }
  std::optional<Packing> packing() const {
    const Along& h = p_.along_h;
    if (p_.groups > 1 || channels() > kFewChannels || size_of(x_.type) != 2 || w_.extents[kPixel] == 1 ||
        p_.along_w.spread > 1 || h.spread * (w_.extents[kLine] - 1) > -kLeastCorner)
      return std::nullopt;
    const Packing separate = packing_of(1), together = packing_of(h.spread == 1 ? h.step : 1);
    return together.stages() < separate.stages() ? together : separate;
  }
  PackedPixels packed(const ImageTensor& t, const Packing& of) const {
    return {.channels = static_cast<int>(channels()),
            .packed = static_cast<int>(of.packed),
            .width = t.extents[kPixel],
            .lines = t.extents[kLine],
            .images = t.extents[kImage],
            .pixel = t.strides[kPixel],
            .line = t.strides[kLine],
            .image = t.strides[kImage],
            .packed_width = of.filter_width,
            .packed_lines = of.taps * of.together,
            .together = static_cast<int>(of.together),
            .from = t.memory};
  }
  // Adds a copy of x with this packing to `one`, sets the windows of `modes`, and returns the memory of the
  // copy.
  runtime::View pack_x(ConvolutionProduct& one, const Packing& of, ProductModes& modes) const {
    const Along &h = p_.along_h, &w = p_.along_w;
    PackedPixels& copy = one.ahead.emplace_back(packed(x_, of));
    copy.before = w.before, copy.above = h.before;
    copy.packed_width = of.width;
    copy.packed_lines =
        round_up((y_.extents[kLine] - 1) * h.step + h.spread * (w_.extents[kLine] - 1) + 1, of.together);
    copy.to = near(one, copy.bytes());
    PixelWindows& v = modes.windows;
    v.w = {.extent = y_.extents[kPixel], .stride = w.step * of.pixel(), .count = y_.extents[kPixel]};
    v.h = {.extent = copy.packed_lines / of.together,
           .stride = of.line(),
           .count = y_.extents[kLine],
           .step = h.step / of.together,
           .taps = of.taps,
           .spread = h.spread};
    v.channels = of.reach;
    v.images = x_.extents[kImage], v.image_stride = v.h.stride * v.h.extent;
    return copy.to;
  }
  // Tries to describe the windows over the copy as ordinary modes of m, which TMA loads faster than windows.
  // Returns false, without changes, if y has an epilogue, if TMA cannot store y, or if tiles would extend too
  // far beyond lines and images.
  bool takes_lines(ProductModes& modes) const {
    constexpr int kTile = 128;
    const auto fits = [&](size_t d) { return y_.strides[d] * size_of(y_.type) % kTma == 0; };
    if (p_.bias.address != 0 || p_.activation != Activation::none || y_.memory.address % kTma != 0 ||
        !fits(kPixel) || !fits(kLine) || !fits(kImage))
      return false;
    const PixelWindows& v = modes.windows;
    ModeList m;
    m.add({.extent = v.w.count, .a = v.w.stride, .d = y_.strides[kPixel]});
    m.add({.extent = v.h.count, .a = v.h.step * v.h.stride, .d = y_.strides[kLine]});
    m.add({.extent = v.images, .a = v.image_stride, .d = y_.strides[kImage]});
    int box = kTile;
    for (int narrower = kTile / 2; narrower >= 8; narrower /= 2)
      if (tiles_along(m, narrower, kTile) < tiles_along(m, box, kTile)) box = narrower;
    if (4 * tiles_along(m, box, kTile) * kTile > 5 * v.all()) return false;
    modes.m = m, modes.m_box = box;
    return true;
  }
  void packed_forward(ConvolutionProduct& one, const Packing& of) {
    MatmulArguments& q = one.product;
    ProductModes modes;
    q.a.memory = pack_x(one, of, modes);
    PackedPixels& filters_copy = one.ahead.emplace_back(packed(w_, of));
    q.b.memory = filters_copy.to = near(one, filters_copy.bytes());
    const PixelWindows& v = modes.windows;
    const bool takes_windows = !takes_lines(modes);
    if (takes_windows) modes.windows_of = WindowsOf::a, modes.m.add({.extent = v.all(), .d = flat(y_)});
    modes.n.add({.extent = filters(), .b = of.filter(), .d = 1});
    modes.k.add({.extent = of.reach, .a = 1, .b = 1});
    if (takes_windows) modes.k.add({});
    modes.k.add({.extent = of.taps, .a = v.h.spread * v.h.stride, .b = of.filter_line()});
    take(one, modes);
  }

  // Adds the product that computes y from windows over x, multiplied by the filters.
  void forward() {
    ConvolutionProduct& one = product(x_, w_, y_);
    MatmulArguments& q = one.product;
    q.a.memory = group_of_x(), q.b.memory = group_of_w(), q.d.memory = group_of_y();
    q.activation = p_.activation;
    if (p_.bias.address != 0) {
      const auto skipped = static_cast<uint64_t>(group_ * filters() * size_of(y_.type));
      q.bias = {p_.bias.address + skipped, p_.bias.bytes - std::min<uint64_t>(skipped, p_.bias.bytes)};
    }
    if (const auto few = packing()) return packed_forward(one, *few);
    const PixelWindows windows = over_x();
    const auto is_pixel = [](const PixelWindows::Along& d) {
      return d.taps == 1 && d.step == 1 && d.first == 0 && d.count == d.extent;
    };
    if (const auto pixel = x_.flat(); pixel && is_pixel(windows.w) && is_pixel(windows.h)) {
      q.m = windows.all(), q.n = filters(), q.k = channels();
      q.a.stride = *pixel, q.b.stride = w_.strides[kImage], q.d.stride = flat(y_);
      return;
    }
    ProductModes modes;
    modes.windows_of = WindowsOf::a, modes.windows = windows;
    modes.m.add({.extent = windows.all(), .d = flat(y_)});
    modes.n.add({.extent = filters(), .b = w_.strides[kImage], .d = 1});
    modes.k.add({.extent = channels(), .a = 1, .b = 1});
    modes.k.add({.extent = windows.w.taps, .b = w_.strides[kPixel]});
    modes.k.add({.extent = windows.h.taps, .b = w_.strides[kLine]});
    take(one, modes);
  }

  // The part of the gradient for those pixels of x whose position along one dimension is a certain remainder
  // modulo the step. Only every `period`-th tap, beginning with `tap`, reaches these pixels. The gradient at
  // a pixel is a window over y, with the taps in reverse order.
  struct Phase {
    PixelWindows::Along windows;
    int64_t tap = 0, period = 1;
  };
  std::optional<Phase> phase(size_t d, const Along& a, int64_t at) const {
    const int64_t common = std::gcd(a.step, a.spread);
    Phase f;
    f.period = a.step / common;
    while (f.tap < f.period && (at + a.before - f.tap * a.spread) % a.step != 0) ++f.tap;
    if (f.tap == f.period || f.tap >= w_.extents[d]) return std::nullopt;
    PixelWindows::Along& v = f.windows;
    v = {.extent = y_.extents[d], .stride = y_.strides[d], .turned = true};
    v.taps = (w_.extents[d] - f.tap + f.period - 1) / f.period;
    v.spread = a.spread / common;
    v.first = (at + a.before - f.tap * a.spread) / a.step - (v.taps - 1) * v.spread;
    v.count = (x_.extents[d] - at + a.step - 1) / a.step;
    return f;
  }
  void gradients_of_x() {
    for (int64_t line = 0; line < std::min(p_.along_h.step, x_.extents[kLine]); ++line)
      for (int64_t pixel = 0; pixel < std::min(p_.along_w.step, x_.extents[kPixel]); ++pixel) {
        const auto h = phase(kLine, p_.along_h, line), w = phase(kPixel, p_.along_w, pixel);
        if (h && w)
          gradient_of_x(*h, *w, line, pixel);
        else
          form_.fills = true;
      }
  }
  void gradient_of_x(const Phase& h, const Phase& w, int64_t line, int64_t pixel) {
    ConvolutionProduct& one = product(y_, w_, x_);
    MatmulArguments& q = one.product;
    q.b_k_major = false;
    q.a.memory = group_of_y();
    q.b.memory = group_of_w(h.tap * w_.strides[kLine] + w.tap * w_.strides[kPixel]);
    q.d.memory = group_of_x();
    ProductModes modes;
    modes.windows_of = WindowsOf::a;
    modes.windows = {w.windows, h.windows, filters(), y_.extents[kImage], y_.strides[kImage]};
    const bool is_whole = p_.along_h.step == 1 && p_.along_w.step == 1;
    modes.m.add({.extent = modes.windows.all(), .d = is_whole ? flat(x_) : channels()});
    modes.n.add({.extent = channels(), .b = 1, .d = 1});
    modes.k.add({.extent = filters(), .a = 1, .b = w_.strides[kImage]});
    modes.k.add({.extent = w.windows.taps, .b = w.period * w_.strides[kPixel]});
    modes.k.add({.extent = h.windows.taps, .b = h.period * w_.strides[kLine]});
    take(one, modes);
    if (is_whole) return;
    one.product.d.memory =
        near(one, static_cast<size_t>(modes.windows.all() * channels() * size_of(x_.type)));
    PermutedCopy copy{size_of(x_.type), {{channels(), 1, 1}}, one.product.d.memory, {}};
    int64_t from = channels();
    const auto add = [&](int64_t extent, int64_t to) {
      copy.modes.push_back({extent, from, to});
      from *= extent;
    };
    add(w.windows.count, p_.along_w.step * x_.strides[kPixel]);
    add(h.windows.count, p_.along_h.step * x_.strides[kLine]);
    add(x_.extents[kImage], x_.strides[kImage]);
    copy.to = x_.from(group_ * channels() + line * x_.strides[kLine] + pixel * x_.strides[kPixel]);
    one.behind = {kernels::form_of(copy)};
  }

  void packed_gradient_of_w(ConvolutionProduct& one, const Packing& of) {
    MatmulArguments& q = one.product;
    ProductModes modes;
    modes.windows_of = WindowsOf::b;
    q.b.memory = pack_x(one, of, modes);
    q.d.memory = near(one, static_cast<size_t>(filters() * of.filter() * size_of(w_.type)));
    modes.k.add({.extent = modes.windows.all(), .a = flat(y_)});
    modes.m.add({.extent = filters(), .a = 1, .d = of.filter()});
    modes.n.add({.extent = of.reach, .b = 1, .d = 1});
    modes.n.add({});
    modes.n.add({.extent = of.taps, .d = of.filter_line()});
    take(one, modes);
    const auto copy_lines = [&](int64_t first, int64_t count, int64_t together) {
      if (count == 0 || together == 0) return;
      one.behind.push_back(kernels::form_of({size_of(w_.type),
                                             {{channels(), 1, 1},
                                              {w_.extents[kPixel], of.pixel(), w_.strides[kPixel]},
                                              {together, of.packed, w_.strides[kLine]},
                                              {count, of.filter_line(), of.together * w_.strides[kLine]},
                                              {filters(), of.filter(), w_.strides[kImage]}},
                                             view_from(q.d.memory, first * of.filter_line(), w_.type),
                                             w_.from(first * of.together * w_.strides[kLine])}));
    };
    // The last group may contain fewer than `together` lines of the filter.
    const int64_t whole = w_.extents[kLine] / of.together;
    copy_lines(0, whole, of.together);
    copy_lines(whole, 1, w_.extents[kLine] % of.together);
  }

  // Adds the product that computes w from the transposed pixels of y, multiplied by windows over x.
  void gradient_of_w() {
    ConvolutionProduct& one = product(y_, x_, w_);
    MatmulArguments& q = one.product;
    q.a_k_major = q.b_k_major = false;
    q.a.memory = group_of_y(), q.b.memory = group_of_x(), q.d.memory = group_of_w();
    if (const auto few = packing()) return packed_gradient_of_w(one, *few);
    ProductModes modes;
    modes.windows_of = WindowsOf::b, modes.windows = over_x();
    modes.k.add({.extent = modes.windows.all(), .a = flat(y_)});
    modes.m.add({.extent = filters(), .a = 1, .d = w_.strides[kImage]});
    modes.n.add({.extent = channels(), .b = 1, .d = 1});
    modes.n.add({.extent = modes.windows.w.taps, .d = w_.strides[kPixel]});
    modes.n.add({.extent = modes.windows.h.taps, .d = w_.strides[kLine]});
    take(one, modes);
  }

  const ConvolutionArguments& p_;
  Where where_;
  ImageTensor x_, w_, y_;
  int64_t group_ = 0;
  ConvolutionForm form_;
};

}  // namespace

ConvolutionForm convolution_form(const ConvolutionArguments& p, Where where) {
  return ConvolutionFormer(p, where).form();
}

}  // namespace ptxbuilder::kernels
