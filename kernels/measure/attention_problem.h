// An attention problem that the contenders in the benchmark solve.
#pragma once

#include <cmath>

#include "kernels/measure/axis.h"
#include "kernels/measure/matrix.h"

namespace ptxbuilder::bench {

// O = softmax(scale() Q K^T) V for each head. Tensors are [batch, row, head, column] without gaps; query head
// h reads key head h / (heads / key_heads). With offset = keys - queries, query i sees the keys from
// i + offset - left to i + offset + right, inclusive. A `left` or `right` below 0 means that there is no
// limit, and `causal` means that right is 0.
struct AttentionProblem {
  static constexpr char kKind[] = "attention";

  DType type = DType::f16;  // type of Q, K, V and O: f16, bf16 or e4m3; with e4m3, O is bf16
  int64_t batches = 1, queries = 0, keys = 0, heads = 1, key_heads = 1;
  int64_t depth = 128, value_depth = 128;  // columns of Q and K, and columns of V and O
  bool causal = false;
  int64_t left = -1, right = -1;
  // The lengths of sequences that are packed as [row, head, column]; empty if sequences are not packed. A
  // packed sequence has the same number of keys as queries. `batches` is then the number of sequences, and
  // `queries` and `keys` are the length of the longest one.
  std::vector<int64_t> lengths = {};

  bool packed() const { return !lengths.empty(); }
  int64_t query_rows() const;  // the number of rows of Q in all batches
  int64_t key_rows() const;
  void pack(std::vector<int64_t> of_sequences);

  // Returns the number of operations. There are two for each multiplication of Q by K and of the weights by
  // V, counting only the pairs that the mask keeps.
  double flops() const;

  std::vector<Matrix> inputs() const {
    return {{"Q", type, query_rows() * heads, depth, depth},
            {"K", type, key_rows() * key_heads, depth, depth},
            {"V", type, key_rows() * key_heads, value_depth, value_depth}};
  }
  // Returns the factor that multiplies scores, 1 / sqrt(depth). For e4m3, random numbers cover the entire
  // range of the type, so the factor is multiplied by 2^-13 to make scores vary as much as those of other
  // types.
  double scale() const { return (type == DType::e4m3 ? 0x1p-13 : 1) / std::sqrt(static_cast<double>(depth)); }
  DType output_type() const { return type == DType::e4m3 ? DType::bf16 : type; }
  Matrix output() const { return {"O", output_type(), query_rows() * heads, value_depth, value_depth}; }

  struct Set {
    runtime::View q, k, v, o;
  };
  static Set set(const BufferSet& s) { return {s.inputs.at(0), s.inputs.at(1), s.inputs.at(2), s.output}; }

  // The rows of a batch, and the range [first, end) of the keys that a query of the batch sees.
  struct Sequence {
    int64_t first_query, first_key, queries, keys;
  };
  std::vector<Sequence> sequences() const;
  struct Seen {
    int64_t first, end;
  };
  Seen seen(const Sequence& sequence, int64_t query) const;

  bool operator==(const AttentionProblem&) const = default;
};

// Returns text such as "b4_s4096_h16_d128" (batches, queries, heads and depth). In
// "b4_s1024/4096_h32/4_d192/128:causal:left=512:bf16", the numbers of keys, key heads and columns of V differ
// from those of Q, and there are masks and a type other than f16. "p40_s5012_h16_d128" has 40 packed
// sequences.
std::string size_text(const AttentionProblem& problem);
std::string type_text(const AttentionProblem& problem);  // returns, for example, "f16" or "bf16 causal left
                                                         // 512"
Axis axis_of(const AttentionProblem& problem);           // the axis is the number of queries

}  // namespace ptxbuilder::bench
