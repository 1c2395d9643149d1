#include "kernels/family/run_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <random>

#include "kernels/family/assembling.h"
#include "kernels/family/field_options.h"
#include "kernels/family/time_limit.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;

// Prints one line for each field.
void print_fields(const Family& family) {
  for (const Field& f : family.fields) {
    const std::string legal =
        f.words.empty() ? std::string() : fmt::format(", one of {}", fmt::join(f.words, " "));
    const std::string multiple = f.multiple == 1 ? "" : fmt::format(", a multiple of {}", f.multiple);
    fmt::print("  --{:18} {} (default {}{}{})\n", f.name, f.help, f.text(), legal, multiple);
  }
}

}  // namespace

void add_compile_options(const Arguments& app, RunWords& words) {
  auto number = [](Assembler a) { return static_cast<int64_t>(a); };
  app.choice("--assembler", words.assembler,
             {{"auto", number(Assembler::automatic)},
              {"ptxas", number(Assembler::ptxas)},
              {"driver", number(Assembler::driver)},
              {"none", number(Assembler::none)}},
             "PTX to cubin: auto, ptxas, driver (its JIT), none")
      .shown_as("NAME");
  app.option("--ptxas", words.options.compiler.ptxas,
             "the ptxas to use; by default the one in PATH, CUDA_PATH or /usr/local")
      .shown_as("FILE");
  app.flag("--no-cache", words.no_cache, "compile again, and do not use the cache");
  app.option("--cache-dir", words.options.compiler.cache_options.directory, "where PTX and cubins are kept")
      .shown_as("DIR");
  app.option("--cache-limit", words.cache_megabytes, "the limit of the cache, in MiB")
      .from(int64_t{0}, int64_t{1} << 40)
      .shown_as("MIB");
  add_waive(app, words.options.waived);
  app.flag("--json", words.options.json, "print one JSON object");
}

void add_device_options(const Arguments& app, RunWords& words) {
  app.option("--device", words.options.device, "cuda, emulator, or auto: a GPU if there is one")
      .shown_as("NAME");
  app.option("--seed", words.seed, "seed of the random inputs; random unless given").shown_as("N");
  app.option("--seeds", words.options.run.schedules, "number of schedules that the emulator verifies")
      .from(1, 100000)
      .shown_as("N");
  app.option("--race-check", words.options.emulator.race_check, "on or off, on the emulator")
      .shown_as("ON|OFF");
  app.option("--launches", words.options.run.launches, "number of launches that are timed")
      .from(1, 100000)
      .shown_as("N");
  add_time_limit(app, words.time_limit_seconds);
}

void add_run_options(const Arguments& app, RunWords& words) {
  add_device_options(app, words);
  app.option("--trace", words.options.emulator.trace_path,
             "where to write a Chrome trace of the emulator's launches")
      .shown_as("FILE");
  app.number_flag(
         "--watchdog", words.options.watchdog, 1000,
         "report who waits for what if a wait of the kernel takes longer than MS milliseconds: --watchdog=MS")
      .from(1, report_format::kMostMilliseconds);
  app.flag("--checks", words.options.checks, "let the kernel's check() and print() report what they find");
  app.option("--jitter", words.options.jitter, "add short sleeps where the kernel's threads synchronize")
      .shown_as("SEED");
  const Option profile = app.option("--profile", words.options.profile,
                                    "time the kernel's regions with the GPU's clock, warp by warp: a "
                                    "summary, and a trace for Perfetto, or a picture if FILE ends in .svg")
                             .shown_as("FILE");
  app.option("--profile-records", words.options.profile_records,
             "number of records that a warp has room for; each has 16 bytes and three or four times of "
             "events. By default the number that a first run needs")
      .from(profile_format::kLeastRecords, profile_format::kMostRecords)
      .shown_as("N");
  app.flag(
         "--profile-all", words.options.profile_all,
         "also make each wait, bulk copy and group of products a region that is named after its instruction")
      .needs(profile);
  if (words.options.compare == nullptr) return;
  app.option("--ptx", words.options.ptx_file,
             "PTX that was edited by hand; it runs instead of the kernel, and is compared with it")
      .shown_as("FILE")
      .excludes(profile);
}

void add_emit_option(const Arguments& app, RunWords& words) {
  app.option("-o,--emit", words.options.emit, "the folder for the files").shown_as("DIR");
}

void add_keep_option(const Arguments& app, RunWords& words) {
  app.option("--keep", words.options.compiler.keep,
             "a folder for every stage: LLVM IR before and after its passes (NAME.ll, NAME.lowered.ll), PTX, "
             "cubin, SASS, ptxas' log")
      .shown_as("DIR");
}

void add_nvdisasm_option(const Arguments& app, RunWords& words) {
  app.option("--nvdisasm", words.options.nvdisasm,
             "the disassembler; by default the one in PATH, CUDA_PATH, /usr/local or Python's packages")
      .shown_as("FILE");
}

void settle(RunWords& words) {
  words.options.assembler = static_cast<Assembler>(words.assembler);
  words.options.compiler.cache = !words.no_cache;
  words.options.compiler.cache_options.limit_bytes = words.cache_megabytes << 20;
  words.options.run.seed = words.seed ? *words.seed : std::random_device()();
  words.options.run.time_limit = time_limit(words.time_limit_seconds);
  words.options.run.verify = words.verify;
  words.options.run.bench = words.bench;
}

int list_kernels(bool json, bool with_fields) {
  Json all = Json::array();
  for (const Family& f : families()) {
    Json fields = Json::array();
    for (const Field& field : f.fields)
      fields.push_back({{"name", field.name},
                        {"default", field.text()},
                        {"help", field.help},
                        {"multiple", field.multiple}});
    all.push_back({{"name", f.name}, {"summary", f.summary}, {"fields", fields}});
    if (json) continue;
    fmt::print("{:22} {}\n", f.name, f.summary);
    if (with_fields) print_fields(f);
  }
  if (json) fmt::print("{}\n", all.dump(2));
  return 0;
}

int run_line(const Family& family, const std::string& footer, const Beside& beside,
             const std::vector<std::string>& words) {
  const auto main = [&] {
    RunWords parsed;
    parsed.options.compare = beside.compare;
    bool lists = false, proves = false;
    const CommandLine line(family.summary, family.name);
    const Arguments app = line.arguments();
    add_fields(app, family, parsed.fields);
    app.flag("--verify", parsed.verify, "compare with a float64 reference on random data; the default");
    app.flag("--bench", parsed.bench, "time launches with events");
    app.option("--emit", parsed.options.emit, "write PTX, cubin, LLVM IR and sidecar there").shown_as("DIR");
    add_keep_option(app, parsed);
    if (beside.prove) app.flag("--prove", proves, what_prove_does);
    app.flag("--list", lists, "print the name and the fields with their defaults");
    app.footer(footer);
    add_run_options(app, parsed);
    add_compile_options(app, parsed);
    line.parse(words);
    if (!parsed.bench && parsed.options.emit.empty()) parsed.verify = true;
    settle(parsed);
    if (lists) return list_kernels(parsed.options.json, true);
    if (proves) return beside.prove(family, chosen_fields(app, family, parsed.fields), parsed.options.json);
    return static_cast<int>(execute(family, chosen_fields(app, family, parsed.fields), parsed.options));
  };
  return guarded(main, true);
}

}  // namespace ptxbuilder::command
