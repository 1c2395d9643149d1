// Tests faults that the emulator finds when kernels run, and that lint must find without a run. Each fault is
// planted in a kernel of tests/emulator/faults, which is correct without it.
#include <doctest/doctest.h>

#include "tests/kit/emulator_kit.h"
#include "tests/kit/lint_kit.h"

namespace ptxbuilder::test::emulator_faults_test {
using namespace runtime;

namespace {

struct Planted {
  const char* kernel;
  const char* from;
  const char* to;
  const char* rule;  // the rule of lint, or "" if none finds the fault
  const char* says;  // words of the emulator's report
  int place = 1;
};

const std::string kWaitEmpty =
    "WAIT_EMPTY:\n"
    "  mbarrier.try_wait.parity.shared::cta.b64 %passed, [%empty], %parity;\n"
    "  @!%passed bra WAIT_EMPTY;\n";
const std::string kEnd =
    "  barrier.cluster.arrive.aligned;\n"
    "  barrier.cluster.wait.aligned;\n";
const std::string kBegin =
    "  barrier.cluster.arrive.release.aligned;\n"
    "  barrier.cluster.wait.acquire.aligned;\n";
const std::string kCopyDone =
    "  cp.async.wait_group 0;\n"
    "  fence.proxy.async.shared::cta;\n";

const Planted kPlanted[] = {
    // Faults of proxies.
    {"ring", "  fence.proxy.async.shared::cta;\n", "", "proxy-fence", "missing fence.proxy.async"},
    {"copies", "  fence.proxy.async.shared::cta;\n", "", "proxy-fence", "missing fence.proxy.async"},
    {"through", "  fence.proxy.async.shared::cta;\n", "", "proxy-fence", "missing fence.proxy.async", 2},
    // Reads of data that has not arrived yet.
    {"copies", kCopyDone.c_str(), "  fence.proxy.async.shared::cta;\n", "copy-wait", "cp.async"},
    {"copies", "  cp.async.wait_group 0;\n", "", "copy-wait", "cp.async", 2},
    {"copies", "  cp.async.wait_group 0;\n", "  cp.async.wait_group 1;\n", "copy-wait", "cp.async", 2},
    {"ring", "shr.u32 %parity, %i, 1;", "shr.u32 %parity, %i, 2;", "parity", ""},
    {"ring", "2048;\n  cp", "1024;\n  cp", "expected-bytes", ""},
    {"words", "], 256;", "], 128;", "expected-bytes", ""},
    {"through", "bar.sync 0;\n  @%other bra DONE;", "@%other bra DONE;", "store-barrier", "race"},
    // Faults of stages.
    {"ring", "  wgmma.wait_group.sync.aligned 0;\n  @%lane0 mbarrier.arrive.shared::cta.b64 _, [%empty];\n",
     "  @%lane0 mbarrier.arrive.shared::cta.b64 _, [%empty];\n  wgmma.wait_group.sync.aligned 0;\n",
     "stage-release", "race"},
    {"words", "  ld.shared.b32 %x, [%a];\n  mbarrier.arrive.shared::cta.b64 _, [%empty];\n",
     "  mbarrier.arrive.shared::cta.b64 _, [%empty];\n  ld.shared.b32 %x, [%a];\n", "stage-release", "race"},
    {"ring", kWaitEmpty.c_str(), "", "stage-refill", "wrong count of arrivals"},
    {"words", kWaitEmpty.c_str(), "", "stage-refill", "wrong count of arrivals"},
    {"through", "  cp.async.bulk.wait_group.read 0;\n", "  cp.async.bulk.wait_group.read 1;\n",
     "staging-reuse", "race"},
    {"through", "  cp.async.bulk.wait_group.read 0;\n", "", "schedule", "race", 2},
    {"through", "  cp.async.bulk.wait_group 0;\n", "", "bulk-groups", "exit"},
    // Faults of clusters.
    {"ends", kEnd.c_str(), "", "cluster-exit", "exit"},
    {"ends", kBegin.c_str(), "", "cluster-entry", ""},
    {"peers", "mbarrier.arrive.release.cluster.shared::cluster.b64",
     "mbarrier.arrive.release.cluster.shared::cta.b64", "cluster-address", ""},
    {"peers", kBegin.c_str(), "", "cluster-entry", ""},
    // Faults of barriers.
    {"ring", "@%first mbarrier.init.shared::cta.b64 [full], 1;", "mbarrier.init.shared::cta.b64 [full], 1;",
     "barrier-initialised", ""},
    {"ring", "  bar.sync 0;\n", "", "barrier-published", ""},
    {"words", "[empty], 64;", "[empty], 65;", "arrival-count", "deadlock"},
    {"words", "  xor.b32 %parity, %parity, 1;\n", "", "circular-wait", "deadlock"},
    {"words", "bar.sync 1, 64;", "bar.sync 1, 96;", "named-barrier", "deadlock"},
    {"words", "  @!%lane0 bra DONE;\n", "", "arrival-count", "wrong count of arrivals"},
    // These faults have no rule of their own, because they concern the order of threads.
    {"tree", "  bar.sync 0;\n", "", "schedule", "race"},
    {"tree", "  mov.u32 %r5, 128;\nLOOP:\n  bar.sync 0;\n", "  bar.sync 0;\n  mov.u32 %r5, 128;\nLOOP:\n",
     "schedule", "race"},
    {"pieces", "wait_group 1", "wait_group 2", "schedule", "cp.async"},
    {"pieces", "  bar.sync 0;\n", "", "schedule", "race"},
    {"pieces", "%r10, 2048", "%r10, 1024", "schedule", "race"},
    {"push", "%r10, %r5, %r8", "%r10, %r5, %r7", "schedule", "race"},
    // Faults of products.
    {"ring", "  wgmma.fence.sync.aligned;\n", "", "wgmma-fence", "wgmma.fence"},
    {"ring", "  wgmma.wait_group.sync.aligned 0;\n", "", "wgmma-groups", ""},
    {"copies", "  wgmma.commit_group.sync.aligned;\n", "", "wgmma-groups", ""},
};

std::string replaced(std::string text, const std::string& from, const std::string& to, int place) {
  size_t at = text.find(from);
  for (int i = 1; i < place && at != std::string::npos; ++i) at = text.find(from, at + 1);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string kernel_text(const std::string& name) { return test_file("emulator/faults/" + name + ".ptx"); }

// Returns the emulator's first report over a few schedules, or "no fault" if all succeed.
std::string emulated(const std::string& text) {
  std::string what;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    EmulatorOptions options;
    options.seed = seed;
    const bool is_cluster = text.find(".reqnctapercluster") != std::string::npos;
    const size_t threads = text.find(".reqntid ") + 9;
    Bench bench(text, static_cast<uint32_t>(std::stoul(text.substr(threads))), options);
    const Address a = bench.upload(std::vector<uint32_t>(4096, 0x3f803f80)),
                  d = bench.upload(std::vector<uint32_t>(4096));
    if (fault_of(
            [&] {
              bench.run_for(std::chrono::seconds(5), {is_cluster ? 2u : 1u, 1, 1}, 0, a, d, 6u);
            },
            &what))
      return what;
  }
  return what;
}

}  // namespace

TEST_CASE("correct kernels run, and lint finds nothing in them") {
  for (const char* name : {"ring", "words", "copies", "through", "peers", "ends", "tree", "pieces", "push"}) {
    CAPTURE(std::string(name));
    CHECK(emulated(kernel_text(name)) == "no fault");
    std::set<std::string> rules = rules_that_find(kernel_text(name));
    rules.erase("version");
    CHECK(rules == std::set<std::string>{});
  }
}

TEST_CASE("the emulator and lint find each planted fault") {
  std::map<std::string, std::set<std::string>> of_originals;
  for (const Planted& p : kPlanted) {
    CAPTURE(std::string(p.kernel));
    CAPTURE(std::string(p.from));
    CAPTURE(std::string(p.to));
    const std::string right = kernel_text(p.kernel), text = replaced(right, p.from, p.to, p.place),
                      what = emulated(text);
    CAPTURE(what);
    CHECK(what != "no fault");
    CHECK(what.find(p.says) != std::string::npos);
    if (!of_originals.contains(p.kernel)) of_originals[p.kernel] = rules_that_find(right);
    const std::string found = found_in_mutant(of_originals[p.kernel], text);
    CAPTURE(found);
    CHECK((*p.rule ? found.find(p.rule) != std::string::npos : found.empty()));
  }
}

}  // namespace ptxbuilder::test::emulator_faults_test
