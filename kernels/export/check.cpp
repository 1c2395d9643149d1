// Checks whether configurations of a kernel can be exported together, so that one launch function can launch
// any of them.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/export/export.h"
#include "kernels/export/words.h"
#include "kernels/family/command_line.h"
#include "ptxbuilder/error.h"
#include "runtime/launch_check.h"

namespace ptxbuilder::command {
namespace {

using Kind = Parameter::Kind;

// Returns whether the caller of a launch passes the same argument for two parameters. Boxes and swizzles may
// differ between kernels.
bool same_to_caller(const Parameter& a, const Parameter& b) {
  return a.name == b.name && a.kind == b.kind && a.dtype == b.dtype &&
         a.tensor_map.rank() == b.tensor_map.rank() &&
         std::equal(a.fields.begin(), a.fields.end(), b.fields.begin(), b.fields.end(), same_to_caller);
}

std::string in_words(const Parameter& p) {
  switch (p.kind) {
    case Kind::scalar:
      return fmt::format("a scalar {} '{}'", name(p.dtype), p.name);
    case Kind::pointer:
      return fmt::format("a pointer to {} '{}'", name(p.dtype), p.name);
    case Kind::tensor_map:
      return fmt::format("a tensor of rank {} of {} '{}'", p.tensor_map.rank(), name(p.dtype), p.name);
    case Kind::tensor_map_array:
      return fmt::format("a tensor map array of {} '{}'", name(p.dtype), p.name);
    case Kind::structure:
      return fmt::format("a struct of {} fields '{}'", p.fields.size(), p.name);
  }
  return "";
}

void check_parameters(const Export& e) {
  const std::vector<Parameter>& first = e.kernels[0].signature.parameters;
  for (const Parameter& p : first)
    if (p.kind == Kind::tensor_map_array)
      throw UsageError(
          fmt::format("export: {}; exported code does not encode maps in device memory: launch the kernel "
                      "with the runtime, whose LoadedKernel::tensor_maps() encodes them",
                      in_words(p)));
  for (size_t k = 1; k < e.kernels.size(); ++k) {
    const std::vector<Parameter>& other = e.kernels[k].signature.parameters;
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      if (i < first.size() && i < other.size() && same_to_caller(first[i], other[i])) continue;
      auto found = [&](const auto& all) {
        return i < all.size() ? in_words(all[i]) : std::string("nothing");
      };
      throw UsageError(
          fmt::format("export: the configurations 1 and {} have different parameters, but one launch "
                      "function serves all: parameter {} is {} and {}",
                      k + 1, i + 1, found(first), found(other)));
    }
  }
}

void check_condition(const Export& e, size_t k) {
  const std::string& condition = e.kernels[k].condition;
  const bool is_last = k + 1 == e.kernels.size();
  if (is_last && !condition.empty())
    throw UsageError(
        fmt::format("export: the last configuration has the condition '{}', but it must serve all remaining "
                    "launches: add one without a condition",
                    condition));
  if (!is_last && condition.empty())
    throw UsageError(
        fmt::format("export: configuration {} has no condition, so none after it would be launched: end it "
                    "with ' if CONDITION'",
                    k + 1));
}

}  // namespace

void check(const Export& e) {
  if (e.kernels.empty()) throw Error("export: there is no kernel");
  if (e.name.empty() || identifier(e.name) != e.name)
    throw UsageError(fmt::format("export: '{}' must be a name that is valid for a C function", e.name));
  for (size_t k = 0; k < e.kernels.size(); ++k) {
    const auto& [signature, image, ptx, condition] = e.kernels[k];
    runtime::check(signature);
    if (!runtime::runs_on(signature.target, 90))
      throw Error(fmt::format("export: kernel '{}' is compiled for {}, but exported code runs on sm_90a",
                              signature.kernel, signature.target));
    if (image.empty()) throw Error(fmt::format("export: kernel '{}' has no image", signature.kernel));
    for (const Parameter& p : signature.parameters)
      if (p.tensor_map.pixels != 0)
        throw Error(
            fmt::format("export: kernel '{}' reads '{}' as pixels (im2col), whose corners exported C does "
                        "not support: launch it with the runtime",
                        signature.kernel, p.name));
    if (e.shapes.empty()) check_condition(e, k);
  }
  check_parameters(e);
}

}  // namespace ptxbuilder::command
