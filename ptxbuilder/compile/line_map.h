// Maps the lines of PTX text to the C++ lines that emitted them, using the `.loc` and `.file` directives of
// the text.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder {

// A line of the source code from which PTX was generated.
struct SourceLine {
  std::string file;   // as spelled in the `.file` directive
  unsigned line = 0;  // 0 if unknown

  explicit operator bool() const { return line != 0; }
  bool operator==(const SourceLine&) const = default;
};

std::string to_string(const SourceLine& source);  // "gemm.cpp:41", without folders

// The C++ line for each line of PTX text.
class LineMap {
 public:
  explicit LineMap(std::string_view ptx);
  LineMap(const LineMap&) = delete;  // lines_ points into text_
  LineMap& operator=(const LineMap&) = delete;

  // Returns the line of the nearest `.loc` at or before `ptx_line` (counted from 1) in the same function (PTX
  // ISA, "Debugging Directives: .loc"), or an unknown line if there is none.
  SourceLine at(int ptx_line) const;

  // Returns the PTX line of the first instruction in `function` whose opcode is `opcode`, such as
  // "wgmma.mma_async", or begins with `opcode` and a dot. Returns 0 if there is none. If `function` is empty,
  // searches all functions.
  int first(std::string_view function, std::string_view opcode) const;

  const std::string& first_entry() const { return first_entry_; }  // name of the first `.entry`, or ""

 private:
  struct Line {
    std::string_view text;  // without comments; points into text_
    int function = -1;      // index into functions_; -1 outside all functions
    int file = 0;           // number of the file in the current `.loc`; 0 if there is none
    unsigned line = 0;
  };

  std::string text_;                    // the PTX text, with its comments replaced by blanks
  std::vector<Line> lines_;             // lines_[0] is PTX line 1
  std::vector<std::string> functions_;  // names, in the order of the text
  std::map<int, std::string> files_;    // files of the `.file` directives, indexed by number
  std::string first_entry_;
};

}  // namespace ptxbuilder
