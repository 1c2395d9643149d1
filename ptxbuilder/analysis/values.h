// Describes what is in a kernel's registers: each value is a sum of constants times atoms, where an atom is a
// special register, a parameter, a variable's address, or what an instruction makes of other values.
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

// constant + the sum of factor times atom, modulo 2^64. Widening conversions and address spaces are left out:
// a value and its conversion are the same sum.
struct Sum {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms = {};  // atoms by number, ascending, with factors that are not 0

  bool is_constant() const { return terms.empty(); }
  bool operator==(const Sum&) const = default;
};

// A sum is made of these.
struct Atom {
  enum class Kind : uint8_t {
    special,    // %tid.x: name
    parameter,  // of the kernel, in its parameter space: name "param", index and offset as inputs
    address,    // of a variable, which is an object of its own, or of a function: name is the state space
    function,   // of an instruction's operation on its inputs: name is the mnemonic
    counter,    // of a loop: inputs are its first value and its step
    stage,      // of a ring, 0 again after the last one: inputs are its first value and how many there are
    meet,       // one of several values, where paths meet
    unknown     // a register that nothing has written, or a value that a call or a load left
  };

  Kind kind = Kind::unknown;
  std::string name = {};
  int object = kNone;  // of an address: the code's variable by number, and after these its functions
  std::vector<Sum> inputs = {};
  int operation = kNone;   // that made it, where one did
  int block = kNone;       // of a counter and a meet
  int meet = kNone;        // which of the definitions' it was made for
  uint64_t name_hash = 0;  // of the kind and the name
  uint64_t hash = 0;  // the same in every kernel that computes the same, whatever its registers are called
};

// The same on every machine.
uint64_t hash_of(std::string_view text);
// A mixing step of splitmix64 (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t hash, uint64_t value);

// This is what a kernel and the functions that it calls use, in the order in which they first use it:
// variables that are declared alike are distinguished by it, whatever they are called and wherever they are
// declared.
struct Numbering {
  // This says of variables that the host can reach whether names tell which is which: where two modules have
  // the same ones. Else it is the place among those declared alike, or the order of use where all of them are
  // used.
  bool by_name = false;
  std::map<const ptx_text::Declarator*, int> variables = {};  // among those declared alike
  std::map<const ptx_text::Declarator*, int> of_space = {};   // among those of their state space
  std::map<uint64_t, int> alike = {};                         // how many there are yet of each declaration
  std::map<std::string, int, std::less<>> in_space = {};
  std::vector<const ptx_text::Function*> functions = {};
  std::map<const ptx_text::Function*, int> places = {};  // among these

  int place(const ptx_text::Function* function) const {
    const auto found = places.find(function);
    return found == places.end() ? kNone : found->second;
  }
};

class Values {
 public:
  // All have to live as long as this does. A function's `numbering` is that of its kernel.
  Values(const Code& code, const Graph& graph, Numbering& numbering);

  // A register as an instruction finds it, and as it leaves it.
  Sum before(int operation, int reg);
  Sum after(int operation, int reg);
  // An operand as an instruction reads it: of an address its first part with the offset.
  Sum of(int operation, const Value& operand);

  int atoms() const { return static_cast<int>(atoms_.size()); }
  const Atom& atom(int number) const { return atoms_[static_cast<size_t>(number)]; }
  // A place for what an atom is in a thread, close to the others'; kNone where the thread's number decides
  // nothing of it outside of loops.
  int place_in_thread(int number) const {
    const auto made_later = number - static_cast<int>(of_thread_.size());
    return made_later < 0 ? of_thread_[static_cast<size_t>(number)] : count_of_thread_ + made_later;
  }
  // The atom that alone is the sum, if its name begins so; else null.
  const Atom* only_atom(const Sum& sum, std::string_view name) const;
  // The predicate that holds where this one does not, where that is another comparison of integers.
  std::optional<Sum> opposite(const Sum& predicate);
  // This says whether a sum begins with a variable in shared memory.
  bool is_in_shared(const Sum& sum) const;
  // This says whether a sum of 32 bits is the same number whether it has a sign or not, since it is small.
  bool is_small(const Sum& sum) const;
  // The value that a value of a loop has when the loop begins, where that is one.
  std::optional<Sum> first(const Atom& atom) const;
  // The value where paths meet when it comes from a predecessor of its block.
  Sum from(int atom, int predecessor);
  // This has for each input of a meet the block that it comes from; kNone of what was there when the kernel
  // began.
  std::span<const int> predecessors(const Atom& meet) const;
  uint64_t hash(const Sum& sum) const;
  // This says whether texts call variables by their names, and not by what is the same in kernels that do the
  // same.
  void name_variables(bool by_names) { has_names_ = by_names; }
  // Orders addresses: by the variable in the order of use, and then by the bytes after its start.
  std::pair<int, int64_t> place_in_memory(const Sum& address) const;
  // "smem + 16384 stage + 32"; deeper than `depth` functions an atom is "...".
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
  std::vector<uint64_t> declared_, objects_;  // by variable and function: how it is declared, and which it is
  bool has_hashes_ = false, has_names_ = true;
  std::vector<int> of_thread_;  // by atom, the place in a thread
  int count_of_thread_ = 0;
  // Atoms that are the same wherever they are computed, by a hash of what they are made of: places in a table
  // that is at most half full.
  std::vector<int> table_;
  size_t in_table_ = 0;
  std::vector<int> first_result_;  // by instruction, the place of its first result
  std::vector<std::optional<Sum>> results_;
  std::vector<int> meets_;    // their atoms, none of those that nobody asked for
  std::vector<int> made_at_;  // by meet, the place in made_
  struct Made {
    int meet, atom;
    std::vector<int> predecessors = {};  // of each input
  };
  std::vector<Made> made_;                                       // in the order in which they are filled
  std::map<std::string, std::string, std::less<>> plain_names_;  // by the mnemonic as it is written
  // Meets that turned out to be the value that comes from one predecessor, perhaps of another meet.
  struct Source {
    int predecessor = kNone, reg = kNone;
  };
  std::vector<Source> copies_;
};

}  // namespace ptxbuilder::analysis
