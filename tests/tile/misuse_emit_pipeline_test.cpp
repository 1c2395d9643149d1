// Tests misuse of emit_pipeline. Each case throws an Error that names the rule, the values and the line, and
// has a twin that is accepted.
#include "misuse_kit.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/emit_pipeline.h"

namespace ptxbuilder::test::misuse_emit_pipeline_test {
namespace {

// Computes y = x over a grid. A case changes one part of it.
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

// A pipeline with roles.
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

// Builds a pipeline of two inputs, which share their stages.
void two_inputs(PipelineOptions o, const PipelineBody& body) {
  Kernel k("k");
  auto [X] = k.params<TensorMap>("X");
  const BlockSpec x(X, DType::f32, {8, 32}, [](const GridIndex& i) { return BlockIndex{i[0], 0}; });
  emit_pipeline(k, {4}, {x, x}, {}, o, body, Where::here());
  done(k);
}

// Builds a pipeline with tiles whose numbers the host gives to the loading role and to the computing role.
void tiles_by_host(const std::vector<uint32_t>& loaded, const std::vector<uint32_t>& computed, Where where) {
  Kernel k("k");
  auto [X] = k.params<TensorMap>("X");
  int roles = 0;
  SpecializedOptions o;
  o.tiles = [&](const std::function<void(const GridIndex&)>& body) {
    for (const uint32_t i : roles++ == 0 ? loaded : computed) body(GridIndex({"tile"}, {u32(i)}));
  };
  emit_pipeline_warp_specialized(
      k, {4},
      {{X,
        DType::f32,
        {8, 32},
        [](const GridIndex& i) {
          return BlockIndex{i["tile"], 0};
        }}},
      {}, o, [](PipelineStep&) {}, where);
  done(k);
}

TEST_CASE("an index has as many names as numbers") {
  Kernel k("k");
  CHECK(contains(error_of([] {
                   GridIndex({"a", "b"}, {u32(0)});
                 }),
                 "2 names of axes were given for 1 numbers"));
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
      {"a swizzle whose panels do not begin where TMA takes them",
       {"tma_load", "panels of 64 B", "a multiple of 128 B"},
       [](bool bad) {
         HERE copying(
             {.block = {bad ? 1 : 2, 128}, .in = {.swizzle = Swizzle64B}, .out = {.swizzle = SwizzleNone}},
             marked);
       }},
      {"stages that do not begin where TMA takes them",
       {"in 0", "one stage has 64 B", "a multiple of 128 B"},
       [](bool bad) {
         HERE copying({.block = {1, bad ? 16 : 128}}, marked);
       }},
      {"rows of 8 bytes by TMA",
       {"in 0", "rows have 8 B", "GlobalTensor"},
       [](bool bad) {
         HERE copying({.block = {32, bad ? 2 : 4}}, marked);
       }},
      {"an index map with too few numbers",
       {"in 0", "returns 1 numbers", "the block has 2 dimensions"},
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
       {"dimension 0 is 2", "all dimensions except the last two"},
       [](bool bad) {
         HERE copying({.block = {bad ? 2 : 1, 8, 32},
                       .index =
                           [](const GridIndex& i) {
                             return BlockIndex{0, i[0], 0};
                           }},
                      marked);
       }},
      {"a stage kept as long as there are stages",
       {"in 0", "delay_release is 2, but must be less than the number of stages, 2"},
       [](bool bad) { HERE copying({.in = {.delay_release = bad ? 2 : 1}}, marked); }},
      {"delay_release with manual_release",
       {"in 0", "delay_release cannot be combined with manual_release"},
       [](bool bad) {
         HERE copying({.in = {.delay_release = bad ? 1 : 0},
                       .options = {.manual_release = true},
                       .body =
                           [](PipelineStep& s) {
                             s.out(0);
                             s.release(0);
                           }},
                      marked);
       }},
      {"an output that is kept",
       {"out 0", "has an option that only inputs can have"},
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
       {"the CTA has 96 threads"},
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
                             s.out(0);
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
       {"run() is never called"},
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
       {"in: input 1 was requested, but there are 1"},
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
       {"wait: only for a pipeline with manual_wait"},
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
       {"in: input 0 has not been waited for"},
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
       {"call run() in each_tile()"},
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
      {"a step that is kept after its body",
       {"a step of a pipeline was used after its body has ended"},
       [](bool bad) {
         Kernel k("k");
         auto [X] = k.params<TensorMap>("X");
         const BlockSpec x(X, DType::f32, {8, 32}, [](const GridIndex& i) { return BlockIndex{i[0], 0}; });
         std::optional<PipelineStep> kept;
         emit_pipeline(k, {4}, {x}, {}, {}, [&](PipelineStep& s) {
           kept = s;
           kept->in(0);
         });
         HERE if (bad) kept->in(0);
         done(k);
       }},
      {"an output that the body never asks for",
       {"emit_pipeline: the body never calls out(0)"},
       [](bool bad) {
         Copying c;
         if (bad) c.body = [](PipelineStep& s) { s.in(0); };
         HERE copying(c, Where::here());
       }},
      {"an output that is asked for in a branch of some steps",
       {"out: output 0 is requested only inside the if_ at misuse_emit_pipeline_test.cpp",
        "write the block in every step"},
       [](bool bad) {
         copying({.body =
                      [bad](PipelineStep& s) {
                        const auto write = [&] {
                          HERE const TileView& out = s.out(0);
                          store(out, load<f32>(s.in(0)));
                        };
                        if_(s.number() > 0, write, bad ? std::function<void()>() : write);
                      }},
                 Where::here());
       }},
      {"tiles where the host gives the roles others",
       {"tiles: the roles must take the same tiles in the same order", "tile 1", "axis 0 (\"tile\") = 3",
        "axis 0 (\"tile\") = 2"},
       [](bool bad) {
         HERE tiles_by_host({1, 2}, {1, bad ? 3u : 2u}, marked);
       }},
      {"tiles where the host gives the roles more",
       {"tiles: the roles must take the same tiles in the same order",
        "the host gives 1 to the computing role", "2 to the loading role"},
       [](bool bad) {
         HERE tiles_by_host({1, 2}, bad ? std::vector{1u} : std::vector{1u, 2u}, marked);
       }},
      {"CTAs that share a block by multicast, and name different ones",
       {"tma_load: with multicast along x of the cluster", "coordinate 1 differs between them"},
       [](bool bad) {
         Kernel k("k");
         k.cluster({{"pair", 2}});
         auto [X] = k.params<TensorMap>("X");
         // Both CTAs of the cluster compute the same value.
         const u32 first = ctaid_x() - axis_index("pair");
         const BlockSpec x(X, DType::f32, {16, 32},
                           [&](const GridIndex& i) {
                             return BlockIndex{bad ? ctaid_x() : first / 2u, i[0]};
                           },
                           {.multicast = ClusterAxis::x});
         HERE emit_pipeline(k, {4}, {x}, {}, {}, [](PipelineStep&) {});
         done(k);
       }},
      {"a column-major matrix whose blocks threads copy",
       {"in 0", "are not contiguous", "transposed()"},
       [](bool bad) {
         Kernel k("k");
         auto [x] = k.params<gptr<f32>>("x");
         const GlobalTensor all(x, {64, 64}, {1, 64});
         const IndexMap index = [](const GridIndex& i) { return BlockIndex{i[0], 0}; };
         const BlockSpec block =
             bad ? BlockSpec(all, {8, 32}, index) : BlockSpec(all.transposed(), {8, 32}, index);
         HERE emit_pipeline(k, {4}, {block}, {}, {}, [](PipelineStep&) {});
         done(k);
       }},
      {"a pipeline inside a loop",
       {"emit_pipeline: it must be outside of branches and loops", "an axis of the grid",
        "DynamicSteps::order()"},
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
       {"emit_pipeline: it must be called outside of roles"},
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

TEST_CASE("misuse of waits and releases by the body") {
  const PipelineOptions by_hand{.manual_wait = true, .manual_release = true};
  check_cases({
      {"a second wait for one input",
       {"wait: input 0 was already waited for at misuse_emit_pipeline_test.cpp"},
       [&](bool bad) {
         two_inputs(by_hand, [bad](PipelineStep& s) {
           s.wait(0);
           HERE s.wait(bad ? 0 : 1);
           s.release(0);
         });
       }},
      {"a second release of one stage",
       {"release: the stage of input 1 was already handed back at misuse_emit_pipeline_test.cpp",
        "share their stages"},
       [&](bool bad) {
         two_inputs(by_hand, [bad](PipelineStep& s) {
           s.wait(0);
           s.release(0);
           HERE if (bad) s.release(1);
         });
       }},
      {"an input after its release",
       {"in: input 1 was already handed back at misuse_emit_pipeline_test.cpp", "may be overwritten"},
       [&](bool bad) {
         two_inputs(by_hand, [bad](PipelineStep& s) {
           s.wait(0);
           if (bad) s.release(0);
           HERE s.in(1);
           if (!bad) s.release(0);
         });
       }},
      {"a release in a branch",
       {"release: it is called inside the if_ at misuse_emit_pipeline_test.cpp",
        "every step must do so once"},
       [&](bool bad) {
         two_inputs(by_hand, [bad](PipelineStep& s) {
           s.wait(0);
           const auto release = [&] { HERE s.release(0); };
           if (bad)
             if_(s.number() > 0, release);
           else
             release();
         });
       }},
      {"a wait in a loop",
       {"wait: it is called inside the for_ at misuse_emit_pipeline_test.cpp"},
       [&](bool bad) {
         two_inputs(by_hand, [bad](PipelineStep& s) {
           const auto wait = [&] { HERE s.wait(0); };
           if (bad)
             for_(0, u32(2), [&](u32) { wait(); });
           else
             wait();
           s.release(0);
         });
       }},
      {"a run in a loop",
       {"run: it is called inside the for_ at misuse_emit_pipeline_test.cpp", "an axis of the grid"},
       [](bool bad) {
         specialized({.compute =
                          [bad](PipelineCompute& pipe) {
                            const auto run = [&] { HERE pipe.run([](PipelineStep&) {}); };
                            if (bad)
                              for_(0, u32(2), [&](u32) { run(); });
                            else
                              run();
                          }},
                     Where::here());
       }},
      {"a run in a branch of a tile",
       {"run: it is called inside the if_ at misuse_emit_pipeline_test.cpp"},
       [](bool bad) {
         specialized({.tiles = true,
                      .compute =
                          [bad](PipelineCompute& pipe) {
                            pipe.each_tile([&](const GridIndex& tile) {
                              const auto run = [&] { HERE pipe.run([](PipelineStep&) {}); };
                              if (bad)
                                if_(tile[0] > 1, run);
                              else
                                run();
                            });
                          }},
                     Where::here());
       }},
  });
}

TEST_CASE("misuse of operations for a CTA in a kernel that gets roles") {
  check_cases({
      {"emit_pipeline ahead of a role",
       {"emit_pipeline: this was emitted outside of roles", "a CTA of 128 threads", "the CTA has 256 threads",
        "emit_pipeline_warp_specialized too"},
       [](bool bad) {
         Kernel k("k");
         auto [X] = k.params<TensorMap>("X");
         const BlockSpec x(X, DType::f32, {8, 32}, [](const GridIndex& i) { return BlockIndex{i[0], 0}; });
         HERE emit_pipeline(k, {4}, {x}, {}, {}, [](PipelineStep&) {});
         k.warpgroups(bad ? 2 : 1, 0, [](u32) {});
         done(k);
       }},
      {"a register tile after the roles",
       {"register tile: this was emitted outside of roles", "a CTA of 128 threads", "the CTA has 256 threads",
        "move it into a role"},
       [](bool bad) {
         Kernel k("k");
         auto [X] = k.params<gptr<f32>>("X");
         const auto load_some = [X = X] {
           const GlobalTensor x(X, {64, 64});
           HERE store(x.tile(0, 0), load<f32>(x.tile(0, 0), strided({64, 64}, 4)) + 1);
         };
         k.warpgroups(2, 0, [&](u32) {
           if (!bad) load_some();
         });
         if (bad) load_some();
         done(k);
       }},
  });
}

TEST_CASE("misuse of fixed blocks") {
  check_cases({
      {"a map of a fixed block by the step's index",
       {"grid: axis 0 does not exist", "in 0 is a fixed block", "only gets the tile's index"},
       [](bool bad) {
         Kernel k("k");
         auto [X] = k.params<TensorMap>("X");
         const IndexMap step = [](const GridIndex& i) { return BlockIndex{i[0], 0}; };
         const IndexMap map = [bad](const GridIndex& i) { HERE return BlockIndex{bad ? i[0] : u32(0), 0}; };
         emit_pipeline(k, {4},
                       {{X, DType::f32, {8, 32}, map, {.fixed = true}}, {X, DType::f32, {8, 32}, step}}, {},
                       {}, [](PipelineStep&) {});
         done(k);
       }},
      {"several stages of a fixed block of one run",
       {"in 0: fixed_stages is 2", "a pipeline of tiles"},
       [](bool bad) { HERE copying({.in = {.fixed_stages = bad ? 2 : 1}}, marked); }},
  });
}

}  // namespace ptxbuilder::test::misuse_emit_pipeline_test
