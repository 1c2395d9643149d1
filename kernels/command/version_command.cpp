// `ptxb version` prints the versions of all components, and the known defects of the ptxas that is used.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/family/commands.h"
#include "ptxbuilder/compile/codegen.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/version.h"
#include "runtime/open_device.h"

namespace ptxbuilder::command::version_command {

using Json = nlohmann::ordered_json;

struct Options {
  std::string device = "auto", ptxas;
  bool json = false;
};

int run(const Options& o) {
  Json json = {{"ptxbuilder", fmt::format("{}.{}.{}", PTXBUILDER_VERSION_MAJOR, PTXBUILDER_VERSION_MINOR,
                                          PTXBUILDER_VERSION_PATCH)},
               {"llvm", llvm_version()}};
  std::vector<std::string> defects;
  try {
    Ptxas ptxas(PtxasSearch::from_environment(o.ptxas));
    json["ptxas"] = fmt::format("{} ({})", ptxas.build(), ptxas.path());
    for (const Defect& d : known_defects(ptxas.version()))
      defects.push_back(fmt::format("{}: {} {} ({}; {})", d.name, d.description, d.remedy,
                                    d.fixed_in ? "fixed in " + to_string(*d.fixed_in) : "not fixed",
                                    d.source));
  } catch (const Error& e) {
    json["ptxas"] = fmt::format("none: {}", e.what());
  }
  try {
    runtime::DeviceProperties p = runtime::open_device(o.device, "sm_90a", {}, Where{})->properties();
    json["device"] = fmt::format("{}, {} SMs, {:.1f} GiB, {}", p.name, p.multiprocessors,
                                 static_cast<double>(p.memory_bytes) * 0x1p-30, p.driver);
  } catch (const Error& e) {
    json["device"] = fmt::format("none: {}", e.what());
  }
  if (!defects.empty()) json["ptxas_defects"] = defects;
  if (o.json) {
    fmt::print("{}\n", json.dump());
    return 0;
  }
  for (const auto& [key, value] : json.items())
    if (value.is_string()) fmt::print("{:12} {}\n", key, value.get<std::string>());
  for (const std::string& d : defects) fmt::print("{:12} {}\n", "known defect", d);
  return 0;
}

Command add(const Arguments& ptxb) {
  const Arguments app = ptxb.command("version", "print the versions of LLVM, ptxas, the driver and the GPU");
  auto o = std::make_shared<Options>();
  app.option("--device", o->device, "cuda, emulator, or auto").shown_as("NAME");
  app.option("--ptxas", o->ptxas, "the ptxas to use").shown_as("FILE");
  app.flag("--json", o->json, "as JSON");
  return {app, [o] { return run(*o); }};
}

const CommandRegistration registration(add);

}  // namespace ptxbuilder::command::version_command
