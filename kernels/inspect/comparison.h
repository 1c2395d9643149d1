// Compares two kernels, for `ptxb diff` and `ptxb run --ptx`.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

// A kernel in PTX text, which errors call `from`. An empty name means the only kernel.
struct KernelText {
  std::string from, ptx, kernel;
};

// A kernel in a cubin. An empty name means the only kernel.
struct KernelCubin {
  std::string from, cubin, kernel;
};

struct Comparison {
  size_t differences = 0;
  std::string text;  // under headings by weight; or a sentence that says that there are none
  std::string json;  // an object with "facts" of the design, other "differences", and what exists on each
                     // side
  std::string page;  // an HTML page, if requested
};

// Options for the text, which by default contains only the most important differences.
struct Telling {
  bool all = false;     // list each difference, even those of a kind that would only be counted
  bool counts = false;  // list how often each mnemonic occurs in each region
  bool page = false;    // show both kernels in an HTML page; not for machine code
};

// Compares two kernels. Throws Error that begins with the `from` of a kernel that cannot be read.
Comparison compare(const KernelText& a, const KernelText& b, const Telling& telling = {});

// Compares machine code literally; the text begins with both codes in two columns. `nvdisasm` is a file, or
// "" to search for it.
Comparison compare_sass(const KernelCubin& a, const KernelCubin& b, const std::string& nvdisasm,
                        const Telling& telling = {});

// Returns the differences between a kernel's PTX and the PTX in a file that was edited by hand, for
// ExecuteOptions::compare.
EditedDifference compare_edited(const std::string& kernel, const std::string& ptx, const std::string& edited,
                                const std::string& edited_file);

}  // namespace ptxbuilder::command
