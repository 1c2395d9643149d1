// Instantiates layouts with host integers.
#include "ptxbuilder/layout/tiling.inl"

namespace ptxbuilder {

PTXBUILDER_INSTANTIATE_LAYOUT(int64_t)
PTXBUILDER_INSTANTIATE_ALGEBRA(int64_t)
PTXBUILDER_INSTANTIATE_TILING(int64_t)

}  // namespace ptxbuilder
