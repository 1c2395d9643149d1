#include "kernels/inspect/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/inspect/occupancy.h"
#include "kernels/inspect/report_code.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;

// The bytes that the memory transfers per microsecond, and the full clock frequency in MHz, both measured on
// an H100 SXM.
constexpr double kMemoryBytes = 3.116e6, kMegahertz = 1980;

Json shared_memory(const Signature& s) {
  Json objects = Json::array();
  uint32_t named = 0;
  for (const SharedObject& o : s.shared) {
    objects.push_back({{"name", o.name}, {"offset", o.offset}, {"bytes", o.bytes}, {"stages", o.stages}});
    named = std::max(named, o.offset + o.bytes * o.stages);
  }
  return {{"dynamic_bytes", s.dynamic_shared_bytes},
          {"static_bytes", s.static_shared_bytes},
          {"reserved_bytes", hopper::reserved_shared_bytes},
          {"most_bytes", hopper::shared_bytes},
          {"named_bytes", named},
          {"objects", objects}};
}

Json occupancy(const Signature& s) {
  const Occupancy o = occupancy_of(s, *s.registers);
  Json json = {{"ctas", o.ctas}, {"bound", o.bound}, {"warps", o.warps}, {"limits", Json::object()}};
  for (const auto& [what, ctas] : o.limits) json["limits"][what] = ctas;
  json["cluster"] = s.cluster[0] * s.cluster[1] * s.cluster[2];
  json["clusters_at_once"] = o.clusters;
  return json;
}

// Returns the flops and bytes of a launch, as the family states them. Tensors are created for this, but
// nothing is launched.
std::optional<std::pair<double, double>> work_of(const Family& family, const Fields& fields,
                                                 const Built& built, const ExecuteOptions& options) {
  if (!family.run) return std::nullopt;
  const std::unique_ptr<runtime::Device> device =
      runtime::open_device("emulator", built.compiled.signature.target, emulator_options(options), Where{});
  runtime::LoadedKernel loaded(*device, built.compiled.ptx, built.compiled.signature, Where{});
  Run run(*device, loaded, {.verify = false, .bench = false});
  run_family(family, fields, run, false);
  return run.work();
}

// Returns lower bounds of a launch's time, in microseconds.
Json floor_of(double flops, double bytes, const std::string& type, double flops_of_a_clock) {
  Json json = {{"flops", flops},
               {"bytes", bytes},
               {"unit", type.empty() ? "vector units" : "tensor cores, " + type},
               {"unit_us", flops / (flops_of_a_clock * hopper::multiprocessors * kMegahertz)},
               {"memory_us", bytes / kMemoryBytes}};
  json["bound"] = json["unit_us"] > json["memory_us"] ? json["unit"] : Json("memory");
  return json;
}

Json forecast(const Forecast& f) {
  Json json = {{"us", f.microseconds}, {"mhz", f.megahertz}, {"watts", f.watts}, {"parts", Json::object()}};
  std::pair<std::string, double> most;
  for (const auto& [what, us] : f.parts) {
    json["parts"][what] = us;
    if (us > most.second) most = {what, us};
  }
  json["bound"] =
      most.first + (f.megahertz < 0.995 * kMegahertz ? ", at the clock within the power limit" : "");
  return json;
}

Json fields_of(const Fields& fields) {
  Json json = Json::object();
  for (const Field& f : fields.all()) json[f.name] = f.words.empty() ? Json(f.value) : Json(f.text());
  return json;
}

// Reads a file with the output of `bench --json`. Throws Error if it is for another kernel or other fields.
Json measured_in(const std::string& path, const Family& family, const Fields& fields) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(fmt::format("{}: it cannot be read", path));
  const Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded() || !json.is_object() || !json.contains("bench") || !json["bench"].is_object() ||
      !json["bench"].contains("median_us") || !json["bench"]["median_us"].is_number())
    throw Error(
        fmt::format("{}: it is not the output of `bench --json`: it has no number bench.median_us", path));
  if (json.value("kernel", Json()) != family.name)
    throw Error(fmt::format("{}: it is from kernel {}, not from '{}'", path,
                            json.value("kernel", Json()).dump(), family.name));
  const Json here = fields_of(fields), there = json.value("fields", Json::object());
  for (const auto& [name, value] : here.items())
    if (there.is_object() && there.contains(name) && there[name] != value)
      throw Error(fmt::format("{}: it was measured with {} = {}, not {}", path, name, there[name].dump(),
                              value.dump()));
  Json measured = {{"us", json["bench"]["median_us"]}};
  if (json.contains("device") && json["device"].is_object())
    measured["device"] = json["device"].value("name", "");
  return measured;
}

Json measured_here(const Family& family, const Fields& fields, const ExecuteOptions& options) {
  const std::unique_ptr<runtime::Device> device =
      runtime::open_device(options.device, "sm_90a", emulator_options(options), Where{});
  if (device->wants_ptx()) refuse_times();
  Built built = build(family, fields, Compiler(compiler_options(options)), options, true);
  runtime::LoadedKernel loaded = load(built, *device);
  RunOptions run_options = options.run;
  run_options.verify = false;
  run_options.bench = true;
  Run run(*device, loaded, run_options);
  run_family(family, fields, run, false);
  return {{"us", run.timing()->median}, {"device", device->properties().name}};
}

}  // namespace

std::string report_json(const Family& family, const Fields& fields, const ExecuteOptions& options,
                        const ReportOptions& more) {
  Json measured;
  if (!more.measured.empty()) measured = measured_in(more.measured, family, fields);
  const Built built = build(family, fields, Compiler(compiler_options(options)), options, false);
  const Signature& s = built.compiled.signature;
  Json json = {{"kernel", family.name}, {"fields", fields_of(fields)},  {"target", s.target},
               {"threads", s.threads},  {"assembler", built.assembler}, {"missing", Json::array()}};
  const CodeReport code = report_code(built, options.nvdisasm);
  json.update(Json::parse(code.json));
  json["shared"] = shared_memory(s);
  if (s.registers) json["occupancy"] = occupancy(s);
  if (const auto work = work_of(family, fields, built, options))
    json["launch"] = floor_of(work->first, work->second, code.product_type, code.flops_of_a_clock);
  if (family.forecast) json["forecast"] = forecast(family.forecast(fields));
  if (more.bench) measured = measured_here(family, fields, options);
  if (!measured.is_null()) {
    const double us = measured["us"];
    if (json.contains("launch")) {
      measured["of_the_floor"] =
          std::max(json["launch"]["unit_us"].get<double>(), json["launch"]["memory_us"].get<double>()) / us;
      measured["tflops"] = json["launch"]["flops"].get<double>() / us * 1e-6;
      measured["gbytes_per_s"] = json["launch"]["bytes"].get<double>() / us * 1e-3;
    }
    if (json.contains("forecast")) measured["of_the_forecast"] = json["forecast"]["us"].get<double>() / us;
    json["measured"] = measured;
  }
  return json.dump();
}

}  // namespace ptxbuilder::command
