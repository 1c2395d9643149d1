// One warp: its registers, the fragments in which its lanes run, and how its instructions reach memory. The
// machine runs it; handlers of instructions work on the lanes that execute them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/barriers.h"
#include "runtime/emulator/machine/causality.h"
#include "runtime/emulator/machine/fragment.h"
#include "runtime/emulator/machine/global_memory_order.h"
#include "runtime/emulator/machine/grid.h"
#include "runtime/emulator/machine/in_flight.h"
#include "runtime/emulator/machine/observer.h"
#include "runtime/emulator/machine/undefined.h"

namespace ptxbuilder::runtime::emulator {

class Warp {
 public:
  Warp(Cta& cta, uint32_t index);

  Cta& cta;
  const uint32_t index;  // in the CTA
  Lanes born = 0;        // the lanes that the launch has
  Lanes alive = 0;       // those of them that have not exited
  Cluster& cluster() const;
  const Grid& grid() const;
  uint32_t warpgroup() const { return index / 4; }
  uint64_t executed() const { return executed_; }  // instructions

  // --- what runs ---
  Lanes lanes = 0;                           // of the fragment that runs
  uint32_t pc = 0;                           // of its next instruction
  const Instruction* instruction = nullptr;  // that executes
  uint32_t here() const;                     // the instruction's program counter
  Fragment& fragment() { return fragments_[current_]; }
  const std::vector<Fragment>& fragments() const { return fragments_; }

  // --- what it knows, and has begun ---
  Causality causality;
  UndefinedValues undefined;
  WgmmaGroups wgmma;
  std::vector<TensorLoad> loading;
  AsyncCopies copies;
  std::unordered_map<uint32_t, ThreadCopies> bulk;  // by lane
  ThreadCopies& bulk_of(uint32_t lane);
  ClusterArrival cluster_arrival;
  RegisterShare register_share;
  Lanes carry = 0;  // the CC register of each lane
  // Returns a hash of its registers and local memory: nothing else of its own affects what it does next.
  uint64_t state() const;

  // --- registers ---
  template <class T>
  T* at(Register r) const {
    return reinterpret_cast<T*>(registers_ + r.at);
  }
  // Returns the lanes for which the operand is true.
  Lanes truth(const Predicate& operand) const {
    const Lanes lanes_of_p = *at<uint32_t>(operand.p);
    return operand.negated ? ~lanes_of_p : lanes_of_p;
  }
  // Sets the predicate to `value` in `lanes`. An unused result is no_register.
  void set_predicate(Register p, Lanes lanes, Lanes value) {
    if (p == no_register) return;
    uint32_t& word = *at<uint32_t>(p);
    word = (word & ~lanes) | (value & lanes);
  }
  std::span<const Register> listed(RegisterList list) const {
    return {grid().kernel.lists.data() + list.first, list.size};
  }
  uint64_t address(const AddressOperand& a, int lane) const {
    if (a.base_bytes == 4)
      return static_cast<uint32_t>(at<uint32_t>(a.base)[lane] + static_cast<uint32_t>(a.displacement));
    if (a.base_bytes == 8) return at<uint64_t>(a.base)[lane] + static_cast<uint64_t>(a.displacement);
    return static_cast<uint64_t>(a.displacement);
  }

  // --- where control goes ---
  // Makes the instruction execute again once something in the cluster has changed.
  void retry(Wait wait);
  // Makes the instruction execute again when its cluster, which runs ahead, has its turn.
  void await_turn();
  // Returns true if these bytes are in global memory to which the cluster has put off a sum.
  bool awaits_sum(uint64_t address, uint32_t bytes) const;
  // The instruction is done, but its fragment may not go on before the wait ends.
  void pause(Wait wait);
  // Splits some lanes of the running fragment into a fragment of their own, which goes on at `at`.
  void split_off(Lanes who, uint32_t at);
  void branch(uint32_t target, Lanes taken);
  void call(uint32_t routine, Lanes who);
  void leave(Lanes who);  // ret: from a function, to one place, or from the kernel
  void exit(Lanes lanes);
  // An asynchronous step of the running instruction, which is its instruction again while f runs.
  template <class F>
  void post(F f, std::function<bool()> ready = {});

  // A strong read of global memory by the first of the executing lanes. A read that finds the same value as
  // before ends the turn, since only another thread's store lets the warp go on.
  void strong_read(uint64_t address, const std::byte* bytes, uint32_t count);

  // --- where lanes meet ---
  // Returns, for a .sync instruction whose lanes have member masks, the groups that are complete now: all
  // lanes of a mask except those that have exited. The other lanes wait for theirs. Warp barriers meet in
  // several places, all other instructions at one place.
  Groups gather(Lanes executing, const uint32_t* membermask, bool in_several_places = false);
  // Returns true if all lanes of the warp execute this .aligned instruction together. Otherwise they wait for
  // the others; reports lanes that cannot come. With `exited_too`, lanes that have exited count as missing.
  bool converged(Lanes executing, bool exited_too = true) {
    if (!together(executing, exited_too)) return false;
    causality.meet(lanes, alive);
    return true;
  }
  // Does the same if the lanes do not yet learn of each other's accesses.
  bool together(Lanes executing, bool exited_too = true) {
    return (executing == lanes && lanes == (exited_too ? born : alive)) || converge(executing, exited_too);
  }
  // Returns the report of lanes that wait at an .aligned instruction for others that cannot come.
  EmulatorError divergence(const Fragment& waiting) const;
  // Returns the lanes for which a fragment at a .sync instruction still waits.
  Lanes missing_at(const Fragment& waiting) const;

  // --- memory ---
  // Returns host memory of [address, address + bytes) in `space`, or reports. `cta` and `offset` are outputs.
  std::byte* place(uint64_t address, uint32_t bytes, Space space, int lane, Cta*& cta, uint32_t& offset);
  // Does the same for everything that lanes of the warp access together, or returns null if any lane would be
  // reported, or if a full check is needed.
  std::byte* place_together(uint64_t address, uint32_t bytes, Space space, Cta*& cta, uint32_t& offset);
  // Used for all writes of global memory except those that weak() orders.
  std::byte* global(uint64_t address, uint32_t bytes, int lane, bool writes, const char* what);
  // These functions return whether what place(), place_together() or global() has found may be written.
  bool may_write() const { return !recent_->read_only; }
  void require_writable(int lane) const;
  // Returns null if all see one order of stores, as is true of memory that has not been stored to since the
  // launch began: a cluster that runs ahead of its turn reads nothing else.
  WeakMemory* weak() const;
  // Returns the CTA and the offset of a shared::cta or shared::cluster address.
  Cta& resolve_shared(uint64_t address, uint32_t& offset, int lane);
  std::byte* local(uint64_t address, int lane) {
    return local_.data() + static_cast<size_t>(lane) * local_each_ + address;
  }
  uint64_t frame(int lane) const {  // where the lane's frame begins in its local memory
    const Register r = grid().kernel.frame;
    return r == no_register ? 0 : at<uint64_t>(r)[lane];
  }
  const LaneFrame& caller(int lane) const { return frames_[static_cast<size_t>(lane)].back(); }
  // top() is the start of the free part of the lane's local memory; reach() moves it, or reports that no more
  // memory is free.
  uint64_t top(int lane) const { return top_[static_cast<size_t>(lane)]; }
  void reach(uint64_t end, int lane);

  // --- accesses of shared memory, reported to observers: the first by one thread, or by several ---
  void touch(const SharedAccess& access);
  // The same access, if it is one of the warp's own CTA, among the accesses of the warp's other
  // lanes.
  void touch_lanes(const SharedAccess& access, LaneAccess kind = LaneAccess::plain);
  // An access by an asynchronous operation that this thread starts; `what` describes its action in reports.
  void touch_async(Cta& cta, uint32_t offset, uint32_t bytes, bool writes, Access deed, const char* what);
  // Like touch(), for an access that orders others: such accesses of one word do not race with each other.
  void touch_ordered(Cta& owner, uint32_t offset, uint32_t bytes, bool writes, int lane, Order order,
                     StoredBytes values = {});
  // Called before and after an access that orders others (.volatile, .relaxed, .acquire, .release, atom,
  // red): what it, or a later fence, acquires, and what it, or an earlier fence, releases. In shared memory
  // at an offset if `owner` is not null; otherwise in global memory at an address. An older value of global
  // memory passes on what that value did.
  void order_before(Cta* owner, uint64_t at, Order order, Scope scope);
  void order_before(const PassedOnPointer& passed, Order order, Scope scope);
  void order_after(Cta* owner, uint64_t at, Order order, Scope scope, int lane);
  // An access of global memory that place() or global() has found.
  void touch_global(const GlobalAccess& access) {
    for (Observer* o : observers_of_global()) o->global_access(*this, *recent_, access);
  }
  void know_ended_launches();  // of this device, where launches of several run at once
  Party party() const;         // in the launch
  Access access() const { return {causality.actor(), causality.time(), here(), false, 0}; }

  // --- reports ---
  // Ends the launch with a report.
  [[noreturn]] void fail(Fault fault, const std::string& message, int lane = -1) const;
  // Reports a fault: the launch goes on if findings are asked for; otherwise it ends.
  void find(Fault fault, const std::string& message, int lane = -1, uint32_t at = no_pc) const;
  void find(const EmulatorError& fault, uint32_t at) const;
  void note(const std::string& message, int lane = -1, uint32_t at = no_pc) const;
  EmulatorError error(Fault fault, const std::string& message, int lane = -1, uint32_t at = no_pc) const;
  // Records a read of unwritten memory, which is reported when the CTA exits.
  void add_uninitialised(Cta& cta, uint32_t pc, const std::string& message, int lane) const;

 private:
  friend class Cluster;
  friend class Cta;
  friend class ExploredLaunch;

  // Runs the fragment `which` for at most `budget` instructions; returns how many it took.
  uint64_t run(size_t which, uint64_t budget);
  bool runnable(const Fragment& f) const;
  void fill_special_registers();
  void delay();
  bool wants_turn(Turn turn) const;
  bool converge(Lanes executing, bool exited_too);
  bool meet();
  void settle();
  void look_ahead();
  int open_meeting(uint32_t at, uint32_t depth);
  void forgo(int from, int to, Lanes who);
  int common_meeting(int a, int b) const;
  void absorb(size_t other);
  void call_for(Lanes who);
  void require_no_mbarrier(Cta& cta, uint32_t offset, uint32_t bytes, const char* what, int lane) const;
  const Observers::List& observers_of_global() const;
  std::string about_peer(uint64_t address,
                         uint32_t bytes) const;  // of memory that this device does not reach
  const Allocation* allocation_of(uint64_t address, uint32_t bytes);  // null where there is none
  static WordOrder* order_of(Cta& owner, uint32_t offset);
  std::string report(const std::string& message, int lane, uint32_t at) const;

  std::byte* registers_ = nullptr;  // the first; constants lie before it
  std::vector<Fragment> fragments_;
  size_t current_ = 0;  // the fragment that runs
  bool stop_ = false;   // it must wait, polls, or has ended
  bool polls_ = false;  // its last turn ended so
  uint64_t executed_ = 0;
  uint32_t meet_pc_ = no_pc;  // of the running fragment's meeting
  uint32_t meet_depth_ = 0;
  std::vector<Meeting> meetings_;
  std::vector<std::vector<LaneFrame>> frames_;  // of the calls that each lane is in; empty before the first
  std::array<uint64_t, 32> top_{};
  std::unique_ptr<std::byte[]> storage_;
  std::vector<std::byte> local_;  // lane after lane
  size_t local_each_ = 0;
  const Allocation* recent_ = nullptr;  // the allocation of the last global access
  const Allocation* other_ = nullptr;   // another one, of an access ahead of it
  PassedOnPointer acquired_;            // by the last acquire of global memory, whose scope follows
  Scope acquired_scope_ = {};
};

}  // namespace ptxbuilder::runtime::emulator
