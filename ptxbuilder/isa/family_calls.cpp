#include "ptxbuilder/isa/family_calls.h"

#include <fmt/format.h>

namespace ptxbuilder::isa::detail {
namespace {

// A field of a form is left out where it is false, as in its declaration.
std::string field(std::string_view name, bool value) {
  return value ? fmt::format(", .{} = true", name) : "";
}

}  // namespace

std::string written(DType type) { return fmt::format("DType::{}", name(type)); }
std::string written(Scope scope) { return fmt::format("Scope::{}", name(scope)); }
std::string written(Space space) {
  constexpr std::array<std::string_view, 3> names = {"all", "shared", "global"};
  return fmt::format("Space::{}", names[static_cast<size_t>(space)]);
}
std::string written(Eviction eviction) {
  constexpr std::array<std::string_view, 3> names = {"normal", "first", "last"};
  return fmt::format("Eviction::{}", names[static_cast<size_t>(eviction)]);
}
std::string written(CopyReduction reduction) {
  const bool of_bits = reduction >= CopyReduction::bit_and;  // C++ has words of its own for these
  return fmt::format("CopyReduction::{}{}", of_bits ? "bit_" : "", name(reduction));
}
std::string written(const WgmmaForm& f) {
  return fmt::format("WgmmaForm{{.d = {}, .a = {}, .b = {}, .n = {}{}{}}}", written(f.d), written(f.a),
                     written(f.b), f.n, field("a_in_registers", f.a_in_registers),
                     field("satfinite", f.satfinite));
}
std::string written(const WgmmaBitsForm& f) {
  return fmt::format("WgmmaBitsForm{{.n = {}{}}}", f.n, field("a_in_registers", f.a_in_registers));
}
std::string written(const MmaForm& f) {
  return fmt::format("MmaForm{{.d = {}, .a = {}, .b = {}, .k = {}{}}}", written(f.d), written(f.a),
                     written(f.b), f.k, field("satfinite", f.satfinite));
}
std::string written(const MatrixForm& f) {
  return fmt::format("MatrixForm{{.matrices = {}{}}}", f.matrices, field("transposed", f.transposed));
}
std::string written(const AcquireForm& f) {
  return fmt::format("AcquireForm{{.scope = {}, .type = {}}}", written(f.scope), written(f.type));
}
std::string written(const AsyncCopyForm& f) {
  return fmt::format("AsyncCopyForm{{.bytes = {}{}}}", f.bytes, field("zfill", f.zfill));
}
std::string written(const BulkLoadForm& f) {
  const std::string fields = field("multicast", f.multicast) + field("cache_hint", f.cache_hint);
  return fmt::format("BulkLoadForm{{{}}}", fields.empty() ? "" : fields.substr(2));
}
std::string written(const BulkStoreForm& f) {
  return fmt::format("BulkStoreForm{{{}}}", f.cache_hint ? ".cache_hint = true" : "");
}
std::string written(const TensorLoadForm& f) {
  return fmt::format("TensorLoadForm{{.rank = {}{}{}}}", f.rank, field("multicast", f.multicast),
                     field("cache_hint", f.cache_hint));
}
std::string written(const TensorPrefetchForm& f) {
  return fmt::format("TensorPrefetchForm{{.rank = {}}}", f.rank);
}
std::string written(const TensorStoreForm& f) {
  return fmt::format("TensorStoreForm{{.rank = {}{}}}", f.rank, field("cache_hint", f.cache_hint));
}
std::string written(const TensorReductionForm& f) {
  return fmt::format("TensorReductionForm{{.rank = {}, .reduction = {}{}}}", f.rank, written(f.reduction),
                     field("cache_hint", f.cache_hint));
}
std::string written(const BulkReductionForm& f) {
  return fmt::format("BulkReductionForm{{.reduction = {}, .type = {}{}}}", written(f.reduction),
                     written(f.type), field("cache_hint", f.cache_hint));
}

}  // namespace ptxbuilder::isa::detail
