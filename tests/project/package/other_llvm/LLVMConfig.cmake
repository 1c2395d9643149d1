# This file replaces the package of another LLVM, whose targets have the same names.
set(LLVM_VERSION_MAJOR 14)
add_library(LLVM SHARED IMPORTED)
set_target_properties(LLVM PROPERTIES IMPORTED_LOCATION /nowhere/libLLVM-14.so)
