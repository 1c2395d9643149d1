#include "ptxbuilder/compile/compile.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ptxbuilder/compile/codegen.h"

namespace ptxbuilder {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  if (!out.flush()) throw Error(fmt::format("{}: cannot be written", path.string()));
}

}  // namespace

Compiler::Compiler(CompilerOptions options) : options_(std::move(options)) {
  if (!options_.assemble) return;
  if (options_.cache) cache_ = std::make_unique<Cache>(options_.cache_options);
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
  result.ptx = generate_ptx(builder);
  result.signature = kernel.signature();
  result.milliseconds.ptx = milliseconds_since(start);
  if (!ptxas_) return result;

  start = std::chrono::steady_clock::now();
  result.assembled = assemble(*ptxas_, cache_.get(), result.ptx, {options_.ptxas_options, builder.waivers()});
  result.cubin = result.assembled.cubin;
  result.signature.registers = result.assembled.registers;
  result.signature.spill_bytes = result.assembled.spill_bytes;
  result.signature.stack_bytes = result.assembled.stack_bytes;
  result.milliseconds.cubin = milliseconds_since(start);
  return result;
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
  namespace fs = std::filesystem;
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) throw Error(fmt::format("{}: the folder cannot be made: {}", folder, problem.message()));
  std::vector<std::string> written;
  auto write = [&](const char* extension, const std::string& content) {
    if (content.empty()) return;
    fs::path path = fs::path(folder) / (compiled.signature.kernel + extension);
    write_file(path, content);
    written.push_back(path.string());
  };
  write(".ll", compiled.ir);
  write(".ptx", compiled.ptx);
  write(".cubin", compiled.cubin);
  write(".json", to_json(compiled.signature));
  return written;
}

}  // namespace ptxbuilder
