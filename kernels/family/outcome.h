// A command's outcome: its exit code, and its error message.
#pragma once

#include <exception>
#include <functional>

namespace ptxbuilder::command {

enum class Outcome : int { good = 0, failed = 1, usage = 2, wrong_result = 3, timed_out = 4 };

// Returns the outcome of a command that throws `e`.
Outcome outcome_of(const std::exception& e);

// Returns the exit code that `body` returns. An exception is printed to standard error in one line; HelpAsked
// is printed as help; and a failure to write standard output is an error. `names_places` is read only after a
// failure. If it is true, the message names a line of C++: a kernel's error names a line of its author's
// code, but the errors of other commands would name a line of the library, which means nothing to the user of
// the command.
int guarded(const std::function<int()>& body, const bool& names_places);

}  // namespace ptxbuilder::command
