// Computes the order of events that holds in every schedule of a run. Maintains vector clocks of threads,
// mbarriers and asynchronous work, and checks that they order the accesses to shared memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptxbuilder/analysis/protocol_terms.h"

namespace ptxbuilder::analysis {

// Thrown if a proof fails. Describes the reason.
struct Refusal {
  int operation = kNone;
  std::string what;
  std::vector<int> others = {};  // other instructions involved
  bool is_undecided = false;     // true if it is not known whether there is a failing schedule
  int late = kNone;  // instruction that is late in a failing schedule, or that starts an operation that is
                     // late
  bool is_of_order = true;  // false if only a number of bytes is wrong, or if a missing fence does not affect
                            // the order
};

// The clock of an event. For each component of a run, such as a warp or an mbarrier, the clock holds the
// component's last event that precedes the clock's event.
class Clock {
 public:
  uint32_t operator[](int component) const {
    return at(component) < events_.size() ? events_[at(component)] : 0;
  }
  void raise(int component, uint32_t to) {
    if (at(component) >= events_.size()) events_.resize(at(component) + 1);
    events_[at(component)] = std::max(events_[at(component)], to);
  }
  void join(const Clock& other);
  // Removes all events that are not in both clocks.
  void meet(const Clock& other);
  bool operator==(const Clock& other) const = default;

 private:
  std::vector<uint32_t> events_;
};

// An event of a component. In the clocks of all later events, the component has at least this value.
struct Moment {
  int component = kNone;
  uint32_t event = 0;
  bool is_in(const Clock& clock) const { return clock[component] >= event; }
};

// The events that precede the next event of a group of lanes that have run together.
struct View {
  Clock known;
  Clock came;       // events that have happened before, even if their writes are not visible yet
  Clock fenced;     // events whose generic writes a proxy fence has made visible to the async proxy
  int own = kNone;  // the component of these lanes
  uint32_t ticks = 0;
  int cta = 0, warp = 0;

  void learn(int component, uint32_t event) {
    known.raise(component, event);
    came.raise(component, event);
  }
};

// A range of bytes in a CTA's shared memory.
struct Span {
  uint64_t first = 0, bytes = 0;
};

// The sizes of the boxes of tensor maps. PTX does not contain them, so they are derived from the phases of
// mbarriers and from the bytes that are read. They are retained from run to run.
class Boxes {
 public:
  uint64_t bytes(const std::string& map) const;
  void add_copy(const std::string& map, uint64_t to, bool into_shared);
  void add_barrier(uint64_t address) { loaded_.insert(address), stored_.insert(address); }
  void add_read(const Span& span) { add(reads_, span); }
  void add_write(const Span& span) { add(writes_, span); }
  void add_phase(std::vector<std::string> maps, uint64_t expected, int operation);
  // Computes the sizes from the added phases and reads. Returns whether any of them changed. Throws Refusal
  // if no sizes fit.
  bool find();
  const std::map<std::string, uint64_t>& all() const { return bytes_; }

 private:
  struct Copies {
    std::set<uint64_t> places;  // addresses of boxes in shared memory
    bool into_shared = true;
  };
  const std::set<uint64_t>& starts(const Copies& of) const { return of.into_shared ? loaded_ : stored_; }

  std::map<std::string, Copies> copies_;
  std::set<uint64_t> loaded_, stored_;  // starts of loaded and stored ranges
  // The longest range that begins at each address.
  using Spans = std::unordered_map<uint64_t, uint64_t>;
  static void add(Spans& to, const Span& span) {
    uint64_t& bytes = to[span.first];
    bytes = std::max(bytes, span.bytes);
  }

  Spans reads_, writes_;
  std::map<std::vector<std::string>, std::pair<uint64_t, int>> phases_;
  std::map<std::string, uint64_t> bytes_;
};

// An access to shared memory. It begins at an event of its thread, and ends at the moment that `ends` states.
struct SharedAccess {
  int cta = 0;
  std::vector<Span> spans;
  bool writes = false, is_async = false;
  Moment end = {};
  int operation = kNone;
  // True if the access is atomic, volatile or strong. Such accesses do not race with each other.
  bool is_word = false;
  uint64_t data = 0;  // hash of the stored constant; 0 for all other accesses
};

class Order {
 public:
  // If the kernel `has_words`, which are atomic, volatile or strong accesses, they may order accesses that
  // seem to race.
  Order(int ctas, Boxes& boxes, bool has_words)
      : boxes_(boxes), has_words_(has_words), memory_(at(ctas)), exits_(at(ctas)), started_(at(ctas)) {}

  int component() { return components_++; }
  void start(View& view);
  // Adds an event of the lanes that have this view.
  Moment tick(View& view);
  void touch(const View& view, const SharedAccess& access);
  void exit(const View& view) { exits_[at(view.cta)].push_back(view.came); }

  struct Place {
    int cta = 0;
    uint64_t address = 0;
    auto operator<=>(const Place&) const = default;
  };
  void init(View& view, const Place& place, uint64_t count, int operation);
  void fence_inits(View& view);
  void arrive(View& view, const Place& place, uint64_t expected, bool releases, int operation);
  void expect(View& view, const Place& place, uint64_t bytes, int operation);
  // Adds a copy of `bytes` bytes, or of the tensor map's box, that an mbarrier counts. Returns the moment of
  // its completion.
  Moment copy(View& view, const Place& place, uint64_t bytes, const std::string& map, int operation);
  // Returns whether the phase is complete. If so, orders the lanes after the phase.
  bool wait(View& view, const Place& place, uint64_t parity, bool acquires, int operation);
  // The result of a wait that is not repeated. It is relevant only if another value or a branch depends on
  // it.
  struct Test {
    Place place;
    bool is_over, may_be_early;
    uint32_t completed;
    Moment at;
  };
  Test test(View& view, const Place& place, uint64_t parity, int operation);
  // Continues lanes that depend on the outcome of a test. If `passes` is true, orders the lanes after the
  // phase.
  void use(View& view, const Test& test, bool passes, int operation);
  // Completes the phases whose copies have all started. Must be called only if no lanes can continue. Returns
  // whether there was such a phase.
  bool complete_copies();

  // A barrier for the threads of a CTA or of the cluster, identified by its number.
  struct Meeting {
    int component = kNone;
    uint64_t expected = 0, arrived = 0;
    uint32_t completed = 0;
    Clock known = {}, came = {}, fenced = {}, last = {}, last_came = {}, last_fenced = {};
    int operation = kNone;
  };
  // Returns the phase that must complete before the arriving lanes continue.
  uint32_t meet(View& view, std::pair<int, uint64_t> which, uint64_t threads, uint64_t expected,
                bool releases, int operation);
  bool is_met(std::pair<int, uint64_t> which, uint32_t phase) { return meetings_[which].completed > phase; }
  void leave(View& view, std::pair<int, uint64_t> which);

  // Checks the conditions that must hold after all threads have ended.
  void finish();
  // Describes the arrivals and bytes for which the mbarrier's phase still waits.
  std::string missing(const Place& place) const;

 private:
  // Shared memory is divided into blocks of 64 units of 16 bytes. A part consists of some units of a block,
  // and covers the same bytes in each of these units.
  static constexpr uint64_t kUnit = 16, kBlock = 64 * kUnit;
  struct Part {
    uint64_t block, units;
    uint16_t bytes;
  };
  static std::vector<Part> parts_of(const std::vector<Span>& spans);

  struct Mark {
    Moment end;
    int operation, cta, warp;
    uint64_t units;
    uint16_t bytes;
    bool writes, is_async, is_word;
    uint64_t data;
  };
  void check(const View& view, const SharedAccess& access, const Part& part, const Mark& before) const;
  struct Phase {
    uint64_t pending = 0, expected = 0, issued = 0;
    Clock arrived, arrived_fenced, begun, came;
    std::optional<Clock> ahead_of_copies = {};  // events that precede all copies of the phase
    std::vector<std::string> maps = {};
    std::vector<Moment> expects = {};
    int expect = kNone, copy = kNone;
    int last = kNone;  // last instruction that arrived or copied
  };
  struct Mbarrier {
    int component = kNone, init = kNone;
    uint64_t count = 0;
    uint32_t completed = 0;
    Moment made = {};
    std::optional<Moment> fenced = {};
    int completed_by = kNone;  // instruction that completed the last phase
    Phase now = {};
    Clock last = {}, last_fenced = {}, last_came = {};
    struct Waited {
      Moment at;
      int operation;
    };
    std::vector<Waited> waited = {};  // the waits that waited for the last completed phase
  };
  struct Foreign {
    int cta;
    Moment end;
    int operation;
  };

  Mbarrier& used(const View& view, const Place& place, bool is_async, int operation);
  void complete(const Place& place, Mbarrier& b);
  void complete_if_due(const Place& place, Mbarrier& b);
  void foreign(const View& view, int cta, Moment end, int operation);
  std::string who(int cta, int warp) const;

  Boxes& boxes_;
  const bool has_words_;
  int components_ = 0;
  std::vector<std::vector<std::vector<Mark>>> memory_;  // indexed by CTA and block
  std::vector<std::vector<Clock>> exits_;
  std::vector<std::vector<int>> started_;  // components of the groups of lanes that have started
  std::map<Place, Mbarrier> mbarriers_;
  std::map<std::pair<int, uint64_t>, Meeting> meetings_;
  std::vector<Foreign> foreign_;
};

}  // namespace ptxbuilder::analysis
