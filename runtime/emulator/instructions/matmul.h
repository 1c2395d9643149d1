// Products of small tiles that the tensor instructions compute, and the fragments that hold the tiles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime::emulator {

// The way in which the elements of a tile are read.
struct ElementType {
  Type type = Type::none;
  int bytes = 0;
  bool integer = false;

  float real(const std::byte* at) const;
  int32_t whole(const std::byte* at) const;
};
ElementType element_type(Type type);

// The place of the metadata of a sparse A (PTX ISA, "Sparse matrix storage"): four bits for each four
// columns, two of them stored; for .tf32 for each two columns, one of them stored; and for .u4 and .s4 for
// each eight columns, two pairs of them stored. Some of each four lanes hold the metadata: the lanes that the
// selector names, unless all do.
struct Sparsity {
  int element_bits;
  int columns;  // of A, twice the number of stored columns
  int selector;

  int groups() const { return columns / (element_bits == 32 ? 2 : element_bits == 4 ? 8 : 4); }
  // Returns the largest legal selector.
  int most_selector() const;
  // Returns the rule that the metadata of 16 rows breaks, with the row and the group; empty if it breaks
  // none. `metadata` is a register. With `ordered`, the two columns of a group ascend, as
  // .sp::ordered_metadata promises.
  std::string refusal(const uint32_t* metadata, bool ordered) const;
  // Returns the column in A of a stored column of row `row` of 16, of metadata that breaks no rule.
  int column(int row, int stored, const uint32_t* metadata) const;

 private:
  uint32_t bits(int row, int group, const uint32_t* metadata) const;
};

// c[16 x n] += a[16 x k] b[k x n], all row by row. A sum over k is computed first and added to c once, each
// in f32: PTX does not specify the order and the intermediate precision.
void multiply(const float* a, const float* b, float* c, int n, int k);
void multiply(const int32_t* a, const int32_t* b, int32_t* c, int n, int k, bool saturate);
// The same sums of f32, added to accumulator registers of 32 lanes (see below), or to 0 unless it
// `accumulates`. Of each eight columns, `b` has the even ones first: a register has four of them for a row.
void multiply_into_registers(const float* a, const float* b, float* const* registers, int n, int k,
                             bool accumulates);

// In the fragments of mma and wgmma, register `h * 2 + upper` of A holds, for lane l, the four bytes from (l
// % 4) * 4 on in the 16-byte half h of row l / 4 + 8 * upper; register h of B the same of column l / 4.
// Accumulator registers 4 j to 4 j + 3 hold (row, column) (l / 4, 8 j + 2 (l % 4)), the next column, and both
// again 8 rows further down.
template <class T, class Load>
void accumulator_from(T* c, int n, Load load) {
  for (int j = 0; j < n / 8; ++j)
    for (int k = 0; k < 4; ++k)
      for (int lane = 0; lane < 32; ++lane)
        c[(lane / 4 + 8 * (k / 2)) * n + 8 * j + 2 * (lane % 4) + k % 2] = load(4 * j + k, lane);
}
template <class T, class Store>
void accumulator_to(const T* c, int n, Store store) {
  for (int j = 0; j < n / 8; ++j)
    for (int k = 0; k < 4; ++k)
      for (int lane = 0; lane < 32; ++lane)
        store(4 * j + k, lane, c[(lane / 4 + 8 * (k / 2)) * n + 8 * j + 2 * (lane % 4) + k % 2]);
}

}  // namespace ptxbuilder::runtime::emulator
