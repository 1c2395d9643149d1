// The options of a command line. CLI11 is hidden by this header, since g++ takes ten seconds for each file
// that includes it.
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

// An option with a value, a flag, or a word without a name.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required() const;
  Option shown_as(const std::string& value) const;  // in the help, such as FILE
  Option with_default() const;                      // the help names the value that it begins with
  Option in_group(const std::string& name) const;   // of the help
  Option by_comma() const;                          // several values in one word
  Option among(const std::vector<std::string>& legal) const;
  Option from(std::integral auto least, std::integral auto greatest) const {
    return within(int64_t{least}, int64_t{greatest});
  }
  Option from(double least, double greatest) const { return within(least, greatest); }
  Option excludes(const Option& other) const;
  Option needs(const Option& other) const;
  // `complaint` of each word says what is wrong with it; "" for nothing.
  Option check(std::function<std::string(std::string)> complaint) const;

  bool given() const;

 private:
  Option within(int64_t least, int64_t greatest) const;
  Option within(double least, double greatest) const;

  CLI::Option* option_;
};

// A command line, or one of its commands, takes these. What options set stays where it is until the words are
// parsed.
class Arguments {
 public:
  explicit Arguments(CLI::App* app) : app_(app) {}

  // "--name", "-n,--name", or "name" for a word without one. T is a string, an integer, a double, or an
  // optional or a vector of such: those that command_line.cpp instantiates.
  template <class T>
  Option option(const std::string& names, T& to, const std::string& help) const;
  Option flag(const std::string& names, bool& to, const std::string& help) const;
  // This is a flag with a number, `given` unless it says another, as --watchdog and --watchdog=50.
  Option number_flag(const std::string& name, uint32_t& to, uint32_t given, const std::string& help) const;
  // One of some words, which each mean a number.
  Option choice(const std::string& names, int64_t& to, const std::map<std::string, int64_t>& words,
                const std::string& help) const;

  Arguments command(const std::string& name, const std::string& help) const;
  void needs_command() const;
  void footer(const std::string& text) const;  // of the help
  // This says what is wrong with all of them together; "" for nothing.
  void check(std::function<std::string()> complaint) const;

  // These say what was parsed.
  bool chosen() const;
  Arguments chosen_command() const;
  std::string name() const;
  bool given(const std::string& option) const;

 private:
  CLI::App* app_;
};

// Writes out what is left of standard output. Throws Error where that, or what was printed before, did not
// arrive, since nobody else would tell: a program that ends writes the rest as well, and says nothing of a
// full disk.
void flush_output();

// The error's text without the line of C++ at its end.
std::string without_place(const std::exception& e);

// Says what is wrong with the words, and what is legal there.
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
  // --help-all, of every command.
  void helps_with_all() const;

  // `words` without the program's name. Throws UsageError, or HelpAsked with the text of --help.
  void parse(const std::vector<std::string>& words) const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace ptxbuilder::command
