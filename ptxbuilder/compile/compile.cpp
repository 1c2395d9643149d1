#include "ptxbuilder/compile/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "ptxbuilder/compile/nvdisasm.h"
#include "ptxbuilder/llvm.h"

namespace ptxbuilder {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Fills in the resources that ptxas reported for one entry, and for the device functions that it may call.
void fill_in(Signature& signature, Notes notes) {
  std::erase_if(notes.functions, [&](const FunctionUse& f) { return f.entry && f.name != signature.kernel; });
  signature.registers = notes.registers();
  signature.spill_bytes = notes.spill_bytes();
  signature.stack_bytes = notes.stack_bytes();
}

// Returns the .version, times ten, that a message of ptxas requires, or 0 if the message does not require
// any. Such messages occur because the values of operands in inline asm may need a later .version than the
// instruction.
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

// Raises the .version in `ptx` to `version` if the .version is lower. Returns whether it was lower.
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
  const bool keeps = !options_.keep.empty();
  if (with_ir || keeps) result.ir = builder.llvm_ir();
  // The cache is not used if the stages are kept, because LLVM's passes would not run if the cache contained
  // the PTX.
  result.ptx = generate_ptx(builder, keeps ? nullptr : cache_.get());
  result.signature = kernel.signature();
  result.milliseconds.ptx = milliseconds_since(start);
  if (options_.generated) options_.generated(result.ptx, result.signature);
  if (!keeps) {
    assemble_into(result, builder.waivers());
    return result;
  }
  const std::string& name = result.signature.kernel;
  FolderWriter files(options_.keep);
  files.write(name + ".ll", result.ir);
  files.write(name + ".lowered.ll", builder.llvm_ir());
  files.write(name + ".ptx", result.ptx);
  result.kept.files = std::move(files.written);
  assemble_and_keep(result, name, builder.waivers());
  return result;
}

Compiled Compiler::replaced(const Compiled& original, std::string ptx,
                            const std::vector<std::string>& waived) const {
  Compiled result;
  result.signature = original.signature;
  result.ptx = std::move(ptx);
  if (options_.generated) options_.generated(result.ptx, result.signature);
  if (options_.keep.empty())
    assemble_into(result, waived);
  else
    assemble_and_keep(result, result.signature.kernel + ".edited", waived);
  return result;
}

void Compiler::assemble_and_keep(Compiled& kernel, const std::string& name,
                                 const std::vector<std::string>& waived) const {
  FolderWriter files(options_.keep);
  const std::string cubin = name + ".cubin", sass = name + ".sass", log = name + ".log";
  for (const std::string& file : {cubin, sass, log}) files.remove(file);
  if (!ptxas_) {
    const std::string why = why_no_ptxas_.empty() ? "assembling was not requested" : why_no_ptxas_;
    for (const std::string& file : {cubin, sass, log})
      kernel.kept.missing.push_back(fmt::format("{}: {}", file, why));
    return;
  }
  bool is_made = false;
  const auto keep = [&](const Assembled& made) {
    is_made = true;
    files.write(cubin, made.cubin);
    files.write(log, made.log);
    try {
      const Nvdisasm nvdisasm(PtxasSearch::from_environment(options_.nvdisasm));
      files.write(sass, nvdisasm.disassemble(made.cubin));
    } catch (const Error& e) {
      kernel.kept.missing.push_back(fmt::format("{}: {}", sass, e.what()));
    }
  };
  try {
    assemble_into(kernel, waived, keep);
  } catch (const Error& e) {
    if (!is_made) files.write(log, fmt::format("{}\n", e.what()));
    throw;
  }
  kernel.kept.files.insert(kernel.kept.files.end(), files.written.begin(), files.written.end());
}

void Compiler::assemble_into(Compiled& kernel, const std::vector<std::string>& waived,
                             const std::function<void(const Assembled&)>& made) const {
  if (!ptxas_) return;
  const auto start = std::chrono::steady_clock::now();
  kernel.assembled = assemble(*ptxas_, cache_.get(), kernel.ptx, {options_.ptxas_options, waived, made});
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
  workers.clear();  // the destructors join the threads
  std::string report;
  for (size_t i = 0; i < failures.size(); ++i)
    if (!failures[i].empty())
      report += fmt::format("{}kernel {}: {}", report.empty() ? "" : "\n", i, failures[i]);
  if (!report.empty()) throw Error(report);
  return results;
}

std::vector<std::string> write_files(const Compiled& compiled, const std::string& folder) {
  FolderWriter files(folder);
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
          fmt::format("{}: this file is not a sidecar, but a sidecar would be written there; move it, or "
                      "choose another folder",
                      file));
  FolderWriter files(folder);
  for (const std::string& file : before) fs::remove(file);
  files.write(name + ".ptx", compiled.ptx);
  files.write(name + ".cubin", compiled.cubin);
  for (const ModuleKernel& k : compiled.kernels)
    if (k.signature) files.write(sidecar_path(name, one ? "" : k.name), to_json(*k.signature));
  return files.written;
}

}  // namespace ptxbuilder
