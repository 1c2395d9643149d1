// Finds the instruction whose result a register holds, or the place where paths meet that bring several:
// static single assignment form, without a name for each value.
#pragma once

#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// This is for a register: the instruction whose result it is, or the meet at the start of a block.
struct Definition {
  enum class Kind : uint8_t { unwritten, result, meet };

  Kind kind = Kind::unwritten;
  int number = kNone;  // of the instruction, or of the meet

  bool operator==(const Definition&) const = default;
};

class Definitions {
 public:
  // A block at whose start a register may hold values of several instructions, and is used later.
  struct Meet {
    int block, reg;
  };

  // Takes time in proportion to the instructions, the blocks in which a register with several writers is
  // needed, and the meets. `code` and `graph` have to live as long as this does.
  Definitions(const Code& code, const Graph& graph);

  // As an instruction finds a register, and as a block leaves it. What can never run finds it unwritten.
  Definition before(int operation, int reg) const;
  Definition behind(int block, int reg) const;

  const std::vector<Meet>& meets() const { return meets_; }

 private:
  // This is what a register holds at the end of blocks from this place of the dominators' order on.
  struct Change {
    int place;
    Definition at_end;
  };
  // This is what begins in a block.
  struct Start {
    int block, meet;
  };
  struct Register {
    std::vector<int> writers = {};  // instructions, ascending
    std::vector<Start> meets = {};  // by block, ascending
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
  std::vector<std::vector<int>> uses_;  // of each register, the blocks that read it as it was ahead of them
  std::vector<std::vector<int>> frontier_;  // of each block, those at which its dominance ends
  std::vector<int> live_, met_;  // by block, the last register that is needed, and that meets there
};

}  // namespace ptxbuilder::analysis
