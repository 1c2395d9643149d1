// Questions that a tool can ask of any row, the library's or the caller's own: are these operands legal, what
// does the instruction read and write, where does it run, and how is it listed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/isa/lower.h"

namespace ptxbuilder::isa {

// This says what is wrong with the operands, as lower() would; empty if nothing is.
std::string validate(const Row& row, std::span<const Filling> fillings, bool guarded = false);

// This is what the instruction does with one operand of the row.
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

// Why the instruction does not run on a target, in a module of a .version (ten times): which of the two to
// change, and to what. Empty if it runs.
std::string refusal(const Row& row, const Target& target, int ptx_version);

// One of several instructions needs this: ten times the least .version, and all targets that have any of
// them.
struct Floor {
  int ptx_version = 0;
  Targets targets = Targets::all();
};
Floor floor_of(const Row& row);
// The floor of the manual's instructions with a mnemonic, whatever their operands are, or with as many
// operands where some have; of a special register, "%tid.x"; and nothing where there is none.
std::optional<Floor> floor_of(std::string_view mnemonic);
std::optional<Floor> floor_of(std::string_view mnemonic, size_t operands);
std::optional<Floor> floor_of_register(std::string_view name);
// The floor of those that share the most first words with a mnemonic which the manual may not have in this
// form, as one with modifiers in another order, or the name of an intrinsic. Nothing where none shares the
// first.
std::optional<Floor> floor_of_alike(std::string_view mnemonic);

// The targets that ptxas 13.0 advises for an instruction, all where it advises none: multicast on a plain one
// is "expected to have substantially reduced performance on some future architectures".
Targets advised_for(std::string_view mnemonic);

// Gives the instructions in a text of PTX, in their order: of each statement the first word, after labels,
// guards and comments, that has a dot in it, and how many operands follow.
struct Mentioned {
  std::string_view mnemonic;
  size_t operands;
};
std::vector<Mentioned> instructions_in(std::string_view text);

// A typed call of the row in C++, as its author would write it: "f32 d =
// instruction<\"tanh.approx.f32\">(a);"; empty where it has names, and no call
std::string example(const Row& row);

// One line without its end, as `ptxb isa` lists the row: name, floor, effect and syntax.
std::string listing(const Row& row);

}  // namespace ptxbuilder::isa
