#include "ptxbuilder/tile/pipeline_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/ir/open_body.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::detail {
namespace {

int threads_of(const std::vector<BlockSpec>& specs, int threads) {
  return std::any_of(specs.begin(), specs.end(), [](const BlockSpec& s) { return s.by_threads(); }) ? threads
                                                                                                    : 0;
}

}  // namespace

bool in_role() { return TileContext::of(Builder::current()).role >= 0; }

PipelineParts::PipelineParts(Kernel& k, std::string op, std::vector<BlockSpec> in, std::vector<BlockSpec> out,
                             int stages, int loading, int computing, bool of_tiles, bool manual_release)
    : operation(std::move(op)), load_threads(threads_of(in, loading)), compute_warpgroups(computing) {
  const auto refuse = [&](size_t input, const std::string& rule) {
    throw Error(fmt::format("{}: in {}: {}", operation, input, rule));
  };
  if (!in_role() && (open_body & Region::kKernel) == 0)
    throw Error(
        fmt::format("{}: it must be outside of branches and loops, since its barriers are made once; pass "
                    "the loop's steps as an axis of the grid, or as SpecializedOptions::tiles (for steps "
                    "from a counter, use DynamicSteps::order())",
                    operation));
  if (stages < 1)
    throw Error(
        fmt::format("{}: {} stages were requested, but there must be at least one", operation, stages));
  if (in.empty())
    throw Error(fmt::format("{}: no inputs were given, but a pipeline must have at least one", operation));
  for (size_t i = 0; i < in.size(); ++i) {
    const BlockOptions& o = in[i].options();
    if (o.delay_release < 0 || (o.delay_release > 0 && o.delay_release >= stages))
      refuse(i, fmt::format("delay_release is {}, but must be less than the number of stages, {}",
                            o.delay_release, stages));
    if (o.delay_release > 0 && manual_release)
      refuse(i,
             "delay_release cannot be combined with manual_release, since the body then hands stages back");
    if (o.delay_release > 0 && o.fixed)
      refuse(i,
             "delay_release is not possible for a fixed block, because it is handed back when the run ends");
    if (o.fixed_stages < 1 || (o.fixed_stages > 1 && !(o.fixed && of_tiles)))
      refuse(i, fmt::format("fixed_stages is {}; {}", o.fixed_stages,
                            o.fixed_stages < 1
                                ? "it must be at least one"
                                : "more than one is only for fixed inputs of a pipeline of tiles"));
    const int of_ring = o.fixed ? o.fixed_stages : stages;
    const auto found = std::find_if(rings.begin(), rings.end(), [&](const Ring& ring) {
      return ring.delay == o.delay_release && ring.fixed == o.fixed && ring.stages == of_ring;
    });
    ring_of.push_back(static_cast<size_t>(found - rings.begin()));
    if (found == rings.end()) rings.push_back({o.delay_release, of_ring, o.fixed, {}, nullptr});
    rings[ring_of.back()].inputs.push_back(i);
  }
  if (std::all_of(rings.begin(), rings.end(), [](const Ring& ring) { return ring.fixed; }))
    throw Error(fmt::format("{}: all inputs are fixed blocks, so no step would wait for any", operation));
  inputs.reserve(in.size());
  for (size_t i = 0; i < in.size(); ++i)
    inputs.emplace_back(k, in[i], rings[ring_of[i]].stages, load_threads, fmt::format("in {}", i));
  for (Ring& ring : rings) {
    std::vector<SharedTile> tiles;
    ClusterAxes axes;
    for (size_t i : ring.inputs) {
      tiles.push_back(inputs[i].tile());
      axes = axes | in[i].options().multicast;
    }
    ring.pipe = load_threads > 0
                    ? std::make_unique<Pipeline>(k, ring.stages, tiles, computing,
                                                 ThreadProducers{load_threads / hopper::warpgroup_threads})
                    : std::make_unique<Pipeline>(k, ring.stages, tiles, computing, axes);
    if (rings.size() == 1) continue;
    // The names let reports distinguish the barriers of several rings.
    std::vector<SharedObject>& objects = k.builder().signature().shared;
    for (size_t barriers = objects.size() - 2; barriers < objects.size(); ++barriers)
      objects[barriers].name += fmt::format(" of in {}", ring.inputs[0]);
  }
  outputs.reserve(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const BlockOptions& o = out[i].options();
    if (!o.multicast.empty() || o.delay_release != 0 || o.fill != OobFill::zero || o.fixed_stages != 1)
      throw Error(
          fmt::format("{}: out {} has an option that only inputs can have: multicast, delay_release, fill or "
                      "fixed_stages",
                      operation, i));
    outputs.emplace_back(k, out[i], o.fixed ? 1 : kOutputStages, computing * hopper::warpgroup_threads,
                         fmt::format("out {}", i));
  }
}

}  // namespace ptxbuilder::detail
