// JSON text of others' as values, with errors that say where.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ptxbuilder {

// Reads one value; `name` is the file's in errors. Throws Error "NAME: line 3, column 5: ..." for what is no
// JSON, nests deeper than 64, since what reads and prints values recurses as deep, or has a number that no
// double holds, and Error that names the member for an object that has it twice, since one would be lost.
// Comments are skipped where they are allowed.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& name, bool has_comments = false);

// "line 3, column 5" of the byte at `offset` of a text, both counted from 1.
std::string line_and_column(std::string_view text, size_t offset);

}  // namespace ptxbuilder
