// Describes, as CuTe layouts, which thread of a warpgroup holds which element of a tile in registers.
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

// A part of a tile: its first row and column, and its numbers of rows and columns.
struct TilePart {
  int row, col, rows, cols;
};

// A map from (thread, value) to the element cols * row + column, for the 128 threads of a warpgroup. Several
// threads may hold the same element. Two layouts are equal if they are the same function.
class RegisterLayout {
 public:
  static constexpr int kThreads = 128;

  // Throws Error unless `thread_value` is for 128 threads, covers all elements, and does not repeat an
  // element within a thread. Errors refer to the layout as `name`.
  RegisterLayout(TileExtent extent, const Layout& thread_value, std::string name = "layout",
                 Where where = Where::here());

  TileExtent extent() const;
  int rows() const { return extent().rows; }
  int cols() const { return extent().cols; }
  int elements() const { return rows() * cols(); }
  int values() const;  // number of values that a thread holds
  const Layout& thread_value() const;
  // Returns whether one value represents all elements; see splat().
  bool is_splat() const;

  // Return the element that a thread holds as its value with this number, and the row and column of that
  // element.
  int element(int thread, int value) const { return of_thread(thread) + of_value(value); }
  int row(int thread, int value) const { return element(thread, value) / cols(); }
  int col(int thread, int value) const { return element(thread, value) % cols(); }
  // Return the two summands of element().
  int of_thread(int thread) const;
  int of_value(int value) const;

  // Return the layout with one value for each row, rows x 1, in which all threads that share a row hold its
  // value, and the corresponding layout with one value for each column, 1 x cols. Both throw Error if the
  // layout does not separate rows from columns.
  RegisterLayout reduced_rows(Where where = Where::here()) const;
  RegisterLayout reduced_cols(Where where = Where::here()) const;

  std::string describe() const;  // "wgmma_layout(64, 8) ((4,8,4),(2,2)):((2,8,128),(1,64))"
  friend bool operator==(const RegisterLayout& a, const RegisterLayout& b);

 private:
  struct Plan;
  RegisterLayout reduced(bool keep_rows) const;

  std::shared_ptr<const Plan> plan_;
};

// Returns the layout of wgmma's accumulators (PTX ISA, wgmma.mma_async, "Register Fragments"), in the order
// of Accumulator: m is a multiple of 64, and n of 8. It is also the layout of A of 16-bit types in registers,
// where n is k.
RegisterLayout wgmma_layout(int m, int n, Where where = Where::here());
// Return the layouts of reductions of wgmma_layout: one value for each of m rows, which four lanes share, and
// one value for each of n columns.
RegisterLayout wgmma_row(int m, Where where = Where::here());
RegisterLayout wgmma_col(int n, Where where = Where::here());
// Returns the layout of A of 8-bit types in registers, 64 x k; k is a multiple of 32.
RegisterLayout wgmma_8bit(int k, Where where = Where::here());
// Returns the layout of A of tf32 in registers, 64 x k; k is a multiple of 8.
RegisterLayout wgmma_32bit(int k, Where where = Where::here());
// Returns the layout of A in registers for a type: wgmma_layout(m, k), wgmma_8bit(k) or wgmma_32bit(k); the
// last two have 64 rows. Throws Error for a type that A cannot have.
RegisterLayout wgmma_a(DType type, int m, int k, Where where = Where::here());
// Return layouts for A of 16-bit types like wgmma_layout, but with 4 or 8 consecutive elements per thread.
// Narrow elements are loaded in these layouts, 32 bits at a time, and widened to 16 bits. A cast to
// wgmma_layout then exchanges values within groups of four lanes. k is a multiple of 16 or 32, respectively.
RegisterLayout wgmma_upcast_2x(int m, int k, Where where = Where::here());
RegisterLayout wgmma_upcast_4x(int m, int k, Where where = Where::here());
// Returns a layout like that of accumulators, except that a thread holds two adjacent elements of a column
// instead of a row, so that a transposed tile is accessed 32 bits at a time. A cast between the two exchanges
// values between pairs of lanes.
RegisterLayout wgmma_transposed(int m, int n, Where where = Where::here());
// Returns row-major order, in which each thread in turn gets `vector` consecutive elements. The number of
// elements must be a multiple of 128 * vector.
RegisterLayout strided(TileExtent extent, int vector, Where where = Where::here());
// Returns the layout in which every thread holds one value, the value of all elements.
RegisterLayout splat(TileExtent extent, Where where = Where::here());

namespace detail {

// Expresses f(element(thread, value)) as a sum of one term for each of the thread's seven bits and one term
// for the value, where f(0) is 0. Returns nothing if f is not such a sum.
struct Additive {
  std::array<int, 7> bits;
  std::vector<int> values;
};
std::optional<Additive> additive(const RegisterLayout& layout, const std::function<int(int element)>& f);
std::optional<Additive> additive_rows(const RegisterLayout& layout);
std::optional<Additive> additive_cols(const RegisterLayout& layout);

// Throws Error that begins with `operation` unless the part is within the tile, its first row and its rows
// are multiples of 64, and its first column and its columns are multiples of 8, like the period of
// wgmma_layout.
void check_part(const TilePart& part, TileExtent tile, std::string_view operation);

// Returns the bits of the thread's number that have no effect: threads that differ only in these bits hold
// the same elements.
int replicated_bits(const RegisterLayout& layout);

}  // namespace detail

}  // namespace ptxbuilder
