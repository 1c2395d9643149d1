// Products over several ranks, as one call on each rank's host.
//
//   RankedProduct product(*device, RankedForm::all_gather);
//   RankedArguments p;
//   p.rank = 0, p.memory = {mine, of_rank_1};  // each of memory_bytes(), initially zero
//   p.rows = 2048, p.n = 4096, p.k = 8192;
//   p.a = a, p.b = b, p.d = d;
//   product(p);  // queued; the other ranks make the same call
#pragma once

#include <memory>
#include <vector>

#include "kernels/ranks/tile.h"
#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// The arguments of a product. all_gather: D = gathered A times B^T, where A has `rows` rows of k, B has n
// rows of k, and D has ranks x `rows` rows of n. reduce_scatter: D holds some rows of the sum of A B^T over
// the ranks, where A has ranks x `rows` rows of k, B has n rows of k, and D has `rows` rows of n, those of
// this rank. Sums that ranks send to each other are rounded to D's type. Each rank's products are multiplied
// by its `scale`. Matrices are row-major and have no gaps.
struct RankedArguments {
  int rank = 0;
  // The memory through which ranks exchange rows, for each rank, at the addresses that this rank's kernels
  // use. It must not be used for anything else until the product is done, so calls that may run at the same
  // time each need their own. Before the first call, the first kExchangeBytes must be zero.
  std::vector<runtime::View> memory = {};
  int64_t rows = 0, n = 0, k = 0;
  runtime::View a = {}, b = {}, d = {};
  runtime::View kept = {};     // optional: receives all ranks' A in an all-gather, ranks x `rows` rows of k
  runtime::View scale = {};    // optional: one f32
  DType type = DType::bf16;    // the type of A and B: bf16, f16 or e4m3
  DType d_type = DType::bf16;  // the same type or, if that is e4m3, bf16 or f16
  bool b_along_n = false;      // whether B is k rows of n, which requires 16-bit types
  int multiprocessors = 0;     // the most that a launch may use; 0: all of the device's
  runtime::Stream stream = {};
};

// Stores kernels, and must not outlive its device. Any thread may call it at any time.
class RankedProduct {
 public:
  RankedProduct(runtime::Device& device, RankedForm form, const LoadOptions& options = {});
  ~RankedProduct();

  // Returns the bytes of exchange memory that each rank needs.
  static size_t memory_bytes(RankedForm form, int ranks, int64_t rows, int64_t n, int64_t k,
                             DType type = DType::bf16);

  // Queues one product. All ranks must make this call with the same sizes, and must be able to access each
  // other's memory: through Device::reach() in one process, or as memory that a process group shares. Throws
  // Error that names the rule and the value.
  void operator()(const RankedArguments& arguments, Where where = Where::here());
  // Does the same with the caller's tile instead of the one from ranked_choice().
  void operator()(const RankedArguments& arguments, const RankedTile& tile, Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
