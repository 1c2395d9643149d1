#include "ptxbuilder/isa/print/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <tuple>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/isa/manual.h"

namespace ptxbuilder::isa::print {
namespace {

std::vector<std::string_view> split(std::string_view text, std::string_view between) {
  std::vector<std::string_view> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(between, from), text.size());
    if (to > from) parts.push_back(text.substr(from, to - from));
    from = to + between.size();
  }
  return parts;
}

std::pair<std::string_view, std::string_view> split_once(std::string_view text, std::string_view between) {
  const size_t at = text.find(between);
  if (at == text.npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + between.size())};
}

// Parses a form, such as "MatrixForm: int matrices, bool transposed", or an axis, such as "Scope scope".
Family family_of(std::string_view name, std::string_view form, std::string_view row_name,
                 std::string_view about, std::vector<std::string_view> keys) {
  Family family = {name, {}, about, row_name, {}, std::move(keys)};
  if (form.find(": ") != form.npos) std::tie(family.form, form) = split_once(form, ": ");
  for (const std::string_view text : split(form, ", ")) {
    const auto [type, field] = split_once(text, " ");
    const auto axis = std::ranges::find(axes(), type, &Axis::name);
    if (axis == axes().end()) throw Error(fmt::format("{}: {} is not an axis", name, type));
    family.fields.push_back({&*axis, field});
  }
  return family;
}

// Returns the spelling of the parts for these values, or nothing if a part has no spelling for the value of
// its field.
std::optional<std::string> written(const std::vector<Part>& parts, const Values& values) {
  std::string text;
  for (const Part& part : parts) {
    const int value = part.is_text ? 0 : values[part.field];
    const auto word = std::ranges::find(part.words, value, &std::pair<int, std::string_view>::first);
    if (!part.words.empty() && word == part.words.end()) return std::nullopt;
    text += part.is_text ? part.text : part.words.empty() ? std::to_string(value) : word->second;
  }
  return text;
}

// Calls `visit` with each combination of values for which the parts yield the key. Negative elements of
// `values` are not yet known.
void for_each_match(std::span<const Part> parts, std::string_view key, Values& values,
                    const std::function<void(const Values&)>& visit) {
  if (parts.empty()) {
    if (key.empty()) visit(values);
    return;
  }
  const Part& part = parts[0];
  const auto go_on = [&](std::string_view text, int value) {
    const int before = part.is_text ? value : values[part.field];
    if (!key.starts_with(text) || (before >= 0 && before != value)) return;
    if (!part.is_text) values[part.field] = value;
    for_each_match(parts.subspan(1), key.substr(text.size()), values, visit);
    if (!part.is_text) values[part.field] = before;
  };
  for (const auto& [value, text] : part.words) go_on(text, value);
  if (part.is_text) go_on(part.text, 0);
  const std::string_view digits = key.substr(0, std::min(key.find_first_not_of("0123456789"), size_t{9}));
  if (!part.is_text && part.words.empty() && !digits.empty()) go_on(digits, std::stoi(std::string(digits)));
}

void find_members(Family& family) {
  std::vector<std::vector<Part>> keys;
  for (const std::string_view key : family.keys) keys.push_back(parts_of(key, family.fields));
  const std::vector<Part> name = parts_of(family.row_name, family.fields);
  // Returns whether `number` is the first of the keys that the manual contains.
  const auto is_first = [&](size_t number, const Values& values) {
    for (size_t i = 0; i < number; ++i)
      if (const auto key = written(keys[i], values); key && find_instruction(*key)) return false;
    return true;
  };
  const std::string_view begin = std::ranges::find_if(keys[0], &Part::is_text)->text;
  for (const Form* form : forms_of(begin.substr(0, begin.find('.')))) {
    if (has_names(*form)) continue;
    const size_t before = family.members.size();
    for_each_row(*form, [&](const MadeRow& made) {
      const std::string key(made.name.view());
      Values unknown(family.fields.size(), -1);
      for (size_t i = 0; i < keys.size(); ++i)
        for_each_match(keys[i], key, unknown, [&](const Values& values) {
          if (is_first(i, values))
            family.members.push_back(
                {key, *written(name, values), find_instruction(key), values, i, family.forms.size()});
        });
    });
    if (family.members.size() > before) family.forms.push_back(form);
  }
  if (family.members.empty()) throw Error(fmt::format("{}: the manual has none of its keys", family.name));
  std::ranges::sort(family.members, {}, &Member::values);
}

}  // namespace

std::vector<Part> parts_of(std::string_view pattern, const std::vector<Field>& fields) {
  std::vector<Part> parts;
  while (!pattern.empty()) {
    const size_t open = std::min(pattern.find('{'), pattern.size());
    if (open > 0) parts.push_back({.text = pattern.substr(0, open), .is_text = true});
    if (open == pattern.size()) break;
    const auto [hole, rest] = split_once(pattern.substr(open + 1), "}");
    pattern = rest;
    const auto [name, said] = split_once(hole, ":");
    const auto field = std::ranges::find(fields, name, &Field::name);
    if (field == fields.end()) throw Error(fmt::format("'{}' is not a field, in {{{}}}", name, hole));
    Part& part = parts.emplace_back(Part{.field = static_cast<size_t>(field - fields.begin())});
    const auto& words = field->type->words;
    const auto number = [&, &field = *field](std::string_view word) {
      if (words.empty()) return std::stoi(std::string(word));
      for (size_t i = 0; i < words.size(); ++i)
        if (words[i].first == word) return static_cast<int>(i);
      throw Error(fmt::format("'{}' is not among the words of {}", word, field.type->name));
    };
    part.is_all = said.empty() && !words.empty();
    for (size_t i = 0; part.is_all && i < words.size(); ++i)
      part.words.emplace_back(static_cast<int>(i), words[i].second);
    if (field->type->name == "bool" && said.find('=') == said.npos) {
      part.words = {{1, said}, {0, ""}};
      continue;
    }
    for (const std::string_view word : split(said, "|")) {
      const auto [value, text] = split_once(word, "=");
      const int n = number(value);
      const bool is_plain = word.find('=') == word.npos;
      part.words.emplace_back(n, !is_plain       ? text
                                 : words.empty() ? value
                                                 : words[static_cast<size_t>(n)].second);
    }
  }
  return parts;
}

Row row_of(const ShortName& name) {
  static std::deque<std::string> kept;
  const Row& row = instruction(name.key);
  std::string& syntax = kept.emplace_back(row.syntax);
  for (const std::string_view changed : split(name.operands, ", ")) {
    const std::string_view operand = changed.substr(0, changed.find_first_of(":="));
    const size_t from = syntax.find(fmt::format("{{{}:", operand));
    if (from == syntax.npos)
      throw Error(fmt::format("{}: {} has no operand {}", name.name, name.key, operand));
    const bool is_fixed = changed[operand.size()] == '=';
    syntax.replace(
        from, syntax.find('}', from) + 1 - from,
        is_fixed ? std::string(changed.substr(operand.size() + 1)) : fmt::format("{{{}}}", changed));
  }
  const Effect effect = name.stays ? Effect::memory : row.effect;
  return {name.name, syntax, effect, row.ptx_version, row.targets, name.intrinsic, row.early};
}

const std::vector<ShortName>& short_names() {
  static const std::vector<ShortName> all = {
#define PTX_NAME(short_name, of_key, ...) \
  ShortName{.name = #short_name, .key = of_key __VA_OPT__(, ) __VA_ARGS__},
#include "ptxbuilder/isa/names.def"
#undef PTX_NAME
  };
  return all;
}

const std::vector<Axis>& axes() {
  static const std::vector<Axis> all = [] {
    std::vector<Axis> found = {
        {"int", "", {}}, {"bool", "", {{"false", ""}, {"true", ""}}}, {"DType", "", {}}};
    for (size_t i = 0; i < std::size(kElementBytes); ++i)
      found.back().words.emplace_back(name(static_cast<DType>(i)), name(static_cast<DType>(i)));
    const auto add = [&](std::string_view axis, std::string_view words, std::string_view about) {
      found.push_back({axis, about, {}});
      for (const std::string_view word : split(words, ", ")) {
        const auto [name, text] = split_once(word, "=");
        found.back().words.emplace_back(name, text.empty() ? name : text);
      }
    };
#define PTX_WORDS(axis, words, about) add(#axis, words, about);
#define PTX_FAMILY(...)
#include "ptxbuilder/isa/families.def"
#undef PTX_WORDS
#undef PTX_FAMILY
    return found;
  }();
  return all;
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> found;
#define PTX_WORDS(...)
#define PTX_FAMILY(name, form, row_name, about, ...) \
  found.push_back(family_of(#name, form, row_name, about, {__VA_ARGS__}));
#include "ptxbuilder/isa/families.def"
#undef PTX_WORDS
#undef PTX_FAMILY
    for (Family& family : found) find_members(family);
    return found;
  }();
  return all;
}

}  // namespace ptxbuilder::isa::print
