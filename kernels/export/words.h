// Names, types and comments of the C that ptxb export writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

// Returns the name if C and C++ allow it and the program does not use it itself, else a similar name.
std::string identifier(const std::string& name);

std::string in_comment(std::string text);     // a text inside of /* */
std::string c_string(std::string_view text);  // and between quotation marks
const char* c_type(DType type);  // of the same width; unsigned integers for floats that C does not have
bool is_in_c(DType type);        // whether C has the type
std::string kind_in_comment(const Parameter& p);
std::string declared(const Parameter& p);  // a scalar or a pointer, ready for its name

// Returns the words, joined into lines of some 110 characters; all except the first begin with `indent`.
std::string wrapped(const std::vector<std::string>& words, const std::string& indent);

}  // namespace ptxbuilder::command
