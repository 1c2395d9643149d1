// The state of a launch while it runs: clusters of CTAs of warps, and what is in flight.
#pragma once

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <unordered_map>

#include "runtime/emulator/emulator.h"
#include "runtime/emulator/machine/barriers.h"
#include "runtime/emulator/machine/causality.h"
#include "runtime/emulator/machine/memory.h"
#include "runtime/emulator/machine/program.h"
#include "runtime/emulator/machine/shadow.h"
#include "runtime/emulator/machine/undefined.h"

namespace ptxbuilder::runtime::emulator {

class Cluster;
class Cta;
class Trace;

// This passes on what a launch reports while it runs on: notes, once for each instruction, and faults, once
// for each instruction and kind.
class Reports {
 public:
  explicit Reports(const EmulatorOptions& options) : options_(options) {}
  bool wants_notes() const { return static_cast<bool>(options_.note); }
  bool wants_findings() const { return static_cast<bool>(options_.finding); }
  void note(const std::string& kernel, uint32_t pc, const std::string& text);
  void find(const std::string& kernel, uint32_t pc, const EmulatorError& fault);
  bool has_found(const std::string& kernel, uint32_t pc, Fault fault);

 private:
  const EmulatorOptions& options_;
  std::mutex mutex_;
  std::set<std::pair<std::string, uint32_t>> noted_;
  std::set<std::tuple<std::string, uint32_t, Fault>> found_;
};

// What one launch is made of; the same for all its CTAs.
struct Grid {
  const Kernel& kernel;
  GlobalMemory& memory;
  const EmulatorOptions& options;
  const std::vector<SharedObject>& shared;  // what lies where in dynamic shared memory, for reports
  Launch launch;
  std::vector<std::byte> parameters;
  uint64_t seed = 0;
  uint32_t id = 0;
  uint32_t registers_per_thread = 0;  // at launch, for setmaxnreg
  Trace* trace = nullptr;
  Reports* reports = nullptr;
  Address workspace = 0;  // of a cooperative launch, zeros when it begins
};

enum class Wait : uint8_t {
  none,
  meeting,  // for the lanes from which it parted, but not for ever
  aligned,  // for all other lanes of the warp, at an .aligned instruction
  lanes,    // for those of its member mask, at a .sync instruction
  barrier,
  cluster,
  mbarrier,
  wgmma,
  bulk,
  copies,
  registers,
  sleep,
  others  // for all that can go on without an instruction that is delayed
};

// Lanes of a warp that share a program counter.
struct Fragment {
  uint32_t pc = 0;
  Lanes lanes = 0;
  int meeting = -1;    // where they meet the lanes they parted from; index in Warp::meetings_
  uint32_t depth = 0;  // of calls

  Wait wait = Wait::none;
  uint64_t version = 0;  // of the cluster when the wait began: it is retried once that has changed
  uint64_t until = 0;    // of a meeting: instructions of the warp after which the others are not waited for
  uint64_t until_step = 0;  // and steps of the cluster; those alone where it waits for others
  uint32_t generation = 0;  // of the barrier waited for
  uint32_t object = 0;      // barrier id, shared address or count of registers, for reports
  uint32_t phase = 0;       // of the mbarrier
  Lanes wanted = 0;         // the member mask
};

// A point where lanes that diverged at a branch are likely to meet again. Nothing but the speed of the
// emulator rests on it: who waits there too long goes on alone.
struct Meeting {
  uint32_t pc = no_pc;
  uint32_t depth = 0;  // of calls
  Lanes expected = 0;  // lanes that may still come, or have
  int outer = -1;
};

// This is what a lane returns to from a call.
struct LaneFrame {
  uint32_t pc = 0, routine = 0;  // the routine is the called one
  uint64_t base = 0, top = 0;    // of the caller's frame
  std::vector<std::byte> saved;  // what the routine's registers held, where it is called within itself
};

// One wgmma of one warp that is not done.
struct PendingWgmma {
  const Instruction* instruction = nullptr;
  uint32_t group = 0;
  uint64_t a = 0, b = 0;  // descriptors
  bool accumulate = false;
  std::vector<uint32_t> metadata = {};  // of each lane, where A is sparse
};

// One wgmma of one warp that no wgmma.wait_group has covered.
struct LiveWgmma {
  uint32_t pc, group;
  MatrixRegisters registers;
};

// What was done to a tensor map in global memory by this launch, through the tensormap proxy.
struct MapChange {
  uint32_t version = 0;   // counts its changes
  uint32_t released = 0;  // the last version that a release of the tensormap proxy has covered
  uint32_t pc = no_pc;    // of the last change
  // Acquires of the tensormap proxy by warps, and the version that each has covered: whoever knows of one may
  // use the map.
  struct Acquired {
    Actor actor;
    uint32_t time, version;
  };
  std::vector<Acquired> acquired = {};
};

// cp.async.bulk groups of one thread. Groups are numbered from 1.
struct ThreadCopies {
  Actor actor = 0;
  uint32_t open = 1;  // the group that is not committed yet
  std::map<uint32_t, uint32_t> reading,
      writing;  // by group: operations that have not read their source, or are not done
};

// Disjoint sets of lanes of a warp.
class Groups {
 public:
  void add(Lanes lanes) { lists_[count_++] = lanes; }
  const Lanes* begin() const { return lists_; }
  const Lanes* end() const { return lists_ + count_; }

 private:
  Lanes lists_[32];
  int count_ = 0;
};

class Warp {
 public:
  Warp(Cta& cta, uint32_t index);

  Cta& cta;
  const uint32_t index;                      // in the CTA
  std::byte* registers = nullptr;            // the first; constants lie before it
  Lanes lanes = 0;                           // of the fragment that runs
  uint32_t pc = 0;                           // of its next instruction
  const Instruction* instruction = nullptr;  // that executes
  bool stop = false;
  Lanes alive = 0, born = 0;
  std::vector<Fragment> fragments;
  size_t current = 0;  // the fragment that runs

  Causality causality;
  UndefinedValues undefined;

  // wgmma: groups are numbered from 1; `wgmma_committed` is the last closed.
  uint32_t wgmma_committed = 0;
  std::deque<PendingWgmma> wgmma_queue;  // not done, in order
  std::vector<LiveWgmma> wgmma_live;
  bool wgmma_fenced = false;
  uint32_t fences = 1;  // wgmma.fences, and one
  std::vector<uint32_t>
      matrix_touched;           // by register / 128: `fences` when another instruction last touched it
  uint32_t registers_each = 0;  // setmaxnreg
  uint32_t register_changes = 0, register_change = no_pc;  // how many there were, and the last
  Lanes carry = 0;                                         // the CC register of each lane

  std::unordered_map<uint32_t, ThreadCopies> bulk;  // by lane
  // cp.async: operations are numbered from 1 in the order of issue; a group is told by its last.
  Actor copy_actor = 0;
  uint32_t copy_sequence = 0;
  std::set<uint32_t> copies_outstanding;
  std::vector<uint32_t> copy_groups;
  Lanes cluster_arrived = 0;  // lanes between their arrival at the cluster barrier and their wait
  std::array<uint32_t, 32> cluster_generation{};  // when they arrived
  std::array<std::vector<LaneFrame>, 32> frames;  // of the calls that each lane is in
  std::array<uint64_t, 32> top{};                 // where the free part of each lane's local memory begins

  Fragment& fragment() { return fragments[current]; }
  Cluster& cluster() const;
  const Grid& grid() const;

  // Runs the fragment `which` for at most `budget` instructions; returns how many it took.
  uint64_t run(size_t which, uint64_t budget);
  bool runnable(const Fragment& f) const;

  // --- for handlers ---
  template <class T>
  T* at(Register r) const {
    return reinterpret_cast<T*>(registers + r.at);
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
  uint32_t here() const;  // the program counter of the instruction that executes
  // The instruction is to be executed again once something in the cluster has changed.
  void retry(Wait wait);
  // The instruction is done, but its fragment may not go on before then.
  void pause(Wait wait);
  void delay();
  // Makes a fragment of its own of some lanes of the running one, which goes on at `at`.
  void split_off(Lanes who, uint32_t at);
  void branch(uint32_t target, Lanes taken);
  void call(uint32_t routine, Lanes who);
  void leave(Lanes who);  // ret: from a function, to one place, or from the kernel
  void exit(Lanes lanes);
  // This is for a .sync instruction whose lanes have member masks, the groups that are complete now: all
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
  // The same, where the lanes learn nothing of each other's accesses yet.
  bool together(Lanes executing, bool exited_too = true) {
    return (executing == lanes && lanes == (exited_too ? born : alive)) || converge(executing, exited_too);
  }
  // The report of the lanes that wait at an .aligned instruction for others that cannot come.
  EmulatorError divergence(const Fragment& waiting) const;
  // The lanes that a fragment at a .sync instruction still misses.
  Lanes missing_at(const Fragment& waiting) const;
  // Of an instruction that touches registers of some wgmma; and of a wgmma.
  void check_matrix_registers();
  void check_wgmma_registers(const MatrixRegisters& registers);
  Access access(bool async = false) const { return {causality.actor(), causality.time(), here(), async, 0}; }
  // The order of a shared access among those of the warp's own lanes, checked and recorded.
  void touch_lanes(Cta& cta, uint32_t offset, uint32_t bytes, bool writes, int lane,
                   LaneAccess kind = LaneAccess::plain);
  // A shared access by this thread, checked and recorded.
  void touch(Cta& cta, uint32_t offset, uint32_t bytes, bool writes, int lane) {
    touch(cta, offset, bytes, writes, lane, [](std::byte*) { return false; });
  }
  // The same; `values` gives what is stored, where the same value may be stored by several: false otherwise.
  template <class Values>
  void touch(Cta& cta, uint32_t offset, uint32_t bytes, bool writes, int lane, Values values) {
    if (auto clash = try_touch(cta, offset, bytes, writes, lane)) [[unlikely]] {
      std::vector<std::byte> stored(bytes);
      const bool known = values(stored.data());
      settle_clash(*clash, cta, offset, bytes, known ? stored : std::vector<std::byte>{}, writes, lane);
    }
  }
  // The same by an asynchronous operation that this thread starts.
  void touch_async(Cta& cta, uint32_t offset, uint32_t bytes, bool writes, Access access, const char* what);
  // Host memory of [address, address + bytes) in `space`, or a report. `cta` and `offset` tell shared memory.
  std::byte* place(uint64_t address, uint32_t bytes, Space space, int lane, Cta*& cta, uint32_t& offset);
  std::byte* global(uint64_t address, uint32_t bytes, int lane, bool writes, const char* what);
  Cta& resolve_shared(uint64_t address, uint32_t& offset,
                      int lane);  // of a shared::cta or shared::cluster address
  std::byte* local(uint64_t address, int lane) {
    return local_.data() + static_cast<size_t>(lane) * local_each_ + address;
  }
  uint64_t frame(int lane) const {  // where the lane's frame begins in its local memory
    const Register r = grid().kernel.frame;
    return r == no_register ? 0 : at<uint64_t>(r)[lane];
  }
  // Moves the end of the lane's local memory in use, or reports that there is no more.
  void reach(uint64_t end, int lane);
  uint64_t address(const AddressOperand& a, int lane) const {
    if (a.base_bytes == 4)
      return static_cast<uint32_t>(at<uint32_t>(a.base)[lane] + static_cast<uint32_t>(a.displacement));
    if (a.base_bytes == 8) return at<uint64_t>(a.base)[lane] + static_cast<uint64_t>(a.displacement);
    return static_cast<uint64_t>(a.displacement);
  }
  std::span<const Register> listed(RegisterList list) const {
    return {grid().kernel.lists.data() + list.first, list.size};
  }
  // Before and after an access that orders others (.volatile, .relaxed, .acquire, .release, atom, red): what
  // it acquires, or a fence behind it will, and what it releases, or a fence ahead of it has.
  void order_before(Cta* owner, uint32_t offset, Order order);
  void order_after(Cta* owner, uint32_t offset, Order order, int lane);
  // The same as touch(), of such an access: those of one word do not race with each other.
  template <class Values>
  void touch_ordered(Cta& owner, uint32_t offset, uint32_t bytes, bool writes, int lane, Order order,
                     Values values) {
    WordOrder* word = order_of(owner, offset);
    if (!word || (order == Order::both && !word->used && word->passed.told.empty()))
      return touch(owner, offset, bytes, writes, lane, values);
    causality.assuming({&word->passed.seen, &word->passed.told, &word->users},
                       [&] { touch(owner, offset, bytes, writes, lane, values); });
    used(owner, *word);
  }
  uint32_t warpgroup() const { return index / 4; }
  ThreadCopies& bulk_of(uint32_t lane);

  // Ends the launch.
  [[noreturn]] void fail(Fault fault, const std::string& message, int lane = -1) const;
  // Reports a fault after which the launch goes on if findings are asked for; else it ends.
  void find(Fault fault, const std::string& message, int lane = -1, uint32_t at = no_pc) const;
  void find(const EmulatorError& fault, uint32_t at) const;
  std::string report(const std::string& message, int lane, uint32_t at) const;
  EmulatorError error(Fault fault, const std::string& message, int lane = -1, uint32_t at = no_pc) const;
  void note_uninitialised(Cta& cta, const char* what, int lane);
  void add_uninitialised(Cta& cta, uint32_t pc, const std::string& message, int lane) const;
  void find_clash(const Clash& clash, Cta& cta, const char* what, int lane) const;
  void note(const std::string& message, int lane = -1, uint32_t at = no_pc) const;

  uint64_t executed = 0;

 private:
  void fill_special_registers();
  bool converge(Lanes executing, bool exited_too);
  bool meet();
  void settle();
  void look_ahead();
  int open_meeting(uint32_t at, uint32_t depth);
  void forgo(int from, int to, Lanes who);
  int common_meeting(int a, int b) const;
  void absorb(size_t other);
  void call_for(Lanes who);

  uint32_t meet_pc_ = no_pc;  // of the running fragment's meeting
  uint32_t meet_depth_ = 0;
  std::vector<Meeting> meetings_;
  void used(Cta& owner, WordOrder& word);
  static WordOrder* order_of(Cta& owner, uint32_t offset);
  std::optional<Clash> try_touch(Cta& cta, uint32_t offset, uint32_t bytes, bool writes, int lane);
  bool released_since(const Clash& clash, Cta& cta, const Knowledge& k) const;
  std::optional<Clash> without_released(std::optional<Clash> clash, Cta& cta, Access access, uint32_t begin,
                                        uint32_t end, bool writes);
  void settle_clash(Clash clash, Cta& cta, uint32_t offset, uint32_t bytes,
                    const std::vector<std::byte>& stored, bool writes, int lane);

  std::unique_ptr<std::byte[]> storage_;
  std::vector<std::byte> local_;  // lane after lane
  size_t local_each_ = 0;
  const Allocation* recent_ = nullptr;  // the allocation of the last global access
};

// B of the last wgmma as numbers, kept while nothing writes the CTA's shared memory: four warps read the
// same.
template <class T>
struct DecodedTile {
  uint64_t writes = ~uint64_t{0}, descriptor = 0;
  uint32_t shape = 0;
  std::vector<T> values;
};

class Cta {
 public:
  Cta(Cluster& cluster, uint32_t rank, Dim3 id);

  Cluster& cluster;
  const uint32_t rank;
  const Dim3 id;
  std::vector<std::byte> shared;
  Shadow shadow;
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<Barrier, 16> barriers;
  std::unordered_map<uint32_t, std::unique_ptr<Mbarrier>> mbarriers;  // by offset
  uint32_t mbarriers_from = ~0u, mbarriers_to = 0;                    // offsets that any of them covers
  uint32_t threads = 0, live_warps = 0;
  int64_t register_pool = 0;        // registers free for setmaxnreg.inc
  uint32_t touching = 0;            // asynchronous operations on this shared memory, issued and not done
  std::vector<Actor> wgmma_actors;  // of each warpgroup
  std::unordered_map<uint32_t, WordOrder> ordered;  // by word that orders others
  // Reads of what nothing had written, with their program counters, to be reported at the end: the first, or
  // that of each instruction where findings are asked for.
  std::vector<std::pair<EmulatorError, uint32_t>> uninitialised;
  uint64_t writes = 0;  // counts writes of shared memory, so that decoded tiles can be kept
  // This is what tensor copies have filled, by offset, for the note on a descriptor of another swizzle.
  struct Filled {
    uint32_t end, pc;
    Swizzle swizzle;
  };
  std::map<uint32_t, Filled> filled;
  DecodedTile<float> reals;
  DecodedTile<int32_t> wholes;

  // What lies there, for reports: "full[2]", "sA[1]+48" where the sidecar says so, else the variable of the
  // PTX and an offset.
  std::string name(uint32_t offset) const;
  Mbarrier* mbarrier_near(uint32_t offset, uint32_t bytes);
  LaneMark& lane_mark(uint32_t offset) {  // of its word
    constexpr uint32_t words = 64;        // of a block: those that nobody touches take no room
    const size_t block = offset / 4 / words;
    if (block >= lane_marks_.size()) lane_marks_.resize(shared.size() / 4 / words + 1);
    if (!lane_marks_[block]) lane_marks_[block] = std::make_unique<LaneMark[]>(words);
    return lane_marks_[block][offset / 4 % words];
  }
  void lanes_done(Warp& warp);  // some of the warp's lanes have exited
  void warp_done(Warp& warp);
  void complete(uint32_t barrier);

 private:
  std::vector<std::unique_ptr<LaneMark[]>> lane_marks_;
};

// An asynchronous operation, or a step of one, that can complete at any time from now on.
struct Event {
  std::function<void()> complete;
};

struct ActorName {
  enum class Kind : uint8_t { warp, mbarrier, wgmma, bulk, copy } kind;
  const Cta* cta;
  uint32_t index;  // warp, offset of the mbarrier, warpgroup, warp * 32 + lane
};

class Cluster {
 public:
  Cluster(const Grid& grid, uint64_t index);

  const Grid& grid;
  const uint64_t index;
  const bool checks;
  std::vector<std::unique_ptr<Cta>> ctas;
  Histories histories;
  uint64_t version = 1;  // rises with all that can end a wait
  uint64_t steps = 0;    // instructions executed by all warps
  uint64_t operations = 0;
  std::vector<Event> events;
  std::vector<ActorName> actors;
  Barrier barrier;    // barrier.cluster
  Knowledge ordered;  // passed on through words of global memory that order others
  std::unordered_map<uint64_t, MapChange> map_changes;  // by address
  uint32_t live_warps = 0;
  bool posts_delayed = false;  // whether a delayed instruction, or what it has started, runs

  // Runs for about `budget` instructions. Stalled: every thread waits, some of them by sleeping, as one does
  // for another CTA. `goes_on` is asked often; where it says no, the launch ends.
  enum class Outcome : uint8_t { running, stalled, finished };
  Outcome run(uint64_t budget, const std::function<bool()>& goes_on);
  [[noreturn]] void deadlock();

  Actor new_actor(ActorName name);
  void post(std::function<void()> complete) {
    (posts_delayed ? delayed_ : events).push_back({std::move(complete)});
    ++operations;
  }
  void changed() { ++version; }
  // This is how many instructions of their warp lanes wait where they should meet others.
  uint64_t patience() const { return patience_; }
  void complete_barrier();  // if every warp that runs has arrived
  uint64_t random(uint64_t below) { return below <= 1 ? 0 : (engine_() >> 11) % below; }
  std::string describe(const Access& access, bool wrote) const;
  std::string picture() const;  // who waits for what
  uint64_t nanoseconds() const { return steps + idle_; }

 private:
  struct Choice {
    Warp* warp;
    size_t fragment;
  };
  void choose_policy();
  bool pick(Choice& choice);
  void complete_one();
  bool complete_delayed();
  bool wake_pollers();
  bool part_meetings();
  bool end_delay();
  void collect();

  std::mt19937_64 engine_;
  uint32_t burst_ = 64;
  uint64_t patience_ = 500;
  double completion_ = 0.3;  // chance of completing an operation before each burst
  bool priorities_ = false;
  std::vector<uint64_t> priority_;   // by warp, when `priorities_`
  const Warp* favourite_ = nullptr;  // of highest priority, which has had so many turns in a row
  uint32_t turns_ = 0;
  bool in_order_ = false;  // operations complete in the order of issue
  uint64_t stale_version_ = 0, idle_ = 0;
  size_t collect_at_ = 1 << 17;
  uint32_t stale_rounds_ = 0;
  size_t next_warp_ = 0;
  std::vector<Warp*> all_;
  std::vector<Event> delayed_;  // what delayed instructions have started
};

inline Cluster& Warp::cluster() const { return cta.cluster; }
inline const Grid& Warp::grid() const { return cta.cluster.grid; }
inline uint32_t Warp::here() const { return static_cast<uint32_t>(instruction - grid().kernel.code.data()); }

// Applies f to the named lanes of some registers. One lane's result may replace its own operand.
template <class D, class F, class... S>
inline void each_lane(Lanes lanes, F f, D* d, const S*... s) {
  if (lanes == all_lanes) {
#ifndef __clang__
#pragma GCC ivdep
#endif
    for (int i = 0; i < 32; ++i) d[i] = f(s[i]...);
  } else {
    for (Lanes rest = lanes; rest; rest &= rest - 1) {
      int i = __builtin_ctz(rest);
      d[i] = f(s[i]...);
    }
  }
}

template <class F>
inline void for_lanes(Lanes lanes, F f) {
  for (Lanes rest = lanes; rest; rest &= rest - 1) f(__builtin_ctz(rest));
}

}  // namespace ptxbuilder::runtime::emulator
