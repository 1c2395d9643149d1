// Two kernels held against each other, as `ptxb diff` and `ptxb run --ptx` tell it.
#pragma once

#include <string>

namespace ptxbuilder::command {

// A kernel of a PTX text; `from` is what errors call it. An empty name means the only kernel.
struct KernelText {
  std::string from, ptx, kernel;
};

struct Comparison {
  size_t differences = 0;
  std::string text;  // under headings by weight; or that there is none
  std::string json;  // {"facts": [...], "differences": [...]}: of the design, and others
};

// `all`: each difference, where many of a kind would be counted. Throws Error that begins with the `from` of
// the one that cannot be read.
Comparison compare(const KernelText& a, const KernelText& b, bool all = false);

}  // namespace ptxbuilder::command
