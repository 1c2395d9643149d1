// The softmax of a warpgroup's rows, block by block of keys (Milakov and Gimelshein, 2018).
#pragma once

#include <cmath>
#include <utility>

#include "ptxbuilder/registers/partial.h"
#include "ptxbuilder/registers/tile.h"

namespace ptxbuilder::kernels {

// As far as blocks were seen: the greatest score, and the sum of exp2 of what the others are below it.
class Softmax {
 public:
  // `scale` makes powers of two of scores, and is positive.
  Softmax(const RegisterLayout& scores, f32 scale)
      : scale_(scale),
        most_(RegisterTile<f32>(f32(0), scores.reduced_rows())),
        total_(partial_rows<Reduction::add>(RegisterTile<f32>(f32(0), scores))) {}

  // Turns the scores of the first block into weights. Where some are `hidden`, they are -inf.
  RegisterTile<f32> begin(const RegisterTile<f32>& scores, bool hidden) {
    most_ = reduce_rows(Reduction::max, scores);
    const RegisterTile<f32> p = weights(scores, hidden);
    total_ = partial_rows<Reduction::add>(p);
    return p;
  }

  // The same for the next block; what was summed before is to be multiplied by the second.
  std::pair<RegisterTile<f32>, RegisterTile<f32>> add(const RegisterTile<f32>& scores, bool hidden) {
    const RegisterTile<f32> before = most_.value(), most = max(reduce_rows(Reduction::max, scores), before);
    most_ = most;
    const RegisterTile<f32> shrink = exp2((before - reference(hidden)) * scale_, Approx::yes);
    const RegisterTile<f32> p = weights(scores, hidden);
    total_ = total_.value() * shrink + partial_rows<Reduction::add>(p);
    return {p, shrink};
  }

  Partial<f32, Reduction::add> total() const { return total_.value(); }
  RegisterTile<f32> most() const { return most_.value(); }

  // The natural logarithm of the sum of exp of the scores, from most() and the complete total(); -inf where
  // there is no key.
  RegisterTile<f32> log_sum(const RegisterTile<f32>& most, const RegisterTile<f32>& total) const {
    constexpr float kLn2 = 0.6931471805599453f;
    return (most * scale_ + log2(total, Approx::yes)) * kLn2;
  }

 private:
  RegisterTile<f32> weights(const RegisterTile<f32>& scores, bool hidden) const {
    return exp2(fma(scores, scale_, -(reference(hidden) * scale_)), Approx::yes);
  }
  // -inf is no reference: of a row that has seen no key yet, each weight is exp2(-inf).
  RegisterTile<f32> reference(bool hidden) const {
    const RegisterTile<f32> most = most_.value();
    return hidden ? select(most == -INFINITY, f32(0), most) : most;
  }

  f32 scale_;
  Var<RegisterTile<f32>> most_;
  Var<Partial<f32, Reduction::add>> total_;
};

}  // namespace ptxbuilder::kernels
