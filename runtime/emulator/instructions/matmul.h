// The products of small tiles that the tensor instructions compute, and the fragments they come in.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime::emulator {

// This says how the elements of a tile are read.
struct ElementType {
  Type type = Type::none;
  int bytes = 0;
  bool integer = false;

  float real(const std::byte* at) const;
  int32_t whole(const std::byte* at) const;
};
ElementType element_type(Type type);

// This is where the metadata of a sparse A is (PTX ISA, "Sparse matrix storage"): four bits for each four
// columns, two of them stored; of .tf32 for each two, one of them stored, and of .u4 and .s4 for each eight,
// two pairs of them stored. Of each four lanes some hold it: those that the selector names, if they are not
// all.
struct Sparsity {
  int element_bits;
  int columns;  // of A, twice those that are stored
  int selector;

  int groups() const { return columns / (element_bits == 32 ? 2 : element_bits == 4 ? 8 : 4); }
  // The most that the selector may be.
  int most_selector() const;
  // The column in A of a stored one of row `row` of 16. `metadata` is a register. Below 0: none that there
  // is.
  int column(int row, int stored, const uint32_t* metadata) const;
  // This says whether the two columns of each group are in order, as .sp::ordered_metadata promises.
  bool is_ordered(const uint32_t* metadata) const;

 private:
  uint32_t bits(int row, int group, const uint32_t* metadata) const;
};

// c[16 x n] += a[16 x k] b[k x n], all row by row. A sum over k is made first and added to c once, each in
// f32: PTX leaves the order and the intermediate precision open.
void multiply(const float* a, const float* b, float* c, int n, int k);
void multiply(const int32_t* a, const int32_t* b, int32_t* c, int n, int k, bool saturate);

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
