// Tests mutants of the library's kernels. Each mutant is derived from the syntax tree of the kernel's own
// PTX, and must be reported with its cause. The kernel itself must not be reported.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "lint_kit.h"
#include "mutation_subject.h"
#include "options.h"
#include "ptxbuilder/ptx/ptx.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test {

// Runs the kernel on `schedules` schedules of the emulator or, with --device, `schedules` times on that
// device.
inline void check_right(const Subject& subject, int schedules) {
  std::string report;
  if (device_name == "emulator")
    subject.run(subject.text(), 0, schedules, report);
  else
    report = subject.run_on(*runtime::open_device(device_name), schedules);
  CHECK_MESSAGE(report == "right", subject.name() << ": " << report);
}

using ptx_text::Instruction;
using ptx_text::Operand;
using runtime::Fault;

// Changes an instruction to another one. Returns false to drop it.
using Change = std::function<bool(Instruction&)>;

inline Operand number(int64_t value) { return {Operand::Kind::number, std::to_string(value), {}, {}}; }

inline bool drop(Instruction&) { return false; }

// Adds to a numeric operand, or to the address in brackets.
inline Change add_to(size_t operand, int64_t by) {
  return [=](Instruction& i) {
    Operand& o = i.operands.at(operand);
    if (o.kind == Operand::Kind::address) {
      Operand& at = o.parts[0];  // an address has one offset
      const int64_t offset =
          at.kind == Operand::Kind::binary ? ptx_text::integer_value(at.parts[1]).value() : 0;
      at = {Operand::Kind::binary, "+", {offset != 0 ? at.parts[0] : at, number(offset + by)}, {}};
    } else {
      auto value = ptx_text::integer_value(o);
      REQUIRE(value);
      o = number(*value + by);
    }
    return true;
  };
}

inline Change set_operand(size_t operand, int64_t value) {
  return [=](Instruction& i) {
    i.operands.at(operand) = number(value);
    return true;
  };
}

inline Change becomes(const char* opcode) {
  return [=](Instruction& i) {
    i.opcode = opcode;
    return true;
  };
}

// Replaces the wait with one that has already succeeded.
inline bool do_not_wait(Instruction& i) {
  i.opcode = "setp.eq.u32";
  i.operands = {i.operands[0], number(0), number(0)};
  return true;
}

// Removes the announced bytes from the arrival.
inline bool arrive_without_bytes(Instruction& i) {
  i.opcode = "mbarrier.arrive.shared::cta.b64";
  i.operands.pop_back();
  return true;
}

struct Mutant {
  std::string what;
  std::string opcode;  // beginning of the mnemonic
  int nth;             // number of the instruction among those with this mnemonic, from 0
  Change change;
  std::vector<Fault> causes;  // faults that identify the error; empty if a note does
  int times = 1;              // number of repetitions, each for the nth of the remaining instructions
  std::string says = {};      // text that the report or the note must also contain
};

// Makes the change in the nth instruction of a body. Returns false if there are fewer.
inline bool edit(std::vector<ptx_text::Statement>& body, const Mutant& m, int& nth) {
  for (size_t i = 0; i < body.size(); ++i) {
    ptx_text::Statement& s = body[i];
    if (s.kind == ptx_text::Statement::Kind::block && edit(s.block, m, nth)) return true;
    if (s.kind != ptx_text::Statement::Kind::instruction || !s.instruction.opcode.starts_with(m.opcode) ||
        nth-- > 0)
      continue;
    if (!m.change(s.instruction)) body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

inline std::string mutated(const std::string& text, const Mutant& m) {
  ptx_text::Module module = ptx_text::parse(text);
  for (int time = 0; time < m.times; ++time) {
    int nth = m.nth;
    bool found = false;
    for (ptx_text::Statement& s : module.statements)
      if (s.kind == ptx_text::Statement::Kind::function && s.function[0].has_body)
        found = found || edit(s.function[0].body, m, nth);
    if (!found && time > 0) break;  // no instruction is left to change
    REQUIRE_MESSAGE(found, m.what);
  }
  return ptx_text::print(module);
}

// Checks that the kernel is right on 200 schedules, that one of the first 20 reports each mutant, and that
// lint finds at least half of the mutants without a run.
inline void check_mutants(const Subject& subject, const std::vector<Mutant>& mutants) {
  std::string report;
  subject.run(subject.text(), 0, 60, report);
  REQUIRE(report == "right");
  std::string table = fmt::format("\n{}\n", subject.name());
  const std::set<std::string> of_original = rules_that_find(subject.text());
  size_t found = 0;
  for (const Mutant& m : mutants) {
    const std::string text = mutated(subject.text(), m);
    std::optional<Fault> fault;
    std::string notes;
    for (uint64_t seed = 0; seed < 20 && !fault; ++seed) fault = subject.run(text, seed, 1, report, &notes);
    if (m.causes.empty() && !fault) report = "note: " + notes;
    const std::string rules = found_in_mutant(of_original, text);
    found += !rules.empty();
    table += fmt::format("  {:48} {}\n  {:48} lint: {}\n", m.what, report.substr(0, report.find('\n')), "",
                         rules.empty() ? "-" : rules);
    const bool named = fault ? std::find(m.causes.begin(), m.causes.end(), *fault) != m.causes.end()
                             : m.causes.empty() && !notes.empty();
    const bool right = named && report.find(m.says) != std::string::npos;
    const std::string shown = m.what + ": " + report;
    CHECK_MESSAGE(right, shown);
  }
  table += fmt::format("  lint finds {} of {}\n", found, mutants.size());
  MESSAGE(table);
  CHECK(mutants.size() >= 12);
  CHECK(2 * found >= mutants.size());
}

}  // namespace ptxbuilder::test
