#include "ptxbuilder/analysis/prove_schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ptxbuilder/analysis/lint.h"
#include "ptxbuilder/analysis/protocol_run.h"

namespace ptxbuilder::analysis {
namespace {

constexpr size_t kMostRuns = 4000;

// All runs with loops of up to so many turns.
void explore(const ProtocolCode& code, Boxes& boxes, int turns, bool peeks_succeed, size_t& widest,
             ScheduleProof& proof) {
  Choices choices;
  Terms terms(choices);
  do {
    if (++proof.runs > kMostRuns)
      throw Refusal{kNone, fmt::format("there are more than {} ways to choose", kMostRuns), {}, true};
    choices.begin();
    terms.begin_run(turns);
    try {
      run_protocol(code, terms, choices, boxes, {.most_turns = turns, .peeks_succeed = peeks_succeed},
                   widest);
    } catch (const Beyond&) {  // what more turns do, fewer have done
    }
  } while (choices.advance());
}

void follow_all(const ProtocolCode& code, ScheduleProof& proof) {
  Boxes boxes;
  size_t widest = 0;
  for (proof.turns = 4;;) {
    proof.runs = 0;
    explore(code, boxes, proof.turns, false, widest, proof);
    if (code.has_peeks) explore(code, boxes, proof.turns, true, widest, proof);
    const int needed = 2 * static_cast<int>(widest) + 2;
    const bool changed = boxes.find();
    if (!changed && needed <= proof.turns) break;
    proof.turns = std::max(proof.turns, needed);
  }
  proof.assumed.push_back(fmt::format(
      "loops turn up to {} times, twice around the ring and more: later turns repeat what earlier ones do",
      proof.turns));
  for (const auto& [map, bytes] : boxes.all())
    proof.assumed.push_back(fmt::format(
        "the box of the tensor map {} has {} bytes at most, and those of a phase are as many as it expects",
        map, bytes));
}

}  // namespace

ScheduleProof prove_schedules(const ptx_text::Module& module, std::string_view kernel) {
  const std::vector<Finding> findings = lint(module, kernel);
  const Code code = Code::of(module, kernel);
  ScheduleProof proof;
  for (const Finding& f : findings) {
    if (f.is_advice || f.is_undecided) continue;
    proof = {.verdict = ScheduleProof::Verdict::refuted,
             .what = fmt::format("{}: {}", f.rule, f.what),
             .line = f.line,
             .column = f.column,
             .lines = f.lines};
    return proof;
  }
  try {
    const ProtocolCode protocol(code);
    if (!protocol.has_waits)
      throw Refusal{kNone, "no thread waits for an mbarrier: there is no ring in it", {}, true};
    if (protocol.threads() == 0)
      throw Refusal{kNone, "neither .maxntid nor .reqntid says how many threads a CTA has", {}, true};
    follow_all(protocol, proof);
    proof.verdict = ScheduleProof::Verdict::proved;
  } catch (const Refusal& r) {
    proof.verdict = r.is_undecided ? ScheduleProof::Verdict::undecided : ScheduleProof::Verdict::refuted;
    proof.what = r.what;
    if (r.operation != kNone)
      proof.line = code.operations[at(r.operation)].at.line,
      proof.column = code.operations[at(r.operation)].at.column;
    std::set<uint32_t> lines;
    for (int other : r.others)
      if (other != kNone && other != r.operation) lines.insert(code.operations[at(other)].at.line);
    proof.lines.assign(lines.begin(), lines.end());
  }
  return proof;
}

std::string text(const ScheduleProof& p) {
  if (p.verdict != ScheduleProof::Verdict::proved) {
    std::string all =
        fmt::format("not proved: {}{}", p.line ? fmt::format("line {}:{}: ", p.line, p.column) : "", p.what);
    if (!p.lines.empty())
      all += fmt::format(" ({} {})", p.lines.size() == 1 ? "line" : "lines", fmt::join(p.lines, ", "));
    return all;
  }
  std::string all = fmt::format("proved for all schedules, by {} runs", p.runs);
  for (const std::string& assumed : p.assumed) all += fmt::format("\n  assumed: {}", assumed);
  return all;
}

}  // namespace ptxbuilder::analysis
