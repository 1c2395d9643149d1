// `export` writes kernels as C, for programs that ship without LLVM and this library.
#include "kernels/export/export.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/command/kernel_commands.h"
#include "kernels/family/assembling.h"
#include "kernels/family/family.h"
#include "kernels/family/kernel_command.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/file_text.h"

namespace ptxbuilder::command {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::set<std::string> given;  // the fields that the command line set, possibly to their default values
  std::string folder, name, shapes;
  std::vector<std::string> configurations, waived;
  CompilerOptions compiler;
  bool ptx = false, with_ptx = false, no_cache = false, json = false;
};

// Splits a string at any of the separators, and returns the nonempty parts.
std::vector<std::string> parts_of(const std::string& text, std::string_view separators) {
  std::vector<std::string> parts;
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
  }
  return parts;
}

// Parses fields and a condition, such as "bm=64,bn=128 if extent(A, 1) <= 64".
struct Configuration {
  Fields fields;
  std::string condition;
};
Configuration configuration(const Fields& base, const std::string& text) {
  const std::string between = " if ", words = " " + text;  // the condition is optional
  const size_t at = words.find(between);
  Configuration c{base, at == std::string::npos ? "" : words.substr(at + between.size())};
  if (at != std::string::npos && c.condition.empty())
    throw UsageError(fmt::format("--config \"{}\": there is no condition after 'if'", text));
  for (const std::string& setting : parts_of(words.substr(0, at), ", ")) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos)
      throw UsageError(fmt::format("--config \"{}\": '{}' must be FIELD=VALUE", text, setting));
    c.fields.set(setting.substr(0, equals), setting.substr(equals + 1));
  }
  return c;
}

// Parses one number for each axis, such as "4096x4096x8192".
std::vector<uint64_t> size_of_shape(const std::string& text, size_t axes) {
  std::vector<uint64_t> size;
  for (const std::string& word : parts_of(text, "x")) {
    uint64_t extent = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), extent);
    if (error != std::errc() || end != word.data() + word.size() || extent == 0 || extent > INT32_MAX)
      throw UsageError(fmt::format("--shapes: '{}' in '{}' must be a number from 1 to 2^31 - 1", word, text));
    size.push_back(extent);
  }
  if (size.size() != axes)
    throw UsageError(fmt::format("--shapes: '{}' has {} numbers, but a shape of this kernel has {}", text,
                                 size.size(), axes));
  return size;
}

// Returns whether `words` is the path of a file. A list of shapes may be too long for a path; this is not an
// error.
bool is_file(const std::string& words) {
  std::error_code none;
  return fs::exists(words, none);
}

// Returns what is wrong with the word after --shapes; "" if the word is valid or names a file.
std::string complaint_of_shapes(const std::string& words, const std::string& form) {
  if (is_file(words)) return "";
  for (size_t begin = 0, end; begin <= words.size(); begin = end + 1) {
    end = std::min(words.find(',', begin), words.size());
    if (words.find_first_not_of(' ', begin) >= end)
      return fmt::format("'{}' has no shape {}: write {},{},...", words,
                         words.empty()         ? "at all"
                         : end == words.size() ? "after a comma"
                                               : "before a comma",
                         form, form);
  }
  return "";
}

// Returns the form of a shape for messages, such as "MxNxK".
std::string form_of_shapes(const Choice& choice) {
  std::string form;
  for (const auto& [field, rule] : choice.axes) {
    if (!form.empty()) form += 'x';
    for (const char c : field) form += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return form;
}

// Returns the shapes in `words`, or in the file that `words` names. Shapes are separated by commas or line
// ends; in a file, # begins a comment.
std::vector<std::string> shapes_of(const std::string& words) {
  if (!is_file(words)) return parts_of(words, ", ");
  std::vector<std::string> all;
  for (const std::string& line : parts_of(file_text(words), "\n"))
    for (const std::string& shape : parts_of(line.substr(0, line.find('#')), ", \t\r")) all.push_back(shape);
  return all;
}

class Exporter {
 public:
  Exporter(const Family& family, const Fields& fields, const ExportOptions& o)
      : family_(family), fields_(fields), options_(o), compiler_(compiler_options(o)) {
    export_.name = o.name.empty() ? family.name : o.name;
    export_.summary = family.summary;
  }

  // Returns warnings about launches at the shapes. Must be called after made().
  const std::vector<std::string>& cautions() const { return cautions_; }

  Export made() {
    if (!options_.shapes.empty()) {
      by_shapes();
    } else if (options_.configurations.empty()) {
      export_.kernels.push_back(compiled(fields_));
    } else {
      for (const std::string& text : options_.configurations) {
        const Configuration c = configuration(fields_, text);
        export_.kernels.push_back(compiled(c.fields));
        export_.kernels.back().condition = c.condition;
      }
    }
    return std::move(export_);
  }

 private:
  static CompilerOptions compiler_options(const ExportOptions& o) {
    CompilerOptions c = o.compiler;
    c.assemble = !o.ptx;
    c.cache = !o.no_cache;
    return c;
  }

  ExportedKernel compiled(const Fields& fields) const {
    Kernel kernel = build(family_, fields);
    for (const std::string& advisory : options_.waived) kernel.waive(advisory, Where{});
    Compiled c = compiler_.compile(std::move(kernel), false, Where{});
    tell_cache_problem(c.assembled);
    if (options_.ptx) return {std::move(c.signature), std::move(c.ptx)};
    return {std::move(c.signature), std::move(c.cubin), options_.with_ptx ? std::move(c.ptx) : ""};
  }

  // Creates a kernel for each configuration that the family chooses for one of the shapes.
  void by_shapes() {
    const Choice& choice = family_.choice;
    for (const auto& [field, rule] : choice.axes) export_.axes.push_back(rule);
    std::vector<std::string> known;  // the configurations of the kernels that were created so far
    for (const std::string& shape : shapes_of(options_.shapes)) {
      const std::vector<uint64_t> size = size_of_shape(shape, choice.axes.size());
      Fields chosen = fields_;
      for (size_t i = 0; i < size.size(); ++i)
        chosen.set(choice.axes[i].first, static_cast<int64_t>(size[i]));
      choice.choose(chosen);
      check_kept(chosen, shape);
      const std::string caution = choice.caution ? choice.caution(chosen) : "";
      if (!caution.empty()) cautions_.push_back(fmt::format("{}: {}", shape, caution));
      for (const auto& [field, rule] : choice.axes)
        chosen.set(field, fields_[field]);  // fields that the command line set do not distinguish
                                            // configurations
      const auto place = std::find(known.begin(), known.end(), chosen.text()) - known.begin();
      if (place == std::ssize(known)) {
        known.push_back(chosen.text());
        export_.kernels.push_back(compiled(chosen));
      }
      export_.shapes.push_back({size, static_cast<size_t>(place), caution});
    }
    if (export_.shapes.empty())
      throw UsageError(fmt::format("--shapes: '{}' does not name any shape", options_.shapes));
  }

  // Throws Error if the choice for a shape overrides a field that the command line set.
  void check_kept(const Fields& chosen, const std::string& shape) const {
    for (size_t i = 0; i < family_.fields.size(); ++i) {
      const Field &given = fields_.all()[i], &taken = chosen.all()[i];
      if (options_.given.contains(given.name) && given.value != taken.value)
        throw UsageError(
            fmt::format("--{} {}: --shapes chooses this field, and for {} its value is {}: pass only one of "
                        "the two options",
                        given.name, given.text(), shape, taken.text()));
    }
  }

  const Family& family_;
  const Fields& fields_;
  const ExportOptions& options_;
  Compiler compiler_;
  Export export_;
  std::vector<std::string> cautions_;
};

std::string write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw Error(fmt::format("{}: cannot be written", path.string()));
  return path.string();
}

int run(const Family& family, const Fields& fields, const ExportOptions& o) {
  Exporter exporter(family, fields, o);
  const Export e = exporter.made();
  const ExportedFiles made = export_to_c(e);
  std::error_code problem;
  fs::create_directories(o.folder, problem);
  if (problem) throw Error(fmt::format("{}: the folder cannot be created: {}", o.folder, problem.message()));
  const std::string path = (fs::path(o.folder) / e.name).string();
  const std::vector<std::string> files = {write(path + ".h", made.header), write(path + ".c", made.source)};
  if (!o.json) {
    for (const std::string& file : files) fmt::print("wrote {}\n", file);
    for (const std::string& caution : exporter.cautions()) fmt::print(stderr, "warning: {}\n", caution);
    return 0;
  }
  nlohmann::ordered_json json = {{"kernel", family.name}, {"name", e.name}, {"files", files}};
  if (!exporter.cautions().empty()) json["warnings"] = exporter.cautions();
  for (const ExportedKernel& k : e.kernels) json["kernels"].push_back(k.signature.kernel);
  for (const ExportedShape& s : e.shapes) json["shapes"].push_back({{"size", s.size}, {"kernel", s.kernel}});
  fmt::print("{}\n", json.dump());
  return 0;
}

const char* const help =
    R"(Writes NAME.h and NAME.c, C11 that is C++ too, with the compiled kernel inside. They need no CUDA header and no
library but libdl: libcuda.so.1 is looked for when the first launch is made. NAME_launch() takes the parameters by
name, a grid or NULL for the kernel's rule, and a CUstream; NAME_load() loads beforehand; NAME_error() says what was
wrong.
Without a GPU, LD_LIBRARY_PATH=PREFIX/lib/ptxbuilder, of the PREFIX/bin that ptxb is in, runs the program on the emulator; export the
kernel by --with-ptx then.
Several configurations: --config "FIELD=VALUE,... if CONDITION", the first whose condition holds is launched, and the
last has none. A condition is a rule over the kernel's integer parameters, extent(TENSOR, DIMENSION) from the
innermost dimension outwards, multiprocessors, integers, + - * / % < <= > >= == != ( ), ceil_div, min and max.
Examples:
  ptxb export saxpy --threads 256 -o out
  ptxb export gemm_warp_specialized --config "bm=64,bn=128 if extent(A, 1) <= 64" --config "bm=128" -o out
  ptxb export gemm --shapes 4096x4096x4096,16x4096x7168 --name product -o out
  ptxb export attention --causal yes --shapes 4096x4096x32x1,1024x1024x32x8 -o out
)";

void add_options(const Arguments& kernel, const Family& family, ExportOptions& o) {
  kernel.option("-o,--output", o.folder, "the folder of NAME.h and NAME.c").shown_as("DIR").required();
  kernel.option("--name", o.name, "the name of the files and functions; by default the kernel's name")
      .shown_as("NAME");
  const Option configurations =
      kernel.option("--config", o.configurations, "fields and a condition; may be repeated").shown_as("TEXT");
  if (const Choice& choice = family.choice; choice.choose) {
    const std::string form = form_of_shapes(choice);
    kernel
        .option("--shapes", o.shapes,
                fmt::format("sizes such as {}, or a file of them: each gets the configuration that suits it, "
                            "and a launch uses that of the nearest size",
                            form))
        .check([form](const std::string& words) { return complaint_of_shapes(words, form); })
        .shown_as("LIST|FILE")
        .excludes(configurations);
  }
  const Option ptx =
      kernel.flag("--ptx", o.ptx, "embed PTX text, which the driver compiles, instead of a cubin");
  kernel.flag("--with-ptx", o.with_ptx, "embed PTX text, which the emulator runs, in addition to the cubin")
      .excludes(ptx);
  add_waive(kernel, o.waived);
  kernel
      .option("--ptxas", o.compiler.ptxas,
              "the ptxas to use; by default the one in PATH, CUDA_PATH or /usr/local")
      .shown_as("FILE");
  kernel.flag("--no-cache", o.no_cache, "compile again, and do not use the cache");
  kernel.option("--cache-dir", o.compiler.cache_options.directory, "where PTX and cubins are kept")
      .shown_as("DIR");
  kernel.flag("--json", o.json, "print one JSON object");
  kernel.footer(help);
}

}  // namespace

void add_export(std::vector<Command>& commands, const Arguments& top) {
  auto o = std::make_shared<ExportOptions>();
  add_kernel_command(
      commands, top, "export", "write a kernel as C code that loads and launches it",
      [o](const Arguments& kernel, const Family& family) { add_options(kernel, family, *o); },
      [o](const ChosenKernel& chosen) {
        o->given.insert(chosen.given.begin(), chosen.given.end());
        return run(chosen.family, chosen.fields, *o);
      });
  commands.back().arguments.footer(help);
}

}  // namespace ptxbuilder::command
