#include "kernels/gemm/product_form.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace ptxbuilder::kernels {
namespace {

bool same_place(const DeviceMatrix& x, const DeviceMatrix& y) {
  return x.memory.address == y.memory.address && x.stride == y.stride && x.batch_stride == y.batch_stride;
}

bool is_aligned(const MatmulArguments& p) {
  uint64_t matrices = p.a.memory.address | p.b.memory.address | p.d.memory.address | p.workspace.address,
           words = 0, long_words = 0;
#define PTXBUILDER_MATRIX(name, ...) matrices |= p.name.memory.address;
#define PTXBUILDER_VECTOR(name, word, type, shape, role, ...) \
  (comes_by_tma(OperandRole::role)         ? matrices         \
   : OperandType::type == OperandType::s64 ? long_words       \
                                           : words) |= p.name.address;
#include "kernels/gemm/product.def"
  return matrices % kTma == 0 && words % 4 == 0 && long_words % 8 == 0;
}

// Returns whether `x` overlaps none of the operands of product.def, except `x` itself if it is one of them.
bool is_apart_from_others(const runtime::View& x, const MatmulArguments& p) {
  bool is = true;
#define PTXBUILDER_MATRIX(name, ...) is &= lie_apart(x, p.name.memory);
#define PTXBUILDER_VECTOR(name, ...) is &= lie_apart(x, p.name) || &x == &p.name;
#include "kernels/gemm/product.def"
  return is;
}

// Returns whether no memory that the product writes overlaps another operand. D may be C.
bool is_apart(const MatmulArguments& p) {
  const runtime::View &a = p.a.memory, &b = p.b.memory, &d = p.d.memory, &w = p.workspace;
  bool is = lie_apart(d, a) && lie_apart(d, b);
#define PTXBUILDER_MATRIX(name, shown, word, role, ...) \
  if (p.name.memory.address != 0)                       \
    is &= lie_apart(d, p.name.memory) ||                \
          (OperandRole::role == OperandRole::residual && same_place(p.d, p.name));
#define PTXBUILDER_VECTOR(name, word, type, shape, role, ...)                                \
  if (p.name.address != 0) {                                                                 \
    is &= lie_apart(d, p.name);                                                              \
    if (OperandRole::role == OperandRole::greatest)                                          \
      is &= lie_apart(p.name, a) && lie_apart(p.name, b) && is_apart_from_others(p.name, p); \
  }
#include "kernels/gemm/product.def"
  if (w.bytes == 0) return is;
  return is && w.address != 0 && lie_apart(w, a) && lie_apart(w, b) && lie_apart(w, d) &&
         is_apart_from_others(w, p);
}

uint64_t model_hash() {
  const ModelConstants constants;
  std::array<uint64_t, sizeof constants / sizeof(double)> words;
  std::memcpy(words.data(), &constants, sizeof constants);
  return WordsHash{}(words);
}

}  // namespace

ProductKey key_of(const PlacedProduct& product) {
  static_assert(std::has_unique_object_representations_v<GemmOperation>);
  const GemmSize& size = product.size;
  ProductKey words = {static_cast<uint64_t>(size.m), static_cast<uint64_t>(size.n),
                      static_cast<uint64_t>(size.k), static_cast<uint64_t>(size.batches)};
  std::memcpy(&words[4], &product.operation, sizeof product.operation);
  // The extents of the modes of m and n belong to the key because tiles end where a mode ends. Each extent is
  // below 2^31.
  size_t at = 0;
  if (product.modes)
    for (const ModeList* list : {&product.modes->m, &product.modes->n})
      for (size_t i = 0; i < ModeList::kMost; ++i, ++at) {
        const int64_t extent = i < list->size() ? (*list)[i].extent : 1;
        words[4 + kOperationWords + at / 2] |= static_cast<uint64_t>(extent) << (at % 2 * 32);
      }
  return words;
}

std::string product_text(const GemmOperation& o, const GemmSize& size) {
  std::string epilogue;
  auto add = [&](bool has, std::string_view word) {
    if (has) epilogue += fmt::format("{}{}", epilogue.empty() ? "" : "+", word);
  };
  add(o.alpha, "alpha");
  add(o.activation != Activation::none, activation_words[static_cast<size_t>(o.activation)]);
  add(o.gates(), "gate");
  add(o.has_slope(), "slope");
  for (const ProductOperandRow& row : product_operands)
    if (row.role != OperandRole::inputs) add(o.has(row.operand), row.name);
  add(o.batched, "batched");
  add(o.groups_of_k, "of_k");
  const auto modes = [&](std::string_view axis, int count, int box) {
    if (count > 1) add(true, fmt::format("{}{}_{}", axis, count, box));
  };
  modes("m", o.m_modes, o.m_box), modes("n", o.n_modes, o.n_box);
  modes("k", o.k_modes, o.k_box), modes("batch", o.batch_modes, 0);
  if (o.windows != WindowsOf::none) add(true, o.windows == WindowsOf::a ? "windows_of_a" : "windows_of_b");
  const std::string b = o.packed.is_packed() ? text(o.packed) : std::string(name(o.b));
  return fmt::format("{} {} {} {}{} {} {} {} {} {} {}", name(o.a), b, name(o.d), o.b_k_major ? "T" : "N",
                     o.a_k_major ? "N" : "T", o.fast_accumulation ? "fast" : "promoted",
                     epilogue.empty() ? "plain" : epilogue, size.m, size.n, size.k, size.batches);
}

std::string default_product_tiles(const runtime::DeviceProperties& device, int multiprocessors) {
  return default_tile_file("matmul", device, multiprocessors, model_hash());
}
bool is_tile(const std::string& tile) { return text(parse_tile(tile)) == tile; }
std::optional<GemmTile> tile_in(const std::string& path, const GemmOperation& operation,
                                const GemmSize& size) {
  TileFile file(path, kProductTextWords, is_tile);
  return file.find(product_text(operation, size),
                   [&](const std::string& tile) -> GemmTile { return checked(operation, parse_tile(tile)); });
}

std::array<uint64_t, kProductSources> sources_of(const MatmulArguments& p) {
  return {
      0,
      p.workspace.address,
      p.a.memory.address,
      p.b.memory.address,
      p.d.memory.address,
      std::bit_cast<uint32_t>(p.alpha),
      std::bit_cast<uint32_t>(p.beta),
#define PTXBUILDER_MATRIX(name, ...) p.name.memory.address,
#define PTXBUILDER_VECTOR(name, ...) p.name.address,
#include "kernels/gemm/product.def"
  };
}

bool is_plain(const MatmulArguments& p) {
  const bool is_there = p.a.memory.address != 0 && p.b.memory.address != 0 && p.d.memory.address != 0;
  const bool is_empty = p.m == 0 || p.n == 0 || p.batches == 0;
  return p.epilogue.empty() && (!p.modes || p.modes->number != 0) && (is_there || is_empty) &&
         is_aligned(p) && is_apart(p);
}

}  // namespace ptxbuilder::kernels
