// Tests sums of a tile over CTAs through global memory. They must have the exact bits of additions in the
// order of ranks, on every schedule. A launch must leave its marks in the state that the next launch needs.
//
//   global_sum_test [--device=emulator|cuda|auto]
#include "ptxbuilder/product/global_sum.h"

#include <fmt/format.h>

#include <random>

#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/registers/memory.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test::global_sum_test {
namespace {

constexpr int kRows = 64, kCols = 192, kConsumers = 2;
constexpr uint32_t kTiles = 2;

// CTA t + r kTiles has part r of tile t: separate rows of `from`, kRows for each warpgroup. Either all CTAs
// or only the CTA of rank 0 complete the parts. They store them to `to`, one tile below the other.
struct Division {
  uint32_t parts;
  bool by_all;
  int piece_cols;
  int apart =
      1;  // distance between the places of a tile: 1, or kTiles if places of different tiles alternate
};

Kernel sums(const Division& d) {
  Kernel k("sums");
  auto [from, to, memory] = k.params<gptr<f32>, gptr<f32>, gptr<f32>>("from", "to", "memory");
  k.warpgroups(kConsumers, 0, [&, from = from, to = to, memory = memory](u32 wg) {
    const GlobalSum sum(kRows, kCols, d.piece_cols, kConsumers, static_cast<int>(d.parts), d.apart, memory);
    const u32 tile = ctaid_x() % kTiles;
    const TileParts parts = {d.parts, ctaid_x() / kTiles, d.by_all ? d.parts : 1,
                             d.apart == 1 ? tile * d.parts : tile};
    GlobalTensor in(from, {nctaid_x() * (kConsumers * kRows), kCols}),
        out(to, {u32(kTiles * kConsumers * kRows), kCols});
    Accumulator acc(kRows, kCols);
    store(acc, load(in.tile((ctaid_x() * kConsumers + wg) * kRows, 0), acc.layout()));
    sum.give(acc, parts);
    sum.complete(parts, [&](u32 piece, const RegisterTile<f32>& x) {
      store(out.tile((tile * kConsumers + wg) * kRows, piece * d.piece_cols), x);
    });
  });
  return k;
}

std::vector<float> random_floats(size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

// Returns the sums of each element over all ranks, in the order of ranks.
std::vector<float> expected(const Division& d, const std::vector<float>& from) {
  constexpr size_t kPart = size_t{kConsumers} * kRows * kCols;
  std::vector<float> to(kTiles * kPart, 0);
  for (size_t tile = 0; tile < kTiles; ++tile)
    for (size_t rank = 0; rank < d.parts; ++rank)
      for (size_t i = 0; i < kPart; ++i) to[tile * kPart + i] += from[(tile + rank * kTiles) * kPart + i];
  return to;
}

}  // namespace

TEST_CASE("CTAs add up in one order, on every schedule, launch after launch in the same memory") {
  Running running;
  auto* emulator = dynamic_cast<runtime::Emulator*>(running.device.get());
  std::mt19937_64 random(1);
  for (const Division& d : {Division{2, true, 48},
                            {3, true, 96},
                            {5, true, 48, kTiles},
                            {7, true, 24},
                            {18, true, 8},
                            {2, false, 96}}) {
    const uint32_t ctas = d.parts * kTiles;
    Compiled compiled = running.compile(sums(d));
    runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
    const size_t count = size_t{kConsumers} * kRows * kCols;
    runtime::Buffer memory(*running.device, GlobalSum::bytes(kRows, kCols, kConsumers, static_cast<int>(ctas),
                                                             static_cast<int>(ctas)));
    memory.fill(0xff);
    runtime::Buffer to(*running.device, 4 * kTiles * count);
    // Seeds 1, 5, 9... of the emulator let CTAs take short turns.
    for (uint64_t seed = 1; seed < 80; seed += 4) {
      if (emulator) emulator->seed(seed);
      const std::vector<float> values = random_floats(ctas * count, random);
      runtime::Buffer from = runtime::Buffer::of(*running.device, values);
      to.fill(0xff);
      kernel.launch({.grid = {ctas}}, {runtime::pointer(from, DType::f32), runtime::pointer(to, DType::f32),
                                       runtime::pointer(memory, DType::f32)});
      running.device->synchronize();
      const std::vector<float> got = to.copy_out<float>(), wanted = expected(d, values);
      const auto wrong = std::mismatch(got.begin(), got.end(), wanted.begin()).first - got.begin();
      CHECK_MESSAGE(got == wanted, fmt::format("{} parts, seed {}: element {}", d.parts, seed, wrong));
    }
  }
}

}  // namespace ptxbuilder::test::global_sum_test
