// A matrix product that the contenders in the benchmark compute.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/measure/axis.h"
#include "kernels/measure/matrix.h"

namespace ptxbuilder::bench {

// D[m,n] = sum_k A[m,k] B[n,k], with f32 accumulation (s32 for integers). D is row-major. A is stored as m
// rows of k elements (k-major) or as k rows of m elements. B is stored as n rows of k elements (k-major) or
// as k rows of n elements.
struct GemmProblem {
  static constexpr char kKind[] = "matrix products";

  int64_t m = 0, n = 0, k = 0;
  DType a = DType::bf16, b = DType::bf16, d = DType::bf16;
  bool a_k_major = true, b_k_major = true;
  bool fast_accumulation = true;  // for e4m3 and e5m2; ignored for other types

  // These functions return the number of stored rows, the elements of a row, and the stride between rows in
  // elements. Rows begin at multiples of 16 bytes, as TMA requires.
  int64_t a_rows() const { return a_k_major ? m : k; }
  int64_t a_columns() const { return a_k_major ? k : m; }
  int64_t b_rows() const { return b_k_major ? n : k; }
  int64_t b_columns() const { return b_k_major ? k : n; }
  int64_t lda() const { return padded(a_columns(), a); }
  int64_t ldb() const { return padded(b_columns(), b); }
  int64_t ldd() const { return padded(n, d); }
  // Returns the number of D's columns that TMA can store, which are the columns that fill complete units of
  // 16 bytes.
  int64_t d_columns_by_tma() const { return n * size_of(d) / 16 * 16 / size_of(d); }

  std::vector<Matrix> inputs() const {
    return {{"A", a, a_rows(), a_columns(), lda()}, {"B", b, b_rows(), b_columns(), ldb()}};
  }
  Matrix output() const { return {"D", d, m, n, ldd()}; }

  // The memory of the matrices.
  struct Set {
    runtime::View a, b, d;
  };
  static Set set(const BufferSet& s) { return {s.inputs.at(0), s.inputs.at(1), s.output}; }

  double flops() const {
    return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }

  // Returns the transposition letters that cuBLAS uses for row-major data. TN means that both operands are
  // k-major. NN is A[m,k] times B[k,n], like torch.matmul(A, B) with contiguous tensors. A second letter T
  // means that A is stored as [k,m].
  std::string layout() const;
  void set_layout(const std::string& letters);  // throws an Error that lists the four layouts
  void accumulate_slowly();                     // throws Error if the types have no fast accumulation

  bool operator==(const GemmProblem&) const = default;

 private:
  static int64_t padded(int64_t columns, DType type) {
    const int64_t step = 16 / size_of(type);
    return (columns + step - 1) / step * step;
  }
};

// Returns the default type of D. It is f32 for tf32, s32 for s8, bf16 for e4m3 and e5m2, and otherwise the
// type of A and B.
DType usual_output(DType input);

std::string size_text(const GemmProblem& problem);  // returns m x n x k, for example "4096x4096x8192"
std::string type_text(const GemmProblem& problem);  // returns, for example, "bf16 -> bf16 TN" or "e4m3 ->
                                                    // bf16 TN, fast accumulation"
Axis axis_of(const GemmProblem& problem);           // the axis is k

}  // namespace ptxbuilder::bench
