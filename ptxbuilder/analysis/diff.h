// Compares the behaviour of two kernels: lists the differences in meaning, the most serious first, with their
// likely effects.
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
  bool is_fact = false;  // whether the difference concerns a fact of the kernel's design
};

// Returns the differences, the most serious first, and facts before other differences of the same weight.
// Regions are matched by their names, and their events in order.
std::vector<Difference> diff(const std::vector<Region>& a, const std::vector<Region>& b);

// Returns a text such as "loop of consumer: wgmma: 4 in A (line 12), 3 in B (line 14): ...".
std::string text(const Difference& difference);

// Returns all differences under headings for their weights. Repeated differences of one kind are only
// counted. If there are facts and many other differences, only the number of other differences in each region
// is printed. If `all`, every difference is printed.
std::string report(const std::vector<Difference>& differences, bool all = false);

}  // namespace ptxbuilder::analysis
