#include "kernels/attention/config.h"

#include <fmt/format.h>

#include <charconv>

#include "kernels/gemm/split.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kBarrierBytes = 1024;  // upper bound for all barriers, including alignment

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
        "tile '{}': '{}' is not understood; the form must be 128x176_2 (queries, 64 for each consumer, keys "
        "and stages), followed by any of _v3 (stages of values), _c8 (stages of a cache of e4m3), _q2 "
        "(places of queries), _persistent, _ascending, _turns or _late, _eager, _whole, _split and _nopdl",
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
  // Counts the queries, the keys, the weights of one block, three numbers for each row, and rows of bytes.
  // Additional stages for rotary columns are counted with the rows of bytes.
  if (o.has_latent_values())
    return (t.bm() * o.depth + t.stages * t.bn * o.depth + t.bm() * t.bn) * size_of(o.type) + 3 * t.bm() * 4 +
           t.cache_stages * t.bn * LatentRow::kBytes;
  const int of_cache = o.converts() ? o.depth + o.value_depth : o.value_depth;
  return (t.query_places * t.bm() * o.depth +
          t.bn * (t.stages * o.depth + t.value_stages() * o.value_depth)) *
             size_of(o.product_type()) +
         t.cache_stages * t.bn * of_cache +
         (o.e4m3_products ? t.bm() * o.value_depth * size_of(o.type) : 0);  // memory of O
}

std::string why_not_latent(const AttentionOperation& o) {
  if (!o.has_latent_values()) return "";
  const int latent = o.depth - AttentionOperation::kRotaryColumns;
  if (o.value_depth != latent || (latent != 256 && latent != AttentionOperation::kMostLatentColumns))
    return fmt::format(
        "Q and K have {} columns, and V has {}, but Q and K must have up to {}, or 576 or 320 if the first "
        "512 or 256 of these are the values",
        o.depth, o.value_depth, AttentionOperation::kMostColumns);
  for (const auto& [is, what] : {std::pair(o.packed, "packed sequences"),
                                 {o.e4m3_products, "Q of e4m3"},
                                 {o.page_scales, "scales of pages"},
                                 {o.sinks, "sinks"},
                                 {o.has_step(), "softcap or dropout"}})
    if (is)
      return fmt::format("{} cannot be used with values that are the first columns of keys: leave them out",
                         what);
  if (o.gathers())
    return fmt::format(
        "pages have {} rows with values that are the first columns of keys, but such pages must have "
        "multiples of 8 rows",
        o.page);
  if (o.e4m3 && (o.type != DType::bf16 || latent != AttentionOperation::kMostLatentColumns))
    return fmt::format(
        "Q and O are {} with {} columns over rows of {} bytes, but such rows are for bf16 and 576 columns",
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
    refuse(
        fmt::format("latent values need blocks of 64 queries and {} keys that CTAs divide: use the tile {}",
                    latent_bn, o.e4m3 ? "64x32_2_c2_split" : "64x64_2_split"));
  if (o.type != DType::f16 && o.type != DType::bf16)
    refuse(fmt::format("Q, K, V and O are {}; they must be f16 or bf16", name(o.type)));
  for (const int depth : {o.depth, o.value_depth})
    if (!o.has_latent_values() && (depth < 16 || depth > 256 || depth % 16 != 0))
      refuse(fmt::format("a head has {} columns, but must have a multiple of 16 up to 256", depth));
  if (o.value_depth > o.depth)
    refuse(fmt::format(
        "V has {} columns, but Q has {}; V must have no more than Q, since O is stored in the place of Q",
        o.value_depth, o.depth));
  if (o.e4m3 && (o.depth % 32 != 0 || o.value_depth % 32 != 0))
    refuse(fmt::format("K and V of e4m3 have {} and {} columns, but both must be multiples of 32", o.depth,
                       o.value_depth));
  if (o.converts() && o.packs_keys())
    refuse("packed sequences are not supported with K and V of e4m3 and a different type of Q");
  if (o.e4m3_products && !o.e4m3)
    refuse(
        "Q is e4m3, but K and V have a different type; all must have one type, or only K and V must be e4m3");
  if (o.promotes && !o.e4m3_products)
    refuse("promotion of sums needs Q of e4m3; the sums of other types are f32 anyway");
  if (o.promotes && o.value_depth > 128)
    refuse(fmt::format(
        "V has {} columns with promotion of sums, but must have at most 128, since a thread holds both sums",
        o.value_depth));
  if (o.e4m3_products && (o.lengths || t.split))
    refuse(
        "Q of e4m3 cannot be used with lengths of keys, pages, or keys that CTAs divide (split): use Q of "
        "f16 or bf16 with K and V of e4m3");
  if (o.e4m3_products && (t.bn % 32 != 0 || (t.bn % 64 != 0 && o.value_depth % 64 != 0)))
    refuse(fmt::format(
        "Q of e4m3 with blocks of {} keys and V of {} columns; the keys must be a multiple of 64, or of 32 "
        "if the columns are a multiple of 64, since the four warps that transpose V share a block",
        t.bn, o.value_depth));
  if (o.e4m3 != (t.cache_stages > 0) || t.cache_stages == 1)
    refuse(
        fmt::format("a cache has {} stages with K and V of {}, but must have two or more for e4m3, and none "
                    "for other types",
                    t.cache_stages, name(o.key_type())));
  if (o.converts() && (t.consumers > 1 || t.persistent))
    refuse(
        "K and V of e4m3 with a different type of Q cannot be used with several consumers or CTAs that begin "
        "the next queries (persistent)");
  if (o.heads_in_rows < 1 || o.heads_in_rows > 64 || (o.heads_in_rows & (o.heads_in_rows - 1)) != 0)
    refuse(
        fmt::format("{} heads are in the rows of a block, but the number must be a power of two up to 64, "
                    "which divides a consumer's 64 rows",
                    o.heads_in_rows));
  if (t.ascending && !(t.persistent && takes_longest_first(o)))
    refuse(
        "'ascending' needs CTAs that stay, to which the longest blocks of queries come first: use "
        "'persistent' with a causal mask and without packed sequences, or leave out 'ascending'");
  if (o.dropout && o.heads_in_rows > 1)
    refuse(
        "dropout cannot be used with heads in the rows of a block, since what is dropped depends on the "
        "head");
  if (o.packs_keys() && o.heads_in_rows > 1)
    refuse("heads in the rows of a block cannot be used with packed keys: leave one of the two out");
  if (t.consumers < 1 || t.consumers > 3)
    refuse(fmt::format("there are {} consumers, but there must be 1, 2 or 3", t.consumers));
  if (t.bn < 16 || t.bn > 256 || t.bn % 16 != 0)
    refuse(fmt::format("a block has {} keys, but must have a multiple of 16 up to 256", t.bn));
  if (t.turns && t.consumers < 2)
    refuse("turns need two or three consumers, not one: use more consumers, or no turns");
  if (t.late_turns && !t.turns) refuse("a turn can only be passed late if there are turns: use turns too");
  if (t.stages < 2)
    refuse(
        "there is one stage, but there must be at least two, since a block of V is read while the next "
        "arrives");
  if (t.lends(o) && t.bn < 64)
    refuse(
        fmt::format("a block of persistent CTAs has {} keys, but must have at least 64, since a consumer's "
                    "64 rows of O are stored through a stage of values",
                    t.bn));
  if (t.lends(o) && t.places() > t.value_stages())
    refuse(
        fmt::format("{} stages of values with {} consumers; each must store O through its own stage: use "
                    "more stages, or blocks of {} keys",
                    t.value_stages(), t.places(), t.bm()));
  if (t.query_places != 1 && !(t.persistent && t.query_places == 2))
    refuse(
        fmt::format("there are {} places for the queries of a consumer, but there must be one, or two if "
                    "CTAs stay (persistent)",
                    t.query_places));
  if (o.page < 0)
    refuse(fmt::format("a page has {} rows, but must have at least 1, or 0 for no pages", o.page));
  if (o.page > 0 && !o.lengths) refuse("pages need lengths, which hide the rows after the last key in pages");
  if (o.page_scales && (o.page == 0 || !o.converts()))
    refuse("scales of pages need pages of K and V of e4m3 that are converted to the type of Q");
  if (o.tree && !o.lengths)
    refuse("a tree mask needs lengths, since the tree's keys are the last ones of each sequence");
  if (o.lengths && (t.consumers > 1 || t.persistent))
    refuse(
        "lengths of keys cannot be used with several consumers or CTAs that stay (persistent): one consumer "
        "clears the values after the last key, and no other waits for it");
  if (t.split && (t.consumers > 1 || t.persistent))
    refuse(
        "keys that CTAs divide (split) cannot be used with several consumers or CTAs that stay (persistent)");
  if (t.split && (o.packs_keys() || o.dropout))
    refuse("keys that CTAs divide (split) cannot be used with packed keys or with dropout");
  if (t.whole_blocks && (o.causal || o.window || o.has_own_lengths()))
    refuse("whole blocks cannot be used with a mask, which hides keys anyway: leave out 'whole'");
  const int room = hopper::shared_bytes - kBarrierBytes;
  if (const int bytes = tile_bytes(o, t); bytes > room)
    refuse(
        fmt::format("the tiles have {} B, but only {} B fit: use fewer keys in a block, stages or consumers",
                    bytes, room));
}

}  // namespace ptxbuilder::kernels
