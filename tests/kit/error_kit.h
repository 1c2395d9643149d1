// Catches the Error that an action throws, for tests that check the message.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "ptxbuilder/error.h"

namespace ptxbuilder::test {

// Returns the message of the Error that `action` throws, or "" if it throws none.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace ptxbuilder::test

#define CHECK_ERROR(action, text)                                              \
  do {                                                                         \
    const std::string message = ::ptxbuilder::test::error_of([&] { action; }); \
    CAPTURE(message);                                                          \
    CHECK(message.find(text) != std::string::npos);                            \
  } while (false)
