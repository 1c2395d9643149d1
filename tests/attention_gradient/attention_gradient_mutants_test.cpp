// Tests mutants of the attention gradient. Each is derived from the kernel's own PTX, and must be reported
// with its cause or produce a wrong result. The kernel itself must do neither.
#include "mutation_kit.h"

namespace ptxbuilder::test::attention_gradient_mutants_test {
namespace {

// The queries of two heads that share a block of keys.
Subject own_keys() {
  return {"attention_gradient",
          {{"queries", 140},
           {"keys", 70},
           {"key_heads", 1},
           {"group", 2},
           {"depth", 64},
           {"causal", 1},
           {"deterministic", 1}}};
}
// Consumers that share 64 keys. They add to dQ from their registers or, if the order must be fixed, through
// shared memory.
Subject shared(int deterministic) {
  return {"attention_gradient",
          {{"queries", 150},
           {"keys", 60},
           {"key_heads", 1},
           {"depth", 192},
           {"value_depth", 128},
           {"deterministic", deterministic}}};
}

// Checks each mutant. A mutant that produces a result must produce a wrong one.
void check_each(const Subject& subject, const std::vector<Mutant>& mutants) {
  std::string report;
  subject.run(subject.text(), 0, 1, report);
  REQUIRE(report == "right");
  std::string table = fmt::format("\n{}\n", subject.name());
  for (const Mutant& m : mutants) {
    const std::string text = mutated(subject.text(), m);
    std::optional<Fault> fault;
    for (uint64_t seed = 0; seed < 8 && !fault; ++seed) {
      fault = subject.run(text, seed, 1, report);
      if (!fault && report != "right") break;
    }
    const std::string first = report.substr(0, report.find('\n'));
    table += fmt::format("  {:52} {}\n", m.what, first);
    const bool found =
        fault ? std::ranges::count(m.causes, *fault) > 0 : report.starts_with("wrong: ") && m.causes.empty();
    const std::string shown = m.what + ": " + report;
    CHECK_MESSAGE(found, shown);
  }
  MESSAGE(table);
}

bool at_least(Instruction& i) {
  i.opcode = "setp.ge.s32";
  return true;
}

}  // namespace

TEST_CASE("mutants whose consumers have keys of their own, and a warp adds to dQ") {
  using enum Fault;
  const char *wait = "mbarrier.try_wait", *products = "wgmma.wait_group", *fence = "fence.proxy";
  check_each(
      own_keys(),
      {{"dO handed back, and dQ read, before products have ended",
        products,
        3,
        set_operand(0, 3),
        {matrix_registers, race}},
       {"Q handed back before its product has ended",
        products,
        0,
        set_operand(0, 1),
        {matrix_registers, race}},
       {"slopes computed from unfinished products", products, 2, set_operand(0, 1), {matrix_registers}},
       {"dS multiplied before its fence", fence, 7, drop, {proxy_fence}},
       {"dQ reduced before its fence", fence, 8, drop, {proxy_fence}},
       {"dQ overwritten before it has been read", wait, 9, do_not_wait, {race}},
       {"dS multiplied before both consumers have written it", wait, 8, do_not_wait, {race, uninitialised}},
       {"dS written over a dS that has not been multiplied yet", wait, 7, do_not_wait, {race}},
       {"the mask is off by one at the diagonal", "setp.gt.s32", 0, at_least, {}, 40},
       {"dK and dV without the second head of a group", "mad.lo.s32", 0, set_operand(3, 0), {}}});
}

TEST_CASE("mutants whose consumers share keys, and add to dQ") {
  using enum Fault;
  const char *products = "wgmma.wait_group", *fence = "fence.proxy";
  check_each(shared(0),
             {{"sums loaded from four rows later", "cp.async.bulk.shared", 0, add_to(1, 16), {out_of_bounds}},
              {"Q handed back before its product has ended",
               products,
               4,
               set_operand(0, 1),
               {matrix_registers, race}},
              {"dQ added before its product has ended", products, 3, set_operand(0, 2), {matrix_registers}},
              {"P and dS multiplied before their fence", fence, 3, drop, {proxy_fence}}});
}

TEST_CASE("mutants whose consumers share keys, and a warp adds to dQ") {
  using enum Fault;
  check_each(
      shared(1),
      {{"a piece of dQ written over one that has not been read", "mbarrier.try_wait", 8, do_not_wait, {race}},
       {"the second piece of dQ reduced before its fence", "fence.proxy", 8, drop, {proxy_fence}}});
}

TEST_CASE("mutants of dropout") {
  const Subject subject = {
      "attention_gradient",
      {{"queries", 70}, {"keys", 70}, {"key_heads", 1}, {"group", 2}, {"depth", 64}, {"dropout", 30}}};
  const char* product =
      "mul.wide.u32";  // two for addresses, and then those of Philox: 19 for a head, then those for weights
  check_each(subject, {{"both heads drop what the first does", product, 3, set_operand(1, 0), {}},
                       {"all rows drop what the first do", product, 22, set_operand(1, 0), {}}});
}

}  // namespace ptxbuilder::test::attention_gradient_mutants_test
