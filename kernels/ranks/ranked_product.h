// Products of several ranks, as one call on the host of each rank.
//
//   RankedProduct product(*device, RankedForm::all_gather);
//   RankedArguments p;
//   p.rank = 0, p.memory = {mine, of_rank_1};  // as many bytes as memory_bytes() says, zeros at first
//   p.rows = 2048, p.n = 4096, p.k = 8192;
//   p.a = a, p.b = b, p.d = d;
//   product(p);  // queued; the other ranks make the same call
#pragma once

#include <memory>
#include <vector>

#include "kernels/ranks/tile.h"
#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// Either D = gathered A times B^T: A has `rows` of k, B n of k, and D ranks x `rows` of n. Or D = some of the
// sums over ranks of A B^T: A has ranks x `rows` of k, B n of k, and D `rows` of n, those of this rank. Sums
// sent between ranks are rounded to D's type. Each rank's products are multiplied by its `scale`.
// Matrices are row-major and have no gaps.
struct RankedArguments {
  int rank = 0;
  // Ranks exchange rows through this memory of each rank, at the addresses that this rank's kernels use. The
  // product owns it until the product is done: calls that may run at once each need their own. Before the
  // first call, the part that kExchangeBytes covers must be zeros.
  std::vector<runtime::View> memory = {};
  int64_t rows = 0, n = 0, k = 0;
  runtime::View a = {}, b = {}, d = {};
  runtime::View kept = {};     // An all-gather keeps all ranks' A here, ranks x `rows` of k.
  runtime::View scale = {};    // This is one f32.
  DType type = DType::bf16;    // A and B may be bf16, f16 or e4m3.
  DType d_type = DType::bf16;  // This is the same type, or for e4m3, bf16 or f16.
  bool b_along_n = false;      // B is k rows of n, which 16-bit types allow.
  int multiprocessors = 0;     // that a launch may take; 0: all of the device's
  runtime::Stream stream = {};
};

// Keeps kernels, and must not outlive its device. Any thread may call it at any time.
class RankedProduct {
 public:
  RankedProduct(runtime::Device& device, RankedForm form, const LoadOptions& options = {});
  ~RankedProduct();

  // Returns the bytes of exchange memory that each rank needs.
  static size_t memory_bytes(RankedForm form, int ranks, int64_t rows, int64_t n, int64_t k,
                             DType type = DType::bf16);

  // Queues one product. All ranks must make this call, with the same sizes, and with their memory reachable:
  // with Device::reach() in one process, or as memory that a process group shares. Throws Error that names
  // the rule and the value.
  void operator()(const RankedArguments& arguments, Where where = Where::here());
  // This does the same with a tile of the caller's, instead of ranked_choice().
  void operator()(const RankedArguments& arguments, const RankedTile& tile, Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
