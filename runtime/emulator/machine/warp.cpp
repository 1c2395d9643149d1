// One warp: running its fragments, where they part and where they meet again.
#include <fmt/format.h>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

Warp::Warp(Cta& the_cta, uint32_t the_index) : cta(the_cta), index(the_index) {
  const Kernel& kernel = grid().kernel;
  storage_ = std::make_unique<std::byte[]>(kernel.constants.size() + kernel.register_bytes + 64);
  auto address = reinterpret_cast<uintptr_t>(storage_.get());
  std::byte* constants = storage_.get() + (64 - address % 64) % 64;
  std::ranges::copy(kernel.constants, constants);
  registers = constants + kernel.constants.size();
  fill_special_registers();
  undefined.assign(kernel.doubtful.size(), all_lanes);
  uint32_t threads = cta.threads - std::min(cta.threads, index * 32);
  born = alive = threads >= 32 ? all_lanes : (Lanes{1} << threads) - 1;
  fragments.push_back({});
  fragments[0].pc = kernel.entry;
  fragments[0].lanes = alive;
  registers_each = grid().registers_per_thread;
  actor = cluster().new_actor({ActorName::Kind::warp, &cta, index});
  knowledge.seen.raise(actor, time);
}

bool Warp::runnable(const Fragment& f) const {
  switch (f.wait) {
    case Wait::none:
      return true;
    case Wait::barrier:
      return cta.barriers[f.object].generation != f.generation;
    default:
      return f.version != cluster().version;
  }
}

void Warp::look_ahead() {
  const Fragment& f = fragment();
  meet_pc_ = f.meeting < 0 ? no_pc : meetings_[f.meeting].pc;
  meet_depth_ = f.meeting < 0 ? 0 : meetings_[f.meeting].depth;
}

uint64_t Warp::run(size_t which, uint64_t budget) {
  current = which;
  {
    Fragment& f = fragment();
    lanes = f.lanes;
    pc = f.pc;
    if (f.wait == Wait::barrier) acquire(cta.barriers[f.object].completed);
    f.wait = Wait::none;
  }
  stop = false;
  look_ahead();
  const Instruction* code = grid().kernel.code.data();
  uint64_t count = 0;
  while (count < budget && !stop) {
    if (pc == meet_pc_ && fragment().returns.size() == meet_depth_) {
      if (!meet()) break;
      continue;
    }
    const Instruction& i = code[pc];
    Lanes executing = lanes;
    if (i.guard != no_register) {
      Lanes predicate = *at<uint32_t>(i.guard);
      executing &= i.guard_negated ? ~predicate : predicate;
    }
    ++pc;
    ++count;
    if (i.watched) [[unlikely]] {
      instruction = &i;
      follow_undefined(executing);
    }
    if (executing == 0) continue;
    instruction = &i;
    if (i.touches_matrix) check_matrix_registers();
    i.execute(*this, i, executing);
  }
  executed += count;
  if (lanes == 0) {
    fragments.erase(fragments.begin() + static_cast<std::ptrdiff_t>(current));
    cluster().changed();
    if (alive == 0) cta.warp_done(*this);
  } else {
    fragment().pc = pc;
    fragment().lanes = lanes;
  }
  return count;
}

void Warp::retry(Wait wait) {
  pc = here();
  pause(wait);
}

void Warp::pause(Wait wait) {
  fragment().wait = wait;
  fragment().version = cluster().version;
  stop = true;
}

void Warp::branch(uint32_t target, Lanes taken) {
  if (taken == lanes) {
    pc = target;
    return;
  }
  const uint32_t reconverge = grid().kernel.reconvergence[here()];
  Lanes others = lanes & ~taken;
  int meeting = fragment().meeting;
  const size_t depth = fragment().returns.size();
  const bool same = meeting >= 0 && meetings_[meeting].pc == reconverge && meetings_[meeting].depth == depth;
  if (reconverge != no_pc && !same) {
    meeting = open_meeting(reconverge, depth);
    fragment().meeting = meeting;
    look_ahead();
  }
  Fragment other = fragment();
  const bool take = cluster().random(2) == 0;  // which side goes first is nobody's to rely on
  other.pc = take ? pc : target;
  other.lanes = take ? others : taken;
  lanes = take ? taken : others;
  if (take) pc = target;
  fragments.push_back(std::move(other));
}

int Warp::open_meeting(uint32_t at, size_t depth) {
  auto free = std::find_if(meetings_.begin(), meetings_.end(), [](const Meeting& m) { return !m.used; });
  if (free == meetings_.end()) free = meetings_.insert(free, Meeting{});
  *free = Meeting{at, depth, lanes, 0, fragment().meeting, true, fragment().returns};
  return static_cast<int>(free - meetings_.begin());
}

void Warp::call(uint32_t entry) {
  fragment().meeting = open_meeting(pc, fragment().returns.size());
  fragment().returns.push_back(pc);
  pc = entry;
  look_ahead();
}

void Warp::leave(Lanes who) {
  if (fragment().returns.empty()) return exit(who);
  const uint32_t back = fragment().returns.back();
  const size_t depth = fragment().returns.size() - 1;
  if (who != lanes) {
    Fragment others = fragment();
    others.pc = pc;
    others.lanes = lanes & ~who;
    lanes = who;
    fragments.push_back(std::move(others));
  }
  // Nobody of them comes to the meetings inside the function any more.
  int meeting = fragment().meeting;
  while (meeting >= 0 && meetings_[meeting].depth > depth) meeting = meetings_[meeting].outer;
  for (Meeting& m : meetings_)
    if (m.depth > depth) m.expected &= ~who;
  fragment().meeting = meeting;
  fragment().returns.pop_back();
  pc = back;
  settle();
  look_ahead();
}

bool Warp::meet() {
  Meeting& m = meetings_[fragment().meeting];
  m.arrived |= lanes;
  if (m.arrived != m.expected) {
    lanes = 0;
    return false;
  }
  lanes = m.arrived;
  fragment().meeting = m.outer;
  m.used = false;
  look_ahead();
  return true;
}

void Warp::exit(Lanes who) {
  alive &= ~who;
  lanes &= ~who;
  for (Meeting& m : meetings_) m.expected &= ~who;
  if (lanes == 0) stop = true;
  settle();
  cluster().changed();
}

// Lets those go on who waited only for lanes that have exited.
void Warp::settle() {
  for (size_t i = 0; i < meetings_.size(); ++i) {
    Meeting& m = meetings_[i];
    if (!m.used || m.arrived != m.expected) continue;
    m.used = false;
    if (m.arrived == 0) continue;
    Fragment f;
    f.pc = m.pc;
    f.lanes = m.arrived;
    f.meeting = m.outer;
    f.returns = m.returns;
    fragments.push_back(std::move(f));
  }
}

bool Warp::gather(Lanes executing, Lanes wanted, Lanes& together) {
  if (Lanes strange = executing & ~wanted; strange)
    fail(
        Fault::divergence,
        fmt::format("the member mask {:#x} does not name the lanes {:#x} that execute this", wanted, strange),
        __builtin_ctz(strange));
  wanted &= alive;
  together = executing;
  if ((wanted & ~together) == 0) return true;
  auto waits_here = [&](size_t k) {
    return k != current && fragments[k].wait == Wait::lanes && fragments[k].pc == here() &&
           fragments[k].returns == fragment().returns;
  };
  for (size_t k = 0; k < fragments.size(); ++k)
    if (waits_here(k)) together |= fragments[k].lanes;
  if (Lanes missing = wanted & ~together; missing) {
    retry(Wait::lanes);
    fragment().wanted = missing;
    return false;
  }
  for (size_t k = 0; k < fragments.size(); ++k)
    if (waits_here(k)) {
      fragments[k].pc = here() + 1;
      fragments[k].wait = Wait::none;
    }
  return true;
}

void Warp::require_converged(bool exited_too) {
  Lanes wanted = exited_too ? born : alive;
  if (lanes == wanted) return;
  std::string others;
  for (size_t k = 0; k < fragments.size(); ++k)
    if (k != current)
      others += fmt::format("; lanes {:#010x} are at line {}", fragments[k].lanes,
                            grid().kernel.lines[fragments[k].pc].ptx);
  for (const Meeting& m : meetings_)
    if (m.used && m.arrived)
      others += fmt::format("; lanes {:#010x} wait at line {} to converge", m.arrived,
                            m.pc < grid().kernel.lines.size() ? grid().kernel.lines[m.pc].ptx : 0);
  if (Lanes gone = born & ~alive; gone && exited_too)
    others += fmt::format("; lanes {:#010x} have exited", gone);
  fail(Fault::divergence,
       fmt::format("this is .aligned: all lanes of the warp must execute it together, but only {:#010x} do{}",
                   lanes, others));
}

Knowledge Warp::release() {
  if (!cluster().checks) return {};
  Knowledge passed = knowledge;
  knowledge.seen.raise(actor, ++time);
  return passed;
}

void Warp::acquire(const Knowledge& k) {
  if (cluster().checks) knowledge.join(k);
}

Access Warp::access(bool async) const { return {actor, time, here(), async, 0}; }

ThreadCopies& Warp::bulk_of(uint32_t lane) {
  ThreadCopies& copies = bulk[lane];
  if (copies.actor == 0) copies.actor = cluster().new_actor({ActorName::Kind::bulk, &cta, index * 32 + lane});
  return copies;
}

}  // namespace ptxbuilder::runtime::emulator
