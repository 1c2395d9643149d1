// Recognises an instruction in PTX text: finds its row in the manual, and matches its operands to those of
// the row.
//
//   if (const Recognised known = recognise(instruction)) {
//     known.row->name;        // "mbarrier.try_wait.parity.shared::cta.b64"
//     known["bar"];           // the operand that is called `bar` in the row's syntax
//   } else {
//     why_unknown(instruction);  // "mbarrier.init.shared::cta.b64 is nearest: .init is left out"
//   }
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/ptx/ptx.h"

namespace ptxbuilder::isa {

struct Recognised {
  const Row* row = nullptr;  // null if no row matches; otherwise valid until the program ends
  const Form* form = nullptr;
  // The instruction's operands, in the row's order. A list is a vector, and a predicate may be `p` or `!p`.
  std::array<const ptx_text::Operand*, std::tuple_size_v<decltype(Operands::items)>> operands = {};

  explicit operator bool() const { return row != nullptr; }
  // Returns the operand that the row's syntax calls `name`, or null if there is none.
  const ptx_text::Operand* operator[](std::string_view name) const {
    const size_t i = row->operands.find(name);
    return i < row->operands.size() ? operands[i] : nullptr;
  }
};

// A function that returns the declared type of a register, such as ".b32", or nothing. The function is called
// only if nothing else distinguishes the rows, as for mov.b64 {a, b}, c.
using RegisterTypes = std::function<std::string_view(std::string_view name)>;

// Finds the row of an instruction. The words of the mnemonic must be in the row's order. In addition to the
// syntax of a row, this function accepts the following deviations, which ptxas also accepts: `_` for any of
// several results, `!p` or any number for a predicate that is read, the name of a vector for a list, and
// braces around a single register.
Recognised recognise(const ptx_text::Instruction& instruction, const RegisterTypes& types = {});

// Returns the row that is nearest to an instruction without a row, and the difference, such as "fence.sc.gpu
// is nearest: .gpu.sc are in another order".
std::string why_unknown(const ptx_text::Instruction& instruction);

}  // namespace ptxbuilder::isa
