// Describes the operation of a forward pass of attention (AttentionOperation), and the way in which a kernel
// computes it (AttentionTile).
#pragma once

#include <numeric>
#include <string>

#include "kernels/call/latent_row.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::kernels {

// Defines O = softmax(scale Q K^T) V for each head, and lse, the natural logarithm of each row's sum of
// exponentials. If a query sees no key, its row of O is 0, and its lse is -inf or the sink of its head.
struct AttentionOperation {
  DType type = DType::f16;  // f16 or bf16; the type of O, and of Q, K and V unless they are e4m3
  bool e4m3 = false;        // K and V are e4m3 and have scales; see also has_byte_rows()
  // If true, Q is e4m3 too, and weights are rounded to e4m3, so that the operands of all products have 8
  // bits. If false, K and V of e4m3 are converted to the type of Q.
  bool e4m3_products = false;
  bool page_scales = false;  // true: each page of K and V has its own scales
  bool promotes = false;     // true: sums of e4m3 products are added to f32 sums after a number of keys
  // The numbers of columns of Q and K (`depth`), and of V and O (`value_depth`), which are multiples of 16 up
  // to 256. O must not be wider than Q, since O may be stored through the shared memory of Q. A depth above
  // 256 means latent values: see has_latent_values().
  int depth = 128, value_depth = 128;
  bool causal = false;  // query i sees only keys below i + visible; the launch passes `visible`
  bool window =
      false;  // query i sees only keys at i + window_start and above; the launch passes `window_start`
  // A flag for each step of attention.def, with the name of the step; it is true if the kernel has the step.
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) bool name = false;
#include "kernels/attention/attention.def"
  // If true, sequences of different lengths are packed without gaps, and offsets mark their beginnings. A NaN
  // or an infinity in the first rows of a sequence's V may affect the previous sequence. With `lengths`, only
  // the queries are packed, and each sequence is a batch of K and V.
  bool packed = false;
  bool lse = true;     // true: lse is written
  bool sinks = false;  // true: each head has a logit that takes part in its softmax but has no value
  // If true, the number of keys of each batch is in device memory, and masks are relative to keys - queries
  // of each batch.
  bool lengths = false;
  // If true, the queries of a sequence are a tree of tokens, and the last keys of the sequence belong to
  // them. Each query has a mask with a bit for each of these keys; the bit is 1 if the query sees the key.
  // Requires `lengths`.
  bool tree = false;
  // The number of rows in a page, if keys and values are in pages, which a table lists for each batch; 0 if
  // there are no pages. TMA can copy only multiples of 8 rows into a tile, so pages of other sizes are copied
  // by threads.
  int page = 0;
  // The number of heads of Q that form the rows of one block, so that few queries fill the block. The heads
  // must share a head of K. Row r is query r / heads_in_rows of head r % heads_in_rows. The number is a power
  // of two up to 64, and 1 with packed keys or dropout.
  int heads_in_rows = 1;

  bool operator==(const AttentionOperation&) const = default;

  // Returns whether the values are the first columns of the keys, as in multi-head latent attention (MLA)
  // with absorbed weights. The first value_depth columns of a key (256 or 512) are a latent vector, which is
  // also the value; they are followed by 64 columns with the rotary embedding. All heads of Q share the keys.
  bool has_latent_values() const { return depth > kMostColumns; }
  static constexpr int kMostColumns = 256;  // maximum number of columns of keys that have separate values
  static constexpr int kRotaryColumns = LatentRow::kRotary, kMostLatentColumns = LatentRow::kValues;
  // Returns whether keys are latent keys of e4m3. These are rows of bytes (LatentRow) that include their
  // scales.
  bool has_byte_rows() const { return e4m3 && has_latent_values(); }

  DType key_type() const { return e4m3 ? DType::e4m3 : type; }
  DType product_type() const { return e4m3_products ? DType::e4m3 : type; }
  bool has_scales() const { return e4m3 && !has_byte_rows(); }  // has `k_scale` and `v_scale`
  bool head_scales() const { return has_scales() && !page_scales; }
  bool converts() const { return e4m3 && !e4m3_products; }
  bool gathers() const { return page % 8 != 0; }
  // These functions return whether threads, rather than TMA, fill the tiles of keys or of values that
  // products read.
  bool fills_keys() const { return converts() || gathers(); }
  bool fills_values() const { return e4m3 || gathers(); }

  // Returns whether the number of keys of a sequence is known only on the device. Masks are then relative to
  // keys - queries.
  bool has_own_lengths() const { return packed || lengths; }
  bool packs_keys() const { return packed && !lengths; }
  // Returns whether some queries of a sequence do not see its last keys.
  bool hides_last_keys() const { return causal || tree; }
  static constexpr int kMostOfTree = 32;  // maximum number of queries in a tree: a mask has 32 bits

  // Returns whether the kernel has a step of attention.def.
  bool has_step() const {
    bool any = false;
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) any |= name;
#include "kernels/attention/attention.def"
    return any;
  }
};

// Returns whether the blocks of queries with the most keys are processed first. This is the case if a causal
// mask makes the numbers of keys differ, and the number of blocks is known on the host.
inline bool takes_longest_first(const AttentionOperation& o) { return o.causal && !o.has_own_lengths(); }

// The size of groups of parts for latent values. These parts are large, so several CTAs add them up
// (AttentionParts).
constexpr int kGroupOfParts = 8;

// Describes how the warpgroups of a CTA share the work.
struct AttentionTile {
  int consumers = 2;           // number of warpgroups, each of which processes 64 queries
  int bn = 128;                // keys per block, a multiple of 16
  int stages = 2;              // stages in the ring of keys, and in the ring of values
  int extra_value_stages = 0;  // additional stages in the ring of values
  // The number of stages in the additional rings for e4m3 keys and values that must be converted or
  // transposed; 0 if keys and values are loaded in the form in which they are multiplied. TMA loads keys and
  // values into these rings, and warpgroups convert them into the rings that consumers read. With e4m3
  // products, there is only a ring for values, which a warpgroup transposes.
  int cache_stages = 0;
  // The number of places in shared memory for the queries of each consumer, 1 or 2. With two places, the next
  // queries can be loaded while the current queries are multiplied.
  int query_places = 1;
  // If true, CTAs stay resident, and multiply the next queries by their first keys before they finish the
  // current queries. O is stored through stages of values, since the memory of the current queries may
  // already hold the next queries.
  bool persistent = false;
  // If true, even rounds of persistent CTAs process blocks of keys from the first to the last. In these
  // rounds the CTAs begin together, so that CTAs of the same head read the same keys at the same time.
  // Applies if the longest blocks of queries come first.
  bool ascending = false;
  bool turns = false;  // true: consumers issue their products alternately
  bool late_turns =
      false;  // true: a consumer passes its turn during its softmax instead of after its products
  // If true, sums are rescaled only if the largest score, as an exponent of two, has grown by more than 8.
  bool lazy = true;
  bool whole_blocks =
      false;  // true: the number of keys is a multiple of bn, so no mask is needed at the end of the tensor
  // If true, CTAs stay resident and divide the keys of all sequences evenly (division.h). If several CTAs
  // share the keys of a block of queries, the last of them completes O.
  bool split = false;
  bool overlaps =
      true;  // true: the kernel may start before the previous launch has ended (see Kernel::overlaps)

  // Returns the number of queries per block. With latent values, two warpgroups share the rows of a consumer.
  int bm() const { return consumers * 64; }
  bool stays() const { return persistent || split; }
  int value_stages() const { return stages + extra_value_stages; }
  // Returns the number of rows of keys that one copy loads. A copy loads a block, or the part of a block that
  // is within one page.
  int copy_rows(int page) const { return page > 0 ? std::gcd(page, bn) : bn; }
  // Returns the number of stages of values through which a CTA stores O, which is either one for all
  // consumers or one for each consumer.
  int places() const { return bn >= bm() ? 1 : consumers; }
  // Returns whether the producer lends stages of values to the consumers to store O. With e4m3 products, O
  // has its own memory instead.
  bool lends(const AttentionOperation& o) const { return persistent && !o.e4m3_products; }
  bool operator==(const AttentionTile&) const = default;
};

// text() returns a tile as a string, such as "128x176_2" (queries, keys per block, and stages). A suffix
// follows for each setting that differs from its default: _v3 (value_stages()), _c8 (cache_stages), _q2
// (query_places), _persistent, _ascending, _turns or _late, _eager (not lazy), _whole, _split and _nopdl
// (overlaps is false). parse_attention_tile() parses such a string, and throws an Error that shows the format
// if the string is invalid.
std::string text(const AttentionTile& tile);
AttentionTile parse_attention_tile(const std::string& text);

// Returns how many CTAs may run on an SM, as far as shared memory allows. There may be two if the tile is
// split and half of the registers suffice for a product; otherwise there is one.
int ctas_at_once(const AttentionOperation& operation, const AttentionTile& tile);

// Returns how many bytes of shared memory the tiles of a CTA occupy.
int tile_bytes(const AttentionOperation& operation, const AttentionTile& tile);

// Returns the reason why an operation with latent values is not supported; "" if it is supported, or if the
// operation has no latent values.
std::string why_not_latent(const AttentionOperation& operation);

// If settings cannot be combined, throws an Error that names them and says what to change.
void check(const AttentionOperation& operation, const AttentionTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
