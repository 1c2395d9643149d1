// Says how a command ends: its exit code, and what it says of a failure.
#pragma once

#include <exception>
#include <functional>

namespace ptxbuilder::command {

enum class Outcome : int { good = 0, failed = 1, usage = 2, wrong_result = 3, timed_out = 4 };

// The outcome of a command that throws `e`.
Outcome outcome_of(const std::exception& e);

// The exit code of what `body` does, which returns one. What it throws goes to standard error in a line;
// HelpAsked is help, and standard output that could not be written a failure. `names_places`, when it fails:
// of a kernel, an error names its author's line; of other commands it would be one of the library's own,
// which says nothing to who typed the words.
int guarded(const std::function<int()>& body, const bool& names_places);

}  // namespace ptxbuilder::command
