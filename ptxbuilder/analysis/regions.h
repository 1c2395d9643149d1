// Describes what a kernel does, region by region, in a form in which two kernels can be compared.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {

// Another kernel may do these things otherwise, the gravest first.
enum class Weight : uint8_t {
  result,     // what is computed, or whether it may be read yet
  protocol,   // who waits for whom
  pipeline,   // how much is under way at once
  resources,  // registers, threads, shared memory
  detail      // instructions outside of the loops
};
std::string_view name(Weight weight);

// Something that a region does, by its kind ("wgmma", "wait") and what else is to be said of it.
struct Event {
  struct Attribute {
    Weight weight;
    std::string name, value;  // "bytes", "49152"
    std::string effect = {};  // of another value
  };
  std::string kind;
  Weight weight;  // of the whole, where the other kernel has none
  std::vector<Attribute> attributes = {};
  std::string effect = {};          // where the other kernel has none
  uint32_t line = 0;                // of the PTX; 0: none
  std::string_view any_order = {};  // of neighbours with the same word the order does not matter
  uint64_t exact = 0;               // all that it reads and the conditions under which it runs
};

// A role's loop, or a role outside of its loops: what is in it in order. Or facts of one kind.
struct Region {
  std::string name;
  std::vector<Event> events;
  bool is_fact = false;
  std::map<std::string, int> mnemonics = {};  // how often each is in it
  uint64_t exact = 0;                         // of what it extends to more bits, and how
};

// All of a kernel, its facts first, without names of registers, labels and parameters.
std::vector<Region> regions(KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis
