// The facts of facts.h, by topic: what they share.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ptxbuilder/analysis/facts.h"

namespace ptxbuilder::analysis {

class Facts {
 public:
  using Operations = std::vector<int>;  // by number, in an order of control flow
  using Test = std::function<bool(const Operation&)>;

  explicit Facts(KernelAnalysis& kernel);
  std::vector<Region> run();

 private:
  static bool is_product(const Operation& o) { return o.is_wgmma() || (o.is("mma") && o.has("sync")); }
  static bool is_wait(const Operation& o) { return o.is_mbarrier_wait(); }
  static bool is_store(const Operation& o) {
    return o.is("cp") && o.has("bulk") && o.has("bulk_group") && !o.operands.empty();
  }
  const Operation& operation(int i) const { return code_.operations[at(i)]; }
  Sum operand(int i, size_t n) {
    return n < operation(i).operands.size() ? values_.of(i, operation(i).operands[n]) : Sum{};
  }
  Operations operations_of(const std::vector<int>& blocks) const;
  size_t count(const Operations& all, const Test& test) const;
  uint32_t line(const Operations& all, const Test& test) const;
  std::string role_of(int block) const;
  const BarrierArray* barrier(std::string_view name) const;
  std::string barrier_of(int i) const;
  // The stage of an address, and what it is at first.
  const Atom* stage_in(const Sum& address) const;
  // The mnemonic without the spellings of one meaning.
  static std::string plain(const Operation& o);
  using Words = std::vector<std::string>;
  static std::string joined(const Words& words);  // "none" of none
  static std::string alike(const Words& words);   // one of them where all are alike
  static std::string folded(const Words& words);  // "2 x (wait, free)" of "wait, free, wait, free"

  void region(const char* name);
  void add(Weight weight, const char* kind, std::string value, const char* effect, uint32_t line = 0);
  // This counts some instructions.
  void add_count(Weight weight, const char* kind, const Operations& all, const Test& test,
                 const char* effect);
  // This counts each of them by its mnemonic.
  void add_kinds(Weight weight, const char* kind, const Operations& all, const Test& test,
                 const char* effect);
  // This names those that there are, however often.
  void add_forms(Weight weight, const char* kind, const Operations& all, const Test& test,
                 const char* effect);
  // Integer work and control, which moves are not.
  void add_other_work(const char* kind, const Operations& loop);

  // facts_launch.cpp
  void launch();
  // This is what precedes the first instruction and is said by no other fact.
  void declarations();
  void roles();
  void schedule();
  void start_and_end();

  // facts_loads.cpp
  void ring();
  Operations both_loops() const;
  // The constants that a parity may be at first: those that meet ahead of its loops.
  std::string first_parity(int i);
  void gather_constants(const Sum& sum, std::set<int64_t>& constants, std::set<int>& seen) const;
  // The stores of the loop, by where they go: in which order they stand does not matter.
  Operations find_bulk_loads();
  void copies();
  // The distance that coordinates go on in an iteration: the one that does.
  std::string step_of(int i, const Value& coordinates);

  // facts_products.cpp
  void products();
  // The place of a matrix, without what differs by stage: bytes from where the first one is, for each warp.
  std::string along_k(size_t n);
  std::string form(size_t n);
  // The warps of the loop add this to the address of a matrix.
  std::string by_warp(size_t n);
  // The instructions of the loop in order, as what they do.
  std::vector<std::string> order();
  // This says whether what frees a stage is of the ring position that was just multiplied.
  std::string freed();

  // facts_epilogue.cpp
  void epilogue();
  // This is what consumers do in the loop of tiles of a kernel that has one; else what they do outside of the
  // main loop.
  void find_epilogue();
  // This takes one of branches that exclude each other, such as a store with and without other work: that of
  // most stores, and then of most instructions. What loops back is not followed.
  std::vector<int> longest_path(const std::vector<int>& blocks) const;

  // An undecided fact counts as a difference, unless the other kernel has as many of the same.
  void unknowns();

  const Portrait& p_;
  const Code& code_;
  const Graph& graph_;
  Values& values_;
  const Mainloop *product_loop_ = nullptr, *load_loop_ = nullptr;
  int tile_loop_ = kNone;
  Operations products_, loads_, epilogue_, all_;
  std::map<int, std::string> barrier_of_;  // by instruction
  std::vector<Region> regions_;
};

}  // namespace ptxbuilder::analysis
