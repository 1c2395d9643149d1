// Mutants of attention: each is made from the kernel's own PTX, and is reported with its cause, or gives a
// wrong result; the kernel itself never does.
#include "mutation_kit.h"

using namespace ptxbuilder;
using namespace ptxbuilder::test;

namespace {

// Two heads in a CTA that stays, of four blocks of keys: three of them are masked for some query.
Subject stays() {
  return {"attention",
          {{"queries", 100},
           {"keys", 200},
           {"depth", 16},
           {"heads", 2},
           {"bn", 64},
           {"causal", 1},
           {"ahead", 1},
           {"turns", 1},
           {"sms", 1}}};
}
Subject leaves() {
  return {
      "attention",
      {{"queries", 70}, {"keys", 100}, {"depth", 16}, {"heads", 1}, {"bn", 32}, {"window", 40}, {"lazy", 0}}};
}

Change becomes(const char* opcode) {
  return [=](Instruction& i) {
    i.opcode = opcode;
    return true;
  };
}
// a = b in place of a = b ^ c or a = b * c.
bool copy_first(Instruction& i) {
  i.opcode = "mov.b32";
  i.operands.resize(2);
  return true;
}
// Those without a cause give a wrong result.
void check_each(const Subject& subject, const std::vector<Mutant>& mutants) {
  std::string report;
  subject.run(subject.text(), 0, 100, report);
  REQUIRE(report == "right");
  for (const std::string& rule : rules_that_find(subject.text())) CHECK(rule == "target");
  std::string table = fmt::format("\n{}\n", subject.name());
  for (const Mutant& m : mutants) {
    const std::string text = mutated(subject.text(), m);
    std::optional<Fault> fault;
    for (uint64_t seed = 0; seed < 20 && !fault; ++seed) {
      fault = subject.run(text, seed, 1, report);
      if (!fault && report != "right") break;
    }
    const std::string first = report.substr(0, report.find('\n'));
    table += fmt::format("  {:52} {}\n", m.what, first);
    const bool found = m.causes.empty() ? !fault && report.starts_with("wrong: ")
                                        : fault && std::ranges::count(m.causes, *fault) > 0;
    const std::string shown = m.what + ": " + report;
    CHECK_MESSAGE(found, shown);
  }
  MESSAGE(table);
}

}  // namespace

TEST_CASE("mutants where CTAs stay, take turns, and end queries under the next ones") {
  using enum Fault;
  const char *wait = "mbarrier.try_wait", *arrive = "mbarrier.arrive.shared", *products = "wgmma.wait_group";
  check_each(
      stays(),
      {{"keys handed back before their product has ended",
        products,
        2,
        set_operand(0, 2),
        {matrix_registers, race}},
       {"a stage of keys handed back a step early",
        arrive,
        8,
        add_to(1, 8),
        {race, arrival_count, deadlock, phase_skipped}},
       {"values read ahead of their barrier", wait, 16, do_not_wait, {race, uninitialised}},
       {"keys read ahead of their barrier", wait, 14, do_not_wait, {race, uninitialised}},
       {"the next queries read ahead of their barrier", wait, 20, do_not_wait, {race, uninitialised}},
       {"queries handed back before the last block of keys",
        arrive,
        9,
        [](Instruction& i) {
          i.guard->predicate = "%p24";  // of the warp's first lane
          return true;
        },
        {race, arrival_count, deadlock, phase_skipped}},
       {"the mask is off by one at the diagonal", "setp.lt.s32", 0, becomes("setp.le.s32"), {}, 64},
       {"the turn is not passed", arrive, 7, drop, {deadlock}},
       {"the ring of values does not turn its parity",
        "xor.b32",
        11,
        copy_first,
        {race, deadlock, uninitialised, phase_skipped}},
       {"a stage is lent before it is empty", wait, 9, do_not_wait, {race, arrival_count, phase_skipped}},
       {"O written to a stage before it is lent", wait, 24, do_not_wait, {race, arrival_count}},
       {"O's stage handed back before O has left", "cp.async.bulk.wait_group.read", 0, drop, {race}, 4},
       {"O's stage handed back for one consumer alone",
        arrive,
        5,
        set_operand(2, 1),
        {deadlock, arrival_count}},
       {"no proxy fence before O's store", "fence.proxy", 5, drop, {proxy_fence}},
       {"O stored before all warps have written it", "bar.sync", 1, drop, {race, proxy_fence, uninitialised}},
       {"sums read while a product may write them", products, 7, set_operand(0, 1), {matrix_registers}}});
}

TEST_CASE("mutants of the masks and of the softmax") {
  using enum Fault;
  check_each(
      leaves(),
      {{"sums are not multiplied where the maximum grows", "mul.rn.f32", 17, copy_first, {}, 8},
       {"the window is off by one", "setp.lt.s32", 32, becomes("setp.le.s32"), {}, 16},
       {"the keys' end is off by one", "setp.lt.s32", 0, becomes("setp.le.s32"), {}, 1},
       {"a row's greatest score is of one lane's columns", "shfl.sync", 0, drop, {undefined_register}}});
}
