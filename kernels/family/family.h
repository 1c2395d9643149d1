// A kernel family defines how its kernels are named, configured, built, launched and checked. A source file
// in kernels/ registers each family.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::command {

// A value that the command line can set. It is a size of the problem or a setting of the kernel.
struct Field {
  std::string name;
  int64_t value;  // initially the default
  std::string help;
  int64_t multiple = 1;  // a legal value is a multiple of this
  int64_t least = 1;
  std::vector<std::string> words = {};  // if not empty, the value is the index of a word, beginning with 0

  std::string text() const;  // returns the value, or the word that it stands for
};

// The fields of a run, identified by name.
class Fields {
 public:
  explicit Fields(std::vector<Field> fields) : fields_(std::move(fields)) {}

  // Sets a field. Throws UsageError (command_line.h) if the field does not exist or the value is not legal;
  // the message lists the fields, or states the field's rule.
  void set(const std::string& name, int64_t value);
  void set(const std::string& name, const std::string& text);  // `text` is a number or one of the field's
                                                               // words
  int64_t operator[](const std::string& name) const;
  bool has(const std::string& name) const;
  // Returns the value as an int; used for fields that have only small values.
  int small(const std::string& name) const { return static_cast<int>((*this)[name]); }
  std::string word(const std::string& name) const;

  const std::vector<Field>& all() const { return fields_; }
  // Returns the fields that have been read. After a kernel has been built, these are the fields that the
  // kernel depends on.
  std::vector<Field> used() const;
  std::string text() const;  // returns, for example, "m=4096 n=4096"

 private:
  const Field* find(const std::string& name) const;
  std::vector<Field> fields_;
  mutable std::set<std::string> used_;
};

class Run;

// Configures the kernel for a problem size, in families that support this.
struct Choice {
  // The fields that make up the size, each with the launch rule (launch_rule.h) that computes it from a
  // launch's arguments.
  std::vector<std::pair<std::string, std::string>> axes = {};
  std::function<void(Fields&)> choose = nullptr;  // sets the kernel's fields for the size
  // Returns a warning about launches of this size, for example that rows need gaps, or "". It is called after
  // `choose`.
  std::function<std::string(const Fields&)> caution = nullptr;
};

// Values that the family's model predicts for a launch.
struct Forecast {
  double microseconds = 0;
  std::vector<std::pair<std::string, double>> parts = {};  // microseconds for each bound that acts at the
                                                           // same time as others, and for each other part
  double megahertz = 0, watts = 0;  // the clock frequency within the power limit, and the power at the full
                                    // clock frequency
};

// Kernels that can be run, verified and timed, and their fields.
struct Family {
  std::string name;
  std::string summary;  // one line
  std::vector<Field> fields;
  std::function<Kernel(const Fields&)> build;
  // Creates the inputs, launches the kernel, and defines which results are correct: see run.h.
  std::function<void(const Fields&, Run&)> run;
  Choice choice = {};                                         // empty in most families
  std::function<Forecast(const Fields&)> forecast = nullptr;  // empty in most families
};

// Builds the family's kernel. The kernel's configuration consists of the fields that it depends on.
Kernel build(const Family& family, const Fields& fields);

// Returns every family, sorted by name.
const std::vector<Family>& families();
// Returns the family with this name. If there is none, throws an Error that lists the names.
const Family& family(const std::string& name);

// Registers a family. The family's file defines `const Registration registration({.name = ...});`.
struct Registration {
  explicit Registration(Family family);
};

}  // namespace ptxbuilder::command
