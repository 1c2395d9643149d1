// This says what a pass of attention computes, and how a kernel goes about it.
#pragma once

#include <numeric>
#include <string>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::kernels {

// O = softmax(scale Q K^T) V of each head, and the natural logarithm of the sums. Where a query sees no key,
// its row of O is 0 and its logarithm -inf, or the sink of its head.
struct AttentionOperation {
  DType type = DType::f16;  // of Q, K, V and O; or bf16
  bool e4m3 = false;        // K and V are of this type, and have scales
  // Columns of Q and K, and of V and O: multiples of 16 up to 256. O's are no more, since it leaves through
  // the place of Q.
  int depth = 128, value_depth = 128;
  bool causal = false;  // query i sees the keys below i + visible,
  bool window = false;  // or from i + hidden on; both numbers are the launch's
  // Each step of attention.def says by its name whether the kernel has it.
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) bool name = false;
#include "kernels/attention/attention.def"
  // Sequences of many lengths follow each other, and offsets say where each begins. What is infinite or
  // NaN in the first rows of a sequence of V may reach the one before.
  bool packed = false;
  bool lse = true;     // whether the logarithms are written
  bool sinks = false;  // each head has a logit that takes part in its softmax, and has no value
  // Each batch says on the device how many keys it has. Masks then count from keys - queries of each.
  bool lengths = false;
  // Keys and values lie in pages of so many rows, which a table of each batch finds; 0: in one piece. Where
  // the rows are no multiple of 8, from which copies of TMA begin in a tile, threads copy them.
  int page = 0;
  // So many heads that share keys are rows of one block of queries, so that few queries fill it: row r is
  // query r / heads_in_rows of head r % heads_in_rows. It is a power of two up to 64; neither packed
  // sequences nor dropout have it.
  int heads_in_rows = 1;

  bool operator==(const AttentionOperation&) const = default;

  DType key_type() const { return e4m3 ? DType::e4m3 : type; }
  bool gathers() const { return page % 8 != 0; }
  // Threads fill the places from which keys and values are multiplied.
  bool fills_by_threads() const { return e4m3 || gathers(); }

  // Says whether the device alone knows how many keys a sequence has, from which masks then count.
  bool has_own_lengths() const { return packed || lengths; }

  // Says whether the kernel has any of them.
  bool has_step() const {
    bool any = false;
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) any |= name;
#include "kernels/attention/attention.def"
    return any;
  }
};

// Says whether blocks of queries come in the order of their length: where a mask makes them differ, and their
// number is known.
inline bool takes_longest_first(const AttentionOperation& o) { return o.causal && !o.has_own_lengths(); }

// This is how the warpgroups of a CTA share the work.
struct AttentionTile {
  int consumers = 2;    // warpgroups, of 64 queries each
  int bn = 128;         // keys of a block: a multiple of 16
  int stages = 2;       // of the rings of keys and of values
  int more_values = 0;  // stages that the ring of values has besides
  // Keys and values of e4m3 come into rings of so many stages, from which warpgroups convert them into the
  // others; it is 0 where they come as they are multiplied.
  int cache_stages = 0;
  // The queries of each consumer have so many places; where CTAs stay, the next ones may be loaded while
  // these are multiplied.
  int query_places = 1;
  // CTAs stay, and multiply the next queries by their first keys before they end these. O leaves through
  // stages of values, since the next queries are in the place of these by then.
  bool ahead = false;
  // Where the longest blocks of queries come first, blocks of keys come from the first to the last in rounds
  // whose CTAs begin together, so that those of a head take the same keys at the same time.
  bool upwards = false;
  bool turns = false;  // consumers issue their products one after the other
  bool late = false;   // each passes its turn in its softmax, rather than after its products
  // Sums are multiplied only where the greatest score has grown by more than 8, in powers of two.
  bool lazy = true;
  bool whole = false;  // the keys are whole blocks: none has to be hidden for the tensor's end
  // CTAs stay, and divide the keys of all sequences evenly (division.h). The last of those that share the
  // keys of a block of queries completes O.
  bool split = false;
  bool overlaps = true;  // may be launched before the launch ahead of it has ended (see Kernel::overlaps)

  int bm() const { return consumers * 64; }
  bool stays() const { return ahead || split; }
  int value_stages() const { return stages + more_values; }
  // The rows of keys that come by one copy: those of a block, or as many of these as lie in one page.
  int copy_rows(int page) const { return page > 0 ? std::gcd(page, bn) : bn; }
  // Stages of values through which the O of a CTA leaves: one for all consumers, else one for each.
  int places() const { return bn >= bm() ? 1 : consumers; }
  bool operator==(const AttentionTile&) const = default;
};

// "128x176_2": queries, keys and stages, with _v3 (stages of values), _c8 (stages of a cache of e4m3), _q2
// (places of queries), _ahead, _up,
// _turns or _late, _eager, _whole, _split and _nopdl after it; and back. parse_attention_tile throws Error
// that shows the form.
std::string text(const AttentionTile& tile);
AttentionTile parse_attention_tile(const std::string& text);

// CTAs that a multiprocessor holds where their tiles leave room for as many: two that divide keys, if half of
// its registers are enough for a product.
int ctas_at_once(const AttentionOperation& operation, const AttentionTile& tile);

// Bytes of the tiles of a CTA.
int tile_bytes(const AttentionOperation& operation, const AttentionTile& tile);

// Throws Error that says what does not go with what, and what to change.
void check(const AttentionOperation& operation, const AttentionTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
