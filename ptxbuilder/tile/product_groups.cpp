#include "ptxbuilder/tile/product_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ptxbuilder/ir/typed_calls.h"

namespace ptxbuilder::detail {

void ProductGroups::open() {
  if (open_)
    throw Error(fmt::format("wgmma_group: the group of {} is not committed yet, and groups cannot be nested",
                            to_string(groups_.back())));
  note({Event::Kind::open});
  open_ = true;
}

void ProductGroups::fence() {
  if (!open_) throw Error("mma: call it in wgmma_group, which fences products and commits them");
  if (fence_) return;
  fence_ = Builder::current().remember_place();
  wgmma_fence(groups_.back());
}

std::vector<Value> ProductGroups::ahead_of_fence(const std::vector<Value>& registers, const char* what) {
  std::vector<Value> copies;
  auto copy = [&] {
    for (Value v : registers) copies.push_back(mov_b32(u32(v.handle())));
  };
  if (!fence_) {
    copy();
    return copies;
  }
  Builder& builder = Builder::current();
  for (Value v : registers)
    if (!builder.known_at(v, fence_))
      throw Error(
          fmt::format("mma: {} is computed after the first product of the group of {}, so ptxas may reuse "
                      "registers of the products for it, or serialise the products (C7513); compute it "
                      "before, or commit a group and wait for it",
                      what, to_string(groups_.back())));
  Builder::Place next;
  builder.emit_at(fence_, [&] {
    copy();
    next = builder.remember_place();
  });
  fence_ = next;
  return copies;
}

void ProductGroups::product(const Accumulator& accumulator) {
  if (begun_ && !accumulator->written) begun_->push_back(accumulator);
  accumulator->written = true;
  note({.kind = Event::Kind::product, .accumulator = accumulator});
}

std::vector<ProductGroups::Accumulator> ProductGroups::begun_in(const std::function<void()>& emission) {
  std::vector<Accumulator> begun;
  std::vector<Accumulator>* const outer = std::exchange(begun_, &begun);
  emission();
  begun_ = outer;
  if (outer) outer->insert(outer->end(), begun.begin(), begun.end());
  return begun;
}

void ProductGroups::product_of_copies(const char* what) {
  const auto copies = std::make_shared<AccumulatorState>();
  copies->is_read = what;
  note({.kind = Event::Kind::access, .accumulator = copies});
  note({.kind = Event::Kind::product, .accumulator = copies});
}

void ProductGroups::commit() {
  if (fence_) Builder::current().emit_at(std::exchange(fence_, nullptr), [] {});  // releases the place
  open_ = false;
}

void ProductGroups::wait(int pending) { note({.kind = Event::Kind::wait, .where = {}, .pending = pending}); }

void ProductGroups::read(const Accumulator& accumulator) {
  if (!accumulator->written)
    throw Error(
        "accumulator: it is read, but no product or store has written it since it was made or zeroed");
  note({.kind = Event::Kind::access, .accumulator = accumulator});
}

void ProductGroups::write(const Accumulator& accumulator) {
  note({.kind = Event::Kind::access, .accumulator = accumulator});
  if (fence_)
    throw Error(
        fmt::format("accumulator: it is written after the first product of the group of {}, so ptxas would "
                    "serialise the products (C7515); write it before",
                    to_string(groups_.back())));
  accumulator->written = true;
}

void ProductGroups::end_role() {
  for (const Accumulator& accumulator : flying_) accumulator->group.reset();
  flying_.clear();
}

void ProductGroups::note(Event event) {
  follow(event, false);
  if (!loops_.empty()) events_.push_back(std::move(event));
}

void ProductGroups::follow(const Event& event, bool next_round) {
  switch (event.kind) {
    case Event::Kind::open:
      groups_.push_back(event.where);
      break;
    case Event::Kind::product:
      event.accumulator->group = static_cast<int>(groups_.size()) - 1;
      if (std::find(flying_.begin(), flying_.end(), event.accumulator) == flying_.end())
        flying_.push_back(event.accumulator);
      break;
    case Event::Kind::wait:
      std::erase_if(flying_, [&](const Accumulator& accumulator) {
        if (*accumulator->group >= committed() - event.pending) return false;
        accumulator->group.reset();
        return true;
      });
      break;
    case Event::Kind::access:
      if (const std::optional<int>& group = event.accumulator->group) {
        const char* const is_read = event.accumulator->is_read;
        const int before = committed() - (is_read && next_round ? 1 : 0);  // the group that reads is open
        throw Error(
            event.where,
            fmt::format(
                "{} while the products of the group of {}{} may still {} it; call wgmma_wait({}) first",
                is_read ? fmt::format("mma: {} is written", is_read) : "accumulator: it is read or written",
                to_string(groups_[static_cast<size_t>(*group)]),
                next_round ? " from the previous iteration of the loop" : "", is_read ? "read" : "write",
                std::max(0, before - 1 - *group)));
      }
      break;
  }
}

void ProductGroups::begin_loop() { loops_.push_back(events_.size()); }

void ProductGroups::end_loop() {
  const size_t first = loops_.back();
  loops_.pop_back();
  for (size_t i = first; i < events_.size(); ++i) follow(events_[i], true);
  if (loops_.empty()) events_.clear();
}

}  // namespace ptxbuilder::detail
