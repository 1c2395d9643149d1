// What the kernels of a PTX text ask of a launch, for who has no sidecar of them.
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
  std::optional<Dim3> block;        // .reqntid
  std::optional<uint32_t> threads;  // the most there may be: .maxntid
  std::optional<Dim3> cluster;      // .reqnctapercluster
};

// In the order of the text. Throws Error "ptx LINE:COLUMN: ..." where it is no PTX.
std::vector<Entry> entries(const std::string& ptx);

}  // namespace ptxbuilder::runtime
