// Tests a truth table of sufficient and insufficient orders. Each correct program must pass on every
// schedule, and each program without one piece must be reported on some schedule.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "emulator_kit.h"

namespace ptxbuilder::runtime::emulator_truth_test {
namespace {

// Returns a kernel of 128 threads (in CTAs of a cluster) around `body`. Registers: %p0 is "thread 0", %r0
// tid.x, %r1 the lane, %r2 the address of `data` (4 KB, aligned to 1024), %r3 that of `bar`, %r4 data + 4
// tid, %rd0 the address of 16 KB of global memory, %rd1 that of the thread's own 8 bytes there.
std::string kernel(const std::string& body, int cluster = 1) {
  return fmt::format(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {} {{
.shared .align 1024 .b8 data[4096]; .shared .align 8 .b8 bar[16];
.reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p<6>; .reg .f32 acc<8>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %laneid; mov.u32 %r2, data; mov.u32 %r3, bar; shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r2;
ld.param.u64 %rd0, [p]; setp.eq.u32 %p0, %r0, 0;
mov.u32 %r19, %ctaid.x; mad.lo.u32 %r19, %r19, 128, %r0; mul.wide.u32 %rd1, %r19, 8; add.u64 %rd1, %rd1, %rd0;
{}
ret;
}}
)",
                     cluster > 1 ? fmt::format(".reqnctapercluster {}, 1, 1", cluster) : "", body);
}

std::optional<Fault> outcome(const std::string& text, std::string* what, uint64_t seeds = 12) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    EmulatorOptions options;
    options.seed = seed;
    auto fault = fault_of(
        [&] {
          Bench bench(text, 128, options);
          Address p = bench.upload(std::vector<uint32_t>(4096));
          const uint32_t ctas = signature_of(text, 128).cluster[0];
          bench.run({ctas, 1, 1}, 0, p);
        },
        what);
    if (fault) return fault;
  }
  return std::nullopt;
}

struct Leave {
  const char* out;      // the piece to remove
  const char* instead;  // the replacement for the piece
  Fault fault;
};

struct Row {
  const char* what;
  std::string body;
  int cluster;
  std::vector<Leave> leave;
};

const std::string init =
    "@%p0 mbarrier.init.shared::cta.b64 [%r3], 1;\n@%p0 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n";
const std::string load =
    "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 4096;\n@%p0 "
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 4096, [%r3];\n";
const std::string wait = "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0;\n@!%p1 bra W;\n";
const std::string store =
    "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 512;\n@%p0 "
    "cp.async.bulk.commit_group;\n";
const std::string wgmma_setup =
    "mov.u32 %r10, 0;\nst.shared.b32 [%r4], %r10; st.shared.b32 [%r4+512], %r10; st.shared.b32 [%r4+1024], "
    "%r10; st.shared.b32 [%r4+1536], %r10; st.shared.b32 [%r4+2048], %r10;\n"
    "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
    "shr.u32 %r11, %r2, 4; cvt.u64.u32 %rd2, %r11; or.b64 %rd2, %rd2, 0x0000000800400000; or.b64 %rd2, %rd2, "
    "0;\n";
const std::string wgmma =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {acc0, acc1, acc2, acc3}, %rd2, %rd2, 0, 1, 1, 0, "
    "0;\nwgmma.commit_group.sync.aligned;\n";
// The same product; %p2 determines whether it adds to the sums.
const std::string adding_wgmma =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {acc0, acc1, acc2, acc3}, %rd2, %rd2, %p2, 1, 1, 0, "
    "0;\nwgmma.commit_group.sync.aligned;\n";

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"write, barrier, read by another warp",
       "xor.b32 %r5, %r4, 128;\nst.shared.b32 [%r4], %r0;\nbar.sync 0;\nld.shared.b32 %r6, [%r5];",
       1,
       {{"bar.sync 0;", "", Fault::race},
        {"bar.sync 0;", "bar.warp.sync -1;", Fault::race},
        {"bar.sync 0;", "membar.cta;", Fault::race}}},
      {"read, barrier, overwrite by another warp",
       "st.shared.b32 [%r4], %r0;\nbar.sync 0;\nxor.b32 %r5, %r4, 128;\nld.shared.b32 %r6, [%r5];\nbar.sync "
       "1;\nst.shared.b32 [%r4], %r6;",
       1,
       {{"bar.sync 1;", "", Fault::race}}},
      {"named barriers: arrive, sync",
       "setp.lt.u32 %p2, %r0, 64;\n@%p2 bra A;\nbar.sync 3, 128;\nadd.u32 %r5, %r4, -256;\nld.shared.b32 "
       "%r6, [%r5];\nbra B;\nA: st.shared.b32 [%r4], %r0;\nbar.arrive 3, 128;\nB:",
       1,
       {{"bar.sync 3, 128;", "", Fault::race},
        {"bar.arrive 3, 128;", "", Fault::deadlock},
        {"bar.sync 3, 128;", "bar.sync 3, 64;", Fault::operand}}},
      {"store, then bulk store",
       "st.shared.b32 [%r4], %r0;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n" + store +
           "@%p0 cp.async.bulk.wait_group.read 0;",
       1,
       {{"fence.proxy.async.shared::cta;", "", Fault::proxy_fence},
        {"fence.proxy.async.shared::cta;", "fence.proxy.async.global;", Fault::proxy_fence},
        {"fence.proxy.async.shared::cta;", "setp.eq.u32 %p2, %r1, 0;\n@%p2 fence.proxy.async.shared::cta;",
         Fault::proxy_fence},
        {"fence.proxy.async.shared::cta;",
         "setp.eq.u32 %p2, %r1, 0;\nbar.warp.sync -1;\n@%p2 "
         "fence.proxy.async.shared::cta;",
         Fault(255)},
        {"fence.proxy.async.shared::cta;",
         "setp.lt.u32 %p2, %r1, 9;\n@%p2 fence.proxy.async.shared::cta;\n@!%p2 "
         "fence.proxy.async.shared::cta;",
         Fault(255)},
        {"bar.sync 0;", "", Fault::race},
        {"@%p0 cp.async.bulk.wait_group.read 0;", "", Fault::early_exit},
        {"@%p0 cp.async.bulk.commit_group;", "", Fault::early_exit}}},
      {"store, barrier, fence by the issuer, bulk store",
       "st.shared.b32 [%r4], %r0;\nbar.sync 0;\n@%p0 fence.proxy.async.shared::cta;\n" + store +
           "@%p0 cp.async.bulk.wait_group.read 0;",
       1,
       {{"@%p0 fence.proxy.async.shared::cta;", "", Fault::proxy_fence}}},
      {"bulk store, then overwrite",
       "st.shared.b32 [%r4], %r0;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n" + store +
           "@%p0 cp.async.bulk.wait_group.read 0;\nbar.sync 1;\nst.shared.b32 [%r4], %r1;",
       1,
       {{"@%p0 cp.async.bulk.wait_group.read 0;", "", Fault::race},
        {"@%p0 cp.async.bulk.wait_group.read 0;", "@%p0 cp.async.bulk.wait_group.read 1;", Fault::race},
        {"bar.sync 1;", "", Fault::race}}},
      {"bulk load, wait, read",
       init + load + wait + "ld.shared.b32 %r5, [%r4];",
       1,
       {{"@!%p1 bra W;", "", Fault::race},
        {"@%p0 fence.mbarrier_init.release.cluster;", "", Fault(255)},  // the finding is only a note
        {"@%p0 fence.mbarrier_init.release.cluster;", "@%p0 fence.proxy.async.shared::cta;", Fault(255)},
        {"bar.sync 0;", "", Fault::mbarrier_init},
        {"[%r3], 4096;", "[%r3], 4080;", Fault::tx_count},
        {"[%r3], 4096;", "[%r3], 4112;", Fault::tx_count},
        {"[%r3], 1;", "[%r3], 2;", Fault::deadlock},
        {"[%r3], 0;", "[%r3], 1;", Fault::race},
        {"[%r2], [%rd0], 4096", "[%r2+8], [%rd0], 4096", Fault::misaligned},
        {"[%r2], [%rd0], 4096", "[%r2], [%rd0], 4090", Fault::unsupported},
        {"[%r2], [%rd0], 4096", "[%r2], [%rd0+16384], 4096", Fault::out_of_bounds}}},
      {"the same, wait by state",
       init + "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r3], 4096;\n@%p0 "
              "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 4096, "
              "[%r3];\n@!%p0 bra E;\nW: mbarrier.try_wait.shared::cta.b64 %p1, [%r3], %rd3;\n@!%p1 bra "
              "W;\nE: bar.sync 0;\nld.shared.b32 %r5, [%r4];",
       1,
       {{"@!%p1 bra W;", "", Fault::race}, {"E: bar.sync 0;", "E:", Fault::race}}},
      {"read, then bulk load over it",
       "st.shared.b32 [%r4], %r0;\nfence.proxy.async.shared::cta;\n" + init +
           "ld.shared.b32 %r5, [%r4];\nbar.sync 1;\n" + load + wait,
       1,
       {{"bar.sync 1;", "", Fault::race},
        {"st.shared.b32 [%r4], %r0;\nfence.proxy.async.shared::cta;", "st.shared.b32 [%r4], %r0;",
         Fault::proxy_fence}}},
      {"two phases with a wait for each",
       init + load + wait +
           "bar.sync 0;\n@%p0 mbarrier.arrive.shared::cta.b64 _, [%r3];\nV: "
           "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 1;\n@!%p1 bra V;",
       1,
       {{"bar.sync 0;\n@%p0 mbarrier.arrive", "@%p0 mbarrier.arrive", Fault(254)},
        {"[%r3], 1;\n@!%p1 bra V;", "[%r3], 0;\n@!%p1 bra V;", Fault::deadlock}}},
      {"arrivals as many as expected",
       "@%p0 mbarrier.init.shared::cta.b64 [%r3], 4;\nbar.sync 0;\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 "
       "mbarrier.arrive.shared::cta.b64 _, [%r3];\n" +
           wait,
       1,
       {{"[%r3], 4;", "[%r3], 3;", Fault::arrival_count},
        {"[%r3], 4;", "[%r3], 5;", Fault::deadlock},
        {"setp.eq.u32 %p2, %r1, 0;", "setp.le.u32 %p2, %r1, 1;", Fault(254)},
        {"bar.sync 0;", "", Fault(254)},
        {"setp.eq.u32 %p2, %r1, 0;", "setp.eq.u32 %p2, %r1, 0;\n@%p0 mbarrier.inval.shared::cta.b64 [%r3];",
         Fault::mbarrier_use},
        {"setp.eq.u32 %p2, %r1, 0;", "setp.eq.u32 %p2, %r1, 0;\n@%p0 mbarrier.init.shared::cta.b64 [%r3], 4;",
         Fault::mbarrier_use},
        {"setp.eq.u32 %p2, %r1, 0;", "setp.eq.u32 %p2, %r1, 0;\n@%p0 st.shared.b32 [%r3+4], %r0;",
         Fault::mbarrier_use}}},
      {"a phase, a wait, a phase, a wait",
       "@!%p0 bra E;\nmbarrier.init.shared::cta.b64 [%r3], 1;\nmbarrier.arrive.shared::cta.b64 _, [%r3];\n" +
           wait +
           "mbarrier.arrive.shared::cta.b64 _, [%r3];\nV: mbarrier.try_wait.parity.shared::cta.b64 %p1, "
           "[%r3], 1;\n@!%p1 bra V;\nE:",
       1,
       {{"W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0;\n@!%p1 bra W;", "", Fault(255)},
        {"V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 1;",
         "mov.u32 %r9, 2;\nV: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], %r9;", Fault::operand},
        {"V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 1;",
         "V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 2;", Fault::unsupported}}},
      {"who arrives knows the phase, who only waits has to wait for each",
       "@%p0 mbarrier.init.shared::cta.b64 [%r3], 1;\nbar.sync 0;\n@%p0 mbarrier.arrive.shared::cta.b64 _, "
       "[%r3];\n" +
           wait +
           "bar.sync 0;\n@%p0 mbarrier.arrive.shared::cta.b64 _, [%r3];\nV: "
           "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 1;\n@!%p1 bra V;",
       1,
       {{"@!%p1 bra W;\nbar.sync 0;\n@%p0 mbarrier.arrive.shared::cta.b64 _, [%r3];\nV:",
         "@!%p1 bra W;\nbar.sync 0;\n@%p0 mbarrier.arrive.shared::cta.b64 _, [%r3];\n@%p0 "
         "mbarrier.arrive.shared::cta.b64 _, [%r3];\nbar.sync 0;\nV:",
         Fault::phase_skipped}}},
      {"warps that store the same value",
       "and.b32 %r5, %r1, 7;\nshl.b32 %r5, %r5, 2;\nadd.u32 %r5, %r5, %r2;\nst.shared.b32 [%r5], "
       "0;\nbar.sync 0;\n"
       "ld.shared.b32 %r6, [%r5];",
       1,
       {{"[%r5], 0;", "[%r5], %r0;", Fault::race},
        {"bar.sync 0;", "", Fault::race},
        {"st.shared.b32 [%r5], 0;", "ld.shared.b32 %r7, [data];\nst.shared.b32 [%r5], 0;", Fault::race}}},
      {"a variable's name says its space",
       "st.u32 [data+4], 7;\nbar.sync 0;\nld.u32 %r5, [data+4];\natom.add.u32 %r6, [data+8], 1;",
       1,
       {{"bar.sync 0;", "", Fault::race}}},
      {"wgmma with A in registers",
       wgmma_setup +
           "mov.b32 %r12, 0; mov.b32 %r13, 0; mov.b32 %r14, 0; mov.b32 %r15, "
           "0;\nwgmma.fence.sync.aligned;\n" +
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {acc0, acc1, acc2, acc3}, {%r12, %r13, %r14, "
           "%r15}, %rd2, 0, 1, 1, 0;\n" +
           "wgmma.commit_group.sync.aligned;\nadd.u32 %r16, %r12, %r13;\nwgmma.wait_group.sync.aligned "
           "0;\nmov.b32 %r12, 1;",
       1,
       {{"wgmma.wait_group.sync.aligned 0;", "", Fault::matrix_registers},
        {"wgmma.fence.sync.aligned;\n", "wgmma.fence.sync.aligned;\nmov.b32 %r13, 7;\n", Fault::matrix_fence},
        {"add.u32 %r16, %r12, %r13;", "add.u32 %r13, %r12, %r13;", Fault::matrix_registers}}},
      {"cp.async, wait, barrier, read",
       "mul.wide.u32 %rd3, %r0, 4; add.s64 %rd3, %rd3, %rd0;\ncp.async.ca.shared.global [%r4], [%rd3], "
       "4;\ncp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\nxor.b32 %r5, %r4, "
       "128;\nld.shared.b32 %r6, [%r5];",
       1,
       {{"cp.async.wait_group 0;", "", Fault::race},
        {"cp.async.wait_group 0;", "cp.async.wait_group 1;", Fault::race},
        {"cp.async.commit_group;", "", Fault::race},
        {"bar.sync 0;", "", Fault::race}}},
      {"cp.async, signalled by an mbarrier",
       "@%p0 mbarrier.init.shared::cta.b64 [%r3], 128;\nbar.sync 0;\nmul.wide.u32 %rd3, %r0, 4; add.s64 "
       "%rd3, %rd3, %rd0;\ncp.async.ca.shared.global [%r4], [%rd3], "
       "4;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r3];\n" +
           wait + "xor.b32 %r5, %r4, 128;\nld.shared.b32 %r6, [%r5];",
       1,
       {{"@!%p1 bra W;", "", Fault::race}, {"[%r3], 128;", "[%r3], 129;", Fault::deadlock}}},
      {"wgmma over staged data",
       wgmma_setup + "wgmma.fence.sync.aligned;\n" + wgmma +
           "wgmma.wait_group.sync.aligned 0;\nadd.f32 acc0, acc0, acc1;\nbar.sync 1;\nst.shared.b32 [%r4], "
           "%r0;",
       1,
       {{"wgmma.fence.sync.aligned;", "", Fault::matrix_fence},
        {"wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned;\nmov.f32 acc2, 0f00000000;",
         Fault::matrix_fence},
        {"fence.proxy.async.shared::cta;", "", Fault::proxy_fence},
        {"bar.sync 0;", "", Fault::race},
        {"wgmma.wait_group.sync.aligned 0;", "", Fault::matrix_registers},
        {"wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;", Fault::matrix_registers},
        {"add.f32 acc0, acc0, acc1;\nbar.sync 1;", "add.f32 acc0, acc0, acc1;", Fault(255)},
        {"wgmma.wait_group.sync.aligned 0;\nadd.f32 acc0, acc0, acc1;", "", Fault::race},
        {"wgmma.fence.sync.aligned;",
         "wgmma.fence.sync.aligned;\nsetp.lt.u32 %p3, %r1, 16;\n@%p3 bra X;\nret;\nX:", Fault::divergence}}},
      {"peers of a cluster: write there, cluster barrier, read here",
       "mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1; mapa.shared::cluster.u32 %r6, %r4, "
       "%r5;\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\nst.shared::cluster.b32 [%r6], "
       "%r0;\nbarrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\nld.shared.b32 "
       "%r7, [%r4];",
       2,
       {{"barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;", "", Fault(254)},
        {"barrier.cluster.arrive.release.aligned;", "barrier.cluster.arrive.relaxed.aligned;", Fault::race},
        {"barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;", "bar.sync 0;",
         Fault(254)}}},
      {"remote arrival",
       init +
           "mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1; mapa.shared::cluster.u32 %r6, %r3, "
           "%r5;\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n@%p0 "
           "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n" +
           wait + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
       2,
       {{"@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];", "", Fault::deadlock},
        {"@!%p1 bra W;\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", "",
         Fault::early_exit},
        {"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];",
         "mbarrier.arrive.shared::cta.b64 _, [%r6];", Fault::mbarrier_use},
        {"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];", "mbarrier.arrive.b64 _, [%r6];",
         Fault::mbarrier_use},
        {"W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0;",
         "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r6], 0;", Fault::mbarrier_use},
        {"@%p0 fence.mbarrier_init.release.cluster;", "", Fault(255)}}},
      {"remote arrival, its barrier known by a fence alone",
       init +
           "mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1; mapa.shared::cluster.u32 %r6, %r3, "
           "%r5;\nbarrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;\n@%p0 "
           "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n" +
           wait + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
       2,
       {{"@%p0 fence.mbarrier_init.release.cluster;", "", Fault::mbarrier_init}}},
      {"a relaxed flag between fences",
       "@%p0 st.shared.b32 [%r3], 0;\nbar.sync 0;\nsetp.eq.u32 %p2, %r0, 32;\n@%p0 st.shared.b32 [%r2], 7;\n"
       "@%p0 fence.acq_rel.cta;\n@%p0 st.relaxed.cta.shared.b32 [%r3], 1;\n@!%p2 bra E;\nW: "
       "ld.relaxed.cta.shared.b32 %r5, [%r3];\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra W;\nfence.acq_rel.gpu;\n"
       "ld.shared.b32 %r6, [%r2];\nst.global.b32 [%rd1], %r6;\nE:",
       1,
       {{"@%p0 fence.acq_rel.cta;", "", Fault::race},
        {"fence.acq_rel.gpu;", "", Fault::race},
        {"fence.acq_rel.gpu;", "membar.cta;", Fault(255)},
        {"@%p0 fence.acq_rel.cta;\n@%p0 st.relaxed.cta", "@%p0 st.release.cta", Fault(255)},
        {"@%p0 fence.acq_rel.cta;\n@%p0 st.relaxed.cta", "@%p0 st.volatile", Fault(255)}}},
      {"an acquire of a flag",
       "@%p0 st.shared.b32 [%r3], 0;\nbar.sync 0;\nsetp.eq.u32 %p2, %r0, 32;\n@%p0 st.shared.b32 [%r2], 7;\n"
       "@%p0 atom.release.cta.shared.exch.b32 %r5, [%r3], 1;\n@!%p2 bra E;\nW: "
       "atom.acquire.cta.shared.or.b32 %r5, [%r3], 0;\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra W;\n"
       "ld.shared.b32 %r6, [%r2];\nst.global.b32 [%rd1], %r6;\nE:",
       1,
       {{"atom.release.cta", "atom.relaxed.cta", Fault::race},
        {"atom.release.cta", "atom.acquire.cta", Fault::race},
        {"atom.release.cta", "atom", Fault(255)},
        {"atom.acquire.cta", "atom.relaxed.cta", Fault::race},
        {"atom.acquire.cta", "atom.release.cta", Fault::race},
        {"atom.acquire.cta", "atom.acq_rel.cta", Fault(255)}}},
      {"lanes exchange halves of words",
       "shl.b32 %r5, %r0, 1; add.u32 %r5, %r5, %r2; xor.b32 %r6, %r5, 2;\nst.shared.u16 [%r5], %r0;\n"
       "bar.warp.sync -1;\nld.shared.u16 %r7, [%r6];",
       1,
       {{"bar.warp.sync -1;", "", Fault::race},
        {"bar.warp.sync -1;\nld.shared.u16 %r7, [%r6];", "ld.shared.u16 %r7, [%r5];", Fault(255)}}},
      {"ldmatrix of what other lanes have stored",
       "and.b32 %r5, %r0, 96; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r2;\nand.b32 %r6, %r1, 7; "
       "shl.b32 %r6, %r6, 4; add.u32 %r5, %r5, %r6;\nst.shared.b32 [%r4], %r0;\nbar.warp.sync -1;\n"
       "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r5];",
       1,
       {{"bar.warp.sync -1;", "", Fault::race}, {"bar.warp.sync -1;", "bar.sync 0;", Fault(255)}}},
      {"loads of what stmatrix has stored",
       "and.b32 %r5, %r0, 96; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r2;\nand.b32 %r6, %r1, 7; "
       "shl.b32 %r6, %r6, 4; add.u32 %r5, %r5, %r6;\n"
       "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {%r0};\nbar.warp.sync -1;\nld.shared.b32 %r7, [%r4];",
       1,
       {{"bar.warp.sync -1;", "", Fault::race}, {"bar.warp.sync -1;", "bar.sync 0;", Fault(255)}}},
      {"lanes add to what one of them has made zero",
       "setp.eq.u32 %p3, %r1, 0; and.b32 %r5, %r0, 96; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r2;\n"
       "@%p3 st.shared.b32 [%r5], 0;\nbar.warp.sync -1;\natom.shared.add.u32 %r6, [%r5], 1;",
       1,
       {{"bar.warp.sync -1;", "", Fault::race}}},
      {"cp.async over what other lanes have read",
       "st.shared.b32 [%r4], %r0;\nbar.warp.sync -1;\nxor.b32 %r5, %r4, 4;\nld.shared.b32 %r6, [%r5];\n"
       "bar.warp.sync 0xffffffff;\ncp.async.ca.shared.global [%r4], [%rd0], 4;\ncp.async.wait_all;",
       1,
       {{"bar.warp.sync 0xffffffff;", "", Fault::race}}},
      {"setmaxnreg by all warps of a warpgroup",
       "setp.ge.u32 %p1, %r0, 0;\n@!%p1 bra E;\nsetmaxnreg.dec.sync.aligned.u32 24;\nE:",
       1,
       {{"%p1, %r0, 0;", "%p1, %r0, 32;", Fault::register_budget}}},
      {"lanes of a warp exchange through shared memory",
       "xor.b32 %r5, %r4, 4;\nst.shared.b32 [%r4], %r0;\nbar.warp.sync -1;\nld.shared.b32 %r6, "
       "[%r5];\nbar.warp.sync "
       "0xffffffff;\nst.shared.b32 [%r4], %r6;",
       1,
       {{"bar.warp.sync -1;", "", Fault::race},
        {"bar.warp.sync -1;", "membar.cta;", Fault::race},
        {"bar.warp.sync 0xffffffff;", "", Fault::race},
        {"bar.warp.sync -1;", "bar.sync 0;", Fault(255)},
        {"bar.warp.sync -1;", "shfl.sync.idx.b32 %r7, %r0, 0, 31, -1;", Fault(255)},
        {"bar.warp.sync -1;",
         "mov.u32 %r8, 3; and.b32 %r7, %r1, 30; shl.b32 %r8, %r8, %r7; bar.warp.sync %r8;", Fault(255)},
        {"bar.warp.sync -1;", "mov.u32 %r8, 1; shl.b32 %r8, %r8, %r1; bar.warp.sync %r8;", Fault::race},
        {"ld.shared.b32 %r6, [%r5];", "ld.shared.b32 %r6, [%r4];\nmov.u32 %r9, 1;", Fault(255)},
        {"bar.warp.sync -1;\nld.shared.b32 %r6, [%r5];", "ld.shared.b32 %r6, [%r4];", Fault(255)},
        {"bar.warp.sync -1;\nld.shared.b32 %r6, [%r5];", "ld.volatile.shared.b32 %r6, [%r5];", Fault(255)}}},
      {"one lane arrives for its warp",
       "@%p0 mbarrier.init.shared::cta.b64 [%r3], 4;\nbar.sync 0;\nxor.b32 %r5, %r4, 128;\nsetp.eq.u32 %p2, "
       "%r1, 0;\n"
       "st.shared.b32 [%r4], %r0;\nbar.warp.sync -1;\n@%p2 mbarrier.arrive.shared::cta.b64 _, [%r3];\n" +
           wait + "ld.shared.b32 %r6, [%r5];",
       1,
       {{"bar.warp.sync -1;", "", Fault::race},
        {"bar.warp.sync -1;\n@%p2 mbarrier.arrive", "@%p2 mbarrier.arrive", Fault::race},
        {"[%r3], 4;\nbar.sync 0;\nxor.b32 %r5, %r4, 128;\nsetp.eq.u32 %p2, %r1, 0;\nst.shared.b32 [%r4], "
         "%r0;\nbar.warp.sync -1;",
         "[%r3], 128;\nbar.sync 0;\nxor.b32 %r5, %r4, 128;\nsetp.ge.u32 %p2, %r1, 0;\nst.shared.b32 [%r4], "
         "%r0;",
         Fault(255)},
        {"st.shared.b32 [%r4], %r0;\nbar.warp.sync -1;",
         "st.shared.b32 [%r4+1024], %r0;\n@%p2 st.shared.b32 [%r4], %r0;", Fault(255)}}},
      {"an address comes of what is written",
       "st.shared.b32 [%r4], 0;\nld.shared.b32 %r6, [%r4];\nmul.wide.u32 %rd3, %r6, 4; add.s64 %rd3, %rd3, "
       "%rd0;\n"
       "ld.global.b32 %r7, [%rd3];",
       1,
       {{"st.shared.b32 [%r4], 0;", "", Fault::uninitialised}}},
      {"bytes of one word belong to several lanes",
       ".reg .b16 %h<2>; sub.u32 %r5, %r4, %r2; shr.u32 %r5, %r5, 2; add.u32 %r5, %r5, %r2; cvt.u16.u32 %h0, "
       "%r0;\n"
       "st.shared.u8 [%r5], %h0;\nld.shared.u8 %h1, [%r5];\nbar.sync 0;\nld.shared.b32 %r6, [data];",
       1,
       {{"bar.sync 0;", "", Fault::race}}},
      {"a peer's memory is reached as .shared::cluster",
       "mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1; mapa.shared::cluster.u32 %r6, %r4, %r5;\n"
       "st.shared.b32 [%r4], %r0;\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
       "ld.shared::cluster.b32 %r7, [%r6];\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
       2,
       {{"ld.shared::cluster.b32", "ld.shared.b32", Fault::out_of_bounds},
        {"ld.shared::cluster.b32", "ld.shared::cta.b32", Fault::out_of_bounds}}},
      {"lanes of a warp together",
       "setp.lt.u32 %p2, %r1, 16;\n@%p2 bra A;\nshfl.sync.idx.b32 %r5, %r0, 20, 31, 0xffff0000;\nbra B;\nA: "
       "shfl.sync.idx.b32 %r5, %r0, 3, 31, 0x0000ffff;\nB: bar.sync 0;\nst.global.b32 [%rd1], %r5;",
       1,
       {{"0x0000ffff;", "0xffffffff;", Fault::divergence},
        {"0x0000ffff;", "0x00007fff;", Fault::divergence},
        {"%r0, 3, 31", "%r0, 17, 31", Fault::undefined_register},
        {"%r0, 3, 31, 0x0000ffff;\nB: bar.sync 0;\nst.global.b32 [%rd1], %r5;",
         "%r0, 17, 31, 0x0000ffff;\nB: bar.sync 0;", Fault(255)},
        {"bra B;", "bar.sync 0;\nbra B;", Fault::divergence}}},
      {"an accumulator is read once a wgmma has written it",
       wgmma_setup + "wgmma.fence.sync.aligned;\n" + wgmma +
           "wgmma.wait_group.sync.aligned 0;\nst.global.f32 [%rd1], acc3;",
       1,
       {{"acc3;", "acc4;", Fault::undefined_register},
        {"%rd2, 0, 1, 1", "%rd2, 1, 1, 1", Fault::undefined_register},
        {"st.global.f32 [%rd1], acc3;", "add.f32 acc5, acc3, acc4;", Fault(255)},
        {"acc3;", "acc5;\nadd.f32 acc5, acc3, acc4;", Fault::undefined_register},
        {"st.global.f32 [%rd1], acc3;", "cvt.rn.f16x2.f32 %r5, acc4, acc3;\nst.global.b32 [%rd1], %r5;",
         Fault::undefined_register},
        {"st.global.f32 [%rd1], acc3;", "mov.f32 acc5, acc4;", Fault(255)},
        {"acc3;", "acc5;\nmov.f32 acc5, acc4;", Fault::undefined_register},
        {"st.global.f32 [%rd1], acc3;", "mov.f32 acc5, acc4;\nst.global.f32 [%rd1], acc5;",
         Fault::undefined_register},
        {"st.global.f32 [%rd1], acc3;", "mov.b64 %rd3, {acc4, acc3};\nst.global.b64 [%rd1], %rd3;",
         Fault(255)},
        {"st.global.f32 [%rd1], acc3;", "mov.b64 %rd3, {acc4, acc5};\nst.global.b64 [%rd1], %rd3;",
         Fault::undefined_register},
        {"st.global.f32 [%rd1], acc3;",
         "shfl.sync.bfly.b32 acc5, acc3, 1, 31, -1;\nst.global.f32 [%rd1], acc5;", Fault(255)},
        {"st.global.f32 [%rd1], acc3;",
         "shfl.sync.bfly.b32 acc5, acc4, 1, 31, -1;\nst.global.f32 [%rd1], acc5;", Fault::undefined_register},
        {"st.global.f32 [%rd1], acc3;", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {acc4};",
         Fault::undefined_register}}},
      {"the first of a loop's wgmmas does not add",
       wgmma_setup + "mov.u32 %r7, 0;\nL: setp.gt.u32 %p2, %r7, 0;\nwgmma.fence.sync.aligned;\n" +
           adding_wgmma +
           "wgmma.wait_group.sync.aligned 0;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p3, %r7, 3;\n@%p3 bra L;\n"
           "st.global.f32 [%rd1], acc0;",
       1,
       {{"setp.gt.u32", "setp.ge.u32", Fault::undefined_register}}},
      {"a loop reads what the pass before has multiplied",
       wgmma_setup + "mov.u32 %r7, 0;\nwgmma.fence.sync.aligned;\n" + wgmma +
           "wgmma.wait_group.sync.aligned 0;\nL: add.f32 acc4, acc0, acc1;\nwgmma.fence.sync.aligned;\n" +
           wgmma +
           "wgmma.wait_group.sync.aligned 0;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p3, %r7, 3;\n@%p3 bra L;\n"
           "wgmma.wait_group.sync.aligned 0;",
       1,
       {{"wgmma.wait_group.sync.aligned 0;\nadd.u32 %r7", "add.u32 %r7", Fault::matrix_registers},
        {"wgmma.wait_group.sync.aligned 0;\nadd.u32 %r7", "wgmma.wait_group.sync.aligned 1;\nadd.u32 %r7",
         Fault::matrix_registers}}},
      {"every path writes a register that counts",
       "setp.lt.u32 %p2, %r0, 40;\n@%p2 mov.u32 %r5, 7;\n@!%p2 mov.u32 %r5, 8;\nst.global.b32 [%rd1], %r5;",
       1,
       {{"@!%p2 mov.u32 %r5, 8;", "", Fault::undefined_register},
        {"@!%p2 mov.u32 %r5, 8;", "@!%p2 mov.u32 %r5, %r6;", Fault::undefined_register},
        {"@!%p2 mov.u32 %r5, 8;", "@%p2 mov.u32 %r5, 8;", Fault::undefined_register},
        {"@%p2 mov.u32 %r5, 7;", "@%p4 mov.u32 %r5, 7;", Fault::undefined_register},
        {"st.global.b32 [%rd1], %r5;", "st.shared.b32 [%r6], %r5;", Fault::undefined_register}}},
      {"an undefined value goes through memory, and counts where it decides",
       "st.shared.b32 [%r4], %r5;\nld.shared.b32 %r6, [%r4];\nadd.u32 %r7, %r6, 1;\nand.b32 %r8, %r7, 0;\n"
       "st.global.b32 [%rd1], %r8;",
       1,
       {{"%r7, 0;", "%r7, 1;", Fault::uninitialised},
        {"and.b32 %r8, %r7, 0;", "setp.eq.u32 %p2, %r7, 0;\n@%p2 bra A;\nA: mov.u32 %r8, 0;",
         Fault::uninitialised},
        {"and.b32 %r8, %r7, 0;", "atom.shared.add.u32 %r8, [%r4], %r7;", Fault::uninitialised},
        {"and.b32 %r8, %r7, 0;",
         "setp.eq.u32 %p2, %r7, 0;\nsetp.gt.u32 %p3, %r0, 999;\nand.pred %p2, %p2, %p3;\n"
         "selp.u32 %r8, 1, 2, %p2;",
         Fault(255)},
        {"and.b32 %r8, %r7, 0;",
         "setp.eq.u32 %p2, %r7, 0;\nvote.sync.any.pred %p3, %p2, -1;\nselp.u32 %r8, 1, 2, %p3;",
         Fault::uninitialised},
        {"st.shared.b32 [%r4], %r5;", "@%p0 st.shared.v2.b32 [data], {%r0, %r5};\nbar.sync 0;", Fault(255)},
        {"%r7, 0;", "%r7, 1;\nmov.u32 %r8, 3;", Fault(255)}}},
      {"an undefined value goes through the thread's own memory, and through calls",
       ".local .align 8 .b8 own[16]; st.local.v2.b32 [own], {%r0, %r5};\nld.local.b32 %r6, [own];\n"
       "st.global.b32 [%rd1], %r6;",
       1,
       {{"%r6, [own];", "%r6, [own+4];", Fault::undefined_register},
        {"%r6, [own];", "%r6, [own+4];\nmov.u32 %r6, 1;", Fault(255)},
        {"%r6, [own];", "%r6, [own+4];\nst.local.b32 [own+4], 1;\nld.local.b32 %r6, [own+4];", Fault(255)}}},
      {"of a product of matrices the rows count that are stored",
       "setp.lt.u32 %p2, %r0, 16;\n@%p2 mov.b32 %r5, 0;\nmov.b32 %r6, 0;\nmov.f32 acc0, 0f00000000;\n"
       "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {acc0, acc1, acc2, acc3}, {%r5, %r6}, {%r6}, "
       "{acc0, acc0, acc0, "
       "acc0};\n@%p2 st.global.f32 [%rd1], acc0;\nst.global.f32 [%rd1], acc2;",
       1,
       {{"@%p2 st.global", "st.global", Fault::undefined_register},
        {"{%r5, %r6}, {%r6}", "{%r6, %r6}, {%r5}", Fault::undefined_register},
        {"{%r5, %r6}, {%r6}", "{%r6, %r5}, {%r6}", Fault::undefined_register}}},
      {"of a selection only what is taken counts",
       "setp.lt.u32 %p2, %r0, 40;\nselp.b32 %r5, %r0, %r6, %p2;\n@%p2 st.global.b32 [%rd1], %r5;",
       1,
       {{"@%p2 st", "st", Fault::undefined_register}, {"%r6, %p2", "%r6, %p4", Fault::undefined_register}}},
      {"a branch by a predicate",
       "setp.lt.u32 %p2, %r0, 40;\n@%p2 bra A;\nst.shared.b32 [%r4], %r0;\nA:",
       1,
       {{"@%p2 bra", "@%p4 bra", Fault::undefined_register},
        {"@%p2 bra", "@!%p4 bra", Fault::undefined_register}}},
      {"addresses",
       "st.shared.b32 [%r4], %r0;\nld.shared.b32 %r5, [%r4];\nst.global.b32 [%rd1], %r5;",
       1,
       {{"[%r4], %r0;", "[%r4+2], %r0;", Fault::misaligned},
        {"[%r4], %r0;", "[%r4+8192], %r0;", Fault::out_of_bounds},
        {"[%r4], %r0;", "[%r0], %r0;", Fault::out_of_bounds},
        {"[%rd1], %r5;", "[%rd1+16384], %r5;", Fault::out_of_bounds},
        {"%r5, [%r4];", "%r5, [%r4+512];", Fault::uninitialised},
        {"[%rd1], %r5;", "[%rd1+2], %r5;", Fault::misaligned},
        {"st.global.b32 [%rd1], %r5;", "trap;", Fault::trap},
        {"st.global.b32 [%rd1], %r5;", "frobnicate.b32 %r5;", Fault::unsupported}}},
  };
  return table;
}

TEST_CASE("emulator: the truth table holds") {
  std::string table = "\n";
  for (const Row& row : rows()) {
    std::string what;
    const std::string text = kernel(row.body, row.cluster);
    auto fault = outcome(text, &what, 40);
    const std::string shown = std::string(row.what) + ": " + what;
    CHECK_MESSAGE(!fault, shown);
    table += fmt::format("{:60} passes\n", row.what);
    for (const Leave& leave : row.leave) {
      std::string mutant = row.body;
      size_t at = mutant.find(leave.out);
      REQUIRE(at != std::string::npos);
      mutant.replace(at, std::strlen(leave.out), leave.instead);
      fault = outcome(kernel(mutant, row.cluster), &what);
      // 255 means that this program is correct as well; 254 means that the kind of fault depends on the
      // schedule.
      const bool ok = leave.fault == Fault(255)   ? !fault
                      : leave.fault == Fault(254) ? fault.has_value()
                                                  : fault == leave.fault;
      std::string line = fmt::format("    {:56} {}\n",
                                     fmt::format("{} -> {}", std::string(leave.out).substr(0, 40),
                                                 std::string(leave.instead).substr(0, 40)),
                                     what.substr(0, what.find('\n')));
      std::replace(line.begin(), line.end() - 1, '\n', ' ');
      table += line;
      const std::string says = std::string(row.what) + " without " + leave.out + ": " + what;
      CHECK_MESSAGE(ok, says);
    }
  }
  MESSAGE(table);
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_truth_test
