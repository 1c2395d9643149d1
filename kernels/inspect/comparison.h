// Compares two kernels, for `ptxb diff` and `ptxb run --ptx`.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

// A kernel in PTX text. Errors refer to the text as `from`. If `kernel` is empty, the text must have only one
// kernel.
struct KernelText {
  std::string from, ptx, kernel;
};

// A kernel in a cubin. Errors refer to the cubin as `from`. If `kernel` is empty, the cubin must have only
// one kernel.
struct KernelCubin {
  std::string from, cubin, kernel;
};

struct Comparison {
  size_t differences = 0;
  std::string text;  // the differences under headings by importance, or a sentence that there are none
  std::string json;  // a JSON object with "facts" of the design, other "differences", and the contents of
                     // each side
  std::string page;  // an HTML page, if requested
};

// Options of the output. By default, the text contains only the most important differences.
struct Telling {
  bool all = false;     // list every difference, instead of only counting those of frequent kinds
  bool counts = false;  // list how often each mnemonic occurs in each region
  bool page = false;    // write an HTML page that shows both kernels; not available for machine code
};

// Compares two kernels. If a kernel cannot be read, throws an Error that begins with its `from`.
Comparison compare(const KernelText& a, const KernelText& b, const Telling& telling = {});

// Compares machine code literally. The text begins with the properties of the two kernels in two columns.
// `nvdisasm` is the path of the tool, or "" to search for it.
Comparison compare_sass(const KernelCubin& a, const KernelCubin& b, const std::string& nvdisasm,
                        const Telling& telling = {});

// Returns the differences between a kernel's PTX and the PTX in an edited file. This function is a value for
// ExecuteOptions::compare.
EditedDifference compare_edited(const std::string& kernel, const std::string& ptx, const std::string& edited,
                                const std::string& edited_file);

}  // namespace ptxbuilder::command
