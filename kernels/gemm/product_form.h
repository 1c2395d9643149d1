// Encodes a product as the key of its plan, as its line in a tile file, and as the words that identify a
// prepared call.
#pragma once

#include <array>
#include <string>

#include "kernels/call/tile_file.h"
#include "kernels/gemm/matmul_check.h"
#include "kernels/gemm/model.h"

namespace ptxbuilder::kernels {

inline constexpr size_t kOperationWords = (sizeof(GemmOperation) + sizeof(uint64_t) - 1) / sizeof(uint64_t);
// The words hold the product's extents, the operation, and the extents of the modes (two to a word).
using ProductKey = std::array<uint64_t, 4 + kOperationWords + ModeList::kMost>;
ProductKey key_of(const PlacedProduct& product);

// The number of words in the result of product_text(), such as "bf16 bf16 bf16 TN fast plain 4096 8192 1024
// 1".
constexpr size_t kProductTextWords = 10;
std::string product_text(const GemmOperation& operation, const GemmSize& size);
inline std::string call_text(const PlacedProduct& product) {
  return product_text(product.operation, product.size);
}

// Returns the default path, which ends in matmul/GPU-SMs-VERSION-MODEL.txt (default_tile_file()). MODEL
// identifies the constants of the time model, since other constants propose other tiles.
std::string default_product_tiles(const runtime::DeviceProperties& device, int multiprocessors);
bool is_tile(const std::string& text);
// Returns the tile that a file lists for a product, or nothing if it lists none. Never throws an Error.
std::optional<GemmTile> tile_in(const std::string& path, const GemmOperation& operation,
                                const GemmSize& size);

// The arguments whose values may differ between calls of the same form.
enum ProductSource : size_t {
  from_a = SourcedArguments::kWorkspace + 1,
  from_b,
  from_d,
  from_alpha,
  from_beta,
  from_operand
};
constexpr size_t from(ProductOperand which) { return from_operand + static_cast<size_t>(which); }
constexpr size_t kProductSources = from_operand + product_operands.size();
std::array<uint64_t, kProductSources> sources_of(const MatmulArguments& p);

// Returns a function that passes the words of a call's form to `take`, as ByForm requires. The words describe
// everything about the call except its sources (ProductSource) and its stream.
constexpr size_t kProductFormWords = 19 + product_operands.size() + 2 * product_matrices;
inline auto words_of(const MatmulArguments& p) {
  return [&p](auto&& take) {
    size_t at = 0;
    const auto add = [&](auto value) { take(at++, static_cast<uint64_t>(value)); };
    uint64_t types = 0, small = 0;
    const auto matrix = [&](const DeviceMatrix& x) {
      add(x.memory.bytes), add(x.stride), add(x.batch_stride);
      types = types << 8 | static_cast<uint8_t>(x.type);
    };
    // Most calls have few of the other operands, so the words of an absent operand are skipped and stay 0.
    const auto given = [&](const runtime::View& memory, size_t its_words) {
      const bool is = memory.address != 0;
      small = small << 1 | is;
      if (!is) at += its_words;
      return is;
    };
    for (const int64_t extent : {p.m, p.n, p.k, p.batches, p.rows_of_a, p.rows_of_d}) add(extent);
    add(p.modes ? p.modes->number : 0);
    matrix(p.a), matrix(p.b), matrix(p.d);
#define PTXBUILDER_MATRIX(name, ...) \
  if (given(p.name.memory, 3)) matrix(p.name);
#define PTXBUILDER_VECTOR(name, ...) \
  if (given(p.name, 1)) add(p.name.bytes);
#include "kernels/gemm/product.def"
    add(p.workspace.bytes);
    static_assert(3 + product_matrices + 3 <= sizeof types);
    for (const auto value :
         {static_cast<uint8_t>(p.packed.type), p.packed.group, static_cast<uint8_t>(p.packed.scales)})
      types = types << 8 | value;
    add(types);
    const auto pack = [&](auto value) { small = small << 8 | static_cast<uint8_t>(value); };
    pack(p.activation), pack(p.use);
    pack(p.a_k_major | p.b_k_major << 1 | p.fast_accumulation << 2 | p.groups_of_k << 3);
    pack((p.alpha == 1) | (p.alpha == 0) << 1 |
         (p.beta ==
          0) << 2);  // these values decide whether the kernel has alpha, A, B and C: see operation_of()
    add(small);
  };
}

// Returns whether all addresses are obviously valid. Such a call needs no further checks if another call of
// its form was valid. Matrices must be present and aligned as TMA requires, other operands must be aligned to
// the size of their elements, and written memory must not overlap any other memory, except that D may be C.
bool is_plain(const MatmulArguments& p);

}  // namespace ptxbuilder::kernels
