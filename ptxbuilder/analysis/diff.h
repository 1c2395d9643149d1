// Two kernels compared by what they do: what differs in meaning, the gravest first, with what it may cost.
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/analysis/regions.h"

namespace ptxbuilder::analysis {

struct Difference {
  Weight weight;
  std::string region, event;  // "loop of consumer", "wgmma"
  std::string attribute;      // "" where one kernel has no such event
  std::string a, b;           // what they have; "" for nothing
  std::string effect;
  uint32_t line_a = 0, line_b = 0;
  bool is_fact = false;  // of the kernel's design
};

// The differences, the gravest first, and of these the facts. Regions are held against each other by name,
// and their events in order.
std::vector<Difference> diff(const std::vector<Region>& a, const std::vector<Region>& b);

// "loop of consumer: wgmma: 4 in A (line 12), 3 in B (line 14): ..."
std::string text(const Difference& difference);

// This prints all of them below their weights. What differs in the same way as another is counted there, and
// where there are facts and many other differences, these are counted by region: `all` tells each.
std::string report(const std::vector<Difference>& differences, bool all = false);

}  // namespace ptxbuilder::analysis
