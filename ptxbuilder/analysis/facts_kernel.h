// Holds the state that the computations of the facts in facts.h share. Each topic has a separate file.
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
  using Operations = std::vector<int>;  // numbers of instructions, in the order of control flow
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
  // Returns the atom of a ring's stage in an address, or null if there is none.
  const Atom* stage_in(const Sum& address) const;
  // Returns the mnemonic in its canonical spelling.
  static std::string plain(const Operation& o);
  using Words = std::vector<std::string>;
  static std::string joined(const Words& words);  // returns "none" for an empty list
  static std::string alike(const Words& words);   // returns a single value if all are equal
  static std::string folded(const Words& words);  // returns "2 x (wait, free)" for "wait, free, wait, free"

  void region(const char* name);
  void add(Weight weight, const char* kind, std::string value, const char* effect, uint32_t line = 0);
  // Adds a fact: the number of instructions that pass the test.
  void add_count(Weight weight, const char* kind, const Operations& all, const Test& test,
                 const char* effect);
  // Adds a fact: the number of instructions with each mnemonic that pass the test.
  void add_kinds(Weight weight, const char* kind, const Operations& all, const Test& test,
                 const char* effect);
  // Adds a fact: the forms of the instructions that pass the test, without their number.
  void add_forms(Weight weight, const char* kind, const Operations& all, const Test& test,
                 const char* effect);
  // Adds a fact: the integer and control instructions of a loop, except moves.
  void add_other_work(const char* kind, const Operations& loop);

  // The following functions are defined in facts_launch.cpp.
  void launch();
  // Describes the declarations that no other fact covers.
  void declarations();
  void roles();
  void schedule();
  void start_and_end();

  // The following functions are defined in facts_loads.cpp.
  void ring();
  Operations both_loops() const;
  // Returns the constants that may be the initial value of a parity.
  std::string first_parity(int i);
  void gather_constants(const Sum& sum, std::set<int64_t>& constants, std::set<int>& seen) const;
  // Finds the bulk loads of the loop. They are sorted by destination, because their order in the text has no
  // effect.
  Operations find_bulk_loads();
  void copies();
  // Returns the distance by which a coordinate advances in each iteration.
  std::string step_of(int i, const Value& coordinates);

  // The following functions are defined in facts_products.cpp.
  void products();
  // Returns the offset of matrix `n` from the first matrix, in bytes and without its stage.
  std::string along_k(size_t n);
  std::string form(size_t n);
  // Returns the offset that each warp of the loop adds to the address of matrix `n`.
  std::string by_warp(size_t n);
  // Returns descriptions of the instructions of the loop, in order.
  std::vector<std::string> order();
  // Describes whether the freed stage is the stage that the preceding product reads.
  std::string freed();

  // The following functions are defined in facts_epilogue.cpp.
  void epilogue();
  // Finds the consumers' instructions in the loop over tiles or, if there is no such loop, outside the main
  // loop.
  void find_epilogue();
  // Selects one of several mutually exclusive paths, for example with and without bounds checks. Prefers the
  // path with the most stores and, if several paths have equally many stores, the path with the most
  // instructions. Back edges are not followed.
  std::vector<int> longest_path(const std::vector<int>& blocks) const;

  // Adds each kind of undecided fact with its number. A different number in the other kernel counts as a
  // difference.
  void unknowns();

  const Portrait& p_;
  const Code& code_;
  const Graph& graph_;
  Values& values_;
  const Mainloop *product_loop_ = nullptr, *load_loop_ = nullptr;
  int tile_loop_ = kNone;
  Operations products_, loads_, epilogue_, all_;
  std::map<int, std::string> barrier_of_;  // indexed by instruction
  std::vector<Region> regions_;
};

}  // namespace ptxbuilder::analysis
