// Defines Builder, which holds one kernel under construction and is the only interface to LLVM. Typed calls,
// control flow and tiles all use it.
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

// An argument fills a hole with a value, the values of a list, named registers instead of values, or an
// immediate.
using Argument = std::variant<Value, std::vector<Value>, Registers, int64_t>;

// The options of a Builder.
struct BuilderOptions {
  // The target, such as "sm_90a". If empty, the Builder uses the lowest target, at least sm_90, that supports
  // all of the kernel's instructions: sm_90a with wgmma or setmaxnreg, and sm_100a with tcgen05. If the
  // stated target does not support a row, emitting the row throws Error.
  std::string target = {};
  bool line_info = true;  // emits `.loc` lines, which map PTX to the author's C++ lines
};

// Owns its LLVMContext, so many threads can build kernels at once. A thread's current Builder is the last one
// that the thread made and that is neither finished nor destroyed; moving a Builder does not change this.
// Using a Builder after it was moved from throws Error.
class Builder {
 public:
  explicit Builder(std::string name, BuilderOptions options = {}, Where where = Where::here());
  // Adds code to a function that another front end has begun, in that front end's module. See insert_at().
  explicit Builder(llvm::Function& function, BuilderOptions options = {}, Where where = Where::here());
  Builder(Builder&&) noexcept;
  Builder& operator=(Builder&&) noexcept;
  ~Builder();

  // Runs `body` in a front end's function: its code is inserted at the insertion point of `ir`. Afterwards
  // `ir` points after that code, usually in another block, and before the instructions that followed the
  // insertion point. May be called again. Throws Error if `ir` is in another function, or if no instruction
  // can be added there. An exception that leaves `body` leaves the function unfinished.
  void insert_at(llvm::IRBuilderBase& ir, const std::function<void()>& body, Where where = Where::here());

  // Returns the current Builder of this thread. Throws Error if there is none.
  static Builder& current(Where where = Where::here());

  // Returns the signature that a launch needs. The tile layer adds threads, cluster and shared memory before
  // finish().
  Signature& signature();
  const Signature& signature() const;

  // Declares the parameters, in order, and returns their values; a struct yields the values of its fields,
  // and an 8-bit integer is widened to 32 bits. Call this only once, before any instruction.
  std::vector<Value> declare_parameters(std::vector<Parameter> parameters, Where where = Where::here());
  Where parameters_where() const;  // source line of the declaration
  // Adds a pointer parameter for the library's own use, after the author's parameters and after those that
  // were added before. Call this before the author's parameters are declared; it is not available on a front
  // end's function. own_parameter() returns the parameter's value.
  void add_own_parameter(Parameter parameter);
  gmem own_parameter(std::string_view name) const;
  // Returns the index of the parameter for this tensor map; signature().parameters holds its recipe.
  size_t parameter_index(TensorMap map) const;

  // Throws Error if this is not the kernel being built on this thread, if it is finished, or if an exception
  // has left it unfinished.
  void check_current() const;
  // Raises the kernel's .version to `ptx_version` if it is lower, and its target, unless one is stated, to
  // the lowest of `targets`. Throws Error if a target is stated that is not one of them.
  void require(int ptx_version, isa::Targets targets, std::string_view what);

  // constant() returns the host integer that a value represents, and the line where it became a device value;
  // or nothing if only the device knows the value.
  struct Constant {
    uint64_t value;
    Where where;
  };
  std::optional<Constant> constant(Value value) const;

  // Emits one instruction of a row. Checks count, class, width and immediates against the row, and the target
  // against the row's minimum target. `arguments` fill the holes that the instruction reads, in order.
  // Returns the values of the holes that it writes, with lists flattened; a hole filled with named registers
  // yields no value. Throws Error that names the row, the operand, the value and the line.
  std::vector<Value> emit(const isa::Row& row, std::span<const Argument> arguments, std::optional<pred> guard,
                          Where where = Where::here());

  // Declares named registers at the top of the kernel. Registers of an untyped class such as b32 can also be
  // used for floating-point operands.
  Registers declare_registers(Class cls, int count);

  // shared_base() returns the start of dynamic shared memory, aligned to 1024 bytes. allocate_shared()
  // allocates `stages` times `bytes` bytes of it, and returns the offset. Reports and the sidecar call the
  // allocation `name`, with a number appended if that name is taken.
  smem shared_base();
  uint32_t allocate_shared(std::string name, uint32_t bytes, int stages, uint32_t alignment);

  // Returns the record of who uses each of the CTA's 16 thread barriers (PTX ISA, bar).
  BarrierIds& barrier_ids();

  // Throws Error on a front end's device function: `what` is available only in kernels.
  void check_is_kernel(std::string_view what) const;

  // Declares a mutable variable, which is promoted to registers when the kernel is finished.
  llvm::Value* declare_variable(Class cls);
  llvm::Value* load_variable(llvm::Value* variable, Class cls);
  void store_variable(llvm::Value* variable, llvm::Value* value);

  // Emits a branch. Errors refer to it as `construct`.
  void if_(pred condition, const std::function<void()>& then, const std::function<void()>& otherwise,
           Where where, std::string_view construct = "if_");
  void while_(const std::function<pred()>& condition, const std::function<void()>& body, Where where);
  // Emits a loop that counts up from `from` while the counter is below `to`.
  void for_(Class cls, Value from, Value to, Value step, const std::function<void(Value)>& body, Where where);

  // Runs the `body` of a `construct`, such as "if_"; the construct counts as the author's own if the call at
  // `line` does. An exception that escapes from `body` leaves the kernel unfinished; any further use then
  // throws an Error that says so. Unlike other bodies (ir/region.h), this one does not own the values that it
  // makes, so use it only for code that runs exactly once.
  void run_body(std::string_view construct, const CallersLine& line, const std::function<void()>& body);

  // Emits code that every thread needs once, at the top of the kernel, before all other code.
  void emit_at_entry(const std::function<void()>& emission);
  // remember_place() remembers the current point in the code; emit_at() can later emit code there, once.
  using Place = std::shared_ptr<void>;
  Place remember_place();
  void emit_at(const Place& place, const std::function<void()>& emission);
  // Returns whether no code has been emitted since the point was remembered.
  bool is_at(const Place& place) const;
  // Returns whether code that is emitted at that point may use the value.
  bool known_at(Value value, const Place& place) const;

  // Calls `observer` when the body of a for_ or while_ loop begins, and when it ends. The condition of a
  // while_ counts as part of the body.
  void on_loop(std::function<void(bool begins)> observer);

  // Calls `observer` with each instruction of a row, before and after it is emitted, except for instructions
  // that the observer itself emits.
  enum class When : uint8_t { before, behind };
  void on_instruction(
      std::function<void(When when, const isa::Row& row, std::span<const Argument> arguments)> observer);

  // Sets the number of CTAs that a multiprocessor must hold at once, by default one: ptxas limits the
  // registers of a thread so that they fit (PTX ISA, .minnctapersm).
  void hold_at_once(uint32_t ctas);
  uint32_t held_at_once() const;

  // Permits one of ptxas's advisories: a code such as "C7510", or "spills" or "stack".
  void waive(std::string advisory);
  const std::vector<std::string>& waivers() const;

  // State that a higher layer attaches to the kernel under construction.
  struct Attachment {
    virtual ~Attachment() = default;
  };
  std::unique_ptr<Attachment>& attachment();

  // Runs `emission` at the end of the kernel's code: when the kernel is finished, or at the end of each
  // insert_at().
  void on_end(std::function<void()> emission);
  // Runs `check` when the kernel is finished, before the module is verified. It is for rules about the whole
  // kernel, for example that every stage of a pipeline is released.
  void on_finish(std::function<void()> check);

  // Ends the kernel: runs the checks, verifies the module, and promotes variables. Further calls do nothing,
  // or throw the same Error again. Afterwards, an earlier Builder of the thread that is still unfinished
  // becomes current again.
  void finish();

  // Finishes the kernel, and returns the LLVM module in text form.
  std::string llvm_ir();

  struct State;  // see ir/state.h; only this folder and code generation use it
  State& state() const;

 private:
  std::unique_ptr<State> state_;
};

// Opens the caller's line for all instructions emitted while this object exists: an instruction carries the
// line of the author's call rather than the line of the library code that emits it.
class AtLine : public CallersLine {
 public:
  explicit AtLine(Where where);
};

}  // namespace ptxbuilder
