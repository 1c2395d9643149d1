// Finds out what the kernels of a PTX module require from a launch, for users who have no sidecar.
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
  std::optional<uint32_t> threads;   // .maxntid: the largest number of threads
  std::optional<Dim3> cluster;       // .reqnctapercluster
  uint64_t static_shared_bytes = 0;  // variables of the kernel and of the module
  bool dynamic_shared = false;       // whether there is an .extern .shared
};

// Returns the kernels in the order in which `ptx` defines them. Throws an Error "ptx LINE:COLUMN: ..." if
// `ptx` is not valid PTX.
std::vector<Entry> entries(const std::string& ptx);

// Throws an Error unless the kernel of `edited` can be launched like that of `original`: it must have the
// same name, parameters, threads, cluster, and kinds of shared memory. The error names the difference with
// both values.
void check_replaces(const std::string& edited, const std::string& original, const std::string& kernel);

}  // namespace ptxbuilder::runtime
