// Defines the kernel parameters and the layout of operands that all multi-GPU products share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/ranks/exchange.h"
#include "kernels/ranks/tile.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/parameters.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {

// The kernel parameters of a multi-GPU product. `operands` come first, in their order; optional operands come
// last.
class RankedParameters : public Parameters {
 public:
  struct Operand {
    std::string name;
    Parameter::Kind kind = Parameter::Kind::tensor_map;
    DType type = DType::u32;
  };
  RankedParameters(Kernel& k, const RankedTile& t, const std::vector<Operand>& operands, Where where) {
    using enum Parameter::Kind;
    for (const Operand& one : operands) add(one.name, one.kind, one.type, "");
    for (int r = 0; r < t.ranks; ++r) add(memory_of(r), pointer, DType::u32, "");
    for (const char* number : {"rows", "N", "K", "rank"}) add(number, scalar, DType::u32, "");
    if (t.to_all) add("M", scalar, DType::u32, ""), add("D_rows", pointer, t.d_type, "");
    if (t.keeps) add("kept", pointer, DType::u32, "");
    if (t.is_scaled) add("scale", pointer, DType::f32, "");
    declare(k, where);
    // The thread that copies rows may spill a few words, since its copies hide the time of the spills. Setup
    // code that holds pointers of many ranks, and a single consumer, may also spill.
    if (t.ranks > 4 || t.to_all || t.consumers() == 1)
      for (const char* advisory : {"spills", "stack"}) k.waive(advisory);
    for (int r = 0; r < t.ranks; ++r) memory_.push_back(get<gptr<u32>>(memory_of(r)));
  }
  // Returns pointers to the exchange memory of each rank.
  const std::vector<gptr<u32>>& memory() const { return memory_; }
  Exchange exchange() const { return {memory_, number("rank")}; }
  u32 number(const char* name) const { return get<u32>(name); }

 private:
  static std::string memory_of(int rank) { return "memory_" + std::to_string(rank); }

  std::vector<gptr<u32>> memory_;
};

// Returns the epilogue that multiplies products by the scale, or null if there is no scale.
inline Epilogue scaled_by(const RankedTile& t, const RankedParameters& p) {
  if (!t.is_scaled) return nullptr;
  return [factor = f32(p.get<gptr<f32>>("scale")[0])](const RegisterTile<f32>& x, const PanelPlace&) {
    return x * factor;
  };
}

// Returns the shape of a stage of B.
inline TileShape ranked_b_tile(const RankedTile& t) {
  return t.b_along_n ? TileShape{t.bk(), t.bn} : TileShape{t.bn, t.bk()};
}
inline void load_ranked_b(const RankedTile& t, const TileView& to, TensorMap b, u32 kt, u32 col) {
  const u32 k = kt * t.bk();
  tma_load(to.multicast(ClusterAxis::x), b, t.b_along_n ? col : k, t.b_along_n ? k : col);
}
// Returns the operands that a warpgroup multiplies in a stage.
inline std::pair<TileView, TileView> ranked_operands(const RankedTile& t, const SharedTile& a,
                                                     const SharedTile& b, const Stage& s, u32 warpgroup) {
  return {a[s].rows(warpgroup * 64, 64), t.b_along_n ? b[s].transposed() : b[s]};
}

}  // namespace ptxbuilder::kernels
