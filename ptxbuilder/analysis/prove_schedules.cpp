#include "ptxbuilder/analysis/prove_schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ptxbuilder/analysis/lint.h"
#include "ptxbuilder/analysis/protocol_run.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::analysis {
namespace {

constexpr ProofLimits kLimits = {.runs = 4000, .steps = 100'000'000, .work = 20'000'000};

constexpr const char* kAssumed[] = {
    "memory outside of the CTA that determines branches or addresses does not change while the kernel runs",
    "sums and products that determine branches or addresses, such as numbers of tiles, do not overflow their "
    "signed registers",
    "lanes of a warp that take the same path execute each instruction together",
    "products of a warpgroup complete in all of its warps when they complete in one, and elect.sync chooses "
    "the lowest lane",
    "everything before a copy in its thread is visible to threads that wait for the copy"};

// Performs all runs of a kernel.
class AllRuns {
 public:
  AllRuns(const ProtocolCode& code, const ProofLimits& limits, ScheduleProof& proof)
      : code_(code),
        limits_(limits),
        proof_(proof),
        terms_(choices_, limits.work),
        turns_(code.graph.loops.size()),
        steps_left_(limits.steps) {}

  void follow() {
    for (bool changed = true; changed;) {
      const std::vector<int> before = turns_.most;
      proof_.runs = 0;
      explore(false);
      if (code_.has_peeks) explore(true);
      changed = boxes_.find() || turns_.most != before;
    }
    proof_.turns = turns_.largest();
    for (const char* always : kAssumed) proof_.assumed.emplace_back(always);
    if (code_.has_generic)
      proof_.assumed.emplace_back("generic loads and stores do not access shared memory");
    auto& assumed = proof_.assumed;
    assumed.push_back(
        fmt::format("loops run up to {} iterations: later iterations repeat earlier ones, since all rings "
                    "have wrapped around twice",
                    proof_.turns));
    for (const auto& [map, bytes] : boxes_.all())
      assumed.push_back(
          fmt::format("the box of the tensor map {} has at most {} bytes, and the boxes of a phase have "
                      "exactly the bytes that the phase expects",
                      map, bytes));
  }

 private:
  void explore(bool peeks_succeed) {
    choices_ = {};
    do {
      if (++proof_.runs > limits_.runs)
        throw Refusal{
            kNone, fmt::format("there are more than {} combinations of choices", limits_.runs), {}, true};
      choices_.begin();
      terms_.begin_run(turns_.largest());
      try {
        run_protocol(code_, terms_, choices_, boxes_, turns_, peeks_succeed, steps_left_);
      } catch (const Beyond&) {  // the dropped path would only repeat earlier iterations
      } catch (const Refusal& r) {
        if (!terms_.may_be()) continue;
        const auto more = r.is_undecided ? std::nullopt : terms_.assume_more();
        if (!more) {
          const std::string chosen = terms_.chosen();
          const bool can_be = terms_.can_be();
          const std::string where =
              chosen.empty() ? "" : fmt::format("; {} {}", can_be ? "where" : "if this is possible:", chosen);
          throw Refusal{r.operation, r.what + where, r.others, r.is_undecided || !can_be,
                        r.late,      r.is_of_order};
        }
        proof_.assumed.push_back(fmt::format("{}, since otherwise line {}: {}", *more,
                                             code_.code.operations[at(r.operation)].at.line, r.what));
        boxes_ = {};
        choices_ = {};
        return explore(peeks_succeed);
      }
    } while (choices_.advance());
  }

  const ProtocolCode& code_;
  const ProofLimits limits_;
  ScheduleProof& proof_;
  Choices choices_;
  Terms terms_;
  Boxes boxes_;
  Turns turns_;
  size_t steps_left_;
};

// Returns whether a CTA may have another shape than the directives state. `.maxntid` is only an upper bound
// on the number of threads.
bool may_have_other_shape(const ProtocolCode& protocol) {
  const Code& code = protocol.code;
  const auto& cta = protocol.cta;
  const auto is_required = [](const ptx_text::Directive& d) { return d.tokens[0] == ".reqntid"; };
  const auto& directives = code.function->directives;
  if (cta[1] * cta[2] > 1 || std::any_of(directives.begin(), directives.end(), is_required)) return false;
  return std::any_of(code.operations.begin(), code.operations.end(), [](const Operation& o) {
    return std::any_of(o.operands.begin(), o.operands.end(),
                       [](const Value& v) { return v.text == "%tid.y" || v.text == "%tid.z"; });
  });
}

}  // namespace

std::optional<Refusal> refuse_order(const ProtocolCode& code, const ProofLimits& limits,
                                    ScheduleProof& proof) {
  const auto undecided = [](const char* why) { return Refusal{kNone, why, {}, true}; };
  if (!code.has_order) return undecided("no thread waits for others or shares memory with them");
  // A run assumes that the operands of an instruction match the instruction's row.
  for (size_t i = 0; i < code.deeds.size(); ++i)
    if (code.deeds[i] != Deed::none && !code.code.operations[i].row)
      return Refusal{
          static_cast<int>(i), "it is not an instruction of the manual, so its effect is unknown", {}, true};
  if (code.threads() == 0)
    return undecided("neither .maxntid nor .reqntid states the number of threads of a CTA");
  if (code.threads() > hopper::cta_threads) return undecided("a CTA has more than 1024 threads");
  if (code.ctas() < 1 || code.ctas() > ProtocolCode::kMostCtas)
    return undecided("the number of CTAs of a cluster is not between 1 and 16");
  if (may_have_other_shape(code))
    return undecided("the CTA has threads along y or z, but .reqntid does not state how many");
  try {
    AllRuns(code, limits, proof).follow();
  } catch (const Refusal& r) {
    return r;
  }
  return std::nullopt;
}

ScheduleProof prove_schedules(const ptx_text::Module& module, std::string_view kernel) {
  const Code code = Code::of(module, kernel);
  ScheduleProof proof{.verdict = ScheduleProof::Verdict::proved};
  const ProtocolCode protocol(code);
  auto r = refuse_order(protocol, kLimits, proof);
  // After its ring of mbarriers has wrapped around, a loop is known to repeat its earlier behaviour. For
  // other rings, this is not known.
  if (!r && !protocol.has_waits)
    r = {kNone, "no thread waits for an mbarrier, so there is no ring", {}, true};
  else if (!r && protocol.has_thread_copies)
    r = {kNone, "it is not known after how many iterations of a loop cp.async repeats", {}, true};
  if (r) {
    proof.verdict = r->is_undecided ? ScheduleProof::Verdict::undecided : ScheduleProof::Verdict::refuted;
    proof.what = r->what;
    if (r->operation != kNone)
      proof.line = code.operations[at(r->operation)].at.line,
      proof.column = code.operations[at(r->operation)].at.column;
    if (r->late != kNone && !r->is_undecided) proof.late = code.operations[at(r->late)].at.line;
    std::set<uint32_t> lines;
    for (int other : r->others)
      if (other != kNone && other != r->operation) lines.insert(code.operations[at(other)].at.line);
    proof.lines.assign(lines.begin(), lines.end());
  }
  // Some lint rules find errors that do not depend on the order of events, such as errors in the use of
  // wgmma's registers.
  if (proof.verdict == ScheduleProof::Verdict::refuted) return proof;
  for (const Finding& f : lint(module, kernel, {"bank-conflict", "schedule"}))
    if (!f.is_advice && !f.is_undecided)
      return {.verdict = ScheduleProof::Verdict::refuted,
              .what = fmt::format("{}: {}", f.rule, f.what),
              .line = f.line,
              .column = f.column,
              .lines = f.lines};
  return proof;
}

std::string text(const ScheduleProof& p) {
  if (p.verdict != ScheduleProof::Verdict::proved) {
    std::string all =
        fmt::format("not proved: {}{}", p.line ? fmt::format("line {}:{}: ", p.line, p.column) : "", p.what);
    if (!p.lines.empty())
      all += fmt::format(" ({} {})", p.lines.size() == 1 ? "line" : "lines", fmt::join(p.lines, ", "));
    if (p.late) all += fmt::format("\n  ptxb sim --delay {} runs such a schedule", p.late);
    return all;
  }
  std::string all = fmt::format("proved for all schedules, with {} runs", p.runs);
  for (const std::string& assumed : p.assumed) all += fmt::format("\n  assumed: {}", assumed);
  return all;
}

}  // namespace ptxbuilder::analysis
