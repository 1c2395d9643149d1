// Describes which thread of a warpgroup holds which element of a tile in registers, with CuTe layouts.
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

// A part of a tile, given by its first row and column and by its numbers of rows and columns.
struct TilePart {
  int row, col, rows, cols;
};

// A map from (thread, value) to element cols * row + column, for the 128 threads of a warpgroup. Several
// threads may hold the same element. Two layouts compare equal if they are the same function.
class RegisterLayout {
 public:
  static constexpr int kThreads = 128;

  // Throws Error unless `thread_value` has 128 threads, covers all elements, and does not repeat an element
  // within a thread. Errors refer to the layout as `name`.
  RegisterLayout(TileExtent extent, const Layout& thread_value, std::string name = "layout",
                 Where where = Where::here());

  TileExtent extent() const;
  int rows() const { return extent().rows; }
  int cols() const { return extent().cols; }
  int elements() const { return rows() * cols(); }
  int values() const;  // number of values that a thread holds
  const Layout& thread_value() const;
  // Returns whether a single value represents all elements; see splat().
  bool is_splat() const;

  // Return the element that a thread holds as value number `value`, and the row and the column of that
  // element.
  int element(int thread, int value) const { return of_thread(thread) + of_value(value); }
  int row(int thread, int value) const { return element(thread, value) / cols(); }
  int col(int thread, int value) const { return element(thread, value) % cols(); }
  // Return the two terms whose sum is element().
  int of_thread(int thread) const;
  int of_value(int value) const;

  // Return the layout of rows x 1 elements with one value for each row, and the layout of 1 x cols elements
  // with one value for each column. All threads that share a row (column) hold its value. Both functions
  // throw Error if the layout does not separate rows from columns.
  RegisterLayout reduced_rows(Where where = Where::here()) const;
  RegisterLayout reduced_cols(Where where = Where::here()) const;

  std::string describe() const;  // such as "wgmma_layout(64, 8) ((4,8,4),(2,2)):((2,8,128),(1,64))"
  friend bool operator==(const RegisterLayout& a, const RegisterLayout& b);

 private:
  struct Plan;
  RegisterLayout reduced(bool keep_rows) const;

  std::shared_ptr<const Plan> plan_;
};

// Returns the layout of wgmma accumulators (PTX ISA, wgmma.mma_async, "Register Fragments"), in the order of
// Accumulator. m must be a multiple of 64, and n a multiple of 8. An operand A of a 16-bit type in registers
// has the same layout, with k in place of n.
RegisterLayout wgmma_layout(int m, int n, Where where = Where::here());
// Return the layouts that reductions of wgmma_layout have: one value for each of m rows, which four lanes
// share, or one value for each of n columns.
RegisterLayout wgmma_row(int m, Where where = Where::here());
RegisterLayout wgmma_col(int n, Where where = Where::here());
// Returns the layout of a 64 x k A of an 8-bit type in registers. k must be a multiple of 32.
RegisterLayout wgmma_8bit(int k, Where where = Where::here());
// Returns the layout of a 64 x k A of tf32 in registers. k must be a multiple of 8.
RegisterLayout wgmma_32bit(int k, Where where = Where::here());
// Returns the layout that A has in registers for a type: wgmma_layout(m, k), wgmma_8bit(k) or wgmma_32bit(k).
// For the last two, m must be 64. Throws Error for a type that A cannot have.
RegisterLayout wgmma_a(DType type, int m, int k, Where where = Where::here());
// Return layouts for an A whose narrow elements are widened to 16 bits. The layouts are like wgmma_layout,
// but with 4 or 8 consecutive elements per thread. The narrow elements are loaded in one of these layouts, 32
// bits at a time, and widened. A cast to wgmma_layout then exchanges values within groups of four lanes. k
// must be a multiple of 16 or 32, respectively.
RegisterLayout wgmma_upcast_2x(int m, int k, Where where = Where::here());
RegisterLayout wgmma_upcast_4x(int m, int k, Where where = Where::here());
// Returns a layout like wgmma_layout, except that a thread holds two adjacent elements of a column instead of
// a row. A transposed tile can thus be accessed 32 bits at a time. A cast between the two layouts exchanges
// values between pairs of lanes.
RegisterLayout wgmma_transposed(int m, int n, Where where = Where::here());
// Returns the layout that distributes the elements round-robin among the threads, in row-major order,
// `vector` consecutive elements at a time. The number of elements must be a multiple of 128 * vector.
RegisterLayout strided(TileExtent extent, int vector, Where where = Where::here());
// Returns the layout in which every thread holds the single value that all elements have.
RegisterLayout splat(TileExtent extent, Where where = Where::here());

namespace detail {

// Expresses f(element(thread, value)) as the sum of one term for each of the seven bits of the thread's
// number and one term for the value. f(0) must be 0. additive() returns nullopt if no such sum exists.
struct Additive {
  std::array<int, 7> bits;
  std::vector<int> values;
};
std::optional<Additive> additive(const RegisterLayout& layout, const std::function<int(int element)>& f);
std::optional<Additive> additive_rows(const RegisterLayout& layout);
std::optional<Additive> additive_cols(const RegisterLayout& layout);

// Throws an Error that begins with `operation` if the part is not within the tile or is not aligned to the
// period of wgmma_layout. The first row and the number of rows must be multiples of 64; the first column and
// the number of columns must be multiples of 8.
void check_part(const TilePart& part, TileExtent tile, std::string_view operation);

// Returns the bits of a thread's number that have no effect. Threads that differ only in these bits hold the
// same elements.
int replicated_bits(const RegisterLayout& layout);

}  // namespace detail

}  // namespace ptxbuilder
