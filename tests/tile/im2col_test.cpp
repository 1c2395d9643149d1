// Compares loads of pixels in im2col mode, through a pipeline, with the elements of windows over images.
//
//   im2col_test [--device=emulator|cuda|auto]
#include <fmt/format.h>

#include <random>

#include "copy_kit.h"
#include "kernels/export/export.h"
#include "library_kit.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/tma.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test::im2col_test {
namespace {

constexpr int kStages = 2;

// Windows over images. Each list has the dimensions between channels and images, innermost first.
struct Windows {
  int rows, cols;  // pixels and channels of a tile
  Swizzle swizzle;
  int64_t channels, images;
  std::vector<int64_t> extents = {}, taps = {}, step = {}, spread = {}, before = {},
                       behind = {};  // `before` and `behind` pad an image

  size_t dimensions() const { return extents.size(); }
  int64_t count(size_t d) const {  // number of windows
    return (extents[d] + before[d] + behind[d] - spread[d] * (taps[d] - 1) - 1) / step[d] + 1;
  }
  int64_t all(int64_t (Windows::*of)(size_t) const) const {
    int64_t product = 1;
    for (size_t d = 0; d < dimensions(); ++d) product *= (this->*of)(d);
    return product;
  }
  int64_t taps_along(size_t d) const { return taps[d]; }
  int64_t pixels() const { return images * all(&Windows::count); }
  int64_t tiles() const { return (pixels() + rows - 1) / rows; }
  int64_t chunks() const { return (channels + cols - 1) / cols; }
  int64_t loads() const { return all(&Windows::taps_along) * chunks(); }  // number of loads of a tile

  runtime::Im2col walk() const {
    runtime::Im2col w;
    for (size_t d = 0; d < dimensions(); ++d) {
      w.lower.push_back(static_cast<int>(-before[d]));
      w.upper.push_back(static_cast<int>(behind[d] - spread[d] * (taps[d] - 1)));
      w.steps.push_back(static_cast<uint32_t>(step[d]));
    }
    return w;
  }
  std::string text() const {
    return fmt::format("{} x {} by {} of {} images [{}] of {} channels, taps [{}], step [{}], spread [{}]",
                       rows, cols, name(swizzle), images, fmt::join(extents, ","), channels,
                       fmt::join(taps, ","), fmt::join(step, ","), fmt::join(spread, ","));
  }
};

// Each CTA loads a tile of pixels into out[tile][tap][chunk]. One warpgroup loads, and another reads.
Kernel windows_of_tiles(const Windows& w) {
  Kernel k("windows_of_tiles");
  auto [X, out] = k.params<TensorMap, gptr<bf16>>("X", "out");
  const SharedTile tile = k.shared(DType::bf16, {w.rows, w.cols}, w.swizzle, kStages, "pixels");
  const Pipeline pipe(k, kStages, {tile}, 1);
  const auto whole = [](int64_t x) { return static_cast<uint32_t>(x); };
  const auto loads = whole(w.loads()), chunks = whole(w.chunks());
  k.warpgroups(1, 40, [&](u32) {
    elect([&] {
      auto ring = pipe.producer();
      std::vector<u32> at = {0};
      u32 rest = ctaid_x() * whole(w.rows);
      for (size_t d = 0; d < w.dimensions(); ++d) {
        const u32 next = rest / whole(w.count(d));
        at.push_back((rest - next * whole(w.count(d))) * whole(w.step[d]) - whole(w.before[d]));
        rest = next;
      }
      at.push_back(rest);
      for_(0u, u32(loads), [&](u32 i) {
        auto s = ring.acquire();
        u32 tap = i / chunks;
        std::vector<u32> from = at;
        from[0] = (i - tap * chunks) * whole(w.cols);
        Im2colOffsets offsets;
        for (size_t d = 0; d < w.dimensions(); ++d) {
          const u32 next = tap / whole(w.taps[d]);
          offsets.along.push_back((tap - next * whole(w.taps[d])) * whole(w.spread[d]));
          tap = next;
        }
        tma_load(tile[s], X, from, offsets);
      });
    });
  });
  k.warpgroups(1, 232, [&](u32) {
    auto ring = pipe.consumer();
    const TiledCopy copy(CopyAtom::vector(16), DType::bf16, threads_along_rows(w.rows, w.cols, 128, 8),
                         tile[0].layout());
    for_(0u, u32(loads), [&](u32 i) {
      auto s = ring.wait();
      const u32 row = (ctaid_x() * loads + i) * whole(w.rows);
      store(copy, GlobalTile{out + u64(row * whole(w.cols)), whole(w.cols)}, tid_x() & 127,
            load(copy, tile[s].address(), tid_x() & 127));
      bar_warp_sync(0xffffffff);  // all lanes have read
      ring.release(s);
    });
  });
  return k;
}

std::vector<uint16_t> expected(const Windows& w, const std::vector<uint16_t>& in) {
  std::vector<uint16_t> out(static_cast<size_t>(w.tiles() * w.loads() * w.rows * w.cols), 0);
  size_t to = 0;
  for (int64_t tile = 0; tile < w.tiles(); ++tile)
    for (int64_t load = 0; load < w.loads(); ++load)
      for (int64_t row = 0; row < w.rows; ++row)
        for (int64_t col = 0; col < w.cols; ++col, ++to) {
          const int64_t channel = load % w.chunks() * w.cols + col;
          int64_t pixel = tile * w.rows + row, tap = load / w.chunks(), element = channel, plane = w.channels;
          bool inside = channel < w.channels;
          for (size_t d = 0; d < w.dimensions(); ++d) {
            const int64_t at = pixel % w.count(d) * w.step[d] - w.before[d] + tap % w.taps[d] * w.spread[d];
            inside = inside && at >= 0 && at < w.extents[d];
            element += at * plane;
            plane *= w.extents[d];
            pixel /= w.count(d), tap /= w.taps[d];
          }
          if (inside && pixel < w.images) out[to] = in[static_cast<size_t>(element + pixel * plane)];
        }
  return out;
}

std::vector<uint16_t> run(const Running& running, const Windows& w, const std::vector<uint16_t>& in,
                          const runtime::Im2col& walk) {
  const runtime::Buffer x = runtime::Buffer::of(*running.device, in);
  runtime::Buffer out(*running.device, static_cast<size_t>(w.tiles() * w.loads() * w.rows * w.cols) * 2);
  out.fill(0xa5);
  std::vector<uint64_t> shape = {static_cast<uint64_t>(w.channels)};
  for (const int64_t extent : w.extents) shape.push_back(static_cast<uint64_t>(extent));
  shape.push_back(static_cast<uint64_t>(w.images));
  launch(running, windows_of_tiles(w), {static_cast<uint32_t>(w.tiles()), 1, 1},
         {runtime::im2col(runtime::tensor(x, DType::bf16, std::span<const uint64_t>(shape)), walk),
          runtime::pointer(out, DType::bf16)});
  return out.copy_out<uint16_t>();
}

struct Drawing {
  std::mt19937 random;
  int64_t operator()(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  }
};

Windows drawn(Drawing& draw, size_t dimensions) {
  constexpr std::array swizzles = {Swizzle::b32, Swizzle::b64, Swizzle::b128};
  const int cols = 16 << draw(0, 2);
  Windows w{.rows = static_cast<int>(64 << draw(0, 1)),
            .cols = cols,
            .swizzle = swizzles[cols == 16   ? 0
                                : cols == 32 ? 1
                                             : 2],
            .channels = 8 * draw(1, 10),
            .images = draw(1, 3)};
  for (size_t d = 0; d < dimensions; ++d) {
    w.taps.push_back(draw(1, 3));
    w.step.push_back(draw(1, 3));
    w.spread.push_back(draw(1, 3));
    w.before.push_back(draw(0, 3));
    w.behind.push_back(draw(0, 3));
    const int64_t reach = w.spread[d] * (w.taps[d] - 1) + 1 - w.before[d] - w.behind[d];
    w.extents.push_back(std::max<int64_t>(1, reach) + draw(0, 6));
  }
  return w;
}

std::vector<uint16_t> elements(const Windows& w, Drawing& draw) {
  int64_t count = w.channels * w.images;
  for (const int64_t extent : w.extents) count *= extent;
  std::vector<uint16_t> in(static_cast<size_t>(count));
  for (uint16_t& x : in) x = static_cast<uint16_t>(draw(1, 0x7f7f));
  return in;
}

}  // namespace

TEST_CASE("pixels of random windows are loaded in order, in one to three dimensions") {
  Running running;
  Drawing draw{std::mt19937(20261127)};
  for (int i = 0; i < 18; ++i) {
    const Windows w = drawn(draw, static_cast<size_t>(i % 3 + 1));
    CAPTURE(w.text());
    const std::vector<uint16_t> in = elements(w, draw);
    CHECK(run(running, w, in, w.walk()) == expected(w, in));
  }
}

TEST_CASE("a wrong corner, step or dimension is noticed") {
  Running running;
  Drawing draw{std::mt19937(7)};
  const Windows w{.rows = 64,
                  .cols = 32,
                  .swizzle = Swizzle::b64,
                  .channels = 40,
                  .images = 2,
                  .extents = {9, 7},
                  .taps = {3, 3},
                  .step = {1, 2},
                  .spread = {2, 1},
                  .before = {2, 1},
                  .behind = {2, 1}};
  const std::vector<uint16_t> in = elements(w, draw), right = expected(w, in);
  CHECK(run(running, w, in, w.walk()) == right);
  const auto differs = [&](const char* what, auto&& change) {
    CAPTURE(what);
    runtime::Im2col walk = w.walk();
    change(walk);
    CHECK(run(running, w, in, walk) != right);
  };
  differs("a halo of the wrong side", [](runtime::Im2col& walk) { walk.lower[0] -= 1, walk.upper[0] -= 1; });
  differs("a row of windows too many", [](runtime::Im2col& walk) { walk.upper[1] += 2; });
  differs("the step of the other dimension",
          [](runtime::Im2col& walk) { std::swap(walk.steps[0], walk.steps[1]); });
  Windows other = w;
  std::swap(other.spread[0], other.spread[1]);
  CHECK(expected(other, in) != right);
}

// An H100 stops as well, but the test could not continue after that.
TEST_CASE("a first pixel before the lower corner is reported") {
  const Running running;
  if (!dynamic_cast<const runtime::Emulator*>(running.device.get())) return;
  const Windows w{64, 32, Swizzle::b64, 32, 1, {9, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  Drawing draw{std::mt19937(3)};
  const std::vector<uint16_t> in = elements(w, draw);
  for (size_t d = 0; d < 2; ++d) {
    runtime::Im2col walk = w.walk();
    CHECK(run(Running(), w, in, walk) == expected(w, in));
    ++walk.lower[d];
    CHECK_ERROR(
        run(Running(), w, in, walk),
        fmt::format("the first pixel is at -1 along dimension {}, before the map's lower corner, 0", d + 1));
  }
}

TEST_CASE("misuse of pixels is named, and its twin is accepted") {
  const auto build = [](TileShape shape, size_t coordinates, size_t offsets, bool shared = false) {
    Kernel k("misuse");
    auto [X] = k.params<TensorMap>("X");
    if (shared) k.cluster(2, 1, 1);
    const SharedTile tile = k.shared(DType::bf16, shape, Swizzle::b64, 1, "pixels");
    Barriers bar(k, {1});
    const std::vector<u32> at(coordinates, u32(0));
    const Im2colOffsets offset{std::vector<u32>(offsets, u32(0))};
    const auto to = tile[0].expecting(bar[0]);
    elect([&] {
      if (shared)
        tma_load(to.multicast(ClusterAxis::x), X, at, offset);
      else
        tma_load(to, X, at, offset);
    });
  };
  build({64, 32}, 4, 2);
  build({1024, 32}, 3, 1);
  CHECK_ERROR(build({64, 32}, 4, 1), "1 offsets of pixels were given for 4 coordinates");
  CHECK_ERROR(build({1032, 32}, 3, 1), "1032 pixels of 32 channels");
  CHECK_ERROR(build({64, 32}, 4, 2, true), "2 CTAs share the pixels, but each CTA must load its own");
  Running running;
  const Windows w{64, 32, Swizzle::b64, 32, 1, {8}, {1}, {1}, {1}, {0}, {0}};
  const std::vector<uint16_t> in(32 * 8, 1);
  CHECK(run(running, w, in, w.walk()) == expected(w, in));
  CHECK_ERROR(run(running, w, in, {{0, 0}, {0}}), "an im2col map of rank 3 needs 1");
  const runtime::Buffer x = runtime::Buffer::of(*running.device, in);
  CHECK_ERROR(launch(running, windows_of_tiles(w), {1, 1, 1},
                     {runtime::tensor(x, DType::bf16, {32, 8, 1}), runtime::pointer(x, DType::bf16)}),
              "the map is for pixels, but a tensor without corners was given");
  const Compiled compiled = running.compile(windows_of_tiles(w));
  CHECK_ERROR(command::check({.name = "k", .summary = "", .kernels = {{compiled.signature, compiled.ptx}}}),
              "reads 'X' as pixels (im2col)");
}

}  // namespace ptxbuilder::test::im2col_test
