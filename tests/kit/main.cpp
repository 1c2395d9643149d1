// The main function of every test executable.
//
//   EXECUTABLE [SUITE...] [--OPTION[=VALUE]...]
//
// A suite is the name of a test file without .cpp; by default, all suites run. Other options belong to the
// test files, such as --device=cuda, or to doctest (--help). The exit code is 0 if all tests pass, 1 if a
// check fails, 2 if an argument is unknown or no test is found, and 77 if something was skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <filesystem>
#include <iostream>
#include <mutex>
#include <set>
#include <vector>

#include "options.h"

namespace ptxbuilder::test {
namespace {

struct Option {
  std::string name;
  std::function<bool(std::string_view)> take;
};

std::vector<Option>& options() {
  static std::vector<Option> all;
  return all;
}

std::mutex skipping;
bool skipped = false;

std::string suite_of(const doctest::TestCaseData& test) {
  return std::filesystem::path(test.m_file.c_str()).stem().string();
}

// Collects the suites of this executable, and those with a test that ran.
struct Suites : doctest::IReporter {
  static inline std::set<std::string> all, run;

  explicit Suites(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData& test) override {
    all.insert(suite_of(test));
    run.insert(suite_of(test));
  }
  void test_case_skipped(const doctest::TestCaseData& test) override { all.insert(suite_of(test)); }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
};
REGISTER_LISTENER("suites", 1, Suites);

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

// Returns whether doctest has an option. `name` is the option without its dashes and value. doctest itself
// ignores unknown options.
bool of_doctest(const std::string& name) {
  static const std::set<std::string> known = {"abort-after",
                                              "count",
                                              "duration",
                                              "exit",
                                              "first",
                                              "force-colors",
                                              "help",
                                              "last",
                                              "list-reporters",
                                              "list-test-cases",
                                              "list-test-suites",
                                              "minimal",
                                              "no-breaks",
                                              "no-colors",
                                              "no-exitcode",
                                              "no-intro",
                                              "no-path-filenames",
                                              "no-run",
                                              "no-skip",
                                              "no-throw",
                                              "no-version",
                                              "order-by",
                                              "out",
                                              "quiet",
                                              "rand-seed",
                                              "reporters",
                                              "source-file",
                                              "source-file-exclude",
                                              "subcase",
                                              "subcase-exclude",
                                              "subcase-filter-levels",
                                              "success",
                                              "test-case",
                                              "test-case-exclude",
                                              "test-suite",
                                              "test-suite-exclude",
                                              "version"};
  static const std::set<std::string> abbreviated = {
      "aa", "c",  "d",   "e",    "f",  "fc",  "h",  "l",   "lr", "ltc", "lts", "m", "nb",
      "nc", "ne", "ni",  "npf",  "nr", "ns",  "nt", "nv",  "o",  "ob",  "q",   "r", "rs",
      "s",  "sc", "sce", "scfl", "sf", "sfe", "tc", "tce", "ts", "tse", "v"};
  return known.contains(name) || abbreviated.contains(name);
}

int run(int argc, char** argv) {
  std::vector<const char*> rest = {argv[0]};
  std::set<std::string> suites;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("-")) {
      suites.insert(word);
      continue;
    }
    const size_t dashes = word.starts_with("--") ? 2 : 1;
    const size_t end = std::min(word.find('='), word.size());
    const std::string name = word.substr(dashes, end - dashes);
    bool ours = false;
    for (Option& option : options()) {
      if (dashes != 2 || option.name != name) continue;
      ours = true;
      if (option.take(std::string_view(word).substr(std::min(end + 1, word.size())))) continue;
      std::cerr << word << ": not a value that --" << name << " takes\n";
      return 2;
    }
    if (ours) continue;
    if (!of_doctest(name)) {
      std::set<std::string> names;
      for (const Option& option : options()) names.insert("--" + option.name);
      std::cerr << word << ": neither an option of the tests (" << joined(names).substr(1)
                << ") nor of doctest\n";
      return 2;
    }
    rest.push_back(argv[i]);
  }

  doctest::Context context(static_cast<int>(rest.size()), rest.data());
  for (const std::string& suite : suites) context.addFilter("source-file", ("*/" + suite + ".cpp").c_str());
  const int result = context.run();
  if (result != 0 || context.shouldExit()) return result;
  for (const std::string& suite : suites)
    if (!Suites::run.contains(suite)) {
      std::cerr << "no test of " << suite << " ran; there are" << joined(Suites::all) << "\n";
      return 2;
    }
  if (Suites::run.empty()) {
    std::cerr << "no test passes the filter\n";
    return 2;
  }
  return skipped ? 77 : 0;
}

}  // namespace

void add_option(const char* name, std::function<bool(std::string_view)> take) {
  options().push_back({name, std::move(take)});
}

void skip(const std::string& reason) {
  const std::lock_guard lock(skipping);
  skipped = true;
  std::cout << "SKIPPED: " << reason << std::endl;
}

}  // namespace ptxbuilder::test

int main(int argc, char** argv) { return ptxbuilder::test::run(argc, argv); }
