// A command's outcome: its exit code, and its message about a failure.
#pragma once

#include <exception>
#include <functional>

namespace ptxbuilder::command {

enum class Outcome : int { good = 0, failed = 1, usage = 2, wrong_result = 3, timed_out = 4 };

// Returns the outcome of a command that throws `e`.
Outcome outcome_of(const std::exception& e);

// Returns the exit code that `body` returns. An exception goes to standard error in one line; HelpAsked is
// printed as help, and standard output that could not be written is a failure. `names_places` is read on
// failure: an error of a kernel names a line of its author's code; in other commands it would name a line of
// the library, which means nothing to the user who typed the words.
int guarded(const std::function<int()>& body, const bool& names_places);

}  // namespace ptxbuilder::command
