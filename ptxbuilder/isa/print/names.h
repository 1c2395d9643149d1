// This is what names.def and families.def say, with the rows of the manual that they name.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptxbuilder/isa/form.h"

namespace ptxbuilder::isa::print {

struct ShortName {
  std::string_view name, key;
  // These operands are not as the manual has them, between commas: a hole takes the place of that operand,
  // "id:imm<0..15>", or a text for good, "clamp=31".
  std::string_view operands = {};
  std::string_view intrinsic = {};  // LLVM's, which prints the instruction itself
  bool stays = false;               // LLVM may not move it, though its results depend on its operands alone
};

const std::vector<ShortName>& short_names();

// Makes the row of a short name. Throws Error for a key or an operand that the manual has not.
Row row_of(const ShortName& name);

// It is the type of a field, with its words as C++ and as PTX have them. A value is the number of a word; int
// has no words.
struct Axis {
  std::string_view name, about;
  std::vector<std::pair<std::string_view, std::string_view>> words;
};

const std::vector<Axis>& axes();  // first those that are not families' own: int, bool and DType
constexpr size_t kCommonAxes = 3;

struct Field {
  const Axis* type;
  std::string_view name;
};

using Values = std::vector<int>;  // one for each field

struct Member {
  std::string key, name;
  const Row* row;
  Values values;
  size_t key_number, form_number;  // of those that the family has
};

struct Family {
  std::string_view name, form, about, row_name;  // no form where it is one axis
  std::vector<Field> fields;
  std::vector<std::string_view> keys;
  std::vector<Member> members = {};     // in the order of their values
  std::vector<const Form*> forms = {};  // of the manual, which the members are of
};

const std::vector<Family>& families();

// A part of a key or a name is a text, or a field, whose values are written so, and numbers as they are.
struct Part {
  std::string_view text = {};
  size_t field = 0;
  bool is_text = false, is_all = false;  // is_all: every word as PTX has it
  std::vector<std::pair<int, std::string_view>> words = {};
};

std::vector<Part> parts_of(std::string_view pattern, const std::vector<Field>& fields);

}  // namespace ptxbuilder::isa::print
