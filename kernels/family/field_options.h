// The fields of a family as options of a command line.
#pragma once

#include <map>

#include "kernels/family/command_line.h"
#include "kernels/family/family.h"

namespace ptxbuilder::command {

// Adds an option for each field. `values` receives the values that are given, and must outlive the parsing.
void add_fields(const Arguments& app, const Family& family, std::map<std::string, int64_t>& values);

// Returns the names of the fields that were given.
std::vector<std::string> given_fields(const Arguments& app, const Family& family);

// Returns the family's fields with the given values.
Fields chosen_fields(const Arguments& app, const Family& family,
                     const std::map<std::string, int64_t>& values);

}  // namespace ptxbuilder::command
