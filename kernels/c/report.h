// Reports to C programs: a status, the text of an error, and warnings.
#pragma once

#include <utility>

#include "kernels/c/ptxb.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::c {

// ptxb_error() returns "" after this call.
void forget_error() noexcept;
// Call it in a catch block: returns the status of the exception, whose text ptxb_error() then returns.
int keep_error() noexcept;

// Errors only state what is wrong, since the caller's line in C is not known.
template <class Body>
int status_of(Body&& body) noexcept {
  forget_error();
  try {
    const AuthorsCode no_line;
    std::forward<Body>(body)();
    return PTXB_OK;
  } catch (...) {
    return keep_error();
  }
}

}  // namespace ptxbuilder::c
