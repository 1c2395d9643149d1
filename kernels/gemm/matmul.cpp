#include "kernels/gemm/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/call/quick_division.h"
#include "kernels/gemm/addressed_matrices.h"
#include "kernels/gemm/choice.h"
#include "kernels/gemm/kernel.h"
#include "kernels/gemm/product_form.h"
#include "kernels/gemm/ragged_rows.h"
#include "kernels/gemm/scheduler.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int64_t kTilesEnd = int64_t{1} << 31;  // a kernel's indices are below this number

struct MatmulTraits {
  using Arguments = MatmulArguments;
  using Placed = PlacedProduct;
  using Tile = GemmTile;
  using More = GemmGrid;  // the part of a plan that is specific to products: the grid
  static constexpr char kName[] = "matmul";
  static constexpr int64_t kUnit = 1;
  static constexpr size_t kWords = kProductTextWords, kFormWords = kProductFormWords;
  static bool is_tile(const std::string& tile) { return kernels::is_tile(tile); }
  static GemmTile parse(const std::string& tile) { return parse_tile(tile); }
};

// The forms in which a kernel accesses a matrix. It may be one matrix, a matrix for each batch or group,
// matrices at arbitrary addresses, rows whose boxes are cut off at the end of their group, or a tensor with
// several modes.
enum class Grouped : uint8_t { no, by_batch, by_address, by_rows, by_modes };
struct MatrixKinds {
  Grouped a, b, d;
};
MatrixKinds kinds_of(const GemmOperation& o) {
  using enum Grouped;
  if (o.has_modes()) return {by_modes, by_modes, by_modes};
  if (o.grouped_rows()) return {no, o.b_addresses ? by_address : by_batch, by_rows};
  if (o.grouped_k()) return {by_rows, by_rows, by_batch};
  return o.batched ? MatrixKinds{by_batch, by_batch, by_batch} : MatrixKinds{no, no, no};
}
// Returns a matrix's row stride in elements. If there is only one row, returns a stride that is a multiple of
// 16 bytes, because the given stride may be arbitrary.
int64_t aligned_stride(const Operand& x) {
  const Operand::Dimension& rows = x.outer[kMatrixRows];
  return rows.extent > 1 ? rows.stride : round_up(x.columns, kTma / x.element_bytes());
}
runtime::Argument matrix_tensor(const Operand& x, Grouped kind) {
  if (kind == Grouped::by_modes) return tensor(x);
  if (kind == Grouped::by_address)
    return addressed_matrices(x.memory, x.type, x.columns, x.outer[kMatrixRows].extent, aligned_stride(x));
  if (kind != Grouped::by_rows) return tensor(x, kind == Grouped::no ? 1 : 2);
  return ragged_rows(x.memory, x.type, x.columns, aligned_stride(x));
}

// Returns the im2col walk over the first pixels of the windows. Its bounds exclude all positions after the
// last window of each line and image.
runtime::Im2col walk_of(const PixelWindows& windows) {
  runtime::Im2col walk;
  for (const PixelWindows::Along& d : {windows.w, windows.h}) {
    const int64_t end = d.first + (d.count - 1) * d.step + 1;
    walk.lower.push_back(static_cast<int>(d.first));
    walk.upper.push_back(static_cast<int>(end - d.extent));
    walk.steps.push_back(static_cast<uint32_t>(d.step));
  }
  return walk;
}

// Throws an Error if no tile supports the operation's types and layouts.
void check_operation(const GemmOperation& operation, Where where) {
  GemmTile smallest;
  smallest.bm = std::max<int>(64, operation.m_box);
  smallest.bn = std::max<int>(32, operation.n_box);
  smallest.consumers = smallest.bm / 64;
  smallest.swapped = operation.packed.is_packed() || operation.b_metadata;
  checked(operation, smallest, where);
}

void check_tiles(const GemmTile& tile, const GemmSize& size, Where where) {
  auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t x = ceil_div(tile.swapped ? size.n : size.m, tile.bm) + tile.cluster_m - 1,
                y = ceil_div(tile.swapped ? size.m : size.n, tile.bn) + tile.cluster_n - 1;
  if (static_cast<__int128>(x) * y * size.batches * tile.split_k >= kTilesEnd)
    throw Error(where, fmt::format("matmul: {} batches of {} x {} have {} x {} tiles each; a launch must "
                                   "have at most 2^31 - 1: divide the batches",
                                   size.batches, size.m, size.n, x, y));
}

}  // namespace

class Matmul::State final : public CallEngine<MatmulTraits> {
 public:
  State(runtime::Device& device, MatmulOptions options)
      : CallEngine(device, options,
                   options.tuned_file.value_or(
                       default_product_tiles(device.properties(), multiprocessors_of(device, options)))),
        options_(std::move(options)),
        zeros_(runtime::Buffer::of(device, std::array<uint8_t, 32>{})) {
    if (!options_.choose) throw Error("MatmulOptions::choose is empty: keep its default, or set a function");
    if (!options_.epilogue.function && !options_.epilogue.parameters.empty())
      throw Error(fmt::format("MatmulOptions::epilogue has {} parameters, but no function",
                              options_.epilogue.parameters.size()));
  }

 private:
  PlacedProduct place(const MatmulArguments& p, Where where) override {
    PlacedProduct o = checked(p, where);
    o.operation.user_epilogue = options_.epilogue.function != nullptr;
    if (p.epilogue.size() != options_.epilogue.parameters.size())
      throw Error(where,
                  fmt::format("matmul: {} arguments were given for the epilogue, but it has {} parameters",
                              p.epilogue.size(), options_.epilogue.parameters.size()));
    if (o.is_empty) check_operation(o.operation, where);
    return o;
  }
  GemmTile choose(const PlacedProduct& o, Where where) override {
    check_operation(o.operation, where);
    return options_.choose(o.operation, o.size, multiprocessors_);
  }
  GemmTile checked_tile(const PlacedProduct& o, const GemmTile& tile, Where where) override {
    const GemmTile whole = checked(o.operation, tile, where);
    check_tiles(whole, o.size_in(whole), where);
    return whole;
  }
  GemmGrid more_of(const PlacedProduct& o, const GemmTile& tile) override {
    const GemmSize size = o.size_in(tile);
    return gemm_grid(tile, size.m, size.n, size.batches, multiprocessors_, o.operation.grouped_rows());
  }
  std::unique_ptr<runtime::LoadedKernel> loaded(const GemmOperation& operation,
                                                const GemmTile& tile) override {
    if (!options_.load) return nullptr;
    auto kernel = options_.load(operation, tile);
    if (!kernel)
      throw Error(fmt::format("MatmulOptions::load returned no kernel for the tile {}", text(tile)));
    return kernel;
  }
  Kernel make(const GemmOperation& operation, const GemmTile& tile) override {
    Kernel made = gemm(operation, tile, options_.epilogue);
    // A tile that suits the plain product may lack registers for a user's epilogue. A slow kernel is better
    // than no kernel.
    waive_lack_of_registers(made);
    return made;
  }
  size_t own_bytes(const Plan& plan, const MatmulArguments&) const override {
    return gemm_workspace_bytes(plan.tile, plan.more);
  }
  std::vector<GemmTile> tiles_to_measure(const PlacedProduct& o, const GemmTile& chosen) override {
    return kernels::tiles_to_measure(o.operation, o.size, multiprocessors_, checked(o.operation, chosen));
  }
  void take_scratch(PlacedProduct& o, OperandSets& sets) override {
    Operand& c = o.others[ProductOperand::c];
    if (o.operation.has(ProductOperand::c) && !batches_touch(c)) c = sets.copy_of(c);
    for (const ProductOperandRow& row : product_operands)
      if (Operand& x = o.others[row.operand]; row.is_written() && o.operation.has(row.operand))
        x.memory = sets.memory(x.memory.bytes);
  }
  const char* why_untunable() const override {
    return options_.epilogue.function ? "an epilogue of the user's own, which may write to any memory"
                                      : nullptr;
  }

  // Returns an operand of the same type whose tensor consists of a single element, so that TMA reads zeros
  // everywhere else.
  Operand outside(Operand matrix) const {
    matrix.columns = matrix.outer[kMatrixRows].extent = 1;
    Operand::Dimension& batches = matrix.outer[kMatrixBatches];
    batches.extent = batches.extent > 1 ? 2 : 1;
    batches.stride = 16 / matrix.element_bytes();
    matrix.memory = zeros_;
    return matrix;
  }

  void launch(const Plan& plan, PlacedProduct& o, const MatmulArguments& p, runtime::View own,
              Launches& launches) override {
    const GemmOperation& operation = o.operation;
    SourcedArguments arguments(launches.sources(), plan.kernel->signature().parameters.size());
    const auto number = [&](int64_t value) {
      arguments.add(SourcedArguments::kNone, [&] { return runtime::scalar(static_cast<uint32_t>(value)); });
    };
    const auto divisor = [&](int64_t value) {
      const Reciprocal by(value);
      for (const int64_t one : {value, int64_t{by.factor}, int64_t{by.shift}}) number(one);
    };
    const auto real = [&](size_t source, float value) {
      arguments.add(source, [&] { return runtime::scalar(value); });
    };
    const auto pointer = [&](size_t source, runtime::View memory, DType type) {
      arguments.add(source, [&] { return runtime::pointer(memory, type); });
    };
    const MatrixKinds kinds = kinds_of(operation);
    const GemmSize size = o.size_in(plan.tile);
    const auto none = [&](const Operand& x, Grouped kind) {
      arguments.add(SourcedArguments::kNone, [&] { return matrix_tensor(outside(x), kind); });
    };
    const auto read = [&](const Operand& x, Grouped kind, size_t source, WindowsOf its) {
      if (!o.has_product) return none(x, kind);
      arguments.add(source_of(x, source, p), [&] {
        return operation.windows == its ? runtime::im2col(tensor(x), walk_of(o.modes->windows))
                                        : matrix_tensor(x, kind);
      });
    };
    if (operation.gathers())
      pointer(source_of(o.a, from_a, p), o.a.memory, o.a.type);
    else
      read(o.a, kinds.a, from_a, WindowsOf::a);
    if (operation.packed.is_packed())
      pointer(source_of(o.b, from_b, p), o.b.memory, DType::u32);
    else
      read(o.b, kinds.b, from_b, WindowsOf::b);
    const size_t source_of_d = source_of(o.d, from_d, p);
    const int64_t by_tma = operation.d_by_threads ? columns_by_tma(o.d) : o.d.columns;
    if (operation.scatters()) {
      pointer(source_of_d, o.d.memory, o.d.type);
    } else if (by_tma > 0) {
      Operand stored = o.d;
      stored.columns = by_tma;
      arguments.add(source_of_d, [&] { return matrix_tensor(stored, kinds.d); });
    } else {
      none(o.d, kinds.d);
    }
    for (const int64_t extent : {size.m, size.n, size.k}) number(extent);
    if (o.modes)
      for (const ModeList* list : {&o.modes->m, &o.modes->n, &o.modes->k, &o.modes->batch})
        for (size_t i = 0; i + 1 < list->size(); ++i) number((*list)[i].extent);
    if (operation.windows != WindowsOf::none)
      for (const PixelWindows::Along& d : {o.modes->windows.w, o.modes->windows.h}) {
        divisor(d.count);
        for (const int64_t value : {d.first, d.step}) number(value);
        number(d.turned ? d.spread * (d.taps - 1) : 0);
        number(d.turned ? -d.spread : d.spread);
      }
    if (operation.windows == WindowsOf::a)
      for (size_t i = 0; i + 1 < o.modes->k.size(); ++i) {
        const int64_t extent = o.modes->k[i].extent;
        divisor(i == 0 ? (extent + plan.tile.bk - 1) / plan.tile.bk : extent);
      }
    if (operation.gathers()) {
      const Operand::Dimension& rows = o.a.outer[kMatrixRows];
      number(aligned_stride(o.a));  // must be valid, since addresses are computed even for indices outside A
      number(rows.extent);
    }
    if (operation.scatters()) {
      const Operand::Dimension& rows = o.d.outer[kMatrixRows];
      number(rows.stride);
      number(rows.extent);
    }
    if (operation.b_addresses)
      arguments.add(source_of(o.b, from_b, p), [&] { return runtime::scalar(uint64_t{o.b.memory.address}); });
    if (operation.d_by_threads) {
      pointer(source_of_d, o.d.memory, o.d.type);
      number(o.d.outer[kMatrixRows].stride);
      number(by_tma);
    }
    if (operation.alpha) real(from_alpha, p.alpha);
    for (const ProductOperandRow& row : product_operands) {
      if (!operation.has(row.operand)) continue;
      if (row.role == OperandRole::residual) real(from_beta, p.beta);
      const Operand& x = o.others[row.operand];
      const size_t source = source_of(x, from(row.operand), p);
      if (comes_by_tma(row.role)) {
        const bool has_batches =
            operation.batched || (operation.grouped_rows() && row.is_by_batch(operation.grouped_rows()));
        arguments.add(source,
                      [&] { return matrix_tensor(x, has_batches ? Grouped::by_batch : Grouped::no); });
        continue;
      }
      pointer(source, x.memory, x.type);
      if (row.is_matrix()) number(x.outer[kMatrixRows].stride);
    }
    for (const runtime::Argument& one : p.epilogue)
      arguments.add(SourcedArguments::kNone, [&] { return one; });
    if (operation.batched || operation.has_groups()) number(size.batches);
    if (gemm_workspace_bytes(plan.tile, plan.more) > 0)
      pointer(SourcedArguments::kWorkspace, own, DType::f32);
    // The launch may begin before the previous launch has ended, because the kernel waits for its end before
    // it reads or writes memory.
    launches.queue(*plan.kernel,
                   {.grid = {plan.more.x, plan.more.y, plan.more.z},
                    .programmatic_dependent_launch = plan.tile.overlaps},
                   arguments);
  }

  MatmulOptions options_;
  runtime::Buffer zeros_;
};

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
