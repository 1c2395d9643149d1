// Implements the life cycle of a kernel: creation, parameters and storage, finishing and verification.
#include "ptxbuilder/ir/builder.h"

#include <fmt/format.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include "ptxbuilder/ir/kernel_function.h"
#include "ptxbuilder/ir/module_needs.h"
#include "ptxbuilder/ir/open_body.h"
#include "ptxbuilder/ir/state.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder {
namespace {

// The kernels under construction on this thread, newest last. Some may be finished or destroyed.
thread_local std::vector<std::shared_ptr<Builder::State::Open>> open_builders;

// Returns the last kernel that is neither finished nor destroyed, or null.
Builder* current_builder() {
  while (!open_builders.empty() && !*open_builders.back()) open_builders.pop_back();
  return open_builders.empty() ? nullptr : open_builders.back()->load();
}

// Makes new objects belong to the current kernel.
void enter_current() {
  const Builder* builder = current_builder();
  if (builder)
    detail::enter(builder->state().innermost, builder->state().number);
  else
    detail::enter(nullptr, 0);
}

void check_names(std::string_view what, const std::vector<Parameter>& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    if (!is_identifier(name))
      throw Error(fmt::format("{} {}: the name '{}' must be a C identifier", what, i, name));
    for (size_t j = 0; j < i; ++j)
      if (name == parameters[j].name)
        throw Error(fmt::format("{} {}: the name '{}' is taken", what, i, name));
  }
}

}  // namespace

CurrentScope::CurrentScope(Builder& builder) : open_(std::make_shared<Builder::State::Open>(&builder)) {
  open_builders.push_back(open_);
  enter_current();
}

CurrentScope::~CurrentScope() {
  *open_ = nullptr;
  enter_current();
}

bool is_identifier(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

llvm::Type* type_of(Class cls, llvm::LLVMContext& context) {
  switch (cls) {
    case Class::pred:
      return llvm::Type::getInt1Ty(context);
    case Class::b16:
    case Class::u16:
    case Class::s16:
      return llvm::Type::getInt16Ty(context);
    case Class::f16:
      return llvm::Type::getHalfTy(context);
    case Class::bf16:
      return llvm::Type::getBFloatTy(context);
    case Class::b32:
    case Class::u32:
    case Class::s32:
    case Class::imm:
      return llvm::Type::getInt32Ty(context);
    case Class::f32:
      return llvm::Type::getFloatTy(context);
    case Class::b64:
    case Class::u64:
    case Class::s64:
      return llvm::Type::getInt64Ty(context);
    case Class::f64:
      return llvm::Type::getDoubleTy(context);
    case Class::smem:
      return llvm::PointerType::get(context, kSharedSpace);
    case Class::cluster:
      return llvm::PointerType::get(context, kSharedClusterSpace);
    case Class::gmem:
      return llvm::PointerType::get(context, kGlobalSpace);
    case Class::generic:
    case Class::tmap:
      return llvm::PointerType::get(context, 0);
    case Class::local:
      return llvm::PointerType::get(context, kLocalSpace);
    case Class::constant:
      return llvm::PointerType::get(context, kConstantSpace);
    case Class::tmem:
      return llvm::PointerType::get(context, kTensorSpace);
    case Class::b8:
      return llvm::Type::getInt16Ty(context);
    case Class::b128:
      return llvm::Type::getInt128Ty(context);
    case Class::name:
    case Class::names:
      break;
  }
  return nullptr;
}

llvm::Type* type_of(DType type, llvm::LLVMContext& context) {
  switch (type) {
    case DType::f16:
      return llvm::Type::getHalfTy(context);
    case DType::bf16:
      return llvm::Type::getBFloatTy(context);
    case DType::f32:
    case DType::tf32:
      return llvm::Type::getFloatTy(context);
    case DType::f64:
      return llvm::Type::getDoubleTy(context);
    default:
      return llvm::Type::getIntNTy(context, 8 * static_cast<unsigned>(size_of(type)));
  }
}

Builder::State::State(std::string name, const BuilderOptions& options, Where where)
    : own_context(std::make_unique<llvm::LLVMContext>()),
      context(*own_context),
      own_module(std::make_unique<llvm::Module>(name, context)),
      module(own_module.get()),
      ir(context),
      options(options),
      target(options.target),
      begun(where),
      line(where) {
  signature.kernel = std::move(name);
  signature.target = std::string(target->name);
  signature.ptx_version = target->ptx_version;
  module->setTargetTriple(llvm::Triple("nvptx64-nvidia-cuda"));
  module->setDataLayout(kDataLayout);
  if (!options.line_info) return;
  module->addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  debug = std::make_unique<llvm::DIBuilder>(*module);
  // DebugDirectivesOnly prints only `.loc`. More detailed kinds add `, debug` to `.target`, which makes ptxas
  // ignore setmaxnreg (C7505) and serialize wgmma (C7511).
  llvm::DIFile* file = debug->createFile(where.file, "");
  debug->createCompileUnit(llvm::DISourceLanguageName(llvm::dwarf::DW_LANG_C_plus_plus), file, "ptxbuilder",
                           true, "", 0, "", llvm::DICompileUnit::DebugDirectivesOnly);
}

Builder::State::~State() {
  if (!open || !*open) return;
  *open = nullptr;
  enter_current();
}

void Builder::State::create_function() {
  signature.parameters.insert(signature.parameters.end(), own_parameters.begin(), own_parameters.end());
  std::vector<llvm::Type*> types;
  for (const Parameter& p : signature.parameters) {
    if (p.is_address())
      types.push_back(type_of(Class::gmem, context));
    else if (p.kind == Parameter::Kind::tensor_map || p.kind == Parameter::Kind::structure)
      types.push_back(type_of(Class::generic, context));
    else
      types.push_back(type_of(p.dtype, context));
  }
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false);
  function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, signature.kernel, *module);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function->addFnAttr(llvm::Attribute::Convergent);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  set_parameter_attributes();
  if (debug) {
    llvm::DIFile* file = debug->createFile(line.file, "");
    auto* signature_type = debug->createSubroutineType(debug->getOrCreateTypeArray({}));
    subprogram =
        debug->createFunction(file, signature.kernel, signature.kernel, file, line.line, signature_type,
                              line.line, llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
    function->setSubprogram(subprogram);
    files[line.file] = {subprogram, line.file};
  }
  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  auto* body = llvm::BasicBlock::Create(context, "body", function);
  ir.SetInsertPoint(entry);
  entry_end = ir.CreateBr(body);
  ir.SetInsertPoint(body);
  set_line(line);
}

void Builder::State::set_parameter_attributes() {
  for (size_t i = 0; i < signature.parameters.size(); ++i) {
    const Parameter& p = signature.parameters[i];
    if (p.kind != Parameter::Kind::tensor_map && p.kind != Parameter::Kind::structure) continue;
    // These attributes keep `.param .align 64 .b8 map[128]` in the parameter space. LLVM would otherwise copy
    // the map to the stack.
    auto* bytes = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), static_cast<uint64_t>(p.size_bytes()));
    const llvm::Align alignment(static_cast<uint64_t>(p.alignment()));
    unsigned n = static_cast<unsigned>(i);
    function->addParamAttr(n, llvm::Attribute::getWithByValType(context, bytes));
    function->addParamAttr(n, llvm::Attribute::getWithAlignment(context, alignment));
    function->addParamAttr(n, llvm::Attribute::get(context, "nvvm.grid_constant"));
  }
}

void Builder::State::append_parameter(const Parameter& p, llvm::Value* given, std::vector<Value>& values) {
  if (p.kind == Parameter::Kind::structure) {
    const std::vector<int> offsets = p.field_offsets();
    for (size_t f = 0; f < offsets.size(); ++f) {
      const Parameter& field = p.fields[f];
      llvm::Type* type = field.kind == Parameter::Kind::pointer ? type_of(Class::gmem, context)
                                                                : type_of(field.dtype, context);
      llvm::Value* at = ir.CreatePtrAdd(given, ir.getInt32(static_cast<uint32_t>(offsets[f])));
      const llvm::Align alignment(static_cast<uint64_t>(field.alignment()));
      append_parameter(field, ir.CreateAlignedLoad(type, at, alignment), values);
    }
    return;
  }
  if (p.kind == Parameter::Kind::scalar && size_of(p.dtype) == 1)  // 8-bit parameters are widened
    given = ir.CreateIntCast(given, ir.getInt32Ty(), p.dtype == DType::s8);
  if (p.is_address() && given->getType() != type_of(Class::gmem, context))
    given = ir.CreateAddrSpaceCast(given, type_of(Class::gmem, context));
  values.emplace_back(given);
}

void Builder::State::set_line(Where where) {
  line = where;
  constant_line = {};
  if (!debug || !function || !where) return;
  File& file = files[where.file];
  if (!file.scope)
    file = {debug->createLexicalBlockFile(subprogram, debug->createFile(where.file, ""), 0), where.file};
  ir.SetCurrentDebugLocation(llvm::DILocation::get(context, where.line, 0, file.scope));
}

void Builder::State::require(int ptx_version, isa::Targets targets, std::string_view instruction,
                             std::string_view mnemonic) {
  target.require(targets, instruction, mnemonic);
  signature.target = std::string(target->name);
  signature.ptx_version = std::max({signature.ptx_version, target->ptx_version, ptx_version});
  if (is_hosted()) ptxbuilder::require(*module, ptx_version, targets);
}

void Builder::check_is_kernel(std::string_view what) const {
  if (state().is_kernel) return;
  throw Error(
      fmt::format("{}: '{}' is a device function, but only a kernel can do this; move it to the kernel, and "
                  "pass the device function what it needs",
                  what, signature().kernel));
}

Where Builder::State::where_of(const llvm::Instruction& instruction) const {
  const llvm::DILocation* location = instruction.getDebugLoc().get();
  if (!location) return {};
  auto file = files.find(location->getFilename().str());
  return file == files.end() ? Where{} : Where{file->second.name, location->getLine()};
}

// Reports uses of values that are not dominated by the values' definitions. LLVM would report such uses too,
// but in terms of LLVM IR and without a source line.
void Builder::State::check_dominance(const llvm::DominatorTree& tree) const {
  for (const llvm::BasicBlock& block : *function)
    for (const llvm::Instruction& user : block)
      for (const llvm::Use& use : user.operands()) {
        auto* made = llvm::dyn_cast<llvm::Instruction>(use.get());
        if (!made || tree.dominates(made, use)) continue;
        throw Error(where_of(user), detail::used_outside(signature.kernel, where_of(*made)));
      }
}

llvm::BasicBlock* Builder::State::new_block(const char* name) {
  return llvm::BasicBlock::Create(context, name, function_or_create());
}

Builder::Builder(std::string name, BuilderOptions options, Where where) {
  CallersLine line(where);
  if (!is_identifier(name)) throw Error(fmt::format("kernel: the name '{}' must be a C identifier", name));
  state_ = std::make_unique<State>(std::move(name), options, where);
  state_->open = std::make_shared<State::Open>(this);
  current_builder();  // forgets Builders that have been destroyed
  open_builders.push_back(state_->open);
  enter_current();
}

Builder::Builder(Builder&& other) noexcept : state_(std::move(other.state_)) {
  if (state_ && *state_->open) *state_->open = this;
}

Builder& Builder::operator=(Builder&& other) noexcept {
  state_ = std::move(other.state_);
  if (state_ && *state_->open) *state_->open = this;
  return *this;
}

Builder::~Builder() = default;

Builder& Builder::current(Where where) {
  CallersLine line(where);
  Builder* builder = current_builder();
  if (!builder) throw Error("no kernel is being built on this thread: make a Kernel first");
  return *builder;
}

Builder::State& Builder::state() const {
  if (!state_) throw Error("kernel: it is used after it was moved from");
  return *state_;
}

Signature& Builder::signature() { return state().signature; }
const Signature& Builder::signature() const { return state().signature; }

void Builder::check_current() const {
  const State& s = state();
  if (s.refusal) throw *s.refusal;
  if (s.finished) throw Error(fmt::format("{}: it is used after it was finished", s.signature.kernel));
  const Builder* builder = current_builder();
  if (s.is_hosted() && (!builder || &builder->state() != &s))
    throw Error(
        fmt::format("{}: it is used outside of its insert_at(), which determines where in the front end's "
                    "function the code goes",
                    s.signature.kernel));
  const State& other = current().state();
  if (&other != &s)
    throw Error(
        fmt::format("{}: this is not the kernel that is being built on this thread: that is {}, begun at {}; "
                    "finish or destroy it first",
                    s.signature.kernel, other.signature.kernel, to_string(other.begun)));
}

void Builder::run_body(std::string_view construct, const CallersLine& line,
                       const std::function<void()>& body) {
  State& s = state();
  auto refuse = [&](std::string_view what) {
    if (s.refusal) return;  // the innermost body has already set it
    s.refusal.emplace(fmt::format("{}: an exception from the body of this {} left it unfinished: {}",
                                  s.signature.kernel, construct, what));
  };
  try {
    std::optional<AuthorsCode> authors;
    if (line.opens()) authors.emplace();
    body();
  } catch (const std::exception& e) {
    refuse(e.what());
    throw;
  } catch (...) {
    refuse("the exception is not a std::exception");
    throw;
  }
}

void Builder::require(int ptx_version, isa::Targets targets, std::string_view what) {
  state().require(ptx_version, targets, what);
}

std::optional<Builder::Constant> Builder::constant(Value value) const {
  auto* known = llvm::dyn_cast<llvm::ConstantInt>(value.handle());
  if (!known) return std::nullopt;
  auto made = state_->constants.find(known);
  return Constant{known->getZExtValue(), made == state_->constants.end() ? state_->line : made->second};
}

std::vector<Value> Builder::declare_parameters(std::vector<Parameter> parameters, Where where) {
  CallersLine line(where);
  check_current();
  if (state_->is_hosted() ? bool(state_->parameters_where) : state_->function != nullptr)
    throw Error(fmt::format("{}: parameters must be declared once, before the first instruction",
                            signature().kernel));
  check_is_kernel("params");
  check_names("parameter", parameters);
  for (const Parameter& p : parameters) {
    if (p.kind == Parameter::Kind::structure) check_names(fmt::format("{}: field", p.name), p.fields);
    for (const Parameter& own : state_->own_parameters)
      if (p.name == own.name)
        throw Error(fmt::format(
            "parameter '{}': the library adds a parameter of this name, so choose another", p.name));
  }
  const size_t count = parameters.size();
  signature().parameters = std::move(parameters);
  state_->line = state_->parameters_where = where;
  if (state_->is_hosted()) {
    state_->check_parameters();
    state_->set_parameter_attributes();
  } else {
    state_->create_function();
  }
  std::vector<Value> values;
  emit_at_entry([&] {
    for (size_t i = 0; i < count; ++i)
      state_->append_parameter(signature().parameters[i], state_->function->getArg(static_cast<unsigned>(i)),
                               values);
  });
  return values;
}

Where Builder::parameters_where() const { return state_->parameters_where; }

void Builder::add_own_parameter(Parameter parameter) {
  state().own_parameters.push_back(std::move(parameter));
}

gmem Builder::own_parameter(std::string_view name) const {
  const llvm::Function* function = state().function_or_create();
  const std::vector<Parameter>& all = signature().parameters;
  const auto found =
      std::find_if(all.rbegin(), all.rend(), [&](const Parameter& p) { return p.name == name; });
  return gmem(function->getArg(static_cast<unsigned>(all.rend() - found - 1)));
}

size_t Builder::parameter_index(TensorMap map) const {
  constexpr unsigned kAnyDepth = 0;
  // If the map is an element of an array, its underlying object is the array's parameter.
  auto* argument = llvm::dyn_cast<llvm::Argument>(llvm::getUnderlyingObject(map.handle(), kAnyDepth));
  if (!argument || argument->getParent() != state_->function ||
      !signature().parameters[argument->getArgNo()].has_recipe())
    throw Error(fmt::format(
        "{}: the tensor map is neither a parameter of this kernel nor in a TensorMapArray that is one",
        signature().kernel));
  return argument->getArgNo();
}

Registers Builder::declare_registers(Class cls, int count) {
  // LLVM prints an asm statement of the entry block at function scope, so every later instruction may use the
  // registers that it declares. The names are made unique because a function must not declare a name twice.
  State& s = state();
  s.function_or_create();
  if (!s.is_kernel)
    throw Error(
        fmt::format("named registers: '{}' is a device function. If it is inlined twice, they would be "
                    "declared twice; if it is not inlined, they would serialize wgmma (C7510). Make the "
                    "product in the kernel, or emit the row of wgmma with values for its registers",
                    s.signature.kernel));
  std::string base = fmt::format("acc{}_", s.register_files++);
  std::string text = fmt::format(".reg {} {}<{}>;", isa::register_type(cls), base, count);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(s.context), false);
  auto* call = llvm::CallInst::Create(type, llvm::InlineAsm::get(type, text, "~{memory}", true), "",
                                      s.entry_end->getIterator());
  call->addFnAttr(llvm::Attribute::Convergent);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  call->addFnAttr(llvm::Attribute::NoDuplicate);
  return {base, 0, count};
}

smem Builder::shared_base() {
  State& s = state();
  if (s.shared) return smem(s.shared);
  const std::string name = signature().kernel + "_smem";
  if (s.module->getNamedValue(name))
    throw Error(s.nearest_line(),
                fmt::format("{}: the module already has a '{}', which is also the name of the kernel's own "
                            "variable; rename the function or the module's variable",
                            signature().kernel, name));
  auto* type = llvm::ArrayType::get(llvm::Type::getInt8Ty(s.context), 0);
  s.shared = new llvm::GlobalVariable(*s.module, type, false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                      name, nullptr, llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  s.shared->setAlignment(llvm::Align(1024));  // the period of the 128-byte swizzle
  return smem(s.shared);
}

BarrierIds& Builder::barrier_ids() { return state().barrier_ids; }

uint32_t Builder::allocate_shared(std::string name, uint32_t bytes, int stages, uint32_t alignment) {
  check_current();
  check_is_kernel("shared memory");
  constexpr uint32_t kLimit = hopper::shared_bytes;
  std::vector<SharedObject>& objects = signature().shared;
  auto taken = [&](const std::string& wanted) {
    return std::any_of(objects.begin(), objects.end(),
                       [&](const SharedObject& o) { return o.name == wanted; });
  };
  if (taken(name)) {
    int number = 2;
    while (taken(fmt::format("{} {}", name, number))) ++number;
    name = fmt::format("{} {}", name, number);
  }
  uint32_t& total = signature().dynamic_shared_bytes;
  const uint64_t offset = (uint64_t{total} + alignment - 1) / alignment * alignment;
  const uint64_t end = offset + uint64_t{bytes} * static_cast<uint64_t>(stages);
  objects.push_back({name, static_cast<uint32_t>(offset), bytes, static_cast<uint32_t>(stages)});
  if (end > kLimit) {
    uint64_t sum = 0;  // greater than `end` if objects share memory
    for (const SharedObject& o : objects) sum += uint64_t{o.bytes} * o.stages;
    std::string plan;
    for (const SharedObject& o : objects) {
      plan += fmt::format("{}{} {}", plan.empty() ? "" : ", ", o.name, uint64_t{o.bytes} * o.stages);
      if (sum > end) plan += fmt::format(" at {}", o.offset);
    }
    throw Error(
        fmt::format("shared memory: {} bytes exceed the {} that a CTA may have ({})", end, kLimit, plan));
  }
  total = static_cast<uint32_t>(end);
  return static_cast<uint32_t>(offset);
}

void Builder::emit_at_entry(const std::function<void()>& emission) {
  State& s = state();
  s.function_or_create();
  llvm::IRBuilder<>::InsertPointGuard guard(s.ir);
  const detail::OutsideOfBodies outside(s.number);
  s.ir.SetInsertPoint(s.entry_end);
  emission();
}

Builder::Place Builder::remember_place() {
  State& s = state();
  s.function_or_create();
  // A no-op instruction marks the place. emit_at() inserts other instructions before it, and then removes it.
  auto* marker =
      s.ir.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent, llvm::SyncScope::SingleThread);
  return std::make_shared<llvm::Instruction*>(marker);
}

void Builder::emit_at(const Place& place, const std::function<void()>& emission) {
  State& s = state();
  auto* marker = *std::static_pointer_cast<llvm::Instruction*>(place);
  llvm::IRBuilder<>::InsertPointGuard guard(s.ir);
  s.ir.SetInsertPoint(marker);
  emission();
  marker->eraseFromParent();
}

bool Builder::is_at(const Place& place) const {
  const State& s = state();
  const auto* marker = *std::static_pointer_cast<llvm::Instruction*>(place);
  return marker->getParent() == s.ir.GetInsertBlock() &&
         std::next(marker->getIterator()) == s.ir.GetInsertPoint();
}

bool Builder::known_at(Value value, const Place& place) const {
  auto* instruction = llvm::dyn_cast<llvm::Instruction>(value.handle());
  if (!instruction) return true;
  const auto* marker = *std::static_pointer_cast<llvm::Instruction*>(place);
  return llvm::DominatorTree(*state().function).dominates(instruction, marker);
}

void Builder::on_instruction(std::function<void(When, const isa::Row&, std::span<const Argument>)> observer) {
  state().on_instruction.push_back(std::move(observer));
}

void Builder::State::tell(When when, const isa::Row& row, std::span<const Argument> arguments) {
  if (is_observed) return;
  is_observed = true;
  for (const auto& observer : on_instruction) observer(when, row, arguments);
  is_observed = false;
}

void Builder::on_loop(std::function<void(bool)> observer) { state().on_loop = std::move(observer); }

void Builder::hold_at_once(uint32_t ctas) { state().ctas_at_once = ctas; }
uint32_t Builder::held_at_once() const { return state().ctas_at_once; }

void Builder::waive(std::string advisory) { state().waivers.push_back(std::move(advisory)); }
const std::vector<std::string>& Builder::waivers() const { return state().waivers; }

std::unique_ptr<Builder::Attachment>& Builder::attachment() { return state().attachment; }

void Builder::on_end(std::function<void()> emission) { state().ends.push_back(std::move(emission)); }

void Builder::on_finish(std::function<void()> check) { state().checks.push_back(std::move(check)); }

void Builder::finish() {
  State& s = state();
  if (s.refusal) throw *s.refusal;
  if (s.finished) return;
  CurrentScope scope(*this);
  try {
    s.finish();
  } catch (const Error& e) {
    s.refusal = e;
    *s.open = nullptr;
    throw;
  }
  s.finished = true;
  *s.open = nullptr;
}

void Builder::State::finish() {
  if (!is_hosted())
    for (const auto& end : ends) end();
  for (const auto& check : checks) check();
  function_or_create();
  if (is_hosted()) {
    check_host();
    entry_end->eraseFromParent();
  } else {
    ir.CreateRetVoid();
  }

  auto add_attribute = [&](const char* key, const std::string& value) {
    if (!function->hasFnAttribute(key)) function->addFnAttr(key, value);
  };
  if (is_kernel) {
    if (is_hosted()) leave_signature(*function, signature);
    // minctasm is emitted together with maxntid. Without a bound on the number of CTAs, ptxas cannot
    // determine the number of registers at the entry, and ignores setmaxnreg.
    if (thread_extents(*function).empty())
      add_attribute(kThreadsAttribute, std::to_string(signature.threads));
    add_attribute("nvvm.minctasm", std::to_string(ctas_at_once));
    if (signature.cluster != std::array<uint32_t, 3>{1, 1, 1})
      add_attribute(kClusterAttribute, fmt::format("{}", fmt::join(signature.cluster, ",")));
  }
  if (debug) debug->finalize();

  llvm::DominatorTree tree(*function);
  check_dominance(tree);
  std::string message;
  llvm::raw_string_ostream out(message);
  if (is_hosted() ? llvm::verifyFunction(*function, &out) : llvm::verifyModule(*module, &out))
    throw Error(line, fmt::format("{}: LLVM refuses the {}: {}", signature.kernel,
                                  is_hosted() ? "function" : "module", message));
  llvm::PromoteMemToReg(variables, tree);
}

std::string Builder::llvm_ir() {
  finish();
  std::string text;
  llvm::raw_string_ostream out(text);
  state_->module->print(out, nullptr);
  return text;
}

AtLine::AtLine(Where where) : CallersLine(where) {
  Builder* const builder = current_builder();
  if (!builder) return;
  // The author's callback may have set its own line since the current line was opened.
  const Where open = opens() ? where : callers::open_line;
  if (!open) return;
  if (Builder::State& s = builder->state(); opens() || open.file != s.line.file || open.line != s.line.line)
    s.set_line(open);
}

}  // namespace ptxbuilder
