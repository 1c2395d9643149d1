#include "kernels/family/field_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ptxbuilder::command {

void add_fields(const Arguments& app, const Family& family, std::map<std::string, int64_t>& values) {
  for (const Field& f : family.fields) {
    const std::string name = "--" + f.name, help = fmt::format("{} (default {})", f.help, f.text());
    if (f.words.empty()) {
      app.option(name, values[f.name], help).shown_as("N").in_group("Fields");
      continue;
    }
    std::map<std::string, int64_t> places;
    for (size_t i = 0; i < f.words.size(); ++i) places[f.words[i]] = static_cast<int64_t>(i);
    app.choice(name, values[f.name], places, help)
        .shown_as(fmt::format("{}", fmt::join(f.words, "|")))
        .in_group("Fields");
  }
}

std::vector<std::string> given_fields(const Arguments& app, const Family& family) {
  std::vector<std::string> given;
  for (const Field& f : family.fields)
    if (app.given("--" + f.name)) given.push_back(f.name);
  return given;
}

Fields chosen_fields(const Arguments& app, const Family& family,
                     const std::map<std::string, int64_t>& values) {
  Fields fields(family.fields);
  for (const std::string& name : given_fields(app, family)) fields.set(name, values.at(name));
  return fields;
}

}  // namespace ptxbuilder::command
