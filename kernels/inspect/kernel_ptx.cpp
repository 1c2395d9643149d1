#include "kernels/inspect/kernel_ptx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "kernels/family/command_line.h"
#include "kernels/family/family.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/file_text.h"

namespace ptxbuilder::command {
namespace {

constexpr std::string_view kPrefix = "kernel:";

bool is_kernel(const std::string& name) {
  return std::any_of(families().begin(), families().end(), [&](const Family& f) { return f.name == name; });
}

bool is_field(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && word.find_first_of(":/. ") > equals;
}

}  // namespace

std::string named(const std::vector<std::string>& words) {
  const bool all_fields = std::all_of(words.begin(), words.end(), is_field);
  if (all_fields && families().size() == 1)
    return fmt::format("{}{} {}", kPrefix, families().front().name, fmt::join(words, " "));
  if (!words.empty() && is_kernel(words[0])) return fmt::format("{}{}", kPrefix, fmt::join(words, " "));
  if (words.size() > 1)
    throw UsageError(fmt::format("'{}' is not a kernel of this program, so '{}' after it has no meaning",
                                 words[0], words[1]));
  return words.empty() ? "" : words[0];
}

bool names_kernel(const std::string& from) { return from.starts_with(kPrefix); }

std::string kernel_ptx(const std::string& from) {
  std::istringstream words(from.substr(kPrefix.size()));
  std::string word;
  words >> word;
  const Family& chosen = family(word);
  Fields fields(chosen.fields);
  while (words >> word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos)
      throw Error(fmt::format("'{}' is not a field's value: write name=value", word));
    fields.set(word.substr(0, equals), word.substr(equals + 1));
  }
  CompilerOptions options;
  options.assemble = false;
  return Compiler(options).compile(chosen.build(fields), false, Where{}).ptx;
}

const PtxReader own_ptx = {"a kernel of this program with fields, such as bm=128, or a file of PTX",
                           [](const std::string& from, const std::string&) {
                             return names_kernel(from) ? kernel_ptx(from) : file_text(from);
                           }};

int with_errors_as_2(const std::function<int()>& work) try {
  const int code = work();
  flush_output();
  return code;
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 2;
}

int run_on_ptx(std::string_view nothing_named, const std::vector<std::string>& words,
               const std::string& kernel, const PtxReader& reader,
               const std::function<int(const std::string&)>& work) {
  return with_errors_as_2([&] {
    const std::string from = named(words);
    if (from.empty()) throw Error(std::string(nothing_named));
    const std::string ptx = reader.read(from, kernel);
    try {
      return work(ptx);
    } catch (const Error& e) {
      throw Error(fmt::format("{}: {}", from, e.what()));
    }
  });
}

}  // namespace ptxbuilder::command
