// Provides the names, types, comments and line breaks of exported C code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

// Returns the name if C and C++ allow it and the exported code does not use it, otherwise a similar name.
std::string identifier(const std::string& name);

std::string in_comment(std::string text);     // returns the text for use inside /* */
std::string c_string(std::string_view text);  // returns the text as a string literal
const char* c_type(DType type);  // returns a type of the same width; an unsigned integer for floats that C
                                 // does not have
bool is_in_c(DType type);        // returns whether C has the type
std::string kind_in_comment(const Parameter& p);
std::string declared(const Parameter& p);  // returns the declaration of a scalar or a pointer, up to and
                                           // including its name

// Returns the words, joined into lines of about 110 characters; all lines except the first begin with
// `indent`.
std::string wrapped(const std::vector<std::string>& words, const std::string& indent);

}  // namespace ptxbuilder::command
