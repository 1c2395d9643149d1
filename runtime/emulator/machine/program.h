// A kernel in the dense form that is executed: PTX is decoded once, and each instruction carries its handler.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/device.h"
#include "runtime/emulator/machine/special_registers.h"

namespace ptxbuilder::runtime::emulator {

using Lanes = uint32_t;  // one bit for each lane of a warp
inline constexpr Lanes all_lanes = ~Lanes{0};
inline constexpr uint32_t no_pc = ~0u;

// The place of a register in a warp's register file, in bytes from the first register: 32 lanes of its width
// side by side, or one word of 32 bits for a predicate. Constants and special registers, which nobody writes,
// lie before the first.
struct Register {
  int32_t at = -1;  // -1 is no register; registers lie at multiples of 4

  auto operator<=>(const Register&) const = default;
};
inline constexpr Register no_register;

// A predicate as an operand: p or !p.
struct Predicate {
  Register p;
  bool negated = false;
};

enum class Space : uint8_t { generic, global, shared, cluster, local, param, constant };

// [base + displacement]
struct AddressOperand {
  int64_t displacement = 0;
  Register base;
  uint8_t base_bytes = 0;  // 0 where there is no base
};

// Consecutive registers in Kernel::lists that one operand of an instruction names: a vector, or a fragment
// of a matrix.
struct RegisterList {
  uint32_t first = 0, size = 0;
};

// The type of a handler's operands: `X` for `void handler(Warp&, const X&, Lanes)`, and `void` for
// `void handler(Warp&, Lanes)`.
template <class F>
struct HandlerOperands;
template <class X>
struct HandlerOperands<void (*)(Warp&, const X&, Lanes)> {
  using type = X;
};
template <>
struct HandlerOperands<void (*)(Warp&, Lanes)> {
  using type = void;
};
template <auto handler>
using OperandsOf = typename HandlerOperands<decltype(handler)>::type;

// A cluster that runs ahead of its turn (machine/ahead.h) does this where it comes to an instruction.
enum class Turn : uint8_t {
  free,    // goes on: nobody sees it, or the instruction looks itself
  stores,  // of global memory: goes on where all see one order of stores, and no sum of its own is put off
  sums,    // goes on, and the sum is put off until its turn
  late,    // goes on where no sum of its own is put off: it may read or publish one
  waits    // waits for its turn: what others do decides, or is decided by, when it comes
};

// A warp needs to know this of every instruction: its handler, and the handler's operands, which are a
// struct of the handler's own.
struct Instruction {
  void (*execute)(Warp&, const Instruction&, Lanes) = nullptr;
  Register guard;
  bool guard_negated = false;
  bool touches_matrix = false;  // names a register that some wgmma or tcgen05.ld holds on to
  bool watched = false;         // names a register that may be undefined
  bool guesses = false;         // loads what swaps alone take, which compare it
  bool delayed = false;         // comes as late as it can
  Turn turn = Turn::free;

  // Sets the handler that executes this instruction, and the handler's operands.
  template <auto handler>
  void set(const OperandsOf<handler>& operands) {
    using X = OperandsOf<handler>;
    static_assert(std::is_trivially_copyable_v<X> && sizeof(X) <= sizeof(operands_) && alignof(X) <= 8);
    std::memcpy(operands_, &operands, sizeof operands);
    execute = run<handler>;
  }
  template <auto handler>
  void set() {
    execute = run<handler>;
  }
  // The operands, if `handler` executes this; else null.
  template <auto handler>
  const OperandsOf<handler>* operands() const {
    return execute == run<handler> ? &stored<OperandsOf<handler>>() : nullptr;
  }

 private:
  template <class X>
  const X& stored() const {
    return *std::launder(reinterpret_cast<const X*>(operands_));
  }
  template <auto handler>
  static void run(Warp& w, const Instruction& i, Lanes lanes) {
    if constexpr (std::is_void_v<OperandsOf<handler>>)
      handler(w, lanes);
    else
      handler(w, i.stored<OperandsOf<handler>>(), lanes);
  }

  alignas(8) std::byte operands_[64] = {};
};

// A parameter or result of a function, or what a call passes for it: a register, or bytes of a frame.
struct CallValue {
  Register r;           // no_register where it is in the frame
  uint32_t offset = 0;  // in the frame
  uint32_t bytes = 0;
};

struct Call {
  uint32_t routine = 0;  // index in Kernel::routines, of a call by name that the kernel has a body for
  Register target;       // else the register with the function's address, if it is no provided one
  std::vector<CallValue> arguments, results;
};

// A register with the bytes of one lane; 0 for a predicate.
struct RegisterWidth {
  Register r;
  uint8_t bytes;
};

// A function of the kernel, the .entry too.
struct Routine {
  std::string name;
  uint32_t entry = 0, end = 0;  // program counters
  uint32_t frame_bytes = 0;     // of its variables in local memory, where frames are apart
  std::vector<CallValue> parameters = {}, results = {};
  std::vector<RegisterWidth> registers = {};
};

struct SourceLine {
  uint32_t ptx = 0;   // line of the PTX text
  uint16_t file = 0;  // index in Kernel::files; files.size() or more if the file is unknown
  uint32_t line = 0;  // of .loc
  int32_t call = -1;  // where that was inlined, an index in Kernel::inlined_calls
};

// A call of the author's source that has been inlined.
struct InlinedCall {
  uint16_t file = 0;  // as of SourceLine
  uint32_t line = 0;
  int32_t call = -1;          // where the caller was inlined in its turn
  std::string function = {};  // that is called, where .debug_str has its name
};

// A named stretch of a memory space.
struct Variable {
  std::string name;
  uint64_t offset = 0;  // in its space
  uint64_t bytes = 0;
};

// An access orders others so (PTX ISA, "Memory Consistency Model"). Older is one that is volatile, or an
// atomic operation that names no semantics: it is taken for what its author will have meant, for both an
// acquire and a release in shared memory, and for an acquire in global memory, where a release wants a fence.
enum class Order : uint8_t { none, relaxed, acquire, release, both, older };

// These are ordered by it: `gpu` is one device, and `sys` all that run at once.
enum class Scope : uint8_t { cta, cluster, gpu, sys };
inline constexpr std::array kScopes = {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys};

// A special register that the kernel reads, and its place among the constants.
struct SpecialUse {
  const SpecialRegister* special;
  Register at;
  uint32_t bytes;
};

// The registers that a wgmma holds on to until it is waited for.
struct MatrixRegisters {
  RegisterList accumulators;
  RegisterList a;  // empty where A comes from shared memory
};

// The registers of wgmmas and tcgen05.lds that one other instruction touches.
struct MatrixUse {
  std::vector<Register> reads, writes;
};

// This is how the result of an instruction depends on operands that are undefined, lane by lane.
enum class Flow : uint8_t {
  uses,         // it is undefined if any of them is
  copies,       // mov (packs and unpacks too), prmt, bfi: if all passed values are
  selects,      // selp: the result is the one of two values that the deciding predicate chooses
  conjunction,  // and: a zero decides alone
  disjunction,  // or: ones decide alone
  collective,   // vote, match, redux: what is undefined in one lane is so for all that take part
  stores,       // the passed values go to memory
  handled,      // loads, shuffles, mma: the handler says it
  accumulates   // wgmma: the accumulators are needed where the deciding predicate, scale-d, is true
};

// The registers that an instruction names, but for its guard.
struct RegisterUse {
  Flow flow = Flow::uses;
  Predicate decides;  // of selects and accumulates
  uint8_t bytes = 0;  // of conjunction and disjunction: of each operand, 0 for predicates
  std::vector<Register>
      needed;  // they decide more than a result: addresses, counts, what is stored for others
  std::vector<Register> reads;   // all others that are read, but for the passed ones
  std::vector<Register> passed;  // what the flow says; constants too
  std::vector<Register> writes;
};

// This is where an undefined value comes from.
struct Origin {
  Register r = {};        // that was never written, if `pc` is no_pc
  uint32_t pc = no_pc;    // of the load of what nothing had written, or of the shuffle
  std::string what = {};  // was read there
  bool shared = false;    // it was read from shared memory
};

// One kernel of a module, ready to run.
struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<SourceLine> lines;            // of each instruction
  std::vector<std::string> texts;           // of each instruction, for reports
  std::map<uint32_t, std::string> refused;  // instructions that are errors when they are executed, and why
  std::vector<Register> lists;
  std::vector<uint32_t> targets;        // of branch tables
  std::vector<uint32_t> reconvergence;  // of each instruction: where the sides meet again if it is a branch
  std::vector<Call> calls;
  std::vector<Routine> routines;            // the .entry is the first
  std::map<uint64_t, uint32_t> by_address;  // routines that calls by register may reach
  Register frame;                  // where the running function's frame begins, 8 B; see frames_apart()
  std::vector<std::string> files;  // .file names
  std::vector<InlinedCall> inlined_calls;

  uint32_t entry = 0;
  uint32_t register_bytes = 0;       // of one warp's registers
  std::vector<std::byte> constants;  // what is before the registers when a warp starts; a multiple of 64 B
  std::vector<SpecialUse> specials;
  std::map<Register, std::string> register_names;
  std::map<uint32_t, MatrixUse> matrix_uses;  // by program counter
  std::vector<RegisterUse> uses;              // of each instruction
  std::vector<uint32_t> numbers;              // of registers, by Register::at / 4
  uint32_t register_count = 0;
  std::vector<Register> doubtful;  // registers that on some path are read before they are written

  std::vector<Variable> shared;   // static ones first, then the dynamic one with 0 bytes
  uint32_t shared_bytes = 0;      // static, with the reserved kilobyte in front
  uint32_t dynamic_align = 16;    // of the dynamic variable
  std::vector<uint32_t> dynamic;  // indices of dynamic variables in `shared`
  uint32_t local_bytes = 0;       // of one thread
  std::vector<Variable> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t threads_most = 0;       // .maxntid or .reqntid; 0 where not given
  uint32_t registers_most = 0;     // .maxnreg; 0 where not given
  uint32_t ctas_least = 1;         // .minnctapersm
  uint32_t role_registers = 0;     // the most that a setmaxnreg asks for
  Dim3 required_cluster{0, 0, 0};  // .reqnctapercluster
  bool uses_reserved = false;      // it asks where the shared memory is that is reserved for libraries
  bool names_semantics = false;    // some access is .relaxed, .acquire or .release
  bool communicates = false;       // CTAs may communicate, by atomics or by strong loads and stores
  bool takes_turns =
      false;  // it does, or adds to global memory: what it computes may depend on the order of CTAs
  bool allocates = false;  // it calls malloc

  // This says whether each call has a frame of its own in local memory, as recursion, calls by address and
  // alloca need it. Else the variables of all functions lie side by side, and the frame begins at 0.
  bool frames_apart() const { return frame != no_register; }

  // No number is given to constants.
  static constexpr uint32_t no_number = ~0u;
  uint32_t number(Register r) const { return r.at < 0 ? no_number : numbers[static_cast<size_t>(r.at) / 4]; }

  // The line of PTX of an instruction, and those of the author's source where they are known: "line 158
  // (tile.h:41, inlined at gemm.cpp:20)".
  std::string place(uint32_t pc) const {
    const SourceLine& at = lines[pc];
    std::string text = "line " + std::to_string(at.ptx);
    if (at.line == 0 || at.file >= files.size()) return text;
    text += " (" + source(at.file, at.line);
    for (int32_t call = at.call; call >= 0; call = inlined_calls[static_cast<size_t>(call)].call)
      text += ", " + inlined(inlined_calls[static_cast<size_t>(call)]);
    return text + ")";
  }
  std::string source(uint16_t file, uint32_t line) const {  // "gemm.cpp:41"
    return (file < files.size() ? files[file] : "?") + ":" + std::to_string(line);
  }

  std::string inlined(const InlinedCall& call) const {  // "load() inlined at gemm.cpp:41"
    return (call.function.empty() ? "" : call.function + " ") + "inlined at " + source(call.file, call.line);
  }

  std::string register_name(Register r) const {  // for reports
    auto name = register_names.find(r);
    return name == register_names.end() ? "a register" : name->second;
  }
};

}  // namespace ptxbuilder::runtime::emulator
