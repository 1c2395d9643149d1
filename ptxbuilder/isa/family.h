// Defines the functions that compute the row of a family's form at compile time. print/ generates the
// families' keys, rules and forms (printed_rows.h).
#pragma once

#include <array>
#include <initializer_list>
#include <span>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/isa/form.h"

namespace ptxbuilder::isa::detail {

template <class T>
constexpr bool is_one_of(T value, std::initializer_list<T> all) {
  for (const T one : all)
    if (one == value) return true;
  return false;
}

template <class Field>
struct Spelling {
  Field value;
  std::string_view text;
};

// Returns the spelling of a value in keys. For a value that is not in `all`, returns the name of the value,
// which does not occur in any key.
template <class Field>
constexpr std::string_view spelled(Field value, std::initializer_list<Spelling<Field>> all) {
  for (const Spelling<Field>& one : all)
    if (one.value == value) return one.text;
  if constexpr (requires { name(value); }) return name(value);
  return "?";
}

// Returns the row of the first of `keys` that belongs to one of `forms`. If there is no such key, returns a
// row with empty syntax.
constexpr MadeRow member(std::initializer_list<Form> forms, std::span<const Text> keys, const Text& name) {
  for (const Text& key : keys)
    for (const Form& form : forms)
      if (Choices choices; has_row(form, KeyParts(key.view()), choices)) {
        MadeRow row = row_of(form, choices);
        row.name = name;
        return row;
      }
  return {};
}

}  // namespace ptxbuilder::isa::detail
