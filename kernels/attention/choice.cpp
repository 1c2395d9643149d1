#include "kernels/attention/choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace ptxbuilder::kernels {
namespace {

constexpr double kSharedBytes =
    16 << 20;                 // bytes of keys and values that CTAs share in L2, about a third of it
constexpr int64_t kFew = 64;  // up to this many queries per head, or tiles of all heads, are few
constexpr int64_t kFewOverCaches =
    256;  // limit for caches, since 16 queries of 16 heads that share keys are still few

constexpr int kMostStages = 4, kMostCacheStages = 8;

// Constants of the model for the division of keys among CTAs.
constexpr int kBytesOfPart = 112 << 10;  // bytes of tiles that a CTA may have if two CTAs share an SM
constexpr double kBytesOfUs = 22000;     // bytes of keys and values that an SM loads per microsecond
constexpr double kAlone = 1.09;          // time of a single CTA on an SM, relative to half the time of two
constexpr double kPartUs = 0.13;         // microseconds to add a part
// Estimates for latent values. They are the bytes of parts that are added per microsecond, and the
// microseconds for the products of a key. If there are few CTAs, each loads somewhat faster than its share of
// the memory bandwidth, but takes at least kLeastShare of the time.
constexpr double kPartBytesOfUs = 90000, kLatentKeyUs = 0.025, kLeastShare = 0.85;
// Adjacent CTAs belong to different teams, and read the same keys of adjacent heads, which are adjacent in
// memory. Loads take kNarrow times as long if these rows together have fewer than kAdjacentBytes bytes: 70.6
// us with one team of 128 B, but 62.0 us with two.
constexpr int kAdjacentBytes = 256;
constexpr double kNarrow = 1.13;

constexpr double kLaunchUs = 3;
constexpr double kMaskNs =
    400;  // added to the time of a tile's first block if the keys end within this block
constexpr double kLeastScale =
    0.35;  // lower bound when times are scaled to narrower heads, since their softmax takes equally long

struct Measured {
  int depth, value_depth;
  bool masked;
  AttentionTile tile;
  double tile_ns, block_ns;
};
const std::vector<Measured>& measured() {
  static const std::vector<Measured> all = {
#define PTXBUILDER_ATTENTION_TILE(depth, value_depth, masked, tile, tile_ns, block_ns) \
  {depth, value_depth, masked, parse_attention_tile(tile), tile_ns, block_ns},
#include "kernels/attention/measured.def"
#undef PTXBUILDER_ATTENTION_TILE
  };
  return all;
}

bool is_masked(const AttentionOperation& o) { return o.causal || o.window || o.has_own_lengths(); }

// Returns whether the row may be used for `o`. Its heads must be at least as wide, it must have a mask
// exactly if `o` has one, and its products must be e4m3 exactly if those of `o` are.
bool is_for(const Measured& row, const AttentionOperation& o) {
  return row.depth >= o.depth && row.value_depth >= o.value_depth && row.masked == is_masked(o) &&
         (row.tile.cache_stages > 0) == o.e4m3_products;
}

// Returns the row of this tile or, if it is not listed, the row of the most similar tile. Returns null if no
// row may be used.
const Measured* nearest(const AttentionOperation& o, const AttentionTile& t) {
  const Measured* best = nullptr;
  int least = 0;
  for (const Measured& row : measured()) {
    if (!is_for(row, o)) continue;
    const int distance = (row.depth - o.depth + row.value_depth - o.value_depth) * 32 +
                         1000 * std::abs(row.tile.consumers - t.consumers) +
                         300 * (row.tile.persistent != t.persistent) + 200 * (row.tile.turns != t.turns) +
                         std::abs(row.tile.bn - t.bn) + (row.tile.query_places != t.query_places) +
                         (row.tile.ascending != t.ascending);
    if (!best || distance < least) best = &row, least = distance;
  }
  return best;
}

// The work of a head. `rows` is the number of blocks of queries. `all` is the total number of blocks of keys
// that the blocks of queries need; `least` and `most` are the smallest and the largest number that a block of
// queries needs. They are counted as in KeyBlocks.
struct Blocks {
  double rows = 0, all = 0, least = INFINITY, most = 0;
};
Blocks blocks_of(const AttentionOperation& o, const AttentionSize& s, const AttentionTile& t) {
  Blocks b;
  const int64_t longer = o.lengths ? s.keys - s.queries / o.heads_in_rows : 0;  // for the longest sequence
  for (int64_t row = 0; row < s.queries; row += t.bm()) {
    const int64_t end = o.causal ? std::clamp<int64_t>(
                                       (row + t.bm() - 1) / o.heads_in_rows + s.visible + longer, 0, s.keys)
                                 : s.keys,
                  first = o.window
                              ? std::clamp<int64_t>(row / o.heads_in_rows + s.window_start + longer, 0, end)
                              : 0;
    const double count = std::max(
        std::ceil(static_cast<double>(end) / t.bn) - std::floor(static_cast<double>(first) / t.bn), 1.0);
    b.rows += 1, b.all += count;
    b.least = std::min(b.least, count), b.most = std::max(b.most, count);
  }
  return b;
}

bool may_be_whole(const AttentionOperation& o, const AttentionSize& s, const AttentionTile& t) {
  return !is_masked(o) && s.keys > 0 && s.keys % t.bn == 0;
}

bool legal(const AttentionOperation& o, const AttentionTile& t) {
  try {
    check(o, t);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns whether the tile fits in the registers. Scores are f32, and weights have the type of the products.
// The number of other registers that are needed was measured with ptxas 13.0.
bool fits_registers(const AttentionOperation& o, const AttentionTile& t) {
  const bool masked = is_masked(o);
  const int taken = t.bn / 2 + t.bn * size_of(o.product_type()) / 8 + o.value_depth / 2 * (1 + o.promotes),
            more = (o.window || o.has_step()) && masked && !o.e4m3_products ? 8 : 0;
  // Warpgroups that fill rings leave fewer registers for the consumers, and limit a product to 128 columns.
  if (o.fills_keys() && (t.bn > 128 || taken > (o.value_depth > 128 ? 176 : 128))) return false;
  // A wgmma cannot use more registers than a thread has when the kernel starts. With four warpgroups, this
  // limit is 128.
  if (o.e4m3_products && t.bn > 192) return false;
  // A warpgroup that transposes values leaves fewer registers for the consumers (kernel.cpp).
  const int for_transposer = !o.e4m3_products ? 0 : t.consumers == 3 ? 32 : t.persistent ? 28 : 16;
  if (t.consumers == 3)
    return taken <= 132 - for_transposer - (t.persistent && (masked || o.has_step()) ? 8 : 0);
  return taken <= 200 - for_transposer -
                      (t.persistent && masked   ? 24
                       : t.persistent || masked ? 16
                                                : 0) -
                      more;
}

// Adds stages as far as shared memory allows, because persistent CTAs load the keys of the next queries in
// advance.
void deepen(const AttentionOperation& o, AttentionTile& t) {
  const auto room_for = [&](int stages, int extra_value_stages) {
    AttentionTile more = t;
    more.stages = stages, more.extra_value_stages = extra_value_stages;
    return legal(o, more);
  };
  while (t.stages < kMostStages && room_for(t.stages + 1, 0)) ++t.stages;
  if (t.stages == 2 && room_for(2, 1)) t.extra_value_stages = 1;
}

// Returns the tile of a row, adapted to this call, or nullopt if the call cannot use the tile.
std::optional<AttentionTile> usable(const Measured& row, const AttentionOperation& o,
                                    const AttentionSize& s) {
  AttentionTile t = row.tile;
  t.whole_blocks = may_be_whole(o, s, t);
  t.ascending = t.ascending && takes_longest_first(o);
  while (t.stages > 2 && !legal(o, t)) --t.stages;  // needed if Q is wider than V
  return is_for(row, o) && legal(o, t) && fits_registers(o, t) ? std::optional(t) : std::nullopt;
}

// Returns how many bytes a key and its value occupy in memory.
int bytes_of_key(const AttentionOperation& o) {
  if (o.has_byte_rows()) return LatentRow::kBytes;
  return (o.depth + (o.has_latent_values() ? 0 : o.value_depth)) * size_of(o.key_type());
}
double bytes_of_keys(const AttentionOperation& o, const AttentionSize& s) {
  return static_cast<double>(s.keys) * bytes_of_key(o);
}

}  // namespace

int64_t heads_in_wave(const AttentionOperation& o, const AttentionSize& s, const AttentionTile& t, int ctas) {
  const int64_t heads = std::max<int64_t>(s.heads * s.batches, 1);
  if (t.persistent) {
    const int64_t blocks = std::max<int64_t>((s.queries + t.bm() - 1) / t.bm(), 1);
    return std::min(ctas / std::gcd(blocks, int64_t{ctas}), heads);
  }
  const auto shared = static_cast<int64_t>(kSharedBytes / std::max(bytes_of_keys(o, s), 1.0));
  return std::min(std::max<int64_t>(shared, 1) * s.group, heads);
}

namespace {

// Returns the time of a block of latent keys. All teams load the same keys at about the same time, so that
// the keys come from memory only once.
double latent_block_us(double block_us, int keys, int64_t teams, double of_multiprocessors) {
  return std::max(block_us / static_cast<double>(teams) * std::max(of_multiprocessors, kLeastShare),
                  kLatentKeyUs * keys);
}

}  // namespace

KeyDivision key_division(const AttentionOperation& o, const AttentionSize& s, const AttentionTile& t,
                         int multiprocessors) {
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const Blocks of_rows = blocks_of(o, s, t);
  // If queries are packed, one sequence is assumed to have the largest number of queries, and all others are
  // assumed to have one query.
  AttentionSize of_one_query = s;
  if (o.packed) of_one_query.queries = o.heads_in_rows;
  const auto longest = std::max<int64_t>(static_cast<int64_t>(of_rows.most), 1),
             of_others = static_cast<int64_t>(blocks_of(o, of_one_query, t).all) * (s.batches - 1),
             of_head = std::max<int64_t>(static_cast<int64_t>(of_rows.all) + of_others, 1);
  const double block_us = t.bn * bytes_of_key(o) / kBytesOfUs;
  double part_us = kPartUs;
  if (o.has_latent_values())
    part_us += static_cast<double>(std::min<int64_t>(s.queries, t.bm()) * o.value_depth * 4) / kPartBytesOfUs;
  KeyDivision best;
  double least = INFINITY;
  for (int64_t ctas = 1; ctas <= int64_t{multiprocessors} * ctas_at_once(o, t); ++ctas) {
    const int64_t teams = std::gcd(s.heads, ctas), parts = ctas / teams;
    const int64_t piece = up(s.heads / teams * of_head, parts);
    const int64_t of_longest = up(longest, piece) + (piece < longest && longest % piece != 0);
    const int64_t added = o.has_latent_values() && of_longest > kGroupOfParts
                              ? kGroupOfParts + up(of_longest, kGroupOfParts)
                              : of_longest;
    const double us_of_block =
        o.has_latent_values()
            ? latent_block_us(block_us, t.bn, teams, static_cast<double>(ctas) / multiprocessors)
            : block_us;
    // The CTAs of an SM share its memory bandwidth.
    double shares = ctas <= multiprocessors ? kAlone : ctas_at_once(o, t);
    if (s.heads > s.group && teams * o.depth * size_of(o.key_type()) < kAdjacentBytes) shares *= kNarrow;
    const double us =
        shares * static_cast<double>(piece) * us_of_block + static_cast<double>(added) * part_us;
    if (us < least) least = us, best = {teams, parts};
  }
  return best;
}

namespace {

// Returns the tile for calls with few queries, with lengths of keys, with caches of e4m3, or with latent
// values; nullopt for other calls. The tile divides the keys among CTAs if SMs would otherwise be idle.
std::optional<AttentionTile> choose_few(const AttentionOperation& o, const AttentionSize& s,
                                        int multiprocessors) {
  if (o.has_latent_values()) {
    AttentionTile t = {.consumers = 1, .bn = 64, .stages = kMostStages, .split = true};
    if (o.e4m3) t.bn = 32, t.stages = 2, t.cache_stages = kMostStages;
    int& deep = o.e4m3 ? t.cache_stages : t.stages;
    while (deep > 2 && !legal(o, t)) --deep;
    return t;
  }
  if (o.e4m3_products) return std::nullopt;
  // Most sequences of a mixed batch have few queries.
  const bool is_few = (o.packed ? o.lengths : s.queries <= (o.lengths ? kFewOverCaches : kFew)) && !o.dropout;
  if (!o.lengths && !is_few && !o.e4m3) return std::nullopt;
  AttentionTile t = {
      .consumers = 1, .bn = o.value_depth > (o.fills_values() ? 64 : 128) ? 64 : 128, .split = is_few};
  if (o.e4m3) t.cache_stages = 2;
  const auto fits = [&] {
    return legal(o, t) && (ctas_at_once(o, t) == 1 || tile_bytes(o, t) <= kBytesOfPart);
  };
  while (t.bn > 16 && !fits()) t.bn /= 2;
  // The ring into which TMA loads is made as deep as possible.
  int& deep = o.e4m3 ? t.cache_stages : t.stages;
  deep = o.e4m3 ? kMostCacheStages : kMostStages;
  while (deep > 2 && !fits()) --deep;
  t.whole_blocks = may_be_whole(o, s, t);
  // If all sequences have the same length, dividing keys pays off only if there are fewer heads than CTAs
  // that can share them.
  t.split = is_few && (o.lengths || key_division(o, s, t, multiprocessors).ctas() > s.heads * s.batches);
  return t.split || o.lengths || o.e4m3 ? std::optional(t) : std::nullopt;
}

}  // namespace

std::vector<AttentionTile> attention_candidates(const AttentionOperation& o, const AttentionSize& s) {
  // Tiles with a single consumer are included for calls that would otherwise leave SMs idle.
  const bool few = s.queries <= kFew || (s.queries + 127) / 128 * s.heads * s.batches < kFew;
  std::vector<AttentionTile> all;
  for (int consumers = few ? 1 : 2; consumers <= 3; ++consumers)
    for (int bn = o.e4m3_products ? 32 : o.value_depth > 128 ? 48 : 64; bn <= 256; bn += 16)
      for (const bool persistent : {false, true})
        for (const auto& [turns, late_turns] : {std::pair(false, false), {true, false}, {true, true}}) {
          AttentionTile t = {.consumers = consumers,
                             .bn = bn,
                             .persistent = persistent,
                             .turns = turns,
                             .late_turns = late_turns};
          if (o.e4m3_products) t.cache_stages = 2;
          t.whole_blocks = may_be_whole(o, s, t);
          if (persistent) deepen(o, t);
          if (legal(o, t) && fits_registers(o, t)) all.push_back(t);
        }
  return all;
}

double predict(const AttentionOperation& o, const AttentionSize& s, const AttentionTile& t,
               int multiprocessors) {
  const Measured* row = nearest(o, t);
  if (!row) return INFINITY;
  const double keys = row->tile.bn == t.bn ? 1 : static_cast<double>(t.bn) / row->tile.bn;
  const double scale =
      std::max(static_cast<double>(o.depth + o.value_depth) / (row->depth + row->value_depth), kLeastScale);
  const double tile = row->tile_ns * scale +
                      (row->tile.whole_blocks && !t.whole_blocks && !row->masked ? kMaskNs : 0),
               block = row->block_ns * keys * scale;
  const Blocks blocks = blocks_of(o, s, t);
  const double heads = static_cast<double>(s.heads * s.batches), sms = multiprocessors;
  double rounds = std::ceil(blocks.rows * heads / sms), steps = rounds * blocks.most;
  // The longest blocks of queries come first, so that a CTA waits at the end only for half of a short one, on
  // average.
  if (row->masked && blocks.rows * heads > sms) {
    rounds = blocks.rows * heads / sms + 0.5;
    steps = blocks.all * heads / sms + 0.5 * blocks.least;
  }
  return kLaunchUs + (rounds * tile + steps * block) / 1000;
}

std::vector<AttentionTile> attention_tiles_to_measure(const AttentionOperation& o, const AttentionSize& s,
                                                      int multiprocessors, const AttentionTile& chosen) {
  constexpr size_t kMost = 12;
  std::vector<AttentionTile> offered;
  for (const Measured& row : measured())
    if (const std::optional<AttentionTile> t = usable(row, o, s)) offered.push_back(*t);
  for (const AttentionTile& t : attention_candidates(o, s)) offered.push_back(t);
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < offered.size(); ++i)
    order.emplace_back(predict(o, s, offered[i], multiprocessors), i);
  std::ranges::sort(order);
  std::vector<AttentionTile> tiles = {chosen};
  for (const auto& [us, i] : order)
    if (tiles.size() < kMost && std::ranges::find(tiles, offered[i]) == tiles.end())
      tiles.push_back(offered[i]);
  return tiles;
}

uint64_t attention_tiles_hash() {
  std::string all;
  for (const Measured& row : measured())
    all += text(row.tile) + " " + std::to_string(row.tile_ns) + " " + std::to_string(row.block_ns) + "\n";
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a (Fowler, Noll, Vo)
  for (const char c : all) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

void check_keys(const AttentionTile& tile, const AttentionSize& size, Where where) {
  if (tile.whole_blocks && (size.keys == 0 || size.keys % tile.bn != 0))
    throw Error(where, "attention: tile " + text(tile) + " for " + std::to_string(size.keys) +
                           " keys, which are not whole blocks: choose a tile without 'whole'");
}

AttentionTile choose_attention(const AttentionOperation& o, const AttentionSize& s, int multiprocessors) {
  if (const std::optional<AttentionTile> few = choose_few(o, s, multiprocessors)) return *few;
  std::optional<AttentionTile> best;
  const Measured* width = nullptr;
  double least = INFINITY;
  // Rows are sorted by width. Wider heads are considered only if no row of the nearest width is usable.
  for (const Measured& row : measured()) {
    if (width && (row.depth != width->depth || row.value_depth != width->value_depth)) break;
    const std::optional<AttentionTile> t = usable(row, o, s);
    if (!t) continue;
    if (o.packed && best && best->persistent && !t->persistent)
      continue;  // a tile that is not persistent launches a CTA for every block that might exist
    if (const double us = predict(o, s, *t, multiprocessors); us < least) least = us, best = t, width = &row;
  }
  if (best) return *best;
  // If no measured tile is usable, the largest candidate is used.
  for (const AttentionTile& t : attention_candidates(o, s))
    if (!t.persistent && !t.turns && (!best || t.bm() * t.bn > best->bm() * best->bn)) best = t;
  return *best;
}

}  // namespace ptxbuilder::kernels
