// Runs an all-reduce of several ranks with a residual and an RMS norm. It holds the tensors and exchange
// memory of each rank, and compares the results with float64.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "kernels/ranks/exchange.h"
#include "kernels/ranks/ranked_norm.h"
#include "tests/ranks/ranks_kit.h"

namespace ptxbuilder::test {

struct NormCase {
  int ranks = 2;
  int64_t rows = 4, columns = 256;
  DType type = DType::bf16;
  bool has_residual = true, has_weight = true;
};

class NormRun {
 public:
  NormRun(RankedRun::Devices& devices, const NormCase& c, uint64_t seed)
      : devices_(devices), case_(c), engine_(seed) {
    const size_t bytes = count() * element();
    weight_ = draw(static_cast<size_t>(c.columns));
    for (int r = 0; r < c.ranks; ++r) {
      runtime::Device& device = *devices[static_cast<size_t>(r)];
      for (std::vector<runtime::Buffer>* all : {&xs_, &residuals_, &ys_, &sums_})
        all->emplace_back(device, bytes);
      weights_.push_back(runtime::Buffer::of(device, bits_of(weight_)));
      memory_.emplace_back(device, kernels::RankedNorm::memory_bytes(c.ranks, bytes));
      memory_.back().fill(0);
    }
    draw_again();
  }

  // Draws new data for the next call.
  void draw_again() {
    synchronize();
    x_.clear();
    residual_ = draw(count());
    for (int r = 0; r < case_.ranks; ++r) {
      const auto at = static_cast<size_t>(r);
      x_.push_back(draw(count()));
      xs_[at].copy_in(bits_of(x_[at]));
      residuals_[at].copy_in(bits_of(residual_));
    }
    poison();
  }
  // Poisons the results before a call, because they may hold anything.
  void poison() {
    for (std::vector<runtime::Buffer>* all : {&ys_, &sums_})
      for (runtime::Buffer& one : *all) one.fill(0xff);
    synchronize();
  }
  void synchronize(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    for (auto& device : devices_) device->synchronize(limit);
  }
  kernels::RankedNormArguments arguments(int rank) const {
    kernels::RankedNormArguments p;
    const auto r = static_cast<size_t>(rank);
    const auto operand = [&](const runtime::Buffer& memory) {
      return kernels::RowOperand{case_.type, {case_.rows, case_.columns}, memory};
    };
    p.rank = rank;
    for (const runtime::Buffer& memory : memory_) p.memory.push_back(memory);
    p.x = operand(xs_[r]), p.y = operand(ys_[r]), p.new_residual = operand(sums_[r]);
    if (case_.has_residual) p.residual = operand(residuals_[r]);
    if (case_.has_weight) p.weight = kernels::RowOperand{case_.type, {case_.columns}, weights_[r]};
    return p;
  }
  // Returns the largest error of rank 0's results, relative to the bound of the rounding error. The reference
  // norm uses the sum as it was rounded.
  double worst() const {
    const std::vector<double> y = values_of(ys_[0]), sum = values_of(sums_[0]);
    const double rounding = 2 * unit_roundoff(case_.type);
    double most = 0;
    const auto hold = [&](double got, double wanted, double room) {
      const double error = std::abs(got - wanted) / room;
      most = std::isnan(error) ? HUGE_VAL : std::max(most, error);
    };
    for (int64_t row = 0; row < case_.rows; ++row) {
      double squares = 0;
      const auto at = [&](int64_t column) { return static_cast<size_t>(row * case_.columns + column); };
      for (int64_t c = 0; c < case_.columns; ++c) {
        double wanted = case_.has_residual ? residual_[at(c)] : 0;
        for (const std::vector<double>& x : x_) wanted += x[at(c)];
        hold(sum[at(c)], wanted, rounding * std::abs(wanted) + 1e-6 * case_.ranks);
        squares += sum[at(c)] * sum[at(c)];
      }
      const double scale = 1 / std::sqrt(squares / static_cast<double>(case_.columns) + 1e-6);
      for (int64_t c = 0; c < case_.columns; ++c) {
        const double wanted = sum[at(c)] * scale * (case_.has_weight ? weight_[static_cast<size_t>(c)] : 1);
        hold(y[at(c)], wanted, (rounding + 4e-6) * std::abs(wanted) + 1e-7);
      }
    }
    return most;
  }
  std::vector<std::vector<std::byte>> results() const {
    std::vector<std::vector<std::byte>> found;
    for (const std::vector<runtime::Buffer>* all : {&ys_, &sums_})
      for (const runtime::Buffer& one : *all) found.push_back(one.copy_out<std::byte>());
    return found;
  }
  bool is_same_on_all() const {
    for (const std::vector<runtime::Buffer>* all : {&ys_, &sums_})
      for (const runtime::Buffer& one : *all)
        if (one.copy_out<std::byte>() != all->front().copy_out<std::byte>()) return false;
    return true;
  }

 private:
  size_t count() const { return static_cast<size_t>(case_.rows * case_.columns); }
  size_t element() const { return static_cast<size_t>(size_of(case_.type)); }
  std::vector<double> draw(size_t count) {
    std::vector<double> values(count);
    for (double& v : values)
      v = decode(case_.type, encode(case_.type, std::uniform_real_distribution<double>(-2, 2)(engine_)));
    return values;
  }
  std::vector<std::byte> bits_of(const std::vector<double>& values) const {
    std::vector<std::byte> bits(values.size() * element());
    for (size_t i = 0; i < values.size(); ++i) write_element(&bits[i * element()], case_.type, values[i]);
    return bits;
  }
  std::vector<double> values_of(const runtime::Buffer& memory) const {
    const std::vector<std::byte> bits = memory.copy_out<std::byte>();
    std::vector<double> values(bits.size() / element());
    for (size_t i = 0; i < values.size(); ++i) values[i] = read_element(&bits[i * element()], case_.type);
    return values;
  }

  RankedRun::Devices& devices_;
  NormCase case_;
  std::mt19937_64 engine_;
  std::vector<std::vector<double>> x_;
  std::vector<double> residual_, weight_;
  std::vector<runtime::Buffer> xs_, residuals_, weights_, ys_, sums_, memory_;
};

}  // namespace ptxbuilder::test
