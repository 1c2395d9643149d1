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

// A row of the table of rules below. To add a rule, add a row, and write the rule's function.
struct Rule {
  RuleText text;
  Check check;
  bool is_last = false;  // true if the rule runs only when no other rule has findings
};

constexpr Rule kRules[] = {
    {{"wgmma-fence", "wgmma whose accumulators or A registers were accessed since the last wgmma.fence",
      "Put wgmma.fence.sync.aligned between the access to the registers and the first wgmma that uses them."},
     check_wgmma_fence},
    {{"wgmma-registers", "an accumulator accessed, or A overwritten, while a wgmma may still use it",
      "Wait for the group of the wgmma with wgmma.wait_group before the register is used."},
     check_accumulators},
    {{"wgmma-groups", "wgmma that is never committed, or never waited for",
      "Commit each batch with wgmma.commit_group, and wait for the last one before the kernel ends."},
     check_wgmma_groups},
    {{"wgmma-layout",
      "wgmmas that read one tile with different swizzles, or with a swizzle other than that of its tensor "
      "map",
      "Use in each descriptor of the tile the swizzle with which it was copied."},
     check_layouts},
    {{"tensor-memory-wait", "a register of tcgen05.ld used before tcgen05.wait::ld",
      "Put tcgen05.wait::ld.sync.aligned between the load and the first use of its registers."},
     check_tensor_memory_wait},
    {{"tensor-memory-fence", "tcgen05.ld of products that another thread committed, without a fence",
      "Put tcgen05.fence::after_thread_sync between the wait for the mbarrier of tcgen05.commit and the "
      "load.",
      true},
     check_tensor_memory_fence},
    {{"proxy-fence", "a bulk copy or a wgmma that reads shared memory written without fence.proxy.async",
      "Let each writing thread execute fence.proxy.async.shared::cta between its writes and the barrier."},
     check_proxy_fence},
    {{"store-barrier", "a bulk copy of data that other warps wrote, without a barrier",
      "Put a barrier of the writing threads between their fence and the copy."},
     check_store_order},
    {{"staging-reuse",
      "shared memory written by threads or by a bulk copy while another bulk copy may still read it",
      "Before the next write, let the copying thread execute cp.async.bulk.wait_group.read, and then all "
      "threads a barrier."},
     check_staging},
    {{"bulk-groups", "a bulk copy out of shared memory that is never committed, or never waited for",
      "Commit with cp.async.bulk.commit_group, and wait with cp.async.bulk.wait_group before the kernel "
      "ends."},
     check_bulk_groups},
    {{"copy-wait", "data of cp.async that is read, or announced to others, before the copy is waited for",
      "Execute cp.async.wait_group after the commit, or cp.async.mbarrier.arrive.noinc instead of the "
      "arrival, and then the barrier that others wait for."},
     check_copy_wait},
    {{"barrier-published", "an mbarrier used before its initialisation is fenced and visible to others",
      "After mbarrier.init, execute fence.mbarrier_init.release.cluster, and then a barrier of the CTA, or "
      "of the cluster if its CTAs use the mbarrier."},
     check_barrier_published},
    {{"barrier-fence", "an mbarrier used by copies before its initialisation is fenced for their proxy",
      "After mbarrier.init, execute fence.mbarrier_init.release.cluster, as the manual requires, although a "
      "single CTA has been seen to work without it.",
      true},
     check_barrier_fence},
    {{"barrier-initialised",
      "an mbarrier that is used and never initialised, or initialised by several threads",
      "Initialise each barrier of the array with mbarrier.init."},
     check_barrier_initialised},
    {{"arrival-count",
      "an mbarrier whose phase gets a different number of arrivals than it was initialised for",
      "An arrival is missing, or there is one too many, or the count is wrong: initialise for the number of "
      "threads that arrive in a phase."},
     check_arrivals},
    {{"expected-bytes", "expect_tx of bytes that the copies cannot deliver, or copies without an expect_tx",
      "Expect the sum of the bytes of all copies that complete at the barrier in a phase."},
     check_expected_bytes},
    {{"stage-overlap", "stages of a ring that overlap",
      "Put stages at least as far apart as the size of the data copied into one of them."},
     check_stages},
    {{"wait", "an mbarrier for which nobody waits, or a wait whose result is not used",
      "Wait with a loop of mbarrier.try_wait before accessing what the barrier guards."},
     check_waits},
    {{"parity", "a wait whose parity never flips in a loop, or which passes before the first copy",
      "Begin with parity 0 when waiting for data and with 1 when waiting for a free stage, and flip it each "
      "time that the ring starts over."},
     check_parity},
    {{"stage-release", "a stage freed while a wgmma may still read it, or before it is read",
      "Wait for the group of the wgmma with wgmma.wait_group, then arrive."},
     check_release},
    {{"circular-wait", "first waits that depend on each other",
      "Begin with parity 1 when waiting for a stage that nobody has filled."},
     check_circular_wait},
    {{"stage-refill", "a stage refilled in a loop that does not wait until others have read it",
      "Let readers arrive at an mbarrier, or all threads meet at a barrier, and wait for that before the "
      "copy."},
     check_refill},
    {{"cluster-entry", "another CTA's shared memory used before that CTA is known to run",
      "Execute barrier.cluster.arrive and barrier.cluster.wait in all threads before."},
     check_cluster_entry},
    {{"cluster-address", "an address of another CTA in an instruction of .shared::cta",
      "Use .shared::cluster if the instruction supports it; to wait, each CTA needs an mbarrier of its own."},
     check_cluster_address},
    {{"cluster-exit", "a read of another CTA's shared memory without a cluster barrier after it",
      "Execute barrier.cluster.arrive and barrier.cluster.wait in all threads before the kernel ends."},
     check_cluster_exit},
    {{"register-bound", "setmaxnreg in a kernel whose registers at entry are not bounded",
      "Add .maxntid or .reqntid, with .minnctapersm if the kernel needs few registers, or .maxnreg."},
     check_register_bound},
    {{"register-pool", "setmaxnreg.inc that waits for registers that no role releases",
      "Request fewer, or let another role release more with setmaxnreg.dec."},
     check_register_pool},
    {{"divergent-aligned", "an .aligned instruction that some lanes of a warp do not execute",
      "Let whole warps branch around it, or guard only the code that one lane executes."},
     check_aligned},
    {{"named-barrier", "a barrier for more or fewer threads than reach it, or for part of a warp",
      "Use the number of threads that execute it or arrive at it."},
     check_named_barriers},
    {{"target", "a .version or .target that is missing, unknown, or too low for an instruction",
      "Put the .version and the .target that the instructions need at the start of the module."},
     check_target},
    {{"declaration", "a declaration or a directive that ptxas rejects",
      "Declare each name once, with numbers as extents, and with no more initial values than elements."},
     check_declarations},
    {{"constant", "a constant that is not a number, or out of its instruction's range",
      "Write it as the manual specifies for the instruction, or for constants."},
     check_constants},
    {{"constant-space", "a write to a variable in .const",
      "Declare variables that the kernel writes in .global."},
     check_constant_space},
    {{"undeclared", "an operand that is not declared",
      "Declare the register in this block or an enclosing block, or correct its name; .reg .b32 %r<8> "
      "declares %r0 to %r7."},
     check_declared},
    {{"unknown-instruction", "a word that is not an instruction", "Correct it: ptxas rejects it."},
     check_known},
    {{"variable-alignment", "an .align that is not a power of two", "Use the next power of two."},
     check_variable_alignment},
    {{"register-count", "setmaxnreg with an illegal count",
      "Request a multiple of 8 registers, from 24 to 256."},
     check_register_count},
    {{"generic-address", "a generic access to a variable whose state space is known",
      "Name the state space in the instruction if you write the code yourself.", true},
     check_generic},
    {{"misaligned", "an address that does not have the alignment that its instruction needs",
      "Align the variable and its offsets to the size of the access."},
     check_alignment},
    {{"schedule",
      "an order of threads in which shared memory is accessed too early or too late, or a wait misses its "
      "phase or never ends",
      "Put a barrier, or a wait for the earlier access, between them; `ptxb lint --prove` shows a schedule "
      "that fails."},
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

// Joins equal findings at several places into one finding at the first place.
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
                   .cure = "Lint its parts separately, or run it with `ptxb sim`.",
                   .is_undecided = true});
  };
  if (!subject.is_by_thread)
    give_up("undecided",
            "which threads take which branches: there are too many branches for the rules that need this");
  for (const Rule& rule : kRules) {
    if (allowed.contains(rule.text.name) || (rule.is_last && has_found(all))) continue;
    Report report(subject, rule.text.name, rule.text.cure, undecided);
    subject.begin_rule();
    try {
      rule.check(subject, report);
    } catch (const GaveUp&) {
      give_up(rule.text.name, "undecided: the kernel is too large for the rule");
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
