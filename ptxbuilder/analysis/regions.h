// Describes a kernel's behaviour, region by region, in a form that allows comparing two kernels.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {

// The aspects in which two kernels may differ, the most serious first.
enum class Weight : uint8_t {
  result,     // what is computed, or whether results can be read yet
  protocol,   // which warps wait for which others
  pipeline,   // how much work is in flight at once
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
  std::string effect = {};          // effect if the other kernel does not have the event
  uint32_t line = 0;                // in the PTX; 0 if none
  std::string_view any_order = {};  // a word that neighbouring events share if their order does not matter
  uint64_t exact = 0;               // hash of everything that the event reads, and of its conditions
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
