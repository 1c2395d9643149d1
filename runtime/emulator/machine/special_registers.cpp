// The special registers of a warp (PTX ISA, "Special Registers").
#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {
namespace {

uint64_t value_of(Special s, const Warp& w, uint32_t lane) {
  const Cta& cta = w.cta;
  const Launch& l = w.grid().launch;
  const uint32_t thread = w.index * 32 + lane;
  const Dim3 in{cta.rank % l.cluster.x, cta.rank / l.cluster.x % l.cluster.y,
                cta.rank / l.cluster.x / l.cluster.y};
  switch (s) {
    case Special::tid_x:
      return thread % l.block.x;
    case Special::tid_y:
      return thread / l.block.x % l.block.y;
    case Special::tid_z:
      return thread / l.block.x / l.block.y;
    case Special::ntid_x:
      return l.block.x;
    case Special::ntid_y:
      return l.block.y;
    case Special::ntid_z:
      return l.block.z;
    case Special::ctaid_x:
      return cta.id.x;
    case Special::ctaid_y:
      return cta.id.y;
    case Special::ctaid_z:
      return cta.id.z;
    case Special::nctaid_x:
      return l.grid.x;
    case Special::nctaid_y:
      return l.grid.y;
    case Special::nctaid_z:
      return l.grid.z;
    case Special::laneid:
      return lane;
    case Special::warpid:
      return w.index;
    case Special::nwarpid:
      return (cta.threads + 31) / 32;
    case Special::smid:
      return (w.cluster().index * cta.cluster.ctas.size() + cta.rank) % hopper::multiprocessors;
    case Special::nsmid:
      return hopper::multiprocessors;
    case Special::gridid:
      return w.grid().id;
    case Special::lanemask_eq:
      return Lanes{1} << lane;
    case Special::lanemask_lt:
      return (Lanes{1} << lane) - 1;
    case Special::lanemask_le:
      return ((Lanes{1} << lane) - 1) | Lanes{1} << lane;
    case Special::lanemask_ge:
      return ~((Lanes{1} << lane) - 1);
    case Special::lanemask_gt:
      return ~(((Lanes{1} << lane) - 1) | Lanes{1} << lane);
    case Special::clusterid_x:
      return cta.id.x / l.cluster.x;
    case Special::clusterid_y:
      return cta.id.y / l.cluster.y;
    case Special::clusterid_z:
      return cta.id.z / l.cluster.z;
    case Special::nclusterid_x:
      return l.grid.x / l.cluster.x;
    case Special::nclusterid_y:
      return l.grid.y / l.cluster.y;
    case Special::nclusterid_z:
      return l.grid.z / l.cluster.z;
    case Special::cluster_ctaid_x:
      return in.x;
    case Special::cluster_ctaid_y:
      return in.y;
    case Special::cluster_ctaid_z:
      return in.z;
    case Special::cluster_nctaid_x:
      return l.cluster.x;
    case Special::cluster_nctaid_y:
      return l.cluster.y;
    case Special::cluster_nctaid_z:
      return l.cluster.z;
    case Special::cluster_ctarank:
      return cta.rank;
    case Special::cluster_nctarank:
      return l.cluster.x * l.cluster.y * l.cluster.z;
    case Special::is_explicit_cluster:
      return w.grid().kernel.required_cluster.x != 0 || l.cluster.x * l.cluster.y * l.cluster.z > 1;
    case Special::dynamic_smem_size:
      return l.dynamic_shared_bytes;
    case Special::total_smem_size:
      return cta.shared.size();
    case Special::reserved_smem_begin:
      return 0;
    case Special::reserved_smem_end:
      return shared_reserved;
    case Special::reserved_smem_1:  // the part for libraries, as cooperative groups use it
      return shared_reserved / 2;
    case Special::grid_workspace_high:
      return w.grid().workspace >> 32;
    case Special::grid_workspace_low:
      return w.grid().workspace;
  }
  return 0;
}

}  // namespace

void Warp::fill_special_registers() {
  for (const SpecialRegister& s : grid().kernel.specials) {
    if (s.bytes == 0) {
      uint32_t mask = 0;
      for (uint32_t lane = 0; lane < 32; ++lane)
        mask |= static_cast<Lanes>(value_of(s.special, *this, lane) != 0) << lane;
      *at<uint32_t>(s.at) = mask;
      continue;
    }
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint64_t value = value_of(s.special, *this, lane);
      std::memcpy(at<std::byte>(s.at) + lane * s.bytes, &value, std::min(s.bytes, 8u));
    }
  }
}

}  // namespace ptxbuilder::runtime::emulator
