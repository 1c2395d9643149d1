#include "kernels/c/attention.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

#include "kernels/c/grown.h"
#include "kernels/c/tensor.h"

namespace ptxbuilder::c {
namespace {

// A tensor [batch, row, head, column]; for packed sequences [row, head, column].
struct Heads : Placed {
  Heads(const char* the_name, const ptxb_tensor* the_tensor, bool packed, int gpu)
      : Placed(the_name, the_tensor, gpu) {
    const size_t expected = packed ? 3 : 4;
    if (rank() != expected)
      throw Error(fmt::format("{}: {} dimensions; {}", name, rank(),
                              packed ? "with packed sequences it must have 3: row, head, column"
                                     : "it must have 4: batch, row, head, column"));
    const size_t row = expected - 3;
    batches = packed ? 1 : extent(0), rows = extent(row), heads = extent(row + 1), columns = extent(row + 2);
    place.memory = memory();
    if (columns > 1 && place.memory.bytes > 0 && stride(row + 2) != 1)
      throw Error(
          fmt::format("{}: its columns are {} elements apart, but must be 1 apart: make it contiguous", name,
                      stride(row + 2)));
    const auto apart = [&](const char* what, size_t dimension, int64_t count) -> int64_t {
      if (count <= 1 || place.memory.bytes == 0) return 0;  // nothing is read through this pointer
      if (stride(dimension) < 1)
        throw Error(
            fmt::format("{}: {} are {} elements apart: make it contiguous", name, what, stride(dimension)));
      return stride(dimension);
    };
    place.row_stride = apart("rows", row, rows);
    place.head_stride = apart("heads", row + 1, heads);
    if (!packed) place.batch_stride = apart("batches", 0, batches);
  }

  int64_t batches, rows, heads, columns;
  kernels::DeviceHeads place;
};

// Compares the public struct with attention.def: for each row, the struct must have a field of the row's type
// with the row's value in PTXB_ATTENTION_INIT. The struct must have no other fields.
constexpr ptxb_attention kInit = PTXB_ATTENTION_INIT;
constexpr size_t kFieldBytes = sizeof kInit.size + sizeof kInit.reserved
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) +sizeof kInit.name
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) +sizeof kInit.name
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) +sizeof kInit.name
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) +sizeof kInit.name
#include "kernels/attention/attention.def"
    ;
static_assert(kFieldBytes == sizeof kInit && kInit.size == sizeof kInit);
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) \
  static_assert(std::is_same_v<decltype(ptxb_attention::name), const ptxb_tensor*> && kInit.name == nullptr);
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) \
  static_assert(std::is_same_v<decltype(ptxb_attention::name), float> && kInit.name == 0);
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) \
  static_assert(std::is_same_v<decltype(ptxb_attention::name), int64_t> && kInit.name == unsaid);
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) \
  static_assert(std::is_same_v<decltype(ptxb_attention::name), int32_t> && kInit.name == 0);
#include "kernels/attention/attention.def"

runtime::View numbers(const char* name, const ptxb_tensor* tensor, int64_t count, int gpu) {
  const Placed t(name, tensor, gpu);
  if (t.rank() != 1 || t.extent(0) != count || (count > 1 && t.stride(0) != 1) ||
      (t.type != DType::s32 && t.type != DType::u32))
    throw Error(fmt::format(
        "{}: it is [{}] of {}, but must have one dimension of {} contiguous int32 or uint32 elements: "
        "convert other types to int32",
        name, fmt::join(t.tensor.shape, t.tensor.shape + t.rank(), ","), ptxbuilder::name(t.type), count));
  return t.memory();
}

// Checks the block table, which must have no gaps, and returns the number of pages of a batch.
int64_t columns_of(const Placed& table, int64_t batches) {
  if (table.rank() != 2 || table.extent(0) != batches || (table.extent(1) > 1 && table.stride(1) != 1) ||
      (table.type != DType::s32 && table.type != DType::u32))
    throw Error(fmt::format(
        "block_table: it is [{}] of {}, but must be int32 or uint32, [{}, pages of a batch], without gaps "
        "between pages",
        fmt::join(table.tensor.shape, table.tensor.shape + table.rank(), ","), name(table.type), batches));
  return table.extent(1);
}

// Reads one float32 for each head of Q.
runtime::View of_heads(const char* name, const ptxb_tensor* tensor, const Heads& q, int gpu) {
  const Placed t(name, tensor, gpu);
  if (t.type != DType::f32 || t.rank() != 1 || t.extent(0) != q.heads || (q.heads > 1 && t.stride(0) != 1))
    throw Error(fmt::format(
        "{}: it is [{}] of {}, but must be float32, [{}], one for each head, without gaps", name,
        fmt::join(t.tensor.shape, t.tensor.shape + t.rank(), ","), ptxbuilder::name(t.type), q.heads));
  return t.memory();
}

// Reads the scales of an e4m3 Q, K or V. There is one scale, or one for each head of K; a tensor with two
// dimensions holds these scales for each page.
runtime::View scales(const char* name, const ptxb_tensor* tensor, const Heads& k,
                     kernels::AttentionArguments& p, int gpu) {
  const Placed t(name, tensor, gpu);
  const bool of_pages = t.rank() == 2;
  const int64_t given = t.rank() == 0 ? 1 : t.rank() <= 2 ? t.extent(t.rank() - 1) : -1;
  const bool is_first = p.k_scale.address == 0 && p.v_scale.address == 0 && p.q_scale.address == 0;
  if (t.type != DType::f32 || (given != 1 && given != k.heads) ||
      (!is_first && (given != p.scales || of_pages != p.page_scales)) ||
      (of_pages && (p.page == 0 || t.extent(0) != p.pages || (p.pages > 1 && t.stride(0) != given))) ||
      (given > 1 && t.stride(t.rank() - 1) != 1))
    throw Error(fmt::format(
        "{}: it is [{}] of {}, but must be float32, [1] or [{}], one for each head of K, or [pages, 1] or "
        "[pages, {}] with a block_table, without gaps, and all scales must have the same shape",
        name, fmt::join(t.tensor.shape, t.tensor.shape + t.rank(), ","), ptxbuilder::name(t.type), k.heads,
        k.heads));
  p.scales = given, p.page_scales = of_pages;
  return t.memory();
}

// Reads a tensor that has a number for each row of Q, such as lse.
runtime::View logarithms(const char* name, const ptxb_tensor* tensor, bool packed, const Heads& q, int gpu) {
  const Placed t(name, tensor, gpu);
  const size_t rank = packed ? 2 : 3;
  const bool fits = t.type == DType::f32 && t.rank() == rank && (packed || t.extent(0) == q.batches) &&
                    t.extent(rank - 2) == q.heads && t.extent(rank - 1) == q.rows;
  int64_t compact = 1;
  bool gaps = false;
  for (size_t i = fits && t.memory().bytes > 0 ? rank : 0; i-- > 0; compact *= t.extent(i))
    gaps = gaps || (t.extent(i) > 1 && t.stride(i) != compact);
  if (!fits || gaps)
    throw Error(fmt::format("{}: it must be float32, [{}heads, rows of Q], without gaps", name,
                            packed ? "" : "batch, "));
  return t.memory();
}

// Reads `tree_mask`, which has a mask for each row of Q.
runtime::View tree_mask(const ptxb_tensor* tensor, bool packed, const Heads& q, int gpu) {
  const Placed t("tree_mask", tensor, gpu);
  const size_t rank = packed ? 1 : 2;
  const bool fits = (t.type == DType::s32 || t.type == DType::u32) && t.rank() == rank &&
                    t.extent(rank - 1) == q.rows && (packed || t.extent(0) == q.batches);
  if (!fits || (q.rows > 1 && t.stride(rank - 1) != 1) || (!packed && q.batches > 1 && t.stride(0) != q.rows))
    throw Error(fmt::format("tree_mask: it is [{}] of {}, but must be int32 or uint32, [{}{}], without gaps",
                            fmt::join(t.tensor.shape, t.tensor.shape + t.rank(), ","), name(t.type),
                            packed ? "" : fmt::format("{}, ", q.batches), q.rows));
  return t.memory();
}

}  // namespace

kernels::AttentionArguments read_attention(const ptxb_attention& given, int gpu) {
  constexpr size_t kFirst = offsetof(ptxb_attention, top_left) + sizeof given.top_left;
  const ptxb_attention a = grown(given, PTXB_ATTENTION_INIT, kFirst, "ptxb_attention", "PTXB_ATTENTION_INIT");
  if (a.reserved != 0) throw Error(fmt::format("reserved = {}; it must be 0", a.reserved));
  const bool packed = a.query_offsets || a.key_offsets, packs_keys = packed && !a.key_lengths;
  const Heads q("Q", a.q, packed, gpu), k("K", a.k, packs_keys, gpu), o("O", a.o, packed, gpu);
  std::optional<Heads> v;
  // If K is wider than attention with separate values allows, its first columns are the values.
  const bool is_latent = k.columns > kernels::AttentionOperation::kMostColumns;
  if (a.v || !is_latent) v.emplace("V", a.v, packs_keys, gpu);
  kernels::AttentionArguments p;
  const bool has_products = q.type == DType::e4m3;
  p.type = has_products ? o.type : q.type;
  if (has_products) p.query_type = q.type;
  const bool has_byte_rows = k.type == DType::u8 && k.columns == kernels::LatentRow::kBytes;
  if (is_latent && (k.type == DType::e4m3 || k.type == DType::u8) && !has_byte_rows)
    throw Error(
        fmt::format("K: {} columns of {}; keys whose first columns are their values are of Q's type, or are "
                    "rows of {} bytes of uint8",
                    k.columns, name(k.type), kernels::LatentRow::kBytes));
  const bool is_cache = has_byte_rows || (k.type == DType::e4m3 && (!v || v->type == DType::e4m3));
  if (is_cache) p.cache_type = DType::e4m3;
  for (const Heads* t : {&k, v ? &*v : &k, &o})
    if (t->type != p.type && (t == &o || !is_cache))
      throw Error(
          fmt::format("{}: its type is {}, but Q's is {}; all must have one type, except that K and V, or Q, "
                      "K and V, may be e4m3",
                      t->name, name(t->type), name(q.type)));
  p.batches = q.batches, p.heads = q.heads, p.key_heads = k.heads;
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) p.name = a.name;
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) p.name = a.name;
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) p.name = a.name != 0;
#include "kernels/attention/attention.def"
  if (!packed) p.queries = q.rows;
  if (!packs_keys && !a.block_table) p.keys = k.rows;
  p.depth = q.columns, p.value_depth = is_latent ? o.columns : v->columns;
  const auto expect = [&](const Heads& t, int64_t batches, int64_t rows, int64_t heads, int64_t columns) {
    if (t.batches != batches || t.rows != rows || t.heads != heads || t.columns != columns)
      throw Error(
          fmt::format("{}: [{}, {}, {}, {}] of batches, rows, heads and columns, but the other tensors "
                      "require [{}, {}, {}, {}]",
                      t.name, t.batches, t.rows, t.heads, t.columns, batches, rows, heads, columns));
  };
  if (packed) {
    const Placed offsets("query_offsets", a.query_offsets, gpu);
    p.batches = offsets.rank() == 1 ? offsets.extent(0) - 1 : -1;
    p.query_offsets = numbers("query_offsets", a.query_offsets, p.batches + 1, gpu);
    if (a.key_offsets || packs_keys)
      p.key_offsets = numbers("key_offsets", a.key_offsets, p.batches + 1, gpu);
    p.query_rows = q.rows, p.key_rows = packs_keys ? k.rows : 0;
  }
  const int64_t pieces = a.block_table || packs_keys ? k.batches : p.batches;
  expect(k, pieces, k.rows, k.heads, has_byte_rows ? k.columns : q.columns);
  if (v) expect(*v, pieces, k.rows, k.heads, v->columns), p.v = v->place;
  expect(o, q.batches, q.rows, q.heads, p.value_depth);
  p.q = q.place, p.k = k.place, p.o = o.place;
  if (a.lse) p.lse = logarithms("lse", a.lse, packed, q, gpu);
  if (a.sinks) p.sinks = of_heads("sinks", a.sinks, q, gpu);
  if (a.dropout_seed) p.dropout_seed = numbers("dropout_seed", a.dropout_seed, 4, gpu);
  if (a.key_lengths) p.key_lengths = numbers("key_lengths", a.key_lengths, p.batches, gpu);
  if (a.tree_mask) p.tree_mask = tree_mask(a.tree_mask, packed, q, gpu);
  if (a.block_table) {
    const Placed table("block_table", a.block_table, gpu);
    const int64_t most = columns_of(table, p.batches) * k.rows;
    if (p.keys > most)
      throw Error(fmt::format("keys = {}, but the {} pages of {} rows of each batch hold only {}", p.keys,
                              table.extent(1), k.rows, most));
    if (p.keys == 0) p.keys = most;
    p.block_table = table.memory();
    if (p.batches > 1) p.table_stride = table.stride(0);
    p.page = k.rows, p.pages = k.batches;
  }
  if (a.k_scale) p.k_scale = scales("k_scale", a.k_scale, k, p, gpu);
  if (a.v_scale) p.v_scale = scales("v_scale", a.v_scale, k, p, gpu);
  if (a.q_scale) p.q_scale = scales("q_scale", a.q_scale, k, p, gpu);
  return p;
}

kernels::AttentionGradientArguments read_attention_gradient(const ptxb_attention_gradient& given_gradient,
                                                            int gpu) {
  constexpr size_t kFirst = offsetof(ptxb_attention_gradient, dv) + sizeof given_gradient.dv;
  const ptxb_attention_gradient g = grown(given_gradient, PTXB_ATTENTION_GRADIENT_INIT, kFirst,
                                          "ptxb_attention_gradient", "PTXB_ATTENTION_GRADIENT_INIT");
  const ptxb_attention& a = given(g.attention, "the attention");
  kernels::AttentionGradientArguments p;
  static_cast<kernels::AttentionArguments&>(p) = read_attention(a, gpu);
  const auto like = [&](const char* name, const ptxb_tensor* tensor, const char* other_name,
                        const ptxb_tensor* other) {
    const Heads x(name, tensor, p.packed(), gpu), y(other_name, other, p.packed(), gpu);
    if (x.type != y.type || x.batches != y.batches || x.rows != y.rows || x.heads != y.heads ||
        x.columns != y.columns)
      throw Error(fmt::format(
          "{}: it is [{}, {}, {}, {}] of {}, but must have the shape and type of {}, [{}, {}, {}, {}] of {}",
          name, x.batches, x.rows, x.heads, x.columns, ptxbuilder::name(x.type), other_name, y.batches,
          y.rows, y.heads, y.columns, ptxbuilder::name(y.type)));
    return x.place;
  };
  p.grad = like("dO", g.grad, "O", a.o);
  p.deterministic = g.deterministic != 0;
  if (g.lse_grad)
    p.lse_grad = logarithms("the gradient of lse", g.lse_grad, p.packed(), {"Q", a.q, p.packed(), gpu}, gpu);
  if (g.dsinks) p.dsinks = of_heads("dsinks", g.dsinks, {"Q", a.q, p.packed(), gpu}, gpu);
  p.dq = like("dQ", g.dq, "Q", a.q), p.dk = like("dK", g.dk, "K", a.k), p.dv = like("dV", g.dv, "V", a.v);
  return p;
}

}  // namespace ptxbuilder::c
