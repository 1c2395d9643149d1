// Tests mutants of a correct kernel. Each mutant must be reported with the right cause. The kernel itself
// must never be reported.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "emulator_kit.h"
#include "lint_kit.h"
#include "ptxbuilder/analysis/prove_schedules.h"

namespace ptxbuilder::runtime::emulator_mutants_test {
namespace {

struct Mutant {
  const char* what;
  // The replacement: occurrence number `nth` of `from` (from 0; -1 for all) becomes `to`.
  const char* from;
  const char* to;
  int nth;
  std::vector<Fault> causes;        // faults that name the error; empty if a note does
  const char* also_from = nullptr;  // every occurrence of this becomes `also_to`
  const char* also_to = nullptr;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
const std::vector<Mutant>& mutants() {
  static const std::vector<Mutant> list = {
      {"no fence.proxy.async before the store",
       "\tfence.proxy.async.shared::cta;\n",
       "\n",
       1,
       {Fault::proxy_fence}},
      {"no fence.proxy.async before the last store",
       "\tfence.proxy.async.shared::cta;\n",
       "\n",
       4,
       {Fault::proxy_fence}},
      {"no fence after mbarrier.init",
       "\tfence.mbarrier_init.release.cluster;\n\t// end inline asm\n\t// begin inline "
       "asm\n\tfence.proxy.async.shared::cta;\n",
       "\n",
       0,
       {}},
      {"no bar.sync after mbarrier.init",
       "\tbar.sync 0;\n",
       "\n",
       0,
       {Fault::mbarrier_init, Fault::mbarrier_use}},
      {"one mbarrier.init too few",
       "\tmbarrier.init.shared::cta.b64 [%r26], 1;\n",
       "\n",
       0,
       {Fault::mbarrier_use}},
      {"consumer does not wait", "\t@!p bra W_0;\n", "\n", 0, {Fault::race, Fault::uninitialised}},
      {"producer does not wait",
       "\t@!p bra W_1;\n",
       "\n",
       0,
       {Fault::race, Fault::arrival_count, Fault::tx_count}},
      {"consumer waits for the other parity",
       "\tbfe.u32 \t%r50, %r52, 2, 1;\n",
       "\tbfe.u32 %r50, %r52, 2, 1;\n\txor.b32 %r50, %r50, 1;\n",
       0,
       {Fault::race, Fault::uninitialised, Fault::deadlock}},
      {"producer waits for the other parity",
       "\tnot.b32 \t%r164, %r6;\n",
       "\tmov.b32 %r164, %r6;\n",
       0,
       {Fault::deadlock}},
      {"16 B too many expected", "[%r158], 49152;", "[%r158], 49168;", 0, {Fault::tx_count}},
      {"16 B too few expected", "[%r158], 49152;", "[%r158], 49136;", 0, {Fault::tx_count}},
      {"no bytes expected",
       "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r158], 49152;",
       "mbarrier.arrive.shared::cta.b64 _, [%r158];",
       0,
       {Fault::tx_count, Fault::race}},
      {"the full barrier's arrival is dropped",
       "\tmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r158], 49152;\n",
       "\tmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r158], 49152;\n",
       0,
       {Fault::deadlock}},
      {"the empty barrier expects one arrival too few",
       "[%r25], 8;",
       "[%r25], 7;",
       0,
       {Fault::arrival_count, Fault::phase_skipped, Fault::race}},
      {"the empty barrier expects one arrival too many",
       "[%r25], 8;",
       "[%r25], 9;",
       0,
       {Fault::deadlock, Fault::arrival_count}},
      {"the full barrier expects one arrival too many", "[%r24], 1;", "[%r24], 2;", 0, {Fault::deadlock}},
      {"a stage is not released",
       "\t@%p8 mbarrier.arrive.shared::cta.b64 _, [%r57];\n",
       "\n",
       0,
       {Fault::deadlock, Fault::arrival_count}},
      {"the loop waits for one group too few",
       "wgmma.wait_group.sync.aligned 1;",
       "wgmma.wait_group.sync.aligned 2;",
       0,
       {Fault::race}},
      {"the accumulators are read after wait_group 1",
       "wgmma.wait_group.sync.aligned 0;",
       "wgmma.wait_group.sync.aligned 1;",
       0,
       {Fault::matrix_registers, Fault::race}},
      {"the stage in use is released",
       "\tadd.s32 \t%r175, %r48, 24;\n",
       "\tadd.s32 %r175, %r48, 32;\n",
       0,
       {Fault::race},
       "\tand.pred \t%p7, %p8, %p6;\n",
       "\tmov.pred %p7, %p8;\n"},
      {"no wgmma.fence", "\twgmma.fence.sync.aligned;\n", "\n", 0, {Fault::matrix_fence}},
      {"no wgmma.commit_group",
       "\twgmma.commit_group.sync.aligned;\n",
       "\n",
       0,
       {Fault::matrix_registers, Fault::race}},
      {"the consumer reads the next stage",
       "\tmul.wide.u32 \t%rd20, %r53, 2048;\n",
       "\tmul.wide.u32 %rd20, %r53, 2048;\n\tadd.s64 %rd20, %rd20, 2048;\n",
       0,
       {Fault::race, Fault::uninitialised, Fault::out_of_bounds}},
      {"the descriptor of B is off by a row group",
       "\tor.b64 \t%rd14, %rd12, 2;\n",
       "\tadd.s64 %rd14, %rd12, 2050;\n",
       0,
       {Fault::race, Fault::uninitialised, Fault::out_of_bounds}},
      {"every lane produces",
       "\t@%p13 bra \t$L__BB0_26;\n",
       "\n",
       0,
       {Fault::arrival_count, Fault::tx_count, Fault::race, Fault::deadlock}},
      {"the staging buffer is reused too early",
       "\t@%p10 cp.async.bulk.wait_group.read 1;\n",
       "\n",
       -1,
       {Fault::race}},
      {"exit without waiting for the stores",
       "\tcp.async.bulk.wait_group 0;\n",
       "\n",
       0,
       {Fault::early_exit}},
      {"no barrier between stmatrix and the store",
       "\tfence.proxy.async.shared::cta;\n\t// end inline asm\n\t// begin inline asm\n\tbar.sync %r5, 128;\n",
       "\tfence.proxy.async.shared::cta;\n",
       0,
       {Fault::race, Fault::proxy_fence, Fault::uninitialised}},
      {"no barrier before stmatrix",
       "@%p10 cp.async.bulk.wait_group.read 1;\n\t// end inline asm\n\t// begin inline asm\n\tbar.sync %r5, "
       "128;\n",
       "@%p10 cp.async.bulk.wait_group.read 1;\n",
       -1,
       {Fault::race}},
      {"the stores are not committed",
       "\tcp.async.bulk.commit_group;\n",
       "\n",
       -1,
       {Fault::race, Fault::early_exit}},
      {"setmaxnreg.inc beyond the budget",
       "setmaxnreg.inc.sync.aligned.u32 232;",
       "setmaxnreg.inc.sync.aligned.u32 240;",
       0,
       {Fault::register_budget}},
      {"the named barrier expects too many",
       "bar.sync %r5, 128;",
       "bar.sync %r5, 160;",
       0,
       {Fault::operand, Fault::deadlock}},
  };
  return list;
}

#pragma GCC diagnostic pop

std::string mutate(std::string text, const Mutant& m) {
  const std::string from = m.from;
  size_t at = 0, changed = 0;
  for (int n = 0; (at = text.find(from, at)) != std::string::npos; ++n) {
    if (m.nth >= 0 && n != m.nth) {
      at += from.size();
      continue;
    }
    text.replace(at, from.size(), m.to);
    at += std::strlen(m.to);
    ++changed;
  }
  const std::string shown = m.what;
  if (m.also_from) {
    at = text.find(m.also_from);
    REQUIRE(at != std::string::npos);
    text.replace(at, std::strlen(m.also_from), m.also_to);
  }
  REQUIRE_MESSAGE(changed > 0, shown);
  return text;
}

// Runs three tiles on two CTAs, with more K tiles than stages.
void run(const std::string& text, uint64_t seed, std::string* notes = nullptr,
         const std::vector<uint32_t>& delayed = {}) {
  EmulatorOptions options;
  options.seed = seed;
  options.delayed = delayed;
  if (notes) options.note = [&](const std::string& note) { *notes += note; };
  Bench bench(text, 384, options);
  const uint32_t m = 384, n = 256, k = 384;
  Address a = bench.upload(std::vector<uint16_t>(m * k)), b = bench.upload(std::vector<uint16_t>(n * k)),
          d = bench.upload(std::vector<uint16_t>(m * n));
  bench.run({2, 1, 1}, 229440, bench.map_2d(a, DType::bf16, m, k, 128, 64, Swizzle::b128),
            bench.map_2d(b, DType::bf16, n, k, 256, 64, Swizzle::b128),
            bench.map_2d(d, DType::bf16, m, n, 64, 64, Swizzle::b128), m / 128, n / 256, k / 64);
}

TEST_CASE("emulator: every mutant of the GEMM is reported with its cause") {
  const std::string text = test_file("emulator/ptx/gemm_128x256x64_bf16.ptx");
  std::string table = fmt::format("\n{:48} {:>5}  {}\n", "mutant", "seeds", "verdict");
  int right = 0;
  for (const Mutant& m : mutants()) {
    const std::string mutant = mutate(text, m);
    std::optional<Fault> fault;
    std::string what, notes;
    uint64_t seed = 0;
    for (; seed < 20 && !fault; ++seed) fault = fault_of([&] { run(mutant, seed, &notes); }, &what);
    const bool ok = fault ? std::find(m.causes.begin(), m.causes.end(), *fault) != m.causes.end()
                          : m.causes.empty() && notes.find("no fence.mbarrier_init or") != std::string::npos;
    right += ok;
    table +=
        fmt::format("{:48} {:5}  {}{}\n", m.what, seed, ok ? "" : "WRONG: ", what.substr(0, what.find('\n')));
    const std::string shown = std::string(m.what) + ": " + what;
    CHECK_MESSAGE(ok, shown);
  }
  MESSAGE(table);
  CHECK(right == static_cast<int>(mutants().size()));
}

TEST_CASE("lint finds at least half of the mutants of the GEMM without a run") {
  const std::string text = test_file("emulator/ptx/gemm_128x256x64_bf16.ptx");
  const std::set<std::string> of_original = test::rules_that_find(text);
  CHECK(of_original == std::set<std::string>{"version"});  // the version is 8.6, although 8.0 would be enough
  std::string table = fmt::format("\n{:48} found by lint\n", "mutant");
  size_t found = 0;
  for (const Mutant& m : mutants()) {
    const std::string rules = test::found_in_mutant(of_original, mutate(text, m));
    found += !rules.empty();
    table += fmt::format("{:48} {}\n", m.what, rules.empty() ? "-" : rules);
  }
  MESSAGE(table << found << " of " << mutants().size());
  CHECK(2 * found >= mutants().size());
}

TEST_CASE("no mutant of the GEMM is proved for all schedules, and the schedules that are named fail") {
  const std::string text = test_file("emulator/ptx/gemm_128x256x64_bf16.ptx");
  const auto prove = [](const std::string& ptx) { return analysis::prove_schedules(ptx_text::parse(ptx)); };
  const auto is = [](const analysis::ScheduleProof& proof, analysis::ScheduleProof::Verdict verdict) {
    const std::string shown = analysis::text(proof);
    CHECK_MESSAGE(proof.verdict == verdict, shown);
    return shown.substr(0, shown.find('\n'));
  };
  is(prove(text), analysis::ScheduleProof::Verdict::proved);
  std::string table = fmt::format("\n{:48} {:>5}  why it is not proved\n", "mutant", "late");
  int named = 0;
  for (const Mutant& m : mutants()) {
    CAPTURE(m.what);
    const std::string mutant = mutate(text, m);
    const analysis::ScheduleProof proof = prove(mutant);
    const std::string shown = is(proof, analysis::ScheduleProof::Verdict::refuted);
    table += fmt::format("{:48} {:>5}  {}\n", m.what, proof.late, shown);
    std::vector<uint32_t> delayed;
    if (proof.late != 0) delayed.push_back(proof.late);
    named += proof.late != 0;
    std::string what;
    const auto fault = fault_of([&] { run(mutant, 0, nullptr, delayed); }, &what);
    CAPTURE(what);
    CHECK(fault.has_value() == !m.causes.empty());  // a note has no cause
  }
  MESSAGE(table << named << " name a schedule, and the others fail on any");
  CHECK(named >= 16);
}

TEST_CASE("emulator: the unmutated GEMM is never reported") {
  const std::string text = test_file("emulator/ptx/gemm_128x256x64_bf16.ptx");
  for (uint64_t seed = 0; seed < 64; ++seed) {
    std::string what;
    auto fault = fault_of([&] { run(text, seed); }, &what);
    CAPTURE(seed);
    CHECK_MESSAGE(!fault, what);
    if (fault) break;
  }
  for (uint32_t line : {63u, 169u, 182u, 197u, 210u, 247u, 322u, 489u, 624u, 630u, 635u, 640u}) {
    std::string what;
    const auto fault = fault_of([&] { run(text, line, nullptr, {line}); }, &what);
    CAPTURE(line);
    CHECK_MESSAGE(!fault, what);
  }
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_mutants_test
