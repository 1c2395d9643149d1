// Compares two kernels by their behavior: lists the differences in meaning, the most serious first, with
// possible costs.
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/analysis/regions.h"

namespace ptxbuilder::analysis {

struct Difference {
  Weight weight;
  std::string region, event;  // "loop of consumer", "wgmma"
  std::string attribute;      // "" if the other kernel has the event
  std::string a, b;           // the values in A and B; "" for nothing
  std::string effect;
  uint32_t line_a = 0, line_b = 0;
  bool is_fact = false;  // of the kernel's design
};

// Returns the differences, the most serious first, and among equally serious ones the facts first. Regions
// are matched by their names, and their events in order.
std::vector<Difference> diff(const std::vector<Region>& a, const std::vector<Region>& b);

// "loop of consumer: wgmma: 4 in A (line 12), 3 in B (line 14): ..."
std::string text(const Difference& difference);

// Prints all differences under headings of their weights. Repeated differences of one kind are only counted,
// and if there are facts and many other differences, the latter are counted by region: `all` prints each one.
std::string report(const std::vector<Difference>& differences, bool all = false);

}  // namespace ptxbuilder::analysis
