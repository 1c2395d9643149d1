// Tests `ptxb isa` from a user's point of view: it finds rows by name and by property.
#include <nlohmann/json.hpp>

#include "command_kit.h"

namespace ptxbuilder::test::isa_command_test {

TEST_CASE("isa prints what an author needs to know about a row, and finds rows by their properties") {
  CHECK(contains(run("ptxb isa ldmatrix_x4"), "ldmatrix<MatrixForm{.matrices = 4}>(p);"));
  const Ran key = run("ptxb isa ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16");
  CHECK(contains(key, "instruction<\"ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16\">(p);\n"));
  CHECK(contains(key, "          std::array<u32, 4> r = ldmatrix<MatrixForm{.matrices = 4}>(p);\n"));
  CHECK(contains(run("ptxb isa tid_x"), "section   Special Registers\n"));
  CHECK(contains(run("ptxb isa cp_async_4_zfill"), "section   cp.async\n"));
  CHECK(contains(run("ptxb isa setmaxnreg_inc"), "needs     PTX 8.0, sm_90a, sm_100f, sm_110f, sm_120f\n"));
  CHECK(contains(run("ptxb isa cvt.rn.satfinite.e4m3x2.f32"),
                 "needs     PTX 8.1, sm_89\n          PTX 7.8 on sm_90\n"));
  CHECK(contains(run("ptxb isa bar_sync"), "id: u32, or a number from 0 to 15, read\n"));
  CHECK(contains(run("ptxb isa max.f32"), "also      \"max.f32 three\"\n"));
  const Ran other_target = run("ptxb isa tcgen05.wait::ld.sync.aligned --sm sm_90a");
  CHECK(other_target.code == 1);
  CHECK(contains(other_target, "but the target is sm_90a"));
  CHECK(contains(run("ptxb isa --find gather4 --sm sm_90a"), "isa: no row of sm_90a matches;"));
  CHECK(contains(run("ptxb isa --find mbarrier_try_wait"), "mbarrier_try_wait_parity_hint"));
  CHECK(contains(run("ptxb isa --family cp.async.bulk.commit_group"), "cp.async.bulk.commit_group;"));
  CHECK(contains(run("ptxb isa ld.param.u64"), "the manual has no row 'ld.param.u64'"));
  CHECK(contains(run("ptxb isa bra"), "bra is not a row: if_, for_ and while_"));
  const Ran text = run("ptxb isa 'mov.b64 {%r1, _}, %rd1;'");
  CHECK(contains(text, "mov.b64 low\n"));
  CHECK(contains(text, "operand   d: b32, written\n"));
  CHECK(contains(run("ptxb isa 'ld.param.u64 %rd1, [k_param_0]'"), "operand   a: name, read\n"));
  CHECK(contains(run("ptxb isa 'bar.sync 16;'"),
                 "is not an instruction: its operands should be: bar.sync {id:u32<0..15>}"));
  CHECK(run("ptxb isa '// text'").code == 1);
  CHECK(contains(run("ptxb isa red.global.v2.f32.add"), "red.global.add.v2.f32 has the same words"));
  CHECK(contains(run("ptxb isa --find sparse --sm sm_90a"), "wgmma.mma_async.sp.sync.aligned"));
  CHECK(contains(run("ptxb isa --find redux.f32"), "redux.sync.min.f32"));
  CHECK(contains(run("ptxb isa --find 'Prefetch tensor'"), "cp.async.bulk.prefetch.tensor"));
  CHECK(contains(run("ptxb isa tex"), "textures and surfaces (tex, tld4, txq, suld, sust) have no rows"));
  const Ran print = run("ptxb isa --find printf");
  CHECK(print.code == 0);
  CHECK(contains(print, "vprintf is not a row: print("));
  CHECK(nlohmann::json::parse(run("ptxb isa --find printf --json").output)[0]["name"] == "vprintf");
}

}  // namespace ptxbuilder::test::isa_command_test
