#include "kernels/family/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "ptxbuilder/version.h"

namespace ptxbuilder::command {
namespace {

// Returns the edit distance, which is the number of insertions, deletions and replacements of one character
// that turn `a` into `b`.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t k = 0; k < b.size(); ++k)
      diagonal = std::exchange(row[k + 1], std::min({row[k] + 1, row[k + 1] + 1, diagonal + (a[i] != b[k])}));
  }
  return row[b.size()];
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

// Returns a message for an unknown word where a command or a kernel is expected; it suggests the names that
// are most similar. Returns "" if the error may have another cause, for example if the word may be the value
// of an unknown option.
std::string unknown_name(const CLI::App& app, const CLI::App& used) {
  std::vector<std::string> names = command_names(used);
  const std::vector<std::string> left = app.remaining(true);
  if (names.empty() || left.empty() || left[0].starts_with("-")) return {};
  const std::string& word = left[0];
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return edits(word, a) < edits(word, b);
  });
  names.resize(std::min<size_t>(names.size(), 3));
  return fmt::format("there is no {} '{}'; the nearest are {}", &used == &app ? "command" : "kernel", word,
                     fmt::join(names, ", "));
}

// Returns a line that describes what is wrong, followed by a line that describes what is allowed.
std::string usage(const CLI::App& app, const char* wrong) {
  const CLI::App* used = &app;
  while (!used->get_subcommands().empty()) used = used->get_subcommands().front();
  std::vector<std::string> legal;
  for (const CLI::Option* option : used->get_options()) legal.push_back(option->get_name());
  for (const std::string& name : command_names(*used)) legal.push_back(name);
  const std::string unknown = unknown_name(app, *used);
  return fmt::format("{}\nknown here: {}", unknown.empty() ? wrong : unknown, fmt::join(legal, " "));
}

// The type of an option's numbers, which is T without std::optional or std::vector around it.
template <class T>
struct Number {
  using Type = T;
};
template <class T>
struct Number<std::optional<T>> : Number<T> {};
template <class T>
struct Number<std::vector<T>> : Number<T> {};

// Returns what is wrong with the word of an integer option, or "". Returns "" for a word that is not a
// number, because CLI11 reports it. Without this check, CLI11 would read -1 as the largest unsigned number,
// and a number that is too large as the nearest valid number.
template <class T>
std::string complaint_of_integer(const std::string& word) {
  using Limits = std::numeric_limits<T>;
  char* end = nullptr;
  bool fits = false;
  errno = 0;
  if constexpr (std::is_signed_v<T>) {
    const long long value = std::strtoll(word.c_str(), &end, 0);
    fits = errno != ERANGE && value >= Limits::min() && value <= Limits::max();
  } else {
    const unsigned long long value = std::strtoull(word.c_str(), &end, 0);
    fits = errno != ERANGE && value <= Limits::max() && !word.starts_with('-');
  }
  if (!word.empty() && (fits || *end != '\0')) return "";
  return fmt::format("'{}' must be an integer from {} to {}", word, Limits::min(), Limits::max());
}

constexpr const char* kInteger = "integer";  // name of the check that integer options have

// Rejects words such as 0x10, which is probably a mistake, and 010, which probably means 10. CLI11 would read
// them as hexadecimal and octal numbers.
std::string complaint_of_digits(const std::string& word) {
  const std::string_view digits = std::string_view(word).substr(word.starts_with('-') ? 1 : 0);
  const bool is_decimal = !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (is_decimal && (digits[0] != '0' || digits.size() == 1)) return "";
  return fmt::format("'{}' is not an integer in decimal digits", word);
}

}  // namespace

void flush_output() {
  const bool had_failed = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !had_failed) return;
  throw Error(fmt::format("standard output could not be written{}{}", errno ? ": " : "",
                          errno ? std::strerror(errno) : ""));
}

std::string without_place(const std::exception& e) {
  std::string text = e.what();
  const auto* error = dynamic_cast<const Error*>(&e);
  if (!error || !error->where()) return text;
  if (const std::string place = fmt::format(" ({})", to_string(error->where())); text.ends_with(place))
    text.resize(text.size() - place.size());
  return text;
}

Option Option::required() const { return Option(option_->required()); }
Option Option::shown_as(const std::string& value) const { return Option(option_->option_text(value)); }
Option Option::with_default() const { return Option(option_->capture_default_str()); }
Option Option::in_group(const std::string& name) const { return Option(option_->group(name)); }
Option Option::by_comma() const { return Option(option_->delimiter(',')); }
Option Option::among(const std::vector<std::string>& legal) const {
  return Option(option_->check(CLI::IsMember(legal)));
}
Option Option::within(int64_t least, int64_t greatest) const {
  try {
    option_->get_validator(kInteger)->active(false);  // this range replaces the wider range of the type
  } catch (const CLI::OptionNotFound&) {              // the option is a floating-point number
  }
  return Option(option_->check(CLI::Range(least, greatest)));
}
Option Option::within(double least, double greatest) const {
  const auto is_number = [](const std::string& word) {
    return std::isnan(std::strtod(word.c_str(), nullptr)) ? fmt::format("'{}' is not a number", word) : "";
  };
  return Option(option_->check(is_number)->check(CLI::Range(least, greatest)));
}
Option Option::excludes(const Option& other) const { return Option(option_->excludes(other.option_)); }
Option Option::needs(const Option& other) const { return Option(option_->needs(other.option_)); }
Option Option::check(std::function<std::string(std::string)> complaint) const {
  return Option(option_->check(
      [complaint = std::move(complaint)](const std::string& word) { return complaint(word); }));
}
bool Option::given() const { return option_->count() > 0; }

template <class T>
Option Arguments::option(const std::string& names, T& to, const std::string& help) const {
  CLI::Option* added = app_->add_option(names, to, help);
  using Type = typename Number<T>::Type;
  if constexpr (std::is_integral_v<Type> && !std::is_same_v<Type, bool>)
    added->check(complaint_of_integer<Type>, "", kInteger)->check(complaint_of_digits);
  return Option(added);
}
#define PTXBUILDER_OPTION(...) \
  template Option Arguments::option(const std::string&, __VA_ARGS__&, const std::string&) const;
PTXBUILDER_OPTION(std::string)
PTXBUILDER_OPTION(bool)
PTXBUILDER_OPTION(int)
PTXBUILDER_OPTION(int64_t)
PTXBUILDER_OPTION(uint32_t)
PTXBUILDER_OPTION(uint64_t)
PTXBUILDER_OPTION(double)
PTXBUILDER_OPTION(std::optional<int>)
PTXBUILDER_OPTION(std::optional<uint32_t>)
PTXBUILDER_OPTION(std::optional<uint64_t>)
PTXBUILDER_OPTION(std::optional<double>)
PTXBUILDER_OPTION(std::vector<std::string>)
PTXBUILDER_OPTION(std::vector<uint32_t>)
PTXBUILDER_OPTION(std::vector<int64_t>)
PTXBUILDER_OPTION(std::vector<uint64_t>)
#undef PTXBUILDER_OPTION

Option Arguments::flag(const std::string& names, bool& to, const std::string& help) const {
  return Option(app_->add_flag(names, to, help));
}

Option Arguments::number_flag(const std::string& name, uint32_t& to, uint32_t given,
                              const std::string& help) const {
  CLI::Option* added = app_->add_flag(fmt::format("{}{{{}}}", name, given), to, help);
  added->check(complaint_of_integer<uint32_t>, "", kInteger)->check(complaint_of_digits);
  return Option(added);
}

Option Arguments::choice(const std::string& names, int64_t& to, const std::map<std::string, int64_t>& words,
                         const std::string& help) const {
  auto read = [&to, words, names](const std::string& word) {
    const auto place = words.find(word);
    if (place == words.end()) {
      std::vector<std::string> legal;
      for (const auto& [known, number] : words) legal.push_back(known);
      throw CLI::ValidationError(names, fmt::format("'{}' must be one of {}", word, fmt::join(legal, ", ")));
    }
    to = place->second;
  };
  return Option(app_->add_option_function<std::string>(names, read, help));
}

Arguments Arguments::command(const std::string& name, const std::string& help) const {
  return Arguments(app_->add_subcommand(name, help), late_);
}
void Arguments::when_named(std::function<void()> add) const {
  const auto waiting = std::make_shared<std::function<void()>>(std::move(add));
  const auto once = [waiting] {
    if (const auto now = std::exchange(*waiting, nullptr)) now();
  };
  app_->preparse_callback([once](size_t) { once(); });
  late_->push_back(once);
}
void Arguments::needs_command() const { app_->require_subcommand(1); }
void Arguments::footer(const std::string& text) const { app_->footer(text); }
void Arguments::check(std::function<std::string()> complaint) const {
  app_->callback([complaint = std::move(complaint)] {
    if (const std::string text = complaint(); !text.empty()) throw CLI::ValidationError(text);
  });
}
bool Arguments::chosen() const { return app_->parsed(); }
Arguments Arguments::chosen_command() const { return Arguments(app_->get_subcommands().front(), late_); }
std::string Arguments::name() const { return app_->get_name(); }
bool Arguments::given(const std::string& option) const { return app_->count(option) > 0; }

CommandLine::CommandLine(const std::string& summary, const std::string& name)
    : app_(std::make_unique<CLI::App>(summary, name)), late_(std::make_unique<Arguments::Late>()) {
  app_->set_version_flag("--version",
                         fmt::format("ptxbuilder {}.{}.{}\n", PTXBUILDER_VERSION_MAJOR,
                                     PTXBUILDER_VERSION_MINOR, PTXBUILDER_VERSION_PATCH),
                         "the version of ptxbuilder");
}
CommandLine::~CommandLine() = default;

Arguments CommandLine::arguments() const { return Arguments(app_.get(), late_.get()); }
void CommandLine::helps_with_all() const { app_->set_help_all_flag("--help-all", "help of every command"); }

void CommandLine::parse(const std::vector<std::string>& words) const {
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 parses words from the end
                                                                          // of the vector
  } catch (const CLI::CallForHelp&) {
    throw HelpAsked{app_->help()};
  } catch (const CLI::CallForVersion& e) {
    throw HelpAsked{e.what()};
  } catch (const CLI::CallForAllHelp&) {
    for (const std::function<void()>& add : *late_) add();
    throw HelpAsked{app_->help("", CLI::AppFormatMode::All)};
  } catch (const CLI::ParseError& e) {
    throw UsageError(usage(*app_, e.what()));
  }
}

}  // namespace ptxbuilder::command
