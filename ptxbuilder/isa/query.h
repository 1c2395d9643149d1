// Answers queries of tools about any row, whether the library's or the caller's own: whether operands are
// legal, what the instruction reads and writes, which targets support it, and how it is listed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/isa/lower.h"

namespace ptxbuilder::isa {

// Returns what is wrong with the operands, with lower()'s message; empty if they are legal.
std::string validate(const Row& row, std::span<const Filling> fillings, bool guarded = false);

// The use that the instruction makes of one operand of the row.
struct OperandUse {
  size_t operand;      // index in the row
  bool reads, writes;  // whether its registers are read or written
  bool is_address;     // whether the registers are an address (shared, global or generic) or a tensor map
};
struct RowUse {
  std::vector<OperandUse> operands;  // in the row's order
  bool stays;  // the instruction synchronizes or accesses memory, so it must not be moved or dropped
};
RowUse uses(const Row& row);

// Returns why the instruction is not supported by a target in a module with this .version (times ten), and
// which target or .version to use instead. Empty if it is supported.
std::string refusal(const Row& row, const Target& target, int ptx_version);

// The minimum that one or several instructions require: ten times the lowest .version, and all targets that
// support any of them.
struct Floor {
  int ptx_version = 0;
  Targets targets = Targets::all();
};
Floor floor_of(const Row& row);
// Returns the minimum of the manual's instructions with a mnemonic, or of a special register such as
// "%tid.x". If some of the instructions have this number of operands, only those count. Returns nothing if
// the manual does not contain such an instruction.
std::optional<Floor> floor_of(std::string_view mnemonic);
std::optional<Floor> floor_of(std::string_view mnemonic, size_t operands);
std::optional<Floor> floor_of_register(std::string_view name);
// Does the same for a mnemonic that the manual may not list in this form, for example with modifiers in
// another order, or for the name of an intrinsic: returns the minimum of the instructions with the most
// leading words in common. Returns nothing if no instruction has the same first word.
std::optional<Floor> floor_of_alike(std::string_view mnemonic);

// Returns the targets that ptxas 13.0 advises for an instruction, or all targets if it does not advise any:
// multicast on other targets is "expected to have substantially reduced performance on some future
// architectures".
Targets advised_for(std::string_view mnemonic);

// An instruction in PTX text: the first word of a statement that contains a dot, after labels, guards and
// comments, and the number of operands. instructions_in() returns the instructions in order.
struct Mentioned {
  std::string_view mnemonic;
  size_t operands;
};
std::vector<Mentioned> instructions_in(std::string_view text);

// Returns a typed C++ call of the row, as its author would write it: "f32 d =
// instruction<\"tanh.approx.f32\">(a);". Empty if the row contains names, and therefore has no call.
std::string example(const Row& row);

// Returns the line, without a line break, with which `ptxb isa` lists the row: name, minimum, effect and
// syntax.
std::string listing(const Row& row);

}  // namespace ptxbuilder::isa
