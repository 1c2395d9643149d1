// Defines the LLVM side of a Builder. Only this folder and code generation include this file.
#pragma once

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <atomic>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/ir/kernel_target.h"
#include "ptxbuilder/ir/open_body.h"

namespace ptxbuilder {

struct Builder::State {
  State(std::string name, const BuilderOptions& options, Where where);
  State(llvm::Function& function, const BuilderOptions& options, Where where);
  ~State();

  // Returns whether the function belongs to a front end, which then has its own module and IRBuilder.
  bool is_hosted() const { return !own_module; }

  // An entry of a thread's list of kernels under construction, which holds the address of the Builder. The
  // address becomes null when the kernel is finished or destroyed, possibly on another thread.
  using Open = std::atomic<Builder*>;

  void create_function();
  // Sets the attributes of the function's parameters that keep tensor maps and structs in the parameter
  // space.
  void set_parameter_attributes();
  void finish();
  // These functions check a front end's function (ir/hosted.cpp). They throw Error unless its parameters
  // match the declared parameters, its shared memory and attributes agree with the signature, and all of its
  // blocks have terminators.
  void check_parameters() const;
  void check_host();
  void check_shared();
  llvm::Function* function_or_create() {
    if (!function) create_function();
    return function;
  }
  // Appends the values that represent a parameter in the kernel, which are the parameter itself or, for a
  // struct, its fields.
  void append_parameter(const Parameter& p, llvm::Value* given, std::vector<Value>& values);
  void set_line(Where where);
  void require(int ptx_version, isa::Targets targets, std::string_view instruction,
               std::string_view mnemonic = {});
  llvm::BasicBlock* new_block(const char* name);
  // Returns the open line. Operators do not open a line, so for them, returns the last line that was open.
  Where nearest_line() const { return callers::open_line ? callers::open_line : line; }
  Where where_of(const llvm::Instruction& instruction) const;
  void check_dominance(const llvm::DominatorTree& tree) const;

  std::unique_ptr<llvm::LLVMContext> own_context;
  llvm::LLVMContext& context;
  std::unique_ptr<llvm::Module> own_module;
  llvm::Module* module;
  llvm::IRBuilder<> ir;
  llvm::Function* function = nullptr;
  bool is_kernel = true;  // false for a device function
  // Declarations and variables are inserted before this instruction, at the top of the function.
  llvm::Instruction* entry_end = nullptr;
  const uint32_t number = detail::new_kernel_number();  // identifies the code outside all bodies
  const detail::OpenBody* innermost = nullptr;
  int loops = 0;  // number of open loops
  std::vector<detail::Judgement> judgements;
  std::unordered_set<const llvm::Value*> varying;  // variables set by only a part of a warpgroup
  std::unordered_set<const llvm::Value*> uniform;  // values that are equal in all threads of a warpgroup
  llvm::GlobalVariable* shared = nullptr;
  std::vector<llvm::AllocaInst*> variables;

  BuilderOptions options;
  KernelTarget target;
  Signature signature;
  BarrierIds barrier_ids;
  std::vector<std::string> waivers;
  uint32_t ctas_at_once = 1;  // number of CTAs that a multiprocessor must be able to hold at once
  std::vector<std::function<void()>> ends, checks;
  std::function<void(bool begins)> on_loop = [](bool) {};
  std::vector<std::function<void(When, const isa::Row&, std::span<const Argument>)>> on_instruction;
  bool is_observed = false;  // true while an observer of instructions runs
  void tell(When when, const isa::Row& row, std::span<const Argument> arguments);
  std::unique_ptr<Builder::Attachment> attachment;
  int register_files = 0;
  bool finished = false;
  bool is_inside = false;        // true inside insert_at()
  std::optional<Error> refusal;  // reason why the kernel can no longer be used or finished
  std::shared_ptr<Open> open;

  // The state needed to emit line information.
  std::unique_ptr<llvm::DIBuilder> debug;
  llvm::DISubprogram* subprogram = nullptr;
  struct File {
    llvm::DIScope* scope = nullptr;
    const char* name = "";
  };
  std::map<std::string, File> files;
  Where begun, parameters_where;
  std::vector<Parameter> own_parameters;  // parameters that the library adds after the author's
  std::unordered_map<const llvm::Value*, Where> constants;  // lines where host integers became constants
  Where line;
  Where constant_line;  // line of the last constant, which is the best guess for an assignment without a line
};

// Makes a builder the current builder of the executing thread while this object exists, even if another
// thread made the builder.
class CurrentScope {
 public:
  explicit CurrentScope(Builder& builder);
  ~CurrentScope();
  CurrentScope(const CurrentScope&) = delete;

 private:
  std::shared_ptr<Builder::State::Open> open_;
};

// Returns whether a name is a C identifier. Names of kernels and parameters must be C identifiers.
bool is_identifier(std::string_view name);

// Throws Error unless instructions can be added at `ir`'s insertion point.
void check_insertion_point(const llvm::IRBuilderBase& ir, std::string_view what);

// function_of() returns the function to which a value belongs, or null for constants and globals. name_of()
// returns a name for errors.
const llvm::Function* function_of(const llvm::Value* value);
std::string name_of(const llvm::Function* function);

// Returns the LLVM type of a register of this class.
llvm::Type* type_of(Class cls, llvm::LLVMContext& context);
llvm::Type* type_of(DType type, llvm::LLVMContext& context);

// Throws Error unless the value belongs to the kernel under construction, because LLVM would crash on a
// foreign value.
void check_is_ours(const Builder::State& state, llvm::Value* value);

// Returns the name that the author uses for the type of a value, such as "u32", "smem" or "tensor map".
std::string describe(llvm::Type* type);

// NVPTX's data layout, except that shared pointers have 32 bits. Code generation uses the layout of the
// module, so LLVM's process-wide option for short pointers is not needed.
inline constexpr const char* kDataLayout =
    "e-p3:32:32-p6:32:32-p7:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64";

// The attributes that declare a kernel's threads and cluster (NVPTX usage guide, "Kernel Metadata").
inline constexpr const char *kThreadsAttribute = "nvvm.maxntid", *kClusterAttribute = "nvvm.cluster_dim";

// NVPTX address spaces (NVPTX usage guide, "Address Spaces").
inline constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3, kConstantSpace = 4, kLocalSpace = 5,
                          kTensorSpace = 6, kSharedClusterSpace = 7;

}  // namespace ptxbuilder
