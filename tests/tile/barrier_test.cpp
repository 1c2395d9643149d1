// Tests barriers with tracked phases, and barriers of clusters. They must be right on every schedule, and
// their mutants must be reported.
//
//   barrier_test [--device=emulator|cuda|auto]
#include "barrier_subject.h"
#include "mutation_kit.h"

namespace ptxbuilder::test::barrier_test {
namespace {

// Returns the arrival counts with which a kernel initializes its barriers, in order.
std::vector<int64_t> counts(const Subject& subject) {
  std::vector<int64_t> all;
  std::function<void(const std::vector<ptx_text::Statement>&)> visit =
      [&](const std::vector<ptx_text::Statement>& body) {
        for (const ptx_text::Statement& s : body) {
          if (s.kind == ptx_text::Statement::Kind::block) visit(s.block);
          if (s.kind != ptx_text::Statement::Kind::instruction ||
              !s.instruction.opcode.starts_with("mbarrier.init"))
            continue;
          all.push_back(ptx_text::integer_value(s.instruction.operands.at(1)).value_or(-1));
        }
      };
  ptx_text::Module module = ptx_text::parse(subject.text());
  for (const ptx_text::Statement& s : module.statements)
    if (s.kind == ptx_text::Statement::Kind::function) visit(s.function[0].body);
  return all;
}

// Replaces an exclusive-or by a copy, so that no parity changes.
bool keep(Instruction& i) {
  i.opcode = "mov.b32";
  i.operands.resize(2);
  return true;
}

bool shifted_by_another(Instruction& i) {
  i.operands.at(2) = number(31);
  return true;
}

}  // namespace

TEST_CASE("rings of 1 to 32 barriers, through many phases of each") {
  for (int slots : {1, 2, 3, 5, 8, 31, 32}) check_right(ring(slots, 4 * slots + 3), 20);
}

TEST_CASE("meetings of clusters along x, y, z and some of them") {
  struct Shape {
    std::array<uint32_t, 3> cluster;
    const char* axes;
    int64_t count;
  };
  // The count is 4 warps for each CTA in line.
  for (Shape s : {Shape{{1, 1, 1}, "x", 4},
                  {{2, 1, 1}, "x", 8},
                  {{4, 1, 1}, "x", 16},
                  {{1, 2, 1}, "y", 8},
                  {{2, 2, 1}, "x", 8},
                  {{2, 2, 1}, "y", 8},
                  {{2, 2, 1}, "xy", 12},
                  {{4, 2, 1}, "xy", 20},
                  {{2, 1, 1}, "y", 4},
                  {{1, 1, 2}, "z", 8},
                  {{2, 2, 2}, "x", 8},
                  {{2, 2, 2}, "z", 8},
                  {{2, 2, 2}, "yz", 12},
                  {{3, 1, 2}, "xz", 16},
                  {{2, 2, 2}, "xyz", 16},
                  {{2, 3, 2}, "xyz", 20}}) {
    Subject subject = meeting(s.cluster, s.axes, 5);
    check_right(subject, 20);
    CHECK(counts(subject) == std::vector<int64_t>{s.count, s.count});
  }
}

TEST_CASE("pipelines that lines of CTAs of a cluster fill together") {
  struct Shape {
    std::array<uint32_t, 3> cluster;
    std::vector<const char*> axes;
  };
  for (const Shape& shape : {Shape{{2, 1, 1}, {"x", "y"}},
                             {{1, 1, 2}, {"z"}},
                             {{2, 2, 1}, {"x", "y", "z", "xy"}},
                             {{2, 1, 3}, {"x", "z"}},
                             {{2, 2, 2}, {"x", "y", "z", "xz", "yz", "xyz"}}})
    for (const char* axes : shape.axes)
      for (bool total_is_known : {false, true}) check_right(relay(shape.cluster, axes, 7, total_is_known), 5);
}

TEST_CASE("emulator: mutants of a pipeline of a cluster of 2 x 2 x 2") {
  const std::vector<Fault> out_of_step = {Fault::race, Fault::deadlock, Fault::tx_count, Fault::arrival_count,
                                          Fault::phase_skipped};
  const char *const init = "mbarrier.init", *const wait = "mbarrier.try_wait";
  check_mutants(
      relay({2, 2, 2}, "xyz", 7, false),
      {
          {"the cluster does not meet after the init",
           "barrier.cluster",
           0,
           drop,
           {Fault::mbarrier_use, Fault::mbarrier_init, Fault::deadlock},
           2},
          {"a full barrier is not initialised", init, 0, drop, {Fault::mbarrier_use}},
          {"an empty barrier is not initialised", init, 2, drop, {Fault::mbarrier_use}},
          {"an arrival more fills a stage", init, 0, add_to(1, 1), out_of_step},
          {"an arrival more fills the second stage", init, 1, add_to(1, 1), out_of_step},
          {"an arrival more empties a stage", init, 2, add_to(1, 1), out_of_step},
          {"an arrival less empties a stage", init, 2, add_to(1, -1), out_of_step},
          {"the CTA alone empties a stage", init, 2, set_operand(1, 4), out_of_step},
          {"all release to CTA 0", "mapa", 0, set_operand(2, 0), out_of_step},
          {"nobody releases", "mbarrier.arrive.shared::cluster", 0, drop, {Fault::deadlock}},
          {"nobody waits for an empty stage", wait, 0, do_not_wait, out_of_step},
          {"nobody waits for a full stage", wait, 1, do_not_wait, {Fault::race, Fault::uninitialised}},
      });
}

TEST_CASE("emulator: mutants of a ring") {
  const char *const wait = "mbarrier.try_wait", *const arrive = "mbarrier.arrive";
  // An exclusive-or with a barrier's bit flips its parity.
  check_mutants(
      ring(3, 11),
      {
          {"no bar.sync after the init", "bar.sync", 0, drop, {Fault::mbarrier_use, Fault::mbarrier_init}},
          {"a full barrier is not initialised", "mbarrier.init", 0, drop, {Fault::mbarrier_use}},
          {"an empty barrier is not initialised", "mbarrier.init", 3, drop, {Fault::mbarrier_use}},
          {"a full barrier for 129", "mbarrier.init", 0, add_to(1, 1), {Fault::deadlock}},
          {"an empty barrier for 129", "mbarrier.init", 3, add_to(1, 1), {Fault::deadlock}},
          {"a full barrier for 64", "mbarrier.init", 0, set_operand(1, 64), {Fault::race, Fault::deadlock}},
          {"the producer does not wait", wait, 0, do_not_wait, {Fault::race}},
          {"the consumer does not wait", wait, 1, do_not_wait, {Fault::race, Fault::phase_skipped}},
          {"the producer does not arrive", arrive, 0, drop, {Fault::deadlock}},
          {"the consumer does not arrive", arrive, 1, drop, {Fault::deadlock}},
          {"the producer's parities do not turn", "xor.b32", 0, keep, {Fault::race, Fault::deadlock}},
          {"the consumer's parities do not turn",
           "xor.b32",
           1,
           keep,
           {Fault::race, Fault::deadlock, Fault::phase_skipped}},
          {"the consumer waits for the other parity",
           "shr.u32",
           1,
           shifted_by_another,
           {Fault::race, Fault::deadlock}},
      });
}

TEST_CASE("emulator: mutants of a meeting") {
  const char *const wait = "mbarrier.try_wait", *const arrive = "mbarrier.arrive";
  check_mutants(
      meeting({2, 2, 1}, "xy", 4),
      {
          {"the cluster does not meet after the init",
           "barrier.cluster",
           0,
           drop,
           {Fault::mbarrier_use, Fault::mbarrier_init, Fault::deadlock},
           2},
          {"the first barrier is not initialised", "mbarrier.init", 0, drop, {Fault::mbarrier_use}},
          {"the first barrier for an arrival more", "mbarrier.init", 0, add_to(1, 1), {Fault::deadlock}},
          {"the first barrier for an arrival less",
           "mbarrier.init",
           0,
           add_to(1, -1),
           {Fault::race, Fault::deadlock}},
          {"the second barrier for the CTA alone",
           "mbarrier.init",
           1,
           set_operand(1, 4),
           {Fault::race, Fault::deadlock, Fault::phase_skipped}},
          {"the second barrier is not initialised", "mbarrier.init", 1, drop, {Fault::mbarrier_use}},
          {"all arrive at CTA 0",
           "mapa",
           0,
           set_operand(2, 0),
           {Fault::arrival_count, Fault::race, Fault::phase_skipped}},
          {"nobody has written", arrive, 0, drop, {Fault::deadlock}},
          {"nobody has read", arrive, 1, drop, {Fault::deadlock}},
          {"it reads without waiting", wait, 0, do_not_wait, {Fault::race}},
          {"it writes without waiting", wait, 1, do_not_wait, {Fault::race, Fault::early_exit}},
          {"parities do not turn", "xor.b32", 0, keep, {Fault::race, Fault::deadlock}},
      });
}

}  // namespace ptxbuilder::test::barrier_test
