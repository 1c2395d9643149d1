// Computes the softmax of a warpgroup's rows online, one block of keys after the other (Milakov and
// Gimelshein, 2018).
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "ptxbuilder/registers/partial.h"
#include "ptxbuilder/registers/tile.h"

namespace ptxbuilder::kernels {

// The softmax of the blocks added so far. For each row, it holds a reference, which is the largest score or a
// score close to it, and the sum of exp2 of the scaled differences between the scores and the reference.
class Softmax {
 public:
  // `scale` must return the positive factor that turns scores into exponents of two. If `lazy`, weights may
  // be as large as 2^8, so that the earlier sums are seldom rescaled. `narrow` is for weights that are
  // rounded to e4m3: to use more of the type's exponents, the largest score has a weight above 1, with the
  // same limit of 2^8.
  Softmax(const RegisterLayout& scores, std::function<f32()> scale, bool lazy, bool narrow = false)
      : layout_(scores),
        scale_(std::move(scale)),
        lazy_(lazy),
        exponent_(!narrow ? 0
                  : lazy  ? kMostExponent / 2
                          : kMostExponent),
        most_(RegisterTile<f32>(f32(0), scores.reduced_rows())),
        total_(partial_rows<Reduction::add>(RegisterTile<f32>(f32(0), scores))) {}

  // Starts with the first block. `sinks` holds an additional score for each row; it has no value and affects
  // only the sum.
  void begin(const RegisterTile<f32>& scores, const std::optional<RegisterTile<f32>>& sinks = {}) {
    const RegisterTile<f32> most = reduce_rows(Reduction::max, scores);
    most_ = sinks ? max(most, *sinks) : most;
    total_ = partial_rows<Reduction::add>(RegisterTile<f32>(f32(0), scores.layout()));
  }

  // Adds the next block, and returns the factors by which the caller must multiply the earlier sums. `masked`
  // must be true if some scores may be -inf.
  RegisterTile<f32> add(const RegisterTile<f32>& scores, bool masked) {
    const RegisterTile<f32> before = most_.value();
    RegisterTile<f32> most = max(reduce_rows(Reduction::max, scores), before);
    if (lazy_) most = select((most - before) * scale() > f32(kMostExponent - exponent_), most, before);
    most_ = most;
    return shrink(before, masked);
  }

  // Removes all scores. Afterwards, every block, including the first, must be added with add().
  void clear() {
    most_ = RegisterTile<f32>(f32(-INFINITY), layout_.reduced_rows());
    total_ = partial_rows<Reduction::add>(RegisterTile<f32>(f32(0), layout_));
  }

  // Adopts the reference of another softmax for the same rows, which has added a block in the meantime.
  // Returns the factors by which the caller must multiply the earlier sums.
  RegisterTile<f32> follow(const RegisterTile<f32>& most) {
    const RegisterTile<f32> before = most_.value();
    most_ = most;
    return shrink(before, true);
  }

  // Returns the weights of the last block, or of some of its columns, and adds them to the total. Each column
  // must be requested exactly once.
  RegisterTile<f32> weights(const RegisterTile<f32>& scores, bool masked) {
    const f32 scale = this->scale();
    const RegisterTile<f32> p = exp2(fma(scores, scale, raised(-(reference(masked) * scale))), Approx::yes);
    total_ = total_.value() + partial_rows<Reduction::add>(p);
    return p;
  }

  Partial<f32, Reduction::add> total() const { return total_.value(); }
  RegisterTile<f32> most() const { return most_.value(); }
  f32 scale() const { return scale_(); }
  // Returns the terms that sinks add to the complete total. Here and in log_sum(), `scale` is the factor that
  // was in effect for this total.
  RegisterTile<f32> of_sinks(const RegisterTile<f32>& most, const RegisterTile<f32>& sinks, f32 scale) const {
    return exp2(raised((sinks - select(most == -INFINITY, f32(0), most)) * scale), Approx::yes);
  }

  // Returns the natural logarithm of the sum of exp of the scores, given most() and the complete total(). It
  // is -inf if there is no key.
  RegisterTile<f32> log_sum(const RegisterTile<f32>& most, const RegisterTile<f32>& total, f32 scale) const {
    constexpr float kLn2 = 0.6931471805599453f;
    const RegisterTile<f32> exponent = most * scale + log2(total, Approx::yes);
    return (exponent_ == 0 ? exponent : exponent - f32(exponent_)) * kLn2;
  }

 private:
  // Adapts the total to the new reference, and returns the factors by which earlier sums must be multiplied.
  RegisterTile<f32> shrink(const RegisterTile<f32>& before, bool masked) {
    const RegisterTile<f32> by = exp2((before - reference(masked)) * scale(), Approx::yes);
    total_ = total_.value() * by;
    return by;
  }
  static constexpr float kMostExponent = 8;  // weights are at most 2^kMostExponent

  RegisterTile<f32> raised(const RegisterTile<f32>& exponent) const {
    return exponent_ == 0 ? exponent : exponent + f32(exponent_);
  }
  // Returns the reference of each row, with 0 in place of -inf, so that the weights of a row that has seen no
  // key are exp2(-inf) = 0.
  RegisterTile<f32> reference(bool masked) const {
    const RegisterTile<f32> most = most_.value();
    return masked ? select(most == -INFINITY, f32(0), most) : most;
  }

  RegisterLayout layout_;  // layout of scores
  std::function<f32()> scale_;
  bool lazy_;
  float exponent_;  // the largest score has the weight 2^exponent_
  Var<RegisterTile<f32>> most_;
  Var<Partial<f32, Reduction::add>> total_;
};

}  // namespace ptxbuilder::kernels
