// The property that distinguishes the problems of a chart.
#pragma once

#include <string>

namespace ptxbuilder::bench {

// Problems that differ in only one size form a line over it.
struct Axis {
  std::string rest;   // what these have in common: "7296 x 256 x K"
  std::string value;  // the size: "512"
  const char* name;   // what the size is: "K"
  const char* all;    // what size_text() prints, if problems differ in more: "M x N x K"
  bool splits;        // true if each `rest` has a chart of its own; otherwise all problems share one
};

}  // namespace ptxbuilder::bench
