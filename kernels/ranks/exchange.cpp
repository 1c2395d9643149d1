#include "kernels/ranks/exchange.h"

namespace ptxbuilder::kernels {
namespace {

// The load imposes no order, so that later loads do not wait for it: the previous launch has ended.
u32 value_at(gptr<u32> word) {
  Var<u32> value(0);
  ptx("ld.relaxed.gpu.global.u32 {value:=u32}, [{word:gmem}];", {{"value", value}, {"word", gmem(word)}});
  return value;
}

}  // namespace

RankedCall::RankedCall(gptr<u32> own) : own_(own), number_(value_at(own + kCalls) + 1) {}

// The last CTA resets the words to what the next call expects.
void RankedCall::left() const {
  const u32 before = atom_acq_rel_gpu_global_add_u32(own_ + kLeft, u32(1));
  if_(before == nctaid_x() - 1, [&] {
    Semaphore(own_ + kLeft).set(u32(0));
    Semaphore(own_ + kCalls).set(number_);
  });
}

Exchange::Exchange(gptr<u32> own, gptr<u32> next, gptr<u32> previous)
    : own_(own), next_(next), previous_(previous), call_(own) {}

void Exchange::open() const {
  if_(ctaid_x() == 0, [&] { Semaphore(previous_ + kFree, Scope::sys).set(call_.number()); });
}

void Exchange::wait_for_next() const { Semaphore(own_ + kFree, Scope::sys).wait(call_.number()); }

void Exchange::signal(u32 block) const {
  Semaphore(next_ + (block + kBlocks), Scope::sys).set(call_.number());
}

void Exchange::wait(u32 block) const { Semaphore(own_ + (block + kBlocks), Scope::sys).wait(call_.number()); }

PeerExchange::PeerExchange(gptr<u32> own, std::vector<gptr<u32>> of_ranks, u32 rank)
    : own_(own), of_ranks_(std::move(of_ranks)), rank_(rank), call_(own) {}

u32 PeerExchange::word_of(u32 rank) const { return rank * most_ctas() + ctaid_x() + kFirst; }

void PeerExchange::signal(u32 thread) const {
  gptr<u32> to = of_ranks_[0];
  for (size_t i = 1; i < of_ranks_.size(); ++i)
    to = select(thread == static_cast<uint32_t>(i), of_ranks_[i], to);
  if_(thread < static_cast<uint32_t>(of_ranks_.size()),
      [&] { Semaphore(to + word_of(rank_), Scope::sys).set(call_.number()); });
}

void PeerExchange::wait(u32 thread) const {
  if_(thread < static_cast<uint32_t>(of_ranks_.size()),
      [&] { Semaphore(own_ + word_of(thread), Scope::sys).wait(call_.number()); });
}

}  // namespace ptxbuilder::kernels
