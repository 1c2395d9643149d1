#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder {

void Semaphore::signal(u32 count, Where where) const {
  AtLine line(where);
  if (scope_ == Scope::gpu)
    red_release_gpu_global_add_u32(counter_, count, where);
  else
    red_release_sys_global_add_u32(counter_, count, where);
}

u32 Semaphore::read(Where where) const {
  AtLine line(where);
  return scope_ == Scope::gpu ? ld_acquire_gpu_global_u32(counter_, where)
                              : ld_acquire_sys_global_u32(counter_, where);
}

void Semaphore::wait(u32 count, Where where) const {
  AtLine line(where);
  while_([&] { return read(where) < count; }, [] {}, where);
}

void Semaphore::take(u32 count, Where where) const {
  AtLine line(where);
  Var<u32> seen(read(where));
  auto exchange = [&] {
    const u32 expected = seen, rest = expected - count;
    return scope_ == Scope::gpu ? atom_acquire_gpu_global_cas_b32(counter_, expected, rest, where)
                                : atom_acquire_sys_global_cas_b32(counter_, expected, rest, where);
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
               [&] { seen = read(where); }, where);
         },
         where);
}

GridBarrier::GridBarrier(Kernel& kernel) : arrived_(kernel.builder().zeroed_global("grid_barrier", 4)) {}

// Each CTA adds 1, and one of them what is missing to 2^31: when all have come, the top bit has changed, and
// the bits below are as they were.
void GridBarrier::sync(Where where) const {
  AtLine line(where);
  if (detail::TileContext::of(Builder::current(where)).role >= 0)
    throw Error(where, "grid barrier: inside a role; all threads of a CTA meet at it, outside of them");
  sync_threads(where);
  if_(
      tid_x(where) == 0,
      [&] {
        u32 ctas = nctaid_x(where) * nctaid_y(where) * nctaid_z(where);
        const pred first = (ctaid_x(where) | ctaid_y(where) | ctaid_z(where)) == 0;
        const u32 before = atom_acq_rel_gpu_global_add_u32(
            arrived_, select(first, 0x80000001u - ctas, u32(1, where)), where);
        while_([&] { return ((ld_acquire_gpu_global_u32(arrived_, where) ^ before) >> 31) == 0; }, [] {},
               where);
      },
      where);
  sync_threads(where);
}

}  // namespace ptxbuilder
