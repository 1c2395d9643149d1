// Converts the result of a command to an exit code and an error message.
#pragma once

#include <exception>
#include <functional>

namespace ptxbuilder::command {

enum class Outcome : int { good = 0, failed = 1, usage = 2, wrong_result = 3, timed_out = 4 };

// Returns the outcome of a command that throws `e`.
Outcome outcome_of(const std::exception& e);

// Calls `body` and returns its exit code. For HelpAsked, prints the help; any other exception is printed to
// standard error in one line. A failure to write to standard output is an error. `names_places` is read only
// after a failure. If it is true, the message names a line of C++. This is useful for a kernel's errors,
// which name a line of the author's code; the errors of other commands would name a line of the library,
// which means nothing to the user.
int guarded(const std::function<int()>& body, const bool& names_places);

}  // namespace ptxbuilder::command
