// The property in which the problems of a chart differ.
#pragma once

#include <string>

namespace ptxbuilder::bench {

// Problems that differ in only one size form a line over that size.
struct Axis {
  std::string rest;   // what the problems share: "7296 x 256 x K"
  std::string value;  // the value of the size: "512"
  const char* name;   // the name of the size: "K"
  const char* all;    // the form of size_text() if problems differ in more than one size: "M x N x K"
  bool splits;        // true if each `rest` has its own chart; otherwise all problems share one
};

}  // namespace ptxbuilder::bench
