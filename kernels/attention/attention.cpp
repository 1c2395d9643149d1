#include "kernels/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "kernels/attention/attention_check.h"
#include "kernels/attention/form.h"
#include "kernels/attention/order.h"
#include "kernels/call/kernel_cache.h"
#include "kernels/call/launches.h"
#include "kernels/call/operand_sets.h"
#include "kernels/call/plans.h"
#include "kernels/call/tile_file.h"
#include "runtime/lazy.h"

namespace ptxbuilder::kernels {
namespace {

constexpr char kName[] = "attention";
constexpr size_t kZeros = 512;        // bytes: a row of K or V, where there are no keys
constexpr int64_t kColumns = 16;      // that the columns of a copy are a multiple of, as the kernel's
constexpr int64_t kMostBatches = 16;  // of a call that is prepared though each takes a copy of its own

// Calls `work` with the tensors that the kernel cannot take where they lie. In the workspace they lie one
// behind the other.
template <class Work>
void for_each_moved(PlacedAttention& a, Work&& work) {
  for (const auto& [t, source] : {std::pair(&a.q, from_q), {&a.k, from_k}, {&a.v, from_v}})
    if (!t->is_empty() && !t->aligned_for_tma()) work(*t, source);
  if (!a.stores_in_place()) work(a.o, from_o);
}

// For a tensor map: columns, rows, heads, batches; with `heads_in_rows` above 1 columns, these heads, rows,
// groups of them, batches.
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

}  // namespace

class Attention::State {
 public:
  State(runtime::Device& device, AttentionOptions options)
      : device_(device),
        options_(std::move(options)),
        multiprocessors_(options_.multiprocessors > 0 ? options_.multiprocessors
                                                      : device.properties().multiprocessors),
        compiler_(compiler_for(device, options_.compiler)),
        copy_(device, compiler_),
        tuned_(
            options_.score.function ? ""
            : options_.tuned_file
                ? *options_.tuned_file
                : default_tile_file(kName, device.properties(), multiprocessors_, attention_tiles_hash()),
            kAttentionTextWords,
            [](const std::string& tile) { return text(parse_attention_tile(tile)) == tile; }, options_.warn),
        zeros_(runtime::Buffer::of(device, std::array<uint8_t, kZeros>{})) {
    if (!options_.choose)
      throw Error("AttentionOptions::choose is empty: leave it as it is, or give a function");
  }

  void operator()(const AttentionArguments& arguments, Where where);
  size_t workspace_bytes(const AttentionArguments& arguments, Where where);
  AttentionTile tile(const AttentionArguments& arguments, Where where);
  void tune(const AttentionArguments& arguments, Where where);

 private:
  // What was found for a size that is known.
  struct Plan {
    runtime::LoadedKernel* kernel;
    AttentionTile tile;
    int64_t together;
    int ordered;         // rows of the blocks whose order an AttentionOrder says; 0 without one
    bool tuned = false;  // found by measuring

    size_t order_bytes(const AttentionArguments& p) const {
      const size_t bytes = ordered > 0 ? AttentionOrder::bytes(p.query_rows, p.batches, ordered) : 0;
      return static_cast<size_t>(round_up(static_cast<int64_t>(bytes), kPartAlignment));
    }
  };
  // A call as it was asked for: all that is known before anything is queued.
  struct Request {
    PlacedAttention placed;
    Plan plan;
    size_t order_bytes = 0, bytes = 0;  // of workspace, and of all of it
    uint64_t number = 0;                // of prepared_, when the plan was looked up
  };

  // A score is told which query of which head it is.
  bool heads_as_rows() const { return !options_.score.function; }
  Request request(const AttentionArguments& arguments, Where where);
  Plan plan(const PlacedAttention& a, Where where);
  AttentionTile chosen(const PlacedAttention& a);
  Plan plan_of(const PlacedAttention& a, const AttentionTile& tile, Where where);
  // This kernel waits for the launch ahead of it, which may still count.
  void launch_order(const Plan& plan, const AttentionArguments& p, runtime::View order, Launches& launches);
  void launch(const Plan& plan, PlacedAttention& a, const AttentionArguments& p, runtime::View order,
              Launches& launches);
  AttentionTile measured(const Request& request, const AttentionArguments& p, Where where);
  runtime::LoadedKernel& kernel(const AttentionOperation& operation, const AttentionTile& tile);
  runtime::LoadedKernel& order_kernel() {
    return order_.get([&] { return load(device_, compiler_, attention_order()); });
  }

  runtime::Device& device_;
  AttentionOptions options_;
  int multiprocessors_;
  Compiler compiler_;
  MatrixCopier copy_;
  TileFile tuned_;
  runtime::Buffer zeros_;
  std::mutex choosing_, tuning_;
  KernelCache<AttentionOperation, AttentionTile> kernels_;
  runtime::Lazy<runtime::LoadedKernel> order_;
  Plans<std::tuple_size_v<AttentionKey>, Plan> plans_;
  PreparedCalls<kAttentionFormWords> prepared_;
};

Attention::State::Request Attention::State::request(const AttentionArguments& p, Where where) {
  Request r;
  r.number = prepared_.number();
  r.placed = checked(p, heads_as_rows(), where);
  if (r.placed.is_empty) return r;
  r.plan = plan(r.placed, where);
  r.bytes = r.order_bytes = r.plan.order_bytes(p);
  for_each_moved(
      r.placed, [&](const Operand& t, AttentionSource) { r.bytes += kernels::workspace_bytes(t, kColumns); });
  return r;
}

size_t Attention::State::workspace_bytes(const AttentionArguments& p, Where where) {
  Request r = request(p, where);
  if (r.placed.is_empty) return 0;
  for_each_moved(r.placed, [&](const Operand& t, AttentionSource) {
    MatrixCopy copy;
    copy.element_bytes = t.element_bytes();
    copy_.prepare({&copy, 1});
  });
  return r.bytes;
}

void Attention::State::operator()(const AttentionArguments& p, Where where) {
  if (is_plain(p))
    if (const PreparedCall* known = prepared_.find(words_of(p))) return (*known)(sources_of(p), p.stream);
  Request r = request(p, where);
  PlacedAttention& a = r.placed;
  if (a.is_empty) {
    if (is_plain(p)) prepared_.add_empty(words_of(p));
    return;
  }
  for (const Operand* t : a.operands()) check_address(kName, *t, where);
  check_workspace(kName, p.workspace, r.bytes, a.operands(), where);
  const bool is_copied = r.bytes > r.order_bytes;
  const bool keeps = is_plain(p) && (!is_copied || a.o.outer[kBatches].extent <= kMostBatches);
  const auto sources = sources_of(p);
  Launches launches(copy_, sources, p.stream, keeps, where);
  const Operand o = a.o;
  runtime::Address workspace = p.workspace.address;
  for_each_moved(a, [&](Operand& t, AttentionSource source) {
    Operand near = padded(t, kColumns);
    near.memory.address = workspace;
    workspace += kernels::workspace_bytes(t, kColumns);
    if (source != from_o) launches.copy(t, source, near, from_workspace);
    t = near;
  });
  const runtime::View order = {workspace, r.order_bytes};
  if (r.order_bytes > 0) launch_order(r.plan, p, order, launches);
  launch(r.plan, a, p, order, launches);
  if (a.o.memory.address != o.memory.address) launches.copy(a.o, from_workspace, o, from_o);
  if (keeps) prepared_.add(words_of(p), launches.take(), r.number);
}

AttentionTile Attention::State::tile(const AttentionArguments& p, Where where) {
  const Request r = request(p, where);
  if (r.placed.is_empty) throw Error(where, "attention: the tile of a call with nothing to do");
  return r.plan.tile;
}

Attention::State::Plan Attention::State::plan(const PlacedAttention& a, Where where) {
  return plans_.get(key_of(a.operation, a.size), [&] { return plan_of(a, chosen(a), where); });
}

AttentionTile Attention::State::chosen(const PlacedAttention& a) {
  const std::lock_guard lock(choosing_);
  return options_.choose(a.operation, a.size, multiprocessors_);
}

Attention::State::Plan Attention::State::plan_of(const PlacedAttention& a, const AttentionTile& tile,
                                                 Where where) {
  check(a.operation, tile, where);
  check_keys(tile, a.size, where);
  const Plan found = {&kernel(a.operation, tile), tile,
                      heads_together(a.operation, a.size, tile, multiprocessors_),
                      a.operation.packed && tile.ahead ? tile.bm() : 0};
  if (found.ordered > 0) order_kernel();
  return found;
}

runtime::LoadedKernel& Attention::State::kernel(const AttentionOperation& operation,
                                                const AttentionTile& tile) {
  return kernels_.get(operation, tile, [&] {
    if (options_.load) {
      auto loaded = options_.load(operation, tile);
      if (!loaded)
        throw Error(fmt::format("AttentionOptions::load gave no kernel for the tile {}", text(tile)));
      return loaded;
    }
    Kernel made = attention(operation, tile, options_.score, options_.multiprocessors);
    // A form whose tile was not measured may want more registers than there are: a slower result is better
    // than none.
    for (const char* advisory : {"spills", "stack"}) made.waive(advisory);
    return std::make_unique<runtime::LoadedKernel>(load(device_, compiler_, std::move(made)));
  });
}

void Attention::State::tune(const AttentionArguments& p, Where where) {
  if (!options_.fastest && device_.properties().ordinal < 0)
    throw Error(where, "attention: tuning needs a GPU, whose time it measures");
  if (device_.is_capturing(p.stream))
    throw Error(where, "attention: tuning in a capture, where nothing runs: tune before it");
  const Request r = request(p, where);
  const PlacedAttention& a = r.placed;
  if (a.is_empty) return;
  for (const Operand* t : a.operands())
    if (t != &a.o) check_address(kName, *t, where);
  const std::lock_guard one_at_a_time(tuning_);
  if (plan(a, where).tuned) return;  // by another call, or another thread meanwhile
  const std::string call = call_text(a.operation, a.size);
  std::optional<AttentionTile> tile = tuned_.find(call, [&](const std::string& kept) {
    const AttentionTile parsed = parse_attention_tile(kept);
    check(a.operation, parsed);
    check_keys(parsed, a.size);
    return parsed;
  });
  if (!tile) {
    tile = measured(r, p, where);
    tuned_.keep(call, text(*tile));
  }
  Plan found = plan_of(a, *tile, where);
  found.tuned = true;
  plans_.replace(key_of(a.operation, a.size), found);
  prepared_.clear();
}

AttentionTile Attention::State::measured(const Request& r, const AttentionArguments& p, Where where) {
  PlacedAttention a = r.placed;
  std::vector<Plan> plans;
  size_t order_bytes = 0;
  for (const AttentionTile& tile :
       attention_tiles_to_measure(a.operation, a.size, multiprocessors_, chosen(a))) {
    plans.push_back(plan_of(a, tile, where));
    order_bytes = std::max(order_bytes, plans.back().order_bytes(p));
  }
  OperandSets sets(device_, copy_, std::array{&a.q, &a.k, &a.v}, std::array{&a.o}, kColumns, p.stream);
  AttentionArguments q = p;
  q.lse = sets.memory(static_cast<size_t>(extent_bytes(a.lse)));
  const runtime::View order = sets.memory(order_bytes);
  const auto sources = sources_of(q);
  const size_t found = fastest_by(
      options_.fastest, "AttentionOptions", device_, plans.size(), sets.size(),
      [&](size_t i, size_t set, runtime::Stream stream) {
        sets.take(set);
        Launches launches(copy_, sources, stream, false, where);
        if (plans[i].ordered > 0) launch_order(plans[i], q, order, launches);
        launch(plans[i], a, q, order, launches);
      },
      where);
  return plans[found].tile;
}

void Attention::State::launch_order(const Plan& plan, const AttentionArguments& p, runtime::View order,
                                    Launches& launches) {
  SourcedArguments arguments(launches.sources(), 5);
  arguments.add(from_query_offsets, [&] { return runtime::pointer(p.query_offsets, DType::u32); });
  arguments.add(from_key_offsets, [&] { return runtime::pointer(p.key_offsets, DType::u32); });
  arguments.add(from_workspace, [&] { return runtime::pointer(order, DType::u32); });
  for (const int64_t value : {p.batches, int64_t{plan.ordered}})
    arguments.add(from_none, [&] { return runtime::scalar(static_cast<uint32_t>(value)); });
  launches.queue(order_kernel(), {}, arguments);
}

void Attention::State::launch(const Plan& plan, PlacedAttention& a, const AttentionArguments& p,
                              runtime::View order, Launches& launches) {
  for (Operand* t : {&a.k, &a.v})
    if (t->is_empty()) {  // a row that no query sees
      for (Operand::Dimension& d : t->outer) d.extent = 1;
      t->memory = zeros_;
    }
  const AttentionOperation& o = a.operation;
  SourcedArguments arguments(launches.sources(), 20 + p.score.size());
  // An operand has its own source, unless it is in the workspace, or stands for one without elements.
  const auto source_of = [&](const Operand& t, AttentionSource own) {
    const bool is_moved = t.memory.address - p.workspace.address < p.workspace.bytes;
    return is_moved ? from_workspace : t.memory.address == zeros_.address() ? from_none : own;
  };
  const auto scalar = [&](AttentionSource source, auto value) {
    arguments.add(source, [&] { return runtime::scalar(value); });
  };
  const auto number = [&](int64_t value) { scalar(from_none, static_cast<uint32_t>(value)); };
  const auto pointer = [&](AttentionSource source, runtime::View memory, DType type) {
    arguments.add(source, [&] { return runtime::pointer(memory, type); });
  };
  const auto heads = [&](const Operand& t, AttentionSource own, int64_t in_rows) {
    arguments.add(source_of(t, own), [&] { return heads_tensor(t, in_rows); });
  };
  heads(a.q, from_q, o.heads_in_rows);
  heads(a.k, from_k, 1);
  heads(a.v, from_v, 1);
  if (!o.packed) heads(a.o, from_o, o.heads_in_rows);
  if (o.lse) pointer(from_lse, p.lse, DType::f32);
  number(a.size.queries);
  if (!o.packed) number(a.size.keys);
  for (const int64_t value : {a.size.heads, a.size.batches, a.size.group}) number(value);
  scalar(from_scale, scale_of(p));
  if (o.causal) scalar(from_none, a.size.visible);
  if (takes_longest_first(o)) number(plan.together);
  if (o.window) scalar(from_none, a.size.hidden);
#define PTXBUILDER_ATTENTION_STEP(name, rule, meaning) \
  if (o.name) scalar(from_##name, p.name);
#include "kernels/attention/attention.def"
  if (o.packed) {
    pointer(source_of(a.o, from_o), a.o.memory, o.type);
    for (const size_t d : {kRows, kHeads}) scalar(from_none, static_cast<uint64_t>(a.o.outer[d].stride));
    pointer(from_query_offsets, p.query_offsets, DType::u32);
    pointer(from_key_offsets, p.key_offsets, DType::u32);
    if (plan.ordered > 0) pointer(from_workspace, order, DType::u32);
  }
  for (const runtime::Argument& one : p.score) arguments.add(from_none, [&] { return one; });
  // May begin before the launch ahead of it has ended: the kernel waits for that before it reads or writes.
  launches.queue(*plan.kernel, {.programmatic_dependent_launch = plan.tile.overlaps}, arguments);
}

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
