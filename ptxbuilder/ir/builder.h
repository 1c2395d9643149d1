// The Builder holds one kernel under construction, and is the only interface to LLVM. Typed calls, control
// flow and tiles all go through it.
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

// Arguments fill holes: a value, the values of a list, named registers instead of values, or an immediate.
using Argument = std::variant<Value, std::vector<Value>, Registers, int64_t>;

// The options of a Builder.
struct BuilderOptions {
  // The target, such as "sm_90a". If empty, it is the lowest target from sm_90 on that supports all of the
  // kernel's instructions: sm_90a with wgmma or setmaxnreg, and sm_100a with tcgen05. If the stated target
  // does not support a row, emitting the row throws Error.
  std::string target = {};
  bool line_info = true;  // `.loc` lines that lead from PTX back to the author's C++
};

// Owns its LLVMContext, so that many threads can build kernels at once. A thread's current Builder is the
// last Builder that the thread made and that is neither finished nor destroyed; moving a Builder does not
// change which one is current. Using a moved-from Builder throws Error.
class Builder {
 public:
  explicit Builder(std::string name, BuilderOptions options = {}, Where where = Where::here());
  // Builds on a function that another front end has begun, in that front end's module. See insert_at().
  explicit Builder(llvm::Function& function, BuilderOptions options = {}, Where where = Where::here());
  Builder(Builder&&) noexcept;
  Builder& operator=(Builder&&) noexcept;
  ~Builder();

  // Runs `body` in a front end's function: its code goes to the insertion point of `ir`.
  // Afterwards `ir` points after that code, usually in another block, and continues with the instructions
  // that followed it before. May be called again. Throws Error if `ir` is in another function, or if no
  // instruction can be added there; an exception that leaves `body` leaves the function unfinished.
  void insert_at(llvm::IRBuilderBase& ir, const std::function<void()>& body, Where where = Where::here());

  // Returns the current Builder of this thread. Throws Error if there is none, or all are finished.
  static Builder& current(Where where = Where::here());

  // The signature that the launch needs. The tile layer adds threads, cluster and shared memory before
  // finish().
  Signature& signature();
  const Signature& signature() const;

  // Declares the parameters, in order. Call this once, before any instruction. Returns the values of the
  // parameters; a struct yields the values of its fields, and an 8-bit integer is widened to 32 bits.
  std::vector<Value> declare_parameters(std::vector<Parameter> parameters, Where where = Where::here());
  Where parameters_where() const;  // the line that declared them
  // Adds a pointer parameter for the library's own use, after the author's parameters and after those that
  // were added before. Call it before the author's parameters are declared, and not on a front end's
  // function. own_parameter() returns its value.
  void add_own_parameter(Parameter parameter);
  gmem own_parameter(std::string_view name) const;
  // Returns the index of the parameter that is this tensor map; signature().parameters holds its recipe.
  size_t parameter_index(TensorMap map) const;

  // Throws Error if this kernel is not the one that is being built on this thread, if it is finished, or if
  // an exception has left it unfinished.
  void check_current() const;
  // Raises the kernel's .version to `ptx_version` if it is lower and, if no target is stated, raises the
  // target to the lowest of `targets`. Throws Error if the stated target is not one of them.
  void require(int ptx_version, isa::Targets targets, std::string_view what);

  // constant() returns the host integer that a value holds, and the line where it became a device value, or
  // nothing if only the device knows the value.
  struct Constant {
    uint64_t value;
    Where where;
  };
  std::optional<Constant> constant(Value value) const;

  // Emits one instruction of a row. Checks count, class, width and immediates against the row, and the target
  // against the row's minimum target. `arguments` fill the holes that are read, in order. Returns the values
  // of the holes that are written, lists flattened; a hole filled with named registers yields none. Throws
  // Error that names the row, the operand, the value and the line.
  std::vector<Value> emit(const isa::Row& row, std::span<const Argument> arguments, std::optional<pred> guard,
                          Where where = Where::here());

  // Declares named registers at the top of the kernel. Registers of an untyped class such as b32 also serve
  // operands of floating-point types.
  Registers declare_registers(Class cls, int count);

  // shared_base() returns the start of dynamic shared memory, aligned to 1024 bytes. allocate_shared()
  // allocates `stages` times `bytes` of it and returns the offset. Reports and the sidecar call the
  // allocation `name`, with a number added if that name is taken.
  smem shared_base();
  uint32_t allocate_shared(std::string name, uint32_t bytes, int stages, uint32_t alignment);

  // The record of who holds each of the CTA's 16 thread barriers (PTX ISA, bar).
  BarrierIds& barrier_ids();

  // Throws Error on a front end's device function, because `what` is available only in kernels.
  void check_is_kernel(std::string_view what) const;

  // A mutable variable, which is promoted to registers when the kernel is finished.
  llvm::Value* declare_variable(Class cls);
  llvm::Value* load_variable(llvm::Value* variable, Class cls);
  void store_variable(llvm::Value* variable, llvm::Value* value);

  // Error messages use the name `construct`.
  void if_(pred condition, const std::function<void()>& then, const std::function<void()>& otherwise,
           Where where, std::string_view construct = "if_");
  void while_(const std::function<pred()>& condition, const std::function<void()>& body, Where where);
  // Counts up from `from` while the counter is below `to`.
  void for_(Class cls, Value from, Value to, Value step, const std::function<void(Value)>& body, Where where);

  // Runs the `body` of a `construct`, such as "if_"; the construct counts as the author's if the call at
  // `line` does. An exception that escapes from `body` leaves the kernel unfinished: any further use throws
  // an Error that says so. Values do not belong to this body (ir/region.h): use it only for code that runs
  // exactly once.
  void run_body(std::string_view construct, const CallersLine& line, const std::function<void()>& body);

  // Emits code that every thread needs once, at the top of the kernel, before everything else.
  void emit_at_entry(const std::function<void()>& emission);
  // remember_place() remembers this place in the code; emit_at() can later emit there, once.
  using Place = std::shared_ptr<void>;
  Place remember_place();
  void emit_at(const Place& place, const std::function<void()>& emission);
  // Returns whether no code has been emitted since the place was remembered.
  bool is_at(const Place& place) const;
  // Returns whether the code that is emitted at the place may use the value.
  bool known_at(Value value, const Place& place) const;

  // `observer` is called when the body of a for_ or while_ loop begins, and when it ends. The condition of a
  // while_ counts as part of the body.
  void on_loop(std::function<void(bool begins)> observer);

  // `observer` is called with each instruction of a row before it is emitted, and again after it. It is not
  // called for instructions that it emits itself.
  enum class When : uint8_t { before, behind };
  void on_instruction(
      std::function<void(When when, const isa::Row& row, std::span<const Argument> arguments)> observer);

  // The number of CTAs that a multiprocessor must hold at once: ptxas limits the registers of a thread so
  // that they fit (PTX ISA, .minnctapersm). The default is one.
  void hold_at_once(uint32_t ctas);
  uint32_t held_at_once() const;

  // Allows one of ptxas's advisories: a code such as "C7510", or "spills" or "stack".
  void waive(std::string advisory);
  const std::vector<std::string>& waivers() const;

  // State that the layer above attaches to the kernel under construction.
  struct Attachment {
    virtual ~Attachment() = default;
  };
  std::unique_ptr<Attachment>& attachment();

  // `emission` runs at the end of the kernel's code: when it is finished, or at the end of each insert_at().
  void on_end(std::function<void()> emission);
  // `check` runs when the kernel is finished, before the module is verified. It is for rules about the
  // whole kernel, for example that every stage of a pipeline is released.
  void on_finish(std::function<void()> check);

  // Ends the kernel: runs the checks, verifies the module, and promotes variables. Further calls do
  // nothing, or throw the same Error again. Afterwards an earlier Builder of the thread is current again,
  // if one is still unfinished.
  void finish();

  // Finishes the kernel, and returns the LLVM module in text form.
  std::string llvm_ir();

  struct State;  // ir/state.h, only for this folder and for code generation
  State& state() const;

 private:
  std::unique_ptr<State> state_;
};

// Opens the caller's line for all instructions that are emitted meanwhile: an instruction carries the line of
// the author's call, not the line of the library code that the call runs.
class AtLine : public CallersLine {
 public:
  explicit AtLine(Where where);
};

}  // namespace ptxbuilder
