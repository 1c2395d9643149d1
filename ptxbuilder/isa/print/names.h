// Reads names.def and families.def, and finds the rows of the manual to which they refer.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptxbuilder/isa/form.h"

namespace ptxbuilder::isa::print {

struct ShortName {
  std::string_view name, key;
  // The operands that differ from the manual, separated by commas. A hole, such as "id:imm<0..15>", or a
  // fixed text, such as "clamp=31", replaces the operand of the same name.
  std::string_view operands = {};
  std::string_view intrinsic = {};  // LLVM intrinsic that prints the same instruction
  // True if LLVM must not move the instruction, although its results depend only on its operands.
  bool stays = false;
};

const std::vector<ShortName>& short_names();

// Returns the row for a short name. Throws Error for a key or an operand that is not in the manual.
Row row_of(const ShortName& name);

// The type of a field, with the spellings of its values in C++ and in PTX. A value is the index of a word.
// The type int has no words.
struct Axis {
  std::string_view name, about;
  std::vector<std::pair<std::string_view, std::string_view>> words;
};

// Returns all axes. The first three, int, bool and DType, are common to all families.
const std::vector<Axis>& axes();
constexpr size_t kCommonAxes = 3;

struct Field {
  const Axis* type;
  std::string_view name;
};

using Values = std::vector<int>;  // one value for each field

struct Member {
  std::string key, name;
  const Row* row;
  Values values;
  size_t key_number, form_number;  // indices into the family's keys and forms
};

struct Family {
  std::string_view name, form, about, row_name;  // `form` is empty if the family has a single axis
  std::vector<Field> fields;
  std::vector<std::string_view> keys;
  std::vector<Member> members = {};     // ordered by their values
  std::vector<const Form*> forms = {};  // the manual's forms for the members
};

const std::vector<Family>& families();

// A part of a key or a name, which is either fixed text or a field. The values of the field are spelled as
// words or as numbers.
struct Part {
  std::string_view text = {};
  size_t field = 0;
  bool is_text = false, is_all = false;  // is_all is true if every word is spelled as in PTX
  std::vector<std::pair<int, std::string_view>> words = {};
};

std::vector<Part> parts_of(std::string_view pattern, const std::vector<Field>& fields);

}  // namespace ptxbuilder::isa::print
