// Defines the manual, which consists of all forms in isa/manual, and finds its rows by key. A key is a
// mnemonic, sometimes followed by a distinguishing word (form.h).
//
//   isa::instruction<"tanh.approx.f32">()  the row, as a constant; any other text does not compile
//   isa::instruction("tanh.approx.f32")    the row, found at run time; any other text throws Error
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ptxbuilder/isa/form.h"

namespace ptxbuilder::isa {

namespace detail {

// The forms in the manual's order. The title of a section is stored as a form without a mnemonic, before the
// section's forms.
inline constexpr Form kManual[] = {
#define PTX_SECTION(title) Form{{title, sizeof(title) - 1}},
#define PTX_FORM(pattern, effect, ptx_version, targets) \
  Form{{pattern, sizeof(pattern) - 1}, Effect::effect, ptx_version, {#targets, sizeof(#targets) - 1}},
#define PTX_NAMED_FORM(pattern, effect, ptx_version, targets)
#include "ptxbuilder/isa/manual/manual.def"
#undef PTX_SECTION
#undef PTX_FORM
#undef PTX_NAMED_FORM
};

constexpr bool is_title(const Form& form) { return form.ptx_version == 0; }

// Returns the row with the key, or a row with empty syntax if there is none.
constexpr MadeRow find_row(std::string_view key) {
  const KeyParts parts(key);
  if (parts.mnemonic.empty()) return {};
  Choices choices;
  for (const Form& form : kManual)
    if (has_row(form, parts, choices) && !is_title(form)) return row_of(form, choices);
  return {};
}

}  // namespace detail

// A string that can be a template argument.
template <size_t size>
struct Key {
  constexpr Key(const char (&of)[size]) {  // NOLINT: a literal converts to a key
    for (size_t i = 0; i < size; ++i) text[i] = of[i];
  }
  constexpr std::string_view view() const { return {text, size - 1}; }
  char text[size] = {};
};

namespace detail {

template <Key key>
inline constexpr MadeRow found = find_row(key.view());
template <Key key>
inline constexpr Row found_row = found<key>.row();

}  // namespace detail

template <Key key>
constexpr const Row& instruction() {
  static_assert(
      !detail::found<key>.syntax.view().empty(),
      "no row here has this mnemonic, with this word after it: `ptxb isa --find TEXT` lists the rows that "
      "contain TEXT; use ptx() for an instruction without a row, or declare a row with PTXBUILDER_ROW");
  return detail::found_row<key>;
}

// Returns the row with a key that is known only at run time. The row exists until the program ends. If there
// is no such row, throws an Error that names the keys with the same beginning.
const Row& instruction(std::string_view key, Where where = Where::here());
// Returns the row with the key, or null if there is none.
const Row* find_instruction(std::string_view key);

// Returns the choices along each axis of a form, beginning with the axes of the distinguishing word.
std::vector<std::vector<Choice>> axes_of(const Form& form);
// Returns the forms whose mnemonics begin with this word, including forms that contain names and therefore
// have no call in C++.
std::span<const Form* const> forms_of(std::string_view first_word);
// Calls `visit` with each form and the choices along its axes that make a row with the mnemonic, whatever the
// distinguishing word. Rows that contain names are visited last.
void for_each_row_of(std::string_view mnemonic,
                     const std::function<void(const Form&, const Choices&)>& visit);
// Returns the title of the manual's section that contains the row, or "" if no section contains it. The row
// may also be one with a short name.
std::string_view section_of(const Row& row);
// Returns the rows with a mnemonic, except rows that contain names.
std::vector<MadeRow> rows_of(std::string_view mnemonic);
// Returns whether rows of the form contain the name of a label, a function or a parameter.
bool has_names(const Form& form);
// Calls `visit` with each row of a form; the last axis varies fastest.
void for_each_row(const Form& form, const std::function<void(const MadeRow&)>& visit);
// Calls `visit` with each row of the manual and the title of its section, in the manual's order.
void for_each_instruction(const std::function<void(const MadeRow&, std::string_view section)>& visit);

}  // namespace ptxbuilder::isa
