// Runs another program on text in memory, without a shell or temporary files, and with a time limit.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder {

struct ProcessResult {
  int exit_status = 0;   // exit code, or 128 + the signal that ended the program
  std::string output;    // standard output
  std::string messages;  // standard error
};

// Runs arguments[0], a path, with `input` as its standard input, and waits until it ends. The program may
// also open /dev/stdin and /dev/stdout, and seek in both. Many threads may call this at once. Throws Error if
// the program cannot be started. If the program has not ended after `time_limit`, kills and reaps it, and
// throws Error.
ProcessResult run_process(const std::vector<std::string>& arguments, std::string_view input,
                          std::chrono::milliseconds time_limit);

}  // namespace ptxbuilder
