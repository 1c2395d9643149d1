#include "kernels/attention/attention_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ptxbuilder::kernels {
namespace {

constexpr int64_t kMostExtent = (int64_t{1} << 31) - 8192;  // indices of 31 bits, and blocks beyond the end
constexpr int64_t kStrideEnd = int64_t{1} << 40;            // bytes, exclusive: of tensor maps
constexpr int64_t kFewQueries = 128;                        // fewer do not fill a tile of two consumers
constexpr int64_t kTma = 16;  // bytes, of which addresses and strides are multiples
constexpr int kElement = 2;   // bytes, of f16 and bf16

using Wide = __int128;  // of products of extents and strides

[[noreturn]] void refuse(Where where, const std::string& what) { throw Error(where, "attention: " + what); }

void check_range(const char* name, int64_t value, int64_t least, int64_t most, Where where) {
  if (value < least || value > most)
    refuse(where, fmt::format("{} = {}; {} to {}", name, value, least, most));
}

Wide extent_bytes(const PlacedHeads& t) {
  return (Wide{t.rows - 1} * t.row_stride + Wide{t.heads - 1} * t.head_stride +
          Wide{t.batches - 1} * t.batch_stride + t.columns) *
         kElement;
}

PlacedHeads placed(const char* name, const DeviceHeads& t, DType type, int64_t columns, int64_t rows,
                   int64_t heads, int64_t batches) {
  PlacedHeads p = {name,  type,    t.memory,     columns,       rows,
                   heads, batches, t.row_stride, t.head_stride, t.batch_stride};
  if (p.head_stride == 0) p.head_stride = columns;
  if (p.row_stride == 0) p.row_stride = heads * columns;
  if (p.batch_stride == 0 && __builtin_mul_overflow(p.row_stride, rows, &p.batch_stride))
    p.batch_stride = kStrideEnd;  // of a stride that is refused anyway
  return p;
}

void check_memory(const PlacedHeads& t, Where where) {
  if (t.is_empty()) return;
  const auto stride = [&](const char* what, int64_t value, int64_t count) {
    if (count > 1 && (value < t.columns || value >= kStrideEnd / kElement))
      refuse(where, fmt::format("{}: a {} stride of {} elements; it is at least the {} columns of a row, and "
                                "below 2^39",
                                t.name, what, value, t.columns));
  };
  stride("row", t.row_stride, t.rows);
  stride("head", t.head_stride, t.heads);
  stride("batch", t.batch_stride, t.batches);
  if (t.memory.address % kElement != 0)
    refuse(where, fmt::format("{}: the address {:#x} is no multiple of an element's {} B", t.name,
                              t.memory.address, kElement));
  if (extent_bytes(t) > Wide{t.memory.bytes})
    refuse(
        where,
        fmt::format("{}: {} batches of {} rows of {} heads of {} columns, {}, {} and {} elements apart, take "
                    "{} B, and its memory has {} B",
                    t.name, t.batches, t.rows, t.heads, t.columns, t.batch_stride, t.row_stride,
                    t.head_stride, static_cast<uint64_t>(extent_bytes(t)), t.memory.bytes));
}

// Rows of what is written lie beside each other: from the shortest stride to the longest, each holds all that
// lies within.
void check_no_self_overlap(const PlacedHeads& o, Where where) {
  std::array<std::pair<int64_t, int64_t>, 3> dimensions = {
      {{o.row_stride, o.rows}, {o.head_stride, o.heads}, {o.batch_stride, o.batches}}};
  std::ranges::sort(dimensions);
  Wide width = o.columns;
  for (const auto& [stride, count] : dimensions) {
    if (count <= 1) continue;
    if (stride < width)
      refuse(where, fmt::format("O: rows, heads and batches {}, {} and {} elements apart let rows overlap, "
                                "which are written",
                                o.row_stride, o.head_stride, o.batch_stride));
    width += Wide{stride} * (count - 1);
  }
}

// Whether [a, a + size) of two places may touch. Heads that lie between each other count as touching, unless
// they are columns of the same rows.
bool overlap(runtime::Address a, Wide a_bytes, runtime::Address b, Wide b_bytes) {
  return Wide{a} < Wide{b} + b_bytes && Wide{b} < Wide{a} + a_bytes;
}

bool interleaved(const PlacedHeads& o, const PlacedHeads& x) {
  // Columns of one larger matrix, as where Q, K, V and O are parts of one projection's rows.
  if (o.row_stride != x.row_stride) return false;
  const int64_t period = o.row_stride * kElement;
  const auto rows_only = [&](const PlacedHeads& t) {
    return (t.heads == 1 || t.head_stride * t.heads <= t.row_stride) &&
           (t.batches == 1 || t.batch_stride % t.row_stride == 0);
  };
  if (!rows_only(o) || !rows_only(x)) return false;
  const auto width = [](const PlacedHeads& t) {
    return (t.head_stride * (t.heads - 1) + t.columns) * kElement;
  };
  const auto from =
      static_cast<int64_t>((x.memory.address - o.memory.address) % static_cast<uint64_t>(period));
  const int64_t at = x.memory.address >= o.memory.address
                         ? from
                         : period - static_cast<int64_t>((o.memory.address - x.memory.address) %
                                                         static_cast<uint64_t>(period));
  return at >= width(o) && at + width(x) <= period;
}

void check_overlap(const PlacedAttention& a, const AttentionArguments& p, Where where) {
  const auto apart = [&](const char* written, runtime::Address address, Wide bytes, const PlacedHeads* whole,
                         const PlacedHeads& read) {
    if (read.is_empty() || !overlap(address, bytes, read.memory.address, extent_bytes(read))) return;
    if (whole && interleaved(*whole, read)) return;
    refuse(where, fmt::format("{} overlaps {}, which is read while it is written: give it memory of its own",
                              written, read.name));
  };
  for (const PlacedHeads* read : {&a.q, &a.k, &a.v})
    apart("O", a.o.memory.address, extent_bytes(a.o), &a.o, *read);
  if (p.lse.address == 0) return;
  for (const PlacedHeads* other : {&a.q, &a.k, &a.v, &a.o})
    apart("lse", p.lse.address, Wide{p.lse.bytes}, nullptr, *other);
}

// The first key that query 0 sees, and the one behind its last, unless there is no limit.
struct Limits {
  std::optional<int64_t> first, end;
};
Limits limits(const AttentionArguments& p, Where where) {
  if (p.causal && p.right > 0)
    refuse(where, fmt::format("causal, and right = {}: the keys to the right that a causal query sees are 0",
                              p.right));
  if (p.packed() && p.top_left)
    refuse(where, "packed sequences and top_left: their masks count from keys - queries of each");
  const int64_t offset = p.packed() || p.top_left ? 0 : p.keys - p.queries;
  const int64_t right = p.causal ? 0 : p.right, most = kMostExtent;
  Limits l;
  if (right >= 0) l.end = offset + std::min(right, most) + 1;
  if (p.left >= 0) l.first = offset - std::min(p.left, most);
  return l;
}

void check_offsets(const AttentionArguments& p, Where where) {
  for (const auto& [name, view] :
       {std::pair("query_offsets", p.query_offsets), {"key_offsets", p.key_offsets}})
    if (view.address % 4 != 0 || Wide{view.bytes} < Wide{p.batches + 1} * 4 || view.address == 0)
      refuse(where,
             fmt::format("{}: {} B at {:#x}; packed, both have {} + 1 numbers of 4 B, at a multiple of 4",
                         name, view.bytes, view.address, p.batches));
}

// One query sees a range of keys, which are then all; and the heads that share them are rows of one tile.
void take_heads_as_rows(PlacedAttention& a, const Limits& l) {
  const int64_t end = std::clamp<int64_t>(l.end.value_or(a.size.keys), 0, a.size.keys),
                first = std::clamp<int64_t>(l.first.value_or(0), 0, end);
  for (PlacedHeads* t : {&a.k, &a.v}) {
    const auto skipped = static_cast<uint64_t>(first * t->row_stride * kElement);
    if (first < end) t->memory.address += skipped, t->memory.bytes -= skipped;
    t->rows = end - first;
  }
  for (PlacedHeads* t : {&a.q, &a.o}) {
    t->rows = a.size.group;
    t->row_stride = t->head_stride;
    t->heads /= a.size.group;
    t->head_stride *= a.size.group;
  }
  a.size.queries = a.size.group, a.size.keys = end - first;
  a.size.heads /= a.size.group, a.size.group = 1;
}

}  // namespace

bool PlacedHeads::aligned_for_tma() const {
  const auto aligned = [](int64_t stride, int64_t count) {
    return count <= 1 || stride * kElement % kTma == 0;
  };
  return memory.address % kTma == 0 && aligned(row_stride, rows) && aligned(head_stride, heads) &&
         aligned(batch_stride, batches);
}

// A row's end is a unit of TMA's; packed, the kernel writes all the columns that it has.
bool PlacedAttention::stores_in_place() const {
  return o.aligned_for_tma() && o.columns * kElement % kTma == 0 &&
         (!operation.packed || o.columns == operation.value_depth);
}

PlacedAttention checked(const AttentionArguments& p, bool heads_as_rows, Where where) {
  if (p.type != DType::f16 && p.type != DType::bf16)
    refuse(where, fmt::format("Q, K, V and O of {}; they are of f16 or bf16", name(p.type)));
  const int64_t key_heads = p.key_heads != 0 ? p.key_heads : p.heads,
                columns = p.value_depth != 0 ? p.value_depth : p.depth;
  check_range("depth", p.depth, 1, 256, where);
  if (columns < 1 || columns > p.depth)
    refuse(where, fmt::format("V of {} columns (value_depth) and Q of {}; V has 1 to as many as Q: give V in "
                              "parts of its columns, whose results stand side by side, or widen Q and K by "
                              "columns of zeros and say the scale",
                              columns, p.depth));
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
    refuse(where, fmt::format("{} heads, and {} of keys; the first is a multiple of the second", p.heads,
                              key_heads));
  if (!(p.scale >= 0) || std::isinf(p.scale))
    refuse(where, fmt::format("scale = {}; above 0, or 0 for 1 / sqrt(depth)", p.scale));
  if (!(p.softcap >= 0) || std::isinf(p.softcap))
    refuse(where, fmt::format("softcap = {}; above 0, or 0 for none", p.softcap));
  const bool packed = p.packed();
  if (packed) check_offsets(p, where);
  const int64_t query_rows = packed ? p.query_rows : p.queries, key_rows = packed ? p.key_rows : p.keys,
                batches = packed ? 1 : p.batches;
  PlacedAttention a;
  a.q = placed("Q", p.q, p.type, p.depth, query_rows, p.heads, batches);
  a.k = placed("K", p.k, p.type, p.depth, key_rows, key_heads, batches);
  a.v = placed("V", p.v, p.type, columns, key_rows, key_heads, batches);
  a.o = placed("O", p.o, p.type, columns, query_rows, p.heads, batches);
  for (const PlacedHeads* t : {&a.q, &a.k, &a.v, &a.o}) check_memory(*t, where);
  a.size = {p.queries, p.keys, p.heads, p.batches, key_heads > 0 ? p.heads / key_heads : 1};
  if (a.o.is_empty() || p.batches == 0 || p.queries == 0) return a;
  if (p.lse.address != 0) {
    const Wide bytes = Wide{p.heads} * (packed ? query_rows : p.batches * p.queries) * 4;
    if (p.lse.address % 4 != 0 || Wide{p.lse.bytes} < bytes)
      refuse(where, fmt::format("lse: {} B at {:#x}; it has {} B of f32, at a multiple of 4", p.lse.bytes,
                                p.lse.address, static_cast<uint64_t>(bytes)));
  }
  check_no_self_overlap(a.o, where);
  check_overlap(a, p, where);

  const auto multiple = [](int64_t columns) { return static_cast<int>((columns + 15) / 16 * 16); };
  a.operation.type = p.type;
  a.operation.depth = multiple(p.depth);
  a.operation.value_depth = multiple(columns);
  a.operation.lse = p.lse.address != 0;
  a.operation.softcap = p.softcap > 0;
  a.operation.packed = packed;
  const Limits l = limits(p, where);
  if (heads_as_rows && !packed && p.queries == 1) {
    take_heads_as_rows(a, l);
    return a;
  }
  if (heads_as_rows && !packed && p.queries < kFewQueries) {
    // As many as a power of two that divides them, and a consumer's 64 rows.
    const int64_t heads = std::min<int64_t>(a.size.group & -a.size.group, 64);
    a.operation.heads_in_rows = static_cast<int>(heads);
    a.size.queries *= heads, a.size.heads /= heads, a.size.group /= heads;
  }
  // A limit that hides nothing is none.
  const int64_t most = packed ? query_rows + key_rows : p.keys;
  if (l.end && (packed || *l.end < most)) {
    a.operation.causal = true;
    a.size.visible = static_cast<int32_t>(std::clamp<int64_t>(*l.end, -p.queries, most));
  }
  if (l.first && (packed || *l.first + p.queries - 1 > 0)) {
    a.operation.window = true;
    a.size.hidden = static_cast<int32_t>(std::clamp<int64_t>(*l.first, -kMostExtent, most));
  }
  return a;
}

void check_workspace(const AttentionArguments& p, const PlacedAttention& a, size_t bytes, Where where) {
  if (bytes == 0) return;
  const runtime::View& w = p.workspace;
  if (w.address == 0 || w.bytes < bytes || w.address % kTma != 0)
    refuse(where, fmt::format("it takes a workspace of {} B at a multiple of {}, as workspace_bytes() says "
                              "(ptxb_attention_workspace() in C), and is given {} B at {:#x}",
                              bytes, kTma, w.bytes, w.address));
  const auto apart = [&](const char* name, runtime::Address address, Wide size) {
    if (address != 0 && overlap(w.address, Wide{bytes}, address, size))
      refuse(where, fmt::format("the workspace, {} B at {:#x}, overlaps {}: give it memory of its own", bytes,
                                w.address, name));
  };
  for (const PlacedHeads* t : {&a.q, &a.k, &a.v, &a.o})
    if (!t->is_empty()) apart(t->name, t->memory.address, extent_bytes(*t));
  apart("lse", p.lse.address, Wide{p.lse.bytes});
}

}  // namespace ptxbuilder::kernels
