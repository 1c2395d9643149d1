#include "kernels/tune/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernels/family/command_line.h"
#include "kernels/measure/rounds.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostTrials = 4096;
constexpr int kWarmUp = 2;  // launches that precede the timed launches in a round

// A field and the values to try.
struct Tried {
  std::string name;
  std::vector<std::string> values;
};

Tried tried_field(const std::string& words) {
  const size_t equals = words.find('=');
  Tried tried = {words.substr(0, equals), {}};
  for (size_t from = equals; from != std::string::npos;) {
    const size_t end = words.find(',', from + 1);
    tried.values.push_back(words.substr(from + 1, end == std::string::npos ? end : end - from - 1));
    from = end;
  }
  if (tried.values.empty() || std::count(tried.values.begin(), tried.values.end(), "") > 0)
    throw UsageError(
        fmt::format("--field '{}': it must be a field and its values, such as bm=64,128", words));
  return tried;
}

std::vector<Tried> tried_fields(const std::vector<std::string>& words,
                                const std::vector<std::string>& given) {
  std::vector<Tried> all;
  for (const std::string& w : words) {
    all.push_back(tried_field(w));
    const std::string& name = all.back().name;
    if (std::count_if(all.begin(), all.end(), [&](const Tried& t) { return t.name == name; }) > 1)
      throw UsageError(fmt::format("--field {}: it is named twice; give all its values at once", name));
    if (std::count(given.begin(), given.end(), name) > 0)
      throw UsageError(
          fmt::format("--field {} and --{}: pass either the values to try or a fixed value", name, name));
  }
  return all;
}

// Runs `body`, and records an exception in the trial so that the other trials continue. A TimeoutError is
// passed on, because a kernel that hangs makes the GPU unusable.
template <class Body>
void attempt(Trial& trial, const Body& body) try {
  body();
} catch (const runtime::TimeoutError&) {
  throw;
} catch (const std::exception& e) {  // includes exceptions that the kernel's code throws
  trial.problem = e.what();
}

void build_all(const Family& family, std::vector<Trial>& all, const ExecuteOptions& options, bool for_gpu) {
  const Compiler tools(compiler_options(options));
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (size_t i; (i = next++) < all.size();)
        attempt(all[i], [&] {
          all[i].built = std::make_unique<Built>(build(family, all[i].fields, tools, options, for_gpu));
        });
    });
}

void verify(const Family& family, Trial& trial, runtime::Device& device, const RunOptions& options) {
  trial.loaded = std::make_unique<runtime::LoadedKernel>(load(*trial.built, device));
  trial.run = std::make_unique<Run>(device, *trial.loaded, options);
  run_family(family, trial.fields, *trial.run, true);
  const Verdict& verdict = *trial.run->verdict();
  if (verdict.wrong == 0) return;
  trial.wrong = true;
  trial.problem =
      fmt::format("WRONG: {} of {} elements; {}", verdict.wrong, verdict.checked, verdict.first_wrong);
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

std::vector<double> medians(const Trial& trial) {
  std::vector<double> all;
  for (const Timing& round : trial.rounds) all.push_back(round.median);
  return all;
}

std::string rate(const Trial& trial) {
  Timing timing = trial.rounds.front();
  timing.median = trial.median();
  return timing.rate();
}

// Returns the options that set the fields that differ from the family's defaults, such as "--bm 64 --stages
// 2".
std::string options_of(const Family& family, const Fields& fields) {
  std::string words;
  for (size_t i = 0; i < family.fields.size(); ++i)
    if (const Field& f = fields.all()[i]; f.value != family.fields[i].value)
      words += fmt::format(" --{} {}", f.name, f.text());
  return words;
}

std::string number_or_dash(const std::optional<uint32_t>& number) {
  return number ? std::to_string(*number) : "-";
}

void print(const std::vector<Trial>& all) {
  size_t width = 6;
  for (const Trial& trial : all) width = std::max(width, trial.values.size());
  fmt::print("  {:<{}}{:>10}{:>18}{:>15}{:>11}{:>9}{:>10}\n", "fields", width, "us", "half lie in", "rate",
             "registers", "spills B", "shared B");
  for (const Trial& trial : all) {
    fmt::print("{} {:<{}}", trial.is_default ? '*' : ' ', trial.values, width);
    if (!trial.problem.empty()) {
      fmt::print("  {}\n", trial.problem.substr(0, trial.problem.find('\n')));
      continue;
    }
    if (trial.rounds.empty())
      fmt::print("{:>10}{:>18}{:>15}", "-", "", "verified");
    else
      fmt::print(
          "{:>10.2f}{:>18}{:>15}", trial.median(),
          fmt::format("{:.2f} to {:.2f}", quantile(medians(trial), 0.25), quantile(medians(trial), 0.75)),
          rate(trial));
    const Signature& s = trial.built->compiled.signature;
    fmt::print("{:>11}{:>9}{:>10}\n", number_or_dash(s.registers), number_or_dash(s.spill_bytes),
               s.dynamic_shared_bytes);
  }
}

Json to_json(const Trial& trial) {
  Json json = {{"fields", Json::object()}};
  for (const Field& f : trial.fields.all())
    json["fields"][f.name] = f.words.empty() ? Json(f.value) : Json(f.text());
  if (!trial.rounds.empty())
    json.update({{"median_us", trial.median()},
                 {"low_us", quantile(medians(trial), 0.25)},
                 {"high_us", quantile(medians(trial), 0.75)},
                 {"rate", rate(trial)}});
  if (trial.built) {
    const Signature& s = trial.built->compiled.signature;
    if (s.registers) json["registers"] = *s.registers;
    if (s.spill_bytes) json["spill_bytes"] = *s.spill_bytes;
    json.update({{"threads", s.threads}, {"dynamic_shared_bytes", s.dynamic_shared_bytes}});
  }
  if (!trial.problem.empty()) json["problem"] = trial.problem;
  return json;
}

void print_best(const Family& family, const std::vector<Trial>& all, const std::string& program) {
  const auto wrong = std::count_if(all.begin(), all.end(), [](const Trial&t) { return t.wrong; }),
             bad = std::count_if(all.begin(), all.end(), [](const Trial&t) { return !t.problem.empty(); });
  fmt::print("* the defaults. {} combinations: {} right, {} wrong, {} refused\n", all.size(),
             static_cast<ptrdiff_t>(all.size()) - bad, wrong, bad - wrong);
  if (const Trial& best = all.front(); !best.rounds.empty())
    fmt::print("best: {}; `{}{}` runs it; to use these values always, make them the defaults of the fields\n",
               best.values, program, options_of(family, best.fields));
}

}  // namespace

double Trial::median() const { return quantile(medians(*this), 0.5); }

std::vector<Trial> trials(const Fields& fields, const std::vector<std::string>& tried,
                          const std::vector<std::string>& given) {
  std::vector<Trial> all;
  all.push_back({.fields = fields});
  for (const Tried& field : tried_fields(tried, given)) {
    if (all.size() * field.values.size() > kMostTrials)
      throw UsageError(fmt::format(
          "{} values of {} and those of the fields before it make more than {} combinations: try fewer",
          field.values.size(), field.name, kMostTrials));
    std::vector<Trial> more;
    for (const Trial& before : all)
      for (const std::string& value : field.values) {
        Trial& trial = more.emplace_back(Trial{.fields = before.fields});
        trial.fields.set(field.name, value);
        trial.values =
            fmt::format("{}{}{}={}", before.values, before.values.empty() ? "" : " ", field.name, value);
      }
    all = std::move(more);
  }
  for (Trial& trial : all) trial.is_default = trial.fields.text() == fields.text();
  return all;
}

void measure(const Family& family, std::vector<Trial>& all, runtime::Device& device,
             const ExecuteOptions& options, int rounds, bool has_clock) {
  build_all(family, all, options, has_clock);
  RunOptions run_options = options.run;
  run_options.verify = true;
  run_options.bench = false;
  if (auto* emulator = dynamic_cast<runtime::Emulator*>(&device))
    run_options.choose_schedule = [emulator](uint64_t seed) { emulator->seed(seed); };
  std::vector<Trial*> timed;
  for (Trial& trial : all) {
    if (trial.problem.empty()) attempt(trial, [&] { verify(family, trial, device, run_options); });
    if (trial.problem.empty() && has_clock) attempt(trial, [&] { trial.run->time(run_options.warm_up, 1); });
    if (trial.problem.empty() && has_clock)
      timed.push_back(&trial);
    else
      trial.run.reset();  // frees the run's memory, too
  }
  const auto time = [&](size_t i) { return timed[i]->run->time(kWarmUp, run_options.launches); };
  const auto samples = interleave(timed.size(), rounds, run_options.seed, time, [] { return false; });
  for (size_t i = 0; i < timed.size(); ++i) timed[i]->rounds = samples[i];
  std::stable_sort(all.begin(), all.end(), [](const Trial& a, const Trial& b) {
    if (a.rounds.empty() || b.rounds.empty()) return a.rounds.size() > b.rounds.size();
    return a.median() < b.median();
  });
}

Outcome tune(const Family& family, const Fields& fields, const std::vector<std::string>& given,
             const ExecuteOptions& options, const TuneOptions& tuned) {
  std::vector<Trial> all = trials(fields, tuned.fields, given);
  const auto device = runtime::open_device(options.device, "sm_90a", emulator_options(options), Where{});
  const bool has_clock = !dynamic_cast<runtime::Emulator*>(device.get());
  const runtime::DeviceProperties properties = device->properties();
  if (!options.json)
    fmt::print("{} {}: {} combinations, seed {}, device {}, {}\n", family.name, fields.text(), all.size(),
               options.run.seed, properties.name, properties.driver);
  measure(family, all, *device, options, tuned.rounds, has_clock);
  if (options.json) {
    Json json = {{"kernel", family.name},
                 {"device", {{"name", properties.name}, {"driver", properties.driver}}},
                 {"seed", options.run.seed},
                 {"trials", Json::array()}};
    for (const Trial& trial : all) json["trials"].push_back(to_json(trial));
    fmt::print("{}\n", json.dump());
  } else {
    print(all);
    print_best(family, all, tuned.program);
  }
  if (std::any_of(all.begin(), all.end(), [](const Trial& t) { return t.wrong; }))
    return Outcome::wrong_result;
  if (!has_clock) refuse_times();
  if (all.front().rounds.empty()) throw Error("no combination could be timed: each line says why");
  return Outcome::good;
}

}  // namespace ptxbuilder::command
