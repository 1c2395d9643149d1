#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder {

void Semaphore::signal(u32 count, Where where) const {
  AtLine line(where);
  if (scope_ == Scope::gpu)
    red_release_gpu_global_add_u32(counter_, count);
  else
    red_release_sys_global_add_u32(counter_, count);
}

u32 Semaphore::read(Where where) const {
  AtLine line(where);
  return scope_ == Scope::gpu ? ld_acquire_gpu_global_u32(counter_) : ld_acquire_sys_global_u32(counter_);
}

void Semaphore::wait(u32 count, Where where) const {
  AtLine line(where);
  while_([&] { return read() < count; }, [] {});
}

void Semaphore::take(u32 count, Where where) const {
  AtLine line(where);
  Var<u32> seen(read());
  auto exchange = [&] {
    const u32 expected = seen, rest = expected - count;
    return scope_ == Scope::gpu ? atom_acquire_gpu_global_cas_b32(counter_, expected, rest)
                                : atom_acquire_sys_global_cas_b32(counter_, expected, rest);
  };
  Var<pred> taken(pred(false));
  while_([&] { return !pred(taken); },
         [&] {
           if_(
               u32(seen) >= count,
               [&] {
                 const u32 before = seen, now = exchange();
                 taken = now == before;
                 seen = now;
               },
               [&] { seen = read(); });
         });
}

// Each CTA adds 1, and one of them what is missing to 2^31: when all have come, the top bit has changed, and
// the bits below are as they were.
void GridBarrier::sync(Where where) const {
  AtLine line(where);
  if (detail::TileContext::of(Builder::current()).role >= 0)
    throw Error("grid barrier: inside a role; all threads of a CTA meet at it, outside of them");
  sync_threads();
  if_(tid_x() == 0, [&] {
    u32 ctas = nctaid_x() * nctaid_y() * nctaid_z();
    const pred first = (ctaid_x() | ctaid_y() | ctaid_z()) == 0;
    const u32 before = atom_acq_rel_gpu_global_add_u32(arrived_, select(first, 0x80000001u - ctas, u32(1)));
    while_([&] { return ((ld_acquire_gpu_global_u32(arrived_) ^ before) >> 31) == 0; }, [] {});
  });
  sync_threads();
}

}  // namespace ptxbuilder
