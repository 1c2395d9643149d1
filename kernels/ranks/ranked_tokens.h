// The all-to-all of tokens for experts of several ranks, as one call on the host of each rank.
//
//   RankedTokens tokens(*device);
//   RankedTokensArguments p;
//   p.rank = 0, p.memory = {mine, of_rank_1};  // as many bytes as memory_bytes() says, zeros at first
//   p.experts = 8, p.rows = 300, p.most_rows = 512, p.row_bytes = 4096 * 2;
//   p.sorted = x, p.ends = ends, p.grouped = rows, p.splits = splits, p.grouped_ends = grouped_ends;
//   tokens(TokenForm::dispatch, p);  // queued; the other ranks make the same call
//   grouped product of `rows` by `grouped_ends`
//   p.sorted = y, p.grouped = products;
//   tokens(TokenForm::combine, p);
#pragma once

#include <memory>
#include <vector>

#include "kernels/call/options.h"
#include "kernels/ranks/token_exchange.h"
#include "runtime/buffer.h"

namespace ptxbuilder::kernels {

// Expert e is of rank e / experts. `sorted` has this rank's rows in the order of the experts of all ranks,
// and `ends` their ends; ends past the last row are taken as that. A dispatch writes the rows of all ranks
// for this rank's experts to `grouped`, in the order of experts and, for each expert, of ranks; and their
// ends to `grouped_ends`, as grouped products take them. A combine takes rows of `grouped` back to `sorted`,
// by the `splits` that the dispatch has written and the same `ends`. Rows after the last end are not touched.
struct RankedTokensArguments {
  int rank = 0;
  // Ranks exchange rows through this memory of each rank, as in RankedNormArguments. A dispatch and a combine
  // may have the same.
  std::vector<runtime::View> memory = {};
  int64_t experts = 0;  // of each rank
  int64_t rows = 0;     // of `sorted`
  // The number of rows of any rank is this at most. It is the same on all ranks, and so are experts and
  // row_bytes, or a dispatch traps.
  int64_t most_rows = 0;
  int64_t row_bytes = 0;                    // a multiple of 16
  runtime::View sorted = {}, grouped = {};  // `grouped` has room for ranks x most_rows.
  // These are numbers of 32 bits: ranks x experts of `ends` and `splits`, and experts of `grouped_ends`,
  // which a combine does not take.
  runtime::View ends = {}, splits = {}, grouped_ends = {};
  int multiprocessors = 0;  // SMs that a launch takes, the same on all ranks; 0: all of the device's
  runtime::Stream stream = {};
};

// Keeps kernels, and must not outlive its device. Any thread may call it at any time.
class RankedTokens {
 public:
  explicit RankedTokens(runtime::Device& device, const CallOptions& options = {});
  ~RankedTokens();

  // Returns the bytes of exchange memory that each rank needs.
  static size_t memory_bytes(int ranks, int64_t experts, int64_t most_rows, int64_t row_bytes);

  // Queues one call. All ranks must make it, with the same sizes but for `rows`, on GPUs of one kind, and
  // with their memory reachable: with Device::reach() in one process, or as memory that a process group
  // shares. Throws Error that names the rule and the value.
  void operator()(TokenForm form, const RankedTokensArguments& arguments, Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
