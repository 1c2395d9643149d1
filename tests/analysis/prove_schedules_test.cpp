// Tests proofs over all schedules: the library's kernels are proved, and each fault in a small ring is
// refused.
#include "ptxbuilder/analysis/prove_schedules.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/kit/golden_kit.h"

namespace ptxbuilder::analysis::prove_schedules_test {
namespace {

using Verdict = ScheduleProof::Verdict;

// Returns a ring of two stages. A thread loads 128 bytes in each turn, and a warp reads them.
std::string ring() {
  return R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry ring(.param .u64 from, .param .u32 turns)
.reqntid 64
{
  .reg .pred %p<8>;
  .reg .b32 %r<24>;
  .reg .b64 %rd<6>;
  .shared .align 128 .b8 tiles[256];
  .shared .align 8 .b8 full[16];
  .shared .align 8 .b8 empty[16];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, full;
  mov.u32 %r3, empty;
  mov.u32 %r4, tiles;
  ld.param.u32 %r5, [turns];
  ld.param.u64 %rd1, [from];
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [full], 1;
  mbarrier.init.shared::cta.b64 [full+8], 1;
  mbarrier.init.shared::cta.b64 [empty], 32;
  mbarrier.init.shared::cta.b64 [empty+8], 32;
  fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0;
  mov.u32 %r6, 0;
  mov.u32 %r7, 0;
  setp.ge.u32 %p2, %r1, 32;
  @%p2 bra CONSUME;
  @%p1 bra END;
  mov.u32 %r7, 1;
PRODUCE:
  setp.ge.u32 %p3, %r6, %r5;
  @%p3 bra END;
  and.b32 %r8, %r6, 1;
  shl.b32 %r9, %r8, 3;
  add.u32 %r10, %r2, %r9;
  add.u32 %r11, %r3, %r9;
  shl.b32 %r12, %r8, 7;
  add.u32 %r13, %r4, %r12;
EMPTY:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r11], %r7;
  @!%p4 bra EMPTY;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 128;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r13], [%rd1], 128, [%r10];
  xor.b32 %r7, %r7, %r8;
  add.u32 %r6, %r6, 1;
  bra PRODUCE;
CONSUME:
  and.b32 %r14, %r1, 31;
  shl.b32 %r14, %r14, 2;
CONSUME_NEXT:
  setp.ge.u32 %p3, %r6, %r5;
  @%p3 bra END;
  and.b32 %r8, %r6, 1;
  shl.b32 %r9, %r8, 3;
  add.u32 %r10, %r2, %r9;
  add.u32 %r11, %r3, %r9;
  shl.b32 %r12, %r8, 7;
  add.u32 %r13, %r4, %r12;
  add.u32 %r13, %r13, %r14;
FULL:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r10], %r7;
  @!%p4 bra FULL;
  ld.shared.u32 %r15, [%r13];
  mbarrier.arrive.shared::cta.b64 _, [%r11];
  xor.b32 %r7, %r7, %r8;
  add.u32 %r6, %r6, 1;
  bra CONSUME_NEXT;
END:
  ret;
}
)";
}

const std::string kRead = "  ld.shared.u32 %r15, [%r13];\n",
                  kRelease = "  mbarrier.arrive.shared::cta.b64 _, [%r11];\n", kFull = "FULL:\n",
                  kOfLane = "  add.u32 %r13, %r13, %r14;\n",
                  kTest = "CONSUME_NEXT:\n  setp.ge.u32 %p3, %r6, %r5;\n  @%p3 bra END;\n",
                  kNext = "  xor.b32 %r7, %r7, %r8;\n  add.u32 %r6, %r6, 1;\n  bra CONSUME_NEXT;\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

ScheduleProof proof_of(const std::string& text) { return prove_schedules(ptx_text::parse(text)); }

void check_says(const std::string& kernel, const std::string& says) {
  const ScheduleProof proof = proof_of(kernel);
  const std::string said = text(proof);
  CHECK_MESSAGE(proof.verdict == Verdict::refuted, said);
  CHECK_MESSAGE(proof.what.find(says) != std::string::npos, said);
}

void check_refused(const std::string& from, const std::string& to, const std::string& says) {
  CAPTURE(from);
  check_says(with(ring(), from, to), says);
}

TEST_CASE("a ring is proved, and each fault in it is refused with its cause") {
  const ScheduleProof proof = proof_of(ring());
  CHECK_MESSAGE(proof.verdict == Verdict::proved, text(proof));
  CHECK(proof.turns == 6);  // two rounds over the two stages, and two more turns
  check_refused(kRead + kRelease, kRelease + kRead, "may be written by warp 0 before warp 1 has read it");
  check_refused("@!%p4 bra FULL;", "", "earlier phase");
  check_refused("  mov.u32 %r7, 1;\n", "", "it hangs");
  check_refused("[empty], 32;", "[empty], 31;", "earlier phase than intended");
  check_refused("[empty], 32;", "[empty], 33;", "1 of 33 arrivals are missing");
  check_refused("[full], 1;", "[full], 2;", "1 of 2 arrivals are missing");
  check_refused("_, [%r10], 128;", "_, [%r10], 144;", "of 144 bytes, 128 have arrived");
  check_refused("_, [%r10], 128;", "_, [%r10], 112;", "it hangs");
  check_refused(kNext, with(kNext, "  xor.b32 %r7, %r7, %r8;\n", ""), "in an earlier phase than intended");
  check_refused("  bar.sync 0;\n", "", "before its initialisation is known");
  check_refused("  fence.mbarrier_init.release.cluster;\n", "", "before its initialisation is fenced");
  check_refused("  @%p1 bra END;\n", "", "arrivals");
  // Reads the other stage.
  check_refused(kOfLane, kOfLane + "  xor.b32 %r13, %r13, 128;\n", "before");
  // No thread waits for the last copy.
  check_refused(kTest,
                "CONSUME_NEXT:\n  add.u32 %r17, %r6, 1;\n  setp.ge.u32 %p3, %r17, %r5;\n  @%p3 bra END;\n",
                "no thread waits for it");
}

// The warp of producers counts the turns of several tiles, and the consumers multiply to get the same number.
std::string tiles(const std::string& turns_of_consumer) {
  return with(with(ring(), "  ld.param.u64 %rd1",
                   "  mov.u32 %r16, %ctaid.x;\n  mov.u32 %r17, %nctaid.x;\n"
                   "  mov.u32 %r18, %r5;\n  mov.u32 %r5, 0;\n"
                   "  setp.ge.u32 %p5, %r16, %r18;\n  @%p5 bra COUNTED;\n"
                   "COUNT:\n  add.u32 %r5, %r5, 2;\n  add.u32 %r16, %r16, %r17;\n"
                   "  setp.lt.u32 %p5, %r16, %r18;\n  @%p5 bra COUNT;\n"
                   "COUNTED:\n  ld.param.u64 %rd1"),
              "CONSUME:\n",
              "CONSUME:\n  mov.u32 %r16, %ctaid.x;\n  mov.u32 %r5, 0;\n  setp.ge.u32 %p5, %r16, %r18;\n"
              "  @%p5 bra END;\n  sub.u32 %r5, %r18, %r16;\n  add.u32 %r5, %r5, %r17;\n"
              "  add.u32 %r5, %r5, -1;\n  div.u32 %r5, %r5, %r17;\n" +
                  turns_of_consumer);
}

TEST_CASE("a quotient says how many tiles a CTA has") {
  const std::string turns = "  shl.b32 %r5, %r5, 1;\n";
  const ScheduleProof proof = proof_of(tiles(turns));
  CHECK_MESSAGE(proof.verdict == Verdict::proved, text(proof));
  CHECK(proof_of(tiles(turns + "  sub.u32 %r5, %r5, 1;\n")).verdict != Verdict::proved);
  CHECK(proof_of(tiles(turns + "  add.u32 %r5, %r5, 1;\n")).verdict != Verdict::proved);
}

TEST_CASE("if a fault needs more turns than there are stages, they are followed") {
  // The third turn of the consumer releases the other stage.
  check_refused(kRelease, "  setp.eq.u32 %p5, %r6, 4;\n  @%p5 xor.b32 %r11, %r11, 8;\n" + kRelease, "");
}

void check_proved(const std::string& kernel) {
  const ScheduleProof proof = proof_of(kernel);
  const std::string said = text(proof);
  CHECK_MESSAGE(proof.verdict == Verdict::proved, said);
}

TEST_CASE("a wait needs an arrival after it, and the preceding phase before it") {
  // A second warp of consumers that neither reads nor releases may be late.
  std::string late = with(ring(), ".reqntid 64", ".reqntid 96");
  late = with(late, kRelease, "  setp.lt.u32 %p5, %r1, 64;\n  @%p5 " + kRelease.substr(2));
  late = with(late, "  ld.shared", "  setp.lt.u32 %p5, %r1, 64;\n  @%p5 ld.shared");
  check_says(late, "may miss its phase");
  check_proved(with(with(late, "[empty], 32;", "[empty], 64;"), "  @%p5 mbarrier", "  mbarrier")
                   .replace(late.find("[empty+8], 32"), 13, "[empty+8], 64"));
  // A warp waits for the second phase of a stage without having waited for the first.
  std::string early = with(ring(), ".reqntid 64", ".reqntid 96");
  early = with(early, "  setp.ge.u32 %p2, %r1, 32;\n  @%p2 bra CONSUME;\n",
               "  setp.lt.u32 %p5, %r1, 32;\n  @%p5 bra LATER;\n  setp.lt.u32 %p2, %r1, 64;\n"
               "  @%p2 bra CONSUME;\n  setp.ne.u32 %p1, %r1, 64;\n");
  early = with(early, "CONSUME:\n",
               "LATER:\n  mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 1;\n  @!%p4 bra LATER;\n"
               "  bra END;\nCONSUME:\n");
  check_says(early, "may end with an earlier phase of the same parity");
}

TEST_CASE("a test of an mbarrier before the wait") {
  const std::string test = "  mbarrier.test_wait.parity.shared::cta.b64 %p4, [%r10], %r7;\n  @%p4 bra GOT;\n";
  const std::string tested = with(with(ring(), kFull, test + kFull), "  ld.shared", "GOT:\n  ld.shared");
  check_proved(tested);
  const std::string wrong = with(tested, test, "  xor.b32 %r18, %r7, 1;\n" + with(test, "%r7", "%r18"));
  check_says(wrong, "may find an earlier phase");
}

TEST_CASE("generic writes before a copy need a proxy fence") {
  const std::string written = with(ring(), kRelease, "  st.shared.u32 [%r13], %r15;\n" + kRelease);
  check_says(written, "without fence.proxy.async");
  check_proved(with(written, kRelease, "  fence.proxy.async.shared::cta;\n" + kRelease));
}

TEST_CASE("the bytes of a tensor map's box are between those that are read and the room") {
  const std::string tensor =
      with(ring(),
           "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r13], [%rd1], 128, [%r10];",
           "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r13], [%rd1, "
           "{%r6}], [%r10];");
  check_proved(tensor);
  CHECK(proof_of(with(tensor, "_, [%r10], 128;", "_, [%r10], 144;"))
            .what.find("its copies have room for 128") != std::string::npos);
  check_says(with(tensor, "_, [%r10], 128;", "_, [%r10], 112;"),
             "128 of the bytes that its copies transfer are read");
}

TEST_CASE("a CTA of a cluster must exist while another uses its memory") {
  const std::string cluster = with(ring(), ".reqntid 64\n", ".reqntid 64\n.reqnctapercluster 2, 1, 1\n");
  check_proved(cluster);
  const std::string read =
      "  mapa.shared::cluster.u32 %r19, %r2, 1;\n  ld.shared::cluster.u32 %r20, [%r19+8];\n";
  const std::string barrier = "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n";
  CHECK(proof_of(with(cluster, "  bar.sync 0;\n", "  bar.sync 0;\n" + read))
            .what.find("CTA 1 may not have begun") != std::string::npos);
  const std::string begun = with(cluster, "  bar.sync 0;\n", barrier + read);
  check_says(begun, "CTA 1 may end before this is complete");
  check_proved(with(begun, "END:\n", "END:\n" + barrier));
}

TEST_CASE("unknown values prevent a proof") {
  const auto undecided = [](const std::string& from, const std::string& to, const std::string& says) {
    const ScheduleProof proof = proof_of(with(ring(), from, to));
    CHECK_MESSAGE(proof.verdict == Verdict::undecided, text(proof));
    CHECK_MESSAGE(proof.what.find(says) != std::string::npos, text(proof));
    return proof;
  };
  undecided(".reqntid 64\n", "", "states the number of threads");
  // The number of the stage that is read is loaded from memory.
  const auto proof =
      undecided(kOfLane, "  ld.volatile.global.u32 %r16, [%rd1];\n  add.u32 %r13, %r13, %r16;\n",
                "depends on the result of line");
  CHECK(proof.line > 0);
  CHECK(
      proof_of(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry none() { ret; }\n").verdict ==
      Verdict::undecided);
}

TEST_CASE("a kernel without its end, and instructions without operands, are read") {
  CHECK(text(proof_of(with(ring(), "END:\n  ret;\n", "END:\n"))).starts_with("proved"));
  CHECK(proof_of(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry none() { }\n").verdict ==
        Verdict::undecided);
  for (const char* lacking :
       {"cp.async.cg.shared.global [full];", "st.shared.u32 [full];", "st.shared.u32 [];",
        "bar.smov.b64 %rd1, full;", "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1};",
        "ld.shared.u32 %r15;", "mbarrier.init.shared::cta.b64 [full];"}) {
    CAPTURE(std::string(lacking));
    CHECK(proof_of(with(ring(), kRead, "  " + std::string(lacking) + "\n")).verdict != Verdict::proved);
  }
}

TEST_CASE("an invalid launch is undecided") {
  for (const char* launch :
       {".maxntid 1242949672958", ".maxntid 2048", ".reqntid 9223372036854775807, 1024, 1024",
        ".reqntid 64\n.reqnctapercluster 4294967295", ".reqntid 64\n.reqnctapercluster 0"}) {
    CAPTURE(std::string(launch));
    const ScheduleProof p = proof_of(with(ring(), ".reqntid 64", launch));
    CHECK(p.verdict == Verdict::undecided);
  }
}

TEST_CASE("an empty problem that hangs is reported as an assumption") {
  // The consumer makes at least one turn.
  const ScheduleProof proof = proof_of(with(with(ring(), kTest, "CONSUME_NEXT:\n"), "  bra CONSUME_NEXT;",
                                            "  setp.lt.u32 %p3, %r6, %r5;\n  @%p3 bra CONSUME_NEXT;"));
  CHECK_MESSAGE(proof.verdict == Verdict::proved, text(proof));
  REQUIRE(!proof.assumed.empty());
  CHECK(proof.assumed[0].starts_with("param(turns) is at least 1, since otherwise"));
}

TEST_CASE("our kernels are proved for all schedules") {
  for (const char* name :
       {"add_exchange", "add_multicast", "attention", "attention_gradient", "attention_step", "gemm",
        "gemm_multistage", "gemm_persistent", "gemm_pingpong", "gemm_tma_mma_sync", "gemm_tma_wgmma",
        "gemm_tma_register_a", "gemm_warp_specialized"}) {
    const ScheduleProof proof = proof_of(test::golden(name));
    CAPTURE(name);
    CHECK_MESSAGE(proof.verdict == Verdict::proved, text(proof));
  }
}

TEST_CASE("faults of CTAs that store to each other's shared memory are found") {
  const std::string exchange = test::golden("add_exchange");
  const auto verdict = [&](const std::string& mutant) { return proof_of(mutant).verdict; };
  CHECK(verdict(with(exchange, "], 16384;", "], 16368;")) == Verdict::refuted);
  CHECK(verdict(with(exchange, "], 16384;", "], 16400;")) == Verdict::refuted);
  CHECK(verdict(with(exchange, "parity.acquire.cluster", "parity.relaxed.cluster")) == Verdict::refuted);
  CHECK(verdict(with(with(exchange, "barrier.cluster.arrive.aligned;", ""), "barrier.cluster.wait.aligned;",
                     "")) == Verdict::refuted);
}

}  // namespace
}  // namespace ptxbuilder::analysis::prove_schedules_test
