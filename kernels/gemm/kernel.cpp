#include "kernels/gemm/kernel.h"

#include "kernels/gemm/addressed_matrices.h"
#include "kernels/gemm/block_scales.h"
#include "kernels/gemm/epilogue.h"
#include "kernels/gemm/gathered_operand.h"
#include "kernels/gemm/mainloop.h"
#include "kernels/gemm/mode_axis.h"
#include "kernels/gemm/packed_operand.h"
#include "kernels/gemm/parameters.h"
#include "kernels/gemm/ragged_rows.h"
#include "kernels/gemm/scheduler.h"
#include "kernels/gemm/sparse_metadata.h"
#include "kernels/gemm/staged_operand.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder::kernels {
namespace {

// The coordinates at which the loads of a tile begin.
struct LoadPlaces {
  u32 x, y;
  std::vector<u32> at_x, at_y;  // x and y as coordinates along each mode
  std::optional<u32> first_k;
  // The outer coordinates, which follow those of an element within a matrix. `beside_b` is for operands with
  // elements for B, such as B's scales.
  std::vector<u32> of_a = {}, of_b = {}, beside_b = {};
};

// Returns the coordinates that select a group's matrix by its address. For rows outside all groups, TMA reads
// zeros at these coordinates.
std::vector<u32> addressed_matrix(const GemmParameters& p, u32 group, u32 groups) {
  Var<u32> step(0), leap(kMatrixLeaps);
  if_(group < groups, [&] {
    const u64 address = bit_cast<u64>(s64(p.get<gptr<s64>>("b_addresses")[group]));
    const std::array<u32, 2> at = matrix_at(address, p.get<u64>("b_start"));
    step = at[0], leap = at[1];
  });
  return {step, leap};
}

// Returns the coordinates at which loads begin. Rows outside all groups are loaded from beyond A, where TMA
// reads zeros. If groups divide k, boxes are cut off at the end of the group (see row_up_to()).
LoadPlaces load_places(const GemmOperation& o, const GemmTile& t, const Work& work, u32 m,
                       const std::optional<u32>& batches, const ModeAxes& axes, const StagedOperand& x,
                       const StagedOperand& y, const GemmParameters& p) {
  LoadPlaces places = {work.x, work.y, {}, {}, std::nullopt};
  if (o.grouped_k()) {
    places.first_k = row_up_to(work.group->begin, work.group->end);
    places.of_a = places.of_b = {work.group->end, u32(kRowsEnd)};
  } else if (work.batch) {
    places.of_b = axes.batch.at(*work.batch);
    if (o.batched) places.of_a = places.of_b;
  }
  if (o.grouped_rows()) {
    u32& row = t.swapped ? places.y : places.x;
    row = select(*work.batch < *batches, row, m);
  }
  places.beside_b = places.of_b;
  if (o.b_addresses) places.of_b = addressed_matrix(p, *work.batch, *batches);
  places.at_x = x.at_extent(t.swapped ? axes.n : axes.m, places.x);
  places.at_y = y.at_extent(t.swapped ? axes.m : axes.n, places.y);
  return places;
}

}  // namespace

Kernel gemm(const GemmOperation& o, const GemmTile& given, Where where) { return gemm(o, given, {}, where); }

Kernel gemm(const GemmOperation& operation, const GemmTile& given, const UserEpilogue& user, Where where) {
  GemmOperation o = operation;
  o.user_epilogue = user.function != nullptr;
  const TilePlan t = checked(o, given, where);
  Kernel k("gemm_" + text(t));
  k.cluster(static_cast<uint32_t>(t.cluster_m), static_cast<uint32_t>(t.cluster_n),
            static_cast<uint32_t>(t.split_k));
  const GemmParameters p(k, o, t, user.parameters, where);
  const GemmGridRule grid = gemm_grid_rule(o, t);
  k.grid(grid.x, grid.y, grid.z);
  k.configure("tile", text(t));
  if (t.overlaps) k.overlaps();
  if (t.split_last > 1) k.cooperative();
  // The machine code does not have the defects that are waived here; scripts/sentinel verifies this.
  if (o.packed.is_packed()) k.waive("wgmma-a-registers");
  if (o.is_sparse()) k.waive("wgmma-metadata");
  std::optional<TensorMap> A, B;
  if (!o.gathers()) A = p.get<TensorMap>("A");
  if (!o.packed.is_packed()) B = p.get<TensorMap>("B");
  u32 M = p.get<u32>("M"), N = p.get<u32>("N"), K = p.get<u32>("K");
  std::optional<u32> batches;
  if (o.batched) batches = p.get<u32>("batches");
  if (o.has_groups()) batches = p.get<u32>("groups");

  // Prefetches the tensor maps, so that their first use need not wait for them.
  std::vector<TensorMap> maps;
  for (const std::optional<TensorMap>& map : {A, B})
    if (map) maps.push_back(*map);
  if (!o.scatters()) maps.push_back(p.get<TensorMap>("D"));
  for (const ProductOperandRow& row : product_operands)
    if (comes_by_tma(row.role) && o.has(row.operand)) maps.push_back(p.get<TensorMap>(row.shown));
  if_(tid_x() == 0, [&] {
    for (TensorMap map : maps) prefetch_tensormap(map);
  });

  // X is the operand along the rows of wgmma, and Y is the operand along its columns. The columns of wgmma
  // are the tile's columns.
  const auto windows = [&](WindowsOf operand) {
    return o.windows == operand ? std::optional<WindowAxis>(p) : std::nullopt;
  };
  const auto staged_a = [&](int extent) {
    return staged_operand(k, "A", A, o.a, o.a_k_major, extent, t, o.m_box, o.k_box, windows(WindowsOf::a),
                          o.packed.is_packed() ? part_depth(o.packed) : 0, o.a_metadata);
  };
  const auto staged_b = [&](int extent) {
    return staged_operand(k, "B", B, o.b, o.b_k_major, extent, t, o.n_box, o.k_box, windows(WindowsOf::b), 0,
                          o.b_metadata);
  };
  std::optional<PackedOperand> weights;
  if (o.packed.is_packed()) weights.emplace(k, o, t, p);
  const StagedOperand X = weights     ? StagedOperand{std::nullopt, true, t.bm, weights->tile(), 0}
                          : t.swapped ? staged_b(t.bm)
                                      : staged_a(t.bm);
  const StagedOperand Y = t.swapped ? staged_a(t.bn) : staged_b(t.bn);
  std::optional<BlockScales> scales;
  std::vector<SharedTile> staged = {X.tile, Y.tile};
  if (o.has_block_scales()) {
    scales.emplace(k, o, t, p);
    for (const SharedTile& tile : scales->tiles()) staged.push_back(tile);
  }
  std::optional<SparseMetadata> metadata;
  if (o.is_sparse()) staged.push_back(metadata.emplace(k, o, t, p).tile());
  const int readers = t.pingpong ? 1 : t.consumers;
  std::optional<Pipeline> ring_of_stages;
  if (o.gathers())
    ring_of_stages.emplace(k, t.stages, staged, readers,
                           ThreadProducers{1, t.swapped ? ClusterAxis::y : ClusterAxis::x});
  else
    ring_of_stages.emplace(k, t.stages, staged, readers, ClusterAxis::x | ClusterAxis::y);
  const Pipeline& pipe = *ring_of_stages;
  std::optional<Turns> turns;
  if (t.pingpong) turns.emplace(k, t.consumers);
  std::optional<ClusterSum> cluster;
  if (t.split_k > 1) cluster.emplace(k, t.warpgroup_rows(), t.bn, t.consumers, ClusterAxis::z);
  std::optional<GroupSchedule> groups;
  if (o.has_groups())
    groups.emplace(k, t, o.groups_of_k ? K : M, *batches,
                   p.get<gptr<s32>>(o.group_counts ? "group_counts" : "group_ends"), o.group_counts,
                   o.gathers() ? GroupSchedule::Walkers::warpgroup : GroupSchedule::Walkers::one_thread);
  const TileScheduler scheduler(o, t, M, N, K, batches, groups);
  const ModeAxes axes(o, t, p);

  // If CTAs share an SM, all threads keep the number of registers that the launch assigns to them.
  const RoleRegisters registers =
      t.ctas_per_sm > 1 ? RoleRegisters{0, 0} : role_registers(t.consumers, o.has_groups(), o.gathers());

  // A launch may begin before the previous launch has ended. After griddepcontrol_wait(), all writes of the
  // previous launch are visible, and the memory that it read may be overwritten. Work that does not depend on
  // the previous launch comes first: barriers are initialized, and the producer determines its first tile.
  k.warpgroups(1, registers.producer, [&](u32) {
    name_role("producer");
    std::optional<GatheredOperand> rows;
    if (o.gathers()) rows.emplace(o, p, (t.swapped ? Y : X).tile);
    // One thread issues all loads. If rows are gathered, all threads of the producer copy rows, and one of
    // them loads the other operands.
    const auto in_one = [](bool one, const std::function<void()>& body) { one ? elect(body) : body(); };
    in_one(!rows, [&] {
      auto ring = pipe.producer();
      if (groups) griddepcontrol_wait();
      scheduler.each_work({0, 1}, [&](const Work& work) {
        if (!groups) griddepcontrol_wait();
        const LoadPlaces from = load_places(o, t, work, M, batches, axes, X, Y, p);
        if (rows) rows->begin(t.swapped ? from.y : from.x, work.group ? work.group->end : M);
        for_(work.first, work.last, [&](u32 kt) {
          auto s = region("wait", [&] { return ring.acquire(); });
          const u32 depth = from.first_k ? *from.first_k + kt * t.bk : kt * t.bk;
          region("load", [&] {
            in_one(rows.has_value(), [&] {
              const std::vector<u32>&of_x = t.swapped ? from.of_b : from.of_a,
                    &of_y = t.swapped ? from.of_a : from.of_b;
              if (weights) weights->load(s, kt, from.x, work);
              if (X.map) X.load(s, ClusterAxis::y, X.at_k(axes.k, depth), from.at_x, of_x);
              if (Y.map) Y.load(s, ClusterAxis::x, Y.at_k(axes.k, depth), from.at_y, of_y);
              if (metadata) metadata->load(s, depth, from.x, t.swapped ? from.beside_b : from.of_a);
              if (scales) scales->load(s, kt, work, batches, from.of_a, from.beside_b);
            });
            if (!rows) return;
            rows->load(s, depth);
            ring.commit(s);
          });
        });
      });
      // The next launch may begin as soon as CTAs of this launch free their resources. The signal is sent
      // only after the last load, because CTAs of the next launch would otherwise take memory bandwidth from
      // CTAs that are still loading. With split_k the signal is omitted, since clusters that add up sums
      // become slower wherever it is sent.
      if (t.split_k == 1) griddepcontrol_launch_dependents();
    });
  });

  k.warpgroups(t.consumers, registers.consumer, [&](u32 wg) {
    name_role("consumer");
    griddepcontrol_wait();
    Mainloop mainloop(o, t, X, Y, pipe, scheduler, scales, weights, metadata);
    GemmEpilogue epilogue(o, t, p, user, cluster, X);
    if (turns) mainloop.take_turns(*turns, wg);
    scheduler.each_work(t.pingpong ? Turn{wg, t.consumers} : Turn{0, 1}, [&](const Work& work) {
      u32 row = t.pingpong ? u32(0) : wg * t.warpgroup_rows();  // first of the warpgroup's rows in the tile
      Accumulator& sums = mainloop.run(work, row, epilogue.deferred());
      region("epilogue", [&] { epilogue.store(sums, work, row); });
    });
    epilogue.finish();
  });
  return k;
}

void waive_lack_of_registers(Kernel& kernel) {
  for (const char* advisory : {"C7511", "C7512", "spills", "stack"}) kernel.waive(advisory);
}

}  // namespace ptxbuilder::kernels
