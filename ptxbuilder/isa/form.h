// Defines forms. A form is a line of the manual with axes, and each combination of choices along the axes
// yields a row.
//
//   "ld.relaxed<scope=.cta|.cluster@78/sm_90|.gpu|.sys>.global<type=.u32|.f32> {d:=<type>}, [{a:gmem}];"
//
// <name=ALTERNATIVE|ALTERNATIVE> is an axis of the mnemonic. An alternative may be empty, and starts with its
// text. The text may be followed by `=` and the value for holes, if the value differs from the text without
// its dot (.u8=u16), and then by `@` and a minimum: a .version times ten, targets, or both (@86, @sm_90,
// @78/sm_90). After a comma, the minimum may name an earlier .version and the targets that support the
// alternative in that .version (@81/sm_89,78/sm_90). <name> in the mnemonic repeats the alternative. After
// the mnemonic, a form may contain:
//   {d:=<type>}     the alternative as a class: u32
//   {c:s32x<dim>}   the number in the alternative as a count: 2 for .2d; <n/2> is half, <num*4> four times,
//                   <dim-2> two less than this number
//   {c:s32*<dim>}   separate operands in braces, one for each count: c0, c1
//   <hint?TEXT>     TEXT, unless the alternative is empty
//   %<name>         the text of the alternative
// If another form has the same mnemonic, the form begins with a distinguishing word, which may have axes:
// "#count mbarrier.arrive...". The key of a row is its mnemonic and, after a space, this word.
#pragma once

#include <array>

#include "ptxbuilder/isa/made_row.h"

namespace ptxbuilder::isa {

// An instruction with axes. The mnemonic of each of its rows contains one choice along each axis.
struct Form {
  std::string_view pattern;
  Effect effect = Effect::memory;
  int ptx_version = 0;            // the lowest .version of any choice, times ten
  std::string_view targets = {};  // "sm_90a+sm_100f"
};

// An alternative of an axis.
struct Choice {
  std::string_view axis;
  std::string_view text = {};   // text in the mnemonic
  std::string_view value = {};  // text that replaces the axis in a hole
  int ptx_version = 0;
  Targets targets = Targets::all();
  EarlyFloor early = {};
};

// The choices in one mnemonic, one for each axis.
struct Choices {
  std::array<Choice, 12> items = {};
  size_t count = 0;

  // Returns the choice along an axis. Throws a `const char*` if the mnemonic does not have the axis.
  constexpr const Choice& of(std::string_view axis) const {
    for (size_t i = 0; i < count; ++i)
      if (items[i].axis == axis) return items[i];
    throw "a form names an axis that its mnemonic does not have";
  }
  // Adds the choice along another axis.
  constexpr void push(const Choice& choice) {
    if (count == items.size()) throw "a form has at most 12 axes";
    items[count++] = choice;
  }
};

namespace detail {

// Returns the first position of `what` in `text` at or after `from`, or text.size() if there is none.
constexpr size_t find_or_end(std::string_view text, char what, size_t from = 0) {
  while (from < text.size() && text[from] != what) ++from;
  return from;
}

constexpr bool ends_mnemonic(char c) { return c == ' ' || c == ';'; }

// The parts of a pattern such as "#count mbarrier.arrive.shared::cta.b64 _, [{bar:smem}], {count:u32};".
struct PatternParts {
  std::string_view tag, mnemonic, operands;
};

constexpr PatternParts parts_of(std::string_view pattern) {
  PatternParts parts;
  if (pattern.starts_with('#')) {
    const size_t end = find_or_end(pattern, ' ');
    parts.tag = pattern.substr(1, end - 1);
    pattern.remove_prefix(end + 1);
  }
  size_t end = 0;
  while (end < pattern.size() && !ends_mnemonic(pattern[end])) ++end;
  parts.mnemonic = pattern.substr(0, end);
  parts.operands = pattern.substr(end);
  return parts;
}

// Parses an alternative, such as ".u8=u16@86/sm_90a+sm_100f".
constexpr Choice parse_alternative(std::string_view axis, std::string_view text) {
  Choice choice = {.axis = axis};
  const size_t at = find_or_end(text, '@');
  if (at < text.size()) {
    std::string_view floor = text.substr(at + 1);
    const size_t comma = find_or_end(floor, ',');
    if (comma < floor.size()) {
      const size_t slash = find_or_end(floor, '/', comma);
      choice.early = {static_cast<int>(parse_integer(floor.substr(comma + 1, slash - comma - 1))),
                      Targets::parse(floor.substr(slash + 1))};
      floor = floor.substr(0, comma);
    }
    const size_t digits = floor.starts_with("sm") ? 0 : find_or_end(floor, '/');
    if (digits > 0) choice.ptx_version = static_cast<int>(parse_integer(floor.substr(0, digits)));
    floor.remove_prefix(digits + (digits > 0 && digits < floor.size()));
    if (!floor.empty()) choice.targets = Targets::parse(floor);
  }
  text = text.substr(0, at);
  const size_t equals = find_or_end(text, '=');
  choice.text = text.substr(0, equals);
  choice.value = equals < text.size() ? text.substr(equals + 1)
                                      : choice.text.substr(choice.text.starts_with('.') ? 1 : 0);
  return choice;
}

// An axis, or a reference to one, that begins at a `<` in a mnemonic.
struct AxisAt {
  std::string_view name, alternatives;  // `alternatives` is empty for a reference
  size_t end;                           // position after the `>`
};

constexpr AxisAt axis_at(std::string_view mnemonic, size_t from) {
  const size_t end = find_or_end(mnemonic, '>', from);
  if (end == mnemonic.size()) throw "an axis of a form is not closed";
  const std::string_view inside = mnemonic.substr(from + 1, end - from - 1);
  const size_t equals = find_or_end(inside, '=');
  return {inside.substr(0, equals), equals < inside.size() ? inside.substr(equals + 1) : std::string_view(),
          end + 1};
}

// Finds the choices along the axes of `mnemonic` that produce `key`; operands are not part of `mnemonic`.
constexpr bool match(std::string_view mnemonic, std::string_view key, Choices& choices) {
  size_t i = 0;
  for (; i < mnemonic.size() && mnemonic[i] != '<' && !ends_mnemonic(mnemonic[i]); ++i)
    if (i >= key.size() || key[i] != mnemonic[i]) return false;
  key.remove_prefix(i);
  if (i == mnemonic.size() || ends_mnemonic(mnemonic[i])) return key.empty();
  const AxisAt axis = axis_at(mnemonic, i);
  mnemonic.remove_prefix(axis.end);
  if (axis.alternatives.data() == nullptr) {
    const std::string_view again = choices.of(axis.name).text;
    return key.starts_with(again) && match(mnemonic, key.substr(again.size()), choices);
  }
  for (size_t from = 0; from <= axis.alternatives.size();) {
    const std::string_view left = axis.alternatives.substr(from);
    size_t same = 0;  // compares characters one by one, since most alternatives differ early
    while (same < left.size() && same < key.size() && left[same] == key[same]) ++same;
    const size_t to = find_or_end(axis.alternatives, '|', from + same);
    const bool begins = same == left.size() || left[same] == '|' || left[same] == '=' || left[same] == '@';
    const std::string_view alternative = left.substr(0, to - from);
    from = to + 1;
    if (!begins) continue;
    const Choice choice = parse_alternative(axis.name, alternative);
    const size_t before = choices.count;
    choices.push(choice);
    if (match(mnemonic, key.substr(choice.text.size()), choices)) return true;
    choices.count = before;
  }
  return false;
}

// Returns the first number in `text`, which is 2 for ".v2" and for "2d".
constexpr int number_in(std::string_view text) {
  size_t i = 0;
  while (i < text.size() && (text[i] < '0' || text[i] > '9')) ++i;
  if (i == text.size()) throw "a form takes a count from an alternative that has no number";
  int number = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) number = number * 10 + (text[i] - '0');
  return number;
}

// Returns the count that "n", "n/2", "num*4" or "dim-2" denotes.
constexpr int count_of(std::string_view mention, const Choices& choices) {
  size_t end = 0;
  while (end < mention.size() && mention[end] != '/' && mention[end] != '*' && mention[end] != '-') ++end;
  const int number = number_in(choices.of(mention.substr(0, end)).value);
  if (end == mention.size()) return number;
  const int factor = static_cast<int>(parse_integer(mention.substr(end + 1)));
  if (mention[end] == '-') return number - factor;
  return mention[end] == '*' ? number * factor : number / factor;
}

// Returns the number of operands that a repeated hole at `from`, such as {c:s32*<dim>}, denotes; 0 if the
// hole is not repeated.
constexpr int repetition(std::string_view text, size_t from, const Choices& choices) {
  const size_t end = find_or_end(text, '}', from);
  const size_t star = find_or_end(text, '*', from);
  if (star >= end || find_or_end(text, '<', from) < star) return 0;
  std::string_view count = text.substr(star + 1, end - star - 1);
  if (count.starts_with('<')) return count_of(count.substr(1, count.size() - 2), choices);
  return static_cast<int>(parse_integer(count));
}

constexpr void expand(std::string_view text, const Choices& choices, Text& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (const int count = text[i] == '{' ? repetition(text, i, choices) : 0; count > 0) {
      const size_t colon = find_or_end(text, ':', i), star = find_or_end(text, '*', i);
      for (int n = 0; n < count; ++n)
        out.add(n == 0 ? "{{{$$:$}" : ", {$$:$}",
                {text.substr(i + 1, colon - i - 1), n, text.substr(colon + 1, star - colon - 1)});
      out.add("}}", {});
      i = find_or_end(text, '}', i);
      continue;
    }
    if (text[i] != '<') {
      out.put(text[i]);
      continue;
    }
    const char next = i + 1 < text.size() ? text[i + 1] : '>';
    if ((next >= '0' && next <= '9') || next == '-' || next == '>') {  // skip the bounds of numbers
      out.put('<');
      continue;
    }
    size_t end = i, depth = 0;
    do {
      if (end == text.size()) throw "a mention of an axis is not closed";
      depth += text[end] == '<';
      depth -= text[end] == '>';
      ++end;
    } while (depth > 0);
    const std::string_view inside = text.substr(i + 1, end - i - 2);
    const size_t question = find_or_end(inside, '?');
    if (question < inside.size()) {
      if (!choices.of(inside.substr(0, question)).text.empty())
        expand(inside.substr(question + 1), choices, out);
    } else if (i > 0 && text[i - 1] == 'x') {
      out.add("$", {count_of(inside, choices)});
    } else {
      out.add("$", {choices.of(inside).value});
    }
    i = end - 1;
  }
}

constexpr void write_mnemonic(std::string_view mnemonic, const Choices& choices, Text& out) {
  for (size_t i = 0; i < mnemonic.size();) {
    if (mnemonic[i] != '<') {
      out.put(mnemonic[i++]);
      continue;
    }
    const AxisAt axis = axis_at(mnemonic, i);
    out.add("$", {choices.of(axis.name).text});
    i = axis.end;
  }
}

// Returns a row with the effect, the minimum target and the .version for these choices, but without text.
constexpr MadeRow floor_row(const Form& form, const Choices& choices) {
  MadeRow row = {
      .effect = form.effect, .ptx_version = form.ptx_version, .targets = Targets::parse(form.targets)};
  for (size_t i = 0; i < choices.count; ++i) {
    if (row.ptx_version < choices.items[i].ptx_version) row.ptx_version = choices.items[i].ptx_version;
    row.targets = row.targets & choices.items[i].targets;
    if (choices.items[i].early.ptx_version != 0) row.early = choices.items[i].early;
  }
  return row;
}

// Returns the row of a form for these choices.
constexpr MadeRow row_of(const Form& form, const Choices& choices) {
  const PatternParts parts = parts_of(form.pattern);
  MadeRow row = floor_row(form, choices);
  write_mnemonic(parts.mnemonic, choices, row.syntax);
  row.name = row.syntax;
  if (!parts.tag.empty()) {
    row.name.put(' ');
    write_mnemonic(parts.tag, choices, row.name);
  }
  expand(parts.operands, choices, row.syntax);
  return row;
}

}  // namespace detail

// The two parts of a key such as "mbarrier.arrive.shared::cta.b64 count".
struct KeyParts {
  constexpr explicit KeyParts(std::string_view key)
      : mnemonic(key.substr(0, detail::find_or_end(key, ' '))), has_tag(mnemonic.size() < key.size()) {
    if (has_tag) tag = key.substr(mnemonic.size() + 1);
  }
  std::string_view mnemonic, tag = {};
  bool has_tag;
};

// Returns whether a row of this form has the key. If so, stores the choices of that row in `choices`.
constexpr bool has_row(const Form& form, const KeyParts& key, Choices& choices) {
  const char first = form.pattern[0];
  if (key.has_tag != (first == '#')) return false;
  if (!key.has_tag)
    return (first == '<' || first == key.mnemonic[0]) && detail::match(form.pattern, key.mnemonic, choices);
  const detail::PatternParts parts = detail::parts_of(form.pattern);
  return detail::match(parts.tag, key.tag, choices) && detail::match(parts.mnemonic, key.mnemonic, choices);
}

}  // namespace ptxbuilder::isa
