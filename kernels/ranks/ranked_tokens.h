// The all-to-all of tokens for experts on several ranks, as one call on each rank's host.
//
//   RankedTokens tokens(*device);
//   RankedTokensArguments p;
//   p.rank = 0, p.memory = {mine, of_rank_1};  // each of memory_bytes(), initially zero
//   p.experts = 8, p.rows = 300, p.most_rows = 512, p.row_bytes = 4096 * 2;
//   p.sorted = x, p.ends = ends, p.grouped = rows, p.splits = splits, p.grouped_ends = grouped_ends;
//   tokens(TokenForm::dispatch, p);  // queued; the other ranks make the same call
//   ...                              // the product of `rows`, grouped with `grouped_ends`
//   p.sorted = y, p.grouped = products;
//   tokens(TokenForm::combine, p);
#pragma once

#include <memory>
#include <vector>

#include "kernels/call/options.h"
#include "kernels/ranks/token_exchange.h"
#include "runtime/buffer.h"

namespace ptxbuilder::kernels {

// The arguments of a call. Expert e belongs to rank e / experts. `sorted` holds this rank's rows in the order
// of the experts of all ranks, and `ends` holds the ends of each expert's rows; ends beyond the last row are
// replaced with it. A dispatch writes the rows of all ranks for this rank's experts to `grouped`, ordered by
// expert and then by rank, and their ends to `grouped_ends`, in the form that grouped products read. A
// combine copies rows of `grouped` back to `sorted`, using the `splits` that the dispatch has written and the
// same `ends`. Rows after the last end are not accessed.
struct RankedTokensArguments {
  int rank = 0;
  // The memory through which ranks exchange rows, as in RankedNormArguments. A dispatch and a combine may use
  // the same memory.
  std::vector<runtime::View> memory = {};
  int64_t experts = 0;  // experts of each rank
  int64_t rows = 0;     // rows of `sorted`
  // The most rows that any rank may have. It must be the same on all ranks, as must experts and row_bytes;
  // otherwise a dispatch traps.
  int64_t most_rows = 0;
  int64_t row_bytes = 0;                    // a multiple of 16
  runtime::View sorted = {}, grouped = {};  // `grouped` has room for ranks x most_rows rows
  // 32-bit numbers: `ends` and `splits` have ranks x experts, and `grouped_ends`, which a combine does not
  // use, has one for each expert.
  runtime::View ends = {}, splits = {}, grouped_ends = {};
  int multiprocessors = 0;  // SMs that a launch uses, the same on all ranks; 0: all of the device's
  runtime::Stream stream = {};
};

// Stores kernels, and must not outlive its device. Any thread may call it at any time.
class RankedTokens {
 public:
  explicit RankedTokens(runtime::Device& device, const CallOptions& options = {});
  ~RankedTokens();

  // Returns the bytes of exchange memory that each rank needs.
  static size_t memory_bytes(int ranks, int64_t experts, int64_t most_rows, int64_t row_bytes);

  // Queues one call. All ranks must make it with the same sizes, except for `rows`, on GPUs of the same kind,
  // and must be able to access each other's memory: through Device::reach() in one process, or as memory that
  // a process group shares. Throws Error that names the rule and the value.
  void operator()(TokenForm form, const RankedTokensArguments& arguments, Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
