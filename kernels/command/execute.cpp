#include "kernels/command/execute.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Built {
  Compiled compiled;
  double build_milliseconds = 0;
  std::string assembler;  // in words
  std::vector<std::string> waivers;
};

// The driver compiled the PTX when it was loaded: its messages, checked as those of ptxas are.
void check_driver_log(Built& built, const runtime::LoadedKernel& loaded) {
  Compiled& c = built.compiled;
  Notes notes = parse_notes(loaded.log(), c.ptx);
  check(notes, built.waivers);
  c.signature.registers = notes.registers();
}

Built build(const Family& family, const Fields& fields, const ExecuteOptions& options, bool for_gpu) {
  Built built;
  auto start = Clock::now();
  Kernel kernel = command::build(family, fields);
  built.build_milliseconds = milliseconds_since(start);
  built.waivers = kernel.builder().waivers();

  CompilerOptions compiler = options.compiler;
  compiler.assemble = options.assembler == Assembler::ptxas || options.assembler == Assembler::automatic;
  compiler.else_ptx = options.assembler == Assembler::automatic;
  const Compiler tools(compiler);
  built.compiled = tools.compile(std::move(kernel), !options.emit.empty());
  if (tools.ptxas())
    built.assembler = fmt::format("ptxas {}{}", to_string(tools.ptxas()->version()),
                                  built.compiled.assembled.from_cache ? ", cached" : "");
  else if (options.assembler == Assembler::driver || (options.assembler == Assembler::automatic && for_gpu))
    built.assembler = "the driver, when it loads";
  else
    built.assembler = tools.why_no_ptxas().empty()
                          ? "none"
                          : fmt::format("none, no cubin is made: {}", tools.why_no_ptxas());
  return built;
}

void print(const Built& b) {
  const Signature& s = b.compiled.signature;
  fmt::print("  build {:.1f} ms, PTX {:.1f} ms", b.build_milliseconds, b.compiled.milliseconds.ptx);
  if (s.registers)
    fmt::print(", cubin {:.1f} ms ({}): {} registers", b.compiled.milliseconds.cubin, b.assembler,
               *s.registers);
  else
    fmt::print("; assembler: {}", b.assembler);
  fmt::print(", {} threads, {} B shared\n", s.threads, s.dynamic_shared_bytes);
}

void print(const Verdict& v, uint64_t seed) {
  fmt::print("  {}: {} of {} elements checked, seed {}: max error {:.3g}, norm error {:.3g}\n",
             v.wrong == 0 ? "verified" : "WRONG", v.checked, v.count, seed, v.max_error, v.norm_error);
  if (v.wrong) fmt::print("  {} elements are wrong; the first: {}\n", v.wrong, v.first_wrong);
}

void print(const Timing& t) {
  fmt::print("  {} launches: median {:.1f} us (least {:.1f}, greatest {:.1f}), {}\n", t.microseconds.size(),
             t.median, t.least, t.greatest, t.rate());
}

Json to_json(const Built& b) {
  const Signature& s = b.compiled.signature;
  Json json = {{"build_ms", b.build_milliseconds},
               {"ptx_ms", b.compiled.milliseconds.ptx},
               {"cubin_ms", b.compiled.milliseconds.cubin},
               {"assembler", b.assembler},
               {"threads", s.threads},
               {"dynamic_shared_bytes", s.dynamic_shared_bytes}};
  if (s.registers) json["registers"] = *s.registers;
  return json;
}

Json to_json(const Verdict& v) {
  return {{"count", v.count},         {"checked", v.checked},       {"wrong", v.wrong},
          {"max_error", v.max_error}, {"norm_error", v.norm_error}, {"first_wrong", v.first_wrong}};
}

Json to_json(const Timing& t) {
  return {{"launches", t.microseconds.size()},
          {"median_us", t.median},
          {"least_us", t.least},
          {"greatest_us", t.greatest},
          {"tflops", t.flops / t.median * 1e-6},
          {"gbytes_per_s", t.bytes / t.median * 1e-3}};
}

// The emulator's own options, with how far a long launch is where a person waits for it.
runtime::EmulatorOptions emulator_options(const ExecuteOptions& options) {
  runtime::EmulatorOptions emulator = options.emulator;
  emulator.seed = options.run.seed;
  if (isatty(STDERR_FILENO) != 0)
    emulator.progress = [](uint64_t done, uint64_t all) {
      fmt::print(stderr, "\remulated {} of {} CTAs{}", done, all, done == all ? "\r\x1b[K" : "");
    };
  return emulator;
}

}  // namespace

Outcome execute(const Family& family, const Fields& fields, const ExecuteOptions& options) {
  bool runs = options.run.verify || options.run.bench;
  Json json = {{"kernel", family.name}, {"fields", Json::object()}};
  for (const Field& f : fields.all())
    json["fields"][f.name] = f.words.empty() ? Json(f.value) : Json(f.text());
  if (!options.json) fmt::print("{} {}\n", family.name, fields.text());

  std::unique_ptr<runtime::Device> device;
  if (runs) device = runtime::open_device(options.device, "sm_90a", emulator_options(options));
  auto* emulator = dynamic_cast<runtime::Emulator*>(device.get());
  Built built = build(family, fields, options, runs && !emulator);
  const Compiled& compiled = built.compiled;
  json["compile"] = to_json(built);
  if (!options.json) print(built);

  if (!options.emit.empty())
    for (const std::string& file : write_files(compiled, options.emit)) {
      json["files"].push_back(file);
      if (!options.json) fmt::print("  wrote {}\n", file);
    }

  Outcome outcome = Outcome::good;
  if (runs) {
    runtime::DeviceProperties p = device->properties();
    json["device"] = {{"name", p.name}, {"driver", p.driver}};
    if (!options.json) fmt::print("  device {}, {}\n", p.name, p.driver);
    auto start = Clock::now();
    runtime::LoadedKernel loaded(
        *device, device->wants_ptx() || compiled.cubin.empty() ? compiled.ptx : compiled.cubin,
        compiled.signature);
    json["load_ms"] = milliseconds_since(start);
    if (!loaded.log().empty()) {
      check_driver_log(built, loaded);
      if (!options.json)
        fmt::print("  the driver compiled it in {:.1f} ms: {} registers\n", json["load_ms"].get<double>(),
                   *compiled.signature.registers);
    }
    RunOptions run_options = options.run;
    if (emulator) run_options.choose_schedule = [emulator](uint64_t seed) { emulator->seed(seed); };
    Run run(*device, loaded, run_options);
    std::fflush(stdout);
    family.run(fields, run);
    if (options.run.verify && !run.verdict())
      throw Error(fmt::format("nothing was verified: the run() of '{}' does not call check()", family.name));
    json["seed"] = options.run.seed;
    if (emulator) {
      runtime::EmulatorStatistics counted = emulator->statistics();
      json["emulator"] = {{"launches", counted.launches}, {"warp_instructions", counted.warp_instructions}};
      if (!options.json)
        fmt::print("  {} launches on the emulator, {:.1f} million warp instructions\n", counted.launches,
                   static_cast<double>(counted.warp_instructions) * 1e-6);
    }
    if (run.verdict()) {
      json["verify"] = to_json(*run.verdict());
      if (!options.json) print(*run.verdict(), options.run.seed);
      if (run.verdict()->wrong) outcome = Outcome::wrong_result;
    }
    if (run.timing()) {
      json["bench"] = to_json(*run.timing());
      if (!options.json) print(*run.timing());
    }
  }
  if (options.json) fmt::print("{}\n", json.dump());
  return outcome;
}

}  // namespace ptxbuilder::command
