#include "ptxbuilder/ir/kernel_function.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/Metadata.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>

#include "ptxbuilder/ir/state.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder {
namespace {

constexpr const char *kMetadata = "ptxbuilder.signature", *kExactThreadsAttribute = "nvvm.reqntid";

// Returns the numbers in an attribute such as "128,1,1"; empty if the function does not have the attribute.
std::vector<uint32_t> numbers_of(const llvm::Function& function, const char* attribute) {
  std::vector<uint32_t> numbers;
  llvm::StringRef text = function.getFnAttribute(attribute).getValueAsString();
  while (!text.empty()) {
    uint32_t number = 0;
    if (text.consumeInteger(10, number)) break;
    numbers.push_back(number);
    text.consume_front(",");
  }
  return numbers;
}

// Adds the functions whose instructions use a value, directly or through constants, to `users`.
void find_users(const llvm::Value& value, std::vector<const llvm::Function*>& users) {
  for (const llvm::User* user : value.users())
    if (auto* instruction = llvm::dyn_cast<llvm::Instruction>(user))
      users.push_back(instruction->getFunction());
    else
      find_users(*user, users);
}

// Returns whether the code of a kernel, or of a device function that it may call, uses a variable.
bool may_use(const llvm::Function& kernel, const llvm::GlobalVariable& variable) {
  std::vector<const llvm::Function*> users;
  find_users(variable, users);
  return std::any_of(users.begin(), users.end(),
                     [&](const llvm::Function* f) { return f == &kernel || !is_entry(*f); });
}

// Thrown if a signature is not known; `why` is the reason.
struct Unknown {
  std::string why;
};
template <class... T>
[[noreturn]] void unknown(fmt::format_string<T...> format, T&&... values) {
  throw Unknown{fmt::format(format, std::forward<T>(values)...)};
}

bool prints(llvm::StringRef name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](char c) { return std::isgraph(static_cast<unsigned char>(c)); });
}

// Returns the argument's name in the module if it can be printed, otherwise arg0, arg1, ...
std::string name_of(const llvm::Argument& argument) {
  if (prints(argument.getName())) return argument.getName().str();
  std::string name = fmt::format("arg{}", argument.getArgNo());
  const auto others = argument.getParent()->args();
  while (std::any_of(others.begin(), others.end(),
                     [&](const llvm::Argument& other) { return other.getName() == name; }))
    name += "_";
  return name;
}

std::optional<DType> scalar_of(const llvm::Type& type) {
  if (type.isIntegerTy(1) || type.isIntegerTy(8)) return DType::u8;  // NVPTX passes both types as a byte
  if (type.isIntegerTy(16)) return DType::u16;
  if (type.isIntegerTy(32)) return DType::u32;
  if (type.isIntegerTy(64)) return DType::u64;
  if (type.isHalfTy()) return DType::f16;
  if (type.isBFloatTy()) return DType::bf16;
  if (type.isFloatTy()) return DType::f32;
  if (type.isDoubleTy()) return DType::f64;
  return std::nullopt;
}

// Adds the scalars and pointers that a type contains, in order. A part's name, such as f1_0 for element 0 of
// field 1, gives its position. Returns false if the type has other parts.
bool add_parts(llvm::Type& type, const std::string& name, std::vector<Parameter>& parts) {
  constexpr size_t kMost = 64;
  const auto add = [&](llvm::Type& part, size_t i) {
    return parts.size() < kMost &&
           add_parts(part, fmt::format("{}{}{}", name, name == "f" ? "" : "_", i), parts);
  };
  if (auto* structure = llvm::dyn_cast<llvm::StructType>(&type)) {
    for (unsigned i = 0; i < structure->getNumElements(); ++i)
      if (!add(*structure->getElementType(i), i)) return false;
    return true;
  }
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(&type);
  if (vector || type.isArrayTy()) {
    const uint64_t count = vector ? vector->getNumElements() : type.getArrayNumElements();
    llvm::Type& element = vector ? *vector->getElementType() : *type.getArrayElementType();
    for (uint64_t i = 0; i < count; ++i)
      if (!add(element, i)) return false;
    return true;
  }
  if (type.isIntegerTy(128)) {  // two halves, the lower one first
    llvm::Type& half = *llvm::Type::getInt64Ty(type.getContext());
    return add(half, 0) && add(half, 1);
  }
  Parameter part = {.name = name};
  if (type.isPointerTy()) {
    part.kind = Parameter::Kind::pointer;
    part.dtype = DType::u8;
  } else if (const std::optional<DType> scalar = scalar_of(type)) {
    part.dtype = *scalar;
  } else {
    return false;
  }
  parts.push_back(std::move(part));
  return true;
}

// Adds the byte offsets at which LLVM stores the parts that add_parts() adds.
void add_offsets(llvm::Type& type, uint64_t at, const llvm::DataLayout& layout, std::vector<int>& offsets) {
  if (auto* structure = llvm::dyn_cast<llvm::StructType>(&type)) {
    const llvm::StructLayout& places = *layout.getStructLayout(structure);
    for (unsigned i = 0; i < structure->getNumElements(); ++i)
      add_offsets(*structure->getElementType(i), at + places.getElementOffset(i), layout, offsets);
  } else if (type.isArrayTy()) {
    const uint64_t bytes = layout.getTypeAllocSize(type.getArrayElementType());
    for (uint64_t i = 0; i < type.getArrayNumElements(); ++i)
      add_offsets(*type.getArrayElementType(), at + i * bytes, layout, offsets);
  } else if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(&type)) {  // the elements are scalars
    const uint64_t bytes = layout.getTypeStoreSize(vector->getElementType());
    for (uint64_t i = 0; i < vector->getNumElements(); ++i)
      offsets.push_back(static_cast<int>(at + i * bytes));
  } else {
    offsets.push_back(static_cast<int>(at));
    if (type.isIntegerTy(128)) offsets.push_back(static_cast<int>(at + 8));
  }
}

// LLVM types do not distinguish signed from unsigned integers, and do not contain the type to which a pointer
// points. The parameters' integers are therefore unsigned, and their pointers point to bytes. A tensor map,
// which is 128 bytes aligned to 64, is not distinguished from other structs.
Parameter parameter_of(const llvm::Argument& argument, const llvm::DataLayout& layout) {
  llvm::Type* const byval = argument.getParamByValType();
  llvm::Type& type = byval ? *byval : *argument.getType();
  Parameter p;
  p.name = name_of(argument);
  const std::string which = fmt::format("parameter {} '{}'", argument.getArgNo(), p.name);
  if (!byval && type.isPointerTy()) {
    if (const unsigned space = type.getPointerAddressSpace(); space != 0 && space != kGlobalSpace)
      unknown("{} is a pointer to address space {}, but a launch only passes pointers to global memory",
              which, space);
    p.kind = Parameter::Kind::pointer;
    p.dtype = DType::u8;
    return p;
  }
  if (const std::optional<DType> scalar = byval ? std::nullopt : scalar_of(type)) {
    p.dtype = *scalar;
    return p;
  }
  const uint64_t bytes = layout.getTypeAllocSize(&type);
  if (bytes == 128 && byval && argument.getParamAlign().valueOrOne() >= 64)
    unknown("{} is {} byval, which may be a tensor map, and LLVM does not specify the layout of its tensor",
            which, in_words(type));
  p.kind = Parameter::Kind::structure;
  std::vector<int> offsets;
  if (!add_parts(type, "f", p.fields) || p.fields.empty())
    unknown(
        "{} is {}; a sidecar has integers of 1, 8, 16, 32, 64 and 128 bits, half, bfloat, float, double, "
        "pointers, and structs, arrays and vectors of up to 64 of them",
        which, in_words(type));
  add_offsets(type, 0, layout, offsets);
  if (offsets != p.field_offsets() || bytes != static_cast<uint64_t>(p.size_bytes()))
    unknown("{} is {}, whose fields are at other offsets than in a C struct with the same fields", which,
            in_words(type));
  return p;
}

// Returns the argument's size in the parameter space, in bytes.
uint64_t size_of(const llvm::Argument& argument, const llvm::DataLayout& layout) {
  llvm::Type* bytes = argument.getParamByValType();
  return layout.getTypeAllocSize(bytes ? bytes : argument.getType());
}

// Returns the signature that a Kernel recorded, if the function has a recorded signature and has not changed
// since.
std::optional<Signature> left_signature(const llvm::Function& kernel, const llvm::DataLayout& layout) {
  const llvm::MDNode* node = kernel.getMetadata(kMetadata);
  if (!node) return std::nullopt;
  auto* text = node->getNumOperands() == 1 ? llvm::dyn_cast<llvm::MDString>(node->getOperand(0)) : nullptr;
  if (!text) unknown("its metadata !{} is not text", kMetadata);
  Signature left;
  try {
    left = signature_from_json(text->getString().str(), fmt::format("!{}", kMetadata));
  } catch (const Error& e) {
    unknown("its metadata is broken: {}", e.what());
  }
  if (left.parameters.empty()) return left;  // the Kernel did not declare the parameters
  if (left.parameters.size() != kernel.arg_size())
    unknown("its metadata !{} has {} parameters, but the function has {}", kMetadata, left.parameters.size(),
            kernel.arg_size());
  for (const llvm::Argument& argument : kernel.args()) {
    const Parameter& p = left.parameters[argument.getArgNo()];
    if (static_cast<uint64_t>(p.size_bytes()) != size_of(argument, layout))
      unknown("parameter {} '{}' has {} bytes in its metadata !{}, but {} in the function",
              argument.getArgNo(), p.name, p.size_bytes(), kMetadata, size_of(argument, layout));
  }
  return left;
}

Signature signature_of(const llvm::Function& kernel, const llvm::DataLayout& layout) {
  Signature s;
  s.kernel = kernel.getName().str();
  const std::optional<Signature> left = left_signature(kernel, layout);

  const std::vector<uint32_t> threads = thread_extents(kernel);
  if (threads.empty())
    unknown("its number of threads is not known; give the function the attribute {} or {}",
            kExactThreadsAttribute, kThreadsAttribute);
  s.threads = product(threads);
  if (threads.size() > 3)
    unknown("its {} has {} extents instead of 3", thread_attribute(kernel), threads.size());
  if (threads.size() > 1) s.threads_y = threads[1];
  if (threads.size() > 2) s.threads_z = threads[2];
  if (s.threads == 0 || s.threads > hopper::cta_threads)
    unknown("it has {} threads, but must have 1 to {}", s.threads, hopper::cta_threads);
  const std::vector<uint32_t> cluster = cluster_extents(kernel);
  if (cluster.size() > 3) unknown("its {} has {} extents instead of 3", kClusterAttribute, cluster.size());
  std::copy(cluster.begin(), cluster.end(), s.cluster.begin());
  if (cluster.empty() && kernel.hasFnAttribute("nvvm.maxclusterrank"))
    unknown("the launch chooses its cluster, up to nvvm.maxclusterrank; give the function {}",
            kClusterAttribute);
  if (kernel.hasFnAttribute("nvvm.blocksareclusters"))
    unknown("its grid counts clusters (nvvm.blocksareclusters), but a launch by a sidecar counts CTAs");

  const SharedUse shared = shared_use(kernel, layout);
  s.static_shared_bytes = static_cast<uint32_t>(shared.static_bytes);
  if (left) s.dynamic_shared_bytes = left->dynamic_shared_bytes, s.shared = left->shared;
  if (shared.dynamic.size() > (s.dynamic_shared_bytes > 0 ? 1u : 0u))
    unknown("the launch chooses the size of its dynamic shared memory '{}'",
            std::string_view(shared.dynamic.back()->getName()));

  if (left && !left->parameters.empty())
    s.parameters = left->parameters;
  else
    for (const llvm::Argument& argument : kernel.args())
      s.parameters.push_back(parameter_of(argument, layout));
  return s;
}

}  // namespace

bool is_entry(const llvm::Function& function) {
  return function.getCallingConv() == llvm::CallingConv::PTX_Kernel;
}

std::string in_words(const llvm::Type& type) {
  std::string text;
  llvm::raw_string_ostream out(text);
  type.print(out);
  return text;
}

const char* thread_attribute(const llvm::Function& function) {
  return function.hasFnAttribute(kExactThreadsAttribute) ? kExactThreadsAttribute : kThreadsAttribute;
}

std::vector<uint32_t> thread_extents(const llvm::Function& function) {
  return numbers_of(function, thread_attribute(function));
}

std::vector<uint32_t> cluster_extents(const llvm::Function& function) {
  return numbers_of(function, kClusterAttribute);
}

uint32_t product(const std::vector<uint32_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 1u, std::multiplies<>());
}

SharedUse shared_use(const llvm::Function& kernel, const llvm::DataLayout& layout) {
  SharedUse use;
  for (const llvm::GlobalVariable& variable : kernel.getParent()->globals()) {
    if (variable.getAddressSpace() != kSharedSpace || !may_use(kernel, variable)) continue;
    llvm::Type* type = variable.getValueType();
    if (variable.isDeclaration()) {
      use.dynamic.push_back(&variable);
      continue;
    }
    const llvm::Align alignment =
        variable.getAlign().value_or(layout.getPrefTypeAlign(type));  // the alignment that NVPTX prints
    use.static_bytes = llvm::alignTo(use.static_bytes, alignment) + layout.getTypeAllocSize(type);
  }
  return use;
}

void leave_signature(llvm::Function& kernel, const Signature& signature) {
  llvm::LLVMContext& context = kernel.getContext();
  kernel.setMetadata(kMetadata, llvm::MDNode::get(context, llvm::MDString::get(context, to_json(signature))));
}

ModuleKernel describe_kernel(const llvm::Function& kernel, const llvm::DataLayout& layout) {
  ModuleKernel described{.name = kernel.getName().str()};
  try {
    described.signature = signature_of(kernel, layout);
  } catch (const Unknown& u) {
    described.why_unknown = u.why;
  }
  return described;
}

}  // namespace ptxbuilder
