// Defines and parses the options of a command line. This header hides CLI11, because g++ takes ten seconds to
// compile a file that includes CLI11.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ptxbuilder/error.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ptxbuilder::command {

// An option with a value, a flag, or a positional word.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required() const;
  Option shown_as(const std::string& value) const;  // sets the placeholder for the value in the help, such as
                                                    // FILE
  Option with_default() const;                      // makes the help show the initial value
  Option in_group(const std::string& name) const;   // assigns the option to a group in the help
  Option by_comma() const;                          // accepts several values in one word, separated by commas
  Option among(const std::vector<std::string>& legal) const;
  Option from(std::integral auto least, std::integral auto greatest) const {
    return within(int64_t{least}, int64_t{greatest});
  }
  Option from(double least, double greatest) const { return within(least, greatest); }
  Option excludes(const Option& other) const;
  Option needs(const Option& other) const;
  // `complaint` returns what is wrong with a word, or "" if nothing is.
  Option check(std::function<std::string(std::string)> complaint) const;

  bool given() const;

 private:
  Option within(int64_t least, int64_t greatest) const;
  Option within(double least, double greatest) const;

  CLI::Option* option_;
};

// The arguments of a command line, or of one of its commands. The variables that options set must keep their
// addresses until the words have been parsed.
class Arguments {
 public:
  using Late = std::vector<std::function<void()>>;

  Arguments(CLI::App* app, Late* late) : app_(app), late_(late) {}

  // Adds an option: "--name", "-n,--name", or "name" for a word without a preceding option. T is a string, an
  // integer, a double, or an optional or a vector of these, as instantiated in command_line.cpp.
  template <class T>
  Option option(const std::string& names, T& to, const std::string& help) const;
  Option flag(const std::string& names, bool& to, const std::string& help) const;
  // Adds a flag that may have a number, as in --watchdog and --watchdog=50. If the flag is used without a
  // number, `to` is set to `given`.
  Option number_flag(const std::string& name, uint32_t& to, uint32_t given, const std::string& help) const;
  // Adds an option whose value is one of several words. Each word corresponds to a number.
  Option choice(const std::string& names, int64_t& to, const std::map<std::string, int64_t>& words,
                const std::string& help) const;

  Arguments command(const std::string& name, const std::string& help) const;
  // Calls `add`, which adds this command's options, once the words name the command or ask for the help of
  // all commands. A command line of many commands begins sooner if it makes only the options that it needs.
  void when_named(std::function<void()> add) const;
  void needs_command() const;
  void footer(const std::string& text) const;  // sets the text that is shown at the end of the help
  // `complaint` returns what is wrong with the combination of options, or "" if nothing is.
  void check(std::function<std::string()> complaint) const;

  // These functions return whether the command line chose this command, and which of its commands it chose.
  bool chosen() const;
  Arguments chosen_command() const;
  std::string name() const;
  bool given(const std::string& option) const;

 private:
  CLI::App* app_;
  Late* late_;  // the command line's; each adds its options once, however often it is called
};

// Flushes standard output. Throws Error if anything that has been printed could not be written. Programs also
// flush standard output when they exit, but they do not report errors such as a full disk at that point.
void flush_output();

// Returns the error's message without the C++ source line at its end.
std::string without_place(const std::exception& e);

// An error in the words of a command line. Its message describes what is wrong and which words are allowed.
class UsageError : public Error {
 public:
  using Error::Error;
};
struct HelpAsked {
  std::string text;
};

class CommandLine {
 public:
  CommandLine(const std::string& summary, const std::string& name);
  ~CommandLine();

  Arguments arguments() const;
  // Adds --help-all, which shows the help of every command.
  void helps_with_all() const;

  // Parses the words of the command line, without the program's name. Throws UsageError, or HelpAsked with
  // the text of --help.
  void parse(const std::vector<std::string>& words) const;

 private:
  std::unique_ptr<CLI::App> app_;
  std::unique_ptr<Arguments::Late> late_;
};

}  // namespace ptxbuilder::command
