// Memory accesses of a warp: address spaces, bounds, and the threads that learn of an access.
#include <fmt/format.h>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

namespace {

// Returns whether [address, address + bytes) is in [0, size), even if the sum would wrap.
bool inside(uint64_t address, uint64_t bytes, uint64_t size) {
  return address <= size && bytes <= size - address;
}

bool acquires(Order order) {
  return order == Order::both || order == Order::acquire || order == Order::older;
}

// Formats an address. An address just below a space wraps to a large number, which is shown as a negative
// number such as -4.
std::string shown(uint64_t address) {
  const auto wide = static_cast<int64_t>(address), narrow = int64_t{static_cast<int32_t>(address)};
  if (wide < 0) return std::to_string(wide);
  if (address <= 0xffffffff && narrow < 0) return fmt::format("{:#x} ({})", address, narrow);
  return fmt::format("{:#x}", address);
}

}  // namespace

Cta& Warp::resolve_shared(uint64_t address, uint32_t& offset, int lane) {
  if (in_window(address, shared_window)) address -= shared_window;
  offset = static_cast<uint32_t>(address) & shared_offset_mask;
  const uint64_t rank = address >> 24;
  if (rank == 0) return cta;
  if (rank > cluster().ctas.size())
    fail(Fault::out_of_bounds,
         address > 0xffffffff
             ? fmt::format("{} is not a shared address (is it a generic or global one?)", shown(address))
             : fmt::format("the shared address {:#x} belongs to CTA {}, but the cluster has {}", address,
                           rank - 1, cluster().ctas.size()),
         lane);
  Cta& peer = *cluster().ctas[rank - 1];
  if (peer.live_warps == 0)
    find(Fault::early_exit,
         fmt::format("this reaches the shared memory of CTA {} of the cluster, which has exited", peer.rank),
         lane);
  return peer;
}

std::byte* Warp::place(uint64_t address, uint32_t bytes, Space space, int lane, Cta*& where,
                       uint32_t& offset) {
  where = nullptr;
  if (space == Space::generic) {
    if (in_window(address, shared_window))
      space = Space::cluster;
    else if (in_window(address, local_window))
      space = Space::local, address -= local_window;
    else if (in_window(address, param_window))
      space = Space::param, address -= param_window;
    else
      space = Space::global;
  }
  switch (space) {
    case Space::shared:
    case Space::cluster: {
      Cta& owner = resolve_shared(address, offset, lane);
      if (space == Space::shared && &owner != &cta)
        fail(Fault::out_of_bounds,
             fmt::format("this accesses .shared::cta, but the address {} belongs to CTA {} of the cluster: "
                         "use .shared::cluster",
                         shown(address), owner.rank),
             lane);
      const uint32_t begin = grid().kernel.uses_reserved ? 0 : shared_reserved;
      if (offset < begin || offset + uint64_t{bytes} > owner.shared.size())
        fail(Fault::out_of_bounds,
             fmt::format("{} B at the shared address {} are outside the CTA's {} B of shared memory, which "
                         "begin at {:#x}",
                         bytes, shown(address), owner.shared.size() - shared_reserved, shared_reserved),
             lane);
      where = &owner;
      return owner.shared.data() + offset;
    }
    case Space::local: {
      if (in_window(address, local_window))
        address -= local_window;  // LLVM's va_arg reads [generic] with ld.local
      const uint64_t size = top_[static_cast<size_t>(lane)];
      if (!inside(address, bytes, size))
        fail(Fault::out_of_bounds,
             fmt::format("{} B at {} are outside the thread's {} B of local memory", bytes, shown(address),
                         size),
             lane);
      return local(address, lane);
    }
    case Space::param: {
      const auto& parameters = grid().parameters;
      if (!inside(address, bytes, parameters.size()))
        fail(Fault::out_of_bounds,
             fmt::format("{} B at {} are outside the kernel's {} B of parameters", bytes, shown(address),
                         parameters.size()),
             lane);
      return const_cast<std::byte*>(parameters.data()) + address;
    }
    default:
      return global(address, bytes, lane, false, "this");
  }
}

const Allocation* Warp::allocation_of(uint64_t address, uint32_t bytes) {
  const auto is_in = [&](const Allocation* a) { return a && inside(address - a->address, bytes, a->size); };
  if (!is_in(recent_)) {
    std::swap(recent_, other_);
    if (!is_in(recent_)) recent_ = grid().memory.find(address, bytes);
  }
  if (recent_ && !(grid().reaches >> recent_->device & 1)) recent_ = nullptr;
  return recent_;
}

std::string Warp::about_peer(uint64_t address, uint32_t bytes) const {
  const Allocation* a = grid().memory.find(address, bytes);
  if (!a || grid().reaches >> a->device & 1) return {};
  return fmt::format(
      ", in the memory of device {}, which kernels of device {} cannot access: call Device::reach() first",
      a->device, grid().device);
}

std::byte* Warp::place_together(uint64_t address, uint32_t bytes, Space space, Cta*& where,
                                uint32_t& offset) {
  where = nullptr;
  if (space == Space::generic) {
    if (in_window(address, local_window) || in_window(address, param_window)) return nullptr;
    space = in_window(address, shared_window) ? Space::cluster : Space::global;
  }
  switch (space) {
    case Space::shared:
    case Space::cluster: {
      if (in_window(address, shared_window)) address -= shared_window;
      const uint64_t begin = grid().kernel.uses_reserved ? 0 : shared_reserved;
      if (address < begin || address + bytes > cta.shared.size()) return nullptr;
      where = &cta;
      offset = static_cast<uint32_t>(address);
      return cta.shared.data() + address;
    }
    case Space::local:
      return nullptr;
    case Space::param:
      return inside(address, bytes, grid().parameters.size())
                 ? const_cast<std::byte*>(grid().parameters.data()) + address
                 : nullptr;
    default:
      return allocation_of(address, bytes) ? recent_->bytes.get() + (address - recent_->address) : nullptr;
  }
}

std::byte* Warp::global(uint64_t address, uint32_t bytes, int lane, bool writes, const char* what) {
  if (!allocation_of(address, bytes))
    fail(Fault::out_of_bounds,
         fmt::format("{} reaches {} B at the global address {:#x}, {}{}", what, bytes, address,
                     grid().memory.describe(address), about_peer(address, bytes)),
         lane);
  if (writes) {
    require_writable(lane);
    if (weak() && bytes) weak()->forget(address, bytes);
  }
  return recent_->bytes.get() + (address - recent_->address);
}

void Warp::require_writable(int lane) const {
  if (!may_write())
    fail(Fault::out_of_bounds, fmt::format("this writes to {}, which is constant", recent_->name), lane);
}

WordOrder* Warp::order_of(Cta& owner, uint32_t offset) {
  return owner.cluster.checks ? &owner.ordered[offset / 4] : nullptr;
}

void Warp::order_before(Cta* owner, uint64_t at, Order order, Scope scope) {
  if (!cluster().checks) return;
  if (!owner) return order_before(grid().order->passed(at), order, scope);
  const Knowledge& passed = order_of(*owner, static_cast<uint32_t>(at))->passed;
  if (acquires(order)) return causality.acquire(passed);
  for (const Scope s : kScopes) causality.meets(passed, s);
}

void Warp::order_before(const PassedOnPointer& passed, Order order, Scope scope) {
  if (!cluster().checks || !passed) return;
  // A fence after a relaxed access acquires with its own scope.
  const bool by_fence = !acquires(order);
  if (by_fence && !grid().kernel.names_semantics) return;
  // A warp that polls a word already knows what the same value passed on before. The pointers can be
  // compared, because the next release to the word creates a new object while this one is in use.
  if (!by_fence) {
    if (acquired_ == passed && acquired_scope_ == scope) return;
    acquired_ = passed, acquired_scope_ = scope;
  }
  for (const Scope s : kScopes) {
    if (s > scope || (!by_fence && s != scope)) continue;
    Knowledge k;
    emulator::acquire(*passed, party(), s, k);
    by_fence ? causality.meets(k, s) : causality.acquire(k);
  }
}

void Warp::order_after(Cta* owner, uint64_t at, Order order, Scope scope, int lane) {
  if (!cluster().checks) return;
  const bool releases = order == Order::both || order == Order::release;
  if (!owner) {
    auto release = [&](Scope s, const Knowledge& k) {
      weak() ? weak()->release(at, party(), s, k) : grid().order->release(at, party(), s, k);
    };
    if (releases) return release(scope, causality.release_of(lane));
    for (const Scope s : kScopes)
      if (s <= scope && causality.has_published(s)) release(s, causality.published(s));
    return;
  }
  order_of(*owner, static_cast<uint32_t>(at))
      ->passed.join(releases || order == Order::older ? causality.release_of(lane)
                                                      : causality.fenced_release());
}

void Warp::require_no_mbarrier(Cta& owner, uint32_t offset, uint32_t bytes, const char* what,
                               int lane) const {
  if (offset >= owner.mbarriers_to || offset + bytes <= owner.mbarriers_from) return;
  if (const Mbarrier* m = owner.mbarrier_near(offset, bytes))
    fail(Fault::mbarrier_use,
         fmt::format("{} over the mbarrier {}, which has not been invalidated", what, owner.name(m->offset)),
         lane);
}

void Warp::touch(const SharedAccess& a) {
  if (a.writes) {
    ++a.cta.writes;
    a.each_place(
        [&](uint32_t offset, int lane) { require_no_mbarrier(a.cta, offset, a.bytes, "this writes", lane); });
  }
  for (Observer* o : cluster().observers.shared_access) o->shared_access(*this, a);
}

void Warp::touch_lanes(const SharedAccess& a, LaneAccess kind) {
  if (&a.cta != &cta || !cluster().checks) return;
  causality.accesses(a.who(), a.writes);
  for (Observer* o : cluster().observers.lane_access) o->lane_access(*this, a, kind);
}

void Warp::touch_async(Cta& owner, uint32_t offset, uint32_t bytes, bool writes, Access deed,
                       const char* what) {
  if (writes) {
    ++owner.writes;
    require_no_mbarrier(owner, offset, bytes, what, -1);
  }
  for (Observer* o : cluster().observers.async_access)
    o->async_access(*this, {owner, offset, bytes, writes, deed, what});
}

void Warp::touch_ordered(Cta& owner, uint32_t offset, uint32_t bytes, bool writes, int lane, Order order,
                         StoredBytes values) {
  WordOrder* word = order_of(owner, offset);
  if (!word || ((order == Order::both || order == Order::older) && !word->used && word->passed.told.empty()))
    return touch({owner, offset, bytes, writes, lane, values});
  causality.assuming({&word->passed.seen, &word->passed.told, &word->users}, [&] {
    touch({owner, offset, bytes, writes, lane, values});
  });
  owner.shadow.forget_steps();  // the cached steps assumed more knowledge
  word->used = true;
  word->users.raise(causality.actor(), causality.time());
  causality.step();
}

}  // namespace ptxbuilder::runtime::emulator
