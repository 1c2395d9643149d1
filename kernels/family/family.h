// A kernel family: how it is named, configured, built, launched and checked. One file in kernels/ registers
// each.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::command {

// The command line can set this value: a size of the problem, or a choice that the kernel offers.
struct Field {
  std::string name;
  int64_t value;  // the default
  std::string help;
  int64_t multiple = 1;  // legal values are multiples of it
  int64_t least = 1;
  std::vector<std::string> words = {};  // where there are some, the value is the place of one, from 0

  std::string text() const;  // the value, or its word
};

// The fields of one run, by name.
class Fields {
 public:
  explicit Fields(std::vector<Field> fields) : fields_(std::move(fields)) {}

  // Throws UsageError (command_line.h) that lists the names when there is no such field, or says which rule
  // of the field the value breaks.
  void set(const std::string& name, int64_t value);
  void set(const std::string& name, const std::string& text);  // a number or one of its words
  int64_t operator[](const std::string& name) const;
  bool has(const std::string& name) const;
  // The value as an int; for what is small by its nature.
  int small(const std::string& name) const { return static_cast<int>((*this)[name]); }
  std::string word(const std::string& name) const;

  const std::vector<Field>& all() const { return fields_; }
  // The fields that somebody has asked for: after a kernel was built, what it depends on.
  std::vector<Field> used() const;
  std::string text() const;  // "m=4096 n=4096"

 private:
  const Field* find(const std::string& name) const;
  std::vector<Field> fields_;
  mutable std::set<std::string> used_;
};

class Run;

// Says how to configure the kernel for a size of the problem, in families that can choose.
struct Choice {
  // The fields of the size, and with each the launch rule (launch_rule.h) that yields it from arguments.
  std::vector<std::pair<std::string, std::string>> axes = {};
  std::function<void(Fields&)> choose = nullptr;  // sets the kernel's fields by those of the size
  // Says what to watch out for in launches of this size, such as rows that need gaps; "" if nothing. It is
  // called after the kernel's fields have been chosen.
  std::function<std::string(const Fields&)> caution = nullptr;
};

// The family's model predicts this for a launch, before it runs.
struct Forecast {
  double microseconds = 0;
  std::vector<std::pair<std::string, double>> parts =
      {};                           // microseconds of what acts at once, and of the rest
  double megahertz = 0, watts = 0;  // the clock that power leaves, and what it would draw
};

// A kernel that can be run, verified and timed, with its fields.
struct Family {
  std::string name;
  std::string summary;  // one line
  std::vector<Field> fields;
  std::function<Kernel(const Fields&)> build;
  // Makes the inputs, launches, and says what is right: see run.h.
  std::function<void(const Fields&, Run&)> run;
  Choice choice = {};                                         // of most families none
  std::function<Forecast(const Fields&)> forecast = nullptr;  // of most none
};

// The family's kernel, with the fields that it depends on as its configuration.
Kernel build(const Family& family, const Fields& fields);

// Every family, by name.
const std::vector<Family>& families();
// Throws Error that lists the names.
const Family& family(const std::string& name);

// `const Registration registration({.name = ...});` in the kernel's file makes it known.
struct Registration {
  explicit Registration(Family family);
};

}  // namespace ptxbuilder::command
