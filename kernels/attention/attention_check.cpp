#include "kernels/attention/attention_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kernels/attention/form.h"

namespace ptxbuilder::kernels {
namespace {

constexpr char kName[] = "attention";
constexpr int64_t kMostExtent =
    (int64_t{1} << 31) - 8192;        // indices have 31 bits, and blocks may extend beyond the end
constexpr int64_t kFewQueries = 128;  // fewer queries than this do not fill a tile of two consumers
constexpr int64_t kMostInRows = 64;   // maximum number of heads in the rows of a consumer
constexpr int64_t kSeedWords = 4;
constexpr __int128 kMostOfSmallPages = __int128{1}
                                       << 36;  // bytes; offsets are in units of 16 bytes and have 32 bits

[[noreturn]] void refuse(Where where, const std::string& what) { throw Error(where, "attention: " + what); }

void check_range(const char* name, int64_t value, int64_t least, int64_t most, Where where) {
  if (value < least || value > most)
    refuse(where, fmt::format("{} = {}; it must be {} to {}", name, value, least, most));
}

// Sets the optional operands that consist of contiguous elements, such as lse and the offsets. Omitted
// operands have no elements.
void place_rows(const AttentionArguments& p, int64_t query_rows, int64_t batches, PlacedAttention& a) {
  if (p.lse.address != 0)
    a.lse = {"lse", DType::f32,
             p.lse, query_rows,
             2,     {{{"head", p.heads, query_rows}, {"batch", batches, p.heads * query_rows}}}};
  if (p.sinks.address != 0) a.sinks = one_row("sinks", DType::f32, p.sinks, p.heads);
  if (p.dropout_seed.address != 0)
    a.dropout_seed = one_row("dropout_seed", DType::u32, p.dropout_seed, kSeedWords);
  if (p.key_lengths.address != 0)
    a.key_lengths = one_row("key_lengths", DType::u32, p.key_lengths, p.batches);
  if (p.tree_mask.address != 0)
    a.tree_mask = one_row("tree_mask", DType::u32, p.tree_mask, batches * query_rows);
  if (p.block_table.address != 0)
    a.block_table = {"block_table",
                     DType::u32,
                     p.block_table,
                     p.pages_of_batch(),
                     1,
                     {{{"batch", p.batches, p.table_stride.value_or(p.pages_of_batch()), true}}}};
  const int64_t scales = p.scales * (p.page_scales ? p.pages : 1);
  if (p.k_scale.address != 0) a.k_scale = one_row("k_scale", DType::f32, p.k_scale, scales);
  if (p.v_scale.address != 0) a.v_scale = one_row("v_scale", DType::f32, p.v_scale, scales);
  if (p.q_scale.address != 0) a.q_scale = one_row("q_scale", DType::f32, p.q_scale, p.scales);
  if (!p.packed()) return;
  const auto offsets = [&](const char* name, runtime::View view) {
    if (view.address == 0) view.bytes = 0;
    return one_row(name, DType::u32, view, p.batches + 1);
  };
  a.query_offsets = offsets("query_offsets", p.query_offsets);
  if (p.packs_keys()) a.key_offsets = offsets("key_offsets", p.key_offsets);
}

void check_overlap(const PlacedAttention& a, Where where) {
  check_no_self_overlap(kName, a.o, where);
  const std::vector<const Operand*> all = a.operands();
  for (const Operand* written : {&a.o, &a.lse})
    for (const Operand* read : all)
      if (read != &a.o && read != &a.lse) check_apart(kName, *written, *read, true, where);
  check_apart(kName, a.lse, a.o, false, where);
}

// Checks the block table, and that lengths hide the rows after the last key.
void check_pages(const AttentionArguments& p, Where where) {
  check_range("page", p.page, 0, kMostExtent, where);
  check_range("pages", p.pages, 0, kMostExtent, where);
  check_range("table_stride", p.table_stride.value_or(0), 0, kMostExtent / std::max<int64_t>(p.batches, 1),
              where);
  const bool has_table = p.block_table.address != 0;
  if (has_table != (p.page > 0))
    refuse(where, has_table ? "block_table is given, but page is 0; it must be the number of rows of a page"
                            : fmt::format("pages of {} rows need a block_table", p.page));
  if (has_table && p.key_lengths.address == 0)
    refuse(where, "block_table needs key_lengths, which say how many keys are in its pages");
  if (p.key_offsets.address != 0 && p.key_lengths.address != 0)
    refuse(where,
           "key_offsets and key_lengths cannot both be given: key_offsets say where packed keys are, and "
           "key_lengths how many keys caches hold");
}

// Checks that a tree has lengths of keys, and that a mask has enough bits for the queries.
void check_tree(const AttentionArguments& p, Where where) {
  if (p.tree_mask.address == 0) return;
  if (p.key_lengths.address == 0)
    refuse(where,
           "tree_mask needs key_lengths, since the keys of the tree are the last ones of each sequence");
  if (p.queries > AttentionOperation::kMostOfTree)
    refuse(where, fmt::format("tree_mask is given with {} queries of a sequence, but there must be at most "
                              "{}, one for each bit of a mask",
                              p.queries, AttentionOperation::kMostOfTree));
}

// Throws an Error if the types of Q, K and V, or their scales, are not supported.
void check_types(const AttentionArguments& p, int64_t key_heads, Where where) {
  const bool has_k = p.k_scale.address != 0, has_v = p.v_scale.address != 0;
  if (has_k != has_v)
    refuse(where,
           fmt::format("{0}_scale is given, but not {1}_scale: give both or neither; {1}_scale may be 1",
                       has_k ? "k" : "v", has_k ? "v" : "k"));
  const bool has_products = p.query_type.has_value();
  if (has_products && (p.query_type != DType::e4m3 || p.cache_type != DType::e4m3))
    refuse(
        where,
        fmt::format(
            "Q is {}, K and V are {}, and O is {}; Q, K and V must all be e4m3, or Q must have the type of O",
            name(*p.query_type), name(p.key_type()), name(p.type)));
  const bool has_q = p.q_scale.address != 0;
  if (!has_products && has_q)
    refuse(where, fmt::format("q_scale is given, but Q is {}; Q must be e4m3", name(p.type)));
  if (has_products && has_q != has_k)
    refuse(where, fmt::format("{}; Q, K and V of e4m3 must have all three scales or none: a scale may be 1",
                              has_q ? "q_scale is given, but not k_scale"
                                    : "k_scale and v_scale are given, but not q_scale"));
  check_range("promote", p.promote, 0, kMostExtent, where);
  if (!has_products && p.promote != 0)
    refuse(where, fmt::format("promote = {}, but Q is {}; it must be e4m3, since only its sums are promoted",
                              p.promote, name(p.type)));
  const int64_t columns = p.value_depth != 0 ? p.value_depth : p.depth;
  if (p.promote > 0 && columns > 128)
    refuse(where, fmt::format("promote = {} with V of {} columns; V must have at most 128, since a thread "
                              "holds two sums of each",
                              p.promote, columns));
  if (p.key_type() == DType::e4m3 && p.packed() &&
      (columns + 15) / 16 % 2 != 0)  // the kernel writes multiples of 32 columns
    refuse(where, fmt::format("packed sequences of e4m3 with V of {} columns; it must have at least {}, or a "
                              "number whose next multiple of 16 is one of 32: widen V with columns of zeros",
                              columns, (columns + 31) / 32 * 32 - 15));
  if (has_products && p.key_lengths.address != 0)
    refuse(
        where,
        "lengths of keys are not supported with Q of e4m3: convert Q to f16 or bf16; K and V may stay e4m3");
  if (p.page_scales && (p.pages == 0 || !has_k || has_products))
    refuse(where, fmt::format("scales of pages (page_scales) with {} pages, {} k_scale and Q of {}; they "
                              "need a k_scale and K and V of e4m3 in pages, with Q of f16 or bf16",
                              p.pages, has_k ? "a" : "no", name(p.query_type.value_or(p.type))));
  if (p.key_type() == p.type) {
    if (has_k) refuse(where, fmt::format("k_scale is given, but K is {}; K must be e4m3", name(p.type)));
    return;
  }
  if (p.cache_type != DType::e4m3)
    refuse(where, fmt::format("K and V are {}, but Q is {}; K and V must have Q's type, or be e4m3",
                              name(*p.cache_type), name(p.type)));
  if (p.packs_keys() && !has_products)
    refuse(where,
           "packed sequences with K of e4m3, but not Q: such caches must have key_lengths, not key_offsets");
  if (p.scales != 1 && p.scales != key_heads)
    refuse(where,
           fmt::format("{} scales of K and V were given, but there must be one, or one for each of {} heads",
                       p.scales, key_heads));
}

// Throws an Error if keys are too wide for separate values but do not satisfy the rules for latent values.
void check_latent(const AttentionArguments& p, int64_t key_heads, int64_t columns, Where where) {
  if (p.depth <= AttentionOperation::kMostColumns) return;
  AttentionOperation o;
  o.type = p.type, o.depth = static_cast<int>(p.depth), o.value_depth = static_cast<int>(columns);
  o.packed = p.packed(), o.e4m3 = p.key_type() == DType::e4m3, o.sinks = p.sinks.address != 0;
  o.e4m3_products = p.query_type.has_value(), o.page_scales = p.page_scales;
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) o.name = p.name > 0;
#include "kernels/attention/attention.def"
  o.page = static_cast<int>(p.page);
  if (const std::string what = why_not_latent(o); !what.empty()) refuse(where, what);
  if (p.v.memory.address != 0)
    refuse(where,
           fmt::format("V is given with keys of {} columns, whose first {} are the values: leave V out",
                       p.depth, columns));
  if (o.e4m3 && (p.k_scale.address != 0 || p.v_scale.address != 0))
    refuse(where, fmt::format(
                      "k_scale or v_scale is given with keys that are rows of {} bytes, which hold their own "
                      "scales: leave both out",
                      LatentRow::kBytes));
  if (key_heads != 1 && p.heads > 0)
    refuse(where,
           fmt::format("{} heads of keys of {} columns; such keys must have one head, which all heads share",
                       key_heads, p.depth));
}

// The range [first, end) of keys that query 0 sees. A member is unset if there is no limit.
struct Limits {
  std::optional<int64_t> first, end;
};
Limits limits(const AttentionArguments& p, Where where) {
  if (p.causal && p.right > 0)
    refuse(where,
           fmt::format(
               "right = {}; it must be 0 or less if causal, since a causal query sees no keys to its right",
               p.right));
  const bool counts = p.has_own_lengths();
  if (counts && p.top_left)
    refuse(where,
           fmt::format("top_left cannot be used with {}, whose masks count from keys - queries of each",
                       p.packed() ? "packed sequences" : "lengths of keys"));
  const int64_t offset = counts || p.top_left ? 0 : p.keys - p.queries;
  const int64_t right = p.causal ? 0 : p.right, most = kMostExtent;
  Limits l;
  if (right >= 0) l.end = offset + std::min(right, most) + 1;
  if (p.left >= 0) l.first = offset - std::min(p.left, most);
  return l;
}

// Removes the keys that the single query does not see, and turns the heads that share keys into rows of a
// tile.
void take_heads_as_rows(PlacedAttention& a, const Limits& l) {
  const int64_t end = std::clamp<int64_t>(l.end.value_or(a.size.keys), 0, a.size.keys),
                first = std::clamp<int64_t>(l.first.value_or(0), 0, end);
  for (Operand* t : {&a.k, &a.v}) {
    if (t == &a.v && a.operation.has_latent_values()) continue;
    const auto skipped = static_cast<uint64_t>(first * t->outer[kRows].stride * t->element_bytes());
    if (first < end) t->memory.address += skipped, t->memory.bytes -= skipped;
    t->outer[kRows].extent = end - first;
  }
  for (Operand* t : {&a.q, &a.o}) {
    Operand::Dimension &rows = t->outer[kRows], &heads = t->outer[kHeads];
    rows.extent = a.size.group;
    rows.stride = heads.stride;
    heads.extent /= a.size.group;
    heads.stride *= a.size.group;
  }
  a.size.queries = a.size.group, a.size.keys = end - first;
  a.size.heads /= a.size.group, a.size.group = 1;
}

}  // namespace

Operand heads_operand(const char* name, const DeviceHeads& t, DType type, int64_t columns, int64_t rows,
                      int64_t heads, int64_t batches) {
  const int64_t head = t.head_stride != 0 ? t.head_stride : columns,
                row = t.row_stride != 0 ? t.row_stride : heads * columns,
                batch = t.batch_stride != 0 ? t.batch_stride : stride_of(rows, row);
  return {name,    type, t.memory,
          columns, 3,    {{{"row", rows, row}, {"head", heads, head}, {"batch", batches, batch}}}};
}

// TMA requires that rows end at a multiple of its unit. With packed sequences, threads write all columns that
// the kernel computes, so O must have all of them.
bool PlacedAttention::stores_in_place() const {
  return o.aligned_for_tma() && o.columns * o.element_bytes() % kTma == 0 &&
         (!operation.packed || o.columns == operation.value_depth);
}

MovedOperands PlacedAttention::moved() {
  MovedOperands all;
  for (const auto& [t, source] : {std::pair(&q, from_q), {&k, from_k}, {&v, from_v}})
    if (!t->is_empty() && !t->aligned_for_tma()) all.add(*t, source, true);
  if (!stores_in_place()) all.add(o, from_o, false);
  return all;
}

PlacedAttention checked(const AttentionArguments& p, bool heads_as_rows, Where where) {
  if (p.type != DType::f16 && p.type != DType::bf16)
    refuse(where, fmt::format("O is {}, but must be f16 or bf16, like Q, K and V unless they are e4m3",
                              name(p.type)));
  const int64_t key_heads = p.key_heads != 0 ? p.key_heads : p.heads,
                columns = p.value_depth != 0 ? p.value_depth : p.depth;
  check_range("depth", p.depth, 1,
              AttentionOperation::kMostLatentColumns + AttentionOperation::kRotaryColumns, where);
  if (columns < 1 || columns > p.depth)
    refuse(where, fmt::format("V has {} columns (value_depth), but Q has {}; V must have at least one, and "
                              "no more than Q: pass V in parts of its columns, whose results are "
                              "concatenated, or widen Q and K with columns of zeros and set the scale",
                              columns, p.depth));
  check_latent(p, key_heads, columns, where);
  for (const auto& [name, value] : {std::pair("batches", p.batches),
                                    {"heads", p.heads},
                                    {"key_heads", key_heads},
                                    {"queries", p.queries},
                                    {"keys", p.keys},
                                    {"query_rows", p.query_rows},
                                    {"key_rows", p.key_rows},
                                    {"queries + keys", p.queries + p.keys},
                                    {"query_rows + key_rows", p.query_rows + p.key_rows}})
    check_range(name, value, 0, kMostExtent, where);
  if (p.heads > 0 && (key_heads == 0 || p.heads % key_heads != 0))
    refuse(where, fmt::format("{} heads of Q, but {} of K; the first must be a multiple of the second",
                              p.heads, key_heads));
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) \
  if (!is_number(p.name, below)) refuse(where, fmt::format(#name " = {}; it must be " rule, p.name));
#include "kernels/attention/attention.def"
  if (p.dropout > 0 && p.dropout_seed.address == 0)
    refuse(where, fmt::format("dropout = {} needs a dropout_seed", p.dropout));
  check_pages(p, where);
  check_tree(p, where);
  check_types(p, key_heads, where);
  const bool packed = p.packed();
  const int64_t query_rows = packed ? p.query_rows : p.queries,
                key_rows = p.packs_keys() ? p.key_rows : p.keys, batches = packed ? 1 : p.batches;
  PlacedAttention a;
  a.q = heads_operand("Q", p.q, p.query_type.value_or(p.type), p.depth, query_rows, p.heads, batches);
  const int64_t rows = p.page > 0 ? p.page : key_rows, pieces = p.page > 0       ? p.pages
                                                                : p.packs_keys() ? 1
                                                                                 : p.batches;
  a.k = heads_operand("K", p.k, p.key_type(), p.has_byte_rows() ? LatentRow::kBytes : p.depth, rows,
                      key_heads, pieces);
  const bool is_latent = p.depth > AttentionOperation::kMostColumns;
  if (!is_latent) a.v = heads_operand("V", p.v, p.key_type(), columns, rows, key_heads, pieces);
  a.o = heads_operand("O", p.o, p.type, columns, query_rows, p.heads, batches);
  place_rows(p, query_rows, batches, a);
#define PTXBUILDER_ATTENTION_HEADS(name, word, is_written) \
  if (size_t{from_##name} != size_t{from_v} || !is_latent) check_memory(kName, a.name, where);
#define PTXBUILDER_ATTENTION_ROWS(name, word, is_written) check_row(kName, a.name, where);
#include "kernels/attention/attention.def"
  a.size = {p.queries, p.keys, p.heads, p.batches, key_heads > 0 ? p.heads / key_heads : 1};
  if (a.o.is_empty() || p.batches == 0 || p.queries == 0) {
    a.is_empty = true;
    return a;
  }
  check_overlap(a, where);
  for (const Operand* t : {&a.k, &a.v})
    if (p.page % 8 != 0 && extent_bytes(*t) >= kMostOfSmallPages)
      refuse(where, fmt::format("{} has {} B in pages of {} rows; with pages whose rows are not a multiple "
                                "of 8, it must have less than 64 GiB",
                                t->name, static_cast<int64_t>(extent_bytes(*t)), p.page));

  a.operation.type = p.type;
  a.operation.e4m3 = p.key_type() == DType::e4m3;
  a.operation.e4m3_products = p.query_type.has_value();
  a.operation.page_scales = p.page_scales;
  a.operation.promotes = p.promote > 0;
  const auto multiple = [unit = a.operation.e4m3 ? 32 : 16](int64_t columns) {
    return static_cast<int>((columns + unit - 1) / unit * unit);
  };
  a.operation.depth = multiple(p.depth);
  a.operation.value_depth = multiple(columns);
  a.operation.lse = p.lse.address != 0;
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) a.operation.name = p.name > 0;
#include "kernels/attention/attention.def"
  a.operation.packed = packed;
  a.operation.sinks = p.sinks.address != 0;
  a.operation.lengths = p.key_lengths.address != 0;
  a.operation.tree = p.tree_mask.address != 0;
  a.operation.page = static_cast<int>(p.page);
  heads_as_rows &= p.dropout == 0;  // dropout depends on the number of the head
  const Limits l = limits(p, where);
  if (heads_as_rows && !p.has_own_lengths() && p.queries == 1 && !a.operation.sinks) {
    take_heads_as_rows(a, l);
    return a;
  }
  // Most sequences of a mixed batch have few queries, even if the longest sequence has many.
  if (heads_as_rows &&
      (packed ? a.operation.lengths && std::max(query_rows, p.queries) <= kMostExtent / kMostInRows
              : p.queries < kFewQueries)) {
    // The largest power of two that divides both the group and the 64 rows of a consumer.
    const int64_t heads = std::min<int64_t>(a.size.group & -a.size.group, kMostInRows);
    a.operation.heads_in_rows = static_cast<int>(heads);
    a.size.queries *= heads, a.size.heads /= heads, a.size.group /= heads;
  }
  // Masks that hide no key are omitted.
  const bool counts = p.has_own_lengths();
  const int64_t most = p.packs_keys() ? query_rows + key_rows : p.queries + p.keys;
  if (l.end && (counts ? packed || p.queries > 1 : *l.end < p.keys)) {
    a.operation.causal = true;
    a.size.visible = static_cast<int32_t>(std::clamp<int64_t>(*l.end, -p.queries, most));
  }
  if (l.first && (counts || *l.first + p.queries - 1 > 0)) {
    a.operation.window = true;
    a.size.window_start = static_cast<int32_t>(std::clamp<int64_t>(*l.first, -kMostExtent, most));
  }
  return a;
}

}  // namespace ptxbuilder::kernels
