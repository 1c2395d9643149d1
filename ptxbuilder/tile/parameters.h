// Declares parameters for kernels in which some parameters exist only for some operations.
#pragma once

#include <map>

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// A list of parameters by name; only those that the operation needs are added.
class Parameters {
 public:
  // Adds a parameter; the launch's arguments follow the order of the calls. A tensor map's type follows from
  // its copies.
  void add(std::string name, Parameter::Kind kind, DType type, std::string meaning) {
    index_[name] = all_.size();
    Parameter& one = all_.emplace_back();
    one.name = std::move(name);
    one.kind = kind;
    one.dtype = type;
    one.meaning = std::move(meaning);
  }
  // Declares the added parameters. Call this only once.
  void declare(Kernel& kernel, Where where) {
    values_ = kernel.builder().declare_parameters(std::move(all_), where);
  }

  // Returns a parameter's value in its declared type. Throws Error that lists the names if it is missing.
  template <class T>
  T get(const std::string& name) const {
    return T(values_[index_of(name)].handle());
  }

 private:
  size_t index_of(const std::string& name) const {
    if (const auto found = index_.find(name); found != index_.end()) return found->second;
    std::string names;
    for (const auto& [known, index] : index_) names += (names.empty() ? "" : ", ") + known;
    throw Error("no parameter is named '" + name + "'; there are " + names);
  }

  std::vector<Parameter> all_;
  std::vector<Value> values_;
  std::map<std::string, size_t> index_;
};

}  // namespace ptxbuilder
