// `ptxb sim` runs any PTX file on the emulator.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "kernels/family/commands.h"
#include "kernels/family/outcome.h"
#include "kernels/family/time_limit.h"
#include "kernels/simulate/simulate.h"
#include "kernels/simulate/triton.h"
#include "ptxbuilder/file_text.h"
#include "ptxbuilder/sidecar.h"

namespace ptxbuilder::command::sim_command {

using Json = nlohmann::ordered_json;

struct Options {
  std::string ptx, launch;
  SimulateOptions simulate;
  std::optional<uint64_t> seed;
  double time_limit_seconds = 60;
  bool json = false;

  // Describes the schedules and inputs that a simulation has covered.
  std::string extent(const Simulation& s) const {
    const std::string buffers = fmt::format("buffers of seed {}", simulate.emulator.seed);
    if (!simulate.schedule.empty()) return fmt::format("schedule {}, {}", simulate.schedule, buffers);
    if (!simulate.explore)
      return fmt::format("{} schedules from seed {}", s.schedules, simulate.emulator.seed);
    return s.explored_all ? fmt::format("explored all {} schedules, {}", s.schedules, buffers)
                          : fmt::format("explored {} schedules, not all, {}", s.schedules, buffers);
  }
};

void print(const Simulation& s, const Options& o) {
  for (const SimulatedFault& f : s.faults) fmt::print(stderr, "error: {}: {}\n", o.ptx, f.report);
  if (!s.finished) {
    if (o.simulate.explore) fmt::print("{}: {}\n", s.entry, o.extent(s));
    return;
  }
  fmt::print("{}: {}, {} CTAs, {} warp instructions, {} asynchronous operations\n", s.entry, o.extent(s),
             s.statistics.ctas, s.statistics.warp_instructions, s.statistics.asynchronous_operations);
  for (const Simulation::Outcome& outcome : s.outcomes)
    fmt::print("  {} in {} schedules; the first: --schedule {}\n", outcome.printed, outcome.schedules,
               outcome.first);
  if (s.outcomes.empty())
    for (const auto& [buffer, elements] : s.printed) fmt::print("  {} = {}\n", buffer, elements);
  for (const std::string& file : s.written) fmt::print("  wrote {}\n", file);
  for (const BufferComparison& c : s.comparisons) {
    if (c.wrong == 0)
      fmt::print("  {}: all {} elements are right, max error {:.3g}\n", c.buffer, c.count, c.max_error);
    else
      fmt::print("  {}: WRONG, {} of {} elements; the first: {}\n", c.buffer, c.wrong, c.count,
                 c.first_wrong);
  }
}

Json to_json(const Simulation& s) {
  Json json = {{"schedules", s.schedules},
               {"ctas", s.statistics.ctas},
               {"warp_instructions", s.statistics.warp_instructions},
               {"asynchronous_operations", s.statistics.asynchronous_operations},
               {"printed", Json::array()},
               {"files", s.written},
               {"faults", Json::array()},
               {"comparisons", Json::array()}};
  for (const SimulatedFault& f : s.faults)
    json["faults"].push_back({{"kind", name(f.kind)}, {"ptx_line", f.ptx_line}, {"report", f.report}});
  for (const auto& [buffer, elements] : s.printed)
    json["printed"].push_back({{"buffer", buffer}, {"elements", elements}});
  for (const Simulation::Outcome& outcome : s.outcomes)
    json["outcomes"].push_back(
        {{"printed", outcome.printed}, {"schedules", outcome.schedules}, {"first", outcome.first}});
  for (const BufferComparison& c : s.comparisons)
    json["comparisons"].push_back({{"buffer", c.buffer},
                                   {"count", c.count},
                                   {"wrong", c.wrong},
                                   {"max_error", c.max_error},
                                   {"first_wrong", c.first_wrong}});
  return json;
}

std::string ptx_of(const std::string& path) {
  std::string text = file_text(path);
  if (text.starts_with("\x7f"
                       "ELF"))
    throw Error(
        fmt::format("{}: it is a cubin, which only GPUs run: pass the PTX that it was assembled from", path));
  return text;
}

int run(const Options& asked) {
  Options o = asked;
  const LaunchFile file = launch_from_json(file_text(o.launch), o.launch);
  SimulateOptions& options = o.simulate;
  if (std::filesystem::is_directory(o.ptx)) {
    TritonKernel triton = triton_kernel(o.ptx);
    o.ptx = triton.ptx.string();
    options.sidecar = [signature = triton.signature](const std::string&) { return signature; };
    options.scratch = std::move(triton.scratch);
  } else {
    const std::string name = std::filesystem::path(o.ptx).replace_extension().string();
    options.sidecar = [name](const std::string& kernel) { return find_sidecar(name, kernel); };
  }
  options.ptx_name = o.ptx;
  const std::string ptx = ptx_of(o.ptx);
  Json json = {{"ptx", o.ptx}, {"launch", o.launch}, {"seed", options.emulator.seed}};
  json["notes"] = Json::array();
  options.emulator.note = [&](const std::string& text) {
    json["notes"].push_back(text);
    if (!o.json) fmt::print("note: {}\n", text);
  };
  const Simulation s = simulate(ptx, file, options);
  json["entry"] = s.entry;
  json.update(to_json(s));
  if (options.explore) json["explored_all"] = s.explored_all;
  if (o.json)
    fmt::print("{}\n", json.dump());
  else
    print(s, o);
  return static_cast<int>(!s.faults.empty() ? Outcome::failed
                          : !s.right()      ? Outcome::wrong_result
                                            : Outcome::good);
}

Command add(const Arguments& ptxb) {
  const Arguments app =
      ptxb.command("sim", "run any PTX file on the emulator, with a launch that a JSON file describes");
  auto o = std::make_shared<Options>();
  app.option("file", o->ptx, "the PTX file, or a kernel's folder in Triton's cache")
      .required()
      .shown_as("FILE.ptx");
  app.option("--launch", o->launch, "the launch; its format is described below")
      .required()
      .shown_as("FILE.json");
  app.option("--seed", o->seed, "seed of the first schedule and of random buffers; random by default")
      .shown_as("N");
  const Option seeds =
      app.option("--seeds", o->simulate.schedules, "number of schedules that are run, each on fresh buffers")
          .from(1, 100000)
          .shown_as("N");
  const Option explore =
      app.option(
             "--explore", o->simulate.explore,
             "explore up to N schedules instead of those of seeds: all of them, if there are at most N / 2")
          .from(1, 10'000'000)
          .shown_as("N");
  const Option schedule =
      app.option("--schedule", o->simulate.schedule,
                 "run the schedule that --explore reported with this name")
          .check([](const std::string& name) { return name.empty() ? "a schedule was named" : ""; })
          .shown_as("NAME");
  const Option delay =
      app.option("--delay", o->simulate.emulator.delayed,
                 "lines of the PTX that are executed as late as possible, as lint --prove names them")
          .by_comma()
          .shown_as("LINE,...");
  app.option("--race-check", o->simulate.emulator.race_check, "on or off").shown_as("ON|OFF");
  const Option trace =
      app.option("--trace", o->simulate.emulator.trace_path, "where to write a Chrome trace of the launches")
          .shown_as("FILE");
  const Option threads =
      app.option("--threads", o->simulate.emulator.threads, "number of host threads that run CTAs")
          .from(1, 1024)
          .shown_as("N");
  schedule.excludes(explore);
  for (const Option* other : {&seeds, &delay, &trace, &threads})
    explore.excludes(*other), schedule.excludes(*other);
  add_time_limit(app, o->time_limit_seconds);
  app.flag("--json", o->json, "print one JSON object");
  app.footer(launch_file_help);
  return {app, [o] {
            o->simulate.emulator.seed = o->seed ? *o->seed : std::random_device()();
            o->simulate.time_limit = time_limit(o->time_limit_seconds);
            return run(*o);
          }};
}

const CommandRegistration registration(add);

}  // namespace ptxbuilder::command::sim_command
