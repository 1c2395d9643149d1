// Joins many instructions into modules and kernels for ptxas, because starting ptxas takes longer than
// assembling.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ptxas_kit.h"
#include "ptxbuilder/isa/target.h"

namespace ptxbuilder::test {

// Returns the error of ptxas about a module, or "" if ptxas accepts it.
inline std::string refusal(const Ptxas& ptxas, const std::string& ptx) {
  try {
    ptxas.assemble(ptx);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// Runs body(i) for i below `count` on all cores, and returns the messages in order.
inline std::vector<std::string> in_parallel(size_t count, const std::function<std::string(size_t)>& body) {
  std::vector<std::string> results(count);
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> workers;
  for (unsigned t = 0; t < std::max(2u, std::thread::hardware_concurrency()); ++t)
    workers.emplace_back([&] {
      for (size_t i; (i = next++) < count;) results[i] = body(i);
    });
  workers.clear();  // joins the threads
  return results;
}

// An instruction with the registers that it declares, and its subject.
struct Statement {
  std::string what, text;
  // Set if the statement needs its own kernel. An instruction that ends a thread makes the following ones
  // dead code, and some instructions restrict the whole kernel.
  bool alone = false;
  bool of_a_pair = false;  // .cta_group::2, which may not be in a kernel with .cta_group::1

  // Extracts the statement from a module with one kernel that contains only this statement.
  static std::shared_ptr<const Statement> of(std::string what, const std::string& module) {
    const size_t begin = module.find("{\n") + 2, end = module.rfind("\tret;\n}");
    std::string text = module.substr(begin, end - begin);
    const size_t mnemonic = text.rfind("\n\t", text.size() - 2);
    std::string_view words = std::string_view(text).substr(mnemonic == std::string::npos ? 0 : mnemonic + 1);
    words.remove_prefix(std::min(words.find_first_not_of('\t'), words.size()));
    if (words.starts_with('@')) words.remove_prefix(std::min(words.find(' ') + 1, words.size()));
    bool alone = false;
    for (const std::string_view word : {"wgmma", "setmaxnreg", "ret", "exit", "trap", "brkpt"})
      alone |= words.starts_with(word) && words.find_first_of(".; ") == word.size();
    const bool of_a_pair = text.find(".cta_group::2") != std::string::npos;
    return std::make_shared<const Statement>(Statement{std::move(what), std::move(text), alone, of_a_pair});
  }
};

// A request to ptxas.
struct Entry {
  std::shared_ptr<const Statement> statement;
  const isa::Target* target;
  int ptx_version;
};

// Returns a module in which each statement has its own block, at "line" i + 1 of a file `rows`. Messages name
// this line.
inline std::string joined(const std::vector<Entry>& entries, size_t begin, size_t end) {
  std::string text = fmt::format(".version {}\n.target {}\n.address_size 64\n.file 1 \"rows\"\n",
                                 isa::version_text(entries[begin].ptx_version), entries[begin].target->name);
  bool open = false;
  const auto close = [&] { text += open ? "\tret;\n}\n" : "", open = false; };
  for (size_t i = begin; i < end; ++i) {
    const Statement& statement = *entries[i].statement;
    if (statement.alone) close();
    if (!open)
      text += fmt::format(".visible .entry row_{}()\n.maxntid 128\n.minnctapersm 1\n{{\n", i), open = true;
    text += fmt::format("\t.loc 1 {} 1\n{{\n{}}}\n", i + 1, statement.text);
    if (statement.alone) close();
  }
  close();
  return text;
}

inline std::string refusal(const Ptxas& ptxas, const Entry& entry) {
  return refusal(ptxas, joined({entry}, 0, 1));
}

// Sorts the entries, and returns ranges of entries with the same target and .version. A separate kernel for
// each statement would take longer.
inline std::vector<std::pair<size_t, size_t>> batches_of(std::vector<Entry>& entries) {
  const auto key = [](const Entry& e) {
    return std::tuple(e.statement->alone, e.statement->of_a_pair, e.target->sm, e.ptx_version);
  };
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const Entry& a, const Entry& b) { return key(a) < key(b); });
  std::vector<std::pair<size_t, size_t>> batches;
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool joins = !batches.empty() && key(entries[i]) == key(entries[batches.back().first]) &&
                       i - batches.back().first < (entries[i].statement->alone ? 64 : 1000);
    if (joins)
      batches.back().second = i + 1;
    else
      batches.emplace_back(i, i + 1);
  }
  return batches;
}

inline std::string named(const Entry& e, const std::string& text) {
  return fmt::format("{} for {}, PTX {}: {}\n", e.statement->what, e.target->name,
                     isa::version_text(e.ptx_version), text);
}

// Returns the messages of ptxas about each entry from `begin` to `end`. The line that a message names
// identifies the entry.
inline std::vector<std::string> said_of_each(const std::string& messages, size_t begin, size_t end) {
  std::vector<std::string> said(end - begin);
  std::istringstream lines(messages);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("rows:");
    if (at == std::string::npos || line.find("info") != std::string::npos) continue;
    const size_t number = std::strtoul(line.c_str() + at + 5, nullptr, 10);
    if (number > begin && number <= end) said[number - begin - 1] += line;
  }
  return said;
}

// Assembles all entries, many in one module, and then each entry of a refused module alone. Returns the names
// of the entries that ptxas refuses, with its messages.
inline std::vector<std::string> refused(const Ptxas& ptxas, std::vector<Entry> entries) {
  const auto batches = batches_of(entries);
  std::vector<std::string> failures = in_parallel(batches.size(), [&](size_t b) {
    auto [begin, end] = batches[b];
    std::string failure = refusal(ptxas, joined(entries, begin, end));
    if (failure.empty()) return failure;
    std::string each;
    const std::vector<std::string> said = said_of_each(failure, begin, end);
    for (size_t i = begin; i < end; ++i)
      if (!said[i - begin].empty()) each += named(entries[i], said[i - begin]);
    if (!each.empty()) return each;
    for (size_t i = begin; i < end; ++i)
      if (std::string text = refusal(ptxas, entries[i]); !text.empty()) each += named(entries[i], text);
    return each.empty() ? failure : each;
  });
  std::erase(failures, "");
  return failures;
}

inline void check_accepted(const Ptxas& ptxas, std::vector<Entry> entries) {
  for (const std::string& failure : refused(ptxas, std::move(entries))) FAIL_CHECK(failure);
}

}  // namespace ptxbuilder::test
