// Schedules the warps and asynchronous operations of one cluster. A seed selects one of the legal orders.
#include <fmt/format.h>

#include "runtime/emulator/machine/machine.h"
#include "runtime/emulator/machine/trace.h"

namespace ptxbuilder::runtime::emulator {

Cluster::Cluster(const Grid& the_grid, uint64_t the_index)
    : grid(the_grid),
      index(the_index),
      checks(the_grid.options.race_check),
      engine_(the_grid.seed * 0x9e3779b97f4a7c15 + the_grid.id * 0xd1342543de82ef95 + the_index) {
  actors.push_back({});  // actor 0 is unused
  actors.push_back({ActorName::Kind::prior_launch, nullptr, 0});
  choose_policy();
  const Dim3 size = grid.launch.cluster, all = grid.launch.grid;
  const Dim3 clusters{all.x / size.x, all.y / size.y, all.z / size.z};
  const auto i = static_cast<uint32_t>(index);
  const Dim3 at{i % clusters.x, i / clusters.x % clusters.y, i / clusters.x / clusters.y};
  for (uint32_t rank = 0; rank < size.x * size.y * size.z; ++rank) {
    Dim3 in{rank % size.x, rank / size.x % size.y, rank / size.x / size.y};
    ctas.push_back(std::make_unique<Cta>(
        *this, rank, Dim3{at.x * size.x + in.x, at.y * size.y + in.y, at.z * size.z + in.z}));
  }
  for (auto& cta : ctas) {
    live_warps += cta->live_warps;
    for (auto& warp : cta->warps) all_.push_back(warp.get());
  }
  for (size_t w = 0; w < all_.size(); ++w) priority_.push_back(engine_());
  add_checks(*this);
}

// Seed 0 is a fair schedule. Each other seed has its own bias, because any given bug stays hidden under most
// biases.
void Cluster::choose_policy() {
  if (grid.seed == 0 || grid.options.exploration) {
    in_order_ = true;
    return;
  }
  constexpr uint32_t bursts[] = {1, 3, 16, 64, 400};
  constexpr double completions[] = {0, 0.02, 0.3, 1};  // 0: only when nothing else can run
  constexpr uint64_t patiences[] = {500, 500, 50, 0};  // 0 means that lanes never wait for each other
  burst_ = bursts[random(std::size(bursts))];
  patience_ = patiences[random(std::size(patiences))];
  completion_ = completions[random(std::size(completions))];
  priorities_ = random(2) == 0;
  in_order_ = random(3) == 0;
}

Actor Cluster::new_actor(ActorName name) {
  actors.push_back(name);
  return static_cast<Actor>(actors.size() - 1);
}

bool Cluster::pick(Choice& choice) {
  const size_t n = all_.size();
  auto runnable = [&](Warp& warp) {
    const size_t count = warp.fragments_.size();
    const size_t from = count > 1 ? random(count) : 0;
    for (size_t k = 0; k < count; ++k)
      if (size_t f = (from + k) % count; warp.runnable(warp.fragments_[f])) {
        choice = {&warp, f};
        return true;
      }
    return false;
  };
  if (priorities_) {
    // The warp with the highest priority runs until it waits. Now and then a priority changes.
    if (random(64) == 0) priority_[random(n)] = engine_();
    Choice best{nullptr, 0};
    uint64_t most = 0;
    for (size_t w = 0; w < n; ++w)
      if ((!best.warp || priority_[w] > most) && !all_[w]->fragments_.empty() && runnable(*all_[w])) {
        best = choice;
        most = priority_[w];
      }
    choice = best;
    // A warp that polls memory must not run forever either.
    turns_ = best.warp == favourite_ ? turns_ + 1 : 0;
    favourite_ = best.warp;
    if (turns_ >= 16)
      for (size_t w = 0; w < n; ++w)
        if (all_[w] == favourite_) priority_[w] = engine_();
    return best.warp != nullptr;
  }
  const size_t from = grid.seed == 0 ? next_warp_++ : random(n);
  size_t which = from % n;
  for (size_t k = 0; k < n; ++k, which = which + 1 < n ? which + 1 : 0)
    if (runnable(*all_[which])) return true;
  return false;
}

// Returns whether more than `count` fragments can run.
bool Cluster::can_run_more_than(size_t count) const {
  size_t runnable = 0;
  for (const Warp* warp : all_)
    for (const Fragment& f : warp->fragments_)
      if (warp->runnable(f) && ++runnable > count) return true;
  return false;
}

void Cluster::complete_one() {
  const size_t which = in_order_ ? 0 : random(events.size());
  Event event = std::move(events[which]);
  if (in_order_) {
    events.pop_front();
  } else {
    events[which] = std::move(events.back());
    events.pop_back();
  }
  event.complete();
}

// Completes an operation that a delayed instruction has started. Returns false if there is none.
bool Cluster::complete_delayed() {
  if (delayed_.empty()) return false;
  const Event event = std::move(delayed_.front());
  delayed_.erase(delayed_.begin());
  posts_delayed = true;
  event.complete();
  posts_delayed = false;
  return true;
}

// Lets threads that poll an mbarrier or sleep retry although nothing has changed, because the poll may have a
// time limit. Returns false if there are no such threads.
bool Cluster::wake_pollers() {
  bool any = false;
  for (Warp* warp : all_)
    for (Fragment& f : warp->fragments_)
      if (f.wait == Wait::mbarrier || f.wait == Wait::sleep) {
        f.version = 0;
        any = true;
      }
  return any;
}

// Lets sleeping threads continue, because time passes while all other threads poll. A thread may have to
// sleep often before it ends another thread's poll. The number of wake-ups without a change is limited,
// because a thread that sleeps between its own polls would otherwise be woken forever. Returns false if no
// thread was woken.
bool Cluster::wake_sleepers() {
  constexpr int most = 64;
  wakes_ = slept_version_ == version ? wakes_ + 1 : 0;
  slept_version_ = version;
  bool any = false;
  for (Warp* warp : all_)
    for (Fragment& f : warp->fragments_)
      if (f.wait == Wait::sleep && wakes_ < most) {
        f.version = 0;
        any = true;
      }
  return any;
}

// Lets lanes continue that wait for other lanes at a meeting point. Returns false if there are none.
bool Cluster::part_meetings() {
  bool any = false;
  for (Warp* warp : all_)
    for (Fragment& f : warp->fragments_)
      if (f.wait == Wait::meeting) {
        f.until = f.until_step = 0;
        any = true;
      }
  return any;
}

// Lets one of the fragments continue that wait at a delayed instruction. Returns false if there is none.
bool Cluster::end_delay() {
  std::vector<Fragment*> held;
  for (Warp* warp : all_)
    for (Fragment& f : warp->fragments_)
      if (f.wait == Wait::others) held.push_back(&f);
  if (held.empty()) return false;
  held[random(held.size())]->until_step = 0;
  return true;
}

Cluster::Outcome Cluster::run(uint64_t budget, const std::function<bool()>& goes_on) {
  const uint64_t end = steps + budget;
  size_t polls = 0;  // number of consecutive turns that ended in a poll
  // A wait for an mbarrier may have a time limit, which must end the wait even while other threads poll
  // memory.
  if (version != seen_version_) {
    seen_version_ = version;
    seen_at_ = steps;
  } else if (steps - seen_at_ > 100'000) {
    wake_pollers();
    seen_at_ = steps;
  }
  for (uint32_t turn = 1; steps < end; ++turn) {
    if (turn % 4 == 0 && !goes_on()) return Outcome::running;
    if (live_warps == 0) {
      while (!events.empty()) complete_one();
      while (complete_delayed()) continue;
      return Outcome::finished;
    }
    if (!events.empty() && completion_ > 0 && (completion_ >= 1 || random(1000) < completion_ * 1000))
      complete_one();
    Choice choice{};
    if (pick(choice)) {
      const uint64_t began = steps;
      steps += std::max<uint64_t>(1, choice.warp->run(choice.fragment, 1 + random(2 * burst_)));
      if (awaits_turn) return Outcome::running;
      if (grid.trace) grid.trace->ran(*choice.warp, began, steps, choice.warp->pc);
      if (histories.size() > collect_at_) collect();
      polls = choice.warp->polls_ ? polls + 1 : 0;
      if (polls && events.empty() && !can_run_more_than(polls)) {
        if (!wake_sleepers()) return Outcome::polling;
        polls = 0;
      }
      continue;
    }
    if (!events.empty()) {
      complete_one();
      continue;
    }
    if (part_meetings() || end_delay() || complete_delayed()) continue;
    if (stale_version_ != version) stale_rounds_ = 0;
    stale_version_ = version;
    // If no thread sleeps, time passes faster and faster, so that any time limit in the kernel is reached.
    const bool sleeps = std::ranges::any_of(all_, [](const Warp* warp) {
      return std::ranges::any_of(warp->fragments_, [](const Fragment& f) { return f.wait == Wait::sleep; });
    });
    idle_ += sleeps ? 1000 : uint64_t{1000} << std::min<uint32_t>(stale_rounds_, 24);
    if (!wake_pollers() || ++stale_rounds_ > 40) {
      if (!sleeps) deadlock();
      stale_rounds_ = 0;
      return Outcome::stalled;
    }
  }
  // An asynchronous operation must not wait forever while a warp polls memory.
  if (!events.empty()) complete_one();
  return Outcome::running;
}

void Cluster::begin_turn() {
  awaits_turn = false;
  if (const std::unique_ptr<Sums> sums = std::move(ahead)) sums->add();
}

void Cluster::collect() {
  histories.collect([&](auto renumber) {
    for (auto& cta : ctas) cta->shadow.renumber(renumber);
  });
  collect_at_ = std::max<size_t>(collect_at_, 2 * histories.size());
}

void Cluster::count_in(EmulatorStatistics& statistics) const {
  statistics.ctas += ctas.size();
  statistics.asynchronous_operations += operations;
  for (const auto& cta : ctas)
    for (const auto& warp : cta->warps) statistics.warp_instructions += warp->executed();
}

GlobalKnowledge::Pointer Cluster::known_at_end() const {
  GlobalKnowledge::Pointer known;
  for (const Warp* warp : all_) known = GlobalKnowledge::join(known, warp->causality.knowledge().global);
  Clock all;
  for (Actor actor = 0; actor < actors.size(); ++actor) all.raise(actor, ~uint32_t{0});
  GlobalKnowledge own;
  own.others[number()] = std::make_shared<GlobalKnowledge::Remote>(GlobalKnowledge::Remote{all, all});
  return GlobalKnowledge::join(known, std::make_shared<GlobalKnowledge>(std::move(own)));
}

std::string Cluster::describe(const Access& access, bool wrote) const {
  const ActorName& name = actors[access.actor];
  const std::string at = grid.kernel.place(access.pc);
  const std::string of_cta = ctas.size() > 1 ? fmt::format(" of CTA {}", name.cta->rank) : "";
  const char* verb = wrote ? "writes" : "reads";
  switch (name.kind) {
    case ActorName::Kind::none:
    case ActorName::Kind::prior_launch:
      break;
    case ActorName::Kind::warp:
      return fmt::format("warp {}{} {} it at {}", name.index, of_cta, wrote ? "wrote" : "read", at);
    case ActorName::Kind::mbarrier:
      return fmt::format("the copy of {} {} it until phase {} of mbarrier {}{} is seen to complete", at, verb,
                         access.time - 1, name.cta->name(name.index), of_cta);
    case ActorName::Kind::wgmma:
      return fmt::format(
          "the wgmma of {} (warpgroup {}{}, group {}) {} it until a wgmma.wait_group covers it", at,
          name.index, of_cta, access.time, verb);
    case ActorName::Kind::tensor:
      return fmt::format("the product or copy of {} {} it until a tcgen05.commit after it is waited for", at,
                         verb);
    case ActorName::Kind::bulk:
      return fmt::format(
          "the copy of {} (warp {}, lane {}{}, bulk group {}) {} it until a cp.async.bulk.wait_group covers "
          "it",
          at, name.index / 32, name.index % 32, of_cta, access.time, verb);
    case ActorName::Kind::copy:
      return fmt::format(
          "the cp.async of {} (warp {}{}, group {}) {} it until a cp.async.wait_group covers it", at,
          name.index, of_cta, access.time, verb);
  }
  return {};
}

namespace {

std::string of_mbarrier(const Kernel& kernel, const Mbarrier& m) {
  std::string text =
      fmt::format("mbarrier {} (initialised for {} at {}) is in phase {}: ", m.cta->name(m.offset), m.count,
                  kernel.place(m.init.pc), m.phase);
  text += fmt::format("{} of {} arrivals are missing, ", m.pending, m.count);
  if (m.tx > 0) text += fmt::format("{} B are expected and have not arrived, ", m.tx);
  if (m.tx < 0) text += fmt::format("{} B more have arrived than were expected, ", -m.tx);
  text += m.in_flight ? fmt::format("{} copies are in flight", m.in_flight) : "no copy is in flight";
  if (m.last_arrival != no_pc) text += fmt::format("; last arrival at {}", kernel.place(m.last_arrival));
  if (m.last_expect != no_pc) text += fmt::format("; last expect_tx at {}", kernel.place(m.last_expect));
  return text + about_arrivals(m);
}

}  // namespace

std::string Cluster::picture() const {
  std::string text;
  std::vector<const Mbarrier*> named;
  for (const Warp* warp : all_)
    for (const Fragment& f : warp->fragments_) {
      const uint32_t at = f.pc < grid.kernel.code.size() ? f.pc : 0;
      text += fmt::format("\n  CTA ({}, {}, {}){} warp {}", warp->cta.id.x, warp->cta.id.y, warp->cta.id.z,
                          grid.of_device(), warp->index);
      if (f.lanes != warp->born) text += fmt::format(" lanes {:#010x}", f.lanes);
      switch (f.wait) {
        case Wait::none:
          text += " can run";
          break;
        case Wait::meeting:
          text += " can run, and waits for a while for its other lanes";
          break;
        case Wait::aligned:
          text +=
              fmt::format(" waits at an .aligned instruction for its lanes {:#010x}", warp->alive & ~f.lanes);
          break;
        case Wait::lanes:
          text += fmt::format(" waits for its lanes {:#010x}", warp->missing_at(f));
          break;
        case Wait::barrier: {
          const Barrier& b = warp->cta.barriers[f.object];
          text += fmt::format(" waits at barrier {}, where {} of {} threads have arrived", f.object,
                              b.arrived, b.expected);
          break;
        }
        case Wait::cluster:
          text += " waits at the cluster barrier";
          break;
        case Wait::wgmma:
          text += " waits for a wgmma group of its warpgroup";
          break;
        case Wait::bulk:
          text += " waits for a bulk group";
          break;
        case Wait::copies:
          text += " waits for its cp.async";
          break;
        case Wait::registers:
          text += " waits at setmaxnreg.inc for registers that others hold";
          break;
        case Wait::sleep:
          text += " sleeps";
          break;
        case Wait::others:
          text += " is delayed";
          break;
        case Wait::mbarrier: {
          const Cta& owner = *ctas[f.generation];
          auto m = owner.mbarriers.find(f.object);
          text += fmt::format(" waits for phase parity {} of mbarrier {}", f.phase & 1, owner.name(f.object));
          if (m != owner.mbarriers.end() &&
              std::find(named.begin(), named.end(), m->second.get()) == named.end())
            named.push_back(m->second.get());
          break;
        }
      }
      text += fmt::format(", {}: {}", grid.kernel.place(at), grid.kernel.texts[at]);
    }
  // Threads may wait at one mbarrier because other arrivals went to the wrong mbarrier, so mbarriers with too
  // many arrivals are listed too.
  for (const auto& cta : ctas)
    for (const auto& [offset, m] : cta->mbarriers)
      if (arriving_warps(*m) > m->count && std::find(named.begin(), named.end(), m.get()) == named.end())
        named.push_back(m.get());
  for (const Mbarrier* m : named) text += "\n  " + of_mbarrier(grid.kernel, *m);
  return text;
}

void Cluster::deadlock() {
  // A divergence is the cause only if all lanes of the warp wait for each other. If some lanes wait for
  // something else, that is the cause.
  auto waits_elsewhere = [](const Fragment& f) {
    return f.wait == Wait::mbarrier || f.wait == Wait::wgmma || f.wait == Wait::bulk ||
           f.wait == Wait::copies || f.wait == Wait::registers || f.wait == Wait::sleep;
  };
  for (const Warp* warp : all_)
    for (const Fragment& f : warp->fragments_)
      if (f.wait == Wait::aligned && std::ranges::none_of(warp->fragments_, waits_elsewhere))
        throw warp->divergence(f);
  for (const Warp* warp : all_)
    for (const Fragment& f : warp->fragments_)
      if (f.wait == Wait::registers) {
        int64_t held = 0;
        for (const auto& other : warp->cta.warps) held += int64_t{other->register_share.each} * 32;
        throw EmulatorError(
            Fault::register_budget, grid.kernel.lines[f.pc].ptx,
            fmt::format("{}: setmaxnreg.inc to {} (line {}) waits for registers that nobody gives back: warp "
                        "{} has {} per thread, the CTA's warps hold {}, {} are free\n  kernel {}{}",
                        name(Fault::register_budget), f.object, grid.kernel.lines[f.pc].ptx, warp->index,
                        warp->register_share.each, held, warp->cta.register_pool, grid.kernel.name,
                        picture()));
      }
  // If a barrier lacks only bytes and no copies are left to deliver them, the byte count is wrong.
  for (const Warp* warp : all_)
    for (const Fragment& f : warp->fragments_) {
      if (f.wait != Wait::mbarrier) continue;
      const Cta& owner = *ctas[f.generation];
      auto found = owner.mbarriers.find(f.object);
      if (found == owner.mbarriers.end()) continue;
      const Mbarrier& m = *found->second;
      if (m.pending > 0 || m.tx == 0) continue;
      const uint32_t line = m.last_expect == no_pc ? 0 : grid.kernel.lines[m.last_expect].ptx;
      throw EmulatorError(Fault::tx_count, line,
                          fmt::format("{}: phase {} of mbarrier {} never completes: {} B {} than the copies "
                                      "brought (expect_tx at line {})\n  kernel {}{}",
                                      name(Fault::tx_count), m.phase, owner.name(m.offset), std::abs(m.tx),
                                      m.tx > 0 ? "more were expected" : "less were expected", line,
                                      grid.kernel.name, picture()));
    }
  // If more warps arrive than a phase expects, phases complete too early for the threads that wait.
  for (const Warp* warp : all_)
    for (const Fragment& f : warp->fragments_) {
      if (f.wait != Wait::mbarrier) continue;
      const Cta& owner = *ctas[f.generation];
      const auto found = owner.mbarriers.find(f.object);
      if (found == owner.mbarriers.end() || arriving_warps(*found->second) <= found->second->count) continue;
      throw EmulatorError(
          Fault::arrival_count, grid.kernel.lines[found->second->init.pc].ptx,
          fmt::format(
              "{}: every thread waits, and mbarrier {} is initialised for {} arrivals at line {}{}\n  "
              "kernel {}{}",
              name(Fault::arrival_count), owner.name(f.object), found->second->count,
              grid.kernel.lines[found->second->init.pc].ptx, about_arrivals(*found->second), grid.kernel.name,
              picture()));
    }
  throw EmulatorError(Fault::deadlock, 0,
                      fmt::format("{}: every thread of kernel {} waits, and nothing in flight can wake one{}",
                                  name(Fault::deadlock), grid.kernel.name, picture()));
}

}  // namespace ptxbuilder::runtime::emulator
