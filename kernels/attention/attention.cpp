#include "kernels/attention/attention.h"

#include <array>
#include <bit>
#include <cmath>
#include <mutex>

#include "kernels/attention/attention_check.h"
#include "kernels/attention/order.h"
#include "kernels/call/kernel_cache.h"
#include "kernels/call/plans.h"
#include "kernels/call/prepared_calls.h"
#include "runtime/lazy.h"

namespace ptxbuilder::kernels {
namespace {

constexpr char kName[] = "attention";
constexpr size_t kZeros = 512;        // bytes: a row of K or V, where there are no keys
constexpr int64_t kColumns = 16;      // that the columns of a copy are a multiple of, as the kernel's
constexpr int64_t kMostBatches = 16;  // of a call that is prepared though each takes a copy of its own

using Key = std::array<uint64_t, 8>;

Key key_of(const AttentionOperation& o, const AttentionSize& s) {
  const auto pair = [](auto low, auto high) {
    return static_cast<uint64_t>(static_cast<uint32_t>(low)) | static_cast<uint64_t>(high) << 32;
  };
  uint64_t flags = uint64_t{o.type == DType::bf16};
  for (const bool flag : {o.causal, o.window, o.packed, o.lse}) flags = flags << 1 | uint64_t{flag};
#define PTXBUILDER_ATTENTION_STEP(name, rule, meaning) flags = flags << 1 | uint64_t{o.name};
#include "kernels/attention/attention.def"
  return {flags,
          pair(o.depth, o.value_depth | o.heads_in_rows << 16),
          static_cast<uint64_t>(s.queries),
          static_cast<uint64_t>(s.keys),
          static_cast<uint64_t>(s.heads),
          static_cast<uint64_t>(s.batches),
          static_cast<uint64_t>(s.group),
          pair(s.visible, s.hidden)};
}

// What differs between calls of one form: from_q, from_scale and so on.
enum Source : size_t {
  from_none = SourcedArguments::kNone,
  from_workspace,
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) from_##name,
#define PTXBUILDER_ATTENTION_NUMBER(name, rule, meaning) from_##name,
#include "kernels/attention/attention.def"
  kSources
};

float scale_of(const AttentionArguments& p) {
  return p.scale > 0 ? p.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(p.depth)));
}

const runtime::View& memory_of(const DeviceHeads& heads) { return heads.memory; }
const runtime::View& memory_of(const runtime::View& rows) { return rows; }

std::array<uint64_t, kSources> sources_of(const AttentionArguments& p) {
  std::array<uint64_t, kSources> all = {0, p.workspace.address};
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) all[from_##name] = memory_of(p.name).address;
#define PTXBUILDER_ATTENTION_NUMBER(name, rule, meaning) all[from_##name] = std::bit_cast<uint32_t>(p.name);
#include "kernels/attention/attention.def"
  all[from_scale] = std::bit_cast<uint32_t>(scale_of(p));
  return all;
}

// All of a call but its sources and the stream.
constexpr size_t kFormWords = 8
#define PTXBUILDER_ATTENTION_HEADS(name, word, is_written) +4
#define PTXBUILDER_ATTENTION_ROWS(name, word, is_written) +1
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) +1
#include "kernels/attention/attention.def"
    ;
auto words_of(const AttentionArguments& p) {
  return [&p](auto&& take) {
    size_t at = 0;
    const auto add = [&](auto value) { take(at++, static_cast<uint64_t>(value)); };
    auto flags = static_cast<uint64_t>(p.type);
    for (const int64_t number :
         {p.batches, p.heads, p.key_heads, p.depth, p.value_depth, p.query_rows, p.key_rows})
      add(number);
#define PTXBUILDER_ATTENTION_HEADS(name, word, is_written) \
  add(p.name.memory.bytes), add(p.name.row_stride), add(p.name.head_stride), add(p.name.batch_stride);
#define PTXBUILDER_ATTENTION_ROWS(name, word, is_written) \
  add(p.name.bytes), flags = flags << 1 | uint64_t{p.name.address != 0};
#define PTXBUILDER_ATTENTION_STEP(name, rule, meaning) flags = flags << 1 | uint64_t{p.name > 0};
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) add(p.name);
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) flags = flags << 1 | uint64_t{p.name};
#include "kernels/attention/attention.def"
    add(flags);
  };
}

// Whether addresses and numbers leave no doubt, so that a call is right where another of its form is: tensors
// are there and aligned to what TMA wants, numbers are in their ranges, and what is written lies apart from
// all else.
bool is_plain(const AttentionArguments& p) {
  const runtime::View& w = p.workspace;
  bool plain = p.score.empty() && w.address % kTma == 0 && (w.address != 0 || w.bytes == 0);
#define PTXBUILDER_ATTENTION_HEADS(name, word, is_written) \
  plain &= p.name.memory.address != 0 && p.name.memory.address % kTma == 0;
#define PTXBUILDER_ATTENTION_ROWS(name, word, is_written) plain &= p.name.address % 4 == 0;
#define PTXBUILDER_ATTENTION_NUMBER(name, rule, meaning) plain &= is_number(p.name);
#include "kernels/attention/attention.def"
  const std::array all = {
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) std::pair(&memory_of(p.name), is_written),
#include "kernels/attention/attention.def"
      std::pair(&w, 1)};
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (all[i].second || all[k].second) plain &= lie_apart(*all[i].first, *all[k].first);
  return plain;
}

int64_t copied_columns(const Operand& t) { return round_up(t.columns, kColumns); }

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
        zeros_(runtime::Buffer::of(device, std::array<uint8_t, kZeros>{})) {}

  void operator()(const AttentionArguments& arguments, Where where);
  size_t workspace_bytes(const AttentionArguments& arguments, Where where);

 private:
  // What was found for a size that is known.
  struct Plan {
    runtime::LoadedKernel* kernel;
    int64_t together;
    bool overlaps;  // see AttentionTile
    int ordered;    // rows of the blocks whose order an AttentionOrder says; 0 without one
  };
  // A call as it was asked for: all that is known before anything is queued.
  struct Request {
    PlacedAttention placed;
    Plan plan;
    size_t order_bytes = 0, bytes = 0;  // of workspace, and of all of it
    uint64_t number = 0;                // of prepared_, when the plan was looked up
  };
  class Launching;

  // A score is told which query of which head it is.
  bool heads_as_rows() const { return !options_.score.function; }
  Request request(const AttentionArguments& arguments, Where where);
  Plan plan(const PlacedAttention& a, Where where);
  runtime::LoadedKernel& kernel(const AttentionOperation& operation, const AttentionTile& tile);
  runtime::LoadedKernel& order_kernel() {
    return order_.get([&] { return load(device_, compiler_, attention_order()); });
  }

  runtime::Device& device_;
  AttentionOptions options_;
  int multiprocessors_;
  Compiler compiler_;
  MatrixCopier copy_;
  runtime::Buffer zeros_;
  std::mutex choosing_;
  KernelCache<AttentionOperation, AttentionTile> kernels_;
  runtime::Lazy<runtime::LoadedKernel> order_;
  Plans<std::tuple_size_v<Key>, Plan> plans_;
  PreparedCalls<kFormWords> prepared_;
};

// Queues the launches of a call, and keeps them where those of its form may be prepared.
class Attention::State::Launching {
 public:
  Launching(State& state, const Request& request, const AttentionArguments& p, Where where)
      : state_(state),
        plan_(request.plan),
        p_(p),
        where_(where),
        bytes_(request.bytes),
        sources_(sources_of(p)),
        keeps_(is_plain(p) && (request.bytes == request.order_bytes ||
                               request.placed.o.outer[kBatches].extent <= kMostBatches)) {}

  void copy(const Operand& from, Source from_source, const Operand& to, Source to_source);
  // Not before the launch ahead of it has ended, which may still count.
  void order(runtime::View order);
  void attention(PlacedAttention& a, runtime::View order);
  void keep(uint64_t number) {
    if (keeps_) state_.prepared_.add(words_of(p_), std::move(call_), number);
  }

 private:
  void launch(runtime::LoadedKernel& kernel, const runtime::LaunchOptions& options,
              SourcedArguments& arguments) {
    kernel.launch(options, arguments.list(), where_);
    if (keeps_) call_.add(kernel, options, arguments, where_);
  }
  // The operand's own, unless it is in the workspace, or stands for one without elements.
  Source source_of(const Operand& t, Source own) const {
    const bool is_moved = t.memory.address - p_.workspace.address < bytes_;
    return is_moved ? from_workspace : t.memory.address == state_.zeros_.address() ? from_none : own;
  }

  State& state_;
  const Plan& plan_;
  const AttentionArguments& p_;
  Where where_;
  size_t bytes_;
  std::array<uint64_t, kSources> sources_;
  bool keeps_;
  PreparedCall call_;
};

Attention::State::Request Attention::State::request(const AttentionArguments& p, Where where) {
  Request r;
  r.number = prepared_.number();
  r.placed = checked(p, heads_as_rows(), where);
  if (r.placed.is_empty) return r;
  r.plan = plan(r.placed, where);
  if (r.plan.ordered > 0)
    r.order_bytes = static_cast<size_t>(
        round_up(static_cast<int64_t>(AttentionOrder::bytes(p.query_rows, p.batches, r.plan.ordered)),
                 kPartAlignment));
  r.bytes = r.order_bytes;
  for_each_moved(
      r.placed, [&](const Operand& t, Source) { r.bytes += kernels::workspace_bytes(t, copied_columns(t)); });
  return r;
}

size_t Attention::State::workspace_bytes(const AttentionArguments& p, Where where) {
  Request r = request(p, where);
  if (r.placed.is_empty) return 0;
  for_each_moved(r.placed, [&](const Operand& t, Source) {
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
  Launching launching(*this, r, p, where);
  const Operand o = a.o;
  runtime::Address workspace = p.workspace.address;
  for_each_moved(a, [&](Operand& t, Source source) {
    Operand near = padded(t, copied_columns(t));
    near.memory.address = workspace;
    workspace += kernels::workspace_bytes(t, copied_columns(t));
    if (source != from_o) launching.copy(t, source, near, from_workspace);
    t = near;
  });
  const runtime::View order = {workspace, r.order_bytes};
  if (r.order_bytes > 0) launching.order(order);
  launching.attention(a, order);
  if (a.o.memory.address != o.memory.address) launching.copy(a.o, from_workspace, o, from_o);
  launching.keep(r.number);
}

Attention::State::Plan Attention::State::plan(const PlacedAttention& a, Where where) {
  return plans_.get(key_of(a.operation, a.size), [&] {
    AttentionTile tile;
    {
      const std::lock_guard lock(choosing_);
      tile = options_.choose(a.operation, a.size, multiprocessors_);
    }
    check(a.operation, tile, where);
    if (tile.whole && (a.size.keys == 0 || a.size.keys % tile.bn != 0))
      throw Error(where, "attention: tile " + text(tile) + " for " + std::to_string(a.size.keys) +
                             " keys, which are no whole blocks: choose one without 'whole'");
    const Plan found = {&kernel(a.operation, tile),
                        heads_together(a.operation, a.size, tile, multiprocessors_), tile.overlaps,
                        a.operation.packed && tile.ahead ? tile.bm() : 0};
    if (found.ordered > 0) order_kernel();
    return found;
  });
}

runtime::LoadedKernel& Attention::State::kernel(const AttentionOperation& operation,
                                                const AttentionTile& tile) {
  return kernels_.get(operation, tile, [&] {
    Kernel made = attention(operation, tile, options_.score, options_.multiprocessors);
    // A form whose tile was not measured may want more registers than there are: a slower result is better
    // than none.
    for (const char* advisory : {"spills", "stack"}) made.waive(advisory);
    return std::make_unique<runtime::LoadedKernel>(load(device_, compiler_, std::move(made)));
  });
}

void Attention::State::Launching::copy(const Operand& from, Source from_source, const Operand& to,
                                       Source to_source) {
  for (const MatrixCopy& one : copies_of(from, to)) {
    const CopyLaunch copy = state_.copy_.launch_of({&one, 1}, p_.stream);
    SourcedArguments arguments(sources_, kCopyParameters);
    for (size_t i = 0; i < copy.arguments.size(); ++i)  // from and to come first
      arguments.add(i == 0 ? from_source : i == 1 ? to_source : from_none, [&] { return copy.arguments[i]; });
    launch(*copy.kernel, copy.options, arguments);
  }
}

void Attention::State::Launching::order(runtime::View order) {
  SourcedArguments arguments(sources_, 5);
  arguments.add(from_query_offsets, [&] { return runtime::pointer(p_.query_offsets, DType::u32); });
  arguments.add(from_key_offsets, [&] { return runtime::pointer(p_.key_offsets, DType::u32); });
  arguments.add(from_workspace, [&] { return runtime::pointer(order, DType::u32); });
  for (const int64_t value : {p_.batches, int64_t{plan_.ordered}})
    arguments.add(from_none, [&] { return runtime::scalar(static_cast<uint32_t>(value)); });
  launch(state_.order_kernel(), {.stream = p_.stream}, arguments);
}

void Attention::State::Launching::attention(PlacedAttention& a, runtime::View order) {
  for (Operand* t : {&a.k, &a.v})
    if (t->is_empty()) {  // a row that no query sees
      for (Operand::Dimension& d : t->outer) d.extent = 1;
      t->memory = state_.zeros_;
    }
  const AttentionOperation& o = a.operation;
  SourcedArguments arguments(sources_, 20 + p_.score.size());
  const auto scalar = [&](Source source, auto value) {
    arguments.add(source, [&] { return runtime::scalar(value); });
  };
  const auto number = [&](int64_t value) { scalar(from_none, static_cast<uint32_t>(value)); };
  const auto pointer = [&](Source source, runtime::View memory, DType type) {
    arguments.add(source, [&] { return runtime::pointer(memory, type); });
  };
  const auto heads = [&](const Operand& t, Source own, int64_t in_rows) {
    arguments.add(source_of(t, own), [&] { return heads_tensor(t, in_rows); });
  };
  heads(a.q, from_q, o.heads_in_rows);
  heads(a.k, from_k, 1);
  heads(a.v, from_v, 1);
  if (!o.packed) heads(a.o, from_o, o.heads_in_rows);
  if (o.lse) pointer(from_lse, p_.lse, DType::f32);
  number(a.size.queries);
  if (!o.packed) number(a.size.keys);
  for (const int64_t value : {a.size.heads, a.size.batches, a.size.group}) number(value);
  scalar(from_scale, scale_of(p_));
  if (o.causal) scalar(from_none, a.size.visible);
  if (takes_longest_first(o)) number(plan_.together);
  if (o.window) scalar(from_none, a.size.hidden);
#define PTXBUILDER_ATTENTION_STEP(name, rule, meaning) \
  if (o.name) scalar(from_##name, p_.name);
#include "kernels/attention/attention.def"
  if (o.packed) {
    pointer(source_of(a.o, from_o), a.o.memory, o.type);
    for (const size_t d : {kRows, kHeads}) scalar(from_none, static_cast<uint64_t>(a.o.outer[d].stride));
    pointer(from_query_offsets, p_.query_offsets, DType::u32);
    pointer(from_key_offsets, p_.key_offsets, DType::u32);
    if (plan_.ordered > 0) pointer(from_workspace, order, DType::u32);
  }
  for (const runtime::Argument& one : p_.score) arguments.add(from_none, [&] { return one; });
  // May begin before the launch ahead of it has ended: the kernel waits for that before it reads or writes.
  launch(*plan_.kernel, {.programmatic_dependent_launch = plan_.overlaps, .stream = p_.stream}, arguments);
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

}  // namespace ptxbuilder::kernels
