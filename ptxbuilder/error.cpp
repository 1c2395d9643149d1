#include "ptxbuilder/error.h"

namespace ptxbuilder {

std::string to_string(Where where) {
  std::string file = where.file;
  return file.substr(file.find_last_of('/') + 1) + ":" + std::to_string(where.line);
}

Error::Error(Where where, const std::string& message, Kind kind)
    : std::runtime_error(where ? message + " (" + to_string(where) + ")" : message),
      where_(where),
      kind_(kind) {}

}  // namespace ptxbuilder
