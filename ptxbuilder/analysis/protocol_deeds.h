// Performs each instruction that lanes of a warp reach in a simulated run, and updates the order of the run's
// events.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ptxbuilder/analysis/protocol_order.h"
#include "ptxbuilder/analysis/protocol_values.h"

namespace ptxbuilder::analysis {

// The greatest number of iterations for which each loop is followed: two iterations, plus two for each
// mbarrier of the ring for which the loop waits.
struct Turns {
  explicit Turns(size_t loops) : most(loops, 4) {}

  std::vector<int> most;  // for each loop, the greatest number of iterations
  // Records that a wait in a loop waits for `ring` different mbarriers.
  void widen(int loop, size_t ring) {
    most[at(loop)] = std::max(most[at(loop)], 2 * static_cast<int>(ring) + 2);
  }
  int largest() const { return most.empty() ? 4 : *std::max_element(most.begin(), most.end()); }
};

// A group of lanes of a warp that run together.
struct Walker : Group {
  View view = {};
  int pc = 0;
  bool has_ended = false;
  uint64_t products = 0;               // number of wgmmas that the warp has issued
  std::vector<uint64_t> groups = {};   // for each committed group, the wgmmas issued before it
  std::optional<uint32_t> meets = {};  // phase of the barrier at which these lanes wait
  uint32_t cluster_phase = 0;          // phase of the cluster barrier at which the lanes have arrived
  bool has_registers = false;          // true if the requested registers have been granted
  std::optional<Scalar> open = {};     // value that the lanes need before they can continue
};
using Warp = std::deque<Walker>;  // a deque, so that walkers keep their addresses when lanes separate

// Moves the lanes of `other` to `into`, so that lanes that have reached the same instruction continue
// together.
void unite(Walker& into, Walker& other);

class ProtocolDeeds {
 public:
  // A wait that is not repeated succeeds only if its phase is complete and `peeks_succeed` is true.
  ProtocolDeeds(const ProtocolCode& code, Terms& terms, Boxes& boxes, Turns& turns, bool peeks_succeed)
      : code_(code),
        terms_(terms),
        boxes_(boxes),
        turns_(turns),
        peeks_succeed_(peeks_succeed),
        values_(code, terms),
        order_(static_cast<int>(code.ctas()), boxes, code.has_words) {}

  // Runs the instruction that `lanes` of `w` have reached. Returns false if the lanes must wait. Throws
  // Refusal if the proof fails.
  bool perform(Warp& warp, Walker& w, Lanes lanes);
  // Lets warps continue after setmaxnreg.inc once all warps that can release registers have released them.
  // Returns true if at least one warp continues.
  bool grant_registers(std::deque<Warp>& warps);
  // If `term` is the outcome of an mbarrier test, returns the outcome and records that the lanes of `w`
  // depend on it. Returns nothing for any other term.
  std::optional<bool> outcome(int term, Walker& w);
  // Describes the mbarrier for which the lanes of `w` last waited. Returns "" if they have not waited.
  std::string waits_for(const Walker& w) const;

  Order& order() { return order_; }
  ProtocolValues& values() { return values_; }

 private:
  const Operation& operation(int i) const { return code_.code.operations[at(i)]; }
  // Returns the operands that are addresses, in order.
  static std::vector<const Value*> addresses(const Operation& o) {
    std::vector<const Value*> all;
    for (const Value& v : o.operands)
      if (v.kind == Value::Kind::address) all.push_back(&v);
    return all;
  }
  // Returns the operand after the last address, or null if there is none.
  static const Value* behind_address(const Operation& o) {
    for (size_t n = o.operands.size(); n-- > 0;)
      if (o.operands[n].kind == Value::Kind::address)
        return n + 1 < o.operands.size() ? &o.operands[n + 1] : nullptr;
    return nullptr;
  }
  Order::Place place(const Walker& w, uint64_t address) const;

  // Returns the number that a lane holds, or nothing if it is not known yet. The lanes then wait for the
  // number.
  std::optional<uint64_t> number(Walker& w, const LaneValues& v, int lane) {
    const Scalar s = terms_.resolved(v[lane]);
    if (s.is_known()) return s.value;
    w.open = s;
    return std::nullopt;
  }
  std::optional<uint64_t> number(Walker& w, const Value& v) {
    return number(w, values_.operand(w, v), std::countr_zero(w.lanes));
  }

  // Calls f(address, lanes) for each address and the lanes that hold it. Returns false if an address is not
  // known.
  bool for_addresses(Walker& w, const Value& v, Lanes lanes, const auto& f) {
    const LaneValues all = values_.operand(w, v);
    if (all.is_one()) {
      const auto address = number(w, all, 0);
      if (!address) return false;
      f(place(w, *address), lanes);
      return true;
    }
    std::vector<std::pair<Order::Place, Lanes>> each;
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      const auto address = number(w, all, lane);
      if (!address) return false;
      each.emplace_back(place(w, *address), Lanes{1} << lane);
    }
    for (const auto& [to, of] : each) f(to, of);
    return true;
  }

  // Calls f with the two addresses of each lane. Returns false if an address is not known.
  bool for_pairs(Walker& w, const Value& a, const Value& b, Lanes lanes, const auto& f) {
    const LaneValues first = values_.operand(w, a), second = values_.operand(w, b);
    std::vector<std::pair<Order::Place, Order::Place>> each;
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      const auto x = number(w, first, lane), y = number(w, second, lane);
      if (!x || !y) return false;
      each.emplace_back(place(w, *x), place(w, *y));
    }
    for (const auto& [x, y] : each) f(x, y);
    return true;
  }

  static void for_lanes(Lanes lanes, const auto& f) {
    for (; lanes != 0; lanes &= lanes - 1) f(std::countr_zero(lanes));
  }

  // The committed groups of a thread's bulk copies from shared memory, or of a warp's cp.async copies.
  struct BulkGroups {
    int component = kNone;
    uint32_t begun = 0;  // number of committed groups
  };
  BulkGroups& bulk(const Walker& w, int lane);
  // Throws Refusal if lanes of the warp take different paths.
  BulkGroups& copies(const Warp& warp, const Walker& w);

  // The products of a warpgroup. A product completes in all warps of the warpgroup at once, after all of
  // these warps have issued it.
  struct Products {
    int component = kNone;
    std::array<uint64_t, 4> begun = {};  // number of products that each warp has issued
    std::vector<Clock> came = {};        // for each product, the events that precede its issue in all warps
  };
  Products& products(const Walker& w);
  bool leave_products(Walker& w, uint64_t count);

  bool arrive(Walker& w, int i, Deed deed, Lanes lanes);
  bool wait(Walker& w, int i, Lanes lanes);
  Scalar tested(const Order::Test& test, int i);
  bool barrier(Walker& w, int i, Lanes lanes);
  bool sync_warp(Warp& warp, Walker& w, int i);

  bool access(Walker& w, int i, Deed deed, Lanes lanes);
  bool store_async(Walker& w, int i, Lanes lanes);
  bool copy_in(Walker& w, int i, Lanes lanes);
  bool copy_out(Walker& w, int i, Lanes lanes);
  bool copy_in_threads(const Warp& warp, Walker& w, Lanes lanes);
  bool multiply(Walker& w, int i);
  std::string map_of(Walker& w, const Value& v);

  static constexpr std::pair<int, uint64_t> kCluster = {-1, 0};

  const ProtocolCode& code_;
  Terms& terms_;
  Boxes& boxes_;
  Turns& turns_;
  const bool peeks_succeed_;
  ProtocolValues values_;
  Order order_;
  std::map<std::pair<int, int>, BulkGroups> bulk_;           // indexed by CTA and thread
  std::map<std::pair<int, int>, BulkGroups> copies_;         // by CTA and warp
  std::map<std::pair<int, int>, Products> products_;         // indexed by CTA and warpgroup
  std::map<std::array<int, 3>, std::set<uint64_t>> waited_;  // mbarriers, indexed by wait, CTA, warp
  std::map<std::pair<int, int>, Order::Place> last_wait_;
  std::map<int, std::pair<Order::Test, int>> tests_;  // indexed by the term of the outcome
  bool gave_registers_ = false;
};

}  // namespace ptxbuilder::analysis
