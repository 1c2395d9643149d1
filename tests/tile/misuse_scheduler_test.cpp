// Tests misuse of named axes, loops over grids, orders of tiles and steps from a counter. Each case throws an
// Error that names the rule, the values and the line, and has a twin that is accepted.
#include "misuse_kit.h"
#include "ptxbuilder/tile/emit_pipeline.h"
#include "ptxbuilder/tile/raster.h"
#include "ptxbuilder/tile/scheduler.h"
#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder::test::misuse_scheduler_test {
namespace {

void with_kernel(const std::function<void(Kernel&)>& body) {
  Kernel k("k");
  body(k);
  done(k);
}

}  // namespace

TEST_CASE("misuse of named axes and loops, and its accepted twins") {
  check_cases({
      {"an axis that there is not",
       {"no axis here is named \"k\"", "there are m, n"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           k.grid({{"m", "2"}, {"n", "3"}});
           HERE axis_index(bad ? "k" : "n");
         });
       }},
      {"one name for two axes",
       {"\"m\" is already the name of another axis"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           k.grid({{"m", "2"}});
           HERE k.cluster({{bad ? "m" : "pair", 2}});
         });
       }},
      {"four axes",
       {"grid: 4 axes were named", "1 to 3"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           if (!bad) return k.grid({{"a", "1"}, {"b", "1"}, {"c", "1"}});
           HERE k.grid({{"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}});
         });
       }},
      {"a role's axis outside of the role",
       {"no axis here is named \"wg\""},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           k.warpgroups("wg", 1, 0, [&](u32) {
             if (!bad) axis_index("wg");
           });
           HERE if (bad) axis_index("wg");
         });
       }},
      {"CTAs of the grid that share a load",
       {"\"m\" is not an axis of the cluster"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           k.grid({{"m", "2"}});
           k.cluster({{"pair", 2}});
           HERE cluster_axes({bad ? "m" : "pair"});
         });
       }},
      {"a loop over a grid without steps",
       {"nd_loop", "axis 1", "0 steps"},
       [](bool bad) {
         with_kernel([&](Kernel&) { HERE nd_loop({2, bad ? 0 : 1}, {}, [](const LoopStep&) {}); });
       }},
      {"a tiling that does not divide its axis",
       {"nd_loop", "the tiling is 2 along axis 1 of 3 steps"},
       [](bool bad) {
         with_kernel([&](Kernel&) {
           HERE nd_loop({2, 3}, {}, {.tiling = {1, bad ? 2 : 3}}, [](const LoopStep&) {});
         });
       }},
      {"a tiling of another rank",
       {"the tiling has 1 numbers, but the grid has 2 axes"},
       [](bool bad) {
         with_kernel([&](Kernel&) {
           HERE nd_loop({2, 3}, {}, {.tiling = bad ? std::vector{1} : std::vector{1, 1}},
                        [](const LoopStep&) {});
         });
       }},
      {"a snake of tiles of no width",
       {"planar_snake: the tile width is 0"},
       [](bool bad) { with_kernel([&](Kernel&) { HERE planar_snake(tid_x(), 4, 4, 0, bad ? 0 : 2); }); }},
      {"a snake along a third dimension",
       {"minor_dim", "not 2"},
       [](bool bad) { with_kernel([&](Kernel&) { HERE planar_snake(3, 4, 4, bad ? 2 : 1, 2); }); }},
      {"a place outside",
       {"position 16 is not within 4 x 4 tiles"},
       [](bool bad) { with_kernel([&](Kernel&) { HERE planar_snake(bad ? 16 : 15, 4, 4, 0, 2); }); }},
      {"steps from a counter in clusters",
       {"dynamic_scheduling_loop", "the cluster has 2 CTAs"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           auto [counter] = k.params<gptr<u32>>("counter");
           if (bad) k.cluster(2);
           HERE dynamic_scheduling_loop(k, counter, {4}, [](const LoopStep&) {});
         });
       }},
      {"steps from a counter in a branch",
       {"dynamic_scheduling_loop: call it outside of the if_", "all threads of all CTAs"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           auto [counter] = k.params<gptr<u32>>("counter");
           const auto loop = [&, counter = counter] {
             HERE dynamic_scheduling_loop(k, counter, {4}, [](const LoopStep&) {});
           };
           if (bad)
             if_(ctaid_x() < 2, loop);
           else
             loop();
         });
       }},
      {"two loops over one counter",
       {"the loop at", "already uses"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           auto [counter, other] = k.params<gptr<u32>, gptr<u32>>("counter", "other");
           dynamic_scheduling_loop(k, counter, {4}, [](const LoopStep&) {});
           HERE dynamic_scheduling_loop(k, bad ? counter : other, {4}, [](const LoopStep&) {});
         });
       }},
      {"a turn that none takes",
       {"for_each_tile: turn 2 of 2 was requested"},
       [](bool bad) {
         with_kernel([&](Kernel&) {
           HERE for_each_tile(4, 4, {}, Turn{u32(bad ? 2 : 1), 2}, [](TileIndex) {});
         });
       }},
      {"turns of none",
       {"for_each_tile: turn 0 of 0 was requested"},
       [](bool bad) {
         with_kernel([&](Kernel&) { HERE for_each_tile(4, 4, {}, Turn{0, bad ? 0 : 1}, [](TileIndex) {}); });
       }},
      {"tiles from a counter for a pipeline whose blocks threads copy",
       {"dynamic steps: only one thread may call this, but 128",
        "cannot be used with blocks that threads copy"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           auto [x, X, counter] = k.params<gptr<f32>, TensorMap, gptr<u32>>("x", "X", "counter");
           const DynamicSteps steps(k, counter, 4, 1);
           const IndexMap index = [](const GridIndex& i) { return BlockIndex{i["tile"], i[1]}; };
           const BlockSpec block = bad ? BlockSpec(GlobalTensor(x, {64, 64}), {8, 32}, index)
                                       : BlockSpec(X, DType::f32, {8, 32}, index);
           SpecializedOptions o;
           HERE o.tiles = steps.order([](u32 i) { return GridIndex({"tile"}, {i}); });
           emit_pipeline_warp_specialized(k, {2}, {block}, {}, o, [](PipelineStep&) {});
         });
       }},
      {"cluster launch control on a target without it",
       {"dynamic_scheduling_loop without a counter", "sm_90a"},
       [](bool bad) {
         Kernel k("k", ON(bad ? "sm_90a" : "sm_100a"));
         HERE dynamic_scheduling_loop(k, [](const LoopStep&) {});
         done(k);
       }},
      {"steps of the launch in a role",
       {"dynamic_scheduling_loop: it must be outside of roles"},
       [](bool bad) {
         Kernel k("k", ON("sm_100a"));
         const auto loop = [&] { HERE dynamic_scheduling_loop(k, [](const LoopStep&) {}); };
         if (bad)
           k.warpgroups(1, 0, [&](u32) { loop(); });
         else
           loop();
         done(k);
       }},
      {"steps that all threads of a role take",
       {"dynamic steps", "one thread"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           auto [counter] = k.params<gptr<u32>>("counter");
           const DynamicSteps steps(k, counter, 4, 1);
           k.warpgroups(1, 0, [&](u32) {
             if (!bad) return elect([&] { steps.each([](u32) {}); });
             HERE steps.each([](u32) {});
           });
           k.warpgroups(1, 0, [&](u32) { steps.each([](u32) {}); });
         });
       }},
      {"steps that more warpgroups read than are counted",
       {"dynamic steps: 1 warpgroups hand back each step", "each() is called by 2",
        "before the previous ones are read"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           auto [counter] = k.params<gptr<u32>>("counter");
           HERE const DynamicSteps steps(k, counter, 4, bad ? 1 : 2);
           k.warpgroups(1, 0, [&](u32) { elect([&] { steps.each([](u32) {}); }); });
           k.warpgroups(2, 0, [&](u32) { steps.each([](u32) {}); });
         });
       }},
      {"steps that fewer warpgroups read than are counted",
       {"dynamic steps: 3 warpgroups hand back each step", "each() is called by 2", "wait for ever"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           auto [counter] = k.params<gptr<u32>>("counter");
           HERE const DynamicSteps steps(k, counter, 4, bad ? 3 : 2);
           k.warpgroups(1, 0, [&](u32) { elect([&] { steps.each([](u32) {}); }); });
           for (int role = 0; role < 2; ++role) k.warpgroups(1, 0, [&](u32) { steps.each([](u32) {}); });
         });
       }},
      {"steps that a role takes twice",
       {"each() was already called in this role"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           auto [counter] = k.params<gptr<u32>>("counter");
           const DynamicSteps steps(k, counter, 4, 1);
           k.warpgroups(1, 0, [&](u32) { elect([&] { steps.each([](u32) {}); }); });
           k.warpgroups(1, 0, [&](u32) {
             steps.each([](u32) {});
             HERE if (bad) steps.each([](u32) {});
           });
         });
       }},
      {"signals to none",
       {"semaphore_signal_parallel: no signals"},
       [](bool bad) {
         with_kernel([&](Kernel& k) {
           auto [counter] = k.params<gptr<u32>>("counter");
           if (!bad) return semaphore_signal_parallel({{Semaphore(counter)}});
           HERE semaphore_signal_parallel({});
         });
       }},
  });
}

}  // namespace ptxbuilder::test::misuse_scheduler_test
