// Generates C++ code from the manual. `print_rows HEADER TABLE` writes a header, which contains the rows with
// short names, already parsed, and the forms of each family. It also writes a table, which contains the
// members of all families.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "ptxbuilder/isa/print/names.h"

namespace ptxbuilder::isa::print {
namespace {

std::string_view word(Effect effect) { return effect == Effect::pure ? "Effect::pure" : "Effect::memory"; }

// Returns the properties of a row other than its name and operands.
std::string told(const Row& row) {
  const Targets early = row.early.targets;
  return fmt::format("\"{}\", {}, {}, Targets::parse(\"{}\"), \"{}\", {{{}, {}}}", row.syntax,
                     word(row.effect), row.ptx_version, row.targets.text("+"), row.intrinsic,
                     row.early.ptx_version,
                     early.empty() ? "{}" : fmt::format("Targets::parse(\"{}\")", early.text("+")));
}

// Returns code for a row as a constant with parsed operands. Such a constant compiles twice as fast as a
// constant whose operands are parsed at compile time.
std::string constant(const Row& row) {
  const auto number = [](int64_t n) {
    return n == INT64_MIN ? "INT64_MIN" : n == INT64_MAX ? "INT64_MAX" : std::to_string(n);
  };
  std::vector<std::string> operands, holes;
  for (const Operand& o : row.operands)
    operands.push_back(fmt::format("{{\"{}\", Class::{}, Access::{}, {}, {}, {}, {}, {}, {}}}", o.name,
                                   name(o.cls),
                                   !o.writes()  ? "read"
                                   : !o.reads() ? "write"
                                                : "read_write",
                                   o.count, o.list, number(o.least), number(o.greatest), o.step, o.doubles));
  for (size_t i = 0; i < row.operands.hole_count; ++i) {
    const Hole& hole = row.operands.holes[i];
    holes.push_back(fmt::format("{{{}, {}, {}}}", hole.operand, hole.begin, hole.end));
  }
  return fmt::format(
      "inline constexpr Row {0} = {{\n    \"{0}\", {1},\n    {{{{{{{2}}}}}, {3}, {{{{{4}}}}}, {5}}}}};\n",
      row.name, told(row), fmt::join(operands, ", "), operands.size(), fmt::join(holes, ", "), holes.size());
}

std::string in_cpp(const Field& field, int value) {
  if (field.type->words.empty()) return std::to_string(value);
  const std::string_view word = field.type->words[static_cast<size_t>(value)].first;
  return field.type->name == "bool" ? std::string(word) : fmt::format("{}::{}", field.type->name, word);
}

std::string in_form(const Family& family, const Field& field) {
  return family.form.empty() ? "form" : fmt::format("form.{}", field.name);
}

// Returns code for a Text of made_row.h, such as `"ldmatrix_x$$", {form.matrices, form.transposed ? "_trans"
// : ""}`.
std::string made(std::string_view pattern, const Family& family) {
  std::string text;
  std::vector<std::string> pieces;
  for (const Part& part : parts_of(pattern, family.fields)) {
    text += part.is_text ? part.text : "$";
    if (part.is_text) continue;
    const Field& field = family.fields[part.field];
    const std::string value = in_form(family, field);
    std::vector<std::string> words;
    for (const auto& [n, spelling] : part.words)
      words.push_back(fmt::format("{{{}, \"{}\"}}", in_cpp(field, n), spelling));
    if (part.words.empty())
      pieces.push_back(value);
    else if (part.is_all)
      pieces.push_back(fmt::format("name({})", value));
    else
      pieces.push_back(fmt::format("spelled({}, {{{}}})", value, fmt::join(words, ", ")));
  }
  return fmt::format("\"{}\", {{{}}}", text, fmt::join(pieces, ", "));
}

// Returns a list of values in words, such as "1, 2 or 4", "f16 or bf16" or "8 to 256 in steps of 8".
std::string choices(const Field& field, const std::set<int>& values) {
  std::vector<std::string> words;
  for (auto from = values.begin(); from != values.end();) {
    auto to = std::next(from);
    const int step = to == values.end() ? 0 : *to - *from;
    while (to != values.end() && *to - *std::prev(to) == step) ++to;
    if (!field.type->words.empty() || std::distance(from, to) <= 3) to = std::next(from);
    const int last = *std::prev(to);
    words.push_back(field.type->words.empty()
                        ? std::to_string(*from)
                        : std::string(field.type->words[static_cast<size_t>(*from)].first));
    if (last != *from)
      words.back() += fmt::format(" to {}{}", last, step == 1 ? "" : fmt::format(" in steps of {}", step));
    from = to;
  }
  const std::string end = words.back();
  words.pop_back();
  return words.empty() ? end : fmt::format("{} or {}", fmt::join(words, ", "), end);
}

std::string is_one_of(const Family& family, const Field& field, const std::set<int>& values) {
  std::vector<std::string> all;
  for (const int value : values) all.push_back(in_cpp(field, value));
  return fmt::format("detail::is_one_of({}, {{{}}})", in_form(family, field), fmt::join(all, ", "));
}

// The allowed values of a field, as a C++ condition and in words. The words are, for example, "n is 8 to 256
// in steps of 8" or, if the values depend on an earlier field, "a is f16, e4m3 or e5m2 (d = f16), u8 or s8 (d
// = s32)".
struct Rule {
  std::string condition, text;
};

std::vector<Rule> rules_of(const Family& family) {
  std::vector<Rule> rules;
  for (size_t i = 0; i < family.fields.size(); ++i) {
    const Field& field = family.fields[i];
    const auto values_by = [&](auto before) {
      std::map<Values, std::set<int>> by;
      for (const Member& m : family.members) by[before(m.values)].insert(m.values[i]);
      return by;
    };
    const auto is_told_by = [&](auto before) {  // true if these fields determine the values
      const auto by = values_by(before);
      for (const auto& [whole, values] : values_by([&](const Values& v) {
             return Values(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(i));
           }))
        if (by.at(before(whole)) != values) return false;
      return true;
    };
    Rule rule;
    if (is_told_by([](const Values&) { return Values(); })) {
      const std::set<int> values = values_by([](const Values&) { return Values(); }).begin()->second;
      if (values.size() == field.type->words.size()) continue;
      rule = {is_one_of(family, field, values), " " + choices(field, values)};
    } else {
      size_t known = 0;
      while (!is_told_by([&](const Values& v) { return Values{v[known]}; }))
        if (++known == i)
          throw Error(fmt::format("{}: {} depends on two fields before it", family.name, field.name));
      std::map<std::set<int>, std::set<int>> with;  // values of the other field for each set of values
      for (const auto& [other, values] : values_by([&](const Values& v) { return Values{v[known]}; }))
        with[values].insert(other[0]);
      for (const auto& [values, others] : with) {
        const Field& other = family.fields[known];
        rule.condition += fmt::format("{}(!{} || {})", rule.condition.empty() ? "" : " && ",
                                      is_one_of(family, other, others), is_one_of(family, field, values));
        rule.text += fmt::format("{} {} ({} = {})", rule.text.empty() ? "" : ",", choices(field, values),
                                 other.name, choices(other, others));
      }
    }
    rules.push_back({rule.condition, fmt::format("{} is{}", field.name, rule.text)});
  }
  return rules;
}

std::string_view form_type(const Family& f) { return f.form.empty() ? f.fields[0].type->name : f.form; }
std::string signature(const Family& f) {
  return fmt::format("const Row& {}(const {}& form, Where where", f.name, form_type(f));
}

std::string forms(const Family& family) {
  std::vector<std::string> all;
  for (const Form* form : family.forms)
    all.push_back(fmt::format("\n          {{\"{}\", {}, {}, \"{}\"}}", form->pattern, word(form->effect),
                              form->ptx_version, form->targets));
  return fmt::format("{}", fmt::join(all, ","));
}

std::string in_header(const Family& f, bool has_new_form) {
  std::string text = fmt::format("// {}\n// {}\n", f.about, f.members[0].row->syntax);
  if (has_new_form) {
    text += fmt::format("struct {} {{\n", f.form);
    for (const Field& field : f.fields)
      text += fmt::format("  {} {}{};\n", field.type->name, field.name,
                          field.type->name == "bool" ? " = false" : "");
    text += "};\n";
  }
  std::vector<std::string> keys;
  for (const std::string_view key : f.keys) keys.push_back(fmt::format("Text({})", made(key, f)));
  text += fmt::format(
      "namespace detail {{\nconstexpr std::array<Text, {0}> {1}_keys([[maybe_unused]] const {2}& form) {{\n"
      "  return {{{3}}};\n}}\nconstexpr MadeRow {1}_row(const {2}& form) {{\n  return member({{{4}}},\n"
      "      {1}_keys(form), {{{5}}});\n}}\n}}  // namespace detail\n",
      keys.size(), f.name, form_type(f), fmt::join(keys, ",\n          "), forms(f), made(f.row_name, f));
  text += fmt::format("template <{} form>\nconstexpr const Row& {}() {{\n", form_type(f), f.name);
  for (const Rule& rule : rules_of(f))
    text +=
        fmt::format("  static_assert({},\n                \"{}: {}\");\n", rule.condition, f.name, rule.text);
  return text + fmt::format("  return detail::constant<detail::{}_row, form>;\n}}\n{} = Where::here());\n\n",
                            f.name, signature(f));
}

std::string in_header(const Axis& axis) {
  std::vector<std::string> names, all, texts;
  for (const auto& [name, text] : axis.words) {
    names.emplace_back(name), texts.push_back(fmt::format("\"{}\"", text));
    all.push_back(fmt::format("{}::{}", axis.name, name));
  }
  return fmt::format(
      "// {0}\nenum class {1} : uint8_t {{ {2} }};\ninline constexpr std::array k{1}s = {{{3}}};\n"
      "constexpr std::string_view name({1} word) {{\n  constexpr std::array<std::string_view, {4}> names = "
      "{{{5}}};\n"
      "  return names[static_cast<size_t>(word)];\n}}\n\n",
      axis.about, axis.name, fmt::join(names, ", "), fmt::join(all, ", "), texts.size(),
      fmt::join(texts, ", "));
}

std::string list(std::string_view name, const std::vector<std::string>& items) {
  return fmt::format("#define {}(X) \\\n  X({})\n", name, fmt::join(items, ") \\\n  X("));
}

constexpr std::string_view kOpening =
    "// Printed by print_rows from names.def, families.def and the manual: ";

std::string header() {
  std::string text = fmt::format(
      "{}the rows with short names, and the families.\n#pragma once\n\n#include "
      "\"ptxbuilder/isa/family.h\"\n\n"
      "namespace ptxbuilder::isa {{\n\nnamespace rows_def {{\n",
      kOpening);
  std::vector<std::string> names, with_forms, types;
  for (const ShortName& name : short_names()) {
    text += constant(row_of(name));
    names.emplace_back(name.name);
  }
  text += "}  // namespace rows_def\n\n";
  for (size_t i = kCommonAxes; i < axes().size(); ++i) {
    text += in_header(axes()[i]);
    types.emplace_back(axes()[i].name);
  }
  for (const Family& family : families()) {
    const bool is_new = !family.form.empty() && std::ranges::count(types, family.form) == 0;
    text += in_header(family, is_new);
    if (is_new) types.emplace_back(family.form);
    with_forms.push_back(fmt::format("{}, {}", family.name, form_type(family)));
  }
  return text + "}  // namespace ptxbuilder::isa\n\n" + list("PTXBUILDER_SHORT_NAMES", names) +
         list("PTXBUILDER_FAMILIES", with_forms) + list("PTXBUILDER_FORM_TYPES", types);
}

// Returns code for a loop over an array of the members' values, keys and forms.
std::string members(const Family& family) {
  std::vector<std::string> values, fields, told;
  std::set<std::string_view>
      known;  // the first member with a key owns the row; bit operations on u32 and s32 share a row
  for (const Member& m : family.members)
    if (known.insert(m.key).second)
      values.push_back(fmt::format("{{{}, {}, {}}}", fmt::join(m.values, ", "), m.key_number, m.form_number));
  const size_t count = family.fields.size();
  for (size_t i = 0; i < count; ++i) {
    const Field& field = family.fields[i];
    fields.push_back(field.type->words.empty() ? fmt::format("v[{}]", i)
                                               : fmt::format("static_cast<{}>(v[{}])", field.type->name, i));
    told.push_back(fmt::format("{{\"{}\", written({})}}", field.name, in_form(family, field)));
  }
  const std::string inside = fmt::format("{}", fmt::join(fields, ", "));
  return fmt::format(
      "  constexpr Form {0}_forms[] = {{{1}}};\n  constexpr int16_t {0}_values[][{2}] = {{\n      {3}}};\n"
      "  for (const auto& v : {0}_values) {{\n    const {4} form = {5};\n    const auto keys = "
      "{0}_keys(form);\n"
      "    visit(member({{{0}_forms[v[{7}]]}}, keys, {{{8}}}), keys[static_cast<size_t>(v[{6}])].view(),\n"
      "          [&] {{ return call_text(\"{0}\", \"{9}\", {{{10}}}); }});\n  }}\n",
      family.name, forms(family), count + 2, fmt::join(values, ", "), form_type(family),
      family.form.empty() ? inside : fmt::format("{{{}}}", inside), count, count + 1,
      made(family.row_name, family), family.form, fmt::join(told, ", "));
}

std::string table() {
  std::string text = fmt::format(
      "{}the members of families.\n#include \"ptxbuilder/isa/family_table.h\"\n\nnamespace ptxbuilder::isa "
      "{{\n"
      "namespace detail {{\nnamespace {{\n\n"
      "std::string written(int value) {{ return std::to_string(value); }}\n"
      "std::string written(bool value) {{ return value ? \"true\" : \"false\"; }}\n",
      kOpening);
  for (const Axis& axis : axes()) {
    if (axis.words.empty() || axis.name == "bool") continue;
    std::vector<std::string> words;
    for (const auto& [name, spelling] : axis.words)
      words.push_back(fmt::format("\"{}::{}\"", axis.name, name));
    text += fmt::format(
        "std::string written({} value) {{\n  constexpr std::string_view names[] = {{{}}};\n"
        "  return std::string(names[static_cast<size_t>(value)]);\n}}\n",
        axis.name, fmt::join(words, ", "));
  }
  text += "\n}  // namespace\n\nvoid for_each_member(const VisitMember& visit) {\n";
  for (const Family& family : families()) text += members(family);
  text += "}\n\n}  // namespace detail\n\n";
  for (const Family& f : families()) {
    std::string broken = "\"\"";
    const std::vector<Rule> rules = rules_of(f);
    for (auto rule = rules.rbegin(); rule != rules.rend(); ++rule)
      broken = fmt::format("!({}) ? \"{}\"\n      : {}", rule->condition, rule->text, broken);
    text += fmt::format(
        "{0}) {{\n  return detail::find_member(\"{1}\", detail::{1}_keys(form), {2}, where);\n}}\n",
        signature(f), f.name, broken);
  }
  return text + "\n}  // namespace ptxbuilder::isa\n";
}

// Writes a file, unless the file already has this content. An unchanged file keeps its modification time, so
// that files that include it are not rebuilt.
void write(const char* path, const std::string& text) {
  std::ifstream before(path, std::ios::binary);
  if (std::string{std::istreambuf_iterator<char>(before), {}} == text) return;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw Error(fmt::format("{} was not written", path));
}

}  // namespace
}  // namespace ptxbuilder::isa::print

int main(int count, char** arguments) try {
  using namespace ptxbuilder::isa::print;
  if (count != 3) throw ptxbuilder::Error("print_rows HEADER TABLE");
  write(arguments[1], header());
  write(arguments[2], table());
} catch (const std::exception& e) {
  std::fprintf(stderr, "print_rows: %s\n", e.what());
  return 1;
}
