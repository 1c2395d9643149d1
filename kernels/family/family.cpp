#include "kernels/family/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "kernels/family/command_line.h"

namespace ptxbuilder::command {
namespace {

std::vector<Family>& registry() {
  static std::vector<Family> all;
  return all;
}

}  // namespace

std::string Field::text() const {
  return words.empty() ? std::to_string(value) : words[static_cast<size_t>(value)];
}

const Field* Fields::find(const std::string& name) const {
  for (const Field& f : fields_)
    if (f.name == name) return &f;
  std::string known;
  for (const Field& f : fields_) known += (known.empty() ? "" : ", ") + f.name;
  throw UsageError(fmt::format("no field is named '{}'; the fields are {}", name, known));
}

void Fields::set(const std::string& name, int64_t value) {
  auto* field = const_cast<Field*>(find(name));
  if (!field->words.empty()) {
    if (value < 0 || value >= static_cast<int64_t>(field->words.size()))
      throw UsageError(fmt::format("field {}: its value is {}, but it has only {} words", name, value,
                                   field->words.size()));
    field->value = value;
    return;
  }
  if (value < field->least || value % field->multiple != 0)
    throw UsageError(
        fmt::format("field {} = {}: it must be at least {}{}", name, value,
                    (field->least + field->multiple - 1) / field->multiple * field->multiple,
                    field->multiple == 1 ? "" : fmt::format(" and a multiple of {}", field->multiple)));
  if (value > INT32_MAX) throw UsageError(fmt::format("field {} = {}: it must be below 2^31", name, value));
  field->value = value;
}

void Fields::set(const std::string& name, const std::string& text) {
  const Field* field = find(name);
  if (!field->words.empty()) {
    const auto word = std::find(field->words.begin(), field->words.end(), text);
    if (word == field->words.end())
      throw UsageError(
          fmt::format("field {} = {}: it must be one of {}", name, text, fmt::join(field->words, ", ")));
    return set(name, word - field->words.begin());
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw UsageError(fmt::format("field {} = {}: it must be a number", name, text));
  set(name, value);
}

bool Fields::has(const std::string& name) const {
  return std::any_of(fields_.begin(), fields_.end(), [&](const Field& f) { return f.name == name; });
}

int64_t Fields::operator[](const std::string& name) const {
  used_.insert(name);
  return find(name)->value;
}

std::string Fields::word(const std::string& name) const {
  used_.insert(name);
  return find(name)->text();
}

std::vector<Field> Fields::used() const {
  std::vector<Field> used;
  std::copy_if(fields_.begin(), fields_.end(), std::back_inserter(used),
               [&](const Field& f) { return used_.contains(f.name); });
  return used;
}

std::string Fields::text() const {
  std::string text;
  for (const Field& f : fields_) text += fmt::format("{}{}={}", text.empty() ? "" : " ", f.name, f.text());
  return text;
}

Kernel build(const Family& family, const Fields& fields) {
  const Fields asked(fields.all());  // a copy, so that no field of it counts as read yet
  Kernel kernel = family.build(asked);
  for (const Field& f : asked.used()) kernel.configure(f.name, f.text());
  return kernel;
}

const std::vector<Family>& families() { return registry(); }

const Family& family(const std::string& name) {
  std::string known;
  for (const Family& f : families()) {
    if (f.name == name) return f;
    known += (known.empty() ? "" : ", ") + f.name;
  }
  throw Error(fmt::format("no kernel is named '{}'; the kernels are {}", name, known));
}

Registration::Registration(Family family) {
  auto& all = registry();
  auto place = std::lower_bound(all.begin(), all.end(), family,
                                [](const Family& a, const Family& b) { return a.name < b.name; });
  all.insert(place, std::move(family));
}

}  // namespace ptxbuilder::command
