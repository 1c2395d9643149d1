#include "kernels/ranks/exchange.h"

namespace ptxbuilder::kernels {

Exchange::Exchange(gptr<u32> own, gptr<u32> next, gptr<u32> previous)
    : own_(own), next_(next), previous_(previous), call_(Semaphore(own + kCalls).read() + 1) {}

void Exchange::open() const {
  if_(ctaid_x() == 0, [&] { Semaphore(previous_ + kFree, Scope::sys).set(call_); });
}

void Exchange::wait_for_next() const { Semaphore(own_ + kFree, Scope::sys).wait(call_); }

void Exchange::signal(u32 block) const { Semaphore(next_ + (block + kBlocks), Scope::sys).set(call_); }

void Exchange::wait(u32 block) const { Semaphore(own_ + (block + kBlocks), Scope::sys).wait(call_); }

// The last CTA leaves the words as the next call wants them.
void Exchange::left() const {
  const u32 before = atom_acq_rel_gpu_global_add_u32(own_ + kLeft, u32(1));
  if_(before == nctaid_x() - 1, [&] {
    Semaphore(own_ + kLeft).set(u32(0));
    Semaphore(own_ + kCalls).set(call_);
  });
}

}  // namespace ptxbuilder::kernels
