// Tracks, while a kernel is emitted, the groups of products that will be in flight, and thus the accumulators
// that tensor cores may still be writing (PTX ISA, wgmma.commit_group, wgmma.wait_group).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder::detail {

// Holds the state of one accumulator, or of registers that one product reads. Such registers hold A, or the
// metadata of a sparse A.
struct AccumulatorState {
  bool written = false;                   // set by a product or a write, cleared by Accumulator::zero()
  std::optional<int> group;               // group that writes the accumulator, if the group may be in flight
  const char* is_read = nullptr;          // name of the operand in the registers; null for an accumulator
  std::function<void()> clear = nullptr;  // emits code that zeroes an accumulator's registers
};

// Tracks code in the order of emission; the branches of a condition count as consecutive code. After a loop
// has been emitted, its body is checked again, starting from the state at the end of the first check. Errors
// that depend on device values, such as a loop without iterations, can be found only by the emulator.
class ProductGroups {
 public:
  using Accumulator = std::shared_ptr<AccumulatorState>;

  // Begins a group. Throws Error if a group is already open.
  void open();
  // Emits wgmma.fence before the group's first product, to order it after earlier writes to registers. Throws
  // Error outside a group.
  void fence();
  // Returns copies of registers that a product reads. The copies are made before the fence, because ptxas
  // serialises products if their registers are written between the products (advisory C7513). Throws Error if
  // the registers are computed after the group's first product; the message calls them `what`.
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

  // Record that the author's code reads or writes an accumulator. If a group may still be writing the
  // accumulator, both functions throw an Error that names the group. read() also throws Error for an
  // accumulator that was never written, and write() throws Error after the first product of an open group.
  void read(const Accumulator& accumulator);
  void write(const Accumulator& accumulator);

  // Calls `emission`, and returns the accumulators that are first written by a product that `emission` emits.
  std::vector<Accumulator> begun_in(const std::function<void()>& emission);

  // Ends a role. The code of the next role begins without products in flight.
  void end_role();

  // Enclose the body of a loop. end_loop() checks the events of the body once more.
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

  std::vector<Where> groups_;                  // source line of open() for each group
  std::vector<Accumulator>* begun_ = nullptr;  // result of the innermost begun_in()
  bool open_ = false;
  Builder::Place fence_;             // position of the open group's fence; null until the fence is emitted
  std::vector<Accumulator> flying_;  // accumulators that a group in flight may be writing
  std::vector<Event> events_;        // events of the loops being emitted
  std::vector<size_t> loops_;        // index in events_ where each loop begins
};

}  // namespace ptxbuilder::detail
