// How deep JSON text may nest: what reads and prints its values recurses as deep.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder {

// Throws Error "NAME: line 3, column 5: JSON nested deeper than 64" at the bracket that is one too many.
// Comments are skipped; whether the text is JSON is not looked at.
void check_json_nesting(std::string_view text, const std::string& name);

// "line 3, column 5" of the byte at `offset` of a text, both counted from 1.
std::string line_and_column(std::string_view text, size_t offset);

}  // namespace ptxbuilder
