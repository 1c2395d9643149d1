// Misuse of emit_pipeline: each case throws an Error that names the rule, the values and the line, and has a
// twin that is accepted.
#include "misuse_kit.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/emit_pipeline.h"

namespace ptxbuilder::test::misuse_emit_pipeline_test {
namespace {

// y = x over a grid; a case bends it in one place.
struct Copying {
  GridShape grid = {{"row", 4}};
  BlockShape block = {8, 32};
  BlockOptions in = {}, out = {};
  PipelineOptions options = {};
  int threads = 128;
  IndexMap index = [](const GridIndex& i) { return BlockIndex{i[0], 0}; };
  std::function<void(PipelineStep&)> body = [](PipelineStep& s) { store(s.out(0), load<f32>(s.in(0))); };
};

void copying(const Copying& c, Where where) {
  Kernel k("k");
  auto [X, Y] = k.params<TensorMap, TensorMap>("X", "Y");
  k.threads(static_cast<uint32_t>(c.threads));
  emit_pipeline(k, c.grid, {{X, DType::f32, c.block, c.index, c.in}},
                {{Y, DType::f32, c.block, c.index, c.out}}, c.options, c.body, where);
  done(k);
}

// This pipeline has roles.
struct Specialized {
  int warpgroups = 1, memory_registers = 40;
  bool tiles = false;
  std::function<void(PipelineCompute&)> compute = [](PipelineCompute& pipe) {
    pipe.run([](PipelineStep&) {});
  };
};

void specialized(const Specialized& c, Where where) {
  Kernel k("k");
  auto [X] = k.params<TensorMap>("X");
  SpecializedOptions o{.compute_warpgroups = c.warpgroups, .memory_registers = c.memory_registers};
  if (c.tiles)
    o.tiles = [](const std::function<void(const GridIndex&)>& body) {
      for_(0, u32(3), [&](u32 i) { body(GridIndex({"tile"}, {i})); });
    };
  emit_pipeline_warp_specialized(k, {4},
                                 {{X,
                                   DType::f32,
                                   {8, 32},
                                   [](const GridIndex& i) {
                                     return BlockIndex{i[0], 0};
                                   }}},
                                 {}, o, c.compute, where);
  done(k);
}

}  // namespace

TEST_CASE("an index has as many names as numbers") {
  Kernel k("k");
  CHECK(contains(error_of([] { GridIndex({"a", "b"}, {u32(0)}); }), "2 names of axes and 1 numbers"));
  CHECK(GridIndex({"a"}, {u32(0)}).size() == 1);
}

TEST_CASE("misuse of emit_pipeline, and its accepted twins") {
  check_cases({
      {"a grid dimension of 0",
       {"emit_pipeline", "axis 1 (\"col\")", "0 steps"},
       [](bool bad) {
         HERE copying({.grid = {{"row", 4}, {"col", bad ? 0 : 1}}}, marked);
       }},
      {"two axes of one name",
       {"axes 0 and 1", "both named \"row\""},
       [](bool bad) {
         HERE copying({.grid = {{"row", 4}, {bad ? "row" : "col", 1}}}, marked);
       }},
      {"a block that does not fit",
       {"in 0", "a block of 256x128 f32", "2 stages", "262144 B", "232448"},
       [](bool bad) {
         HERE copying({.block = {bad ? 256 : 16, 128}}, marked);
       }},
      {"rows of 8 bytes by TMA",
       {"in 0", "rows have 8 B", "GlobalTensor"},
       [](bool bad) {
         HERE copying({.block = {32, bad ? 2 : 4}}, marked);
       }},
      {"an index map with too few numbers",
       {"in 0", "gives 1 numbers", "the block has 2 dimensions"},
       [](bool bad) {
         HERE copying({.index =
                           [bad](const GridIndex& i) {
                             return bad ? BlockIndex{i[0]} : BlockIndex{i[0], 0};
                           }},
                      marked);
       }},
      {"no index map",
       {"in 0", "it has no index map"},
       [](bool bad) {
         HERE copying({.index = bad ? IndexMap() : [](const GridIndex& i) { return BlockIndex{i[0], 0}; }},
                      marked);
       }},
      {"a block of three dimensions that are not 1",
       {"dimension 0 is 2", "all but the last two"},
       [](bool bad) {
         HERE copying({.block = {bad ? 2 : 1, 8, 32},
                       .index =
                           [](const GridIndex& i) {
                             return BlockIndex{0, i[0], 0};
                           }},
                      marked);
       }},
      {"a stage kept as long as there are stages",
       {"in 0", "delay_release of 2 with 2 stages"},
       [](bool bad) { HERE copying({.in = {.delay_release = bad ? 2 : 1}}, marked); }},
      {"delay_release with manual_release",
       {"in 0", "delay_release with manual_release"},
       [](bool bad) {
         HERE copying({.in = {.delay_release = bad ? 1 : 0},
                       .options = {.manual_release = true},
                       .body = [](PipelineStep& s) { s.release(0); }},
                      marked);
       }},
      {"an output that is kept",
       {"out 0", "are of inputs"},
       [](bool bad) { HERE copying({.out = {.delay_release = bad ? 1 : 0}}, marked); }},
      {"fixed blocks alone",
       {"all inputs are fixed"},
       [](bool bad) {
         HERE copying({.in = {.fixed = bad},
                       .index =
                           [](const GridIndex&) {
                             return BlockIndex{0, 0};
                           }},
                      marked);
       }},
      {"no whole warpgroups",
       {"a CTA of 96 threads"},
       [](bool bad) { HERE copying({.threads = bad ? 96 : 128}, marked); }},
      {"no stages",
       {"0 stages"},
       [](bool bad) { HERE copying({.options = {.stages = bad ? 0 : 1}}, marked); }},
      {"manual_release, and none",
       {"never released"},
       [](bool bad) {
         HERE copying({.options = {.manual_release = true},
                       .body =
                           [bad](PipelineStep& s) {
                             if (!bad) s.release(0);
                           }},
                      marked);
       }},
      {"no warpgroup computes",
       {"0 warpgroups compute"},
       [](bool bad) { HERE specialized({.warpgroups = bad ? 0 : 1}, marked); }},
      {"registers that setmaxnreg does not take",
       {"registers must be", "41"},
       [](bool bad) { HERE specialized({.memory_registers = bad ? 41 : 40}, marked); }},
      {"a pipeline that is not run",
       {"run() is not called"},
       [](bool bad) {
         HERE specialized({.compute =
                               [bad](PipelineCompute& pipe) {
                                 if (!bad) pipe.run([](PipelineStep&) {});
                               }},
                          marked);
       }},
  });
}

TEST_CASE("misuse inside of a pipeline's body") {
  check_cases({
      {"an input that there is not",
       {"in: number 1 of 1 inputs"},
       [](bool bad) {
         copying({.body =
                      [bad](PipelineStep& s) {
                        HERE const TileView& x = s.in(bad ? 1 : 0);
                        store(s.out(0), load<f32>(x));
                      }},
                 Where::here());
       }},
      {"an axis that there is not",
       {"no axis is named \"column\"", "axis 0 (\"row\")"},
       [](bool bad) {
         copying({.body =
                      [bad](PipelineStep& s) {
                        HERE s.index()[bad ? "column" : "row"];
                        store(s.out(0), load<f32>(s.in(0)));
                      }},
                 Where::here());
       }},
      {"a wait without manual_wait",
       {"wait: for a pipeline with manual_wait"},
       [](bool bad) {
         copying({.options = {.manual_wait = !bad},
                  .body =
                      [](PipelineStep& s) {
                        HERE s.wait(0);
                        store(s.out(0), load<f32>(s.in(0)));
                      }},
                 Where::here());
       }},
      {"an input that is not waited for",
       {"in: input 0 is not waited for"},
       [](bool bad) {
         copying({.options = {.manual_wait = true},
                  .body =
                      [bad](PipelineStep& s) {
                        if (!bad) s.wait(0);
                        HERE const TileView& x = s.in(0);
                        store(s.out(0), load<f32>(x));
                      }},
                 Where::here());
       }},
      {"a pipeline of tiles that runs outside of them",
       {"call it in each_tile()"},
       [](bool bad) {
         specialized(
             {.tiles = true,
              .compute =
                  [bad](PipelineCompute& pipe) {
                    if (!bad)
                      return pipe.each_tile([&](const GridIndex&) { pipe.run([](PipelineStep&) {}); });
                    HERE pipe.run([](PipelineStep&) {});
                  }},
             Where::here());
       }},
      {"a pipeline inside a loop",
       {"emit_pipeline: inside a branch or a loop", "an axis of the grid"},
       [](bool bad) {
         Kernel k("k");
         auto [X] = k.params<TensorMap>("X");
         const BlockSpec x(X, DType::f32, {8, 32}, [](const GridIndex& i) { return BlockIndex{i[0], 0}; });
         const auto run = [&] { HERE emit_pipeline(k, {4}, {x}, {}, {}, [](PipelineStep&) {}); };
         if (bad)
           for_(0, u32(2), [&](u32) { run(); });
         else
           run();
         done(k);
       }},
      {"a pipeline inside a role",
       {"emit_pipeline: inside a role"},
       [](bool bad) {
         Kernel k("k");
         auto [X] = k.params<TensorMap>("X");
         const BlockSpec x(X, DType::f32, {8, 32}, [](const GridIndex& i) { return BlockIndex{i[0], 0}; });
         const auto run = [&] { HERE emit_pipeline(k, {4}, {x}, {}, {}, [](PipelineStep&) {}); };
         if (bad)
           k.warpgroups(1, 0, [&](u32) { run(); });
         else
           run();
         done(k);
       }},
  });
}

}  // namespace ptxbuilder::test::misuse_emit_pipeline_test
