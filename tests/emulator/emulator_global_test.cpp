// Tests reports of races in global memory. Each correct program must pass on every schedule, and each program
// with one piece omitted or replaced must be reported on some schedule. --write=DIR writes all of them as PTX
// for plants_gpu.py.
#include <fstream>

#include "options.h"
#include "plants_kit.h"

namespace ptxbuilder::runtime::emulator_global_test {
namespace {

// Returns a kernel of CTAs of 64 threads around `body`. Predicates: %p0 is "thread 0", %p1 "CTA 0", %p2
// "thread 0 of CTA 0", %p3 "thread 0 of CTA 1", %p4 "CTA 1". Registers: %r0 is tid.x, %r1 ctaid.x, %r2 the
// address of 1 KB of shared memory, %r3 that of a barrier. %rd0 is the address of 16 KB of zeros in global
// memory, %rd1 that of a flag there, %rd2 that of a counter. %rd3 is %rd0 + 4 tid; %rd4 also adds 512 bytes
// for each CTA; %rd5 is the %rd4 of the next thread, which may be in another warp. At the end, %r6 is stored
// 12 KB after %rd4.
std::string kernel(const std::string& body, int cluster) {
  return fmt::format(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {} {{
.shared .align 1024 .b8 data[1024]; .shared .align 8 .b8 bar[16];
.reg .b32 %r<24>; .reg .b64 %rd<12>; .reg .pred %p<12>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, data; mov.u32 %r3, bar;
ld.param.u64 %rd0, [p]; add.u64 %rd1, %rd0, 8192; add.u64 %rd2, %rd0, 8448;
mul.wide.u32 %rd3, %r0, 4; add.u64 %rd3, %rd3, %rd0;
mul.wide.u32 %rd4, %r1, 512; add.u64 %rd4, %rd4, %rd3;
xor.b32 %r20, %r0, 32; mul.wide.u32 %rd5, %r20, 4; add.u64 %rd5, %rd5, %rd0; mul.wide.u32 %rd6, %r1, 512; add.u64 %rd5, %rd5, %rd6;
setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r1, 0; and.pred %p2, %p0, %p1;
setp.eq.u32 %p4, %r1, 1; and.pred %p3, %p0, %p4; mov.u32 %r4, 1; mov.u32 %r6, 0;
{}
st.global.u32 [%rd4+12288], %r6; ret;
}}
)",
                     cluster > 1 ? fmt::format(".reqnctapercluster {}, 1, 1", cluster) : "", body);
}

struct Row {
  const char* what;
  std::string body;
  std::vector<Leave> leave;
  uint32_t ctas = 2;
  int cluster = 1;
};

// Returns code in which thread 0 of CTA 1 polls the flag.
std::string poll(const std::string& load) {
  return "@!%p4 bra E;\n@!%p0 bra D;\nW: " + load +
         " %r5, [%rd1];\nsetp.eq.u32 %p5, %r5, 0;\n@%p5 bra W;\nD:\n";
}

const std::string own_store = "st.global.u32 [%rd4], %r0;\n";
const std::string bulk_setup =
    "@%p0 mbarrier.init.shared::cta.b64 [%r3], 1;\n@%p0 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n";
const std::string bulk_load =
    "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;\n"
    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd4], 256, [%r3];\n"
    "V: mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r3], 0;\n@!%p6 bra V;\n";
const std::string fill_shared =
    "shl.b32 %r6, %r0, 2;\nadd.u32 %r6, %r6, %r2;\nst.shared.u32 [%r6], %r0;\n"
    "fence.proxy.async.shared::cta;\nbar.sync 0;\n";
const std::string bulk_store =
    "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd4], [%r2], 256;\n@%p0 "
    "cp.async.bulk.commit_group;\n";

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"a message: release, acquire",
       "@%p2 st.global.u32 [%rd0], 7;\n@%p2 st.release.gpu.global.u32 [%rd1], 1;\n" +
           poll("ld.acquire.gpu.global.u32") + "@%p0 ld.global.u32 %r6, [%rd0];\nE:",
       {{"st.release.gpu.global.u32 [%rd1]", "st.relaxed.gpu.global.u32 [%rd1]"},
        {"ld.acquire.gpu.global.u32", "ld.relaxed.gpu.global.u32"},
        {"st.release.gpu.global.u32 [%rd1]", "st.release.cta.global.u32 [%rd1]"},
        {"ld.acquire.gpu.global.u32", "ld.acquire.cta.global.u32"},
        {"st.release.gpu.global.u32 [%rd1]", "st.release.sys.global.u32 [%rd1]", none},
        {"st.release.gpu.global.u32 [%rd1]", "st.global.u32 [%rd1]"},
        {"ld.acquire.gpu.global.u32", "ld.global.u32"},
        {"@%p5 bra W;", ""}}},
      {"a message: fences and relaxed accesses",
       "@%p2 st.global.u32 [%rd0], 7;\nfence.acq_rel.gpu;\n@%p2 st.relaxed.gpu.global.u32 [%rd1], 1;\n" +
           poll("ld.relaxed.gpu.global.u32") + "fence.acq_rel.gpu;\n@%p0 ld.global.u32 %r6, [%rd0];\nE:",
       {{"fence.acq_rel.gpu;\n@%p2", "@%p2"},
        {"fence.acq_rel.gpu;\n@%p2", "fence.acq_rel.cta;\n@%p2"},
        {"fence.acq_rel.gpu;\n@%p2", "fence.sc.gpu;\n@%p2", none},
        {"fence.acq_rel.gpu;\n@%p0", "@%p0"}}},
      {"a message: volatile accesses and membar",
       "@%p2 st.global.u32 [%rd0], 7;\nmembar.gl;\n@%p2 st.volatile.global.u32 [%rd1], 1;\n" +
           poll("ld.volatile.global.u32") + "@%p0 ld.global.u32 %r6, [%rd0];\nE:",
       {{"membar.gl;", ""}, {"membar.gl;", "membar.cta;"}, {"membar.gl;", "membar.sys;", none}}},
      {"all threads write, a barrier, one releases, one acquires, a barrier, all read",
       "@%p1 st.global.u32 [%rd3], %r0;\nbar.sync 0;\n@%p2 red.release.gpu.global.add.u32 [%rd1], 1;\n" +
           poll("ld.acquire.gpu.global.u32") + "bar.sync 1;\nld.global.u32 %r6, [%rd3];\nE:",
       {{"bar.sync 0;", ""}, {"bar.sync 1;", ""}, {"red.release", "red.relaxed"}}},
      {"all threads write and fence, a barrier, one adds",
       "@%p1 st.global.u32 [%rd3], %r0;\nmembar.gl;\nbar.sync 0;\n@%p2 red.global.add.u32 [%rd1], 1;\n" +
           poll("ld.volatile.global.u32") + "bar.sync 1;\nld.global.u32 %r6, [%rd3];\nE:",
       {{"membar.gl;", ""}, {"bar.sync 0;", ""}}},
      {"CTAs write each its own",
       own_store,
       {{"[%rd4], %r0", "[%rd3], %r1"}, {"[%rd4], %r0", "[%rd3], %r0", none}}},
      {"counters are atomic",
       "red.global.add.u32 [%rd2], 1;",
       {{"red.global.add.u32 [%rd2], 1;", "st.global.u32 [%rd2], %r1;"},
        {"red.global.add.u32 [%rd2], 1;", "red.relaxed.cta.global.add.u32 [%rd2], 1;"},
        {"red.global.add.u32 [%rd2], 1;",
         "red.relaxed.gpu.global.add.u32 [%rd2], 1;\nld.global.u32 %r6, [%rd2];"},
        {"red.global.add.u32 [%rd2], 1;",
         "red.relaxed.gpu.global.add.u32 [%rd2], 1;\nld.relaxed.gpu.global.u32 %r6, [%rd2];", none}}},
      {"the last CTA sums up",
       own_store +
           "bar.sync 0;\n@%p0 atom.acq_rel.gpu.global.add.u32 %r5, [%rd2], 1;\n@%p0 st.shared.u32 [%r2], "
           "%r5;\nbar.sync 0;\nld.shared.u32 %r5, [%r2];\nsetp.ne.u32 %p5, %r5, 2;\n@%p5 bra E;\n"
           "ld.global.u32 %r6, [%rd3];\nld.global.u32 %r7, [%rd3+512];\nld.global.u32 %r8, [%rd3+1024];\nE:",
       {{"atom.acq_rel", "atom.relaxed"},
        {"atom.acq_rel", "atom.acquire"},
        {"atom.acq_rel", "atom.release"},
        {"bar.sync 0;\n@%p0 atom", "@%p0 atom"},
        {"setp.ne.u32 %p5, %r5, 2;", "setp.ne.u32 %p5, %r5, 1;"},
        {"bar.sync 0;\n@%p0 atom.acq_rel.gpu.global", "membar.gl;\nbar.sync 0;\n@%p0 atom.global", none}},
       3},
      {"warps of a CTA, by a barrier",
       own_store + "bar.sync 0;\nld.global.u32 %r6, [%rd5];",
       {{"bar.sync 0;", ""}, {"bar.sync 0;", "membar.gl;"}, {"bar.sync 0;", "bar.warp.sync -1;"}}},
      {"read by one warp, then written by another",
       "ld.global.u32 %r6, [%rd5];\nbar.sync 0;\nst.global.u32 [%rd4], %r0;",
       {{"bar.sync 0;", ""}}},
      {"threads write, a bulk copy reads",
       bulk_setup + own_store + "fence.proxy.async;\nbar.sync 0;\n" + bulk_load,
       {{"fence.proxy.async;", "", Fault::proxy_fence},
        {"fence.proxy.async;", "fence.proxy.async.shared::cta;", Fault::proxy_fence},
        {"fence.proxy.async;", "fence.proxy.async.global;", none},
        {"fence.proxy.async;\nbar.sync 0;", "bar.sync 0;\nfence.proxy.async;", none},
        {"fence.proxy.async;\nbar.sync 0;", "fence.proxy.async;"}}},
      {"another CTA's bulk copy reads what threads have written",
       bulk_setup +
           "@%p1 st.global.u32 [%rd3+512], %r0;\nfence.proxy.async;\nbar.sync 0;\n@%p2 "
           "st.release.gpu.global.u32 [%rd1], 1;\n" +
           poll("ld.acquire.gpu.global.u32") + "fence.proxy.async.global;\n" + bulk_load + "E:",
       {{"fence.proxy.async;\n", "", none},
        {"fence.proxy.async.global;", "", none},
        {"st.release", "st.relaxed"}}},
      {"neither side has a fence",
       bulk_setup +
           "@%p1 st.global.u32 [%rd3+512], %r0;\nbar.sync 0;\n@%p2 st.release.gpu.global.u32 [%rd1], 1;\n" +
           poll("ld.acquire.gpu.global.u32") + "fence.proxy.async.global;\n" + bulk_load + "E:",
       {{"fence.proxy.async.global;", "", Fault::proxy_fence}}},
      {"a bulk store, whole wait, another CTA reads",
       fill_shared +
           "@%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 256;\n@%p2 "
           "cp.async.bulk.commit_group;\n@%p2 cp.async.bulk.wait_group 0;\n@%p2 "
           "st.release.gpu.global.u32 [%rd1], 1;\n" +
           poll("ld.acquire.gpu.global.u32") + "@%p0 ld.global.u32 %r6, [%rd0];\nE:",
       {{"cp.async.bulk.wait_group 0", "cp.async.bulk.wait_group.read 0"},
        {"cp.async.bulk.wait_group 0", "cp.async.bulk.wait_group 1", Fault::early_exit},
        {"st.release", "st.relaxed"}}},
      {"a bulk store, then the thread itself reads",
       fill_shared + bulk_store + "@%p0 cp.async.bulk.wait_group 0;\n@%p0 ld.global.u32 %r6, [%rd4];",
       {{"cp.async.bulk.wait_group 0", "cp.async.bulk.wait_group.read 0"}}},
      {"bulk reductions of two CTAs meet",
       fill_shared +
           "@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r2], 256;\n@%p0 "
           "cp.async.bulk.commit_group;\n@%p0 cp.async.bulk.wait_group 0;",
       {{"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r2], 256;\n@%p0 ",
         "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r2], 256;\n@%p0 ld.global.u32 "
         "%r9, "
         "[%rd0];\n@%p0 "}}},
      {"bulk stores of two CTAs, each its own",
       fill_shared +
           "add.u32 %r7, %r0, %r1;\nst.shared.u32 [%r6], %r7;\nfence.proxy.async.shared::cta;\nbar.sync "
           "1;\n" +
           bulk_store + "@%p0 cp.async.bulk.wait_group 0;",
       {{"[%rd4], [%r2], 256", "[%rd0], [%r2], 256"}}},
      {"cp.async reads what another warp has written",
       own_store +
           "bar.sync 0;\nshl.b32 %r6, %r0, 2;\nadd.u32 %r6, %r6, %r2;\ncp.async.ca.shared.global [%r6], "
           "[%rd5], 4;\ncp.async.wait_all;",
       {{"bar.sync 0;", ""}}},
      {"CTAs of a cluster, by its scope",
       "@%p2 st.global.u32 [%rd0], 7;\n@%p2 st.release.cluster.global.u32 [%rd1], 1;\n" +
           poll("ld.acquire.cluster.global.u32") + "@%p0 ld.global.u32 %r6, [%rd0];\nE:",
       {{"st.release.cluster", "st.release.cta"}, {"ld.acquire.cluster", "ld.acquire.cta"}},
       2,
       2},
      {"CTAs of a cluster, by its barrier",
       own_store + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
                   "xor.b32 %r7, %r1, 1;\nmul.wide.u32 %rd7, %r7, 512;\nadd.u64 %rd7, %rd7, "
                   "%rd3;\nld.global.u32 %r6, "
                   "[%rd7];",
       {{"barrier.cluster.arrive.aligned;", "barrier.cluster.arrive.relaxed.aligned;"},
        {"barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;", ""}},
       2,
       2},
      {"a lock",
       "@!%p0 bra E;\nW: atom.acquire.gpu.global.cas.b32 %r5, [%rd1], 0, 1;\nsetp.ne.u32 %p5, %r5, 0;\n@%p5 "
       "bra W;\n"
       "ld.global.u32 %r6, [%rd0];\nadd.u32 %r6, %r6, 1;\nst.global.u32 [%rd0], %r6;\n"
       "st.release.gpu.global.u32 [%rd1], 0;\nE:",
       {{"st.release.gpu", "st.relaxed.gpu"}, {"atom.acquire", "atom.relaxed"}, {"@%p5 bra W;", ""}},
       3},
      {"read, announced, then overwritten",
       "@%p1 ld.global.u32 %r6, [%rd3];\nbar.sync 0;\n@%p2 st.release.gpu.global.u32 [%rd1], 1;\n" +
           poll("ld.acquire.gpu.global.u32") + "bar.sync 1;\nst.global.u32 [%rd3], %r0;\nE:",
       {{"bar.sync 0;", ""}, {"bar.sync 1;", ""}, {"@%p5 bra W;", ""}}},
      {"a barrier of the grid",
       own_store +
           "bar.sync 0;\n@!%p0 bra B;\nred.release.gpu.global.add.u32 [%rd2], 1;\nW: "
           "ld.acquire.gpu.global.u32 %r5, [%rd2];\nsetp.lt.u32 %p5, %r5, 3;\n@%p5 bra W;\nB: bar.sync 0;\n"
           "ld.global.u32 %r6, [%rd3];\nld.global.u32 %r7, [%rd3+512];\nld.global.u32 %r8, [%rd3+1024];",
       {{"%p5, %r5, 3", "%p5, %r5, 2"},
        {"red.release", "red.relaxed"},
        {"@%p5 bra W;", ""},
        {"B: bar.sync 0;", "B:"}},
       3},
      {"what one CTA learns it passes on",
       "@!%p2 bra A;\nst.global.u32 [%rd0], 7;\nst.release.gpu.global.u32 [%rd1], 1;\nbra E;\n"
       "A: @!%p0 bra E;\nsetp.eq.u32 %p7, %r1, 2;\n@%p7 bra C;\n"
       "W: ld.acquire.gpu.global.u32 %r5, [%rd1];\nsetp.eq.u32 %p5, %r5, 0;\n@%p5 bra W;\n"
       "st.release.gpu.global.u32 [%rd2], 1;\nbra E;\n"
       "C: ld.acquire.gpu.global.u32 %r5, [%rd2];\nsetp.eq.u32 %p5, %r5, 0;\n@%p5 bra C;\n"
       "ld.global.u32 %r6, [%rd0];\nE:",
       {{"W: ld.acquire", "W: ld.relaxed"}, {"C: ld.acquire", "C: ld.relaxed"}},
       3},
  };
  return table;
}

// These programs have other forms of code: loops, guards instead of branches, several kinds of flags, and
// clusters.
const std::string meet_cluster = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";

const std::vector<Row>& more_rows() {
  static const std::vector<Row> table = {
      {"slots are announced one after the other by a count",
       "@!%p0 bra E;\nmov.u32 %r7, 0;\nmov.u64 %rd7, %rd0;\n@%p4 bra C;\n"
       "P: st.global.u32 [%rd7], 5;\nred.release.gpu.global.add.u32 [%rd1], 1;\nadd.u32 %r7, %r7, 1;\n"
       "add.u64 %rd7, %rd7, 64;\nsetp.lt.u32 %p5, %r7, 4;\n@%p5 bra P;\nbra E;\n"
       "C: ld.acquire.gpu.global.u32 %r5, [%rd1];\nsetp.le.u32 %p5, %r5, %r7;\n@%p5 bra C;\n"
       "ld.global.u32 %r6, [%rd7];\nadd.u32 %r7, %r7, 1;\nadd.u64 %rd7, %rd7, 64;\n"
       "setp.lt.u32 %p5, %r7, 4;\n@%p5 bra C;\nE:",
       {{"red.release", "red.relaxed"}, {"ld.acquire", "ld.relaxed"}, {"setp.le", "setp.lt"}}},
      {"a wait by guards",
       "mov.u32 %r5, 1;\n@%p2 st.global.u32 [%rd0], 7;\n@%p2 st.release.gpu.global.u32 [%rd1], 1;\n"
       "W: @%p3 ld.acquire.gpu.global.u32 %r5, [%rd1];\nsetp.eq.u32 %p5, %r5, 0;\n@%p5 bra W;\nbar.sync 0;\n"
       "@%p4 ld.global.u32 %r6, [%rd0];",
       {{"@%p5 bra W;", ""}, {"bar.sync 0;", ""}, {"W: @%p3", "W: @%p4", none}}},
      {"a bulk reduction, then a flag that is added to",
       fill_shared +
           "@%p2 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r2], 256;\n"
           "@%p2 cp.async.bulk.commit_group;\n@%p2 cp.async.bulk.wait_group 0;\n"
           "@%p2 red.release.gpu.global.add.u32 [%rd1], 1;\n" +
           poll("ld.acquire.gpu.global.u32") + "@%p0 ld.global.u32 %r6, [%rd0];\nE:",
       {{"wait_group 0", "wait_group.read 0"}, {"red.release", "red.relaxed"}}},
      {"the older of two bulk stores is waited for",
       fill_shared +
           "@%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 128;\n"
           "@%p2 cp.async.bulk.commit_group;\n"
           "@%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd0+128], [%r2+128], 128;\n"
           "@%p2 cp.async.bulk.commit_group;\n@%p2 cp.async.bulk.wait_group 1;\n"
           "@%p2 st.release.gpu.global.u32 [%rd1], 1;\n" +
           poll("ld.acquire.gpu.global.u32") +
           "@%p0 ld.global.u32 %r6, [%rd0+64];\nE: @%p2 cp.async.bulk.wait_group 0;",
       {{"[%rd0+64]", "[%rd0+192]"}, {"wait_group 1", "wait_group.read 1"}}},
      {"a flag by multimem",
       "@%p2 st.global.u32 [%rd0], 7;\n@%p2 multimem.red.release.gpu.global.add.u32 [%rd1], 1;\n" +
           poll("ld.acquire.gpu.global.u32") + "@%p0 ld.global.u32 %r6, [%rd0];\nE:",
       {{"multimem.red.release", "multimem.red.relaxed"},
        {"multimem.red.release.gpu", "multimem.red.release.cta"}}},
      {"st.async to another CTA",
       "@%p0 mbarrier.init.shared::cta.b64 [%r3], 1;\n@%p0 fence.mbarrier_init.release.cluster;\n" +
           meet_cluster +
           "mapa.shared::cluster.u32 %r7, %r2, 1;\nmapa.shared::cluster.u32 %r8, %r3, 1;\n"
           "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 4;\n"
           "@%p2 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r4, [%r8];\n@!%p4 bra E;\n"
           "V: mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r3], 0;\n@!%p6 bra V;\n"
           "ld.shared.u32 %r9, [%r2];\nst.global.u32 [%rd4], %r9;\nE: " +
           meet_cluster,
       {{"@!%p6 bra V;", "", some}, {meet_cluster, "", some}},
       2,
       2},
      {"a store to another CTA's shared memory, announced by a flag in global memory",
       meet_cluster +
           "mapa.shared::cluster.u32 %r7, %r2, 1;\n@%p2 st.shared::cluster.u32 [%r7], %r4;\n"
           "@%p2 st.release.cluster.global.u32 [%rd1], 1;\n@!%p3 bra E;\n"
           "W: ld.acquire.cluster.global.u32 %r5, [%rd1];\nsetp.eq.u32 %p5, %r5, 0;\n@%p5 bra W;\n"
           "ld.shared.u32 %r9, [%r2];\nst.global.u32 [%rd4], %r9;\nE: " +
           meet_cluster,
       {{"st.release.cluster.global", "st.relaxed.cluster.global", some},
        {"ld.acquire.cluster", "ld.relaxed.cluster", some},
        {"@%p5 bra W;", "", some}},
       2,
       2},
      {"there and back",
       "@!%p0 bra E;\n@%p4 bra C;\nst.global.u32 [%rd0], 7;\nst.release.gpu.global.u32 [%rd1], 1;\n"
       "A: ld.acquire.gpu.global.u32 %r5, [%rd2];\nsetp.ne.u32 %p5, %r5, 2;\n@%p5 bra A;\n"
       "ld.global.u32 %r6, [%rd0];\nbra E;\n"
       "C: ld.acquire.gpu.global.u32 %r5, [%rd1];\nsetp.ne.u32 %p5, %r5, 1;\n@%p5 bra C;\n"
       "ld.global.u32 %r6, [%rd0];\nst.global.u32 [%rd0], 8;\nst.release.gpu.global.u32 [%rd2], 2;\nE:",
       {{"A: ld.acquire", "A: ld.relaxed"},
        {"st.release.gpu.global.u32 [%rd2]", "st.relaxed.gpu.global.u32 [%rd2]"},
        {"%p5, %r5, 2;\n@%p5 bra A;", "%p5, %r5, 2;"}}},
      {"two writers set a bit each",
       "@!%p0 bra E;\nsetp.eq.u32 %p7, %r1, 2;\n@%p7 bra C;\nshl.b32 %r7, %r4, %r1;\nst.global.u32 [%rd4], "
       "5;\n"
       "atom.release.gpu.global.or.b32 %r5, [%rd1], %r7;\nbra E;\n"
       "C: ld.acquire.gpu.global.u32 %r5, [%rd1];\nsetp.ne.u32 %p5, %r5, 3;\n@%p5 bra C;\n"
       "ld.global.u32 %r6, [%rd0];\nld.global.u32 %r8, [%rd0+512];\nE:",
       {{"setp.ne.u32 %p5, %r5, 3", "setp.eq.u32 %p5, %r5, 0"}, {"atom.release", "atom.relaxed"}},
       3},
      {"vectors side by side",
       "mul.wide.u32 %rd7, %r0, 16;\nadd.u64 %rd7, %rd7, %rd0;\nmul.wide.u32 %rd8, %r1, 1024;\n"
       "add.u64 %rd7, %rd7, %rd8;\nst.global.v4.u32 [%rd7], {%r0, %r1, %r0, %r1};",
       {{"%r1, 1024", "%r1, 1008"}}},
      {"a slot is used again once it has been read",
       "@!%p0 bra E;\n@%p4 bra C;\nst.global.u32 [%rd0], 5;\nst.release.gpu.global.u32 [%rd1], 1;\n"
       "A: ld.acquire.gpu.global.u32 %r5, [%rd2];\nsetp.lt.u32 %p5, %r5, 1;\n@%p5 bra A;\n"
       "st.global.u32 [%rd0], 6;\nst.release.gpu.global.u32 [%rd1], 2;\nbra E;\n"
       "C: ld.acquire.gpu.global.u32 %r5, [%rd1];\nsetp.lt.u32 %p5, %r5, 1;\n@%p5 bra C;\n"
       "ld.global.u32 %r6, [%rd0];\nred.release.gpu.global.add.u32 [%rd2], 1;\n"
       "D: ld.acquire.gpu.global.u32 %r5, [%rd1];\nsetp.lt.u32 %p5, %r5, 2;\n@%p5 bra D;\n"
       "ld.global.u32 %r6, [%rd0];\nE:",
       {{"@%p5 bra A;", ""},
        {"red.release", "red.relaxed"},
        {"@%p5 bra D;", ""},
        {"A: ld.acquire", "A: ld.relaxed"}}},
      {"bytes of one word",
       "mul.wide.u32 %rd7, %r0, 2;\nadd.u64 %rd7, %rd7, %rd0;\ncvt.u64.u32 %rd8, %r1;\n"
       "add.u64 %rd7, %rd7, %rd8;\nst.global.u8 [%rd7], %r0;",
       {{"%r0, 2", "%r0, 1"}}},
  };
  return table;
}

TEST_CASE("the emulator reports races in global memory, and none in their right twins") {
  Plants plants(kernel, 64, std::chrono::seconds(60));
  for (const auto* table : {&rows(), &more_rows()})
    for (const Row& row : *table) plants.check(row, 20, 40);
  plants.tell();
}

const std::string& written_to = test::option<std::string>("write", "");

// Each program has a number, and each plant has a number after that of its program: "7.ptx", "7.1.ptx".
TEST_CASE("programs and plants are written for a GPU if requested") {
  if (written_to.empty()) return;
  std::ofstream list(written_to + "/list.tsv");
  size_t number = 0;
  for (const auto* table : {&rows(), &more_rows()})
    for (const Row& row : *table) {
      const auto write = [&](const std::string& name, const std::string& body, const std::string& what) {
        std::ofstream(written_to + "/" + name + ".ptx") << kernel(body, row.cluster);
        list << name << '\t' << row.ctas << '\t' << what << '\n';
      };
      write(std::to_string(++number), row.body, row.what);
      size_t plant = 0;
      for (const Leave& leave : row.leave)
        if (leave.fault != none)
          write(fmt::format("{}.{}", number, ++plant), planted(row.body, leave), row.what);
    }
  REQUIRE(list);
}

// ---- Lanes of one warp ----

// %r21 is the lane, %rd7 the address of the next lane's word in the same warp, %rd4 that of the thread's own
// word.
const std::string of_lanes =
    "and.b32 %r21, %r0, 31;\nxor.b32 %r22, %r0, 1;\nmul.wide.u32 %rd7, %r22, 4;\nadd.u64 %rd7, %rd7, %rd0;\n"
    "mul.wide.u32 %rd8, %r1, 512;\nadd.u64 %rd7, %rd7, %rd8;\n";
const std::string meet = "bar.warp.sync -1;\n";

const std::vector<Row>& lane_rows() {
  static const std::vector<Row> table = {
      {"a lane writes, another reads",
       of_lanes + own_store + meet + "ld.global.u32 %r6, [%rd7];",
       {{meet, ""},
        {meet, "membar.gl;\n"},
        {meet, "bar.sync 0;\n", none},
        {meet, "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n", none},
        {"[%rd7]", "[%rd4]", none}}},
      {"a lane reads, another writes",
       of_lanes + own_store + "bar.sync 0;\nld.global.u32 %r6, [%rd7];\n" + meet + "st.global.u32 [%rd4], 9;",
       {{meet, ""}, {meet + "st.global.u32 [%rd4]", "st.global.u32 [%rd7]", none}}},
      {"lanes write by one instruction, each its own",
       of_lanes +
           "mul.wide.u32 %rd9, %r21, 4;\nadd.u64 %rd9, %rd9, %rd2;\n@%p1 bra D;\nbra E;\nD: setp.lt.u32 %p5, "
           "%r0, 32;\n@%p5 st.global.u32 [%rd9], %r0;\nE:",
       {{"mul.wide.u32 %rd9, %r21, 4", "mul.wide.u32 %rd9, %r21, 2",
         some},  // these addresses are misaligned, too
        {"%r21, 4;\nadd", "%r21, 0;\nadd"},
        {"%r21, 4;\nadd.u64 %rd9, %rd9, %rd2;", "%r21, 0;\nadd.u64 %rd9, %rd9, %rd2;\nmov.u32 %r0, 3;",
         none}}},
      {"bytes of one word by lanes",
       of_lanes + "add.u64 %rd9, %rd4, 0;\nand.b32 %r9, %r21, 3;\ncvt.u64.u32 %rd10, %r9;\n"
                  "mul.lo.u64 %rd10, %rd10, 3;\nsub.u64 %rd9, %rd9, %rd10;\n"
                  "st.global.u8 [%rd9], %r0;",
       {{"mul.lo.u64 %rd10, %rd10, 3;", "mul.lo.u64 %rd10, %rd10, 4;"}}},
      {"a lane writes for all",
       of_lanes + "setp.eq.u32 %p5, %r0, 5;\nand.pred %p5, %p5, %p1;\n@%p5 st.global.u32 [%rd2], 7;\n" +
           meet + "setp.lt.u32 %p6, %r0, 32;\nand.pred %p6, %p6, %p1;\n@%p6 ld.global.u32 %r6, [%rd2];",
       {{meet, ""}, {meet, "bar.warp.sync 0xffffffff;\n", none}}},
      {"all lanes read a word, one replaces it",
       of_lanes + "setp.lt.u32 %p6, %r0, 32;\nand.pred %p6, %p6, %p1;\n@%p6 ld.global.u32 %r6, [%rd2];\n" +
           meet + "@%p2 st.global.u32 [%rd2], 7;",
       {{meet, ""}}},
      {"lanes hand a word on by an atomic operation",
       of_lanes +
           "@!%p1 bra E;\nsetp.eq.u32 %p5, %r0, 1;\n@%p5 bra C;\n@!%p0 bra E;\nst.global.u32 [%rd0], 7;\n"
           "st.release.gpu.global.u32 [%rd1], 1;\nbra E;\n"
           "C: ld.acquire.gpu.global.u32 %r5, [%rd1];\nsetp.eq.u32 %p5, %r5, 0;\n@%p5 bra C;\n"
           "ld.global.u32 %r6, [%rd0];\nE:",
       {{"ld.acquire.gpu.global.u32 %r5, [%rd1];", "mov.u32 %r5, 1;"}}},
      {"lanes add to one word",
       of_lanes + "red.global.add.u32 [%rd2], %r21;\n" + meet + "@%p2 ld.relaxed.gpu.global.u32 %r6, [%rd2];",
       {{meet, "", none}}},
  };
  return table;
}

TEST_CASE("lanes of one warp race in global memory where nothing orders them") {
  Plants plants(kernel, 64, std::chrono::seconds(60));
  for (const Row& row : lane_rows()) plants.check(row, 12, 24);
  plants.tell();
}

// ---- A launch that may begin before the previous one has ended ----

std::optional<Fault> dependent(const std::string& second_body, bool overlaps, std::string* what,
                               bool is_waited_for = false) {
  const std::string text = R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry first(.param .u64 p) {
.reg .b64 %rd<4>; .reg .b32 %r<4>;
ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd1, %rd0;
griddepcontrol.launch_dependents;
st.global.u32 [%rd1], %r0;
ret;
}
.visible .entry second(.param .u64 p) {
.reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<2>;
ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd1, %rd0;
setp.eq.u32 %p0, %r0, 0;
)" + second_body + "ret;\n}\n";
  return fault_of(
      [&] {
        const auto device = open_emulator({});
        const Address p = device->allocate(1024);
        device->fill(p, 0, 1024);
        for (const char* name : {"first", "second"}) {
          const auto program = device->load(text, signature_of(text, 64, name));
          Launch launch;
          launch.grid = {1, 1, 1};
          launch.block = {64, 1, 1};
          launch.programmatic_dependent_launch = overlaps;
          const void* parameters[] = {&p};
          device->launch(*program, launch, parameters);
          if (is_waited_for) device->synchronize(std::chrono::seconds(10));
        }
        device->synchronize(std::chrono::seconds(10));
      },
      what);
}

TEST_CASE("a dependent launch waits ahead of what it reads, and of what it overwrites") {
  std::string what;
  const std::string wait = "griddepcontrol.wait;\n", read = "ld.global.u32 %r1, [%rd1];\n";
  CHECK(!dependent(wait + read, true, &what));
  CHECK(!dependent(read, false, &what));
  CHECK(!dependent(read, true, &what, true));  // the host has waited between the two launches
  CHECK(!dependent("@%p0 griddepcontrol.wait;\nbar.sync 0;\n" + read, true, &what));
  CHECK(dependent(read + wait, true, &what) == Fault::race);
  CHECK_MESSAGE(what.find("of the previous launch, which may still be running, and no griddepcontrol.wait "
                          "comes before this") != std::string::npos,
                what);
  CHECK(dependent(read, true, &what) == Fault::race);
  CHECK(dependent("st.global.u32 [%rd1], 5;\n", true, &what) == Fault::race);
  CHECK(dependent("st.global.u32 [%rd1+512], 5;\n" + wait + read, true, &what) == std::nullopt);
}

TEST_CASE("a sum begins with zeros that somebody has written") {
  const std::string text = kernel("red.global.add.u32 [%rd2], 1;", 1);
  for (const bool is_zeroed : {true, false}) {
    std::string what;
    const auto fault = fault_of(
        [&] {
          Bench bench(text, 64);
          const Address p = bench.device().allocate(16384);
          if (is_zeroed) bench.device().fill(p, 0, 16384);
          bench.run({1, 1, 1}, 0, p);
        },
        &what);
    CHECK(fault == (is_zeroed ? std::nullopt : std::optional(Fault::uninitialised_sum)));
    if (!is_zeroed) CHECK(what.find("this adds to byte 8448 of the allocation") != std::string::npos);
  }
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_global_test
