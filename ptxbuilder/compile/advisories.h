// Explains the messages of ptxas, and states what to do about them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ptxbuilder/error.h"  // which reports that C++20 is needed

namespace ptxbuilder {

// The version that `ptxas --version` prints.
struct PtxasVersion {
  int major = 0, minor = 0, build = 0;  // 13.0.88

  auto operator<=>(const PtxasVersion&) const = default;
};

std::string to_string(PtxasVersion version);  // "13.0.88"

// A message of ptxas that needs to be explained.
struct Advisory {
  std::string_view code;         // "C7510", with which a kernel allows it; "" for messages without a code
  std::string_view phrase;       // a part of the message that does not occur in other messages
  std::string_view opcode;       // the instruction that it concerns, if ptxas may omit the line; else ""
  std::string_view explanation;  // the cause and the remedy
};

// The row whose phrase is in `message`, or null. Messages are identified by their words because their codes
// change: C7519 is an injected arrive in ptxas 13.0 and a divergent path, which 13.0 calls C7520, in 13.5.
// `code` is the code of 13.0.
const Advisory* find_advisory(std::string_view message);

// Returns all messages that are explained.
std::span<const Advisory> advisories();

}  // namespace ptxbuilder
