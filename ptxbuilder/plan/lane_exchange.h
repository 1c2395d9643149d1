// Plans how the lanes of a warp move elements from one register layout to another, with shuffles, selections
// between registers, and permutations of bytes. The plan does not depend on LLVM, so tests can evaluate it on
// the host.
#pragma once

#include "ptxbuilder/plan/register_layout.h"

namespace ptxbuilder {

// A function of the five bits of a lane's number. Its value is the exclusive or of `at_0` and of of_bit[b]
// for each bit b that is set.
struct LaneFunction {
  uint32_t at_0 = 0;
  std::array<uint32_t, 5> of_bit = {};

  uint32_t operator()(uint32_t lane) const;
  bool is_constant() const { return of_bit == std::array<uint32_t, 5>{}; }
  // Returns the constant c if the function returns lane ^ c, and nullopt otherwise.
  std::optional<uint32_t> butterfly() const;
  friend auto operator<=>(const LaneFunction&, const LaneFunction&) = default;
};

// A sequence of steps. Each step computes one 32-bit register from the results of earlier steps `a` and `b`.
struct LaneExchange {
  struct Step {
    enum class Kind : uint8_t {
      word,     // register number `a` of the old layout
      shuffle,  // result of step a in the lane that `lanes` returns (PTX ISA, shfl.sync.idx)
      choose,   // result of step b if bit `bit` of the lane's number is set, otherwise result of step a
      permute,  // bytes of a and b that the selector returned by `lanes` chooses (PTX ISA, prmt)
    };
    Kind kind;
    int a = 0, b = 0, bit = 0;
    LaneFunction lanes = {};
    friend auto operator<=>(const Step&, const Step&) = default;
  };

  std::vector<Step> steps;
  std::vector<int> words;  // steps whose results are the registers of the new layout

  // Returns the number of instructions of the steps. Instructions that compute lanes and selectors once for
  // all registers are not counted.
  int instructions() const;
};

// Returns the exchange that moves elements from layout `from` to layout `to`. Returns nullopt if an element
// would have to be moved between warps, or if the moves depend on the lane in a way that a LaneFunction
// cannot express. Elements have 1, 2 or 4 bytes. Within a register, elements with lower numbers are in lower
// bytes.
std::optional<LaneExchange> exchange_within_warps(const RegisterLayout& from, const RegisterLayout& to,
                                                  int element_bytes);

}  // namespace ptxbuilder
