#include "kernels/ranks/exchange.h"

namespace ptxbuilder::kernels {
namespace {

// Returns the value of a word. A relaxed load suffices, since the previous launch has already ended, and
// later loads need not wait for it.
u32 value_at(gptr<u32> word) {
  Var<u32> value(0);
  ptx("ld.relaxed.gpu.global.u32 {value:=u32}, [{word:gmem}];", {{"value", value}, {"word", gmem(word)}});
  return value;
}

}  // namespace

RankedCall::RankedCall(gptr<u32> own) : own_(own), number_(value_at(own + kCalls) + 1) {}

// The last thread sets the words to the values that the next call expects.
void RankedCall::left(uint32_t threads_of_cta, const std::function<void()>& at_end) const {
  const u32 before = atom_acq_rel_gpu_global_add_u32(own_ + kLeft, u32(1));
  if_(before == nctaid_x() * threads_of_cta - 1, [&] {
    if (at_end) at_end();
    Semaphore(own_ + kLeft).set(u32(0));
    Semaphore(own_ + kCalls).set(number_);
  });
}

gptr<u32> pointer_of(u32 number, const std::vector<gptr<u32>>& pointers) {
  gptr<u32> found = pointers[0];
  for (size_t i = 1; i < pointers.size(); ++i)
    found = select(number == static_cast<uint32_t>(i), pointers[i], found);
  return found;
}

Exchange::Exchange(std::vector<gptr<u32>> of_ranks, u32 rank)
    : of_ranks_(std::move(of_ranks)), rank_(rank), own_(pointer_of(rank, of_ranks_)), call_(own_) {}

// Each rank also signals to itself. Otherwise, the set of pointers would depend on the rank's number, which
// would require registers.
void Exchange::open() const {
  if_(ctaid_x() == 0, [&] {
    std::vector<SemaphoreSignal> signals;
    for (const gptr<u32>& words : of_ranks_)
      signals.push_back({Semaphore(words + (rank_ + kFree), Scope::sys)});
    semaphore_signal_parallel(signals);
  });
}

void Exchange::wait_until_free(u32 rank) const {
  Semaphore(own_ + (rank + kFree), Scope::sys).wait(call_.number());
}

void Exchange::signal(u32 signal, u32 count) const {
  if_(signal != kNoSignal, [&] {
    const gptr<u32> words = pointer_of(signal / kMostWords, of_ranks_);
    Semaphore(words + (signal % kMostWords + kBlocks), Scope::sys).signal(count);
  });
}

void Exchange::wait(u32 block, u32 signals) const {
  Semaphore(own_ + (block + kBlocks), Scope::sys).wait(signals);
}

// A plain store can remove the signal, because no other thread waits for it and the next signal comes only in
// another call.
void Exchange::take(u32 block) const {
  wait(block, u32(1));
  own_[block + kBlocks] = u32(0);
}

void Exchange::left(uint32_t threads_of_cta, const std::optional<Blocks>& waited) const {
  call_.left(threads_of_cta, [&] {
    if (waited) for_(0, waited->count, [&](u32 i) { own_[waited->first + i + kBlocks] = u32(0); });
  });
}

PeerExchange::PeerExchange(gptr<u32> own, std::vector<gptr<u32>> of_ranks, u32 rank)
    : own_(own), of_ranks_(std::move(of_ranks)), rank_(rank), call_(own) {}

u32 PeerExchange::word_of(u32 rank) const { return rank * most_ctas() + ctaid_x() + kFirst; }

void PeerExchange::signal(u32 thread) const {
  const gptr<u32> to = pointer_of(thread, of_ranks_);
  if_(thread < static_cast<uint32_t>(of_ranks_.size()),
      [&] { Semaphore(to + word_of(rank_), Scope::sys).set(call_.number()); });
}

void PeerExchange::wait(u32 thread) const {
  if_(thread < static_cast<uint32_t>(of_ranks_.size()),
      [&] { Semaphore(own_ + word_of(thread), Scope::sys).wait(call_.number()); });
}

}  // namespace ptxbuilder::kernels
