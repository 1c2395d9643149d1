// Makes a checked cubin of PTX text: ptxas, its messages and the cache together.
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

// A cubin, and what is known of it.
struct Assembled {
  std::string cubin;  // an ELF file
  std::string log;    // ptxas's own words
  Notes notes;
  uint32_t registers = 0;    // per thread, of the entry that uses most
  uint32_t spill_bytes = 0;  // stored and loaded
  uint32_t stack_bytes = 0;
  std::vector<PossibleDefect> defects;  // of this ptxas, that the text has the instruction for and no waiver
  bool from_cache = false;
  std::string
      cache_problem;  // why the result could not be stored; "" when it was, or when no cache was asked for
  double milliseconds = 0;  // of this call
};

// The options of assemble().
struct AssembleOptions {
  PtxasOptions ptxas;
  std::vector<std::string> waived;  // see check() and waiver_names(); no part of the cache's key
  // It gets what ptxas made before check() may refuse it.
  std::function<void(const Assembled&)> made = nullptr;
};

// Throws Error when ptxas rejects the text, and when check() does. `cache` may be null. A cache that cannot
// be written is no error: see cache_problem. Safe from many threads at once, with one `ptxas` and one
// `cache`.
Assembled assemble(const Ptxas& ptxas, Cache* cache, const std::string& ptx,
                   const AssembleOptions& options = {});

// One text of those that are assembled at once.
struct AssembleJob {
  std::string ptx;
  AssembleOptions options;
};

// Assembles all jobs, `threads` at a time (0: as many as the machine has). The results are in the order of
// the jobs, and each is what assemble() returned or threw.
std::vector<std::variant<Assembled, Error>> try_assemble_all(const Ptxas& ptxas, Cache* cache,
                                                             std::span<const AssembleJob> jobs,
                                                             unsigned threads = 0);

// This is for callers who need all results: throws one Error that tells every failure.
std::vector<Assembled> assemble_all(const Ptxas& ptxas, Cache* cache, std::span<const AssembleJob> jobs,
                                    unsigned threads = 0);

}  // namespace ptxbuilder
