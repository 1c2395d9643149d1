// This says how the problems of a chart are distinguished.
#pragma once

#include <string>

namespace ptxbuilder::bench {

// Problems that differ in one size alone stand on a line over it.
struct Axis {
  std::string rest;   // what these have in common: "7296 x 256 x K"
  std::string value;  // the size: "512"
  const char* name;   // what the size is: "K"
  const char* all;    // what size_text() says, where problems differ in more: "M x N x K"
  bool splits;        // whether each `rest` has a chart of its own, or all problems share one
};

}  // namespace ptxbuilder::bench
