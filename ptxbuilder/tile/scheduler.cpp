#include "ptxbuilder/tile/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/ir/memory.h"
#include "ptxbuilder/ir/open_body.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/check.h"

namespace ptxbuilder {
namespace {

using Integer = LayoutInteger<Index>;

// Removes the last mixed-radix digit from a number, and returns the digit.
Index digit(Index& number, const Index& size) {
  const Index last = Integer::remainder(number, size);
  number = Integer::divide(number, size);
  return last;
}

// Returns the position of a step in a grid. Steps are numbered tile by tile, and in row-major order within a
// tile.
GridIndex index_of(const GridShape& grid, const std::vector<int>& tiling, u32 number) {
  const size_t rank = grid.size();
  std::vector<Index> at(rank, Index(0));
  Index rest(number);
  for (size_t i = rank; i-- > 0 && !tiling.empty();) at[i] = digit(rest, Index(tiling[i]));
  for (size_t i = rank; i-- > 0;) {
    const Index length = tiling.empty() ? Index(1) : Index(tiling[i]);
    const Index tiles = Integer::divide(grid[i].size, length);
    const Index tile = i == 0 ? rest : digit(rest, tiles);
    at[i] = Integer::add(Integer::multiply(tile, length), at[i]);
  }
  std::vector<std::string> names;
  std::vector<u32> values;
  for (size_t i = 0; i < rank; ++i) {
    names.push_back(grid[i].name);
    values.push_back(at[i].value());
  }
  return {std::move(names), std::move(values)};
}

void check_tiling(const GridShape& grid, const std::vector<int>& tiling) {
  if (tiling.empty()) return;
  if (tiling.size() != grid.size())
    throw Error(fmt::format("nd_loop: the tiling has {} numbers, but the grid has {} axes", tiling.size(),
                            grid.size()));
  for (size_t i = 0; i < grid.size(); ++i)
    if (const auto size = grid[i].size.known(); tiling[i] < 1 || (size && *size % tiling[i] != 0))
      throw Error(fmt::format("nd_loop: the tiling is {} along axis {}{}, but must divide the axis",
                              tiling[i], i, size ? fmt::format(" of {} steps", *size) : ""));
}

// Throws Error if another loop of the kernel uses the same counter, because the counter would then count for
// both loops.
void claim_counter(Kernel& k, gptr<u32> counter) {
  const auto [other, is_new] =
      detail::TileContext::of(k.builder()).work_counters.emplace(counter.handle(), Where::here());
  if (!is_new)
    throw Error(fmt::format("the loop at {} already uses this counter of steps, but each loop needs its own",
                            to_string(other->second)));
}

// Throws Error unless all threads of a CTA run the same steps.
void check_of_cta(Kernel& k) {
  if (detail::TileContext::of(k.builder()).role < 0 && (detail::open_body & detail::Region::kKernel) == 0)
    throw Error(fmt::format(
        "dynamic_scheduling_loop: call it outside of the {}; all threads of all CTAs must run it, once",
        detail::OpenBody::innermost()->describe()));
  if (detail::TileContext::of(k.builder()).role >= 0)
    throw Error("dynamic_scheduling_loop: it must be outside of roles; use DynamicSteps in roles");
  if (const int ctas = detail::cluster_size(k.builder()); ctas > 1)
    throw Error(
        fmt::format("dynamic_scheduling_loop: the cluster has {} CTAs, but each CTA would take its own "
                    "steps; use it without a cluster",
                    ctas));
}

u32 round_parity(u32 round, int places) { return round / u32(places) & 1u; }

}  // namespace

Collective collective(std::initializer_list<std::string_view> axes, Where where) {
  AtLine line(where);
  Collective all;
  for (std::string_view axis : axes) {
    all.index = all.index * axis_size(axis) + axis_index(axis);
    all.size = all.size * axis_size(axis);
  }
  return all;
}

void nd_loop(const GridShape& grid, const Collective& who, const LoopOptions& options,
             const std::function<void(const LoopStep&)>& body, Where where) {
  AtLine line(where);
  detail::check_grid(grid, "nd_loop");
  check_tiling(grid, options.tiling);
  // The loop would skip the steps of partial tiles.
  for (size_t i = 0; i < options.tiling.size(); ++i)
    if (!grid[i].size.known() && options.tiling[i] > 1)
      if_(grid[i].size.value() % static_cast<uint32_t>(options.tiling[i]) != 0, [] { trap(); });
  Var<u32> number(0);
  for_(who.index, detail::steps_of(grid), who.size, [&](u32 step) {
    const LoopStep at{index_of(grid, options.tiling, step), number};
    {
      AuthorsCode authors;
      body(at);
    }
    number = number.value() + 1;
  });
}

u32 WorkCounter::take(u32 all, Where where) const {
  AtLine line(where);
  const auto add = [&](u32 number) { return instruction<"atom.global.add.u32">(gmem(counter_), number); };
  // The thread that takes number 0 sets this bit, so that the last thread can detect whether the counter
  // began at 0. Each CTA takes one more number after its last step, so the bit has been set when the last
  // thread reads it.
  constexpr uint32_t kBegan = uint32_t{1} << 31;
  const u32 found = add(1), taken = found & ~kBegan, last = all + (nctaid_x() - 1);
  if_(taken == 0, [&] { add(kBegan); });
  const pred ends = taken == last;
  if_((taken > last) | (ends & (found < kBegan) & (taken != 0)), [&] {
    check(pred(false),
          {"a counter of steps did not begin at 0: number {} of {} was taken, but 0 was not", where}, taken,
          all);
    trap();
  });
  if_(ends, [&] { add(u32(0) - (taken + 1) - kBegan); });
  return taken;
}

Announcements::Announcements(Kernel& k, int places, int words, int readers, const std::string& name,
                             Where where)
    : places_(places),
      words_(words),
      tile_(k.shared(DType::u32, {places, words}, Swizzle::none, 1, name, where)),
      announced_(k, std::vector<int>(static_cast<size_t>(places), 1), {name}, where),
      read_(k, std::vector<int>(static_cast<size_t>(places), readers), {name + " read"}, where) {}

sptr<u32> Announcements::place(u32 round) const {
  return sptr<u32>(tile_[0].address() + round % u32(places_) * (words_ * 4));
}

sptr<u32> Announcements::begin(u32 round, Where where) const {
  AtLine line(where);
  barrier_wait(read_[round % u32(places_)], round_parity(round, places_) ^ 1u);
  return place(round);
}

void Announcements::publish(u32 round, Where where) const {
  AtLine line(where);
  mbarrier_arrive(announced_[round % u32(places_)]);
}

sptr<u32> Announcements::read(u32 round, Where where) const {
  AtLine line(where);
  barrier_wait(announced_[round % u32(places_)], round_parity(round, places_));
  return place(round);
}

void Announcements::done(u32 round, pred stands, Where where) const {
  AtLine line(where);
  mbarrier_arrive.when(stands)(read_[round % u32(places_)]);
}

struct DynamicSteps::State {
  WorkCounter counter;
  u32 steps;
  Announcements announcements;
  std::vector<int> roles;  // roles that have called each(); only the first role takes numbers
};

DynamicSteps::DynamicSteps(Kernel& k, gptr<u32> counter, u32 steps, int reading_warpgroups, Where where) {
  AtLine line(where);
  if (const int ctas = detail::cluster_size(k.builder()); ctas > 1)
    throw Error(
        fmt::format("dynamic steps: the cluster has {} CTAs, but each CTA would take its own steps; use them "
                    "without a cluster",
                    ctas));
  claim_counter(k, counter);
  if (reading_warpgroups < 1)
    throw Error(fmt::format("dynamic steps: {} warpgroups read them, but there must be at least one",
                            reading_warpgroups));
  constexpr int kPlaces = 4, kWords = 4;  // a place has 16 bytes, but only one word is used
  state_ = std::make_shared<State>(State{
      WorkCounter(counter), steps, Announcements(k, kPlaces, kWords, 4 * reading_warpgroups, "step"), {}});
  k.builder().on_finish([state = state_, reading_warpgroups, where = Where::here()] {
    AtLine line(where);
    const auto& roles = detail::TileContext::of(Builder::current()).roles;
    int reading = 0;
    for (size_t i = 1; i < state->roles.size(); ++i)
      reading += roles[static_cast<size_t>(state->roles[i])].count;
    if (reading == reading_warpgroups) return;
    throw Error(fmt::format(
        "dynamic steps: {} warpgroups hand back each step, but each() is called by {} apart from the role "
        "that takes the steps, which would {}; `reading_warpgroups` must be the number of warpgroups that "
        "call it",
        reading_warpgroups, reading,
        reading < reading_warpgroups ? "wait for ever" : "announce steps before the previous ones are read"));
  });
}

void DynamicSteps::each(const std::function<void(u32)>& body, Where where) const {
  AtLine line(where);
  State& s = *state_;
  const int role = detail::TileContext::of(Builder::current()).role;
  if (role < 0)
    throw Error(
        "dynamic steps: call each() in a role; for all threads of a CTA, use dynamic_scheduling_loop");
  if (std::find(s.roles.begin(), s.roles.end(), role) != s.roles.end())
    throw Error("dynamic steps: each() was already called in this role, and has taken all steps");
  s.roles.push_back(role);
  const bool takes = s.roles.size() == 1;
  Var<u32> round(0);
  if (!takes) {
    Var<u32> step(s.announcements.read(0)[0]);
    return while_([&] { return step.value() < s.steps; },
                  [&] {
                    bar_warp_sync(0xffffffff);  // all lanes have finished reading
                    s.announcements.done(round, laneid() == 0);
                    {
                      AuthorsCode authors;
                      body(step);
                    }
                    round = round.value() + 1;
                    step = s.announcements.read(round)[0];
                  });
  }
  detail::check_one_thread("dynamic steps", hopper::cta_threads,
                           "call it in elect(), like the role of a pipeline that loads by TMA; it cannot be "
                           "used with blocks that threads copy");
  const auto next = [&] {
    const u32 step = s.counter.take(s.steps);
    s.announcements.begin(round)[0] = step;
    s.announcements.publish(round);
    round = round.value() + 1;
    return step;
  };
  Var<u32> step(next());
  while_([&] { return step.value() < s.steps; },
         [&] {
           {
             AuthorsCode authors;
             body(step);
           }
           step = next();
         });
}

std::function<void(const std::function<void(const GridIndex&)>&)> DynamicSteps::order(
    std::function<GridIndex(u32)> index, Where where) const {
  return [steps = *this, index = std::move(index), where](const std::function<void(const GridIndex&)>& body) {
    steps.each([&](u32 step) { body(index(step)); }, where);
  };
}

void dynamic_scheduling_loop(Kernel& k, gptr<u32> counter, const GridShape& grid,
                             const std::function<void(const LoopStep&)>& body, Where where) {
  AtLine line(where);
  detail::check_grid(grid, "dynamic_scheduling_loop");
  check_of_cta(k);
  claim_counter(k, counter);
  const u32 all = detail::steps_of(grid);
  const WorkCounter from(counter);
  const sptr<u32> place(k.shared(DType::u32, {1, 4}, Swizzle::none, 1, "step")[0].address());
  // One thread writes the next step only after all threads have read the previous step.
  const auto next = [&] {
    if_(tid_x() == 0, [&] { place[0] = from.take(all); });
    sync_threads();
    const u32 step = place[0];
    sync_threads();
    return step;
  };
  Var<u32> step(next()), number(0);
  while_([&] { return step.value() < all; },
         [&] {
           const LoopStep at{index_of(grid, {}, step), number};
           {
             AuthorsCode authors;
             body(at);
           }
           number = number.value() + 1;
           step = next();
         });
}

void dynamic_scheduling_loop(Kernel& k, const std::function<void(const LoopStep&)>& body, Where where) {
  AtLine line(where);
  check_of_cta(k);
  k.builder().require(86, isa::Sm::sm_100, "dynamic_scheduling_loop without a counter");
  std::vector<std::string> names;
  for (const auto& axis : detail::TileContext::of(k.builder()).axes)  // the list is outermost first
    if (axis.of == detail::TileContext::Axis::Of::grid) names.push_back(axis.name);
  if (names.empty()) names = {"z", "y", "x"};
  const smem answer = k.shared(DType::u32, {1, 4}, Swizzle::none, 1, "next CTA")[0].address();
  const Barriers answered(k, {1}, {"next CTA known"});
  Phases phases(answered);
  sync_threads();
  std::array<Var<u32>, 3> at = {Var<u32>(ctaid_x()), Var<u32>(ctaid_y()), Var<u32>(ctaid_z())};
  Var<u32> number(0);
  Var<pred> goes_on{pred(true)};
  while_(
      [&] { return goes_on.value(); },
      [&] {
        // The next step is requested while the current step is computed.
        if_(tid_x() == 0, [&] {
          constexpr uint32_t kBytes = 16;
          mbarrier_arrive_expect_tx(answered[0], kBytes);
          instruction<"clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128">(
              answer, answered[0]);
        });
        std::vector<u32> places;
        for (size_t axis = names.size(); axis-- > 0;) places.push_back(at[axis].value());
        const LoopStep step{GridIndex(names, std::move(places)), number};
        {
          AuthorsCode authors;
          body(step);
        }
        phases.wait(0);
        const auto words = load<2>(sptr<u64>(answer));
        const b128 said = instruction<"mov.b128 pack">(words);
        const pred is_taken = instruction<"clusterlaunchcontrol.query_cancel.is_canceled.pred.b128">(said);
        const auto [x, y, z] =
            instruction<"clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 xyz">(said);
        at[0] = u32(x), at[1] = u32(y), at[2] = u32(z);
        goes_on = is_taken;
        number = number.value() + 1;
        fence_proxy_async<Space::shared>();  // orders these reads before the write of the next response
        sync_threads();
      });
}

}  // namespace ptxbuilder
