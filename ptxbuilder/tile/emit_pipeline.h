// Builds a pipeline from a body and the blocks that the body needs. Blocks are loaded before the step that
// reads them, and stored after the step that writes them.
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

// The interface that the body of a pipeline uses to access one step.
class PipelineStep {
 public:
  // Returns the step's index in the grid, preceded by the tile's index if the pipeline runs for several
  // tiles.
  const GridIndex& index() const;
  // Returns the number of steps that precede this step in the run.
  u32 number() const;
  // Returns the number of this warpgroup among the computing warpgroups.
  u32 warpgroup() const;

  // Return input or output block number `number`. Every step writes a complete output block; a fixed output
  // block retains what previous steps have written. Both functions throw Error for a number that does not
  // exist. in() also throws Error for an input for which the body has not waited, or which it has handed
  // back. out() also throws Error if it is called only in a branch whose condition does not select threads. A
  // body that calls out() but writes the block only in a branch is accepted; the emulator then reports that
  // TMA stores the same block twice.
  const TileView& in(int number, Where where = Where::here()) const;
  const TileView& out(int number, Where where = Where::here()) const;

  // wait() waits for an input if manual_wait is set, and release() hands the input back if manual_release is
  // set. Inputs with the same delay_release share their stages: after wait() for one input, the others have
  // arrived too and need no wait(). One release() per step hands back all of these inputs. Every step must
  // make these calls outside branches and loops. Otherwise, the pipeline throws an Error that names the
  // missing or extra call. All lanes of the warp must have finished their reads before release(), so wait for
  // wgmma, or call bar_warp_sync after other reads.
  void wait(int number, Where where = Where::here());
  void release(int number, Where where = Where::here());

 private:
  friend class detail::ComputeEnd;
  explicit PipelineStep(std::shared_ptr<detail::StepState> state) : state_(std::move(state)) {}
  detail::StepState& state() const;  // throws Error if the body has ended
  std::shared_ptr<detail::StepState> state_;
};

// A pipeline calls a function of this type for each step.
using PipelineBody = std::function<void(PipelineStep&)>;

// The options of emit_pipeline().
struct PipelineOptions {
  int stages = 2;  // number of steps whose blocks may be in shared memory or being loaded at once
  // If manual_wait is set, the body itself waits for its inputs. If manual_release is set, the body itself
  // hands its inputs back.
  bool manual_wait = false, manual_release = false;
};

// Runs `body` for each step of the grid, in all threads of the CTA, which must consist of complete
// warpgroups. Call this function outside roles. The blocks of the next steps are loaded while the body runs,
// and outputs that the body has written are stored during the next step. The specs determine the shared
// memory, the barriers, and the bytes that the barriers expect. Each CTA runs all steps of the grid. CTAs
// differ only through the index maps, which may use any values. A register tile belongs to one warpgroup, so
// in a CTA with several warpgroups, each warpgroup's body must use addresses to read and write its part of a
// block.
//
// Stores of output blocks may still be pending when the pipeline has ended. Before other code of the kernel,
// another pipeline or another CTA reads the blocks, the thread that stored them must call wait_stores(0,
// StoreWait::written), and a barrier or a signal must follow.
//
//   emit_pipeline(k, {columns / 64}, {{X, DType::f32, {64, 64}, [&](auto i) { return BlockIndex{row, i[0]};
//   }}},
//                 {{Y, DType::f32, {64, 64}, [&](auto i) { return BlockIndex{row, i[0]}; }}}, {.stages = 3},
//                 [&](PipelineStep& s) { store(s.out(0), load<f32>(s.in(0)) * 2); });
//
// Throws an Error if an axis of the grid has no steps, if a block does not fit, or if two options conflict.
// The message names the axis, the block or the option.
void emit_pipeline(Kernel& kernel, const GridShape& grid, std::vector<BlockSpec> in,
                   std::vector<BlockSpec> out, const PipelineOptions& options, const PipelineBody& body,
                   Where where = Where::here());
// Runs `body` for each step like the overload above, and also passes a value from step to step; returns the
// last value.
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

// A function that defines the tiles that a CTA processes one after the other. The function calls its argument
// with the index of each of this CTA's tiles. Every role calls the function once, and the function must yield
// the same tiles in the same order in all roles. A difference that is known on the host makes the pipeline
// throw an Error. Other differences are reported at run time if the kernel contains checks (ChecksScope,
// --checks). If a difference remains undetected, a tile is computed from another tile's blocks.
using TileOrder = std::function<void(const std::function<void(const GridIndex&)>&)>;

// The options of emit_pipeline_warp_specialized().
struct SpecializedOptions {
  int compute_warpgroups = 1;
  int stages = 2;  // as in PipelineOptions
  // The number of registers of a loading thread, set with setmaxnreg. Unless compute_registers is set,
  // computing threads share the remaining registers of the SM, with at most 256 each.
  int memory_registers = 40;
  std::optional<int> compute_registers = {};
  // If set, CTAs are persistent: the pipeline runs for each tile, and loads for the next tile begin while the
  // last steps of the current tile are computed. Index maps receive the tile's index followed by the step's
  // index in the grid.
  TileOrder tiles = nullptr;
  bool manual_wait = false, manual_release = false;  // as in PipelineOptions
};

// The interface that the code of the computing warpgroups uses to run the pipeline.
class PipelineCompute {
 public:
  // Returns the number of this warpgroup among the computing warpgroups.
  u32 warpgroup() const;
  // Runs `body` for each step of the grid. Call this function outside branches and loops or, with
  // SpecializedOptions::tiles, once in each_tile(). An accumulator whose first write would be in `body` is
  // zero if the device finds that the grid has no steps.
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
  detail::TileOrderCheck* order_;  // compares the roles' tiles
  std::optional<GridIndex> tile_;  // set in each_tile()
  bool runs_ = false;
  uint32_t body_;  // number of the kernel body in which run() or each_tile() must be called
};

// Makes two roles: one warpgroup loads, and compute_warpgroups warpgroups run `compute`. This function calls
// run() once, and may hold sums in registers across the call. All computing warpgroups share each step's
// blocks, and each warpgroup reads what it needs. Outputs are stored when all warpgroups have written their
// parts.
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
// START, STEADY and STOP in Pallas correspond to the first, the middle and the last tiles of
// SpecializedOptions::tiles: stages and their phases continue from tile to tile.
//
// A kernel may call this function several times. Each call makes its own roles, and the registers of all
// roles must fit together (see compute_registers). The kernel must not also call emit_pipeline(), because all
// threads of a CTA run the code of emit_pipeline().
void emit_pipeline_warp_specialized(Kernel& kernel, const GridShape& grid, std::vector<BlockSpec> in,
                                    std::vector<BlockSpec> out, const SpecializedOptions& options,
                                    const std::function<void(PipelineCompute&)>& compute,
                                    Where where = Where::here());
// Makes the same two roles for a pipeline that needs no code before or after its steps.
void emit_pipeline_warp_specialized(Kernel& kernel, const GridShape& grid, std::vector<BlockSpec> in,
                                    std::vector<BlockSpec> out, const SpecializedOptions& options,
                                    const PipelineBody& body, Where where = Where::here());

}  // namespace ptxbuilder
