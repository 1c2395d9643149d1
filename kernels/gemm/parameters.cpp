#include "kernels/gemm/parameters.h"

#include <fmt/format.h>

#include "kernels/call/quick_division.h"
#include "kernels/gemm/scheduler.h"

namespace ptxbuilder::kernels {

std::string GemmParameters::stride_of(const ProductOperandRow& matrix) {
  return fmt::format("ld{}", matrix.name);
}

std::vector<u32> GemmParameters::extents(const std::string& axis, int modes) const {
  std::vector<u32> all;
  for (int i = 0; i + 1 < modes; ++i) all.push_back(get<u32>(fmt::format("{}{}", axis, i)));
  return all;
}

GemmParameters::GemmParameters(Kernel& k, const GemmOperation& o, const TilePlan& t,
                               const std::vector<UserParameter>& user, Where where) {
  using enum Parameter::Kind;
  if (o.a_rows)
    add("A", pointer, o.a, "rows of K, from which the product's rows are selected");
  else
    add("A", tensor_map, DType::u32,
        !o.a_k_major   ? "K rows of M"
        : o.a_metadata ? "M rows of the K / 2 that are stored"
                       : "M rows of K");
  if (o.packed.is_packed())
    add("B", pointer, DType::u32, "packed weights of N columns by K");
  else
    add("B", tensor_map, DType::u32,
        !o.b_k_major   ? "K rows of N"
        : o.b_metadata ? "N rows of the K / 2 that are stored"
                       : "N rows of K");
  if (o.scatters())
    add("D", pointer, o.d,
        o.add_to_rows ? "rows of N; the product's rows are added to some of them"
                      : "rows of N; some of them become the product's rows");
  else
    add("D", tensor_map, DType::u32, "the result: M rows of N");
  add("M", scalar, DType::u32, "rows of D");
  add("N", scalar, DType::u32, "columns of D");
  add("K", scalar, DType::u32, "depth of the product");
  for (const auto& [axis, modes] :
       {std::pair{"m", o.m_modes}, {"n", o.n_modes}, {"k", o.k_modes}, {"batch", o.batch_modes}})
    for (int i = 0; i + 1 < modes; ++i)
      add(fmt::format("{}{}", axis, i), scalar, DType::u32,
          fmt::format("the extent of mode {} of {}, rounded up so that the modes are whole tiles", i, axis));
  if (o.windows != WindowsOf::none)
    for (const char* d : {"w", "h"}) {
      const auto number = [&](const char* name, const char* meaning) {
        add(fmt::format("{}_{}", name, d), scalar, DType::u32, meaning);
      };
      QuickDivision::declare(*this, fmt::format("windows_{}", d), "windows of an image");
      number("first", "the pixel where an image's first window begins, in two's complement");
      number("step", "pixels from one window to the next");
      number("tap", "pixels from a window's first pixel to its tap 0");
      number("spread", "pixels from one tap to the next, in two's complement");
    }
  if (o.windows == WindowsOf::a)
    for (int i = 0; i + 1 < o.k_modes; ++i)
      QuickDivision::declare(*this, fmt::format("stages_k{}", i),
                             fmt::format("stages along mode {} of k", i));
  if (o.a_rows) {
    add("lda", scalar, DType::u32, "elements from one row of A to the next");
    add("rows_of_a", scalar, DType::u32, "rows of A");
  }
  if (o.scatters()) {
    add("ldd", scalar, DType::u32, "elements from one row of D to the next");
    add("rows_of_d", scalar, DType::u32, "rows of D");
  }
  if (o.b_addresses) add("b_start", scalar, DType::u64, "the address where the tensor map of B begins");
  if (o.d_by_threads) {
    add("d_memory", pointer, o.d, "D once more, with its batches M strides apart, for stores by threads");
    add("ldd", scalar, DType::u32, "elements from one row of D to the next");
    add("d_by_tma", scalar, DType::u32,
        "number of leading columns that TMA stores: a multiple of 16 B, which is also the tensor map's "
        "width; or 0 if rows are not at multiples of 16 B, and then the tensor map is not used");
  }
  if (o.alpha) add("alpha", scalar, DType::f32, "a factor of the product");
  for (const ProductOperandRow& row : product_operands) {
    if (!o.has(row.operand)) continue;
    if (row.role == OperandRole::residual) add("beta", scalar, DType::f32, "a factor of C");
    if (comes_by_tma(row.role))
      add(row.shown, tensor_map, DType::u32, row.meaning);
    else
      add(row.shown, pointer, o.type_of(row), row.meaning);
    if (row.is_matrix())
      add(stride_of(row), scalar, DType::u32,
          fmt::format("elements from one row of {} to the next", row.shown));
  }
  for (const UserParameter& p : user) {
    if (p.kind != pointer && (p.kind != scalar || size_of(p.type) != 4))
      throw Error(where, fmt::format("the epilogue's parameter '{}' is a scalar of type {}, but must be a "
                                     "32-bit scalar or a pointer",
                                     p.name, name(p.type)));
    add(p.name, p.kind, p.type, p.meaning);
  }
  if (o.batched) add("batches", scalar, DType::u32, "products");
  if (o.has_groups()) add("groups", scalar, DType::u32, "groups of rows or of k");
  if (t.split_last > 1)
    add("workspace", pointer, DType::f32,
        fmt::format("{} B at a multiple of 16, with any contents, for sums that CTAs exchange; launches on "
                    "one stream may share it, and others need one each",
                    gemm_workspace_bytes(t, {.x = kMostSplitCtas, .y = 1, .places = 2 * kMostSplitCtas})));
  declare(k, where);
}

}  // namespace ptxbuilder::kernels
