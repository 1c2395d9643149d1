#include "kernels/family/outcome.h"

#include <fmt/format.h>

#include "kernels/family/command_line.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::command {
namespace {

int run_or_help(const std::function<int()>& body) {
  try {
    return body();
  } catch (const HelpAsked& help) {
    fmt::print("{}", help.text);
    return static_cast<int>(Outcome::good);
  }
}

}  // namespace

Outcome outcome_of(const std::exception& e) {
  if (dynamic_cast<const UsageError*>(&e)) return Outcome::usage;
  if (dynamic_cast<const runtime::TimeoutError*>(&e)) return Outcome::timed_out;
  const auto* emulator = dynamic_cast<const runtime::EmulatorError*>(&e);
  return emulator && emulator->fault() == runtime::Fault::time_limit ? Outcome::timed_out : Outcome::failed;
}

int guarded(const std::function<int()>& body, const bool& names_places) {
  try {
    const int code = run_or_help(body);
    if (code == 0) flush_output();  // if the code is not 0, the command has already failed
    return code;
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", names_places ? std::string(e.what()) : without_place(e));
    return static_cast<int>(outcome_of(e));
  }
}

}  // namespace ptxbuilder::command
