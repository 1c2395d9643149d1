#include "kernels/attention/attention.h"

#include <fmt/format.h>

#include "kernels/attention/attention_check.h"
#include "kernels/attention/form.h"
#include "kernels/attention/gatherer.h"
#include "kernels/attention/order.h"
#include "kernels/attention/parts.h"
#include "runtime/lazy.h"

namespace ptxbuilder::kernels {
namespace {

constexpr size_t kZeros =
    1152;  // bytes of the widest row of K or V; these zeros replace K and V if there are no keys

// The part of a plan that is specific to attention. `heads_in_wave` is the result of heads_in_wave().
// `ordered` is the number of rows in the blocks of an AttentionOrder, or 0 if there is none. `division` has
// no teams if keys are not divided.
struct AttentionMore {
  int64_t heads_in_wave = 0;
  int ordered = 0;
  KeyDivision division = {.teams = 0};
  size_t part_bytes = 0;  // bytes of the workspace for AttentionParts
};

struct AttentionTraits {
  using Arguments = AttentionArguments;
  using Placed = PlacedAttention;
  using Tile = AttentionTile;
  using More = AttentionMore;
  static constexpr char kName[] = "attention";
  static constexpr int64_t kUnit = 16;  // copies have a multiple of this many columns, as the kernel requires
  static constexpr size_t kWords = kAttentionTextWords, kFormWords = kAttentionFormWords;
  static bool is_tile(const std::string& tile) { return text(parse_attention_tile(tile)) == tile; }
  static AttentionTile parse(const std::string& tile) { return parse_attention_tile(tile); }
};

// Returns a tensor with the dimensions columns, rows, heads and batches. If `heads_in_rows` is above 1, the
// dimensions are columns, heads in rows, rows, groups of such heads, and batches.
runtime::Argument heads_tensor(const Operand& t, int64_t heads_in_rows) {
  if (heads_in_rows == 1) return tensor(t);
  Operand in_rows = t;
  const Operand::Dimension& heads = t.outer[kHeads];
  in_rows.outer = {{{"head", heads_in_rows, heads.stride},
                    t.outer[kRows],
                    {"group", heads.extent / heads_in_rows, heads.stride * heads_in_rows},
                    t.outer[kBatches]}};
  in_rows.outer_count = 4;
  return tensor(in_rows);
}

// Returns some columns of keys that are rows of bytes, as a tensor of type `type` that begins at byte `byte`
// of the rows.
runtime::Argument columns_of_rows(const Operand& rows, int byte, DType type, int columns) {
  Operand part = rows;
  part.type = type, part.columns = columns;
  part.memory.address += static_cast<uint64_t>(byte), part.memory.bytes -= static_cast<uint64_t>(byte);
  for (Operand::Dimension& d : part.outer) d.stride /= size_of(type);
  return tensor(part);
}

}  // namespace

class Attention::State final : public CallEngine<AttentionTraits> {
 public:
  // Tile files are not used if there is a user's score, since their lines do not describe the score.
  State(runtime::Device& device, AttentionOptions options)
      : CallEngine(device, options,
                   options.score.function
                       ? ""
                       : options.tuned_file.value_or(default_tile_file("attention", device.properties(),
                                                                       multiprocessors_of(device, options),
                                                                       attention_tiles_hash()))),
        options_(std::move(options)),
        zeros_(runtime::Buffer::of(device, std::array<uint8_t, kZeros>{})),
        one_(runtime::Buffer::of(device, std::array<float, 1>{1})) {
    if (!options_.choose)
      throw Error("AttentionOptions::choose is empty: keep its default, or set a function");
  }

 private:
  // Heads do not become rows if there is a user's score, because its function receives the query and the head
  // of each score.
  PlacedAttention place(const AttentionArguments& p, Where where) override {
    return checked(p, !options_.score.function, where);
  }
  AttentionTile choose(const PlacedAttention& a, Where) override {
    return options_.choose(a.operation, a.size, multiprocessors_);
  }
  AttentionTile checked_tile(const PlacedAttention& a, const AttentionTile& tile, Where where) override {
    check(a.operation, tile, where);
    check_keys(tile, a.size, where);
    return tile;
  }
  AttentionMore more_of(const PlacedAttention& a, const AttentionTile& tile) override {
    AttentionMore more = {heads_in_wave(a.operation, a.size, tile, multiprocessors_),
                          a.operation.packed && tile.persistent ? tile.bm() : 0,
                          {.teams = 0}};
    if (tile.split) {
      more.division = key_division(a.operation, a.size, tile, multiprocessors_);
      more.part_bytes = AttentionParts::bytes(a.operation, a.size.queries, more.division.ctas());
    }
    if (more.ordered > 0) order_kernel();
    return more;
  }
  std::unique_ptr<runtime::LoadedKernel> loaded(const AttentionOperation& operation,
                                                const AttentionTile& tile) override {
    if (!options_.load) return nullptr;
    auto kernel = options_.load(operation, tile);
    if (!kernel)
      throw Error(fmt::format("AttentionOptions::load returned no kernel for the tile {}", text(tile)));
    return kernel;
  }
  Kernel make(const AttentionOperation& operation, const AttentionTile& tile) override {
    Kernel made = attention(operation, tile, options_.score, options_.multiprocessors);
    // A tile that was not measured may need more registers than exist. A slow kernel is better than an error.
    for (const char* advisory : {"spills", "stack"}) made.waive(advisory);
    return made;
  }
  size_t own_bytes(const Plan& plan, const AttentionArguments& p) const override {
    if (plan.tile.split) return plan.more.part_bytes;
    return plan.more.ordered > 0 ? AttentionOrder::bytes(p.query_rows, p.batches, plan.more.ordered) : 0;
  }
  std::vector<AttentionTile> tiles_to_measure(const PlacedAttention& a,
                                              const AttentionTile& chosen) override {
    return attention_tiles_to_measure(a.operation, a.size, multiprocessors_, chosen);
  }
  void take_scratch(PlacedAttention& a, OperandSets& sets) override {
    a.lse.memory = sets.memory(static_cast<size_t>(extent_bytes(a.lse)));
  }
  runtime::LoadedKernel& order_kernel() {
    return order_.get([&] { return load(device_, compiler_, attention_order()); });
  }

  // Queues the kernel that computes the order. The kernel waits for the end of the previous launch, which may
  // still use the counter.
  void launch_order(const Plan& plan, const AttentionArguments& p, runtime::View order, Launches& launches) {
    SourcedArguments arguments(launches.sources(), 5);
    arguments.add(from_query_offsets, [&] { return runtime::pointer(p.query_offsets, DType::u32); });
    arguments.add(from_key_offsets, [&] { return runtime::pointer(p.key_offsets, DType::u32); });
    arguments.add(from_workspace, [&] { return runtime::pointer(order, DType::u32); });
    for (const int64_t value : {p.batches, int64_t{plan.more.ordered}})
      arguments.add(from_none, [&] { return runtime::scalar(static_cast<uint32_t>(value)); });
    launches.queue(order_kernel(), {}, arguments);
  }

  void launch(const Plan& plan, PlacedAttention& a, const AttentionArguments& p, runtime::View own,
              Launches& launches) override {
    if (own.bytes > 0 && plan.more.ordered > 0) launch_order(plan, p, own, launches);
    for (Operand* t : {&a.k, &a.v})
      if (t->is_empty()) {  // one row of zeros, which no query sees
        for (Operand::Dimension& d : t->outer) d.extent = 1;
        t->memory = zeros_;
      }
    const AttentionOperation& o = a.operation;
    SourcedArguments arguments(launches.sources(), 40 + p.score.size());
    // Returns the source of an operand's address. Operands without elements have the address of zeros_, which
    // does not come from the caller.
    const auto source_of = [&](const Operand& t, AttentionSource own) {
      return t.memory.address == zeros_.address() ? size_t{from_none} : CallEngine::source_of(t, own, p);
    };
    const auto scalar = [&](size_t source, auto value) {
      arguments.add(source, [&] { return runtime::scalar(value); });
    };
    const auto number = [&](int64_t value) { scalar(from_none, static_cast<uint32_t>(value)); };
    const auto pointer = [&](size_t source, runtime::View memory, DType type) {
      arguments.add(source, [&] { return runtime::pointer(memory, type); });
    };
    const auto heads = [&](const Operand& t, AttentionSource own, int64_t in_rows) {
      arguments.add(source_of(t, own), [&] { return heads_tensor(t, in_rows); });
    };
    const auto columns_of_k = [&](int byte, DType type, int columns) {
      arguments.add(source_of(a.k, from_k), [&] { return columns_of_rows(a.k, byte, type, columns); });
    };
    heads(a.q, from_q, o.heads_in_rows);
    if (o.has_byte_rows()) {
      columns_of_k(0, DType::e4m3, o.value_depth);
      columns_of_k(LatentRow::kScalesByte, DType::f32, LatentRow::kScales);
      columns_of_k(LatentRow::kRotaryByte, o.type, LatentRow::kRotary);
    }
    for (const auto& [t, own] : {std::pair(&a.k, from_k), {&a.v, from_v}})
      if (o.has_byte_rows() || (t == &a.v && o.has_latent_values()))
        continue;
      else if (o.gathers())
        pointer(source_of(*t, own), t->memory, t->type);
      else
        heads(*t, own, 1);
    if (!o.packed) heads(a.o, from_o, o.heads_in_rows);
    if (o.lse) pointer(from_lse, a.lse.memory, DType::f32);
    number(a.size.queries);
    if (!o.packs_keys()) number(a.size.keys);
    for (const int64_t value : {a.size.heads, a.size.batches, a.size.group}) number(value);
    scalar(from_scale, scale_of(p));
    if (o.causal) scalar(from_none, a.size.visible);
    if (takes_longest_first(o)) number(plan.more.heads_in_wave);
    if (o.window) scalar(from_none, a.size.window_start);
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) \
  if (o.name) scalar(from_##name, p.name);
#include "kernels/attention/attention.def"
    if (o.sinks) pointer(from_sinks, a.sinks.memory, DType::f32);
    if (o.dropout) pointer(from_dropout_seed, a.dropout_seed.memory, DType::u32);
    if (o.lengths) pointer(from_key_lengths, p.key_lengths, DType::u32);
    if (o.tree) pointer(from_tree_mask, p.tree_mask, DType::u32);
    if (o.page > 0) {
      pointer(from_block_table, p.block_table, DType::u32);
      number(p.table_stride.value_or(p.pages_of_batch()));
    }
    if (o.gathers() || o.page_scales) number(p.pages);
    if (o.gathers()) {
      for (const Operand* t : {&a.k, &a.v}) {
        number(t->columns);
        for (const size_t d : {kRows, kHeads, kBatches})
          number(t->outer[d].stride * t->element_bytes() / PageGatherer::kUnitBytes);
      }
    }
    if (o.promotes) number(p.promote);
    const bool has_scales = p.k_scale.address != 0;
    const auto scale = [&](AttentionSource own, runtime::View given) {
      pointer(has_scales ? own : from_none, has_scales ? given : one_, DType::f32);
    };
    if (o.e4m3_products) scale(from_q_scale, p.q_scale);
    if (o.has_scales()) {
      scale(from_k_scale, p.k_scale);
      scale(from_v_scale, p.v_scale);
      number(has_scales ? p.scales : 1);
    }
    if (plan.tile.split) {
      number(plan.more.division.teams);
      number(plan.more.division.parts);
      pointer(from_workspace, own, DType::f32);
    }
    if (o.packed) {
      pointer(source_of(a.o, from_o), a.o.memory, o.type);
      for (const size_t d : {kRows, kHeads}) scalar(from_none, static_cast<uint64_t>(a.o.outer[d].stride));
      pointer(from_query_offsets, p.query_offsets, DType::u32);
      if (o.packs_keys()) pointer(from_key_offsets, p.key_offsets, DType::u32);
      if (plan.more.ordered > 0) pointer(from_workspace, own, DType::u32);
    }
    for (const runtime::Argument& one : p.score) arguments.add(from_none, [&] { return one; });
    // The kernel may begin before the previous launch has ended, because it waits for the end of that launch
    // before it reads or writes memory.
    launches.queue(*plan.kernel, {.programmatic_dependent_launch = plan.tile.overlaps}, arguments);
  }

  AttentionOptions options_;
  runtime::Buffer zeros_, one_;
  runtime::Lazy<runtime::LoadedKernel> order_;
};

Attention::Attention(runtime::Device& device, AttentionOptions options)
    : state_(std::make_unique<State>(device, std::move(options))) {}
Attention::~Attention() = default;
Attention::Attention(Attention&&) noexcept = default;
Attention& Attention::operator=(Attention&&) noexcept = default;

void Attention::operator()(const AttentionArguments& arguments, Where where) {
  CallersLine line(where);
  (*state_)(arguments, where);
}
size_t Attention::workspace_bytes(const AttentionArguments& arguments, Where where) {
  CallersLine line(where);
  return state_->workspace_bytes(arguments, where);
}

AttentionTile Attention::tile(const AttentionArguments& arguments, Where where) {
  CallersLine line(where);
  return state_->tile(arguments, where);
}
void Attention::tune(const AttentionArguments& arguments, Where where) {
  CallersLine line(where);
  state_->tune(arguments, where);
}

}  // namespace ptxbuilder::kernels
