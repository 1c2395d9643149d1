#include "runtime/launch_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/launch_rule.h"
#include "runtime/tensor_map.h"

namespace ptxbuilder::runtime {
namespace {

template <class... Args>
[[noreturn]] void refuse(const Signature& signature, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format("launch of '{}': ", signature.kernel) +
              fmt::format(format, std::forward<Args>(args)...));
}

uint64_t count(Dim3 d) { return uint64_t{d.x} * d.y * d.z; }

std::string text(Dim3 d) { return fmt::format("{} x {} x {}", d.x, d.y, d.z); }

void check_grid(const Launch& launch, const Signature& signature) {
  const Dim3 &grid = launch.grid, &cluster = launch.cluster;
  if (grid.x == 0 && grid.y == 0 && grid.z == 0)
    refuse(signature,
           "the grid is missing: state the number of CTAs, as in {{.grid = {{8}}}}, or let the kernel state "
           "a rule, as in k.grid(\"ceil_div(n, 128)\")");
  if (count(grid) == 0 || grid.x > hopper::grid_x || grid.y > hopper::grid_yz || grid.z > hopper::grid_yz)
    refuse(signature, "grid {}: x must be 1 to {}, and y and z 1 to {}", text(grid), hopper::grid_x,
           hopper::grid_yz);
  const char* names = "xyz";
  const uint32_t grids[] = {grid.x, grid.y, grid.z}, clusters[] = {cluster.x, cluster.y, cluster.z};
  for (int i = 0; i < 3; ++i)
    if (grids[i] % clusters[i] != 0)
      refuse(signature, "grid {} is not a multiple of cluster {}: {} % {} = {} in {}; next: {}", text(grid),
             text(cluster), grids[i], clusters[i], grids[i] % clusters[i], names[i],
             (grids[i] / clusters[i] + 1) * clusters[i]);
}

void check_cluster(const Launch& launch, const Signature& signature) {
  const Dim3 compiled = {signature.cluster[0], signature.cluster[1], signature.cluster[2]};
  if (count(launch.cluster) == 0 || count(launch.cluster) > hopper::largest_cluster)
    refuse(signature, "cluster {} = {} CTAs is not in 1 to {} ({} on every GPU, {} where it can be placed)",
           text(launch.cluster), count(launch.cluster), hopper::largest_cluster, hopper::portable_cluster,
           hopper::largest_cluster);
  if (launch.cluster.x != compiled.x || launch.cluster.y != compiled.y || launch.cluster.z != compiled.z)
    refuse(signature, "cluster {}, but the kernel was compiled for cluster {}", text(launch.cluster),
           text(compiled));
}

}  // namespace

void check(const Signature& signature) {
  auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("the sidecar of kernel '{}': {}", signature.kernel, what));
  };
  if (signature.kernel.empty()) refuse("the kernel has no name");
  if (signature.threads == 0 || signature.threads > hopper::cta_threads)
    refuse(fmt::format("it has {} threads, but must have 1 to {}", signature.threads, hopper::cta_threads));
  const Dim3 cluster = {signature.cluster[0], signature.cluster[1], signature.cluster[2]};
  if (count(cluster) == 0 || count(cluster) > hopper::largest_cluster)
    refuse(
        fmt::format("the cluster is {}, but must have 1 to {} CTAs", text(cluster), hopper::largest_cluster));
  if (signature.grid) try {
      const GridRule rule(signature);
    } catch (const Error& e) {
      refuse(e.what());
    }
  std::set<std::string> names;
  for (const Parameter& p : signature.parameters) {
    if (p.name.empty()) refuse("a parameter has no name");
    if (!names.insert(p.name).second) refuse(fmt::format("two parameters are named '{}'", p.name));
    if (p.kind == Parameter::Kind::structure) {
      if (p.fields.empty()) refuse(fmt::format("the struct '{}' has no fields", p.name));
      std::set<std::string> fields;
      for (const Parameter& field : p.fields) {
        if (field.name.empty()) refuse(fmt::format("a field of the struct '{}' has no name", p.name));
        if (!fields.insert(field.name).second)
          refuse(fmt::format("two fields of the struct '{}' are named '{}'", p.name, field.name));
        if (field.kind != Parameter::Kind::scalar && field.kind != Parameter::Kind::pointer)
          refuse(fmt::format("the field '{}' of the struct '{}' is neither a scalar nor a pointer",
                             field.name, p.name));
      }
    }
    if (!p.has_recipe()) continue;
    if (p.tensor_map.dtype != p.dtype)
      refuse(fmt::format("parameter '{}' is {}, but its tensor map is {}", p.name, name(p.dtype),
                         name(p.tensor_map.dtype)));
    try {
      check(p.tensor_map);
    } catch (const Error& e) {
      refuse(fmt::format("parameter '{}': {}", p.name, e.what()));
    }
  }
}

void check(const Launch& launch, const Signature& signature, uint32_t shared_limit) {
  const uint64_t threads = count(launch.block);
  if (threads == 0 || threads > hopper::cta_threads)
    refuse(signature, "block {} = {} threads is not in 1 to {}", text(launch.block), threads,
           hopper::cta_threads);
  const auto [x, y, z] = signature.block();
  const Dim3 block = {x, y, z};
  if (launch.block != block)
    refuse(signature, "block {}, but the kernel was compiled for {} threads{}", text(launch.block),
           y * z == 1 ? std::to_string(x) : text(block), y * z == 1 ? " in x" : "");
  check_cluster(launch, signature);
  check_grid(launch, signature);
  if (launch.dynamic_shared_bytes != signature.dynamic_shared_bytes)
    refuse(signature, "{} B of dynamic shared memory, but the kernel was compiled for {} B",
           launch.dynamic_shared_bytes, signature.dynamic_shared_bytes);
  const uint64_t shared = uint64_t{signature.static_shared_bytes} + launch.dynamic_shared_bytes;
  if (shared > shared_limit)
    refuse(signature,
           "{} B static + {} B dynamic = {} B of shared memory, {} B over this device's {} B per CTA",
           signature.static_shared_bytes, launch.dynamic_shared_bytes, shared, shared - shared_limit,
           shared_limit);
}

void check_fits_at_once(const Launch& launch, const Signature& signature, int multiprocessors) {
  const uint64_t warps = (count(launch.block) + hopper::warp_threads - 1) / hopper::warp_threads;
  const uint64_t threads = warps * hopper::warp_threads;
  const uint64_t shared =
      hopper::reserved_shared_bytes + uint64_t{signature.static_shared_bytes} + launch.dynamic_shared_bytes;
  const uint64_t registers =
      std::max(8u, (signature.registers.value_or(0) + 7) / 8 * 8);  // allocated in units of 256 per warp
  const uint64_t most =
      std::min<uint64_t>({hopper::sm_ctas, hopper::sm_threads / threads, hopper::sm_shared_bytes / shared,
                          hopper::sm_registers / (registers * threads)});
  const uint64_t all = most * static_cast<uint64_t>(multiprocessors);
  if (count(launch.grid) > all)
    refuse(signature,
           "it is cooperative, so all CTAs must run at once: the grid {} has {}, but only {} fit, {} on each "
           "of {} multiprocessors",
           text(launch.grid), count(launch.grid), all, most, multiprocessors);
}

bool runs_on(const std::string& target, int compute_capability) {
  int version = 0;
  const char* end = target.data() + target.size();
  const bool named = target.starts_with("sm_");
  auto [rest, error] = std::from_chars(target.data() + (named ? 3 : 0), end, version);
  const std::string suffix(rest, end);
  if (!named || error != std::errc{} || (!suffix.empty() && suffix != "a" && suffix != "f"))
    throw Error(fmt::format(
        "'{}' is not a target: expected sm_ and a number, then a, f or nothing, as in sm_90a", target));
  if (suffix == "a") return compute_capability == version;
  return compute_capability / 10 == version / 10 && compute_capability >= version;
}

}  // namespace ptxbuilder::runtime
