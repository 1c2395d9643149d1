#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder::detail {

std::array<u32, 3> place_in_cluster() { return {cluster_ctaid_x(), cluster_ctaid_y(), cluster_ctaid_z()}; }

MulticastGroups multicast_groups(ClusterAxes axes) {
  const auto& [x, y, z] = Builder::current().signature().cluster;
  return MulticastGroups::along({static_cast<int>(x), static_cast<int>(y), static_cast<int>(z)},
                                {axes.has(0), axes.has(1), axes.has(2)});
}

GroupMember group_member(const MulticastGroups& groups) {
  const auto [x, y, z] = place_in_cluster();
  const std::array<Index, 3> at = {Index(x), Index(y), Index(z)};
  const u32 first = groups.first_rank(at).value();
  return {groups.place(at), u16(u32(groups.first_mask) << first)};
}

int ctas_in_line(ClusterAxes axes) {
  const MulticastGroups groups = multicast_groups(axes);
  int count = 1;
  for (size_t i = 0; i < 3; ++i)
    if (groups.axes[i]) count += groups.extents[i] - 1;
  return count;
}

u32 rank_in_line(ClusterAxes axes, u32 i) {
  const MulticastGroups groups = multicast_groups(axes);
  const std::array<int, 3>& cluster = groups.extents;
  const std::array<u32, 3> at = place_in_cluster();
  auto rank_with = [&](size_t axis, u32 position) {
    u32 rank = 0;
    for (size_t j = 0; j < 3; ++j)
      if (cluster[j] > 1) rank = rank + (j == axis ? position : at[j]) * groups.rank_step(j);
    return rank;
  };
  std::optional<u32> rank;
  int before = 0;  // number of CTAs in line along the previous axes
  for (size_t axis = 0; axis < 3; ++axis) {
    if (!groups.axes[axis] || cluster[axis] == 1) continue;
    if (!rank) {
      rank = rank_with(axis, i);
      before = cluster[axis];
      continue;
    }
    // The CTA itself is counted along the first axis only.
    u32 other = i - before;
    rank = select(i < before, *rank, rank_with(axis, other + u32(other >= at[axis])));
    before += cluster[axis] - 1;
  }
  return rank ? *rank : rank_with(3, 0);
}

}  // namespace ptxbuilder::detail
