// Runs a product of several ranks: it holds the devices, operands and exchange memory of each rank, and
// compares the results with float64.
#pragma once

#include <algorithm>
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
  DType type = DType::bf16, d_type = DType::bf16;
  bool b_along_n = false, keeps = false, is_scaled = false;
};

inline runtime::EmulatorOptions of_seed(uint64_t seed) {
  runtime::EmulatorOptions options;
  options.seed = seed;
  return options;
}

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
    for (int i = 0; i < kNumbers; ++i) {
      bits_.push_back(static_cast<uint16_t>(encode(c.type, (i - kNumbers / 2) * (2.0 / kNumbers))));
      numbers_.push_back(decode(c.type, bits_.back()));
    }
    const bool gathers = c.form == RankedForm::all_gather, scatters = c.form == RankedForm::reduce_scatter;
    const auto size = static_cast<size_t>(size_of(c.type));
    for (int r = 0; r < c.ranks; ++r) {
      runtime::Device& device = *devices[static_cast<size_t>(r)];
      a_.push_back(draw((scatters ? c.ranks : 1) * c.rows * c.k));
      b_.push_back(draw(c.n * c.k));
      as_.push_back(stored(device, a_.back()));
      bs_.push_back(stored(device, b_.back()));
      ds_.emplace_back(device, static_cast<size_t>((gathers ? c.ranks : 1) * c.rows * c.n) * 2);
      kept_.emplace_back(device, static_cast<size_t>(c.ranks * c.rows * c.k) * size);
      scales_.push_back(runtime::Buffer::of(device, std::vector<float>{scale(r)}));
      memory_.emplace_back(device,
                           kernels::RankedProduct::memory_bytes(c.form, c.ranks, c.rows, c.n, c.k, c.type));
      memory_.back().fill(0);
    }
    poison();
  }

  // Poisons D, because it may hold anything before a call.
  void poison() {
    for (std::vector<runtime::Buffer>* all : {&ds_, &kept_})
      for (runtime::Buffer& one : *all) one.fill(0xff);
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
    p.type = case_.type, p.d_type = case_.d_type, p.b_along_n = case_.b_along_n;
    if (case_.keeps) p.kept = kept_[r];
    if (case_.is_scaled) p.scale = scales_[r];
    return p;
  }
  // An element of a rank's D in float64, and the bound of its rounding error. Sums that are passed to the
  // next rank are rounded too.
  struct Wanted {
    double value, room;
  };
  Wanted wanted(int rank, int64_t row, int64_t column) const {
    const double rounding = 2 * unit_roundoff(case_.d_type);
    // Tensor cores retain about 14 bits in sums of 8-bit numbers.
    const double lost = size_of(case_.type) == 1 ? 0x1p-12 : 0;
    double of_sums = 1e-5 * static_cast<double>(case_.k * case_.ranks);
    const auto dot = [&](int of_rank, int64_t of_a, int of_b) {
      const std::vector<uint16_t>&a = a_[static_cast<size_t>(of_rank)], &b = b_[static_cast<size_t>(of_b)];
      double s = 0, of_products = 0;
      for (int64_t i = 0; i < case_.k; ++i) {
        const double product =
            numbers_[a[static_cast<size_t>(of_a * case_.k + i)]] *
            numbers_[b[static_cast<size_t>(case_.b_along_n ? i * case_.n + column : column * case_.k + i)]];
        s += product, of_products += std::abs(product);
      }
      const double factor = case_.is_scaled ? scale(of_b) : 1;
      of_sums += lost * of_products * factor;
      return s * factor;
    };
    if (case_.form == RankedForm::all_gather) {
      const double sum = dot(static_cast<int>(row / case_.rows), row % case_.rows, rank);
      return {sum, rounding * std::abs(sum) + of_sums};
    }
    const int64_t of_a = case_.form == RankedForm::reduce_scatter ? rank * case_.rows + row : row;
    Wanted w = {};
    double sizes = 0;
    for (int i = 1; i <= case_.ranks; ++i) {
      const int r = (rank + i) % case_.ranks;
      const double part = dot(r, of_a, r);
      w.value += part, sizes += std::abs(part);
      if (case_.form == RankedForm::reduce_scatter) w.room += rounding * std::abs(w.value);
    }
    // The order in which an all-reduce adds up its sums depends on its tiles.
    if (case_.form == RankedForm::all_reduce) w.room += rounding * case_.ranks * sizes;
    w.room += of_sums;
    return w;
  }
  // Returns the largest error, relative to the bound of the rounding error. Checks `samples` elements of each
  // rank, or all elements if `samples` is 0.
  double worst(int64_t samples = 0) {
    double most = 0;
    for (int r = 0; r < case_.ranks; ++r) {
      const std::vector<uint16_t> d = ds_[static_cast<size_t>(r)].copy_out<uint16_t>();
      const auto all = static_cast<int64_t>(d.size());
      for (int64_t s = 0; s < (samples ? samples : all); ++s) {
        const int64_t at = samples ? static_cast<int64_t>(engine_() % d.size()) : s;
        const Wanted w = wanted(r, at / case_.n, at % case_.n);
        const double error = std::abs(decode(case_.d_type, d[static_cast<size_t>(at)]) - w.value) / w.room;
        most = std::isnan(error) ? HUGE_VAL : std::max(most, error);
      }
    }
    return most;
  }
  // Returns whether each rank has stored an unchanged copy of all ranks' rows.
  bool has_kept() const {
    std::vector<std::byte> all;
    for (const runtime::Buffer& a : as_)
      for (const std::byte one : a.copy_out<std::byte>()) all.push_back(one);
    for (const runtime::Buffer& kept : kept_)
      if (kept.copy_out<std::byte>() != all) return false;
    return true;
  }
  // Returns whether all ranks have the same bits, which an all-reduce guarantees.
  bool is_same_on_all() const {
    const std::vector<std::vector<std::byte>> all = results();
    return std::ranges::all_of(all, [&](const auto& one) { return one == all[0]; });
  }
  std::vector<std::vector<std::byte>> results() const {
    std::vector<std::vector<std::byte>> all;
    for (const runtime::Buffer& d : ds_) all.push_back(d.copy_out<std::byte>());
    return all;
  }

 private:
  static constexpr int kNumbers = 257;  // the numbers are from -1 to 1, and draw() returns their indices

  static float scale(int rank) { return 0.5F + static_cast<float>(rank); }
  std::vector<uint16_t> draw(int64_t count) {
    std::vector<uint16_t> indices(static_cast<size_t>(count));
    for (uint16_t& i : indices) i = static_cast<uint16_t>(engine_() % kNumbers);
    return indices;
  }
  runtime::Buffer stored(runtime::Device& device, const std::vector<uint16_t>& indices) const {
    const auto size = static_cast<size_t>(size_of(case_.type));
    std::vector<std::byte> bytes(indices.size() * size);
    for (size_t i = 0; i < indices.size(); ++i) std::memcpy(&bytes[i * size], &bits_[indices[i]], size);
    return runtime::Buffer::of(device, bytes);
  }

  Devices& devices_;
  RankedCase case_;
  std::mt19937_64 engine_;
  std::vector<uint16_t> bits_;
  std::vector<double> numbers_;
  std::vector<std::vector<uint16_t>> a_, b_;
  std::vector<runtime::Buffer> as_, bs_, ds_, kept_, scales_, memory_;
};

}  // namespace ptxbuilder::test
