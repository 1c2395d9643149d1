// Reports statuses, error messages and warnings to C programs.
#pragma once

#include <utility>

#include "kernels/c/ptxb.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::c {

// Makes ptxb_error() return "".
void forget_error() noexcept;
// Returns the status of the exception that is being handled, and makes ptxb_error() return its message. Must
// be called in a catch block.
int keep_error() noexcept;

// Runs `body` and reports the exceptions that it throws. Error messages contain no source location, because
// the line of the caller's C program is not known.
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
