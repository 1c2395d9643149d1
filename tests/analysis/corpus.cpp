// Reads PTX files of any origin, and checks that they survive a round trip through the parser. Analyses each
// kernel's portrait, its regions, and its differences from itself in disguise. There must be no differences.
// --right means that the kernels are known to be right, so lint may find only bank conflicts. Prints a line
// for each file, and exits with 1 if one fails.
//
//   analysis_corpus [--unknown] [--right] FILE...
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>

#include "ptxbuilder/analysis/diff.h"
#include "ptxbuilder/analysis/lint.h"
#include "ptxbuilder/error.h"
#include "tests/kit/ptx_disguise.h"

using namespace ptxbuilder;
using namespace ptxbuilder::analysis;

namespace {

struct Counts {
  size_t lines = 0, kernels = 0, unknown = 0;
  double seconds = 0;
};

struct Options {
  bool unknown = false;   // lists what could not be followed
  bool is_right = false;  // lint must find nothing
};

Counts analyse(const std::string& path, uint64_t seed, const Options& options) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("it cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto start = std::chrono::steady_clock::now();
  const auto module = std::make_shared<const ptx_text::Module>(ptx_text::parse(text));
  const std::string printed = ptx_text::print(*module);
  if (ptx_text::print(ptx_text::parse(printed)) != printed)
    throw Error("what is printed of it parses to something else");
  Counts counts;
  counts.lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  std::chrono::duration<double> disguising{};
  const auto disguised_at = std::chrono::steady_clock::now();
  const auto other = std::make_shared<const ptx_text::Module>(ptx_text::parse(test::Disguise(seed)(text)));
  disguising = std::chrono::steady_clock::now() - disguised_at;
  for (const std::string& kernel : kernels_of(*module)) {
    KernelAnalysis a(module, kernel), b(other, kernel);
    ++counts.kernels;
    counts.unknown += a.portrait.unknowns.size();
    if (options.unknown)
      for (const std::string& what : a.portrait.unknowns) fmt::print("    {}\n", what);
    if (const auto differences = diff(regions(a), regions(b)); !differences.empty())
      throw Error(fmt::format("{} differs from itself in disguise {}: {}", kernel, seed,
                              analysis::text(differences[0])));
    for (const Finding& f : lint(*module, kernel, {"bank-conflict"}))
      if (options.is_right && !f.is_advice) throw Error(fmt::format("{}: {}", kernel, analysis::text(f)));
  }
  counts.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start - disguising).count();
  return counts;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int first = 1;
  for (; first < argc && argv[first][0] == '-'; ++first)
    (argv[first] == std::string_view("--unknown") ? options.unknown : options.is_right) = true;
  uint64_t seed = std::random_device()();
  Counts all;
  int files = 0, failed = 0;
  for (int i = first; i < argc; ++i) {
    const std::string path = argv[i], name = path.substr(path.find_last_of('/') + 1);
    ++files;
    try {
      const Counts c = analyse(path, ++seed, options);
      fmt::print("{:58} {:6} lines {:3} kernels {:3} unknown {:6.2f} s\n", name, c.lines, c.kernels,
                 c.unknown, c.seconds);
      all.lines += c.lines, all.kernels += c.kernels, all.unknown += c.unknown, all.seconds += c.seconds;
    } catch (const Error& e) {
      ++failed;
      fmt::print("{:58} FAILED: {}\n", name, e.what());
    }
    std::fflush(stdout);
  }
  fmt::print("{} files, {} failed: {} lines, {} kernels, {} unknown, {:.1f} s\n", files, failed, all.lines,
             all.kernels, all.unknown, all.seconds);
  return failed || files == 0;
}
