// Checks and prints values inside a kernel. The host reports failed checks and printed values with their
// source lines.
//
//   check(row < rows, "row {} of {}", row, rows);
//   print("stage {} begins at {}", stage, offset);
//   check_finite(sum);
//
// These functions emit code only if a ChecksScope was open when the kernel was constructed. Each thread that
// executes the code writes its own message.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// While a scope exists, kernels that are constructed on this thread check and print values. Such a kernel has
// one more parameter, "report", and runtime::LoadedKernel passes memory for this parameter. Messages are
// stored directly to host memory, so they can also be written in roles with few registers and between wgmma
// instructions. A failed check does not stop the kernel. The call to synchronize() that waits for the launch
// throws the Error.
class ChecksScope {
 public:
  // Reserves space for `messages` messages per launch; further messages are counted but not stored. Throws
  // Error unless `messages` is 1 to 2^20.
  explicit ChecksScope(uint32_t messages = 1024, Where where = Where::here());
  ~ChecksScope();
  ChecksScope(const ChecksScope&) = delete;
  ChecksScope& operator=(const ChecksScope&) = delete;

  // Returns the number of messages that fit in the space of the innermost scope, or 0 if no scope is open.
  static uint32_t messages();

 private:
  uint32_t outer_;
};

namespace detail {

// A value in a message, and a letter that denotes its type.
struct MessageValue {
  Value value;
  char type;

  MessageValue(u32 v) : value(v), type('u') {}    // NOLINT: meant to be implicit
  MessageValue(s32 v) : value(v), type('s') {}    // NOLINT
  MessageValue(u64 v) : value(v), type('U') {}    // NOLINT
  MessageValue(s64 v) : value(v), type('S') {}    // NOLINT
  MessageValue(f32 v) : value(v), type('f') {}    // NOLINT
  MessageValue(f64 v) : value(v), type('F') {}    // NOLINT
  MessageValue(pred v) : value(v), type('p') {}   // NOLINT
  MessageValue(gmem v) : value(v), type('x') {}   // NOLINT
  MessageValue(smem v) : value(v), type('X') {}   // NOLINT
  MessageValue(f16 v) : MessageValue(f32(v)) {}   // NOLINT
  MessageValue(bf16 v) : MessageValue(f32(v)) {}  // NOLINT
};

// The format string of a message, and the caller's source line. The number of {} is checked against the
// number of values.
struct MessageText {
  std::string_view text;
  Where where;
  MessageText(const char* t, Where w = Where::here()) : text(t), where(w) {}         // NOLINT
  MessageText(std::string_view t, Where w = Where::here()) : text(t), where(w) {}    // NOLINT
  MessageText(const std::string& t, Where w = Where::here()) : text(t), where(w) {}  // NOLINT
};

void check(pred holds, const MessageText& text, std::vector<MessageValue> values);
void print(const MessageText& text, std::vector<MessageValue> values);
// Sends the host the elements of a tile that this thread holds, each with its row and column. make(i) returns
// element i, and is called only for elements that are sent.
void print_elements(const MessageText& text, char type, int count, const std::function<u64(int)>& make);
// Returns whether the kernel being built checks and prints.
bool prints();

}  // namespace detail

// Sends the host a message from each thread in which `holds` is false. Throws Error unless `text` contains
// one {} for each value, or if there are more than six values.
template <class... V>
void check(pred holds, detail::MessageText text, V... values) {
  detail::check(holds, text, {detail::MessageValue(values)...});
}

// Sends the host a message with the values from each thread that executes this code.
template <class... V>
void print(detail::MessageText text, V... values) {
  detail::print(text, {detail::MessageValue(values)...});
}

// Check that `value` is finite, or that it is in [least, greatest].
void check_finite(f32 value, Where where = Where::here());
void check_range(f32 value, float least, float greatest, Where where = Where::here());

}  // namespace ptxbuilder
