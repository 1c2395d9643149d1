#include "kernels/attention/config.h"

#include <fmt/format.h>

#include <charconv>

#include "kernels/gemm/split.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kBarrierBytes = 1024;  // an upper bound that includes alignment

}  // namespace

std::string text(const AttentionTile& t) {
  std::string all = fmt::format("{}x{}_{}", t.bm(), t.bn, t.stages);
  if (t.extra_value_stages > 0) all += fmt::format("_v{}", t.value_stages());
  if (t.cache_stages > 0) all += fmt::format("_c{}", t.cache_stages);
  const auto add = [&](bool is, const char* word) {
    if (is) all += word;
  };
  add(t.query_places == 2, "_q2");
  add(t.persistent, "_persistent");
  add(t.ascending, "_ascending");
  add(t.turns, t.late_turns ? "_late" : "_turns");
  add(!t.lazy, "_eager");
  add(t.whole_blocks, "_whole");
  add(t.split, "_split");
  add(!t.overlaps, "_nopdl");
  return all;
}

AttentionTile parse_attention_tile(const std::string& whole) {
  AttentionTile t;
  const auto refuse = [&](std::string_view part) {
    throw Error(fmt::format(
        "tile '{}': '{}' is not what it may have; the form is 128x176_2 (queries, of 64 a consumer, keys and "
        "stages), with _v3 (stages of values), _c8 (stages of a cache of e4m3), _q2 (places of queries), "
        "_persistent, _ascending, _turns or _late, _eager, _whole, _split and _nopdl after it",
        whole, part));
  };
  const auto number = [&](std::string_view text) {
    int value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 1) refuse(text);
    return value;
  };
  const auto more = [&](int values, std::string_view part) {
    if (values <= t.stages) refuse(part);
    return values - t.stages;
  };
  const std::vector<std::string_view> parts = split(whole, '_'), sizes = split(parts[0], 'x');
  if (sizes.size() != 2 || parts.size() < 2) refuse(whole);
  const int queries = number(sizes[0]);
  if (queries % 64 != 0) refuse(sizes[0]);
  t.consumers = queries / 64;
  t.bn = number(sizes[1]);
  t.stages = number(parts[1]);
  for (size_t i = 2; i < parts.size(); ++i) {
    if (parts[i] == "q2")
      t.query_places = 2;
    else if (parts[i] == "persistent")
      t.persistent = true;
    else if (parts[i] == "ascending")
      t.ascending = true;
    else if (parts[i].starts_with("v"))
      t.extra_value_stages = more(number(parts[i].substr(1)), parts[i]);
    else if (parts[i].starts_with("c"))
      t.cache_stages = number(parts[i].substr(1));
    else if (parts[i] == "late")
      t.turns = t.late_turns = true;
    else if (parts[i] == "eager")
      t.lazy = false;
    else if (parts[i] == "turns")
      t.turns = true;
    else if (parts[i] == "whole")
      t.whole_blocks = true;
    else if (parts[i] == "split")
      t.split = true;
    else if (parts[i] == "nopdl")
      t.overlaps = false;
    else
      refuse(parts[i]);
  }
  return t;
}

int ctas_at_once(const AttentionOperation& o, const AttentionTile& t) {
  return t.split && o.depth <= AttentionOperation::kMostColumns && o.value_depth <= 128 && !o.fills_values()
             ? 2
             : 1;
}

int tile_bytes(const AttentionOperation& o, const AttentionTile& t) {
  // Queries, keys, the weights of one block, three numbers of each row, and rows of bytes; more stages of
  // their rotary columns are loaded to where they are multiplied.
  if (o.has_latent_values())
    return (t.bm() * o.depth + t.stages * t.bn * o.depth + t.bm() * t.bn) * size_of(o.type) + 3 * t.bm() * 4 +
           t.cache_stages * t.bn * LatentRow::kBytes;
  const int of_cache = o.converts() ? o.depth + o.value_depth : o.value_depth;
  return (t.query_places * t.bm() * o.depth +
          t.bn * (t.stages * o.depth + t.value_stages() * o.value_depth)) *
             size_of(o.product_type()) +
         t.cache_stages * t.bn * of_cache +
         (o.e4m3_products ? t.bm() * o.value_depth * size_of(o.type) : 0);  // the memory of O
}

std::string why_not_latent(const AttentionOperation& o) {
  if (!o.has_latent_values()) return "";
  const int latent = o.depth - AttentionOperation::kRotaryColumns;
  if (o.value_depth != latent || (latent != 256 && latent != AttentionOperation::kMostLatentColumns))
    return fmt::format(
        "Q and K of {} columns, and V of {}; Q and K have up to {}, or 576 or 320 whose first 512 or 256 are "
        "the values",
        o.depth, o.value_depth, AttentionOperation::kMostColumns);
  for (const auto& [is, what] : {std::pair(o.packed, "packed sequences"),
                                 {o.e4m3_products, "Q of e4m3"},
                                 {o.page_scales, "scales of pages"},
                                 {o.sinks, "sinks"},
                                 {o.has_step(), "softcap or dropout"}})
    if (is) return fmt::format("{}, and values that are the first columns of keys; leave them out", what);
  if (o.gathers())
    return fmt::format(
        "pages of {} rows, and values that are the first columns of keys; such pages have multiples of 8 "
        "rows",
        o.page);
  if (o.e4m3 && (o.type != DType::bf16 || latent != AttentionOperation::kMostLatentColumns))
    return fmt::format(
        "Q and O of {} with {} columns, over rows of {} bytes; such rows are for bf16 and 576 columns",
        name(o.type), o.depth, LatentRow::kBytes);
  return "";
}

void check(const AttentionOperation& o, const AttentionTile& t, Where where) {
  const auto refuse = [&](const std::string& what) {
    throw Error(where, fmt::format("attention {}: {}", text(t), what));
  };
  if (const std::string what = why_not_latent(o); !what.empty()) refuse(what);
  const int latent_bn = o.e4m3 ? 32 : 64;
  if (o.has_latent_values() &&
      (t.consumers != 1 || t.bn != latent_bn || !t.split || t.extra_value_stages > 0))
    refuse(fmt::format("latent values; they take blocks of 64 queries and {} keys that CTAs divide: say {}",
                       latent_bn, o.e4m3 ? "64x32_2_c2_split" : "64x64_2_split"));
  if (o.type != DType::f16 && o.type != DType::bf16)
    refuse(fmt::format("Q, K, V and O of {}; they are of f16 or bf16", name(o.type)));
  for (const int depth : {o.depth, o.value_depth})
    if (!o.has_latent_values() && (depth < 16 || depth > 256 || depth % 16 != 0))
      refuse(fmt::format("heads of {} columns; a multiple of 16 up to 256", depth));
  if (o.value_depth > o.depth)
    refuse(fmt::format("V of {} columns and Q of {}; V has no more than Q, through whose place O leaves",
                       o.value_depth, o.depth));
  if (o.e4m3 && (o.depth % 32 != 0 || o.value_depth % 32 != 0))
    refuse(fmt::format("K of e4m3 with {} columns, and V with {}; multiples of 32", o.depth, o.value_depth));
  if (o.converts() && o.packs_keys())
    refuse("packed sequences of K and V of e4m3, and Q of another type; leave one of the two out");
  if (o.e4m3_products && !o.e4m3)
    refuse("Q of e4m3, and K and V of another type; they are of one type, or K and V alone are of e4m3");
  if (o.promotes && !o.e4m3_products)
    refuse("promotion of sums, and Q of another type than e4m3, whose sums are of f32 anyway");
  if (o.promotes && o.value_depth > 128)
    refuse(fmt::format("promotion of sums, and V of {} columns; 128 at most, since a thread holds both sums",
                       o.value_depth));
  if (o.e4m3_products && (o.lengths || t.split))
    refuse(
        "Q of e4m3, with lengths of keys, pages, or keys that CTAs divide (split): Q of f16 or bf16 takes "
        "them, over K and V of e4m3");
  if (o.e4m3_products && (t.bn % 32 != 0 || (t.bn % 64 != 0 && o.value_depth % 64 != 0)))
    refuse(fmt::format(
        "Q of e4m3, with blocks of {} keys and V of {} columns; the keys are a multiple of 64, or of 32 if "
        "the columns are a multiple of 64: the four warps that transpose V share a block",
        t.bn, o.value_depth));
  if (o.e4m3 != (t.cache_stages > 0) || t.cache_stages == 1)
    refuse(fmt::format("{} stages of a cache, and K and V of {}; two or more of e4m3, none of others",
                       t.cache_stages, name(o.key_type())));
  if (o.converts() && (t.consumers > 1 || t.persistent))
    refuse(
        "K and V of e4m3, and Q of another type, with several consumers or CTAs that begin the next queries "
        "(persistent)");
  if (o.heads_in_rows < 1 || o.heads_in_rows > 64 || (o.heads_in_rows & (o.heads_in_rows - 1)) != 0)
    refuse(
        fmt::format("{} heads in the rows of a block; a power of two up to 64, which divides a consumer's 64",
                    o.heads_in_rows));
  if (t.ascending && !(t.persistent && takes_longest_first(o)))
    refuse(
        "blocks of keys ascending, where blocks of queries do not come longest first to CTAs that stay: say "
        "persistent, with a causal mask and without packed sequences, or leave out 'ascending'");
  if (o.dropout && o.heads_in_rows > 1)
    refuse("dropout, and heads in the rows of a block: what is dropped depends on the head");
  if (o.packs_keys() && o.heads_in_rows > 1)
    refuse("heads in the rows of a block, with packed keys; leave one of the two out");
  if (t.consumers < 1 || t.consumers > 3) refuse(fmt::format("{} consumers; 1, 2 or 3", t.consumers));
  if (t.bn < 16 || t.bn > 256 || t.bn % 16 != 0)
    refuse(fmt::format("blocks of {} keys; a multiple of 16 up to 256", t.bn));
  if (t.turns && t.consumers < 2) refuse("turns of one consumer; take two or three, or no turns");
  if (t.late_turns && !t.turns) refuse("a turn that is passed late, and no turns; say turns too");
  if (t.stages < 2) refuse("one stage; two at least, since a block of V is read while the next arrives");
  if (t.lends(o) && t.bn < 64)
    refuse(
        fmt::format("CTAs that stay, with blocks of {} keys; 64 at least, since a consumer's 64 rows of O "
                    "leave through a stage of values",
                    t.bn));
  if (t.lends(o) && t.places() > t.value_stages())
    refuse(
        fmt::format("{} stages of values, and {} consumers; each sends O through a stage of its own: take "
                    "more stages, or blocks of {} keys",
                    t.value_stages(), t.places(), t.bm()));
  if (t.query_places != 1 && !(t.persistent && t.query_places == 2))
    refuse(fmt::format("{} places for the queries of a consumer; one, or two where CTAs stay (persistent)",
                       t.query_places));
  if (o.page < 0) refuse(fmt::format("pages of {} rows; 1 at least, or 0 for none", o.page));
  if (o.page > 0 && !o.lengths)
    refuse("pages, and no lengths: rows after the last key are in pages too, and only lengths hide them");
  if (o.page_scales && (o.page == 0 || !o.converts()))
    refuse("scales of pages, and no pages of K and V of e4m3 that are converted to the type of Q");
  if (o.tree && !o.lengths)
    refuse("a tree mask, and no lengths: the tree's keys are the last ones of each sequence; say lengths");
  if (o.lengths && (t.consumers > 1 || t.persistent))
    refuse(
        "lengths of keys, with several consumers or CTAs that stay (persistent): one consumer clears the "
        "values after the last key, and nobody waits for it");
  if (t.split && (t.consumers > 1 || t.persistent))
    refuse("keys that CTAs divide (split), with several consumers or CTAs that stay (persistent)");
  if (t.split && (o.packs_keys() || o.dropout))
    refuse("keys that CTAs divide (split), with packed keys or with dropout");
  if (t.whole_blocks && (o.causal || o.window || o.has_own_lengths()))
    refuse("whole blocks with a mask; keys are hidden anyway: leave out 'whole'");
  const int room = hopper::shared_bytes - kBarrierBytes;
  if (const int bytes = tile_bytes(o, t); bytes > room)
    refuse(fmt::format("tiles of {} B, and {} B fit: take fewer keys a block, stages or consumers", bytes,
                       room));
}

}  // namespace ptxbuilder::kernels
