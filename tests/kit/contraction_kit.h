// Contractions on a device, with tensors anywhere between guards, compared with float64.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm/contraction.h"
#include "ptxbuilder/dtype.h"
#include "runtime/buffer.h"

namespace ptxbuilder::test {

// The letters of a tensor, beginning with the innermost in memory, and the gaps after some of them, in
// elements.
struct ContractionLie {
  std::string order;
  std::map<char, int64_t> gaps = {};
  int64_t offset = 0;  // elements after a multiple of 256 bytes
};

struct ContractionCase {
  std::string subscripts;
  std::map<char, int64_t> extents;
  ContractionLie a, b, d;
  DType type = DType::bf16, out = DType::f32;
  float alpha = 1;
  uint64_t seed = 1;
};

inline std::string text(const ContractionCase& c) {
  std::string all = c.subscripts;
  for (const auto& [letter, extent] : c.extents) all += fmt::format(" {}={}", letter, extent);
  for (const ContractionLie* lie : {&c.a, &c.b, &c.d}) {
    all += fmt::format("; {} + {}", lie->order, lie->offset);
    for (const auto& [letter, gap] : lie->gaps) all += fmt::format(" {}+{}", letter, gap);
  }
  return all + fmt::format("; {} {} seed {}", name(c.type), name(c.out), c.seed);
}

// A number for each letter, 0 for those that have none. References look one up for each product, so that it
// is an array and no std::map.
class LetterNumbers {
 public:
  LetterNumbers() = default;
  LetterNumbers(const std::map<char, int64_t>& numbers) {
    for (const auto& [letter, number] : numbers) (*this)[letter] = number;
  }
  int64_t& operator[](char letter) { return numbers_[static_cast<unsigned char>(letter)]; }
  int64_t operator[](char letter) const { return numbers_[static_cast<unsigned char>(letter)]; }

 private:
  std::array<int64_t, 256> numbers_ = {};
};

// Calls `work` with each index of the letters.
template <class Work>
void each_index(const std::string& letters, const LetterNumbers& extents, LetterNumbers& index, Work&& work,
                size_t from = 0) {
  if (from == letters.size()) return work();
  const char letter = letters[from];
  for (int64_t i = 0; i < extents[letter]; ++i) {
    index[letter] = i;
    each_index(letters, extents, index, work, from + 1);
  }
}

// A tensor of integers from -4 to 4, which all types can represent.
class ContractionData {
 public:
  static constexpr int64_t kGuard = 256;

  ContractionData(runtime::Device& device, const std::string& letters, const ContractionCase& c,
                  const ContractionLie& lie, DType type)
      : letters_(letters), type_(type), start_(kGuard + lie.offset) {
    int64_t stride = 1, last = 0;
    for (const char letter : lie.order) {
      strides_[letter] = stride;
      last += (c.extents.at(letter) - 1) * stride;
      const auto gap = lie.gaps.find(letter);
      stride =
          stride * std::max<int64_t>(c.extents.at(letter), 1) + (gap == lie.gaps.end() ? 0 : gap->second);
    }
    for (const char letter : letters_) {
      x_.extents.push_back(c.extents.at(letter));
      x_.strides.push_back(strides_[letter]);
    }
    const bool is_empty = std::ranges::count(x_.extents, 0) > 0;
    values_.assign(static_cast<size_t>(start_ + (is_empty ? 0 : last + 1) + kGuard), 7);
    buffer_ = runtime::Buffer(device, values_.size() * static_cast<size_t>(size_of(type)));
    x_.type = type;
    const auto before = static_cast<size_t>(start_ * size_of(type));
    const runtime::View whole = buffer_;
    x_.memory = {whole.address + before, whole.bytes - before - static_cast<size_t>(kGuard * size_of(type))};
  }
  void draw(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (double& value : values_) value = static_cast<double>(random() % 9) - 4;
  }
  void to_device() {
    std::vector<std::byte> bytes(values_.size() * static_cast<size_t>(size_of(type_)));
    for (size_t i = 0; i < values_.size(); ++i) {
      const uint64_t bits = encode(type_, values_[i]);
      std::memcpy(&bytes[i * static_cast<size_t>(size_of(type_))], &bits,
                  static_cast<size_t>(size_of(type_)));
    }
    buffer_.copy_in(bytes);
  }
  std::vector<double> from_device() const {
    const auto bytes = buffer_.copy_out<std::byte>();
    std::vector<double> all(values_.size());
    for (size_t i = 0; i < all.size(); ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, &bytes[i * static_cast<size_t>(size_of(type_))],
                  static_cast<size_t>(size_of(type_)));
      all[i] = decode(type_, bits);
    }
    return all;
  }
  // Returns the place of an element among the values.
  size_t at(const LetterNumbers& index) const {
    int64_t place = start_;
    for (const char letter : letters_) place += index[letter] * strides_[letter];
    return static_cast<size_t>(place);
  }
  const std::vector<double>& values() const { return values_; }
  const kernels::ContractionTensor& tensor() const { return x_; }

 private:
  std::string letters_;
  DType type_;
  int64_t start_;
  LetterNumbers strides_;
  kernels::ContractionTensor x_;
  std::vector<double> values_;
  runtime::Buffer buffer_;
};

struct ContractionTrial {
  ContractionTrial(runtime::Device& device, const ContractionCase& c)
      : device(device),
        c(c),
        of_a(c.subscripts.substr(0, c.subscripts.find(','))),
        of_b(c.subscripts.substr(of_a.size() + 1, c.subscripts.find("->") - of_a.size() - 1)),
        of_d(c.subscripts.substr(c.subscripts.find("->") + 2)),
        a(device, of_a, c, c.a, c.type),
        b(device, of_b, c, c.b, c.type),
        d(device, of_d, c, c.d, c.out) {
    a.draw(2 * c.seed), b.draw(2 * c.seed + 1);
    for (ContractionData* x : {&a, &b, &d}) x->to_device();
  }
  kernels::ContractionArguments arguments() const {
    kernels::ContractionArguments p{.subscripts = c.subscripts};
    p.a = a.tensor(), p.b = b.tensor(), p.d = d.tensor();
    p.alpha = c.alpha;
    for (kernels::ContractionTensor* x : {&p.a, &p.b})
      if (x->type == DType::f32) x->type = DType::tf32;
    return p;
  }
  // Returns what is wrong with D, or "". The memory between and around D's elements must still be 7.
  std::string wrong(kernels::Contraction& contraction) {
    kernels::ContractionArguments p = arguments();
    runtime::Buffer workspace;
    if (const size_t bytes = contraction.workspace_bytes(p))
      p.workspace = workspace = runtime::Buffer(device, bytes);
    contraction(p);
    device.synchronize();
    const std::vector<double> found = d.from_device();
    std::vector<double> expected(d.values());
    std::string summed;
    for (const char letter : of_a)
      if (of_d.find(letter) == std::string::npos) summed += letter;
    const LetterNumbers extents = c.extents;
    LetterNumbers index;
    each_index(of_d, extents, index, [&] {
      double sum = 0;
      each_index(summed, extents, index, [&] { sum += a.values()[a.at(index)] * b.values()[b.at(index)]; });
      expected[d.at(index)] = sum * c.alpha;
    });
    const double lost = c.out == DType::bf16 ? 1.0 / 256 : c.out == DType::f16 ? 1.0 / 2048 : 0;
    for (size_t i = 0; i < found.size(); ++i)
      if (!(std::abs(found[i] - expected[i]) <= lost * std::abs(expected[i])))
        return fmt::format("element {} of D's memory is {} instead of {}; {}", i, found[i], expected[i],
                           contraction.explain(p));
    return "";
  }

  runtime::Device& device;
  ContractionCase c;
  std::string of_a, of_b, of_d;
  ContractionData a, b, d;
};

// Draws modes of each kind, in any order, sometimes with gaps and odd addresses. `scale` bounds the
// multiply-adds.
inline ContractionCase drawn_contraction(uint64_t seed, double scale) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t end) { return static_cast<int64_t>(random() % end); };
  ContractionCase c;
  c.seed = seed;
  const int64_t types = below(10);
  c.type = types < 6 ? DType::bf16 : types < 7 ? DType::f16 : types < 9 ? DType::f32 : DType::e4m3;
  const int64_t outs = below(3);
  c.out = outs == 0 ? DType::f32 : c.type == DType::f16 ? DType::f16 : DType::bf16;
  if (below(8) == 0) c.alpha = 0.5;
  std::string m, n, k, batch, next = "abcdefghijklmnop";
  const auto take = [&](std::string& to, int64_t count) {
    to = next.substr(0, static_cast<size_t>(count));
    next = next.substr(static_cast<size_t>(count));
  };
  take(m, below(4)), take(n, below(4)), take(k, below(10) == 0 ? 0 : 1 + below(2)), take(batch, below(3));
  double work = 1;
  const int64_t wide[] = {8, 16, 24, 32, 40, 64, 72}, odd[] = {1, 2, 3, 5, 7, 13, 17, 20};
  for (const char letter : m + n + k + batch) {
    const bool is_odd = below(3) == 0;
    int64_t extent = is_odd ? odd[below(std::size(odd))] : wide[below(std::size(wide))];
    while (work * static_cast<double>(extent) > scale && extent > 1) extent = (extent + 1) / 2;
    c.extents[letter] = extent;
    work *= static_cast<double>(extent);
  }
  const auto shuffled = [&](std::string letters) {
    std::ranges::shuffle(letters, random);
    return letters;
  };
  const std::string of_a = shuffled(m + k + batch), of_b = shuffled(n + k + batch),
                    of_d = shuffled(m + n + batch);
  c.subscripts = of_a + "," + of_b + "->" + of_d;
  const auto lie = [&](const std::string& letters, DType type) {
    ContractionLie lie{shuffled(letters)};
    const int64_t unit = below(4) == 0 ? 1 : 16 / size_of(type);
    for (const char letter : letters)
      if (below(4) == 0) lie.gaps[letter] = unit * (1 + below(3));
    if (unit == 1 && below(2) == 0) lie.offset = 1 + below(5);
    return lie;
  };
  c.a = lie(of_a, c.type), c.b = lie(of_b, c.type), c.d = lie(of_d, c.out);
  return c;
}

}  // namespace ptxbuilder::test
