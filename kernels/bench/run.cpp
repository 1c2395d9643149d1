#include "kernels/bench/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels/bench/chart.h"
#include "kernels/bench/report.h"
#include "kernels/measure/files.h"

namespace ptxbuilder::bench {
namespace {

using command::Outcome;

void write(const Options& options, const Benchmark& benchmark, const RunResult& run) {
  if (!options.json.empty()) write_file(options.json, json(run));
  if (!options.markdown.empty()) write_file(options.markdown, markdown(run));
  if (!options.svg.empty()) write_file(options.svg, svg(charts(run)));
  benchmark.write_more(run);
}

Outcome list(const Options& options) {
  double weight = 0;
  for (const Case& c : options.cases) {
    fmt::print("{:14} {:20} {:24} weight {:g}{}\n", c.group, size_text(c.problem), type_text(c.problem),
               c.weight, c.warm ? ", warm" : "");
    weight += c.weight;
  }
  fmt::print("{} shapes of weight {:g}\n", options.cases.size(), weight);
  return Outcome::good;
}

// Returns the contenders in `names` and those that were requested with a specific option. If `names` is
// empty, returns all contenders except the steps.
Contenders chosen(Contenders all, const std::vector<std::string>& names) {
  auto wanted = [&](size_t i) {
    if (names.empty()) return !all[i]->is_step();
    const bool asked_for = !all[i]->is_step() && !all[i]->is_usual();
    return asked_for || names[0] == "all" ||
           std::find(names.begin(), names.end(), all[i]->name()) != names.end();
  };
  std::string known;
  for (const auto& c : all) {
    known += known.empty() ? "" : ", ";
    known += c->name();
  }
  for (const std::string& name : names) {
    auto is = [&](const auto& c) { return c->name() == name; };
    if (name != "all" && std::none_of(all.begin(), all.end(), is))
      throw UsageError(fmt::format("no contender is named '{}'; the contenders are {}, or all", name, known));
  }
  Contenders kept;
  for (size_t i = 0; i < all.size(); ++i)
    if (wanted(i)) kept.push_back(std::move(all[i]));
  return kept;
}

std::unique_ptr<Nvml> open_nvml(const Gpu& gpu) {
  try {
    return std::make_unique<Nvml>(gpu.pci_bus_id());
  } catch (const Error& e) {
    fmt::print(stderr, "left out: clock, power and temperature ({})\n", e.what());
    return nullptr;
  }
}

std::vector<std::string> method_text(const Options& o, const Benchmark& benchmark, const Gpu& gpu) {
  const char* peers =
      o.peers.empty() ? ""
                      : " Peers in other processes time themselves in the same way, on the same matrices.";
  return {
      fmt::format("{} of seed {}; the same matrices for all contenders, in rotating sets of three times the "
                  "{:.0f} MB of L2 at least.",
                  benchmark.inputs, o.method.seed, static_cast<double>(gpu.l2_bytes()) * 1e-6),
      fmt::format("Each round runs every contender once, in random order: {} rounds, bursts of at least {:g} "
                  "ms and {} launches, replayed as CUDA graphs between two events.",
                  o.method.rounds, o.method.burst_milliseconds, o.method.least_launches) +
          peers,
      fmt::format("sustained: after {:g} s of warm-up, without a pause. cool: a pause of {:g} ms and an "
                  "overwritten L2 before each burst.",
                  o.method.warm_up_seconds, o.method.rest_milliseconds),
      (benchmark.against_peers ? "The reference is the fastest peer of each shape. " : std::string()) +
          "ratio: the reference's time divided by the contender's, median over the rounds; above 1 the "
          "contender is faster. The interval is that of 2000 bootstrap resamples. win: it is above 1.01; "
          "tie: within 2 %; open: above 1.02, but not for sure.",
      fmt::format("Every result is checked, {}; wrong ones are not timed.", benchmark.checks)};
}

RunResult describe(const Options& options, const Benchmark& benchmark, const Gpu& gpu, const Nvml* nvml) {
  RunResult run;
  run.title = benchmark.title;
  const runtime::DeviceProperties p = gpu.device().properties();
  run.multiprocessors = p.multiprocessors;
  run.environment["device"] = fmt::format("{}, {} SMs", p.name, p.multiprocessors);
  run.environment["driver"] = p.driver;
  run.environment["date"] = fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)));
  run.environment["seed"] = fmt::format("{}", options.method.seed);
  if (nvml) {
    if (const std::string version = nvml->driver_version(); !version.empty())
      run.environment["driver"] += ", " + version;
    if (const double watts = nvml->power_limit_watts(); watts > 0)
      run.environment["power limit"] = fmt::format("{:.0f} W", watts);
  }
  run.method = method_text(options, benchmark, gpu);
  return run;
}

// Measures one shape after another until the time limit is reached. After each shape, writes the results
// obtained so far.
bool measure(const Options& options, const Benchmark& benchmark, Method& method, const Contenders& contenders,
             RunResult& run) {
  const auto start = Clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const double limit = options.time_limit_seconds > 0 ? options.time_limit_seconds : 1e9;
  const auto deadline =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit));
  const std::vector<Case>& cases = options.cases;
  const std::string compared_with = benchmark.against_peers ? contenders.front()->name() : run.reference;
  for (const Case& one : cases)
    for (const auto& contender : contenders) contender->announce(one.problem);
  bool right = true;
  for (size_t i = 0; i < cases.size(); ++i) {
    const double each = i > 0 ? seconds() / static_cast<double>(i) : 0;
    if (seconds() + 0.5 * each > limit) {
      run.not_run.push_back(size_text(cases[i].problem));
      continue;
    }
    for (ShapeResult& result :
         method.measure(cases[i], options.regimes, contenders, compared_with, deadline)) {
      for (size_t c = 0; c < result.entries.size(); ++c) {
        result.entries[c].ours = !contenders[c]->is_peer();
        result.entries[c].step = contenders[c]->is_step();
        right = right && result.entries[c].wrong.empty();
      }
      fmt::print("{}", progress_lines(result, reference_of(run, result)));
      run.results.push_back(std::move(result));
    }
    const double left = seconds() / static_cast<double>(i + 1) * static_cast<double>(cases.size() - i - 1);
    fmt::print(stderr, "[{} of {}] {:.0f} s, about {:.0f} s left\n", i + 1, cases.size(), seconds(),
               std::min(left, std::max(0.0, limit - seconds())));
    std::fflush(stdout);
    write(options, benchmark, run);
  }
  write(options, benchmark, run);
  return right;
}

}  // namespace

Outcome run(const Options& options, const Benchmark& benchmark) {
  if (options.list) return list(options);
  const Gpu gpu;
  Contenders all = benchmark.ours(gpu);
  std::map<std::string, std::string> versions;
  for (const PeerCommand& command : options.peers) {
    auto peer = std::make_unique<Peer>(gpu, command, options.peer_limit_seconds);
    if (!peer->version().empty()) versions[command.name] = peer->version();
    all.push_back(std::move(peer));
  }
  std::string reference = benchmark.against_peers ? kFastestPeer : "";
  if (benchmark.reference) {
    all.push_back(benchmark.reference(gpu, versions));
    reference = all.back()->name();
  }
  const std::unique_ptr<Nvml> nvml = open_nvml(gpu);
  RunResult result = describe(options, benchmark, gpu, nvml.get());
  result.environment.merge(versions);
  const Contenders contenders = chosen(std::move(all), options.contenders);
  const bool takes_part = !contenders.empty() && contenders.back()->name() == reference;
  if (benchmark.against_peers || takes_part) result.reference = reference;
  Method method(gpu, nvml.get(), options.method);
  const bool right = measure(options, benchmark, method, contenders, result);
  fmt::print("\n{}", markdown(result));
  if (const std::string why = absence_of_reference(result); !why.empty())
    throw Error(
        fmt::format("{} was measured on no shape, so that nothing scores: {}", result.reference, why));
  return right ? Outcome::good : Outcome::wrong_result;
}

}  // namespace ptxbuilder::bench
