// What an action throws, for tests that look at the words of an Error.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "ptxbuilder/error.h"

template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const ptxbuilder::Error& e) {
    return e.what();
  }
  return "no error";
}

#define CHECK_ERROR(action, text)                          \
  do {                                                     \
    const std::string message = error_of([&] { action; }); \
    CAPTURE(message);                                      \
    CHECK(message.find(text) != std::string::npos);        \
  } while (false)
