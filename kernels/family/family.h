// A kernel family: how its kernels are named, configured, built, launched and checked. One file in kernels/
// registers each family.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::command {

// A value that can be set on the command line: a size of the problem, or a setting of the kernel.
struct Field {
  std::string name;
  int64_t value;  // the default
  std::string help;
  int64_t multiple = 1;  // legal values are multiples of this
  int64_t least = 1;
  std::vector<std::string> words = {};  // if not empty, the value is the index of a word, beginning with 0

  std::string text() const;  // the value, or its word
};

// The fields of one run, identified by name.
class Fields {
 public:
  explicit Fields(std::vector<Field> fields) : fields_(std::move(fields)) {}

  // Throws UsageError (command_line.h) that lists the names if the field does not exist, or that names the
  // field's rule if the value violates it.
  void set(const std::string& name, int64_t value);
  void set(const std::string& name, const std::string& text);  // `text` is a number or one of the field's
                                                               // words
  int64_t operator[](const std::string& name) const;
  bool has(const std::string& name) const;
  // Returns the value as an int, for fields whose values are always small.
  int small(const std::string& name) const { return static_cast<int>((*this)[name]); }
  std::string word(const std::string& name) const;

  const std::vector<Field>& all() const { return fields_; }
  // Returns the fields that have been read. After a kernel was built, these are the fields that it depends
  // on.
  std::vector<Field> used() const;
  std::string text() const;  // "m=4096 n=4096"

 private:
  const Field* find(const std::string& name) const;
  std::vector<Field> fields_;
  mutable std::set<std::string> used_;
};

class Run;

// Configures the kernel for a problem size, in families that can choose.
struct Choice {
  // The fields of the size, each with the launch rule (launch_rule.h) that computes it from the arguments.
  std::vector<std::pair<std::string, std::string>> axes = {};
  std::function<void(Fields&)> choose = nullptr;  // sets the kernel's fields from those of the size
  // Returns a warning about launches of this size, such as rows that need gaps, or "". It is called after the
  // kernel's fields have been chosen.
  std::function<std::string(const Fields&)> caution = nullptr;
};

// The values that the family's model predicts for a launch before it runs.
struct Forecast {
  double microseconds = 0;
  std::vector<std::pair<std::string, double>> parts = {};  // microseconds of the bounds that act at the same
                                                           // time; of the other parts
  double megahertz = 0, watts = 0;  // the clock within the power limit; the power at the full clock
};

// Kernels that can be run, verified and timed, with their fields.
struct Family {
  std::string name;
  std::string summary;  // one line
  std::vector<Field> fields;
  std::function<Kernel(const Fields&)> build;
  // Creates the inputs, launches, and defines which results are correct: see run.h.
  std::function<void(const Fields&, Run&)> run;
  Choice choice = {};                                         // empty in most families
  std::function<Forecast(const Fields&)> forecast = nullptr;  // empty in most families
};

// Returns the family's kernel; its configuration consists of the fields that it depends on.
Kernel build(const Family& family, const Fields& fields);

// Returns every family, sorted by name.
const std::vector<Family>& families();
// Returns the family with a name. Throws Error that lists the names.
const Family& family(const std::string& name);

// Registers a family; its file defines `const Registration registration({.name = ...});`.
struct Registration {
  explicit Registration(Family family);
};

}  // namespace ptxbuilder::command
