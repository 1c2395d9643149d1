#include "ptxbuilder/tile/emit_pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/ir/open_body.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/pipeline_parts.h"
#include "ptxbuilder/tile/tile_order.h"

namespace ptxbuilder {
namespace detail {
namespace {

// Throws Error if the current code is in a branch or a loop inside the body `outer`.
void check_in_body(uint32_t outer, std::string_view operation, std::string_view rule) {
  if (open_body != outer)
    throw Error(fmt::format("{}: it is called inside the {}; {}", operation,
                            OpenBody::innermost()->describe(), rule));
}

// Returns the outermost branch around the current code, inside the body `outer`, that either all threads or
// no threads enter. Some steps may skip such a branch.
const OpenBody* branch_of_steps(uint32_t outer) {
  const OpenBody* found = nullptr;
  for (const OpenBody* b = OpenBody::innermost(); b && b->number() != outer; b = b->outer())
    if (const ThreadSet all = b->outer() ? b->outer()->threads() : ThreadSet::all();
        b->is_branch() && b->threads().may == all.may && !b->threads().divides_warpgroups())
      found = b;
  return found;
}

u32 thread_of_role() {
  return in_role() ? tid_x() - u32(hopper::warpgroup_threads * first_warpgroup_of_role()) : u32(tid_x());
}

// The loading side of a pipeline. It fills the stages, either in one role or in all threads.
class LoadEnd {
 public:
  explicit LoadEnd(const PipelineParts& parts) : parts_(parts) {
    for (const PipelineParts::Ring& ring : parts.rings) producers_.push_back(ring.pipe->producer());
  }

  // Loads the blocks of one ring for a step.
  void load(size_t ring, const GridIndex& at) {
    const Stage s = producers_[ring].acquire();
    std::vector<size_t> by_tma;
    for (size_t i : parts_.rings[ring].inputs) {
      const BlockCopy& input = parts_.inputs[i];
      if (parts_.load_threads == 0 || input.spec().by_threads())
        input.load(input.tile()[s], at, parts_.load_threads == 0 ? u32(0) : thread_of_role());
      else
        by_tma.push_back(i);
    }
    if (!by_tma.empty())
      elect([&] {
        AtLine line(parts_.where);
        for (size_t i : by_tma) parts_.inputs[i].load(parts_.inputs[i].tile()[s], at, 0);
      });
    if (parts_.load_threads > 0) producers_[ring].commit(s);
  }
  void load_fixed(const GridIndex& tile) {
    for (size_t r = 0; r < parts_.rings.size(); ++r)
      if (parts_.rings[r].fixed) load(r, tile);
  }
  // Loads all blocks of a run, for a role that only loads.
  void run(const GridShape& grid, const GridIndex& tile) {
    load_fixed(tile);
    for_each_step(grid, [&](const GridIndex& at, u32) {
      for (size_t r = 0; r < parts_.rings.size(); ++r)
        if (!parts_.rings[r].fixed) load(r, tile.with(at));
    });
  }

 private:
  const PipelineParts& parts_;
  std::vector<Producer> producers_;
};

}  // namespace

// Stores outputs from shared memory.
class PipelineOutputs {
 public:
  explicit PipelineOutputs(const PipelineParts& parts) : parts_(parts), stage_(0) {
    for (const BlockCopy& output : parts.outputs) (output.spec().options().fixed ? fixed_ : moving_) = true;
  }

  TileView view(size_t i) const {
    const BlockCopy& output = parts_.outputs[i];
    return output.tile()[output.spec().options().fixed ? u32(0) : stage_.value()];
  }
  bool has_fixed() const { return fixed_; }
  // Waits until stores have read the fixed outputs of the previous run, so that the body may write to all
  // outputs.
  void begin_run() {
    if (!fixed_) return;
    wait_stores_read(0);
    meet();
  }
  void end_step(const GridIndex& at) {
    if (!moving_) return;
    leave(false, at, kOutputStages - 2);
    stage_ = u32(1) - stage_.value();
  }
  void end_run(const GridIndex& tile) const {
    if (fixed_) leave(true, tile, 0);
  }

 private:
  void meet() const {
    if (!in_role())
      sync_threads();
    else if (parts_.meeting)
      parts_.meeting->sync();
    else
      sync_warpgroup();
  }
  // Stores the outputs that all threads have written. First waits until all previous stores except the last
  // `pending` have read their stages, because the body will next write to one of these stages.
  void leave(bool fixed, const GridIndex& at, int pending) const {
    const auto each = [&](bool by_threads, const std::function<void(size_t)>& send) {
      for (size_t i = 0; i < parts_.outputs.size(); ++i)
        if (const BlockSpec& spec = parts_.outputs[i].spec();
            spec.options().fixed == fixed && spec.by_threads() == by_threads)
          send(i);
    };
    bool by_tma = false;
    each(false, [&](size_t) { by_tma = true; });
    const pred issues = thread_of_role() == 0;
    if (by_tma) {
      cp_async_bulk_wait_group_read.when(issues)(pending);
      fence_proxy_async<Space::shared>();
    }
    meet();
    if (by_tma) {
      end_role_after_stores();
      if_(issues, [&] {
        each(false, [&](size_t i) { parts_.outputs[i].store(view(i), at, 0); });
        cp_async_bulk_commit_group();
      });
    }
    each(true, [&](size_t i) { parts_.outputs[i].store(view(i), at, thread_of_role()); });
  }

  const PipelineParts& parts_;
  bool fixed_ = false, moving_ = false;
  Var<u32> stage_;
};

// Describes a call to out(): its source line, and the branch around it if some steps may skip the call.
struct Asked {
  Where where;
  const llvm::Value* condition = nullptr;
  uint32_t branch = 0;
  std::string described = {};
};

// Holds the state of a step while the body of the pipeline is emitted.
struct StepState {
  StepState(const PipelineParts& parts, std::vector<Consumer>& consumers, const PipelineOutputs& outputs,
            GridIndex at, u32 number, u32 warpgroup)
      : parts(parts),
        consumers(consumers),
        at(std::move(at)),
        number(number),
        warpgroup(warpgroup),
        body(open_body),
        stages(parts.rings.size()),
        released(parts.rings.size()),
        waited(parts.inputs.size()),
        ins(parts.inputs.size()),
        asked(parts.outputs.size()) {
    for (size_t i = 0; i < parts.outputs.size(); ++i) outs.push_back(outputs.view(i));
  }

  // Returns the ring of an input whose block changes from step to step.
  size_t ring(int number, std::string_view operation) const {
    if (number < 0 || number >= static_cast<int>(parts.inputs.size()))
      throw Error(fmt::format("{}: input {} was requested, but there are {}", operation, number,
                              parts.inputs.size()));
    const size_t ring = parts.ring_of[static_cast<size_t>(number)];
    if (parts.rings[ring].fixed)
      throw Error(fmt::format("{}: input {} is a fixed block, which stays in shared memory for the whole run",
                              operation, number));
    return ring;
  }
  void check_in_step(std::string_view operation) const {
    check_in_body(body, operation, "every step must do so once, so call it outside");
  }
  void wait(size_t ring) {
    stages[ring] = consumers[ring].wait();
    fill(ring, *stages[ring]);
  }
  void fill(size_t ring, const Stage& stage) {
    for (size_t i : parts.rings[ring].inputs) ins[i] = parts.inputs[i].tile()[stage];
  }
  // Throws Error if some steps do not call out() for an output.
  void check_outputs() const {
    for (size_t i = 0; i < asked.size(); ++i) {
      if (asked[i].empty())
        throw Error(
            fmt::format("{}: the body never calls out({}), so the old contents of shared memory would be "
                        "stored to the tensor",
                        parts.operation, i));
      const auto in_every_step = [&](const Asked& a) {  // true also if both sides of a branch contain a call
        return !a.condition || std::ranges::any_of(asked[i], [&](const Asked& b) {
          return b.condition == a.condition && b.branch != a.branch;
        });
      };
      const Asked& first = asked[i][0];
      if (!parts.outputs[i].spec().options().fixed && std::ranges::none_of(asked[i], in_every_step))
        throw Error(first.where, fmt::format("out: output {} is requested only inside the {}, so a step that "
                                             "does not enter it would store what an earlier step left; call "
                                             "out() outside of it, and write the block in every step",
                                             i, first.described));
    }
  }

  const PipelineParts& parts;
  std::vector<Consumer>& consumers;
  GridIndex at;
  u32 number, warpgroup;
  uint32_t body;                               // number of the kernel body in which the step runs
  std::vector<std::optional<Stage>> stages;    // indexed by ring
  std::vector<std::optional<Where>> released;  // source line of the release, indexed by ring
  std::vector<std::optional<Where>> waited;    // source line of the wait, indexed by input
  std::vector<std::optional<TileView>> ins;
  std::vector<TileView> outs;
  std::vector<std::vector<Asked>> asked;  // calls to out(), indexed by output
  bool manual_wait = false, manual_release = false;
  bool is_over = false;  // set when the pipeline has ended, since a copy of the step may still exist
};

// The computing side of a pipeline: the warpgroups that run the body.
class ComputeEnd {
 public:
  ComputeEnd(const PipelineParts& parts, bool manual_wait, bool manual_release, u32 warpgroup)
      : parts_(parts),
        manual_wait_(manual_wait),
        manual_release_(manual_release),
        warpgroup_(warpgroup),
        outputs_(parts) {
    for (const PipelineParts::Ring& ring : parts.rings) consumers_.push_back(ring.pipe->consumer());
  }

  u32 warpgroup() const { return warpgroup_; }

  // Runs the body for each step. Calls `refill` for each ring when a stage of the ring is handed back.
  void run(const GridShape& grid, const GridIndex& tile, const PipelineBody& body,
           const std::function<void(u32 step, size_t ring)>& refill = nullptr) {
    Fixed fixed(parts_.rings.size());
    Kept kept(parts_.rings.size());
    for (size_t r = 0; r < parts_.rings.size(); ++r) {
      if (parts_.rings[r].fixed) fixed[r] = consumers_[r].wait();
      for (int i = 0; i < parts_.rings[r].delay; ++i) kept[r].emplace_back(consumers_[r].none());
    }
    outputs_.begin_run();
    ProductGroups& products = TileContext::of(Builder::current()).products;
    const auto sums = products.begun_in([&] { steps(grid, tile, body, refill, fixed, kept); });
    const bool delayed = std::any_of(kept.begin(), kept.end(), [](const auto& k) { return !k.empty(); });
    if (delayed) {  // products in flight may read these stages
      wgmma_wait_group(0);
      products.wait(0);
    }
    for (size_t r = 0; r < parts_.rings.size(); ++r) {
      for (const Var<Stage>& stage : kept[r]) consumers_[r].release(stage);
      if (fixed[r]) consumers_[r].release(*fixed[r]);
    }
    end_run(grid, tile, sums);
  }

 private:
  using Fixed = std::vector<std::optional<Stage>>;
  using Kept = std::vector<std::vector<Var<Stage>>>;  // the oldest stage is first
  using Sums = std::vector<ProductGroups::Accumulator>;

  void steps(const GridShape& grid, const GridIndex& tile, const PipelineBody& body,
             const std::function<void(u32 step, size_t ring)>& refill, const Fixed& fixed, Kept& kept) {
    for_each_step(grid, [&](const GridIndex& at, u32 number) {
      const auto state =
          std::make_shared<StepState>(parts_, consumers_, outputs_, tile.with(at), number, warpgroup_);
      state->manual_wait = manual_wait_, state->manual_release = manual_release_;
      for (size_t r = 0; r < parts_.rings.size(); ++r)
        if (fixed[r])
          state->fill(r, *fixed[r]);
        else if (!manual_wait_)
          state->wait(r);
      PipelineStep step(state);
      {
        AuthorsCode authors;
        body(step);
      }
      state->is_over = true;
      state->check_outputs();
      if (!manual_release_) bar_warp_sync(0xffffffff);  // all lanes have finished reading
      for (size_t r = 0; r < parts_.rings.size(); ++r) {
        if (fixed[r]) continue;
        if (!state->stages[r])
          throw Error(fmt::format("{}: the pipeline has manual_wait, but the body never waits for in {}",
                                  parts_.operation, parts_.rings[r].inputs[0]));
        if (!manual_release_) release(r, *state->stages[r], kept[r]);
        if (refill) refill(number, r);
      }
      outputs_.end_step(state->at);
    });
  }
  // Ends a run. A run without steps has not written fixed outputs or sums of products. In this case, no
  // outputs are stored, and the sums are set to zero.
  void end_run(const GridShape& grid, const GridIndex& tile, const Sums& sums) const {
    const auto outputs = [&] {
      AtLine line(parts_.where);
      outputs_.end_run(tile);
    };
    const Index steps(steps_of(grid));
    if (steps.known()) return outputs();
    if (outputs_.has_fixed()) if_(steps.value() > 0, outputs);
    if (sums.empty()) return;
    if_(steps.value() == 0, [&] {
      AtLine line(parts_.where);
      // The library assumes here that the body's last products may still be in flight, although the body has
      // not run.
      if (std::any_of(sums.begin(), sums.end(), [](const auto& sum) { return sum->group.has_value(); }))
        wgmma_wait_group(0);
      for (const auto& sum : sums) sum->clear();
    });
  }
  // Hands back the oldest stage in `kept`, or `stage` if `kept` is empty.
  void release(size_t ring, const Stage& stage, std::vector<Var<Stage>>& kept) {
    if (kept.empty()) return consumers_[ring].release(stage);
    consumers_[ring].release(kept.front());
    for (size_t i = 0; i + 1 < kept.size(); ++i) kept[i] = kept[i + 1].value();
    kept.back() = stage;
  }

  const PipelineParts& parts_;
  bool manual_wait_, manual_release_;
  u32 warpgroup_;
  PipelineOutputs outputs_;
  std::vector<Consumer> consumers_;
};

}  // namespace detail

detail::StepState& PipelineStep::state() const {
  if (state_->is_over) throw Error("a step of a pipeline was used after its body has ended");
  return *state_;
}
const GridIndex& PipelineStep::index() const { return state_->at; }
u32 PipelineStep::number() const { return state_->number; }
u32 PipelineStep::warpgroup() const { return state_->warpgroup; }

void PipelineStep::wait(int number, Where where) {
  AtLine line(where);
  detail::StepState& s = state();
  if (!s.manual_wait)
    throw Error("wait: only for a pipeline with manual_wait; other pipelines wait before the body");
  const size_t ring = s.ring(number, "wait");
  s.check_in_step("wait");
  std::optional<Where>& waited = s.waited[static_cast<size_t>(number)];
  if (waited)
    throw Error(fmt::format("wait: input {} was already waited for at {}; wait once per step", number,
                            to_string(*waited)));
  waited = Where::here();
  if (!s.stages[ring]) s.wait(ring);  // otherwise, the input arrived with another input of the ring
}

void PipelineStep::release(int number, Where where) {
  AtLine line(where);
  detail::StepState& s = state();
  if (!s.manual_release)
    throw Error(
        "release: only for a pipeline with manual_release; other pipelines hand stages back after the body");
  const size_t ring = s.ring(number, "release");
  s.check_in_step("release");
  if (!s.stages[ring]) throw Error(fmt::format("release: input {} was not waited for", number));
  std::optional<Where>& released = s.released[ring];
  if (released)
    throw Error(fmt::format(
        "release: the stage of input {} was already handed back at {}{}", number, to_string(*released),
        s.parts.rings[ring].inputs.size() > 1 ? "; inputs with the same delay_release share their stages"
                                              : "; once a step"));
  released = Where::here();
  s.consumers[ring].release(*s.stages[ring]);
}

const TileView& PipelineStep::in(int number, Where where) const {
  AtLine line(where);
  detail::StepState& s = state();
  if (number < 0 || number >= static_cast<int>(s.ins.size()))
    throw Error(fmt::format("in: input {} was requested, but there are {}", number, s.ins.size()));
  const auto& view = s.ins[static_cast<size_t>(number)];
  if (!view)
    throw Error(fmt::format("in: input {} has not been waited for; with manual_wait, call wait({}) first",
                            number, number));
  if (const auto& released = s.released[s.parts.ring_of[static_cast<size_t>(number)]])
    throw Error(fmt::format("in: input {} was already handed back at {}, so it may be overwritten", number,
                            to_string(*released)));
  return *view;
}

const TileView& PipelineStep::out(int number, Where where) const {
  AtLine line(where);
  detail::StepState& s = state();
  if (number < 0 || number >= static_cast<int>(s.outs.size()))
    throw Error(fmt::format("out: output {} was requested, but there are {}", number, s.outs.size()));
  detail::Asked asked{Where::here()};
  if (const detail::OpenBody* branch = detail::branch_of_steps(s.body))
    asked = {asked.where, branch->conditions().empty() ? nullptr : branch->conditions()[0], branch->number(),
             branch->describe()};
  s.asked[static_cast<size_t>(number)].push_back(std::move(asked));
  return s.outs[static_cast<size_t>(number)];
}

void emit_pipeline(Kernel& k, const GridShape& grid, std::vector<BlockSpec> in, std::vector<BlockSpec> out,
                   const PipelineOptions& o, const PipelineBody& body, Where where) {
  AtLine line(where);
  if (!body) throw Error("emit_pipeline: the body is empty");
  detail::check_grid(grid, "emit_pipeline");
  if (detail::in_role())
    throw Error(
        "emit_pipeline: it must be called outside of roles; emit_pipeline_warp_specialized makes its own "
        "roles");
  const int threads = static_cast<int>(k.signature().threads);
  if (threads % hopper::warpgroup_threads != 0)
    throw Error(fmt::format(
        "emit_pipeline: the CTA has {} threads, but the number must be a multiple of {}, a warpgroup",
        threads, hopper::warpgroup_threads));
  detail::TileContext::of(k.builder())
      .use_threads("emit_pipeline",
                   "make it an emit_pipeline_warp_specialized too, so that its own roles load and compute");
  const detail::PipelineParts parts(k, "emit_pipeline", std::move(in), std::move(out), o.stages, threads,
                                    threads / hopper::warpgroup_threads, false, o.manual_release);
  if (detail::cluster_size(k.builder()) > 1)
    detail::meet_cluster();
  else
    sync_threads();

  detail::LoadEnd loads(parts);
  const auto load = [&](size_t ring, const GridIndex& at) {
    if (parts.load_threads > 0)
      loads.load(ring, at);
    else
      elect([&] {
        AtLine inner(where);
        loads.load(ring, at);
      });
  };
  const u32 steps = detail::steps_of(grid),
            warpgroup = threads == hopper::warpgroup_threads ? u32(0) : warp_index() / 4;
  const auto ahead = [&](size_t ring) { return u32(parts.rings[ring].stages - parts.rings[ring].delay); };
  std::vector<std::unique_ptr<detail::GridWalk>> next(parts.rings.size());  // next position of each ring
  const auto load_next = [&](size_t ring) {
    load(ring, next[ring]->at());
    next[ring]->next();
  };
  for (size_t r = 0; r < parts.rings.size(); ++r) {
    if (parts.rings[r].fixed) {
      load(r, GridIndex());
      continue;
    }
    next[r] = std::make_unique<detail::GridWalk>(grid);
    for_(0, min(steps, ahead(r)), [&](u32) { load_next(r); });
  }
  detail::ComputeEnd compute(parts, o.manual_wait, o.manual_release, warpgroup);
  compute.run(grid, GridIndex(), body,
              [&](u32 step, size_t ring) { if_(step + ahead(ring) < steps, [&] { load_next(ring); }); });
}

u32 PipelineCompute::warpgroup() const { return end_.warpgroup(); }

void PipelineCompute::run(const PipelineBody& body, Where where) {
  AtLine line(where);
  if (runs_)
    throw Error("run: the pipeline has already run; call run() once in compute(), or once in each tile");
  if (tiles_ && !tile_) throw Error("run: this is a pipeline of tiles, so call run() in each_tile()");
  detail::check_in_body(body_, "run",
                        "all loaded blocks are used once; pass a loop's steps as an axis of the grid, or as "
                        "SpecializedOptions::tiles");
  runs_ = true;
  end_.run(grid_, tile_.value_or(GridIndex()), body);
}

void PipelineCompute::each_tile(const std::function<void(const GridIndex&)>& body, Where where) {
  AtLine line(where);
  if (!tiles_) throw Error("each_tile: only for a pipeline with SpecializedOptions::tiles");
  if (runs_) throw Error("each_tile: the pipeline has run already");
  detail::check_in_body(body_, "each_tile", "all tiles are loaded once, so call it outside");
  const auto compare = order_->computes();
  AuthorsCode authors;
  tiles_([&](const GridIndex& tile) {
    {
      AtLine line(where);
      compare(tile);
    }
    tile_ = tile;
    runs_ = false;
    const uint32_t around = std::exchange(body_, detail::open_body);
    body(tile);
    if (!runs_)
      throw Error(where,
                  "each_tile: run() is never called, so the blocks loaded for the tile are never used");
    tile_.reset();
    body_ = around;
  });
  AtLine after(where);
  order_->end();
}

void emit_pipeline_warp_specialized(Kernel& k, const GridShape& grid, std::vector<BlockSpec> in,
                                    std::vector<BlockSpec> out, const SpecializedOptions& o,
                                    const std::function<void(PipelineCompute&)>& compute, Where where) {
  AtLine line(where);
  const char* const operation = "emit_pipeline_warp_specialized";
  if (!compute) throw Error(fmt::format("{}: the body is empty", operation));
  detail::check_grid(grid, operation);
  if (o.compute_warpgroups < 1)
    throw Error(fmt::format("{}: {} warpgroups compute, but there must be at least one", operation,
                            o.compute_warpgroups));
  // Computing threads share the registers that loading threads leave in an SM, rounded down to the
  // granularity of setmaxnreg.
  constexpr int kStep = hopper::role_register_step, kAll = hopper::sm_registers / hopper::warpgroup_threads;
  const int registers = o.compute_registers.value_or(
      std::min(hopper::most_role_registers, (kAll - o.memory_registers) / o.compute_warpgroups) / kStep *
      kStep);
  detail::PipelineParts parts(k, operation, std::move(in), std::move(out), o.stages,
                              hopper::warpgroup_threads, o.compute_warpgroups, static_cast<bool>(o.tiles),
                              o.manual_release);
  if (!parts.outputs.empty() && o.compute_warpgroups > 1)
    parts.meeting = k.named_barrier(hopper::warpgroup_threads * o.compute_warpgroups);
  std::optional<detail::TileOrderCheck> order;
  if (o.tiles) order.emplace(k, o.compute_warpgroups);

  k.warpgroups(1, o.memory_registers, [&](u32) {
    AtLine line(where);
    const auto produce = [&] {
      AtLine line(where);
      detail::LoadEnd loads(parts);
      if (!o.tiles) return loads.run(grid, GridIndex());
      const auto tell = order->loads(parts.load_threads == 0);
      AuthorsCode authors;
      o.tiles([&](const GridIndex& tile) {
        AtLine line(where);
        tell(tile);
        loads.run(grid, tile);
      });
    };
    if (parts.load_threads > 0)
      produce();
    else
      elect(produce);
  });
  k.warpgroups(o.compute_warpgroups, registers, [&](u32 warpgroup) {
    AtLine line(where);
    detail::ComputeEnd end(parts, o.manual_wait, o.manual_release, warpgroup);
    PipelineCompute pipe(end, grid, o.tiles, order ? &*order : nullptr);
    {
      AuthorsCode authors;
      compute(pipe);
    }
    if (!pipe.runs_)
      throw Error(fmt::format("{}: run() is never called, so the loaded blocks are never used", operation));
  });
}

void emit_pipeline_warp_specialized(Kernel& k, const GridShape& grid, std::vector<BlockSpec> in,
                                    std::vector<BlockSpec> out, const SpecializedOptions& o,
                                    const PipelineBody& body, Where where) {
  AtLine line(where);
  if (!body) throw Error("emit_pipeline_warp_specialized: the body is empty");
  emit_pipeline_warp_specialized(k, grid, std::move(in), std::move(out), o, [&](PipelineCompute& pipe) {
    if (o.tiles)
      pipe.each_tile([&](const GridIndex&) { pipe.run(body, where); }, where);
    else
      pipe.run(body, where);
  });
}

}  // namespace ptxbuilder
