// Tracks groups of products in flight while a kernel is emitted: which accumulators the tensor cores may
// still be writing (PTX ISA, wgmma.commit_group, wgmma.wait_group).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder::detail {

// The known state of one accumulator, or of registers that one product reads: A, or the metadata of a sparse
// A.
struct AccumulatorState {
  bool written = false;                   // whether a product has written it since it was made or zeroed
  std::optional<int> group;               // group that writes it, if the group may be in flight
  const char* is_read = nullptr;          // name of the operand that the group reads from the registers, or
                                          // null if they are an accumulator
  std::function<void()> clear = nullptr;  // zeroes an accumulator's registers
};

// Follows code in the order in which it is emitted; the branches of a condition count as consecutive code.
// The effect of a loop's end on its beginning is checked once the loop has been emitted. Errors that depend
// on values known only to the device, such as a loop without iterations, are left to the emulator.
class ProductGroups {
 public:
  using Accumulator = std::shared_ptr<AccumulatorState>;

  // Begins a group. Throws Error if a group is already open.
  void open();
  // Emits wgmma.fence before the group's first product, to order it after earlier writes to registers. Throws
  // Error outside a group.
  void fence();
  // Returns copies of registers that a product reads. The copies are made before the fence, since ptxas
  // serialises products if their registers are written between them (advisory C7513). Throws Error, which
  // calls the registers `what`, if they are computed after the group's first product.
  std::vector<Value> ahead_of_fence(const std::vector<Value>& registers, const char* what);
  // Records that a product of the open group writes the accumulator.
  void product(const Accumulator& accumulator);
  // Records that the product also reads copies made before the group's fence. Throws Error if a loop makes
  // the copies again while the group of the previous iteration may still be reading them.
  void product_of_copies(const char* what);
  // Ends the group.
  void commit();
  // Records that at most `pending` groups are unfinished from this point.
  void wait(int pending);

  // Record that the author reads or writes an accumulator. Both throw Error that names the group if a group
  // may still be writing it. read() also throws Error for an accumulator that was never written, and write()
  // after an open group's first product.
  void read(const Accumulator& accumulator);
  void write(const Accumulator& accumulator);

  // Calls `emission`, and returns the accumulators whose first write is by a product that it emits.
  std::vector<Accumulator> begun_in(const std::function<void()>& emission);

  // Ends a role: its products are not in flight in the code of the next role.
  void end_role();

  // Enclose the body of a loop, whose events are checked once more at the loop's end.
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

  std::vector<Where> groups_;                  // source lines where groups were begun, by number
  std::vector<Accumulator>* begun_ = nullptr;  // belongs to the innermost begun_in()
  bool open_ = false;
  Builder::Place fence_;             // fence of the open group, once it has one
  std::vector<Accumulator> flying_;  // accumulators whose group may be in flight
  std::vector<Event> events_;        // events of the loops being emitted
  std::vector<size_t> loops_;        // index in events_ where each loop begins
};

}  // namespace ptxbuilder::detail
