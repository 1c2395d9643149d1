// The values in the registers of a warp's lanes, and what instructions compute from these values.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "ptxbuilder/analysis/protocol_code.h"
#include "ptxbuilder/analysis/protocol_terms.h"

namespace ptxbuilder::analysis {

using Lanes = uint32_t;  // a bit for each lane of a warp
inline constexpr int kLanes = 32;

// One value for each lane, or a single value for all.
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

// Lanes of a warp that have taken the same path.
struct Group {
  int cta = 0, warp = 0;
  Lanes lanes = 0;
  std::vector<LaneValues> registers = {};  // those that matter
};

class ProtocolValues {
 public:
  ProtocolValues(const ProtocolCode& code, Terms& terms) : code_(code), terms_(terms) {}

  // An operand as lanes read it; for an address, its first part plus the offset.
  LaneValues operand(const Group& group, const Value& v);
  // A register's value, such as that of a guard.
  const LaneValues& in_register(const Group& group, int reg) const {
    return group.registers[at(code_.registers[at(reg)])];
  }
  // Computes an instruction in those lanes.
  void compute(Group& group, int operation, Lanes lanes);
  // Stores a result for those lanes, if the register matters.
  void set(Group& group, const Value& to, const LaneValues& value, Lanes lanes);

 private:
  Scalar special(const Group& group, std::string_view name, int lane);
  LaneValues computed(Group& group, int operation);
  LaneValues for_lanes(const Group& group, const std::vector<LaneValues>& inputs, const auto& function);
  std::optional<Scalar> of_integers(const Operation& o, const std::vector<Scalar>& x);
  Scalar fresh(const Group& group, int operation);

  const ProtocolCode& code_;
  Terms& terms_;
  int fresh_ = 0;
};

}  // namespace ptxbuilder::analysis
