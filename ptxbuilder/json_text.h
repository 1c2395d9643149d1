// Reads JSON text, and reports where it is wrong.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ptxbuilder {

// Reads one value; errors refer to the file as `name`. Throws Error "NAME: line 3, column 5: ..." if the text
// is not JSON, nests deeper than 64 levels (reading and printing recurse once per level), or contains a
// number that a double cannot hold. Also throws Error, which names the member, if an object contains a member
// twice, since one of the two would be lost. Comments are skipped if `has_comments` is true, and otherwise
// rejected.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& name, bool has_comments = false);

// Returns "line 3, column 5" for the byte at `offset` of the text; lines and columns count from 1.
std::string line_and_column(std::string_view text, size_t offset);

}  // namespace ptxbuilder
