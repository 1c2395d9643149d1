#include "ptxbuilder/tile/bulk.h"

#include <fmt/format.h>

#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder {
namespace {

// The bytes that each of `ctas` CTAs copies of a view.
uint32_t bulk_bytes(const TileView& view, DType type, u32 start, int ctas, std::string_view operation) {
  const SharedTile& tile = view.tile();
  if (type != tile.dtype())
    throw Error(fmt::format("{}: {} in global memory, and a view of a {}; a bulk copy converts nothing",
                            operation, name(type), view.whole().describe()));
  if (tile.swizzle() != Swizzle::none || (tile.panels() > 1 && tile.rows() > 1))
    throw Error(
        fmt::format("{}: a view of {} x {} of a {}; a bulk copy takes elements one behind the "
                    "other: whole rows without swizzle",
                    operation, view.row_count(), tile.cols(), view.whole().describe()));
  constexpr int kMost = (1 << 20) - 1;  // what a barrier can expect (PTX ISA, mbarrier, tx-count)
  if (view.bytes() % (16 * ctas) != 0 || view.bytes() > kMost)
    throw Error(fmt::format("{}: {} B by {} CTAs; a bulk copy moves a multiple of 16 B up to {}", operation,
                            view.bytes(), ctas, kMost / 16 * 16));
  if (auto known = Builder::current().constant(start);
      known && known->value * static_cast<uint64_t>(size_of(type)) % 16 != 0)
    throw Error(fmt::format("{}: begins at element {}, byte {}, which is no multiple of 16 B", operation,
                            known->value, known->value * static_cast<uint64_t>(size_of(type))));
  return static_cast<uint32_t>(view.bytes() / ctas);
}

gmem element_of(gmem base, DType type, u32 index) {
  return base + u64(index) * static_cast<uint64_t>(size_of(type));
}

}  // namespace

namespace detail {

void bulk_load(const LoadView& to, gmem from, DType type, u32 start) {
  const MulticastGroups groups = multicast_groups(to.multicast_axes());
  const int count = groups.count();
  const uint32_t bytes = bulk_bytes(to.place(), type, start, count, "bulk_load");
  if (to.fill() != OobFill::zero)
    throw Error(fmt::format("bulk_load: a view with {} outside: a bulk copy has no tensor to be outside of",
                            name(to.fill())));
  begin_load(to, "bulk_load");
  gmem source = element_of(from, type, start);
  smem place = to.place().address();
  std::optional<u16> mask;
  if (count > 1) {
    const GroupMember member = group_member(groups);
    u32 part = member.place.value() * bytes;
    source = source + u64(part);
    place = place + part;
    mask = member.mask;
  }
  const std::optional<u64> policy = cache_policy(to.eviction());
  std::vector<Argument> arguments = {place, source, u32(bytes), *to.barrier()};
  if (mask) arguments.emplace_back(*mask);
  if (policy) arguments.emplace_back(*policy);
  const isa::Row& row = isa::cp_async_bulk_load({mask.has_value(), policy.has_value()});
  Builder::current().emit(row, arguments, to.condition());
}

void bulk_store(std::optional<CopyReduction> reduction, gmem to, DType type, u32 start,
                const CopyView& from) {
  const std::string_view operation = reduction ? "bulk_reduce" : "bulk_store";
  const uint32_t bytes = bulk_bytes(from.place(), type, start, 1, operation);
  check_upright(from.place(), operation);
  if (reduction) check_reduction(*reduction, type, operation);
  const std::optional<u64> policy = cache_policy(from.eviction());
  std::vector<Argument> arguments = {element_of(to, type, start), from.place().address(), u32(bytes)};
  if (policy) arguments.emplace_back(*policy);
  const isa::Row& row = reduction ? isa::cp_reduce_async_bulk({*reduction, type, policy.has_value()})
                                  : isa::cp_async_bulk_store({policy.has_value()});
  Builder::current().emit(row, arguments, from.condition());
}

}  // namespace detail

}  // namespace ptxbuilder
