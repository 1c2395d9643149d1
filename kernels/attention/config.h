// This file describes what a pass of attention computes, and how a kernel computes it.
#pragma once

#include <numeric>
#include <string>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::kernels {

// O = softmax(scale Q K^T) V of each head, and the natural logarithm of the sums. If a query sees no key, its
// row of O is 0, and its logarithm is -inf or the sink of its head.
struct AttentionOperation {
  DType type = DType::f16;  // of O, and of Q, K and V unless they are of e4m3; or bf16
  bool e4m3 = false;        // K and V are of this type, and have scales; see also has_byte_rows()
  // Q is of e4m3 too, and weights are rounded to it: products take operands of 8 bits. Otherwise K and V of
  // e4m3 are converted to the type of Q.
  bool e4m3_products = false;
  bool page_scales = false;  // each page of K and V has scales, and heads do not have scales for all pages
  bool promotes = false;     // sums of products of e4m3 go to others in f32 after every so many keys
  // Columns of Q and K, and of V and O: multiples of 16 up to 256. O must not be wider than Q, since O is
  // stored through the place of Q. Wider Q and K have latent values: see has_latent_values().
  int depth = 128, value_depth = 128;
  bool causal = false;  // query i sees only the keys below i + visible,
  bool window = false;  // or from i + window_start on; the launch passes both numbers
  // Each step of attention.def has a flag of its name that says whether the kernel has the step.
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) bool name = false;
#include "kernels/attention/attention.def"
  // Sequences of different lengths follow each other, and offsets say where each begins. A NaN or an infinity
  // in the first rows of V of a sequence may reach the sequence before it. With `lengths`, only the queries
  // are packed, and each sequence is a batch of K and V.
  bool packed = false;
  bool lse = true;     // whether the logarithms are written
  bool sinks = false;  // each head has a logit that takes part in its softmax, and has no value
  // Each batch holds its number of keys on the device. Masks then count from each batch's keys - queries.
  bool lengths = false;
  // The queries of a sequence are a tree of tokens, the last keys are theirs, and each query has a mask of
  // the bits of those that it sees; it needs lengths.
  bool tree = false;
  // Keys and values are in pages of this many rows, which a table finds for each batch; 0: in one piece. If
  // the rows are not a multiple of 8, at which TMA copies can begin in a tile, threads copy them.
  int page = 0;
  // This many heads that share keys are rows of one block of queries, so that few queries fill the block: row
  // r is query r / heads_in_rows of head r % heads_in_rows. It is a power of two up to 64; packed keys and
  // dropout do not support it.
  int heads_in_rows = 1;

  bool operator==(const AttentionOperation&) const = default;

  // Returns whether the values are the first columns of the keys, which is called multi-head latent attention
  // (MLA) with absorbed weights: a key is a latent vector of `value_depth` columns, 256 or 512, that is
  // also its value, and 64 columns with the rotary embedding. All heads share one key.
  bool has_latent_values() const { return depth > kMostColumns; }
  static constexpr int kMostColumns = 256;  // of keys that are not their values too
  static constexpr int kRotaryColumns = 64, kMostLatentColumns = 512;
  // Latent keys of e4m3 have no other scales: each is a row of bytes that holds the 512 latent values in
  // e4m3, a factor in f32 for every 128 of them, and the rotary columns in bf16.
  bool has_byte_rows() const { return e4m3 && has_latent_values(); }
  static constexpr int kScaledColumns = 128, kScalesOfRow = kMostLatentColumns / kScaledColumns;
  static constexpr int kScalesByte = kMostLatentColumns, kRotaryByte = kScalesByte + kScalesOfRow * 4,
                       kRowBytes = kRotaryByte + kRotaryColumns * 2;

  DType key_type() const { return e4m3 ? DType::e4m3 : type; }
  DType product_type() const { return e4m3_products ? DType::e4m3 : type; }
  bool has_scales() const { return e4m3 && !has_byte_rows(); }  // k_scale and v_scale
  bool head_scales() const { return has_scales() && !page_scales; }
  bool converts() const { return e4m3 && !e4m3_products; }
  bool gathers() const { return page % 8 != 0; }
  // Return whether threads fill the tiles from which keys, or values, are multiplied.
  bool fills_keys() const { return converts() || gathers(); }
  bool fills_values() const { return e4m3 || gathers(); }

  // Returns whether only the device knows how many keys a sequence has; masks then count from that number.
  bool has_own_lengths() const { return packed || lengths; }
  bool packs_keys() const { return packed && !lengths; }
  // Returns whether the last keys of a sequence are hidden from some of its queries.
  bool hides_last_keys() const { return causal || tree; }
  static constexpr int kMostOfTree = 32;  // queries of a sequence, which are bits of a mask

  // Returns whether the kernel has any step of attention.def.
  bool has_step() const {
    bool any = false;
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) any |= name;
#include "kernels/attention/attention.def"
    return any;
  }
};

// Returns whether the longest blocks of queries come first: if a mask makes their lengths differ, and the
// host knows how many blocks there are.
inline bool takes_longest_first(const AttentionOperation& o) { return o.causal && !o.has_own_lengths(); }

// So many parts of latent values, which are large, are added by one CTA (AttentionParts).
constexpr int kGroupOfParts = 8;

// The tile describes how the warpgroups of a CTA share the work.
struct AttentionTile {
  int consumers = 2;           // warpgroups, of 64 queries each
  int bn = 128;                // keys of a block: a multiple of 16
  int stages = 2;              // of the rings of keys and of values
  int extra_value_stages = 0;  // additional stages of the ring of values
  // Keys and values of e4m3 are loaded into rings of this many stages, from which warpgroups convert them
  // into the other rings, or values alone, which a warpgroup transposes if products are of e4m3; it is 0 if
  // they are loaded as they are multiplied.
  int cache_stages = 0;
  // The queries of each consumer have this many places; if CTAs stay, the next queries may be loaded while
  // the current ones are multiplied.
  int query_places = 1;
  // CTAs stay, and multiply the next queries with their first keys before they finish the current ones. O is
  // stored through stages of values, since the next queries already occupy the place of the current ones.
  bool persistent = false;
  // If the longest blocks of queries come first, blocks of keys are taken from the first to the last in
  // rounds whose CTAs begin together, so that CTAs of one head take the same keys at the same time.
  bool ascending = false;
  bool turns = false;       // consumers issue their products one after the other
  bool late_turns = false;  // each passes its turn during its softmax, rather than after its products
  // Sums are rescaled only if the greatest score has grown by more than 8, in powers of two.
  bool lazy = true;
  bool whole_blocks = false;  // the keys are whole blocks: none needs to be hidden at the tensor's end
  // CTAs stay, and divide the keys of all sequences evenly (division.h). The last of the CTAs that share the
  // keys of a block of queries completes O.
  bool split = false;
  bool overlaps = true;  // may be launched before the previous launch has ended (see Kernel::overlaps)

  int bm() const { return consumers * 64; }  // with latent values, two warpgroups share a consumer's rows
  bool stays() const { return persistent || split; }
  int value_stages() const { return stages + extra_value_stages; }
  // Returns the rows of keys that one copy loads: those of a block, or the part of them that is in one page.
  int copy_rows(int page) const { return page > 0 ? std::gcd(page, bn) : bn; }
  // Returns the stages of values through which a CTA stores O: one for all consumers, or one for each.
  int places() const { return bn >= bm() ? 1 : consumers; }
  // Returns whether the producer lends these stages. O of products of e4m3 has a place of its own.
  bool lends(const AttentionOperation& o) const { return persistent && !o.e4m3_products; }
  bool operator==(const AttentionTile&) const = default;
};

// "128x176_2": queries, keys and stages, followed by _v3 (stages of values), _c8 (stages of a cache of
// e4m3), _q2 (places of queries), _persistent, _ascending, _turns or _late, _eager, _whole, _split and _nopdl
// as needed; these functions convert a tile to this form and back. parse_attention_tile throws Error that
// shows the form.
std::string text(const AttentionTile& tile);
AttentionTile parse_attention_tile(const std::string& text);

// Returns how many CTAs a multiprocessor holds if shared memory leaves room for them: two that divide keys,
// if half of its registers are enough for a product.
int ctas_at_once(const AttentionOperation& operation, const AttentionTile& tile);

// Returns the bytes of the tiles of a CTA.
int tile_bytes(const AttentionOperation& operation, const AttentionTile& tile);

// Returns why values cannot be the first columns of keys that are too wide for other values; "" if they can,
// or if the keys are not so wide.
std::string why_not_latent(const AttentionOperation& operation);

// Throws Error that says which settings do not go together, and what to change.
void check(const AttentionOperation& operation, const AttentionTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
