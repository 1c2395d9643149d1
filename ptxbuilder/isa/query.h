// Answers questions that tools ask about a row of the library or of the caller: whether operands are legal,
// which operands the instruction reads and writes, which targets support it, and how it is listed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/isa/lower.h"

namespace ptxbuilder::isa {

// Returns the message that lower() throws for these operands, or "" if they are legal.
std::string validate(const Row& row, std::span<const Filling> fillings, bool guarded = false);

// Describes how the instruction uses one operand of the row.
struct OperandUse {
  size_t operand;      // index in the row
  bool reads, writes;  // true if the registers are read; true if they are written
  bool is_address;     // true if the registers hold an address (shared, global or generic) or a tensor map
};
struct RowUse {
  std::vector<OperandUse> operands;  // in the row's order
  bool stays;  // true if the instruction synchronizes or accesses memory, so that it must not be moved or
               // dropped
};
RowUse uses(const Row& row);

// Returns the reason why `target` does not support the instruction in a module with this .version (times
// ten), and the target or .version to use instead. Returns "" if the target supports it.
std::string refusal(const Row& row, const Target& target, int ptx_version);

// The minimum that one or several instructions require: the lowest .version, times ten, and all targets that
// support at least one of the instructions.
struct Floor {
  int ptx_version = 0;
  Targets targets = Targets::all();
};
Floor floor_of(const Row& row);
// Returns the minimum of the manual's instructions with a mnemonic, or of a special register such as
// "%tid.x". If some of the instructions have the given number of operands, the others are ignored. Returns
// nothing if the manual contains no instruction with that mnemonic.
std::optional<Floor> floor_of(std::string_view mnemonic);
std::optional<Floor> floor_of(std::string_view mnemonic, size_t operands);
std::optional<Floor> floor_of_register(std::string_view name);
// Returns the minimum of the instructions that have the most leading words in common with `mnemonic`.
// `mnemonic` may be one that the manual does not list, for example with modifiers in another order, or the
// name of an intrinsic. Returns nothing if no instruction has the same first word.
std::optional<Floor> floor_of_alike(std::string_view mnemonic);

// Returns the targets that ptxas 13.0 advises for an instruction, or all targets if ptxas does not advise
// any. For example, ptxas warns that multicast on other targets is "expected to have substantially reduced
// performance on some future architectures".
Targets advised_for(std::string_view mnemonic);

// An instruction in PTX text: its mnemonic and its number of operands. The mnemonic is the first word of a
// statement, after labels, guards and comments, and contains a dot. instructions_in() returns the
// instructions in order.
struct Mentioned {
  std::string_view mnemonic;
  size_t operands;
};
std::vector<Mentioned> instructions_in(std::string_view text);

// Returns a typed C++ call of the row, as an author would write it, such as "f32 d =
// instruction<\"tanh.approx.f32\">(a);". Returns "" if the row contains names, and therefore has no call.
std::string example(const Row& row);

// Returns the line that `ptxb isa` prints for the row, without a line break: name, minimum, effect and
// syntax.
std::string listing(const Row& row);

}  // namespace ptxbuilder::isa
