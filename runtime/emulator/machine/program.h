// A kernel in a dense executable form: PTX is decoded once, and each instruction carries its handler.
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
// side by side, or one 32-bit word for a predicate. Constants and special registers, which are never written,
// are placed before the first register.
struct Register {
  int32_t at = -1;  // -1 means that there is no register; registers are at multiples of 4

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
  uint8_t base_bytes = 0;  // 0 if there is no base
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

// A cluster that runs ahead of its turn (machine/ahead.h) does this when it reaches an instruction.
enum class Turn : uint8_t {
  free,    // goes on: nobody sees it, or the instruction looks itself
  stores,  // of global memory: goes on where all see one order of stores, and no sum of its own is put off
  sums,    // goes on, and the sum is put off until its turn
  late,    // goes on unless a sum of its own is put off: it may read or publish that sum
  waits    // waits for its turn: what others do decides, or is decided by, when it comes
};

// A warp needs to know two things about every instruction: its handler, and the handler's operands, which
// have a struct type that belongs to the handler.
struct Instruction {
  void (*execute)(Warp&, const Instruction&, Lanes) = nullptr;
  Register guard;
  bool guard_negated = false;
  bool touches_matrix = false;  // names a register that some wgmma or tcgen05.ld still uses
  bool watched = false;         // names a register that may be undefined
  bool guesses = false;         // loads a value that only swaps take, which compare it with the word
  bool delayed = false;         // is executed as late as possible
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
  // Returns the operands if `handler` executes this instruction; otherwise null.
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

// A parameter or result of a function, or an argument of a call: a register, or bytes of a frame.
struct CallValue {
  Register r;           // no_register if it is in the frame
  uint32_t offset = 0;  // in the frame
  uint32_t bytes = 0;
};

struct Call {
  uint32_t routine = 0;  // index in Kernel::routines, of a call by name that the kernel has a body for
  Register target;       // otherwise the register with the function's address, unless it is provided
  std::vector<CallValue> arguments, results;
};

// A register with the size in bytes of one lane's value; 0 for a predicate.
struct RegisterWidth {
  Register r;
  uint8_t bytes;
};

// A function of the kernel, or the .entry.
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
  int32_t call = -1;  // where that line was inlined, an index in Kernel::inlined_calls
};

// A call of the author's source that has been inlined.
struct InlinedCall {
  uint16_t file = 0;  // as in SourceLine
  uint32_t line = 0;
  int32_t call = -1;          // where the caller was itself inlined
  std::string function = {};  // the called function, if .debug_str has its name
};

// A named range of a memory space.
struct Variable {
  std::string name;
  uint64_t offset = 0;  // in its space
  uint64_t bytes = 0;
};

// The way in which an access orders others (PTX ISA, "Memory Consistency Model"). Older is a volatile access,
// or an atomic operation without semantics: it gets what its author probably meant, both acquire and release
// in shared memory, and acquire in global memory, where a release requires a fence.
enum class Order : uint8_t { none, relaxed, acquire, release, both, older };

// The scope that an access orders: `gpu` is one device, and `sys` all that run at once.
enum class Scope : uint8_t { cta, cluster, gpu, sys };
inline constexpr std::array kScopes = {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys};

// A special register that the kernel reads, and its place among the constants.
struct SpecialUse {
  const SpecialRegister* special;
  Register at;
  uint32_t bytes;
};

// The registers that a wgmma uses until it is waited for.
struct MatrixRegisters {
  RegisterList accumulators;
  RegisterList a;  // empty if A comes from shared memory
};

// The registers of wgmmas and tcgen05.lds that another instruction touches.
struct MatrixUse {
  std::vector<Register> reads, writes;
};

// The ways in which an instruction's result depends on undefined operands, lane by lane.
enum class Flow : uint8_t {
  uses,         // it is undefined if any of them is
  copies,       // mov (also packing and unpacking), prmt, bfi: undefined if all passed values are
  selects,      // selp: the result is the one of two values that the deciding predicate chooses
  conjunction,  // and: a zero alone decides the result
  disjunction,  // or: ones alone decide the result
  collective,   // vote, match, redux: a value that is undefined in one lane is undefined for all participants
  stores,       // the passed values go to memory
  handled,      // loads, shuffles, mma: the handler decides
  accumulates   // wgmma: the accumulators are needed where the deciding predicate, scale-d, is true
};

// The registers that an instruction names, except its guard.
struct RegisterUse {
  Flow flow = Flow::uses;
  Predicate decides;  // of selects and accumulates
  uint8_t bytes = 0;  // of conjunction and disjunction: of each operand, 0 for predicates
  std::vector<Register>
      needed;  // they decide more than a result: addresses, counts, what is stored for others
  std::vector<Register> reads;   // all other registers that are read, except the passed ones
  std::vector<Register> passed;  // what the flow passes on; constants too
  std::vector<Register> writes;
};

// The origin of an undefined value.
struct Origin {
  Register r = {};        // that was never written, if `pc` is no_pc
  uint32_t pc = no_pc;    // of the load of unwritten memory, or of the shuffle
  std::string what = {};  // what was read there
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
  std::vector<uint32_t> reconvergence;  // of each instruction: where its sides meet again if it is a branch
  std::vector<Call> calls;
  std::vector<Routine> routines;            // the .entry is the first
  std::map<uint64_t, uint32_t> by_address;  // routines that calls by register may reach
  Register frame;                  // where the running function's frame begins, 8 B; see frames_apart()
  std::vector<std::string> files;  // .file names
  std::vector<InlinedCall> inlined_calls;

  uint32_t entry = 0;
  uint32_t register_bytes = 0;       // of one warp's registers
  std::vector<std::byte> constants;  // what precedes the registers when a warp starts; a multiple of 64 B
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
  uint32_t threads_most = 0;       // .maxntid or .reqntid; 0 if not given
  uint32_t registers_most = 0;     // .maxnreg; 0 if not given
  uint32_t ctas_least = 1;         // .minnctapersm
  uint32_t role_registers = 0;     // the most that a setmaxnreg asks for
  Dim3 required_cluster{0, 0, 0};  // .reqnctapercluster
  bool uses_reserved = false;      // it asks where the shared memory that is reserved for libraries is
  bool names_semantics = false;    // some access is .relaxed, .acquire or .release
  bool communicates = false;       // CTAs may communicate, by atomics or by strong loads and stores
  bool takes_turns =
      false;  // it does, or adds to global memory: what it computes may depend on the order of CTAs
  bool allocates = false;  // it calls malloc

  // True if each call has a frame of its own in local memory, which recursion, calls by address and alloca
  // need. Otherwise the variables of all functions are placed side by side, and the frame begins at 0.
  bool frames_apart() const { return frame != no_register; }

  // Constants do not have numbers.
  static constexpr uint32_t no_number = ~0u;
  uint32_t number(Register r) const { return r.at < 0 ? no_number : numbers[static_cast<size_t>(r.at) / 4]; }

  // The PTX line of an instruction, and the lines of the author's source if they are known: "line 158
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
