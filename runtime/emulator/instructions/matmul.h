// Multiplies the small tiles of the tensor instructions, and converts between tiles and the fragments that
// hold them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime::emulator {

// Converts the elements of a tile to numbers.
struct ElementType {
  Type type = Type::none;
  int bytes = 0;
  bool integer = false;

  float real(const std::byte* at) const;
  int32_t whole(const std::byte* at) const;
};
ElementType element_type(Type type);

// Reads the metadata of a sparse A (PTX ISA, "Sparse matrix storage"). Four bits describe one
// group of columns. A group stores two of four columns, or one of two for .tf32, or two pairs of eight
// columns for .u4 and .s4. If only some lanes of each four hold metadata, `selector` selects these lanes.
struct Sparsity {
  int element_bits;
  int columns;  // columns of A, twice the number of stored columns
  int selector;

  int groups() const { return columns / (element_bits == 32 ? 2 : element_bits == 4 ? 8 : 4); }
  // Returns the largest legal selector.
  int most_selector() const;
  // Checks the metadata of 16 rows. Returns the violated rule with its row and group, or an empty string.
  // `metadata` is a register. If `ordered` is true, the two columns of a group must ascend, as
  // .sp::ordered_metadata promises.
  std::string refusal(const uint32_t* metadata, bool ordered) const;
  // Returns the column of A to which a stored column of one of 16 rows corresponds. The metadata must be
  // valid.
  int column(int row, int stored, const uint32_t* metadata) const;

 private:
  uint32_t bits(int row, int group, const uint32_t* metadata) const;
};

// Computes c[16 x n] += a[16 x k] b[k x n], all in row-major order. The sum over k is computed first and
// added to c once. f32 sums are computed in f32; PTX specifies neither the order nor the intermediate
// precision.
void multiply(const float* a, const float* b, float* c, int n, int k);
void multiply(const int32_t* a, const int32_t* b, int32_t* c, int n, int k, bool saturate);
// Computes the same f32 sums, but adds them to accumulator registers of 32 lanes (see below), or writes them
// if `accumulates` is false. Of each eight columns, `b` has the even columns first, because a register holds
// four of these for a row.
void multiply_into_registers(const float* a, const float* b, float* const* registers, int n, int k,
                             bool accumulates);

// accumulator_from() and accumulator_to() convert accumulator fragments. In mma and wgmma, register `h * 2 +
// upper` of A holds four bytes per lane. Lane l has row l / 4 + 8 * upper, starting at byte 16 h + (l % 4)
// * 4. Register h of B holds the same bytes of column l / 4. Accumulator registers 4 j and 4 j + 1 hold
// columns 8 j + 2 (l % 4) and the next of row l / 4. Registers 4 j + 2 and 4 j + 3 hold the same columns 8
// rows further down.
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
