// Undefined values: of registers that a thread reads before it has written them, and of memory that nothing
// has written. They may go from register to register and through shared and local memory; what they decide is
// reported. Most registers are known to be defined when the kernel is decoded (decode/undefined.cpp): only
// the others are followed while it runs, until a load brings an undefined value.
#pragma once

#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

class Cta;

// It knows what is undefined among the values of one warp, lane by lane.
class UndefinedValues {
 public:
  UndefinedValues(Warp& warp, bool is_checked);

  // True where the running instruction may have to do with undefined values.
  bool follows() const;
  // True where all instructions are followed, since undefined values came from elsewhere than doubtful
  // registers.
  bool follows_all() const { return follows_all_; }
  // This comes before an instruction that some lanes execute: reports an undefined value that decides
  // something, and notes which registers are undefined after it.
  void step(Lanes executing);

  // The lanes in which a register is undefined; and where that comes from.
  Lanes in(Register r) const;
  Origin origin_of(Register r) const;
  // Says what the result is in some lanes, for the handlers of Flow::handled.
  void set(Register r, Lanes among, Lanes value, const Origin& origin);
  // These lanes come back from a call, which has restored the registers.
  void define(Register r, Lanes who);

  // A lane loads or stores elements here: in shared memory where `owner` is not null, else in the lane's
  // local memory where `is_local`.
  struct Place {
    Cta* owner;
    uint32_t offset;  // in the owner's shared memory
    bool is_local;
    uint64_t address;  // in local memory
  };
  // True where a load from there may bring an undefined value, or the running store stores one.
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
  uint32_t followed_ = 0;        // instructions since it was looked whether any value is undefined
  std::array<Lanes, 8> data_{};  // the lanes in which each element of the running store is undefined
  bool stores_ = false;          // whether any of these is
};

}  // namespace ptxbuilder::runtime::emulator
