#include "kernels/attention/attention.h"

#include <array>
#include <cmath>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "kernels/attention/attention_check.h"
#include "kernels/attention/order.h"
#include "kernels/gemm/copy_matrix.h"
#include "kernels/gemm/words_hash.h"
#include "runtime/lazy.h"

namespace ptxbuilder::kernels {
namespace {

constexpr size_t kMostPlans = 1 << 16;  // then all are forgotten: their kernels stay
constexpr uint64_t kAlignment = 256;    // bytes, of each part of the workspace
constexpr size_t kZeros = 512;          // bytes: a row of K or V, where there are no keys
constexpr int64_t kColumns = 16;        // that the columns of a copy are a multiple of, as the kernel's

using Key = std::array<uint64_t, 8>;

Key key_of(const AttentionOperation& o, const AttentionSize& s) {
  const auto pair = [](auto low, auto high) {
    return static_cast<uint64_t>(static_cast<uint32_t>(low)) | static_cast<uint64_t>(high) << 32;
  };
  const uint64_t flags = uint64_t{o.type == DType::bf16} | uint64_t{o.causal} << 1 | uint64_t{o.window} << 2 |
                         uint64_t{o.softcap} << 3 | uint64_t{o.packed} << 4 | uint64_t{o.lse} << 5;
  return {flags,
          pair(o.depth, o.value_depth | o.heads_in_rows << 16),
          static_cast<uint64_t>(s.queries),
          static_cast<uint64_t>(s.keys),
          static_cast<uint64_t>(s.heads),
          static_cast<uint64_t>(s.batches),
          static_cast<uint64_t>(s.group),
          pair(s.visible, s.hidden)};
}

// The same rows one behind the other, of as many columns as the kernel has.
PlacedHeads padded(const PlacedHeads& t) {
  PlacedHeads p = t;
  p.row_stride = (t.columns + kColumns - 1) / kColumns * kColumns;
  p.head_stride = p.row_stride * t.rows;
  p.batch_stride = p.head_stride * t.heads;
  p.memory.bytes = static_cast<size_t>(p.batch_stride * t.batches * size_of(t.type));
  return p;
}

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
size_t workspace_of(const PlacedHeads& t) { return aligned(padded(t).memory.bytes); }

// Calls `work` with the tensors that the kernel cannot take where they lie. In the workspace they lie one
// behind the other.
template <class Work>
void for_each_moved(PlacedAttention& a, Work&& work) {
  for (PlacedHeads* t : {&a.q, &a.k, &a.v})
    if (!t->is_empty() && !t->aligned_for_tma()) work(*t);
  if (!a.stores_in_place()) work(a.o);
}

// For a tensor map: columns, rows, heads, batches; with `heads_in_rows` above 1 columns, these heads, rows,
// groups of them, batches.
runtime::Argument tensor(const PlacedHeads& t, int64_t heads_in_rows = 1) {
  const auto bytes = static_cast<uint64_t>(size_of(t.type));
  std::vector<uint64_t> shape = {static_cast<uint64_t>(t.columns)}, strides;
  const auto add = [&](int64_t count, int64_t stride) {
    shape.push_back(static_cast<uint64_t>(count));
    // A stride that is never taken: any legal one.
    strides.push_back(count > 1 ? static_cast<uint64_t>(stride) * bytes : (shape[0] * bytes + 15) / 16 * 16);
  };
  if (heads_in_rows > 1) add(heads_in_rows, t.head_stride);
  add(t.rows, t.row_stride);
  add(t.heads / heads_in_rows, t.head_stride * heads_in_rows);
  add(t.batches, t.batch_stride);
  return runtime::tensor(t.memory, t.type, shape, strides);
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
  struct Known {
    AttentionOperation operation;
    AttentionTile tile;
    runtime::Lazy<runtime::LoadedKernel> kernel;
  };

  // What was found for a size that is known.
  struct Plan {
    runtime::LoadedKernel* kernel;
    int64_t together;
    bool overlaps;  // see AttentionTile
    int ordered;    // rows of the blocks whose order an AttentionOrder says; 0 without one

    size_t order_bytes(const AttentionArguments& p) const {
      return ordered > 0 ? aligned(AttentionOrder::bytes(p.query_rows, p.batches, ordered)) : 0;
    }
  };

  // A score is told which query of which head it is.
  bool heads_as_rows() const { return !options_.score.function; }
  Plan plan(const PlacedAttention& a, Where where);
  runtime::LoadedKernel& kernel(const AttentionOperation& operation, const AttentionTile& tile);
  void copy(const PlacedHeads& from, const PlacedHeads& to, runtime::Stream stream);
  void launch_order(const Plan& plan, const AttentionArguments& p, runtime::View order);
  void launch(const Plan& plan, PlacedAttention& a, const AttentionArguments& p, runtime::View order,
              Where where);

  runtime::Device& device_;
  AttentionOptions options_;
  int multiprocessors_;
  Compiler compiler_;
  MatrixCopier copy_;
  runtime::Buffer zeros_;
  std::mutex choosing_;
  std::shared_mutex mutex_;  // of the rest
  std::vector<std::unique_ptr<Known>> kernels_;
  runtime::Lazy<runtime::LoadedKernel> order_;
  std::unordered_map<Key, Plan, WordsHash> plans_;
};

size_t Attention::State::workspace_bytes(const AttentionArguments& p, Where where) {
  PlacedAttention a = checked(p, heads_as_rows(), where);
  if (a.o.is_empty() || p.batches == 0 || p.queries == 0) return 0;
  size_t bytes = plan(a, where).order_bytes(p);
  for_each_moved(a, [&](const PlacedHeads& t) {
    bytes += workspace_of(t);
    MatrixCopy copy;
    copy.element_bytes = size_of(t.type);
    copy_.prepare({&copy, 1});
  });
  return bytes;
}

void Attention::State::operator()(const AttentionArguments& p, Where where) {
  PlacedAttention a = checked(p, heads_as_rows(), where);
  if (a.o.is_empty() || p.batches == 0 || p.queries == 0) return;
  const Plan found = plan(a, where);
  const size_t order_bytes = found.order_bytes(p);
  size_t bytes = order_bytes;
  for_each_moved(a, [&](const PlacedHeads& t) { bytes += workspace_of(t); });
  check_workspace(p, a, bytes, where);
  const PlacedHeads o = a.o;
  runtime::Address workspace = p.workspace.address;
  for_each_moved(a, [&](PlacedHeads& t) {
    PlacedHeads near = padded(t);
    near.memory.address = workspace;
    workspace += workspace_of(t);
    if (&t != &a.o) copy(t, near, p.stream);
    t = near;
  });
  const runtime::View order = {workspace, order_bytes};
  if (order_bytes > 0) launch_order(found, p, order);
  launch(found, a, p, order, where);
  if (a.o.memory.address != o.memory.address) copy(a.o, o, p.stream);
}

void Attention::State::copy(const PlacedHeads& from, const PlacedHeads& to, runtime::Stream stream) {
  const auto place = [](const PlacedHeads& t, int64_t batch) {
    const auto skipped = static_cast<uint64_t>(batch * t.batch_stride * size_of(t.type));
    return MatrixPlace{{t.memory.address + skipped, t.memory.bytes - skipped}, t.row_stride, t.head_stride};
  };
  for (int64_t batch = 0; batch < from.batches; ++batch)
    copy_({{from.rows, from.columns, from.heads}, size_of(from.type), place(from, batch), place(to, batch)},
          stream);
}

Attention::State::Plan Attention::State::plan(const PlacedAttention& a, Where where) {
  const Key key = key_of(a.operation, a.size);
  {
    const std::shared_lock lock(mutex_);
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
  }
  AttentionTile tile;
  {
    const std::lock_guard lock(choosing_);
    tile = options_.choose(a.operation, a.size, multiprocessors_);
  }
  check(a.operation, tile, where);
  if (tile.whole && (a.size.keys == 0 || a.size.keys % tile.bn != 0))
    throw Error(where, "attention: tile " + text(tile) + " for " + std::to_string(a.size.keys) +
                           " keys, which are no whole blocks: choose one without 'whole'");
  const Plan found = {&kernel(a.operation, tile), heads_together(a.operation, a.size, tile, multiprocessors_),
                      tile.overlaps, a.operation.packed && tile.ahead ? tile.bm() : 0};
  if (found.ordered > 0) order_.get([&] { return load(device_, compiler_, attention_order()); });
  const std::lock_guard lock(mutex_);
  if (plans_.size() >= kMostPlans) plans_.clear();
  return plans_.emplace(key, found).first->second;
}

runtime::LoadedKernel& Attention::State::kernel(const AttentionOperation& operation,
                                                const AttentionTile& tile) {
  Known* known = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& k : kernels_)
      if (k->operation == operation && k->tile == tile) known = k.get();
    if (!known) {
      known = kernels_.emplace_back(std::make_unique<Known>()).get();
      known->operation = operation;
      known->tile = tile;
    }
  }
  // Those who want this kernel wait for the one who makes it, and others do not.
  return known->kernel.get([&] {
    Kernel made = attention(operation, tile, options_.score, options_.multiprocessors);
    // A form whose tile was not measured may want more registers than there are: a slower result is better
    // than none.
    for (const char* advisory : {"spills", "stack"}) made.waive(advisory);
    return load(device_, compiler_, std::move(made));
  });
}

// Not before the launch ahead of it has ended, which may still count.
void Attention::State::launch_order(const Plan& plan, const AttentionArguments& p, runtime::View order) {
  const auto number = [](int64_t value) { return runtime::scalar(static_cast<uint32_t>(value)); };
  order_.get([&] { return load(device_, compiler_, attention_order()); })
      .launch({.stream = p.stream},
              {runtime::pointer(p.query_offsets, DType::u32), runtime::pointer(p.key_offsets, DType::u32),
               runtime::pointer(order, DType::u32), number(p.batches), number(plan.ordered)});
}

void Attention::State::launch(const Plan& plan, PlacedAttention& a, const AttentionArguments& p,
                              runtime::View order, Where where) {
  for (PlacedHeads* t : {&a.k, &a.v})
    if (t->is_empty()) {  // a row that no query sees
      t->rows = t->heads = t->batches = 1;
      t->memory = zeros_;
    }
  const AttentionOperation& o = a.operation;
  runtime::ArgumentList arguments(20 + p.score.size());
  const auto number = [&](int64_t value) {
    arguments.add([&] { return runtime::scalar(static_cast<uint32_t>(value)); });
  };
  const auto pointer = [&](runtime::View memory, DType type) {
    arguments.add([&] { return runtime::pointer(memory, type); });
  };
  arguments.add([&] { return tensor(a.q, o.heads_in_rows); });
  for (const PlacedHeads* t : {&a.k, &a.v}) arguments.add([&] { return tensor(*t); });
  if (!o.packed) arguments.add([&] { return tensor(a.o, o.heads_in_rows); });
  if (o.lse) pointer(p.lse, DType::f32);
  number(a.size.queries);
  if (!o.packed) number(a.size.keys);
  for (const int64_t value : {a.size.heads, a.size.batches, a.size.group}) number(value);
  const float scale = p.scale > 0 ? p.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(p.depth)));
  arguments.add([&] { return runtime::scalar(scale); });
  if (o.causal) arguments.add([&] { return runtime::scalar(a.size.visible); });
  if (takes_longest_first(o)) number(plan.together);
  if (o.window) arguments.add([&] { return runtime::scalar(a.size.hidden); });
  if (o.softcap) arguments.add([&] { return runtime::scalar(p.softcap); });
  if (o.packed) {
    pointer(a.o.memory, o.type);
    for (const int64_t stride : {a.o.row_stride, a.o.head_stride})
      arguments.add([&] { return runtime::scalar(static_cast<uint64_t>(stride)); });
    pointer(p.query_offsets, DType::u32);
    pointer(p.key_offsets, DType::u32);
    if (plan.ordered > 0) pointer(order, DType::u32);
  }
  for (const runtime::Argument& one : p.score) arguments.add([&] { return one; });
  // May begin before the launch ahead of it has ended: the kernel waits for that before it reads or writes.
  plan.kernel->launch({.programmatic_dependent_launch = plan.overlaps, .stream = p.stream}, arguments, where);
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
