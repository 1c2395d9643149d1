// Tests the lint: each rule must find the faults that are planted in a correct kernel. Lint must find nothing
// in that kernel, in the library's own kernels, or in correct kernels that resemble faults.
#include "ptxbuilder/analysis/lint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <vector>

#include "tests/kit/error_kit.h"
#include "tests/kit/lint_kit.h"
#include "tests/kit/ptx_disguise.h"

namespace ptxbuilder::test::lint_test {
using namespace analysis;

namespace {

// A producer and four consumer warps use a ring of two stages. The consumers store twice from one buffer.
constexpr const char* kKernel = R"(.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .align 64 .b8 in[128], .param .align 64 .b8 out[128], .param .u32 n)
.maxntid 256
.minnctapersm 1
{
	.reg .pred %p<16>;
	.reg .b32 %r<64>;
	.reg .b64 %rd<16>;
	.reg .f32 %f<8>;
	mov.b64 %rd1, in;
	cvta.param.u64 %rd2, %rd1;
	mov.b64 %rd3, out;
	cvta.param.u64 %rd4, %rd3;
	ld.param.b32 %r1, [n];
	mov.u32 %r2, %tid.x;
	mov.b32 %r3, smem;
	setp.ne.b32 %p1, %r2, 0;
	@%p1 bra READY;
	mbarrier.init.shared::cta.b64 [%r3+32768], 1;
	mbarrier.init.shared::cta.b64 [%r3+32776], 1;
	mbarrier.init.shared::cta.b64 [%r3+32784], 4;
	mbarrier.init.shared::cta.b64 [%r3+32792], 4;
	fence.mbarrier_init.release.cluster;
READY:
	bar.sync 0;
	setp.lt.u32 %p2, %r2, 128;
	@%p2 bra PRODUCER;
	setmaxnreg.inc.sync.aligned.u32 232;
	mov.b32 %r5, 0;
	mov.b32 %r6, 0;
	mov.b32 %r7, 0;
LOOP:
	setp.ge.u32 %p3, %r7, %r1;
	@%p3 bra STORE;
	shl.b32 %r8, %r5, 3;
	add.s32 %r9, %r3, %r8;
WAIT:
	mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r9+32768], %r6;
	@!%p4 bra WAIT;
	shl.b32 %r10, %r5, 14;
	add.s32 %r11, %r3, %r10;
	bfe.u32 %r12, %r11, 4, 14;
	cvt.u64.u32 %rd5, %r12;
	or.b64 %rd6, %rd5, 4611686293305360384;
	add.s32 %r13, %r11, 8192;
	bfe.u32 %r14, %r13, 4, 14;
	cvt.u64.u32 %rd7, %r14;
	or.b64 %rd8, %rd7, 4611686293305360384;
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd6, %rd8, 1, 1, 1, 0, 0;
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 0;
	mov.u32 %r15, %laneid;
	setp.eq.b32 %p5, %r15, 0;
	@%p5 mbarrier.arrive.shared::cta.b64 _, [%r9+32784];
	add.s32 %r16, %r5, 1;
	setp.eq.b32 %p6, %r16, 2;
	selp.b32 %r17, 1, 0, %p6;
	selp.b32 %r5, 0, %r16, %p6;
	xor.b32 %r6, %r6, %r17;
	add.s32 %r7, %r7, 1;
	bra.uni LOOP;
STORE:
	and.b32 %r20, %r2, 127;
	shl.b32 %r21, %r20, 4;
	add.s32 %r22, %r3, 33024;
	add.s32 %r23, %r22, %r21;
	setp.ne.b32 %p7, %r20, 0;
	st.shared.v4.f32 [%r23], {%f0, %f1, %f2, %f3};
	fence.proxy.async.shared::cta;
	bar.sync 1, 128;
	@%p7 bra STORED;
	cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {%r1, %r1}], [%r22];
	cp.async.bulk.commit_group;
	cp.async.bulk.wait_group.read 0;
STORED:
	bar.sync 2, 128;
	st.shared.v4.f32 [%r23], {%f3, %f2, %f1, %f0};
	fence.proxy.async.shared::cta;
	bar.sync 1, 128;
	@%p7 bra END;
	cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {%r1, %r1}], [%r22];
	cp.async.bulk.commit_group;
	cp.async.bulk.wait_group 0;
END:
	ret;
PRODUCER:
	setmaxnreg.dec.sync.aligned.u32 40;
	@%p1 bra END;
	mov.b32 %r30, 0;
	mov.b32 %r31, 1;
	mov.b32 %r32, 0;
FILL:
	setp.ge.u32 %p8, %r32, %r1;
	@%p8 bra END;
	shl.b32 %r33, %r30, 3;
	add.s32 %r34, %r3, %r33;
WAIT_EMPTY:
	mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r34+32784], %r31;
	@!%p9 bra WAIT_EMPTY;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r34+32768], 9216;
	shl.b32 %r35, %r30, 14;
	add.s32 %r36, %r3, %r35;
	cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r36], [%rd2, {%r32, %r32}], [%r34+32768];
	cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r36+8192], [%rd2, {%r32, %r32}], [%r34+32768];
	add.s32 %r37, %r30, 1;
	setp.eq.b32 %p10, %r37, 2;
	selp.b32 %r38, 1, 0, %p10;
	selp.b32 %r30, 0, %r37, %p10;
	xor.b32 %r31, %r31, %r38;
	add.s32 %r32, %r32, 1;
	bra.uni FILL;
}
)";

std::vector<Finding> findings_of(const std::string& text,
                                 const std::set<std::string, std::less<>>& allowed = {}) {
  return lint(ptx_text::parse(text), "", allowed);
}

std::string replaced(std::string text, const std::string& from, const std::string& to, int place = 1) {
  size_t at = std::string::npos;
  for (int i = 0; i < place; ++i) at = text.find(from, at + 1);
  CAPTURE(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string shown(const std::vector<Finding>& findings) {
  std::string all;
  for (const Finding& f : findings) all += text(f) + "\n";
  return all;
}

// A fault that is planted in kKernel: `to` replaces occurrence number `place` of `from`, and the rule's
// finding must contain `says`.
struct Plant {
  const char* rule;
  const char* from;
  const char* to;
  const char* says = "";
  int place = 1;
};

constexpr const char* kWait = "\tcp.async.bulk.wait_group.read 0;\n";

constexpr const char* kArrive = "\tmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r34+32768], 9216;\n";
constexpr const char* kArriveAndCopy =
    "\tmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r34+32768], 9216;\n"
    "\tshl.b32 %r35, %r30, 14;\n"
    "\tadd.s32 %r36, %r3, %r35;\n"
    "\tcp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r36], [%rd2, {%r32, "
    "%r32}], "
    "[%r34+32768];\n";
constexpr const char* kTwoExpect =
    "\tmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r34+32768], 8192;\n"
    "\tmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r34+32768], 8208;\n";

// Returns a second product of the stage. Its descriptor of B is derived from another descriptor.
std::string second_product(const std::string& b) {
  return "\tadd.s64 %rd10, " + b +
         ";\n\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd6, %rd10, 1, 1, "
         "1, 0, "
         "0;\n\twgmma.commit_group.sync.aligned;\n";
}
constexpr const char* kCommit = "\twgmma.commit_group.sync.aligned;\n";
const std::string kSameSwizzle = second_product("%rd8, 2"),
                  kTwoSwizzles = second_product("%rd8, 4611686018427387906"),
                  kTwoTiles = second_product("%rd6, 4611686018427387904"),
                  kTileBehind =
                      second_product("%rd8, 4611686018427388032");  // 2048 bytes after the other tile
constexpr const char* kRelease =
    "\twgmma.wait_group.sync.aligned 0;\n"
    "\tmov.u32 %r15, %laneid;\n"
    "\tsetp.eq.b32 %p5, %r15, 0;\n"
    "\t@%p5 mbarrier.arrive.shared::cta.b64 _, [%r9+32784];\n";
constexpr const char* kEarlyRelease =
    "\tmov.u32 %r15, %laneid;\n"
    "\tsetp.eq.b32 %p5, %r15, 0;\n"
    "\t@%p5 mbarrier.arrive.shared::cta.b64 _, [%r9+32784];\n"
    "\twgmma.wait_group.sync.aligned 0;\n";

const Plant kPlants[] = {
    {"wgmma-fence", "\twgmma.fence.sync.aligned;\n", "", "the kernel began"},
    {"wgmma-fence", "\twgmma.fence.sync.aligned;\n", "\twgmma.fence.sync.aligned;\n\tmov.f32 %f1, %f5;\n",
     "for its accumulators"},
    {"wgmma-registers", "wait_group.sync.aligned 0", "wait_group.sync.aligned 1",
     "the group committed last before"},
    {"wgmma-registers", "\twgmma.commit_group.sync.aligned;\n", "", "a group that is not committed"},
    {"wgmma-groups", "\twgmma.commit_group.sync.aligned;\n", "", "is not committed"},
    {"wgmma-groups", "\twgmma.wait_group.sync.aligned 0;\n", "", "no wgmma.wait_group waits"},
    {"wgmma-layout", kCommit, kTwoSwizzles.c_str(),
     "descriptor of B in this wgmma has swizzle 64, but others of the same tile have swizzle 128"},
    {"proxy-fence", "\tfence.proxy.async.shared::cta;\n", "", "data that st.shared.v4.f32 wrote"},
    {"proxy-fence", "\tfence.proxy.async.shared::cta;\n", "", "data that st.shared.v4.f32 wrote", 2},
    {"store-barrier", "\tbar.sync 1, 128;\n", "", "without a barrier between them", 2},
    {"staging-reuse", kWait, "", "no cp.async.bulk.wait_group comes between them"},
    {"staging-reuse", kWait, "\tcp.async.bulk.wait_group.read 1;\n", "may still read"},
    {"staging-reuse", "\tbar.sync 2, 128;\n", "", "no barrier follows"},
    {"bulk-groups", "\tcp.async.bulk.wait_group 0;\n", "", "no cp.async.bulk.wait_group waits"},
    {"bulk-groups", "\tcp.async.bulk.commit_group;\n", "", "is not committed", 2},
    {"barrier-fence", "\tfence.mbarrier_init.release.cluster;\n", "", "no fence"},
    {"barrier-published", "\tfence.mbarrier_init.release.cluster;\n", "\tbarrier.cluster.arrive.relaxed;\n",
     "no fence"},
    {"barrier-fence", "\tfence.mbarrier_init.release.cluster;\n", "\tbarrier.cluster.arrive;\n", "no fence"},
    {"barrier-published", "\tbar.sync 0;\n", "", "without a barrier after"},
    {"barrier-initialised", "\tmbarrier.init.shared::cta.b64 [%r3+32776], 1;\n", "",
     "shared memory + 32776 is used but never initialised"},
    {"arrival-count", "[%r3+32784], 4;", "[%r3+32784], 5;",
     "initialised for 5 arrivals, but 4 threads arrive"},
    {"arrival-count", "[%r3+32784], 4;", "[%r3+32784], 3;",
     "initialised for 3 arrivals, but 4 threads arrive"},
    {"arrival-count", "\t@%p5 mbarrier.arrive", "\tmbarrier.arrive", "but 128 threads arrive"},
    {"arrival-count", "\t@%p5 mbarrier.arrive.shared::cta.b64 _, [%r9+32784];\n", "", "no thread arrives"},
    {"expected-bytes", "], 9216;", "], 16400;",
     "16400 bytes are expected, but the destination of the copies has room for 16384"},
    {"expected-bytes", "], 9216;", "], 2288;",
     "2288 bytes are expected, but 2304 of the copied bytes are read"},
    {"expected-bytes", kArrive, kTwoExpect,
     "16400 bytes are expected, but the destination of the copies has room for 16384"},
    {"expected-bytes", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r34+32768], 9216;",
     "mbarrier.arrive.shared::cta.b64 _, [%r34+32768];", "no expect_tx announces them"},
    {"expected-bytes", "shl.b32 %r35, %r30, 14;", "mul.lo.u32 %r35, %r30, 8704;",
     "9216 bytes are expected, but the destination of the copies has room for 8704"},
    {"stage-overlap", "shl.b32 %r35, %r30, 14;", "shl.b32 %r35, %r30, 13;",
     "copies of two stages of a ring go to shared memory + 8192"},
    {"stage-overlap", "add.s32 %r36, %r3, %r35;", "mov.b32 %r36, %r3;",
     "copies of two stages of a ring go to shared memory + 0"},
    {"schedule", "\t@%p5 mbarrier.arrive.shared::cta.b64 _, [%r9+32784];",
     "\txor.b32 %r18, %r9, 8;\n\t@%p5 mbarrier.arrive.shared::cta.b64 _, [%r18+32784];",
     "may miss its phase"},
    {"stage-release", kRelease, kEarlyRelease, "frees a stage that wgmma may still read"},
    {"stage-release", "\twgmma.wait_group.sync.aligned 0;\n",
     "\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 2;\n",
     "frees a stage that wgmma may still read"},
    {"wait", "\t@!%p4 bra WAIT;\n", "", "the result of this wait is not used"},
    {"wait", "\t@!%p4 bra WAIT;\n", "\tnot.pred %p12, %p4;\n\tselp.b32 %r40, 1, 0, %p12;\n",
     "the result of this wait is not used"},
    {"wait", "\t@!%p4 bra WAIT;\n", "\tsetp.eq.b32 %p4, %r5, 9;\n\t@%p4 bra STORE;\n",
     "the result of this wait is not used"},
    {"stage-refill", "mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r34+32784], %r31",
     "setp.eq.u32 %p9, 0, 0", "overwrites data that others read, but its loop does not wait"},
    {"wait", "mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r9+32768], %r6", "setp.eq.u32 %p4, 0, 0",
     "nobody waits for the mbarrier at shared memory + 32768"},
    {"parity", "\txor.b32 %r6, %r6, %r17;\n", "", "parity 0 each time"},
    {"parity", "\txor.b32 %r31, %r31, %r38;\n", "", "parity 1 each time"},
    {"parity", "mov.b32 %r6, 0;", "mov.b32 %r6, 1;", "passes before any copy"},
    {"circular-wait", "mov.b32 %r31, 1;", "mov.b32 %r31, 0;", "is for parity 0"},
    {"register-bound", ".maxntid 256\n.minnctapersm 1\n", "", "ptxas ignores setmaxnreg"},
    {"target", ".version 8.0\n", "", "there is no .version"},
    {"target", ".target sm_90a\n", "", "there is no .target"},
    {"target", ".version 8.0", ".version 7.8", "the target sm_90a needs 8.0"},
    {"target", ".version 8.0", ".version 7.9", "'.version 7.9' is not a version of PTX"},
    {"target", ".target sm_90a", ".target sm_91", "'.target sm_91' is not a target of PTX 9.0"},
    {"target", ".target sm_90a", ".target sm_90", "needs sm_90a"},
    {"target", "mov.u32 %r15, %laneid;",
     "mov.u32 %r15, %laneid; ld.global.v8.b32 {%r40,%r41,%r42,%r43,%r44,%r45,%r46,%r47}, [%rd2];",
     "ld.global.v8.b32 needs 8.8"},
    {"declaration", ".address_size 64", ".address_size 16", "'.address_size 16' is neither 32 nor 64"},
    {"declaration", ".minnctapersm 1", ".minnctapersm 0", "'.minnctapersm' has 0"},
    {"declaration", ".minnctapersm 1", ".minctaspersm 1", "'.minctaspersm' is not a directive of PTX"},
    {"declaration", ".reg .f32 %f<8>;", ".reg .f32 %f<8>; .local .b8 l[4]; .local .b32 l;",
     "the variable 'l' is already declared in line"},
    {"declaration", ".reg .f32 %f<8>;", ".reg .f32 %f<4000000000>;", "more registers than ptxas can handle"},
    {"declaration", ".reg .f32 %f<8>;", ".reg .f32 %f<8>; .local .b8 l[2*2];", "has an extent of '2*2'"},
    {"declaration", ".reg .f32 %f<8>;", ".reg .f32 %f<8>; .nosuch 1;", "'.nosuch' is not a directive"},
    {"declaration", ".visible", ".global .b32 g[2] = {1, 2, 3};\n.visible",
     "has 3 elements instead of at most 2"},
    {"declaration", ".visible", ".global .b32 g[2] = {{1}, 2};\n.visible", "lists within 1 lists"},
    {"constant", "mov.u32 %r15, %laneid;",
     "mov.u32 %r15, %laneid; createpolicy.fractional.L2::evict_last.b64 %rd9, 9.5;", "the fraction is 9.5"},
    {"constant", "mov.u32 %r15, %laneid;",
     "mov.u32 %r15, %laneid; cp.async.ca.shared.global [%r3], [%rd2], 16, 17;",
     "17 bytes are read for a copy of 16"},
    {"register-pool", ".minnctapersm 1", ".minnctapersm 2",
     "request 34816 registers together, but the CTA begins with 32768"},
    {"divergent-aligned", "\tbar.sync 2, 128;\n", "\t@!%p7 bar.sync 2, 128;\n",
     "1 of the 32 lanes of warp 4"},
    {"named-barrier", "bar.sync 2, 128;", "bar.sync 2, 160;", "barrier 2 is for 160 threads, but 128 reach"},
    {"named-barrier", "bar.sync 2, 128;", "bar.sync 2, 100;", "not whole warps"},
    {"named-barrier", "bar.sync 2, 128;", "bar.arrive 2, 288;\n\tbar.sync 2, 288;",
     "barrier 2 is for 288 threads, but 256 reach"},
    {"undeclared", "shl.b32 %r8, %r5, 3;", "shl.b32 %r8, %x5, 3;", "'%x5' is not declared"},
    {"undeclared", "{%f3, %f2, %f1, %f0}", "{%f3, %f2, %f4096, %f0}", "'%f4096' is not declared"},
    {"undeclared", "mov.b32 %r3, smem;", "mov.b32 %r3, smen;", "'smen' is not declared"},
    {"unknown-instruction", "add.s32 %r7, %r7, 1;", "adds.s32 %r7, %r7, 1;",
     "'adds' is not an instruction of PTX 9.0"},
    {"unknown-instruction", "add.s32 %r7, %r7, 1;", "add.sat.u32 %r7, %r7, 1;",
     "'add.sat.u32' is not an instruction of PTX 9.0: add.u32 is nearest: .sat is one word too many"},
    {"variable-alignment", ".align 1024", ".align 1536", "'smem' has .align 1536"},
    {"variable-alignment", ".param .align 64 .b8 out", ".param .align 0 .b8 out", "'out' has .align 0"},
    {"variable-alignment", "\t.reg .pred %p<16>;\n",
     "\t.reg .pred %p<16>;\n\t{ .local .align 3 .b8 l[3]; }\n", "'l' has .align 3"},
    {"register-count", "u32 232;", "u32 228;", "setmaxnreg has 228 registers"},
    {"register-count", "u32 40;", "u32 16;", "setmaxnreg has 16 registers"},
    {"register-count", "u32 232;", "u32 264;", "setmaxnreg has 264 registers"},
    {"generic-address", "st.shared.v4.f32", "st.v4.f32", "of a .shared variable", 2},
    {"misaligned", "add.s32 %r22, %r3, 33024;", "add.s32 %r22, %r3, 33032;", "is 8 bytes past a multiple"},
    {"misaligned", "add.s32 %r22, %r3, 33024;", ".shared .align 16 .b8 own[8192]; mov.b32 %r22, own;",
     "aligned to 16"},
    {"misaligned", "[%r36+8192]", "[%r36+8208]", "is 16 bytes past a multiple"},
    {"bank-conflict", "shl.b32 %r21, %r20, 4;", "shl.b32 %r21, %r20, 5;", "need 2 wavefronts instead of 1"},
    {"bank-conflict", "shl.b32 %r21, %r20, 4;", "shl.b32 %r21, %r20, 7;", "need 8 wavefronts instead of 1"},
    {"version", ".version 8.0", ".version 8.6", "the version is 8.6"},
};

// These changes are correct, although they resemble faults.
const Plant kTwins[] = {
    {"wgmma-layout", kCommit, kSameSwizzle.c_str()},
    // A and B may have different swizzles, and so may two tiles of B.
    {"wgmma-layout", "or.b64 %rd8, %rd7, 4611686293305360384;", "or.b64 %rd8, %rd7, -9223371761976803328;"},
    {"wgmma-layout", kCommit, kTwoTiles.c_str()},
    {"wgmma-layout", kCommit, kTileBehind.c_str()},
    {"wgmma-fence", "\twgmma.fence.sync.aligned;\n", "\tmov.f32 %f1, %f5;\n\twgmma.fence.sync.aligned;\n"},
    {"wgmma-registers", "\twgmma.wait_group.sync.aligned 0;\n",
     "\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 1;\n"},
    {"wgmma-groups", "\twgmma.wait_group.sync.aligned 0;\n",
     "\twgmma.wait_group.sync.aligned 0;\n\twgmma.commit_group.sync.aligned;\n"},
    {"proxy-fence", "\tst.shared.v4.f32 [%r23], {%f3, %f2, %f1, %f0};\n\tfence.proxy.async.shared::cta;\n",
     "\tst.shared.v4.f32 [%r23+65536], {%f3, %f2, %f1, %f0};\n\tfence.proxy.async.shared::cta;\n"},
    {"staging-reuse", "\tbar.sync 2, 128;\n\tst.shared.v4.f32 [%r23]",
     "\tbar.sync 2, 128;\n\tst.shared.v4.f32 [%r23+4096]"},
    {"bulk-groups", "\tcp.async.bulk.wait_group 0;\n", "\tcp.async.bulk.wait_group.read 0;\n"},
    {"barrier-published", "\tfence.mbarrier_init.release.cluster;\n", "\tfence.proxy.async.shared::cta;\n"},
    {"arrival-count", "_, [%r9+32784];", "_, [%r9+32784], 1;"},
    {"expected-bytes", "], 9216;", "], 16384;"},
    {"expected-bytes", "], 9216;", "], 2304;"},
    {"expected-bytes", kArrive,
     "\tmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r34+32768], 1024;\n"
     "\tmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r34+32768], 2048;\n"},
    {"expected-bytes", kArrive,
     "\tmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r34+32768], 1024;\n"
     "\tmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r34+32768], 2048;\n"},
    {"expected-bytes", kArriveAndCopy,
     "\tmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r34+32768], 8192;\n"
     "\tshl.b32 %r35, %r30, 14;\n"
     "\tadd.s32 %r36, %r3, %r35;\n"
     "\tcp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r36], [%rd2, {%r32, "
     "%r32}], [%r34+32768];\n"
     "\tmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r34+32768], 1024;\n"},
    {"stage-overlap", "shl.b32 %r35, %r30, 14;", "mul.lo.u32 %r35, %r30, 9216;"},
    {"stage-release", "\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n",
     "\twgmma.commit_group.sync.aligned;\n\twgmma.commit_group.sync.aligned;\n"
     "\twgmma.wait_group.sync.aligned 1;\n"},
    {"wait", "\t@!%p4 bra WAIT;\n",
     "\tselp.b32 %r40, 1, 0, %p4;\n\tsetp.ne.b32 %p12, %r40, 0;\n\tnot.pred %p13, %p12;\n\t@%p13 bra "
     "WAIT;\n"},
    {"register-bound", ".minnctapersm 1", ".maxnreg 168"},
    {"register-bound", ".minnctapersm 1\n", ""},
    {"declaration", ".reg .f32 %f<8>;", ".reg .f32 %f<8>; .local .b8 l[4]; { .local .b8 l[4]; }"},
    {"declaration", ".visible", ".global .b32 g[2][2] = {{1}, {2}};\n.global .b8 h[] = {1, 2};\n.visible"},
    {"constant", "mov.u32 %r15, %laneid;",
     "mov.u32 %r15, %laneid; mov.f32 %f0, 0F3f800000; createpolicy.fractional.L2::evict_last.b64 %rd9, 1.0;"},
    {"named-barrier", "bar.sync 2, 128;", "bar.sync 2, 128;\n\tbar.sync 0;"},
    // A thread that arrives and also waits counts twice.
    {"named-barrier", "bar.sync 2, 128;", "bar.arrive 2, 256;\n\tbar.sync 2, 256;"},
    {"undeclared", "shl.b32 %r8, %r5, 3;", "{ .reg .b32 x; mov.b32 x, %r5; shl.b32 %r8, x, 3; }"},
    {"undeclared", "mov.u32 %r15, %laneid;",
     "mov.u32 %r15, %laneid; mov.u32 %r40, WARP_SZ; mov.u32 %r41, %envreg3; mov.u64 %rd9, %clock64;"},
    {"variable-alignment", ".align 1024", ".align 2048"},
    {"register-count", "u32 232;", "u32 24;"},
    {"generic-address", "ld.param.b32 %r1, [n];",
     "ld.param.b32 %r1, [n];\n\tld.param.b64 %rd9, [in];\n\tld.u32 %r40, [%rd9];"},
    {"misaligned", "add.s32 %r22, %r3, 33024;", "add.s32 %r22, %r3, 33152;"},
    {"misaligned", ".align 1024", ".align 16"},  // a single variable is at the start of shared memory
    {"register-pool", "\tsetmaxnreg.dec.sync.aligned.u32 40;\n",
     "\tsetmaxnreg.dec.sync.aligned.u32 40;\n\tsetmaxnreg.inc.sync.aligned.u32 232;\n"
     "\tsetmaxnreg.dec.sync.aligned.u32 40;\n"},
    {"bank-conflict", "\tshl.b32 %r21, %r20, 4;\n", "\tshl.b32 %r40, %r20, 4;\n\txor.b32 %r21, %r40, 64;\n"},
    {"version", "mov.u32 %r15, %laneid;", "mov.u32 %r15, %laneid; mov.u32 %r40, %laneid;"},
};

std::string golden(const std::string& name) {
  std::ifstream file(PTXBUILDER_TEST_DIR "/golden/" + name + ".ptx");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> golden_kernels() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(PTXBUILDER_TEST_DIR "/golden"))
    if (entry.path().extension() == ".ptx") names.push_back(entry.path().stem());
  return names;
}

// Returns the findings without what a disguise changes: lines, quoted names, and names of parameters.
std::vector<std::string> meanings(const std::vector<Finding>& findings) {
  std::vector<std::string> all;
  for (const Finding& f : findings) {
    std::string what = f.what;
    if (const size_t quote = what.find('\''); quote != std::string::npos)
      what.erase(quote, what.find('\'', quote + 1) - quote);
    what = what.substr(0, what.find("; where "));
    all.push_back(std::string(f.rule) + ": " + what);
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("planted faults are found, and nothing is found in the kernel itself") {
  CHECK(shown(findings_of(kKernel)) == "");
  // These rules have their own kernels, below and in emulator_faults_test.
  std::set<std::string> planted = {"tensor-memory-wait", "tensor-memory-fence", "constant-space",
                                   "cluster-exit",       "copy-wait",           "stage-refill",
                                   "cluster-entry",      "cluster-address"};
  for (const Plant& plant : kPlants) {
    CAPTURE(std::string(plant.rule));
    CAPTURE(std::string(plant.to));
    planted.insert(plant.rule);
    const std::vector<Finding> findings = findings_of(replaced(kKernel, plant.from, plant.to, plant.place));
    CAPTURE(shown(findings));
    CHECK(std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
      return f.rule == plant.rule && f.what.find(plant.says) != std::string::npos && f.line > 0 &&
             !f.cure.empty();
    }));
  }
  for (const RuleText& rule : lint_rules()) {
    CAPTURE(std::string(rule.name));
    CHECK(planted.contains(std::string(rule.name)));
  }
}

TEST_CASE("correct variants pass") {
  for (const Plant& twin : kTwins) {
    CAPTURE(std::string(twin.rule));
    CAPTURE(std::string(twin.to));
    CHECK(shown(findings_of(replaced(kKernel, twin.from, twin.to))) == "");
  }
}

TEST_CASE("the advice concerns the awaited barrier, and names each possibility") {
  const auto cure = [](const char* from, const char* to) {
    const std::vector<Finding> findings = findings_of(replaced(kKernel, from, to));
    CAPTURE(shown(findings));
    REQUIRE(findings.size() == 1);
    return std::string(findings[0].cure);
  };
  CHECK(cure("\txor.b32 %r6, %r6, %r17;\n", "").find("begin with parity 0") != std::string::npos);
  CHECK(cure("mov.b32 %r6, 0;", "mov.b32 %r6, 1;").find("begin with parity 0") != std::string::npos);
  CHECK(cure("\txor.b32 %r31, %r31, %r38;\n", "").find("begin with parity 1") != std::string::npos);
  const std::string arrivals = cure("[%r3+32784], 4;", "[%r3+32784], 5;");
  CHECK(arrivals.find("An arrival is missing") != std::string::npos);
  CHECK(arrivals.find("the count is wrong") != std::string::npos);
}

TEST_CASE("a register is declared only in its block") {
  const std::string inner = "{ .reg .b32 inner; mov.b32 inner, 0; }\n";
  CHECK(shown(findings_of(replaced(kKernel, "READY:\n", inner + "READY:\n"))) == "");
  CHECK(
      shown(findings_of(replaced(kKernel, "add.s32 %r22, %r3, 33024;", inner + "add.s32 %r22, %r3, inner;")))
          .find("'inner' is not declared") != std::string::npos);
}

TEST_CASE("a later version may have instructions that are not known") {
  const std::string unknown = replaced(kKernel, "add.s32 %r7, %r7, 1;", "adds.s32 %r7, %r7, 1;");
  CHECK(test::rules_that_find(unknown) == std::set<std::string>{"unknown-instruction"});
  CHECK(test::rules_that_find(replaced(unknown, ".version 8.0", ".version 9.0")) ==
        std::set<std::string>{"unknown-instruction"});
  CHECK(test::rules_that_find(replaced(unknown, ".version 8.0", ".version 9.1")).empty());
}

TEST_CASE("a stage is freed too early in a loop that begins after its end") {
  const std::string text = golden("gemm_multistage");
  const std::string wait = "\twgmma.wait_group.sync.aligned 0;\n", arrive = "_, [%r371];\n";
  const std::string early = replaced(replaced(text, wait, ""), arrive, arrive + wait);
  CHECK(test::found_in_mutant(test::rules_that_find(text), early) == "stage-release");
}

// Returns kKernel with products of two steps in flight, so that each step frees the stage of the older one.
// `cell` writes the address of that stage's barrier, minus 32784, to %r61.
std::string pipelined(const std::string& cell) {
  std::string text =
      replaced(kKernel, "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;");
  text = replaced(text, "STORE:\n", "STORE:\n\twgmma.wait_group.sync.aligned 0;\n");
  return replaced(text, "\t@%p5 mbarrier.arrive.shared::cta.b64 _, [%r9+32784];\n",
                  "\tsetp.ne.b32 %p12, %r7, 0;\n\tand.pred %p5, %p5, %p12;\n" + cell +
                      "\t@%p5 mbarrier.arrive.shared::cta.b64 _, [%r61+32784];\n");
}

TEST_CASE("the stage of an earlier step is freed after the wait for its products") {
  const std::string before = R"(	setp.eq.b32 %p13, %r5, 0;
	selp.b32 %r60, 2, %r5, %p13;
	shl.b32 %r60, %r60, 3;
	add.s32 %r61, %r60, %r3;
	add.s32 %r61, %r61, -8;
)";
  const std::string ring = R"(	shl.b32 %r60, %r62, 3;
	add.s32 %r61, %r60, %r3;
	add.s32 %r60, %r62, 1;
	setp.eq.b32 %p13, %r60, 2;
	selp.b32 %r62, 0, %r60, %p13;
)";
  const std::string own = replaced(pipelined(ring), "mov.b32 %r7, 0;", "mov.b32 %r7, 0;\n\tmov.b32 %r62, 1;");
  // This kernel processes several tiles, and the ring continues from one tile to the next.
  std::string tiles = replaced(pipelined(ring), "mov.b32 %r7, 0;",
                               "mov.b32 %r63, 0;\nTILE:\n\tmov.b32 %r7, 0;\n\txor.b32 %r62, %r5, 1;");
  tiles = replaced(tiles, "@%p3 bra STORE;", "@%p3 bra NEXT;");
  tiles = replaced(tiles, "STORE:\n", R"(NEXT:
	wgmma.wait_group.sync.aligned 0;
	add.s32 %r63, %r63, 1;
	setp.lt.u32 %p14, %r63, %r1;
	@%p14 bra TILE;
STORE:
)");
  const std::string texts[] = {pipelined(before), own, tiles};
  for (const std::string& text : texts) {
    CAPTURE(text);
    // The producer loads only one tile, so that the consumers of several tiles hang.
    std::set<std::string, std::less<>> allowed;
    if (&text == &texts[2]) allowed.insert("schedule");
    CHECK(shown(findings_of(text, allowed)) == "");
    CHECK(test::found_in_mutant(test::rules_that_find(text),
                                replaced(text, "wait_group.sync.aligned 1;", "wait_group.sync.aligned 2;")) ==
          "stage-release");
  }
  // This change frees the stage of the current step instead of the previous one.
  CHECK(test::found_in_mutant(test::rules_that_find(tiles),
                              replaced(tiles, "xor.b32 %r62, %r5, 1;", "mov.b32 %r62, %r5;")) ==
        "stage-release");
}

TEST_CASE("a barrier for one warpgroup is used by one at a time") {
  const auto found = [](const std::string& text) {
    std::string all;
    for (const Finding& f : findings_of(text))
      if (f.rule == "named-barrier") all += analysis::text(f) + "\n";
    return all;
  };
  const std::string two = replaced(kKernel, ".maxntid 256", ".maxntid 384");
  CHECK(found(two).find("barrier 2 is for 128 threads, but 256 reach it here, and nothing makes threads 128 "
                        "and 256 take turns") != std::string::npos);
  const auto with = [&](const std::string& before, const std::string& number, int64_t count) {
    std::string text = replaced(two, "STORE:\n", "STORE:\n" + before);
    for (const char* bar : {"bar.sync 1, 128", "bar.sync 1, 128", "bar.sync 2, 128"})
      text = replaced(text, bar, "bar.sync " + number + ", " + std::to_string(count));
    return text;
  };
  CHECK(found(with("", "3", 256)) == "");
  CHECK(found(with("\tshr.u32 %r60, %r2, 7;\n", "%r60", 128)) == "");
  // Each warpgroup waits until the other has arrived.
  const std::string turn = R"(	shr.u32 %r60, %r2, 7;
	and.b32 %r60, %r60, 1;
	shl.b32 %r60, %r60, 3;
	add.s32 %r61, %r3, %r60;
TURN:
	mbarrier.try_wait.parity.shared::cta.b64 %p12, [%r61+40000], 0;
	@!%p12 bra TURN;
	xor.b32 %r60, %r60, 8;
	add.s32 %r61, %r3, %r60;
	mbarrier.arrive.shared::cta.b64 _, [%r61+40000];
)";
  CHECK(found(with(turn, "3", 128)) == "");
  // A branch keeps some threads away from the barrier.
  const std::string one = R"(	shr.u32 %r60, %r2, 7;
	setp.eq.u32 %p12, %r60, %r1;
	@%p12 bra END;
)";
  CHECK(found(with(one, "3", 128)) == "");
}

TEST_CASE("a rule can be left out") {
  const std::string text = replaced(kKernel, "\twgmma.fence.sync.aligned;\n", "");
  CHECK(findings_of(text).size() == 1);
  CHECK(findings_of(text, {"wgmma-fence"}).empty());
  CHECK(error_of([&] { findings_of(text, {"wgmma"}); }).find("there is no rule 'wgmma'") !=
        std::string::npos);
}

TEST_CASE("tensor memory: loads are waited for, and come after a fence") {
  const std::string text = golden("blackwell_tile");
  CHECK(findings_of(text).empty());
  const std::string wait = " tcgen05.wait::ld.sync.aligned;", fence = "\ttcgen05.fence::after_thread_sync;\n";
  const std::vector<Finding> unwaited = findings_of(replaced(text, wait, ""));
  REQUIRE(!unwaited.empty());
  CHECK(unwaited[0].rule == "tensor-memory-wait");
  CHECK(unwaited[0].what.ends_with(" reads a register that tcgen05.ld may still be loading"));
  CHECK(unwaited[0].lines.size() == 1);

  // Deletes the fence between the wait for the last products and the first load.
  const size_t load = text.find("tcgen05.ld."), at = text.rfind(fence, load);
  const std::vector<Finding> unfenced = findings_of(std::string(text).erase(at, fence.size()));
  REQUIRE(unfenced.size() == 1);
  CHECK(unfenced[0].rule == "tensor-memory-fence");
  CHECK(unfenced[0].is_advice);
  const std::string cut = text.substr(0, text.rfind("mbarrier.try_wait", load));
  CHECK(unfenced[0].lines ==
        std::vector<uint32_t>{static_cast<uint32_t>(1 + std::count(cut.begin(), cut.end(), '\n'))});
}

TEST_CASE("findings are sorted by line, and equal ones are merged with their number") {
  std::string text = replaced(kKernel, "shl.b32 %r21, %r20, 4;", "shl.b32 %r21, %r20, 5;");
  text = replaced(text, "\twgmma.fence.sync.aligned;\n", "");
  const std::vector<Finding> findings = findings_of(text);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].rule == "wgmma-fence");
  CHECK(findings[1].rule == "bank-conflict");
  CHECK(findings[0].line < findings[1].line);
  CHECK(findings[1].times == 2);
}

// Each consumer of the attention gradient has a fence after its wait for the slopes that both consumers have
// written.
TEST_CASE("the fence between threads' writes and wgmma may be on either side of their barrier") {
  const std::string text = golden("attention_gradient");
  CHECK(shown(findings_of(text)) == "");
  const std::regex behind_wait("(bra \\t[$]L__BB0_[0-9]+;\\n)\\tfence.proxy.async.shared::cta;\\n");
  const std::string unfenced = std::regex_replace(text, behind_wait, "$1");
  REQUIRE(unfenced.size() < text.size());
  CHECK(rules_that_find(unfenced) == std::set<std::string>{"proxy-fence"});
}

// The library's default target is sm_90 or above, although these kernels would also run on older targets.
TEST_CASE("nothing is found in the golden kernels except a target that some do not need") {
  std::set<std::string> plain;
  for (const std::string& name : golden_kernels()) {
    CAPTURE(name);
    const std::string text = golden(name);
    CHECK(shown(findings_of(text, {"version"})) == "");
    for (const Finding& f : findings_of(text)) {
      CHECK(f.what.starts_with("the target is sm_90, but the instructions need sm_"));
      CHECK_FALSE(std::regex_search(text, std::regex("wgmma|mbarrier|cp.async.bulk|setmaxnreg|cluster")));
      plain.insert(name);
    }
  }
  for (const char* name : {"add_block", "add_blocks", "attention_order", "cumsum", "hello", "saxpy"})
    CHECK(plain.contains(name));
}

TEST_CASE("a disguised kernel has the same findings") {
  const uint64_t seed = std::random_device()();
  CAPTURE(seed);
  const auto check_disguised = [&](const std::string& text, int draws) {
    const auto expected = meanings(findings_of(text));
    for (int draw = 0; draw < draws; ++draw) {
      CAPTURE(draw);
      CHECK(meanings(findings_of(test::Disguise(seed + static_cast<uint64_t>(draw))(text))) == expected);
    }
  };
  for (const std::string& name : golden_kernels()) {
    CAPTURE(name);
    check_disguised(golden(name), 2);
  }
  for (const Plant& plant : kPlants) {
    CAPTURE(std::string(plant.to));
    if (plant.rule == std::string_view("declaration")) continue;  // a disguise writes declarations anew
    check_disguised(replaced(kKernel, plant.from, plant.to, plant.place), 4);
  }
}

TEST_CASE("text that cannot be read is reported with its place") {
  CHECK(error_of([] {
          findings_of(".version 8.0\n.target sm_90a\n.visible .entry k() { add.u32 %r1, 1");
        }).starts_with("ptx 3:"));
  CHECK(error_of([] { findings_of(replaced(kKernel, "bra READY", "bra NOWHERE")); }) ==
        "ptx 21:2: the label 'NOWHERE' does not exist");
  CHECK(error_of([] { findings_of(".version 8.0\n"); }) == "it has no kernel: no .entry with a body");
}

TEST_CASE("each of several shared variables has its own alignment") {
  const auto kernel = [](const std::string& first, const std::string& second, const std::string& access) {
    return findings_of(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() .maxntid 32\n{\n" + first +
            second + "mov.u32 %r1, %tid.x;\n" + access + "ret;\n}\n",
        {"version", "barrier-initialised"});
  };
  const std::string registers = ".reg .b32 %r<4>;\n", barrier = ".shared .b64 full;\n";
  const std::string use = "mov.b32 %r2, full;\nmbarrier.init.shared::cta.b64 [%r2], 1;\n";
  CHECK(shown(kernel(registers, barrier, use)) == "");
  CHECK(shown(kernel(registers, ".shared .b32 full[2];\n", use)).find("aligned to 4") != std::string::npos);
  CHECK(shown(kernel(registers, ".shared .b32 other;\n" + barrier, use + "st.shared.b32 [other], %r1;\n")) ==
        "");
  CHECK(shown(kernel(registers, ".shared .b32 other;\n.shared .align 4 .b8 full[8];\n",
                     use + "st.shared.b32 [other], %r1;\n"))
            .find("a multiple of 8 bytes, but its variable is aligned to 4") != std::string::npos);
}

// Returns kKernel with separate variables for its stages, its barriers and the data that it stores.
std::string with_variables() {
  std::string text = replaced(kKernel, ".extern .shared .align 1024 .b8 smem[];",
                              ".extern .shared .align 1024 .b8 smem[];\n.shared .align 8 .b8 full[16];\n"
                              ".shared .b64 empty[2];\n.shared .align 128 .b8 staging[8192];");
  text =
      replaced(text, "mov.b32 %r3, smem;", "mov.b32 %r3, smem;\nmov.b32 %r50, full;\nmov.b32 %r51, empty;");
  for (const auto& [from, to] : {std::pair("%r3+32768]", "%r50]"),
                                 {"%r3+32776]", "%r50+8]"},
                                 {"%r3+32784]", "%r51]"},
                                 {"%r3+32792]", "%r51+8]"}})
    text = replaced(text, from, to);
  text = replaced(text, "add.s32 %r9, %r3, %r8;", "add.s32 %r9, %r50, %r8;\nadd.s32 %r52, %r51, %r8;");
  text = replaced(text, "%r9+32768]", "%r9]");
  text = replaced(text, "%r9+32784]", "%r52]");
  text = replaced(text, "add.s32 %r22, %r3, 33024;", "mov.b32 %r22, staging;");
  text = replaced(text, "add.s32 %r34, %r3, %r33;", "add.s32 %r34, %r50, %r33;\nadd.s32 %r53, %r51, %r33;");
  text = replaced(text, "%r34+32784]", "%r53]");
  for (int i = 0; i < 3; ++i) text = replaced(text, "%r34+32768]", "%r34]");
  return text;
}

TEST_CASE("addresses in one of several shared variables are compared with others in the same one") {
  const std::string text = with_variables();
  CHECK(shown(findings_of(text)) == "");
  const auto finds = [&](const char* from, const char* to, const char* says) {
    const std::string all = shown(findings_of(replaced(text, from, to)));
    CAPTURE(from);
    CAPTURE(all);
    CHECK(all.find(says) != std::string::npos);
  };
  finds("[%r51], 4;", "[%r51], 5;",
        "the mbarrier at empty + 0 is initialised for 5 arrivals, but 4 threads arrive");
  finds("mbarrier.init.shared::cta.b64 [%r50+8], 1;\n", "",
        "the mbarrier at full + 8 is used but never initialised");
  finds("], 9216;", "], 2288;", "2288 bytes are expected, but 2304 of the copied bytes are read");
  finds("\tfence.proxy.async.shared::cta;\n", "", "proxy-fence");
  finds("\tbar.sync 2, 128;\n", "", "staging-reuse");
  finds("mov.b32 %r22, staging;", "add.s32 %r22, %r50, 8;", "its variable is aligned to 8");
  finds("mov.b32 %r22, staging;", "mov.b32 %r22, staging; add.s32 %r22, %r22, 64;",
        "staging + 64 is 64 bytes past a multiple");
  // A write to `flag` is outside of the copied variable.
  CHECK(shown(findings_of(replaced(replaced(text, "[8192];", "[8192];\n.shared .b32 flag;"),
                                   "bar.sync 1, 128;\n",
                                   "bar.sync 1, 128;\nst.shared.b32 [flag], %r1;\n"))) == "");
}

TEST_CASE("arrays whose lengths the host sets are in one place") {
  const std::string text =
      replaced(kKernel, ".extern .shared .align 1024 .b8 smem[];",
               ".extern .shared .align 1024 .b8 smem[];\n.extern .shared .align 1024 .b8 more[];");
  const std::string both =
      replaced(text, "add.s32 %r22, %r3, 33024;", "mov.b32 %r22, more;\nadd.s32 %r22, %r22, 33024;");
  CHECK(shown(findings_of(both)) == "");
  CHECK(shown(findings_of(replaced(both, "\tbar.sync 2, 128;\n",
                                   "\tst.shared.b32 [smem+33024], %r1;\n\tbar.sync 2, 128;\n")))
            .find("staging-reuse") != std::string::npos);
}

TEST_CASE("a write to .const is found after a generic address too") {
  const auto kernel = [](const std::string& space) {
    return ".version 8.0\n.target sm_90\n.address_size 64\n." + space +
           " .align 4 .b32 table[2] = {1, 2};\n.visible .entry k()\n{\n.reg .b64 %a;\nmov.u64 %a, "
           "table;\ncvta." +
           space + ".u64 %a, %a;\nst.u32 [%a], 1;\nret;\n}\n";
  };
  const auto rules = [&](const std::string& space) {
    std::set<std::string> found;
    for (const Finding& f : findings_of(kernel(space), {"version", "generic-address"})) found.emplace(f.rule);
    return found;
  };
  CHECK(rules("const") == std::set<std::string>{"constant-space"});
  CHECK(rules("global").empty());
}

TEST_CASE("a generic access is only advice, since CUDA C++ cannot express the space") {
  const auto findings = findings_of(replaced(kKernel, "st.shared.v4.f32", "st.v4.f32", 2));
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [](const Finding& f) { return f.rule == "generic-address"; });
  REQUIRE(found != findings.end());
  CHECK(found->is_advice);
}

TEST_CASE("staging: with two alternating buffers one may still be read, with one buffer none") {
  // Returns a loop that stores from a buffer while up to `left` earlier stores may still read from it.
  const auto kernel = [](const char* place, int left) {
    return fmt::format(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 X, .param .u32 "
        "N)\n.maxntid 128\n{{\n"
        ".reg .pred %p<8>;\n.reg .b32 %r<20>;\n.reg .b64 %x;\n.shared .align 128 .b8 buffers[8192];\n"
        "ld.param.u64 %x, [X];\nld.param.u32 %r1, [N];\nmov.u32 %r9, %tid.x;\nsetp.eq.u32 %p1, %r9, 0;\n"
        "mov.u32 %r2, 0;\nmov.u32 %r5, 0;\nLOOP:\n{}mov.u32 %r4, buffers;\nadd.u32 %r4, %r4, %r3;\n"
        "shl.b32 %r6, %r9, 4;\nadd.u32 %r6, %r6, %r4;\n@%p1 cp.async.bulk.wait_group.read {};\nbar.sync 0;\n"
        "st.shared.v4.b32 [%r6], {{%r1, %r1, %r1, %r1}};\nfence.proxy.async.shared::cta;\nbar.sync 0;\n@!%p1 "
        "bra NEXT;\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%x], [%r4], 2048;\ncp.async.bulk.commit_group;\nNEXT:\n"
        "add.u32 %r2, %r2, 1;\nadd.u32 %r7, %r5, 1;\nsetp.eq.b32 %p3, %r7, 2;\nselp.b32 %r5, 0, %r7, %p3;\n"
        "setp.lt.u32 %p2, %r2, %r1;\n@%p2 bra LOOP;\n@%p1 cp.async.bulk.wait_group 0;\nret;\n}}\n",
        place, left);
  };
  constexpr const char* kCounted = "and.b32 %r3, %r2, 1;\nshl.b32 %r3, %r3, 12;\n";
  constexpr const char* kRing = "shl.b32 %r3, %r5, 12;\n";
  constexpr const char* kOne = "mov.u32 %r3, 0;\n";
  for (const auto& [place, most] : {std::pair(kCounted, 1), {kRing, 1}, {kOne, 0}})
    for (int left = 0; left < 3; ++left) {
      CAPTURE(place);
      CAPTURE(left);
      const bool is_found = rules_that_find(kernel(place, left)).contains("staging-reuse");
      CHECK(is_found == (left > most));
    }
}

TEST_CASE("a tile that is read K-major and MN-major is expected once") {
  // One copy loads 64 x 64 bf16 elements, and four products read them along each of their sides.
  const auto kernel = [](int bytes) {
    std::string text =
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 X)\n.maxntid "
        "128\n{\n.reg .pred %p<4>;\n"
        ".reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n.reg .f32 %f<4>;\n.shared .align 1024 .b8 "
        "tile[8192];\n.shared .align 1024 .b8 other[8192];\n"
        ".shared .align 8 .b64 full;\nld.param.u64 %rd1, [X];\nmov.u32 %r1, %tid.x;\nsetp.ne.u32 %p1, %r1, "
        "0;\n@%p1 bra READY;\n"
        "mbarrier.init.shared::cta.b64 [full], "
        "1;\nfence.mbarrier_init.release.cluster;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [full], " +
        std::to_string(bytes) +
        ";\ncp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd1, "
        "{0, 0}], [full];\nREADY:\n"
        "bar.sync 0;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;\n@!%p2 bra "
        "WAIT;\nmov.u32 %r2, tile;\n"
        "bfe.u32 %r3, %r2, 4, 14;\ncvt.u64.u32 %rd2, %r3;\nwgmma.fence.sync.aligned;\n";
    for (int major = 0; major < 2; ++major)
      for (int k = 0; k < 4; ++k)
        text += fmt::format(
            "add.s64 %rd3, %rd2, {};\nwgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f0, %f1, %f2, "
            "%f3}}, %rd3, %rd3, 1, 1, 1, {}, {};\n",
            int64_t{4611686293305360384} + k * (major ? 128 : 2), major, major);
    return text + "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nret;\n}\n";
  };
  CHECK_FALSE(rules_that_find(kernel(8192)).contains("expected-bytes"));
  CHECK(rules_that_find(kernel(4096)).contains("expected-bytes"));
}

TEST_CASE("a CTA stays until its peers have read its shared memory") {
  const auto kernel = [](const std::string& end) {
    return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 D)\n.reqntid "
           "32\n.reqnctapercluster 2\n{\n"
           ".reg .b32 %r<8>;\n.reg .b64 %d;\n.shared .align 16 .b8 tile[128];\nld.param.u64 %d, "
           "[D];\nmov.u32 %r1, %tid.x;\n"
           "shl.b32 %r2, %r1, 2;\nmov.u32 %r3, tile;\nadd.u32 %r3, %r3, %r2;\nst.shared.b32 [%r3], %r1;\n"
           "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\nmov.u32 %r4, "
           "%cluster_ctarank;\n"
           "xor.b32 %r4, %r4, 1;\nmapa.shared::cluster.u32 %r5, %r3, %r4;\nld.shared::cluster.b32 %r6, "
           "[%r5];\n"
           "st.global.b32 [%d], %r6;\n" +
           end + "ret;\n}\n";
  };
  CHECK(rules_that_find(kernel("")).contains("cluster-exit"));
  CHECK_FALSE(rules_that_find(kernel("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"))
                  .contains("cluster-exit"));
}

TEST_CASE("a ring that a counter's bits go around: what is copied and multiplied in it") {
  // The stage is i & 1, and a descriptor is a shifted address with constants in its upper bits. Threads copy
  // the operands of products. A stage is freed before or after the wait for its products.
  const auto kernel = [](const char* before, const char* behind) {
    return fmt::format(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 A, .param .u32 "
        "N)\n.maxntid 160\n{{\n"
        ".reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .b64 %d<9>;\n.reg .f32 %f<4>;\n.shared .align 1024 .b8 "
        "a[4096];\n"
        ".shared .align 1024 .b8 b[256];\n.shared .align 8 .b64 full[2];\n.shared .align 8 .b64 empty[2];\n"
        "ld.param.u64 %d1, [A];\nld.param.u32 %r9, [N];\nmov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, "
        "31;\nsetp.eq.u32 %p1, %r2, 0;\n"
        "setp.ne.u32 %p2, %r1, 0;\n@%p2 bra READY;\nmbarrier.init.shared::cta.b64 [full], "
        "1;\nmbarrier.init.shared::cta.b64 [full+8], 1;\n"
        "mbarrier.init.shared::cta.b64 [empty], 4;\nmbarrier.init.shared::cta.b64 [empty+8], "
        "4;\nfence.mbarrier_init.release.cluster;\n"
        "READY:\nbar.sync 0;\nmov.u32 %r3, 0;\nsetp.ge.u32 %p3, %r1, 128;\n@%p3 bra "
        "PRODUCER;\nCONSUME:\nand.b32 %r4, %r3, 1;\n"
        "shr.u32 %r5, %r3, 1;\nand.b32 %r5, %r5, 1;\nshl.b32 %r6, %r4, 3;\nmov.u32 %r7, full;\nadd.u32 %r7, "
        "%r7, %r6;\n"
        "mov.u32 %r8, empty;\nadd.u32 %r8, %r8, %r6;\nWF:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, "
        "[%r7], %r5;\n@!%p4 bra WF;\n"
        "mov.u32 %r10, a;\nshl.b32 %r11, %r4, 11;\nadd.u32 %r10, %r10, %r11;\nshr.u32 %r10, %r10, "
        "4;\ncvt.u64.u32 %d2, %r10;\n"
        "or.b64 %d2, %d2, 0x0000001000080000;\nmov.u32 %r12, b;\nshr.u32 %r12, %r12, 4;\ncvt.u64.u32 %d3, "
        "%r12;\n"
        "or.b64 %d3, %d3, 0x0000001000080000;\nwgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f0, %f1, %f2, %f3}}, %d2, %d3, 1, 1, 1, 0, "
        "0;\n"
        "wgmma.commit_group.sync.aligned;\n{}wgmma.wait_group.sync.aligned 0;\n{}add.u32 %r3, %r3, "
        "1;\nsetp.lt.u32 %p5, %r3, %r9;\n"
        "@%p5 bra CONSUME;\nst.global.v4.f32 [%d1], {{%f0, %f1, %f2, %f3}};\nret;\nPRODUCER:\n@!%p1 bra "
        "DONE;\nPRODUCE:\nand.b32 %r4, %r3, 1;\n"
        "shr.u32 %r5, %r3, 1;\nand.b32 %r5, %r5, 1;\nxor.b32 %r5, %r5, 1;\nshl.b32 %r6, %r4, 3;\nmov.u32 "
        "%r7, full;\nadd.u32 %r7, %r7, %r6;\n"
        "mov.u32 %r8, empty;\nadd.u32 %r8, %r8, %r6;\nWE:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, "
        "[%r8], %r5;\n@!%p4 bra WE;\n"
        "mov.u32 %r10, a;\nshl.b32 %r11, %r4, 11;\nadd.u32 %r10, %r10, "
        "%r11;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 2048;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%d1], 2048, "
        "[%r7];\nadd.u32 %r3, %r3, 1;\n"
        "setp.lt.u32 %p5, %r3, %r9;\n@%p5 bra PRODUCE;\nDONE:\nret;\n}}\n",
        before, behind);
  };
  constexpr const char* kFree = "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r8];\n";
  CHECK(rules_that_find(kernel(kFree, "")).contains("stage-release"));
  CHECK_FALSE(rules_that_find(kernel("", kFree)).contains("stage-release"));
  // Threads write these bytes into a tile that is multiplied.
  constexpr const char* kWrite = "st.shared.b32 [b+4], 0;\n";
  CHECK(rules_that_find(kernel("", (std::string(kWrite) + kFree).c_str())).contains("proxy-fence"));
  CHECK_FALSE(
      rules_that_find(kernel("", (std::string(kWrite) + "fence.proxy.async.shared::cta;\n" + kFree).c_str()))
          .contains("proxy-fence"));
  // A bulk store reads the stage that the next bulk load overwrites.
  const auto through = [&](const std::string& wait) {
    std::string text = kernel("", kFree);
    const std::string load = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 2048;\n";
    return text.replace(
        text.find(load), 0,
        "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r10], 2048;\ncp.async.bulk.commit_group;\n" +
            wait);
  };
  CHECK(rules_that_find(through("")).contains("staging-reuse"));
  CHECK_FALSE(rules_that_find(through("cp.async.bulk.wait_group.read 0;\n")).contains("staging-reuse"));
}

TEST_CASE("a release of the cluster's barrier makes an mbarrier visible to threads, but not to copies") {
  // Thread 0 of each of two CTAs initializes a barrier, and uses that of the other CTA.
  const auto rules = [](const char* arrive, const char* use) {
    return rules_that_find(fmt::format(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 X)\n.reqntid 64\n"
        ".reqnctapercluster 2\n{{\n.reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %x;\n.reg .b16 %h;\n"
        ".shared .align 128 .b8 tile[256];\n.shared .align 8 .b64 bar;\nld.param.u64 %x, [X];\n"
        "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared::cta.b64 [bar], 1;\n"
        "{}.aligned;\nbarrier.cluster.wait.aligned;\nmov.u32 %r2, %cluster_ctarank;\nxor.b32 %r2, %r2, 1;\n"
        "mov.u32 %r3, bar;\nmapa.shared::cluster.u32 %r4, %r3, %r2;\n{}\n"
        "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0;\n@!%p4 bra WAIT;\n"
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;\n}}\n",
        arrive, use));
  };
  constexpr const char* kArrive = "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];";
  constexpr const char* kMulticast =
      "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;\nmov.b16 %h, 3;\n"
      "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], "
      "[%x], 128, "
      "[bar], %h;";
  const std::string with_fence = "fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed";
  CHECK_FALSE(rules("barrier.cluster.arrive.release", kArrive).contains("barrier-published"));
  CHECK_FALSE(rules("barrier.cluster.arrive", kArrive).contains("barrier-fence"));
  CHECK_FALSE(rules(with_fence.c_str(), kArrive).contains("barrier-published"));
  CHECK(rules("barrier.cluster.arrive.relaxed", kArrive).contains("barrier-published"));
  CHECK(rules("barrier.cluster.arrive.release", kMulticast).contains("barrier-published"));
  CHECK_FALSE(rules(with_fence.c_str(), kMulticast).contains("barrier-published"));
}

TEST_CASE("barriers that are initialised again, and waits on some paths through a loop") {
  // A loop takes jobs from shared memory. Each job either initializes its barrier again, or waits for one of
  // two barriers that were initialized before the loop. The initialization or the wait is in one branch of
  // the loop, or in every iteration.
  const auto kernel = [](const char* first, const char* second, const char* job) {
    return fmt::format(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 X)\n.reqntid 64\n{{\n"
        ".reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %x;\n.shared .align 128 .b8 tile[512];\n"
        ".shared .align 8 .b64 bar[2];\nld.param.u64 %x, [X];\nmov.u32 %r1, %tid.x;\n"
        "setp.eq.u32 %p1, %r1, 0;\n{}bar.sync 0;\nJOB:\nld.volatile.shared.b32 %r2, [tile+256];\n"
        "setp.eq.u32 %p2, %r2, 0;\nsetp.eq.u32 %p3, %r2, 1;\n{}{}bar.sync 0;\nNEXT:\n@!%p2 bra "
        "JOB;\nret;\n}}\n",
        first, second, job);
  };
  constexpr const char* kInit = "@%p1 mbarrier.init.shared::cta.b64 [bar], 1;\nfence.proxy.async;\n";
  constexpr const char* kAnew =
      "@%p1 mbarrier.inval.shared::cta.b64 [bar];\n@%p1 mbarrier.init.shared::cta.b64 [bar], "
      "1;\nfence.proxy.async;\nbar.sync 0;\n";
  constexpr const char* kCopy =
      "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;\n"
      "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%x], 256, [bar];\n"
      "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0;\n@!%p4 bra WAIT;\n"
      "ld.shared.b32 %r4, [tile];\nst.global.b32 [%x+1024], %r4;\n";
  const std::string in_branch = std::string("@%p3 bra NEXT;\n") + kCopy;
  CHECK(shown(findings_of(kernel(kInit, kAnew, kCopy))) == "");
  CHECK(shown(findings_of(kernel(kInit, "", in_branch.c_str()))) == "");
  CHECK(rules_that_find(kernel(kInit, "", kCopy)).contains("parity"));
  const std::string no_barrier = std::string(kAnew).substr(0, std::string(kAnew).rfind("bar.sync"));
  CHECK(rules_that_find(kernel(kInit, no_barrier.c_str(), kCopy)).contains("barrier-published"));
}

TEST_CASE("what a rule skips is reported if requested, and makes no other rule fail") {
  const auto undecided_of = [](const std::string& text) {
    std::vector<Finding> all;
    for (const Finding& f : lint(ptx_text::parse(text), "", {}, Undecided::all))
      if (f.is_undecided) all.push_back(f);
    return all;
  };
  CHECK(shown(undecided_of(kKernel)) == "");
  const Plant unknown[] = {
      {"arrival-count", "add.s32 %r34, %r3, %r33;", "ld.param.b32 %r34, [n];",
       "which mbarrier this reaches is not known (lines"},
      {"circular-wait", ".maxntid 256\n.minnctapersm 1\n", "",
       "how many threads run this kernel is not known"},
      {"expected-bytes", "], 9216;", "], %r1;", "how many bytes are expected is not known"},
      {"expected-bytes", "add.s32 %r36, %r3, %r35;", "ld.param.b32 %r36, [n];",
       "the destination of the copies is not known"},
      {"wgmma-layout", "or.b64 %rd8, %rd7, 4611686293305360384;", "ld.param.b64 %rd8, [in];",
       "the address in the descriptor of B is not known"},
      {"proxy-fence", "add.s32 %r23, %r22, %r21;", "ld.param.b32 %r23, [n];",
       "the destination of this write is not known"},
      {"named-barrier", "bar.sync 2, 128;", "bar.sync %r1, 128;", "which barrier this is is not known"},
      {"copy-wait", "add.s32 %r23, %r22, %r21;",
       "add.s32 %r23, %r22, %r21; ld.param.b32 %r40, [n]; cp.async.ca.shared.global [%r40], [%rd2], 16; "
       "cp.async.wait_all;",
       "the destination of this copy is not known"},
  };
  for (const Plant& plant : unknown) {
    const std::string text = replaced(kKernel, plant.from, plant.to);
    CAPTURE(std::string(plant.rule));
    CAPTURE(shown(undecided_of(text)));
    for (const Finding& f : findings_of(text)) CHECK_FALSE(f.is_undecided);
    const std::vector<Finding> all = undecided_of(text);
    CHECK(std::any_of(all.begin(), all.end(), [&](const Finding& f) {
      return f.rule == plant.rule && analysis::text(f).find(plant.says) != std::string::npos && f.line > 0 &&
             !f.is_advice;
    }));
  }
}

TEST_CASE("a descriptor has the swizzle of the tensor map with which its tile is copied") {
  const auto with_map = [](int parameter, Swizzle swizzle) {
    return shown(lint(ptx_text::parse(kKernel), "", {}, Undecided::given_up, {{{parameter, 0}, swizzle}}));
  };
  CHECK(with_map(0, Swizzle::b128) == "");
  CHECK(with_map(1, Swizzle::none) == "");  // wgmma reads nothing that this map copies
  const std::string found = with_map(0, Swizzle::b64);
  CHECK(found.find("descriptor of A in this wgmma has swizzle 128, but the tensor map with which the tile is "
                   "copied has swizzle 64; "
                   "the descriptor of B in this wgmma has swizzle 128") != std::string::npos);
  CHECK(with_map(0, Swizzle::none).find("has no swizzle") != std::string::npos);
}

}  // namespace ptxbuilder::test::lint_test
