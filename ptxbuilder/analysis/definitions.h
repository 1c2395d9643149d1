// Finds the instruction whose result a register holds, or the point where paths with different results meet.
// The result corresponds to static single assignment (SSA) form, except that values have no separate names.
#pragma once

#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// The definition of a register: the instruction whose result the register holds, or a meet at the start of a
// block.
struct Definition {
  enum class Kind : uint8_t { unwritten, result, meet };

  Kind kind = Kind::unwritten;
  int number = kNone;  // number of the instruction, or of the meet

  bool operator==(const Definition&) const = default;
};

class Definitions {
 public:
  // A meet, which is called a phi function in SSA form. At the start of `block`, `reg` may hold the results
  // of several instructions, and `reg` is read later.
  struct Meet {
    int block, reg;
  };

  // The running time is proportional to the number of instructions, plus the number of meets, plus the number
  // of blocks in which registers with several writers are needed. `code` and `graph` must outlive this
  // object.
  Definitions(const Code& code, const Graph& graph);

  // Return the definition that a register holds before an instruction, and at the end of a block. In
  // unreachable code, every register counts as unwritten.
  Definition before(int operation, int reg) const;
  Definition behind(int block, int reg) const;

  const std::vector<Meet>& meets() const { return meets_; }

 private:
  // A definition that is valid at the end of a block, and the position of this block in the dominator tree's
  // order. The definition is also valid in later blocks of the order, up to the next change.
  struct Change {
    int place;
    Definition at_end;
  };
  // A meet of a register, and the meet's block.
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
  std::vector<std::vector<int>> uses_;      // for each register, the blocks that read a value written in
                                            // previous blocks
  std::vector<std::vector<int>> frontier_;  // for each block, its dominance frontier
  std::vector<int> live_, met_;  // for each block, the last register found to be live there, and the last
                                 // register with a meet there
};

}  // namespace ptxbuilder::analysis
