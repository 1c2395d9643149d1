// Compares two kernels, for `ptxb diff` and `ptxb run --ptx`.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

// A kernel in PTX text; errors call it `from`. An empty name means the only kernel.
struct KernelText {
  std::string from, ptx, kernel;
};

// A kernel in a cubin; an empty name means the only one.
struct KernelCubin {
  std::string from, cubin, kernel;
};

struct Comparison {
  size_t differences = 0;
  std::string text;  // under headings by weight; or a sentence that says there are none
  std::string json;  // an object: "facts" of the design, other "differences", and what exists of each
  std::string page;  // of HTML, if requested
};

// The options add to the text, which otherwise has the gravest differences.
struct Telling {
  bool all = false;     // each difference, even if many of a kind would be counted
  bool counts = false;  // how often each mnemonic is in each region
  bool page = false;    // both as a page of HTML; not of machine code
};

// Throws Error that begins with the `from` of the kernel that cannot be read.
Comparison compare(const KernelText& a, const KernelText& b, const Telling& telling = {});

// Compares machine code literally: the text begins with both in two columns. `nvdisasm` is a file, or "" to
// look for it.
Comparison compare_sass(const KernelCubin& a, const KernelCubin& b, const std::string& nvdisasm,
                        const Telling& telling = {});

// Returns the differences between the PTX of a file that was edited by hand and its kernel's PTX, for
// ExecuteOptions::compare.
EditedDifference compare_edited(const std::string& kernel, const std::string& ptx, const std::string& edited,
                                const std::string& edited_file);

}  // namespace ptxbuilder::command
