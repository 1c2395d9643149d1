// The Builder: one kernel in the making, and the only door to LLVM. Typed calls, control flow and tiles go
// through it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ptxbuilder/ir/barrier_ids.h"
#include "ptxbuilder/ir/value.h"
#include "ptxbuilder/isa/lower.h"
#include "ptxbuilder/isa/rows.h"
#include "ptxbuilder/signature.h"

namespace ptxbuilder {

// An argument fills a hole: a value, the values of a list, named registers instead of values, or an
// immediate.
using Argument = std::variant<Value, std::vector<Value>, Registers, int64_t>;

// The options of a Builder.
struct BuilderOptions {
  // The target, such as "sm_90a". Empty: the lowest from sm_90 on that has all of the kernel's instructions,
  // which is sm_90a with wgmma or setmaxnreg, and sm_100a with tcgen05. A row that the stated target lacks is
  // an Error.
  std::string target = {};
  bool line_info = true;  // `.loc` lines that lead from PTX back to the author's C++
};

// Owns its LLVMContext, so that many threads can build kernels at once. A thread's current Builder is the
// last one that it made and that is neither finished nor destroyed; moving a Builder does not change that.
// Using a moved-from Builder throws Error.
class Builder {
 public:
  explicit Builder(std::string name, BuilderOptions options = {}, Where where = Where::here());
  // On a function that another front end has begun, in a module that stays its own. See insert_at().
  explicit Builder(llvm::Function& function, BuilderOptions options = {}, Where where = Where::here());
  Builder(Builder&&) noexcept;
  Builder& operator=(Builder&&) noexcept;
  ~Builder();

  // This is for a front end's function: runs `body`, whose code goes to the insertion point of `ir`.
  // Afterwards `ir` is after that code, as a rule in another block, and goes on with what came after it
  // before. May be called again. Throws Error where `ir` is in another function, or where no instruction can
  // be added; an exception out of `body` leaves the function unfinished.
  void insert_at(llvm::IRBuilderBase& ir, const std::function<void()>& body, Where where = Where::here());

  // The current Builder of this thread. Throws Error when no kernel is being built, or all are finished.
  static Builder& current(Where where = Where::here());

  // The launch must know this. The tile layer adds threads, cluster and shared memory before finish().
  Signature& signature();
  const Signature& signature() const;

  // Declares the parameters, in order. Call it once, before any instruction. Returns the parameters'
  // values, where a struct yields the values of its fields, and an 8-bit integer is 32 bits wide.
  std::vector<Value> declare_parameters(std::vector<Parameter> parameters, Where where = Where::here());
  Where parameters_where() const;  // the line that declared them
  // This adds a parameter of the library's own, a pointer, after those of the author and those that were
  // added before. Call it before the author's are declared, and not on a front end's function.
  // own_parameter() is its value.
  void add_own_parameter(Parameter parameter);
  gmem own_parameter(std::string_view name) const;
  // The index of the parameter that is this tensor map; its recipe is in signature().parameters.
  size_t parameter_index(TensorMap map) const;

  // Throws Error if this kernel is not the one that is being built on this thread, if it is finished, or if
  // an exception has left it unfinished.
  void check_current() const;
  // Raises the kernel's .version to `ptx_version` if it is lower, and its target to the lowest of `targets`
  // if that is not stated. Throws Error where the target is none of them.
  void require(int ptx_version, isa::Targets targets, std::string_view what);

  // The host integer that a value is, and the line where it became a device value. constant() returns none
  // for a value that only the device knows.
  struct Constant {
    uint64_t value;
    Where where;
  };
  std::optional<Constant> constant(Value value) const;

  // Emits one instruction of a row: checks count, class, width and immediates against the row, and the
  // target against the row's floor. `arguments` fill the holes that are read, in order. Returns the values
  // of the holes that are written, lists flattened; a hole filled with named registers yields none. Throws
  // Error that names the row, the operand, the value and the line.
  std::vector<Value> emit(const isa::Row& row, std::span<const Argument> arguments, std::optional<pred> guard,
                          Where where = Where::here());

  // Declares named registers at the top of the kernel. Those of a class of bits, as b32, serve operands of
  // floating-point types too.
  Registers declare_registers(Class cls, int count);

  // shared_base() is the start of dynamic shared memory, aligned to 1024 bytes. allocate_shared() allocates
  // `stages` times `bytes` of it and returns the offset. Reports and the sidecar call the allocation
  // `name`, with a number added if that name is taken.
  smem shared_base();
  uint32_t allocate_shared(std::string name, uint32_t bytes, int stages, uint32_t alignment);

  // This keeps who holds each of the CTA's 16 barriers for threads (PTX ISA, bar).
  BarrierIds& barrier_ids();

  // Throws Error on a front end's device function, for `what`, which belongs to kernels alone.
  void check_is_kernel(std::string_view what) const;

  // A mutable cell; promoted to registers when the kernel is finished.
  llvm::Value* declare_variable(Class cls);
  llvm::Value* load_variable(llvm::Value* variable, Class cls);
  void store_variable(llvm::Value* variable, llvm::Value* value);

  // `construct` is what errors call it.
  void if_(pred condition, const std::function<void()>& then, const std::function<void()>& otherwise,
           Where where, std::string_view construct = "if_");
  void while_(const std::function<pred()>& condition, const std::function<void()>& body, Where where);
  // Counts from `from` while below `to`.
  void for_(Class cls, Value from, Value to, Value step, const std::function<void(Value)>& body, Where where);

  // Runs the `body` of a `construct`, as "if_", which is the author's if the call at `line` is. An exception
  // that leaves it leaves the kernel unfinished too: any further use throws an Error that says so. Values
  // know no bounds of it (ir/region.h): it is for code that runs once wherever the call does.
  void run_body(std::string_view construct, const CallersLine& line, const std::function<void()>& body);

  // Emits at the top of the kernel, before all else, what every thread needs once.
  void emit_at_entry(const std::function<void()>& emission);
  // remember_place() remembers this place in the code; emit_at() can later emit there, once.
  using Place = std::shared_ptr<void>;
  Place remember_place();
  void emit_at(const Place& place, const std::function<void()>& emission);
  // This says whether what is emitted at the place may use the value.
  bool known_at(Value value, const Place& place) const;

  // `observer` is called when the body of a for_ or while_ loop begins, and when it ends. The condition of a
  // while_ counts as part of the body.
  void on_loop(std::function<void(bool begins)> observer);

  // `observer` is called with each instruction of a row before it is emitted, and again after it. It is not
  // called for what it emits itself.
  enum class When : uint8_t { before, behind };
  void on_instruction(
      std::function<void(When when, const isa::Row& row, std::span<const Argument> arguments)> observer);

  // A multiprocessor is to hold so many CTAs at once: ptxas gives a thread no more registers than they leave
  // (PTX ISA, .minnctapersm). It is one unless said.
  void hold_at_once(uint32_t ctas);
  uint32_t held_at_once() const;

  // Lets one of ptxas's advisories through: a code such as "C7510", or "spills" or "stack".
  void waive(std::string advisory);
  const std::vector<std::string>& waivers() const;

  // The layer above keeps this with the kernel in the making.
  struct Attachment {
    virtual ~Attachment() = default;
  };
  std::unique_ptr<Attachment>& attachment();

  // `emission` runs where the kernel's code ends: when it is finished, or at the end of each insert_at().
  void on_end(std::function<void()> emission);
  // `check` runs when the kernel is finished, before the module is verified. It is for rules about the
  // whole kernel, for example that every stage of a pipeline is released.
  void on_finish(std::function<void()> check);

  // Ends the kernel: runs the checks, verifies the module, and promotes variables. Further calls do
  // nothing, or throw the same Error again. Afterwards an earlier Builder of the thread is current again,
  // if one is still unfinished.
  void finish();

  // Finishes the kernel, and returns the LLVM module as text.
  std::string llvm_ir();

  struct State;  // ir/state.h, for the folder itself and code generation
  State& state() const;

 private:
  std::unique_ptr<State> state_;
};

// Opens the caller's line, and makes it the line of all that is emitted meanwhile: an instruction bears the
// line of the author's call, not of the library's code below it.
class AtLine : public CallersLine {
 public:
  explicit AtLine(Where where);
};

}  // namespace ptxbuilder
