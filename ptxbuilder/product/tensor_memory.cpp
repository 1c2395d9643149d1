#include "ptxbuilder/product/tensor_memory.h"

#include <fmt/format.h>

#include <bit>

#include "ptxbuilder/article.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/product/mma.h"

namespace ptxbuilder {
namespace {

using detail::TileContext;

// Makes the first warp of the CTA allocate the columns. The allocation instruction writes their address to
// shared memory.
tmem allocate(Kernel& kernel, uint32_t columns) {
  Builder& builder = kernel.builder();
  const uint32_t offset = builder.allocate_shared("tensor memory", 4, 1, 4);
  const smem slot = builder.shared_base() + offset;
  if_(warp_index() == 0, [&] {
    instruction<"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32">(slot, columns);
    instruction<"tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned">();
  });
  instruction<"tcgen05.fence::before_thread_sync">();
  sync_threads();
  instruction<"tcgen05.fence::after_thread_sync">();
  return tmem(instruction<"ld.shared::cta.u32">(slot));
}

OperandRecord record_of(const TileView& view, const WgmmaOperand& operand) {
  OperandRecord record;
  record.view = detail::record_view(TileContext::of(Builder::current()).record, view);
  record.transposed = view.is_transposed();
  record.mn_major = operand.major() == Major::mn;
  record.descriptor = operand.descriptor().encode_tcgen05();
  record.along_mn = {0};
  record.along_k = operand.advances_k();
  return record;
}

u64 first_descriptor(const TileView& view, const OperandRecord& record) {
  return u64((u32(view.address()) >> 4) & 0x3fff) | record.descriptor;
}

}  // namespace

TensorAccumulator::TensorAccumulator(Kernel& kernel, int n, Where where)
    : n_((AtLine(where), Tcgen05Descriptor{.n = n}.encode(where), n)),
      columns_(std::bit_ceil(static_cast<uint32_t>(std::max(n, 32)))),
      address_((AtLine(where), allocate(kernel, columns_))),
      accumulate_(pred(false)),
      freed_(std::make_shared<bool>(false)) {
  kernel.builder().on_finish([freed = freed_, where] {
    AtLine line(where);
    if (!*freed) throw Error("tensor memory: call free(), or later CTAs would wait for ever");
  });
}

void TensorAccumulator::free(Where where) {
  AtLine line(where);
  instruction<"tcgen05.fence::before_thread_sync">();
  sync_threads();
  instruction<"tcgen05.fence::after_thread_sync">();
  if_(warp_index() == 0,
      [&] { instruction<"tcgen05.dealloc.cta_group::1.sync.aligned.b32">(address_, columns_); });
  *freed_ = true;
}

void mma(TensorAccumulator& d, const TileView& a, const TileView& b, Where where) {
  AtLine line(where);
  const WgmmaOperand left = detail::operand_of(a, "mma: A"), right = detail::operand_of(b, "mma: B");
  if (left.dtype() != right.dtype())
    throw Error(fmt::format("mma: A is {} and B is {}, but their types must be equal",
                            with_article(a.tile().describe()), with_article(b.tile().describe())));
  if (left.mn() != d.m() || right.mn() != d.n() || left.k() != right.k())
    throw Error(fmt::format("mma: the shapes do not match in D {}x{} += A {}x{} B {}x{}", d.m(), d.n(),
                            left.mn(), left.k(), right.k(), right.mn()));
  const uint32_t what = Tcgen05Descriptor{.a = left.dtype(),
                                          .b = right.dtype(),
                                          .a_major = left.major(),
                                          .b_major = right.major(),
                                          .m = d.m(),
                                          .n = d.n()}
                            .encode();
  MmaRecord record = {left.dtype(),        d.m(), d.n(), left.k(), record_of(a, left),
                      record_of(b, right), {},    {},    d.m(),    d.n()};
  const u64 a_start = first_descriptor(a, *record.a), b_start = first_descriptor(b, record.b);
  instruction<"tcgen05.fence::after_thread_sync">();  // needed after the wait for the operands
  for (int step = 0; step < static_cast<int>(record.b.along_k.size()); ++step) {
    instruction<"tcgen05.mma.cta_group::1.kind::f16">(d.address(), a_start + (record.a->start(0, step) >> 4),
                                                      b_start + (record.b.start(0, step) >> 4), what,
                                                      step == 0 ? d.accumulate_.value() : pred(true));
  }
  d.accumulate_ = pred(true);
  TileContext::of(Builder::current()).record.mmas.push_back(std::move(record));
}

void tcgen05_commit(smem barrier, Where where) {
  AtLine line(where);
  instruction<"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64">(cluster_smem(barrier));
}

RegisterTile<f32> load(const TensorAccumulator& from, int first_col, int cols, Where where) {
  AtLine line(where);
  if (first_col < 0 || cols < 1 || cols > 128 || first_col + cols > from.n() ||
      !std::has_single_bit(unsigned(cols)))
    throw Error(
        fmt::format("load: columns {} to {} of {} in tensor memory were requested, but a load must read 1, "
                    "2, 4, ... or 128 of them",
                    first_col, first_col + cols - 1, from.n()));
  // The load and its wait form one asm statement. LLVM could move code that uses the registers before a
  // separate wait, which would not name these registers.
  const std::string name = fmt::format("tcgen05.ld.sync.aligned.32x32b.x{}.b32", cols);
  const std::string text =
      fmt::format("{{{{ {} {{r:=f32x{}}}, [{{taddr:tmem}}]; tcgen05.wait::ld.sync.aligned; }}}}", name, cols);
  isa::Row row = isa::instruction(name);
  row.syntax = text;
  row.operands = isa::parse_at(text, where);
  instruction<"tcgen05.fence::after_thread_sync">();  // needed after the wait for the products
  const u32 lane = warp_index() % 4 * 32;             // the first lane that this warp can access
  const std::vector<Argument> arguments = {tmem(u32(from.address()) + (lane << 16) + first_col)};
  return RegisterTile<f32>(detail::TileValues{DType::f32, strided({128, cols}, cols),
                                              Builder::current().emit(row, arguments, std::nullopt)});
}

}  // namespace ptxbuilder
