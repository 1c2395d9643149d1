// A product of several ranks: devices, operands and exchange memory of each, and what comes out beside
// float64.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/ranks/exchange.h"
#include "kernels/ranks/ranked_product.h"
#include "ptxbuilder/dtype.h"
#include "runtime/buffer.h"
#include "runtime/emulator/emulator.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test {

using kernels::RankedForm;

struct RankedCase {
  RankedForm form = RankedForm::all_gather;
  int ranks = 2;
  int64_t rows = 256, n = 256, k = 128;
};

inline std::vector<std::unique_ptr<runtime::Device>> ranked_devices(
    const std::string& name, int ranks, const runtime::EmulatorOptions& options = {}) {
  std::vector<std::unique_ptr<runtime::Device>> devices;
  if (name == "emulator") {
    for (auto& one : runtime::open_emulators(ranks, options)) devices.push_back(std::move(one));
  } else {
    for (int r = 0; r < ranks; ++r) devices.push_back(runtime::open_device(name + ":" + std::to_string(r)));
  }
  for (auto& one : devices)
    for (auto& other : devices)
      if (one != other) one->reach(*other);
  return devices;
}

class RankedRun {
 public:
  using Devices = std::vector<std::unique_ptr<runtime::Device>>;

  RankedRun(Devices& devices, const RankedCase& c, uint64_t seed)
      : devices_(devices), case_(c), engine_(seed) {
    const bool gathers = c.form == RankedForm::all_gather;
    for (int r = 0; r < c.ranks; ++r) {
      runtime::Device& device = *devices[static_cast<size_t>(r)];
      a_.push_back(draw((gathers ? 1 : c.ranks) * c.rows * c.k));
      b_.push_back(draw(c.n * c.k));
      as_.push_back(runtime::Buffer::of(device, a_.back()));
      bs_.push_back(runtime::Buffer::of(device, b_.back()));
      ds_.emplace_back(device, static_cast<size_t>((gathers ? c.ranks : 1) * c.rows * c.n) * 2);
      memory_.emplace_back(device, kernels::RankedProduct::memory_bytes(c.form, c.ranks, c.rows, c.n, c.k));
      memory_.back().fill(0);
    }
    poison();
  }

  // D may hold anything before.
  void poison() {
    for (runtime::Buffer& d : ds_) d.fill(0xff);
    synchronize();
  }
  void synchronize(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    for (auto& device : devices_) device->synchronize(limit);
  }
  kernels::RankedArguments arguments(int rank) const {
    kernels::RankedArguments p;
    const auto r = static_cast<size_t>(rank);
    p.rank = rank;
    for (const runtime::Buffer& memory : memory_) p.memory.push_back(memory);
    p.rows = case_.rows, p.n = case_.n, p.k = case_.k;
    p.a = as_[r], p.b = bs_[r], p.d = ds_[r];
    return p;
  }
  // An element of D of a rank in float64, and how far rounding may take it from that: sums that cross to the
  // next rank are rounded too.
  struct Wanted {
    double value, room;
  };
  Wanted wanted(int rank, int64_t row, int64_t column) const {
    constexpr double rounding = 1.0 / 256;
    const auto dot = [&](const std::vector<uint16_t>& a, int64_t of_a, const std::vector<uint16_t>& b) {
      double s = 0;
      for (int64_t i = 0; i < case_.k; ++i)
        s += value(a[static_cast<size_t>(of_a * case_.k + i)]) *
             value(b[static_cast<size_t>(column * case_.k + i)]);
      return s;
    };
    const double of_sums = 1e-5 * static_cast<double>(case_.k * case_.ranks);
    if (case_.form == RankedForm::all_gather) {
      const double sum =
          dot(a_[static_cast<size_t>(row / case_.rows)], row % case_.rows, b_[static_cast<size_t>(rank)]);
      return {sum, rounding * std::abs(sum) + of_sums};
    }
    Wanted w = {0, of_sums};
    for (int i = 1; i <= case_.ranks; ++i) {
      const auto r = static_cast<size_t>((rank + i) % case_.ranks);
      w.value += dot(a_[r], rank * case_.rows + row, b_[r]);
      w.room += rounding * std::abs(w.value);
    }
    return w;
  }
  // The greatest error beyond what rounding allows, as parts of that, of so many elements of each rank, or of
  // all.
  double worst(int64_t samples = 0) {
    double most = 0;
    for (int r = 0; r < case_.ranks; ++r) {
      const std::vector<uint16_t> d = ds_[static_cast<size_t>(r)].copy_out<uint16_t>();
      const auto all = static_cast<int64_t>(d.size());
      for (int64_t s = 0; s < (samples ? samples : all); ++s) {
        const int64_t at = samples ? static_cast<int64_t>(engine_() % d.size()) : s;
        const Wanted w = wanted(r, at / case_.n, at % case_.n);
        const double error = std::abs(value(d[static_cast<size_t>(at)]) - w.value) / w.room;
        most = std::isnan(error) ? HUGE_VAL : std::max(most, error);
      }
    }
    return most;
  }
  std::vector<std::vector<uint16_t>> results() const {
    std::vector<std::vector<uint16_t>> all;
    for (const runtime::Buffer& d : ds_) all.push_back(d.copy_out<uint16_t>());
    return all;
  }

 private:
  static double value(uint16_t bits) {
    const uint32_t wide = uint32_t{bits} << 16;
    float f = 0;
    std::memcpy(&f, &wide, 4);
    return f;
  }
  std::vector<uint16_t> draw(int64_t count) {
    std::vector<uint16_t> values(static_cast<size_t>(count));
    for (uint16_t& v : values) {  // bf16 of -1 to 1
      const float f = static_cast<float>(static_cast<int64_t>(engine_() % 257) - 128) / 128;
      uint32_t bits = 0;
      std::memcpy(&bits, &f, 4);
      v = static_cast<uint16_t>(bits >> 16);
    }
    return values;
  }

  Devices& devices_;
  RankedCase case_;
  std::mt19937_64 engine_;
  std::vector<std::vector<uint16_t>> a_, b_;
  std::vector<runtime::Buffer> as_, bs_, ds_, memory_;
};

}  // namespace ptxbuilder::test
