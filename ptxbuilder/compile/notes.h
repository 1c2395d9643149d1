// Reads the messages of ptxas, or of the driver's JIT, about PTX text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/line_map.h"

namespace ptxbuilder {

// The severity of a message.
enum class Severity : uint8_t { info, warning, error, fatal };

std::string_view name(Severity);  // "info", "warning", "error", "fatal"

// A message of ptxas.
struct Note {
  Severity severity = Severity::info;
  std::string code;  // "C7510", numbered as in ptxas 13.0 (see find_advisory); "" if the message has no code
  std::string text;  // as ptxas printed it
  std::string function;     // "" if the message does not name a function
  int ptx_line = 0;         // counted from 1; 0 if unknown
  SourceLine source;        // C++ line that emitted ptx_line
  std::string opcode;       // set if ptxas did not state a line; ptx_line is then the function's first
                            // instruction with this opcode
  std::string explanation;  // cause and remedy; "" if the message is unknown
  int count = 1;            // number of times that ptxas printed the message for this C++ line
};

// The resources that one function uses, as `ptxas -v` prints them.
struct FunctionUse {
  std::string name;
  bool entry = false;
  uint32_t registers = 0;  // registers of a thread; only for entries
  uint32_t barriers = 0;   // number of named barriers; only for entries
  uint32_t stack_bytes = 0;
  uint32_t spill_store_bytes = 0;
  uint32_t spill_load_bytes = 0;
  uint32_t shared_bytes = 0;  // bytes of static shared memory
};

// All messages and resource uses that ptxas reported for one PTX text.
struct Notes {
  std::vector<Note> messages;  // in the order of first occurrence, without duplicates and statistics
  std::vector<FunctionUse> functions;

  std::string entry() const;     // returns the name of the first compiled entry, or ""
  bool failed() const;           // returns whether there is an error or a fatal message
  uint32_t registers() const;    // returns the greatest number of any entry
  uint32_t spill_bytes() const;  // returns the bytes of spill stores and loads in all functions
  uint32_t stack_bytes() const;  // returns the size of the largest stack frame
};

// Parses the messages in `log`. ptxas writes them to standard error, and the driver to CU_JIT_INFO_LOG_BUFFER
// and CU_JIT_ERROR_LOG_BUFFER. `ptx` is the text that was compiled, and its `.loc` directives yield the C++
// lines.
Notes parse_notes(std::string_view log, std::string_view ptx);

// Returns a string such as "ptxas error at gemm.cpp:41: <text> (PTX line 812). <explanation>".
std::string to_string(const Note& note);

// A cause of slow code: a C75xx advisory, spilled registers, or a stack.
struct Cost {
  std::string waiver;  // name that a kernel states to waive the cost
  std::string text;    // sentences that state the line, the cause and the remedy
};
std::vector<Cost> costs_of(const Notes& notes);

// Returns the names that check() accepts in `waived`: the codes C7504 to C7520, "spills", "stack", and the
// names of ptxas's defects (defects.h). check() does not report defects, but accepts their names.
std::vector<std::string> waiver_names();

// Throws an Error that lists each of costs_of(notes) that is not waived, with the name that waives it. Also
// throws Error if a name in `waived` is neither in waiver_names() nor a code in `notes`.
void check(const Notes& notes, std::span<const std::string> waived = {});

}  // namespace ptxbuilder
