// Holds the register values of a warp's lanes, and computes the results of instructions from these values.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "ptxbuilder/analysis/protocol_code.h"
#include "ptxbuilder/analysis/protocol_terms.h"

namespace ptxbuilder::analysis {

using Lanes = uint32_t;  // one bit for each lane of a warp
inline constexpr int kLanes = 32;

// One value for each lane, or a single value for all lanes.
class LaneValues {
 public:
  LaneValues() = default;
  LaneValues(const Scalar& one) : one_(one) {}  // NOLINT(google-explicit-constructor): a value for all lanes
  explicit LaneValues(const std::array<Scalar, kLanes>& each)
      : each_(std::make_shared<const std::array<Scalar, kLanes>>(each)) {}

  bool is_one() const { return !each_; }
  const Scalar& operator[](int lane) const { return each_ ? (*each_)[at(lane)] : one_; }
  bool operator==(const LaneValues& other) const {
    return each_ == other.each_ ? each_ || one_ == other.one_
                                : each_ && other.each_ && *each_ == *other.each_;
  }

 private:
  Scalar one_ = {};
  std::shared_ptr<const std::array<Scalar, kLanes>> each_ = {};
};

// Lanes of a warp that have followed the same path.
struct Group {
  int cta = 0, warp = 0;
  Lanes lanes = 0;
  std::vector<LaneValues> registers = {};  // the relevant registers
};

// The words of an instruction's mnemonic, in a form that can be evaluated quickly. The words are parsed only
// once, although a run executes an instruction many times.
struct IntegerWords {
  enum class Name : uint8_t {
    other,
    mov,
    cvta,
    bit_not,
    neg,
    popc,
    clz,
    brev,
    cvt,
    add,
    sub,
    mul,
    shl,
    shr,
    div,
    rem,
    bit_and,
    bit_or,
    bit_xor,
    min,
    max,
    setp,
    mapa,
    mad,
    selp,
    bfe,
    lop3,
    bfi,
    shf
  };
  struct Type {
    uint8_t bits = 0;
    bool is_signed = false, is_integer = false;
  };
  enum class Part : uint8_t { none, wide, lo, hi };

  explicit IntegerWords(const Operation& o);

  Name name;
  Type type, to;  // `type` is named by the last word; `to` is named by the word before it, and is the result
                  // type of a cvt
  Part part;      // part of a product
  bool is_known;  // true if the result can be computed, which requires integers without carry and saturation
};

class ProtocolValues {
 public:
  ProtocolValues(const ProtocolCode& code, Terms& terms);

  // Returns the values of an operand in the lanes. For an address, returns its first part plus the offset.
  LaneValues operand(const Group& group, const Value& v);
  // Returns a register's value, such as that of a guard.
  const LaneValues& in_register(const Group& group, int reg) const {
    return group.registers[at(code_.registers[at(reg)])];
  }
  // Computes an instruction's result in these lanes.
  void compute(Group& group, int operation, Lanes lanes);
  // Stores a result in these lanes, if the register is relevant.
  void set(Group& group, const Value& to, const LaneValues& value, Lanes lanes);

 private:
  Scalar special(const Group& group, std::string_view name, int lane);
  LaneValues computed(Group& group, int operation);
  LaneValues for_lanes(const Group& group, const std::vector<LaneValues>& inputs, const auto& function);
  std::optional<Scalar> of_integers(int operation, const std::vector<Scalar>& x);
  Scalar fresh(const Group& group, int operation);

  const ProtocolCode& code_;
  Terms& terms_;
  std::vector<IntegerWords> words_;  // indexed by instruction
  int fresh_ = 0;
};

}  // namespace ptxbuilder::analysis
