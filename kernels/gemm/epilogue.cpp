#include "kernels/gemm/epilogue.h"

#include "ptxbuilder/product/epilogue.h"

namespace ptxbuilder::kernels {
namespace {

RegisterTile<f32> activated(Activation activation, const RegisterTile<f32>& x) {
  switch (activation) {
    case Activation::relu:
      return relu(x);
    case Activation::silu:
      return silu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::none:
      break;
  }
  return x;
}

// Adds beta C and the bias, which have the output's type.
template <class T>
RegisterTile<f32> with_addends(const GemmOperation& o, const GemmParameters& p, RegisterTile<f32> x,
                               const PanelPlace& at) {
  u32 m = p.get<u32>("M"), n = p.get<u32>("N");
  if (o.beta) {
    u32 ldc = p.get<u32>("ldc");
    GlobalTensor c(p.get<gptr<T>>("C"), {1, m, n}, {u64(m) * u64(ldc), ldc, 1});
    PanelPlace place = at;
    if (!place.batch) place.batch = 0;
    x = add_residual(x, c, place, p.get<f32>("beta"));
  }
  return o.bias ? add_bias(x, GlobalTensor(p.get<gptr<T>>("bias"), {n}), at) : x;
}

// What becomes of sums; none where they are stored as they are.
Epilogue epilogue_of(const GemmOperation& o, const GemmParameters& p) {
  if (!o.has_epilogue()) return nullptr;
  return [&o, &p](const RegisterTile<f32>& sums, const PanelPlace& at) {
    RegisterTile<f32> x = o.alpha ? sums * p.get<f32>("alpha") : sums;
    if (o.d == DType::f16)
      x = with_addends<f16>(o, p, x, at);
    else if (o.d == DType::bf16)
      x = with_addends<bf16>(o, p, x, at);
    else
      x = with_addends<f32>(o, p, x, at);
    return activated(o.activation, x);
  };
}

// Whether a tile's sums wait in registers, rounded, to be stored under the next tile's products: where they
// fit beside the next sums and what the epilogue takes, and the warpgroups do not take turns anyway. A
// batch's epilogue reads C where it is now.
bool defers_store(const GemmOperation& o, const GemmTile& t) {
  const int sums = t.warpgroup_rows() * t.bn / 128;
  return size_of(o.d) == 2 && !(size_of(o.a) == 1 && !o.fast_accumulation) && !t.pingpong && t.split_k == 1 &&
         t.consumers <= 2 && t.ctas_per_sm == 1 && sums + sums / 2 <= (o.has_epilogue() ? 144 : 192) &&
         !(o.batched && o.has_epilogue());
}

}  // namespace

SharedSums::SharedSums(Kernel& k, const GemmTile& t, const GemmParameters& p) {
  if (t.split_k > 1) cluster.emplace(k, t.warpgroup_rows(), t.bn, t.consumers);
  if (t.stream_k) stream.emplace(t.warpgroup_rows(), t.bn, t.consumers, p.get<gptr<f32>>("workspace"));
}

GemmEpilogue::GemmEpilogue(const GemmOperation& o, const GemmTile& t, const GemmParameters& p,
                           const SharedSums& shared, const StagedOperand& x, const TileScheduler& scheduler)
    : type_(o.d),
      output_(p.get<TensorMap>("D")),
      shared_(shared),
      x_(x),
      scheduler_(scheduler),
      options_{.transposed = t.swapped, .buffers = staging_buffers(o, t)},
      epilogue_(epilogue_of(o, p)) {
  if (!defers_store(o, t)) return;
  if (o.batched) options_.batch = u32(0);
  deferred_.emplace(type_, output_, TileExtent{t.warpgroup_rows(), t.bn}, options_);
}

void GemmEpilogue::store(Accumulator& sums, const Work& work, u32 row) {
  if (shared_.cluster) return store_sums(shared_.cluster->add(sums, x_.tile[0].address()), work, row);
  if (!shared_.stream) return store_sums(sums, work, row);
  if_(
      work.first == 0,
      [&] {
        scheduler_.each_cta_behind(work, [&](u32 cta) { shared_.stream->take(sums, cta); });
        store_sums(sums, work, row);
      },
      [&] {
        shared_.stream->give(sums);
        if (deferred_) deferred_->skip();
      });
}

void GemmEpilogue::store_sums(const StoreSource& sums, const Work& work, u32 row) {
  if (deferred_) return deferred_->take(sums, work.x + row, work.y, epilogue_, work.batch);
  StoreOptions options = options_;
  options.batch = work.batch;
  u32 first_column = shared_.cluster ? shared_.cluster->first_column() : u32(0);
  ptxbuilder::store(type_, output_, sums, work.x + row, work.y + first_column, epilogue_, options);
}

void GemmEpilogue::finish() {
  if (deferred_) deferred_->finish();
}

}  // namespace ptxbuilder::kernels
