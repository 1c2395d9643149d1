// How a warp reaches memory: address spaces, bounds, the checks on shared memory, and the reports of what
// fails.
#include <fmt/format.h>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

namespace {

// Whether [address, address + bytes) lies in [0, size), also where the sum would wrap.
bool inside(uint64_t address, uint64_t bytes, uint64_t size) {
  return address <= size && bytes <= size - address;
}

// An address in front of a space wraps to a large one; -4 tells more.
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
             ? fmt::format("{} is no shared address (is it a generic or global one?)", shown(address))
             : fmt::format("the shared address {:#x} is of CTA {} in a cluster of {}", address, rank - 1,
                           cluster().ctas.size()),
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
             fmt::format("this accesses .shared::cta, and the address {} is of CTA {} of the cluster: "
                         ".shared::cluster "
                         "reaches it",
                         shown(address), owner.rank),
             lane);
      const uint32_t begin = grid().kernel.uses_reserved ? 0 : shared_reserved;
      if (offset < begin || offset + uint64_t{bytes} > owner.shared.size())
        fail(Fault::out_of_bounds,
             fmt::format("{} B at the shared address {} are outside the CTA's {} B of shared memory, "
                         "which begin at {:#x}",
                         bytes, shown(address), owner.shared.size() - shared_reserved, shared_reserved),
             lane);
      where = &owner;
      return owner.shared.data() + offset;
    }
    case Space::local: {
      if (in_window(address, local_window))
        address -= local_window;  // LLVM's va_arg reads [generic] by ld.local
      const uint64_t size = top[static_cast<size_t>(lane)];
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

std::byte* Warp::global(uint64_t address, uint32_t bytes, int lane, bool writes, const char* what) {
  if (!recent_ || address - recent_->address > recent_->size ||
      bytes > recent_->size - (address - recent_->address)) {
    recent_ = grid().memory.find(address, bytes);
    if (!recent_)
      fail(Fault::out_of_bounds,
           fmt::format("{} reaches {} B at the global address {:#x}, {}", what, bytes, address,
                       grid().memory.describe(address)),
           lane);
  }
  if (writes && recent_->read_only)
    fail(Fault::out_of_bounds, fmt::format("this writes to {}, which is constant", recent_->name), lane);
  return recent_->bytes.get() + (address - recent_->address);
}

WordOrder* Warp::order_of(Cta& owner, uint32_t offset) {
  return owner.cluster.checks ? &owner.ordered[offset / 4] : nullptr;
}

// The word was accessed in order with its other users by one who then knew more than is known from here on.
void Warp::used(Cta& owner, WordOrder& word) {
  owner.shadow.forget_steps();
  word.used = true;
  word.users.raise(causality.actor(), causality.time());
  causality.step();
}

void Warp::order_before(Cta* owner, uint32_t offset, Order order) {
  if (!cluster().checks) return;
  const Knowledge& passed = owner ? order_of(*owner, offset)->passed : cluster().ordered;
  order == Order::both || order == Order::acquire ? causality.acquire(passed) : causality.meets(passed);
}

void Warp::order_after(Cta* owner, uint32_t offset, Order order, int lane) {
  if (!cluster().checks) return;
  Knowledge& passed = owner ? order_of(*owner, offset)->passed : cluster().ordered;
  passed.join(order == Order::both || order == Order::release ? causality.release_of(lane)
                                                              : causality.fenced_release());
}

std::optional<Clash> Warp::try_touch(Cta& owner, uint32_t offset, uint32_t bytes, bool writes, int lane) {
  if (writes) ++owner.writes;
  if (offset < owner.mbarriers_to && offset + bytes > owner.mbarriers_from)
    if (Mbarrier* m = owner.mbarrier_near(offset, bytes); m && writes)
      fail(Fault::mbarrier_use,
           fmt::format("this writes over the mbarrier {}, which was initialised and not invalidated",
                       owner.name(m->offset)),
           lane);
  if (!cluster().checks) return std::nullopt;
  return without_released(writes ? owner.shadow.write(access(), offset, bytes, causality.knowledge())
                                 : owner.shadow.read(access(), offset, bytes, causality.knowledge()),
                          owner, access(), offset, offset + bytes, writes);
}

// Threads that store what stands there already, by threads too, race for nothing: a note says it.
void Warp::settle_clash(Clash clash, Cta& owner, uint32_t offset, uint32_t bytes,
                        const std::vector<std::byte>& stored, bool writes, int lane) {
  const uint32_t end = offset + bytes;
  for (std::optional<Clash> more = clash; more;) {
    clash = *more;
    const uint32_t from = std::max(offset, clash.offset), to = std::min(end, clash.offset + 4);
    const bool same = !stored.empty() && clash.earlier_wrote && !clash.earlier.async &&
                      clash.conflict == Conflict::unordered &&
                      std::equal(stored.begin() + (from - offset), stored.begin() + (to - offset),
                                 owner.shared.begin() + from);
    if (same)
      note(fmt::format(
               "this writes to {} what stands there already, and nothing orders it after the other write: "
               "{}",
               owner.name(clash.offset), cluster().describe(clash.earlier, true)),
           lane);
    else
      find_clash(clash, owner, writes ? "this writes" : "this reads", lane);
    if (writes) owner.shadow.agree(access(), from, to - from);
    more = to >= end ? std::nullopt
           : writes  ? owner.shadow.write(access(), to, end - to, causality.knowledge())
                     : owner.shadow.read(access(), to, end - to, causality.knowledge());
  }
}

void Warp::note(const std::string& message, int lane, uint32_t at) const {
  if (!grid().reports->wants_notes()) return;
  grid().reports->note(grid().kernel.name, at == no_pc ? here() : at, report(message, lane, at));
}

void Warp::touch_async(Cta& owner, uint32_t offset, uint32_t bytes, bool writes, Access deed,
                       const char* what) {
  if (writes) ++owner.writes;
  if (offset < owner.mbarriers_to && offset + bytes > owner.mbarriers_from)
    if (Mbarrier* m = owner.mbarrier_near(offset, bytes); m && writes)
      fail(Fault::mbarrier_use, fmt::format("{} over the mbarrier {}", what, owner.name(m->offset)));
  if (!cluster().checks) return;
  const uint32_t end = offset + bytes;
  for (uint32_t from = offset; from < end;) {
    auto clash = writes ? owner.shadow.write(deed, from, end - from, causality.knowledge())
                        : owner.shadow.read(deed, from, end - from, causality.knowledge());
    clash = without_released(clash, owner, deed, from, end, writes);
    if (!clash) break;
    find_clash(*clash, owner, what, -1);
    const uint32_t at = std::max(from, clash->offset);
    from = std::min(end, clash->offset + 4);
    if (writes) owner.shadow.agree(deed, at, from - at);
  }
  note_uninitialised(owner, what, -1);
}

void Warp::note_uninitialised(Cta& owner, const char* what, int lane) {
  if (!owner.shadow.uninitialised) return;
  add_uninitialised(
      owner, here(),
      fmt::format("{} {}, which nothing had written", what, owner.name(*owner.shadow.uninitialised)), lane);
  owner.shadow.uninitialised.reset();
}

void Warp::add_uninitialised(Cta& owner, uint32_t at, const std::string& message, int lane) const {
  auto& list = owner.uninitialised;
  if (!list.empty() && !grid().reports->wants_findings()) return;
  if (std::ranges::find(list, at, &std::pair<EmulatorError, uint32_t>::second) == list.end())
    list.emplace_back(error(Fault::uninitialised, message, lane, at), at);
}

void Warp::find_clash(const Clash& clash, Cta& owner, const char* what, int lane) const {
  const Fault fault = clash.conflict == Conflict::unfenced ? Fault::proxy_fence : Fault::race;
  if (grid().reports->has_found(grid().kernel.name, here(), fault)) return;
  std::string where =
      owner.name(clash.offset) + (&owner == &cta ? "" : fmt::format(" of CTA {} of the cluster", owner.rank));
  std::string earlier = cluster().describe(clash.earlier, clash.earlier_wrote);
  if (fault == Fault::proxy_fence)
    return find(fault,
                fmt::format("{} {} through the async proxy, but {}, and no fence.proxy.async stands between",
                            what, where, earlier),
                lane);
  if (const ActorName& who = cluster().actors[clash.earlier.actor]; who.kind == ActorName::Kind::mbarrier)
    if (auto m = who.cta->mbarriers.find(who.index); m != who.cta->mbarriers.end())
      earlier += fmt::format(" (it is in phase {} now, {} of {} arrivals and {} B are missing)",
                             m->second->phase, m->second->pending, m->second->count, m->second->tx);
  find(fault, fmt::format("{} {}, but {}, and nothing orders this after that", what, where, earlier), lane);
}

void Warp::fail(Fault fault, const std::string& message, int lane) const {
  EmulatorError e = error(fault, message, lane);
  // An uninitialised value explains why an address is wrong, and may explain something else.
  const bool wrong_address =
      fault == Fault::out_of_bounds || fault == Fault::misaligned || fault == Fault::operand;
  if (cta.uninitialised.empty()) throw e;
  const EmulatorError& before = cta.uninitialised[0].first;
  if (wrong_address)
    throw EmulatorError(Fault::uninitialised, before.ptx_line(),
                        fmt::format("{}\n  then: {}", before.what(), e.what()));
  throw EmulatorError(fault, e.ptx_line(), fmt::format("{}\n  before that: {}", e.what(), before.what()));
}

void Warp::find(Fault fault, const std::string& message, int lane, uint32_t at) const {
  if (at == no_pc) at = here();
  if (!grid().reports->wants_findings() && fault != Fault::race) fail(fault, message, lane);
  find(error(fault, message, lane, at), at);
}

void Warp::find(const EmulatorError& fault, uint32_t at) const {
  if (!grid().reports->wants_findings()) throw fault;
  grid().reports->find(grid().kernel.name, at, fault);
}

EmulatorError Warp::error(Fault fault, const std::string& message, int lane, uint32_t at) const {
  if (at == no_pc && instruction) at = here();
  return EmulatorError(fault, at == no_pc ? 0 : grid().kernel.lines[at].ptx,
                       fmt::format("{}: {}", name(fault), report(message, lane, at)));
}

std::string Warp::report(const std::string& message, int lane, uint32_t at) const {
  const Kernel& kernel = grid().kernel;
  std::string text = message;
  if (at == no_pc && instruction) at = here();
  if (at != no_pc) {
    const SourceLine& source = kernel.lines[at];
    text += fmt::format("\n  at PTX line {}: {}", source.ptx, kernel.texts[at]);
    if (source.line)
      text += fmt::format("\n  from {}:{}",
                          source.file < kernel.files.size() ? kernel.files[source.file] : "?", source.line);
  }
  text += fmt::format("\n  kernel {}, CTA ({}, {}, {}), warp {}", kernel.name, cta.id.x, cta.id.y, cta.id.z,
                      index);
  if (lane >= 0) text += fmt::format(", lane {}", lane);
  return text;
}

}  // namespace ptxbuilder::runtime::emulator
