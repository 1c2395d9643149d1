#include "ptxbuilder/ir/tensor_map_choice.h"

#include "ptxbuilder/ir/state.h"

namespace ptxbuilder {

TensorMap choose(u32 number, const std::vector<TensorMap>& maps, Where where) {
  AtLine line(where);
  if (maps.empty()) throw Error("choose: no tensor maps were given; give at least one");
  TensorMap chosen = maps.back();
  for (size_t i = maps.size() - 1; i-- > 0;)
    chosen = TensorMap(
        detail::select((number == static_cast<uint32_t>(i)).handle(), maps[i].handle(), chosen.handle()));
  return chosen;
}

namespace detail {

std::vector<TensorMap> choices_of(TensorMap map) {
  auto* select = llvm::dyn_cast<llvm::SelectInst>(map.handle());
  if (!select) return {map};
  std::vector<TensorMap> all = choices_of(TensorMap(select->getTrueValue()));
  for (const TensorMap& other : choices_of(TensorMap(select->getFalseValue()))) all.push_back(other);
  return all;
}

}  // namespace detail
}  // namespace ptxbuilder
