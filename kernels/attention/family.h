// Code shared by the families of attention and of its gradient.
#pragma once

#include "kernels/attention/dropout.h"
#include "kernels/family/family.h"
#include "kernels/family/run.h"

namespace ptxbuilder::kernels {

// Converts a field, which is an integer, into the value of a step of attention.def. Fields of steps that must
// be below 1 are in percent.
inline double step_of_field(double field, double below) { return below <= 1 ? field / 100 : field; }
inline command::Field step_field(const char* name, double below, const char* rule, const char* meaning) {
  return {name, 0, std::string(meaning) + ", " + (below <= 1 ? "in percent" : rule), 1, 0};
}

// Determines which weights a launch drops.
struct DropoutRule {
  float dropout = 0;
  std::array<uint32_t, 4> seed = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};

  // Returns the factor by which dropout multiplies a weight, which is 0 if the weight is dropped.
  double factor(size_t batch, size_t head, size_t query, size_t key) const {
    if (dropout == 0) return 1;
    const auto word = [](size_t x) { return static_cast<uint32_t>(x); };
    const bool keeps = dropout_keeps(seed, dropout, word(batch), word(head), word(query), word(key));
    return keeps ? greatest_factor() : 0;
  }
  double greatest_factor() const { return 65536. / (65536 - dropped_of_65536(dropout)); }
  command::Tensor seed_on_device(command::Run& run) const {
    command::Tensor words = run.output(DType::u32, {seed.size()});
    for (size_t i = 0; i < seed.size(); ++i) words.set(i, seed[i]);
    words.to_device();
    return words;
  }
};

}  // namespace ptxbuilder::kernels
