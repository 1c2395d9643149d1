// A matrix product with matrices in guarded memory, held against float64: what tests of Matmul share.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/gemm/matmul.h"
#include "kernels/gemm_reference.h"
#include "runtime/buffer.h"

namespace ptxbuilder::test {

// How a matrix lies in its buffer beyond rows, columns and batches, in elements.
struct Lie {
  int64_t offset = 0;     // of the first element from where the buffer's guard ends, a multiple of 256 bytes
  int64_t gap = 0;        // between rows
  int64_t batch_gap = 0;  // between batches
};

struct MatmulCase {
  kernels::GemmSize size;
  DType a = DType::bf16, b = DType::bf16, d = DType::bf16;
  bool a_k_major = true, b_k_major = true, bias = false, fast_accumulation = true;
  bool in_place = false;  // C is D
  float alpha = 1, beta = 0;
  kernels::Activation activation = kernels::Activation::none;
  Lie a_lie, b_lie, c_lie, d_lie;
  uint64_t seed = 1;
};

// Elements on the host between two guards, and their copy on the device.
class GuardedMatrix {
 public:
  static constexpr size_t kGuard = 256;  // bytes before the offset, and behind the end

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
    each([&](size_t at) {
      const uint64_t bits = encode(type_, scale * normal(random));
      const auto size = static_cast<size_t>(size_of(type_));
      std::memcpy(&bytes_[at], &bits, size);
      values_[at / size] = static_cast<float>(decode(type_, bits));
    });
  }
  void poison() {  // a NaN in every floating type
    each([&](size_t at) { std::memset(&bytes_[at], 0xff, static_cast<size_t>(size_of(type_))); });
  }
  void to_device() { buffer_.copy_in(bytes_); }
  std::vector<std::byte> from_device() const { return buffer_.copy_out<std::byte>(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  // Byte of an element.
  size_t at(int64_t batch, int64_t row, int64_t column) const {
    return static_cast<size_t>((offset_ + batch * batch_stride_ + row * stride_ + column) * size_of(type_));
  }
  // Of the host's copy, as it was filled.
  double value(int64_t batch, int64_t row, int64_t column) const {
    return values_[at(batch, row, column) / static_cast<size_t>(size_of(type_))];
  }
  double value_in(const std::vector<std::byte>& bytes, int64_t batch, int64_t row, int64_t column) const {
    uint32_t bits = 0;
    std::memcpy(&bits, &bytes[at(batch, row, column)], static_cast<size_t>(size_of(type_)));
    return decode(type_, bits);
  }
  // The first byte outside the elements that differs from what was there; none: bytes.size().
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

  DType type_;
  int64_t rows_, columns_, batches_, offset_, stride_, batch_stride_;
  size_t end_;  // byte behind the last element
  std::vector<std::byte> bytes_;
  std::vector<float> values_;  // by element of bytes_, where it was filled
  runtime::Buffer buffer_;
};

// The matrices of a case on a device, and what comes of them.
class MatmulTrial {
 public:
  MatmulTrial(runtime::Device& device, const MatmulCase& c)
      : device_(device),
        case_(c),
        a_(device, c.a, c.a_k_major ? c.size.m : c.size.k, c.a_k_major ? c.size.k : c.size.m, c.size.batches,
           c.a_lie),
        b_(device, c.b, c.b_k_major ? c.size.n : c.size.k, c.b_k_major ? c.size.k : c.size.n, c.size.batches,
           c.b_lie),
        c_(device, c.d, c.size.m, c.size.n, c.size.batches, c.in_place ? c.d_lie : c.c_lie),
        d_(device, c.d, c.size.m, c.size.n, c.size.batches, c.d_lie),
        bias_(device, c.d, 1, c.size.n, 1, {}) {
    std::mt19937_64 random(c.seed);
    for (GuardedMatrix* x : {&a_, &b_}) x->fill_normal(random);
    d_.poison();
    if (c.beta != 0) c_.fill_normal(random);
    if (c.bias) bias_.fill_normal(random);
    for (GuardedMatrix* x : {&a_, &b_, &c_, &bias_}) x->to_device();
  }

  kernels::MatmulArguments arguments() const {
    kernels::MatmulArguments p;
    p.m = case_.size.m, p.n = case_.size.n, p.k = case_.size.k, p.batches = case_.size.batches;
    p.a = a_.on_device(), p.b = b_.on_device(), p.c = c_.on_device();
    p.d = case_.in_place ? c_.on_device() : d_.on_device();
    p.a_k_major = case_.a_k_major, p.b_k_major = case_.b_k_major;
    if (case_.bias) p.bias = bias_.on_device().memory;
    p.alpha = case_.alpha, p.beta = case_.beta;
    p.activation = case_.activation;
    p.fast_accumulation = case_.fast_accumulation;
    return p;
  }

  // The same with as much workspace as the product takes, poisoned.
  kernels::MatmulArguments arguments(kernels::Matmul& matmul) {
    kernels::MatmulArguments p = arguments();
    const size_t bytes = matmul.workspace_bytes(p);
    if (bytes > workspace_.bytes()) workspace_ = runtime::Buffer(device_, bytes);
    if (bytes == 0) return p;
    p.workspace = workspace_.part(0, bytes);
    workspace_.fill(0xff);
    return p;
  }

  // The bytes of D's buffer after one product on poisoned D.
  std::vector<std::byte> run(kernels::Matmul& matmul) {
    GuardedMatrix& out = case_.in_place ? c_ : d_;
    out.to_device();
    matmul(arguments(matmul));
    device_.synchronize();
    return result();
  }
  std::vector<std::byte> result() const { return (case_.in_place ? c_ : d_).from_device(); }
  void poison() { (case_.in_place ? c_ : d_).to_device(); }

  // What an element should be, of the dot product without alpha, and the bias.
  using Wanted = std::function<double(double sum, double bias, int64_t batch, int64_t row, int64_t column)>;

  // What is wrong with what run() gave; "" when nothing is. Takes all processors. Without `wanted` it is held
  // against what the case says, with it to 1e-4 of 1 + |sum|.
  std::string wrong(const std::vector<std::byte>& got, const Wanted& wanted = nullptr) const {
    const GuardedMatrix& out = case_.in_place ? c_ : d_;
    if (const size_t at = out.first_touched(got); at != got.size())
      return fmt::format("byte {} of {} around D was overwritten", at, got.size());
    const int64_t rows = case_.size.m * case_.size.batches;
    std::atomic<int64_t> next = 0;
    std::atomic<size_t> count = 0;
    std::string first;
    {
      std::vector<std::jthread> threads;
      for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
        threads.emplace_back([&] {
          for (int64_t row; (row = next++) < rows;) {
            std::string problem = wrong_row(got, row / case_.size.m, row % case_.size.m, wanted, count);
            if (!problem.empty()) first = std::move(problem);
          }
        });
    }
    return count == 0 ? "" : fmt::format("{} elements are wrong, one: {}", count.load(), first);
  }

 private:
  kernels::GemmOperation operation() const {
    kernels::GemmOperation o;
    o.a = case_.a, o.b = case_.b, o.d = case_.d;
    o.fast_accumulation = case_.fast_accumulation;
    o.alpha = case_.alpha != 1, o.beta = case_.beta != 0, o.bias = case_.bias;
    o.activation = case_.activation;
    return o;
  }

  // Counts wrong elements of a row, and says what the first of all is.
  std::string wrong_row(const std::vector<std::byte>& got, int64_t batch, int64_t i, const Wanted& wanted,
                        std::atomic<size_t>& count) const {
    const GuardedMatrix& out = case_.in_place ? c_ : d_;
    const kernels::GemmOperation o = operation();
    std::vector<kernels::Dot> dots(static_cast<size_t>(case_.size.n), kernels::Dot{0, 0});
    const int64_t depth = case_.alpha != 0 ? case_.size.k : 0;
    std::string first;
    for (int64_t k = 0; k < depth; ++k) {
      const double a = a_.value(batch, case_.a_k_major ? i : k, case_.a_k_major ? k : i);
      for (int64_t j = 0; j < case_.size.n; ++j) {
        const double product = a * b_.value(batch, case_.b_k_major ? j : k, case_.b_k_major ? k : j);
        dots[static_cast<size_t>(j)].sum += product;
        dots[static_cast<size_t>(j)].magnitude += std::abs(product);
      }
    }
    for (int64_t j = 0; j < case_.size.n; ++j) {
      const double added = (case_.beta != 0 ? double{case_.beta} * c_.value(batch, i, j) : 0) +
                           (case_.bias ? bias_.value(0, 0, j) : 0);
      const kernels::Approximate x = input_of(o, dots[static_cast<size_t>(j)], case_.alpha, added);
      command::Expected e = rounded(o, output_of(o, x, 0), 1);
      if (wanted) {
        const double sum = dots[static_cast<size_t>(j)].sum;
        e = {wanted(sum, case_.bias ? bias_.value(0, 0, j) : 0, batch, i, j), 1e-4 * (1 + std::abs(sum))};
      }
      const double value = out.value_in(got, batch, i, j);
      if (std::abs(value - e.value) <= e.tolerance || count++ > 0) continue;
      first =
          fmt::format("D[{},{},{}] = {}, should be {} +- {:.2g}", batch, i, j, value, e.value, e.tolerance);
    }
    return first;
  }

  runtime::Device& device_;
  MatmulCase case_;
  GuardedMatrix a_, b_, c_, d_, bias_;
  runtime::Buffer workspace_;
};

inline std::string text(const Lie& lie) {
  return fmt::format("{}+{}+{}", lie.offset, lie.gap, lie.batch_gap);
}

inline std::string text(const MatmulCase& c) {
  constexpr const char* activations[] = {"", ", relu", ", gelu", ", silu"};
  std::string s =
      fmt::format("{} {}-major {} x {} {}-major {} -> {} {}", name(c.a), c.a_k_major ? "k" : "m",
                  text(c.a_lie), name(c.b), c.b_k_major ? "k" : "n", text(c.b_lie), name(c.d), text(c.d_lie));
  s += fmt::format(", {} x {} x {} x {}", c.size.m, c.size.n, c.size.k, c.size.batches);
  if (c.alpha != 1) s += fmt::format(", alpha {}", c.alpha);
  if (c.beta != 0) s += fmt::format(", beta {}{}", c.beta, c.in_place ? " in place" : ", C " + text(c.c_lie));
  if (c.bias) s += ", bias";
  if (!c.fast_accumulation) s += ", slow accumulation";
  return s + activations[static_cast<int>(c.activation)];
}

}  // namespace ptxbuilder::test
