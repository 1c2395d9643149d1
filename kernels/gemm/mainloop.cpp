#include "kernels/gemm/mainloop.h"

#include "ptxbuilder/product/mma.h"

namespace ptxbuilder::kernels {
namespace {

DType accumulator_type(DType input) {
  return input == DType::s8 || input == DType::u8 ? DType::s32 : DType::f32;
}

// Adds `from` to `to`, 8 columns at a time, because adding all columns at once would take twice as many
// registers.
void add(Accumulator& to, const Accumulator& from) {
  for (int row = 0; row < from.m(); row += 64)
    for (int col = 0; col < from.n(); col += 8) {
      const TilePart part = {row, col, 64, 8};
      store(to, load<f32>(to, part) + load<f32>(from, part), part);
    }
}

// Returns the number of stages that the CTA processes, so that the CTAs of a cluster need not wait for each
// other at the end. Returns nothing if there is no cluster, or if the CTAs wait for each other nevertheless.
// They wait with groups, because the number of tiles is unknown, and with divided tiles, which are so few
// that waiting costs little.
std::optional<u32> known_stages(const GemmTile& t, const TileScheduler& scheduler, bool grouped) {
  if (t.cluster_m * t.cluster_n == 1 || t.split_k > 1 || t.split_last > 1 || grouped) return std::nullopt;
  return scheduler.stages_of_cta();
}

}  // namespace

// A warpgroup that has the tensor cores to itself must keep them busy while it waits for the next stage, so
// it releases each stage one step late (`late_`). If two warpgroups share the tensor cores, one keeps them
// busy while the other waits.
Mainloop::Mainloop(const GemmOperation& o, const GemmTile& t, const StagedOperand& x, const StagedOperand& y,
                   const Pipeline& pipe, const TileScheduler& scheduler,
                   const std::optional<BlockScales>& scales, const std::optional<PackedOperand>& weights,
                   const std::optional<SparseMetadata>& metadata)
    : tile_(t),
      x_(x),
      y_(y),
      scales_(scales),
      weights_(weights),
      metadata_(metadata),
      depth_(scheduler.depth()),
      promotes_(o.promotes()),
      may_be_empty_(t.split_k > 1 || o.grouped_k()),
      late_((t.consumers == 1 || t.pingpong) && !promotes_ && !weights && !metadata && t.stages > 1),
      acc_(scales ? hopper::wgmma_rows : t.warpgroup_rows(), scales ? fresh_columns(t) : t.bn,
           accumulator_type(o.a)),
      ring_(pipe.consumer(late_ ? Peeks::yes : Peeks::no, known_stages(t, scheduler, o.has_groups()))),
      zeros_(0, wgmma_layout(t.warpgroup_rows(), t.bn)) {
  if (divides_columns(t) && !scales) acc_.set_wgmma_columns(t.bn / 2);
  if (promotes_) total_.emplace(t.warpgroup_rows(), t.bn);
}

void Mainloop::take_turns(const Turns& turns, u32 index) {
  turn_.emplace(turns.of(index));
  ring_.skip(index * depth_);  // skips the stages of tiles that other warpgroups process
}

void Mainloop::multiply(const Stage& s, u32 row) {
  if (weights_) return multiply_packed(s, row);
  if (promotes_) acc_.zero();
  wgmma_group([&] {
    const TileView y = y_.view(s, 0, acc_.n()), x = x_.view(s, row, acc_.m());
    metadata_ ? mma(acc_, metadata_->of(x, s, row, acc_.m()), y) : mma(acc_, x, y);
  });
  if (metadata_)
    bar_warp_sync(0xffffffff);  // all lanes must have read the metadata before one lane releases
                                // the stage
}

// Multiplies a stage of packed weights. The weights of a part are converted while the products of the
// previous part run. The scales are read before the products, because the lanes of a warp converge for a
// wgmma, so that no lane can read scales after another lane has released the stage.
void Mainloop::multiply_packed(const Stage& s, u32 row) {
  for (int part = 0; part < weights_->parts(); ++part) {
    const int in_group = part % weights_->parts_of_group();
    const bool is_last = promotes_ && in_group + 1 == weights_->parts_of_group();
    if (promotes_ && in_group == 0) acc_.zero();
    std::optional<RegisterTile<f32>> scales;
    if (is_last) scales.emplace(weights_->scales(s, row, part));
    weights_->multiply(s, row, part, acc_, y_.part(s, part * weights_->depth(), weights_->depth()));
    if (!is_last) continue;
    wgmma_wait(0);
    add_scaled(*scales);
  }
}

void Mainloop::add_scaled(const RegisterTile<f32>& scales) {
  for (int col = 0; col < acc_.n(); col += 8) {
    const TilePart part = {0, col, acc_.m(), 8};
    store(*total_, fma(load<f32>(acc_, part), scales, load<f32>(*total_, part)), part);
  }
}

void Mainloop::step(u32 row, const std::function<void()>& meanwhile) {
  auto s = wait_region("wait", [&] { return ring_.wait(); });
  multiply(s, row);
  meanwhile();
  wgmma_wait(0);
  ring_.release(s);
  if (promotes_ && !weights_) add(*total_, acc_);
}

void Mainloop::late_step(u32 row, u32 kt, u32 first) {
  auto s = wait_region("wait", [&] { return ring_.wait(); });
  multiply(s, row);
  ring_.peek();
  wgmma_wait(1);  // waits for the products of the previous stage
  ring_.release_previous(s, kt == first);
}

// Multiplies a stage with block scales. While one warpgroup multiplies its sums by their factors, the
// products of the other warpgroups run.
void Mainloop::scaled_step(const Work& work, u32 row, u32 kt) {
  auto s = wait_region("wait", [&] { return ring_.wait(); });
  std::optional<BlockScales::Factors> factors;
  for (int col = 0; col < total_->n(); col += acc_.n()) {
    acc_.zero();
    region("wgmma", [&] {
      wgmma_group([&] { mma(acc_, x_.view(s, row, acc_.m()), y_.view(s, col, acc_.n())); });
      if (!factors) factors.emplace(scales_->factors(s, kt, work, row));
      wgmma_wait(0);
    });
    region("scale", [&] { scales_->add(*total_, acc_, *factors, col); });
  }
  scales_->read();
  ring_.release(s);
}

Accumulator& Mainloop::run(const Work& work, u32 row, DeferredStore* under) {
  if (turn_) region("turn", [&] { turn_->wait(); });
  acc_.zero();
  if (promotes_) store(*total_, zeros_);
  region("mainloop", [&] { multiply_all(work, row, under); });
  if (turn_) ring_.skip(depth_ * (tile_.consumers - 1));
  return promotes_ ? *total_ : acc_;
}

void Mainloop::multiply_all(const Work& work, u32 row, DeferredStore* under) {
  // The previous tile is stored during the first steps, one part per step. All parts are stored here, even if
  // the work has fewer steps, because within the loop below, the branches of a store would prevent ptxas from
  // recognizing the stage as uniform.
  const int shadows = under ? under->steps() : 0;
  for (int i = 0; i < shadows; ++i)
    if_(
        work.first + i < work.last, [&] { step(row, [&] { under->step(i); }); }, [&] { under->step(i); });
  u32 rest = work.first + shadows;
  if (scales_) {
    const int each = scales_->stages_of_turn();
    const u32 turns = (work.last - rest) / each * each;
    for_(rest, rest + turns, each, [&](u32 kt) {
      for (int i = 0; i < each; ++i) scaled_step(work, row, kt + i);
    });
    rest = rest + turns;
  }
  for_(rest, work.last, [&](u32 kt) {
    if (scales_)
      scaled_step(work, row, kt);
    else if (late_)
      late_step(row, kt, rest);
    else
      step(row, [] {});
  });
  if (turn_) turn_->pass();  // the first products of the other warpgroup follow without a gap
  if (late_) {
    wgmma_wait(0);
    ring_.release_last(rest >= work.last);
  }
  if (may_be_empty_ && !scales_) if_(work.first >= work.last, [&] { store(acc_, zeros_); });
}

}  // namespace ptxbuilder::kernels
