// Describes the behaviour of each region of a kernel, in a form in which two kernels can be compared.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {

// The aspects in which two kernels may differ, the most serious first.
enum class Weight : uint8_t {
  result,     // the computed results, or the time at which results can be read
  protocol,   // the warps that wait, and the warps for which they wait
  pipeline,   // the amount of work in flight at the same time
  resources,  // registers, threads, shared memory
  detail      // instructions outside the loops
};
std::string_view name(Weight weight);

// An action in a region. It has a kind, such as "wgmma" or "wait", and attributes.
struct Event {
  struct Attribute {
    Weight weight;
    std::string name, value;  // such as "bytes" and "49152"
    std::string effect = {};  // effect of a different value
  };
  std::string kind;
  Weight weight;  // weight of the difference if the other kernel does not have the event
  std::vector<Attribute> attributes = {};
  std::string effect = {};  // effect if the other kernel does not have the event
  uint32_t line = 0;        // in the PTX; 0 if none
  // A word that neighbouring events have in common if their order has no effect.
  std::string_view any_order = {};
  uint64_t exact = 0;  // hash of all values that the event reads, and of its conditions
};

// A loop of a role, or the code of a role outside its loops, with its events in order. A region may also hold
// facts.
struct Region {
  std::string name;
  std::vector<Event> events;
  bool is_fact = false;
  std::map<std::string, int> mnemonics = {};  // number of instructions with each mnemonic
  uint64_t exact = 0;                         // hash of the values that the region extends to more bits
};

// Returns all regions of a kernel, facts first, without the names of registers, labels and parameters.
std::vector<Region> regions(KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis
