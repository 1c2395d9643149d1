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

// What stands in a hole: a value, the values of a list, named registers in their place, or an immediate.
using Argument = std::variant<Value, std::vector<Value>, Registers, int64_t>;

struct BuilderOptions {
  std::string target = "sm_90a";
  bool line_info = true;  // `.loc` lines that lead from PTX back to the author's C++
};

// Owns its LLVMContext, so kernels build on many threads at once. A Builder is the current one of the thread
// that made it, moved values included, until it is finished or destroyed; while a later one of the thread is
// neither, that one is. What was moved from throws Error.
class Builder {
 public:
  explicit Builder(std::string name, BuilderOptions options = {}, Where where = Where::here());
  Builder(Builder&&) noexcept;
  Builder& operator=(Builder&&) noexcept;
  ~Builder();

  // The builder of this thread. Throws Error when no kernel is being built, or all are finished.
  static Builder& current(Where where = Where::here());

  // What the launch must know. The tile layer adds threads, cluster and shared memory before finish().
  Signature& signature();
  const Signature& signature() const;

  // Declares the parameters, in order and once, before any instruction. Yields their values, of a struct
  // those of its fields; 8-bit integers have 32 bits there.
  std::vector<Value> declare_parameters(std::vector<Parameter> parameters, Where where = Where::here());
  Where parameters_where() const;  // the line that declared them
  // The index of the parameter that a tensor map is; its recipe is in signature().parameters.
  size_t parameter_index(TensorMap map) const;

  // Throws Error unless this kernel is the one that is being built on this thread, when it is finished, and
  // when an exception has left it unfinished.
  void check_current() const;
  // Raises the least .version, and throws Error when the target is below `sm`.
  void require(int ptx_version, isa::Sm sm, std::string_view what);

  // What a value is, where that is a host integer, and the line where it turned into a device value.
  struct Constant {
    uint64_t value;
    Where where;
  };
  std::optional<Constant> constant(Value value) const;

  // Emits one instruction of a row: checks count, class, width and immediates against the row, and the target
  // against the row's floor. `arguments` fill the holes that read, in order. Yields the values of the holes
  // that write, lists flattened; a hole filled with named registers yields none. Throws Error that names row,
  // operand, value and line.
  std::vector<Value> emit(const isa::Row& row, std::span<const Argument> arguments, std::optional<pred> guard,
                          Where where = Where::here());

  // Declares named registers at the top of the kernel.
  Registers declare_registers(Class cls, int count);

  // The start of dynamic shared memory, aligned to 1024 bytes, and `stages` times `bytes` more of it, which
  // yields the offset. Reports and the sidecar call it `name`, with a number where that is taken.
  smem shared_base();
  uint32_t allocate_shared(std::string name, uint32_t bytes, int stages, uint32_t alignment);

  // Who holds which barrier of threads.
  BarrierIds& barrier_ids();

  // Global memory of the module's own, zero when it is loaded, aligned to 16 bytes.
  gmem zeroed_global(const std::string& name, uint64_t bytes);

  // A mutable cell; promoted to registers when the kernel is finished.
  llvm::Value* declare_variable(Class cls);
  llvm::Value* load_variable(llvm::Value* variable, Class cls);
  void store_variable(llvm::Value* variable, llvm::Value* value);

  void if_(pred condition, const std::function<void()>& then, const std::function<void()>& otherwise,
           Where where);
  void while_(const std::function<pred()>& condition, const std::function<void()>& body, Where where);
  // Counts from `from` while below `to`.
  void for_(Class cls, Value from, Value to, Value step, const std::function<void(Value)>& body, Where where);

  // Runs the `body` of a `construct`, as "if_", which is the author's if the call at `line` is. An exception
  // that leaves it leaves the kernel unfinished too: any further use throws an Error that says so.
  void run_body(std::string_view construct, const CallersLine& line, const std::function<void()>& body);

  // Emits at the top of the kernel, before all else, what every thread needs once.
  void emit_at_entry(const std::function<void()>& emission);
  // Remembers this place in the code, and later emits there, once.
  using Place = std::shared_ptr<void>;
  Place remember_place();
  void emit_at(const Place& place, const std::function<void()>& emission);
  // Whether what is emitted at the place may use the value.
  bool known_at(Value value, const Place& place) const;

  // Told when the body of a loop begins, and when it ends: of for_ and while_, its condition included.
  void on_loop(std::function<void(bool begins)> observer);

  // Lets one of ptxas' advisories through: a code as "C7510", "spills" or "stack".
  void waive(std::string advisory);
  const std::vector<std::string>& waivers() const;

  // What the layer above keeps with the kernel in the making.
  std::shared_ptr<void>& attachment();

  // Runs when the kernel is finished, before it is verified: what must be matched is checked here.
  void on_finish(std::function<void()> check);

  // Ends the kernel: runs the checks, verifies the module, and promotes variables. Once; more calls do
  // nothing, or throw the same Error again. The thread's current builder is the one before it afterwards.
  void finish();

  // Serializes the LLVM module as text; finishes first.
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
