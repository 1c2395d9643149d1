#include "ptxbuilder/registers/place.h"

#include <fmt/format.h>

#include "ptxbuilder/tile/thread_address.h"

namespace ptxbuilder::detail {

u32 thread_in_warpgroup() {
  check_whole_warpgroups("register tile");
  Builder& builder = Builder::current();
  uint32_t threads = builder.signature().threads;
  TileContext& context = TileContext::of(builder);
  if (context.role >= 0) return tid_x() & 127;
  context.use_threads("register tile");
  if (threads != RegisterLayout::kThreads)
    throw Error(fmt::format(
        "register tile: the CTA has {} threads, but without roles, a tile needs a CTA of 128", threads));
  return tid_x();
}

Places::Places(const RegisterLayout& layout)
    : layout_(layout),
      rows_(additive_rows(layout)),
      cols_(additive_cols(layout)),
      thread_(thread_in_warpgroup()),
      row_of_thread_(0),
      col_of_thread_(0) {
  if (rows_) row_of_thread_ = sum_of_bits(Index(thread_), rows_->bits).value();
  if (cols_) col_of_thread_ = sum_of_bits(Index(thread_), cols_->bits).value();
}

u32 Places::place(const std::optional<Additive>& sum, u32 of_thread, int value, bool row) const {
  if (sum) return of_thread + sum->values[static_cast<size_t>(value)];
  std::array<int, 7> bits;
  for (size_t b = 0; b < bits.size(); ++b) bits[b] = layout_.of_thread(1 << b);
  u32 element = sum_of_bits(Index(thread_), bits).value() + layout_.of_value(value);
  return row ? element / layout_.cols() : element % layout_.cols();
}

void once_for_each_element(const RegisterLayout& layout, const std::function<void()>& body) {
  if (int mask = replicated_bits(layout); mask != 0)
    if_((thread_in_warpgroup() & mask) == 0, body);
  else
    body();
}

smem scratch(int bytes) {
  Builder& builder = Builder::current();
  TileContext& context = TileContext::of(builder);
  thread_in_warpgroup();  // throws Error unless a complete warpgroup runs this code
  bytes = (bytes + 15) / 16 * 16;
  auto [entry, is_new] = context.scratch.try_emplace(context.role);
  if (is_new || entry->second.bytes < bytes)
    entry->second = {builder.allocate_shared("register tile scratch", static_cast<uint32_t>(bytes),
                                             warpgroups_in_role(), 16),
                     bytes};
  u32 group = warpgroup_in_cta();
  u32 first = (group - first_warpgroup_of_role()) * entry->second.bytes;
  return builder.shared_base() + (first + entry->second.offset);
}

}  // namespace ptxbuilder::detail
