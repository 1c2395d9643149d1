// Describes the size in which the problems of a chart differ.
#pragma once

#include <string>

namespace ptxbuilder::bench {

// The axis of a chart. Problems that differ in only one size form a line over that size.
struct Axis {
  std::string rest;   // the sizes that the problems share, such as "7296 x 256 x K"
  std::string value;  // the value of the size, such as "512"
  const char* name;   // the name of the size, such as "K"
  const char* all;    // the form of size_text() if problems differ in more than one size, such as "M x N x K"
  bool splits;        // whether each `rest` has a separate chart; otherwise all problems share a chart
};

}  // namespace ptxbuilder::bench
