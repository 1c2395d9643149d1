// Maps the lines of a PTX text to the C++ lines that made them, using its `.loc` and `.file` directives.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder {

// A line of the source from which PTX was made.
struct SourceLine {
  std::string file;   // as the `.file` directive spells it
  unsigned line = 0;  // 0: unknown

  explicit operator bool() const { return line != 0; }
  bool operator==(const SourceLine&) const = default;
};

std::string to_string(const SourceLine& source);  // "gemm.cpp:41", without the folders

// The lines of C++ that the lines of a PTX text come from.
class LineMap {
 public:
  explicit LineMap(std::string_view ptx);
  LineMap(const LineMap&) = delete;  // lines_ points into text_
  LineMap& operator=(const LineMap&) = delete;

  // Returns the nearest `.loc` at or before `ptx_line` (counted from 1) in the same function (PTX ISA,
  // "Debugging Directives: .loc"); an unknown line if there is none.
  SourceLine at(int ptx_line) const;

  // Returns the PTX line of the first instruction in `function` whose opcode is `opcode` or continues it
  // after a dot, such as "wgmma.mma_async"; 0 when there is none. An empty `function` means any.
  int first(std::string_view function, std::string_view opcode) const;

  const std::string& first_entry() const { return first_entry_; }  // the name of the first `.entry`, or ""

 private:
  struct Line {
    std::string_view text;  // without comments; points into text_
    int function = -1;      // index into functions_; -1 outside all functions
    int file = 0;           // of the `.loc` in force, 0 when there is none
    unsigned line = 0;
  };

  std::string text_;                    // the PTX text with its comments blanked out
  std::vector<Line> lines_;             // lines_[0] is PTX line 1
  std::vector<std::string> functions_;  // names, in order
  std::map<int, std::string> files_;    // the `.file` table
  std::string first_entry_;
};

}  // namespace ptxbuilder
