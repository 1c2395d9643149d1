// In text of before LLVM 15, pointers say what they point to: this takes it away.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder {

// Returns the text with `ptr` and `ptr addrspace(N)` in place of typed pointers, as `i32*`, `%struct.P
// addrspace(3)*` and `void (i8*, ...)*`, which LLVM 17 and later do not read. Lines stay where they are.
std::string without_typed_pointers(std::string_view ir);

}  // namespace ptxbuilder
