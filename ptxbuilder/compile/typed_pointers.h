// Removes the pointee types of pointers from IR text that was written by LLVM 14 or earlier.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder {

// Returns `ir` with `ptr` and `ptr addrspace(N)` in place of typed pointers such as `i32*`, `%struct.P
// addrspace(3)*` and `void (i8*, ...)*`, because LLVM 17 and later cannot read typed pointers. Line numbers
// do not change.
std::string without_typed_pointers(std::string_view ir);

}  // namespace ptxbuilder
