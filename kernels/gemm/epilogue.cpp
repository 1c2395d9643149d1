#include "kernels/gemm/epilogue.h"

#include <algorithm>

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

// Loads of 16 bytes that a thread has in flight when it adds up what other CTAs give, in the registers that
// its own sums, and what waits to be stored, leave.
int loads_in_flight(const GemmTile& t) {
  const int sums = t.warpgroup_rows() * t.bn / 128;
  return std::clamp((role_registers(t.consumers).consumer - sums - 64) / 4, 2, 16);
}

}  // namespace

GemmEpilogue::GemmEpilogue(const GemmOperation& o, const GemmTile& t, const GemmParameters& p,
                           const std::optional<ClusterSum>& cluster, const StagedOperand& x)
    : type_(o.d),
      output_(p.get<TensorMap>("D")),
      cluster_(cluster),
      x_(x),
      options_{.transposed = t.swapped, .buffers = staging_buffers(o, t), .columns = panel_columns(o, t)},
      epilogue_(epilogue_of(o, p)) {
  const TileExtent tile = {t.warpgroup_rows(), t.bn};
  if (o.batched) options_.batch = u32(0);
  if (t.split_last > 1) {
    panels_.emplace(type_, output_, tile, options_);
    global_.emplace(tile.rows, tile.cols, panels_->panels(), t.consumers, t.split_last, loads_in_flight(t),
                    p.get<gptr<f32>>("workspace"));
    if (defers_store(o, t)) deferred_.emplace(*panels_);
  } else if (defers_store(o, t)) {
    deferred_.emplace(type_, output_, tile, options_);
  }
}

void GemmEpilogue::store(Accumulator& sums, const Work& work, u32 row) {
  if (cluster_) return store_sums(cluster_->add(sums, x_.tile[0].address()), work, row);
  if (!global_) return store_sums(sums, work, row);
  if_(
      work.parts->count == 1, [&] { store_sums(sums, work, row); }, [&] { store_parts(sums, work, row); });
}

void GemmEpilogue::store_sums(const StoreSource& sums, const Work& work, u32 row) {
  if (deferred_) return deferred_->take(sums, work.x + row, work.y, epilogue_, work.batch);
  if (panels_) return panels_->store(sums, work.x + row, work.y, epilogue_, work.batch);
  StoreOptions options = options_;
  options.batch = work.batch;
  u32 first_column = cluster_ ? cluster_->first_column() : u32(0);
  ptxbuilder::store(type_, output_, sums, work.x + row, work.y + first_column, epilogue_, options);
}

void GemmEpilogue::store_parts(Accumulator& sums, const Work& work, u32 row) {
  global_->give(sums, *work.parts);
  global_->complete(sums, *work.parts, [&](int panel) {
    panels_->store(panel, sums, work.x + row, work.y, epilogue_, work.batch);
  });
  if (deferred_) deferred_->skip();
}

void GemmEpilogue::finish() {
  if (deferred_) deferred_->finish();
}

}  // namespace ptxbuilder::kernels
