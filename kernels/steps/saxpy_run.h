// Runs and checks saxpy_tma and saxpy_pipelined.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "kernels/family/run.h"

namespace ptxbuilder::kernels {

constexpr float kAlpha = 2;

// Runs and checks a kernel. `arguments` must return its arguments for x and y, which have m rows of n
// numbers.
inline void run_saxpy(
    const command::Fields& f, command::Run& run,
    const std::function<std::vector<runtime::Argument>(command::Tensor& x, command::Tensor& y)>& arguments) {
  const uint64_t m = static_cast<uint64_t>(f["m"]), n = static_cast<uint64_t>(f["n"]), count = m * n;
  command::Tensor x = run.normal(DType::f32, {n, m}), y = run.normal(DType::f32, {n, m});
  std::vector<double> before(count);
  for (size_t i = 0; i < count; ++i) before[i] = y[i];
  run.launch(arguments(x, y));
  // The result is rounded once, so its error is at most half a unit in the last place.
  run.check(
      y, 1,
      [&](size_t i) {
        double value = kAlpha * x[i] + before[i];
        return command::Expected{value, unit_roundoff(DType::f32) * std::abs(value)};
      },
      [&] {
        for (size_t i = 0; i < y.count(); ++i) y.set(i, before[i]);
        y.to_device();
      });
  run.measure(2 * static_cast<double>(count), 12 * static_cast<double>(count));
}

}  // namespace ptxbuilder::kernels
