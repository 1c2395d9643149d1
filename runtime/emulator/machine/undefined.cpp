#include "runtime/emulator/machine/undefined.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// Returns the lanes in which the value of `r` decides the result: zeros decide a conjunction, and ones a
// disjunction.
Lanes deciding(const Warp& w, Register r, uint8_t bytes, bool ones) {
  if (bytes == 0) return ones ? *w.at<uint32_t>(r) : ~*w.at<uint32_t>(r);
  Lanes lanes = 0;
  const std::byte decides{ones ? uint8_t{255} : uint8_t{0}};
  for (int lane = 0; lane < 32; ++lane) {
    const std::byte* at = w.at<std::byte>(r) + static_cast<ptrdiff_t>(lane) * bytes;
    lanes |= static_cast<Lanes>(std::all_of(at, at + bytes, [&](std::byte b) { return b == decides; }))
             << lane;
  }
  return lanes;
}

uint64_t local_key(int lane, uint64_t address) { return static_cast<uint64_t>(lane) << 32 | address; }

}  // namespace

UndefinedValues::UndefinedValues(Warp& warp, bool is_checked) : warp_(warp), is_checked_(is_checked) {
  const Kernel& kernel = warp_.grid().kernel;
  undefined_.assign(kernel.register_count, 0);
  for (Register r : kernel.doubtful) undefined_[kernel.number(r)] = all_lanes;
}

bool UndefinedValues::follows() const { return is_checked_ && (follows_all_ || warp_.instruction->watched); }

Lanes UndefinedValues::in(Register r) const {
  const uint32_t n = warp_.grid().kernel.number(r);
  return n == Kernel::no_number ? 0 : undefined_[n];
}

Origin UndefinedValues::origin_of(Register r) const {
  const auto at = origins_.find(warp_.grid().kernel.number(r));
  return at == origins_.end() ? Origin{.r = r} : at->second;
}

void UndefinedValues::set(Register r, Lanes among, Lanes value, const Origin& origin) {
  const uint32_t n = warp_.grid().kernel.number(r);
  if (n == Kernel::no_number) return;
  undefined_[n] = (undefined_[n] & ~among) | (value & among);
  if (value & among) {
    origins_[n] = origin;
    follows_all_ = true;
  }
}

void UndefinedValues::define(Register r, Lanes who) {
  if (const uint32_t n = warp_.grid().kernel.number(r); n != Kernel::no_number) undefined_[n] &= ~who;
}

// Reports that the undefined value of a register decides something in the lanes `who`. A read of unwritten
// memory is reported only when the CTA ends, because a report about a later unordered write is more useful.
void UndefinedValues::decided_by(Register r, Lanes who, const char* how) {
  const Kernel& kernel = warp_.grid().kernel;
  const Origin origin = origin_of(r);
  const int lane = __builtin_ctz(who);
  set(r, who, 0, {});
  if (origin.pc == no_pc)
    return warp_.find(
        Fault::undefined_register,
        r == origin.r
            ? fmt::format("this {} {}, which this thread has not written", how, kernel.register_name(r))
            : fmt::format("this {} {}, whose value comes from {}, which this thread has not written", how,
                          kernel.register_name(r), kernel.register_name(origin.r)),
        lane);
  const std::string what =
      origin.what + fmt::format("; line {} {} {}, whose value comes from it", kernel.lines[warp_.here()].ptx,
                                how, kernel.register_name(r));
  if (!origin.shared)
    return warp_.find(warp_.error(Fault::undefined_register, what, lane, origin.pc), origin.pc);
  warp_.add_uninitialised(warp_.cta, origin.pc, what, lane);
}

void UndefinedValues::step(Lanes executing) {
  if (!is_checked_) return;
  const Kernel& kernel = warp_.grid().kernel;
  const RegisterUse& use = kernel.uses[warp_.here()];
  stores_ = false;
  auto require = [&](Register r, Lanes who, const char* how) {
    if (const Lanes missing = in(r)&who) decided_by(r, missing, how);
  };
  require(warp_.instruction->guard, warp_.lanes, "is guarded by");
  for (Register r : use.needed) require(r, executing, "uses");
  Lanes result = 0;
  Register from = no_register;
  auto add = [&](Register r, Lanes which) {
    if (const Lanes more = in(r)&which) {
      result |= more;
      from = r;
    }
  };
  for (Register r : use.reads) add(r, all_lanes);
  switch (use.flow) {
    case Flow::uses:
      break;
    case Flow::copies: {
      Lanes all = use.passed.empty() ? 0 : all_lanes;
      for (Register r : use.passed) all &= in(r);
      if (all) add(use.passed[0], all);
      break;
    }
    case Flow::selects: {
      const Lanes which = warp_.truth(use.decides);
      add(use.decides.p, all_lanes);
      add(use.passed[0], which);
      add(use.passed[1], ~which);
      break;
    }
    case Flow::conjunction:
    case Flow::disjunction:
      for (size_t k = 0; k < 2; ++k) {
        const Register other = use.passed[1 - k];
        add(use.passed[k], in(other) | ~deciding(warp_, other, use.bytes, use.flow == Flow::disjunction));
      }
      break;
    case Flow::collective:
      for (Register r : use.passed)
        if (in(r)&executing) {
          result = all_lanes;
          from = r;
        }
      break;
    case Flow::stores:
      for (size_t k = 0; k < use.passed.size(); ++k) {
        data_[k] = in(use.passed[k]) & executing;
        stores_ |= data_[k] != 0;
      }
      return;
    case Flow::handled:
      return;
    case Flow::accumulates:
      if (warp_.truth(use.decides) & executing)
        for (Register r : use.writes) require(r, executing, "adds to");
      break;
  }
  const Origin origin = from == no_register ? Origin{} : origin_of(from);
  for (Register r : use.writes) set(r, executing, result, origin);
  if (++followed_ < 4096) return;
  // Once only the doubtful registers are undefined, only these registers must be tracked.
  followed_ = 0;
  size_t left = 0;
  for (Lanes n : undefined_) left += n != 0;
  for (Register r : kernel.doubtful) left -= undefined_[kernel.number(r)] != 0;
  follows_all_ = left != 0;
}

bool UndefinedValues::concern(bool store, const Cta* owner, bool is_local) const {
  return (store ? stores_ : follows() || (owner && owner->shadow.uninitialised)) ||
         (is_local && !local_.empty());
}

void UndefinedValues::load(std::span<const Register> data, const Place& place, uint32_t bytes, int lane) {
  for (size_t k = 0; k < data.size(); ++k) {
    if (data[k] == no_register) continue;
    const auto from = static_cast<uint32_t>(k) * bytes;
    load_element(data[k], {place.owner, place.offset + from, place.is_local, place.address + from}, bytes,
                 lane);
  }
}

// Marks a loaded element as undefined if none of its bytes is defined. If only some are, the others are
// probably padding, so the element counts as defined.
void UndefinedValues::load_element(Register r, Place place, uint32_t bytes, int lane) {
  const Lanes bit = Lanes{1} << lane;
  if (const Cta* owner = place.owner) {
    if (owner->shadow.any_initialised(place.offset, bytes)) return set(r, bit, 0, {});
    const uint32_t by = owner->shadow.writer(place.offset);
    const std::string name = owner->name(place.offset);
    return set(r, bit, bit,
               {no_register, warp_.here(),
                by == no_pc ? fmt::format("this reads {}, which nothing had written", name)
                            : fmt::format("this reads {}, where line {} stored an undefined value", name,
                                          warp_.grid().kernel.lines[by].ptx),
                true});
  }
  const Origin* all = nullptr;
  for (uint32_t b = 0; place.is_local && b < bytes; ++b) {
    const auto at = local_.find(local_key(lane, place.address + b));
    if (at == local_.end()) return set(r, bit, 0, {});
    all = &at->second;
  }
  all ? set(r, bit, bit, *all) : set(r, bit, 0, {});
}

// Passes undefined values on to shared and local memory. Reports them if they are stored to global memory,
// because the host may read them there.
void UndefinedValues::store(std::span<const Register> data, const Place& place, uint32_t bytes, int lane) {
  size_t count = 0;
  for (size_t k = 0; k < data.size(); ++k) {
    const bool undefined = stores_ && (data_[k] >> lane & 1) != 0;
    count += undefined;
    const auto from = static_cast<uint32_t>(k) * bytes;
    if (undefined && place.owner) place.owner->shadow.forget(place.offset + from, bytes);
    for (uint32_t b = 0; place.is_local && b < bytes; ++b) {
      const uint64_t key = local_key(lane, place.address + from + b);
      if (undefined)
        local_[key] = origin_of(data[k]);
      else
        local_.erase(key);
    }
  }
  if (count == data.size() && !place.owner && !place.is_local)
    decided_by(data[0], Lanes{1} << lane, "stores");
}

}  // namespace ptxbuilder::runtime::emulator
