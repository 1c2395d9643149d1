// Reads what the kernels of a PTX text ask of a launch, for users without a sidecar of them.
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
  std::optional<uint32_t> threads;   // the most there may be: .maxntid
  std::optional<Dim3> cluster;       // .reqnctapercluster
  uint64_t static_shared_bytes = 0;  // of its own variables and the module's
  bool dynamic_shared = false;       // whether there is an .extern .shared
};

// The kernels are in the order of the text. Throws Error "ptx LINE:COLUMN: ..." where it is no PTX.
std::vector<Entry> entries(const std::string& ptx);

// Throws Error unless the kernel of `edited` asks of a launch what that of `original` does, so that it can
// run in its place: the same name, parameters, threads, cluster, and kinds of shared memory. The error names
// what differs, with both values.
void check_replaces(const std::string& edited, const std::string& original, const std::string& kernel);

}  // namespace ptxbuilder::runtime
