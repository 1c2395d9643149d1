// Describes a kernel's behaviour, region by region, in a form in which two kernels can be compared.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {

// The aspects in which another kernel may differ, the most serious first.
enum class Weight : uint8_t {
  result,     // what is computed, or whether it can be read yet
  protocol,   // who waits for whom
  pipeline,   // how much work is in flight at once
  resources,  // registers, threads, shared memory
  detail      // instructions outside the loops
};
std::string_view name(Weight weight);

// An action in a region, with its kind ("wgmma", "wait") and its attributes.
struct Event {
  struct Attribute {
    Weight weight;
    std::string name, value;  // "bytes", "49152"
    std::string effect = {};  // effect of a different value
  };
  std::string kind;
  Weight weight;  // weight of the whole event, if the other kernel does not have it
  std::vector<Attribute> attributes = {};
  std::string effect = {};          // effect of the event's absence in the other kernel
  uint32_t line = 0;                // in the PTX; 0 if none
  std::string_view any_order = {};  // word of neighbours whose order does not matter
  uint64_t exact = 0;               // hash of everything that it reads, and of its conditions
};

// A role's loop, or a role outside its loops, with its events in order. A region may also hold facts.
struct Region {
  std::string name;
  std::vector<Event> events;
  bool is_fact = false;
  std::map<std::string, int> mnemonics = {};  // how often the region contains each mnemonic
  uint64_t exact = 0;                         // hash of values that the region extends to more bits
};

// Returns all regions of a kernel, facts first, without the names of registers, labels and parameters.
std::vector<Region> regions(KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis
