// A kernel in a dense executable form. The PTX is decoded once, and each instruction stores its handler.
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

// The offset of a register in a warp's register file, in bytes from the first register. A register takes 32
// times its width, once for each lane; a predicate takes one 32-bit word. Constants and special registers,
// which are never written, precede the first register.
struct Register {
  int32_t at = -1;  // -1 means that there is no register; other values are multiples of 4

  auto operator<=>(const Register&) const = default;
};
inline constexpr Register no_register;

// A predicate operand: p or !p.
struct Predicate {
  Register p;
  bool negated = false;
};

enum class Space : uint8_t { generic, global, shared, cluster, local, param, constant };

// An address operand: [base + displacement].
struct AddressOperand {
  int64_t displacement = 0;
  Register base;
  uint8_t base_bytes = 0;  // 0 if there is no base
};

// The registers that one operand of an instruction names, such as a vector or a fragment of a matrix. They
// are consecutive in Kernel::lists.
struct RegisterList {
  uint32_t first = 0, size = 0;
};

// The type of a handler's operands: `X` for `void handler(Warp&, const X&, Lanes)`, and `void` for `void
// handler(Warp&, Lanes)`.
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

// The way in which a cluster that runs ahead of its turn (machine/turns.h) executes an instruction.
enum class Turn : uint8_t {
  free,    // continues: no other cluster observes it, or its handler waits for the turn if necessary
  stores,  // a store to global memory: continues if memory is not weak and no own sum is postponed
  sums,    // continues, and postpones the sum until the turn
  late,    // continues unless an own sum is postponed, because the instruction may read or publish it
  waits    // waits for the turn, because the result depends on other clusters or affects them
};

// An instruction consists of its handler, and the operands in a struct whose type belongs to the handler.
struct Instruction {
  void (*execute)(Warp&, const Instruction&, Lanes) = nullptr;
  Register guard;
  bool guard_negated = false;
  bool touches_matrix = false;  // whether it names a register that a wgmma or tcgen05.ld may still use
  bool watched = false;         // whether it names a register that may be undefined
  bool guesses = false;         // whether it is a load that only guesses; see decode/guesses.cpp
  bool delayed = false;         // whether it is executed as late as possible
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

// A parameter or result of a function, or an argument of a call: either a register, or bytes of a frame.
struct CallValue {
  Register r;           // no_register if the value is in the frame
  uint32_t offset = 0;  // offset in the frame
  uint32_t bytes = 0;
};

struct Call {
  uint32_t routine = 0;  // index in Kernel::routines, if the kernel has a body for the called name
  Register target;       // otherwise the register with the address, or no_register for a provided function
  std::vector<CallValue> arguments, results;
};

// A register and the size of one lane's value in bytes, which is 0 for a predicate.
struct RegisterWidth {
  Register r;
  uint8_t bytes;
};

// A function of the kernel, or the .entry.
struct Routine {
  std::string name;
  uint32_t entry = 0, end = 0;  // program counters
  uint32_t frame_bytes = 0;     // size of its variables in local memory, if frames are separate
  std::vector<CallValue> parameters = {}, results = {};
  std::vector<RegisterWidth> registers = {};
};

struct SourceLine {
  uint32_t ptx = 0;   // line of the PTX text
  uint16_t file = 0;  // index in Kernel::files; at least files.size() if the file is unknown
  uint32_t line = 0;  // line in the .loc
  int32_t call = -1;  // index in Kernel::inlined_calls, if that line was inlined; otherwise -1
};

// A call in the author's source that has been inlined.
struct InlinedCall {
  uint16_t file = 0;  // as in SourceLine
  uint32_t line = 0;
  int32_t call = -1;          // call at which the caller was itself inlined
  std::string function = {};  // the called function, if .debug_str has its name
};

// A named range of a memory space.
struct Variable {
  std::string name;
  uint64_t offset = 0;  // offset in the space
  uint64_t bytes = 0;
};

// The way in which an access orders others (PTX ISA, "Memory Consistency Model"). `older` is the order of a
// volatile access, and of an atomic operation without semantics. Such an access gets the order that its
// author probably meant: acquire and release in shared memory, and only acquire in global memory, because a
// release there requires a fence.
enum class Order : uint8_t { none, relaxed, acquire, release, both, older };

// The scope in which an access orders others: `gpu` is one device, and `sys` includes all devices that run at
// once.
enum class Scope : uint8_t { cta, cluster, gpu, sys };
inline constexpr std::array kScopes = {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys};

// A special register that the kernel reads, and the register among the constants that stores its value.
struct SpecialUse {
  const SpecialRegister* special;
  Register at;
  uint32_t bytes;
};

// The registers that a wgmma uses until a wgmma.wait_group waits for it.
struct MatrixRegisters {
  RegisterList accumulators;
  RegisterList a;  // empty if A comes from shared memory
};

// The registers that an instruction accesses and that a wgmma or tcgen05.ld may still use.
struct MatrixUse {
  std::vector<Register> reads, writes;
};

// The way in which an instruction's result depends on undefined operands, lane by lane.
enum class Flow : uint8_t {
  uses,         // the result is undefined if any operand is undefined
  copies,       // mov (also packing and unpacking), prmt, bfi: undefined if all passed values are undefined
  selects,      // selp: the result is the value that the deciding predicate selects
  conjunction,  // and: a zero decides the result
  disjunction,  // or: ones decide the result
  collective,   // vote, match, redux: an undefined value in one lane affects all participants
  stores,       // the passed values are written to memory
  handled,      // loads, shuffles, mma: the handler decides
  accumulates   // wgmma: needs the accumulators if scale-d, the deciding predicate, is true
};

// The registers that an instruction names, except its guard.
struct RegisterUse {
  Flow flow = Flow::uses;
  Predicate decides;  // the predicate of `selects` and `accumulates`
  uint8_t bytes = 0;  // for `conjunction` and `disjunction`, the size of an operand; 0 for predicates
  std::vector<Register>
      needed;  // registers that decide more than a result: addresses, counts, values stored for other threads
  std::vector<Register> reads;   // all other registers that are read, except the passed ones
  std::vector<Register> passed;  // registers that the flow passes on; may include constants
  std::vector<Register> writes;
};

// The origin of an undefined value.
struct Origin {
  Register r = {};        // the register that was never written, if `pc` is no_pc
  uint32_t pc = no_pc;    // the load of unwritten memory, or the shuffle
  std::string what = {};  // description of what was read
  bool shared = false;    // whether it was read from shared memory
};

// One kernel of a module, ready to run.
struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<SourceLine> lines;            // one element per instruction
  std::vector<std::string> texts;           // text of each instruction, for reports
  std::map<uint32_t, std::string> refused;  // reasons why these instructions fail when executed
  std::vector<Register> lists;
  std::vector<uint32_t> targets;        // targets of branch tables
  std::vector<uint32_t> reconvergence;  // for each branch, the point where its sides meet again
  std::vector<Call> calls;
  std::vector<Routine> routines;            // the .entry is the first
  std::map<uint64_t, uint32_t> by_address;  // routines that calls by register may reach
  Register frame;                  // 8-byte offset of the running function's frame; see frames_apart()
  std::vector<std::string> files;  // names in .file directives
  std::vector<InlinedCall> inlined_calls;

  uint32_t entry = 0;
  uint32_t register_bytes = 0;       // size of one warp's registers
  std::vector<std::byte> constants;  // initial contents of the memory before the registers; padded to 64 B
  std::vector<SpecialUse> specials;
  std::map<Register, std::string> register_names;
  std::map<uint32_t, MatrixUse> matrix_uses;  // indexed by program counter
  std::vector<RegisterUse> uses;              // one element per instruction
  std::vector<uint32_t> numbers;              // numbers of registers, indexed by Register::at / 4
  uint32_t register_count = 0;
  std::vector<Register> doubtful;  // registers that some path reads before it writes them

  std::vector<Variable> shared;   // static variables, then the dynamic variable with size 0
  uint32_t shared_bytes = 0;      // size of static shared memory, including the reserved kilobyte
  uint32_t dynamic_align = 16;    // alignment of the dynamic variable
  std::vector<uint32_t> dynamic;  // indices of dynamic variables in `shared`
  uint32_t local_bytes = 0;       // local memory per thread
  std::vector<Variable> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t threads_most = 0;       // .maxntid or .reqntid; 0 if not specified
  uint32_t registers_most = 0;     // .maxnreg; 0 if not specified
  uint32_t ctas_least = 1;         // .minnctapersm
  uint32_t role_registers = 0;     // largest count that a setmaxnreg requests
  Dim3 required_cluster{0, 0, 0};  // .reqnctapercluster
  bool uses_reserved = false;      // whether it reads the offset of the libraries' memory
  bool names_semantics = false;    // whether any access is .relaxed, .acquire or .release
  bool communicates = false;       // whether CTAs may communicate through atomics or strong loads and stores
  bool takes_turns =
      false;  // whether results may depend on the order of CTAs: `communicates`, or adds to global memory
  bool allocates = false;  // whether it calls malloc

  // Returns true if each call has its own frame in local memory, which recursion, calls by address and alloca
  // require. Otherwise the variables of all functions are placed consecutively, and every frame begins at 0.
  bool frames_apart() const { return frame != no_register; }

  // The number of a register that is not numbered, such as a constant.
  static constexpr uint32_t no_number = ~0u;
  uint32_t number(Register r) const { return r.at < 0 ? no_number : numbers[static_cast<size_t>(r.at) / 4]; }

  // Returns the PTX line of an instruction and, if they are known, the lines of the author's source: "line
  // 158 (tile.h:41, inlined at gemm.cpp:20)".
  std::string place(uint32_t pc) const {
    const SourceLine& at = lines[pc];
    std::string text = "line " + std::to_string(at.ptx);
    if (at.line == 0 || at.file >= files.size()) return text;
    text += " (" + source(at.file, at.line);
    for (int32_t call = at.call; call >= 0; call = inlined_calls[static_cast<size_t>(call)].call)
      text += ", " + inlined(inlined_calls[static_cast<size_t>(call)]);
    return text + ")";
  }
  std::string source(uint16_t file, uint32_t line) const {  // for example "gemm.cpp:41"
    return (file < files.size() ? files[file] : "?") + ":" + std::to_string(line);
  }

  std::string inlined(const InlinedCall& call) const {  // for example "load() inlined at gemm.cpp:41"
    return (call.function.empty() ? "" : call.function + " ") + "inlined at " + source(call.file, call.line);
  }

  std::string register_name(Register r) const {  // for reports
    auto name = register_names.find(r);
    return name == register_names.end() ? "a register" : name->second;
  }
};

}  // namespace ptxbuilder::runtime::emulator
