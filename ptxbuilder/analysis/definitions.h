// Finds the instruction whose result a register holds, or the point where paths with different results meet:
// static single assignment form, without a name for each value.
#pragma once

#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// The definition of a register: the instruction whose result it holds, or the meet at the start of a block.
struct Definition {
  enum class Kind : uint8_t { unwritten, result, meet };

  Kind kind = Kind::unwritten;
  int number = kNone;  // of the instruction, or of the meet

  bool operator==(const Definition&) const = default;
};

class Definitions {
 public:
  // A block at whose start a register may hold the results of several instructions, and is read later.
  struct Meet {
    int block, reg;
  };

  // Takes time proportional to the number of instructions, of meets, and of blocks in which a register with
  // several writers is needed. `code` and `graph` must outlive this object.
  Definitions(const Code& code, const Graph& graph);

  // Return what a register holds before an instruction, and at the end of a block. In unreachable code, every
  // register is unwritten.
  Definition before(int operation, int reg) const;
  Definition behind(int block, int reg) const;

  const std::vector<Meet>& meets() const { return meets_; }

 private:
  // Returns what a register holds at the end of the blocks from this place in the dominators' order on.
  struct Change {
    int place;
    Definition at_end;
  };
  // The definitions that begin in a block.
  struct Start {
    int block, meet;
  };
  struct Register {
    std::vector<int> writers = {};  // instructions, ascending
    std::vector<Start> meets = {};  // ascending by block
    std::vector<Change> changes = {};
  };

  void find_uses();
  void find_meets(int reg);
  void find_changes(int reg);
  bool is_single(int reg) const;
  const int* writer_in(int reg, int block, int before) const;
  Definition at_start(int block, int reg) const;

  const Code& code_;
  const Graph& graph_;
  std::vector<Register> registers_;
  std::vector<Meet> meets_;
  std::vector<std::vector<int>> uses_;  // of each register, the blocks that read its value from before them
  std::vector<std::vector<int>> frontier_;  // of each block, its dominance frontier
  std::vector<int> live_, met_;  // by block, the last register that is live, and the last that meets there
};

}  // namespace ptxbuilder::analysis
