// Implements the epilogue of gemm(), which processes and stores the sums of a tile that one or several CTAs
// have computed.
#pragma once

#include "kernels/gemm/parameters.h"
#include "kernels/gemm/scheduler.h"
#include "kernels/gemm/staged_operand.h"
#include "ptxbuilder/product/cluster_sum.h"
#include "ptxbuilder/product/store.h"

namespace ptxbuilder::kernels {

// A user's function that transforms panels of sums. It is called after alpha, scales, C and bias have been
// applied, and before the activation. The kernel declares `parameters`, and the function reads them by name.
// If rows are grouped, the batch in PanelPlace is the group.
//   UserEpilogue clipped{{{"limit", Parameter::Kind::scalar}},
//                        [](const RegisterTile<f32>& x, const PanelPlace&, const GemmParameters& p) {
//                          return min(x, p.get<f32>("limit"));
//                        }};
struct UserEpilogue {
  std::vector<UserParameter> parameters = {};
  std::function<RegisterTile<f32>(const RegisterTile<f32>& x, const PanelPlace& at, const GemmParameters& p)>
      function = nullptr;
};

// Applies the epilogue to the sums of a tile, and stores the results.
class GemmEpilogue {
 public:
  // A consumer warpgroup constructs this object in its role. `cluster` is set with split_k. The CTAs of a
  // cluster then add up sums in the memory of `x`'s ring, after all stages of the ring have been read.
  GemmEpilogue(const GemmOperation& operation, const TilePlan& tile, const GemmParameters& parameters,
               const UserEpilogue& user, const std::optional<ClusterSum>& cluster, const StagedOperand& x);

  // Processes and stores the sums of `work` for the warpgroup's rows of the tile, which begin at `row`.
  void store(Accumulator& sums, const Work& work, u32 row);
  // Returns the store that is deferred until the products of the next tile, or null if stores are not
  // deferred.
  DeferredStore* deferred() { return deferred_ ? &*deferred_ : nullptr; }
  // Stores the deferred sums, if there are any.
  void finish();

 private:
  // Converts a panel's sums into the values to store. If `rows` is set, only the rows before it belong to the
  // work.
  using RowsEpilogue = std::function<RegisterTile<f32>(const RegisterTile<f32>& sums, const PanelPlace& at,
                                                       const std::optional<u32>& rows)>;
  static RowsEpilogue rows_epilogue(const GemmOperation& o, const GemmParameters& p,
                                    const UserEpilogue& user);
  template <class T>
  static RowsEpilogue rows_epilogue(const GemmOperation& o, const GemmParameters& p,
                                    const UserEpilogue& user);

  // The origin of a tile, in the coordinates that a store expects.
  struct Place {
    u32 x, y;
    std::optional<u32> batch;
  };
  Place place(const Work& work, u32 row, u32 first_column) const;
  Epilogue epilogue(const Work& work) const;
  void store_sums(const StoreSource& sums, const Work& work, u32 row);
  u32 column(u32 of_product) const;
  void store_parts(Accumulator& sums, const Work& work, u32 row);

  DType type_;
  std::optional<TensorMap> output_;  // empty if rows are scattered
  bool grouped_rows_;
  u32 m_;
  const std::optional<ClusterSum>& cluster_;
  const StagedOperand& x_;
  StoreOptions options_;
  RowsEpilogue epilogue_;
  std::optional<PanelStore> panels_;  // set with split_last or scattered rows
  std::optional<GlobalSum> global_;   // set with split_last
  std::optional<DeferredStore> deferred_;
};

}  // namespace ptxbuilder::kernels
