#include "kernels/gemm/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "kernels/call/fastest.h"
#include "kernels/gemm/kernel.h"
#include "kernels/gemm/matmul_check.h"
#include "kernels/gemm/prepared_products.h"
#include "kernels/gemm/scheduler.h"
#include "kernels/gemm/tuned_file.h"
#include "runtime/lazy.h"

namespace ptxbuilder::kernels {
namespace {

constexpr size_t kMostPlans = 1 << 16;            // then all are forgotten: their kernels stay
constexpr int64_t kAlignment = 256;               // bytes, of each part of the workspace
constexpr int64_t kRotated = 100'000'000;         // bytes of operands that tune() goes through, twice the L2
constexpr int64_t kMostSets = 16;                 // of operands
constexpr auto kLongest = std::chrono::hours(1);  // that tune() waits for the stream
constexpr int64_t kTilesEnd = int64_t{1} << 31;   // of a kernel's indices

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
    static_assert(std::has_unique_object_representations_v<GemmOperation>);
    std::array<uint64_t, 7> words = {static_cast<uint64_t>(p.size.m), static_cast<uint64_t>(p.size.n),
                                     static_cast<uint64_t>(p.size.k), static_cast<uint64_t>(p.size.batches)};
    static_assert(sizeof p.operation <= 3 * sizeof words[0]);
    std::memcpy(&words[4], &p.operation, sizeof p.operation);
    return WordsHash{}(words);
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
  smallest.bn = 32;
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
  using From = ProductArguments::From;
  static From from_operand(ProductOperand which) { return ProductArguments::from_operand(which); }

 public:
  State(runtime::Device& device, MatmulOptions options)
      : device_(device),
        options_(std::move(options)),
        multiprocessors_(options_.multiprocessors > 0 ? options_.multiprocessors
                                                      : device.properties().multiprocessors),
        compiler_(compiler_for(device, options_.compiler)),
        copy_(device, compiler_),
        tuned_(options_.tuned_file ? *options_.tuned_file
                                   : default_tuned_file(device.properties(), multiprocessors_),
               options_.warn),
        zeros_(runtime::Buffer::of(device, std::array<uint8_t, 32>{})) {
    if (!options_.choose)
      throw Error("MatmulOptions::choose is empty: leave it as it is, or give a function");
    if (!options_.epilogue.function && !options_.epilogue.parameters.empty())
      throw Error(fmt::format("MatmulOptions::epilogue has {} parameters and no function",
                              options_.epilogue.parameters.size()));
  }

  void operator()(const MatmulArguments& arguments, Where where);
  size_t workspace_bytes(const MatmulArguments& arguments, Where where);
  GemmTile tile(const MatmulArguments& arguments, Where where);
  void tune(const MatmulArguments& arguments, Where where);

 private:
  // What was found for a product that is known.
  struct Plan {
    runtime::LoadedKernel* kernel;
    runtime::Dim3 grid;
    bool overlaps;           // see GemmTile
    size_t workspace_bytes;  // the kernel's
    GemmTile tile;
    bool tuned = false;  // found by measuring
  };
  struct Known {
    GemmOperation operation;
    GemmTile tile;
    runtime::Lazy<std::unique_ptr<runtime::LoadedKernel>> kernel;
  };
  // A product as it was asked for: all that is known before anything is queued.
  struct Request {
    PlacedMatrices operands;
    PlanKey key;
    Plan plan;
    bool is_empty = false;
    size_t bytes = 0;     // of workspace
    uint64_t number = 0;  // of prepared_, when the plan was looked up
  };
  // An operand that is copied into the workspace before the kernel reads it.
  struct Moved {
    MatrixCopy copy;
    From from;
  };

  Request request(const MatmulArguments& arguments, Where where);
  Plan plan(const PlanKey& key, Where where);
  Plan plan_of(const PlanKey& key, const GemmTile& tile, Where where);
  bool has_clock() const { return options_.fastest || device_.properties().ordinal >= 0; }
  bool can_tune(const Request& request, runtime::Stream stream);
  void tune(const Request& request, const MatmulArguments& arguments, size_t most_workspace, Where where);
  GemmTile measured(const Request& request, const MatmulArguments& arguments, size_t most_workspace,
                    Where where);
  runtime::LoadedKernel& kernel(const GemmOperation& operation, const GemmTile& tile);
  std::vector<Moved> place(PlacedMatrices& operands, runtime::Address workspace) const;
  PlacedMatrix outside(PlacedMatrix matrix) const;
  void add_arguments(const Request& request, const MatmulArguments& p, ProductArguments& arguments) const;
  void launch(const Request& request, const std::vector<Moved>& moved, const MatmulArguments& arguments,
              Where where);

  runtime::Device& device_;
  MatmulOptions options_;
  int multiprocessors_;
  Compiler compiler_;
  MatrixCopier copy_;
  TunedFile tuned_;
  runtime::Buffer zeros_;
  PreparedProducts prepared_;
  std::mutex choosing_, tuning_;
  std::shared_mutex mutex_;  // of the rest
  std::vector<std::unique_ptr<Known>> kernels_;
  std::unordered_map<PlanKey, Plan, PlanKeyHash> plans_;
};

// Calls `work` with the matrices that a kernel cannot take where they lie. In the workspace they lie one
// behind the other, behind what is the kernel's.
template <class Work>
void for_each_moved(PlacedMatrices& o, Work&& work) {
  if (o.has_product)
    for (PlacedMatrix* operand : {&o.a, &o.b})
      if (!operand->aligned_for_tma()) work(*operand);
  PlacedMatrix& c = o.operands[ProductOperand::c];
  if (c.place.memory.address != 0 && !c.batches_touch()) work(c);
  if (o.d.out_of_reach()) work(o.d);
}

size_t workspace_bytes(const PlacedMatrix& operand) {
  return static_cast<size_t>(round_up(static_cast<int64_t>(padded(operand).memory.bytes), kAlignment));
}

Matmul::State::Request Matmul::State::request(const MatmulArguments& p, Where where) {
  PlacedMatrices operands = checked(p, where);
  GemmOperation operation = operation_of(p, operands.d);
  operation.user_epilogue = options_.epilogue.function != nullptr;
  Request r{std::move(operands), {operation, {p.m, p.n, p.k, p.batches}}, {}};
  r.is_empty = p.m == 0 || p.n == 0 || p.batches == 0;
  if (p.epilogue.size() != options_.epilogue.parameters.size())
    throw Error(where, fmt::format("matmul: {} arguments of the epilogue, which has {} parameters",
                                   p.epilogue.size(), options_.epilogue.parameters.size()));
  if (r.is_empty) {
    check_operation(r.key.operation, where);
    return r;
  }
  if (!r.operands.has_product) r.key.size.k = 1;  // one step over zeros
  r.number = prepared_.number();
  r.plan = plan(r.key, where);
  r.bytes = r.plan.workspace_bytes;
  for_each_moved(r.operands,
                 [&](const PlacedMatrix& operand) { r.bytes += kernels::workspace_bytes(operand); });
  return r;
}

size_t Matmul::State::workspace_bytes(const MatmulArguments& arguments, Where where) {
  Request r = request(arguments, where);
  if (options_.tune && can_tune(r, arguments.stream)) {
    tune(r, arguments, SIZE_MAX, where);
    r = request(arguments, where);
  }
  std::array<MatrixCopy, 3> read;  // of A, B and C; no memory of the heap
  size_t count = 0;
  for_each_moved(r.operands, [&](const PlacedMatrix& operand) {
    MatrixCopy copy;
    copy.element_bytes = operand.element_bytes();
    if (&operand == &r.operands.d)
      copy_.prepare({&copy, 1});
    else
      read.at(count++) = copy;
  });
  if (count > 0) copy_.prepare(std::span(read).first(count));
  return r.bytes;
}

GemmTile Matmul::State::tile(const MatmulArguments& arguments, Where where) {
  const Request r = request(arguments, where);
  if (r.is_empty) throw Error(where, "matmul: the tile of a product with nothing to do");
  return r.plan.tile;
}

void Matmul::State::operator()(const MatmulArguments& p, Where where) {
  if (prepared_.launch(p)) return;
  Request r = request(p, where);
  if (r.is_empty) {
    if (PreparedProducts::takes(p)) prepared_.add_empty(p);
    return;
  }
  if (options_.tune && can_tune(r, p.stream)) {
    tune(r, p, p.workspace.bytes, where);
    r = request(p, where);
  }
  check_addresses(r.operands, where);
  check_workspace(p, r.operands, r.bytes, where);
  const PlacedMatrix d = r.operands.d;
  const std::vector<Moved> moved = place(r.operands, p.workspace.address + r.plan.workspace_bytes);
  launch(r, moved, p, where);
  const MatrixPlace& written = r.operands.d.place;
  if (written.memory.address != d.place.memory.address)
    copy_({d.shape, d.element_bytes(), written, d.place}, p.stream);
}

Matmul::State::Plan Matmul::State::plan(const PlanKey& key, Where where) {
  {
    const std::shared_lock lock(mutex_);
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
  }
  const auto& [operation, size] = key;
  check_operation(operation, where);
  GemmTile tile;
  {
    const std::lock_guard lock(choosing_);
    tile = checked(operation, options_.choose(operation, size, multiprocessors_), where);
  }
  const Plan found = plan_of(key, tile, where);
  const std::lock_guard lock(mutex_);
  if (plans_.size() >= kMostPlans) plans_.clear();
  return plans_.emplace(key, found).first->second;
}

Matmul::State::Plan Matmul::State::plan_of(const PlanKey& key, const GemmTile& tile, Where where) {
  const GemmSize& size = key.size;
  check_tiles(tile, size, where);
  const GemmGrid grid = gemm_grid(tile, size.m, size.n, size.batches, multiprocessors_);
  const int64_t bytes = round_up(static_cast<int64_t>(gemm_workspace_bytes(tile, grid)), kAlignment);
  return {&kernel(key.operation, tile), {grid.x, grid.y}, tile.overlaps, static_cast<size_t>(bytes), tile};
}

runtime::LoadedKernel& Matmul::State::kernel(const GemmOperation& operation, const GemmTile& tile) {
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
  return *known->kernel.get([&] {
    if (options_.load) {
      auto loaded = options_.load(operation, tile);
      if (!loaded) throw Error(fmt::format("MatmulOptions::load gave no kernel for the tile {}", text(tile)));
      return loaded;
    }
    Kernel made = gemm(operation, tile, options_.epilogue);
    // A tile that suits the plain product may want more registers than there are beside an epilogue: a slower
    // result is better than none.
    waive_lack_of_registers(made);
    return std::make_unique<runtime::LoadedKernel>(load(device_, compiler_, std::move(made)));
  });
}

// Says of the matrices that a kernel cannot take where they lie that they are in the workspace, and which of
// them have to be copied there.
std::vector<Matmul::State::Moved> Matmul::State::place(PlacedMatrices& o, runtime::Address next) const {
  std::vector<Moved> moved;
  for_each_moved(o, [&](PlacedMatrix& operand) {
    MatrixPlace near = padded(operand);
    near.memory.address = next;
    next += kernels::workspace_bytes(operand);
    if (&operand != &o.d)
      moved.push_back({{operand.shape, operand.element_bytes(), operand.place, near},
                       &operand == &o.a   ? From::a
                       : &operand == &o.b ? From::b
                                          : from_operand(ProductOperand::c)});
    operand.place = near;
  });
  if (!o.has_product)
    for (PlacedMatrix* operand : {&o.a, &o.b}) *operand = outside(*operand);
  return moved;
}

// Of its type, with all but one element outside, where TMA reads zeros.
PlacedMatrix Matmul::State::outside(PlacedMatrix matrix) const {
  matrix.shape = {1, 1, matrix.shape.batches > 1 ? 2 : 1};
  matrix.place.memory = zeros_;
  matrix.place.batch_stride = 16 / matrix.element_bytes();
  return matrix;
}

void Matmul::State::add_arguments(const Request& r, const MatmulArguments& p,
                                  ProductArguments& arguments) const {
  const PlacedMatrices& o = r.operands;
  auto number = [&](int64_t value) {
    arguments.add(From::size, [&] { return runtime::scalar(static_cast<uint32_t>(value)); });
  };
  auto real = [&](From from, float value) { arguments.add(from, [&] { return runtime::scalar(value); }); };
  auto pointer = [&](From from, runtime::View memory, DType type) {
    arguments.add(from, [&] { return runtime::pointer(memory, type); });
  };
  // Where a matrix lies: with the caller, or in the workspace.
  auto matrix = [&](From from, runtime::Address given, runtime::Address address, auto&& make) {
    const bool moved = address != given;
    arguments.add(moved ? From::workspace : from, make, moved ? address - p.workspace.address : 0);
  };
  matrix(From::a, p.a.memory.address, o.a.place.memory.address, [&] { return tensor(o.a); });
  matrix(From::b, p.b.memory.address, o.b.place.memory.address, [&] { return tensor(o.b); });
  const GemmOperation& operation = r.key.operation;
  const int64_t by_tma = operation.d_by_threads ? o.d.columns_by_tma() : o.d.shape.columns;
  if (by_tma > 0) {
    PlacedMatrix stored = o.d;
    stored.shape.columns = by_tma;
    arguments.add(From::d, [&] { return tensor(stored); });
  } else {
    arguments.add(From::size, [&] { return tensor(outside(o.d)); });
  }
  for (int64_t extent : {p.m, p.n, r.key.size.k}) number(extent);
  if (operation.d_by_threads) {
    pointer(From::d, o.d.place.memory, o.d.type);
    number(o.d.place.stride);
    number(by_tma);
  }
  if (operation.alpha) real(From::alpha, p.alpha);
  for (const ProductOperandRow& row : product_operands) {
    if (!operation.has(row.operand)) continue;
    if (row.role == OperandRole::residual) real(From::beta, p.beta);
    const PlacedMatrix& x = o.operands[row.operand];
    const runtime::View& memory = x.place.memory;
    matrix(from_operand(row.operand), p.memory_of(row.operand).address, memory.address,
           [&] { return runtime::pointer(memory, x.type); });
    if (row.is_matrix()) number(x.place.stride);
  }
  for (const runtime::Argument& argument : p.epilogue) arguments.add(From::size, [&] { return argument; });
  if (operation.batched) number(p.batches);
  if (r.plan.workspace_bytes > 0) pointer(From::workspace, p.workspace, DType::f32);
}

void Matmul::State::launch(const Request& r, const std::vector<Moved>& moved, const MatmulArguments& p,
                           Where where) {
  std::vector<PreparedProducts::Step> steps;
  // D in the workspace is copied behind the product.
  const bool prepares = r.operands.has_product && PreparedProducts::takes(p) &&
                        r.operands.d.place.memory.address == p.d.memory.address;
  auto launch_and_prepare = [&](runtime::LoadedKernel& kernel, const runtime::LaunchOptions& options,
                                ProductArguments& arguments) {
    kernel.launch(options, arguments.list(), where);
    if (prepares) steps.push_back({kernel.prepare(options, arguments.list(), where), arguments.sources()});
  };
  if (!moved.empty()) {
    std::vector<MatrixCopy> copies;
    for (const Moved& one : moved) copies.push_back(one.copy);
    const CopyLaunch copy = copy_.launch_of(copies, p.stream);
    ProductArguments arguments(copy.arguments.size());
    for (size_t i = 0; const runtime::Argument& argument : copy.arguments) {
      const Moved& one = moved[i / kCopyParameters];
      const size_t parameter = i++ % kCopyParameters;  // from and to come first
      arguments.add(
          parameter == 0   ? one.from
          : parameter == 1 ? From::workspace
                           : From::size,
          [&] { return argument; }, parameter == 1 ? one.copy.to.memory.address - p.workspace.address : 0);
    }
    launch_and_prepare(*copy.kernel, copy.options, arguments);
  }
  ProductArguments arguments(r.plan.kernel->signature().parameters.size());
  add_arguments(r, p, arguments);
  // May begin before the launch ahead of it has ended: the kernel waits for that before it reads or writes.
  const runtime::LaunchOptions options = {
      .grid = r.plan.grid, .programmatic_dependent_launch = r.plan.overlaps, .stream = p.stream};
  launch_and_prepare(*r.plan.kernel, options, arguments);
  if (prepares) prepared_.add(p, std::move(steps), r.number);
}

bool Matmul::State::can_tune(const Request& r, runtime::Stream stream) {
  return !r.is_empty && r.operands.has_product && !r.plan.tuned && has_clock() &&
         !options_.epilogue.function && !device_.is_capturing(stream);
}

void Matmul::State::tune(const MatmulArguments& p, Where where) {
  if (!has_clock()) throw Error(where, "matmul: tuning needs a GPU, whose time it measures");
  if (options_.epilogue.function)
    throw Error(where, "matmul: tuning with an epilogue of the user's own, which may write where it likes");
  if (device_.is_capturing(p.stream))
    throw Error(where, "matmul: tuning in a capture, where nothing runs: tune before it");
  const Request r = request(p, where);
  if (can_tune(r, p.stream)) tune(r, p, SIZE_MAX, where);
}

void Matmul::State::tune(const Request& r, const MatmulArguments& p, size_t most_workspace, Where where) {
  const std::lock_guard one_at_a_time(tuning_);
  const auto& [operation, size] = r.key;
  if (plan(r.key, where).tuned) return;  // by another thread meanwhile
  std::optional<GemmTile> tile = tuned_.find(operation, size);
  if (!tile || plan_of(r.key, *tile, where).workspace_bytes > most_workspace) {
    tile = measured(r, p, most_workspace, where);
    tuned_.keep(operation, size, *tile);
  }
  Plan found = plan_of(r.key, *tile, where);
  found.tuned = true;
  {
    const std::lock_guard lock(mutex_);
    plans_.insert_or_assign(r.key, found);
  }
  prepared_.clear();
}

// Over copies of the operands that together are twice the L2, so that they come from memory as they mostly
// do; the first set is the caller's, and D always a copy's.
GemmTile Matmul::State::measured(const Request& r, const MatmulArguments& p, size_t most_workspace,
                                 Where where) {
  const auto& [operation, size] = r.key;
  const GemmTile chosen = checked(operation, options_.choose(operation, size, multiprocessors_), where);
  std::vector<GemmTile> usable;
  std::vector<Request> requests;  // by usable tile
  size_t kernels_workspace = 0;
  for (const GemmTile& tile : tiles_to_measure(operation, size, multiprocessors_, chosen)) {
    Request with = r;
    with.plan = plan_of(r.key, tile, where);
    if (with.plan.workspace_bytes > most_workspace) continue;
    kernels_workspace = std::max(kernels_workspace, with.plan.workspace_bytes);
    requests.push_back(std::move(with));
    usable.push_back(tile);
  }
  device_.synchronize(p.stream, kLongest);

  const auto bytes_of = [](const PlacedMatrix& x) { return padded(x).memory.bytes; };
  const auto bytes =
      static_cast<int64_t>(bytes_of(r.operands.a) + bytes_of(r.operands.b) + bytes_of(r.operands.d));
  const int64_t sets = std::clamp<int64_t>((kRotated + bytes - 1) / bytes, 1, kMostSets);
  std::vector<runtime::Buffer> memory;
  auto new_place = [&](const PlacedMatrix& x) {
    MatrixPlace near = padded(x);
    near.memory = memory.emplace_back(device_, near.memory.bytes);
    return near;
  };
  std::vector<PlacedMatrices> operands(static_cast<size_t>(sets), r.operands);  // by set
  for (size_t set = 0; set < operands.size(); ++set) {
    PlacedMatrices& o = operands[set];
    for (PlacedMatrix* x : {&o.a, &o.b}) {
      if (set == 0 && x->aligned_for_tma()) continue;
      const MatrixPlace from = x->place;
      x->place = new_place(*x);
      copy_({x->shape, x->element_bytes(), from, x->place}, {});
    }
    PlacedMatrix& c = o.operands[ProductOperand::c];
    if (c.place.memory.address != 0 && !c.batches_touch()) {
      const MatrixPlace from = c.place;
      c.place = new_place(c);
      copy_({c.shape, c.element_bytes(), from, c.place}, {});
    }
    for (const ProductOperandRow& row : product_operands)
      if (PlacedMatrix& x = o.operands[row.operand]; row.is_written() && operation.has(row.operand))
        x.place.memory = memory.emplace_back(device_, x.place.memory.bytes);
    if (operation.d_by_threads)
      o.d.place.memory = memory.emplace_back(device_, o.d.place.memory.bytes);
    else
      o.d.place = new_place(o.d);
  }
  MatmulArguments q = p;
  if (kernels_workspace > 0) q.workspace = memory.emplace_back(device_, kernels_workspace);
  device_.synchronize(runtime::Stream(), kLongest);
  const auto queue = [&](size_t i, size_t set, runtime::Stream stream) {
    if (i >= requests.size() || set >= operands.size())
      throw Error(where, fmt::format("MatmulOptions::fastest queues contender {} of {}, on set {} of {}", i,
                                     requests.size(), set, operands.size()));
    Request& with = requests[i];
    with.operands = operands[set];
    ProductArguments arguments(with.plan.kernel->signature().parameters.size());
    add_arguments(with, q, arguments);
    with.plan.kernel->launch(
        {.grid = with.plan.grid, .programmatic_dependent_launch = with.plan.overlaps, .stream = stream},
        arguments.list(), where);
  };
  const size_t found = options_.fastest ? options_.fastest(usable.size(), operands.size(), queue)
                                        : fastest(device_, usable.size(), operands.size(), queue);
  if (found >= usable.size())
    throw Error(where, fmt::format("MatmulOptions::fastest gave contender {} of {}", found, usable.size()));
  return usable[found];
}

Matmul::Matmul(runtime::Device& device, MatmulOptions options)
    : state_(std::make_unique<State>(device, std::move(options))) {}
Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;
Matmul& Matmul::operator=(Matmul&&) noexcept = default;

void Matmul::operator()(const MatmulArguments& arguments, Where where) {
  CallersLine line(where);
  (*state_)(arguments, where);
}
size_t Matmul::workspace_bytes(const MatmulArguments& arguments, Where where) {
  CallersLine line(where);
  return state_->workspace_bytes(arguments, where);
}
GemmTile Matmul::tile(const MatmulArguments& arguments, Where where) {
  CallersLine line(where);
  return state_->tile(arguments, where);
}

void Matmul::tune(const MatmulArguments& arguments, Where where) {
  CallersLine line(where);
  state_->tune(arguments, where);
}

}  // namespace ptxbuilder::kernels
