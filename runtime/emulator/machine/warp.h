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
  Lanes born = 0;        // those that the launch has
  Lanes alive = 0;       // of them, those that have not exited
  Cluster& cluster() const;
  const Grid& grid() const;
  uint32_t warpgroup() const { return index / 4; }
  uint64_t executed() const { return executed_; }  // instructions

  // --- what runs ---
  Lanes lanes = 0;                           // of the fragment that runs
  uint32_t pc = 0;                           // of its next instruction
  const Instruction* instruction = nullptr;  // that executes
  uint32_t here() const;                     // its program counter
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
  // A hash of its registers and its local memory: what it does next depends on nothing else of its own.
  uint64_t state() const;

  // --- registers ---
  template <class T>
  T* at(Register r) const {
    return reinterpret_cast<T*>(registers_ + r.at);
  }
  // The lanes for which the operand is true.
  Lanes truth(const Predicate& operand) const {
    const Lanes lanes_of_p = *at<uint32_t>(operand.p);
    return operand.negated ? ~lanes_of_p : lanes_of_p;
  }
  // Gives the predicate the value of `value` in `lanes`. A result that nobody wants is no register.
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
  // The instruction is to be executed again once something in the cluster has changed.
  void retry(Wait wait);
  // The instruction is to be executed again when its cluster, which runs ahead, has its turn.
  void await_turn();
  // It reads global memory where its cluster has put off a sum.
  bool awaits_sum(uint64_t address, uint32_t bytes) const;
  // The instruction is done, but its fragment may not go on before then.
  void pause(Wait wait);
  // Makes a fragment of its own of some lanes of the running one, which goes on at `at`.
  void split_off(Lanes who, uint32_t at);
  void branch(uint32_t target, Lanes taken);
  void call(uint32_t routine, Lanes who);
  void leave(Lanes who);  // ret: from a function, to one place, or from the kernel
  void exit(Lanes lanes);
  // An asynchronous step of the running instruction, which is its instruction again while f runs.
  template <class F>
  void post(F f, std::function<bool()> ready = {});

  // A strong read of global memory by the first of the executing lanes. One that finds what it found before
  // ends the turn, since only another's store lets the warp go on.
  void strong_read(uint64_t address, const std::byte* bytes, uint32_t count);

  // --- where lanes meet ---
  // These are, for a .sync instruction whose lanes have member masks, the groups that are complete now: all
  // lanes of a mask but those that have exited. The other lanes wait for theirs. Warp barriers meet in
  // several places, all else at one instruction.
  Groups gather(Lanes executing, const uint32_t* membermask, bool in_several_places = false);
  // True where all lanes of the warp execute this .aligned instruction together. Else they wait for the
  // others; it reports others that cannot come. Lanes that have exited are missed where `exited_too`.
  bool converged(Lanes executing, bool exited_too = true) {
    if (!together(executing, exited_too)) return false;
    causality.meet(lanes, alive);
    return true;
  }
  // This does the same where the lanes learn nothing of each other's accesses yet.
  bool together(Lanes executing, bool exited_too = true) {
    return (executing == lanes && lanes == (exited_too ? born : alive)) || converge(executing, exited_too);
  }
  // The report of the lanes that wait at an .aligned instruction for others that cannot come.
  EmulatorError divergence(const Fragment& waiting) const;
  // The lanes that a fragment at a .sync instruction still misses.
  Lanes missing_at(const Fragment& waiting) const;

  // --- memory ---
  // Host memory of [address, address + bytes) in `space`, or a report. `cta` and `offset` tell shared memory.
  std::byte* place(uint64_t address, uint32_t bytes, Space space, int lane, Cta*& cta, uint32_t& offset);
  // It does so for all that lanes of the warp access together, or gives null where any lane would be
  // reported, or where it takes more to know.
  std::byte* place_together(uint64_t address, uint32_t bytes, Space space, Cta*& cta, uint32_t& offset);
  // This is for all writes of global memory but those that weak() orders.
  std::byte* global(uint64_t address, uint32_t bytes, int lane, bool writes, const char* what);
  // These say of what place(), place_together() or global() has found whether it may be written.
  bool may_write() const { return !recent_->read_only; }
  void require_writable(int lane) const;
  // Null where all see one order of stores, as they do what nobody has stored to since the launch began: a
  // cluster that runs ahead of its turn reads nothing else.
  WeakMemory* weak() const;
  // The CTA and the offset of a shared::cta or shared::cluster address.
  Cta& resolve_shared(uint64_t address, uint32_t& offset, int lane);
  std::byte* local(uint64_t address, int lane) {
    return local_.data() + static_cast<size_t>(lane) * local_each_ + address;
  }
  uint64_t frame(int lane) const {  // where the lane's frame begins in its local memory
    const Register r = grid().kernel.frame;
    return r == no_register ? 0 : at<uint64_t>(r)[lane];
  }
  const LaneFrame& caller(int lane) const { return frames_[static_cast<size_t>(lane)].back(); }
  // top() is where the free part of the lane's local memory begins; reach() moves that, or reports that there
  // is no more.
  uint64_t top(int lane) const { return top_[static_cast<size_t>(lane)]; }
  void reach(uint64_t end, int lane);

  // --- accesses of shared memory, reported to observers --- This one is by this thread, or by several.
  void touch(const SharedAccess& access);
  // This one is the same access, where it is one of the warp's own CTA, among those of the warp's other
  // lanes.
  void touch_lanes(const SharedAccess& access, LaneAccess kind = LaneAccess::plain);
  // This one is by an asynchronous operation that this thread starts; `what` says for reports what it does.
  void touch_async(Cta& cta, uint32_t offset, uint32_t bytes, bool writes, Access deed, const char* what);
  // This one is as touch(), of an access that orders others: those of one word do not race with each other.
  void touch_ordered(Cta& owner, uint32_t offset, uint32_t bytes, bool writes, int lane, Order order,
                     StoredBytes values = {});
  // Before and after an access that orders others (.volatile, .relaxed, .acquire, .release, atom, red): what
  // it acquires, or a fence after it will, and what it releases, or a fence before it has. Of shared memory
  // where `owner` is not null, at an offset; else of global memory, at an address. An older value of global
  // memory passes on what it did.
  void order_before(Cta* owner, uint64_t at, Order order, Scope scope);
  void order_before(const PassedOnPointer& passed, Order order, Scope scope);
  void order_after(Cta* owner, uint64_t at, Order order, Scope scope, int lane);
  // An access of global memory, which place() or global() has found.
  void touch_global(const GlobalAccess& access) {
    for (Observer* o : observers_of_global()) o->global_access(*this, *recent_, access);
  }
  void know_ended_launches();  // of this device, where launches of several run at once
  Party party() const;         // in the launch
  Access access() const { return {causality.actor(), causality.time(), here(), false, 0}; }

  // --- reports ---
  // Ends the launch.
  [[noreturn]] void fail(Fault fault, const std::string& message, int lane = -1) const;
  // Reports a fault after which the launch goes on if findings are asked for; else it ends.
  void find(Fault fault, const std::string& message, int lane = -1, uint32_t at = no_pc) const;
  void find(const EmulatorError& fault, uint32_t at) const;
  void note(const std::string& message, int lane = -1, uint32_t at = no_pc) const;
  EmulatorError error(Fault fault, const std::string& message, int lane = -1, uint32_t at = no_pc) const;
  // A read of what nothing had written, which is reported when its CTA exits.
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
  bool stop_ = false;   // it has to wait, polls, or has ended
  bool polls_ = false;  // its last turn ended so
  uint64_t executed_ = 0;
  uint32_t meet_pc_ = no_pc;  // of the running fragment's meeting
  uint32_t meet_depth_ = 0;
  std::vector<Meeting> meetings_;
  std::array<std::vector<LaneFrame>, 32> frames_;  // of the calls that each lane is in
  std::array<uint64_t, 32> top_{};
  std::unique_ptr<std::byte[]> storage_;
  std::vector<std::byte> local_;  // lane after lane
  size_t local_each_ = 0;
  const Allocation* recent_ = nullptr;  // the allocation of the last global access
};

}  // namespace ptxbuilder::runtime::emulator
