// Groups of products in flight, tracked while a kernel is emitted: which accumulators the tensor cores may
// still write (PTX ISA, wgmma.commit_group, wgmma.wait_group).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder::detail {

// The known state of one accumulator, or of registers that one product reads: A, or the metadata of a
// sparse A.
struct AccumulatorState {
  bool written = false;                   // since it was made or zeroed
  std::optional<int> group;               // that writes it, if the group may be in flight
  const char* is_read = nullptr;          // what the group reads from the registers, if it reads them
  std::function<void()> clear = nullptr;  // zeroes an accumulator's registers
};

// Follows code in the order in which it is emitted, branches one after the other; the effect of a loop's end
// on its beginning is checked once the loop has been emitted. Errors that depend on values that only the
// device knows, such as a loop without iterations, are left to the emulator.
class ProductGroups {
 public:
  using Accumulator = std::shared_ptr<AccumulatorState>;

  // Begins a group. Throws Error inside another group.
  void open();
  // Before the group's first product, orders earlier writes to registers before the products (wgmma.fence).
  // Throws Error outside a group.
  void fence();
  // Returns copies of registers that a product reads, made before the fence: ptxas serialises products if
  // their registers are written between them (its advisory C7513). Throws Error for registers computed after
  // the group's first product; the Error calls them `what`.
  std::vector<Value> ahead_of_fence(const std::vector<Value>& registers, const char* what);
  // Notes that a product of the open group writes the accumulator.
  void product(const Accumulator& accumulator);
  // Notes that the product also reads copies that were made before the group's fence. Throws Error if a loop
  // makes them again while the group of the previous iteration may still read them.
  void product_of_copies(const char* what);
  // Ends the group.
  void commit();
  // Notes that from here on at most `pending` of the groups are unfinished.
  void wait(int pending);

  // Notes that the author reads or writes an accumulator. Throws Error that names the group if a group may
  // still write it, and throws Error for reading an unwritten accumulator and for writing after an open
  // group's first product.
  void read(const Accumulator& accumulator);
  void write(const Accumulator& accumulator);

  // Calls `emission`, and returns the accumulators whose first write is by a product in it.
  std::vector<Accumulator> begun_in(const std::function<void()>& emission);

  // Ends a role: the products of this role are not in flight in the code of the next role.
  void end_role();

  // Enclose the body of a loop, whose events are checked once more at its end.
  void begin_loop();
  void end_loop();

 private:
  struct Event {
    enum class Kind : uint8_t { open, product, wait, access } kind;
    Where where = Where::here();
    Accumulator accumulator = nullptr;
    int pending = 0;
  };
  void note(Event event);
  void follow(const Event& event, bool next_round);
  int committed() const { return static_cast<int>(groups_.size()) - (open_ ? 1 : 0); }

  std::vector<Where> groups_;                  // all, by number, each where it was begun
  std::vector<Accumulator>* begun_ = nullptr;  // of the innermost begun_in()
  bool open_ = false;
  Builder::Place fence_;             // of the open group, once it has one
  std::vector<Accumulator> flying_;  // accumulators whose group may be in flight
  std::vector<Event> events_;        // of the loops being emitted
  std::vector<size_t> loops_;        // where in events_ each loop begins
};

}  // namespace ptxbuilder::detail
