// A row as a kernel of an operation sees it: the registers of the threads that share a row hold all of it.
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

// Declares the parameters of an operation's kernel: a pointer for each given tensor, the extents, and the
// operation's numbers. `more` adds the kernel's own parameters, which come last.
Parameters declare_parameters(Kernel& k, const RowProblem& problem, Where where = Where::here(),
                              const std::function<void(Parameters&)>& more = nullptr);

// The rows of a CTA, as an operation's kernel sees them. Tiles of elements have layout(), and tiles of one
// number for each row have layout().reduced_rows(). row_kernel() makes a Row.
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

  // Loads rows of a tensor [rows, columns] once; columns after the last get the value `outside`.
  Numbers load(const std::string& tensor, float outside = 0) const;
  // Passes the pieces of a row to `body`, one after the other. A row that its threads hold completely is one
  // piece. A row in shared memory (RowLimits) may be traversed again.
  void for_pieces(const std::function<void(Row&)>& body);
  // Adds up the results of `of` over the pieces, or finds their maximum, element by element. The row must be
  // entirely available, in registers or in shared memory.
  Numbers over_pieces(Reduction operation, const std::function<Numbers(Row&)>& of);
  // Loads a tensor [columns] for all rows; its elements are `unsaid` if the tensor is not given.
  Numbers load_columns(const std::string& tensor, float unsaid) const;
  void store(const std::string& tensor, const Numbers& x) const;
  // These functions load and store a matrix [rows, columns] that is not a tensor of the operation.
  Numbers load_from(gmem start, DType type) const;
  void store_to(gmem start, DType type, const Numbers& x) const;
  // Loads the rows that `index` selects, one for each row of this tile; a row that does not exist is NaN.
  // Each thread must have one row (RowLimits).
  Numbers load_rows(const std::string& tensor, const RegisterTile<s32>& index) const;
  // Load one number for each row of a tensor [rows].
  Numbers load_number(const std::string& tensor) const;
  RegisterTile<s32> load_index(const std::string& tensor) const;  // the low 32 bits of each
  // Loads the element of each row in the column that `index` selects, or `otherwise` if that column does not
  // exist.
  Numbers load_at(const std::string& tensor, const RegisterTile<s32>& index, float otherwise) const;
  // Stores one number for each row; does nothing if the tensor is not given.
  void store_number(const std::string& tensor, const Numbers& x) const;
  // Stores to a column of a tensor [rows, ..], which may hold integers.
  void store_number_at(const std::string& tensor, u32 column, const Numbers& x) const;

  // Reduce a row; all threads of the row get the result.
  Numbers reduce(Reduction operation, const Numbers& x);
  Numbers sum(const Numbers& x) { return reduce(Reduction::add, x); }
  // Exchanges several numbers of each part at once. The part's warp must have computed them with
  // reduce_rows().
  RowParts exchange(std::vector<Numbers> own) { return exchange_(std::move(own)); }
  f32 columns_of_part() const;
  f32 begin_of_part() const { return f32(column_); }
  template <class T>
  RegisterTile<T> spread(const RegisterTile<T>& x) const {
    return broadcast(x, layout_);
  }
  RegisterTile<u32> column() const;  // the column of each element
  // Returns x with 0 after the last column.
  Numbers inside(const Numbers& x) const;

 private:
  friend class RowThreads;
  // The registers of loaded tensors.
  using Loaded = std::map<std::string, std::vector<u32>>;
  Row(const RowProblem& problem, const Parameters& parameters, RowExchange& exchange, u32 block,
      Loaded loaded);
  Row(const Row& row, u32 column);  // the row that begins `column` columns after the first
  void send_for(Kernel& kernel);    // sends the data that waits in shared memory
  DType type_of(const std::string& tensor) const;
  RegisterTile<pred> is_inside() const;

  const RowProblem& problem_;
  const Parameters& parameters_;
  RowExchange& exchange_;
  const RegisterLayout layout_;
  mutable Loaded loaded_;   // loaded before this row's turn, or by load()
  const u32 row_, column_;  // the first row and column of this warp's part
  std::shared_ptr<WaitingRow> waiting_;
  int piece_ = 0;  // the current piece of a waiting row
};

// Sums over the rows that a CTA processes, for the columns of each thread. They are in the thread's registers
// or, if the registers cannot hold that many columns, in the thread's part of shared memory. Nothing is done
// if the result is not given.
class RowSums {
 public:
  void add(const Numbers& x);
  void add_product(const Numbers& x, const Numbers& y);

 private:
  friend class RowThreads;
  // Changes the sums: `next` returns the new sum from a sum and the index of one of this thread's numbers.
  void change(const std::function<f32(f32 sum, int number)>& next);
  RowSums(Kernel& kernel, const RowTile& tile);
  Numbers value() const;
  // Returns the address of four numbers of this thread.
  sptr<f32> place(int number) const;

  RegisterLayout layout_;
  int threads_;
  std::optional<Var<Numbers>> in_registers_;
  std::optional<smem> own_;
};

// The threads of a CTA, which iterate over rows and pass each row to `body`.
class RowThreads {
 public:
  // If CTAs stay, the tensors `ahead`, which have rows or one number for each row, are loaded for the next
  // rows while the current rows are computed.
  void for_each(const std::function<void(Row&)>& body, const std::vector<std::string>& ahead = {});
  // Returns a function that returns a tensor [columns] for a row. The tensor is loaded once if registers can
  // hold it, and otherwise for each row; its elements are `unsaid` if it is not given.
  std::function<Numbers(const Row&)> columns(const std::string& tensor, float unsaid) const;
  // Returns sums that begin at zero and are stored to the parts of a tensor, or nothing if the tensor is not
  // given.
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

// Builds the kernel of an operation from `body`. Each CTA processes some rows, or shares one row with the
// other CTAs of its cluster. CTAs stay and process rows in turn if the operation sums over rows or requests
// it.
Kernel rows_kernel(const RowProblem& problem, const std::function<void(RowThreads&)>& body,
                   Where where = Where::here());
// Builds a kernel that does more than the operation: `more` adds parameters, and creates what roles share.
Kernel rows_kernel(const RowProblem& problem, const std::function<void(Kernel&, Parameters&)>& more,
                   const std::function<void(RowThreads&, const Parameters&)>& body,
                   Where where = Where::here());
// Builds a kernel that only computes rows.
Kernel row_kernel(const RowProblem& problem, const std::function<void(Row&)>& body,
                  Where where = Where::here());

}  // namespace ptxbuilder::kernels
