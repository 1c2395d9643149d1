// Implements embedding, which loads the rows of a table that an index selects.
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"

namespace ptxbuilder::kernels {
namespace {

Kernel embedding_kernel(const RowProblem& problem) {
  return row_kernel(problem,
                    [](Row& row) { row.store("y", row.load_rows("table", row.load_index("index"))); });
}

}  // namespace

RowOperation embedding() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "embedding",
          .summary = "y = the rows of a table by their numbers, NaN if there is no such row",
          .tensors = {{"table", {"entries", "columns"}, any, read, "the rows to choose from"},
                      {.name = "index",
                       .shape = {"rows"},
                       .type = integer,
                       .meaning = "the number of each row of y",
                       .counts = {"entries"}},
                      {"y", {"rows", "columns"}, of_first, written, "the chosen rows"}},
          .limits = {.rows_of_thread = 1},
          .reduces = false,
          .build = embedding_kernel};
}

}  // namespace ptxbuilder::kernels
