// Reads the messages of ptxas, or of the driver's JIT, about a PTX text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/compile/line_map.h"

namespace ptxbuilder {

// The severity that ptxas gives a message.
enum class Severity : uint8_t { info, warning, error, fatal };

std::string_view name(Severity);  // "info", "warning", "error", "fatal"

// A message of ptxas.
struct Note {
  Severity severity = Severity::info;
  std::string code;      // "C7510" as ptxas 13.0 numbers it (see find_advisory); "" when the message has none
  std::string text;      // as ptxas wrote it
  std::string function;  // "" if the message does not name one
  int ptx_line = 0;      // counted from 1; 0 when unknown
  SourceLine source;     // the C++ line that made ptx_line
  std::string
      opcode;  // set when ptxas gave no line: then ptx_line is the first such instruction of the function
  std::string explanation;  // the cause and the remedy; "" if the message is unknown
  int count = 1;            // how often ptxas gave the message for this C++ line
};

// The resources that one function uses, from the lines that `ptxas -v` prints.
struct FunctionUse {
  std::string name;
  bool entry = false;
  uint32_t registers = 0;  // per thread; of entries only
  uint32_t barriers = 0;   // named barriers, of entries only
  uint32_t stack_bytes = 0;
  uint32_t spill_store_bytes = 0;
  uint32_t spill_load_bytes = 0;
  uint32_t shared_bytes = 0;  // static
};

// All messages and resource uses that ptxas reported for one text.
struct Notes {
  std::vector<Note>
      messages;  // with duplicates collapsed, in the order of their first occurrence; without the statistics
  std::vector<FunctionUse> functions;

  std::string entry() const;     // the name of the first entry that was compiled, or ""
  bool failed() const;           // there is an error or a fatal message
  uint32_t registers() const;    // the most that an entry uses
  uint32_t spill_bytes() const;  // stores and loads of all functions
  uint32_t stack_bytes() const;  // the deepest frame
};

// `log` is the text that ptxas wrote to standard error, or the driver to CU_JIT_INFO_LOG_BUFFER and
// CU_JIT_ERROR_LOG_BUFFER; `ptx` is the text that it compiled, from which the C++ lines are taken.
Notes parse_notes(std::string_view log, std::string_view ptx);

// "ptxas error at gemm.cpp:41: <text> (PTX line 812). <explanation>"
std::string to_string(const Note& note);

// Something that costs a kernel its speed: a C75xx advisory, spilled registers, or a stack.
struct Cost {
  std::string waiver;  // the name with which a kernel waives it
  std::string text;    // its line, its cause and what to do, as sentences
};
std::vector<Cost> costs_of(const Notes& notes);

// Returns the names that check() accepts in `waived`: the codes C7504 to C7520, "spills", "stack", and the
// names of defects of ptxas (defects.h), which check() does not report.
std::vector<std::string> waiver_names();

// Throws Error unless all costs_of() the notes are waived. The error lists each cost with the name that
// waives it. Also throws when a name in `waived` is neither one of waiver_names() nor a code in `notes`.
void check(const Notes& notes, std::span<const std::string> waived = {});

}  // namespace ptxbuilder
