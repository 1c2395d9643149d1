// The softmax of a warpgroup's rows, one block of keys after the other (Milakov and Gimelshein, 2018).
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "ptxbuilder/registers/partial.h"
#include "ptxbuilder/registers/tile.h"

namespace ptxbuilder::kernels {

// The softmax of the blocks that were added so far. It holds a reference, which is the greatest score or one
// close to it, and the sum of exp2 of the differences between the scores and the reference.
class Softmax {
 public:
  // `scale` returns the positive factor that turns scores into exponents of two. `lazy` lets weights be up to
  // 2^8, so that the earlier sums are seldom rescaled. For weights that are rounded to e4m3, `narrow` uses
  // more of the type's exponents: the greatest score has a weight above 1, and 2^8 remains the limit.
  Softmax(const RegisterLayout& scores, std::function<f32()> scale, bool lazy, bool narrow = false)
      : layout_(scores),
        scale_(std::move(scale)),
        lazy_(lazy),
        exponent_(!narrow ? 0
                  : lazy  ? kMostExponent / 2
                          : kMostExponent),
        most_(RegisterTile<f32>(f32(0), scores.reduced_rows())),
        total_(partial_rows<Reduction::add>(RegisterTile<f32>(f32(0), scores))) {}

  // Adds the first block. `sinks` are scores of each row that have no weight, and only affect the sum.
  void begin(const RegisterTile<f32>& scores, const std::optional<RegisterTile<f32>>& sinks = {}) {
    const RegisterTile<f32> most = reduce_rows(Reduction::max, scores);
    most_ = sinks ? max(most, *sinks) : most;
    total_ = partial_rows<Reduction::add>(RegisterTile<f32>(f32(0), scores.layout()));
  }

  // Adds the next block. The caller must multiply the earlier sums by the result. If some scores are
  // `masked`, they are -inf.
  RegisterTile<f32> add(const RegisterTile<f32>& scores, bool masked) {
    const RegisterTile<f32> before = most_.value();
    RegisterTile<f32> most = max(reduce_rows(Reduction::max, scores), before);
    if (lazy_) most = select((most - before) * scale() > f32(kMostExponent - exponent_), most, before);
    most_ = most;
    return shrink(before, masked);
  }

  // Removes all scores. All following blocks, including the first, are then added with add().
  void clear() {
    most_ = RegisterTile<f32>(f32(-INFINITY), layout_.reduced_rows());
    total_ = partial_rows<Reduction::add>(RegisterTile<f32>(f32(0), layout_));
  }

  // Adopts the reference of another softmax of the same rows, which has added a block; returns what add()
  // returns.
  RegisterTile<f32> follow(const RegisterTile<f32>& most) {
    const RegisterTile<f32> before = most_.value();
    most_ = most;
    return shrink(before, true);
  }

  // Returns the weights of the last block, or of some of its columns. Each weight must be requested only
  // once.
  RegisterTile<f32> weights(const RegisterTile<f32>& scores, bool masked) {
    const f32 scale = this->scale();
    const RegisterTile<f32> p = exp2(fma(scores, scale, raised(-(reference(masked) * scale))), Approx::yes);
    total_ = total_.value() + partial_rows<Reduction::add>(p);
    return p;
  }

  Partial<f32, Reduction::add> total() const { return total_.value(); }
  RegisterTile<f32> most() const { return most_.value(); }
  f32 scale() const { return scale_(); }
  // Returns what a sink adds to the complete total. Here and in log_sum(), `scale` is the scale of that
  // total.
  RegisterTile<f32> of_sinks(const RegisterTile<f32>& most, const RegisterTile<f32>& sinks, f32 scale) const {
    return exp2(raised((sinks - select(most == -INFINITY, f32(0), most)) * scale), Approx::yes);
  }

  // Returns the natural logarithm of the sum of exp of the scores, computed from most() and the complete
  // total(); -inf if there is no key.
  RegisterTile<f32> log_sum(const RegisterTile<f32>& most, const RegisterTile<f32>& total, f32 scale) const {
    constexpr float kLn2 = 0.6931471805599453f;
    const RegisterTile<f32> exponent = most * scale + log2(total, Approx::yes);
    return (exponent_ == 0 ? exponent : exponent - f32(exponent_)) * kLn2;
  }

 private:
  // Returns the factor that adapts earlier sums to the new reference.
  RegisterTile<f32> shrink(const RegisterTile<f32>& before, bool masked) {
    const RegisterTile<f32> by = exp2((before - reference(masked)) * scale(), Approx::yes);
    total_ = total_.value() * by;
    return by;
  }
  static constexpr float kMostExponent = 8;  // the greatest exponent of a weight

  RegisterTile<f32> raised(const RegisterTile<f32>& exponent) const {
    return exponent_ == 0 ? exponent : exponent + f32(exponent_);
  }
  // Returns the reference of each row. It cannot be -inf: if a row has seen no key yet, each of its weights
  // is exp2(-inf).
  RegisterTile<f32> reference(bool masked) const {
    const RegisterTile<f32> most = most_.value();
    return masked ? select(most == -INFINITY, f32(0), most) : most;
  }

  RegisterLayout layout_;  // layout of scores
  std::function<f32()> scale_;
  bool lazy_;
  float exponent_;  // exponent of the weight of the greatest score
  Var<RegisterTile<f32>> most_;
  Var<Partial<f32, Reduction::add>> total_;
};

}  // namespace ptxbuilder::kernels
