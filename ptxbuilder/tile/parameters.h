// Declares parameters for kernels that need some of their parameters only for some operations.
#pragma once

#include <map>

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// A list of named parameters. The caller adds only the parameters that its operation needs.
class Parameters {
 public:
  // Adds a parameter. A launch passes arguments in the order of these calls. The type of a tensor map is
  // determined by its copies.
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

  // Returns a parameter's value as its declared type. If there is no parameter with this name, the function
  // throws an Error that lists the names.
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
