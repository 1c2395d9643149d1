// The property that distinguishes the problems of a chart.
#pragma once

#include <string>

namespace ptxbuilder::bench {

// Problems that differ in only one size form a line over it.
struct Axis {
  std::string rest;   // what the problems share: "7296 x 256 x K"
  std::string value;  // the size: "512"
  const char* name;   // the name of the size: "K"
  const char* all;    // the form of size_text(), if problems differ in more: "M x N x K"
  bool splits;        // true if each `rest` has a chart of its own; otherwise all problems share one
};

}  // namespace ptxbuilder::bench
