#include "kernels/command/main.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>

#include "kernels/command/annotate.h"
#include "kernels/command/command_line.h"
#include "kernels/command/commands.h"
#include "kernels/command/export.h"
#include "kernels/command/field_options.h"
#include "kernels/command/kernel_ptx.h"
#include "kernels/command/outcome.h"
#include "kernels/command/prove.h"
#include "kernels/command/run_line.h"
#include "kernels/command/tune.h"

namespace ptxbuilder::command {
namespace {

// These are what the words of one command line set.
struct Words : RunWords {
  AnnotateOptions annotate;
  TuneOptions tune;
};

void add_tune_options(const Arguments& app, Words& words) {
  app.option("--field", words.tune.fields,
             "a field and the values to try, as bm=64,128; said again for another field: all combinations")
      .required()
      .shown_as("NAME=VALUE,...");
  app.option("--rounds", words.tune.rounds, "in each of which all combinations are timed once")
      .from(1, 10000)
      .with_default();
  add_device_options(app, words);
  add_compile_options(app, words);
}

void add_sass_options(const Arguments& app, Words& words) {
  app.option("--nvdisasm", words.options.nvdisasm,
             "the disassembler; else PATH, CUDA_PATH, /usr/local, Python's packages")
      .shown_as("FILE");
}

void add_annotate_options(const Arguments& app, Words& words) {
  app.option("--ncu", words.annotate.ncu,
             "samples: what `ncu --page source --print-source sass --csv` printed")
      .shown_as("FILE.csv");
  app.option("--source", words.annotate.folder, "where the C++ files lie; else the working folder")
      .shown_as("DIR");
  add_sass_options(app, words);
}

// An executable with one kernel lets its name be left out. This puts the name after a command that wants one.
std::vector<std::string> with_kernel(std::vector<std::string> words) {
  const std::set<std::string> commands = {"emit", "run", "bench", "annotate", "prove", "export", "tune"};
  const std::string& name = families().front().name;
  if (commands.contains(words[0]) && (words.size() == 1 || words[1] != name))
    words.insert(words.begin() + 1, name);
  return words;
}

// `ptxb`, or the commands of an executable that has kernels of somebody's own.
struct Program {
  std::string name, summary;
  bool is_ptxb;
};

int commands_main(const Program& program, const std::vector<std::string>& given) {
  bool names_places = true;
  const auto main = [&] {
    Words words;
    words.options.compare = compare;
    const CommandLine line(program.summary, program.name);
    const Arguments top = line.arguments();
    top.needs_command();
    line.helps_with_all();

    struct Verb {
      const char* name;
      const char* help;
      bool compiles, runs, verify, bench, annotates = false, tunes = false;
    };
    constexpr Verb verbs[] = {
        {"emit", "write PTX, cubin, LLVM IR and sidecar of a kernel", true, false, false, false},
        {"run", "run a kernel and verify it against float64", true, true, true, false},
        {"bench", "time a kernel", true, true, false, true},
        {"annotate", "a kernel's SASS and PTX with the C++ beside it", true, false, false, false, true},
        {"tune", "time a kernel over values of its fields, on a GPU", true, false, false, false, false, true},
        {"prove", what_prove_does, false, false, false, false}};
    struct Chosen {
      const Family* family;
      Arguments arguments;
      Verb verb;
    };
    std::vector<Chosen> choices;
    std::vector<Command> commands = add_commands(top);
    for (const Verb& verb : verbs) {
      const Arguments verb_arguments = top.command(verb.name, verb.help);
      verb_arguments.needs_command();
      const std::vector<Command> own = add_commands(verb_arguments, verb.name);  // in the place of a kernel's
      commands.insert(commands.end(), own.begin(), own.end());
      for (const Family& f : families()) {
        if (std::any_of(own.begin(), own.end(),
                        [&](const Command& c) { return c.arguments.name() == f.name; }))
          continue;
        const Arguments app = verb_arguments.command(f.name, f.summary);
        add_fields(app, f, words.fields);
        choices.push_back({&f, app, verb});
        if (!verb.compiles) {
          app.flag("--json", words.options.json, "as JSON");
          continue;
        }
        if (verb.annotates) {
          add_annotate_options(app, words);
          add_compile_options(app, words);
          continue;
        }
        if (verb.tunes) {
          add_tune_options(app, words);
          continue;
        }
        app.option("-o,--emit", words.options.emit, "the folder for the files").shown_as("DIR");
        if (!verb.runs) {
          app.flag("--sass", words.options.sass,
                   "SASS as well: NAME.sass in the folder, or printed without one");
          add_sass_options(app, words);
          app.check([&words] {
            return words.options.emit.empty() && !words.options.sass ? "--emit DIR or --sass is required"
                                                                     : "";
          });
        }
        if (verb.runs) add_run_options(app, words);
        if (verb.bench) app.flag("--verify", words.verify, "verify as well");
        add_compile_options(app, words);
      }
    }
    const Arguments list_arguments = top.command("list", "the kernels");
    list_arguments.flag("--json", words.options.json, "with their fields, as JSON");
    if (!program.is_ptxb) {  // else they are registered, and take more
      commands.push_back(explain_command(top, own_ptx));
      commands.push_back(lint_command(top, own_ptx));
    }
    const Command exports = export_command(top);

    line.parse(given);
    settle(words);
    if (list_arguments.chosen()) return list_kernels(words.options.json, families().size() == 1);
    if (exports.arguments.chosen()) return exports.run();
    for (const Command& c : commands) {
      if (!c.arguments.chosen()) continue;
      names_places = !program.is_ptxb;
      return c.run();
    }
    for (const Chosen& c : choices) {
      if (!c.arguments.chosen()) continue;
      const Fields fields = chosen_fields(c.arguments, *c.family, words.fields);
      if (!c.verb.compiles) return prove_family(*c.family, fields, words.options.json);
      if (c.verb.annotates) {
        annotate_kernel(*c.family, fields, words.options, words.annotate);
        return static_cast<int>(Outcome::good);
      }
      if (c.verb.tunes) {
        words.tune.program = program.is_ptxb || families().size() > 1
                                 ? fmt::format("{} run {}", program.name, c.family->name)
                                 : program.name;
        return static_cast<int>(
            tune(*c.family, fields, given_fields(c.arguments, *c.family), words.options, words.tune));
      }
      words.options.run.verify = c.verb.verify || words.verify;
      words.options.run.bench = c.verb.bench;
      return static_cast<int>(execute(*c.family, fields, words.options));
    }
    return static_cast<int>(Outcome::usage);
  };
  return guarded(main, names_places);
}

}  // namespace

int kernel_main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string executable = std::filesystem::path(argv[0]).filename();
  if (families().size() != 1)
    return commands_main({executable, "Builds, runs and measures kernels", false}, words);
  const Family& family = families().front();
  if (!words.empty() && !words[0].starts_with("-"))
    return commands_main({executable, family.summary, false}, with_kernel(words));
  return run_line(
      family,
      fmt::format(
          "Commands, each with --help, stand first: {} run, bench, emit, prove, annotate, explain, lint, "
          "tune, export, list.",
          executable),
      {compare, prove_family}, words);
}

int ptxb_main(int argc, char** argv) {
  return commands_main({"ptxb", "Builds, runs and measures Hopper kernels", true}, {argv + 1, argv + argc});
}

}  // namespace ptxbuilder::command
