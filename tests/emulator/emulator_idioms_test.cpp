// Tests idioms for passing data between warps and CTAs, such as rings, locks, trees and signal pads. A
// correct idiom must not be reported, and an idiom with a wrong piece must be reported.
#include "plants_kit.h"

namespace ptxbuilder::runtime::emulator_idioms_test {
namespace {

// Returns a kernel of CTAs of 128 threads around `body`. Registers: %r0 is tid.x, %r1 ctaid.x, %r2 the
// address of 8 KB of shared memory, %r3 that of mbarriers, %r4 that of the thread's own word in shared
// memory, %r5 the lane, %r6 the warp, %p0 "thread 0". %rd0 is the address of 16 KB of zeros in global memory,
// %rd1 that of a flag there, %rd2 that of a counter, %rd3 that of the thread's own word (each CTA has 512
// bytes), %rd4 that of the next CTA's word (there are two CTAs), %rd5 is %rd0 + 4 ctaid, and %rd6 is %rd1 + 4
// ctaid.
std::string kernel(const std::string& body, int cluster) {
  return fmt::format(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {} {{
.shared .align 1024 .b8 data[8192]; .shared .align 8 .b8 bar[64];
.reg .b32 %r<24>; .reg .b64 %rd<12>; .reg .pred %p<8>; .reg .f32 acc<8>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, data; mov.u32 %r3, bar;
shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r2; and.b32 %r5, %r0, 31; shr.u32 %r6, %r0, 5;
setp.eq.u32 %p0, %r0, 0; ld.param.u64 %rd0, [p]; add.u64 %rd1, %rd0, 8192; add.u64 %rd2, %rd0, 8448;
mad.lo.u32 %r7, %r1, 128, %r0; mul.wide.u32 %rd3, %r7, 4; add.u64 %rd3, %rd3, %rd0;
xor.b32 %r7, %r7, 128; mul.wide.u32 %rd4, %r7, 4; add.u64 %rd4, %rd4, %rd0;
mul.wide.u32 %rd5, %r1, 4; add.u64 %rd6, %rd5, %rd1; add.u64 %rd5, %rd5, %rd0;
{}
ret;
}}
)",
                     cluster > 1 ? fmt::format(".reqnctapercluster {}, 1, 1", cluster) : "", body);
}

struct Row {
  const char* what;
  std::string body;
  std::vector<Leave> leave;
  uint32_t ctas = 1;
  int cluster = 1;
};

std::string await(const std::string& label, const std::string& mbarrier, const std::string& parity) {
  return label + ": mbarrier.try_wait.parity.shared::cta.b64 %p7, [" + mbarrier + "], " + parity +
         ";\n@!%p7 bra " + label + ";\n";
}
std::string arrive(const std::string& mbarrier) {
  return "mbarrier.arrive.shared::cta.b64 _, [" + mbarrier + "];\n";
}
// Thread 0 initializes two mbarriers with one arrival each.
const std::string two_mbarriers =
    "@%p0 mbarrier.init.shared::cta.b64 [%r3], 1;\n@%p0 mbarrier.init.shared::cta.b64 [%r3+8], 1;\n"
    "@%p0 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n";
// Returns code in which thread 0 copies global memory to shared memory.
std::string bulk_load(const std::string& to, const std::string& from, int bytes,
                      const std::string& mbarrier) {
  return fmt::format(
      "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{2}], {3};\n@%p0 "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}], {3}, [{2}];\n",
      to, from, mbarrier, bytes);
}
std::string bulk_store(const std::string& to, const std::string& from) {
  return "@%p0 cp.async.bulk.global.shared::cta.bulk_group [" + to + "], [" + from +
         "], 256;\n@%p0 cp.async.bulk.commit_group;\n";
}
const std::string fill_and_fence = "st.shared.u32 [%r4], %r0;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n";

// Returns code that repeatedly loads a word into %r11 while a comparison with the word is true.
std::string poll(const std::string& label, const std::string& load, const std::string& from,
                 const std::string& while_it_is) {
  return fmt::format("{0}: {1} %r11, [{2}];\nsetp.{3};\n@%p5 bra {0};\n", label, load, from,
                     fmt::format(fmt::runtime(while_it_is), "%p5, %r11"));
}
const std::string acquire = "ld.acquire.gpu.global.u32";
const std::string count_up =
    "ld.global.u32 %r12, [%rd0];\nadd.u32 %r12, %r12, 1;\nst.global.u32 [%rd0], %r12;\n";

// Returns code in which two CTAs synchronize with words of a signal pad, and then reset the words.
std::string meet_by_pads(int which) {
  return fmt::format(
      "bar.sync 0;\n@!%p0 bra D{0};\nxor.b32 %r10, %r1, 1;\nmul.wide.u32 %rd8, %r10, 4;\n"
      "add.u64 %rd8, %rd8, %rd1;\nP{0}: atom.release.sys.global.cas.b32 %r11, [%rd8], 0, 1;\n"
      "setp.ne.u32 %p5, %r11, 0;\n@%p5 bra P{0};\nQ{0}: atom.acquire.sys.global.cas.b32 %r11, [%rd6], 1, 0;\n"
      "setp.ne.u32 %p5, %r11, 1;\n@%p5 bra Q{0};\nD{0}: bar.sync 1;\n",
      which);
}

// Computes the stage of pass %r10: its parity %r12, the address %r14 of its mbarrier (the mbarrier of its
// release is 16 bytes later), and the address %r15 of its data.
const std::string of_stage =
    "and.b32 %r11, %r10, 1;\nshr.u32 %r12, %r10, 1;\nand.b32 %r12, %r12, 1;\nshl.b32 %r14, %r11, 3;\n"
    "add.u32 %r14, %r14, %r3;\nshl.b32 %r15, %r11, 7;\nadd.u32 %r15, %r15, %r2;\n";
const std::string wait_empty = await("WE", "%r14+16", "%r13"), wait_full = await("WF", "%r14", "%r12");
const std::string wait_first = await("V", "%r3", "0"), wait_second = await("W", "%r3+8", "0");

const std::string zeros =
    "mov.u32 %r10, 0;\nmov.u32 %r11, 0;\nZ: st.shared.b32 [%r4], %r10;\nadd.u32 %r4, %r4, 512;\n"
    "add.u32 %r11, %r11, 1;\nsetp.lt.u32 %p2, %r11, 16;\n@%p2 bra Z;\nsub.u32 %r4, %r4, 8192;\n"
    "fence.proxy.async.shared::cta;\nbar.sync 0;\nshr.u32 %r11, %r2, 4;\ncvt.u64.u32 %rd8, %r11;\n"
    "or.b64 %rd8, %rd8, 0x0000000800400000;\nadd.u64 %rd9, %rd8, 256;\n";
std::string product(int accumulator, const std::string& operand) {
  return fmt::format(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{acc{}, acc{}, acc{}, acc{}}}, {}, {}, 0, 1, 1, "
      "0, 0;\nwgmma.commit_group.sync.aligned;\n",
      accumulator, accumulator + 1, accumulator + 2, accumulator + 3, operand, operand);
}

const Row in_shared_memory[] = {
    {"a ring of two stages: one warp fills it, two empty it",
     "@!%p0 bra I;\nmbarrier.init.shared::cta.b64 [%r3], 1;\nmbarrier.init.shared::cta.b64 [%r3+8], 1;\n"
     "mbarrier.init.shared::cta.b64 [%r3+16], 2;\nmbarrier.init.shared::cta.b64 [%r3+24], 2;\n"
     "fence.mbarrier_init.release.cluster;\nI: bar.sync 0;\nmov.u32 %r10, 0;\nsetp.gt.u32 %p2, %r6, 2;\n"
     "@%p2 bra E;\nsetp.ne.u32 %p3, %r6, 0;\n@%p3 bra C;\n@!%p0 bra E;\nP: " +
         of_stage + "xor.b32 %r13, %r12, 1;\n" + wait_empty + bulk_load("%r15", "%rd0", 128, "%r14") +
         "add.u32 %r10, %r10, 1;\nsetp.lt.u32 %p4, %r10, 6;\n@%p4 bra P;\nbra E;\nC: " + of_stage +
         wait_full +
         "shl.b32 %r16, %r5, 2;\nadd.u32 %r15, %r15, %r16;\nld.shared.u32 %r17, [%r15];\nbar.warp.sync -1;\n"
         "setp.eq.u32 %p5, %r5, 0;\n@%p5 " +
         arrive("%r14+16") + "add.u32 %r10, %r10, 1;\nsetp.lt.u32 %p4, %r10, 6;\n@%p4 bra C;\nE:",
     {{wait_empty, "", Fault::arrival_count},
      {"xor.b32 %r13, %r12, 1;", "mov.u32 %r13, %r12;", Fault::deadlock},
      {wait_full, "", some},
      {await("WF", "%r14", "%r12"), await("WF", "%r14", "0"), some},
      {"bar.warp.sync -1;", ""},
      {"[%r3+16], 2;", "[%r3+16], 1;", some},
      {"[%r3+24], 2;", "[%r3+24], 3;", Fault::deadlock}}},
    {"two copies, a barrier each",
     two_mbarriers + bulk_load("%r2", "%rd0", 256, "%r3") + bulk_load("%r2+256", "%rd0", 256, "%r3+8") +
         wait_first + wait_second + "ld.shared.u32 %r10, [%r4];",
     {{wait_first, ""},
      {wait_second, ""},
      {wait_second, await("W", "%r3", "0")},
      {"[%r2+256], [%rd0], 256, [%r3+8]", "[%r2+256], [%rd0], 256, [%r3]", some}}},
    {"a copy lands next to what is read",
     two_mbarriers + bulk_load("%r2", "%rd0", 256, "%r3") + wait_first +
         bulk_load("%r2+256", "%rd0", 256, "%r3+8") +
         "and.b32 %r10, %r0, 63;\nshl.b32 %r10, %r10, 2;\nadd.u32 %r10, %r10, %r2;\nld.shared.u32 %r11, "
         "[%r10];\n" +
         wait_second,
     {{"[%r2+256], [%rd0]", "[%r2+240], [%rd0]"}, {"[%r2+256], [%rd0], 256", "[%r2], [%rd0], 256"}}},
    {"two barriers awaited in the same order",
     two_mbarriers + "@%p0 bra A;\nsetp.ne.u32 %p2, %r0, 32;\n@%p2 bra E;\n" + wait_first + arrive("%r3+8") +
         "bra E;\nA: " + arrive("%r3") + wait_second + "E:",
     {{arrive("%r3") + wait_second, wait_second + arrive("%r3"), Fault::deadlock},
      {wait_first + arrive("%r3+8"), arrive("%r3+8") + wait_first, none},
      {arrive("%r3"), "", Fault::deadlock}}},
    {"two products in flight, the operand of the first is replaced",
     zeros + "wgmma.fence.sync.aligned;\n" + product(0, "%rd8") + product(4, "%rd9") +
         "wgmma.wait_group.sync.aligned 1;\nbar.sync 1;\nst.shared.u32 [%r4], %r0;\n"
         "wgmma.wait_group.sync.aligned 0;\nadd.f32 acc0, acc0, acc4;",
     {{"wait_group.sync.aligned 1", "wait_group.sync.aligned 2"},
      {"st.shared.u32 [%r4]", "st.shared.u32 [%r4+4096]"},
      {product(4, "%rd9"), product(4, "%rd8")},
      {"wait_group.sync.aligned 0", "wait_group.sync.aligned 1", Fault::matrix_registers}}},
    {"two bulk stores in flight, the source of the first is replaced",
     fill_and_fence + bulk_store("%rd3", "%r2") + bulk_store("%rd3+256", "%r2+256") +
         "cp.async.bulk.wait_group.read 1;\nbar.sync 1;\nsetp.lt.u32 %p2, %r0, 64;\n@%p2 st.shared.u32 "
         "[%r4], "
         "%r5;\n@%p0 cp.async.bulk.wait_group 0;",
     {{"wait_group.read 1", "wait_group.read 2"},
      {"@%p0 cp.async.bulk.commit_group;\n", ""},
      {"setp.lt.u32 %p2", "setp.ge.u32 %p2"},
      {"bar.sync 1;", ""}}},
    {"a bulk store is copied back",
     two_mbarriers + fill_and_fence + bulk_store("%rd3", "%r2") + "@%p0 cp.async.bulk.wait_group 0;\n" +
         bulk_load("%r2+512", "%rd3", 256, "%r3") + wait_first + "ld.shared.u32 %r10, [%r2+512];",
     {{"wait_group 0", "wait_group.read 0"},
      {"@%p0 cp.async.bulk.wait_group 0;", "", some},
      {"wait_group 0", "wait_group 1", some},
      {wait_first, ""}}},
    {"two groups of cp.async",
     "xor.b32 %r10, %r4, 128;\ncp.async.ca.shared.global [%r4], [%rd3], 4;\ncp.async.commit_group;\n"
     "cp.async.ca.shared.global [%r4+512], [%rd3], 4;\ncp.async.commit_group;\ncp.async.wait_group 1;\n"
     "bar.sync 0;\nld.shared.u32 %r11, [%r10];\ncp.async.wait_group 0;\nbar.sync 0;\nld.shared.u32 %r11, "
     "[%r10+512];",
     {{"wait_group 1", "wait_group 2"},
      {"wait_group 0", "wait_group 1"},
      {"cp.async.commit_group;\n", ""},
      {"cp.async.wait_group 1;", "setp.eq.u32 %p2, %r6, 0;\n@%p2 cp.async.wait_group 1;"},
      {"wait_group 0;\nbar.sync 0;", "wait_group 0;"}}},
    {"two halves of a CTA take turns",
     "and.b32 %r10, %r4, -257;\nsetp.ge.u32 %p2, %r0, 64;\n@%p2 bra B;\nst.shared.u32 [%r10], %r0;\n"
     "bar.arrive 1, 128;\nbar.sync 2, 128;\nld.shared.u32 %r11, [%r10];\nbra E;\nB: bar.sync 1, "
     "128;\nld.shared.u32 "
     "%r11, [%r10];\nst.shared.u32 [%r10], %r0;\nbar.arrive 2, 128;\nE:",
     {{"bar.sync 2, 128;\nld.shared.u32 %r11, [%r10];", "ld.shared.u32 %r11, [%r10];\nbar.sync 2, 128;"},
      {"st.shared.u32 [%r10], %r0;\nbar.arrive 1, 128;", "bar.arrive 1, 128;\nst.shared.u32 [%r10], %r0;"},
      {"st.shared.u32 [%r10], %r0;\nbar.arrive 2, 128;", "bar.arrive 2, 128;\nst.shared.u32 [%r10], %r0;"},
      {"bar.arrive 1, 128;\nbar.sync 2, 128;", "bar.sync 2, 128;\nbar.arrive 1, 128;", Fault::deadlock}}},
    {"CTAs of a cluster store into each other's memory",
     two_mbarriers +
         "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;\nbarrier.cluster.arrive.aligned;\n"
         "barrier.cluster.wait.aligned;\nxor.b32 %r10, %r1, 1;\nmapa.shared::cluster.u32 %r11, %r4, %r10;\n"
         "mapa.shared::cluster.u32 %r12, %r3, %r10;\n"
         "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r11], %r0, [%r12];\n" +
         wait_first + "xor.b32 %r13, %r4, 128;\nld.shared.u32 %r14, [%r13];",
     {{wait_first, ""},
      {"_, [%r3], 512", "_, [%r3], 516", Fault::tx_count},
      {"_, [%r3], 512", "_, [%r3], 256", some},
      {"mapa.shared::cluster.u32 %r12, %r3, %r10;", "mapa.shared::cluster.u32 %r12, %r3, %r1;", some}},
     2,
     2},
};

const std::string wait_left = poll("W", acquire, "%rd6+4", "eq.u32 {}, 0");
const std::string wait_far = poll("V", acquire, "%rd6+8", "eq.u32 {}, 0");
const std::string wait_turn = poll("W", acquire, "%rd1", "ne.u32 {}, %r10");
const std::string wait_ready = poll("W", acquire, "%rd1", "ne.u32 {}, 2");

const Row in_global_memory[] = {
    {"a lock by tickets",
     "@!%p0 bra E;\natom.relaxed.gpu.global.add.u32 %r10, [%rd2], 1;\n" + wait_turn + count_up +
         "add.u32 %r10, %r10, 1;\nst.release.gpu.global.u32 [%rd1], %r10;\nE:",
     {{"ld.acquire", "ld.relaxed"},
      {"st.release", "st.relaxed"},
      {"st.release.gpu", "st.release.cta"},
      {"ld.acquire.gpu", "ld.acquire.cluster"},
      {"@%p5 bra W;", ""},
      {"atom.relaxed.gpu", "atom.relaxed.cta"}},
     3},
    {"a lock that is looked at ahead of its swap",
     "@!%p0 bra E;\n" + poll("W", "ld.relaxed.gpu.global.u32", "%rd1", "ne.u32 {}, 0") +
         "atom.acquire.gpu.global.cas.b32 %r11, [%rd1], 0, 1;\nsetp.ne.u32 %p5, %r11, 0;\n@%p5 bra W;\n" +
         count_up + "atom.release.gpu.global.exch.b32 %r11, [%rd1], 0;\nE:",
     {{"atom.acquire", "atom.relaxed"},
      {"atom.release", "atom.relaxed"},
      {"atom.acquire.gpu", "atom.acquire.cta"},
      {"ld.relaxed.gpu.global", "ld.global"},
      {"atom.acquire.gpu.global.cas.b32 %r11, [%rd1], 0, 1;\nsetp.ne.u32 %p5, %r11, 0;\n@%p5 bra W;",
       "fence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%rd1], 1;"}},
     3},
    {"a lock of older code",
     "@!%p0 bra E;\nW: atom.global.exch.b32 %r11, [%rd1], 1;\nsetp.ne.u32 %p5, %r11, 0;\n@%p5 bra W;\n"
     "membar.gl;\n" +
         count_up + "membar.gl;\natom.global.exch.b32 %r11, [%rd1], 0;\nE:",
     {{"st.global.u32 [%rd0], %r12;\nmembar.gl;", "st.global.u32 [%rd0], %r12;"},
      {"st.global.u32 [%rd0], %r12;\nmembar.gl;", "st.global.u32 [%rd0], %r12;\nmembar.cta;"},
      {"@%p5 bra W;", ""}},
     3},
    {"a tree of sums over four CTAs",
     "@!%p0 bra E;\nadd.u32 %r10, %r1, 1;\nst.global.u32 [%rd5], %r10;\nand.b32 %r10, %r1, 1;\n"
     "setp.ne.u32 %p2, %r10, 0;\n@%p2 bra S;\n" +
         wait_left +
         "ld.global.u32 %r12, [%rd5];\nld.global.u32 %r13, [%rd5+4];\nadd.u32 %r12, %r12, %r13;\n"
         "st.global.u32 [%rd5], %r12;\nsetp.ne.u32 %p2, %r1, 0;\n@%p2 bra S;\n" +
         wait_far +
         "ld.global.u32 %r13, [%rd5+8];\nadd.u32 %r12, %r12, %r13;\nst.global.u32 [%rd5], %r12;\nbra E;\n"
         "S: st.release.gpu.global.u32 [%rd6], 1;\nE:",
     {{"S: st.release", "S: st.relaxed"},
      {"W: ld.acquire", "W: ld.relaxed"},
      {"V: ld.acquire", "V: ld.relaxed"},
      {"V: ld.acquire.gpu", "V: ld.acquire.cta"},
      {"@%p5 bra V;", ""},
      {wait_far, poll("V", acquire, "%rd6+4", "eq.u32 {}, 0")},
      {"ld.global.u32 %r13, [%rd5+8]", "ld.global.u32 %r13, [%rd5+12]", none}},
     4},
    {"two CTAs exchange rows, and again, by signal pads",
     "st.global.u32 [%rd3], %r0;\n" + meet_by_pads(1) + "ld.global.u32 %r12, [%rd4];\n" + meet_by_pads(2) +
         "add.u32 %r12, %r0, 7;\nst.global.u32 [%rd3], %r12;",
     {{"atom.release.sys", "atom.relaxed.sys"},
      {"atom.acquire.sys", "atom.relaxed.sys"},
      {"atom.release.sys", "atom.release.cta"},
      {"bar.sync 0;\n", ""},
      {"D1: bar.sync 1;", "D1:"},
      {"@%p5 bra Q1;", ""},
      {meet_by_pads(2), ""},
      {meet_by_pads(2), "bar.sync 0;\n"}},
     2},
    {"who comes first makes it, the others wait",
     "@!%p0 bra E;\natom.relaxed.gpu.global.cas.b32 %r11, [%rd1], 0, 1;\nsetp.ne.u32 %p5, %r11, 0;\n@%p5 bra "
     "W;\nst.global.u32 [%rd0], %r7;\nst.release.gpu.global.u32 [%rd1], 2;\n" +
         wait_ready + "ld.global.u32 %r12, [%rd0];\nE:",
     {{"st.release", "st.relaxed"},
      {"ld.acquire", "ld.relaxed"},
      {"ne.u32 %p5, %r11, 2", "eq.u32 %p5, %r11, 0"},
      {"setp.ne.u32 %p5, %r11, 0;", "setp.eq.u32 %p5, %r1, 9;"}},
     3},
    {"a value and its state in one word, each CTA after the one ahead",
     "@!%p0 bra E;\nmov.u32 %r12, 0;\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra S;\nadd.u64 %rd9, %rd6, %rd5;\n"
     "sub.u64 %rd9, %rd9, %rd0;\nW: ld.relaxed.gpu.global.b64 %rd8, [%rd9+-8];\n"
     "mov.b64 {%r12, %r13}, %rd8;\nsetp.eq.u32 %p5, %r13, 0;\n@%p5 bra W;\nS: add.u64 %rd9, %rd6, %rd5;\n"
     "sub.u64 %rd9, %rd9, %rd0;\nadd.u32 %r12, %r12, 5;\nmov.u32 %r13, 1;\nmov.b64 %rd8, {%r12, %r13};\n"
     "st.relaxed.gpu.global.b64 [%rd9], %rd8;\nE:",
     {{"st.relaxed.gpu.global.b64 [%rd9], %rd8;", "st.global.b64 [%rd9], %rd8;"},
      {"st.relaxed.gpu.global.b64 [%rd9], %rd8;", "st.relaxed.cta.global.b64 [%rd9], %rd8;"},
      {"ld.relaxed.gpu.global.b64", "ld.global.b64"},
      {"st.relaxed.gpu.global.b64 [%rd9], %rd8;",
       "st.global.u32 [%rd9], %r12;\nst.release.gpu.global.u32 [%rd9+4], %r13;"}},
     3},
    {"the states of readers and a writer",
     "@!%p0 bra E;\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra A;\nld.global.u32 %r12, [%rd0];\n"
     "red.release.gpu.global.add.u32 [%rd2], 1;\nbra E;\nA: " +
         poll("W", acquire, "%rd2", "ne.u32 {}, 2") + "st.global.u32 [%rd0], 7;\nE:",
     {{"red.release", "red.relaxed"}, {"ne.u32 %p5, %r11, 2", "eq.u32 %p5, %r11, 0"}, {"@%p5 bra W;", ""}},
     3},
};

}  // namespace

TEST_CASE("idioms of handing data over are silent as they are right, and named with a piece put wrong") {
  Plants plants(kernel, 128, std::chrono::seconds(5));
  for (const Row& row : in_shared_memory) plants.check(row, 12, 12);
  for (const Row& row : in_global_memory) plants.check(row, 12, 12);
  plants.tell();
}

// Returns the report about a launch that does not end in time.
std::string late(const std::string& body, uint32_t ctas, uint64_t seed) {
  std::string text = kernel(body, 1);
  text.insert(text.find(".visible"), ".visible .global .align 4 .b8 flags[64];\n");
  EmulatorOptions options;
  options.seed = seed;
  Bench bench(text, 128, options);
  const Address p = bench.upload(std::vector<uint32_t>(4096));
  try {
    bench.run_for(std::chrono::milliseconds(20), {ctas, 1, 1}, 0, p);
  } catch (const TimeoutError& e) {
    return e.what();
  }
  return "it was done";
}

TEST_CASE("a launch that is out of time says who polls what, and of a slow one that nobody does") {
  const auto says = [](const std::string& report, const std::string& what) {
    CHECK_MESSAGE(report.find(what) != std::string::npos, report);
  };
  const std::string not_first = "@!%p0 bra E;\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra E;\n";
  const std::string of_flag =
      "polls byte 8192 of the allocation 0x700000000 of 16384 B, where it reads 0 each time: line ";
  for (const uint64_t seed : {1, 2, 4}) {
    for (const std::string load :
         {"ld.acquire.gpu.global.u32 %r11, [%rd1]", "ld.volatile.global.u32 %r11, [%rd1]",
          "atom.global.cas.b32 %r11, [%rd1], 1, 0"}) {
      const std::string report =
          late(not_first + "W: " + load + ";\nsetp.eq.u32 %p5, %r11, 0;\n@%p5 bra W;\nE:", 3, seed);
      says(report, "CTA (1, 0, 0) warp 0 lane 0 (and 1 more) " + of_flag);
      says(report, ": " + load);
    }
    // Each lane polls its own word in a named variable.
    const std::string lanes =
        "mov.u64 %rd8, flags;\nand.b32 %r10, %r0, 3;\nmul.wide.u32 %rd9, %r10, 4;\n"
        "add.u64 %rd8, %rd8, %rd9;\n";
    says(late(lanes + poll("W", acquire, "%rd8+8", "eq.u32 {}, 0"), 1, seed),
         "CTA (0, 0, 0) warp 0 lane 0 (and 3 more) polls flags+8, where it reads 0 each time");
    // One CTA counts for a long time. Only after that would it set the flag that another CTA is waiting for.
    const std::string count =
        "A: mov.u32 %r10, 0;\nC: ld.volatile.global.u32 %r12, [%rd0];\nld.global.u32 %r13, [%rd0];\n"
        "add.u32 %r10, %r10, 1;\nsetp.lt.u32 %p2, %r10, 0x7fffffff;\n@%p2 bra C;\n"
        "st.release.gpu.global.u32 [%rd1], 1;\nE:";
    const std::string waiter = late("@!%p0 bra E;\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra A;\n" +
                                        poll("W", acquire, "%rd1", "eq.u32 {}, 0") + "bra E;\n" + count,
                                    2, seed);
    says(waiter, "CTA (1, 0, 0) warp 0 lane 0 " + of_flag);
    CHECK_MESSAGE(waiter.find("CTA (0, 0, 0) warp 0 lane 0 polls") == std::string::npos, waiter);
    const std::string slow = late("@!%p0 bra E;\n" + count, 1, seed);
    says(slow, "time limit");
    CHECK_MESSAGE(slow.find("polls") == std::string::npos, slow);
  }
}

TEST_CASE("CTAs that wait for one at work take few instructions") {
  const std::string text = kernel(
      "setp.ne.u32 %p2, %r1, 0;\n@%p2 bra B;\nmov.u32 %r10, 0;\nL: add.u32 %r10, %r10, 1;\n"
      "setp.lt.u32 %p2, %r10, 2000;\n@%p2 bra L;\nB: bar.sync 0;\n@!%p0 bra D;\n"
      "red.release.gpu.global.add.u32 [%rd2], 1;\n" +
          poll("W", acquire, "%rd2", "ne.u32 {}, 16") + "D: bar.sync 1;",
      1);
  for (const uint64_t seed : {0, 1, 2, 3}) {
    EmulatorOptions options;
    options.seed = seed;
    Bench bench(text, 128, options);
    const Address p = bench.upload(std::vector<uint32_t>(4096));
    bench.run({16, 1, 1}, 0, p);
    CHECK(bench.device().statistics().warp_instructions < 80'000);  // 24'000 of them are the loop's
  }
}

}  // namespace ptxbuilder::runtime::emulator_idioms_test
