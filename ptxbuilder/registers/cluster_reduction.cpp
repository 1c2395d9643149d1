#include "ptxbuilder/registers/cluster_reduction.h"

#include <fmt/format.h>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder {
namespace {

constexpr ClusterAxis kAxes[] = {ClusterAxis::x, ClusterAxis::y, ClusterAxis::z};

ClusterAxis axis_of(Kernel& kernel, std::optional<ClusterAxis> given) {
  if (given) return *given;
  const auto [x, y, z] = kernel.signature().cluster;
  if ((x > 1) + (y > 1) + (z > 1) > 1)
    throw Error(
        fmt::format("cluster reduction: the cluster has {} x {} x {} CTAs along several axes; choose one, as "
                    "in ClusterReduction(k, ClusterAxis::x), and reduce along one axis after the other",
                    x, y, z));
  return kAxes[y > 1 ? 1 : z > 1 ? 2 : 0];
}

int threads_of(const detail::TileContext& context, const Signature& signature) {
  return context.role < 0 ? static_cast<int>(signature.threads) : 128 * detail::warpgroups_in_role();
}

}  // namespace

ClusterReduction::ClusterReduction(Kernel& kernel, std::optional<ClusterAxis> axis, Where where)
    : kernel_(kernel) {
  AtLine line(where);
  kernel.builder().check_current();
  axis_ = axis_of(kernel, axis);
  detail::cluster_size(kernel.builder());  // the cluster's size must not change after this call
  if (detail::ctas_in_line(axis_) == 1) return;
  written_.emplace(kernel, 1, axis_, "cluster reduction");
  phases_.emplace(*written_);
}

const ClusterReduction::Buffers& ClusterReduction::buffers(int values) {
  Builder& builder = kernel_.builder();
  const detail::TileContext& context = detail::TileContext::of(builder);
  const int threads = threads_of(context, builder.signature()), bytes = threads * values * 4;
  if (buffers_ && buffers_->role != context.role)
    throw Error(
        "cluster reduction: another role has already called this ClusterReduction, so its CTAs would wait "
        "for the threads of both; make one ClusterReduction for each role");
  if (!buffers_ && context.role < 0)
    builder.on_finish([threads, where = Where::here()] {
      AtLine line(where);
      if (const auto all = Builder::current().signature().threads; static_cast<int>(all) != threads)
        throw Error(fmt::format(
            "cluster reduction: {} threads call it, but the CTA has {}: call k.threads() before it", threads,
            all));
    });
  if (!buffers_ || buffers_->bytes < bytes)
    buffers_ =
        Buffers{context.role, threads,
                builder.allocate_shared("cluster reduction", static_cast<uint32_t>(bytes), 2, 16), bytes};
  return *buffers_;
}

std::vector<u32> ClusterReduction::exchange(const std::vector<u32>& mine,
                                            const std::function<u32(u32, u32)>& combine) {
  if (!written_) return mine;
  const Buffers& space = buffers(static_cast<int>(mine.size()));
  const u32 thread = tid_x() - 128 * detail::first_warpgroup_of_role();
  smem start = kernel_.builder().shared_base() +
               (phases_->parity(0) * static_cast<uint32_t>(space.bytes) + thread * 4 + space.offset);
  auto at = [&](size_t value) {
    return start + static_cast<uint32_t>(value) * static_cast<uint32_t>(space.threads) * 4;
  };
  for (size_t v = 0; v < mine.size(); ++v) sptr<u32>(at(v))[0] = mine[v];
  written_->arrive(0);
  phases_->wait(0);
  std::vector<u32> all;
  for (int cta = 0; cta < written_->ctas_in_line(); ++cta) {
    const u32 rank = detail::rank_in_line(axis_, cta);
    for (size_t v = 0; v < mine.size(); ++v) {
      u32 theirs = instruction<"ld.shared::cluster.u32">(mapa(at(v), rank));
      if (cta == 0)
        all.push_back(theirs);
      else
        all[v] = combine(all[v], theirs);
    }
  }
  return all;
}

f32 ClusterReduction::reduce(Reduction operation, f32 x, Where where) {
  AtLine line(where);
  auto combine = [&](u32 a, u32 b) {
    return bit_cast<u32>(
        f32(detail::combined(operation, Class::f32, bit_cast<f32>(a), bit_cast<f32>(b)).handle()));
  };
  return bit_cast<f32>(exchange({bit_cast<u32>(x)}, combine)[0]);
}

s32 ClusterReduction::reduce(Reduction operation, s32 x, Where where) {
  AtLine line(where);
  return s32(exchange({u32(x)}, [&](u32 a, u32 b) {
    return u32(detail::combined(operation, Class::s32, s32(a), s32(b)).handle());
  })[0]);
}

u32 ClusterReduction::reduce(Reduction operation, u32 x, Where where) {
  AtLine line(where);
  return exchange(
      {x}, [&](u32 a, u32 b) { return u32(detail::combined(operation, Class::u32, a, b).handle()); })[0];
}

detail::TileValues ClusterReduction::reduced(Reduction operation, const detail::TileValues& x) {
  if (detail::per_word(x.dtype) != 1)
    return detail::tile_convert(*x.dtype, reduced(operation, detail::tile_convert(DType::f32, x)));
  const Class cls = detail::word_class(x.dtype);
  auto as_value = [&](u32 word) { return cls == Class::f32 ? Value(bit_cast<f32>(word)) : Value(word); };
  const std::vector<u32> words = exchange(detail::registers_of(x), [&](u32 a, u32 b) {
    const detail::TileValues both{
        x.dtype, x.layout, {detail::combined(operation, cls, as_value(a), as_value(b))}};
    return detail::registers_of(both)[0];
  });
  return detail::tile_of_registers(*x.dtype, x.layout, words);
}

}  // namespace ptxbuilder
