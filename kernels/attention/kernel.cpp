#include "kernels/attention/kernel.h"

#include "kernels/attention/consumer.h"
#include "kernels/attention/converter.h"
#include "kernels/attention/gatherer.h"
#include "kernels/attention/mla.h"
#include "kernels/attention/producer.h"
#include "kernels/attention/schedule.h"
#include "kernels/attention/transposer.h"

namespace ptxbuilder::kernels {
namespace {

// The number of registers per thread in each role. Fillers are warpgroups that gather, convert or transpose
// keys and values.
struct RoleRegisters {
  int producer, consumer, filler = 96;
};
constexpr char kGatherer[] = "gatherer";

// Returns how many warpgroups gather, and how many convert, if the operation requires gathering or
// converting. The number is one for keys and values together, or one for keys and one for values. If both
// gathering and converting are needed, each gets one warpgroup, since a CTA should not have more than four.
// Products of more than 128 columns also get only one, since four warpgroups leave too few registers. Values
// are transposed by one warpgroup.
int fillers_of(const AttentionOperation& o) {
  return (o.e4m3 && o.gathers()) || o.value_depth > 128 || o.e4m3_products ? 1 : 2;
}

RoleRegisters role_registers(const AttentionOperation& o, const AttentionTile& t) {
  if (ctas_at_once(o, t) == 2) return {40, 216};
  // At the start, the registers per thread of all warpgroups add up to 480 (five warpgroups) or 512 (four).
  if (o.e4m3_products && t.consumers > 1)
    return t.consumers == 3 ? RoleRegisters{24, 144, 24} : RoleRegisters{40, 216, 40};
  if (t.consumers == 1) return {40, 232};
  if (t.consumers == 3) return {32, 160};
  return t.persistent ? RoleRegisters{40, 232} : RoleRegisters{24, 240};
}

Parameters declare(Kernel& k, const AttentionOperation& o, const AttentionTile& t,
                   const AttentionScore& score, Where where) {
  using enum Parameter::Kind;
  Parameters p;
  p.add("Q", tensor_map, o.product_type(), "queries: columns, rows, heads, batches");
  const std::string pages = o.page > 0 ? ": columns, rows of a page, heads, pages" : "";
  for (const auto& [name, meaning] :
       {std::pair<std::string, std::string>("K", "keys"), {"V", "values, a row for each key"}})
    if (name == "K" || !o.has_latent_values())
      p.add(name, o.gathers() ? pointer : tensor_map, o.key_type(), meaning + pages);
  if (o.has_byte_rows()) {
    p.add("K_scales", tensor_map, DType::f32, "factors of every 128 columns of K" + pages);
    p.add("K_rotary", tensor_map, o.type, "the last columns of keys, which are not values" + pages);
  }
  if (!o.packed) p.add("O", tensor_map, o.type, "softmax(scale Q K^T) V, a row for each query");
  if (o.lse)
    p.add("lse", pointer, DType::f32,
          "for each head and query, the natural logarithm of the sum of exp(scale Q K^T)");
  p.add("queries", scalar, DType::u32,
        o.packed ? "rows of a head of the longest sequence" : "rows of a head of Q");
  if (!o.packs_keys()) p.add("keys", scalar, DType::u32, "rows of a head of K");
  p.add("heads", scalar, DType::u32, "heads of Q in a batch");
  p.add("batches", scalar, DType::u32, o.packed ? "sequences" : "batches of each tensor");
  p.add("group", scalar, DType::u32, "heads of Q that share one of K and V");
  p.add("scale", scalar, DType::f32, "the positive factor by which scores are multiplied");
  if (o.causal)
    p.add("visible", scalar, DType::s32,
          o.has_own_lengths() ? "query i sees the keys below i + visible + keys - queries, of its sequence"
                              : "query i sees the keys below i + visible");
  if (takes_longest_first(o))
    p.add("heads_in_wave", scalar, DType::u32,
          "heads whose longest rows of queries come first: 1 or more, which matters only for speed");
  if (o.window)
    p.add("window_start", scalar, DType::s32,
          o.has_own_lengths()
              ? "query i sees the keys from i + window_start + keys - queries on, of its sequence"
              : "query i sees the keys from i + window_start on");
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) \
  if (o.name) p.add(#name, scalar, DType::f32, meaning);
#include "kernels/attention/attention.def"
  if (o.sinks) p.add("sinks", pointer, DType::f32, "a logit for each head, which has no value");
  if (o.dropout)
    p.add("dropout_seed", pointer, DType::u32, "64 bits of a seed, and 64 of an offset, the lowest first");
  if (o.lengths) p.add("key_lengths", pointer, DType::u32, "keys that each batch has");
  if (o.tree)
    p.add("tree_mask", pointer, DType::u32,
          "for each query of each batch, a bit for each of the last keys, as many as it has queries");
  if (o.page > 0) {
    p.add("block_table", pointer, DType::u32,
          "the pages of each batch's keys, in rows as long as the batch with the most keys needs");
    p.add("table_stride", scalar, DType::u32, "entries from a batch of block_table to the next");
  }
  if (o.gathers() || o.page_scales) p.add("pages", scalar, DType::u32, "pages of K and V");
  if (o.gathers()) {
    for (const std::string name : {"K", "V"}) {
      p.add(name + "_columns", scalar, DType::u32, "columns of a row");
      for (const std::string what : {"row", "head", "page"})
        p.add(name + "_" + what + "_stride", scalar, DType::u32,
              "from one to the next, in units of 16 bytes");
    }
  }
  if (o.promotes)
    p.add("promote", scalar, DType::u32, "keys after which sums of their values go to others in f32");
  if (o.e4m3_products) p.add("q_scale", pointer, DType::f32, "what Q is multiplied by, as k_scale");
  if (o.has_scales()) {
    p.add("k_scale", pointer, DType::f32,
          "what K is multiplied by: a number, or one of each of its heads; or so for each page");
    p.add("v_scale", pointer, DType::f32, "what V is multiplied by, as k_scale");
    p.add("scales", scalar, DType::u32, "how many numbers each of the two has, or has for a page");
  }
  if (t.split) {
    p.add("teams", scalar, DType::u32, "teams of CTAs, a divisor of heads: all teams have as many");
    p.add("parts", scalar, DType::u32, "CTAs of a team, which divide the keys of its heads");
    p.add("part_sums", pointer, DType::f32, "the sums that CTAs leave for the one that completes O");
  }
  if (o.packed) {
    p.add("O", pointer, o.type, "softmax(scale Q K^T) V, a row for each query");
    p.add("row_stride", scalar, DType::u64, "elements from one row of O to the next, a multiple of 8");
    p.add("head_stride", scalar, DType::u64, "elements from one head of O to the next, a multiple of 8");
    p.add("query_offsets", pointer, DType::u32, "where each sequence begins in Q, and where the last ends");
    if (o.packs_keys())
      p.add("key_offsets", pointer, DType::u32, "where each sequence begins in K, and where the last ends");
    if (t.persistent) p.add("order", pointer, DType::u32, "what attention_order has written");
  }
  score.declare(p);
  p.declare(k, where);
  return p;
}

}  // namespace

Kernel attention(const AttentionOperation& o, const AttentionTile& t, const AttentionScore& score, int sms,
                 Where where) {
  check(o, t, where);
  if (o.heads_in_rows > 1 && score.function)
    throw Error(
        where,
        "attention: heads in the rows of a block cannot be used with a custom score, which gets one head");
  if (o.has_latent_values() && score.function)
    throw Error(where,
                "attention: values that are the first columns of keys cannot be used with a custom score");
  Kernel k("attention");
  k.waive("wgmma-a-registers");  // the machine code does not have this defect; scripts/sentinel verifies this
  const Parameters p = declare(k, o, t, score, where);
  k.grid(AttentionSchedule::grid(t, sms));
  k.configure("tile", text(t));
  if (t.overlaps) k.overlaps();
  k.builder().hold_at_once(static_cast<uint32_t>(ctas_at_once(o, t)));
  const AttentionSizes sizes(o, t, p);
  std::optional<WorkQueue> queue;
  if (o.has_latent_values()) {
    // A few values are spilled for each block of queries, but the loop over keys does not access them.
    if (o.has_byte_rows())
      for (const char* advisory : {"spills", "stack"}) k.waive(advisory);
    queue.emplace(k, latent_readers(o.converts()));
    add_latent_roles(k, o, t, sizes, queue, p);
    return k;
  }
  const AttentionRoles roles(k, o, t);
  // All roles that load, gather, convert or multiply read the queue.
  const int fillers = fillers_of(o) * (o.e4m3 + o.gathers());
  if (t.stays()) queue.emplace(k, !o.gathers() + t.split + 4 * (t.consumers + fillers));
  const RoleRegisters registers = role_registers(o, t);
  // Resident CTAs run this code only for existing work. Other CTAs always have work, unless sequences are
  // packed so that the sizes are known only on the device.
  const auto if_exists = [&](const AttentionWork& w, const std::function<void()>& body) {
    if (o.packed && !t.stays())
      if_(w.exists(), body);
    else
      body();
  };

  const auto load_queries = [&] {
    QueryLoader queries(o, t, roles.Q, roles.loaded, roles.multiplied, sizes, p);
    griddepcontrol_wait();
    AttentionSchedule(t, sizes, queue, pred(true)).each([&](u32, const AttentionWork& w) {
      if_exists(w, [&] { queries.load(w); });
    });
  };
  k.warpgroups(1, registers.producer, [&](u32) {
    name_role("producer");
    elect([&] {
      if (o.gathers()) return t.split ? void() : load_queries();
      const AttentionSchedule schedule(t, sizes, queue, pred(true));
      AttentionProducer producer(o, t, roles, sizes, p);
      QueryLoader queries(o, t, roles.Q, roles.loaded, roles.multiplied, sizes, p);
      const auto begin = [&](const AttentionWork& w) {
        producer.begin(w);
        if (!t.split) queries.load(w);
      };
      griddepcontrol_wait();
      if (t.persistent) begin(schedule.work(0));
      schedule.each([&](u32 round, const AttentionWork& w) {
        const auto load = [&] {
          if (!t.persistent) begin(w);
          producer.finish(w);
          if (!t.persistent) return;
          begin(schedule.work(round + 1));
          if (t.lends(o)) producer.lend();
        };
        if_exists(w, load);
      });
      griddepcontrol_launch_dependents();  // comes after all loads, which the next launch would slow down
    });
    if (queue)
      if_(t.split ? warp_index() == 1 : (warp_index() == 1) & (laneid() == 0), [&] {
        griddepcontrol_wait();
        AttentionSchedule(t, sizes, queue, pred(false)).announce();
      });
    // A separate thread loads the queries, so that loads of keys and values need not wait until the memory of
    // the queries is free.
    if (t.split) if_((warp_index() == 2) & (laneid() == 0), load_queries);
  });

  const auto fill_rings = [&](const char* role, auto&&... rings) {
    name_role(role);
    griddepcontrol_wait();
    AttentionSchedule(t, sizes, queue, laneid() == 0).each([&](u32, const AttentionWork& w) {
      const KeyBlocks blocks(t, w);
      if_exists(w, [&] { for_(0, blocks.count(), [&](u32 i) { (rings.fill(w, blocks.at(i)), ...); }); });
    });
    if (role == kGatherer) elect([] { griddepcontrol_launch_dependents(); });
  };
  const auto fill = [&](const char* role, const auto& keys, const auto& values) {
    if (fillers_of(o) == 1) {
      k.warpgroups(1, registers.filler, [&](u32) { fill_rings(role, keys(), values()); });
    } else {
      k.warpgroups(1, registers.filler, [&](u32) { fill_rings(role, keys()); });
      k.warpgroups(1, registers.filler, [&](u32) { fill_rings(role, values()); });
    }
  };
  if (o.gathers())
    fill(
        kGatherer, [&] { return PageGatherer(o, sizes, p, "K", roles.loaded_K(), roles.loaded_keys()); },
        [&] { return PageGatherer(o, sizes, p, "V", roles.loaded_V(), roles.loaded_values()); });
  const auto converter = [&](const CacheRing& from, const SharedTile& to, const Pipeline& ring,
                             const char* scales) {
    return CacheConverter(o.type, from, to, ring,
                          o.page_scales ? std::optional(PageScales(o, sizes, p, scales)) : std::nullopt);
  };
  if (o.converts())
    fill(
        "converter", [&] { return converter(*roles.key_cache, roles.K, roles.keys, "k_scale"); },
        [&] { return converter(*roles.value_cache, roles.V, roles.values, "v_scale"); });
  if (o.e4m3_products)
    k.warpgroups(1, registers.filler, [&](u32) { fill_rings("transposer", ValueTransposer(roles)); });

  const auto consume = [&]<class T, class W>(std::type_identity<T>, std::type_identity<W>, u32 wg) {
    griddepcontrol_wait();
    const AttentionSchedule schedule(t, sizes, queue, laneid() == 0);
    AttentionConsumer<T, W> consumer(o, t, score, roles, sizes, p, wg);
    if (t.persistent) consumer.begin(schedule.work(0));
    schedule.each([&](u32 round, const AttentionWork& w) {
      const auto run = [&] {
        if (!t.persistent) consumer.begin(w);
        consumer.finish(w, [&](const std::function<void()>& product) {
          if (t.persistent)
            consumer.begin(schedule.work(round + 1), product);
          else
            product();
        });
      };
      if_exists(w, run);
    });
    consumer.end();
  };
  const auto consume_type = [&](u32 wg) {
    name_role("consumer");
    const auto consume_into = [&]<class T>(std::type_identity<T> output) {
      if (o.e4m3_products)
        consume(output, std::type_identity<e4m3>(), wg);
      else
        consume(output, output, wg);
    };
    if (o.type == DType::f16)
      consume_into(std::type_identity<f16>());
    else
      consume_into(std::type_identity<bf16>());
  };
  // If tiles are persistent, the role computes the warp index anew instead of using the index computed at the
  // kernel's entry, because ptxas then generates a faster loop.
  k.warpgroups(t.consumers, registers.consumer, consume_type,
               t.persistent ? Kernel::WarpIndex::of_role : Kernel::WarpIndex::of_entry);
  return k;
}

}  // namespace ptxbuilder::kernels
