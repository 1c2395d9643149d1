// Builds the kernel that computes the gradients of sinks. For each row of queries, the gradient of a sink is
// minus its weight times the sum that attention_gradient_sums has stored for this row.
#include "kernels/attention_gradient/kernel.h"
#include "kernels/attention_gradient/packed.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kBlocks = 32;  // number of blocks of queries that are read at a time
constexpr float kLog2E = 1.4426950408889634f;

}  // namespace

Kernel attention_gradient_sinks(const AttentionGradientOperation& o, const AttentionGradientTile& t,
                                Where where) {
  using enum Parameter::Kind;
  check(o, t, where);
  Kernel k("attention_gradient_sinks");
  Parameters p;
  p.add("numbers", pointer, DType::f32,
        "for each block of queries of a head, the base-2 logarithms of sums of exp, and sum(dO * O)");
  p.add("sinks", pointer, DType::f32, "the logit of each head");
  p.add("dsinks", pointer, DType::f32, "their gradient");
  add_sizes(p, o);
  p.declare(k, where);
  k.threads(RegisterLayout::kThreads);
  k.grid("heads");
  if (t.overlaps) k.overlaps();
  griddepcontrol_wait();

  const u32 head = ctaid_x();
  const RegisterLayout layout = strided({kBlocks, t.bm}, 4);
  const f32 power = f32(p.get<gptr<f32>>("sinks")[head]) * kLog2E;
  Var<f32> total(0.f);  // sum of this thread
  for_(0, p.get<u32>("batches"), [&](u32 batch) {
    u32 blocks = ceil_div(p.get<u32>("queries"), t.bm), first = (batch * p.get<u32>("heads") + head) * blocks;
    if (o.packed) {
      const PackedQueries sequence(t, p, batch);
      blocks = ceil_div(sequence.queries, t.bm);
      first = head * sequence.blocks + sequence.first_block;
    }
    const auto load_part = [&](int which, u32 block, f32 behind) {
      const gptr<f32> begin = p.get<gptr<f32>>("numbers") + (u64(first) * 2 + which) * u64(t.bm);
      const GlobalTensor all(begin, {blocks, t.bm}, {2 * t.bm, 1});
      return load<f32>(all.tile(block, 0), layout, behind);
    };
    for_(0, blocks, kBlocks, [&](u32 block) {
      const RegisterTile<f32> weight = exp2(power - load_part(0, block, INFINITY), Approx::yes);
      const RegisterTile<f32> terms = weight * load_part(1, block, 0.f);
      for (int i = 0; i < terms.count(); ++i) total = total + terms.value(i);
    });
  });
  const RegisterLayout of_threads = strided({RegisterLayout::kThreads, 1}, 1);
  const f32 sum = reduce_all(Reduction::add, RegisterTile<f32>::of(of_threads, {total.value()}));
  if_(tid_x() == 0, [&] { p.get<gptr<f32>>("dsinks")[head] = -sum; });
  griddepcontrol_launch_dependents();
  return k;
}

}  // namespace ptxbuilder::kernels
