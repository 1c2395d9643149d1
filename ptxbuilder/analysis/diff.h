// Compares the behaviour of two kernels, and lists the differences in meaning with their likely effects, the
// most serious first.
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/analysis/regions.h"

namespace ptxbuilder::analysis {

struct Difference {
  Weight weight;
  std::string region, event;  // "loop of consumer", "wgmma"
  std::string attribute;      // "" if the other kernel does not have the event
  std::string a, b;           // values in A and B; "" if there is none
  std::string effect;
  uint32_t line_a = 0, line_b = 0;
  bool is_fact = false;  // true if the difference concerns a fact of the kernel's design
};

// Returns the differences, sorted by decreasing weight, with facts before other differences of the same
// weight. Regions are matched by name, and the events of matching regions in order.
std::vector<Difference> diff(const std::vector<Region>& a, const std::vector<Region>& b);

// Returns a string such as "loop of consumer: wgmma: 4 in A (line 12), 3 in B (line 14): ...".
std::string text(const Difference& difference);

// Returns all differences under headings for their weights. Repeated differences of the same kind are counted
// instead of listed. If there are facts and many other differences, only the number of other differences in
// each region is printed. If `all` is true, every difference is printed.
std::string report(const std::vector<Difference>& differences, bool all = false);

}  // namespace ptxbuilder::analysis
