// Undefined values: those of registers that a thread reads before it has written them, and of memory that was
// never written. They may move from register to register and through shared and local memory; a use in which
// they decide something is reported. Most registers are known to be defined when the kernel is decoded
// (decode/undefined.cpp): only the others are followed at run time, until a load returns an undefined value.
#pragma once

#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

class Cta;

// Tracks which of one warp's values are undefined, lane by lane.
class UndefinedValues {
 public:
  UndefinedValues(Warp& warp, bool is_checked);

  // Returns true if the running instruction may involve undefined values.
  bool follows() const;
  // Returns true if all instructions are followed, because undefined values came from elsewhere than doubtful
  // registers.
  bool follows_all() const { return follows_all_; }
  // Called before some lanes execute an instruction: reports an undefined value that decides something, and
  // records which registers are undefined after the instruction.
  void step(Lanes executing);

  // The first returns the lanes in which a register is undefined, and the second its origin.
  Lanes in(Register r) const;
  Origin origin_of(Register r) const;
  // Sets the definedness of the result in some lanes, for the handlers of Flow::handled.
  void set(Register r, Lanes among, Lanes value, const Origin& origin);
  // Called when these lanes return from a call, which has restored the registers.
  void define(Register r, Lanes who);

  // The place at which a lane loads or stores elements: in shared memory if `owner` is not null, otherwise in
  // the lane's local memory if `is_local`.
  struct Place {
    Cta* owner;
    uint32_t offset;  // in the owner's shared memory
    bool is_local;
    uint64_t address;  // in local memory
  };
  // Returns true if a load from there may return an undefined value, or the running store stores one.
  bool concern(bool store, const Cta* owner, bool is_local) const;
  // One lane's load or store of an element of `bytes` for each register, ahead of it. Memory that nothing has
  // written is undefined.
  void load(std::span<const Register> data, const Place& place, uint32_t bytes, int lane);
  void store(std::span<const Register> data, const Place& place, uint32_t bytes, int lane);
  void end_store() { stores_ = false; }  // all lanes have stored

 private:
  void decided_by(Register r, Lanes who, const char* how);

  void load_element(Register r, Place place, uint32_t bytes, int lane);

  Warp& warp_;
  bool is_checked_, follows_all_ = false;
  std::vector<Lanes> undefined_;                  // by the register's number
  std::unordered_map<uint32_t, Origin> origins_;  // by number, of those
  std::unordered_map<uint64_t, Origin> local_;    // of bytes of local memory, by lane and address
  uint32_t followed_ = 0;        // instructions since the last check whether any value is undefined
  std::array<Lanes, 8> data_{};  // the lanes in which each element of the running store is undefined
  bool stores_ = false;          // whether any of these is
};

}  // namespace ptxbuilder::runtime::emulator
