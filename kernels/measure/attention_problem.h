// An attention problem, which every contender of the benchmark computes.
#pragma once

#include <cmath>

#include "kernels/measure/axis.h"
#include "kernels/measure/matrix.h"

namespace ptxbuilder::bench {

// O = softmax(scale() Q K^T) V for each head. Tensors are [batch, row, head, column] without gaps; query head
// h reads key head h / (heads / key_heads). With offset = keys - queries, query i sees keys i + offset - left
// to i + offset + right, inclusive; a value below 0 means no limit, and causal means right = 0.
struct AttentionProblem {
  static constexpr char kKind[] = "attention";

  DType type = DType::f16;  // of Q, K, V and O: f16, bf16, or e4m3, with which O is bf16
  int64_t batches = 1, queries = 0, keys = 0, heads = 1, key_heads = 1;
  int64_t depth = 128, value_depth = 128;  // columns of Q and K, and of V and O
  bool causal = false;
  int64_t left = -1, right = -1;
  // Sequences with these numbers of queries, and equally many keys, are packed as [row, head, column]; empty
  // if all have one length. `batches` is then their number, and `queries` and `keys` are the longest.
  std::vector<int64_t> lengths = {};

  bool packed() const { return !lengths.empty(); }
  int64_t query_rows() const;  // of all batches
  int64_t key_rows() const;
  void pack(std::vector<int64_t> of_sequences);

  // Counts two for each multiplication of Q by K and of weights by V, for the pairs that the mask leaves.
  double flops() const;

  std::vector<Matrix> inputs() const {
    return {{"Q", type, query_rows() * heads, depth, depth},
            {"K", type, key_rows() * key_heads, depth, depth},
            {"V", type, key_rows() * key_heads, value_depth, value_depth}};
  }
  // Returns the factor of the scores, 1 / sqrt(depth). Numbers of e4m3 are drawn over the whole range of the
  // type, so for them the factor is 2^-13 of that: scores then vary like those of other types.
  double scale() const { return (type == DType::e4m3 ? 0x1p-13 : 1) / std::sqrt(static_cast<double>(depth)); }
  DType output_type() const { return type == DType::e4m3 ? DType::bf16 : type; }
  Matrix output() const { return {"O", output_type(), query_rows() * heads, value_depth, value_depth}; }

  struct Set {
    runtime::View q, k, v, o;
  };
  static Set set(const BufferSet& s) { return {s.inputs.at(0), s.inputs.at(1), s.inputs.at(2), s.output}; }

  // The rows of one batch, and the keys that one of its queries sees: from `first` on, before `end`.
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

// "b4_s4096_h16_d128" has batches, queries, heads and depth;
// "b4_s1024/4096_h32/4_d192/128:causal:left=512:bf16" also other numbers of keys, heads of keys and columns
// of V, masks, and a type other than f16; "p40_s5012_h16_d128" has 40 packed sequences.
std::string size_text(const AttentionProblem& problem);
std::string type_text(const AttentionProblem& problem);  // "f16", "bf16 causal left 512"
Axis axis_of(const AttentionProblem& problem);           // queries

}  // namespace ptxbuilder::bench
