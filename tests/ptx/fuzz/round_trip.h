// Checks that any text parses or is refused with an Error, and that parsed text is printed as text that
// parses and prints the same again.
#pragma once

#include <string>

#include "ptxbuilder/error.h"
#include "ptxbuilder/ptx/ptx.h"

namespace ptxbuilder::test {

enum class RoundTrip : uint8_t { refused, same, different };

inline RoundTrip round_trip(const std::string& text) {
  std::string once;
  try {
    once = ptx_text::print(ptx_text::parse(text));
  } catch (const Error&) {
    return RoundTrip::refused;
  }
  try {
    return ptx_text::print(ptx_text::parse(once)) == once ? RoundTrip::same : RoundTrip::different;
  } catch (const Error&) {
    return RoundTrip::different;
  }
}

}  // namespace ptxbuilder::test
