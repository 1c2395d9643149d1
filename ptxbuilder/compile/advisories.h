// Explains the messages of ptxas, and suggests remedies.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ptxbuilder/error.h"  // reports a missing -std=c++20

namespace ptxbuilder {

// The version of ptxas, as `ptxas --version` prints it.
struct PtxasVersion {
  int major = 0, minor = 0, build = 0;  // 13.0.88

  auto operator<=>(const PtxasVersion&) const = default;
};

std::string to_string(PtxasVersion version);  // "13.0.88"

// A message of ptxas that needs an explanation.
struct Advisory {
  std::string_view code;    // "C7510", which a kernel states to permit the message; "" for messages without a
                            // code
  std::string_view phrase;  // part of the message that occurs in no other message
  std::string_view opcode;  // instruction that causes the message, if ptxas may omit the line; otherwise ""
  std::string_view explanation;  // cause and remedy
};

// Returns the advisory whose phrase occurs in `message`, or null. Messages are identified by their words
// because codes differ between versions. For example, C7519 reports an injected arrive in ptxas 13.0, but a
// divergent path in 13.5; 13.0 reports a divergent path as C7520. `code` is the code of ptxas 13.0.
const Advisory* find_advisory(std::string_view message);

// Returns all messages that have an explanation.
std::span<const Advisory> advisories();

}  // namespace ptxbuilder
