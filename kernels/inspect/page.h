// Functions for the pages of `ptxb diff --html` and of `ptxb explain --html`. Each page is a single
// self-contained file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::command {

std::string escaped(std::string_view text);

// Returns the class that determines how an instruction is drawn, such as "tensor"; "" for arithmetic.
std::string_view class_of(const analysis::Operation& o);

// Returns a drawing with a line for each role and, for each array of barriers, an arrow from the role that
// fills a phase to the role that waits for it.
std::string drawing(const analysis::KernelAnalysis& kernel);
constexpr std::string_view arrows_explained =
    "<p class=dim>An arrow runs from the role that fills a phase (round) to the role that waits for it "
    "(square); across the cluster it is dashed.</p>\n";

// Returns the operations of a loop that are not arithmetic, in order.
std::vector<int> marked(const analysis::KernelAnalysis& kernel, const analysis::Mainloop& loop);
// Returns the PTX of a loop. The anchor of a line consists of the letter and the line's number. `pair_of`, if
// not null, assigns a number to each operation that has a counterpart in the other column.
std::string lines(const analysis::KernelAnalysis& kernel, const std::string& ptx, char letter,
                  const analysis::Mainloop& loop, const std::map<int, int>* pair_of = nullptr);
constexpr std::string_view colours_explained =
    "<span class=tensor>tensor core</span> <span class=copy>copy</span> <span class=barrier>mbarrier</span> "
    "<span class=order>order</span> <span class=memory>memory</span>.";
std::string role_of(const analysis::KernelAnalysis& kernel, const analysis::Mainloop& loop);

// Returns the complete page; `body` is HTML, and the other parameters are plain text.
std::string page(const std::string& title, const std::string& heading, const std::string& body);

}  // namespace ptxbuilder::command
