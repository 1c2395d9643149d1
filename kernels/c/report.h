// Reports to C: a status, the words of what went wrong, and warnings.
#pragma once

#include <utility>

#include "kernels/c/ptxb.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::c {

// ptxb_error() gives "" from here on.
void forget_error() noexcept;
// This is for a catch: the status of the exception, whose words ptxb_error() gives.
int keep_error() noexcept;

// The errors name what is wrong; the caller's line in C is not known.
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
