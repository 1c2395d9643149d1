// Computes the all-to-all of tokens for experts on several ranks, in one call on the host of each rank.
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
// of the experts of all ranks, and `ends` holds the position at which the rows of each expert end. Ends
// beyond the last row are clamped. A dispatch writes the rows of all ranks for this rank's experts to
// `grouped`, ordered by expert and then by rank. It also writes the ends of the experts' rows to
// `grouped_ends`, in the form that grouped products read. A combine copies the rows of `grouped` back to
// `sorted`, using the same `ends` and the `splits` that the dispatch has written. Rows after the last end are
// not accessed.
struct RankedTokensArguments {
  int rank = 0;
  // The exchange memory of each rank; see RankedNormArguments. A dispatch and a combine may use the same
  // memory.
  std::vector<runtime::View> memory = {};
  int64_t experts = 0;  // number of experts on each rank
  int64_t rows = 0;     // number of rows in `sorted`
  // The maximum number of rows that any rank may have. A dispatch traps unless `most_rows`, `experts` and
  // `row_bytes` are the same on all ranks.
  int64_t most_rows = 0;
  int64_t row_bytes = 0;                    // bytes of a row, a multiple of 16
  runtime::View sorted = {}, grouped = {};  // `grouped` must have room for ranks x most_rows rows
  // 32-bit numbers. `ends` and `splits` have ranks x experts numbers; `grouped_ends` has one for each expert
  // of this rank, and only a dispatch uses it.
  runtime::View ends = {}, splits = {}, grouped_ends = {};
  int multiprocessors = 0;  // SMs that a launch uses, the same number on all ranks; 0: all
  runtime::Stream stream = {};
};

// Exchanges tokens, and caches the kernels. The object must not outlive its device. Any thread may call it at
// any time.
class RankedTokens {
 public:
  explicit RankedTokens(runtime::Device& device, const CallOptions& options = {});
  ~RankedTokens();

  // Returns the size in bytes of the exchange memory that each rank needs.
  static size_t memory_bytes(int ranks, int64_t experts, int64_t most_rows, int64_t row_bytes);

  // Queues one call. All ranks must make this call with the same sizes, except for `rows`, on GPUs of the
  // same kind. They must be able to access each other's memory: within one process through Device::reach(),
  // or as memory that a process group shares. Throws an Error that names the violated rule and the value.
  void operator()(TokenForm form, const RankedTokensArguments& arguments, Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
