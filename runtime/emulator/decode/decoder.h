// Decodes one kernel of a PTX module into the dense form that the emulator executes.
#pragma once

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "ptxbuilder/isa/nearest.h"
#include "ptxbuilder/isa/recognise.h"
#include "ptxbuilder/ptx/ptx.h"
#include "runtime/emulator/machine/memory.h"
#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

enum class Type : uint8_t {
  none,
  pred,
  b8,
  u8,
  s8,
  b16,
  u16,
  s16,
  f16,
  bf16,
  b32,
  u32,
  s32,
  f32,
  tf32,
  f16x2,
  bf16x2,
  u16x2,
  s16x2,
  b64,
  u64,
  s64,
  f64,
  f32x2,
  b128,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2
};

int bytes(Type type);
bool is_signed(Type type);
bool is_float(Type type);
std::optional<Type> type_named(std::string_view name);

// The largest number of bytes for a warp's registers, and for its constants.
inline constexpr uint32_t most_registers = 0x4000'0000;

// Thrown while an instruction is decoded. The instruction is then replaced with one that reports this message
// if it is executed.
struct Refused {
  std::string why;
};

// The targets to which an instruction may jump.
struct Jump {
  std::vector<uint32_t> targets;
  bool leaves = false;  // whether the next instruction is reached only if the guard is false
};

// A register that may be wider than the value that it holds.
struct WideRegister {
  Register r;
  uint8_t bytes;
};

class Decoder;

// Decodes one instruction. `row` is the matching row of the manual; its syntax names the words and operands
// of the instruction. Decoding turns operands into registers.
class Decode {
 public:
  Decode(Decoder& decoder, const ptx_text::Instruction& text, const isa::Recognised& row, Instruction& out,
         size_t scope);

  // Sets the handler that executes the instruction, and the handler's operands. A decoder calls this last.
  template <auto handler>
  void run(const OperandsOf<handler>& operands) {
    out_.set<handler>(operands);
  }
  template <auto handler>
  void run() {
    out_.set<handler>();
  }

  const ptx_text::Instruction& text;
  const isa::Recognised& row;
  const std::vector<std::string_view> words;  // words of the mnemonic after the first

  size_t count() const { return text.operands.size(); }
  const ptx_text::Operand& operand(size_t i) const { return text.operands[i]; }
  // Returns the operand that has this name in the row's syntax, or null if the instruction does not have it.
  const ptx_text::Operand* find(std::string_view name) const { return row[name]; }
  const ptx_text::Operand& operator[](std::string_view name) const { return *row[name]; }

  bool has(std::string_view word) const { return std::ranges::find(words, word) != words.end(); }
  std::string_view one_of(std::initializer_list<std::string_view> any) const;  // returns the first word that
                                                                               // the mnemonic contains, or an
                                                                               // empty string
  // Returns the n-th word that names a type; type_or() returns `otherwise` if it does not exist.
  Type type_or(Type otherwise, size_t n = 0) const;
  Type type(size_t n = 0) const;

  // Return the register of an operand. The operand must have the width of `type`.
  Register source(const ptx_text::Operand& operand, Type type);
  Register source(size_t i, Type type) { return source(operand(i), type); }
  Register destination(const ptx_text::Operand& operand, Type type);
  Register destination(size_t i, Type type) { return destination(operand(i), type); }
  Register sink(const ptx_text::Operand& operand, Type type);  // accepts _, and returns no_register for it
  Predicate predicate(const ptx_text::Operand& operand);       // accepts p and !p
  uint8_t register_bytes(
      const ptx_text::Operand& operand) const;  // 0 if the operand is a predicate, or not a register
  // Returns the operand's register, which must have the type's width or be wider, up to 8 bytes.
  WideRegister wide(const ptx_text::Operand& operand, Type type, bool writes);
  int64_t immediate(size_t i);
  uint32_t label(const ptx_text::Operand& operand) const;
  // Returns [base + displacement]. If the operand contains a symbol, stores the symbol's space in
  // `of_symbol`.
  AddressOperand address(const ptx_text::Operand& operand, size_t part = 0, Space* of_symbol = nullptr);
  // Returns the offset of a variable in the running function's frame, if the operand is such a variable or
  // variable+4; otherwise returns nothing.
  std::optional<uint64_t> in_frame(const ptx_text::Operand& operand) const;
  // parts() returns the parts of a vector operand, or the operand itself if it is not a vector. The other
  // functions return each part as a register.
  using Parts = std::vector<const ptx_text::Operand*>;
  static Parts parts(const ptx_text::Operand& operand);
  std::vector<Register> sources(const Parts& parts, Type type);
  std::vector<Register> destinations(const Parts& parts, Type type);
  std::vector<Register> sinks(const Parts& parts, Type type);
  RegisterList list(const std::vector<Register>& registers);

  [[noreturn]] void refuse(const std::string& why) const { throw Refused{why}; }
  // Throws an Error "ptx LINE:COLUMN: ..." for code that no sm_90a GPU accepts. The kernel then does not run
  // at all.
  [[noreturn]] void reject(const std::string& why) const;
  Decoder& decoder;
  const size_t scope;
  // Specifies how the values of these sources flow into the result, and moves the sources from `reads` to
  // `passed`.
  void passes(Flow flow, const std::vector<Register>& registers);
  // Specifies that this source affects more than the result, like an address does; needs_all() specifies that
  // for all sources.
  void needs(Register r);
  void needs_all();

  std::vector<Register> reads, writes;
  std::vector<Register> held;            // registers that a wgmma continues to use after the instruction
  std::vector<Register> needed, passed;  // not contained in `reads`; see RegisterUse
  Flow flow = Flow::uses;
  Predicate decides;
  uint8_t flow_bytes = 0;
  Jump jump;
  void turn(Turn turn) { out_.turn = turn; }

 private:
  Instruction& out_;
};

using DecodeFunction = void (*)(Decode&);
// Decoders by the first words of the mnemonic. A key consists of as many words as are needed
// ("cp.async.bulk"), and the longest matching key wins.
using DecodeTable = std::unordered_map<std::string_view, DecodeFunction>;
const DecodeTable& decode_table();
// Decodes add, sub, mul, fma and similar floating-point instructions. The mnemonic determines which of these
// an instruction is.
void decode_float_arithmetic(Decode& d);
void add_integer(DecodeTable& table);
void add_bits(DecodeTable& table);
void add_float(DecodeTable& table);
void add_compare(DecodeTable& table);
void add_convert(DecodeTable& table);
void add_move(DecodeTable& table);
void add_memory(DecodeTable& table);
void add_atomic(DecodeTable& table);
void add_async(DecodeTable& table);
void add_control(DecodeTable& table);
void add_lanes(DecodeTable& table);
void add_barrier(DecodeTable& table);
void add_mbarrier(DecodeTable& table);
void add_copy(DecodeTable& table);
void add_tensor(DecodeTable& table);
void add_tensormap(DecodeTable& table);
void add_matrix(DecodeTable& table);
void add_mma(DecodeTable& table);
void add_wgmma(DecodeTable& table);
void add_tensor_memory(DecodeTable& table);
void add_video(DecodeTable& table);
void add_wmma(DecodeTable& table);

// Throws an Error "ptx LINE:COLUMN: ..." if the module cannot run on sm_90a.
void validate(const ptx_text::Module& module);

class Decoder {
 public:
  Decoder(const ptx_text::Module& module, const std::string& kernel, GlobalMemory& memory,
          uint32_t device = 0);

  Kernel run();
  // The allocations for the module's variables. The program owns them.
  std::vector<Address> allocations;

  // size_of() returns the size of a declared name in bytes, or 0 if an extent is left open; align_of()
  // returns the name's alignment. size_of() throws an Error "ptx LINE:COLUMN: ..." if an extent is not a
  // number of elements or the size is too large, and align_of() if an alignment is not a power of two.
  static uint64_t size_of(const ptx_text::Declaration& d, const ptx_text::Declarator& name);
  static uint32_t align_of(const ptx_text::Declaration& d, const ptx_text::Declarator& name);

 private:
  friend class Decode;

  struct Symbol {
    enum class Kind : uint8_t { reg, address } kind = Kind::reg;
    Register at = {};  // the register, if kind is `reg`
    uint8_t bytes = 0;
    bool predicate = false;
    Space space = Space::generic;  // the address space, if kind is `address`
    uint64_t value = 0;
    uint32_t size = 0;
    bool in_frame = false;  // whether `value` is an offset in the running function's frame
  };
  // A range of registers such as %r<177>. Each register is allocated when the text first names it.
  struct Range {
    uint32_t count;
    uint8_t bytes;
    bool predicate;
  };
  struct Scope {
    size_t parent = 0;
    std::unordered_map<std::string, Symbol> symbols = {};
    std::unordered_map<std::string, Range> ranges = {};
    std::unordered_map<std::string, uint32_t> labels = {};
    std::unordered_map<std::string, std::vector<std::string>> tables = {};   // .branchtargets by label
    std::unordered_map<std::string, std::vector<std::string>> vectors = {};  // parts of .v2 and .v4
  };
  struct Placed {
    const ptx_text::Instruction* text;
    size_t scope;
  };
  struct CallSite {
    ptx_text::Position at;
    std::string callee;  // empty if the call is through an address
  };

  void variables();
  void declare_global(const ptx_text::Declaration& d);
  void declare_registers(const ptx_text::Declaration& d, size_t scope);
  void declare_vectors(const ptx_text::Declaration& d, size_t scope, size_t parts);
  // Declares a parameter of the kernel.
  void declare_parameter(const ptx_text::Declaration& d, const ptx_text::Declarator& name);
  uint64_t initial_bits(const ptx_text::Operand& o, uint64_t bytes);
  void function(const ptx_text::Function& f);
  void walk(const std::vector<ptx_text::Statement>& statements, size_t scope);
  void declare(const ptx_text::Declaration& d, size_t scope);
  void name_symbol(size_t scope, const ptx_text::Declarator& name, const Symbol& symbol);
  void directive(const ptx_text::Directive& d, size_t scope, const std::string& last_label);
  uint16_t file_number(const std::string& token) const;
  int32_t inlined_call(const ptx_text::Directive& d);
  std::string called_function(const ptx_text::Directive& d) const;
  void take_debug_strings(const ptx_text::Directive& section);
  void decode_all(uint32_t from);
  void decode_one(uint32_t pc);
  void link_calls();
  static void check_call(const CallSite& call, const char* what, const std::vector<CallValue>& given,
                         const std::vector<CallValue>& taken);
  void index_functions();
  bool needs_frames() const;
  std::string function_named(const std::string& name) const;
  uint32_t want(const std::string& function);
  CallValue passed_value(Decode& d, const ptx_text::Operand& o, const ptx_text::Declaration* taken,
                         bool writes);
  std::vector<CallValue> passed_values(Decode& d, const ptx_text::Operand* list,
                                       const std::vector<ptx_text::Declaration>* taken, bool writes);
  const ptx_text::Instruction* with_vectors(const ptx_text::Instruction& text, size_t scope);
  isa::Recognised recognise(const ptx_text::Instruction& text, size_t scope);
  void finish_registers();
  void find_matrix_uses();
  void find_doubtful();
  void find_guesses();
  std::set<int32_t> compared_by_swaps() const;
  std::vector<Register> read_undefined(const Routine& routine) const;
  void number_registers();
  void kernel_directives(const ptx_text::Function& f);

  const Symbol* find(const std::string& name, size_t scope);
  const Symbol* find_in_range(const std::string& name, Scope& scope);
  Symbol place_register(const std::string& name, const Range& range);
  std::optional<uint32_t> find_label(const std::string& name, size_t scope) const;
  Register constant(uint64_t value, uint32_t bytes);
  Register special(const SpecialRegister& which, uint32_t bytes);
  uint32_t allocate_local(const ptx_text::Declaration& d, const ptx_text::Declarator& name);
  Register allocate_constant(uint32_t width);

  const ptx_text::Module& module_;
  bool is_blackwell_ = false;  // whether the instructions of sm_100a are accepted instead of those of sm_90a
  GlobalMemory& memory_;
  uint32_t device_;  // number of the device whose memory holds the module's variables
  Kernel kernel_;
  std::vector<Scope> scopes_;
  std::vector<Placed> placed_;
  std::vector<CallSite> calls_;
  std::vector<const ptx_text::Function*> wanted_;  // the function of each routine
  std::unordered_map<std::string, const ptx_text::Function*> functions_;
  std::unordered_map<std::string, uint64_t> addresses_;  // addresses of functions
  std::unordered_map<std::string, std::string> aliases_;
  std::unordered_map<std::string, uint32_t> routine_numbers_;
  std::deque<ptx_text::Instruction>
      rewritten_;  // instructions that name vector registers, or whose words are in another order
  std::unordered_map<std::string, isa::Nearest> nearest_;  // nearest rows of mnemonics that match no row
  bool has_vectors_ = false;
  std::vector<RegisterWidth> placed_registers_;  // registers of the routine that is being decoded
  uint32_t kernel_local_ = 0;                    // bytes of local memory that the entry itself uses
  std::map<std::pair<uint64_t, uint32_t>, Register> constants_;
  uint32_t next_register_ = 0, constant_bytes_ = 0;
  SourceLine source_;
  std::vector<Jump> jumps_;  // one element per instruction
  std::vector<Register> matrix_registers_;
  std::map<uint32_t, uint16_t> file_numbers_;
  std::string debug_strings_;                   // contents of .debug_str
  std::map<std::string, size_t> debug_labels_;  // offset in debug_strings_ of each label of .debug_str
  // Indices into Kernel::inlined_calls, keyed by the file, line and column of a .loc, and by file, line,
  // caller and function.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, int32_t> calls_of_places_;
  std::map<std::tuple<uint16_t, uint32_t, int32_t, std::string>, size_t> numbers_of_calls_;

 public:
  // Adds a call and returns its index in Kernel::calls.
  uint32_t add_call(Decode& d, const ptx_text::Operand& callee, const ptx_text::Operand* results,
                    const ptx_text::Operand* arguments);
  uint32_t add_call_by_address(Decode& d, const ptx_text::Operand& callee, const ptx_text::Operand* results,
                               const ptx_text::Operand* arguments);
  // Returns the name of a function that the emulator provides because the module has no body for it;
  // otherwise returns an empty string.
  std::string provided_by_emulator(const std::string& name) const;
  // Returns the address of a function of the module. Once it has an address, the function can be called
  // through it.
  std::optional<uint64_t> function_address(const std::string& name);
  uint32_t add_targets(const std::vector<uint32_t>& targets);  // returns the first index in Kernel::targets
  std::vector<uint32_t> branch_targets(const std::string& table, size_t scope) const;
  const Kernel& kernel() const { return kernel_; }
  void communicates() { kernel_.communicates = kernel_.takes_turns = true; }
  void takes_turns() { kernel_.takes_turns = true; }
  void allocates() { kernel_.allocates = true; }
  void names_semantics() { kernel_.names_semantics = true; }
  void asks_registers(uint32_t count) { kernel_.role_registers = std::max(kernel_.role_registers, count); }
};

inline uint32_t align_up(uint64_t value, uint64_t to) {
  return static_cast<uint32_t>((value + to - 1) / to * to);
}
uint32_t to_number(std::string_view text);  // at most 2^32 - 1; 0 if `text` is not an integer

// A basic block: a sequence of instructions that is entered only at its first instruction and left only at
// its last.
struct Block {
  uint32_t from = 0, to = 0;         // program counters [from, to)
  std::vector<uint32_t> successors;  // indices of blocks; empty if the thread or the function ends here
};
// Returns the basic blocks of code[from, to) in order. `jumps` contains the jumps of the whole code.
std::vector<Block> basic_blocks(const std::vector<Instruction>& code, const std::vector<Jump>& jumps,
                                uint32_t from, uint32_t to);

// Fills Kernel::reconvergence with the points where the sides of each branch in kernel.code[from, to) meet
// again.
void find_reconvergence(Kernel& kernel, const std::vector<Jump>& jumps, uint32_t from, uint32_t to);

}  // namespace ptxbuilder::runtime::emulator
