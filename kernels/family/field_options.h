// Adds the fields of a family to a command line as options.
#pragma once

#include <map>

#include "kernels/family/command_line.h"
#include "kernels/family/family.h"

namespace ptxbuilder::command {

// Adds an option for each field. `values` receives the values from the command line, and must exist until the
// words have been parsed.
void add_fields(const Arguments& app, const Family& family, std::map<std::string, int64_t>& values);

// Returns the names of the fields that the command line sets.
std::vector<std::string> given_fields(const Arguments& app, const Family& family);

// Returns the family's fields with the values that the command line sets.
Fields chosen_fields(const Arguments& app, const Family& family,
                     const std::map<std::string, int64_t>& values);

}  // namespace ptxbuilder::command
