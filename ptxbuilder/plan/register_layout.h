// Describes as CuTe layouts which thread of a warpgroup holds which element of a tile in registers.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/layout/layout.h"

namespace ptxbuilder {

// The rows and columns of a tile.
struct TileExtent {
  int rows, cols;
  friend bool operator==(const TileExtent&, const TileExtent&) = default;
};

// A part of a tile: its first row and column, and how many rows and columns it has.
struct TilePart {
  int row, col, rows, cols;
};

// A map from (thread, value) to the element cols * row + column, for the 128 threads of a warpgroup.
// Several threads may hold the same element. Layouts are equal if they are the same function.
class RegisterLayout {
 public:
  static constexpr int kThreads = 128;

  // Throws Error unless `thread_value` is for 128 threads and its values are all elements, without repetition
  // in a thread. Errors refer to the layout as `name`.
  RegisterLayout(TileExtent extent, const Layout& thread_value, std::string name = "layout",
                 Where where = Where::here());

  TileExtent extent() const;
  int rows() const { return extent().rows; }
  int cols() const { return extent().cols; }
  int elements() const { return rows() * cols(); }
  int values() const;  // that a thread holds
  const Layout& thread_value() const;
  // True if one value represents all elements: see splat().
  bool is_splat() const;

  // The element that a thread holds as its value of this number, and the row and column of that element.
  int element(int thread, int value) const { return of_thread(thread) + of_value(value); }
  int row(int thread, int value) const { return element(thread, value) / cols(); }
  int col(int thread, int value) const { return element(thread, value) % cols(); }
  // The two parts of element().
  int of_thread(int thread) const;
  int of_value(int value) const;

  // The layout of one value for each row, with an extent of rows x 1, in which all threads that share a
  // row hold its value; and the same for each column, 1 x cols. Throws Error when the layout does not
  // keep rows and columns apart.
  RegisterLayout reduced_rows(Where where = Where::here()) const;
  RegisterLayout reduced_cols(Where where = Where::here()) const;

  std::string describe() const;  // "wgmma_layout(64, 8) ((4,8,4),(2,2)):((2,8,128),(1,64))"
  friend bool operator==(const RegisterLayout& a, const RegisterLayout& b);

 private:
  struct Plan;
  RegisterLayout reduced(bool keep_rows) const;

  std::shared_ptr<const Plan> plan_;
};

// The accumulators of wgmma (PTX ISA, wgmma.mma_async, "Register Fragments"), in the order of Accumulator: m
// is a multiple of 64, n of 8. Also A of 16-bit types in registers, where n is k.
RegisterLayout wgmma_layout(int m, int n, Where where = Where::here());
// The layouts of its reductions: one value for each of m rows, which four lanes share, or one value for each
// of n columns.
RegisterLayout wgmma_row(int m, Where where = Where::here());
RegisterLayout wgmma_col(int n, Where where = Where::here());
// A of 8-bit types in registers, 64 x k: k is a multiple of 32.
RegisterLayout wgmma_8bit(int k, Where where = Where::here());
// A of 32-bit types, tf32: k is a multiple of 8.
RegisterLayout wgmma_32bit(int k, Where where = Where::here());
// The layout of A in registers for a type: wgmma_layout(m, k), wgmma_8bit(k) or wgmma_32bit(k); the last two
// have 64 rows. Throws Error for a type that A cannot have.
RegisterLayout wgmma_a(DType type, int m, int k, Where where = Where::here());
// Like wgmma_layout for A of 16-bit types, but with 4 or 8 consecutive elements a thread. Narrow elements
// are loaded this way, 32 bits at a time, and widened to 16 bits. A cast to wgmma_layout then exchanges
// values within groups of four lanes. k is a multiple of 16 and of 32, respectively.
RegisterLayout wgmma_upcast_2x(int m, int k, Where where = Where::here());
RegisterLayout wgmma_upcast_4x(int m, int k, Where where = Where::here());
// Like accumulators, but a thread holds two adjacent elements of a column instead of a row, so that a
// transposed tile is accessed 32 bits at a time. A cast between the two exchanges values between two lanes.
RegisterLayout wgmma_transposed(int m, int n, Where where = Where::here());
// Row-major order, divided into `vector` consecutive elements for each thread in turn. The number of
// elements is a multiple of 128 vector.
RegisterLayout strided(TileExtent extent, int vector, Where where = Where::here());
// One value in every thread, which is the value of all elements.
RegisterLayout splat(TileExtent extent, Where where = Where::here());

namespace detail {

// Writes f(element(thread, value)) as a sum of one term for each of the thread's seven bits and one term for
// the value. Empty if f is not such a sum. f(0) is 0.
struct Additive {
  std::array<int, 7> bits;
  std::vector<int> values;
};
std::optional<Additive> additive(const RegisterLayout& layout, const std::function<int(int element)>& f);
std::optional<Additive> additive_rows(const RegisterLayout& layout);
std::optional<Additive> additive_cols(const RegisterLayout& layout);

// Throws Error that begins with `operation` unless the part is within the tile, and its first row and rows
// are multiples of 64, and its columns multiples of 8, like the period of wgmma_layout.
void check_part(const TilePart& part, TileExtent tile, std::string_view operation);

// The bits of the thread's number that change nothing: threads that differ only in them hold equal elements.
int replicated_bits(const RegisterLayout& layout);

}  // namespace detail

}  // namespace ptxbuilder
