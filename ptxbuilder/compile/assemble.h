// Assembles PTX text to a checked cubin, using ptxas and the cache.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ptxbuilder/compile/cache.h"
#include "ptxbuilder/compile/defects.h"
#include "ptxbuilder/compile/notes.h"
#include "ptxbuilder/compile/ptxas.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder {

// A cubin, and information about it.
struct Assembled {
  std::string cubin;  // an ELF file
  std::string log;    // the output of ptxas
  Notes notes;
  uint32_t registers = 0;    // registers of a thread, in the entry that uses the most registers
  uint32_t spill_bytes = 0;  // bytes of spill stores and loads
  uint32_t stack_bytes = 0;
  std::vector<PossibleDefect>
      defects;  // possible defects of this ptxas (defects.h), except those that `waived` names
  bool from_cache = false;
  std::string cache_problem;  // reason why the result could not be stored; "" if it was stored, or if there
                              // is no cache
  double milliseconds = 0;    // duration of this call
};

// The options of assemble().
struct AssembleOptions {
  PtxasOptions ptxas;
  // Names from waiver_names() that are passed to check(). They are not part of the cache key.
  std::vector<std::string> waived;
  // Receives the result of ptxas before check() can reject it.
  std::function<void(const Assembled&)> made = nullptr;
};

// Assembles a PTX module. Throws an Error if ptxas or check() rejects it. `cache` may be null. A cache that
// cannot be written is not an error, but is reported in cache_problem. Many threads may call this at once
// with one `ptxas` and one `cache`.
Assembled assemble(const Ptxas& ptxas, Cache* cache, const std::string& ptx,
                   const AssembleOptions& options = {});

// One of several PTX modules to assemble.
struct AssembleJob {
  std::string ptx;
  AssembleOptions options;
};

// Assembles all jobs with `threads` threads; 0 means the number of hardware threads. Results are in the order
// of the jobs. Each result is the value that assemble() returned, or the Error that it threw.
std::vector<std::variant<Assembled, Error>> try_assemble_all(const Ptxas& ptxas, Cache* cache,
                                                             std::span<const AssembleJob> jobs,
                                                             unsigned threads = 0);

// Assembles all jobs, and returns their results. If some fail, throws one Error that lists every failure.
std::vector<Assembled> assemble_all(const Ptxas& ptxas, Cache* cache, std::span<const AssembleJob> jobs,
                                    unsigned threads = 0);

}  // namespace ptxbuilder
