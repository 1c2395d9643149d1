// A matrix product on clusters passes on every schedule, and the emulator reports its mutants.
#include "pipeline_mutants.h"

namespace ptxbuilder::test::gemm_mutants_test {

namespace {

void check_right(const Subject& subject) {
  std::string report;
  subject.run(subject.text(), 0, 60, report);
  REQUIRE(report == "right");
}

// Runs a mutant with several seeds until it has a fault or, if `or_wrong_results` is set, gives wrong
// results.
std::optional<Fault> first_fault(const Subject& subject, const Mutant& m, bool or_wrong_results,
                                 std::string& report) {
  const std::string text = mutated(subject.text(), m);
  std::optional<Fault> fault;
  report = "right";
  for (uint64_t seed = 0; seed < 20 && !fault && !(or_wrong_results && report != "right"); ++seed)
    fault = subject.run(text, seed, 1, report);
  return fault;
}

// Checks that every mutant gives wrong results or has a fault.
void check_wrong(const Subject& subject, const std::vector<Mutant>& mutants) {
  check_right(subject);
  for (const Mutant& m : mutants) {
    std::string report;
    first_fault(subject, m, true, report);
    const std::string shown = m.what + ": " + report;
    CHECK_MESSAGE(report != "right", shown);
    MESSAGE(shown.substr(0, shown.find('\n')));
  }
}

// Makes the result equal to the first operand with its last bit flipped.
bool take_neighbour(Instruction& i) {
  i.opcode = "xor.b32", i.operands[2] = number(1);
  return true;
}

// Makes the result greater than its first operand by `by`.
Change more(int64_t by) {
  return [=](Instruction& i) {
    i.opcode = "add.u32", i.operands[2] = number(by);
    return true;
  };
}

}  // namespace

// The CTAs of a cluster do not synchronize at the end. Instead, the consumer counts the stages, and hands
// back only those that will be filled again.
TEST_CASE("emulator: gemm with clusters and its mutants") {
  Subject subject("gemm", {{"m", 128},
                           {"n", 136},
                           {"k", 264},
                           {"bm", 64},
                           {"bn", 64},
                           {"stages", 2},
                           {"consumers", 1},
                           {"cluster_m", 2},
                           {"sms", 4}});
  const char* const counted = "setp.gt.s32";  // compares for a tile's last stage, for a stage during a store,
                                              // and for the other stages
  const std::vector<Fault> too_many = {Fault::early_exit, Fault::arrival_count};
  check_mutants(
      subject,
      loading() + multiplying() +
          std::vector<Mutant>{
              {"a tile's last stage is always handed back", counted, 0, set_operand(2, -100), too_many},
              {"a tile's last stage is never handed back",
               counted,
               0,
               set_operand(2, 100),
               {Fault::deadlock}},
              {"stages are always handed back late", counted, 2, set_operand(2, -100), too_many},
              {"one stage too many is handed back late", counted, 2, add_to(2, -1), too_many},
              {"one stage too few is handed back late", counted, 2, add_to(2, 1), {Fault::deadlock}}});
}

// The CTA with the first part of the last tile sums all parts. The other CTAs signal it with marks in global
// memory.
TEST_CASE("emulator: sums over CTAs through global memory and their mutants") {
  const Subject subject("gemm", {{"m", 200},
                                 {"n", 256},
                                 {"k", 192},
                                 {"bm", 64},
                                 {"bn", 64},
                                 {"consumers", 1},
                                 {"split_last", 2},
                                 {"sms", 3}});
  const char *const mark = "st.release.gpu.global.u64", *const look = "ld.acquire.gpu.global.u64";
  const std::vector<Mutant> mutants = {
      {"the mark does not release", mark, 0, becomes("st.relaxed.gpu.global.u64"), {}},
      {"the mark releases only to its CTA", mark, 0, becomes("st.release.cta.global.u64"), {}},
      {"the mark is not a strong store", mark, 0, becomes("st.global.u64"), {}},
      {"the reader does not acquire", look, 0, becomes("ld.relaxed.gpu.global.u64"), {}},
      {"the reader acquires only from its CTA", look, 0, becomes("ld.acquire.cta.global.u64"), {}},
      {"the mark is not waited for",
       "setp.eq.b64",
       0,
       [](Instruction& i) {
         i.operands[2] = i.operands[1];
         return true;
       },
       {}}};
  check_right(subject);
  for (const Mutant& m : mutants) {
    std::string report;
    const std::optional<Fault> fault = first_fault(subject, m, false, report);
    const std::string shown = m.what + ": " + report;
    CHECK_MESSAGE(fault == Fault::race, shown);
  }
}

// CTAs that share loads divide k with the CTAs along z of their cluster. Each CTA adds up 24 of 40 columns,
// so that two CTAs share 8 columns. Part k of a sum is vector load number k.
TEST_CASE("emulator: sums over CTAs of a cluster that share loads and their mutants") {
  const Subject subject("gemm", {{"m", 128},
                                 {"n", 80},
                                 {"k", 264},
                                 {"bm", 64},
                                 {"bn", 40},
                                 {"stages", 2},
                                 {"consumers", 1},
                                 {"cluster_m", 2},
                                 {"split_k", 2}});
  const char *const tell = "mbarrier.arrive.release.cluster", *const place = "mapa.shared::cluster.u32";
  const auto rank_zero = [](Instruction& i) {
    i.operands[2] = number(0);
    return true;
  };
  check_wrong(subject, {{"the sums are not released to the others",
                         tell,
                         0,
                         becomes("mbarrier.arrive.relaxed.cluster.shared::cluster.b64"),
                         {}},
                        {"the others' sums are not acquired",
                         "mbarrier.try_wait.parity.acquire.cluster",
                         0,
                         becomes("mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64"),
                         {}},
                        {"the other CTAs are not notified", tell, 0, drop, {}},
                        {"the first CTA's part instead of another's", place, 3, rank_zero, {}},
                        {"a part is added twice", place, 4, rank_zero, {}},
                        {"the columns of the neighbour", "min.u32", 2, set_operand(2, 8), {}},
                        {"the CTAs do not synchronize at the end", "barrier.cluster.wait", 1, drop, {}}});
}

// If an end or a place of a group of rows is wrong, its tiles overwrite each other. Consumers read a tile's
// words in order: its place, its group, its stages, and the beginning and the end of the group.
TEST_CASE("emulator: gemm of rows in groups and its mutants") {
  const Subject subject("gemm", {{"m", 200},
                                 {"n", 72},
                                 {"k", 72},
                                 {"batches", 5},
                                 {"group_ends", 1},
                                 {"bm", 64},
                                 {"bn", 64},
                                 {"consumers", 1},
                                 {"sms", 3}});
  const char* const word = "redux.sync.max.u32";
  const std::vector<Mutant> mutants = {
      {"a group's tail is written over its neighbour", word, 6, more(1), {}},
      {"a group's last row is left out", word, 6, more(-1), {}},
      {"a group is stored from the row before its first", word, 0, more(-1), {}},
      {"a group is stored from its second row", word, 0, more(1), {}},
      {"a group begins where the previous one begins", "max.s32", 1, becomes("min.s32"), {}},
  };
  check_wrong(subject, mutants);
}

// Each thread copies its own pieces of gathered rows, whose numbers it reads from memory.
TEST_CASE("emulator: gemm of gathered rows and its mutants") {
  const Subject subject("gemm", {{"m", 200},
                                 {"n", 72},
                                 {"k", 136},
                                 {"batches", 5},
                                 {"group_ends", 1},
                                 {"a_rows", 1},
                                 {"bm", 64},
                                 {"bn", 64},
                                 {"consumers", 1},
                                 {"sms", 3}});
  const char *const copy = "cp.async.cg.shared::cta.global", *const last = "min.u32",
                    *const arrival = "cp.async.mbarrier.arrive.noinc.shared::cta.b64";
  check_wrong(subject, {{"a row is taken by its neighbour's number", last, 3, take_neighbour, {}},
                        {"rows that A does not have are not zeros", copy, 1, set_operand(3, 16), {}},
                        {"half of a piece is copied", copy, 0, set_operand(3, 8), {}},
                        {"copies arrive in addition to what is counted",
                         arrival,
                         0,
                         becomes("cp.async.mbarrier.arrive.shared::cta.b64"),
                         {}},
                        {"products may run before the copies' proxy fence",
                         "fence.proxy.async.shared::cta",
                         3,
                         becomes("membar.cta"),
                         {}}});
}

// The gathered rows have 8-bit elements, and their block scales belong to the product's rows.
TEST_CASE("emulator: gemm of gathered rows with scales of blocks and its mutants") {
  const Subject subject("gemm", {{"m", 200},
                                 {"n", 72},
                                 {"k", 272},
                                 {"a", 3},
                                 {"d", 2},
                                 {"batches", 5},
                                 {"group_ends", 1},
                                 {"a_rows", 1},
                                 {"a_scales_1x128", 1},
                                 {"b_scales_128x128", 1},
                                 {"bm", 64},
                                 {"bn", 64},
                                 {"consumers", 1},
                                 {"sms", 3}});
  check_wrong(subject, {{"rows are those of their neighbours", "min.u32", 0, take_neighbour, {}}});
}

// Each thread stores its own pieces of scattered rows, multiplied by the weight of the row.
TEST_CASE("emulator: gemm of scattered rows and its mutants") {
  const Subject subject("gemm", {{"m", 200},
                                 {"n", 72},
                                 {"k", 72},
                                 {"batches", 5},
                                 {"group_ends", 1},
                                 {"d_rows", 1},
                                 {"row_scales", 1},
                                 {"bm", 64},
                                 {"bn", 64},
                                 {"consumers", 1},
                                 {"sms", 3}});
  check_wrong(subject,
              {{"a group's tail is written over its neighbour", "redux.sync.max.u32", 6, more(1), {}},
               {"a group's last row is left out", "redux.sync.max.u32", 6, more(-1), {}},
               {"a row is stored where its neighbour belongs", "min.u32", 11, take_neighbour, {}},
               {"a weight is that of the next row", "ld.global.b32", 2, add_to(1, 4), {}}});
}

TEST_CASE("emulator: gemm of groups whose rows are counted and its mutants") {
  const Subject subject("gemm", {{"m", 200},
                                 {"n", 72},
                                 {"k", 72},
                                 {"batches", 5},
                                 {"group_counts", 1},
                                 {"bm", 64},
                                 {"bn", 64},
                                 {"consumers", 1},
                                 {"sms", 3}});
  check_wrong(subject, {{"a count is that of the next group", "ld.global.b32", 1, add_to(1, 4), {}},
                        {"counts have no upper bound", "min.s32", 1, becomes("max.s32"), {}}});
}

TEST_CASE("emulator: gemm of groups whose matrices have addresses and its mutants") {
  const Subject subject("gemm", {{"m", 200},
                                 {"n", 72},
                                 {"k", 72},
                                 {"batches", 5},
                                 {"group_ends", 1},
                                 {"b_addresses", 1},
                                 {"bm", 64},
                                 {"bn", 64},
                                 {"consumers", 1},
                                 {"sms", 3}});
  check_wrong(subject, {{"a matrix is that of the next group", "ld.global.b64", 0, add_to(1, 8), {}},
                        {"steps have 8 bytes", "shr.u64", 0, set_operand(2, 3), {}},
                        {"no matrix is before the first", "shr.u64", 1, set_operand(2, 40), {}}});
}

// Several rows are added to the same row.
TEST_CASE("emulator: gemm of added rows and its mutants") {
  const Subject subject("gemm", {{"m", 200},
                                 {"n", 72},
                                 {"k", 72},
                                 {"batches", 5},
                                 {"group_ends", 1},
                                 {"add_to_rows", 1},
                                 {"row_scales", 1},
                                 {"bm", 64},
                                 {"bn", 64},
                                 {"consumers", 1},
                                 {"sms", 3}});
  const std::string adds = "red.relaxed.gpu.global.add.noftz.v4.bf16x2";
  check_wrong(subject, {{"rows overwrite each other", adds, 2, becomes("st.global.v4.b32"), {}},
                        {"a row is not added", adds, 1, drop, {}}});
}

// There are six blocks of k. An iteration of the loop has four, and a box of B's scales has four.
TEST_CASE("emulator: gemm with scales of blocks and its mutants") {
  const Subject subject("gemm", {{"m", 136},
                                 {"n", 200},
                                 {"k", 768},
                                 {"a", 4},
                                 {"a_scales_1x128", 1},
                                 {"b_scales_128x128", 1},
                                 {"bm", 64},
                                 {"bn", 64},
                                 {"consumers", 1},
                                 {"sms", 3}});
  check_wrong(subject,
              {{"scales of B are those of another 128 columns", "shr.u32", 6, set_operand(2, 6), {}},
               {"scales of B are those of the first blocks of k", "and.b32", 1, set_operand(2, 0), {}},
               {"the last stage uses the scale of the previous one", "and.b32", 5, set_operand(2, 0), {}},
               {"rows use the scales of others", "shr.u32", 8, set_operand(2, 2), {}}});
}

// A block of packed weights has scales and zeros of two groups. There are two blocks along k and two along n.
TEST_CASE("emulator: gemm with packed weights and its mutants") {
  const Subject subject("gemm", {{"m", 13},
                                 {"n", 72},
                                 {"k", 200},
                                 {"packed", 2},
                                 {"packed_group", 64},
                                 {"swapped", 1},
                                 {"bm", 64},
                                 {"bn", 16},
                                 {"consumers", 1},
                                 {"sms", 1}});
  const char *const scale = "ld.shared.b32", *const zero = "ld.shared.b16", *const words = "ld.shared.v4";
  check_wrong(subject,
              {{"a scale is that of the next group", scale, 0, add_to(1, 256), {}},
               {"a scale is that of the next row", scale, 1, add_to(1, 4), {}},
               {"a zero is that of the next group", zero, 0, add_to(1, 128), {}},
               {"a zero is that of the next row", zero, 1, add_to(1, 2), {}},
               {"nibbles are in another order", "shr.u32", 10, set_operand(2, 8), {}},
               {"a part uses the weights of the previous one", words, 1, add_to(1, -2048), {}},
               {"blocks are those of other columns", "min.u32", 1, take_neighbour, {}},
               {"sums of a group are read while they are added", "wgmma.wait_group", 0, add_to(0, 1), {}}});
}

TEST_CASE("emulator: gemm with packed weights of groups and its mutants") {
  const Subject subject("gemm", {{"m", 70},
                                 {"n", 72},
                                 {"k", 200},
                                 {"batches", 5},
                                 {"group_ends", 1},
                                 {"packed", 1},
                                 {"swapped", 1},
                                 {"bm", 64},
                                 {"bn", 16},
                                 {"consumers", 1},
                                 {"sms", 2}});
  check_wrong(subject, {{"weights are those of the next group", "mad.lo.s32", 0, take_neighbour, {}}});
}

// A sparse A has three blocks of rows, in tiles of two blocks; the metadata of a fourth block would be
// outside of the tensor.
TEST_CASE("emulator: gemm with a sparse A and its mutants") {
  const Subject subject(
      "gemm", {{"m", 136}, {"n", 72}, {"k", 272}, {"a_metadata", 1}, {"bm", 128}, {"bn", 64}, {"sms", 3}});
  const char* const product = "wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.bf16.bf16";
  // Here, the masks of the metadata's coordinates change no bits, so that an addition may replace them.
  check_wrong(
      subject,
      {{"the first 32 of k use the metadata of the others", product, 2, set_operand(4, 1), {}},
       {"the last 32 of k use the metadata of the others", product, 3, set_operand(4, 0), {}},
       {"metadata is that of another tile", "shl.b32", 7, set_operand(2, 0), {}},
       {"metadata is that of the next tile", "and.b32", 1, more(256), {}},
       {"metadata is that of the next 64 of k", "and.b32", 2, more(1), {}},
       {"metadata is that of the first 64 of k", "and.b32", 2, set_operand(2, 0), {}},
       {"both warpgroups use the metadata of the first", "and.b32", 13, set_operand(2, 0), {}},
       {"a thread uses another's metadata", "shl.b32", 28, set_operand(2, 3), {}},
       {"metadata outside of the tensor names an element twice", "selp.b32", 11, set_operand(1, 0), {}}});
}

}  // namespace ptxbuilder::test::gemm_mutants_test
