// A row as a kernel of an operation sees it: all of it is in the registers of the threads that share it.
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

// It declares what an operation's kernel gets: a pointer for each tensor that is given, the extents, and its
// numbers.
// `more` adds some of the kernel's own, which come last.
Parameters declare_parameters(Kernel& k, const RowProblem& problem, Where where = Where::here(),
                              const std::function<void(Parameters&)>& more = nullptr);

// The rows of a CTA: all have one meaning in the kernel's text. Tiles of elements lie in layout(),
// and those of one number for each row in layout().reduced_rows(). Made by row_kernel().
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

  // It loads rows of a tensor [rows, columns], once; `outside` is what columns after the last have.
  Numbers load(const std::string& tensor, float outside = 0) const;
  // It gives the pieces of a row to `body`, one after the other. A row that its threads have at once is one
  // piece. A row that waits in shared memory (RowLimits) may be gone over again.
  void for_pieces(const std::function<void(Row&)>& body);
  // It adds up what `of` makes of the pieces, or finds the greatest, element by element. It is for a row that
  // is at hand as a whole, in registers or in shared memory.
  Numbers over_pieces(Reduction operation, const std::function<Numbers(Row&)>& of);
  // It loads a tensor [columns] for all rows; `unsaid` is for one that is not given.
  Numbers load_columns(const std::string& tensor, float unsaid) const;
  void store(const std::string& tensor, const Numbers& x) const;
  // They do so for a matrix [rows, columns] that is none of the operation's tensors.
  Numbers load_from(gmem start, DType type) const;
  void store_to(gmem start, DType type, const Numbers& x) const;
  // It loads the rows that `index` says, one for each of this tile's; a row that is not there is NaN.
  // A thread has one row (RowLimits).
  Numbers load_rows(const std::string& tensor, const RegisterTile<s32>& index) const;
  // They load one number for each row of a tensor [rows].
  Numbers load_number(const std::string& tensor) const;
  RegisterTile<s32> load_index(const std::string& tensor) const;  // of its low 32 bits
  // It loads the element of each row in the column that `index` says; `otherwise` is for no such column.
  Numbers load_at(const std::string& tensor, const RegisterTile<s32>& index, float otherwise) const;
  // It does nothing for a tensor that is not given.
  void store_number(const std::string& tensor, const Numbers& x) const;
  // It stores to a column of a tensor [rows, ..], which may be of integers.
  void store_number_at(const std::string& tensor, u32 column, const Numbers& x) const;

  // All threads of a row get its number.
  Numbers reduce(Reduction operation, const Numbers& x);
  Numbers sum(const Numbers& x) { return reduce(Reduction::add, x); }
  // It exchanges several numbers of each part at once, which its warp has found by reduce_rows().
  RowParts exchange(std::vector<Numbers> own) { return exchange_(std::move(own)); }
  f32 columns_of_part() const;
  f32 begin_of_part() const { return f32(column_); }
  template <class T>
  RegisterTile<T> spread(const RegisterTile<T>& x) const {
    return broadcast(x, layout_);
  }
  RegisterTile<u32> column() const;  // of each element
  // It sets x to 0 after the last column.
  Numbers inside(const Numbers& x) const;

 private:
  friend class RowThreads;
  // This holds the registers of tensors that were loaded.
  using Loaded = std::map<std::string, std::vector<u32>>;
  Row(const RowProblem& problem, const Parameters& parameters, RowExchange& exchange, u32 block,
      Loaded loaded);
  Row(const Row& row, u32 column);  // that begins so many columns after the first
  void send_for(Kernel& kernel);    // what waits in shared memory
  DType type_of(const std::string& tensor) const;
  RegisterTile<pred> is_inside() const;

  const RowProblem& problem_;
  const Parameters& parameters_;
  RowExchange& exchange_;
  const RegisterLayout layout_;
  mutable Loaded loaded_;   // before this row's turn, or by load()
  const u32 row_, column_;  // the first of this warp's part
  std::shared_ptr<WaitingRow> waiting_;
  int piece_ = 0;  // of what waits
};

// Sums over the rows that a CTA takes, of the columns of each thread: in its registers or, where it has more
// columns than these hold, in a place of its own in shared memory. Without effect for a result that is not
// given.
class RowSums {
 public:
  void add(const Numbers& x);
  void add_product(const Numbers& x, const Numbers& y);

 private:
  friend class RowThreads;
  // `next` gives the sum of a number of this thread's and what is added to it.
  void change(const std::function<f32(f32 sum, int number)>& next);
  RowSums(Kernel& kernel, const RowTile& tile);
  Numbers value() const;
  // The place of four numbers of this thread's.
  sptr<f32> place(int number) const;

  RegisterLayout layout_;
  int threads_;
  std::optional<Var<Numbers>> in_registers_;
  std::optional<smem> own_;
};

// The threads of a CTA go over rows, which `body` sees.
class RowThreads {
 public:
  // The tensors `ahead`, of rows or of one number for each, are loaded for the next rows while these are
  // computed, if CTAs stay.
  void for_each(const std::function<void(Row&)>& body, const std::vector<std::string>& ahead = {});
  // It gives a tensor [columns] to each row, which is loaded once where registers hold it, else row by row;
  // `unsaid` is for one that is not given.
  std::function<Numbers(const Row&)> columns(const std::string& tensor, float unsaid) const;
  // Sums begin at zero, and go to the parts of a tensor, unless that is not given.
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

// It builds the kernel of an operation, whose text is `body`. Each CTA has some rows, or with others of its
// cluster one; of an operation that sums over rows or says so, CTAs stay and take rows in turn.
Kernel rows_kernel(const RowProblem& problem, const std::function<void(RowThreads&)>& body,
                   Where where = Where::here());
// It does so for a kernel of more than its operation: `more` adds parameters, and makes what roles share.
Kernel rows_kernel(const RowProblem& problem, const std::function<void(Kernel&, Parameters&)>& more,
                   const std::function<void(RowThreads&, const Parameters&)>& body,
                   Where where = Where::here());
// It does so where there is nothing but the rows.
Kernel row_kernel(const RowProblem& problem, const std::function<void(Row&)>& body,
                  Where where = Where::here());

}  // namespace ptxbuilder::kernels
