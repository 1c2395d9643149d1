// Convolutions and their gradients on a device, with tensors between guards, compared with float64.
#pragma once

#include "contraction_kit.h"
#include "kernels/gemm/convolution.h"

namespace ptxbuilder::test {

using kernels::ConvolutionArguments;
using kernels::ConvolutionResult;

struct ConvolutionCase {
  int64_t images = 1, channels = 8, filters = 8, groups = 1;
  std::array<int64_t, 2> extents = {8, 8}, taps = {3, 3};  // lines and pixels
  std::array<ConvolutionArguments::Along, 2> along = {};   // windows along lines and pixels
  DType type = DType::bf16, out = DType::bf16;
  bool bias = false;
  kernels::Activation activation = kernels::Activation::none;
  std::array<int64_t, 3> gaps = {};  // gaps after the channels of x, w and y
  uint64_t seed = 1;

  int64_t windows(size_t d) const {
    const ConvolutionArguments::Along& a = along[d];
    return (extents[d] + a.before + a.behind - a.spread * (taps[d] - 1) - 1) / a.step + 1;
  }
};

inline std::string text(const ConvolutionCase& c) {
  std::string all = fmt::format("{} images of {} x {} x {}, {} filters of {} x {}, {} groups, {} into {}",
                                c.images, c.extents[0], c.extents[1], c.channels, c.filters, c.taps[0],
                                c.taps[1], c.groups, name(c.type), name(c.out));
  for (const auto& a : c.along)
    all += fmt::format("; step {} spread {} zeros {} and {}", a.step, a.spread, a.before, a.behind);
  return all +
         fmt::format("; gaps {} {} {}, bias {}, seed {}", c.gaps[0], c.gaps[1], c.gaps[2], c.bias, c.seed);
}

struct ConvolutionTrial {
  ConvolutionTrial(runtime::Device& device, const ConvolutionCase& c, ConvolutionResult result)
      : device(device),
        c(c),
        result(result),
        x(tensor("nhwc", ConvolutionResult::x, c.gaps[0])),
        w(tensor("krsd", ConvolutionResult::w, c.gaps[1])),
        y(tensor("npqk", ConvolutionResult::y, c.gaps[2])) {
    x.draw(3 * c.seed), w.draw(3 * c.seed + 1), y.draw(3 * c.seed + 2);
    std::mt19937_64 random(c.seed);
    for (int64_t k = 0; k < c.filters; ++k) {
      biases.push_back(static_cast<double>(random() % 9) - 4);
      const uint64_t bits = encode(c.out, biases.back());
      const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
      bias_bytes.insert(bias_bytes.end(), bytes, bytes + size_of(c.out));
    }
    bias = runtime::Buffer::of(device, bias_bytes);
  }
  ConvolutionArguments arguments() const {
    ConvolutionArguments p{.x = x.tensor(), .w = w.tensor(), .y = y.tensor(), .result = result};
    p.along_h = c.along[0], p.along_w = c.along[1];
    p.groups = c.groups;
    if (result == ConvolutionResult::y && c.bias) p.bias = bias;
    if (result == ConvolutionResult::y) p.activation = c.activation;
    return p;
  }
  // Returns the contents that the result's memory must have after a call.
  std::vector<double> expected() const {
    const ContractionData& out = result == ConvolutionResult::y ? y : result == ConvolutionResult::x ? x : w;
    std::vector<double> all(out.values());
    LetterNumbers i;
    const LetterNumbers e = extents();
    const std::string letters = result == ConvolutionResult::y   ? "npqk"
                                : result == ConvolutionResult::x ? "nhwc"
                                                                 : "krsd";
    each_index(letters, e, i, [&] { all[out.at(i)] = 0; });
    const int64_t of_group = c.filters / c.groups, channels = c.channels / c.groups;
    each_index("npqkrsd", e, i, [&] {
      i['h'] = i['p'] * c.along[0].step - c.along[0].before + i['r'] * c.along[0].spread;
      i['w'] = i['q'] * c.along[1].step - c.along[1].before + i['s'] * c.along[1].spread;
      i['c'] = i['k'] / of_group * channels + i['d'];
      if (i['h'] < 0 || i['w'] < 0 || i['h'] >= c.extents[0] || i['w'] >= c.extents[1]) return;
      const auto value = [&](const ContractionData& of) { return of.values()[of.at(i)]; };
      if (result == ConvolutionResult::y) all[y.at(i)] += value(x) * value(w);
      if (result == ConvolutionResult::x) all[x.at(i)] += value(y) * value(w);
      if (result == ConvolutionResult::w) all[w.at(i)] += value(y) * value(x);
    });
    if (result == ConvolutionResult::y)
      each_index("npqk", e, i, [&] {
        double& value = all[y.at(i)];
        if (c.bias) value += biases[static_cast<size_t>(i['k'])];
        if (c.activation == kernels::Activation::relu) value = std::max(value, 0.0);
      });
    return all;
  }
  // Returns the contents of the result's memory after a call.
  std::vector<double> found(kernels::Convolution& convolution, ConvolutionArguments p) {
    for (ContractionData* one : {&x, &w, &y}) one->to_device();
    runtime::Buffer workspace;
    if (const size_t bytes = convolution.workspace_bytes(p)) {
      p.workspace = workspace = runtime::Buffer(device, bytes);
      workspace.fill(0xff);
    }
    convolution(p);
    device.synchronize();
    return (result == ConvolutionResult::y ? y : result == ConvolutionResult::x ? x : w).from_device();
  }
  // Returns what is wrong, or "" if nothing is. Memory between and around the elements must not change.
  std::string wrong(kernels::Convolution& convolution) { return wrong(convolution, expected()); }
  std::string wrong(kernels::Convolution& convolution, const std::vector<double>& right) {
    const std::vector<double> is = found(convolution, arguments());
    const double lost = c.out == DType::bf16 ? 1.0 / 256 : c.out == DType::f16 ? 1.0 / 2048 : 0;
    for (size_t i = 0; i < is.size(); ++i)
      if (!(std::abs(is[i] - right[i]) <= lost * std::abs(right[i])))
        return fmt::format("element {} of the result's memory is {} instead of {}; {}", i, is[i], right[i],
                           convolution.explain(arguments()));
    return "";
  }

  std::map<char, int64_t> extents() const {
    return {{'n', c.images},     {'h', c.extents[0]}, {'w', c.extents[1]}, {'c', c.channels},
            {'k', c.filters},    {'r', c.taps[0]},    {'s', c.taps[1]},    {'d', c.channels / c.groups},
            {'p', c.windows(0)}, {'q', c.windows(1)}};
  }
  ContractionData tensor(const std::string& letters, ConvolutionResult which, int64_t gap) const {
    ContractionCase lie;
    lie.extents = extents();
    ContractionLie order{{letters.rbegin(), letters.rend()}};
    if (gap != 0) order.gaps[letters.back()] = gap;
    return {device, letters, lie, order, which == result ? c.out : c.type};
  }

  runtime::Device& device;
  ConvolutionCase c;
  ConvolutionResult result;
  ContractionData x, w, y;
  std::vector<double> biases;
  std::vector<std::byte> bias_bytes;
  runtime::Buffer bias;
};

// Draws a convolution with windows of any place and size, over images that hold at least one window.
inline ConvolutionCase drawn_convolution(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t end) { return static_cast<int64_t>(random() % end); };
  ConvolutionCase c;
  c.seed = seed;
  c.images = 1 + below(3);
  c.groups = below(4) == 0 ? 2 : 1;
  const std::array<int64_t, 6> channels = {8, 16, 24, 64, 72, 3};
  c.channels = channels[static_cast<size_t>(below(6))] * c.groups;
  c.filters = channels[static_cast<size_t>(below(6))] * c.groups;
  for (size_t d = 0; d < 2; ++d) {
    const std::array<int64_t, 4> taps = {1, 3, 3, 2};
    ConvolutionArguments::Along& a = c.along[d];
    c.taps[d] = taps[static_cast<size_t>(below(4))];
    a.step = 1 + (below(2) == 0 ? below(3) : 0);
    a.spread = 1 + (below(3) == 0 ? below(2) : 0);
    a.before = below(3), a.behind = below(2) == 0 ? a.before : below(3);
    const int64_t reach = a.spread * (c.taps[d] - 1) + 1 - a.before - a.behind;
    c.extents[d] = std::max<int64_t>(reach, 1) + below(7);
  }
  c.type = below(2) == 0 ? DType::bf16 : DType::f16;
  c.out = below(4) == 0 ? DType::f32 : c.type;
  c.bias = below(2) == 0;
  if (below(2) == 0) c.activation = kernels::Activation::relu;
  if (below(4) == 0) c.gaps = {8 * below(2), 8 * below(3), 0};
  return c;
}

}  // namespace ptxbuilder::test
