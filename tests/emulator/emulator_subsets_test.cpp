// Tests programs with every subset of their fences, waits and arrivals. A program must be reported unless the
// subset orders its accesses. The patterns of communication are those used to test interpreters of kernels.
#include <bit>

#include "subsets_kit.h"

namespace ptxbuilder::runtime::emulator_subsets_test {
namespace {

// Returns a kernel of CTAs of 64 threads around `body`. Registers: %r0 is tid.x, %r1 the CTA, %r2 the address
// of 1 KB of shared memory, %r3 that of eight mbarriers with one arrival each, %r4 to %r7 different values
// for each CTA, %p0 "thread 0", %p1 "thread 32". %rd0 is the address of zeros in global memory, %rd1 is 4 KB
// after it, %rd2 is the CTA's own 256 bytes after 8 KB, and %rd3 the thread's own word there.
std::string kernel(const std::string& body, uint32_t cluster, uint32_t arrivals) {
  return fmt::format(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {} {{
.shared .align 1024 .b8 data[1024]; .shared .align 8 .b8 bar[64];
.reg .b32 %r<24>; .reg .b64 %rd<12>; .reg .pred %p<12>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, data; mov.u32 %r3, bar;
add.u32 %r4, %r1, 5; add.u32 %r5, %r1, 6; add.u32 %r6, %r1, 7; add.u32 %r7, %r1, 8;
setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r0, 32; ld.param.u64 %rd0, [p]; add.u64 %rd1, %rd0, 4096;
mul.wide.u32 %rd2, %r1, 256; add.u64 %rd2, %rd2, %rd0; add.u64 %rd2, %rd2, 8192;
mul.wide.u32 %rd3, %r0, 4; add.u64 %rd3, %rd3, %rd2;
@!%p0 bra I; mov.u32 %r8, %r3; add.u32 %r9, %r3, 64;
N: mbarrier.init.shared::cta.b64 [%r8], {}; add.u32 %r8, %r8, 8; setp.lt.u32 %p2, %r8, %r9; @%p2 bra N;
fence.mbarrier_init.release.cluster;
I: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
{}
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;
}}
)",
                     cluster > 1 ? fmt::format(".reqnctapercluster {}, 1, 1", cluster) : "", arrivals, body);
}

const std::string fence = "fence.proxy.async;\n";
const std::string write = "st.shared.v4.u32 [%r2], {%r4, %r5, %r6, %r7};\n";
const std::string overwrite = "st.shared.v4.u32 [%r2], {%r7, %r6, %r5, %r4};\n";
const std::string write_both = write + "st.shared.v4.u32 [%r2+16], {%r7, %r6, %r5, %r4};\n";
const std::string read = "ld.shared.u32 %r10, [%r2];\nst.global.u32 [%rd3], %r10;\n";

std::string arrive(int mbarrier) {
  return fmt::format("mbarrier.arrive.shared::cta.b64 _, [%r3+{}];\n", 8 * mbarrier);
}
// Returns a wait whose labels have its number.
std::string await(int number, int mbarrier, int parity = 0) {
  return fmt::format("V{0}: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r3+{1}], {2};\n@!%p7 bra V{0};\n",
                     number, 8 * mbarrier, parity);
}
std::string load(const std::string& from, int mbarrier, const std::string& to = "%r2") {
  return fmt::format(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3+{0}], 16;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{2}], [{1}], 16, [%r3+{0}];\n",
      8 * mbarrier, from, to);
}
std::string store(const std::string& to, const std::string& from = "%r2") {
  return "cp.async.bulk.global.shared::cta.bulk_group [" + to + "], [" + from +
         "], 16;\ncp.async.bulk.commit_group;\n";
}
std::string drain(int count) { return fmt::format("cp.async.bulk.wait_group {};\n", count); }
std::string drain_reads(int count) { return fmt::format("cp.async.bulk.wait_group.read {};\n", count); }

std::string one(const std::string& body) { return "@!%p0 bra E;\n" + body + "E:\n"; }
std::string two(const std::string& first, const std::string& second) {
  return "@%p0 bra A;\n@!%p1 bra E;\n" + second + "bra E;\nA:\n" + first + "E:\n";
}

const std::vector<SubsetProgram>& copies() {
  static const std::vector<SubsetProgram> table = {
      {"a copy reads global memory, then the thread writes it",
       one(load("%rd1", 0) + "<0>" + fence + "st.global.u32 [%rd1], 42;\n" + await(2, 0)),
       {await(1, 0)},
       with<0>},
      {"a thread writes shared memory, and a copy writes it again",
       one("<0>" + write + "<1>" + load("%rd1", 0) + "<2>" + await(1, 0) + "<3>" + read),
       {fence, fence, fence, fence},
       with<1>},
      {"a copy writes shared memory, and the thread writes it again",
       one(load("%rd1", 0) + "<0>" + write + read + await(2, 0)),
       {await(1, 0)},
       with<0>},
      {"one warp writes and copies, another reads",
       two("<0>" + write + "<1>" + load("%rd1", 1) + "<2>" + arrive(0),
           "<3>" + await(1, 0) + "<4>" + await(2, 1) + "<5>" + read),
       {fence, fence, fence, fence, fence, fence},
       with<1>},
      {"one warp writes, another copies and reads",
       two("<0>" + write + "<1>" + arrive(0),
           "<2>" + await(1, 0) + "<3>" + load("%rd1", 1) + "<4>" + await(2, 1) + "<5>" + read),
       {fence, fence, fence, fence, fence, fence},
       [](uint32_t subset) { return with<1>(subset) || with<3>(subset); }},
      {"a thread writes, a copy stores, the thread reads what it stored",
       one("<0>" + write + "<1>" + store("%rd2") + "<2>" + drain(0) + "ld.global.u32 %r10, [%rd2];\n"),
       {fence, fence, fence},
       with<1>},
      {"two stores, both read after a wait for one or for all",
       one(write_both + fence + store("%rd2") + store("%rd2+16", "%r2+16") + drain(1) + "<0>" +
           "ld.global.u32 %r10, [%rd2];\nld.global.u32 %r11, [%rd2+16];\n" + drain(0)),
       {drain(0)},
       with<0>},
      {"waits for stores that are waited for already",
       one(write_both + fence + store("%rd2") + store("%rd2+16", "%r2+16") + store("%rd2+32") + drain(1) +
           drain(2) + "ld.global.u32 %r10, [%rd2];\nld.global.u32 %r11, [%rd2+16];\n" + drain(0) +
           "ld.global.u32 %r10, [%rd2+32];\n"),
       {},
       always},
      {"a wait of stores is of the thread that has made them",
       two(write + fence + store("%rd2") + "<0>" + arrive(0) + await(1, 1) + drain(0),
           await(2, 0) + drain(0) + overwrite + arrive(1)),
       {drain(0)},
       with<0>},
      {"a wait of stores is of the thread that has made them, also for what they write",
       two(write + fence + store("%rd2") + "<0>" + arrive(0) + await(1, 1) + drain(0),
           await(2, 0) + drain(0) + "st.global.u32 [%rd2], 43;\n" + arrive(1)),
       {drain(0)},
       with<0>},
      {"a store that is waited for and announced is read by another warp",
       two(write + fence + store("%rd2") + drain(0) + "<0>", "<1>ld.global.u32 %r10, [%rd2];\n"),
       {arrive(0), await(1, 0)},
       with_both},
      {"two copies to one place",
       one(load("%rd1", 0) + "<0>" + load("%rd1+16", 1) + await(2, 1) + await(3, 0) + read),
       {await(1, 0)},
       with<0>},
      {"two stores to one place",
       one(write_both + fence + store("%rd2") + "<0>" + store("%rd2", "%r2+16") + drain(0)),
       {drain(0)},
       with<0>},
      {"a store that reads shared memory until the CTA ends",
       one(write + fence + store("%rd2") + "<0>"),
       {drain_reads(0)},
       with<0>},
      {"stores of two CTAs to one place", one(write + fence + store("%rd1") + drain(0)), {}, never, 2},
      {"stores of two CTAs to a place each", one(write + fence + store("%rd2") + drain(0)), {}, always, 2},
      {"copies of two CTAs from one place", one(load("%rd1", 0) + await(1, 0) + read), {}, always, 2},
      {"two CTAs write one word", one("st.global.u32 [%rd1], %r4;\n"), {}, never, 2},
      {"two CTAs read one word",
       one("ld.global.u32 %r10, [%rd1];\nst.shared.u32 [%r2], %r10;\n" + read),
       {},
       always,
       2},
      {"each CTA has shared memory of its own",
       "setp.eq.u32 %p3, %r1, 0;\nand.pred %p4, %p0, %p3;\nnot.pred %p3, %p3;\nand.pred %p5, %p1, %p3;\n"
       "@%p4 st.shared.u32 [%r2], 42;\n@%p5 st.shared.u32 [%r2], 43;\n",
       {},
       always,
       2},
      {"one warp copies, another reads", two(load("%rd1", 0), "<0>" + read), {await(1, 0)}, with<0>},
      {"two warps copy, each for itself",
       two(load("%rd1", 0) + "<0>" + read + await(3, 0),
           load("%rd1", 1, "%r2+64") + "<1>ld.shared.u32 %r10, [%r2+64];\n" + await(4, 1)),
       {await(1, 0), await(2, 1)},
       with_both},
  };
  return table;
}

// A place is written after two stores. The stored places are read or written after each kind of wait.
std::vector<SubsetProgram> waits_of_stores() {
  std::vector<SubsetProgram> programs;
  for (const std::string place :
       {"st.shared.u32 [%r2]", "st.global.u32 [%rd2]", "st.shared.u32 [%r2+16]", "st.global.u32 [%rd2+16]"}) {
    const bool is_shared = place.find("shared") != std::string::npos,
               is_first = place.find("+16") == std::string::npos;
    programs.push_back({"two stores, a wait for reads of the first, and for all of it",
                        one(write_both + fence + store("%rd2") + store("%rd2+16", "%r2+16") + drain_reads(1) +
                            "<0>" + place + ", 3;\n" + drain_reads(0)),
                        {drain(1)},
                        !is_first   ? never
                        : is_shared ? always
                                    : with<0>});
  }
  return programs;
}

const std::vector<SubsetProgram>& mbarriers() {
  static const std::vector<SubsetProgram> table = {
      {"one warp writes, another reads",
       two(write + "<0>", "<1>" + read),
       {arrive(0), await(1, 0)},
       with_both},
      {"words that are announced one by one",
       two("st.shared.u32 [%r2], 1;\n" + arrive(0) + "st.shared.u32 [%r2+4], 1;\n" + arrive(1) +
               "st.shared.u32 [%r2+8], 1;\n" + arrive(2),
           "<0>ld.shared.u32 %r10, [%r2];\n<1>ld.shared.u32 %r10, [%r2+4];\n<2>ld.shared.u32 %r10, "
           "[%r2+8];\n"),
       {await(1, 0), await(2, 1), await(3, 2)},
       [](uint32_t subset) { return subset == 7; }},
      {"both warps write one word",
       two("st.shared.u32 [%r2], 1;\n<0>", "<1>st.shared.u32 [%r2], 2;\n"),
       {arrive(0), await(1, 0)},
       with_both},
      {"both warps write one word of global memory",
       two("st.global.u32 [%rd1], 1;\n<0>", "<1>st.global.u32 [%rd1], 2;\n"),
       {arrive(0), await(1, 0)},
       with_both},
      {"there and back by two mbarriers",
       two("st.shared.u32 [%r2], 1;\n" + arrive(0) + "<0>st.shared.u32 [%r2], 2;\n" + arrive(0) + await(1, 1),
           await(2, 0) + "ld.shared.u32 %r10, [%r2];\n" + arrive(1) + "<1>ld.shared.u32 %r10, [%r2];\n" +
               await(4, 0, 1)),
       {await(3, 1), await(5, 0, 1)},
       with_both},
      {"all threads but one write and arrive, and that one reads",
       "shl.b32 %r10, %r0, 2;\nadd.u32 %r10, %r10, %r2;\n@%p0 bra A;\nst.shared.u32 [%r10], %r0;\n" +
           arrive(0) +
           "bra E;\nA: <0>ld.shared.v2.u32 {%r11, %r12}, [%r2+8];\nld.shared.u32 %r11, [%r2+252];\nE:\n",
       {await(1, 0)},
       with<0>,
       1,
       63},
      {"a wait that comes when its phase is no longer the last",
       two(arrive(0) + "<0>" + arrive(0) + await(2, 1), await(3, 0) + arrive(1)),
       {await(1, 1)},
       with<0>},
  };
  return table;
}

// Returns code in which a CTA arrives at an mbarrier of another CTA in its cluster, whose rank is in %r10.
std::string arrive_far(int mbarrier) {
  return fmt::format(
      "mapa.shared::cluster.u32 %r11, %r3, %r10;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11+{}];\n",
      8 * mbarrier);
}
std::string await_far(int mbarrier) {
  return fmt::format(
      "V{0}: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p7, [%r3+{1}], 0;\n@!%p7 bra V{0};\n",
      mbarrier, 8 * mbarrier);
}

// In each round, all CTAs synchronize at an mbarrier of that round, and pass a word of global memory to the
// next CTA.
SubsetProgram rounds(uint32_t ctas) {
  std::string body = "mul.wide.u32 %rd4, %r1, 4;\nadd.u64 %rd4, %rd4, %rd0;\nst.global.u32 [%rd4], %r4;\n" +
                     fmt::format("add.u32 %r12, %r1, 1;\nrem.u32 %r12, %r12, {};\n", ctas) +
                     "mul.wide.u32 %rd5, %r12, 4;\nadd.u64 %rd5, %rd5, %rd0;\n";
  std::vector<std::string> waits;
  for (uint32_t round = 0; round < ctas; ++round) {
    for (uint32_t to = 0; to < ctas; ++to)
      body += fmt::format("mov.u32 %r10, {};\n", to) + arrive_far(static_cast<int>(round));
    body += fmt::format(
        "<{0}>ld.global.u32 %r13, [%rd5+{1}];\nadd.u32 %r13, %r13, 1;\nst.global.u32 [%rd4+{2}], %r13;\n",
        round, 128 * round, 128 * (round + 1));
    waits.push_back(await_far(static_cast<int>(round)));
  }
  return {fmt::format("{} rounds of as many CTAs", ctas),
          one(body),
          waits,
          [ctas](uint32_t subset) { return subset + 1 == 1u << ctas; },
          ctas,
          ctas};
}

// A cluster has two CTAs along each axis. Each CTA signals those that differ from it along exactly one of the
// collective axes. It then reads the data of all CTAs that differ from it along any of these axes.
SubsetProgram mesh(uint32_t axes, uint32_t collective) {
  std::string body =
      "mul.wide.u32 %rd4, %r1, 4;\nadd.u64 %rd4, %rd4, %rd0;\nst.global.u32 [%rd4], %r4;\n"
      "mov.u32 %r10, %r1;\n" +
      arrive_far(0);
  for (uint32_t axis = 0; axis < axes; ++axis)
    if (collective >> axis & 1) body += fmt::format("xor.b32 %r10, %r1, {};\n", 1 << axis) + arrive_far(0);
  body += "<0>";
  for (uint32_t other = 0; other < 1u << axes; ++other)
    if ((other & ~collective) == 0)
      body += fmt::format(
          "xor.b32 %r10, %r1, {};\nmul.wide.u32 %rd5, %r10, 4;\nadd.u64 %rd5, %rd5, %rd0;\n"
          "ld.global.u32 %r13, [%rd5];\n",
          other);
  const auto told = static_cast<uint32_t>(std::popcount(collective));
  return {
      fmt::format("a cluster of {} axes, collective {}", axes, collective),        one(body),  {await_far(0)},
      [told](uint32_t subset) { return told == 0 || (told == 1 && subset == 1); }, 1u << axes, told + 1};
}

// One warp repeatedly fills slots, and another warp empties them.
SubsetProgram ring(uint32_t slots, uint32_t words, bool is_emptied, bool is_filled) {
  std::string fill, empty;
  int number = 0;
  for (uint32_t i = 0; i < words; ++i) {
    const auto slot = static_cast<int>(i % slots), pass = static_cast<int>(i / slots), parity = pass % 2;
    const std::string at = fmt::format("[%r2+{}]", 4 * slot);
    if (pass > 0 && is_emptied) fill += await(++number, 4 + slot, 1 - parity);
    fill += "st.shared.u32 " + at + ", %r4;\n" + arrive(slot);
    if (is_filled) empty += await(++number, slot, parity);
    empty += "ld.shared.u32 %r10, " + at + ";\n" + arrive(4 + slot);
  }
  const bool is_right = is_filled && (is_emptied || words <= slots);
  return {fmt::format("{} words by {} slots", words, slots), two(fill, empty), {}, is_right ? always : never};
}

void run(const SubsetProgram& program, const std::string& body, const EmulatorOptions& options) {
  Bench bench(kernel(body, program.ctas, program.arrivals), 64, options);
  const Address p = bench.upload(std::vector<uint32_t>(4096));
  bench.run_for(std::chrono::seconds(5), {program.ctas, 1, 1}, 0, p);
}

TEST_CASE("copies are ordered exactly by the fences and waits between them and threads") {
  Subsets subsets(run);
  for (const SubsetProgram& program : copies()) subsets.check(program);
  for (const SubsetProgram& program : waits_of_stores()) subsets.check(program);
  subsets.tell();
}

TEST_CASE("threads and CTAs are ordered exactly by the mbarriers at which they meet") {
  Subsets subsets(run);
  for (const SubsetProgram& program : mbarriers()) subsets.check(program);
  for (uint32_t slots = 1; slots <= 4; slots *= 2)
    for (const uint32_t words : {1, 3, 8})
      for (int waits = 0; waits < 4; ++waits) subsets.check(ring(slots, words, waits & 1, waits & 2));
  for (uint32_t ctas = 2; ctas <= 4; ++ctas) subsets.check(rounds(ctas));
  for (uint32_t axes = 0; axes <= 3; ++axes)
    for (uint32_t collective = 0; collective < 1u << axes; ++collective)
      subsets.check(mesh(axes, collective));
  subsets.tell();
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_subsets_test
