#include "kernels/command/ptx_source.h"

#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <sstream>

#include "kernels/command/commands.h"
#include "kernels/command/family.h"
#include "ptxbuilder/compile/compile.h"

namespace ptxbuilder::command {
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
  while (words >> word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos)
      throw Error(fmt::format("'{}' is no field's value: write name=value", word));
    fields.set(word.substr(0, equals), word.substr(equals + 1));
  }
  CompilerOptions options;
  options.assemble = false;
  return Compiler(options).compile(chosen.build(fields)).ptx;
}

}  // namespace ptxbuilder::command
