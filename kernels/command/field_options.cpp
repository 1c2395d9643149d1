#include "kernels/command/field_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ptxbuilder::command {

void add_fields(CLI::App& app, const Family& family, std::map<std::string, int64_t>& values) {
  for (const Field& f : family.fields) {
    CLI::Option* option =
        app.add_option("--" + f.name, values[f.name], fmt::format("{} (default {})", f.help, f.text()))
            ->group("Fields");
    if (f.words.empty()) {
      option->option_text("N");
      continue;
    }
    std::map<std::string, int64_t> places;
    for (size_t i = 0; i < f.words.size(); ++i) places[f.words[i]] = static_cast<int64_t>(i);
    option->transform(CLI::CheckedTransformer(places))
        ->option_text(fmt::format("{}", fmt::join(f.words, "|")));
  }
}

Fields chosen_fields(const CLI::App& app, const Family& family,
                     const std::map<std::string, int64_t>& values) {
  Fields fields(family.fields);
  for (const Field& f : family.fields)
    if (app.count("--" + f.name)) fields.set(f.name, values.at(f.name));
  return fields;
}

}  // namespace ptxbuilder::command
