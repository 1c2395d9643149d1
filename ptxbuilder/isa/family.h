// A family makes a row of a form at compile time by these; its keys, rules and forms are printed
// (printed_rows.h, by print/).
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

// Spells a value of those that a key has, and as it is called any other, with which there is no such key.
template <class Field>
constexpr std::string_view spelled(Field value, std::initializer_list<Spelling<Field>> all) {
  for (const Spelling<Field>& one : all)
    if (one.value == value) return one.text;
  if constexpr (requires { name(value); }) return name(value);
  return "?";
}

// Makes the row of the first of the keys that one of the manual's forms has; it has no syntax where none is.
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
