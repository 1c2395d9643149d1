// Queries that a tool can make about any row, the library's or the caller's own: whether operands are legal,
// what the instruction reads and writes, where it runs, and how it is listed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/isa/lower.h"

namespace ptxbuilder::isa {

// Returns what is wrong with the operands, in the words of lower(); empty if they are legal.
std::string validate(const Row& row, std::span<const Filling> fillings, bool guarded = false);

// The effect of the instruction on one operand of the row.
struct OperandUse {
  size_t operand;      // its number in the row
  bool reads, writes;  // its registers
  bool is_address;     // the registers name memory: shared, global or generic, or a tensor map
};
struct RowUse {
  std::vector<OperandUse> operands;  // in the row's order
  bool stays;  // it synchronizes or touches memory, so it keeps its place; otherwise it may be moved or
               // dropped
};
RowUse uses(const Row& row);

// Returns why the instruction does not run on a target, in a module with this .version (times ten), and
// whether to change the target or the .version, and to what. Empty if it runs.
std::string refusal(const Row& row, const Target& target, int ptx_version);

// The minimum of one or several instructions: ten times the least .version, and all targets that support any
// of them.
struct Floor {
  int ptx_version = 0;
  Targets targets = Targets::all();
};
Floor floor_of(const Row& row);
// Returns the minimum of the manual's instructions with a mnemonic, or of a special register, "%tid.x". If
// some of the instructions have this number of operands, only those count. Returns nothing if the manual has
// no such instruction.
std::optional<Floor> floor_of(std::string_view mnemonic);
std::optional<Floor> floor_of(std::string_view mnemonic, size_t operands);
std::optional<Floor> floor_of_register(std::string_view name);
// Does the same for a mnemonic that the manual may not list in this form, for example with modifiers in
// another order, or for the name of an intrinsic: returns the minimum of the instructions that share the most
// first words with it. Returns nothing if no instruction shares the first word.
std::optional<Floor> floor_of_alike(std::string_view mnemonic);

// Returns the targets that ptxas 13.0 advises for an instruction, or all targets if it gives no advice:
// multicast on other targets is "expected to have substantially reduced performance on some future
// architectures".
Targets advised_for(std::string_view mnemonic);

// Returns the instructions in a PTX text, in order: for each statement, the first word with a dot in it,
// after labels, guards and comments, and the number of operands.
struct Mentioned {
  std::string_view mnemonic;
  size_t operands;
};
std::vector<Mentioned> instructions_in(std::string_view text);

// Returns a typed C++ call of the row, as its author would write it: "f32 d =
// instruction<\"tanh.approx.f32\">(a);"; empty if the row has names, and so no call.
std::string example(const Row& row);

// Returns one line, without a line break, as `ptxb isa` lists the row: name, minimum, effect and syntax.
std::string listing(const Row& row);

}  // namespace ptxbuilder::isa
