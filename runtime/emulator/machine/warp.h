// One warp: its registers, the fragments in which its lanes run, and its accesses to memory. The machine runs
// the warp; instruction handlers act on the lanes that execute them.
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
  const uint32_t index;  // number in the CTA
  Lanes born = 0;        // lanes that exist at launch
  Lanes alive = 0;       // the lanes of `born` that have not exited
  Cluster& cluster() const;
  const Grid& grid() const;
  uint32_t warpgroup() const { return index / 4; }
  uint64_t executed() const { return executed_; }  // number of executed instructions

  // --- the running fragment ---
  Lanes lanes = 0;                           // lanes of the running fragment
  uint32_t pc = 0;                           // program counter of the fragment's next instruction
  const Instruction* instruction = nullptr;  // the instruction that is being executed
  uint32_t here() const;                     // the program counter of `instruction`
  Fragment& fragment() { return fragments_[current_]; }
  const std::vector<Fragment>& fragments() const { return fragments_; }

  // --- what the warp knows and has begun ---
  Causality causality;
  UndefinedValues undefined;
  WgmmaGroups wgmma;
  std::vector<TensorLoad> loading;
  AsyncCopies copies;
  std::unordered_map<uint32_t, ThreadCopies> bulk;  // indexed by lane
  ThreadCopies& bulk_of(uint32_t lane);
  ClusterArrival cluster_arrival;
  RegisterShare register_share;
  Lanes carry = 0;  // the CC register of each lane
  // Returns a hash of the warp's registers and local memory. Together with what other threads do, they
  // determine what the warp does next.
  uint64_t state() const;

  // --- registers ---
  template <class T>
  T* at(Register r) const {
    return reinterpret_cast<T*>(registers_ + r.at);
  }
  // Returns the lanes in which the operand is true.
  Lanes truth(const Predicate& operand) const {
    const Lanes lanes_of_p = *at<uint32_t>(operand.p);
    return operand.negated ? ~lanes_of_p : lanes_of_p;
  }
  // Sets the predicate to `value` in `lanes`. Does nothing if the result is unused, i.e. no_register.
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

  // --- control flow ---
  // Makes the warp execute the instruction again once something in the cluster has changed.
  void retry(Wait wait);
  // Makes the warp execute the instruction again when its cluster, which runs ahead, has its turn.
  void await_turn();
  // Returns true if the cluster has postponed a sum that affects some of these bytes of global memory.
  bool awaits_sum(uint64_t address, uint32_t bytes) const;
  // Makes the fragment wait before it executes its next instruction.
  void pause(Wait wait);
  // Moves some lanes of the running fragment to a new fragment, which continues at `at`.
  void split_off(Lanes who, uint32_t at);
  void branch(uint32_t target, Lanes taken);
  void call(uint32_t routine, Lanes who);
  void leave(Lanes who);  // executes ret: returns from a function to one address, or ends the kernel
  void exit(Lanes lanes);
  // Posts an asynchronous step of the running instruction. `instruction` is set to the instruction again
  // while f runs.
  template <class F>
  void post(F f, std::function<bool()> ready = {});

  // Records a strong read of global memory by the first of the executing lanes. A read that returns the same
  // value as the last one ends the warp's turn, because only another thread's store lets the warp continue.
  void strong_read(uint64_t address, const std::byte* bytes, uint32_t count);

  // --- convergence ---
  // Returns, for a .sync instruction whose lanes have member masks, the groups of lanes that are complete
  // now: all lanes of a mask except those that have exited. The other lanes wait for their groups. The lanes
  // of a warp barrier may arrive at different instructions; the lanes of other instructions must arrive at
  // the same instruction.
  Groups gather(Lanes executing, const uint32_t* membermask, bool in_several_places = false);
  // Returns true if all lanes of the warp execute this .aligned instruction together. Otherwise the executing
  // lanes wait for the others, or lanes that cannot arrive are reported. If `exited_too` is true, lanes that
  // have exited count as missing.
  bool converged(Lanes executing, bool exited_too = true) {
    if (!together(executing, exited_too)) return false;
    causality.meet(lanes, alive);
    return true;
  }
  // Like converged(), but the lanes do not learn of each other's accesses yet.
  bool together(Lanes executing, bool exited_too = true) {
    return (executing == lanes && lanes == (exited_too ? born : alive)) || converge(executing, exited_too);
  }
  // Returns the report about lanes that wait at an .aligned instruction for lanes that cannot arrive.
  EmulatorError divergence(const Fragment& waiting) const;
  // Returns the lanes for which a fragment at a .sync instruction still waits.
  Lanes missing_at(const Fragment& waiting) const;

  // --- memory ---
  // Returns the host memory of [address, address + bytes) in `space`, and sets `cta` and `offset` if it is
  // shared memory. Reports a bad address.
  std::byte* place(uint64_t address, uint32_t bytes, Space space, int lane, Cta*& cta, uint32_t& offset);
  // Like place(), but for all bytes that lanes of the warp access together. Returns null if any lane would be
  // reported, or if a full check is needed.
  std::byte* place_together(uint64_t address, uint32_t bytes, Space space, Cta*& cta, uint32_t& offset);
  // Returns the host memory of a global address. All writes to global memory use this function, except those
  // that weak() orders.
  std::byte* global(uint64_t address, uint32_t bytes, int lane, bool writes, const char* what);
  // These check whether the memory that place(), place_together() or global() has found may be written.
  bool may_write() const { return !recent_->read_only; }
  void require_writable(int lane) const;
  // Returns null if all threads see one order of stores. That is always the case for a cluster that runs
  // ahead of its turn, because it reads only memory that has not been stored to since the launch began.
  WeakMemory* weak() const;
  // Returns the CTA and the offset of a shared::cta or shared::cluster address.
  Cta& resolve_shared(uint64_t address, uint32_t& offset, int lane);
  std::byte* local(uint64_t address, int lane) {
    return local_.data() + static_cast<size_t>(lane) * local_each_ + address;
  }
  uint64_t frame(int lane) const {  // offset of the lane's frame in its local memory
    const Register r = grid().kernel.frame;
    return r == no_register ? 0 : at<uint64_t>(r)[lane];
  }
  const LaneFrame& caller(int lane) const { return frames_[static_cast<size_t>(lane)].back(); }
  // top() returns the start of the free part of the lane's local memory. reach() moves that start, or reports
  // that not enough memory is free.
  uint64_t top(int lane) const { return top_[static_cast<size_t>(lane)]; }
  void reach(uint64_t end, int lane);

  // --- accesses that are reported to observers ---
  // Reports an access to shared memory by one thread or several.
  void touch(const SharedAccess& access);
  // Reports an access to the checks between the lanes of this warp, if the access is to the warp's own CTA.
  void touch_lanes(const SharedAccess& access, LaneAccess kind = LaneAccess::plain);
  // Reports an access by an asynchronous operation that this thread starts. `what` describes the access in
  // reports.
  void touch_async(Cta& cta, uint32_t offset, uint32_t bytes, bool writes, Access deed, const char* what);
  // Like touch(), for an access that orders others. Such accesses to one word do not race with each other.
  void touch_ordered(Cta& owner, uint32_t offset, uint32_t bytes, bool writes, int lane, Order order,
                     StoredBytes values = {});
  // Called before and after an access that orders others (.volatile, .relaxed, .acquire, .release, atom,
  // red). order_before() acquires what the access, or a later fence, acquires; order_after() releases what
  // the access, or an earlier fence, releases. The access is to shared memory at offset `at` if `owner` is
  // not null; otherwise it is to global memory at address `at`. A read of an older value of global memory
  // acquires what that value passed on, which is `passed`.
  void order_before(Cta* owner, uint64_t at, Order order, Scope scope);
  void order_before(const PassedOnPointer& passed, Order order, Scope scope);
  void order_after(Cta* owner, uint64_t at, Order order, Scope scope, int lane);
  // Reports an access to global memory that place() or global() has found.
  void touch_global(const GlobalAccess& access) {
    for (Observer* o : observers_of_global()) o->global_access(*this, *recent_, access);
  }
  void know_ended_launches();  // acquires what ended launches on this device knew
  Party party() const;         // identifies the warp in the launch
  Access access() const { return {causality.actor(), causality.time(), here(), false, 0}; }

  // --- reports ---
  // Ends the launch with a report.
  [[noreturn]] void fail(Fault fault, const std::string& message, int lane = -1) const;
  // Reports a fault. The launch continues if findings are requested; otherwise it ends.
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

  // Runs the fragment `which` for at most `budget` instructions, and returns how many it executed.
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
                         uint32_t bytes) const;  // describes memory that this device cannot access
  const Allocation* allocation_of(uint64_t address, uint32_t bytes);  // null if there is none
  static WordOrder* order_of(Cta& owner, uint32_t offset);
  std::string report(const std::string& message, int lane, uint32_t at) const;

  std::byte* registers_ = nullptr;  // the first register; constants precede it
  std::vector<Fragment> fragments_;
  size_t current_ = 0;  // index of the running fragment
  bool stop_ = false;   // whether the fragment must wait, polls, or has ended
  bool polls_ = false;  // whether the last turn ended in a poll
  uint64_t executed_ = 0;
  uint32_t meet_pc_ = no_pc;  // program counter of the running fragment's meeting
  uint32_t meet_depth_ = 0;
  std::vector<Meeting> meetings_;
  std::vector<std::vector<LaneFrame>> frames_;  // the calls that each lane is in; empty before the first call
  std::array<uint64_t, 32> top_{};
  std::unique_ptr<std::byte[]> storage_;
  std::vector<std::byte> local_;  // one lane after the other
  size_t local_each_ = 0;
  const Allocation* recent_ = nullptr;  // the allocation of the last access to global memory
  const Allocation* other_ = nullptr;   // another allocation that was accessed recently
  PassedOnPointer acquired_;            // what the last acquire of global memory got, with the scope below
  Scope acquired_scope_ = {};
};

}  // namespace ptxbuilder::runtime::emulator
