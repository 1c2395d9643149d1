#include "kernels/family/execute.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/family/assembling.h"
#include "ptxbuilder/compile/nvdisasm.h"
#include "ptxbuilder/tile/check.h"
#include "ptxbuilder/tile/jitter.h"
#include "ptxbuilder/tile/watchdog.h"
#include "runtime/compile/load.h"
#include "runtime/perfetto.h"
#include "runtime/profile_svg.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Checks the messages that the driver printed when it compiled the PTX, like those of ptxas.
void check_driver_log(Built& built, const runtime::LoadedKernel& loaded) {
  Compiled& c = built.compiled;
  Notes notes = parse_notes(loaded.log(), c.ptx);
  check(notes, built.waivers);
  c.signature.registers = notes.registers();
}

std::string assembler_in_words(const Compiler& tools, const Compiled& compiled, const ExecuteOptions& options,
                               bool for_gpu) {
  if (tools.ptxas())
    return fmt::format("ptxas {}{}", to_string(tools.ptxas()->version()),
                       compiled.assembled.from_cache ? ", cached" : "");
  if (options.assembler == Assembler::driver || (options.assembler == Assembler::automatic && for_gpu))
    return "the driver, when it loads";
  return tools.why_no_ptxas().empty() ? "none"
                                      : fmt::format("none, so there is no cubin: {}", tools.why_no_ptxas());
}

// Returns a copy of the kernel with the PTX of options.ptx_file instead of its own.
Built edited(const Built& original, const Compiler& tools, const ExecuteOptions& options, bool for_gpu) {
  Built built;
  built.waivers = original.waivers;
  built.compiled = replaced(tools, original.compiled, options.ptx_file, built.waivers);
  tell_cache_problem(built.compiled.assembled);
  tell_defects(built.compiled.assembled);
  built.assembler = assembler_in_words(tools, built.compiled, options, for_gpu);
  return built;
}

// Prints a description of the kernel; `before` describes the steps before the assembler.
void print(const Built& b, const std::string& before) {
  const Signature& s = b.compiled.signature;
  fmt::print("  {}", before);
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
  for (const PossibleDefect& d : b.compiled.assembled.defects)
    json["defects"].push_back({{"name", d.defect.name}, {"text", d.text()}});
  return json;
}

Json to_json(const Verdict& v) {
  return {{"count", v.count},
          {"checked", v.checked},
          {"wrong", v.wrong},
          {"max_error", v.max_error},
          {"norm_error", v.norm_error},
          {"first_wrong", v.first_wrong},
          {"bits", v.bits}};
}

Json to_json(const Timing& t) {
  return {{"launches", t.microseconds.size()},
          {"median_us", t.median},
          {"least_us", t.least},
          {"greatest_us", t.greatest},
          {"tflops", t.flops / t.median * 1e-6},
          {"gbytes_per_s", t.bytes / t.median * 1e-3}};
}

Json to_json(const runtime::Profile& p, const std::string& file) {
  Json rows = Json::array();
  for (const runtime::Profile::Row& row : p.rows())
    rows.push_back({{"role", row.role},
                    {"region", row.region},
                    {"count", row.count},
                    {"total_ns", row.total},
                    {"share", row.share},
                    {"p50_ns", row.p50},
                    {"p95_ns", row.p95}});
  return {{"file", file},
          {"time_ns", p.time},
          {"warps", p.tracks.size()},
          {"events", p.recorded},
          {"lost", p.lost},
          {"unfinished_warps", p.unfinished},
          {"event_ns", p.event_cost},
          {"clock_ns", p.clock_period},
          {"rows", rows}};
}

// The number of records per warp that fit into the memory of a profile's first run, unless the options set a
// number.
constexpr uint32_t kFirstProfileRecords = 512;

// Throws Error if the profile's file cannot be written. Must be called before anything runs, so that no time
// is lost if it throws.
void check_profile(const ExecuteOptions& options, bool runs) {
  if (options.profile.empty()) return;
  if (!runs) throw Error("a profile needs a run: pass --verify or --bench with --profile");
  if (!std::ofstream(options.profile, std::ios::binary | std::ios::app))
    throw Error(fmt::format("{}: cannot be written", options.profile));
}

// Writes and prints the profile of the last launch, and returns 0. If records were lost and the options do
// not set a number of records, returns the number that another run needs instead.
uint32_t tell_profile(const Run& run, const ExecuteOptions& options, Json& json) {
  if (options.profile.empty()) return 0;
  const runtime::Profile profile = run.profile();
  if (!options.profile_records && profile.wanted > profile.room) {
    if (!options.json)
      fmt::print(
          "  a warp had room for {} records of events, but needs more: running again, with room for {}\n",
          profile.room, profile.wanted);
    return profile.wanted;
  }
  std::ofstream file(options.profile, std::ios::binary);
  const bool is_picture = std::filesystem::path(options.profile).extension() == ".svg";
  file << (is_picture ? runtime::profile_svg(profile) : runtime::perfetto_trace(profile));
  if (!file.flush()) throw Error(fmt::format("{}: cannot be written", options.profile));
  json["profile"] = to_json(profile, options.profile);
  if (options.json) return 0;
  fmt::print("  wrote {}{}\n{}", options.profile, is_picture ? "" : ", for ui.perfetto.dev",
             profile.summary());
  if (profile.lost) fmt::print("--profile-records N gives a warp room for more records\n");
  return 0;
}

std::string sass_of(const Built& built, const ExecuteOptions& options) {
  if (built.compiled.cubin.empty())
    throw Error(fmt::format("SASS needs a cubin, but there is none: assembler {}", built.assembler));
  return Nvdisasm(PtxasSearch::from_environment(options.nvdisasm)).disassemble(built.compiled.cubin);
}

void print_sass(const Family& family, const Fields& fields, const ExecuteOptions& options) {
  const Built built = build(family, fields, Compiler(compiler_options(options)), options, false);
  const std::string sass = sass_of(built, options);
  fmt::print("{}", options.json
                       ? Json{{"kernel", built.compiled.signature.kernel}, {"sass", sass}}.dump() + "\n"
                       : sass);
}

std::string write_sass(const Built& built, const ExecuteOptions& options) {
  const std::string path =
      (std::filesystem::path(options.emit) / (built.compiled.signature.kernel + ".sass")).string();
  const std::string sass = sass_of(built, options);
  std::ofstream file(path, std::ios::binary);
  file << sass;
  if (!file.flush()) throw Error(fmt::format("{}: cannot be written", path));
  return path;
}

// Prints the paths of the files with the kernel's stages.
void tell_kept(const KeptStages& kept, const ExecuteOptions& options, Json& json) {
  for (const std::string& file : kept.files) json["kept"].push_back(file);
  for (const std::string& missing : kept.missing) json["not_kept"].push_back(missing);
  if (options.json) return;
  for (const std::string& file : kept.files) fmt::print("  kept {}\n", file);
  for (const std::string& missing : kept.missing) fmt::print("  not kept: {}\n", missing);
}

// The results of one run.
struct Ran {
  std::optional<Verdict> verdict;
  std::optional<Timing> timing;
  uint32_t wanted_records = 0;  // the number of records that another run needs for its profile; 0: none is
                                // needed
};

// Loads and runs a kernel that has been built, prints the results, and adds them to `json`.
Ran run_built(Built& built, runtime::Device& device, const Family& family, const Fields& fields,
              const ExecuteOptions& options, Json& json) {
  const Compiled& compiled = built.compiled;
  auto* emulator = dynamic_cast<runtime::Emulator*>(&device);
  auto start = Clock::now();
  runtime::LoadedKernel loaded = load(built, device);
  json["load_ms"] = milliseconds_since(start);
  if (!loaded.log().empty() && !options.json)
    fmt::print("  the driver compiled it in {:.1f} ms: {} registers\n", json["load_ms"].get<double>(),
               *compiled.signature.registers);
  loaded.on_print([&](const std::string& line) {
    if (options.json)
      json["printed"].push_back(line);
    else
      fmt::print("  {}\n", line);
  });
  RunOptions run_options = options.run;
  if (emulator) run_options.choose_schedule = [emulator](uint64_t seed) { emulator->seed(seed); };
  const runtime::EmulatorStatistics before =
      emulator ? emulator->statistics() : runtime::EmulatorStatistics{};
  Run run(device, loaded, run_options);
  std::fflush(stdout);
  run_family(family, fields, run, options.run.verify);
  json["seed"] = options.run.seed;
  if (emulator) {
    const runtime::EmulatorStatistics all = emulator->statistics();
    const uint64_t launches = all.launches - before.launches,
                   instructions = all.warp_instructions - before.warp_instructions;
    json["emulator"] = {{"launches", launches}, {"warp_instructions", instructions}};
    if (!options.json)
      fmt::print("  {} launches on the emulator, {:.1f} million warp instructions\n", launches,
                 static_cast<double>(instructions) * 1e-6);
  }
  if (run.verdict()) {
    json["verify"] = to_json(*run.verdict());
    if (!options.json) print(*run.verdict(), options.run.seed);
  }
  if (run.timing()) {
    json["bench"] = to_json(*run.timing());
    if (!options.json) print(*run.timing());
  }
  const uint32_t wanted = tell_profile(run, options, json);
  return {run.verdict(), run.timing(), wanted};
}

Outcome outcome_of(const Ran& ran) {
  return ran.verdict && ran.verdict->wrong ? Outcome::wrong_result : Outcome::good;
}

// Runs the PTX of the file, and prints how its code and its results differ from those of the kernel.
Outcome run_edited(Built built, const Built& original, const Ran& of_original, runtime::Device* device,
                   const Family& family, const Fields& fields, const ExecuteOptions& options, Json& json) {
  const std::string& kernel = original.compiled.signature.kernel;
  const EditedDifference difference =
      options.compare(kernel, original.compiled.ptx, built.compiled.ptx, options.ptx_file);
  json = {{"file", options.ptx_file}};
  json.update(Json::parse(difference.json));
  json["compile"] = to_json(built);
  if (!options.json) {
    fmt::print("instead of it, {} (B; the kernel is A)\n{}", options.ptx_file, difference.text);
    print(built, "edited PTX");
  }
  if (!device) return Outcome::good;
  const Ran ran = run_built(built, *device, family, fields, options, json);
  if (ran.timing) {
    json["speedup"] = of_original.timing->median / ran.timing->median;
    if (!options.json) fmt::print("  {:.3f} times as fast as the kernel\n", json["speedup"].get<double>());
  }
  return outcome_of(ran);
}

// Executes everything that was requested on the emulator except measuring times, and then throws the error
// that times cannot be measured.
Outcome execute_untimed(const Family& family, const Fields& fields, ExecuteOptions options) {
  options.run.bench = false;
  if (options.run.verify || !options.emit.empty())
    if (const Outcome outcome = execute(family, fields, options); outcome != Outcome::good) return outcome;
  refuse_times();
}

}  // namespace

CompilerOptions compiler_options(const ExecuteOptions& options) {
  CompilerOptions compiler = options.compiler;
  compiler.assemble = options.assembler == Assembler::ptxas || options.assembler == Assembler::automatic;
  compiler.else_ptx = options.assembler == Assembler::automatic;
  if (compiler.nvdisasm.empty()) compiler.nvdisasm = options.nvdisasm;
  return compiler;
}

// Returns the emulator's options. If the program is used interactively, they make long launches report their
// progress.
runtime::EmulatorOptions emulator_options(const ExecuteOptions& options) {
  runtime::EmulatorOptions emulator = options.emulator;
  emulator.seed = options.run.seed;
  if (isatty(STDERR_FILENO) != 0)
    emulator.progress = [](uint64_t done, uint64_t all) {
      fmt::print(stderr, "\remulated {} of {} CTAs{}", done, all, done == all ? "\r\x1b[K" : "");
    };
  return emulator;
}

Built build(const Family& family, const Fields& fields, const Compiler& tools, const ExecuteOptions& options,
            bool for_gpu) {
  Built built;
  auto start = Clock::now();
  std::optional<ProfileScope> profiled;
  if (!options.profile.empty())
    profiled.emplace(
        options.profile_records.value_or(kFirstProfileRecords),
        options.profile_all ? ProfileScope::Detail::instructions : ProfileScope::Detail::regions);
  std::optional<WatchdogScope> watched;
  if (options.watchdog) watched.emplace(options.watchdog);
  std::optional<ChecksScope> checked;
  if (options.checks) checked.emplace();
  std::optional<JitterScope> shaken;
  if (options.jitter) shaken.emplace(*options.jitter);
  Kernel kernel = command::build(family, fields);
  for (const std::string& advisory : options.waived) kernel.waive(advisory, Where{});
  built.build_milliseconds = milliseconds_since(start);
  built.waivers = kernel.builder().waivers();
  try {
    built.compiled = tools.compile(std::move(kernel), !options.emit.empty(), Where{});
  } catch (const Error&) {
    if (!options.compiler.keep.empty())
      fmt::print(stderr, "note: the stages before the error are in {}\n", options.compiler.keep);
    throw;
  }
  tell_cache_problem(built.compiled.assembled);
  tell_defects(built.compiled.assembled);
  built.assembler = assembler_in_words(tools, built.compiled, options, for_gpu);
  return built;
}

runtime::LoadedKernel load(Built& built, runtime::Device& device) {
  const Compiled& compiled = built.compiled;
  runtime::LoadedKernel loaded(device,
                               device.wants_ptx() || compiled.cubin.empty() ? compiled.ptx : compiled.cubin,
                               compiled.signature, Where{});
  if (!loaded.log().empty()) check_driver_log(built, loaded);
  return loaded;
}

void run_family(const Family& family, const Fields& fields, Run& run, bool verify) {
  if (!family.run)
    throw Error(
        fmt::format("the kernel '{}' has no run(), which would launch and check it: give its Registration "
                    "one, or write the kernel's files with --emit DIR",
                    family.name));
  family.run(fields, run);
  if (verify && !run.verdict())
    throw Error(fmt::format("nothing was verified: the run() of '{}' does not call check()", family.name));
}

void refuse_times() {
  throw Error(
      "times need a GPU, but this device is the emulator: use a GPU (--device cuda says what is missing), or "
      "leave the benchmark out");
}

Outcome execute(const Family& family, const Fields& fields, const ExecuteOptions& options) {
  if (options.sass && options.emit.empty()) {
    print_sass(family, fields, options);
    return Outcome::good;
  }
  const bool runs = options.run.verify || options.run.bench;
  check_profile(options, runs);
  std::vector<std::string> notes;  // notes from the emulator, which may explain a wrong result
  std::unique_ptr<runtime::Device> device;
  runtime::EmulatorOptions emulator = emulator_options(options);
  if (!emulator.note) emulator.note = [&notes](const std::string& note) { notes.push_back(note); };
  if (runs) device = runtime::open_device(options.device, "sm_90a", emulator, Where{});
  const bool for_gpu = runs && !dynamic_cast<runtime::Emulator*>(device.get());
  if (options.run.bench && !for_gpu) return execute_untimed(family, fields, options);
  Json json = {{"kernel", family.name}, {"fields", Json::object()}};
  for (const Field& f : fields.all())
    json["fields"][f.name] = f.words.empty() ? Json(f.value) : Json(f.text());
  if (!options.json) fmt::print("{} {}\n", family.name, fields.text());

  const Compiler tools(compiler_options(options));
  Built built = build(family, fields, tools, options, for_gpu);
  json["compile"] = to_json(built);
  if (!options.json)
    print(built, fmt::format("build {:.1f} ms, PTX {:.1f} ms", built.build_milliseconds,
                             built.compiled.milliseconds.ptx));

  if (!options.emit.empty()) {
    std::vector<std::string> files = write_files(built.compiled, options.emit);
    if (options.sass) files.push_back(write_sass(built, options));
    for (const std::string& file : files) {
      json["files"].push_back(file);
      if (!options.json) fmt::print("  wrote {}\n", file);
    }
  }
  tell_kept(built.compiled.kept, options, json);
  // The file is read before anything runs, so that no time is lost if it is not suitable.
  std::optional<Built> other;
  if (!options.ptx_file.empty()) {
    other = edited(built, tools, options, for_gpu);
    tell_kept(other->compiled.kept, options, json);
  }

  Ran ran;
  if (runs) {
    runtime::DeviceProperties p = device->properties();
    json["device"] = {{"name", p.name}, {"driver", p.driver}};
    if (!options.json) fmt::print("  device {}, {}\n", p.name, p.driver);
    ran = run_built(built, *device, family, fields, options, json);
    if (ran.wanted_records) {
      ExecuteOptions again = options;
      again.profile_records = ran.wanted_records;
      built = build(family, fields, tools, again, for_gpu);
      json["compile"] = to_json(built);
      json.erase("printed");
      ran = run_built(built, *device, family, fields, again, json);
    }
    if (outcome_of(ran) == Outcome::wrong_result && !notes.empty()) {
      json["notes"] = notes;
      for (const std::string& note : notes)
        if (!options.json) fmt::print("  the emulator notes: {}\n", note);
    }
  }
  const Outcome outcome =
      other ? run_edited(*std::move(other), built, ran, device.get(), family, fields, options, json["edited"])
            : outcome_of(ran);
  if (options.json) fmt::print("{}\n", json.dump());
  return outcome;
}

}  // namespace ptxbuilder::command
