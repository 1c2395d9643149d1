// `ptxb diff` shows how the behavior of two kernels, or of the kernels in two folders, differs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/family/commands.h"
#include "kernels/inspect/comparison.h"
#include "kernels/inspect/ptx_source.h"
#include "ptxbuilder/compile/ptxas.h"

namespace ptxbuilder::command::diff_command {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kSame = 0, kDifferent = 1, kFailed = 2;

struct Options {
  std::string a, b, kernel_a, kernel_b, nvdisasm;
  std::string page;  // path of the HTML page to write
  bool json = false, sass = false;
  Telling telling;
};

struct Source {
  explicit Source(const std::string& where) : from(where), code(code_source(where)) {}

  // Returns the device code of a kernel. If `sass` is set, cubins are preferred to PTX; otherwise PTX is
  // preferred.
  const DeviceCode& choose(const std::string& kernel, bool sass) const {
    const bool has_cubin = std::any_of(code.all.begin(), code.all.end(), is_cubin);
    try {
      return choose_code(code.all, kernel,
                         sass && has_cubin ? std::optional(DeviceCode::Kind::cubin) : std::nullopt);
    } catch (const Error& e) {
      throw Error(fmt::format("{}: {}", from, e.what()));
    }
  }
  static bool is_cubin(const DeviceCode& code) { return code.kind == DeviceCode::Kind::cubin; }
  KernelCubin cubin(const std::string& kernel) const {
    const DeviceCode& chosen = choose(kernel, true);
    return {from, is_cubin(chosen) ? chosen.code() : Ptxas().assemble(chosen.code()).cubin, kernel};
  }
  std::set<std::string> kernels() const {
    std::set<std::string> names;
    for (const DeviceCode& c : code.all)
      for (const std::string& name : c.kernels()) names.insert(name);
    return names;
  }

  std::string from;
  CodeSource code;
};

// Compares two kernels. Compares their SASS if this is requested or one of the files is a cubin, otherwise
// their PTX.
Comparison compare_codes(const Source& a, const std::string& kernel_a, const Source& b,
                         const std::string& kernel_b, const Options& o) {
  if (!o.sass) {
    const DeviceCode &in_a = a.choose(kernel_a, false), &in_b = b.choose(kernel_b, false);
    if (!Source::is_cubin(in_a) && !Source::is_cubin(in_b))
      return compare({a.from, in_a.code(), kernel_a}, {b.from, in_b.code(), kernel_b}, o.telling);
  }
  return compare_sass(a.cubin(kernel_a), b.cubin(kernel_b), o.nvdisasm, o.telling);
}

void write_page(const std::string& path, const std::string& page) {
  if (page.empty()) throw Error("--html shows PTX, but this file is machine code");
  std::ofstream file(path);
  if (!(file << page << std::flush)) throw Error(fmt::format("{}: it cannot be written", path));
}

int diff_kernels(const Options& o) {
  const Source a(o.a), b(o.b);
  const Comparison comparison =
      compare_codes(a, o.kernel_a, b, o.kernel_b.empty() ? o.kernel_a : o.kernel_b, o);
  if (o.json) {
    Json json = {{"a", o.a}, {"b", o.b}};
    json.update(Json::parse(comparison.json));
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}", comparison.text);
  }
  if (o.telling.page) write_page(o.page, comparison.page);
  return comparison.differences == 0 ? kSame : kDifferent;
}

// --- Folders ---

// Returns the names of a folder's files that may contain device code.
std::set<std::string> code_files(const std::string& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    char begin[8] = {};
    std::ifstream(entry.path(), std::ios::binary).read(begin, sizeof begin);
    if (entry.path().extension() == ".ptx" || is_code_binary({begin, sizeof begin}))
      names.insert(entry.path().filename());
  }
  return names;
}

// The result of comparing a file, or one of its kernels.
struct Entry {
  std::string file, kernel = {};
  char only_in = 0;  // 'A' or 'B' if the file or kernel exists only in that folder
  std::string error = {};
  Comparison comparison = {};

  std::string title() const { return kernel.empty() ? file : fmt::format("{}, {}", file, kernel); }
};

class Folders {
 public:
  explicit Folders(const Options& o) : o_(o) {}

  int diff() {
    const std::set<std::string> a = code_files(o_.a), b = code_files(o_.b);
    if (a.empty() && b.empty())
      throw Error(fmt::format("neither {} nor {} has files with device code", o_.a, o_.b));
    each(a, b, [&](const std::string& file, char only_in) {
      try {
        if (only_in)
          only_one(file, only_in);
        else
          file_pair(file);
      } catch (const Error& e) {
        entries_.push_back({.file = file, .error = e.what()});
      }
    });
    if (entries_.empty() && !o_.kernel_a.empty())
      throw Error(fmt::format("no file of {} or {} has a kernel '{}'", o_.a, o_.b, o_.kernel_a));
    o_.json ? print_json() : print();
    if (count([](const Entry& e) { return !e.error.empty(); })) return kFailed;
    return count(is_same) == entries_.size() ? kSame : kDifferent;
  }

 private:
  // Calls f(name, 0) for each name in both lists, and f(name, 'A' or 'B') for each name in only one of them.
  template <class F>
  static void each(const std::set<std::string>& a, const std::set<std::string>& b, F f) {
    std::set<std::string> all = a;
    all.insert(b.begin(), b.end());
    for (const std::string& name : all) f(name, !b.contains(name) ? 'A' : !a.contains(name) ? 'B' : '\0');
  }

  void only_one(const std::string& file, char only_in) {
    const fs::path path = fs::path(only_in == 'A' ? o_.a : o_.b) / file;
    if (o_.kernel_a.empty() || Source(path.string()).kernels().contains(o_.kernel_a))
      entries_.push_back({.file = file, .only_in = only_in});
  }

  void file_pair(const std::string& file) {
    const Source a((fs::path(o_.a) / file).string()), b((fs::path(o_.b) / file).string());
    const std::set<std::string> in_a = a.kernels(), in_b = b.kernels();
    if (in_a.empty() && in_b.empty() && a.code.all.empty() && b.code.all.empty())
      return;  // for example host programs without kernels
    if (o_.kernel_a.empty() && in_a.size() <= 1 && in_b.size() <= 1) return kernel_pair({.file = file}, a, b);
    each(in_a, in_b, [&](const std::string& kernel, char only_in) {
      if (!o_.kernel_a.empty() && kernel != o_.kernel_a) return;
      if (only_in)
        entries_.push_back({.file = file, .kernel = kernel, .only_in = only_in});
      else
        kernel_pair({.file = file, .kernel = kernel}, a, b);
    });
  }

  void kernel_pair(Entry entry, const Source& a, const Source& b) {
    try {
      entry.comparison = compare_codes(a, entry.kernel, b, entry.kernel, o_);
    } catch (const Error& e) {
      entry.error = e.what();
    }
    entries_.push_back(std::move(entry));
  }

  static bool is_same(const Entry& e) {
    return !e.only_in && e.error.empty() && e.comparison.differences == 0;
  }
  template <class F>
  size_t count(F f) const {
    return static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(), f));
  }

  void print() const {
    for (const Entry& e : entries_) {
      if (e.only_in)
        fmt::print("== {}: only in {}\n", e.title(), e.only_in);
      else if (!e.error.empty())
        fmt::print("== {}: {}\n", e.title(), e.error);
      else if (e.comparison.differences == 0)
        fmt::print("== {}: no difference of meaning\n", e.title());
      else
        fmt::print("== {}: {} difference{}\n{}", e.title(), e.comparison.differences,
                   e.comparison.differences == 1 ? "" : "s", e.comparison.text);
    }
    const size_t failed = count([](const Entry& e) { return !e.error.empty(); });
    const size_t in_a = count([](const Entry& e) { return e.only_in == 'A'; });
    const size_t in_b = count([](const Entry& e) { return e.only_in == 'B'; });
    fmt::print(
        "{} kernels or files: {} the same, {} different, {} only in A, {} only in B, {} not compared\n",
        entries_.size(), count(is_same), entries_.size() - count(is_same) - failed - in_a - in_b, in_a, in_b,
        failed);
  }

  void print_json() const {
    Json all = Json::array();
    for (const Entry& e : entries_) {
      Json json = {{"file", e.file}};
      if (!e.kernel.empty()) json["kernel"] = e.kernel;
      if (e.only_in)
        json["only_in"] = e.only_in == 'A' ? "a" : "b";
      else if (!e.error.empty())
        json["error"] = e.error;
      else
        json.update(Json::parse(e.comparison.json));
      all.push_back(std::move(json));
    }
    fmt::print(
        "{}\n",
        Json{{"a", o_.a}, {"b", o_.b}, {"same", count(is_same) == entries_.size()}, {"files", all}}.dump(2));
  }

  const Options& o_;
  std::vector<Entry> entries_;
};

// Returns 0 if there are no differences in meaning, 1 if there are, and 2 if there was an error.
int diff(const Options& o) {
  if (o.a == "-" && o.b == "-") throw Error("only one of the two can be standard input, -");
  const bool folder_a = fs::is_directory(o.a), folder_b = fs::is_directory(o.b);
  if (folder_a && folder_b) {
    if (o.telling.page) throw Error("--html shows two kernels, but these are folders");
    if (!o.kernel_b.empty()) throw Error("--kernel-b names a kernel of B, but these are folders");
    return Folders(o).diff();
  }
  if (folder_a || folder_b)
    throw Error(fmt::format("{} is a folder, but {} is not: pass two folders or two files",
                            folder_a ? o.a : o.b, folder_a ? o.b : o.a));
  return diff_kernels(o);
}

// Since exit code 1 means that there are differences, every failure, such as output that cannot be written,
// returns 2.
int run(const Options& o) try {
  const int code = diff(o);
  flush_output();
  return code;
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return kFailed;
}

Command add(const Arguments& ptxb) {
  const Arguments app = ptxb.command("diff", "compare what two kernels do, as PTX or as machine code");
  auto o = std::make_shared<Options>();
  app.option("a", o->a, std::string(ptx_source_help) + "; or a folder of such files").required();
  app.option("b", o->b, "the same").required();
  app.option("--kernel", o->kernel_a, "the kernel to compare, if the files have several").shown_as("NAME");
  app.option("--kernel-b", o->kernel_b, "the kernel of B, if its name differs").shown_as("NAME");
  app.flag(
      "--all", o->telling.all,
      "print each difference, even if many are of one kind or in one region; by default these are counted");
  app.flag("--counts", o->telling.counts, "also print how often each mnemonic occurs in each region");
  app.flag("--sass", o->sass,
           "compare machine code: PTX is assembled by ptxas; cubins are always compared in this way");
  app.option("--nvdisasm", o->nvdisasm,
             "the disassembler; by default the one in PATH, CUDA_PATH, /usr/local or Python's packages")
      .shown_as("FILE");
  app.option("--html", o->page, "write a page that shows both kernels").shown_as("FILE");
  app.flag("--json", o->json, "as JSON");
  app.footer(
      "If a file has a kernel for several architectures, the highest is used. Two folders are compared by "
      "file, and by kernel if a file has several.\n"
      "Exit code 0: no difference of meaning was found; 1: there is one; 2: an error.");
  return {app, [o] {
            o->telling.page = !o->page.empty();
            return run(*o);
          }};
}

const CommandRegistration registration(add);

}  // namespace ptxbuilder::command::diff_command
