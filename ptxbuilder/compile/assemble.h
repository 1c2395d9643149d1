// Makes a checked cubin from PTX text: combines ptxas, its messages and the cache.
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

// A cubin and the facts about it.
struct Assembled {
  std::string cubin;  // an ELF file
  std::string log;    // the output of ptxas
  Notes notes;
  uint32_t registers = 0;    // per thread, of the entry that uses most
  uint32_t spill_bytes = 0;  // stored and loaded
  uint32_t stack_bytes = 0;
  std::vector<PossibleDefect>
      defects;  // of this ptxas, if the text has the instruction and does not waive the defect
  bool from_cache = false;
  std::string
      cache_problem;  // why the result could not be stored; "" if it was stored, or if there is no cache
  double milliseconds = 0;  // of this call
};

// The options of assemble().
struct AssembleOptions {
  PtxasOptions ptxas;
  std::vector<std::string> waived;  // see check() and waiver_names(); not part of the cache's key
  // Receives the result of ptxas before check() can reject it.
  std::function<void(const Assembled&)> made = nullptr;
};

// Throws Error when ptxas or check() rejects the text. `cache` may be null. An unwritable
// cache is not an error: see cache_problem. Safe from many threads at once, with one `ptxas` and one
// `cache`.
Assembled assemble(const Ptxas& ptxas, Cache* cache, const std::string& ptx,
                   const AssembleOptions& options = {});

// One of several texts to assemble.
struct AssembleJob {
  std::string ptx;
  AssembleOptions options;
};

// Assembles all jobs, `threads` at a time (0: all threads of the machine). The results are in the order of
// the jobs; each is what assemble() returned or threw.
std::vector<std::variant<Assembled, Error>> try_assemble_all(const Ptxas& ptxas, Cache* cache,
                                                             std::span<const AssembleJob> jobs,
                                                             unsigned threads = 0);

// Returns all results, or throws one Error that lists every failure.
std::vector<Assembled> assemble_all(const Ptxas& ptxas, Cache* cache, std::span<const AssembleJob> jobs,
                                    unsigned threads = 0);

}  // namespace ptxbuilder
