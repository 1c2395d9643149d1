// Describes the contents of a kernel's registers: each value is a sum of constants times atoms. An atom is a
// special register, a parameter, a variable's address, or the result of an instruction on other values. Names
// of registers and the order of independent instructions do not matter: equal values of two kernels have
// equal hashes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ptxbuilder/analysis/definitions.h"
#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// A constant plus the sum of factors times atoms, modulo 2^64. Widening conversions and address spaces are
// omitted: a value and its conversion are the same sum.
struct Sum {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms = {};  // numbers of atoms in ascending order, with factors that
                                                    // are not 0

  bool is_constant() const { return terms.empty(); }
  bool operator==(const Sum&) const = default;
};

// A term in a sum.
struct Atom {
  enum class Kind : uint8_t {
    special,    // %tid.x: stored in `name`
    parameter,  // of the kernel, in its parameter space: `name` is "param"; inputs are index and offset
    address,    // of a variable, which is a separate object, or of a function: `name` is the state space
    function,   // an instruction's operation on its inputs: `name` is the mnemonic
    counter,    // of a loop: inputs are its first value and its step
    stage,      // of a ring, which returns to 0 after the last one: inputs are its first value and the number
                // of stages
    meet,       // one of several values, at a point where paths meet
    unknown     // a register that was never written, or a value from a call or a load
  };

  Kind kind = Kind::unknown;
  std::string name = {};
  int object = kNone;  // for an address: number of the variable or function; functions are numbered after all
                       // variables
  std::vector<Sum> inputs = {};
  int operation = kNone;   // instruction that computes it, if there is one
  int block = kNone;       // for a counter and a meet
  int meet = kNone;        // the meet in Definitions that it represents
  uint64_t name_hash = 0;  // hash of the kind and the name
  uint64_t hash = 0;       // equal in all kernels that compute the same value, in whichever registers
};

// Returns a hash that is the same on all machines.
uint64_t hash_of(std::string_view text);
// Applies a mixing step of splitmix64 (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t hash, uint64_t value);

// Numbers the variables and functions that a kernel and the functions that it calls use, in the order of
// their first use. The numbers distinguish variables with equal declarations, whatever their names are and
// wherever they are declared.
struct Numbering {
  // True if names identify the variables that the host can access, which requires that two modules have the
  // same variables. Otherwise a variable is identified by its position among equal declarations or, if all of
  // them are used, by the order of use.
  bool by_name = false;
  std::map<const ptx_text::Declarator*, int> variables = {};  // among those with equal declarations
  std::map<const ptx_text::Declarator*, int> of_space = {};   // among those in their state space
  std::map<uint64_t, int> alike = {};  // number of variables with each declaration so far
  std::map<std::string, int, std::less<>> in_space = {};
  std::vector<const ptx_text::Function*> functions = {};
  std::map<const ptx_text::Function*, int> places = {};  // indices in the functions

  int place(const ptx_text::Function* function) const {
    const auto found = places.find(function);
    return found == places.end() ? kNone : found->second;
  }
};

class Values {
 public:
  // All arguments must outlive this object. A function's `numbering` is that of its kernel.
  Values(const Code& code, const Graph& graph, Numbering& numbering);

  // Return a register's value before an instruction, and after it.
  Sum before(int operation, int reg);
  Sum after(int operation, int reg);
  // Returns an operand as an instruction reads it; for an address, its first part plus the offset.
  Sum of(int operation, const Value& operand);

  int atoms() const { return static_cast<int>(atoms_.size()); }
  const Atom& atom(int number) const { return atoms_[static_cast<size_t>(number)]; }
  // Returns the position of an atom's value in a thread, close to the positions of others, or kNone if the
  // thread's number does not affect the atom outside loops.
  int place_in_thread(int number) const {
    const auto made_later = number - static_cast<int>(of_thread_.size());
    return made_later < 0 ? of_thread_[static_cast<size_t>(number)] : count_of_thread_ + made_later;
  }
  // Returns the atom that is the whole sum, if its name begins with `name`, or else null.
  const Atom* only_atom(const Sum& sum, std::string_view name) const;
  // Returns the negated predicate, if it is another comparison of integers.
  std::optional<Sum> opposite(const Sum& predicate);
  // Returns whether a sum begins with a variable in shared memory.
  bool is_in_shared(const Sum& sum) const;
  // Returns whether a 32-bit sum is small enough to be the same number signed and unsigned.
  bool is_small(const Sum& sum) const;
  // Returns the initial value of a loop's value, if there is only one.
  std::optional<Sum> first(const Atom& atom) const;
  // Returns the value of a meet when control comes from a predecessor of its block.
  Sum from(int atom, int predecessor);
  // Returns the block from which each input of a meet comes; kNone for a value from before the kernel's first
  // instruction.
  std::span<const int> predecessors(const Atom& meet) const;
  uint64_t hash(const Sum& sum) const;
  // Sets whether texts refer to variables by name, or by properties that are equal in kernels that do the
  // same.
  void name_variables(bool by_names) { has_names_ = by_names; }
  // Orders addresses: first by the variable's order of use, and then by the byte offset in the variable.
  std::pair<int, int64_t> place_in_memory(const Sum& address) const;
  // Returns "smem + 16384 stage + 32"; an atom that is nested in more than `depth` functions is printed as
  // "...".
  std::string text(const Sum& sum, int depth = 4) const;

 private:
  Sum sum_of(const Definition& from, int reg);
  Sum behind(int block, int reg) { return sum_of(definitions_.behind(block, reg), reg); }
  Sum result(int operation, int reg);
  Sum computed(int operation, int reg);
  Sum meet(int number);
  void evaluate();
  void fill(int index);
  std::optional<int64_t> ring_of(const Sum& x, const Sum& next) const;
  bool find_copies();
  int object_of(int variable) const;
  int object_of(const Value& mention) const;
  bool is_parameter(const Sum& address) const;
  Sum atom_of(Atom atom);
  void find_hashes();
  void find_of_thread();
  void find_objects();
  void number_objects();
  void identify_objects();
  void number_object(int object);
  std::string label(const Atom& address) const;
  uint64_t hash_of(const Atom& atom) const;
  static uint64_t name_hash_of(const Atom& atom);
  int64_t bits_of(const Sum& sum) const;
  Sum function(std::string name, std::vector<Sum> inputs, int operation);

  const Code& code_;
  const Graph& graph_;
  const Definitions definitions_;
  std::vector<Atom> atoms_;
  Numbering& numbering_;
  std::vector<uint64_t> declared_, objects_;  // by variable or function: its declaration and its identity
  bool has_hashes_ = false, has_names_ = true;
  std::vector<int> of_thread_;  // by atom, its position in a thread
  int count_of_thread_ = 0;
  // The atoms that are equal wherever they are computed, by a hash of their contents: indices in a table that
  // is at most half full.
  std::vector<int> table_;
  size_t in_table_ = 0;
  std::vector<int> first_result_;  // by instruction, the index of its first result
  std::vector<std::optional<Sum>> results_;
  std::vector<int> meets_;    // atoms of meets; kNone if none was requested
  std::vector<int> made_at_;  // by meet, its index in made_
  struct Made {
    int meet, atom;
    std::vector<int> predecessors = {};  // one for each input
  };
  std::vector<Made> made_;                                       // in the order in which they are filled
  std::map<std::string, std::string, std::less<>> plain_names_;  // by the mnemonic as written
  // A meet that equals the value from one predecessor, which may be a value of another meet.
  struct Source {
    int predecessor = kNone, reg = kNone;
  };
  std::vector<Source> copies_;
};

}  // namespace ptxbuilder::analysis
