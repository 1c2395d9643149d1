// Computes matrix products over several ranks, in one call on the host of each rank.
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

// The arguments of a product. all_gather: D is the gathered A times B^T, where A has `rows` rows of k, B has
// n rows of k, and D has ranks x `rows` rows of n. reduce_scatter: D holds this rank's rows of the sum of A
// B^T over the ranks, where A has ranks x `rows` rows of k, B has n rows of k, and D has `rows` rows of n.
// Sums that ranks send to each other are rounded to D's type. The products of each rank are multiplied by its
// `scale`. Matrices must be row-major, without gaps.
struct RankedArguments {
  int rank = 0;
  // The exchange memory of each rank, at the addresses that this rank's kernels use to access it. It must not
  // be used for anything else until the product has finished, so calls that may run at the same time need
  // separate memory. Before the first call, the first kExchangeBytes bytes must be zero.
  std::vector<runtime::View> memory = {};
  int64_t rows = 0, n = 0, k = 0;
  runtime::View a = {}, b = {}, d = {};
  runtime::View kept = {};  // optional, for all_gather: receives the A of all ranks, ranks x `rows` rows of k
  runtime::View scale = {};    // optional: a single f32
  DType type = DType::bf16;    // type of A and B: bf16, f16 or e4m3
  DType d_type = DType::bf16;  // type of D: `type` or, if that is e4m3, bf16 or f16
  bool b_along_n = false;      // true: B is k rows of n, which requires 16-bit types
  int multiprocessors = 0;     // maximum number of SMs that a launch may use; 0: all
  runtime::Stream stream = {};
};

// Computes products of one form, and caches the kernels. The object must not outlive its device. Any thread
// may call it at any time.
class RankedProduct {
 public:
  RankedProduct(runtime::Device& device, RankedForm form, const LoadOptions& options = {});
  ~RankedProduct();

  // Returns the size in bytes of the exchange memory that each rank needs.
  static size_t memory_bytes(RankedForm form, int ranks, int64_t rows, int64_t n, int64_t k,
                             DType type = DType::bf16);

  // Queues one product. All ranks must make this call with the same sizes. They must be able to access each
  // other's memory: within one process through Device::reach(), or as memory that a process group shares.
  // Throws an Error that names the violated rule and the value.
  void operator()(const RankedArguments& arguments, Where where = Where::here());
  // Queues one product with the caller's tile instead of the tile that ranked_choice() returns.
  void operator()(const RankedArguments& arguments, const RankedTile& tile, Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
