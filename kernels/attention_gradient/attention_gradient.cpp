#include "kernels/attention_gradient/attention_gradient.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/attention_gradient/gradient_check.h"
#include "kernels/attention_gradient/packed.h"

namespace ptxbuilder::kernels {
namespace {

constexpr size_t kZeros = 512;  // bytes of zeros that replace a tensor without rows

// The kernels that run before (`sums`) and after (`queries`, `sinks`) the plan's kernel.
struct AttentionGradientMore {
  runtime::LoadedKernel *sums, *queries, *sinks;  // `sinks` is null if it is not needed
};

struct AttentionGradientTraits {
  using Arguments = AttentionGradientArguments;
  using Placed = PlacedAttentionGradient;
  using Tile = AttentionGradientTile;
  using More = AttentionGradientMore;
  static constexpr char kName[] = "attention_gradient";
  static constexpr int64_t kUnit = 16;
  static constexpr size_t kWords = kAttentionGradientTextWords, kFormWords = kAttentionGradientFormWords;
  static bool is_tile(const std::string&) { return false; }  // tile files hold no tiles for gradients
  static AttentionGradientTile parse(const std::string& tile) { throw Error("no tile is kept: " + tile); }
};

// The layout of the workspace, which the kernels share.
struct Shared {
  Shared(const AttentionGradientTile& tile, const AttentionGradientOperation& o, const AttentionSize& s,
         int64_t query_rows)
      : rows(s.heads * (o.packed ? packed_blocks(tile, query_rows, s.batches) * tile.bm
                                 : padded_queries(tile, s.queries) * s.batches)),
        numbers(static_cast<size_t>(rows * o.depth) * sizeof(float)),
        turns(numbers + static_cast<size_t>(2 * rows) * sizeof(float)),
        bytes(turns +
              (o.deterministic ? static_cast<size_t>(count_of_turns(tile, rows)) * sizeof(uint32_t) : 0)) {}

  int64_t rows;
  size_t numbers, turns,
      bytes;  // offsets of the numbers and of the turns, which follow the sums of dQ; total size
};

// Chooses t.ctas and t.heads_first so that SMs finish at about the same time. Times are in units of the time
// that a CTA takes for a block of keys that all queries see, over all heads of a group. The factors were
// measured. With clusters of 4, an H100 leaves SMs idle.
void spread(AttentionGradientTile& t, const AttentionGradientOperation& o, const AttentionSize& s,
            int multiprocessors) {
  constexpr double kOfCausal = 0.53;      // relative time with a causal mask if the longest CTAs come first
  constexpr int64_t kL2Bytes = 40 << 20;  // bytes of the 50 MB L2 that are assumed to be available
  if (o.packed) return;
  const int64_t key_heads = s.heads / std::max<int64_t>(s.group, 1) * s.batches,
                blocks = (s.keys + t.bn() - 1) / t.bn() * key_heads;
  double least = INFINITY;
  for (const auto& [ctas, factor] : {std::pair(1, 1.0), {2, 1.05}, {4, 1.3}}) {
    if (s.group % ctas != 0 || (ctas > 1 && t.shares_keys)) break;
    const double rounds = static_cast<double>(blocks * ctas) / multiprocessors;
    const double time = factor / ctas * (o.causal ? std::max(1.0, kOfCausal * rounds) : std::ceil(rounds));
    if (time < least) least = time, t.ctas = ctas;
  }
  // All heads can be processed at once only if Q, dO and the sums of dQ fit in L2.
  const int64_t bytes_of_head = s.queries * o.depth * (2 * size_of(o.type) + size_of(DType::f32));
  t.heads_first = o.causal && !o.deterministic && key_heads * t.ctas * bytes_of_head <= kL2Bytes;
}

}  // namespace

class AttentionGradient::State final : public CallEngine<AttentionGradientTraits> {
 public:
  State(runtime::Device& device, AttentionGradientOptions options)
      : CallEngine(device, options, ""),
        score_(std::move(options.score)),
        zeros_(runtime::Buffer::of(device, std::array<uint8_t, kZeros>{})) {}

 private:
  PlacedAttentionGradient place(const AttentionGradientArguments& p, Where where) override {
    if (!score_.function && !p.score.empty())
      throw Error(where, named("arguments of a score were given, but AttentionGradientOptions has no score"));
    return checked(p, where);
  }
  AttentionGradientTile choose(const PlacedAttentionGradient& g, Where) override {
    AttentionGradientTile t = gradient_tile(g.operation, static_cast<bool>(score_.function));
    spread(t, g.operation, g.size, multiprocessors_);
    return t;
  }
  AttentionGradientTile checked_tile(const PlacedAttentionGradient& g, const AttentionGradientTile& tile,
                                     Where where) override {
    check(g.operation, tile, where);
    return tile;
  }
  AttentionGradientMore more_of(const PlacedAttentionGradient& g,
                                const AttentionGradientTile& of_plan) override {
    AttentionGradientTile tile = of_plan;
    tile.ctas = 1, tile.heads_first = false;  // these settings apply only to the plan's kernel
    const auto loaded = [&](auto& cache, const AttentionGradientOperation& any, auto&& make) {
      return &cache.get(any, tile, [&] {
        return std::make_unique<runtime::LoadedKernel>(
            load(device_, compiler_, make(any, tile, Where::here())));
      });
    };
    AttentionGradientOperation any =
        gradient_operation(g.operation.type, g.operation.depth, g.operation.value_depth);
    any.packed = g.operation.packed;
    runtime::LoadedKernel* queries = loaded(queries_, any, attention_gradient_queries);
    runtime::LoadedKernel* sinks =
        g.dsinks.is_empty() ? nullptr : loaded(sinks_, any, attention_gradient_sinks);
    any.lse_grad = g.operation.lse_grad, any.deterministic = g.operation.deterministic;
    return {loaded(sums_, any, attention_gradient_sums), queries, sinks};
  }
  std::unique_ptr<runtime::LoadedKernel> loaded(const AttentionGradientOperation&,
                                                const AttentionGradientTile&) override {
    return nullptr;
  }
  Kernel make(const AttentionGradientOperation& operation, const AttentionGradientTile& tile) override {
    Kernel made = attention_gradient(operation, tile, score_);
    // These operations may need more registers than exist. A slow kernel is better than an error.
    if (operation.has_step() || operation.packed || score_.function)
      for (const char* advisory : {"spills", "stack"}) made.waive(advisory);
    return made;
  }
  size_t own_bytes(const Plan& plan, const AttentionGradientArguments& p) const override {
    const AttentionSize size = {p.queries, p.keys, p.heads, p.batches};
    AttentionGradientOperation o = gradient_operation(p.type, p.depth, p.value_depth);
    o.packed = p.packed(), o.deterministic = p.deterministic;
    return Shared(plan.tile, o, size, p.query_rows).bytes;
  }
  std::vector<AttentionGradientTile> tiles_to_measure(const PlacedAttentionGradient&,
                                                      const AttentionGradientTile& chosen) override {
    return {chosen};
  }
  void take_scratch(PlacedAttentionGradient&, OperandSets&) override {}

  void launch(const Plan& plan, PlacedAttentionGradient& g, const AttentionGradientArguments& p,
              runtime::View own, Launches& launches) override {
    const Shared shared(plan.tile, g.operation, g.size, p.query_rows);
    const bool packed = g.operation.packed;
    const runtime::LaunchOptions options = {.programmatic_dependent_launch = plan.tile.overlaps};
    // Queues a launch of `kernel`. `add` adds the arguments.
    const auto queue = [&](runtime::LoadedKernel& kernel, auto&& add) {
      SourcedArguments arguments(launches.sources(), kernel.signature().parameters.size());
      add(arguments);
      launches.queue(kernel, options, arguments);
    };
    const auto heads = [&](SourcedArguments& to, const Operand& t, size_t own_source) {
      if (!t.is_empty()) return to.add(source_of(t, own_source, p), [&] { return tensor(t); });
      Operand none = t;
      for (Operand::Dimension& d : none.outer) d.extent = 1;
      none.memory = zeros_;
      to.add(from_none, [&] { return tensor(none); });
    };
    const auto numbers = [&](SourcedArguments& to, size_t at) {
      to.add(from_workspace, [&] {
        return runtime::pointer(runtime::View{own.address + at, own.bytes - at}, DType::f32);
      });
    };
    const auto turns = [&](SourcedArguments& to) {
      if (g.operation.deterministic)
        to.add(from_workspace, [&] {
          return runtime::pointer(runtime::View{own.address + shared.turns, own.bytes - shared.turns},
                                  DType::u32);
        });
    };
    const auto number = [&](SourcedArguments& to, int64_t value) {
      to.add(from_none, [&] { return runtime::scalar(static_cast<uint32_t>(value)); });
    };
    const auto scale = [&](SourcedArguments& to) {
      to.add(from_scale, [&] { return runtime::scalar(scale_of(p)); });
    };
    const auto offsets = [&](SourcedArguments& to, size_t source, runtime::View memory) {
      to.add(source, [&] { return runtime::pointer(memory, DType::u32); });
    };
    const auto sequences = [&](SourcedArguments& to) {
      number(to, g.size.batches), number(to, p.query_rows);
      offsets(to, from_query_offsets, p.query_offsets);
    };
    const auto rows = [&](SourcedArguments& to) {
      number(to, g.size.queries), number(to, g.size.heads);
      packed ? sequences(to) : number(to, g.size.batches);
    };
    // Adds the arguments of a result of packed sequences, which a kernel stores row by row.
    const auto packed_heads = [&](SourcedArguments& to, const Operand& t, size_t own_source) {
      to.add(source_of(t, own_source, p), [&] { return runtime::pointer(t.memory, t.type); });
      number(to, t.columns);
      for (const size_t d : {kRows, kHeads})
        to.add(from_none, [&] { return runtime::scalar(static_cast<uint64_t>(t.outer[d].stride)); });
    };
    const bool has_queries = !g.dq.is_empty() && g.size.queries > 0 && g.size.batches > 0,
               has_keys = !g.dk.is_empty() && g.size.keys > 0 && g.size.batches > 0;
    if (has_queries)
      queue(*plan.more.sums, [&](SourcedArguments& to) {
        heads(to, g.o, from_o), heads(to, g.grad, from_grad);
        to.add(from_lse, [&] { return runtime::pointer(g.lse.memory, DType::f32); });
        for (const size_t at : {shared.numbers, size_t{0}}) numbers(to, at);
        rows(to);
        if (g.operation.lse_grad)
          to.add(from_lse_grad, [&] { return runtime::pointer(g.lse_grad.memory, DType::f32); });
        turns(to);
      });
    if (plan.more.sinks)
      queue(*plan.more.sinks, [&](SourcedArguments& to) {
        numbers(to, shared.numbers);
        to.add(from_sinks, [&] { return runtime::pointer(g.sinks.memory, DType::f32); });
        to.add(from_dsinks, [&] { return runtime::pointer(g.dsinks.memory, DType::f32); });
        rows(to);
      });
    if (has_keys)
      queue(*plan.kernel, [&](SourcedArguments& to) {
        heads(to, g.q, from_q), heads(to, g.k, from_k), heads(to, g.v, from_v), heads(to, g.grad, from_grad);
        if (!packed) heads(to, g.dk, from_dk), heads(to, g.dv, from_dv);
        for (const size_t at : {shared.numbers, size_t{0}}) numbers(to, at);
        if (!packed) number(to, g.size.queries);
        number(to, g.size.keys), number(to, g.size.group);
        scale(to);
        if (g.operation.causal) to.add(from_none, [&] { return runtime::scalar(g.size.visible); });
        if (g.operation.window) to.add(from_none, [&] { return runtime::scalar(g.size.window_start); });
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) \
  if (g.operation.name) to.add(from_##name, [&] { return runtime::scalar(p.name); });
#include "kernels/attention/attention.def"
        if (g.operation.dropout)
          to.add(from_dropout_seed, [&] { return runtime::pointer(g.dropout_seed.memory, DType::u32); });
        turns(to);
        if (packed) {
          sequences(to);
          offsets(to, from_key_offsets, p.key_offsets);
          packed_heads(to, g.dk, from_dk), packed_heads(to, g.dv, from_dv);
        }
        for (const runtime::Argument& one : p.score) to.add(from_none, [&] { return one; });
      });
    if (has_queries)
      queue(*plan.more.queries, [&](SourcedArguments& to) {
        numbers(to, 0);
        if (!packed) heads(to, g.dq, from_dq);
        rows(to), scale(to);
        if (packed) packed_heads(to, g.dq, from_dq);
      });
  }

  AttentionScore score_;
  runtime::Buffer zeros_;
  KernelCache<AttentionGradientOperation, AttentionGradientTile> sums_, queries_, sinks_;
};

AttentionGradient::AttentionGradient(runtime::Device& device, AttentionGradientOptions options)
    : state_(std::make_unique<State>(device, std::move(options))) {}
AttentionGradient::~AttentionGradient() = default;
AttentionGradient::AttentionGradient(AttentionGradient&&) noexcept = default;
AttentionGradient& AttentionGradient::operator=(AttentionGradient&&) noexcept = default;

void AttentionGradient::operator()(const AttentionGradientArguments& arguments, Where where) {
  CallersLine line(where);
  (*state_)(arguments, where);
}
size_t AttentionGradient::workspace_bytes(const AttentionGradientArguments& arguments, Where where) {
  CallersLine line(where);
  return state_->workspace_bytes(arguments, where);
}

}  // namespace ptxbuilder::kernels
