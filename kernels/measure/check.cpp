#include "kernels/measure/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ptxbuilder::bench {
namespace {

double accumulation_loss(const GemmProblem& p) {
  if (p.a == DType::s8) return 0;
  // Even slow accumulation adds the results of four instructions in the accumulator of 14 bits before it
  // promotes the sum.
  if (is_fp8(p.a)) return p.fast_accumulation ? 0x1p-10 : 0x1p-12;
  return 0x1p-20;
}

size_t row_bytes(const Matrix& m) { return static_cast<size_t>(m.columns * size_of(m.type)); }

}  // namespace

std::vector<Expected> expected_elements(const Problem& problem, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count) {
  return std::visit([&](const auto& p) { return expected_elements(p, inputs, seed, count); }, problem);
}

std::vector<Expected> expected_elements(const GemmProblem& p, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count) {
  auto a = [&](int64_t m, int64_t k) {
    return inputs.at(0)(p.a_k_major ? m * p.lda() + k : k * p.lda() + m);
  };
  auto b = [&](int64_t n, int64_t k) {
    return inputs.at(1)(p.b_k_major ? n * p.ldb() + k : k * p.ldb() + n);
  };
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int64_t> rows(0, p.m - 1), columns(0, p.n - 1);
  std::vector<Expected> all = {
      {0, 0, 0, 0}, {p.m - 1, 0, 0, 0}, {0, p.n - 1, 0, 0}, {p.m - 1, p.n - 1, 0, 0}};
  while (static_cast<int>(all.size()) < count) {
    const int64_t row = rows(random);
    all.push_back({row, columns(random), 0, 0});
  }
  for (Expected& e : all) {
    double magnitude = 0;
    for (int64_t k = 0; k < p.k; ++k) {
      const double product = a(e.row, k) * b(e.column, k);
      e.value += product;
      magnitude += std::abs(product);
    }
    e.tolerance = 1.01 * unit_roundoff(p.d) * std::abs(e.value) + accumulation_loss(p) * magnitude;
  }
  return all;
}

namespace {

// Returns the expected elements of a row of O, one for each column.
std::vector<Expected> expected_row(const AttentionProblem& p, const std::vector<Elements>& inputs,
                                   int64_t row) {
  const auto &q = inputs.at(0), &k = inputs.at(1), &v = inputs.at(2);
  const int64_t head = row % p.heads, query = row / p.heads, shared = head / (p.heads / p.key_heads);
  AttentionProblem::Sequence s = {};
  for (const AttentionProblem::Sequence& one : p.sequences())
    if (one.first_query <= query && query < one.first_query + one.queries) s = one;
  const auto [first, end] = p.seen(s, query - s.first_query);
  const auto key = [&](int64_t j) { return (s.first_key + j) * p.key_heads + shared; };
  std::vector<double> own, weights;
  for (int64_t c = 0; c < p.depth; ++c) own.push_back(q(row * p.depth + c) * p.scale());
  for (int64_t j = first; j < end; ++j) {
    double score = 0;
    for (int64_t c = 0; c < p.depth; ++c) score += own[static_cast<size_t>(c)] * k(key(j) * p.depth + c);
    weights.push_back(score);
  }
  const double most = weights.empty() ? 0 : *std::ranges::max_element(weights);
  double sum = 0, magnitude = 0;
  std::vector<double> squares(static_cast<size_t>(p.value_depth));
  for (double& w : weights) sum += w = std::exp(w - most);
  std::vector<Expected> all;
  for (int64_t c = 0; c < p.value_depth; ++c) all.push_back({row, c, 0, 0});
  for (int64_t j = first; j < end; ++j)
    for (Expected& e : all) {
      const double term =
          weights[static_cast<size_t>(j - first)] / sum * v(key(j) * p.value_depth + e.column);
      e.value += term;
      squares[static_cast<size_t>(e.column)] += term * term;
      magnitude = std::max(magnitude, std::abs(e.value));
    }
  for (Expected& e : all) {
    e.tolerance = unit_roundoff(p.output_type()) * (2 * magnitude + 1);
    // The rounding errors of e4m3 weights partly cancel, and the tensor core keeps about 14 bits of each sum.
    if (p.type == DType::e4m3)
      e.tolerance += 4 * unit_roundoff(p.type) * std::sqrt(squares[static_cast<size_t>(e.column)]) + 0x1p-10;
  }
  return all;
}

}  // namespace

std::vector<Expected> expected_elements(const AttentionProblem& p, const std::vector<Elements>& inputs,
                                        uint64_t seed, int count) {
  const int64_t rows = p.output().rows;
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int64_t> any(0, rows - 1);
  std::vector<int64_t> chosen = {0, rows - 1};
  while (static_cast<int>(chosen.size()) < count / 8) chosen.push_back(any(random));
  std::vector<Expected> all;
  for (int64_t row : chosen) {
    const std::vector<Expected> more = expected_row(p, inputs, row);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

Rows download(const Gpu& gpu, const Matrix& m, runtime::View memory, size_t most_bytes) {
  Rows result;
  const size_t bytes = row_bytes(m), stride = static_cast<size_t>(m.stride * size_of(m.type));
  const int64_t count =
      std::clamp<int64_t>(static_cast<int64_t>(most_bytes / bytes), 2, std::max<int64_t>(m.rows, 2));
  if (count >= m.rows) {
    std::vector<std::byte> all(static_cast<size_t>(m.rows - 1) * stride + bytes);
    gpu.device().copy_out(all.data(), memory.address, all.size());
    for (int64_t row = 0; row < m.rows; ++row) {
      result.rows.push_back(row);
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * stride);
      result.bytes.insert(result.bytes.end(), first, first + static_cast<std::ptrdiff_t>(bytes));
    }
    return result;
  }
  result.bytes.resize(static_cast<size_t>(count) * bytes);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = i * (m.rows - 1) / (count - 1);
    result.rows.push_back(row);
    gpu.device().copy_out(result.bytes.data() + static_cast<size_t>(i) * bytes,
                          memory.address + static_cast<size_t>(row) * stride, bytes);
  }
  return result;
}

std::string compare(const Gpu& gpu, const Matrix& m, runtime::View memory,
                    const std::vector<Expected>& expected) {
  size_t wrong = 0;
  std::string first;
  for (const Expected& e : expected) {
    std::byte bits[8] = {};
    const auto bytes = static_cast<size_t>(size_of(m.type));
    gpu.device().copy_out(bits, memory.address + static_cast<size_t>(e.row * m.stride + e.column) * bytes,
                          bytes);
    const double got = read_element(bits, m.type);
    if (std::abs(got - e.value) <= e.tolerance) continue;  // the comparison is false for NaN
    if (wrong++ == 0)
      first = fmt::format("{}[{}, {}] is {}, float64 gives {} +- {:.3g}", m.name, e.row, e.column, got,
                          e.value, e.tolerance);
  }
  return wrong == 0 ? ""
                    : fmt::format("{} of {} sampled elements are wrong: {}", wrong, expected.size(), first);
}

std::string compare(const Matrix& m, const Rows& got, const Rows& other,
                    const std::vector<Expected>& expected) {
  if (got.rows != other.rows || got.bytes.size() != other.bytes.size())
    throw Error(
        fmt::format("compare: one result has {} rows and the other {}, but they must have the same rows",
                    got.rows.size(), other.rows.size()));
  // Most elements are within the range of the sample; larger elements may have the rounding error of their
  // own magnitude.
  double sampled = 0;
  for (const Expected& e : expected) sampled = std::max(sampled, e.tolerance);
  size_t wrong = 0;
  std::string first;
  const auto bytes = static_cast<size_t>(size_of(m.type)), columns = static_cast<size_t>(m.columns);
  for (size_t i = 0; i < got.rows.size() * columns; ++i) {
    const double x = read_element(got.bytes.data() + i * bytes, m.type),
                 y = read_element(other.bytes.data() + i * bytes, m.type);
    const double tolerance = 2 * (sampled + 1.01 * unit_roundoff(m.type) * std::abs(y));
    if (std::abs(x - y) <= tolerance) continue;
    if (wrong++ == 0)
      first = fmt::format("{}[{}, {}] is {} and {}, but may differ by at most {:.3g}", m.name,
                          got.rows[i / columns], i % columns, x, y, tolerance);
  }
  return wrong == 0 ? ""
                    : fmt::format("{} of {} elements differ from the reference's: {}", wrong,
                                  got.rows.size() * columns, first);
}

}  // namespace ptxbuilder::bench
