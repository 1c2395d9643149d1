// Describes what a forward pass of attention computes, and how a kernel computes it.
#pragma once

#include <numeric>
#include <string>

#include "kernels/call/latent_row.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::kernels {

// The operation: O = softmax(scale Q K^T) V for each head, and the natural logarithm of the sums (lse). If a
// query sees no key, its row of O is 0, and its lse is -inf or the sink of its head.
struct AttentionOperation {
  DType type = DType::f16;  // of O, and of Q, K and V unless they are of e4m3; or bf16
  bool e4m3 = false;        // K and V are of this type, and have scales; see also has_byte_rows()
  // Q is of e4m3 too, and weights are rounded to it: products take operands of 8 bits. Otherwise K and V of
  // e4m3 are converted to the type of Q.
  bool e4m3_products = false;
  bool page_scales = false;  // each page of K and V has its own scales
  bool promotes = false;     // sums of products of e4m3 are added to f32 sums after a number of keys
  // Columns of Q and K, and of V and O: multiples of 16 up to 256. O must not be wider than Q, since O is
  // stored through the shared memory of Q. A wider Q and K have latent values: see has_latent_values().
  int depth = 128, value_depth = 128;
  bool causal = false;  // query i sees only the keys below i + visible,
  bool window = false;  // or from i + window_start on; the launch passes both numbers
  // For each step of attention.def, a flag of the same name says whether the kernel has the step.
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) bool name = false;
#include "kernels/attention/attention.def"
  // Sequences of different lengths follow each other, and offsets say where each begins. A NaN or an infinity
  // in the first rows of V of a sequence may affect the previous sequence. With `lengths`, only the queries
  // are packed, and each sequence is a batch of K and V.
  bool packed = false;
  bool lse = true;     // whether the logarithms are written
  bool sinks = false;  // each head has a logit that is part of its softmax but has no value
  // The number of keys of each batch is in device memory. Masks then count from keys - queries of each batch.
  bool lengths = false;
  // The queries of a sequence are a tree of tokens, whose keys are the last ones. Each query has a mask with
  // a bit for each of these keys that it sees. This requires `lengths`.
  bool tree = false;
  // Keys and values are in pages of this many rows, which a table lists for each batch; 0 means that they are
  // not in pages. If the number of rows is not a multiple of 8, the granularity of TMA copies into a tile,
  // threads copy the pages.
  int page = 0;
  // This many heads that share keys are rows of one block of queries, so that few queries fill the block: row
  // r is query r / heads_in_rows of head r % heads_in_rows. It is a power of two up to 64; packed keys and
  // dropout do not support it.
  int heads_in_rows = 1;

  bool operator==(const AttentionOperation&) const = default;

  // Returns whether the values are the first columns of the keys, as in multi-head latent attention (MLA)
  // with absorbed weights. A key is a latent vector of `value_depth` columns, 256 or 512, which is also its
  // value, followed by 64 columns with the rotary embedding. All heads share one key.
  bool has_latent_values() const { return depth > kMostColumns; }
  static constexpr int kMostColumns = 256;  // the most columns of keys with separate values
  static constexpr int kRotaryColumns = LatentRow::kRotary, kMostLatentColumns = LatentRow::kValues;
  // Latent keys of e4m3 are rows of bytes (LatentRow), which hold their own scales.
  bool has_byte_rows() const { return e4m3 && has_latent_values(); }

  DType key_type() const { return e4m3 ? DType::e4m3 : type; }
  DType product_type() const { return e4m3_products ? DType::e4m3 : type; }
  bool has_scales() const { return e4m3 && !has_byte_rows(); }  // k_scale and v_scale
  bool head_scales() const { return has_scales() && !page_scales; }
  bool converts() const { return e4m3 && !e4m3_products; }
  bool gathers() const { return page % 8 != 0; }
  // Return whether threads, rather than TMA, fill the tiles of keys or of values that products read.
  bool fills_keys() const { return converts() || gathers(); }
  bool fills_values() const { return e4m3 || gathers(); }

  // Returns whether the number of keys of a sequence is known only on the device; masks then count from that
  // number.
  bool has_own_lengths() const { return packed || lengths; }
  bool packs_keys() const { return packed && !lengths; }
  // Returns whether the last keys of a sequence are hidden from some of its queries.
  bool hides_last_keys() const { return causal || tree; }
  static constexpr int kMostOfTree = 32;  // the most queries of a sequence, each of them one bit of a mask

  // Returns whether the kernel has any step of attention.def.
  bool has_step() const {
    bool any = false;
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) any |= name;
#include "kernels/attention/attention.def"
    return any;
  }
};

// Returns whether the longest blocks of queries come first. They do if a mask makes their lengths differ, and
// the host knows how many blocks there are.
inline bool takes_longest_first(const AttentionOperation& o) { return o.causal && !o.has_own_lengths(); }

// The number of parts of latent values, which are large, that one CTA adds up (AttentionParts).
constexpr int kGroupOfParts = 8;

// Describes how the warpgroups of a CTA share the work.
struct AttentionTile {
  int consumers = 2;           // warpgroups, with 64 queries each
  int bn = 128;                // keys per block: a multiple of 16
  int stages = 2;              // stages of the ring of keys and of the ring of values
  int extra_value_stages = 0;  // additional stages of the ring of values
  // The stages of the rings for keys and values of e4m3 that must be converted or transposed. Keys and values
  // are loaded into these rings, and warpgroups convert them into the other rings; if products are of e4m3,
  // only values are loaded there, and a warpgroup transposes them. 0 if keys and values are loaded in the
  // form in which they are multiplied.
  int cache_stages = 0;
  // The number of shared memory places for the queries of each consumer. If CTAs stay, the next queries may
  // be loaded into another place while the current ones are multiplied.
  int query_places = 1;
  // CTAs stay, and multiply the next queries with their first keys before they finish the current ones. O is
  // stored through stages of values, since the next queries already occupy the memory of the current ones.
  bool persistent = false;
  // If the longest blocks of queries come first, rounds whose CTAs begin together take blocks of keys from
  // the first to the last, so that CTAs of one head read the same keys at the same time.
  bool ascending = false;
  bool turns = false;       // consumers issue their products one after the other
  bool late_turns = false;  // each consumer passes its turn during its softmax, rather than after its
                            // products
  // Sums are rescaled only if the greatest score has grown by more than 8 as an exponent of two.
  bool lazy = true;
  bool whole_blocks = false;  // the keys are whole blocks, so no key must be hidden at the tensor's end
  // CTAs stay, and divide the keys of all sequences evenly (division.h). The last one of the CTAs that share
  // the keys of a block of queries completes O.
  bool split = false;
  bool overlaps = true;  // may be launched before the previous launch has ended (see Kernel::overlaps)

  int bm() const { return consumers * 64; }  // with latent values, two warpgroups share a consumer's rows
  bool stays() const { return persistent || split; }
  int value_stages() const { return stages + extra_value_stages; }
  // Returns the rows of keys that one copy loads: those of a block, or the part of a block that is in one
  // page.
  int copy_rows(int page) const { return page > 0 ? std::gcd(page, bn) : bn; }
  // Returns the number of stages of values through which a CTA stores O: one for all consumers, or one for
  // each.
  int places() const { return bn >= bm() ? 1 : consumers; }
  // Returns whether the producer lends these stages to the consumers. If products are of e4m3, O has its own
  // memory.
  bool lends(const AttentionOperation& o) const { return persistent && !o.e4m3_products; }
  bool operator==(const AttentionTile&) const = default;
};

// Return a tile as text such as "128x176_2" (queries, keys and stages), followed by the settings that differ
// from the default: _v3 (stages of values), _c8 (stages of a cache of e4m3), _q2 (places of queries),
// _persistent, _ascending, _turns or _late, _eager, _whole, _split and _nopdl; and parse such a text.
// parse_attention_tile() throws Error that shows the form.
std::string text(const AttentionTile& tile);
AttentionTile parse_attention_tile(const std::string& text);

// Returns how many CTAs run on an SM if shared memory has room for them: two if they divide keys and half of
// the registers are enough for a product, else one.
int ctas_at_once(const AttentionOperation& operation, const AttentionTile& tile);

// Returns the bytes of the tiles of a CTA.
int tile_bytes(const AttentionOperation& operation, const AttentionTile& tile);

// Returns why values cannot be the first columns of keys that are too wide for separate values; "" if they
// can be, or if the keys are not that wide.
std::string why_not_latent(const AttentionOperation& operation);

// Throws Error that says which settings cannot be combined, and what to change.
void check(const AttentionOperation& operation, const AttentionTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
