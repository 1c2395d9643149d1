#include "ptxbuilder/compile/bytes.h"

#include <fmt/format.h>

#include "ptxbuilder/error.h"

namespace ptxbuilder {

void fail_at(size_t offset, const std::string& what) {
  throw Error(fmt::format("offset {:#x}: {}", offset, what));
}

std::string_view part_of(std::string_view file, size_t offset, uint64_t bytes, const char* what) {
  if (offset > file.size() || bytes > file.size() - offset)
    fail_at(offset, fmt::format("{} of {} B ends beyond the file's {:#x} B", what, bytes, file.size()));
  return file.substr(offset, bytes);
}

}  // namespace ptxbuilder
