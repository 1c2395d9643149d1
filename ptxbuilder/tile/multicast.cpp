#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder::detail {
namespace {

using Extents = std::array<uint32_t, 3>;

Extents cluster_extents(Where where) {
  const auto& [x, y, z] = Builder::current(where).signature().cluster;
  return {x, y, z};
}

uint32_t rank_step(const Extents& cluster, size_t axis) {
  uint32_t step = 1;
  for (size_t i = 0; i < axis; ++i) step *= cluster[i];
  return step;
}

// The line that begins at rank 0.
uint32_t first_mask(const Extents& cluster, size_t axis) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < cluster[axis]; ++i) mask |= 1u << (i * rank_step(cluster, axis));
  return mask;
}

}  // namespace

int ctas_along(ClusterAxis axis, Where where) {
  return static_cast<int>(cluster_extents(where)[static_cast<size_t>(axis)]);
}

ClusterLine cluster_line(ClusterAxis axis, Where where) {
  const Extents cluster = cluster_extents(where);
  const auto along = static_cast<size_t>(axis);
  const std::array<u32, 3> at = {cluster_ctaid_x(where), cluster_ctaid_y(where), cluster_ctaid_z(where)};
  u32 first = 0;  // rank of the line's first CTA
  for (size_t i = 0; i < 3; ++i)
    if (i != along && (i < 2 || cluster[i] > 1)) first = first + at[i] * rank_step(cluster, i);
  return {static_cast<int>(cluster[along]), at[along], u16(u32(first_mask(cluster, along)) << first)};
}

void record_line(CopyRecord& record, ClusterAxis axis, Where where) {
  const Extents cluster = cluster_extents(where);
  const auto along = static_cast<size_t>(axis);
  for (size_t i = 0; i < 3; ++i) record.cluster[i] = static_cast<int>(cluster[i]);
  record.axis = static_cast<int>(axis);
  const uint32_t step = rank_step(cluster, along);
  for (uint32_t rank = 0; rank < cluster[0] * cluster[1] * cluster[2]; ++rank)
    record.masks.push_back(first_mask(cluster, along) << (rank - rank / step % cluster[along] * step));
}

}  // namespace ptxbuilder::detail
