#include "ptxbuilder/ir/foreign_module.h"

#include <fmt/format.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <map>
#include <set>

#include "ptxbuilder/error.h"
#include "ptxbuilder/ir/kernel_function.h"
#include "ptxbuilder/ir/module_needs.h"
#include "ptxbuilder/ir/state.h"
#include "ptxbuilder/isa/query.h"

namespace ptxbuilder {
namespace {

// Returns the location of an instruction, such as "function 'k' at k.py:12".
std::string place_of(const llvm::Instruction& i) {
  return fmt::format("function '{}'{}", std::string_view(i.getFunction()->getName()), line_of(i));
}

// Collects the types of all values in a module, and the types that they contain.
class Types {
 public:
  explicit Types(const llvm::Module& module) {
    for (const llvm::GlobalVariable& g : module.globals()) add(g.getType()), add(g.getValueType());
    for (const llvm::Function& f : module) {
      add(f.getType()), add(f.getFunctionType());
      for (const llvm::Argument& a : f.args()) add(a.getParamByValType());
      for (const llvm::Instruction& i : llvm::instructions(f)) {
        add(i.getType());
        for (const llvm::Use& operand : i.operands()) add(operand->getType());
        if (const auto* made = llvm::dyn_cast<llvm::AllocaInst>(&i)) add(made->getAllocatedType());
        if (const auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&i))
          add(address->getSourceElementType());
      }
    }
  }
  const std::set<llvm::Type*>& all() const { return all_; }

 private:
  void add(llvm::Type* type) {
    if (type && all_.insert(type).second)
      for (llvm::Type* part : type->subtypes()) add(part);
  }
  std::set<llvm::Type*> all_;
};

// Sets the triple if it is empty, and rejects any triple except NVPTX's.
void adopt_triple(llvm::Module& module, const llvm::Triple& triple, const std::string& name) {
  const llvm::Triple& theirs = module.getTargetTriple();
  if (theirs.str().empty())
    module.setTargetTriple(triple);
  else if (theirs.getArch() != llvm::Triple::nvptx64)
    throw Error(fmt::format("{}: its target triple is {}, but must be nvptx64's", name, theirs.str()));
}

// Sets the module's data layout. Layouts differ between LLVM versions, so they are required to agree only
// about the types in use.
void adopt_layout(llvm::Module& module, const llvm::DataLayout& own, const std::string& name) {
  if (module.getDataLayoutStr().empty()) return module.setDataLayout(own);
  const llvm::DataLayout theirs = module.getDataLayout();
  const bool has_short_pointers =
      theirs.getPointerSizeInBits(kSharedSpace) == 32 && theirs.getPointerSizeInBits(0) == 64;
  const llvm::DataLayout ours = has_short_pointers ? llvm::DataLayout(kDataLayout) : own;
  const auto refuse = [&](const std::string& why) {
    throw Error(
        fmt::format("{}: its data layout is {}, but NVPTX's is {}: {}. Compile it for nvptx64-nvidia-cuda, "
                    "or remove the line",
                    name, module.getDataLayoutStr(), ours.getStringRepresentation(), why));
  };
  if (theirs.isBigEndian()) refuse("it is big-endian");
  if (theirs.getAllocaAddrSpace() != 0)
    refuse(fmt::format("allocas are in address space {} instead of 0", theirs.getAllocaAddrSpace()));
  const Types types(module);
  for (llvm::Type* type : types.all()) {
    if (!type->isSized()) continue;
    const auto size = ours.getTypeAllocSize(type), size_there = theirs.getTypeAllocSize(type);
    const auto aligned = ours.getABITypeAlign(type), aligned_there = theirs.getABITypeAlign(type);
    if (size != size_there || aligned != aligned_there)
      refuse(fmt::format("{} has {} bytes, aligned to {}, instead of {}, aligned to {}", in_words(*type),
                         size_there.getKnownMinValue(), aligned_there.value(), size.getKnownMinValue(),
                         aligned.value()));
  }
  module.setDataLayout(ours);
}

// Reduces debug information to lines, because ptxas does not optimize code with other debug information.
void keep_lines_alone(llvm::Module& module) {
  llvm::NamedMDNode* units = module.getNamedMetadata("llvm.dbg.cu");
  if (!units) return;
  llvm::stripNonLineTableDebugInfo(module);
  llvm::DebugInfoFinder found;
  found.processModule(module);
  std::map<llvm::DICompileUnit*, llvm::DICompileUnit*> of_lines;
  for (unsigned i = 0; i < units->getNumOperands(); ++i) {
    auto* unit = llvm::cast<llvm::DICompileUnit>(units->getOperand(i));
    if (unit->getEmissionKind() == llvm::DICompileUnit::NoDebug) continue;
    llvm::DICompileUnit*& lines = of_lines[unit];
    lines = llvm::DICompileUnit::getDistinct(
        module.getContext(), unit->getSourceLanguage(), unit->getFile(), unit->getProducer(),
        unit->isOptimized(), unit->getFlags(), unit->getRuntimeVersion(), "",
        llvm::DICompileUnit::DebugDirectivesOnly, nullptr, nullptr, nullptr, nullptr, nullptr, 0, true, false,
        llvm::DICompileUnit::DebugNameTableKind::None, false, "", "");
    units->setOperand(i, lines);
  }
  for (llvm::DISubprogram* function : found.subprograms()) {
    llvm::DICompileUnit* unit = function->getUnit();
    if (const auto lines = of_lines.find(unit); lines != of_lines.end()) function->replaceUnit(lines->second);
  }
}

// Removes the .version that a front end may state for each function, because it could differ from the
// module's .version.
void take_versions_off(llvm::Module& module) {
  constexpr const char* kFeatures = "target-features";
  for (llvm::Function& f : module) {
    if (!f.hasFnAttribute(kFeatures)) continue;
    std::string kept;
    for (const llvm::StringRef feature : llvm::split(f.getFnAttribute(kFeatures).getValueAsString(), ','))
      if (!feature.starts_with("+ptx")) kept += (kept.empty() ? "" : ",") + feature.str();
    f.removeFnAttr(kFeatures);
    if (!kept.empty()) f.addFnAttr(kFeatures, kept);
  }
}

// Returns whether a name is valid (PTX ISA, "Identifiers").
bool is_name_of_ptx(llvm::StringRef name) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto follows = [&](char c) {
    return is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) || c == '_' || c == '$';
  };
  if (name.empty() || !llvm::all_of(name.drop_front(), follows)) return false;
  return is_letter(name[0]) || (name.size() > 1 && (name[0] == '_' || name[0] == '$' || name[0] == '%'));
}

void check_names(llvm::Module& module, const std::string& name) {
  for (llvm::Function& f : module) {
    if (f.isDeclaration() || is_name_of_ptx(f.getName())) continue;
    if (is_entry(f))
      throw Error(
          fmt::format("{}: the name of the kernel '{}' is not valid in PTX, where names consist of letters, "
                      "digits, _ and $ and do not begin with a digit: rename it, for example to '{}'",
                      name, std::string_view(f.getName()), [&] {
                        std::string legal = f.getName().str();
                        for (char& c : legal)
                          if (!std::isalnum(static_cast<unsigned char>(c)) && c != '$') c = '_';
                        return is_name_of_ptx(legal) ? legal : "k_" + legal;
                      }()));
    f.setComdat(nullptr);
    f.setLinkage(llvm::GlobalValue::InternalLinkage);  // NVPTX renames internal functions
  }
  for (llvm::GlobalVariable& g : module.globals())
    if (!g.isDeclaration() && !g.hasAppendingLinkage() && !is_name_of_ptx(g.getName())) {
      g.setComdat(nullptr);
      g.setLinkage(llvm::GlobalValue::InternalLinkage);
    }
}

void check_variables(const llvm::Module& module, const std::string& name, std::vector<std::string>& notes) {
  for (const llvm::GlobalVariable& g : module.globals()) {
    const std::string_view variable = g.getName();
    if (g.isThreadLocal())
      throw Error(
          fmt::format("{}: the variable '{}' is thread_local, which GPUs do not support: use an alloca, or a "
                      "buffer with one element per thread",
                      name, variable));
    if (g.getAddressSpace() != kSharedSpace || !g.hasInitializer()) continue;
    if (llvm::isa<llvm::UndefValue>(g.getInitializer())) continue;
    if (!g.getInitializer()->isNullValue())
      throw Error(
          fmt::format("{}: the variable '{}' in shared memory has initial values, but shared memory is "
                      "uninitialized when a CTA begins: make the initializer undef, and store the values",
                      name, variable));
    notes.push_back(
        fmt::format("the variable '{}' in shared memory is not zero when a CTA begins, although it has a "
                    "zeroinitializer: store its initial values",
                    variable));
  }
}

void check_allocas(const llvm::Module& module, const std::string& name) {
  for (const llvm::Function& f : module)
    for (const llvm::Instruction& i : llvm::instructions(f)) {
      const auto* made = llvm::dyn_cast<llvm::AllocaInst>(&i);
      if (!made || made->getAddressSpace() == 0 || made->getAddressSpace() == kLocalSpace) continue;
      throw Error(
          fmt::format("{}: {} has an alloca in address space {}, but allocas must be in local memory, which "
                      "each thread has for itself{}",
                      name, place_of(i), made->getAddressSpace(),
                      made->getAddressSpace() == kSharedSpace
                          ? ": declare a global variable of the module in addrspace(3) instead"
                          : ""));
    }
}

// Returns the libdevice function that replaces an LLVM intrinsic. NVPTX would turn the intrinsic into a call
// to the C library, which does not exist on GPUs.
std::string function_of_libdevice(llvm::StringRef intrinsic) {
  static constexpr std::string_view kNames[] = {
      "exp",  "exp2", "exp10", "log",  "log2", "log10", "pow",   "powi",  "sin",   "cos",  "tan",
      "asin", "acos", "atan",  "sinh", "cosh", "tanh",  "atan2", "ldexp", "frexp", "modf", "sincos"};
  if (!intrinsic.consume_front("llvm.")) return "";
  const auto [function, type] = intrinsic.split('.');
  if (std::ranges::find(kNames, std::string_view(function)) == std::end(kNames)) return "";
  const llvm::StringRef first = type.split('.').first;
  return fmt::format("__nv_{}{}", std::string_view(function), first == "f64" ? "" : "f");
}

const llvm::CallInst* first_call(const llvm::Module& module, llvm::StringRef function,
                                 const std::function<bool(llvm::StringRef)>& is_wanted) {
  for (const llvm::Function& f : module)
    if (function.empty() || f.getName() == function)
      for (const llvm::Instruction& i : llvm::instructions(f)) {
        const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
        if (call && call->getCalledFunction() && is_wanted(call->getCalledFunction()->getName())) return call;
      }
  return nullptr;
}

// Returns the lowest target that supports the instructions whose names begin like the intrinsic's name.
// Returns "" if `target` supports them, or if there are no such instructions.
std::string target_with(llvm::StringRef intrinsic, const std::string& target) {
  if (!intrinsic.consume_front("llvm.nvvm.")) return "";
  const auto floor = isa::floor_of_alike(intrinsic);
  return !floor || floor->targets.has(isa::target(target).sm) ? "" : std::string(floor->targets.least().name);
}

bool has_kernel(const llvm::Module& module) {
  return llvm::any_of(module, [](const llvm::Function& f) { return !f.isDeclaration() && is_entry(f); });
}

// Returns the kind of GPU code in the bytes of a constant, or "" for other bytes.
const char* what_is_held(llvm::StringRef bytes) {
  if (llvm::isRawBitcode(bytes.bytes_begin(), bytes.bytes_end())) return "bitcode";
  if (bytes.starts_with("\x7f"
                        "ELF"))
    return "a cubin";
  if (bytes.starts_with("\x50\xed\x55\xba")) return "a fatbin";
  return bytes.contains("\n.version ") && bytes.contains("\n.target sm_") ? "PTX" : "";
}

}  // namespace

HeldKernels kernels_held_by(const llvm::Module& module, const std::string& name) {
  HeldKernels held;
  if (has_kernel(module)) return held;
  std::string otherwise;
  for (const llvm::GlobalVariable& variable : module.globals()) {
    const auto* bytes = variable.hasInitializer()
                            ? llvm::dyn_cast<llvm::ConstantDataArray>(variable.getInitializer())
                            : nullptr;
    if (!bytes || !bytes->isString(8)) continue;
    const std::string_view what = what_is_held(bytes->getRawDataValues());
    if (what.empty()) continue;
    if (what != "bitcode") {
      otherwise = fmt::format("{} in @{}", what, std::string_view(variable.getName()));
      continue;
    }
    if (!held.bitcode.empty())
      throw Error(fmt::format(
          "{}: this is host code with kernels as bitcode in both @{} and @{}: pass one gpu.module at a time",
          name, held.variable, std::string_view(variable.getName())));
    held = {std::string_view(bytes->getRawDataValues()), variable.getName().str()};
  }
  if (held.bitcode.empty() && !otherwise.empty())
    throw Error(
        fmt::format("{}: this is host code whose kernels are {} and no longer IR: MLIR keeps them as IR with "
                    "gpu-module-to-binary=format=llvm, or with cubin-format=llvm in the pipeline "
                    "gpu-lower-to-nvvm-pipeline",
                    name, otherwise));
  return held;
}

void check_has_kernel(const llvm::Module& module, const std::string& name) {
  if (!has_kernel(module))
    throw Error(
        fmt::format("{}: the module has no kernel; a kernel is a function with the calling convention "
                    "ptx_kernel, or one that !nvvm.annotations marks as \"kernel\"",
                    name));
}

std::vector<std::string> adopt(llvm::Module& module, const llvm::Triple& triple, const llvm::DataLayout& own,
                               const std::string& name) {
  std::vector<std::string> notes;
  adopt_triple(module, triple, name);
  adopt_layout(module, own, name);
  keep_lines_alone(module);
  take_versions_off(module);
  check_names(module, name);
  check_variables(module, name, notes);
  check_allocas(module, name);
  return notes;
}

std::string reason_of(const llvm::Module& module, const std::string& words, const std::string& target) {
  constexpr llvm::StringRef kCannot = "Cannot select: ", kIntrinsic = "intrinsic %",
                            kFunction = "In function: ";
  llvm::StringRef text(words);
  const std::string plain = "LLVM gives up: " + words;
  if (!text.consume_front(kCannot)) return plain;
  std::function<bool(llvm::StringRef)> is_meant;
  llvm::StringRef function;
  if (text.consume_front(kIntrinsic)) {
    const llvm::StringRef name = text.take_until([](char c) { return c <= ' '; });
    is_meant = [=](llvm::StringRef callee) { return callee.starts_with(name); };
  } else {
    const size_t at = text.find(kFunction);
    if (at == llvm::StringRef::npos) return plain;
    function = text.drop_front(at + kFunction.size()).trim();
    is_meant = [&](llvm::StringRef callee) {
      return !function_of_libdevice(callee).empty() || !target_with(callee, target).empty();
    };
  }
  const llvm::CallInst* call = first_call(module, function, is_meant);
  if (!call)
    return fmt::format("LLVM cannot compile the function '{}': {}{}", std::string_view(function),
                       std::string_view(kCannot),
                       std::string_view(text.take_until([](char c) { return c == '\n'; })));
  const std::string callee = call->getCalledFunction()->getName().str();
  const std::string begin = fmt::format("{} calls {}, ", place_of(*call), callee);
  if (const std::string libdevices = function_of_libdevice(callee); !libdevices.empty())
    return fmt::format("{}for which NVPTX has no instruction: call {} of libdevice", begin, libdevices);
  const std::string has_it = target_with(callee, target);
  return fmt::format("{}which {} does not have: {}", begin, target,
                     has_it.empty() ? "choose another target or a later .version, such as --ptx-version 90"
                                    : "choose the target that supports it, such as --target " + has_it);
}

}  // namespace ptxbuilder
