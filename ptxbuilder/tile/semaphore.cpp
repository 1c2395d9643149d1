#include "ptxbuilder/tile/semaphore.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/tile/watchdog.h"

namespace ptxbuilder {
namespace {

u32 result_of(const isa::Row& row, const std::vector<Argument>& arguments) {
  return u32(Builder::current().emit(row, arguments, std::nullopt)[0].handle());
}

}  // namespace

void Semaphore::signal(u32 count, Where where) const {
  AtLine line(where);
  const std::array<Argument, 2> arguments = {counter_, count};
  Builder::current().emit(isa::red_release_add(scope_), arguments, std::nullopt);
}

void Semaphore::set(u32 count, Where where) const {
  AtLine line(where);
  if (scope_ < Scope::gpu)
    throw Error(fmt::format("semaphore: the scope is {}, but must be gpu or sys", name(scope_)));
  ptx(fmt::format("st.release.{}.global.u32 [{{counter:gmem}}], {{count:u32}};", name(scope_)),
      {{"counter", counter_}, {"count", count}});
}

u32 Semaphore::read(Where where) const {
  AtLine line(where);
  return result_of(isa::ld_acquire({scope_, DType::u32}), {counter_});
}

void Semaphore::wait(u32 count, Where where) const {
  AtLine line(where);
  detail::wait_while({.counter = counter_, .expected = count, .what = "a semaphore"},
                     [&] { return read() < count; });
}

void Semaphore::take(u32 count, Where where) const {
  AtLine line(where);
  Var<u32> seen(read());
  auto exchange = [&] {
    const u32 expected = seen, rest = expected - count;
    return result_of(isa::atom_acquire_cas(scope_), {counter_, expected, rest});
  };
  Var<pred> taken(pred(false));
  detail::wait_while(
      {.counter = counter_, .expected = count, .what = "a semaphore to take from"},
      [&] { return !pred(taken); },
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

void semaphore_signal_parallel(const std::vector<SemaphoreSignal>& signals, Where where) {
  AtLine line(where);
  if (signals.empty()) throw Error("semaphore_signal_parallel: no signals were given; give at least one");
  Scope widest = signals[0].semaphore.scope_;
  for (const SemaphoreSignal& s : signals) widest = std::max(widest, s.semaphore.scope_);
  Builder::current().emit(isa::fence_acq_rel(widest), {}, std::nullopt);
  for (const SemaphoreSignal& s : signals)
    ptx(fmt::format("red.relaxed.{}.global.add.u32 [{{counter:gmem}}], {{count:u32}};",
                    name(s.semaphore.scope_)),
        {{"counter", s.semaphore.counter_}, {"count", s.count}});
}

// Every CTA adds 1, except for one CTA, whose addend makes the sum of all addends 2^31. When all CTAs have
// arrived, the top bit has changed, and the lower bits have their previous values.
void GridBarrier::sync(Where where) const {
  AtLine line(where);
  if (detail::TileContext::of(Builder::current()).role >= 0)
    throw Error("grid barrier: all threads of a CTA must arrive at it, so call it outside of roles");
  Builder::current().signature().cooperative = true;
  sync_threads();
  if_(tid_x() == 0, [&] {
    u32 ctas = nctaid_x() * nctaid_y() * nctaid_z();
    const pred first = (ctaid_x() | ctaid_y() | ctaid_z()) == 0;
    const u32 before = atom_acq_rel_gpu_global_add_u32(arrived_, select(first, 0x80000001u - ctas, u32(1)));
    constexpr AcquireForm form = {Scope::gpu, DType::u32};
    detail::wait_while({.counter = arrived_, .expected = ctas, .what = report_format::kGridBarrier},
                       [&] { return ((ld_acquire<form>(arrived_) ^ before) >> 31) == 0; });
  });
  sync_threads();
}

}  // namespace ptxbuilder
