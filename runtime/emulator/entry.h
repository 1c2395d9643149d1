// Reads what the kernels of a PTX text require of a launch, for users without a sidecar for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace ptxbuilder::runtime {

struct EntryParameter {
  std::string name;
  uint32_t bytes = 0, align = 1;
};

// One .entry of a module.
struct Entry {
  std::string name;
  std::vector<EntryParameter> parameters;
  std::optional<Dim3> block;         // .reqntid
  std::optional<uint32_t> threads;   // the largest allowed number: .maxntid
  std::optional<Dim3> cluster;       // .reqnctapercluster
  uint64_t static_shared_bytes = 0;  // of its own variables and the module's
  bool dynamic_shared = false;       // whether there is an .extern .shared
};

// Returns the kernels in the order of the text. Throws Error "ptx LINE:COLUMN: ..." if it is not PTX.
std::vector<Entry> entries(const std::string& ptx);

// Throws Error unless the kernel of `edited` requires the same of a launch as that of `original`, so that it
// can run in its place: the same name, parameters, threads, cluster, and kinds of shared memory. The error
// names the difference, with both values.
void check_replaces(const std::string& edited, const std::string& original, const std::string& kernel);

}  // namespace ptxbuilder::runtime
