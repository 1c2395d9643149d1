// Tests rows that a user declares in one line, calls with types, and certifies with ptxas.
#include "ptxbuilder/compile/certify.h"

#include <doctest/doctest.h>

#include "library_kit.h"
#include "ptxas_kit.h"
#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/isa/query.h"
#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::test::certify_test {

namespace somebody {

PTXBUILDER_ROW(bit_reverse, "brev.b32 {d:=u32}, {a:u32};", pure, 63, sm_75)
PTXBUILDER_ROW(nap, "nanosleep.u32 {ns:imm<0..1000000>};", memory, 63, sm_75)
PTXBUILDER_ROW(more_registers, "setmaxnreg.inc.sync.aligned.u32 {n:imm<24..256/8>};", memory, 80,
               sm_90a + sm_100f + sm_110f + sm_120f)
PTXBUILDER_ROW(cluster_rank, "mov.u32 {d:=u32}, %cluster_ctarank;", pure, 78, sm_90)

}  // namespace somebody

TEST_CASE("a row of a user's own is a typed call") {
  Kernel k("k", {.line_info = false});
  auto [to] = k.params<gptr<u32>>("to");
  u32 reversed = somebody::bit_reverse(tid_x());
  somebody::nap.when(reversed == 0)(100);
  to[tid_x()] = reversed;
  const std::string ptx = squeezed(ptx_of(k));
  CHECK(contains(ptx, "brev.b32 %r"));
  CHECK(contains(ptx, "nanosleep.u32 100;"));
  static_assert(!std::is_invocable_v<decltype(somebody::bit_reverse), f32>);
  CHECK(squeezed(isa::listing(somebody::bit_reverse_row)) ==
        "bit_reverse PTX 6.3 sm_75 pure brev.b32 {d:=u32}, {a:u32};");
  Kernel bad("bad");
  CHECK(contains(error_of([] { somebody::nap(2000000); }),
                 "nap: operand 'ns' must be from 0 to 1000000, but is 2000000"));
  Kernel old("old", {.target = "sm_80"});
  CHECK(contains(error_of([] { somebody::cluster_rank(); }),
                 "cluster_rank: needs sm_90, but the kernel's target is sm_80"));
}

TEST_CASE("ptxas certifies rows, and errors of other rows are reported") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  for (const isa::Row* row :
       {&somebody::bit_reverse_row, &somebody::nap_row, &somebody::cluster_rank_row,
        &somebody::more_registers_row, &isa::rows_def::mbarrier_init, &isa::rows_def::fence_mbarrier_init})
    CHECK(error_of([&] { certify(*ptxas, *row); }).empty());

  struct Wrong {
    isa::Row row;
    const char* words;
  };
  using isa::Effect, isa::Sm;
  const Wrong wrong[] = {
      {{"typo", "brev.b23 {d:=u32}, {a:u32};", Effect::pure, 63, Sm::sm_75},
       "correct the syntax line or a class"},
      {{"wide", "brev.b32 {d:=u64}, {a:u64};", Effect::pure, 63, Sm::sm_75},
       "correct the syntax line or a class"},
      {{"low", "mov.u32 {d:=u32}, %cluster_ctarank;", Effect::pure, 78, Sm::sm_80}, "raise the minimum"},
      {{"low_version", "mov.u32 {d:=u32}, %cluster_ctarank;", Effect::pure, 70, Sm::sm_90},
       "sm_90 is its lowest target, but PTX 7.0 does not have it; raise the .version to 7.8"},
      {{"low_of_target", "griddepcontrol.wait;", Effect::memory, 86, Sm::sm_120f},
       "raise the .version to 8.7"},
      {{"space", "ld.global.u32 {d:=u32}, [{a:smem}];", Effect::memory, 63, Sm::sm_75},
       "give the address a class of the instruction's state space"},
      {{"event", "pmevent {a:imm<0..99>};", Effect::memory, 63, Sm::sm_75},
       "operand 'a' may be from 0 to 99"},
      {{"bar", "bar.sync {a:u32};", Effect::memory, 63, Sm::sm_75}, "bound the class, as u32<0..15>"},
      {{"transpose", "movmatrix.sync.aligned.m8n8.trans.b16 {d:=b32}, {a:b32};", Effect::memory, 78,
        Sm::sm_75},
       "or b32<> for a register alone"},
      {{"result", "brev.b32 {d:u32}, {a:u32};", Effect::memory, 63, Sm::sm_75},
       "or =u32 where the instruction writes it"},
      {{"two", "brev.b32 {d:=u32}, {a:u32}; trap;", Effect::memory, 63, Sm::sm_75},
       "a row must be one instruction"},
      {{"guarded", "@{p:pred} st.global.u32 [{a:gmem}], {v:u32};", Effect::memory, 63, Sm::sm_75},
       "a row must not have a predicate of its own"},
      {{"nothing", "st.global.u32 [{a:gmem}], {v:u32};", Effect::pure, 63, Sm::sm_75},
       "it is pure and writes no operand"},
      {{"narrow", "setmaxnreg.inc.sync.aligned.u32 {n:imm<24..256/8>};", Effect::memory, 80, Sm::sm_90a},
       "add sm_100a to its targets"},
      {{"high", "brev.b32 {d:=u32}, {a:u32};", Effect::pure, 80, Sm::sm_90}, "takes it; lower the target"},
      {{"high_version", "brev.b32 {d:=u32}, {a:u32};", Effect::pure, 80, Sm::sm_75},
       "takes it; lower the .version"},
  };
  CHECK(contains(error_of([&] {
                   certify(*ptxas, {"later", "trap;", Effect::memory, 99, Sm::sm_75});
                 }),
                 "no .version 9.9 is known"));
  for (const Wrong& w : wrong) {
    Where line;
    const std::string text = error_of([&] { line = Where::here(), certify(*ptxas, w.row); });
    CAPTURE(text);
    CHECK(contains(text, std::string("row ").append(w.row.name) + ":"));
    CHECK(contains(text, w.words));
    CHECK(text.ends_with("(" + to_string(line) + ")"));
  }
}

}  // namespace ptxbuilder::test::certify_test
