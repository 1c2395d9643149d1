// Tracks undefined values: values of registers that a thread reads before it has written them, and of memory
// that was never written. They may be moved between registers and through shared and local memory, but a use
// in which they decide something is reported. Decoding finds that most registers are always defined
// (decode/undefined.cpp). At run time, only the others are tracked, until a load returns an undefined value.
#pragma once

#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

class Cta;

// Tracks which values of one warp are undefined, lane by lane.
class UndefinedValues {
 public:
  UndefinedValues(Warp& warp, bool is_checked);

  // Returns true if the running instruction may involve undefined values.
  bool follows() const;
  // Returns true if all instructions are tracked, because there are undefined values that did not originate
  // in doubtful registers.
  bool follows_all() const { return follows_all_; }
  // Called before some lanes execute an instruction. Reports an undefined value that decides something, and
  // records which registers are undefined after the instruction.
  void step(Lanes executing);

  // in() returns the lanes in which a register is undefined, and origin_of() the origin of the undefined
  // value.
  Lanes in(Register r) const;
  Origin origin_of(Register r) const;
  // Specifies the lanes of `among` in which the result is undefined. Used by the handlers of Flow::handled.
  void set(Register r, Lanes among, Lanes value, const Origin& origin);
  // Called when these lanes return from a call that has restored the register.
  void define(Register r, Lanes who);

  // The place at which a lane loads or stores elements. It is in shared memory if `owner` is not null,
  // otherwise in the lane's local memory if `is_local` is true.
  struct Place {
    Cta* owner;
    uint32_t offset;  // offset in the owner's shared memory
    bool is_local;
    uint64_t address;  // address in local memory
  };
  // Returns true if a load from this place may return an undefined value, or if the running store stores one.
  bool concern(bool store, const Cta* owner, bool is_local) const;
  // Called before one lane loads or stores an element of `bytes` bytes for each register. Memory that nothing
  // has written is undefined.
  void load(std::span<const Register> data, const Place& place, uint32_t bytes, int lane);
  void store(std::span<const Register> data, const Place& place, uint32_t bytes, int lane);
  void end_store() { stores_ = false; }  // called when all lanes have stored

 private:
  void decided_by(Register r, Lanes who, const char* how);

  void load_element(Register r, Place place, uint32_t bytes, int lane);

  Warp& warp_;
  bool is_checked_, follows_all_ = false;
  std::vector<Lanes> undefined_;  // indexed by the register's number
  // Origins of undefined registers, indexed by register number.
  std::unordered_map<uint32_t, Origin> origins_;
  // Origins of undefined bytes of local memory, indexed by lane and address.
  std::unordered_map<uint64_t, Origin> local_;
  uint32_t followed_ = 0;        // number of instructions since the last check whether any value is undefined
  std::array<Lanes, 8> data_{};  // for each element of the running store, the lanes in which it is undefined
  bool stores_ = false;          // whether any element in `data_` is undefined in some lane
};

}  // namespace ptxbuilder::runtime::emulator
