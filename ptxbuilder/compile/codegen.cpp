#include "ptxbuilder/compile/codegen.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Linker/Linker.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/PrettyStackTrace.h>
#include <llvm/Support/Signals.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <shared_mutex>

#include "ptxbuilder/compile/cache.h"
#include "ptxbuilder/compile/typed_pointers.h"
#include "ptxbuilder/ir/foreign_module.h"
#include "ptxbuilder/ir/kernel_function.h"
#include "ptxbuilder/ir/module_needs.h"
#include "ptxbuilder/ir/state.h"
#include "ptxbuilder/llvm.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace ptxbuilder {
namespace {

const llvm::Target& nvptx() {
  static const llvm::Target* target = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    std::string message;
    const llvm::Target* found =
        llvm::TargetRegistry::lookupTarget(llvm::Triple("nvptx64-nvidia-cuda"), message);
    if (!found) throw Error(fmt::format("this LLVM has no NVPTX back end: {}", message));
    return found;
  }();
  return *target;
}

// Returns a machine with CodeGenOptLevel::Default. At lower levels, LLVM does not coalesce the registers of
// an asm with 128 operands.
std::unique_ptr<llvm::TargetMachine> machine_for(std::string_view target, int ptx_version) {
  return std::unique_ptr<llvm::TargetMachine>(nvptx().createTargetMachine(
      llvm::Triple("nvptx64-nvidia-cuda"), std::string(target), fmt::format("+ptx{}", ptx_version), {},
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

// Collects LLVM's diagnostics while this object exists.
class Diagnostics {
 public:
  explicit Diagnostics(llvm::LLVMContext& context) : context_(context) {
    context.setDiagnosticHandlerCallBack(
        [](const llvm::DiagnosticInfo* info, void* problems) {
          if (info->getSeverity() != llvm::DS_Error) return;
          llvm::raw_string_ostream out(*static_cast<std::string*>(problems));
          llvm::DiagnosticPrinterRawOStream printer(out);
          info->print(printer);
          out << "; ";
        },
        &problems_);
  }
  ~Diagnostics() { context_.setDiagnosticHandlerCallBack(nullptr, nullptr); }
  Diagnostics(const Diagnostics&) = delete;
  Diagnostics& operator=(const Diagnostics&) = delete;

  void check(std::string_view name) const {
    if (!problems_.empty()) throw Error(fmt::format("{}: LLVM: {}", name, problems_));
  }

 private:
  llvm::LLVMContext& context_;
  std::string problems_;
};

std::string print_ptx(llvm::TargetMachine& machine, llvm::Module& module) {
  llvm::SmallString<65536> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile))
    throw Error("this LLVM cannot print PTX");
  passes.run(module);
  return std::string(text);
}

// Returns a key that depends on all inputs that determine the result of print_ptx(). They include the lines
// of the C++ source, which are part of the bitcode.
Cache::Key key_of_ptx(const llvm::Module& module, std::string_view target, int ptx_version) {
  llvm::SmallString<65536> bitcode;
  llvm::raw_svector_ostream out(bitcode);
  llvm::WriteBitcodeToFile(module, out);
  const std::string version = fmt::format("{} {}", target, ptx_version);
  const std::string_view parts[] = {"PTX by LLVM " LLVM_VERSION_STRING, version, bitcode.str()};
  return Cache::key(parts);
}

// Code generation acquires locks in LLVM, and a child process would inherit the locks that are held at the
// time of the fork. This mutex ensures that the process forks only while no thread of the library generates
// code.
std::shared_mutex& inside_llvm() {
  static std::shared_mutex mutex;
  return mutex;
}

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

// Records the module that a child process is compiling, for the message if LLVM aborts.
struct InWork {
  const llvm::Module* module = nullptr;
  std::string_view target;
};
InWork in_work;

// The standard error of a child process. It is a file in memory, so writing to it never blocks.
class LastWords {
 public:
  LastWords() : file_(memfd_create("last words", MFD_CLOEXEC)) {}
  ~LastWords() {
    if (file_ >= 0) ::close(file_);
  }
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  void take_standard_error() const {
    if (file_ >= 0) dup2(file_, STDERR_FILENO);
  }
  // Returns the place at which LLVM crashed, according to the stack that it prints, such as "in its pass
  // 'NVPTX DAG->DAG Pattern Instruction Selection', on the function 'k'".
  std::string place() const {
    std::string text(1 << 16, ' ');
    const ssize_t size = file_ < 0 ? 0 : pread(file_, text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    constexpr std::string_view kPass = "Running pass '", kFunction = "' on function '@";
    const size_t pass = text.rfind(kPass), function = text.find(kFunction, pass);
    if (pass == std::string::npos || function == std::string::npos) return "";
    const size_t begin = pass + kPass.size(), behind = function + kFunction.size();
    return fmt::format("in its pass '{}', on the function '{}'", text.substr(begin, function - begin),
                       text.substr(behind, text.find('\'', behind) - behind));
  }

 private:
  int file_;
};

// Runs `work` in a child process, and returns its result. Throws Error if `work` throws, or if LLVM
// terminates the child.
std::string in_child(std::string_view name, std::chrono::milliseconds limit,
                     const std::function<std::string()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(fmt::format("{}: no pipe to a child process: {}", name, std::strerror(errno)));
  const LastWords last_words;
  pid_t child;
  {
    std::unique_lock alone(inside_llvm());
    child = fork();
  }
  if (child == 0) {
    ::close(ends[0]);
    last_words.take_standard_error();
    llvm::EnablePrettyStackTrace();
    // A crash of the child must not be handled by the host's signal handlers.
    for (const int crash : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP})
      signal(crash, [](int) {
        llvm::sys::RunSignalHandlers();  // prints the current passes and functions of LLVM
        _exit(1);
      });
    callers::open_line = {};  // the parent adds the line to errors
    static int to_parent;
    to_parent = ends[1];
    llvm::remove_fatal_error_handler();
    llvm::install_fatal_error_handler(
        [](void*, const char* reason, bool) {
          const std::string words =
              in_work.module ? reason_of(*in_work.module, reason, std::string(in_work.target)) : reason;
          write_all(to_parent, words + 'F');
          _exit(1);
        },
        nullptr);
    try {
      write_all(to_parent, work() + 'T');
    } catch (const std::exception& e) {
      write_all(to_parent, std::string(e.what()) + 'E');
    }
    _exit(0);
  }
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    throw Error(fmt::format("{}: no child process: {}", name, std::strerror(errno)));
  }
  std::string answer;
  const auto end = std::chrono::steady_clock::now() + limit;
  bool in_time = true;
  for (char part[65536];;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd waiting{ends[0], POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    in_time = ready > 0;
    if (!in_time) break;
    const ssize_t got = ::read(ends[0], part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    answer.append(part, static_cast<size_t>(got));
  }
  ::close(ends[0]);
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!in_time)
    throw Error(fmt::format("{}: code generation took more than {} ms and was ended", name, limit.count()));
  const char kind = answer.empty() ? ' ' : answer.back();  // written last, so an incomplete answer lacks it
  if (!answer.empty()) answer.pop_back();
  if (kind == 'T') return answer;
  if (kind == 'E') throw Error(answer);
  if (kind == 'F') throw Error(fmt::format("{}: {}", name, answer));
  const std::string place = last_words.place();
  throw Error(fmt::format("{}: LLVM {} crashed {}, which is a bug in LLVM: {}", name, LLVM_VERSION_STRING,
                          place.empty() ? "without a word" : place,
                          place.empty()
                              ? "compile its functions one by one to find the one that crashes it"
                              : "write the function differently, or optimize the module with `opt` first"));
}

std::string find_libdevice(const std::string& given, std::string_view wanted, std::string_view name) {
  std::vector<std::string> places = {given};
  if (given.empty()) {
    const char* path = std::getenv("CUDA_PATH");
    places = {path ? fmt::format("{}/nvvm/libdevice/libdevice.10.bc", path) : "",
              "/usr/local/cuda/nvvm/libdevice/libdevice.10.bc"};
  }
  for (const std::string& place : places)
    if (!place.empty() && std::filesystem::exists(place)) return place;
  throw Error(fmt::format(
      "{}: it calls {} of libdevice, but {}; install a CUDA toolkit, set CUDA_PATH, or name the file", name,
      wanted,
      given.empty() ? "no libdevice.10.bc is in CUDA_PATH or /usr/local/cuda" : given + " is not there"));
}

// Links the functions of libdevice that the module declares.
void link_libdevice(llvm::Module& module, const std::string& file, std::string_view name) {
  std::string wanted;
  for (const llvm::Function& f : module)
    if (f.isDeclaration() && f.getName().starts_with("__nv_") && !f.use_empty()) {
      wanted = f.getName().str();
      break;
    }
  if (wanted.empty()) return;
  const std::string found = find_libdevice(file, wanted, name);
  llvm::SMDiagnostic problem;
  std::unique_ptr<llvm::Module> library = llvm::parseIRFile(found, problem, module.getContext());
  if (!library)
    throw Error(fmt::format("{}: {} is not bitcode: {}", name, found, problem.getMessage().str()));
  library->setTargetTriple(module.getTargetTriple());
  library->setDataLayout(module.getDataLayout());
  std::vector<std::string> names;
  for (const llvm::Function& f : *library)
    if (!f.isDeclaration()) names.push_back(f.getName().str());
  if (llvm::Linker::linkModules(module, std::move(library), llvm::Linker::LinkOnlyNeeded))
    throw Error(fmt::format("{}: {} does not link", name, found));
  for (const std::string& linked : names)
    if (llvm::Function* f = module.getFunction(linked); f && !f->isDeclaration())
      f->setLinkage(llvm::Function::InternalLinkage);
  for (const llvm::Function& f : module)
    if (f.isDeclaration() && f.getName().starts_with("__nv_") && !f.use_empty())
      throw Error(fmt::format("{}: it calls {}, which does not exist in {}", name, f.getName().str(), found));
}

// Returns the target for a module, as described at ModuleOptions::target.
const isa::Target& target_for(const llvm::Module& module, const Needs& needs, const ModuleOptions& options) {
  if (!options.target.empty()) return isa::target(options.target, {});
  if (const std::string cpu = target_cpu(module); !cpu.empty()) return isa::target(cpu);
  const bool is_hoppers = needs.targets.empty() || needs.targets.has(isa::Sm::sm_90a);
  return is_hoppers ? isa::target(isa::Sm::sm_90a) : needs.targets.least();
}

// Returns the target for a module, and the .version that the options state or, if they state none, the lowest
// sufficient .version.
std::pair<const isa::Target*, int> target_and_version(const llvm::Module& module, const std::string& name,
                                                      const ModuleOptions& options) {
  Needs needs = needs_of(module);
  const Needs more = needs_of_asm(module);
  needs.targets = needs.targets & more.targets;
  needs.ptx_version = std::max(needs.ptx_version, more.ptx_version);
  const isa::Target& target = target_for(module, needs, options);
  if (!needs.targets.has(target.sm))
    throw Error(
        fmt::format("{}: its instructions {}, but the target is {}{}", name,
                    needs.targets.empty() ? "have no target in common" : "need " + needs.targets.text(),
                    target.name, first_that_lacks(module, target.sm)));
  const int least = std::max(target.ptx_version, needs.ptx_version);
  if (options.ptx_version != 0 && options.ptx_version < least)
    throw Error(fmt::format("{}: .version {} is requested, but target and instructions need {}", name,
                            isa::version_text(options.ptx_version), isa::version_text(least)));
  return {&target, options.ptx_version != 0 ? options.ptx_version : least};
}

std::vector<ModuleKernel> kernels_of(const llvm::Module& module, const llvm::DataLayout& layout,
                                     const isa::Target& target, int version) {
  std::vector<ModuleKernel> kernels;
  for (const llvm::Function& f : module) {
    if (f.isDeclaration() || !is_entry(f)) continue;
    std::optional<Signature>& signature = kernels.emplace_back(describe_kernel(f, layout)).signature;
    if (!signature) continue;
    signature->target = std::string(target.name);
    signature->ptx_version = version;
  }
  return kernels;
}

// Compiles a module. May change the module.
ModulePtx compiled(llvm::Module& module, const std::string& name, const ModuleOptions& options) {
  const auto [target, version] = target_and_version(module, name, options);
  auto machine = machine_for(target->name, version);
  const auto features = machine->getMCSubtargetInfo()->getAllProcessorFeatures();
  if (std::none_of(features.begin(), features.end(), [version = version](const llvm::SubtargetFeatureKV& f) {
        return f.Key == fmt::format("ptx{}", version);
      }))
    throw Error(fmt::format("{}: this LLVM has no .version {}", name, isa::version_text(version)));
  std::vector<std::string> notes =
      adopt(module, machine->getTargetTriple(), machine->createDataLayout(), name);
  in_work = {&module, target->name};
  Diagnostics diagnostics(module.getContext());
  std::string refused;
  llvm::raw_string_ostream out(refused);
  if (llvm::verifyModule(module, &out))
    throw Error(fmt::format("{}: LLVM rejects the module: {}", name, refused));
  ModulePtx result{.kernels = kernels_of(module, module.getDataLayout(), *target, version),
                   .notes = std::move(notes)};
  link_libdevice(module, options.libdevice, name);
  result.ptx = print_ptx(*machine, module);
  diagnostics.check(name);
  return result;
}

// Joins several strings into one, in which each string is preceded by its length.
std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += fmt::format("{}:", part.size()) + part;
  return all;
}
std::vector<std::string> parted(std::string_view all) {
  std::vector<std::string> parts;
  while (!all.empty()) {
    const size_t colon = all.find(':'), size = std::stoull(std::string(all.substr(0, colon)));
    parts.emplace_back(all.substr(colon + 1, size));
    all.remove_prefix(colon + 1 + size);
  }
  return parts;
}

}  // namespace

std::string generate_ptx(Builder& builder, Cache* cache) {
  Builder::State& s = builder.state();
  if (s.is_hosted())
    throw Error(s.begun, fmt::format("{}: its module belongs to the front end; compile the module with "
                                     "generate_ptx(module) of ptxbuilder/llvm.h",
                                     s.signature.kernel));
  builder.finish();
  const auto print = [&] {
    std::shared_lock inside(inside_llvm());
    auto machine = machine_for(s.signature.target, s.signature.ptx_version);
    Diagnostics diagnostics(s.context);
    std::string text = print_ptx(*machine, *s.module);
    diagnostics.check(s.signature.kernel);
    return text;
  };
  if (!cache) return print();
  // assemble() reports the reason if an entry cannot be stored.
  return cache
      ->load_or_make(key_of_ptx(*s.module, s.signature.target, s.signature.ptx_version),
                     [&] {
                       return Cache::Entry{"", print()};
                     })
      .entry.log;
}

std::string generate_ptx(const llvm::Module& module, const ModuleOptions& options, Where where) {
  CallersLine line(where);
  const std::string name = module.getName().str();
  return in_child(name, options.time_limit,
                  [&] { return compiled(*llvm::CloneModule(module), name, options).ptx; });
}

std::vector<ModuleKernel> signatures_of(const llvm::Module& module, const ModuleOptions& options,
                                        Where where) {
  CallersLine line(where);
  const auto [target, version] = target_and_version(module, module.getName().str(), options);
  if (!module.getDataLayoutStr().empty()) return kernels_of(module, module.getDataLayout(), *target, version);
  std::shared_lock inside(inside_llvm());
  return kernels_of(module, machine_for(target->name, version)->createDataLayout(), *target, version);
}

ModulePtx ptx_of_ir(std::string_view ir, const std::string& name, const ModuleOptions& options, Where where) {
  CallersLine line(where);
  const std::vector<std::string> parts = parted(in_child(name, options.time_limit, [&] {
    llvm::LLVMContext context;
    llvm::SMDiagnostic problem;
    // LLVM requires a zero byte after the text, which the caller's string may lack.
    const auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(ir.data(), ir.size()), name);
    std::unique_ptr<llvm::Module> module = llvm::parseIR(*buffer, problem, context);
    if (!module && !llvm::isBitcode(reinterpret_cast<const unsigned char*>(ir.data()),
                                    reinterpret_cast<const unsigned char*>(ir.data() + ir.size())))
      if (const std::string newer = without_typed_pointers(ir); newer != ir)
        module = llvm::parseIR(llvm::MemoryBufferRef(newer, name), problem, context);
    if (ir.find_first_not_of(" \t\r\n") == std::string_view::npos)
      throw Error(fmt::format("{}: it is empty", name));
    if (!module)
      throw Error(problem.getLineNo() > 0 ? fmt::format("{}:{}:{}: {}, in \"{}\"", name, problem.getLineNo(),
                                                        problem.getColumnNo() + 1, problem.getMessage().str(),
                                                        problem.getLineContents().str())
                                          : fmt::format("{}: {}", name, problem.getMessage().str()));
    std::unique_ptr<llvm::Module> host;
    const HeldKernels held = kernels_held_by(*module, name);
    if (!held.bitcode.empty()) {
      host =
          std::exchange(module, llvm::parseIR(llvm::MemoryBufferRef(held.bitcode, name), problem, context));
      if (!module)
        throw Error(
            fmt::format("{}: @{} is not bitcode: {}", name, held.variable, problem.getMessage().str()));
    }
    check_has_kernel(*module, name);
    ModulePtx result = compiled(*module, name, options);
    if (host)
      result.notes.insert(result.notes.begin(),
                          fmt::format("it is host code; the kernels are those in @{}", held.variable));
    std::vector<std::string> found = {result.ptx, joined(result.notes)};
    for (const ModuleKernel& k : result.kernels)
      found.insert(found.end(), {k.name, k.signature ? to_json(*k.signature) : "", k.why_unknown});
    return joined(found);
  }));
  ModulePtx result{.ptx = parts[0], .kernels = {}, .notes = parted(parts[1])};
  for (size_t i = 2; i < parts.size(); i += 3) {
    ModuleKernel& k = result.kernels.emplace_back();
    k.name = parts[i];
    if (!parts[i + 1].empty()) k.signature = signature_from_json(parts[i + 1], name);
    k.why_unknown = parts[i + 2];
  }
  return result;
}

std::string llvm_version() { return LLVM_VERSION_STRING; }

}  // namespace ptxbuilder
