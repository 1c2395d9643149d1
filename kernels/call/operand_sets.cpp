#include "kernels/call/operand_sets.h"

#include <algorithm>
#include <chrono>

namespace ptxbuilder::kernels {
namespace {

constexpr int64_t kRotated = 100'000'000;  // total bytes of all sets: twice the size of L2
constexpr int64_t kMostSets = 16;
constexpr auto kLongest = std::chrono::hours(1);  // the longest wait for the stream

}  // namespace

OperandSets::OperandSets(runtime::Device& device, MatrixCopier& copier, std::span<Operand* const> read,
                         std::span<Operand* const> written, bool pads_written, int64_t unit,
                         runtime::Stream stream)
    : device_(device), copier_(copier), unit_(unit), places_(read.begin(), read.end()) {
  places_.insert(places_.end(), written.begin(), written.end());
  device.synchronize(stream, kLongest);
  int64_t bytes = 1;
  for (const Operand* x : places_) bytes += static_cast<int64_t>(padded(*x, unit).memory.bytes);
  const int64_t count = std::clamp<int64_t>((kRotated + bytes - 1) / bytes, 1, kMostSets);
  for (int64_t set = 0; set < count; ++set) {
    std::vector<Operand>& all = sets_.emplace_back();
    for (size_t i = 0; i < places_.size(); ++i) {
      const Operand& given = *places_[i];
      const bool is_read = i < read.size();
      Operand& near = all.emplace_back(given);
      if (given.is_empty() || (is_read && set == 0 && given.aligned_for_tma())) continue;
      if (is_read) {
        near = copy_of(given);
        continue;
      }
      if (pads_written) near = padded(given, unit);
      near.memory = memory(near.memory.bytes);
    }
  }
  device.synchronize(runtime::Stream(), kLongest);
}

void OperandSets::take(size_t set) const {
  for (size_t i = 0; i < places_.size(); ++i) *places_[i] = sets_[set][i];
}

Operand OperandSets::copy_of(const Operand& given) {
  Operand near = padded(given, unit_);
  near.memory = memory(near.memory.bytes);
  for (const MatrixCopy& one : copies_of(given, near)) copier_(one, {});
  return near;
}

runtime::View OperandSets::memory(size_t bytes) {
  if (bytes == 0) return {};
  return memory_.emplace_back(device_, bytes);
}

}  // namespace ptxbuilder::kernels
