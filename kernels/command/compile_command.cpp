// `ptxb compile` compiles an LLVM IR module from any source to PTX, a cubin and sidecars.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "kernels/family/assembling.h"
#include "kernels/family/commands.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/file_text.h"

namespace ptxbuilder::command::compile_command {

namespace fs = std::filesystem;

struct Options {
  std::string file, folder = ".";
  ModuleOptions module;
  std::vector<std::string> waived;
  CompilerOptions compiler;
  bool ptx_alone = false, no_cache = false, json = false;
};

int run(Options o) {
  const bool piped = o.file == "-";
  const std::string ir =
      piped ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : file_text(o.file);
  const std::string name = piped ? "stdin" : o.file;
  o.compiler.assemble = !o.ptx_alone;
  o.compiler.cache = !o.no_cache;
  const CompiledModule compiled = Compiler(o.compiler).compile_ir(ir, name, o.module, o.waived, Where{});
  tell_cache_problem(compiled.assembled);
  const std::vector<std::string> files = write_files(compiled, fs::path(name).stem().string(), o.folder);
  nlohmann::ordered_json json = {{"input", name},
                                 {"target", Ptxas::target_of(compiled.ptx)},
                                 {"files", files},
                                 {"no_sidecar", nlohmann::json::array()},
                                 {"notes", compiled.notes}};
  for (const ModuleKernel& k : compiled.kernels)
    if (!k.signature) json["no_sidecar"].push_back({{"kernel", k.name}, {"why", k.why_unknown}});
  if (!compiled.cubin.empty()) {
    json["registers"] = compiled.assembled.registers;
    json["from_cache"] = compiled.assembled.from_cache;
  }
  if (o.json) {
    fmt::print("{}\n", json.dump());
    return 0;
  }
  for (const std::string& file : files) fmt::print("wrote {}\n", file);
  if (!compiled.cubin.empty()) fmt::print("{} registers a thread\n", compiled.assembled.registers);
  std::fflush(stdout);
  for (const std::string& note : compiled.notes) fmt::print(stderr, "note: {}: {}\n", name, note);
  for (const ModuleKernel& k : compiled.kernels)
    if (!k.signature)
      fmt::print(stderr, "note: {}: no sidecar of the kernel '{}': {}\n", name, k.name, k.why_unknown);
  return 0;
}

const char* const help =
    R"(A kernel's sidecar is NAME.json if the module has one kernel, and otherwise NAME.KERNEL.json for each. It holds what
the module specifies: threads by nvvm.reqntid or nvvm.maxntid, cluster by nvvm.cluster_dim, shared variables, and numbers
and pointers (of u8) by the arguments' names or arg0, arg1, ...; or what ptxbuilder's Kernel left in the function's
metadata !ptxbuilder.signature. If that is not all that a launch needs, no sidecar is written, and a note on
standard error, or "no_sidecar" in the JSON, says why.
)";

Command add(const Arguments& ptxb) {
  const Arguments app =
      ptxb.command("compile", "compile a module of LLVM IR from any source to PTX, cubin and sidecars");
  auto o = std::make_shared<Options>();
  app.option("file", o->file, "LLVM IR as text or bitcode; - for standard input")
      .required()
      .shown_as("FILE.ll|FILE.bc|-");
  app.option("-o,--output", o->folder, "the folder for NAME.ptx, NAME.cubin and sidecars").shown_as("DIR");
  app.option("--target", o->module.target,
             "the target; by default that of the module's functions, or else sm_90a or the target that its "
             "instructions need")
      .shown_as("SM");
  app.option("--ptx-version", o->module.ptx_version,
             "ten times the .version; by default the lowest version that the target and inline asm need")
      .from(63, 999)
      .shown_as("N");
  app.option("--libdevice", o->module.libdevice,
             "the bitcode of __nv_expf and similar functions; by default searched for")
      .shown_as("FILE");
  add_waive(app, o->waived);
  app.flag("--ptx", o->ptx_alone, "write only PTX, without calling ptxas");
  app.option("--ptxas", o->compiler.ptxas,
             "the ptxas to use; by default the one in PATH, CUDA_PATH or /usr/local")
      .shown_as("FILE");
  app.flag("--no-cache", o->no_cache, "assemble again, and do not use the cache");
  app.option("--cache-dir", o->compiler.cache_options.directory, "where cubins are kept").shown_as("DIR");
  app.flag("--json", o->json, "print one JSON object");
  app.footer(help);
  return {app, [o] { return run(*o); }};
}

const CommandRegistration registration(add);

}  // namespace ptxbuilder::command::compile_command
