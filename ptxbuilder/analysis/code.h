// Represents the instructions of a PTX kernel as a list. Blocks and their scopes are resolved, and registers
// and labels are numbered. Each instruction lists the registers that it reads and writes, and the
// instructions that may be executed next.
#pragma once

#include <array>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/isa/row.h"
#include "ptxbuilder/ptx/ptx.h"

namespace ptxbuilder::analysis {

inline constexpr int kNone = -1;

// An operand whose names are resolved.
struct Value {
  enum class Kind : uint8_t {
    reg,      // a register: its number
    integer,  // a constant: its value
    text,     // another constant, such as 0f3F800000: its text
    special,  // a special register: its text, such as "%tid.x"
    symbol,   // a variable, parameter or function: its text and, for a variable, its number
    callee,   // a function of the module that has a body: its text, and its number in Code::functions
    vector,   // {a, b}: its parts
    address,  // [a+4], [map, {x, y}]: its parts; `value` is the offset of the first part
    sink      // _
  };

  Kind kind = Kind::sink;
  int number = kNone;
  int64_t value = 0;
  std::string_view text = {};
  std::vector<Value> parts = {};
};

struct Operation {
  const ptx_text::Instruction* text = nullptr;
  const isa::Row* row = nullptr;  // the instruction's row in the manual; null if there is none
  ptx_text::Position at = {};
  std::vector<std::string_view> words = {};  // "wgmma", "mma_async", "sync", ...
  int guard = kNone;                         // number of the predicate's register
  bool negated = false;
  std::vector<Value> operands = {};          // all operands, including those that are written
  size_t results = 0;                        // number of operands that are written; they precede the others
  bool updates = false;                      // true if the results are also read, like accumulators of wgmma
  std::vector<int> reads = {}, writes = {};  // registers, except the guard
  std::vector<int> targets = {};             // for a branch, the instructions to which it may jump
  bool falls_through = true;

  // Returns whether the first word of the mnemonic is one of `first`.
  bool is(const auto&... first) const { return (equals(words[0], first) || ...); }
  // Returns whether this is a fence.proxy.async, for all state spaces or for a single one.
  bool is_async_fence() const { return is("fence") && has("proxy") && has("async"); }
  bool is_wgmma() const { return is("wgmma") && has("mma_async") && operands.size() > 2; }
  // Returns whether this is a copy into shared memory whose bytes an mbarrier counts.
  bool is_bulk_load() const { return is("cp") && has("bulk") && has("mbarrier::complete_tx::bytes"); }
  // Returns whether the instruction ends a thread whose guard is true.
  bool ends() const { return is("ret", "exit", "trap"); }
  // Returns whether the first word of the mnemonic exists in PTX `known_version`, which is 9.0.
  bool is_known() const;
  static constexpr int known_version = 90;
  // Returns whether one of the words `any` is part of the mnemonic.
  bool has(const auto&... any) const { return (has_word(any) || ...); }
  bool is_barrier() const { return is("bar", "barrier"); }  // a barrier of a warp, a CTA or a cluster
  bool is_mbarrier_wait() const { return is("mbarrier") && has("try_wait", "test_wait"); }
  bool in_shared() const { return has("shared", "shared::cta"); }  // in the shared memory of this CTA
  // Returns the words of the mnemonic in a canonical spelling that is equal for mnemonics with the same
  // meaning. For example, bar.sync becomes barrier.cta.sync.aligned, and mbarrier.arrive becomes
  // mbarrier.arrive.release.cta.
  std::vector<std::string_view> canonical_words() const;
  std::string canonical() const;  // returns canonical_words(), joined with dots

 private:
  // Compares a word with a literal. The known length rules out most words without a call to memcmp.
  template <size_t n>
  static bool equals(std::string_view word, const char (&text)[n]) {
    return word.size() == n - 1 && std::char_traits<char>::compare(word.data(), text, n - 1) == 0;
  }
  static bool equals(std::string_view word, std::string_view text) { return word == text; }
  bool has_word(const auto& text) const {
    for (const std::string_view word : words)
      if (equals(word, text)) return true;
    return false;
  }
};

struct RegisterName {
  std::string name;
  std::string type;  // ".b32"
};

// A variable of the kernel or of the module in a state space. Each variable is a separate object, except for
// shared arrays whose length the host sets. All of these arrays begin at the same address, and therefore
// count as one object.
struct Variable {
  std::string name;
  std::string space;                 // ".shared", ".const", or ".param" for the arguments of a call
  int64_t bytes = 0;                 // 0 if the host sets the size
  int64_t align = 1;                 // value of .align, or the size of an element
  std::string initializer = {};      // as written, without spaces and names
  std::vector<Value> mentions = {};  // variables and functions whose addresses the initial value contains
  const ptx_text::Declarator* declarator = nullptr;
  bool is_of_module = false;

  // Returns whether the host can access the variable. If so, the kernel's text does not contain all uses of
  // the variable.
  bool is_of_host() const { return is_of_module && (space == ".global" || space == ".const"); }
  bool is_open() const { return space == ".shared" && bytes == 0; }
};

// The code of a kernel. The code refers to its module, which must outlive it.
struct Code {
  std::string name;
  const ptx_text::Function* function = nullptr;
  std::string target = {};  // "sm_90a"
  std::vector<Operation> operations;
  std::vector<RegisterName> registers;
  std::vector<Variable> variables;                   // the module's variables come first
  std::vector<const ptx_text::Function*> functions;  // functions with a body that are named in the code
  std::vector<int> parameter_registers;              // for a function, its parameters that are in registers

  // Returns the threads of a CTA along x, y and z, from .maxntid or .reqntid, or zeros if the kernel has
  // neither.
  std::array<int64_t, 3> cta_shape() const;

  // Returns the kernel `name` or, if `name` is empty, the module's only kernel. If `name` is not found,
  // throws an Error that lists the kernels. For a guard or a label that is not declared, throws an Error "ptx
  // LINE:COLUMN: ...".
  static Code of(const ptx_text::Module& module, std::string_view name = "");
  // Returns the code of a function of the module that has a body. For a guard or a label that is not
  // declared, throws an Error "ptx LINE:COLUMN: ...".
  static Code of(const ptx_text::Module& module, const ptx_text::Function& function);
};

// Returns the integers of a directive in order, such as 384, 1, 1.
std::vector<int64_t> numbers_of(const ptx_text::Directive& directive);

constexpr size_t at(int number) { return static_cast<size_t>(number); }  // converts a number to an index

// Returns the kernels of a module that have a body, in the module's order.
std::vector<std::string> kernels_of(const ptx_text::Module& module);

}  // namespace ptxbuilder::analysis
