// Reads JSON text, with errors that say where it is wrong.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ptxbuilder {

// Reads one value; errors refer to the file as `name`. Throws Error "NAME: line 3, column 5: ..." for text
// that is not JSON, that nests deeper than 64 levels, since reading and printing recurse once per level, or
// that has a number that a double cannot hold. Throws Error that names the member if an object has a member
// twice, since one would be lost. Comments are skipped if they are allowed.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& name, bool has_comments = false);

// Returns "line 3, column 5" for the byte at `offset` of a text, both counted from 1.
std::string line_and_column(std::string_view text, size_t offset);

}  // namespace ptxbuilder
