// The epilogue of gemm(): how the sums of a tile, from one CTA or several, are processed and stored.
#pragma once

#include "kernels/gemm/parameters.h"
#include "kernels/gemm/scheduler.h"
#include "kernels/gemm/staged_operand.h"
#include "ptxbuilder/product/cluster_sum.h"
#include "ptxbuilder/product/store.h"

namespace ptxbuilder::kernels {

// A user's function that is applied to panels of sums, and its parameters, which it reads by name from the
// kernel's parameters. It is called after alpha, scales, C and bias are applied, and before the activation.
// If rows are grouped, the batch of a panel's place is the group.
//   UserEpilogue clipped{{{"limit", Parameter::Kind::scalar}},
//                        [](const RegisterTile<f32>& x, const PanelPlace&, const GemmParameters& p) {
//                          return min(x, p.get<f32>("limit"));
//                        }};
struct UserEpilogue {
  std::vector<UserParameter> parameters = {};
  std::function<RegisterTile<f32>(const RegisterTile<f32>& x, const PanelPlace& at, const GemmParameters& p)>
      function = nullptr;
};

// Applies the epilogue to the sums of a tile, and stores the result.
class GemmEpilogue {
 public:
  // A consumer warpgroup constructs this in its role. `cluster` is given with split_k, where sums are added
  // up in the memory that the ring uses for `x`; by then all stages of the ring have been read.
  GemmEpilogue(const GemmOperation& operation, const TilePlan& tile, const GemmParameters& parameters,
               const UserEpilogue& user, const std::optional<ClusterSum>& cluster, const StagedOperand& x);

  // Processes the sums of `work` for the tile's rows that begin at `row`.
  void store(Accumulator& sums, const Work& work, u32 row);
  // Returns the sums that will be stored during the next tile's products, or null if stores are not deferred.
  DeferredStore* deferred() { return deferred_ ? &*deferred_ : nullptr; }
  // Stores the deferred sums.
  void finish();

 private:
  // Turns a panel's sums into the values to store; if `rows` is given, only the rows before it belong to the
  // work.
  using RowsEpilogue = std::function<RegisterTile<f32>(const RegisterTile<f32>& sums, const PanelPlace& at,
                                                       const std::optional<u32>& rows)>;
  static RowsEpilogue rows_epilogue(const GemmOperation& o, const GemmParameters& p,
                                    const UserEpilogue& user);
  template <class T>
  static RowsEpilogue rows_epilogue(const GemmOperation& o, const GemmParameters& p,
                                    const UserEpilogue& user);

  // The beginning of a tile, in the form that a store needs.
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
  std::optional<PanelStore> panels_;  // with split_last or scattered rows
  std::optional<GlobalSum> global_;   // with split_last
  std::optional<DeferredStore> deferred_;
};

}  // namespace ptxbuilder::kernels
