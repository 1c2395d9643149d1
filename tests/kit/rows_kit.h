// Many kernels of one instruction each, as ptxas sees them: joined to modules, since starting it takes longer
// than assembling.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ptxas_kit.h"
#include "ptxbuilder/isa/target.h"

namespace ptxbuilder::test {

// What ptxas says against a module; "" when it takes it.
inline std::string refusal(const Ptxas& ptxas, const std::string& ptx) {
  try {
    ptxas.assemble(ptx);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// Runs body(i) for i below `count` on all cores, and yields the messages in order.
inline std::vector<std::string> in_parallel(size_t count, const std::function<std::string(size_t)>& body) {
  std::vector<std::string> results(count);
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> workers;
  for (unsigned t = 0; t < std::max(2u, std::thread::hardware_concurrency()); ++t)
    workers.emplace_back([&] {
      for (size_t i; (i = next++) < count;) results[i] = body(i);
    });
  workers.clear();  // joins
  return results;
}

// One kernel of a module, and what it is about.
struct Entry {
  std::string what, module;
  const isa::Target* target;
  int ptx_version;
};

// Kernel i of the result stands at "line" i + 1 of a file `rows`, by which messages name it.
inline std::string joined(const std::vector<Entry>& entries, size_t begin, size_t end) {
  std::string text;
  for (size_t i = begin; i < end; ++i) {
    const std::string& module = entries[i].module;
    size_t entry = module.find(".visible");
    if (i == begin) text = module.substr(0, entry) + ".file 1 \"rows\"\n";
    std::string kernel = module.substr(entry);
    kernel.replace(kernel.find("row()"), 5, fmt::format("row_{}()", i));
    kernel.insert(kernel.find("{\n") + 2, fmt::format("\t.loc 1 {} 1\n", i + 1));
    text += kernel;
  }
  return text;
}

// Ranges of entries for one target and .version each, 64 at most; sorts them.
inline std::vector<std::pair<size_t, size_t>> batches_of(std::vector<Entry>& entries) {
  auto key = [](const Entry& e) { return std::pair(e.target->sm, e.ptx_version); };
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    return std::pair(key(a), a.what) < std::pair(key(b), b.what);
  });
  std::vector<std::pair<size_t, size_t>> batches;
  for (size_t i = 0; i < entries.size(); ++i) {
    bool joins = !batches.empty() && key(entries[i]) == key(entries[batches.back().first]) &&
                 i - batches.back().first < 64;
    if (joins)
      batches.back().second = i + 1;
    else
      batches.emplace_back(i, i + 1);
  }
  return batches;
}

inline std::string named(const Entry& e, const std::string& text) {
  return fmt::format("{} for {}, PTX {}: {}\n", e.what, e.target->name, isa::version_text(e.ptx_version),
                     text);
}

// Assembles all, many to a module, and each of a module that is refused alone: yields what ptxas refuses,
// each by its name, with what it says.
inline std::vector<std::string> refused(const Ptxas& ptxas, std::vector<Entry> entries) {
  const auto batches = batches_of(entries);
  std::vector<std::string> failures = in_parallel(batches.size(), [&](size_t b) {
    auto [begin, end] = batches[b];
    std::string failure = refusal(ptxas, joined(entries, begin, end));
    if (failure.empty()) return failure;
    std::string alone;
    for (size_t i = begin; i < end; ++i)
      if (std::string text = refusal(ptxas, entries[i].module); !text.empty())
        alone += named(entries[i], text);
    return alone.empty() ? failure : alone;
  });
  std::erase(failures, "");
  return failures;
}

inline void check_accepted(const Ptxas& ptxas, std::vector<Entry> entries) {
  for (const std::string& failure : refused(ptxas, std::move(entries))) FAIL_CHECK(failure);
}

}  // namespace ptxbuilder::test
