// Implements a Builder on an unfinished function of another front end: the entry to and exit from the
// function, and the checks of its properties against the signature.
#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/ir/kernel_function.h"
#include "ptxbuilder/ir/state.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder {
namespace {

// The attribute that marks a function for which a Builder exists or has existed.
constexpr const char* kAttribute = "ptxbuilder";

llvm::StringRef target_of(const llvm::Function& function, const BuilderOptions& options) {
  const llvm::Attribute cpu = function.getFnAttribute("target-cpu");
  return cpu.isValid() ? cpu.getValueAsString() : llvm::StringRef(options.target);
}

}  // namespace

Builder::State::State(llvm::Function& function, const BuilderOptions& options, Where where)
    : context(function.getContext()),
      module(function.getParent()),
      ir(context),
      function(&function),
      is_kernel(is_entry(function)),
      options(options),
      target(target_of(function, options), isa::Sm::sm_90a),  // as in compile/codegen.h
      begun(where),
      line(where) {
  signature.kernel = function.getName().str();
  signature.target = std::string(target->name);
  signature.ptx_version = target->ptx_version;
  if (const auto extents = thread_extents(function); !extents.empty()) signature.threads = product(extents);
  const auto numbers = cluster_extents(function);
  std::copy_n(numbers.begin(), std::min<size_t>(numbers.size(), 3), signature.cluster.begin());
  subprogram = options.line_info ? function.getSubprogram() : nullptr;
  if (subprogram) debug = std::make_unique<llvm::DIBuilder>(*module, true, subprogram->getUnit());

  llvm::BasicBlock& entry = function.getEntryBlock();
  entry_end = new llvm::FreezeInst(llvm::PoisonValue::get(ir.getInt1Ty()), "ptxbuilder");  // emits no PTX
  entry_end->insertInto(&entry, entry.getFirstNonPHIOrDbgOrAlloca());
}

Builder::Builder(llvm::Function& function, BuilderOptions options, Where where) {
  CallersLine line(where);
  const std::string name = function.getName().str();
  if (!is_identifier(name))
    throw Error(fmt::format("kernel: the function's name '{}' must be a C identifier", name));
  if (!function.getParent()) throw Error(fmt::format("{}: the function is not in a module", name));
  const llvm::Triple& triple = function.getParent()->getTargetTriple();
  if (!triple.str().empty() && triple.getArch() != llvm::Triple::nvptx64)
    throw Error(
        fmt::format("{}: the target triple of its module is {}, but must be nvptx64's", name, triple.str()));
  if (function.empty())
    throw Error(fmt::format("{}: the function has no entry block; begin it, then make the Kernel", name));
  if (is_entry(function) && !function.getReturnType()->isVoidTy())
    throw Error(fmt::format("{}: a kernel must not return a value; make the function's type void", name));
  if (const auto n = thread_extents(function); n.size() > 1 && product(n) != n[0])
    throw Error(
        fmt::format("{}: its CTAs have {} threads, but the library only counts threads along x; launch {}",
                    name, fmt::join(n, " x "), product(n)));
  if (function.hasFnAttribute(kAttribute))
    throw Error(fmt::format(
        "{}: the function already has a Kernel, and can have only one; call insert_at() of that Kernel",
        name));
  state_ = std::make_unique<State>(function, options, where);
  state_->open = std::make_shared<State::Open>(nullptr);  // set only inside insert_at()
  function.addFnAttr(kAttribute);
}

void Builder::insert_at(llvm::IRBuilderBase& ir, const std::function<void()>& body, Where where) {
  CallersLine line(where);
  State& s = state();
  const std::string_view name = s.signature.kernel;
  if (!s.is_hosted())
    throw Error(
        fmt::format("insert_at: {} is a function that the library made; construct the Kernel from the "
                    "llvm::Function of the IRBuilder",
                    name));
  if (s.refusal) throw *s.refusal;
  if (s.finished) throw Error(fmt::format("insert_at: {} is finished", name));
  if (s.is_inside) throw Error(fmt::format("insert_at: it cannot be called inside insert_at() of {}", name));
  check_insertion_point(ir, "insert_at");
  llvm::BasicBlock* block = ir.GetInsertBlock();
  if (block->getParent() != s.function)
    throw Error(fmt::format("insert_at: the IRBuilder is in the function {}, but the Kernel's is '{}'",
                            name_of(block->getParent()), name));

  // The code after the insertion point is moved to a separate block, after the last block of the body. The
  // front end's variables, and the position for the library's variables, stay in the entry block.
  llvm::BasicBlock* rest = llvm::BasicBlock::Create(s.context, "rest", s.function);
  for (auto at = ir.GetInsertPoint(); at != block->end();) {
    llvm::Instruction& next = *at++;
    auto* variable = llvm::dyn_cast<llvm::AllocaInst>(&next);
    if (&next == s.entry_end || (variable && variable->isStaticAlloca())) continue;
    next.moveBefore(*rest, rest->end());
  }
  rest->replaceSuccessorsPhiUsesWith(block, rest);
  const llvm::DebugLoc location = ir.getCurrentDebugLocation();
  auto leave = [&] {
    llvm::BasicBlock* last = s.ir.GetInsertBlock();
    llvm::Instruction* first = rest->empty() ? nullptr : &rest->front();
    rest->replaceSuccessorsPhiUsesWith(rest, last);
    last->splice(last->end(), rest);
    rest->eraseFromParent();
    s.is_inside = false;
    ir.SetInsertPoint(last, first ? first->getIterator() : last->end());
    ir.SetCurrentDebugLocation(location);
  };

  s.ir.SetInsertPoint(block);
  s.ir.SetCurrentDebugLocation(location);
  s.set_line(where);
  s.is_inside = true;
  const CurrentScope current(*this);
  try {
    run_body("insert_at", line, body);
    run_body("insert_at", CallersLine({}), [&] {
      for (const auto& end : s.ends) end();
    });
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

void Builder::State::check_parameters() const {
  auto refuse = [&](std::string_view why) {
    throw Error(fmt::format("{}: params: {}", signature.kernel, why));
  };
  if (function->arg_size() != signature.parameters.size())
    refuse(fmt::format("{} are declared, but the function has {}", signature.parameters.size(),
                       function->arg_size()));
  for (const llvm::Argument& given : function->args()) {
    const Parameter& p = signature.parameters[given.getArgNo()];
    const bool in_place = p.kind == Parameter::Kind::tensor_map || p.kind == Parameter::Kind::structure;
    llvm::Type* wanted = p.is_address() ? type_of(Class::gmem, context)
                         : in_place     ? type_of(Class::generic, context)
                                        : type_of(p.dtype, context);
    const bool generic_pointer = p.is_address() && given.getType() == type_of(Class::generic, context);
    if (given.getType() != wanted && !generic_pointer)
      refuse(fmt::format("'{}' is {}, but the function's is {}", p.name, describe(wanted),
                         describe(given.getType())));
    llvm::Type* bytes = given.getParamByValType();
    if (bytes && !in_place)
      refuse(fmt::format("'{}' is a pointer, but the function's is a struct byval", p.name));
    if (bytes && module->getDataLayout().getTypeAllocSize(bytes) != static_cast<uint64_t>(p.size_bytes()))
      refuse(fmt::format("'{}' has {} bytes, but the function's byval type has {}", p.name, p.size_bytes(),
                         module->getDataLayout().getTypeAllocSize(bytes).getFixedValue()));
  }
}

void Builder::State::check_host() {
  for (const llvm::BasicBlock& block : *function)
    if (!block.getTerminator())
      throw Error(begun, fmt::format("{}: the block '{}' has no terminator; end it before finish()",
                                     signature.kernel, std::string_view(block.getName())));
  auto disagree = [&](const char* attribute, std::string_view ours) {
    throw Error(begun,
                fmt::format("{}: the function's attribute {} is {}, but the kernel was built for {}",
                            signature.kernel, attribute,
                            std::string_view(function->getFnAttribute(attribute).getValueAsString()), ours));
  };
  const auto threads = thread_extents(*function);
  if (!threads.empty() && product(threads) != signature.threads)
    disagree(thread_attribute(*function), fmt::format("{} threads", signature.threads));
  auto cluster = cluster_extents(*function);
  cluster.resize(cluster.empty() ? 0 : 3, 1);
  if (!cluster.empty() && !std::equal(cluster.begin(), cluster.end(), signature.cluster.begin()))
    disagree(kClusterAttribute, fmt::format("{}", fmt::join(signature.cluster, ",")));
  check_shared();
}

// Checks the use of shared memory. All declarations of dynamic shared memory begin at the same address, after
// the module's own variables.
void Builder::State::check_shared() {
  const SharedUse use = shared_use(*function, module->getDataLayout());
  for (const llvm::GlobalVariable* variable : use.dynamic)
    if (shared && variable != shared)
      throw Error(
          begun,
          fmt::format(
              "{}: the module's '{}' and the kernel's own shared memory of {} bytes are both dynamic, so "
              "they begin at the same address; give '{}' a size, or let a tile of the kernel take its place",
              signature.kernel, std::string_view(variable->getName()), signature.dynamic_shared_bytes,
              std::string_view(variable->getName())));
  signature.static_shared_bytes = static_cast<uint32_t>(use.static_bytes);
  if (use.static_bytes + signature.dynamic_shared_bytes > hopper::shared_bytes)
    throw Error(begun, fmt::format("{}: the module's variables take {} bytes of shared memory and the kernel "
                                   "{}, but a CTA may have {}",
                                   signature.kernel, use.static_bytes, signature.dynamic_shared_bytes,
                                   hopper::shared_bytes));
}

}  // namespace ptxbuilder
