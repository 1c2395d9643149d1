#include "runtime/emulator/machine/memory.h"

#include <fmt/format.h>

namespace ptxbuilder::runtime::emulator {

std::string Allocation::name_of(uint64_t offset) const {
  return name.empty() ? fmt::format("byte {} of the allocation {:#x} of {} B", offset, address, size)
                      : fmt::format("{}+{}", name, offset);
}

Address GlobalMemory::allocate(size_t bytes, std::string name, size_t align, bool read_only,
                               uint32_t device) {
  align = std::max<size_t>(align, 256);
  next_ = (next_ + align - 1) / align * align;
  auto* zeros = static_cast<std::byte*>(std::calloc(bytes / 16 + 1, 16));  // whole lines of WeakMemory
  auto* written = static_cast<uint64_t*>(std::calloc(bytes / 256 + 1, 8));
  if (!zeros || !written)
    throw Error(fmt::format("device memory: the host has no room for an allocation of {} B", bytes),
                Error::Kind::out_of_memory);
  Allocation allocation{
      next_, bytes, std::move(name), read_only, device, {zeros, &std::free}, {written, &std::free}};
  Address address = next_;
  next_ += bytes + 4096;  // the gap ensures that an access past the end hits no other allocation
  live_.emplace(address, std::move(allocation));
  return address;
}

void GlobalMemory::release(Address address) noexcept {
  auto at = live_.find(address);
  if (at == live_.end()) return;
  released_[address] = at->second.size;
  live_.erase(at);
}

const Allocation* GlobalMemory::find(Address address, size_t bytes) const {
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return nullptr;
  const Allocation& a = std::prev(after)->second;
  return address - a.address <= a.size && bytes <= a.size - (address - a.address) ? &a : nullptr;
}

namespace {

// Calls f(index, bits) for each group of 64 words that overlaps [offset, offset + count). `bits` has a bit
// for each word of the group that overlaps the range.
template <class F>
void each_64_words(uint64_t offset, uint64_t count, F f) {
  if (count == 0) return;
  const uint64_t first = offset / 4, last = (offset + count - 1) / 4;  // words
  for (uint64_t at = first / 64; at <= last / 64; ++at) {
    const uint64_t from = at == first / 64 ? first % 64 : 0, to = at == last / 64 ? last % 64 : 63;
    f(at, ~uint64_t{0} >> (63 - to) & ~uint64_t{0} << from);
  }
}

}  // namespace

void Allocation::note_written(uint64_t offset, uint64_t count) const {
  each_64_words(offset, count, [&](uint64_t at, uint64_t bits) { written[at] |= bits; });
}

std::optional<uint64_t> Allocation::first_unwritten(uint64_t offset, uint64_t count) const {
  std::optional<uint64_t> first;
  each_64_words(offset, count, [&](uint64_t at, uint64_t bits) {
    if (const uint64_t missing = bits & ~written[at]; missing && !first)
      first = (at * 64 + static_cast<uint64_t>(__builtin_ctzll(missing))) * 4;
  });
  return first;
}

std::byte* GlobalMemory::host(Address address, size_t bytes, const char* operation, bool writes) const {
  const Allocation* a = find(address, bytes);
  if (!a)
    throw Error(fmt::format("{}: {} B at {:#x} are not in device memory: {}", operation, bytes, address,
                            describe(address)));
  if (writes) a->note_written(address - a->address, bytes);
  return a->bytes.get() + (address - a->address);
}

std::string GlobalMemory::describe(Address address) const {
  auto after = live_.upper_bound(address);
  auto label = [](const Allocation& a) {
    return a.name.empty() ? fmt::format("the allocation {:#x} of {} B", a.address, a.size)
                          : fmt::format("the variable {} of {} B", a.name, a.size);
  };
  if (address < 65536) return "a null pointer";
  if (auto gone = released_.upper_bound(address); gone != released_.begin()) {
    auto [base, size] = *std::prev(gone);
    if (address - base < size) return fmt::format("in an allocation of {} B that was released", size);
  }
  if (after != live_.begin()) {
    const Allocation& a = std::prev(after)->second;
    if (address - a.address < a.size)
      return fmt::format("{} B before the end of {}", a.address + a.size - address, label(a));
    if (address - a.address - a.size < (1 << 20))
      return fmt::format("{} B past the end of {}", address - a.address - a.size, label(a));
  }
  if (after != live_.end() && after->first - address < (1 << 20))
    return fmt::format("{} B before the start of {}", after->first - address, label(after->second));
  for (auto [window, name] :
       {std::pair{shared_window, "shared memory"}, std::pair{local_window, "local memory"},
        std::pair{param_window, "the kernel's parameters"}})
    if (window - address < (1 << 20))
      return fmt::format("{} B before the start of {}", window - address, name);
  return "near no allocation";
}

}  // namespace ptxbuilder::runtime::emulator
