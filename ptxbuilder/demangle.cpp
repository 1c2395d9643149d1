#include "ptxbuilder/demangle.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace ptxbuilder {
namespace {

constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.";
// Substitutions can make a demangled name arbitrarily long, although compilers hardly ever produce such
// names.
constexpr size_t kLongest = 4096, kMostSubstitutions = 256, kShown = 240;

std::string shortened(const std::string& name) {
  return name.size() <= kShown
             ? name
             : fmt::format("{}...{}", name.substr(0, kShown - 60), name.substr(name.size() - 57));
}

std::string of_name(std::string_view name) {
  const std::string mangled(name);
  if (name.size() > kLongest ||
      static_cast<size_t>(std::count(name.begin(), name.end(), '_')) > kMostSubstitutions)
    return mangled;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr), &std::free);
  return plain ? shortened(plain.get()) : mangled;
}

}  // namespace

std::string demangled(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t at = std::min(text.find_first_of(letters), text.size());
    result += text.substr(0, at);
    text.remove_prefix(at);
    const std::string_view word = text.substr(0, text.find_first_not_of(letters));
    // A dot after a name may end a sentence, so it is not part of the name.
    const size_t end = word.find_last_not_of('.') + 1;
    result += word.starts_with("_Z") ? of_name(word.substr(0, end)) : std::string(word.substr(0, end));
    result += word.substr(end);
    text.remove_prefix(word.size());
  }
  return result;
}

}  // namespace ptxbuilder
