#include "kernels/rows/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/call/latent_row.h"

namespace ptxbuilder::kernels {
namespace {

constexpr double kError = 0x1p-20;  // error of f32 sums, relative to the largest term

// A row of a call, with its inputs and its expected results.
class ReferenceRow {
 public:
  ReferenceRow(const RowReference& call, size_t row)
      : call_(call), row_(row), columns_(static_cast<size_t>(call.sizes.at("columns"))) {}

  size_t columns() const { return columns_; }
  size_t number_of_row() const { return row_; }
  bool has(const char* tensor) const { return call_.given.count(tensor) > 0; }
  double element(const char* tensor, size_t c) const { return element_of(tensor, row_, c); }
  double element_of(const char* tensor, size_t row, size_t c) const {
    return call_.given.at(tensor)[row * columns_ + c];
  }
  int64_t size(const char* word) const { return call_.sizes.at(word); }
  double of_column(const char* tensor, size_t c, double otherwise) const {
    return has(tensor) ? call_.given.at(tensor)[c] : otherwise;
  }
  double of_row(const char* tensor) const { return call_.given.at(tensor)[row_]; }
  double number(const char* name) const { return call_.numbers.at(name); }
  double sum(const std::function<double(size_t)>& f) const {
    double sum = 0;
    for (size_t c = 0; c < columns_; ++c) sum += f(c);
    return sum;
  }
  double greatest(const std::function<double(size_t)>& f) const {
    double most = -INFINITY;
    for (size_t c = 0; c < columns_; ++c) most = std::max(most, f(c));
    return most;
  }
  // Appends an expected element to a result.
  void put(const char* tensor, double value, double tolerance) {
    results_[tensor].push_back({value, tolerance});
  }
  const std::map<std::string, std::vector<RowExpected>>& results() const { return results_; }

 private:
  const RowReference& call_;
  size_t row_, columns_;
  std::map<std::string, std::vector<RowExpected>> results_;
};

double scale_of(const ReferenceRow& row, double mean) {
  const auto n = static_cast<double>(row.columns());
  const double square = row.sum([&](size_t c) { return std::pow(row.element("x", c) - mean, 2); }) / n;
  return 1 / std::sqrt(square + row.number("epsilon"));
}

void rms_norm(ReferenceRow& row) {
  const double scale = scale_of(row, 0);
  for (size_t c = 0; c < row.columns(); ++c) {
    const double y = row.element("x", c) * scale * row.of_column("weight", c, 1);
    row.put("y", y, kError * std::abs(y));
  }
  row.put("scale", scale, kError * scale);
}

void rms_scale(ReferenceRow& row) {
  const double scale = scale_of(row, 0);
  row.put("scale", scale, kError * scale);
}

void layer_norm(ReferenceRow& row) {
  const double mean = row.sum([&](size_t c) { return row.element("x", c); }) /
                      static_cast<double>(row.columns()),
               scale = scale_of(row, mean);
  for (size_t c = 0; c < row.columns(); ++c) {
    const double y = (row.element("x", c) - mean) * scale * row.of_column("weight", c, 1),
                 bias = row.of_column("bias", c, 0);
    row.put("y", y + bias, kError * (std::abs(y) + std::abs(bias) + scale * std::abs(mean) + 1));
  }
  row.put("mean", mean, kError);
  row.put("scale", scale, 4 * kError * scale);
}

// Computes the gradient of RMS norm or, if `is_centred`, of layer norm, which subtracts the mean.
void norm_gradient(ReferenceRow& row, bool is_centred) {
  const auto n = static_cast<double>(row.columns());
  const double scale = row.of_row("scale"), mean = is_centred ? row.of_row("mean") : 0;
  const auto normal = [&](size_t c) { return (row.element("x", c) - mean) * scale; };
  const auto slope = [&](size_t c) { return row.element("dy", c) * row.of_column("weight", c, 1); };
  const double along = row.sum([&](size_t c) { return slope(c) * normal(c); }) / n,
               size = row.sum([&](size_t c) { return std::abs(slope(c) * normal(c)); }) / n,
               middle = is_centred ? row.sum(slope) / n : 0;
  for (size_t c = 0; c < row.columns(); ++c) {
    const double dx = (slope(c) - middle - normal(c) * along) * scale;
    row.put("dx", dx,
            2 * kError * std::abs(scale) *
                (std::abs(slope(c)) + std::abs(normal(c)) * size + std::abs(middle) + 1));
    const double dy = row.element("dy", c);
    row.put("dweight", dy * normal(c), kError * std::abs(dy * normal(c)));
    row.put("dbias", dy, kError * std::abs(dy));
  }
}
void rms_norm_gradient(ReferenceRow& row) { norm_gradient(row, false); }
void layer_norm_gradient(ReferenceRow& row) { norm_gradient(row, true); }

double lse_of(const ReferenceRow& row) {
  const double most = row.greatest([&](size_t c) { return row.element("x", c); });
  return most + std::log(row.sum([&](size_t c) { return std::exp(row.element("x", c) - most); }));
}

void softmax(ReferenceRow& row) {
  const double lse = lse_of(row);
  for (size_t c = 0; c < row.columns(); ++c) {
    const double y = std::exp(row.element("x", c) - lse);
    row.put("y", y, 2 * kError * y * (1 + std::abs(row.element("x", c))));
  }
}

void softmax_gradient(ReferenceRow& row) {
  const auto term = [&](size_t c) { return row.element("dy", c) * row.element("y", c); };
  const double sum = row.sum(term), size = row.sum([&](size_t c) { return std::abs(term(c)); });
  for (size_t c = 0; c < row.columns(); ++c) {
    const double y = row.element("y", c), dy = row.element("dy", c);
    row.put("dx", y * (dy - sum), kError * std::abs(y) * (std::abs(dy) + size));
  }
}

void cross_entropy(ReferenceRow& row) {
  const double lse = lse_of(row), target = row.of_row("target");
  const auto column = static_cast<size_t>(target);
  const double of_target = target < 0 ? lse : column < row.columns() ? row.element("x", column) : NAN;
  row.put("loss", lse - of_target, 2 * kError * (1 + std::abs(lse)));
  row.put("lse", lse, 2 * kError * (1 + std::abs(lse)));
}

void cross_entropy_gradient(ReferenceRow& row) {
  const double lse = row.of_row("lse"), target = row.of_row("target"),
               slope = target < 0 ? 0 : row.of_row("dloss");
  for (size_t c = 0; c < row.columns(); ++c) {
    const double y = std::exp(row.element("x", c) - lse);
    row.put("dx", slope * (y - (static_cast<double>(c) == target)),
            2 * kError * std::abs(slope) * y * (1 + std::abs(row.element("x", c)) + std::abs(lse)));
  }
}

void cumsum(ReferenceRow& row) {
  double sum = 0, size = 0;
  for (size_t c = 0; c < row.columns(); ++c) {
    sum += row.element("x", c), size += std::abs(row.element("x", c));
    row.put("y", sum, kError * size);
  }
}

void embedding(ReferenceRow& row) {
  const double index = row.of_row("index");
  const bool is_there = index >= 0 && index < static_cast<double>(row.size("entries"));
  for (size_t c = 0; c < row.columns(); ++c)
    row.put("y", is_there ? row.element_of("table", static_cast<size_t>(index), c) : NAN, 0);
}

void top_k(ReferenceRow& row) {
  std::vector<size_t> columns(row.columns());
  std::iota(columns.begin(), columns.end(), 0);
  std::stable_sort(columns.begin(), columns.end(),
                   [&](size_t a, size_t b) { return row.element("x", a) > row.element("x", b); });
  for (size_t i = 0; i < static_cast<size_t>(row.size("k")); ++i) {
    row.put("values", row.element("x", columns[i]), 0);
    row.put("columns_of_values", static_cast<double>(columns[i]), 0);
  }
}

void transpose(ReferenceRow& row) {
  for (size_t c = 0; c < row.columns(); ++c) row.put("y", row.element("x", c), 0);
}

// Quantizes the elements that `of` returns. The scale of a row's block is a single result; the scale of a
// column's block is a result of every row in the block.
void quantize(ReferenceRow& row, bool of_columns, const std::function<double(size_t r, size_t c)>& of) {
  constexpr size_t kBlock = 128;
  const size_t rows = static_cast<size_t>(row.size("rows")), r = row.number_of_row();
  for (size_t c = 0; c < row.columns(); ++c) {
    const size_t at = of_columns ? r : c, first = at / kBlock * kBlock,
                 end = std::min(first + kBlock, of_columns ? rows : row.columns());
    double most = 0x1p-100;
    for (size_t i = first; i < end; ++i) most = std::max(most, std::abs(of_columns ? of(i, c) : of(r, i)));
    double scale = most / 448;
    if (row.number("power_of_two") != 0) scale = std::exp2(std::ceil(std::log2(scale)));
    const double q = of(r, c) / scale;
    row.put("q", q, 0x1p-10 + kError * std::abs(q));
    if (of_columns || at == first) row.put("scale", scale, 2 * kError * scale);
  }
}
void quantize_1x128(ReferenceRow& row) {
  quantize(row, false, [&](size_t r, size_t c) { return row.element_of("x", r, c); });
}
void quantize_128x1(ReferenceRow& row) {
  quantize(row, true, [&](size_t r, size_t c) { return row.element_of("x", r, c); });
}
void silu_gate_quantize_1x128(ReferenceRow& row) {
  quantize(row, false, [&](size_t r, size_t c) {
    const double gate = row.element_of("x", 2 * r, c);
    return gate / (1 + std::exp(-gate)) * row.element_of("x", 2 * r + 1, c);
  });
}

// Returns a rotated element of half `half` of a head. `other` is the corresponding element of the other half.
RowExpected turned(double own, double other, size_t half, double cos, double sin) {
  const double part = (half == 0 ? -1 : 1) * other * sin;
  return {own * cos + part, kError * (std::abs(own * cos) + std::abs(part))};
}

// Rotates all heads of a row.
void rotary_of(ReferenceRow& row, const char* x, const char* y, double way) {
  const auto heads = static_cast<size_t>(row.size("heads"));
  const size_t position = row.number_of_row() % static_cast<size_t>(row.size("positions"));
  for (size_t head = 0; head < heads; ++head)
    for (size_t half = 0; half < 2; ++half)
      for (size_t c = 0; c < row.columns(); ++c) {
        const size_t first = (row.number_of_row() * heads + head) * 2;
        const RowExpected right =
            turned(row.element_of(x, first + half, c), row.element_of(x, first + 1 - half, c), half,
                   row.element_of("cos", position, c), way * row.element_of("sin", position, c));
        row.put(y, right.value, right.tolerance);
      }
}
void rotary(ReferenceRow& row) { rotary_of(row, "x", "y", 1); }
void rotary_gradient(ReferenceRow& row) { rotary_of(row, "dy", "dx", -1); }

// Returns an element of a cache [pages, heads, page_rows, halves, columns].
RowExpected append(const RowReference& call, const std::string& cache, size_t element) {
  const auto size = [&](const char* word) { return static_cast<size_t>(call.sizes.at(word)); };
  const size_t columns = size("columns"), heads = size("heads"), page_rows = size("page_rows");
  const size_t c = element % columns, half = element / columns % 2, row = element / columns / 2 % page_rows,
               head = element / columns / 2 / page_rows % heads,
               page = element / columns / 2 / page_rows / heads;
  const std::vector<double>& slots = call.given.at("slots");
  const auto token = std::find(slots.begin(), slots.end(), static_cast<double>(page * page_rows + row));
  if (token == slots.end()) return {call.given.at(cache)[element], 0};
  const auto of_token = static_cast<size_t>(token - slots.begin());
  const auto given = [&](const char* tensor, size_t of_half) {
    return call.given.at(tensor)[((of_token * heads + head) * 2 + of_half) * columns + c];
  };
  const auto scaled = [&](const char* scale, const RowExpected& x) -> RowExpected {
    const auto scales = call.given.find(scale);
    if (scales == call.given.end()) return x;
    const size_t each = size("scales"), of_page = std::min(page, size("scale_pages") - 1) * each;
    const double by = scales->second[of_page + std::min(head, each - 1)], value = x.value / by;
    return {value, std::abs(x.tolerance / by) + kError * std::abs(value)};
  };
  if (cache == "v_cache") return scaled("v_scale", {given("v", half), 0});
  if (call.given.count("cos") == 0) return scaled("k_scale", {given("k", half), 0});
  const size_t angle = static_cast<size_t>(call.given.at("position")[of_token]) * columns + c;
  return scaled("k_scale", turned(given("k", half), given("k", 1 - half), half, call.given.at("cos")[angle],
                                  call.given.at("sin")[angle]));
}

// Returns a byte of a cache [pages, page_rows, LatentRow::kBytes].
RowExpected mla_append(const RowReference& call, const std::string& cache, size_t element) {
  const std::vector<double>& slots = call.given.at("slots");
  const size_t byte = element % LatentRow::kBytes;
  const auto token = std::find(slots.begin(), slots.end(), static_cast<double>(element / LatentRow::kBytes));
  if (token == slots.end()) return {call.given.at(cache)[element], 0};
  const auto of_token = static_cast<size_t>(token - slots.begin());
  const auto byte_of = [](uint64_t bits, size_t number) {
    return RowExpected{static_cast<double>(bits >> 8 * number & 0xff), 0};
  };
  if (byte >= LatentRow::kRotaryByte) {
    const size_t column = (byte - LatentRow::kRotaryByte) / 2;
    return byte_of(encode(DType::bf16, call.given.at("rotary")[of_token * LatentRow::kRotary + column]),
                   byte % 2);
  }
  const double* latent = &call.given.at("latent")[of_token * LatentRow::kValues];
  const bool is_scale = byte >= LatentRow::kScalesByte;
  const size_t block = is_scale ? (byte - LatentRow::kScalesByte) / 4 : byte / LatentRow::kScaled;
  double most = 0;
  for (size_t i = 0; i < size_t{LatentRow::kScaled}; ++i)
    most = std::max(most, std::abs(latent[block * LatentRow::kScaled + i]));
  const float scale = std::max(static_cast<float>(most), 0x1p-100F) * (1 / 448.F);
  if (is_scale) return byte_of(std::bit_cast<uint32_t>(scale), byte % 4);
  const float scaled = static_cast<float>(latent[byte]) * (1 / scale);
  return byte_of(encode(DType::e4m3, static_cast<double>(scaled)), 0);
}

}  // namespace

std::map<std::string, std::vector<RowExpected>> row_reference(const std::string& operation,
                                                              const RowReference& call, size_t row) {
  static const std::map<std::string, void (*)(ReferenceRow&)> all = {
      {"rms_norm", rms_norm},
      {"rms_norm_gradient", rms_norm_gradient},
      {"layer_norm", layer_norm},
      {"layer_norm_gradient", layer_norm_gradient},
      {"softmax", softmax},
      {"softmax_gradient", softmax_gradient},
      {"cross_entropy", cross_entropy},
      {"cross_entropy_gradient", cross_entropy_gradient},
      {"cumsum", cumsum},
      {"embedding", embedding},
      {"top_k", top_k},
      {"rms_scale", rms_scale},
      {"transpose", transpose},
      {"quantize_1x128", quantize_1x128},
      {"silu_gate_quantize_1x128", silu_gate_quantize_1x128},
      {"quantize_128x1", quantize_128x1},
      {"rotary", rotary},
      {"rotary_gradient", rotary_gradient}};
  ReferenceRow reference(call, row);
  all.at(operation)(reference);
  return reference.results();
}

RowExpected updated_reference(const std::string& operation, const RowReference& call,
                              const std::string& tensor, size_t element) {
  static const std::map<std::string, RowExpected (*)(const RowReference&, const std::string&, size_t)> all = {
      {"append", append}, {"mla_append", mla_append}};
  return all.at(operation)(call, tensor, element);
}

}  // namespace ptxbuilder::kernels
