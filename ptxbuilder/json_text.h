// Reads JSON text, and reports the position of errors in it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ptxbuilder {

// Reads one value. Errors refer to the file as `name`, as in "NAME: line 3, column 5: ...". Throws Error if
// the text is not JSON, if values are nested more than 64 levels deep (reading and printing recurse once per
// level), or if a double cannot hold a number. Also throws an Error that names the member if an object
// contains a member twice, because one of the two would be lost. Comments are skipped if `has_comments` is
// true, and rejected otherwise.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& name, bool has_comments = false);

// Returns a position such as "line 3, column 5" for the byte at `offset` of the text. Lines and columns are
// counted from 1.
std::string line_and_column(std::string_view text, size_t offset);

}  // namespace ptxbuilder
