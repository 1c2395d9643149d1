// Tests convolutions and their gradients. Random convolutions are compared with float64. Also tests mistakes
// that must be noticed, and refused calls.
//
//   convolution_test [--device=emulator|cuda|auto] [--convolutions=N] [--convolution_seed=S]
#include <doctest/doctest.h>

#include "convolution_kit.h"
#include "error_kit.h"
#include "kernels/call/quick_division.h"
#include "options.h"
#include "runtime/emulator/emulator.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::convolution_test {
using kernels::Convolution;

namespace {

const size_t& count = test::option<size_t>("convolutions", 30);
const uint64_t& seed = test::option<uint64_t>("convolution_seed", 1);

runtime::Device& device() {
  static const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  return *device;
}

// Returns small tiles, some of them swapped, so that even small products have several tiles.
kernels::GemmTile small_tile(const kernels::GemmOperation& operation, const kernels::GemmSize& size,
                             int multiprocessors) {
  for (const auto& [bn, swapped] :
       {std::pair{64, size.m % 3 == 0}, {64, false}, {32, size.m % 3 == 0}, {32, false}}) {
    kernels::GemmTile t;
    t.bm = 64, t.bn = bn, t.consumers = 1, t.stages = 2, t.swapped = swapped;
    if (kernels::plan_of(operation, t).plan) return t;
  }
  return kernels::choose(operation, size, multiprocessors);
}

Convolution& convolution() {
  static Convolution convolution = [] {
    kernels::MatmulOptions options;
    if (device().wants_ptx()) options.choose = small_tile;
    return Convolution(device(), options);
  }();
  return convolution;
}

void check_case(const ConvolutionCase& c, ConvolutionResult result) {
  CAPTURE(text(c));
  CAPTURE(static_cast<int>(result));
  // Each case has its own schedule.
  if (auto* emulator = dynamic_cast<runtime::Emulator*>(&device())) emulator->seed(c.seed);
  std::string problem;
  try {
    problem = ConvolutionTrial(device(), c, result).wrong(convolution());
  } catch (const Error& e) {
    problem = e.what();
  }
  CHECK_MESSAGE(problem.empty(), problem);
}

}  // namespace

TEST_CASE("drawn convolutions are right, and touch nothing else") {
  for (size_t i = 0; i < count; ++i) check_case(drawn_convolution(seed * 1000 + i), ConvolutionResult::y);
}

TEST_CASE("drawn gradients of x are right, and touch nothing else") {
  for (size_t i = 0; i < count; ++i) {
    ConvolutionCase c = drawn_convolution(seed * 2000 + i);
    c.gaps = {};
    check_case(c, ConvolutionResult::x);
  }
}

TEST_CASE("drawn gradients of w are right, and touch nothing else") {
  for (size_t i = 0; i < count; ++i) check_case(drawn_convolution(seed * 3000 + i), ConvolutionResult::w);
}

TEST_CASE("every tile of clusters, exchanged operands and divided sums takes windows") {
  ConvolutionCase c{.images = 3, .channels = 72, .filters = 136, .extents = {5, 7}, .bias = true};
  for (auto& a : c.along) a = {.before = 1, .behind = 1};
  ConvolutionTrial trial(device(), c, ConvolutionResult::y);
  const std::vector<double> right = trial.expected();
  for (const char* tile : {"128x64x64_3_2x1_w2", "64x64x64_3_2x1_w1_swap", "64x128x64_3_w1_k2",
                           "128x128x64_3_pp", "64x128x64_3_w1_s2", "192x96x64_3_w3", "64x64x64_3_w1_in"}) {
    CAPTURE(tile);
    kernels::MatmulOptions options;
    options.choose = [&](const auto& o, const auto& size, int) {
      kernels::GemmTile t = kernels::parse_tile(tile);
      if (t.swapped && size.m < size.n) t.swapped = false;
      if (o.windows == kernels::WindowsOf::b) t.cluster_m = 1;
      if (t.swapped) std::swap(t.cluster_m, t.cluster_n);
      return t;
    };
    Convolution chosen(device(), options);
    const std::string problem = trial.wrong(chosen, right);
    CHECK_MESSAGE(problem.empty(), problem);
  }
}

TEST_CASE("windows of few channels have a line's taps side by side, from a copy") {
  for (const auto& [channels, taps, step] :
       {std::tuple{3, 7, 2}, {3, 3, 1}, {1, 5, 4}, {8, 3, 1}, {4, 2, 2}, {5, 3, 3}, {7, 9, 1}})
    for (const ConvolutionResult result : {ConvolutionResult::y, ConvolutionResult::w}) {
      ConvolutionCase c{
          .images = 2, .channels = channels, .filters = 24, .extents = {11, 13}, .out = DType::f32};
      c.taps = {3, taps}, c.seed = static_cast<uint64_t>(channels);
      c.along[0] = {.step = 2, .before = 1, .behind = 2},
      c.along[1] = {.step = step, .before = 3, .behind = 1};
      check_case(c, result);
      const std::string text = convolution().explain(ConvolutionTrial(device(), c, result).arguments());
      CHECK_MESSAGE(text.find("workspace") != std::string::npos, text);
    }
}

TEST_CASE("lines of few channels are together where windows step over them") {
  // (channels, taps and step along the lines, step along the pixels, taps of the product, and their reach).
  for (const auto& [channels, taps, down, across, lines, reach] : {std::tuple{3, 7, 2, 2, 4, 56},
                                                                   {3, 6, 2, 1, 3, 56},
                                                                   {2, 7, 3, 1, 7, 56},
                                                                   {8, 4, 4, 2, 1, 224},
                                                                   {3, 3, 1, 2, 3, 28},
                                                                   {3, 1, 2, 2, 1, 28}})
    for (const ConvolutionResult result : {ConvolutionResult::y, ConvolutionResult::w}) {
      ConvolutionCase c{
          .images = 2, .channels = channels, .filters = 16, .extents = {12, 10}, .out = DType::f32};
      c.taps = {taps, 7}, c.seed = static_cast<uint64_t>(10 * channels + taps);
      c.along[0] = {.step = down, .before = 3, .behind = 2};
      c.along[1] = {.step = across, .before = 2, .behind = 3};
      check_case(c, result);
      const std::string text = convolution().explain(ConvolutionTrial(device(), c, result).arguments());
      const char* axis = result == ConvolutionResult::y ? " x {} with windows of A" : " x {} x ";
      CHECK_MESSAGE(text.find(fmt::format(fmt::runtime(axis), lines * reach)) != std::string::npos, text);
    }
}

TEST_CASE("lines of windows of few channels are modes of m, where y can have the same") {
  ConvolutionCase c{.images = 2, .channels = 3, .filters = 16, .extents = {32, 32}, .taps = {7, 7}};
  for (auto& a : c.along) a = {.step = 2, .before = 3, .behind = 3};
  const auto text_of = [&](const ConvolutionCase& one) {
    return convolution().explain(ConvolutionTrial(device(), one, ConvolutionResult::y).arguments());
  };
  const auto check = [&](const ConvolutionCase& one, const char* text) {
    check_case(one, ConvolutionResult::y);
    CHECK_MESSAGE(text_of(one).find(text) != std::string::npos, text_of(one));
  };
  check(c, "x 224 with lines of A");
  ConvolutionCase hanging = c;  // tiles of 16 x 8 windows extend beyond lines of 15 and images of 15
  hanging.extents = {30, 31}, hanging.out = DType::f32, hanging.gaps = {0, 0, 8}, hanging.seed = 2;
  check(hanging, "with lines of A");
  ConvolutionCase spread = c;
  spread.along[0] = {.step = 2, .before = 4, .behind = 4, .spread = 2}, spread.taps[0] = 5, spread.seed = 3;
  check(spread, "with lines of A");
  ConvolutionCase short_lines = c;  // tiles would extend far beyond short lines
  short_lines.extents = {20, 17};
  check(short_lines, "with windows of A");
  ConvolutionCase added = c;
  added.bias = true;
  check(added, "with windows of A");
  ConvolutionCase odd = c;  // lines of y are not multiples of 16 bytes
  odd.filters = 12;
  check(odd, "with windows of A");
}

TEST_CASE("a halo of the wrong side, a neighbour's pixel and the other dimension's spread show") {
  ConvolutionCase c{.images = 2, .channels = 16, .filters = 24, .extents = {9, 9}, .out = DType::f32};
  c.along[0] = {.before = 2, .spread = 1}, c.along[1] = {.before = 2, .behind = 2, .spread = 2};
  c.along[0].behind = 0;
  for (const ConvolutionResult result : {ConvolutionResult::y, ConvolutionResult::x, ConvolutionResult::w}) {
    CAPTURE(static_cast<int>(result));
    ConvolutionTrial trial(device(), c, result);
    const std::vector<double> right = trial.expected();
    const ConvolutionArguments p = trial.arguments();
    CHECK(trial.found(convolution(), p) == right);
    ConvolutionArguments halo = p;
    std::swap(halo.along_h.before, halo.along_h.behind);
    CHECK(trial.found(convolution(), halo) != right);
    ConvolutionArguments neighbour = p;
    neighbour.along_w.before -= 1, neighbour.along_w.behind += 1;
    CHECK(trial.found(convolution(), neighbour) != right);
    ConvolutionArguments other = p;
    std::swap(other.along_h, other.along_w);
    std::swap(other.along_h.before, other.along_w.before),
        std::swap(other.along_h.behind, other.along_w.behind);
    other.along_h.behind += 2, other.along_w.behind -= 2;
    CHECK(trial.found(convolution(), other) != right);
  }
}

TEST_CASE("misuse of a convolution is named, and its twin is accepted") {
  ConvolutionCase c{.images = 1, .channels = 16, .filters = 8, .extents = {5, 6}, .bias = true};
  ConvolutionTrial trial(device(), c, ConvolutionResult::y);
  const ConvolutionArguments right = trial.arguments();
  CHECK(convolution().workspace_bytes(right) == 0);
  const auto refused = [&](auto&& change) {
    return [&, change] {
      ConvolutionArguments p = right;
      change(p);
      convolution()(p);
    };
  };
  convolution()(right);
  CHECK_ERROR(refused([](auto& p) { p.along_w.before = 1; })(),
              "y is [1, 3, 4, 8] for x of [1, 5, 6, 16] and w of [8, 3, 3, 16], but must be [1, 3, 5, 8]");
  CHECK_ERROR(refused([](auto& p) { p.along_h.step = 9; })(), "along h, the step is 9");
  CHECK_ERROR(refused([](auto& p) { p.groups = 3; })(), "3 groups of 16 channels and 8 filters");
  CHECK_ERROR(refused([](auto& p) { p.groups = 2; })(), "filters of 16 channels for 2 groups of x's 16");
  CHECK_ERROR(refused([](auto& p) {
                p.x.strides = {480, 6, 1, 30};
              })(),
              "x has a stride of 30 along its channels");
  CHECK_ERROR(refused([](auto& p) { p.y.extents.pop_back(), p.y.strides.clear(); })(),
              "but must have 4 dimensions");
  CHECK_ERROR(refused([](auto& p) { p.x.memory.bytes -= 2 * 256; })(), "but the memory has");
  CHECK_ERROR(refused([](auto& p) { p.y.memory.address = p.x.memory.address; })(), "y overlaps x");
  CHECK_ERROR(refused([](auto& p) { p.bias.bytes = 2; })(), "bias has 2 B");
  CHECK_ERROR(refused([](auto& p) { p.result = ConvolutionResult::x; })(),
              "a gradient cannot have a bias or an activation");
  ConvolutionCase stepped{.channels = 16, .filters = 8, .extents = {5, 6}};
  stepped.along[0].step = 2;
  ConvolutionTrial scattered(device(), stepped, ConvolutionResult::x);
  CHECK(convolution().workspace_bytes(scattered.arguments()) > 0);
  CHECK_ERROR(convolution()(scattered.arguments()), "convolution: this call needs a workspace");
}

TEST_CASE("a product and a shift divide every number below 2^31") {
  std::mt19937_64 random(3);
  constexpr uint64_t kEnd = uint64_t{1} << 31;
  const auto wrong = [](uint64_t divisor, uint64_t number) {
    const kernels::Reciprocal by(static_cast<int64_t>(divisor));
    return number * by.factor >> by.shift != number / divisor;
  };
  int count = 0;
  for (uint64_t i = 0; i < 200000; ++i) {
    const uint64_t divisor = i < 5000 ? i + 1 : (random() % kEnd >> random() % 31) + 1;
    const uint64_t multiple = kEnd / divisor * divisor;
    for (const uint64_t number : {random() % kEnd, multiple - 1, multiple < kEnd ? multiple : 0, kEnd - 1})
      count += wrong(divisor, number);
  }
  CHECK(count == 0);
}

TEST_CASE("a product of windows says what does not go with them") {
  kernels::Matmul matmul(device());
  kernels::ProductModes modes;
  modes.windows_of = kernels::WindowsOf::a;
  modes.windows = {{.extent = 6, .stride = 8, .count = 4, .taps = 3},
                   {.extent = 5, .stride = 48, .count = 3, .taps = 3},
                   8,
                   2,
                   240};
  modes.m.add({.extent = 24, .d = 16});
  modes.n.add({.extent = 16, .b = 72, .d = 1});
  for (const int64_t extent : {8, 3, 3}) modes.k.add({.extent = extent, .a = 1, .b = extent == 8 ? 1 : 8});
  kernels::MatmulArguments p;
  p.m = 24, p.n = 16, p.k = 72, p.modes = &modes;
  p.a = {.memory = {4096, 960}}, p.b = {.memory = {8192, 1 << 14}}, p.d = {.memory = {1 << 16, 1 << 12}};
  (void)matmul.workspace_bytes(p);
  const auto refused = [&](auto&& change) {
    const kernels::ProductModes right = modes;
    change();
    std::string error;
    try {
      (void)matmul.workspace_bytes(p);
    } catch (const Error& e) {
      error = e.what();
    }
    modes = right;
    return error;
  };
  CHECK(refused([&] { modes.windows.images = 3; }).find("36 windows in 3 images, but m is 24 in 1 modes") !=
        std::string::npos);
  CHECK(refused([&] { modes.windows.h.taps = 1; }).find("windows of 1 x 3 taps of 8 channels, but k is 72") !=
        std::string::npos);
  CHECK(refused([&] { modes.windows.h.extent = 6; }).find("A of bf16: 6 x 8 elements") != std::string::npos);
  kernels::GemmOperation o;
  o.k_modes = 3, o.windows = kernels::WindowsOf::a;
  const auto refusal = [&](const char* tile) {
    return kernels::plan_of(o, kernels::parse_tile(tile)).refusal;
  };
  CHECK(refusal("128x64x64_3_2x1").empty());
  CHECK(refusal("128x64x64_3_1x2")
            .find("2 CTAs cannot load windows together, since each loads its own: use no cluster along "
                  "columns") != std::string::npos);
  CHECK(refusal("64x64x128_3_w1").find("depth 128 with windows; a stage must have 128 B, 64 bf16") !=
        std::string::npos);
  o.a_k_major = false;
  CHECK(refusal("128x64x64_3").find("the operand A has windows and is stored along m") != std::string::npos);
  o.a_k_major = true, o.batched = true;
  CHECK(refusal("128x64x64_3").find("windows cannot be used with batches") != std::string::npos);
}

}  // namespace ptxbuilder::test::convolution_test
