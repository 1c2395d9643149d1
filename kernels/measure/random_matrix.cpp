#include "kernels/measure/random_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ptxbuilder::bench {
namespace {

bool scaled_to_greatest(DType type) { return is_fp8(type) || type == DType::s8; }

}  // namespace

RandomBlock::RandomBlock(const Gpu& gpu, DType type, uint64_t seed)
    : type_(type), values_(kCount), buffer_(gpu.device(), kCount * static_cast<size_t>(size_of(type))) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  float largest = 0;
  for (float& value : values_) {
    value = normal(random);
    largest = std::max(largest, std::abs(value));
  }
  const double scale = scaled_to_greatest(type) ? greatest(type) / static_cast<double>(largest) : 1;
  const auto bytes = static_cast<size_t>(size_of(type));
  std::vector<std::byte> bits(kCount * bytes);
  for (size_t i = 0; i < kCount; ++i) {
    const uint64_t number = encode(type, scale * static_cast<double>(values_[i]));
    std::memcpy(bits.data() + i * bytes, &number, bytes);
    values_[i] = static_cast<float>(decode(type, number));
  }
  buffer_.copy_in(bits);
}

RandomContents::RandomContents(size_t count, std::mt19937_64& random) : count_(count) {
  // A run has a quarter to half of the block's numbers. Offsets are multiples of 16 elements, so that copies
  // are efficient.
  constexpr size_t kStep = 16, kLeast = RandomBlock::kCount / 4, kMost = RandomBlock::kCount / 2;
  std::uniform_int_distribution<size_t> lengths(kLeast / kStep, kMost / kStep);
  std::uniform_int_distribution<size_t> sources(0, (RandomBlock::kCount - kMost) / kStep);
  for (size_t first = 0; first < count; first += lengths(random) * kStep)
    runs_.push_back({first, sources(random) * kStep});
}

void RandomContents::write(const Gpu& gpu, const RandomBlock& block, runtime::Address to) const {
  const auto bytes = static_cast<size_t>(size_of(block.type()));
  for (size_t i = 0; i < runs_.size(); ++i) {
    const size_t end = i + 1 < runs_.size() ? runs_[i + 1].first : count_;
    gpu.copy(to + runs_[i].first * bytes, block.address() + runs_[i].source * bytes,
             (end - runs_[i].first) * bytes);
  }
}

double RandomContents::value(const RandomBlock& block, size_t i) const {
  auto run =
      std::upper_bound(runs_.begin(), runs_.end(), i, [](size_t at, const Run& r) { return at < r.first; });
  --run;
  return block.value(run->source + (i - run->first));
}

}  // namespace ptxbuilder::bench
