// The manual: every form of isa/manual, whose rows are found by their keys, the mnemonics.
//
//   isa::instruction<"tanh.approx.f32">()  the row, as a constant; what is no key does not compile
//   isa::instruction("tanh.approx.f32")    the same at run time; what is no key throws Error
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ptxbuilder/isa/form.h"

namespace ptxbuilder::isa {

namespace detail {

// They are in the manual's order; a section's title comes before its forms, as one without a mnemonic.
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

// The row of that key; without a syntax where no form has it.
constexpr MadeRow find_row(std::string_view key) {
  const KeyParts parts(key);
  if (parts.mnemonic.empty()) return {};
  Choices choices;
  for (const Form& form : kManual)
    if (has_row(form, parts, choices) && !is_title(form)) return row_of(form, choices);
  return {};
}

}  // namespace detail

// Text that a template takes.
template <size_t size>
struct Key {
  constexpr Key(const char (&of)[size]) {  // NOLINT: a literal is one
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
      "no row here has this mnemonic, with this word behind it: `ptxb isa --find TEXT` lists those that have "
      "TEXT in them; ptx() writes what has no row, and PTXBUILDER_ROW declares one");
  return detail::found_row<key>;
}

// This does the same for a key that is known at run time; the row stays as long as the program. Throws Error
// that names those which begin alike.
const Row& instruction(std::string_view key, Where where = Where::here());
// Null where there is none.
const Row* find_instruction(std::string_view key);

// The axes of a form, each as its choices, those of the word before the mnemonic first.
std::vector<std::vector<Choice>> axes_of(const Form& form);
// Finds the forms whose mnemonics begin with this word, among them those with names, which no call in C++
// has.
std::span<const Form* const> forms_of(std::string_view first_word);
// Calls `visit` with each choice that is a row with a mnemonic, whatever word of theirs follows it, those
// with names last.
void for_each_row_of(std::string_view mnemonic,
                     const std::function<void(const Form&, const Choices&)>& visit);
// The manual's section of a row, which may have a short name; empty where it has none.
std::string_view section_of(const Row& row);
// Leaves out those with names.
std::vector<MadeRow> rows_of(std::string_view mnemonic);
// Tells whether a row of the form has the name of a label, a function or a parameter.
bool has_names(const Form& form);
// Calls `visit` with each row of a form, the last axis varying first.
void for_each_row(const Form& form, const std::function<void(const MadeRow&)>& visit);
// With each row of the manual, in its order, and its section.
void for_each_instruction(const std::function<void(const MadeRow&, std::string_view section)>& visit);

}  // namespace ptxbuilder::isa
