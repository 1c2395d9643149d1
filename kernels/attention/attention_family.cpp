// Registers the family "attention": O = softmax(scale Q K^T) V for each head (Dao and others, FlashAttention;
// Shah and others, FlashAttention-3), with every mask, depth and tile. The kernel is in attention/kernel.cpp.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <optional>

#include "kernels/attention/choice.h"
#include "kernels/attention/gatherer.h"
#include "kernels/attention/kernel.h"
#include "kernels/attention/order.h"
#include "kernels/attention/parts.h"
#include "kernels/attention/reference.h"
#include "kernels/family/command_line.h"
#include "kernels/family/family.h"
#include "kernels/family/run.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

AttentionOperation operation(const command::Fields& f) {
  AttentionOperation o;
  o.type = *dtype_from_name(f.word("type"));
  o.depth = f.small("depth");
  o.value_depth = f["value_depth"] ? f.small("value_depth") : o.depth;
  o.causal = f["causal"] != 0;
  o.window = f["window"] != 0;
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) o.name = f[#name] != 0;
#include "kernels/attention/attention.def"
  o.sinks = f["sinks"] != 0;
  o.packed = f["packed"] != 0;
  o.e4m3_products = f["e4m3_products"] != 0;
  o.e4m3 = f["e4m3"] != 0 || o.e4m3_products;
  o.promotes = f["promote"] != 0;
  o.page_scales = f["page_scales"] != 0;
  o.lengths = f["lengths"] != 0;
  o.tree = f["tree"] != 0;
  o.page = static_cast<int>(f["page"]);
  o.heads_in_rows = f.small("heads_in_rows");
  return o;
}

AttentionTile tile(const command::Fields& f) {
  AttentionTile t;
  t.consumers = f.small("consumers");
  t.bn = f.small("bn");
  t.stages = f.small("stages");
  t.persistent = f["persistent"] != 0;
  t.ascending = f["ascending"] != 0;
  t.turns = f["turns"] != 0;
  t.extra_value_stages = static_cast<int>(f["extra_value_stages"]);
  t.cache_stages = static_cast<int>(f["cache_stages"]);
  t.query_places = f.small("query_places");
  t.late_turns = f["late_turns"] != 0;
  t.lazy = f["lazy"] != 0;
  t.whole_blocks = f["whole_blocks"] != 0;
  t.split = f["parts"] != 0;
  return t;
}

void set_tile(command::Fields& f, const AttentionTile& t) {
  f.set("consumers", t.consumers);
  f.set("bn", t.bn);
  f.set("stages", t.stages);
  f.set("persistent", t.persistent);
  f.set("ascending", t.ascending);
  f.set("turns", t.turns);
  f.set("extra_value_stages", t.extra_value_stages);
  f.set("cache_stages", t.cache_stages);
  f.set("query_places", t.query_places);
  f.set("late_turns", t.late_turns);
  f.set("lazy", t.lazy);
  f.set("whole_blocks", t.whole_blocks);
  f.set("parts", t.split);
}

int multiprocessors(const command::Fields& f) {
  return f["sms"] != 0 ? f.small("sms") : hopper::multiprocessors;
}

// Returns the size that the fields describe, with the bounds of its masks. With a causal mask, the last query
// sees all keys up to the last; with a window, it sees only the last `window` of them.
AttentionSize attention_size(const command::Fields& f) {
  const int64_t in_rows = f["heads_in_rows"];
  AttentionSize s = {f["queries"] * in_rows, f["keys"], f["heads"] / in_rows, f["batches"],
                     f["group"] / in_rows};
  s.visible = f["packed"] != 0 || f["lengths"] != 0 ? 1 : static_cast<int32_t>(f["keys"] - f["queries"] + 1);
  s.window_start = s.visible - static_cast<int32_t>(f["window"]);
  return s;
}

// Chooses the tile for the size in the fields. Excludes tiles with `whole_blocks`, since launches may have
// any number of keys, and tiles that divide keys among CTAs, since a launch would have to pass the number of
// these CTAs.
void choose_tile(command::Fields& f) {
  const AttentionOperation o = operation(f);
  if (o.has_own_lengths() || o.heads_in_rows > 1)
    throw command::UsageError(
        fmt::format("--{} cannot be used with --shapes, which chooses a tile from the numbers of queries and "
                    "keys, which a launch does not know then: leave out --shapes, and name the tile",
                    o.packed    ? "packed"
                    : o.lengths ? "lengths"
                                : "heads_in_rows"));
  AttentionTile chosen = choose_attention(o, attention_size(f), multiprocessors(f));
  chosen.whole_blocks = chosen.split = false;
  set_tile(f, chosen);
}

// Returns the value of `heads_in_wave` that is best for this size; the parameter affects only speed.
std::string best_heads_in_wave(const command::Fields& f) {
  const AttentionOperation o = operation(f);
  if (!takes_longest_first(o)) return "";
  return fmt::format("heads_in_wave = {} is the fastest",
                     heads_in_wave(o, attention_size(f), tile(f), multiprocessors(f)));
}

// Returns the sequences. If they are not packed, each is a batch; with lengths, each batch has fewer keys
// than the previous one, down to a single key. If they are packed, each has fewer queries and more keys than
// the previous sequence.
std::vector<AttentionSequence> sequences(const command::Fields& f) {
  std::vector<AttentionSequence> all;
  const auto queries = static_cast<size_t>(f["queries"]), keys = static_cast<size_t>(f["keys"]),
             batches = static_cast<size_t>(f["batches"]);
  AttentionSequence s = {0, queries, keys};
  for (size_t i = 0; i < batches; ++i) {
    if (f["packed"] == 0) {
      s.batch = i;
      if (f["lengths"] != 0) s.keys = std::max<size_t>(keys * (batches - i) / batches, 1);
      all.push_back(s);
      continue;
    }
    s.queries = queries * (batches - i) / batches;
    s.keys = keys * (i + 1) / batches;
    all.push_back(s);
    s.first_query += s.queries, s.first_key += s.keys;
  }
  return all;
}

// Writes NaN to all rows of a tensor [page, head, row, column] that hold no key.
void poison_beyond(const AttentionPages& pages, const std::vector<AttentionSequence>& all,
                   command::Tensor& t) {
  const std::vector<uint64_t> shape = t.shape();
  std::vector<bool> is_key(pages.count() * pages.rows());
  for (size_t sequence = 0; sequence < all.size(); ++sequence)
    for (size_t key = 0; key < all[sequence].keys; ++key)
      is_key[pages.page(sequence, key / pages.rows()) * pages.rows() + key % pages.rows()] = true;
  for (size_t page = 0; page < pages.count(); ++page)
    for (size_t head = 0; head < shape[2]; ++head)
      for (size_t row = 0; row < pages.rows(); ++row)
        for (size_t i = 0; !is_key[page * pages.rows() + row] && i < shape[0]; ++i)
          t.set(((page * shape[2] + head) * pages.rows() + row) * shape[0] + i, NAN);
  t.to_device();
}

// Writes the order that the kernel attention_order would write. The sequences must have ascending numbers of
// keys.
void write_order(const std::vector<AttentionSequence>& all, size_t rows, command::Tensor& order) {
  size_t at = AttentionOrder::kFirst;
  for (size_t s = all.size(); s-- > 0;)
    for (size_t block = (all[s].queries + rows - 1) / rows; block-- > 0; at += AttentionOrder::kEntry)
      order.set(at, static_cast<double>(s)), order.set(at + 1, static_cast<double>(block));
  order.set(AttentionOrder::kCounter, 0);
  order.set(AttentionOrder::kBlocks,
            static_cast<double>((at - AttentionOrder::kFirst) / AttentionOrder::kEntry));
  order.to_device();
}

// Latent keys in the form of rows of bytes (LatentRow).
class ByteRowsOfKeys {
 public:
  // Converts `keys` into rows of bytes, and rounds `keys` to the values that the rows represent. The scales
  // differ and are not powers of two.
  ByteRowsOfKeys(command::Run& run, command::Tensor& keys)
      : shape_(keys.shape()),
        rows_(run.output(DType::u8, {LatentRow::kBytes, shape_[1], shape_[2], shape_[3]})) {
    const uint64_t columns = shape_[0];
    for (uint64_t row = 0; row < keys.count() / columns; ++row)
      for (uint64_t column = 0; column < columns; ++column) {
        const uint64_t at = row * columns + column, group = column / LatentRow::kScaled;
        if (column >= LatentRow::kValues) {
          write(row, LatentRow::kRotaryByte + (column - LatentRow::kValues) * 2, keys.bits(at), 2);
          continue;
        }
        const float scale = 0.3F + 0.4F * static_cast<float>((row + 2 * group) % 5);
        const auto value = static_cast<float>(decode(DType::e4m3, encode(DType::e4m3, keys[at])));
        write(row, column, static_cast<uint32_t>(encode(DType::e4m3, keys[at])), 1);
        write(row, LatentRow::kScalesByte + group * 4, std::bit_cast<uint32_t>(scale), 4);
        keys.set(at, static_cast<double>(value * scale));
      }
    rows_.to_device();
  }

  // Sets the rows of bytes to NaN for keys that are NaN.
  void poison(const command::Tensor& keys) {
    for (uint64_t row = 0; row < keys.count() / shape_[0]; ++row)
      for (uint64_t i = 0; std::isnan(keys[row * shape_[0]]) && i < LatentRow::kBytes; ++i)
        write(row, i, 0xff, 1);
    rows_.to_device();
  }
  // Returns `count` columns of type `type`, which begin at byte `byte` of each row.
  runtime::Argument columns(int byte, DType type, int count) const {
    runtime::View memory = rows_.pointer().memory;
    memory.address += static_cast<uint64_t>(byte), memory.bytes -= static_cast<uint64_t>(byte);
    const uint64_t row = LatentRow::kBytes, head = row * shape_[1];
    return runtime::tensor(memory, type, {static_cast<uint64_t>(count), shape_[1], shape_[2], shape_[3]},
                           {row, head, head * shape_[2]});
  }

 private:
  void write(uint64_t row, uint64_t byte, uint32_t bits, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) rows_.set(row * LatentRow::kBytes + byte + i, bits >> 8 * i & 0xff);
  }

  std::vector<uint64_t> shape_;
  command::Tensor rows_;
};

void run(const command::Fields& f, command::Run& run) {
  const AttentionOperation o = operation(f);
  const auto size = [&](const char* name) { return static_cast<uint64_t>(f[name]); };
  const uint64_t in_rows = size("heads_in_rows"), heads = size("heads"), group = size("group");
  if (heads % group != 0 || group % in_rows != 0)
    throw Error(fmt::format(
        "attention: heads = {}, group = {} and heads_in_rows = {}: each must be a multiple of the next",
        heads, group, in_rows));
  if (o.packed && in_rows > 1 && in_rows != heads)
    throw Error(
        fmt::format("attention: packed queries of {} heads, {} of them in rows; here a launch must have all "
                    "heads in rows",
                    heads, in_rows));
  if (tile(f).whole_blocks && size("keys") % size("bn") != 0)
    throw Error("attention: " + std::to_string(size("keys")) + " keys are not whole blocks of bn = " +
                std::to_string(size("bn")) + ": leave out --whole_blocks");
  const std::vector<AttentionSequence> all = sequences(f);
  const uint64_t rows = o.packed ? all.back().first_query + all.back().queries : size("queries"),
                 keys = o.packs_keys() ? all.back().first_key + all.back().keys : size("keys"),
                 batches = o.packed ? 1 : size("batches");
  const AttentionPages pages(all, f);
  const uint64_t pieces = o.packs_keys() ? 1 : pages.count();  // batches or pages of K and V
  const uint64_t rows_of_piece = o.packs_keys() ? keys : pages.rows();
  const auto depth = static_cast<uint64_t>(o.depth), columns = static_cast<uint64_t>(o.value_depth);
  // If heads are rows, the heads of a query are adjacent in memory.
  const auto by_head = [&](uint64_t columns) {
    using Shape = std::vector<uint64_t>;
    return in_rows == 1 ? Shape{columns, rows, heads, batches}
                        : Shape{columns, in_rows, rows, heads / in_rows, batches};
  };
  const DType of_keys = o.has_byte_rows() ? o.type : o.key_type();  // the type in which keys are multiplied
  command::Tensor q = run.normal(o.product_type(), by_head(depth)),
                  k = run.normal(of_keys, {depth, rows_of_piece, heads / group, pieces}),
                  v = run.normal(of_keys, {columns, rows_of_piece, heads / group, pieces}),
                  out = run.output(o.type, by_head(columns)),
                  lse = run.output(DType::f32, {rows, heads, batches});
  std::optional<ByteRowsOfKeys> byte_rows;
  if (o.has_byte_rows()) byte_rows.emplace(run, k);
  if (o.has_latent_values())
    for (size_t i = 0; i < v.count(); ++i) v.set(i, k[i / columns * depth + i % columns]);
  command::Tensor query_offsets = run.output(DType::u32, {all.size() + 1}),
                  key_offsets = run.output(DType::u32, {all.size() + 1}),
                  order = run.output(
                      DType::u32,
                      {AttentionOrder::bytes(static_cast<int64_t>(rows), f["batches"], tile(f).bm()) / 4});
  const double scale = 1 / std::sqrt(static_cast<double>(depth));
  const auto number = [](uint64_t value) { return runtime::scalar(static_cast<uint32_t>(value)); };
  const AttentionSize sizes = attention_size(f);

  std::vector<runtime::Argument> arguments = {q.tensor()};
  if (byte_rows) {
    arguments.push_back(byte_rows->columns(0, DType::e4m3, o.value_depth));
    arguments.push_back(byte_rows->columns(LatentRow::kScalesByte, DType::f32, LatentRow::kScales));
    arguments.push_back(byte_rows->columns(LatentRow::kRotaryByte, o.type, LatentRow::kRotary));
  }
  for (command::Tensor* t : {&k, &v})
    if (!byte_rows && (t == &k || !o.has_latent_values()))
      arguments.push_back(o.gathers() ? t->pointer() : t->tensor());
  if (!o.packed) arguments.push_back(out.tensor());
  arguments.push_back(lse.pointer());
  arguments.push_back(number(size("queries") * in_rows));
  if (!o.packs_keys()) arguments.push_back(number(keys));
  for (const uint64_t value : {heads / in_rows, size("batches"), group / in_rows})
    arguments.push_back(number(value));
  arguments.push_back(runtime::scalar(static_cast<float>(scale)));
  if (o.causal) arguments.push_back(runtime::scalar(sizes.visible));
  if (takes_longest_first(o))
    arguments.push_back(number(static_cast<uint64_t>(heads_in_wave(o, sizes, tile(f), multiprocessors(f)))));
  if (o.window) arguments.push_back(runtime::scalar(sizes.window_start));
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) \
  if (o.name)                                                 \
    arguments.push_back(                                      \
        runtime::scalar(static_cast<float>(step_of_field(static_cast<double>(f[#name]), below))));
#include "kernels/attention/attention.def"
  command::Tensor sinks = run.normal(DType::f32, {heads});
  const DropoutRule dropout = {static_cast<float>(step_of_field(static_cast<double>(f["dropout"]), 1))};
  command::Tensor seed = dropout.seed_on_device(run);
  if (o.sinks) arguments.push_back(sinks.pointer());
  if (o.dropout) arguments.push_back(seed.pointer());
  command::Tensor lengths = run.output(DType::u32, {all.size()}),
                  table = run.output(DType::u32, {all.size(), pages.of_batch()});
  if (o.lengths) {
    for (size_t i = 0; i < all.size(); ++i) {
      lengths.set(i, static_cast<double>(all[i].keys));
      for (size_t n = 0; n < pages.of_batch(); ++n)
        table.set(i * pages.of_batch() + n, static_cast<double>(pages.page(i, n)));
    }
    lengths.to_device();
    table.to_device();
    for (command::Tensor* t : {&k, &v}) poison_beyond(pages, all, *t);
    if (byte_rows) byte_rows->poison(k);
    arguments.push_back(lengths.pointer());
  }
  command::Tensor tree = run.output(DType::u32, {o.packed ? rows : rows * batches});
  if (o.tree) {
    for (const AttentionSequence& s : all)
      for (size_t i = 0; i < s.queries; ++i) tree.set(s.batch * rows + s.first_query + i, tree_mask_of(s, i));
    tree.to_device();
    arguments.push_back(tree.pointer());
  }
  if (o.page > 0) arguments.insert(arguments.end(), {table.pointer(), number(pages.of_batch())});
  if (o.gathers() || o.page_scales) arguments.push_back(number(pages.count()));
  if (o.gathers()) {
    for (const uint64_t of_row : {depth, columns}) {
      const uint64_t row = of_row * static_cast<uint64_t>(size_of(o.key_type())) / PageGatherer::kUnitBytes;
      for (const uint64_t value : {of_row, row, row * pages.rows(), row * pages.rows() * (heads / group)})
        arguments.push_back(number(value));
    }
  }
  // There is a scale for each head, or for each head of each page. Scales are not powers of two.
  const uint64_t scales = heads / group * (o.page_scales ? pages.count() : 1);
  command::Tensor k_scale = run.output(DType::f32, {scales}), v_scale = run.output(DType::f32, {scales}),
                  q_scale = run.output(DType::f32, {scales});
  for (size_t i = 0; i < scales; ++i)
    k_scale.set(i, o.has_scales() ? 0.7 + 0.4 * static_cast<double>(i % 5) : 1),
        v_scale.set(i, o.has_scales() ? 1.3 - 0.9 * static_cast<double>(i % 2) : 1),
        q_scale.set(i, o.e4m3_products ? 1.1 - 0.2 * static_cast<double>(i % 5) : 1);
  k_scale.to_device();
  v_scale.to_device();
  q_scale.to_device();
  if (o.promotes) arguments.push_back(number(size("promote")));
  if (o.e4m3_products) arguments.push_back(q_scale.pointer());
  if (o.has_scales()) {
    arguments.push_back(k_scale.pointer());
    arguments.push_back(v_scale.pointer());
    arguments.push_back(number(heads / group));
  }
  const uint64_t teams = f["teams"] != 0 ? size("teams") : heads / in_rows;
  if (tile(f).split && heads / in_rows % teams != 0)
    throw Error(
        fmt::format("attention: teams = {} for {} heads; it must divide the heads, so that all teams have "
                    "the same number",
                    teams, heads / in_rows));
  command::Tensor parts = run.output(
      DType::f32, {tile(f).split ? AttentionParts::bytes(o, static_cast<int64_t>(size("queries") * in_rows),
                                                         static_cast<int64_t>(teams * size("parts"))) /
                                       4
                                 : 1});
  if (tile(f).split) {
    arguments.push_back(number(teams));
    arguments.push_back(number(size("parts")));
    arguments.push_back(parts.pointer());
  }
  if (o.packed) {
    const AttentionSequence end = {0, 0, 0, rows, keys};
    for (size_t i = 0; i <= all.size(); ++i) {
      query_offsets.set(i, static_cast<double>((i < all.size() ? all[i] : end).first_query));
      key_offsets.set(i, static_cast<double>((i < all.size() ? all[i] : end).first_key));
    }
    query_offsets.to_device();
    key_offsets.to_device();
    arguments.push_back(out.pointer());
    arguments.push_back(runtime::scalar(columns * in_rows));
    arguments.push_back(runtime::scalar(in_rows == 1 ? columns * rows : columns));
    arguments.push_back(query_offsets.pointer());
    if (o.packs_keys()) arguments.push_back(key_offsets.pointer());
    if (tile(f).persistent) {
      write_order(all, static_cast<size_t>(tile(f).bm()), order);
      arguments.push_back(order.pointer());
    }
  }
  run.launch(arguments);

  const AttentionReference reference({q, k, v, k_scale, v_scale, q_scale}, o.type, all, pages, f, scale,
                                     o.sinks ? &sinks : nullptr, dropout);
  const double cost = static_cast<double>(f["keys"] * f["depth"]);
  run.check(
      out, cost, [&](size_t i) { return reference.output(i); }, [&] { out.poison(); });
  run.check(
      lse, cost, [&](size_t i) { return reference.log_sum(i); }, [&] { lse.poison(); });
  double pairs = 0;  // pairs of a query and a key that it sees, per head
  for (const AttentionSequence& s : all)
    for (size_t i = 0; i < s.queries; ++i) {
      const auto [first, end] = reference.seen(s, i);
      pairs += static_cast<double>(end - first);
    }
  const auto bytes =
      static_cast<double>(q.count() * static_cast<size_t>(size_of(o.product_type())) +
                          out.count() * static_cast<size_t>(size_of(o.type)) +
                          (o.has_byte_rows() ? k.count() / depth * LatentRow::kBytes
                                             : (k.count() + (o.has_latent_values() ? 0 : v.count())) *
                                                   static_cast<size_t>(size_of(o.key_type()))));
  run.measure(2 * pairs * static_cast<double>((depth + columns) * heads), bytes);
}

const std::vector<std::string> kTypes = {"f16", "bf16"}, kYesNo = {"no", "yes"};

const command::Registration registration({
    .name = "attention",
    .summary = "attention, forward: softmax(scale Q K^T) V, whose softmax runs under the products",
    .fields =
        {{"queries", 1024, "rows of a head of Q; packed, of the longest sequence"},
         {"keys", 1024, "rows of a head of K and V"},
         {"heads", 4, "heads of Q in a batch"},
         {"batches", 1, "batches of all tensors; with packed, sequences"},
         {"group", 1, "heads of Q that share one of K and V"},
         {"depth", 128,
          "columns of Q and K: a multiple of 16 up to 256, or 576 or 320 if values are all of a key but 64",
          16},
         {"value_depth", 0, "columns of V and O, no more than those of Q; 0 for the same number", 16, 0},
         {"causal", 0, "whether a query sees only the keys up to its own; the last query sees all", 1, 1,
          kYesNo},
         {"window", 0, "the most keys that a query sees, up to its own; 0 for all", 1, 0},
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) step_field(#name, below, rule, meaning),
#include "kernels/attention/attention.def"
         {"sinks", 0, "whether each head has one more logit, which has no value", 1, 1, kYesNo},
         {"heads_in_rows", 1,
          "heads that share keys, as rows of one block of queries: a power of two up to 64"},
         {"packed", 0,
          "whether sequences of different lengths follow each other; with lengths, only in Q and O", 1, 1,
          kYesNo},
         {"lengths", 0, "whether each batch has its own number of keys, each fewer than the one before", 1, 1,
          kYesNo},
         {"tree", 0, "with lengths, whether queries are a tree of tokens, and have masks of its keys", 1, 1,
          kYesNo},
         {"page", 0, "rows of a page of K and V; 0 for none", 1, 0},
         {"type", 0, "type of Q, K, V and O, unless some are e4m3", 1, 1, kTypes},
         {"e4m3", 0,
          "whether K and V are e4m3, with a scale for each head; 576 columns of K are then rows of 656 bytes",
          1, 1, kYesNo},
         {"page_scales", 0, "with e4m3 and pages, whether each page has a scale for each head", 1, 1, kYesNo},
         {"e4m3_products", 0, "whether Q is e4m3 too, and products multiply e4m3", 1, 1, kYesNo},
         {"promote", 0,
          "with e4m3_products, the number of keys after which sums are added to sums in f32; 0 for never", 1,
          0},
         {"consumers", 2, "warpgroups of 64 queries in a CTA: 1 to 3"},
         {"bn", 128, "keys in a block", 16},
         {"stages", 2, "stages of the rings of keys and values"},
         {"extra_value_stages", 0, "further stages of the ring of values", 1, 0},
         {"cache_stages", 0, "stages of the rings of e4m3 keys and values, from which they are converted", 1,
          0},
         {"query_places", 1, "places for the queries of each consumer: 1, or 2 if CTAs stay"},
         {"sms", 0, "multiprocessors that the grid is for, if CTAs stay; 0 for the device's", 1, 0},
         {"persistent", 0, "whether CTAs stay, and begin the next queries before they finish these", 1, 1,
          kYesNo},
         {"ascending", 0,
          "with persistent and causal, whether blocks of keys come from the first on in every second round",
          1, 1, kYesNo},
         {"turns", 0, "whether consumers issue their products one after the other", 1, 1, kYesNo},
         {"late_turns", 0, "with turns, whether they are passed in the softmax, not after the products", 1, 1,
          kYesNo},
         {"lazy", 1, "whether sums are rescaled only when the greatest score has grown by much", 1, 1,
          kYesNo},
         {"parts", 0, "CTAs of a team, which divide the keys of all sequences; 0 for no division", 1, 0},
         {"teams", 0, "teams of CTAs that divide keys: a divisor of the heads, or 0 for one team a head", 1,
          0},
         {"whole_blocks", 0, "whether the keys are whole blocks, so that none has to be hidden", 1, 1,
          kYesNo}},
    .build = [](const command::Fields& f) { return attention(operation(f), tile(f), {}, f.small("sms")); },
    .run = run,
    .choice = {.axes = {{"queries", "queries"}, {"keys", "keys"}, {"heads", "heads"}, {"batches", "batches"}},
               .choose = choose_tile,
               .caution = best_heads_in_wave},
});

}  // namespace
}  // namespace ptxbuilder::kernels
