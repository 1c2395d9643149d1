// Makes the parts of a pipeline that its loading side and its computing side share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/tile/block_spec.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::detail {

inline constexpr int kOutputStages = 2;  // threads write one stage while TMA stores the other

// Returns whether the code that is being emitted is in a role.
bool in_role();

// The parts of a pipeline that both sides share. These parts are made before the roles.
struct PipelineParts {
  // A group of inputs that are loaded and handed back together.
  struct Ring {
    int delay, stages;
    bool fixed;
    std::vector<size_t> inputs;
    std::unique_ptr<Pipeline> pipe;
  };

  PipelineParts(Kernel& kernel, std::string operation, std::vector<BlockSpec> in, std::vector<BlockSpec> out,
                int stages, int load_threads, int compute_warpgroups, bool of_tiles, bool manual_release);

  std::string operation;
  Where where = Where::here();  // source line of the author's call
  int load_threads;             // number of threads that load inputs; 0 if one thread loads them with TMA
  int compute_warpgroups;
  std::vector<BlockCopy> inputs, outputs;
  std::vector<Ring> rings;
  std::vector<size_t> ring_of;          // index in `rings` of each input's ring
  std::optional<NamedBarrier> meeting;  // set if a role has several warpgroups
};

}  // namespace ptxbuilder::detail
