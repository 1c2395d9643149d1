// Makes a pipeline from a body and the blocks that it needs: loads run ahead of the body, and stores run
// after it.
#pragma once

#include "ptxbuilder/tile/block_spec.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder {

namespace detail {
struct PipelineParts;
struct StepState;
class PipelineOutputs;
class ComputeEnd;
class TileOrderCheck;
}  // namespace detail

// The body of a pipeline sees one step through this class.
class PipelineStep {
 public:
  // Returns the tile's index, if there is one, followed by the step's place in the grid.
  const GridIndex& index() const;
  // Returns the number of steps before this one in this run.
  u32 number() const;
  // Returns the number of this warpgroup among the computing warpgroups.
  u32 warpgroup() const;

  // Return blocks by their numbers among the inputs and outputs. Every step writes a whole output
  // block; a fixed one keeps what previous steps have written. Both throw Error for a number that does not
  // exist; in() also throws Error for an input that was not yet waited for or was handed back, and out() if
  // it is called only in a branch whose condition does not select threads. A body that calls out() and then
  // writes only in a branch is accepted: the emulator reports a block that TMA sends twice.
  const TileView& in(int number, Where where = Where::here()) const;
  const TileView& out(int number, Where where = Where::here()) const;

  // These wait for an input and hand it back, with manual_wait and manual_release. Inputs of the
  // same delay_release share their stages: after wait() for one, the others have arrived too and need no
  // wait(), and release() of one hands back all, once a step. Every step must make these calls, outside of
  // branches and loops, or an Error names the missing or extra call. All lanes of the warp must have finished
  // their reads before release(): wait for wgmma, or call bar_warp_sync after other reads.
  void wait(int number, Where where = Where::here());
  void release(int number, Where where = Where::here());

 private:
  friend class detail::ComputeEnd;
  explicit PipelineStep(std::shared_ptr<detail::StepState> state) : state_(std::move(state)) {}
  detail::StepState& state() const;  // throws Error after the body
  std::shared_ptr<detail::StepState> state_;
};

// A pipeline calls this function for each step.
using PipelineBody = std::function<void(PipelineStep&)>;

// The options of emit_pipeline().
struct PipelineOptions {
  int stages = 2;  // steps whose blocks are in shared memory or on the way at a time
  // The body itself waits for its inputs and hands them back.
  bool manual_wait = false, manual_release = false;
};

// Runs `body` for each step of the grid, in all threads of the CTA, which are whole warpgroups, and outside
// of roles. The blocks of the next steps are loaded while it runs, and what it has written to outputs is
// stored during the next step. Shared memory, barriers and their bytes follow from the specs. Each CTA runs
// the whole grid: only the index maps, which may use any values, distinguish CTAs. A register tile belongs
// to one warpgroup, so in a CTA of several warpgroups the body reads and writes its part of a block through
// addresses.
//
// Stores of output blocks may still be pending afterwards: before code in the kernel, in another pipeline
// or another CTA, reads them, the thread that sent them must call wait_stores(0, StoreWait::written), and a
// barrier or a signal must follow.
//
//   emit_pipeline(k, {columns / 64}, {{X, DType::f32, {64, 64}, [&](auto i) { return BlockIndex{row, i[0]};
//   }}},
//                 {{Y, DType::f32, {64, 64}, [&](auto i) { return BlockIndex{row, i[0]}; }}}, {.stages = 3},
//                 [&](PipelineStep& s) { store(s.out(0), load<f32>(s.in(0)) * 2); });
//
// Throws Error that names the axis of a grid without steps, the block that does not fit, and the option that
// conflicts with another.
void emit_pipeline(Kernel& kernel, const GridShape& grid, std::vector<BlockSpec> in,
                   std::vector<BlockSpec> out, const PipelineOptions& options, const PipelineBody& body,
                   Where where = Where::here());
// Also passes a value from step to step, and returns the last value.
template <class T>
T emit_pipeline(Kernel& kernel, const GridShape& grid, std::vector<BlockSpec> in, std::vector<BlockSpec> out,
                const PipelineOptions& options, const T& init,
                const std::type_identity_t<std::function<T(PipelineStep&, const T&)>>& body,
                Where where = Where::here()) {
  AtLine line(where);
  Var<T> carry(init);
  emit_pipeline(kernel, grid, std::move(in), std::move(out), options,
                [&](PipelineStep& step) { carry = body(step, carry.value()); });
  return carry;
}

// The tiles that a CTA processes one after the other: the function calls its argument for each tile of this
// CTA, with the tile's index. The function is called once in each role, and must yield the same tiles in the
// same order in all roles. A difference that the host knows is an Error, and the device reports a difference
// if the kernel checks (ChecksScope, --checks). An undetected difference means that a tile is computed from
// another tile's blocks.
using TileOrder = std::function<void(const std::function<void(const GridIndex&)>&)>;

// The options of emit_pipeline_warp_specialized().
struct SpecializedOptions {
  int compute_warpgroups = 1;
  int stages = 2;  // as in PipelineOptions
  // The registers of a loading thread, set with setmaxnreg. Computing threads share the remaining registers
  // of the SM, at most 256 each.
  int memory_registers = 40;
  std::optional<int> compute_registers = {};
  // CTAs are persistent: the pipeline runs for each tile, and loads for the next tile begin while the last
  // steps of the current one are computed. Index maps get the tile's index ahead of the grid's.
  TileOrder tiles = nullptr;
  bool manual_wait = false, manual_release = false;  // as in PipelineOptions
};

// The view of the computing warpgroups for the function that surrounds the pipeline.
class PipelineCompute {
 public:
  // Returns the number of this warpgroup among the computing ones.
  u32 warpgroup() const;
  // Runs `body` for each step of the grid, outside of branches and loops. With SpecializedOptions::tiles,
  // call it once in each_tile(). An accumulator that `body` is the first to write is zero if the device finds
  // that the grid has no steps.
  void run(const PipelineBody& body, Where where = Where::here());
  // Runs `body` for each tile of this CTA, in the order of SpecializedOptions::tiles.
  void each_tile(const std::function<void(const GridIndex&)>& body, Where where = Where::here());

 private:
  friend void emit_pipeline_warp_specialized(Kernel&, const GridShape&, std::vector<BlockSpec>,
                                             std::vector<BlockSpec>, const SpecializedOptions&,
                                             const std::function<void(PipelineCompute&)>&, Where);
  PipelineCompute(detail::ComputeEnd& end, const GridShape& grid, const TileOrder& tiles,
                  detail::TileOrderCheck* order)
      : end_(end), grid_(grid), tiles_(tiles), order_(order), body_(detail::open_body) {}

  detail::ComputeEnd& end_;
  const GridShape& grid_;
  const TileOrder& tiles_;
  detail::TileOrderCheck* order_;  // of these tiles
  std::optional<GridIndex> tile_;  // in each_tile()
  bool runs_ = false;
  uint32_t body_;  // of the kernel, in which run() or each_tile() is called
};

// Makes two roles: one warpgroup loads, and compute_warpgroups run `compute`, which calls run() once and may
// keep sums in registers around the call. All computing warpgroups share each step's blocks; each reads what
// it needs, and outputs are stored when all have written their parts.
//
//   emit_pipeline_warp_specialized(k, {ceil_div(K, 64)}, {a, b}, {}, {.compute_warpgroups = 2, .stages = 4},
//                                  [&](PipelineCompute& pipe) {
//     Accumulator acc(64, 256);
//     pipe.run([&](PipelineStep& s) {
//       wgmma_group([&] { mma(acc, s.in(0).rows(s.warpgroup() * 64, 64), s.in(1)); });
//       wgmma_wait(0);
//     });
//     store<bf16>(D, acc, m + pipe.warpgroup() * 64, n);
//   });
//
// Pallas' START, STEADY and STOP correspond to the first, the middle and the last tiles of
// SpecializedOptions::tiles: stages and their phases continue from tile to tile.
//
// A kernel may have several of these, each with its own roles, whose registers must fit together
// (compute_registers), but it must not also contain an emit_pipeline, which all threads of a CTA run.
void emit_pipeline_warp_specialized(Kernel& kernel, const GridShape& grid, std::vector<BlockSpec> in,
                                    std::vector<BlockSpec> out, const SpecializedOptions& options,
                                    const std::function<void(PipelineCompute&)>& compute,
                                    Where where = Where::here());
// Does the same for pipelines without code around them.
void emit_pipeline_warp_specialized(Kernel& kernel, const GridShape& grid, std::vector<BlockSpec> in,
                                    std::vector<BlockSpec> out, const SpecializedOptions& options,
                                    const PipelineBody& body, Where where = Where::here());

}  // namespace ptxbuilder
