// The instructions of one PTX kernel in a row: blocks and their scopes are resolved, registers and labels
// have numbers, and each instruction says what it reads, what it writes and where it may go.
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
    reg,      // a register: number
    integer,  // a constant: value
    text,     // another constant, such as 0f3F800000: text
    special,  // a special register: text, "%tid.x"
    symbol,   // a variable, parameter or function: text; number of the variable where it is one
    callee,   // a function: one of the module's with a body: text, and number among those that the code names
    vector,   // {a, b}: parts
    address,  // [a+4], [map, {x, y}]: parts, and the offset of the first one in value
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
  const isa::Row* row = nullptr;  // of the manual; null where it has none such
  ptx_text::Position at = {};
  std::vector<std::string_view> words = {};  // "wgmma", "mma_async", "sync", ...
  int guard = kNone;                         // the predicate's register
  bool negated = false;
  std::vector<Value> operands = {};          // with those that are written first
  size_t results = 0;                        // how many of them are written, as a whole
  bool updates = false;                      // whether they are read as well: the accumulators of wgmma
  std::vector<int> reads = {}, writes = {};  // registers; the guard is not among them
  std::vector<int> targets = {};             // of a branch: instructions
  bool falls_through = true;

  // Tells whether the mnemonic's first word is one of these.
  bool is(std::convertible_to<std::string_view> auto... first) const { return ((words[0] == first) || ...); }
  // One with too few operands is an instruction like any other.
  // It says so of fence.proxy.async, of all state spaces or of one.
  bool is_async_fence() const { return is("fence") && has("proxy") && has("async"); }
  bool is_wgmma() const { return is("wgmma") && has("mma_async") && operands.size() > 2; }
  // A copy into shared memory that an mbarrier counts.
  bool is_bulk_load() const { return is("cp") && has("bulk") && has("mbarrier::complete_tx::bytes"); }
  // This says whether a thread's way ends there, where its guard holds.
  bool ends() const { return is("ret", "exit", "trap"); }
  // This says whether the mnemonic's first word is one of the version that is known here: PTX 9.0.
  bool is_known() const;
  static constexpr int known_version = 90;
  // Tells whether one of these is among the mnemonic's parts.
  bool has(std::convertible_to<std::string_view> auto... any) const { return (has_word(any) || ...); }
  bool is_barrier() const { return is("bar", "barrier"); }  // of a warp, a CTA or a cluster
  bool is_mbarrier_wait() const { return is("mbarrier") && has("try_wait", "test_wait"); }
  bool in_shared() const { return has("shared", "shared::cta"); }  // of this CTA
  // The mnemonic's parts where of several spellings of one meaning there is one: bar.sync is
  // barrier.cta.sync.aligned, and mbarrier.arrive is mbarrier.arrive.release.cta.
  std::vector<std::string_view> canonical_words() const;
  std::string canonical() const;  // with dots between them

 private:
  bool has_word(std::string_view word) const;
};

struct RegisterName {
  std::string name;
  std::string type;  // ".b32"
};

// A variable in a state space, of the code itself or of the module: an object of its own. Arrays in shared
// memory whose length the host says are one object, since all begin at one place.
struct Variable {
  std::string name;
  std::string space;                 // ".shared", ".const", and ".param" of a call's arguments
  int64_t bytes = 0;                 // 0 where the host says how many
  int64_t align = 1;                 // what .align says, or the size of an element
  std::string initializer = {};      // as written, without spaces and names
  std::vector<Value> mentions = {};  // variables and functions whose addresses its initial value has
  const ptx_text::Declarator* declarator = nullptr;
  bool is_of_module = false;

  // This says whether the host can reach it: what the kernel's text says of it is not all.
  bool is_of_host() const { return is_of_module && (space == ".global" || space == ".const"); }
  bool is_open() const { return space == ".shared" && bytes == 0; }
};

// Refers to the module that it was made of.
struct Code {
  std::string name;
  const ptx_text::Function* function = nullptr;
  std::string target = {};  // "sm_90a"
  std::vector<Operation> operations;
  std::vector<RegisterName> registers;
  std::vector<Variable> variables;                   // the module's first
  std::vector<const ptx_text::Function*> functions;  // that it names and that have a body, as they come
  std::vector<int> parameter_registers;              // of a function: its parameters that are registers

  // Threads of a CTA along x, y and z as .maxntid or .reqntid bounds them; 0 where neither does.
  std::array<int64_t, 3> cta_shape() const;

  // The kernel `name`, or the module's only one where it is empty. Throws Error that lists the kernels where
  // there is no such one, and Error "ptx LINE:COLUMN: ..." for a guard or a label that is not declared.
  static Code of(const ptx_text::Module& module, std::string_view name = "");
  // That of a function of the module that has a body. Throws "ptx LINE:COLUMN: ..." as the other does.
  static Code of(const ptx_text::Module& module, const ptx_text::Function& function);
};

// The whole numbers of a directive, in its order: 384, 1, 1.
std::vector<int64_t> numbers_of(const ptx_text::Directive& directive);

constexpr size_t at(int number) { return static_cast<size_t>(number); }  // of a list

// The kernels of a module that have a body, in its order.
std::vector<std::string> kernels_of(const ptx_text::Module& module);

}  // namespace ptxbuilder::analysis
