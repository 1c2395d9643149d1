// Defines Builder, which holds one kernel under construction. Typed calls, control flow and tiles all use
// Builder to access LLVM.
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

// An argument for a hole: a value, the values of a list, named registers instead of values, or an immediate.
using Argument = std::variant<Value, std::vector<Value>, Registers, int64_t>;

// The options of a Builder.
struct BuilderOptions {
  // The target, such as "sm_90a". If empty, the Builder uses the lowest target, at least sm_90, that supports
  // all of the kernel's instructions: sm_90a if the kernel uses wgmma or setmaxnreg, and sm_100a if it uses
  // tcgen05. Emitting a row that the stated target does not support throws Error.
  std::string target = {};
  bool line_info = true;  // emits `.loc` lines, which map PTX to the author's C++ lines
};

// Owns its LLVMContext, so many threads can build kernels at once. A thread's current Builder is the most
// recent of the Builders that the thread has made and that are neither finished nor destroyed. Moving the
// current Builder makes the new object the current Builder. Using a moved-from Builder throws Error.
class Builder {
 public:
  explicit Builder(std::string name, BuilderOptions options = {}, Where where = Where::here());
  // Adds code to an unfinished function of another front end, in the module of that front end. See
  // insert_at().
  explicit Builder(llvm::Function& function, BuilderOptions options = {}, Where where = Where::here());
  Builder(Builder&&) noexcept;
  Builder& operator=(Builder&&) noexcept;
  ~Builder();

  // Runs `body`, and inserts the code that it emits into a front end's function, at the insertion point of
  // `ir`. Afterwards, `ir` points between that code and the instructions that followed the insertion point,
  // usually in another block. May be called several times. Throws Error if `ir` is in another function, or if
  // no instruction can be added there. If `body` throws, the function stays unfinished.
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
  // Adds a pointer parameter for the library's own use, after the author's parameters and any parameters
  // added earlier. Call this function before the author's parameters are declared. It is not available for a
  // front end's function. own_parameter() returns the parameter's value.
  void add_own_parameter(Parameter parameter);
  gmem own_parameter(std::string_view name) const;
  // Returns the index of the parameter for this tensor map; signature().parameters holds its recipe.
  size_t parameter_index(TensorMap map) const;

  // Throws Error if this Builder is not the thread's current Builder, if its kernel is finished, or if an
  // exception has left the kernel unfinished.
  void check_current() const;
  // Raises the kernel's .version to `ptx_version` if the .version is lower. Raises the kernel's target to the
  // lowest of `targets` unless the author has stated a target. Throws Error if the stated target is not one
  // of `targets`.
  void require(int ptx_version, isa::Targets targets, std::string_view what);

  // The result of constant(), which consists of the host integer that a value represents and of the line
  // where the integer became a device value. If the value is known only on the device, constant() returns
  // nothing.
  struct Constant {
    uint64_t value;
    Where where;
  };
  std::optional<Constant> constant(Value value) const;

  // Emits one instruction of a row. Checks that the number, class and width of the arguments, and the
  // immediates, match the row, and that the target supports the row. `arguments` fill the holes that the
  // instruction reads, in order. Returns the values of the holes that the instruction writes, with lists
  // flattened. A hole filled with named registers yields no value. If a check fails, throws an Error that
  // names the row, the operand, the value and the line.
  std::vector<Value> emit(const isa::Row& row, std::span<const Argument> arguments, std::optional<pred> guard,
                          Where where = Where::here());

  // Declares named registers at the top of the kernel. Registers of an untyped class such as b32 can also be
  // used for floating-point operands.
  Registers declare_registers(Class cls, int count);

  // shared_base() returns the start of dynamic shared memory, aligned to 1024 bytes. allocate_shared()
  // allocates `stages` times `bytes` bytes of it, and returns the offset. In reports and the sidecar, the
  // allocation is called `name`, with a number appended if that name is already in use.
  smem shared_base();
  uint32_t allocate_shared(std::string name, uint32_t bytes, int stages, uint32_t alignment);

  // Returns the record of the holders of the CTA's 16 thread barriers (PTX ISA, bar).
  BarrierIds& barrier_ids();

  // Throws Error if this is a front end's device function, because `what` is available only in kernels.
  void check_is_kernel(std::string_view what) const;

  // Declares a mutable variable, which is promoted to registers when the kernel is finished.
  llvm::Value* declare_variable(Class cls);
  llvm::Value* load_variable(llvm::Value* variable, Class cls);
  void store_variable(llvm::Value* variable, llvm::Value* value);

  // Emits a branch. Errors refer to the branch as `construct`.
  void if_(pred condition, const std::function<void()>& then, const std::function<void()>& otherwise,
           Where where, std::string_view construct = "if_");
  void while_(const std::function<pred()>& condition, const std::function<void()>& body, Where where);
  // Emits a loop that counts up from `from` while the counter is below `to`.
  void for_(Class cls, Value from, Value to, Value step, const std::function<void(Value)>& body, Where where);

  // Runs the `body` of a `construct`, such as "if_". If `line` opened the caller's line, `body` is the
  // author's code, in which each call opens its own line. An exception that escapes from `body` leaves the
  // kernel unfinished, and any further use of the kernel throws an Error. Values that `body` makes do not
  // belong to `body`, unlike values made in the bodies of ir/region.h. Use run_body() only for code that runs
  // exactly once.
  void run_body(std::string_view construct, const CallersLine& line, const std::function<void()>& body);

  // Emits code that every thread needs once, at the top of the kernel, before all other code.
  void emit_at_entry(const std::function<void()>& emission);
  // remember_place() returns the current point in the code, at which emit_at() can later emit code once.
  using Place = std::shared_ptr<void>;
  Place remember_place();
  void emit_at(const Place& place, const std::function<void()>& emission);
  // Returns true if the current point in the code is `place`, because no code has been emitted after it.
  bool is_at(const Place& place) const;
  // Returns whether code emitted at `place` may use the value.
  bool known_at(Value value, const Place& place) const;

  // Calls `observer` when the body of a for_ or while_ loop begins, and when it ends. The condition of a
  // while_ counts as part of the body.
  void on_loop(std::function<void(bool begins)> observer);

  // Calls `observer` before and after each instruction of a row is emitted. Instructions that the observer
  // itself emits are not reported to it.
  enum class When : uint8_t { before, behind };
  void on_instruction(
      std::function<void(When when, const isa::Row& row, std::span<const Argument> arguments)> observer);

  // Sets the number of CTAs that a multiprocessor must be able to hold at once, by default one. ptxas limits
  // the registers of each thread so that these CTAs fit (PTX ISA, .minnctapersm).
  void hold_at_once(uint32_t ctas);
  uint32_t held_at_once() const;

  // Permits one of ptxas's advisories, given as a code such as "C7510", or as "spills" or "stack".
  void waive(std::string advisory);
  const std::vector<std::string>& waivers() const;

  // The base class of state that a higher layer attaches to the kernel under construction.
  struct Attachment {
    virtual ~Attachment() = default;
  };
  std::unique_ptr<Attachment>& attachment();

  // Runs `emission` to add code at the end of the kernel. `emission` runs when the kernel is finished or, for
  // a front end's function, at the end of each insert_at().
  void on_end(std::function<void()> emission);
  // Runs `check` when the kernel is finished, before the module is verified. Use it for rules about the
  // entire kernel, for example that every stage of a pipeline is released.
  void on_finish(std::function<void()> check);

  // Ends the kernel: runs the checks, verifies the module, and promotes variables. Calling finish() again
  // does nothing, or throws the first call's Error again. Afterwards, the thread's previous Builder becomes
  // current again if it is still unfinished.
  void finish();

  // Finishes the kernel, and returns the LLVM module in text form.
  std::string llvm_ir();

  struct State;  // see ir/state.h; only this folder and code generation use it
  State& state() const;

 private:
  std::unique_ptr<State> state_;
};

// Opens the caller's line while this object exists, so that the instructions emitted meanwhile have the line
// of the author's call in their debug information instead of a line in the library.
class AtLine : public CallersLine {
 public:
  explicit AtLine(Where where);
};

}  // namespace ptxbuilder
