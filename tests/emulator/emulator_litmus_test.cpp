// Litmus tests of PTX's memory model. Over many seeds, each outcome must appear that the model allows and the
// emulated machine promises, and no outcome may appear that the model forbids.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "emulator_kit.h"
#include "runtime/emulator/exploration.h"

namespace ptxbuilder::runtime::emulator_litmus_test {
namespace {

// Each thread has a line of code. "x = 1" stores, "r = x" loads, "r = x += 1" is an atomic addition, and "F"
// is the fence of the case. An outcome is the values of r in the order of the threads, followed by the final
// values of x, y, ...
struct Shape {
  const char* name;
  std::vector<std::vector<const char*>> threads;
  const char* locations;
  // Holds either a list of values for each position of an outcome, or the outcomes themselves. In the first
  // form, all combinations must appear except forbidden ones.
  std::vector<const char*> values;
};

const Shape message = {"MP", {{"x = 1", "F", "y = 1"}, {"r = y", "F", "r = x"}}, "", {"01", "01"}};
const Shape buffering = {"SB", {{"x = 1", "F", "r = y"}, {"y = 1", "F", "r = x"}}, "", {"01", "01"}};
const Shape loads = {"LB", {{"r = x", "F", "y = 1"}, {"r = y", "F", "x = 1"}}, "", {"01", "01"}};
const Shape readers = {"IRIW",
                       {{"x = 1"}, {"y = 1"}, {"r = x", "F", "r = y"}, {"r = y", "F", "r = x"}},
                       "",
                       {"01", "01", "01", "01"}};
const Shape coherence = {"CoRR", {{"x = 1"}, {"r = x", "r = x"}}, "", {"01", "01"}};
const Shape coherence_of_two = {
    "CoRR of two writers", {{"x = 1"}, {"x = 2"}, {"r = x", "r = x"}, {"r = x", "r = x"}}, "", {}};
const Shape writes = {"2+2W", {{"x = 1", "F", "y = 2"}, {"y = 1", "F", "x = 2"}}, "xy", {" ", "12", "12"}};
const Shape store_then_read = {
    "R", {{"x = 1", "F", "y = 1"}, {"y = 2", "F", "r = x"}}, "y", {"01", " ", "12"}};
const Shape store_behind = {"S", {{"x = 2", "F", "y = 1"}, {"r = y", "F", "x = 1"}}, "x", {"01", " ", "12"}};
const Shape chain = {"ISA2",
                     {{"x = 1", "F", "y = 1"}, {"r = y", "F", "z = 1"}, {"r = z", "F", "r = x"}},
                     "",
                     {"01", "01", "01"}};
const Shape causality = {
    "WRC", {{"x = 1"}, {"r = x", "F", "y = 1"}, {"r = y", "F", "r = x"}}, "", {"01", "01", "01"}};
const Shape sums = {"two sums", {{"r = x += 1"}, {"r = x += 1"}}, "x", {"01 2", "10 2"}};
const Shape sum_between = {"a sum and a store", {{"r = x += 1"}, {"x = 5"}}, "x", {"0 5", "5 6"}};

struct Case {
  const Shape& shape;
  const char* load;  // such as "ld.relaxed.gpu"
  const char* store;
  const char* fence;  // "" for none
  // An outcome that must appear, and one that must not; "" if there is none. All others may appear.
  const char* weak = "";
  const char* forbidden = "";
  bool together = false;  // the threads are warps of one CTA instead of separate CTAs
  int cluster = 1;
};

std::string ptx(const Case& c) {
  std::string body;
  size_t results = 0;
  std::string where[] = {"%rd1", "%rd2", "%rd3"};
  for (size_t thread = 0; thread < c.shape.threads.size(); ++thread) {
    body +=
        fmt::format("setp.ne.u32 %p0, {}, {};\n@%p0 bra T{};\n", c.together ? "%r9" : "%r1", thread, thread);
    for (const std::string op : c.shape.threads[thread]) {
      auto at = [&](char location) { return where[location - 'x']; };
      if (op == "F")
        body += fmt::format("{};\n", *c.fence ? c.fence : "// no fence");
      else if (op.find("+=") != std::string::npos)
        body += fmt::format("atom.relaxed.gpu.global.add.u32 %r5, [{}], {};\nst.global.u32 [%rd4+{}], %r5;\n",
                            at(op[4]), op.back(), 16 * results++);
      else if (op[0] == 'r')
        body += fmt::format("{}.global.u32 %r{}, [{}];\n", c.load, 10 + results++, at(op[4]));
      else
        body += fmt::format("{}.global.u32 [{}], {};\n", c.store, at(op[0]), op.back());
    }
    for (size_t r = 0, n = 0; r < c.shape.threads.size(); ++r)
      for (const std::string op : c.shape.threads[r])
        if (op[0] == 'r') {
          if (r == thread && op.find("+=") == std::string::npos)
            body += fmt::format("st.global.u32 [%rd4+{}], %r{};\n", 16 * n, 10 + n);
          ++n;
        }
    body += fmt::format("T{}:\n", thread);
  }
  return fmt::format(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {} {{
.reg .b32 %r<24>; .reg .b64 %rd<8>; .reg .pred %p<4>;
ld.param.u64 %rd1, [p]; add.u64 %rd2, %rd1, 256; add.u64 %rd3, %rd1, 512; add.u64 %rd4, %rd1, 768;
mov.u32 %r1, %ctaid.x; mov.u32 %r0, %tid.x; and.b32 %r8, %r0, 31; setp.ne.u32 %p1, %r8, 0; @%p1 bra E; shr.u32 %r9, %r0, 5;
{}E: ret;
}}
)",
                     c.cluster > 1 ? fmt::format(".reqnctapercluster {}, 1, 1", c.cluster) : "", body);
}

// A case on a device.
class Trial {
 public:
  explicit Trial(const Case& c, Exploration* exploration = nullptr)
      : case_(c),
        bench_(ptx(c), c.together ? 32 * threads() : 32, options(exploration)),
        memory_(bench_.upload(std::vector<uint32_t>(256))) {}

  // Returns the results of the loads and, after a blank, the final values of the locations.
  std::string outcome(uint64_t seed);

 private:
  uint32_t threads() const { return static_cast<uint32_t>(case_.shape.threads.size()); }
  static EmulatorOptions options(Exploration* exploration) {
    EmulatorOptions options;
    options.exploration = exploration;
    options.finding = [](const EmulatorError&) {};  // weak accesses race
    return options;
  }

  const Case& case_;
  Bench bench_;
  Address memory_;
};

std::string Trial::outcome(uint64_t seed) {
  const Shape& shape = case_.shape;
  bench_.device().seed(seed);
  bench_.device().fill(memory_, 0, 1024);
  bench_.run({case_.together ? 1 : threads(), 1, 1}, 0, memory_);
  const auto memory = bench_.download<uint32_t>(memory_, 256);
  std::string result;
  size_t n = 0;
  for (const auto& thread : shape.threads)
    for (const std::string op : thread)
      if (op[0] == 'r') result += std::to_string(memory[192 + 4 * n++]);
  if (*shape.locations) result += ' ';
  for (const char* at = shape.locations; *at; ++at)
    result += std::to_string(memory[static_cast<size_t>(*at - 'x') * 64]);
  return result;
}

const char *const weak_store = "st", *const relaxed_load = "ld.relaxed.gpu",
                  *const relaxed_store = "st.relaxed.gpu", *const acquire = "ld.acquire.gpu",
                  *const release = "st.release.gpu", *const acq_rel = "fence.acq_rel.gpu",
                  *const sc = "fence.sc.gpu";

const std::vector<Case>& cases() {
  static const std::vector<Case> table = {
      {message, relaxed_load, relaxed_store, "", "10"},
      {message, "ld.volatile", weak_store, "", "10"},
      {message, "ld.volatile", "st.volatile", "", "10"},
      {message, acquire, relaxed_store, "", "10"},
      {message, relaxed_load, release, "", "10"},
      {message, acquire, release, "", "", "10"},
      {message, "ld.acquire.sys", "st.release.sys", "", "", "10"},
      {message, "ld.acquire.cta", "st.release.gpu", "", "10"},
      {message, "ld.acquire.gpu", "st.release.cta", "", "10"},
      {message, relaxed_load, relaxed_store, acq_rel, "", "10"},
      {message, relaxed_load, relaxed_store, sc, "", "10"},
      {message, "ld.volatile", "st.volatile", "membar.gl", "", "10"},
      {message, relaxed_load, relaxed_store, "fence.acq_rel.cta", "10"},
      {message, relaxed_load, relaxed_store, "fence.acq_rel.cta", "", "10", true},
      {message, "ld.relaxed.cta", "st.relaxed.cta", "", "10", "", true},
      {message, "ld.acquire.cta", "st.release.cta", "", "", "10", true},
      {message, "ld.relaxed.cluster", "st.relaxed.cluster", "fence.acq_rel.cluster", "", "10", false, 2},
      {message, "ld.acquire.cluster", "st.release.cluster", "", "", "10", false, 2},
      {message, "ld.acquire.cluster", "st.release.cluster", "", "10"},
      {buffering, relaxed_load, relaxed_store, "", "00"},
      {buffering, acquire, release, "", "00"},
      {buffering, relaxed_load, relaxed_store, acq_rel, "00"},
      {buffering, acquire, release, acq_rel, "00"},
      {buffering, relaxed_load, relaxed_store, sc, "", "00"},
      {buffering, "ld.volatile", "st.volatile", "membar.gl", "", "00"},
      {buffering, relaxed_load, relaxed_store, "fence.sc.cta", "00"},
      {buffering, relaxed_load, relaxed_store, "fence.sc.cta", "", "00", true},
      {buffering, "ld.relaxed.cta", "st.relaxed.cta", "membar.cta", "", "00", true},
      {buffering, "ld.relaxed.cta", "st.relaxed.cta", "fence.acq_rel.cta", "00", "", true},
      {buffering, relaxed_load, relaxed_store, "fence.sc.cluster", "", "00", false, 2},
      {buffering, relaxed_load, relaxed_store, "fence.sc.cluster", "00"},
      {loads, acquire, release, "", "", "11"},
      {loads, relaxed_load, relaxed_store, acq_rel, "", "11"},
      {readers, relaxed_load, relaxed_store, "", "1010"},
      {readers, acquire, release, "", "1010"},
      {readers, relaxed_load, relaxed_store, acq_rel, "1010"},
      {readers, relaxed_load, relaxed_store, sc, "", "1010"},
      {coherence, relaxed_load, relaxed_store, "", "01", "10"},
      {coherence, "ld.volatile", "st.volatile", "", "01", "10"},
      {coherence_of_two, relaxed_load, relaxed_store, "", "1122", "1221"},
      {coherence_of_two, acquire, release, "", "2211", "2112"},
      {writes, relaxed_load, relaxed_store, "", " 11"},
      {writes, relaxed_load, release, "", " 11"},
      {writes, relaxed_load, relaxed_store, acq_rel, " 11"},
      {writes, relaxed_load, relaxed_store, sc, "", " 11"},
      {store_then_read, relaxed_load, relaxed_store, acq_rel, "0 2"},
      {store_then_read, relaxed_load, relaxed_store, sc, "", "0 2"},
      {store_behind, relaxed_load, relaxed_store, "", "1 2"},
      {store_behind, acquire, release, "", "", "1 2"},
      {store_behind, relaxed_load, relaxed_store, acq_rel, "", "1 2"},
      {chain, acquire, release, "", "", "110"},
      {chain, relaxed_load, relaxed_store, "", "110"},
      {chain, acquire, relaxed_store, "", "110"},
      {chain, relaxed_load, relaxed_store, acq_rel, "", "110"},
      {causality, acquire, release, "", "", "110"},
      {causality, relaxed_load, relaxed_store, "", "110"},
      {causality, relaxed_load, relaxed_store, acq_rel, "", "110"},
      {sums, relaxed_load, relaxed_store, "", "01 2", "00 1"},
      {sum_between, relaxed_load, relaxed_store, "", "0 5", "5 5"},
  };
  return table;
}

TEST_CASE("litmus tests: what PTX's memory model allows appears over seeds, and nothing that it forbids") {
  constexpr uint64_t seeds = 400;
  for (const Case& c : cases()) {
    Trial trial(c);
    std::set<std::string> seen;
    for (uint64_t seed = 0; seed < seeds && (*c.forbidden || !seen.contains(c.weak)); ++seed)
      seen.insert(trial.outcome(seed));
    const std::string name = fmt::format("{} {} {} {}{}: saw {}", c.shape.name, c.load, c.store, c.fence,
                                         c.together ? " in one CTA" : "", fmt::join(seen, ", "));
    if (*c.weak) CHECK_MESSAGE(seen.contains(c.weak), name);
    if (*c.forbidden) CHECK_MESSAGE(!seen.contains(c.forbidden), name);
    CHECK_MESSAGE(seen.size() > 1, name);
  }
}

std::set<std::string> all_but_forbidden(const Case& c) {
  std::set<std::string> all = {""};
  if (std::string_view(c.shape.values[0]).size() > 2) {
    all = {c.shape.values.begin(), c.shape.values.end()};
  } else {
    for (const std::string values : c.shape.values) {
      std::set<std::string> longer;
      for (const std::string& outcome : all)
        for (const char value : values) longer.insert(outcome + value);
      all = longer;
    }
  }
  all.erase(c.forbidden);
  return all;
}

TEST_CASE(
    "litmus tests: an exploration ends, and has shown all outcomes that are not forbidden, and no other") {
  uint64_t schedules = 0;
  for (const Case& c : cases()) {
    if (c.shape.values.empty()) continue;
    std::set<std::string> seen;
    Exploration exploration(20000);
    Trial trial(c, &exploration);
    while (exploration.begin()) {
      try {
        seen.insert(trial.outcome(0));
        exploration.end();
      } catch (const Exploration::Abandoned&) {
      }
    }
    schedules += exploration.explored();
    const std::string name =
        fmt::format("{} {} {} {}{}: {} schedules, saw {}", c.shape.name, c.load, c.store, c.fence,
                    c.together ? " in one CTA" : "", exploration.explored(), fmt::join(seen, ", "));
    CHECK_MESSAGE(exploration.is_complete(), name);
    CHECK_MESSAGE(seen == all_but_forbidden(c), name);
  }
  MESSAGE(schedules, " schedules");
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_litmus_test
