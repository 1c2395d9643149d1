// Describes the contents of a kernel's registers. Each value is a sum of constants times atoms. An atom is a
// special register, a parameter, a variable's address, or the result of an instruction on other values.
// Values that are equal in two kernels have equal hashes, even if registers have other names or independent
// instructions are in another order.
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

// A constant plus the sum of factors times atoms, modulo 2^64. Widening conversions and conversions between
// address spaces are omitted, so that a value and its conversion are the same sum.
struct Sum {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms = {};  // numbers of atoms in ascending order, and their factors,
                                                    // which are not 0

  bool is_constant() const { return terms.empty(); }
  bool operator==(const Sum&) const = default;
};

// A term in a sum.
struct Atom {
  enum class Kind : uint8_t {
    special,    // a special register: its name, such as "%tid.x"
    parameter,  // a kernel parameter: `name` is "param", and the inputs are index and offset
    address,    // the address of a variable or a function: `name` is the state space
    function,   // the result of an instruction: `name` is the mnemonic
    counter,    // a value that counts in a loop: inputs are its first value and its step
    stage,      // a stage of a ring, which returns to 0 after the last stage: inputs are its first value and
                // the number of stages
    meet,       // one of several values, at a point where paths meet
    unknown     // a register that was never written, or a value from a call or a load
  };

  Kind kind = Kind::unknown;
  std::string name = {};
  int object = kNone;  // for an address, the number of the variable or function; functions are numbered after
                       // all variables
  std::vector<Sum> inputs = {};
  int operation = kNone;   // instruction that computes the atom, if there is one
  int block = kNone;       // for a counter or a meet, its block
  int meet = kNone;        // for a meet, its number in Definitions
  uint64_t name_hash = 0;  // hash of the kind and the name
  uint64_t hash = 0;       // equal for equal values, in all kernels
};

// Returns a hash that is the same on all machines.
uint64_t hash_of(std::string_view text);
// Applies a mixing step of splitmix64 (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t hash, uint64_t value);

// Numbers the variables and functions that are used by a kernel, and by the functions that it calls, in the
// order of their first use. The numbers distinguish variables with equal declarations, independently of their
// names and of the position of their declarations.
struct Numbering {
  // True if names identify the variables that the host can access. The two modules must then have the same
  // names for these variables. If false, a variable is identified by its position among equal declarations
  // or, if all of them are used, by the order of use.
  bool by_name = false;
  std::map<const ptx_text::Declarator*, int> variables = {};  // number among equal declarations
  std::map<const ptx_text::Declarator*, int> of_space = {};   // number among the variables of a state space
  std::map<uint64_t, int> alike = {};  // number of variables found with each declaration
  std::map<std::string, int, std::less<>> in_space = {};
  std::vector<const ptx_text::Function*> functions = {};
  std::map<const ptx_text::Function*, int> places = {};  // indices of functions

  int place(const ptx_text::Function* function) const {
    const auto found = places.find(function);
    return found == places.end() ? kNone : found->second;
  }
};

class Values {
 public:
  // All arguments must outlive this object. The code of a function uses the `numbering` of its kernel.
  Values(const Code& code, const Graph& graph, Numbering& numbering);

  // Return a register's value before an instruction, and after it.
  Sum before(int operation, int reg);
  Sum after(int operation, int reg);
  // Returns the value of an operand when an instruction reads it. For an address, returns its first part plus
  // the offset.
  Sum of(int operation, const Value& operand);

  int atoms() const { return static_cast<int>(atoms_.size()); }
  const Atom& atom(int number) const { return atoms_[static_cast<size_t>(number)]; }
  // Returns an index for the atom's value in a thread. Atoms that depend on the thread's number have
  // consecutive indices. Returns kNone if the thread's number does not affect the atom outside loops.
  int place_in_thread(int number) const {
    const auto made_later = number - static_cast<int>(of_thread_.size());
    return made_later < 0 ? of_thread_[static_cast<size_t>(number)] : count_of_thread_ + made_later;
  }
  // Returns the atom if the sum consists of a single atom whose name begins with `name`, and otherwise null.
  const Atom* only_atom(const Sum& sum, std::string_view name) const;
  // Returns the negated predicate if it can be expressed as a comparison of integers.
  std::optional<Sum> opposite(const Sum& predicate);
  // Returns whether a sum contains the address of a variable in shared memory.
  bool is_in_shared(const Sum& sum) const;
  // Returns whether a 32-bit sum is small enough to be the same number as a signed and as an unsigned
  // integer.
  bool is_small(const Sum& sum) const;
  // Returns the initial value of an atom that a loop changes, if there is only one initial value.
  std::optional<Sum> first(const Atom& atom) const;
  // Returns the value of a meet if its block is entered from `predecessor`.
  Sum from(int atom, int predecessor);
  // Returns the predecessor block for each input of a meet. It is kNone for a value from before the kernel's
  // first instruction.
  std::span<const int> predecessors(const Atom& meet) const;
  uint64_t hash(const Sum& sum) const;
  // Determines whether text() identifies variables by name, or by properties that do not depend on names.
  void name_variables(bool by_names) { has_names_ = by_names; }
  // Returns a key that sorts addresses by the variable's order of use, and then by the byte offset in the
  // variable.
  std::pair<int, int64_t> place_in_memory(const Sum& address) const;
  // Returns a string such as "smem + 16384 stage + 32". An atom that is nested in more than `depth` functions
  // is printed as "...".
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
  std::vector<uint64_t> declared_,
      objects_;  // for each variable or function, hashes of its declaration and of its identity
  bool has_hashes_ = false, has_names_ = true;
  std::vector<int> of_thread_;  // for each atom, the result of place_in_thread()
  int count_of_thread_ = 0;
  // A hash table of atom numbers, which is at most half full, for atoms that have the same value wherever
  // they are computed. The key is the contents of the atom.
  std::vector<int> table_;
  size_t in_table_ = 0;
  std::vector<int> first_result_;  // for each instruction, the index of its first result
  std::vector<std::optional<Sum>> results_;
  std::vector<int> meets_;    // for each meet, its atom; kNone if it has not been requested
  std::vector<int> made_at_;  // for each meet, its index in made_
  struct Made {
    int meet, atom;
    std::vector<int> predecessors = {};  // one for each input
  };
  std::vector<Made> made_;                                       // in the order of their completion
  std::map<std::string, std::string, std::less<>> plain_names_;  // indexed by mnemonic
  // The source of a meet that equals the value from one predecessor. The source may be another meet.
  struct Source {
    int predecessor = kNone, reg = kNone;
  };
  std::vector<Source> copies_;
};

}  // namespace ptxbuilder::analysis
