// A matrix on a device between guards, whose contents are known on the host.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm/matmul.h"
#include "runtime/buffer.h"

namespace ptxbuilder::test {

// The placement of a matrix in its buffer, in addition to rows, columns and batches. The unit is elements.
struct Lie {
  int64_t offset = 0;  // distance from the end of the leading guard, which is a multiple of 256 bytes, to the
                       // first element
  int64_t gap = 0;     // gap between rows
  int64_t batch_gap = 0;  // gap between batches
};

inline std::string text(const Lie& lie) {
  return fmt::format("{}+{}+{}", lie.offset, lie.gap, lie.batch_gap);
}

// Elements on the host between two guards, and their copy on the device.
class GuardedMatrix {
 public:
  static constexpr size_t kGuard = 256;  // bytes before the offset, and after the end

  GuardedMatrix(runtime::Device& device, DType type, int64_t rows, int64_t columns, int64_t batches,
                const Lie& lie)
      : type_(type),
        rows_(rows),
        columns_(columns),
        batches_(batches),
        offset_(static_cast<int64_t>(kGuard) / size_of(type) + lie.offset),
        stride_(columns + lie.gap),
        batch_stride_(stride_ * rows + lie.batch_gap) {
    const int64_t last = (rows - 1) * stride_ + (batches - 1) * batch_stride_ + columns;
    const int64_t extent = rows * columns * batches > 0 ? last : 0;
    bytes_.assign(static_cast<size_t>((offset_ + extent) * size_of(type)) + kGuard, std::byte{0xa5});
    end_ = static_cast<size_t>((offset_ + extent) * size_of(type));
    buffer_ = runtime::Buffer(device, bytes_.size());
  }

  void fill_normal(std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    const double scale = is_int8(type_) ? 16 : 1;
    values_.resize(bytes_.size() / static_cast<size_t>(size_of(type_)));
    each([&](size_t at) { set(at, scale * normal(random)); });
  }
  // Sets each element to value(batch, row, column), which is called in this order.
  template <class Value>
  void fill_by(Value&& value) {
    values_.resize(bytes_.size() / static_cast<size_t>(size_of(type_)));
    for (int64_t b = 0; b < batches_; ++b)
      for (int64_t i = 0; i < rows_; ++i)
        for (int64_t j = 0; j < columns_; ++j) set(at(b, i, j), value(b, i, j));
  }
  void fill(double value) {
    values_.resize(bytes_.size() / static_cast<size_t>(size_of(type_)));
    each([&](size_t at) { set(at, value); });
  }
  // Sets the elements row by row.
  template <class Number>
  void fill_row(const std::vector<Number>& values) {
    values_.resize(bytes_.size() / static_cast<size_t>(size_of(type_)));
    size_t i = 0;
    each([&](size_t at) { set(at, static_cast<double>(values[i++])); });
  }
  template <class Word>
  void fill_bits(const std::vector<Word>& words) {
    size_t i = 0;
    each([&](size_t at) { std::memcpy(&bytes_[at], &words[i++], sizeof(Word)); });
  }
  void poison() {  // fills the matrix with a NaN of every floating-point type
    each([&](size_t at) { std::memset(&bytes_[at], 0xff, static_cast<size_t>(size_of(type_))); });
  }
  void to_device() { buffer_.copy_in(bytes_); }
  std::vector<std::byte> from_device() const { return buffer_.copy_out<std::byte>(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  // Returns the byte offset of an element.
  size_t at(int64_t batch, int64_t row, int64_t column) const {
    return static_cast<size_t>((offset_ + batch * batch_stride_ + row * stride_ + column) * size_of(type_));
  }
  // Returns an element of the host's copy, as it was filled in.
  double value(int64_t batch, int64_t row, int64_t column) const { return *values(batch, row, column); }
  // Returns a pointer to an element. The other elements of its row follow it, and rows are `stride` apart.
  const float* values(int64_t batch, int64_t row, int64_t column) const {
    return values_.data() + offset_ + batch * batch_stride_ + row * stride_ + column;
  }
  int64_t stride() const { return stride_; }
  double value_in(const std::vector<std::byte>& bytes, int64_t batch, int64_t row, int64_t column) const {
    return read_element(&bytes[at(batch, row, column)], type_);
  }
  // Returns the first changed byte outside of the elements, or bytes.size() if there is none.
  size_t first_touched(std::vector<std::byte> bytes) const {
    each([&](size_t at) { std::memcpy(&bytes[at], &bytes_[at], static_cast<size_t>(size_of(type_))); });
    return static_cast<size_t>(std::mismatch(bytes.begin(), bytes.end(), bytes_.begin()).first -
                               bytes.begin());
  }

  kernels::DeviceMatrix on_device() const {
    const size_t start = static_cast<size_t>(offset_ * size_of(type_));
    return {.memory = buffer_.part(start, end_ - start),
            .type = type_,
            .stride = stride_,
            .batch_stride = batch_stride_};
  }

 private:
  template <class Body>
  void each(Body&& body) const {
    for (int64_t b = 0; b < batches_; ++b)
      for (int64_t i = 0; i < rows_; ++i)
        for (int64_t j = 0; j < columns_; ++j) body(at(b, i, j));
  }
  void set(size_t at, double value) {
    const uint64_t bits = encode(type_, value);
    const auto size = static_cast<size_t>(size_of(type_));
    std::memcpy(&bytes_[at], &bits, size);
    values_[at / size] = static_cast<float>(decode(type_, bits));
  }

  DType type_;
  int64_t rows_, columns_, batches_, offset_, stride_, batch_stride_;
  size_t end_;  // byte after the last element
  std::vector<std::byte> bytes_;
  std::vector<float> values_;  // values of the elements in bytes_, if they were filled in
  runtime::Buffer buffer_;
};

}  // namespace ptxbuilder::test
