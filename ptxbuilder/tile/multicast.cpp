#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder::detail {
namespace {

using Extents = std::array<uint32_t, 3>;

Extents cluster_extents() {
  const auto& [x, y, z] = Builder::current().signature().cluster;
  return {x, y, z};
}

// From the rank of a CTA to the next along an axis.
uint32_t rank_step(const Extents& cluster, size_t axis) {
  uint32_t step = 1;
  for (size_t i = 0; i < axis; ++i) step *= cluster[i];
  return step;
}

// The group that rank 0 is in.
uint32_t first_mask(const Extents& cluster, ClusterAxes axes) {
  uint32_t mask = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    if (!axes.has(axis)) continue;
    uint32_t all = 0;
    for (uint32_t i = 0; i < cluster[axis]; ++i) all |= mask << (i * rank_step(cluster, axis));
    mask = all;
  }
  return mask;
}

}  // namespace

int ctas_along(ClusterAxes axes) {
  const Extents cluster = cluster_extents();
  uint32_t count = 1;
  for (size_t i = 0; i < 3; ++i)
    if (axes.has(i)) count *= cluster[i];
  return static_cast<int>(count);
}

ClusterGroup cluster_group(ClusterAxes axes) {
  const Extents cluster = cluster_extents();
  const std::array<u32, 3> at = {cluster_ctaid_x(), cluster_ctaid_y(), cluster_ctaid_z()};
  u32 first = 0, index = 0;  // rank of the group's first CTA, and this one's place
  uint32_t before = 1;       // CTAs of the group for each step along the axis
  for (size_t i = 0; i < 3; ++i) {
    if (axes.has(i)) {
      index = index + at[i] * before;
      before *= cluster[i];
    } else if (i < 2 || cluster[i] > 1) {
      first = first + at[i] * rank_step(cluster, i);
    }
  }
  return {static_cast<int>(before), index, u16(u32(first_mask(cluster, axes)) << first)};
}

int ctas_in_line(ClusterAxes axes) {
  const Extents cluster = cluster_extents();
  uint32_t count = 1;
  for (size_t i = 0; i < 3; ++i)
    if (axes.has(i)) count += cluster[i] - 1;
  return static_cast<int>(count);
}

u32 rank_in_line(ClusterAxes axes, u32 i) {
  const Extents cluster = cluster_extents();
  const std::array<u32, 3> at = {cluster_ctaid_x(), cluster_ctaid_y(), cluster_ctaid_z()};
  auto rank_with = [&](size_t axis, u32 position) {
    u32 rank = 0;
    for (size_t j = 0; j < 3; ++j)
      if (cluster[j] > 1) rank = rank + (j == axis ? position : at[j]) * rank_step(cluster, j);
    return rank;
  };
  std::optional<u32> rank;
  uint32_t before = 0;  // places in line that the axes before take
  for (size_t axis = 0; axis < 3; ++axis) {
    if (!axes.has(axis) || cluster[axis] == 1) continue;
    if (!rank) {
      rank = rank_with(axis, i);
      before = cluster[axis];
      continue;
    }
    // This CTA is in line along the first axis already.
    u32 other = i - before;
    rank = select(i < before, *rank, rank_with(axis, other + u32(other >= at[axis])));
    before += cluster[axis] - 1;
  }
  return rank ? *rank : rank_with(3, 0);
}

void record_group(CopyRecord& record, ClusterAxes axes) {
  const Extents cluster = cluster_extents();
  for (size_t i = 0; i < 3; ++i) {
    record.cluster[i] = static_cast<int>(cluster[i]);
    record.axes[i] = axes.has(i);
  }
  for (uint32_t rank = 0; rank < cluster[0] * cluster[1] * cluster[2]; ++rank) {
    uint32_t first = 0;
    for (size_t i = 0; i < 3; ++i)
      if (!axes.has(i)) first += rank / rank_step(cluster, i) % cluster[i] * rank_step(cluster, i);
    record.masks.push_back(first_mask(cluster, axes) << first);
  }
}

}  // namespace ptxbuilder::detail
