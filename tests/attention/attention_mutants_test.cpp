// Tests mutants of attention. Each is derived from the kernel's own PTX, and must be reported with its cause
// or produce a wrong result. The kernel itself must do neither.
#include "mutation_kit.h"

namespace ptxbuilder::test::attention_mutants_test {
namespace {

// Two heads in a persistent CTA. There are four blocks of keys, and three of them are masked for some query.
Subject stays() {
  return {"attention",
          {{"queries", 100},
           {"keys", 200},
           {"depth", 16},
           {"heads", 2},
           {"bn", 64},
           {"causal", 1},
           {"persistent", 1},
           {"turns", 1},
           {"sms", 1}}};
}
Subject leaves() {
  return {
      "attention",
      {{"queries", 70}, {"keys", 100}, {"depth", 16}, {"heads", 1}, {"bn", 32}, {"window", 40}, {"lazy", 0}}};
}

// Six heads of three sequences, which two CTAs take from a counter.
Subject shares() {
  return {"attention",
          {{"queries", 100},
           {"keys", 100},
           {"depth", 16},
           {"heads", 6},
           {"batches", 3},
           {"bn", 64},
           {"packed", 1},
           {"persistent", 1},
           {"sms", 2}}};
}
// Forty queries of four heads, as rows of three blocks.
Subject heads_as_rows() {
  return {"attention",
          {{"queries", 40},
           {"keys", 50},
           {"depth", 16},
           {"heads", 4},
           {"group", 4},
           {"heads_in_rows", 4},
           {"consumers", 1},
           {"bn", 32},
           {"causal", 1}}};
}

// Two batches of different lengths in pages. Three CTAs divide the keys, and the second CTA has parts of both
// batches.
Subject caches() {
  return {"attention",
          {{"queries", 20},
           {"keys", 90},
           {"depth", 16},
           {"heads", 2},
           {"group", 2},
           {"heads_in_rows", 2},
           {"batches", 2},
           {"consumers", 1},
           {"bn", 32},
           {"lengths", 1},
           {"page", 16},
           {"parts", 3}}};
}

// Two heads of K and V in e4m3, with lengths. Two CTAs share each head.
Subject caches_of_e4m3() {
  return {"attention",
          {{"queries", 4},
           {"keys", 90},
           {"depth", 32},
           {"heads", 4},
           {"group", 2},
           {"heads_in_rows", 2},
           {"batches", 2},
           {"consumers", 1},
           {"bn", 32},
           {"e4m3", 1},
           {"cache_stages", 2},
           {"lengths", 1},
           {"parts", 2}}};
}

// Like caches_of_e4m3(), with pages of 16 rows that have their own scales.
Subject scales_of_pages() {
  return {"attention",
          {{"queries", 4},
           {"keys", 90},
           {"depth", 32},
           {"heads", 4},
           {"group", 2},
           {"heads_in_rows", 2},
           {"batches", 2},
           {"consumers", 1},
           {"bn", 32},
           {"e4m3", 1},
           {"cache_stages", 2},
           {"page", 16},
           {"page_scales", 1},
           {"lengths", 1},
           {"parts", 2}}};
}

// Like caches_of_e4m3(), in f16 and with pages of two rows.
Subject caches_in_small_pages() {
  return {"attention",
          {{"queries", 4},
           {"keys", 90},
           {"depth", 32},
           {"heads", 4},
           {"group", 2},
           {"heads_in_rows", 2},
           {"batches", 2},
           {"consumers", 1},
           {"bn", 32},
           {"page", 2},
           {"lengths", 1},
           {"parts", 2}}};
}

// Three sequences, each with fewer queries and more keys than the previous one.
Subject mixed_batch() {
  return {"attention",
          {{"queries", 70},
           {"keys", 90},
           {"depth", 32},
           {"heads", 2},
           {"batches", 3},
           {"causal", 1},
           {"consumers", 1},
           {"bn", 32},
           {"page", 16},
           {"packed", 1},
           {"lengths", 1}}};
}

// Sequences of seven, five and three blocks of 32 queries with two heads, whose keys three CTAs divide. One
// piece would end within a block of the second sequence, and ends before that block instead. Another ends
// within a block of the third sequence.
Subject divided_mixed_batch() {
  return {"attention",
          {{"queries", 200},
           {"keys", 200},
           {"depth", 32},
           {"heads", 2},
           {"group", 2},
           {"heads_in_rows", 2},
           {"batches", 3},
           {"causal", 1},
           {"consumers", 1},
           {"bn", 32},
           {"page", 16},
           {"packed", 1},
           {"lengths", 1},
           {"parts", 3}}};
}

// Trees of five tokens, whose keys are in two blocks of each sequence.
Subject trees() {
  return {"attention",
          {{"queries", 5},
           {"keys", 66},
           {"depth", 16},
           {"heads", 4},
           {"group", 4},
           {"heads_in_rows", 4},
           {"batches", 2},
           {"consumers", 1},
           {"bn", 32},
           {"lengths", 1},
           {"tree", 1},
           {"parts", 2}}};
}

// Two sequences with five and three blocks of keys, which two CTAs share. The keys are their own values.
Subject latent() {
  return {"attention",
          {{"queries", 2},
           {"keys", 272},
           {"depth", 320},
           {"value_depth", 256},
           {"heads", 4},
           {"group", 4},
           {"heads_in_rows", 4},
           {"batches", 2},
           {"consumers", 1},
           {"bn", 64},
           {"causal", 1},
           {"lengths", 1},
           {"page", 16},
           {"parts", 2}}};
}

// Two sequences with four and two blocks of keys, which two CTAs share. The keys are rows of bytes.
Subject latent_in_bytes() {
  return {"attention",
          {{"queries", 2},
           {"keys", 100},
           {"depth", 576},
           {"value_depth", 512},
           {"heads", 4},
           {"group", 4},
           {"heads_in_rows", 4},
           {"batches", 2},
           {"consumers", 1},
           {"bn", 32},
           {"causal", 1},
           {"lengths", 1},
           {"page", 16},
           {"parts", 2},
           {"type", 1},
           {"e4m3", 1},
           {"cache_stages", 2}}};
}

// A sequence of ten blocks, with one part for each CTA. Two CTAs add up the parts, and then one of them adds
// their sums.
Subject groups_of_parts() {
  return {"attention",
          {{"queries", 1},
           {"keys", 640},
           {"depth", 320},
           {"value_depth", 256},
           {"heads", 4},
           {"group", 4},
           {"heads_in_rows", 4},
           {"consumers", 1},
           {"bn", 64},
           {"lengths", 1},
           {"page", 64},
           {"parts", 10}}};
}

// Two blocks of queries of four heads in a persistent CTA. The heads share two key heads with their own
// scales. The products are of e4m3, and their sums are promoted after each block of keys.
Subject products_of_e4m3() {
  return {"attention",
          {{"queries", 70},
           {"keys", 200},
           {"depth", 32},
           {"heads", 4},
           {"group", 2},
           {"consumers", 1},
           {"bn", 64},
           {"e4m3_products", 1},
           {"cache_stages", 2},
           {"promote", 64},
           {"persistent", 1},
           {"sms", 1}}};
}

// Replaces a = b ^ c or a = b * c by a = b.
bool copy_first(Instruction& i) {
  i.opcode = "mov.b32";
  i.operands.resize(2);
  return true;
}
// Checks each mutant. A mutant without a cause must give a wrong result.
void check_each(const Subject& subject, const std::vector<Mutant>& mutants) {
  std::string report;
  subject.run(subject.text(), 0, 40, report);
  REQUIRE(report == "right");
  // These findings are advice about other GPUs on which a kernel could run.
  for (const std::string& rule : rules_that_find(subject.text()))
    CHECK((rule == "target" || rule == "version"));
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

TEST_CASE("mutants whose CTAs are persistent, take turns, and end queries during the next ones") {
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
        11,
        add_to(1, 8),
        {race, arrival_count, deadlock, phase_skipped}},
       {"values read before their barrier", wait, 22, do_not_wait, {race, uninitialised}},
       {"keys read before their barrier", wait, 20, do_not_wait, {race, uninitialised}},
       {"the next queries read before their barrier", wait, 27, do_not_wait, {race, uninitialised}},
       {"queries handed back before the last block of keys",
        arrive,
        12,
        [](Instruction& i) {
          i.guard->predicate = "%p30";  // the predicate of the warp's first lane
          return true;
        },
        {race, arrival_count, deadlock, phase_skipped}},
       {"the mask is off by one at the diagonal", "setp.gt.s32", 0, becomes("setp.ge.s32"), {}, 64},
       {"the turn is not passed", arrive, 10, drop, {deadlock}},
       {"the ring of values does not flip its parity",
        "xor.b32",
        11,
        copy_first,
        {race, deadlock, uninitialised, phase_skipped}},
       {"a stage is lent before it is empty", wait, 12, do_not_wait, {race, arrival_count, phase_skipped}},
       {"O written to a stage before it is lent", wait, 31, do_not_wait, {race, arrival_count}},
       {"O's stage handed back before O has been stored",
        "cp.async.bulk.wait_group.read",
        0,
        drop,
        {race},
        4},
       {"O's stage handed back for only one consumer",
        arrive,
        8,
        set_operand(2, 1),
        {deadlock, arrival_count}},
       {"no proxy fence before O's store", "fence.proxy", 7, drop, {proxy_fence}},
       {"O stored before all warps have written it", "bar.sync", 1, drop, {race, proxy_fence, uninitialised}},
       {"sums read while a product may write them", products, 7, set_operand(0, 1), {matrix_registers}}});
}

TEST_CASE("mutants of the masks and of the softmax") {
  using enum Fault;
  check_each(
      leaves(),
      {{"sums are not rescaled when the maximum grows", "mul.rn.f32", 17, copy_first, {}, 8},
       {"the window is off by one", "setp.gt.s32", 32, becomes("setp.ge.s32"), {}, 16},
       {"the keys' end is off by one", "setp.gt.s32", 0, becomes("setp.ge.s32"), {}, 1},
       {"a row's maximum covers only the columns of one lane", "shfl.sync", 0, drop, {undefined_register}}});
}

TEST_CASE("mutants whose CTAs get the blocks of packed sequences from a counter") {
  using enum Fault;
  const char *wait = "mbarrier.try_wait", *count = "atom.global.add";
  check_each(shares(),
             {{"the counter is not reset", count, 1, drop, {trap}},
              {"blocks counted as if there were eight heads",
               "div.u32",
               3,
               [](Instruction& i) {
                 i.opcode = "shr.u32";
                 i.operands[2] = number(3);
                 return true;
               },
               {out_of_bounds}},
              {"a block read before its announcement", wait, 15, do_not_wait, {race, uninitialised}},
              {"a block announced over one that has not been read", wait, 14, do_not_wait, {race}},
              {"a block announced without its first query",
               "st.shared.b32",
               13,
               drop,
               {out_of_bounds, uninitialised}},
              {"no proxy fence between O's rows and the values that take their place",
               "fence.proxy",
               6,
               drop,
               {proxy_fence}}});
}

TEST_CASE("mutants of the order of packed sequences") {
  check_each(
      Subject("attention_order", {{"sequences", 50}, {"rows", 64}}),
      {{"the counter is not reset", "st.global", 2, drop, {}},
       {"the number of blocks is not written", "st.global", 3, drop, {}},
       {"sequences of the same length count as longer",
        "setp.lt.u32",
        0,
        becomes("setp.le.u32"),
        {Fault::race, Fault::out_of_bounds}},
       {"the shortest sequences come first", "setp.gt.u32", 0, becomes("setp.lt.u32"), {}},
       {"a warp counts only the sequences of one lane", "redux.sync.add", 0, copy_first, {Fault::race}}});
}

TEST_CASE("mutants of heads that are rows") {
  using enum Fault;
  check_each(
      heads_as_rows(),
      {{"a row's number is taken for that of its query", "shr.u32", 11, copy_first, {out_of_bounds}, 2},
       {"O stored at half of the query", "shr.u32", 9, set_operand(2, 3), {race}},
       {"a logarithm is stored in the place of another head's", "and.b32", 9, set_operand(2, 1), {}}});
}

TEST_CASE("mutants of caches, whose keys CTAs divide") {
  using enum Fault;
  check_each(
      caches(),
      {{"the other part is added before it has arrived",
        "setp.eq.b64",
        0,
        do_not_wait,
        {race, uninitialised}},
       {"the mark of a part is not released", "st.release", 0, becomes("st.relaxed.gpu.global.u64"), {race}},
       {"the mark is set before all threads have stored their sums", "bar.sync", 3, drop, {race}},
       {"values after the last key are not cleared", "setp.gt.u32", 8, becomes("setp.ne.u32"), {}},
       {"one key too many remains", "setp.lt.u32", 7, becomes("setp.le.u32"), {}},
       {"no proxy fence after values are cleared", "fence.proxy", 7, drop, {proxy_fence}},
       {"the page with half of the number", "shr.u32", 6, set_operand(2, 5), {}},
       {"a part after the last is added", "setp.lt.u32", 10, becomes("setp.le.u32"), {race, uninitialised}},
       {"a part is left out", "setp.lt.u32", 9, set_operand(2, 1), {}},
       {"a part begins at the first key of its neighbour", "st.shared.b32", 19, set_operand(1, 0), {}},
       {"a CTA counts only the blocks of one lane", "redux.sync.add", 0, copy_first, {}},
       {"the row of a piece's end is the one before", "setp.le.u32", 0, becomes("setp.lt.u32"), {}},
       {"queries are loaded before those in their place are multiplied",
        "mbarrier.try_wait",
        6,
        do_not_wait,
        {race, arrival_count}},
       {"the CTA takes the next queries before O has been stored",
        "cp.async.bulk.wait_group.read",
        0,
        drop,
        {race, early_exit}}});
}

TEST_CASE("mutants of caches of e4m3") {
  using enum Fault;
  const char* wait = "mbarrier.try_wait";
  check_each(
      caches_of_e4m3(),
      {{"keys are converted before they have arrived", wait, 8, do_not_wait, {race, uninitialised}},
       {"keys are converted over others that are still in use", wait, 9, do_not_wait, {race, phase_skipped}},
       {"keys are multiplied before they are converted", wait, 15, do_not_wait, {race, uninitialised}},
       {"keys are handed back before all lanes have read them", "bar.warp.sync", 0, drop, {race}},
       {"no proxy fence before the product of converted keys", "fence.proxy", 9, drop, {proxy_fence}},
       {"the scales of another head", "min.u32", 11, set_operand(2, 0), {}},
       {"one lane converts the bytes of its neighbour", "cvt.rn.f16x2.e4m3x2", 1, set_operand(1, 0), {}}});
}

TEST_CASE("mutants of scales of pages") {
  check_each(scales_of_pages(),
             {{"keys have the scales of the first page", "mad.lo.s32", 4, set_operand(1, 0), {}},
              {"keys have the scales of another page", "mad.lo.s32", 4, set_operand(2, 1), {}},
              {"keys have the scale of another head", "min.u32", 20, set_operand(2, 0), {}},
              {"keys have the scales of another batch's pages", "mad.lo.s32", 3, set_operand(1, 0), {}},
              {"values have the scales of another page", "mad.lo.s32", 7, set_operand(2, 1), {}},
              {"an element of the keys has no scale", "mul.rn.f32", 0, copy_first, {}}});
}

TEST_CASE("mutants of products of e4m3") {
  using enum Fault;
  const char *wait = "mbarrier.try_wait", *bytes = "prmt.b32", *add = "add.rn.f32";
  const auto exchange = [](Instruction& i) {
    std::swap(i.operands.at(1), i.operands.at(2));
    return true;
  };
  check_each(
      products_of_e4m3(),
      {{"values are transposed before they have arrived",
        wait,
        12,
        do_not_wait,
        {race, uninitialised, deadlock}},
       {"values are transposed over others that are still in use",
        wait,
        13,
        do_not_wait,
        {race, phase_skipped}},
       {"values are multiplied before they are transposed", wait, 19, do_not_wait, {race, uninitialised}},
       {"no proxy fence before the product of transposed values", "fence.proxy", 7, drop, {proxy_fence}},
       {"the second eight of 16 keys come before the first", bytes, 0, exchange, {}},
       {"all lanes store even columns first", "selp.b32", 8, set_operand(2, 0x6420), {}},
       {"weights of two keys change places", "cvt.rn.satfinite.e4m3x2", 0, exchange, {}},
       {"the scales of another head for the first queries", "min.u32", 0, set_operand(1, 1), {}},
       {"the scales of another head for the next queries", "min.u32", 2, set_operand(2, 0), {}},
       {"a promotion drops the sums of the previous ones", add, 34, copy_first, {}},
       {"promoted sums are left out of O", add, 118, copy_first, {}},
       {"O is written before the previous O has been stored",
        "cp.async.bulk.wait_group.read",
        0,
        drop,
        {race}}});
}

TEST_CASE("mutants of caches in small pages") {
  using enum Fault;
  const char* wait = "mbarrier.try_wait";
  check_each(
      caches_in_small_pages(),
      {{"keys are copied over others that are still in use", wait, 3, do_not_wait, {race, phase_skipped}},
       {"keys are multiplied before they have arrived", wait, 8, do_not_wait, {race, uninitialised}},
       {"no proxy fence before the product of copied keys", "fence.proxy", 7, drop, {proxy_fence}},
       {"the first row of a page instead of the second", "and.b32", 11, set_operand(2, 0), {}},
       {"the page with half of the number", "shr.u32", 9, set_operand(2, 2), {}}});
}

TEST_CASE("mutants of packed queries over caches") {
  using enum Fault;
  const char* load = "ld.global.b32";
  const auto becomes_number = [](int value) {
    return [value](Instruction& i) {
      i.opcode = "mov.b32";
      i.operands.at(1) = number(value);
      return true;
    };
  };
  check_each(
      mixed_batch(),
      {{"a sequence also has the queries of all previous ones", load, 0, becomes_number(0), {deadlock}},
       {"O of all sequences goes to the rows of the first", load, 11, becomes_number(0), {race}},
       {"each sequence has the largest possible number of keys", load, 13, becomes_number(90), {deadlock}},
       {"the page of the first key for all keys", "min.u32", 1, set_operand(2, 0), {}}});
}

TEST_CASE("mutants of packed queries whose keys CTAs divide") {
  using enum Fault;
  check_each(divided_mixed_batch(),
             {{"a block announced without its first query", "st.shared.b32", 17, set_operand(1, 0), {race}},
              {"lanes do not add what they count of a long sequence", "redux.sync.add", 0, copy_first, {}},
              {"a piece ends in the first block of queries of a sequence",
               "setp.le.u32",
               7,
               set_operand(2, 0),
               {race, out_of_bounds}},
              {"a piece begins within a block of queries, before which the last one has ended",
               "setp.le.u32",
               2,
               set_operand(2, 0),
               {}},
              {"a piece ends within a block of queries, with which the next one begins",
               "setp.le.u32",
               5,
               set_operand(2, 0),
               {race}},
              {"no proxy fence between O's rows and the queries that take their place",
               "fence.proxy",
               6,
               drop,
               {proxy_fence}}});
}

TEST_CASE("mutants of trees of tokens") {
  check_each(trees(), {{"the masks of the first sequence for all", "mul.lo.s32", 2, set_operand(2, 0), {}},
                       {"the mask of the first query for all", "min.s32", 0, set_operand(2, 0), {}},
                       {"a block with keys of the tree counts as one that all queries see",
                        "max.s32",
                        0,
                        set_operand(2, 100),
                        {}},
                       {"keys whose bits are set are hidden", "not.b32", 0, copy_first, {}}});
}

TEST_CASE("mutants of latent keys that are rows of bytes") {
  using enum Fault;
  const char *wait = "mbarrier.try_wait", *arrive = "mbarrier.arrive.shared";
  check_each(
      latent_in_bytes(),
      {{"rows are converted before they have arrived", wait, 6, do_not_wait, {race, uninitialised}},
       {"rows are converted over others that are still in use", wait, 7, do_not_wait, {race, phase_skipped}},
       {"a half is not handed over", arrive, 4, drop, {deadlock}},
       {"a stage of rows is not handed back", arrive, 5, drop, {deadlock}},
       {"the other consumer's half is multiplied before it is converted",
        wait,
        13,
        do_not_wait,
        {race, uninitialised}},
       {"no proxy fence before the product of the other consumer's half",
        "fence.proxy",
        11,
        drop,
        {proxy_fence}},
       {"the scales of the next 128 columns", "or.b32", 7, set_operand(2, 384), {}}});
}

TEST_CASE("mutants of keys that are their own values") {
  using enum Fault;
  const char *wait = "mbarrier.try_wait", *arrive = "mbarrier.arrive.shared", *products = "wgmma.wait_group";
  check_each(
      latent(),
      {{"keys are multiplied before they have arrived", wait, 16, do_not_wait, {race, uninitialised}},
       {"consumer 1 reads the weights before they are passed", wait, 12, do_not_wait, {race, uninitialised}},
       {"consumer 0 reads the weights before they are passed", wait, 18, do_not_wait, {race, uninitialised}},
       {"the weights are not passed", arrive, 7, drop, {deadlock}},
       {"no proxy fence before the product of passed weights", "fence.proxy", 9, drop, {proxy_fence}},
       {"no proxy fence before the first weights", "fence.proxy", 10, drop, {proxy_fence}},
       {"values after the last key are not cleared", "setp.gt.u32", 8, becomes("setp.ne.u32"), {}},
       {"values are multiplied before all warps have cleared them", "bar.sync", 2, drop, {race, proxy_fence}},
       {"weights are passed into the place of those that are multiplied",
        products,
        2,
        set_operand(0, 1),
        {race, matrix_registers}},
       {"values are handed back during their product", products, 7, set_operand(0, 4), {race}},
       {"scores are read during their product", products, 1, set_operand(0, 2), {race, matrix_registers}},
       {"a half is handed back for only one consumer",
        arrive,
        4,
        set_operand(2, 1),
        {deadlock, arrival_count}},
       {"O is written where the other consumer multiplies queries",
        "bar.sync",
        3,
        drop,
        {race, uninitialised}},
       {"a row is divided by the sum of one consumer", "add.rn.f32", 100, copy_first, {}},
       {"consumer 1 uses a different reference than the weights",
        "ld.shared.b32",
        17,
        [](Instruction& i) {
          i.opcode = "mov.b32";
          i.operands[1] = number(0);
          return true;
        },
        {}},
       {"queries are loaded while their place holds O",
        "cp.async.bulk.wait_group.read",
        0,
        drop,
        {race, early_exit}}});
}

TEST_CASE("mutants of groups of parts") {
  using enum Fault;
  check_each(
      groups_of_parts(),
      {{"a part is added to its group before it has arrived",
        "setp.eq.b64",
        0,
        do_not_wait,
        {race, uninitialised}},
       {"a group is read before it is added", "setp.eq.b64", 1, do_not_wait, {race, uninitialised}},
       {"the mark of a group is not released", "st.release", 1, becomes("st.relaxed.gpu.global.u64"), {race}},
       {"the mark of a group is set before all threads have stored its sums", "bar.sync", 8, drop, {race}},
       {"numbers are replaced before all have loaded them", "bar.sync", 7, drop, {race}}});
}

}  // namespace ptxbuilder::test::attention_mutants_test
