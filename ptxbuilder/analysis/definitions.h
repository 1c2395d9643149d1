// Finds the instruction whose result a register holds, or the point where paths with different results meet:
// static single assignment form, but without a name for each value.
#pragma once

#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// The definition of a register: the instruction whose result it holds, or the meet at the start of a block.
struct Definition {
  enum class Kind : uint8_t { unwritten, result, meet };

  Kind kind = Kind::unwritten;
  int number = kNone;  // number of the instruction, or of the meet

  bool operator==(const Definition&) const = default;
};

class Definitions {
 public:
  // A meet, which SSA form calls a phi function: at the start of a block, a register that is read later may
  // hold the results of several instructions.
  struct Meet {
    int block, reg;
  };

  // Takes time proportional to the number of instructions, of meets, and of blocks in which a register with
  // several writers is needed. `code` and `graph` must outlive this object.
  Definitions(const Code& code, const Graph& graph);

  // Return what a register holds before an instruction, and at the end of a block. In unreachable code, every
  // register counts as unwritten.
  Definition before(int operation, int reg) const;
  Definition behind(int block, int reg) const;

  const std::vector<Meet>& meets() const { return meets_; }

 private:
  // A definition that holds at the ends of blocks, from this position in the dominators' order onwards.
  struct Change {
    int place;
    Definition at_end;
  };
  // The definitions that begin in a block.
  struct Start {
    int block, meet;
  };
  struct Register {
    std::vector<int> writers = {};  // instructions, in ascending order
    std::vector<Start> meets = {};  // in ascending order of blocks
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
  std::vector<std::vector<int>> uses_;      // for each register, the blocks that read a value from previous
                                            // blocks
  std::vector<std::vector<int>> frontier_;  // for each block, its dominance frontier
  std::vector<int> live_, met_;  // by block: the last register that is live there, and the last one that has
                                 // a meet there
};

}  // namespace ptxbuilder::analysis
