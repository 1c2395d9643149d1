#include "runtime/launch_check.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "runtime/tensor_map.h"

namespace ptxbuilder::runtime {
namespace {

constexpr uint64_t kMaxThreads = 1024;  // per CTA
constexpr uint64_t kMaxGridX = 0x7fffffff, kMaxGridYZ = 65535;
constexpr uint64_t kMaxCluster = 16;  // CTAs; more than 8 are non-portable

template <class... Args>
[[noreturn]] void refuse(const Signature& signature, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format("launch of '{}': ", signature.kernel) +
              fmt::format(format, std::forward<Args>(args)...));
}

uint64_t count(Dim3 d) { return uint64_t{d.x} * d.y * d.z; }

std::string text(Dim3 d) { return fmt::format("{} x {} x {}", d.x, d.y, d.z); }

void check_grid(const Launch& launch, const Signature& signature) {
  const Dim3 &grid = launch.grid, &cluster = launch.cluster;
  if (count(grid) == 0 || grid.x > kMaxGridX || grid.y > kMaxGridYZ || grid.z > kMaxGridYZ)
    refuse(signature, "grid {}: x must be 1 to {}, y and z 1 to {}", text(grid), kMaxGridX, kMaxGridYZ);
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
  if (count(launch.cluster) == 0 || count(launch.cluster) > kMaxCluster)
    refuse(signature, "cluster {} = {} CTAs is not in 1 to {} (8 on every GPU, 16 where it can be placed)",
           text(launch.cluster), count(launch.cluster), kMaxCluster);
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
  if (signature.threads == 0 || signature.threads > kMaxThreads)
    refuse(fmt::format("{} threads are not in 1 to {}", signature.threads, kMaxThreads));
  const Dim3 cluster = {signature.cluster[0], signature.cluster[1], signature.cluster[2]};
  if (count(cluster) == 0 || count(cluster) > kMaxCluster)
    refuse(fmt::format("cluster {} is not 1 to {} CTAs", text(cluster), kMaxCluster));
  std::set<std::string> names;
  for (const Parameter& p : signature.parameters) {
    if (p.name.empty()) refuse("a parameter has no name");
    if (!names.insert(p.name).second) refuse(fmt::format("two parameters are called '{}'", p.name));
    if (p.kind != Parameter::Kind::tensor_map) continue;
    if (p.tensor_map.dtype != p.dtype)
      refuse(fmt::format("parameter '{}' is {}, its tensor map {}", p.name, name(p.dtype),
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
  if (threads == 0 || threads > kMaxThreads)
    refuse(signature, "block {} = {} threads is not in 1 to {}", text(launch.block), threads, kMaxThreads);
  if (launch.block.x != signature.threads || threads != signature.threads)
    refuse(signature, "block {}, but the kernel was compiled for {} threads in x", text(launch.block),
           signature.threads);
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
