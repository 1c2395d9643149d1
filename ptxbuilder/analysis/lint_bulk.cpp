// Implements the rules about bulk copies from shared memory (PTX ISA, "cp.async.bulk", "Async proxy"). Before
// bytes are copied, the threads that wrote them must have executed a fence, and writers in other warps must
// have synchronized with the copying thread at a barrier. A buffer must not be written again before the copy
// has read it.
#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/analysis/lint_accesses.h"
#include "ptxbuilder/analysis/lint_paths.h"
#include "ptxbuilder/analysis/lint_protocol.h"
#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {
namespace {

bool is_bulk_store(const Operation& o) { return o.is("cp") && o.has("bulk") && o.has("bulk_group"); }

// Returns whether an instruction writes to shared memory through the generic proxy. cp.async also uses this
// proxy.
bool is_shared_write(const Operation& o) {
  if (is_thread_copy(o)) return true;
  const bool writes = o.is("st", "stmatrix", "red", "atom");
  return writes && o.in_shared();
}

bool is_barrier(const Operation& o) {
  if (o.is_barrier()) return !o.has("arrive");
  return o.is_mbarrier_wait();
}

struct BulkWrite {
  // `is_fenced` is set after a fence.proxy.async, and `is_met` after a barrier that follows the fence.
  bool is_fenced = false, is_met = false;
  bool operator==(const BulkWrite&) const = default;
};

struct BulkStore {
  static constexpr int open = 0, oldest = 100;

  int age = open;        // number of groups committed since the store, including the group of the store
  bool is_read = false;  // true if a wait of this thread has ensured that the copy has read its source
  bool operator==(const BulkStore&) const = default;
};

// The writes and bulk stores of a thread that are still relevant on a path.
struct BulkState {
  std::map<int, BulkWrite> writes = {};
  // The key consists of the instruction and of the number of moves of its address since the store, if a loop
  // moves the address from buffer to buffer.
  std::map<std::pair<int, int>, BulkStore> stores = {};

  bool operator==(const BulkState&) const = default;
  size_t size() const { return writes.size() + stores.size(); }
  bool join(const BulkState& other) {
    const BulkState before = *this;
    for (const auto& [i, theirs] : other.writes) {
      auto [mine, is_new] = writes.emplace(i, theirs);
      mine->second.is_fenced &= theirs.is_fenced;
      mine->second.is_met &= theirs.is_met;
    }
    for (const auto& [i, theirs] : other.stores) {
      auto [mine, is_new] = stores.emplace(i, theirs);
      mine->second.age = std::min(mine->second.age, theirs.age);
      mine->second.is_read &= theirs.is_read;
    }
    return !(*this == before);
  }
};

class BulkWalk {
 public:
  enum Kind : int {
    kUnfenced,       // a store copies data that `other` wrote, without a fence
    kUnmet,          // a store copies data that other warps also wrote, without a barrier
    kReused,         // a write to memory that the store `other` may still be reading
    kReusedByOther,  // a write by several warps, but only this thread has waited for the store `other`
    kOpenAtEnd,      // a store is not committed
    kLeft,           // a store is committed, but no wait follows
    kUnfencedRead    // a wgmma reads data that `other` wrote, without a fence
  };

  explicit BulkWalk(LintKernel& kernel) : kernel_(kernel) {
    for (int i = 0; i < kernel_.count(); ++i) {
      const Operation& o = kernel_.operation(i);
      const std::vector<Sum> addresses = kernel_.addresses(i);
      if (!addresses.empty() && o.is_bulk_load()) loads_[i] = kernel_.shared_offset(addresses.front());
      if (!addresses.empty() && (is_bulk_store(o) || is_shared_write(o)))
        place_[i] = kernel_.shared_offset(is_bulk_store(o) ? addresses.back() : addresses.front());
      if (is_bulk_store(o) && place_.contains(i) && place_.at(i)) moves_.add(kernel_, i, *place_.at(i));
      if (o.is_wgmma()) tiles_[i] = tiles_of(kernel_, i);
    }
  }

  std::set<LintEvent> run() {
    for (const ThreadClass& c : kernel_.classes) {
      bool stores = false;
      for (const auto& [i, place] : place_)
        stores |= is_bulk_store(kernel_.operation(i)) && c.runs[at(i)] != Runs::no;
      for (const auto& [i, tiles] : tiles_) stores |= c.runs[at(i)] != Runs::no;
      if (!stores) continue;
      in_ = &kernel_.values_in(c);
      follow(kernel_, c, BulkState{}, [&](BulkState& s, int i, bool is_last) { step(s, i, is_last); });
    }
    return std::move(events_);
  }

 private:
  void multiply(const BulkState& s, int i) {
    for (const Access& tile : tiles_.at(i)) {
      const Sum from = in_->rest(tile.address);
      for (const auto& [number, w] : s.writes) {
        const std::optional<Sum>& place = place_.at(number);
        if (w.is_fenced || !place) continue;
        const Sum to = in_->rest(*place);
        if (to.terms == from.terms && kernel_.are_of_one_variable(from.constant, to.constant) &&
            to.constant >= from.constant && to.constant < from.constant + tile.bytes)
          events_.insert({kUnfencedRead, i, number});
      }
    }
  }

  // Returns whether a store's address is the same after this number of moves around a ring of buffers.
  bool returns(int store, int moves) {
    if (moves == 0) return true;
    Dependent dependent(kernel_, *in_);
    const Sum& place = *place_.at(store);
    const auto root = dependent.root(place);
    if (!root || moves > Moves::most) return false;
    const Atom& a = kernel_.values.atom(*root);
    const bool is_ring = a.kind == Atom::Kind::stage;
    if (!is_ring && a.kind != Atom::Kind::counter) return false;
    const int64_t count = is_ring ? a.inputs[1].constant : Moves::most;
    for (int64_t v = 0; v < std::min<int64_t>(count, Moves::most); ++v) {
      const auto before = dependent.value(place, *root, v),
                 now = dependent.value(place, *root,
                                       is_ring ? (v + moves) % count : v + moves * a.inputs[1].constant);
      if (!before || before != now) return false;
    }
    return true;
  }

  // Returns the distance in bytes from the source of `store` to the destination of `write`, in this thread.
  std::optional<int64_t> distance(int store, int write) {
    const std::optional<Sum>&from = place_.at(store),
          &to = (loads_.contains(write) ? loads_ : place_).at(write);
    if (!from || !to) return std::nullopt;
    const Sum a = in_->rest(*from), b = in_->rest(*to);
    const bool are_near = a.terms == b.terms && kernel_.are_of_one_variable(a.constant, b.constant);
    return are_near ? std::optional(b.constant - a.constant) : std::nullopt;
  }

  // Returns whether `write` writes to the source of `store`. The source is assumed to extend up to the source
  // of the next store.
  bool is_in(int write, int store) {
    const std::optional<int64_t> from = distance(store, write);
    if (!from || *from < 0) return false;
    for (const auto& [other, place] : place_) {
      if (other == store || !is_bulk_store(kernel_.operation(other))) continue;
      const std::optional<int64_t> next = distance(store, other);
      if (next && *next > 0 && *next <= *from) return false;
    }
    return true;
  }

  // Returns whether threads of several warps execute the write.
  bool is_shared_by_warps(int write) {
    const auto [known, is_new] = shared_by_warps_.try_emplace(write);
    if (is_new) known->second = kernel_.lanes_that_run(write).size() > 1;
    return known->second;
  }

  void step(BulkState& s, int i, bool is_last) {
    const Operation& o = kernel_.operation(i);
    moves_.step(i, s.stores);
    if (is_last && tiles_.contains(i)) multiply(s, i);
    if (is_last && loads_.contains(i)) overwrite(s, i, false);
    if (place_.contains(i)) return is_bulk_store(o) ? store(s, i, is_last) : write(s, i, is_last);
    const bool fences = o.is_async_fence(), meets = is_barrier(o);
    if (fences || meets) {
      for (auto& [number, w] : s.writes) {
        w.is_fenced |= fences;
        w.is_met |= meets;
      }
      std::erase_if(s.writes, [&](const auto& entry) {  // such writes are safe to copy
        return entry.second.is_fenced && (entry.second.is_met || !is_shared_by_warps(entry.first));
      });
    }
    if (meets) std::erase_if(s.stores, [](const auto& entry) { return entry.second.is_read; });
    if (o.is("cp") && o.has("bulk") && o.has("commit_group"))
      for (auto& [number, pending] : s.stores) pending.age = std::min(pending.age + 1, BulkStore::oldest);
    if (o.is("cp") && o.has("bulk") && o.has("wait_group") && !o.operands.empty())
      for (auto& [number, pending] : s.stores)
        if (pending.age > o.operands[0].value) pending.is_read = true;
    if (kernel_.ends(i) && is_last)
      for (const auto& [number, pending] : s.stores)
        if (!pending.is_read)
          events_.insert({pending.age == BulkStore::open ? kOpenAtEnd : kLeft, number.first});
  }

  // Handles a write or a load to the source of a store. The executing thread must have waited until the store
  // has read the bytes. If several warps write, each warp must be ordered after such a wait.
  void overwrite(const BulkState& s, int i, bool is_by_warps) {
    constexpr int64_t kLeast = hopper::bulk_unit;  // minimum number of bytes that a copy reads
    for (const auto& [key, pending] : s.stores)
      if (const auto from = distance(key.first, i); from && *from >= 0 && *from < kLeast &&
                                                    returns(key.first, key.second) &&
                                                    (!pending.is_read || is_by_warps))
        events_.insert({pending.is_read ? kReusedByOther : kReused, i, key.first});
  }

  void write(BulkState& s, int i, bool is_last) {
    if (is_last) overwrite(s, i, is_shared_by_warps(i));
    s.writes[i] = {};
  }

  void store(BulkState& s, int i, bool is_last) {
    if (is_last)
      for (const auto& [number, w] : s.writes) {
        if (w.is_fenced && (w.is_met || !is_shared_by_warps(number))) continue;
        if (is_in(number, i)) events_.insert({w.is_fenced ? kUnmet : kUnfenced, i, number});
      }
    s.stores[{i, 0}] = {};
  }

  LintKernel& kernel_;
  std::set<LintEvent> events_;
  std::map<int, std::optional<Sum>> place_;   // source of each store, and destination of each write
  std::map<int, std::optional<Sum>> loads_;   // destination of each bulk load
  std::map<int, std::vector<Access>> tiles_;  // accesses of each wgmma
  Moves moves_;                               // moves of the stores' addresses
  std::map<int, bool> shared_by_warps_;       // for each write, the result of is_shared_by_warps()
  ThreadValues* in_ = nullptr;
};

std::set<LintEvent> walk_bulk(LintKernel& kernel) { return BulkWalk(kernel).run(); }

// Reports bulk stores whose address in shared memory is not known. In kernels with bulk stores, also reports
// writes to unknown addresses.
void tell_unknown_places(LintKernel& kernel, Report& report) {
  if (!report.tells_undecided()) return;
  std::vector<int> unknown;
  bool stores = false;
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    const std::vector<Sum> addresses = kernel.addresses(i);
    if (!(is_bulk_store(o) || is_shared_write(o)) || addresses.empty() || !kernel.runs(i)) continue;
    stores |= is_bulk_store(o);
    if (!kernel.shared_offset(is_bulk_store(o) ? addresses.back() : addresses.front())) unknown.push_back(i);
  }
  for (int i : unknown)
    if (stores)
      report.undecided(i, is_bulk_store(kernel.operation(i)) ? "the source of this copy"
                                                             : "the destination of this write");
}

// Reports each instruction once, together with all other instructions that are involved.
template <typename Text>
void report_all(LintKernel& kernel, BulkWalk::Kind kind, Report& report, const Text& text) {
  std::map<int, std::set<int>> others;
  for (const LintEvent& event : kernel.events(walk_bulk))
    if (event.kind == kind) others[event.operation].insert(event.other);
  for (const auto& [operation, all] : others) {
    const int first = *all.begin();
    report.add(operation,
               text(kernel.operation(operation).text->opcode,
                    first == kNone ? std::string() : kernel.operation(first).text->opcode),
               all);
  }
}

}  // namespace

void check_proxy_fence(LintKernel& kernel, Report& report) {
  tell_unknown_places(kernel, report);
  tell_unknown_reads(kernel, report);
  report_all(kernel, BulkWalk::kUnfenced, report, [](const std::string& store, const std::string& write) {
    return fmt::format("{} copies data that {} wrote, without fence.proxy.async between them", store, write);
  });
  report_all(kernel, BulkWalk::kUnfencedRead, report, [](const std::string&, const std::string& write) {
    return fmt::format("wgmma reads data that {} wrote, without fence.proxy.async between them", write);
  });
  report_unfenced_writes(kernel, report);
}

void check_store_order(LintKernel& kernel, Report& report) {
  tell_unknown_places(kernel, report);
  report_all(kernel, BulkWalk::kUnmet, report, [](const std::string& store, const std::string& write) {
    return fmt::format("{} copies data that other warps wrote with {}, without a barrier between them", store,
                       write);
  });
}

void check_staging(LintKernel& kernel, Report& report) {
  tell_unknown_places(kernel, report);
  report_all(kernel, BulkWalk::kReused, report, [](const std::string& write, const std::string& store) {
    return fmt::format("{} writes where {} may still read: no cp.async.bulk.wait_group comes between them",
                       write, store);
  });
  report_all(kernel, BulkWalk::kReusedByOther, report,
             [](const std::string& write, const std::string& store) {
               return fmt::format(
                   "{} writes where {} may still read, as far as other warps know: no barrier follows the "
                   "wait of the copying thread",
                   write, store);
             });
}

void check_bulk_groups(LintKernel& kernel, Report& report) {
  report_all(kernel, BulkWalk::kOpenAtEnd, report, [](const std::string&, const std::string&) {
    return "this copy is not committed to a group before the kernel ends";
  });
  report_all(kernel, BulkWalk::kLeft, report, [](const std::string&, const std::string&) {
    return "no cp.async.bulk.wait_group waits for this copy before the kernel ends";
  });
}

}  // namespace ptxbuilder::analysis
