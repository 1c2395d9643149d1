#include "ptxbuilder/analysis/lint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "ptxbuilder/analysis/lint_kernel.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::analysis {
namespace {

// All rules. A new rule needs a row here, and its function.
struct Rule {
  RuleText text;
  Check check;
  bool is_last = false;  // it runs only if the other rules have found nothing
};

constexpr Rule kRules[] = {
    {{"wgmma-fence", "wgmma whose accumulators or A registers were touched since the last wgmma.fence",
      "Put wgmma.fence.sync.aligned between what touches the registers and the first wgmma that uses them."},
     check_wgmma_fence},
    {{"wgmma-registers", "an accumulator touched, or A overwritten, while a wgmma may still use it",
      "Wait by wgmma.wait_group for the group of the wgmma before the register is used."},
     check_accumulators},
    {{"wgmma-groups", "wgmma that is never committed, or never waited for",
      "Commit each batch by wgmma.commit_group, and wait for the last one before the kernel ends."},
     check_wgmma_groups},
    {{"wgmma-layout",
      "wgmmas that read one tile with different swizzles, or with another than its tensor map's",
      "Say in each descriptor of the tile the swizzle with which it was copied."},
     check_layouts},
    {{"tensor-memory-wait", "a register of tcgen05.ld used before tcgen05.wait::ld",
      "Put tcgen05.wait::ld.sync.aligned between the load and the first use of its registers."},
     check_tensor_memory_wait},
    {{"tensor-memory-fence", "tcgen05.ld of products that another thread committed, without a fence",
      "Put tcgen05.fence::after_thread_sync between the wait for the mbarrier of tcgen05.commit and the "
      "load.",
      true},
     check_tensor_memory_fence},
    {{"proxy-fence", "a bulk copy or a wgmma of what was written to shared memory without fence.proxy.async",
      "Let each writing thread run fence.proxy.async.shared::cta between its writes and the barrier."},
     check_proxy_fence},
    {{"store-barrier", "a bulk copy of what other warps wrote, without a barrier",
      "Put a barrier of the writing threads between their fence and the copy."},
     check_store_order},
    {{"staging-reuse",
      "shared memory written, by threads or by a bulk copy, while another bulk copy may still read it",
      "Let the thread that copies run cp.async.bulk.wait_group.read, and all threads a barrier, before the "
      "next write."},
     check_staging},
    {{"bulk-groups", "a bulk copy out of shared memory that is never committed, or never waited for",
      "Commit by cp.async.bulk.commit_group, and wait by cp.async.bulk.wait_group before the kernel ends."},
     check_bulk_groups},
    {{"copy-wait", "what cp.async copies, read or announced to others before it is waited for",
      "Run cp.async.wait_group after the commit, or cp.async.mbarrier.arrive.noinc in place of the arrival, "
      "then the barrier that others wait for."},
     check_copy_wait},
    {{"barrier-published", "an mbarrier used before its initialisation is fenced and known to others",
      "After mbarrier.init run fence.mbarrier_init.release.cluster, then a barrier of the CTA, or of the "
      "cluster where its CTAs use it."},
     check_barrier_published},
    {{"barrier-fence", "an mbarrier that copies use before its initialisation is fenced for their proxy",
      "After mbarrier.init run fence.mbarrier_init.release.cluster, as the manual wants it: without it a CTA "
      "by itself has been seen to work.",
      true},
     check_barrier_fence},
    {{"barrier-initialised",
      "an mbarrier that is used and never initialised, or initialised by several threads",
      "Initialise each barrier of the array by mbarrier.init."},
     check_barrier_initialised},
    {{"arrival-count", "an mbarrier whose phase gets other arrivals than it was initialised for",
      "Either an arrival is missing or one too many, or the count is wrong: initialise for as many threads "
      "as arrive in a phase."},
     check_arrivals},
    {{"expected-bytes",
      "expect_tx of bytes that the copies cannot bring, or copies that no expect_tx tells of",
      "Expect the sum of the bytes of all copies that complete at the barrier in a phase."},
     check_expected_bytes},
    {{"stage-overlap", "stages of a ring that overlap",
      "Let stages be as far apart as all that is copied into one of them is long."},
     check_stages},
    {{"wait", "an mbarrier that nobody waits for, or a wait whose outcome nothing depends on",
      "Wait by a loop of mbarrier.try_wait before what the barrier guards."},
     check_waits},
    {{"parity", "a wait whose parity never turns in a loop, or which passes before the first copy",
      "Begin with parity 0 where data is waited for and with 1 where a free stage is, and turn it each time "
      "that the ring begins anew."},
     check_parity},
    {{"stage-release", "a stage freed while a wgmma may still read it, or before it is read",
      "Wait by wgmma.wait_group for the group of the wgmma, then arrive."},
     check_release},
    {{"circular-wait", "first waits that need each other",
      "Begin with parity 1 where a stage that nobody has filled is waited for."},
     check_circular_wait},
    {{"stage-refill", "a stage filled again in a loop in which nothing waits until others have read it",
      "Let readers arrive at an mbarrier, or all threads come to a barrier, and wait for that before the "
      "copy."},
     check_refill},
    {{"cluster-entry", "another CTA's shared memory used before that CTA is known to run",
      "Run barrier.cluster.arrive and barrier.cluster.wait in all threads before."},
     check_cluster_entry},
    {{"cluster-address", "an address of another CTA in an instruction of .shared::cta",
      "Say .shared::cluster, where the instruction has it: to wait, each CTA has an mbarrier of its own."},
     check_cluster_address},
    {{"cluster-exit", "a read of another CTA's shared memory with no barrier of the cluster after it",
      "Run barrier.cluster.arrive and barrier.cluster.wait in all threads before the kernel ends."},
     check_cluster_exit},
    {{"register-bound", "setmaxnreg in a kernel whose registers at entry are not bounded",
      "Say .maxntid or .reqntid, with .minnctapersm where the kernel needs few registers, or .maxnreg."},
     check_register_bound},
    {{"register-pool", "setmaxnreg.inc that waits for registers that no role gives back",
      "Ask for fewer, or let another role give back more by setmaxnreg.dec."},
     check_register_pool},
    {{"divergent-aligned", "an .aligned instruction that some lanes of a warp do not run",
      "Branch by warps around it, or guard what one lane does alone."},
     check_aligned},
    {{"named-barrier", "a barrier for more or fewer threads than come to it, or for a part of a warp",
      "Give it the number of threads that run it or arrive at it."},
     check_named_barriers},
    {{"target", "a .version or .target that is missing, unknown, or too low for an instruction",
      "Say the .version and the .target that the instructions need at the start of the module."},
     check_target},
    {{"declaration", "a declaration or a directive that ptxas refuses",
      "Declare each name once, with numbers for its extents and no more initial values than it has room "
      "for."},
     check_declarations},
    {{"constant", "a constant that is not a number, or out of its instruction's range",
      "Write it as the manual's entry of the instruction, or of numbers, says."},
     check_constants},
    {{"constant-space", "a write to a variable in .const", "Put what the kernel writes into .global."},
     check_constant_space},
    {{"undeclared", "an operand that nothing declares",
      "Declare the register in this block or one around it, or correct its name; .reg .b32 %r<8> declares "
      "%r0 to %r7."},
     check_declared},
    {{"unknown-instruction", "a word that is not an instruction", "Correct it: ptxas refuses it."},
     check_known},
    {{"variable-alignment", "an .align that is not a power of two", "Say the next power of two."},
     check_variable_alignment},
    {{"register-count", "setmaxnreg with a count that is not legal",
      "Ask for a multiple of 8 registers, from 24 to 256."},
     check_register_count},
    {{"generic-address", "a generic access to a variable whose state space is known",
      "Say the state space in the instruction, where it is yours to write.", true},
     check_generic},
    {{"misaligned", "an address that is not a multiple of what its instruction needs",
      "Align the variable and its offsets to the bytes of the access."},
     check_alignment},
    {{"schedule",
      "an order of threads in which shared memory is accessed too early or too late, or a wait misses its "
      "phase or never ends",
      "Let a barrier, or a wait for what comes first, come between them; `ptxb lint --prove` names a "
      "schedule that fails."},
     check_schedule,
     true},
    {{"bank-conflict", "lanes of a warp that meet in a bank of shared memory",
      "Swizzle or pad the layout so that the lanes of a phase use different banks."},
     check_bank_conflicts},
    {{"version", "a .version or a .target that is higher than the instructions need",
      "Lower it, so that more drivers and GPUs run the kernel.", true},
     check_version},
};

bool has_found(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return !f.is_advice && !f.is_undecided; });
}

// The same error in several places is one finding, at the first of these places.
std::vector<Finding> joined(std::vector<Finding> all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  std::vector<Finding> findings;
  for (Finding& f : all) {
    const auto same = std::find_if(findings.begin(), findings.end(), [&](const Finding& other) {
      return other.rule == f.rule && other.what == f.what;
    });
    if (same == findings.end()) {
      findings.push_back(std::move(f));
      continue;
    }
    ++same->times;
    if (f.is_undecided && f.line != same->line && (same->lines.empty() || same->lines.back() != f.line))
      same->lines.push_back(f.line);
  }
  return findings;
}

}  // namespace

std::vector<RuleText> lint_rules() {
  std::vector<RuleText> all;
  for (const Rule& rule : kRules) all.push_back(rule.text);
  return all;
}

std::vector<Finding> lint(const ptx_text::Module& module, std::string_view kernel,
                          const std::set<std::string, std::less<>>& allowed, Undecided undecided,
                          const TensorMaps& maps) {
  for (const std::string& name : allowed)
    if (std::none_of(std::begin(kRules), std::end(kRules),
                     [&](const Rule& r) { return r.text.name == name; }))
      throw Error(fmt::format("there is no rule '{}': `ptxb lint --rules` lists them", name));
  LintKernel subject(module, kernel, maps);
  std::vector<Finding> all;
  const auto give_up = [&](std::string_view rule, std::string what) {
    all.push_back({.rule = rule,
                   .what = std::move(what),
                   .cure = "Lint its parts by themselves, or run it by `ptxb sim`.",
                   .is_undecided = true});
  };
  if (!subject.is_by_thread)
    give_up("undecided", "which threads take which branches: there are too many for rules that ask for it");
  for (const Rule& rule : kRules) {
    if (allowed.contains(rule.text.name) || (rule.is_last && has_found(all))) continue;
    Report report(subject, rule.text.name, rule.text.cure, undecided);
    subject.begin_rule();
    try {
      rule.check(subject, report);
    } catch (const GaveUp&) {
      give_up(rule.text.name, "this is not decided: the kernel is too large for the rule");
    }
    for (Finding& finding : report.findings) finding.is_advice = rule.text.is_advice && !finding.is_undecided;
    std::move(report.findings.begin(), report.findings.end(), std::back_inserter(all));
  }
  return joined(std::move(all));
}

std::string text(const Finding& f) {
  const std::string place = f.line ? fmt::format("line {}:{}: ", f.line, f.column) : "";
  std::string line = fmt::format("{}{}{}: {}", place, f.rule,
                                 f.is_undecided ? " (undecided)"
                                 : f.is_advice  ? " (advice)"
                                                : "",
                                 f.what);
  constexpr size_t kMostLines = 12;
  if (!f.lines.empty())
    line += fmt::format(" ({} {}{})", f.lines.size() == 1 ? "line" : "lines",
                        fmt::join(std::span(f.lines).first(std::min(kMostLines, f.lines.size())), ", "),
                        f.lines.size() > kMostLines ? ", ..." : "");
  if (f.times > 1) line += fmt::format("; {} times", f.times);
  return fmt::format("{}. {}", line, f.cure);
}

}  // namespace ptxbuilder::analysis
