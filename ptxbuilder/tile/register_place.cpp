#include "ptxbuilder/tile/register_place.h"

#include <fmt/format.h>

#include "ptxbuilder/ir/index.h"

namespace ptxbuilder::detail {

u32 thread_in_warpgroup(Where where) {
  Builder& builder = Builder::current(where);
  uint32_t threads = builder.signature().threads;
  if (TileContext::of(builder).role >= 0) return tid_x(where) & 127;
  if (threads != RegisterLayout::kThreads)
    throw Error(
        where,
        fmt::format("register tile: a CTA of {} threads; without roles a tile is shared by 128", threads));
  return tid_x(where);
}

u32 sum_of_bits(u32 thread, const std::array<int, 7>& bits) {
  u32 sum = 0;
  for (size_t first = 0, next; first < bits.size(); first = next) {
    // As many bits at once as have doubling strides.
    for (next = first + 1; next < bits.size() && bits[next] == 2 * bits[next - 1];) ++next;
    if (bits[first] == 0) continue;
    u32 digit = (thread >> static_cast<uint32_t>(first)) & ((1u << (next - first)) - 1);
    sum = sum + digit * static_cast<uint32_t>(bits[first]);
  }
  return sum;
}

Places::Places(const RegisterLayout& layout, Where where)
    : layout_(layout),
      rows_(additive_rows(layout)),
      cols_(additive_cols(layout)),
      thread_(thread_in_warpgroup(where)),
      row_of_thread_(0),
      col_of_thread_(0) {
  if (rows_) row_of_thread_ = sum_of_bits(thread_, rows_->bits);
  if (cols_) col_of_thread_ = sum_of_bits(thread_, cols_->bits);
}

u32 Places::place(const std::optional<Additive>& sum, u32 of_thread, int value, bool row) const {
  if (sum) return of_thread + sum->values[static_cast<size_t>(value)];
  std::array<int, 7> bits;
  for (size_t b = 0; b < bits.size(); ++b) bits[b] = layout_.of_thread(1 << b);
  u32 element = sum_of_bits(thread_, bits) + layout_.of_value(value);
  return row ? element / layout_.cols() : element % layout_.cols();
}

void once_for_each_element(const RegisterLayout& layout, const std::function<void()>& body, Where where) {
  if (int mask = replicated_bits(layout); mask != 0)
    if_((thread_in_warpgroup(where) & mask) == 0, body, where);
  else
    body();
}

void Scratch::sync(Where where) const { bar_sync(barrier, 128, where); }

Scratch scratch(int bytes, Where where) {
  Builder& builder = Builder::current(where);
  TileContext& context = TileContext::of(builder);
  thread_in_warpgroup(where);  // checks that there is one
  bytes = (bytes + 15) / 16 * 16;
  auto [entry, is_new] = context.scratch.try_emplace(context.role);
  if (is_new || entry->second.bytes < bytes)
    entry->second = {builder.allocate_shared("register tile scratch", static_cast<uint32_t>(bytes),
                                             warpgroups_in_role(), 16, where),
                     bytes};
  u32 group = warpgroup_in_cta(where);
  u32 first = (group - first_warpgroup_of_role()) * entry->second.bytes;
  // Barrier 0 is the CTA's; each warpgroup has one of its own.
  return {builder.shared_base() + (first + entry->second.offset), group + 1};
}

}  // namespace ptxbuilder::detail
