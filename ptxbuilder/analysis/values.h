// Describes the contents of a kernel's registers: each value is a sum of constants times atoms. An atom is a
// special register, a parameter, a variable's address, or what an instruction computes from other values.
// Registers' names and the order of independent instructions do not matter: equal values of two kernels have
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

// constant + the sum of factor times atom, modulo 2^64. Widening conversions and address spaces are omitted:
// a value and its conversion are the same sum.
struct Sum {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms = {};  // atoms by number, ascending, with factors that are not 0

  bool is_constant() const { return terms.empty(); }
  bool operator==(const Sum&) const = default;
};

// A term that sums consist of.
struct Atom {
  enum class Kind : uint8_t {
    special,    // %tid.x: name
    parameter,  // of the kernel, in its parameter space: name "param"; inputs are index and offset
    address,    // of a variable, which is an object of its own, or of a function: name is the state space
    function,   // of an instruction's operation on its inputs: name is the mnemonic
    counter,    // of a loop: inputs are its first value and its step
    stage,      // of a ring, 0 again after the last one: inputs are its first value and the number of stages
    meet,       // one of several values, where paths meet
    unknown     // a register that was never written, or a value from a call or a load
  };

  Kind kind = Kind::unknown;
  std::string name = {};
  int object = kNone;  // of an address: the variable's number, or a function's number, which come after those
                       // of variables
  std::vector<Sum> inputs = {};
  int operation = kNone;   // that computes it, if one does
  int block = kNone;       // of a counter and a meet
  int meet = kNone;        // the meet in the definitions that it represents
  uint64_t name_hash = 0;  // of the kind and the name
  uint64_t hash = 0;       // the same in every kernel that computes the same value, whatever its registers
};

// Returns the same hash on every machine.
uint64_t hash_of(std::string_view text);
// A mixing step of splitmix64 (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t hash, uint64_t value);

// Numbers what a kernel and the functions that it calls use, in the order of first use: the numbers
// distinguish variables with equal declarations, whatever their names are and wherever they are
// declared.
struct Numbering {
  // True if names identify the variables that the host can access: if two modules have the same variables.
  // Otherwise the place among equal declarations identifies a variable, or the order of use if all of them
  // are used.
  bool by_name = false;
  std::map<const ptx_text::Declarator*, int> variables = {};  // among those with equal declarations
  std::map<const ptx_text::Declarator*, int> of_space = {};   // among those in their state space
  std::map<uint64_t, int> alike = {};  // the number of variables with each declaration so far
  std::map<std::string, int, std::less<>> in_space = {};
  std::vector<const ptx_text::Function*> functions = {};
  std::map<const ptx_text::Function*, int> places = {};  // indices into the functions

  int place(const ptx_text::Function* function) const {
    const auto found = places.find(function);
    return found == places.end() ? kNone : found->second;
  }
};

class Values {
 public:
  // The arguments must all outlive this object. A function's `numbering` is that of its kernel.
  Values(const Code& code, const Graph& graph, Numbering& numbering);

  // A register's value before an instruction, and after it.
  Sum before(int operation, int reg);
  Sum after(int operation, int reg);
  // An operand as an instruction reads it: for an address, its first part plus the offset.
  Sum of(int operation, const Value& operand);

  int atoms() const { return static_cast<int>(atoms_.size()); }
  const Atom& atom(int number) const { return atoms_[static_cast<size_t>(number)]; }
  // The place of an atom's value in a thread, close to that of others; kNone if the thread's number does not
  // affect the atom outside of loops.
  int place_in_thread(int number) const {
    const auto made_later = number - static_cast<int>(of_thread_.size());
    return made_later < 0 ? of_thread_[static_cast<size_t>(number)] : count_of_thread_ + made_later;
  }
  // The atom that is the whole sum, if its name begins with `name`; otherwise null.
  const Atom* only_atom(const Sum& sum, std::string_view name) const;
  // The negated predicate, if it is another comparison of integers.
  std::optional<Sum> opposite(const Sum& predicate);
  // Returns whether a sum begins with a variable in shared memory.
  bool is_in_shared(const Sum& sum) const;
  // Returns whether a sum of 32 bits is so small that it is the same number signed and unsigned.
  bool is_small(const Sum& sum) const;
  // The initial value of a loop's value, if it is a single one.
  std::optional<Sum> first(const Atom& atom) const;
  // The value of a meet when control comes from a predecessor of its block.
  Sum from(int atom, int predecessor);
  // The block from which each input of a meet comes; kNone for a value from before the kernel's first
  // instruction.
  std::span<const int> predecessors(const Atom& meet) const;
  uint64_t hash(const Sum& sum) const;
  // Sets whether texts refer to variables with their names, or with what is the same in kernels that do the
  // same.
  void name_variables(bool by_names) { has_names_ = by_names; }
  // Orders addresses: by the variable's order of use, and then by the byte offset in the variable.
  std::pair<int, int64_t> place_in_memory(const Sum& address) const;
  // "smem + 16384 stage + 32"; an atom nested deeper than `depth` functions is printed "...".
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
  std::vector<uint64_t> declared_, objects_;  // by variable and function: its declaration, and its identity
  bool has_hashes_ = false, has_names_ = true;
  std::vector<int> of_thread_;  // by atom, its place in a thread
  int count_of_thread_ = 0;
  // The atoms that are equal wherever they are computed, by a hash of their contents: indices in a table that
  // is at most half full.
  std::vector<int> table_;
  size_t in_table_ = 0;
  std::vector<int> first_result_;  // by instruction, the index of its first result
  std::vector<std::optional<Sum>> results_;
  std::vector<int> meets_;    // their atoms; kNone if none was requested
  std::vector<int> made_at_;  // by meet, its index in made_
  struct Made {
    int meet, atom;
    std::vector<int> predecessors = {};  // one for each input
  };
  std::vector<Made> made_;                                       // in the order in which they are filled
  std::map<std::string, std::string, std::less<>> plain_names_;  // by the mnemonic as written
  // Meets that are equal to the value from one predecessor, perhaps of another meet.
  struct Source {
    int predecessor = kNone, reg = kNone;
  };
  std::vector<Source> copies_;
};

}  // namespace ptxbuilder::analysis
