// `ptxb compile`: a module of LLVM's IR, whoever wrote it, to PTX and a cubin.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "kernels/command/commands.h"
#include "ptxbuilder/compile/assemble.h"
#include "ptxbuilder/compile/codegen.h"

namespace ptxbuilder::command {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string file, folder = ".", ptxas, cache_dir;
  ModuleOptions module;
  std::vector<std::string> waived;
  bool ptx_alone = false, no_cache = false, json = false;
};

std::string write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw Error(fmt::format("{}: cannot be written", path.string()));
  return path.string();
}

int run(const Options& o) {
  const std::string ir = o.file == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                                       : read_file(o.file),
                    name = o.file == "-" ? "stdin" : o.file,
                    stem = o.file == "-" ? "stdin" : fs::path(o.file).stem().string();
  std::optional<Ptxas> ptxas;
  if (!o.ptx_alone) ptxas.emplace(PtxasSearch::from_environment(o.ptxas));
  const std::string ptx = ptx_of_ir(ir, name, o.module, Where{});
  fs::create_directories(o.folder);
  nlohmann::ordered_json json = {
      {"input", name}, {"target", o.module.target}, {"files", nlohmann::json::array()}};
  json["files"].push_back(write(fs::path(o.folder) / (stem + ".ptx"), ptx));
  if (ptxas) {
    std::optional<Cache> cache;
    Cache::Options where;
    if (!o.cache_dir.empty()) where.directory = o.cache_dir;
    if (!o.no_cache) cache.emplace(where);
    const Assembled assembled =
        assemble(*ptxas, cache ? &*cache : nullptr, ptx, {.ptxas = {}, .waived = o.waived});
    json["files"].push_back(write(fs::path(o.folder) / (stem + ".cubin"), assembled.cubin));
    json["registers"] = assembled.registers;
    json["from_cache"] = assembled.from_cache;
  }
  if (o.json) {
    fmt::print("{}\n", json.dump());
    return 0;
  }
  for (const auto& file : json["files"]) fmt::print("wrote {}\n", file.get<std::string>());
  if (ptxas) fmt::print("{} registers a thread\n", json["registers"].get<int>());
  return 0;
}

Command add(const Arguments& ptxb) {
  const Arguments app =
      ptxb.command("compile", "compile a module of LLVM's IR, whoever wrote it, to PTX and a cubin");
  auto o = std::make_shared<Options>();
  app.option("file", o->file, "LLVM's IR as text or bitcode; - for standard input")
      .required()
      .shown_as("FILE.ll|FILE.bc|-");
  app.option("-o,--output", o->folder, "the folder for NAME.ptx and NAME.cubin").shown_as("DIR");
  app.option("--target", o->module.target, "sm_90a unless given").shown_as("SM");
  app.option("--ptx-version", o->module.ptx_version,
             "ten times the .version; the least that serves unless given")
      .from(63, 999)
      .shown_as("N");
  app.option("--libdevice", o->module.libdevice,
             "the bitcode of __nv_expf and its like; searched unless given")
      .shown_as("FILE");
  app.option("--waive", o->waived,
             "an advisory of ptxas to let through, as C7510, spills or stack; may be given again")
      .shown_as("CODE");
  app.flag("--ptx", o->ptx_alone, "PTX alone, without ptxas");
  app.option("--ptxas", o->ptxas, "the ptxas to take; else PATH, CUDA_PATH, /usr/local").shown_as("FILE");
  app.flag("--no-cache", o->no_cache, "assemble anew, and keep nothing");
  app.option("--cache-dir", o->cache_dir, "where cubins are kept").shown_as("DIR");
  app.flag("--json", o->json, "print one JSON object");
  return {app, [o] { return run(*o); }};
}

const CommandRegistration registration(add);

}  // namespace
}  // namespace ptxbuilder::command
