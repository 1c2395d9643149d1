#include "kernels/tune/our_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/tune/tile_contender.h"

namespace ptxbuilder::bench {
namespace {

using kernels::AttentionArguments;
using kernels::AttentionOperation;
using kernels::AttentionSize;
using kernels::AttentionTile;

// Returns the offset at which each packed sequence begins, and the offset at which the last sequence ends.
std::vector<uint32_t> offsets_of(const AttentionProblem& p) {
  std::vector<uint32_t> offsets = {0};
  for (int64_t length : p.lengths) offsets.push_back(offsets.back() + static_cast<uint32_t>(length));
  return offsets;
}

// Calls attention with one tile and kernels that were compiled in advance.
class Call {
 public:
  Call(const Gpu& gpu, AttentionKernels& kernels, const AttentionProblem& problem,
       const AttentionOperation& operation, const AttentionTile& tile,
       std::span<const AttentionProblem::Set> sets)
      : attention_(gpu.device(), options(kernels, tile)) {
    kernels.want(operation, tile);
    if (problem.packed()) offsets_ = runtime::Buffer::of(gpu.device(), offsets_of(problem));
    const runtime::View offsets = problem.packed() ? runtime::View(offsets_) : runtime::View();
    for (const AttentionProblem::Set& set : sets) arguments_.push_back(arguments(problem, set, offsets));
    const size_t bytes = attention_.workspace_bytes(arguments_.at(0));
    if (bytes == 0) return;
    workspace_ = runtime::Buffer(gpu.device(), bytes);
    for (AttentionArguments& p : arguments_) p.workspace = workspace_;
  }

  void launch(size_t set) { attention_(arguments_.at(set)); }

 private:
  static kernels::AttentionOptions options(AttentionKernels& kernels, const AttentionTile& tile) {
    kernels::AttentionOptions options;
    options.compiler = kernels.compiler();
    options.tuned_file = "";
    options.choose = [tile](const AttentionOperation&, const AttentionSize&, int) { return tile; };
    options.load = [&kernels](const AttentionOperation& o, const AttentionTile& t) {
      return kernels.load(o, t);
    };
    return options;
  }

  kernels::Attention attention_;
  runtime::Buffer offsets_, workspace_;
  std::vector<AttentionArguments> arguments_;  // one for each set
};

struct AttentionForm {
  using Problem = AttentionProblem;
  using Operation = AttentionOperation;
  using Size = AttentionSize;
  using Tile = AttentionTile;
  using Call = bench::Call;
  static std::pair<Operation, Size> place(const Problem& p) {
    const PlacedProblem placed = bench::place(p);
    return {placed.operation, placed.size};
  }
  static Tile checked(const Operation& o, const Size& size, const Tile& tile) {
    check(o, tile);
    check_keys(tile, size);
    return tile;
  }
  static double microseconds(const Operation& o, const Size& size, const Tile& tile, int multiprocessors) {
    return predict(o, size, tile, multiprocessors);
  }
};
using Ours = TileContender<AttentionForm>;

}  // namespace

std::shared_ptr<AttentionKernels> attention_kernels(const Gpu& gpu, const OurOptions& options) {
  return std::make_shared<AttentionKernels>(
      gpu, options,
      [](const AttentionOperation& o, const AttentionTile& t) { return kernels::attention(o, t); });
}

Contenders attention_tiles(const Gpu& gpu, const std::shared_ptr<AttentionKernels>& kernels,
                           const std::vector<AttentionTile>& tiles) {
  Contenders all;
  for (const AttentionTile& tile : tiles)
    all.push_back(std::make_unique<Ours>(
        gpu, kernels, text(tile),
        [tile](const AttentionOperation&, const AttentionSize&, int) { return tile; }, false));
  return all;
}

Contenders our_attention(const Gpu& gpu, const OurOptions& options) {
  const std::shared_ptr<AttentionKernels> kernels = attention_kernels(gpu, options);
  Contenders all;
  all.push_back(std::make_unique<Ours>(gpu, kernels, "ptxbuilder", kernels::choose_attention, true));
  std::vector<AttentionTile> named;
  for (const std::string& word : options.tiles) named.push_back(kernels::parse_attention_tile(word));
  for (std::unique_ptr<Contender>& tile : attention_tiles(gpu, kernels, named))
    all.push_back(std::move(tile));
  for (int i = 0; i < options.candidates; ++i)
    all.push_back(std::make_unique<Ours>(
        gpu, kernels, fmt::format("candidate {}", i + 1),
        [i](const AttentionOperation& o, const AttentionSize& size, int multiprocessors) {
          std::vector<AttentionTile> tiles = kernels::attention_candidates(o, size);
          if (static_cast<size_t>(i) >= tiles.size())
            throw Error(fmt::format("attention has no {} tiles for it", i + 1));
          std::ranges::stable_sort(
              tiles, {}, [&](const AttentionTile& t) { return predict(o, size, t, multiprocessors); });
          return tiles[static_cast<size_t>(i)];
        },
        false));
  return all;
}

}  // namespace ptxbuilder::bench
