// The typed call of a family's member in C++, as its author writes it.
#pragma once

#include <string>

#include "ptxbuilder/isa/families.h"

namespace ptxbuilder::isa::detail {

// A form or an axis: "MatrixForm{.matrices = 4}", "Scope::gpu". What is false by default and false is left
// out.
std::string written(DType type);
std::string written(Scope scope);
std::string written(Space space);
std::string written(Eviction eviction);
std::string written(CopyReduction reduction);
std::string written(const WgmmaForm& f);
std::string written(const WgmmaBitsForm& f);
std::string written(const MmaForm& f);
std::string written(const MatrixForm& f);
std::string written(const AcquireForm& f);
std::string written(const AsyncCopyForm& f);
std::string written(const BulkLoadForm& f);
std::string written(const BulkStoreForm& f);
std::string written(const TensorLoadForm& f);
std::string written(const TensorPrefetchForm& f);
std::string written(const TensorStoreForm& f);
std::string written(const TensorReductionForm& f);
std::string written(const BulkReductionForm& f);

}  // namespace ptxbuilder::isa::detail
