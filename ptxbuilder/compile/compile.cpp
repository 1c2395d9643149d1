#include "ptxbuilder/compile/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ptxbuilder/llvm.h"

namespace ptxbuilder {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Files in a folder, which it makes if need be.
class Writer {
 public:
  explicit Writer(const std::string& folder) : folder_(folder) {
    std::error_code problem;
    std::filesystem::create_directories(folder_, problem);
    if (problem) throw Error(fmt::format("{}: the folder cannot be made: {}", folder, problem.message()));
  }

  void write(const std::string& name, const std::string& content) {
    if (content.empty()) return;
    const std::string path = (folder_ / name).string();
    std::ofstream out(path, std::ios::binary);
    out << content;
    if (!out.flush()) throw Error(fmt::format("{}: cannot be written", path));
    written.push_back(path);
  }

  std::vector<std::string> written;

 private:
  std::filesystem::path folder_;
};

// What ptxas said of one entry, and of the device functions that it may call.
void fill_in(Signature& signature, Notes notes) {
  std::erase_if(notes.functions, [&](const FunctionUse& f) { return f.entry && f.name != signature.kernel; });
  signature.registers = notes.registers();
  signature.spill_bytes = notes.spill_bytes();
  signature.stack_bytes = notes.stack_bytes();
}

// Gives ten times the .version that ptxas asks for, since the values of operands in inline asm may need a
// later one than their instruction; 0 where it asks for none.
int version_wanted_by(std::string_view words) {
  constexpr std::string_view kAsks = "requires PTX ISA .version ";
  int wanted = 0;
  for (size_t at = words.find(kAsks); at != std::string_view::npos; at = words.find(kAsks, at + 1)) {
    const std::string_view number = words.substr(at + kAsks.size(), 3);  // "8.7"
    if (number.size() == 3 && number[1] == '.')
      wanted = std::max(wanted, 10 * (number[0] - '0') + number[2] - '0');
  }
  return wanted;
}

// Says whether the text had a lower one, which it then has no longer.
bool raise_version(std::string& ptx, int version) {
  constexpr std::string_view kVersion = "\n.version ";
  const size_t at = ptx.find(kVersion);
  if (at == std::string::npos || version == 0) return false;
  const size_t begin = at + kVersion.size(), end = ptx.find('\n', begin);
  const std::string wanted = isa::version_text(version);
  if (ptx.substr(begin, end - begin) >= wanted) return false;
  ptx.replace(begin, end - begin, wanted);
  return true;
}

}  // namespace

Compiler::Compiler(CompilerOptions options) : options_(std::move(options)) {
  if (options_.cache) cache_ = std::make_unique<Cache>(options_.cache_options);
  if (!options_.assemble) return;
  try {
    ptxas_.emplace(PtxasSearch::from_environment(options_.ptxas), cache_.get());
  } catch (const Error& e) {
    if (!options_.else_ptx || !options_.ptxas.empty()) throw;
    why_no_ptxas_ = e.what();
  }
}

Compiled Compiler::compile(Kernel kernel, bool with_ir, Where where) const {
  auto start = std::chrono::steady_clock::now();
  Compiled result;
  Builder& builder = kernel.builder(where);
  if (with_ir) result.ir = builder.llvm_ir();
  result.ptx = generate_ptx(builder, cache_.get());
  result.signature = kernel.signature();
  result.milliseconds.ptx = milliseconds_since(start);
  assemble_into(result, builder.waivers());
  return result;
}

Compiled Compiler::replaced(const Compiled& original, std::string ptx,
                            const std::vector<std::string>& waived) const {
  Compiled result;
  result.signature = original.signature;
  result.ptx = std::move(ptx);
  assemble_into(result, waived);
  return result;
}

void Compiler::assemble_into(Compiled& kernel, const std::vector<std::string>& waived) const {
  if (!ptxas_) return;
  const auto start = std::chrono::steady_clock::now();
  kernel.assembled = assemble(*ptxas_, cache_.get(), kernel.ptx, {options_.ptxas_options, waived});
  kernel.cubin = kernel.assembled.cubin;
  fill_in(kernel.signature, kernel.assembled.notes);
  kernel.milliseconds.cubin = milliseconds_since(start);
}

CompiledModule Compiler::assembled(ModulePtx generated, const ModuleOptions& options,
                                   const std::vector<std::string>& waived) const {
  CompiledModule result;
  result.ptx = std::move(generated.ptx);
  result.kernels = std::move(generated.kernels);
  result.notes = std::move(generated.notes);
  if (!ptxas_) return result;
  std::vector<std::string> let_through = waived;
  let_through.insert(let_through.end(), {"spills", "stack"});
  try {
    result.assembled = assemble(*ptxas_, cache_.get(), result.ptx, {options_.ptxas_options, let_through});
  } catch (const Error& e) {
    const int wanted = options.ptx_version == 0 ? version_wanted_by(e.what()) : 0;
    if (!raise_version(result.ptx, wanted)) throw;
    for (ModuleKernel& k : result.kernels)
      if (k.signature) k.signature->ptx_version = wanted;
    result.assembled = assemble(*ptxas_, cache_.get(), result.ptx, {options_.ptxas_options, let_through});
  }
  result.cubin = result.assembled.cubin;
  for (const Cost& cost : costs_of(result.assembled.notes))
    if (std::ranges::find(waived, cost.waiver) == waived.end()) result.notes.push_back(cost.text);
  for (ModuleKernel& k : result.kernels)
    if (k.signature) fill_in(*k.signature, result.assembled.notes);
  return result;
}

CompiledModule Compiler::compile_ir(std::string_view ir, const std::string& name,
                                    const ModuleOptions& options, const std::vector<std::string>& waived,
                                    Where where) const {
  CallersLine line(where);
  return assembled(ptx_of_ir(ir, name, options, where), options, waived);
}

CompiledModule Compiler::compile(const llvm::Module& module, const ModuleOptions& options,
                                 const std::vector<std::string>& waived, Where where) const {
  CallersLine line(where);
  return assembled({.ptx = generate_ptx(module, options), .kernels = signatures_of(module, options)}, options,
                   waived);
}

std::vector<Compiled> Compiler::compile_all(const std::vector<std::function<Kernel()>>& builders,
                                            unsigned threads) const {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<Compiled> results(builders.size());
  std::vector<std::string> failures(builders.size());
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> workers;
  for (unsigned t = 0; t < std::min<size_t>(threads, builders.size()); ++t)
    workers.emplace_back([&] {
      for (size_t i; (i = next++) < builders.size();) try {
          results[i] = compile(builders[i](), false, {});
        } catch (const std::exception& e) {
          failures[i] = e.what();
        }
    });
  workers.clear();  // joins
  std::string report;
  for (size_t i = 0; i < failures.size(); ++i)
    if (!failures[i].empty())
      report += fmt::format("{}kernel {}: {}", report.empty() ? "" : "\n", i, failures[i]);
  if (!report.empty()) throw Error(report);
  return results;
}

std::vector<std::string> write_files(const Compiled& compiled, const std::string& folder) {
  Writer files(folder);
  const std::string& name = compiled.signature.kernel;
  files.write(name + ".ll", compiled.ir);
  files.write(name + ".ptx", compiled.ptx);
  files.write(name + ".cubin", compiled.cubin);
  files.write(name + ".json", to_json(compiled.signature));
  return files.written;
}

std::vector<std::string> write_files(const CompiledModule& compiled, const std::string& name,
                                     const std::string& folder) {
  namespace fs = std::filesystem;
  const std::string path = (fs::path(folder) / name).string();
  const bool one = compiled.kernels.size() == 1;
  std::vector<std::string> before = {sidecar_path(path)};
  for (const ModuleKernel& k : compiled.kernels) before.push_back(sidecar_path(path, k.name));
  for (const std::string& file : before)
    if (fs::exists(file) && !is_sidecar(file))
      throw Error(
          fmt::format("{}: is no sidecar, but is where one would be written; move it, or choose "
                      "another folder",
                      file));
  Writer files(folder);
  for (const std::string& file : before) fs::remove(file);
  files.write(name + ".ptx", compiled.ptx);
  files.write(name + ".cubin", compiled.cubin);
  for (const ModuleKernel& k : compiled.kernels)
    if (k.signature) files.write(sidecar_path(name, one ? "" : k.name), to_json(*k.signature));
  return files.written;
}

}  // namespace ptxbuilder
