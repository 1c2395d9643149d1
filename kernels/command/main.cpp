#include "kernels/command/main.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "kernels/command/commands.h"
#include "kernels/command/execute.h"
#include "kernels/command/field_options.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;

// What the words of one command line set. CLI11 keeps references to the members, so it stays where it is.
struct CommandLine {
  ExecuteOptions options;
  std::map<std::string, int64_t> fields;
  bool verify = false, bench = false, no_cache = false;
  std::optional<uint64_t> seed;
  double time_limit_seconds = 60;
  uint64_t cache_megabytes = 1024;
};

void add_compile_options(CLI::App& app, CommandLine& line) {
  const std::map<std::string, Assembler> assemblers = {{"auto", Assembler::automatic},
                                                       {"ptxas", Assembler::ptxas},
                                                       {"driver", Assembler::driver},
                                                       {"none", Assembler::none}};
  app.add_option("--assembler", line.options.assembler, "PTX to cubin: auto, ptxas, driver (its JIT), none")
      ->transform(CLI::CheckedTransformer(assemblers))
      ->option_text("NAME");
  app.add_option("--ptxas", line.options.compiler.ptxas,
                 "the ptxas to take; else PATH, CUDA_PATH, /usr/local")
      ->option_text("FILE");
  app.add_flag("--no-cache", line.no_cache, "assemble anew, and keep nothing");
  app.add_option("--cache-dir", line.options.compiler.cache_options.directory, "where cubins are kept")
      ->option_text("DIR");
  app.add_option("--cache-limit", line.cache_megabytes, "of the cache, in MiB")->option_text("MIB");
  app.add_flag("--json", line.options.json, "print one JSON object");
}

void add_run_options(CLI::App& app, CommandLine& line) {
  app.add_option("--device", line.options.device, "cuda, emulator, or auto: a GPU if there is one")
      ->option_text("NAME");
  app.add_option("--seed", line.seed, "of the random inputs; fresh unless given")->option_text("N");
  app.add_option("--seeds", line.options.run.schedules, "schedules that the emulator verifies")
      ->check(CLI::Range(1, 100000))
      ->option_text("N");
  app.add_option("--race-check", line.options.emulator.race_check, "on or off, on the emulator")
      ->option_text("ON|OFF");
  app.add_option("--trace", line.options.emulator.trace_path, "a Chrome trace of the emulator's launches")
      ->option_text("FILE");
  app.add_option("--launches", line.options.run.launches, "that are timed")
      ->check(CLI::Range(1, 100000))
      ->option_text("N");
  app.add_option("--time-limit", line.time_limit_seconds, "seconds that one launch may take")
      ->option_text("S");
}

void settle(CommandLine& line) {
  line.options.compiler.cache = !line.no_cache;
  line.options.compiler.cache_options.limit_bytes = line.cache_megabytes << 20;
  line.options.run.seed = line.seed ? *line.seed : std::random_device()();
  line.options.run.time_limit =
      std::chrono::milliseconds(static_cast<int64_t>(line.time_limit_seconds * 1000));
}

// Insertions, deletions and replacements of one character that make `b` of `a`.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t k = 0; k < b.size(); ++k)
      diagonal = std::exchange(row[k + 1], std::min({row[k] + 1, row[k + 1] + 1, diagonal + (a[i] != b[k])}));
  }
  return row[b.size()];
}

// The word that stands where a command or a kernel is wanted and is none, with the names nearest to it; empty
// where something else is wrong.
std::string unknown_name(const CLI::App& app, const CLI::App& used) {
  const auto subs = used.get_subcommands([](const CLI::App*) { return true; });
  const std::vector<std::string> left = app.remaining(true);
  const auto word =
      std::find_if(left.begin(), left.end(), [](const std::string& w) { return !w.starts_with("-"); });
  if (subs.empty() || word == left.end()) return {};
  std::vector<std::string> names;
  for (const CLI::App* sub : subs) names.push_back(sub->get_name());
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return edits(*word, a) < edits(*word, b);
  });
  names.resize(std::min<size_t>(names.size(), 3));
  return fmt::format("there is no {} '{}'; the nearest are {}", &used == &app ? "command" : "kernel", *word,
                     fmt::join(names, ", "));
}

// Parses, and turns what CLI11 refuses into one line that names what is legal.
std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    const CLI::App* used = &app;
    while (!used->get_subcommands().empty()) used = used->get_subcommands().front();
    const std::string unknown = unknown_name(app, *used);
    fmt::print(stderr, "error: {}\n", unknown.empty() ? e.what() : unknown);
    std::vector<std::string> names;
    for (const CLI::Option* option : used->get_options()) names.push_back(option->get_name());
    for (const CLI::App* sub : used->get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(sub->get_name());
    fmt::print(stderr, "known here: {}\n", fmt::join(names, " "));
    return static_cast<int>(Outcome::usage);
  }
}

int guarded(const std::function<int()>& body) {
  try {
    return body();
  } catch (const runtime::TimeoutError& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return static_cast<int>(Outcome::timed_out);
  } catch (const runtime::EmulatorError& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return static_cast<int>(e.fault() == runtime::Fault::time_limit ? Outcome::timed_out : Outcome::failed);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return static_cast<int>(Outcome::failed);
  }
}

int list(bool json) {
  Json all = Json::array();
  for (const Family& f : families()) {
    Json fields = Json::array();
    for (const Field& field : f.fields)
      fields.push_back({{"name", field.name},
                        {"default", field.text()},
                        {"help", field.help},
                        {"multiple", field.multiple}});
    all.push_back({{"name", f.name}, {"summary", f.summary}, {"fields", fields}});
    if (!json) fmt::print("{:22} {}\n", f.name, f.summary);
  }
  if (json) fmt::print("{}\n", all.dump(2));
  return 0;
}

}  // namespace

int kernel_main(const char* kernel, int argc, char** argv) {
  return guarded([&] {
    const Family& family = command::family(kernel);
    CommandLine line;
    CLI::App app(family.summary, family.name);
    add_fields(app, family, line.fields);
    app.add_flag("--verify", line.verify, "compare with a float64 reference on random data; the default");
    app.add_flag("--bench", line.bench, "time launches by events");
    app.add_option("--emit", line.options.emit, "write PTX, cubin, LLVM IR and sidecar there")
        ->option_text("DIR");
    add_run_options(app, line);
    add_compile_options(app, line);
    if (auto code = parse(app, argc, argv)) return *code;
    settle(line);
    line.options.run.bench = line.bench;
    line.options.run.verify = line.verify || (!line.bench && line.options.emit.empty());
    return static_cast<int>(execute(family, chosen_fields(app, family, line.fields), line.options));
  });
}

int ptxb_main(int argc, char** argv) {
  return guarded([&] {
    CommandLine line;
    CLI::App app("Builds, runs and measures Hopper kernels", "ptxb");
    app.require_subcommand(1);
    app.set_help_all_flag("--help-all", "help of every command");

    struct Verb {
      const char* name;
      const char* help;
      bool runs, verify, bench;
    };
    constexpr Verb verbs[] = {
        {"emit", "write PTX, cubin, LLVM IR and sidecar of a kernel", false, false, false},
        {"run", "run a kernel and verify it against float64", true, true, false},
        {"bench", "time a kernel", true, false, true}};
    struct Chosen {
      const Family* family;
      CLI::App* app;
      Verb verb;
    };
    std::vector<Chosen> choices;
    for (const Verb& verb : verbs) {
      CLI::App* verb_app = app.add_subcommand(verb.name, verb.help)->require_subcommand(1);
      for (const Family& f : families()) {
        CLI::App* sub = verb_app->add_subcommand(f.name, f.summary);
        add_fields(*sub, f, line.fields);
        CLI::Option* folder =
            sub->add_option("-o,--emit", line.options.emit, "the folder for the files")->option_text("DIR");
        if (!verb.runs) folder->required();
        if (verb.runs) add_run_options(*sub, line);
        if (verb.bench) sub->add_flag("--verify", line.verify, "verify as well");
        add_compile_options(*sub, line);
        choices.push_back({&f, sub, verb});
      }
    }
    CLI::App* list_app = app.add_subcommand("list", "the kernels");
    list_app->add_flag("--json", line.options.json, "with their fields, as JSON");
    std::vector<Command> commands = add_commands(app);

    if (auto code = parse(app, argc, argv)) return *code;
    settle(line);
    if (list_app->parsed()) return list(line.options.json);
    for (const Command& c : commands)
      if (c.app->parsed()) return c.run();
    for (const Chosen& c : choices) {
      if (!c.app->parsed()) continue;
      line.options.run.verify = c.verb.verify || line.verify;
      line.options.run.bench = c.verb.bench;
      return static_cast<int>(
          execute(*c.family, chosen_fields(*c.app, *c.family, line.fields), line.options));
    }
    return static_cast<int>(Outcome::usage);
  });
}

}  // namespace ptxbuilder::command
