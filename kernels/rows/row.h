// Access to rows for the kernel of an operation. The threads that share a row hold all of it in their
// registers:
//
//   Kernel norm(const RowProblem& problem) {
//     return row_kernel(problem, [](Row& row) {
//       const Numbers x = row.load("x");
//       row.store("y", x * row.spread(rsqrt(row.sum(x * x))));
//     });
//   }
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "kernels/rows/exchange.h"
#include "kernels/rows/waiting_row.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

inline constexpr float kLog2E = 1.4426950408889634f;

// Declares the parameters of an operation's kernel, which are a pointer for each given tensor, the extents,
// the strides, and the numbers. `more` adds further parameters, which come last.
Parameters declare_parameters(Kernel& k, const RowProblem& problem, Where where = Where::here(),
                              const std::function<void(Parameters&)>& more = nullptr);

// The rows that a CTA processes at a time. Tiles of elements have the layout layout(), and tiles with one
// number for each row have layout().reduced_rows(). row_kernel() and RowThreads create Rows.
class Row {
 public:
  Row(const Row&) = delete;

  const RegisterLayout& layout() const { return layout_; }
  bool has(const std::string& tensor) const;
  bool is_wide() const { return problem_.tile.is_wide; }
  bool is_in_pieces() const { return problem_.tile.is_in_pieces; }
  u32 size(const std::string& word) const { return parameters_.get<u32>(word); }
  f32 columns() const { return f32(size("columns")); }
  f32 number(const std::string& name) const { return parameters_.get<f32>(name); }

  // Loads the rows of a tensor [rows, columns]; further calls return the same registers. Elements after the
  // last column have the value `outside`.
  Numbers load(const std::string& tensor, float outside = 0) const;
  // Passes the pieces of a row to `body`, one after the other. If the threads hold the complete row, it is a
  // single piece. If the row is in shared memory (RowLimits::waiting), it may be traversed several times.
  void for_pieces(const std::function<void(Row&)>& body);
  // Returns the elementwise sum or maximum of the results of `of` over all pieces. The entire row must be
  // available in registers or in shared memory.
  Numbers over_pieces(Reduction operation, const std::function<Numbers(Row&)>& of);
  // Loads a tensor [columns] for all rows. If the tensor is omitted, its elements are `unsaid`.
  Numbers load_columns(const std::string& tensor, float unsaid) const;
  void store(const std::string& tensor, const Numbers& x) const;
  // These functions load and store rows of a matrix [rows, columns] that is not a tensor of the operation.
  Numbers load_from(gmem start, DType type) const;
  void store_to(gmem start, DType type, const Numbers& x) const;
  // Loads the rows that `index` selects, one for each row of this tile. A row that does not exist is NaN.
  // Each thread must have a single row (RowLimits::rows_of_thread).
  Numbers load_rows(const std::string& tensor, const RegisterTile<s32>& index) const;
  // These functions load the number of each row from a tensor [rows].
  Numbers load_number(const std::string& tensor) const;
  RegisterTile<s32> load_index(const std::string& tensor) const;  // the lower 32 bits
  // Loads, for each row, the element in the column that `index` selects, or `otherwise` if the column does
  // not exist.
  Numbers load_at(const std::string& tensor, const RegisterTile<s32>& index, float otherwise) const;
  // Stores a number for each row. Does nothing if the tensor is omitted.
  void store_number(const std::string& tensor, const Numbers& x) const;
  // Stores a number for each row to column `column` of a tensor [rows, ..], which may hold integers.
  void store_number_at(const std::string& tensor, u32 column, const Numbers& x) const;

  // These functions reduce each row. All threads that share a row get the result.
  Numbers reduce(Reduction operation, const Numbers& x);
  Numbers sum(const Numbers& x) { return reduce(Reduction::add, x); }
  // Exchanges several numbers of each part at once. The warp of a part must have computed them with
  // reduce_rows().
  RowParts exchange(std::vector<Numbers> own) { return exchange_(std::move(own)); }
  f32 columns_of_part() const;
  f32 begin_of_part() const { return f32(column_); }
  template <class T>
  RegisterTile<T> spread(const RegisterTile<T>& x) const {
    return broadcast(x, layout_);
  }
  RegisterTile<u32> column() const;  // returns the column of each element
  // Returns x, with 0 for elements after the last column.
  Numbers inside(const Numbers& x) const;

 private:
  friend class RowThreads;
  // Maps the names of loaded tensors to their registers.
  using Loaded = std::map<std::string, std::vector<u32>>;
  Row(const RowProblem& problem, const Parameters& parameters, RowExchange& exchange, u32 block,
      Loaded loaded);
  Row(const Row& row, u32 column);  // the part of `row` that begins `column` columns later
  void send_for(Kernel& kernel);    // starts the copies into shared memory
  DType type_of(const std::string& tensor) const;
  RegisterTile<pred> is_inside() const;

  const RowProblem& problem_;
  const Parameters& parameters_;
  RowExchange& exchange_;
  const RegisterLayout layout_;
  mutable Loaded loaded_;   // tensors loaded in advance, or by load()
  const u32 row_, column_;  // first row and first column of this warp's part
  std::shared_ptr<WaitingRow> waiting_;
  int piece_ = 0;  // current piece of a row in shared memory
};

// Sums over all rows that a CTA processes, for the columns of each thread. The sums are in registers or, if
// there are too few registers, in shared memory.
class RowSums {
 public:
  void add(const Numbers& x);
  void add_product(const Numbers& x, const Numbers& y);

 private:
  friend class RowThreads;
  // Replaces each sum with next(sum, number), where `number` is its index among the thread's numbers.
  void change(const std::function<f32(f32 sum, int number)>& next);
  RowSums(Kernel& kernel, const RowTile& tile);
  Numbers value() const;
  // Returns the address of the thread's four numbers that include `number`.
  sptr<f32> place(int number) const;

  RegisterLayout layout_;
  int threads_;
  std::optional<Var<Numbers>> in_registers_;
  std::optional<smem> own_;
};

// The threads of a CTA, which iterate over rows.
class RowThreads {
 public:
  // Passes each row of this CTA to `body`. If CTAs stay resident, the tensors `ahead` are loaded for the next
  // rows while the current rows are processed. They must have the shape [rows, columns] or [rows].
  void for_each(const std::function<void(Row&)>& body, const std::vector<std::string>& ahead = {});
  // Returns a function that returns a tensor [columns]. The tensor is loaded once if the registers can hold
  // it, and otherwise for each row. If the tensor is omitted, its elements are `unsaid`.
  std::function<Numbers(const Row&)> columns(const std::string& tensor, float unsaid) const;
  // Returns sums, initially zero, for a summed result, or nothing if the result is omitted. store() stores
  // them as a part of the result.
  std::optional<RowSums> sums(const std::string& tensor) const;
  void store(const std::string& tensor, const std::optional<RowSums>& sums) const;

 private:
  friend Kernel rows_kernel(const RowProblem&, const std::function<void(Kernel&, Parameters&)>&,
                            const std::function<void(RowThreads&, const Parameters&)>&, Where);
  RowThreads(Kernel& kernel, const RowProblem& problem, const Parameters& parameters, RowExchange& exchange);

  Kernel& kernel_;
  const RowProblem& problem_;
  const Parameters& parameters_;
  RowExchange& exchange_;
};

// Builds the kernel of an operation from `body`. Each CTA processes some rows, or shares a row with the other
// CTAs of its cluster. If the operation has summed results or sets RowOperation::stays, CTAs stay resident
// and process several rows.
Kernel rows_kernel(const RowProblem& problem, const std::function<void(RowThreads&)>& body,
                   Where where = Where::here());
// Builds a kernel that has parameters in addition to those of the operation. `more` declares them, and
// creates objects that must be constructed outside roles.
Kernel rows_kernel(const RowProblem& problem, const std::function<void(Kernel&, Parameters&)>& more,
                   const std::function<void(RowThreads&, const Parameters&)>& body,
                   Where where = Where::here());
// Builds a kernel that runs `body` for each row.
Kernel row_kernel(const RowProblem& problem, const std::function<void(Row&)>& body,
                  Where where = Where::here());

}  // namespace ptxbuilder::kernels
