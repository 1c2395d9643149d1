// One warp. It runs fragments, which diverge and meet again.
#include <fmt/format.h>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

Warp::Warp(Cta& the_cta, uint32_t the_index)
    : cta(the_cta),
      index(the_index),
      causality(the_cta.cluster.new_actor({ActorName::Kind::warp, &the_cta, the_index}),
                the_cta.cluster.checks),
      undefined(*this, the_cta.cluster.checks) {
  const Kernel& kernel = grid().kernel;
  storage_ = std::make_unique<std::byte[]>(kernel.constants.size() + kernel.register_bytes + 64);
  auto address = reinterpret_cast<uintptr_t>(storage_.get());
  std::byte* constants = storage_.get() + (64 - address % 64) % 64;
  std::ranges::copy(kernel.constants, constants);
  registers_ = constants + kernel.constants.size();
  if (!grid().may_overlap) know_ended_launches();
  fill_special_registers();
  uint32_t threads = cta.threads - std::min(cta.threads, index * 32);
  born = alive = threads >= 32 ? all_lanes : (Lanes{1} << threads) - 1;
  fragments_.push_back({});
  fragments_[0].pc = kernel.entry;
  fragments_[0].lanes = alive;
  register_share.each = grid().registers_per_thread;
  local_each_ = kernel.local_bytes;
  local_.resize(32 * local_each_);
  top_.fill(kernel.local_bytes);
}

void Warp::know_ended_launches() {
  Knowledge ended;
  ended.global = grid().known;
  causality.acquire(ended);
}

uint64_t Warp::state() const {
  const auto hash = [](const std::byte* bytes, size_t count) {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes), count});
  };
  return hash(registers_, grid().kernel.register_bytes) * 31 + hash(local_.data(), local_.size());
}

void Warp::look_ahead() {
  const Fragment& f = fragment();
  meet_pc_ = f.meeting < 0 ? no_pc : meetings_[f.meeting].pc;
  meet_depth_ = f.meeting < 0 ? 0 : meetings_[f.meeting].depth;
}

uint64_t Warp::run(size_t which, uint64_t budget) {
  current_ = which;
  bool is_late = false;  // whether a delayed instruction has waited for everything else
  {
    Fragment& f = fragment();
    is_late = f.wait == Wait::others;
    lanes = f.lanes;
    pc = f.pc;
    if (f.wait == Wait::barrier) causality.acquire(cta.barriers[f.object].completed);
    if (f.wait == Wait::meeting) {
      const int outer = meetings_[f.meeting].outer;
      forgo(f.meeting, outer, lanes);
      f.meeting = outer;
    }
    f.wait = Wait::none;
  }
  stop_ = polls_ = false;
  look_ahead();
  const Instruction* code = grid().kernel.code.data();
  uint64_t count = 0;
  while (count < budget && !stop_) {
    if (pc == meet_pc_ && fragment().depth == meet_depth_) {
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
    if (i.watched | undefined.follows_all()) [[unlikely]] {
      instruction = &i;
      undefined.step(executing);
    }
    if (executing == 0) continue;
    instruction = &i;
    if (i.delayed) [[unlikely]] {
      if (!is_late) {
        delay();
        break;
      }
      is_late = false;
      cluster().posts_delayed = true;
    }
    if (i.turn != Turn::free && wants_turn(i.turn)) [[unlikely]] {
      await_turn();
      break;
    }
    if (i.touches_matrix)
      for (Observer* o : cluster().observers.matrix_touch) o->matrix_touch(*this);
    i.execute(*this, i, executing);
    if (i.delayed) [[unlikely]]
      cluster().posts_delayed = false;
  }
  executed_ += count;
  if (lanes == 0) {
    fragments_.erase(fragments_.begin() + static_cast<std::ptrdiff_t>(current_));
    cluster().changed();
    if (alive == 0) cta.warp_done();
  } else {
    fragment().pc = pc;
    fragment().lanes = lanes;
  }
  return count;
}

// Makes the instruction wait for everything that can run without it, but not forever if other threads poll
// memory.
void Warp::delay() {
  constexpr uint64_t most_steps = 200'000;
  fragment().until_step = cluster().steps + most_steps;
  retry(Wait::others);
}

bool Warp::wants_turn(Turn turn) const {
  const Sums* sums = cluster().ahead.get();
  if (!sums) return false;
  switch (turn) {
    case Turn::stores:
      return grid().weak || !sums->empty();
    case Turn::sums:
      return sums->is_full();
    case Turn::late:
      return !sums->empty();
    default:
      return turn == Turn::waits;
  }
}

void Warp::await_turn() {
  cluster().awaits_turn = true;
  retry(Wait::none);
}

void Warp::retry(Wait wait) {
  pc = here();
  pause(wait);
}

void Warp::pause(Wait wait) {
  fragment().wait = wait;
  fragment().version = cluster().version;
  stop_ = true;
}

void Warp::strong_read(uint64_t address, const std::byte* bytes, uint32_t count) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, std::min<size_t>(count, sizeof value));
  Fragment& f = fragment();
  if (f.read_pc == here() && f.read_address == address && f.read_value == value) stop_ = polls_ = true;
  f.read_pc = here();
  f.read_address = address;
  f.read_value = value;
}

void Warp::split_off(Lanes who, uint32_t at) {
  Fragment other = fragment();
  other.pc = at;
  other.lanes = who;
  lanes &= ~who;
  fragments_.push_back(std::move(other));
}

// Adds the lanes of another fragment at the same program counter to the running fragment.
void Warp::absorb(size_t other) {
  Fragment& f = fragments_[other];
  lanes |= f.lanes;
  const int mine = fragment().meeting, common = common_meeting(mine, f.meeting);
  forgo(mine, common, lanes);
  forgo(f.meeting, common, f.lanes);
  fragment().meeting = common;
  fragments_.erase(fragments_.begin() + static_cast<std::ptrdiff_t>(other));
  if (other < current_) --current_;
  look_ahead();
}

void Warp::branch(uint32_t target, Lanes taken) {
  if (taken == lanes) {
    pc = target;
    return;
  }
  const uint32_t reconverge = grid().kernel.reconvergence[here()];
  const uint32_t depth = fragment().depth;
  const int meeting = fragment().meeting;
  const bool same = meeting >= 0 && meetings_[meeting].pc == reconverge && meetings_[meeting].depth == depth;
  if (reconverge != no_pc && !same) {
    fragment().meeting = open_meeting(reconverge, depth);
    look_ahead();
  }
  if (cluster().random(2) == 0) {  // programs must not rely on which side runs first
    split_off(lanes & ~taken, pc);
    pc = target;
  } else {
    split_off(taken, target);
  }
}

int Warp::open_meeting(uint32_t at, uint32_t depth) {
  auto free =
      std::find_if(meetings_.begin(), meetings_.end(), [](const Meeting& m) { return m.expected == 0; });
  if (free == meetings_.end()) free = meetings_.insert(free, Meeting{});
  *free = Meeting{at, depth, lanes, fragment().meeting};
  return static_cast<int>(free - meetings_.begin());
}

// Called when no lane of `who` will reach the meeting `from`, or the meetings around it up to `to`.
void Warp::forgo(int from, int to, Lanes who) {
  if (from == to) return;
  for (int m = from; m >= 0 && m != to; m = meetings_[m].outer) meetings_[m].expected &= ~who;
  settle();
}

int Warp::common_meeting(int a, int b) const {
  for (; a >= 0; a = meetings_[a].outer)
    for (int other = b; other >= 0; other = meetings_[other].outer)
      if (other == a) return a;
  return -1;
}

void Warp::reach(uint64_t end, int lane) {
  if (end > hopper::local_bytes)
    fail(Fault::out_of_bounds,
         fmt::format("calls are nested so deeply, or alloca requests so much, that {} B are needed, but a "
                     "thread can have {} B of local memory",
                     end, hopper::local_bytes),
         lane);
  top_[static_cast<size_t>(lane)] = end;
  if (end <= local_each_) return;
  const size_t each = std::max<size_t>(end, 2 * local_each_);
  std::vector<std::byte> grown(32 * each);
  for (size_t k = 0; k < 32; ++k)
    std::copy_n(local_.begin() + static_cast<ptrdiff_t>(k * local_each_), local_each_,
                grown.begin() + static_cast<ptrdiff_t>(k * each));
  local_ = std::move(grown);
  local_each_ = each;
}

namespace {

// Calls f(is_predicate, value, bytes) with one lane's value of each of these registers.
template <class F>
void for_register_bytes(Warp& w, const std::vector<RegisterWidth>& registers, int lane, F f) {
  for (const RegisterWidth& x : registers)
    f(x.bytes == 0, w.at<std::byte>(x.r) + static_cast<ptrdiff_t>(lane) * x.bytes,
      std::max<size_t>(1, x.bytes));
}

std::vector<std::byte> saved_registers(Warp& w, const Routine& routine, int lane) {
  std::vector<std::byte> bytes;
  for_register_bytes(w, routine.registers, lane, [&](bool predicate, const std::byte* at, size_t size) {
    if (predicate)
      bytes.push_back(static_cast<std::byte>(*reinterpret_cast<const uint32_t*>(at) >> lane & 1));
    else
      bytes.insert(bytes.end(), at, at + size);
  });
  return bytes;
}

void restore_registers(Warp& w, const Routine& routine, int lane, const std::vector<std::byte>& bytes) {
  const std::byte* from = bytes.data();
  for_register_bytes(w, routine.registers, lane, [&](bool predicate, std::byte* at, size_t size) {
    if (predicate) {
      auto& word = *reinterpret_cast<uint32_t*>(at);
      word = (word & ~(1u << lane)) | static_cast<uint32_t>(*from) << lane;
    } else {
      std::memcpy(at, from, size);
    }
    from += size;
  });
}

}  // namespace

void Warp::call(uint32_t routine, Lanes who) {
  const Kernel& kernel = grid().kernel;
  const Routine& called = kernel.routines[routine];
  if (who != lanes) split_off(lanes & ~who, pc);
  fragment().meeting = open_meeting(pc, fragment().depth);
  frames_.resize(32);
  for_lanes(lanes, [&](int lane) {
    const auto k = static_cast<size_t>(lane);
    std::vector<LaneFrame>& stack = frames_[k];
    LaneFrame frame{pc, routine, this->frame(lane), top_[k], {}};
    if (kernel.frames_apart()) {
      if (std::any_of(stack.begin(), stack.end(), [&](const LaneFrame& f) { return f.routine == routine; }))
        frame.saved = saved_registers(*this, called, lane);
      // A frame takes some bytes of the stack even if it has no variables.
      const uint64_t base = (top_[k] + 63) / 64 * 64;
      reach(base + std::max(64u, called.frame_bytes), lane);
      at<uint64_t>(kernel.frame)[lane] = base;
    }
    stack.push_back(std::move(frame));
  });
  ++fragment().depth;
  pc = called.entry;
  look_ahead();
}

void Warp::leave(Lanes who) {
  if (fragment().depth == 0) return exit(who);
  if (who != lanes) split_off(lanes & ~who, pc);
  const uint32_t back = frames_[static_cast<size_t>(__builtin_ctz(lanes))].back().pc;
  const Kernel& kernel = grid().kernel;
  for_lanes(lanes, [&](int lane) {
    const auto k = static_cast<size_t>(lane);
    const LaneFrame& f = frames_[k].back();
    if (kernel.frames_apart()) at<uint64_t>(kernel.frame)[lane] = f.base;
    top_[k] = f.top;
    if (!f.saved.empty()) {
      restore_registers(*this, kernel.routines[f.routine], lane, f.saved);
      for (const RegisterWidth& x : kernel.routines[f.routine].registers)
        undefined.define(x.r, Lanes{1} << lane);
    }
    frames_[k].pop_back();
  });
  const uint32_t depth = --fragment().depth;
  int meeting = fragment().meeting;
  while (meeting >= 0 && meetings_[meeting].depth > depth) meeting = meetings_[meeting].outer;
  forgo(fragment().meeting, meeting, lanes);
  fragment().meeting = meeting;
  pc = back;
  look_ahead();
}

// Returns true if the running fragment continues because all lanes that should meet here have arrived.
bool Warp::meet() {
  const int meeting = fragment().meeting;
  for (size_t k = fragments_.size(); k-- > 0;)
    if (k != current_ && fragments_[k].wait == Wait::meeting && fragments_[k].meeting == meeting) absorb(k);
  Meeting& m = meetings_[meeting];
  if (lanes == m.expected || cluster().patience() == 0) {
    const int outer = m.outer;
    forgo(meeting, outer, lanes);
    fragment().meeting = outer;
    look_ahead();
    return true;
  }
  fragment().wait = Wait::meeting;
  fragment().until = executed_ + cluster().patience();
  fragment().until_step = cluster().steps + 100 * cluster().patience();
  return false;
}

void Warp::exit(Lanes who) {
  alive &= ~who;
  lanes &= ~who;
  for (Meeting& m : meetings_) m.expected &= ~who;
  if (lanes == 0) stop_ = true;
  settle();
  // Lanes that waited for the exited lanes check again whether they may continue.
  for (size_t k = 0; k < fragments_.size(); ++k)
    if (k != current_ && (fragments_[k].wait == Wait::lanes || fragments_[k].wait == Wait::aligned))
      fragments_[k].wait = Wait::none;
  cta.lanes_done(*this);
  cluster().changed();
}

// Lets lanes continue that waited only for lanes that will not arrive.
void Warp::settle() {
  for (size_t k = 0; k < fragments_.size(); ++k) {
    Fragment& f = fragments_[k];
    if (k == current_ || f.wait != Wait::meeting || meetings_[f.meeting].expected != f.lanes) continue;
    meetings_[f.meeting].expected = 0;
    f.meeting = meetings_[f.meeting].outer;
    f.wait = Wait::none;
  }
}

Lanes Warp::missing_at(const Fragment& waiting) const {
  Lanes together = 0;
  for (const Fragment& f : fragments_)
    if (f.wait == Wait::lanes && f.wanted == waiting.wanted) together |= f.lanes;
  return waiting.wanted & alive & ~together;
}

Groups Warp::gather(Lanes executing, const uint32_t* membermask, bool in_several_places) {
  const Lanes first = membermask[__builtin_ctz(executing)];
  if ((first & alive) == executing) {
    Lanes differ = 0;
    for_lanes(executing, [&](int lane) { differ |= membermask[lane] ^ first; });
    if (differ == 0) {
      Groups one;
      one.add(executing);
      causality.meet(executing, alive);
      return one;
    }
  }
  for_lanes(executing, [&](int lane) {
    if (!((membermask[lane] >> lane) & 1))
      fail(Fault::divergence,
           fmt::format("the member mask {:#x} does not name the lane that executes this", membermask[lane]),
           lane);
  });
  if (executing != lanes) split_off(lanes & ~executing, pc);
  Groups complete;
  const Instruction* code = grid().kernel.code.data();
  for (Lanes rest = executing; rest;) {
    const Lanes mask = membermask[__builtin_ctz(rest)], wanted = mask & alive;
    Lanes mine = 0;
    for_lanes(rest, [&](int lane) { mine |= static_cast<Lanes>(membermask[lane] == mask) << lane; });
    rest &= ~mine;
    Lanes together = mine;
    auto joins = [&](const Fragment& f) {
      return f.wait == Wait::lanes && f.wanted == mask &&
             (f.pc == here() || (in_several_places && code[f.pc].execute == instruction->execute));
    };
    for (size_t k = 0; k < fragments_.size(); ++k)
      if (k != current_ && joins(fragments_[k])) together |= fragments_[k].lanes;
    if (wanted & ~together) {
      for (const Fragment& f : fragments_)
        if (f.wait == Wait::aligned && (f.lanes & wanted)) throw divergence(f);
      call_for(wanted);
      split_off(mine, here());
      fragments_.back().wait = Wait::lanes;
      fragments_.back().wanted = mask;
      continue;
    }
    complete.add(together);
    causality.meet(together, alive);
    for (size_t k = fragments_.size(); k-- > 0;) {
      Fragment& f = fragments_[k];
      if (k == current_ || !joins(f)) continue;
      f.wait = Wait::none;
      if (f.pc++ == here() && f.depth == fragment().depth) absorb(k);
    }
  }
  if (lanes == 0) stop_ = true;
  return complete;
}

bool Warp::converge(Lanes executing, bool exited_too) {
  if (executing != lanes)
    fail(Fault::divergence, fmt::format("this is .aligned: all lanes of the warp must execute it together, "
                                        "but its guard is only true in {:#010x}",
                                        executing));
  for (size_t k = fragments_.size(); k-- > 0;)
    if (k != current_ && fragments_[k].wait == Wait::aligned && fragments_[k].pc == here() &&
        fragments_[k].depth == fragment().depth)
      absorb(k);
  if (lanes == (exited_too ? born : alive)) return true;
  Fragment& f = fragment();
  f.pc = here();
  f.lanes = lanes;
  if (exited_too && alive != born) throw divergence(f);
  for (size_t k = 0; k < fragments_.size(); ++k)
    if (k != current_ && (fragments_[k].wait == Wait::aligned ||
                          (fragments_[k].wait == Wait::lanes && (fragments_[k].wanted & lanes))))
      throw divergence(f);
  call_for(alive);
  retry(Wait::aligned);
  return false;
}

// Lets lanes at a meeting point continue, because other lanes wait for them elsewhere.
void Warp::call_for(Lanes who) {
  for (Fragment& f : fragments_)
    if (f.wait == Wait::meeting && (f.lanes & who)) f.until = 0;
}

EmulatorError Warp::divergence(const Fragment& waiting) const {
  std::string others;
  for (const Fragment& f : fragments_)
    if (&f != &waiting)
      others +=
          fmt::format("; lanes {:#010x} {} line {}", f.lanes,
                      f.wait == Wait::lanes || f.wait == Wait::aligned ? "wait for others at" : "are at",
                      grid().kernel.lines[f.pc].ptx);
  if (Lanes gone = born & ~alive) others += fmt::format("; lanes {:#010x} have exited", gone);
  return error(Fault::divergence,
               fmt::format("this is .aligned: all lanes of the warp must execute it together, but only "
                           "{:#010x} do{}",
                           waiting.lanes, others),
               -1, waiting.pc);
}

ThreadCopies& Warp::bulk_of(uint32_t lane) {
  ThreadCopies& copies = bulk[lane];
  for (Actor* actor : {&copies.actor, &copies.writing_actor})
    if (*actor == 0) *actor = cluster().new_actor({ActorName::Kind::bulk, &cta, index * 32 + lane});
  return copies;
}

}  // namespace ptxbuilder::runtime::emulator
