#include "kernels/gemm/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "kernels/gemm/kernel.h"
#include "kernels/gemm/matmul_check.h"
#include "kernels/gemm/scheduler.h"

namespace ptxbuilder::kernels {
namespace {

constexpr size_t kMostPlans = 1 << 16;           // then all are forgotten: their kernels stay
constexpr size_t kAlignment = 256;               // bytes, of a matrix in the workspace
constexpr int64_t kTilesEnd = int64_t{1} << 31;  // of a kernel's indices

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

struct PlanKey {
  GemmOperation operation;
  GemmSize size;

  bool operator==(const PlanKey& other) const {
    return operation == other.operation && size.m == other.size.m && size.n == other.size.n &&
           size.k == other.size.k && size.batches == other.size.batches;
  }
};

struct PlanKeyHash {
  size_t operator()(const PlanKey& p) const {
    const GemmOperation& o = p.operation;
    uint64_t hash = 0;
    auto add = [&](auto value) {  // the constant of Fibonacci hashing (Knuth, volume 3, 6.4)
      hash = (hash ^ (hash >> 29) ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
    };
    for (int64_t extent : {p.size.m, p.size.n, p.size.k, p.size.batches}) add(extent);
    for (DType type : {o.a, o.b, o.d}) add(type);
    for (bool flag : {o.a_k_major, o.b_k_major, o.fast_accumulation, o.alpha, o.beta, o.bias, o.batched})
      add(flag);
    add(o.activation);
    return hash ^ (hash >> 32);
  }
};

// Rows at multiples of 16 bytes, one batch behind the other.
MatrixPlace padded(const PlacedMatrix& o) {
  MatrixPlace place;
  place.stride = round_up(o.shape.columns, 16 / o.element_bytes());
  place.batch_stride = place.stride * o.shape.rows;
  place.memory.bytes = static_cast<size_t>(place.batch_stride * o.shape.batches * o.element_bytes());
  return place;
}

// The kernel finds a batch of C m strides behind the one before.
bool batches_touch(const PlacedMatrix& c) {
  return c.shape.batches == 1 || c.place.batch_stride == c.place.stride * c.shape.rows;
}

// For a tensor map: columns, rows, and batches where there are several.
runtime::Argument tensor(const PlacedMatrix& o) {
  const auto bytes = static_cast<uint64_t>(o.element_bytes());
  std::array<uint64_t, 3> shape = {static_cast<uint64_t>(o.shape.columns),
                                   static_cast<uint64_t>(o.shape.rows),
                                   static_cast<uint64_t>(o.shape.batches)};
  std::array<uint64_t, 2> strides = {static_cast<uint64_t>(o.place.stride) * bytes,
                                     static_cast<uint64_t>(o.place.batch_stride) * bytes};
  // A stride that is never taken: any legal one.
  if (o.shape.rows == 1) strides[0] = (shape[0] * bytes + 15) / 16 * 16;
  const size_t rank = o.shape.batches > 1 ? 3 : 2;
  return runtime::tensor(o.place.memory, o.type, std::span(shape).first(rank),
                         std::span(strides).first(rank - 1));
}

// Throws Error, at the caller's line, for types and storage that no tile can serve.
void check_operation(const GemmOperation& operation, Where where) {
  GemmTile smallest;
  smallest.bm = 64;
  smallest.bn = 16;
  smallest.consumers = 1;
  checked(operation, smallest, where);
}

void check_tiles(const GemmTile& tile, const GemmSize& size, Where where) {
  auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t x = ceil_div(tile.swapped ? size.n : size.m, tile.bm) + tile.cluster_m - 1,
                y = ceil_div(tile.swapped ? size.m : size.n, tile.bn) + tile.cluster_n - 1;
  if (static_cast<__int128>(x) * y * size.batches * tile.split_k >= kTilesEnd)
    throw Error(where, fmt::format("matmul: {} batches of {} x {} are {} x {} tiles each; a launch has less "
                                   "than 2^31: divide the batches",
                                   size.batches, size.m, size.n, x, y));
}

}  // namespace

class Matmul::State {
 public:
  State(runtime::Device& device, MatmulOptions options)
      : device_(device),
        options_(std::move(options)),
        multiprocessors_(options_.multiprocessors > 0 ? options_.multiprocessors
                                                      : device.properties().multiprocessors),
        compiler_(compiler_for(device, options_.compiler)),
        copy_(device, compiler_) {}

  void operator()(const MatmulArguments& arguments, Where where);
  size_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  struct Plan {
    runtime::LoadedKernel* kernel;
    runtime::Dim3 grid;
    bool overlaps;  // see GemmTile
  };
  struct Known {
    GemmOperation operation;
    GemmTile tile;
    std::unique_ptr<runtime::LoadedKernel> kernel;
  };

  const Plan& plan(const PlanKey& key, Where where);
  runtime::LoadedKernel& kernel(const GemmOperation& operation, const GemmTile& tile);
  PlacedMatrices placed(PlacedMatrices operands);
  void launch(const Plan& plan, const PlanKey& key, const PlacedMatrices& operands,
              const MatmulArguments& arguments);
  const runtime::Buffer& zeros();

  runtime::Device& device_;
  MatmulOptions options_;
  int multiprocessors_;
  Compiler compiler_;
  MatrixCopy copy_;
  std::vector<Known> kernels_;
  std::unordered_map<PlanKey, Plan, PlanKeyHash> plans_;
  runtime::Buffer workspace_, zeros_;
};

void Matmul::State::operator()(const MatmulArguments& p, Where where) {
  const PlacedMatrices operands = checked(p, where);
  PlanKey key = {operation_of(p), {p.m, p.n, p.k, p.batches}};
  if (p.m == 0 || p.n == 0 || p.batches == 0) return check_operation(key.operation, where);
  if (!operands.has_product) key.size.k = 1;  // one step over zeros
  const Plan& chosen = plan(key, where);
  const PlacedMatrices near = placed(operands);
  launch(chosen, key, near, p);
  if (near.d.place.memory.address != operands.d.place.memory.address)
    copy_(operands.d.shape, operands.d.element_bytes(), near.d.place, operands.d.place);
}

const Matmul::State::Plan& Matmul::State::plan(const PlanKey& key, Where where) {
  if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
  const auto& [operation, size] = key;
  check_operation(operation, where);
  const GemmTile tile = checked(operation, options_.choose(operation, size, multiprocessors_), where);
  check_tiles(tile, size, where);
  const GemmGrid grid = gemm_grid(tile, size.m, size.n, size.batches, multiprocessors_);
  if (plans_.size() >= kMostPlans) plans_.clear();
  return plans_.emplace(key, Plan{&kernel(operation, tile), {grid.x, grid.y}, tile.overlaps}).first->second;
}

runtime::LoadedKernel& Matmul::State::kernel(const GemmOperation& operation, const GemmTile& tile) {
  for (const Known& k : kernels_)
    if (k.operation == operation && k.tile == tile) return *k.kernel;
  std::unique_ptr<runtime::LoadedKernel> fresh;
  if (options_.load) {
    fresh = options_.load(operation, tile);
  } else {
    Kernel made = gemm(operation, tile);
    // A tile that suits the plain product may want more registers than there are beside an epilogue: a slower
    // result is better than none.
    waive_lack_of_registers(made);
    fresh = std::make_unique<runtime::LoadedKernel>(load(device_, compiler_, std::move(made)));
  }
  return *kernels_.emplace_back(Known{operation, tile, std::move(fresh)}).kernel;
}

// The matrices where a kernel takes them, with copies queued for those that lie elsewhere.
PlacedMatrices Matmul::State::placed(PlacedMatrices o) {
  std::array<PlacedMatrix*, 4> moved = {};
  size_t count = 0, bytes = 0;
  auto move_if = [&](bool needed, PlacedMatrix& operand) {
    if (!needed) return;
    moved[count++] = &operand;
    bytes += static_cast<size_t>(round_up(static_cast<int64_t>(padded(operand).memory.bytes), kAlignment));
  };
  if (o.has_product) {
    move_if(!o.a.aligned_for_tma(), o.a);
    move_if(!o.b.aligned_for_tma(), o.b);
  }
  move_if(o.c.place.memory.address != 0 && !batches_touch(o.c), o.c);
  move_if(!o.d.stored_by_tma(), o.d);
  if (workspace_.bytes() < bytes) {
    workspace_ = {};  // first: both may not fit
    workspace_ = runtime::Buffer(device_, bytes);
  }
  size_t offset = 0;
  for (PlacedMatrix* operand : std::span(moved).first(count)) {
    MatrixPlace near = padded(*operand);
    near.memory = workspace_.part(offset, near.memory.bytes);
    offset += static_cast<size_t>(round_up(static_cast<int64_t>(near.memory.bytes), kAlignment));
    if (operand != &o.d) copy_(operand->shape, operand->element_bytes(), operand->place, near);
    operand->place = near;
  }
  if (!o.has_product)
    for (PlacedMatrix* operand : {&o.a, &o.b}) {
      // All but one element lie outside, where TMA reads zeros.
      operand->shape = {1, 1, o.d.shape.batches > 1 ? 2 : 1};
      operand->place.memory = zeros();
      operand->place.batch_stride = 16 / operand->element_bytes();
    }
  return o;
}

void Matmul::State::launch(const Plan& plan, const PlanKey& key, const PlacedMatrices& o,
                           const MatmulArguments& p) {
  std::array<runtime::Argument, 12> arguments;
  size_t count = 0;
  auto add = [&](const runtime::Argument& argument) { arguments[count++] = argument; };
  auto number = [](int64_t value) { return runtime::scalar(static_cast<uint32_t>(value)); };
  for (const PlacedMatrix* operand : {&o.a, &o.b, &o.d}) add(tensor(*operand));
  for (int64_t extent : {p.m, p.n, key.size.k}) add(number(extent));
  const GemmOperation& operation = key.operation;
  if (operation.alpha) add(runtime::scalar(p.alpha));
  if (operation.beta) {
    add(runtime::scalar(p.beta));
    add(runtime::pointer(o.c.place.memory, o.c.type));
    add(number(o.c.place.stride));
  }
  if (operation.bias) add(runtime::pointer(p.bias, operation.d));
  if (operation.batched) add(number(p.batches));
  // May begin before the launch ahead of it has ended: the kernel waits for that before it reads or writes.
  plan.kernel->launch({.grid = plan.grid, .programmatic_dependent_launch = plan.overlaps},
                      std::span(arguments).first(count));
}

const runtime::Buffer& Matmul::State::zeros() {
  if (zeros_.bytes() == 0) {
    zeros_ = runtime::Buffer(device_, 32);
    zeros_.fill(0);
  }
  return zeros_;
}

Matmul::Matmul(runtime::Device& device, MatmulOptions options)
    : state_(std::make_unique<State>(device, std::move(options))) {}
Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;
Matmul& Matmul::operator=(Matmul&&) noexcept = default;

void Matmul::operator()(const MatmulArguments& arguments, Where where) { (*state_)(arguments, where); }
size_t Matmul::workspace_bytes() const { return state_->workspace_bytes(); }

}  // namespace ptxbuilder::kernels
