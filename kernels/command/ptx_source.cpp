#include "kernels/command/ptx_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <iterator>
#include <sstream>

#include "kernels/command/commands.h"
#include "kernels/command/family.h"
#include "ptxbuilder/compile/compile.h"

namespace ptxbuilder::command {
namespace {

void set(Fields& fields, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos)
    throw Error(fmt::format("'{}' is no field's value: write name=value", assignment));
  const std::string name = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  for (const Field& f : fields.all()) {
    if (f.name != name || f.words.empty()) continue;
    const auto word = std::find(f.words.begin(), f.words.end(), text);
    if (word == f.words.end())
      throw Error(fmt::format("field {}: '{}' is none of {}", name, text, fmt::join(f.words, ", ")));
    return fields.set(name, word - f.words.begin());
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(fmt::format("field {}: '{}' is no number", name, text));
  fields.set(name, value);
}

}  // namespace

const char* const ptx_source_help =
    "a PTX file, - for standard input, or a kernel of this program: \"kernel:gemm bm=128 bn=64\"";

std::string ptx_source(const std::string& from) {
  constexpr std::string_view prefix = "kernel:";
  if (!from.starts_with(prefix)) {
    if (from == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
    return read_file(from);
  }
  std::istringstream words(from.substr(prefix.size()));
  std::string word;
  words >> word;
  const Family& chosen = family(word);
  Fields fields(chosen.fields);
  while (words >> word) set(fields, word);
  CompilerOptions options;
  options.assemble = false;
  return Compiler(options).compile(chosen.build(fields)).ptx;
}

}  // namespace ptxbuilder::command
