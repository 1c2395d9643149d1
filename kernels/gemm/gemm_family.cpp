// Registers the family "gemm", which contains matrix products of every type, layout, epilogue and tile. Each
// combination is a separate kernel.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "kernels/family/command_line.h"
#include "kernels/family/family.h"
#include "kernels/gemm/addressed_matrices.h"
#include "kernels/gemm/choice.h"
#include "kernels/gemm/kernel.h"
#include "kernels/gemm/model.h"
#include "kernels/gemm/packed_draw.h"
#include "kernels/gemm/ragged_rows.h"
#include "kernels/gemm/reference.h"
#include "kernels/gemm/scheduler.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

const std::vector<std::string> kInputs = {"bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8"};
const std::vector<std::string> kOutputs = {"bf16", "f16", "f32", "s32", "e4m3", "e5m2"};
const std::vector<std::string> kActivations(activation_words.begin(), activation_words.end());
const std::vector<std::string> kUses = {"value", "slope", "gate"};
const std::vector<std::string> kWeights = {
    "no",
#define PTXBUILDER_WEIGHT(word, ...) #word,
#include "kernels/gemm/weight.def"
};
const std::vector<std::string> kScales = {"f32", "f16", "bf16"};
const std::vector<std::string> kSwitch = {"no", "yes"};

GemmOperation operation(const command::Fields& f) {
  GemmOperation o;
  o.a = *dtype_from_name(f.word("a"));
  o.b = f.word("b") == "as a" ? o.a : *dtype_from_name(f.word("b"));
  o.d = *dtype_from_name(f.word("d"));
  o.a_k_major = f.word("a_major") == "k";
  o.b_k_major = f.word("b_major") == "k";
  o.fast_accumulation = f["promote"] == 0;
  if (!o.fast_accumulation && !is_fp8(o.a))
    throw command::UsageError(
        fmt::format("field promote = yes with a = {}: leave it out; only sums of e4m3 and e5m2 need it, "
                    "since tensor cores round them",
                    name(o.a)));
  o.alpha = f["alpha"] != 0;
  o.beta = f["beta"] != 0;
  o.activation = static_cast<Activation>(f["activation"]);
  o.use = static_cast<ActivationUse>(f["use"]);
#define PTXBUILDER_VECTOR(name, ...) o.name = f[#name] != 0;
#include "kernels/gemm/product.def"
  if (o.has_block_scales()) o.fast_accumulation = false;
  if (o.is_sparse() && f["k"] % kSparseGroup != 0)
    throw command::UsageError(
        fmt::format("field k = {} with a sparse matrix: it must be a multiple of {}", f["k"], kSparseGroup));
  o.batched = f["batches"] > 1 && !o.has_groups();
  o.packed.type = static_cast<WeightType>(f["packed"]);
  if (o.packed.is_packed()) {
    o.packed.group = static_cast<uint8_t>(std::min<int64_t>(f["packed_group"], UINT8_MAX));
    o.packed.scales = *dtype_from_name(f.word("packed_scales"));
  }
  o.groups_of_k = f["groups_of_k"] != 0;
  if (o.groups_of_k && !o.has_groups())
    throw command::UsageError("field groups_of_k = yes needs group_ends, which determines where groups end");
  if (o.group_counts && f["m"] % f["batches"] != 0)
    throw command::UsageError(
        fmt::format("field m = {} with group_counts of {} batches: m must be a multiple of the batches",
                    f["m"], f["batches"]));
  return o;
}

GemmTile tile(const command::Fields& f) {
  GemmTile t;
  t.bm = f.small("bm");
  t.bn = f.small("bn");
  t.bk = f.small("bk");
  t.stages = f.small("stages");
  t.consumers = f.small("consumers");
  t.pingpong = f["pingpong"] != 0;
  t.swapped = f["swapped"] != 0;
  t.cluster_m = f.small("cluster_m");
  t.cluster_n = f.small("cluster_n");
  t.split_k = f.small("split_k");
  t.split_last = f.small("split_last");
  t.raster = {f.small("group"), f.word("raster") == "columns", f["snake"] != 0};
  t.ctas_per_sm = f.small("ctas_per_sm");
  t.inside = f["inside"] != 0;
  t.overlaps = f["overlaps"] != 0;
  return t;
}

// Sets the fields that describe a tile. Its bk and stages must have been chosen.
void set_tile(command::Fields& f, const GemmTile& t) {
  f.set("bm", t.bm);
  f.set("bn", t.bn);
  f.set("bk", t.bk);
  f.set("stages", t.stages);
  f.set("consumers", t.consumers);
  f.set("pingpong", t.pingpong);
  f.set("swapped", t.swapped);
  f.set("cluster_m", t.cluster_m);
  f.set("cluster_n", t.cluster_n);
  f.set("split_k", t.split_k);
  f.set("split_last", t.split_last);
  f.set("group", t.raster.group);
  f.set("raster", t.raster.columns);
  f.set("snake", t.raster.snake);
  f.set("ctas_per_sm", t.ctas_per_sm);
  f.set("inside", t.inside);
  f.set("overlaps", t.overlaps);
}

// Chooses the tile for the size in the fields. Tiles with split_last are excluded, since their kernels have
// an additional parameter.
void choose_tile(command::Fields& f) {
  const GemmOperation o = operation(f);
  const GemmSize size = {f["m"], f["n"], f["k"], f["batches"]};
  GemmTile chosen = choose(o, size, hopper::multiprocessors);
  if (chosen.split_last > 1) {
    const std::vector<Candidate> all = candidates(o, size, hopper::multiprocessors);
    chosen =
        std::find_if(all.begin(), all.end(), [](const Candidate& c) { return c.tile.split_last == 1; })->tile;
  }
  set_tile(f, checked(o, chosen));
}

// Returns a string that names the matrices whose rows need gaps to satisfy the requirements of tensor maps.
std::string rows_that_need_gaps(const command::Fields& f) {
  const GemmOperation o = operation(f);
  std::string text;
  auto add = [&](const char* matrix, const char* row, DType type, bool is_sparse) {
    if (const int64_t bytes = f[row] * size_of(type) / (is_sparse ? 2 : 1); bytes % hopper::bulk_unit != 0)
      text += fmt::format("{}{} of {} B in {}", text.empty() ? "" : ", ", row, bytes, matrix);
  };
  add("A", o.a_k_major ? "k" : "m", o.a, o.a_metadata);
  if (!o.packed.is_packed()) add("B", o.b_k_major ? "k" : "n", o.b, o.b_metadata);
  if (const int64_t bytes = o.d_columns(f["n"]) * size_of(o.d); bytes % hopper::bulk_unit != 0)
    text += fmt::format("{}n of {} B in D", text.empty() ? "" : ", ", bytes);
  if (text.empty()) return "";
  return fmt::format(
      "rows ({}) are not multiples of {} B: a launch needs gaps after them, which stride_bytes adds", text,
      hopper::bulk_unit);
}

Kernel build(const command::Fields& f) {
  Kernel k = gemm(operation(f), tile(f));
  if (f["sms"] == 0) return k;
  const GemmGridRule grid = gemm_grid_rule(operation(f), checked(operation(f), tile(f)), f.word("sms"));
  k.grid(grid.x, grid.y, grid.z);
  return k;
}

command::Forecast forecast(const command::Fields& f) {
  const Prediction p = predict(operation(f), {f["m"], f["n"], f["k"], f["batches"]},
                               checked(operation(f), tile(f)), hopper::multiprocessors);
  return {.microseconds = p.microseconds(),
          .parts = {{"steps of the SMs", p.multiply},
                    {"L2", p.l2},
                    {"memory", p.memory},
                    {"launch and tiles", p.overhead}},
          .megahertz = p.megahertz,
          .watts = p.watts};
}

constexpr double kAlpha = 0.75, kBeta = -1.5;

// The operands of product.def that an operation has, with random contents.
struct Operands {
  const GemmOperation& o;
  size_t m, n, k, batches;
  ByOperand<std::optional<command::Tensor>> tensors = {};
  std::vector<std::vector<size_t>> product_rows =
      {};  // for each row of D, the rows of the product that it receives, if rows are scattered

  Operands(const GemmOperation& operation, command::Run& run, size_t m, size_t n, size_t k, size_t batches)
      : o(operation), m(m), n(n), k(k), batches(batches) {
    for (const ProductOperandRow& row : product_operands) {
      if (!o.has(row.operand)) continue;
      const DType type = o.type_of(row);
      const auto lines =
          row.of_batch(static_cast<int64_t>(m), static_cast<int64_t>(n), static_cast<int64_t>(k));
      std::vector<uint64_t> shape = {static_cast<uint64_t>(
          row.count(static_cast<int64_t>(m), static_cast<int64_t>(n), static_cast<int64_t>(k),
                    static_cast<int64_t>(batches), o.grouped_rows()))};
      if (row.is_matrix()) shape = {n, m, o.grouped_rows() ? 1 : batches};
      if (comes_by_tma(row.role)) {
        shape = {scales_apart(lines.length), static_cast<uint64_t>(lines.lines)};
        if (o.batched || (o.grouped_rows() && row.is_by_batch(true))) shape.push_back(batches);
      }
      tensors[row.operand] =
          row.operand == ProductOperand::group_counts ? counts(run)
          : row.role == OperandRole::groups           ? ends(run)
          : row.role == OperandRole::gather           ? rows_of_matrix(run)
          : row.role == OperandRole::scatter          ? rows_of_d(run)
          : row.is_written() || row.role == OperandRole::sparsity || row.role == OperandRole::placement
              ? run.output(type, shape)
              : run.normal(type, shape);
    }
  }

  // Returns the ends of groups of random sizes, some of which are 0. Some rows, or values of k, may be
  // outside all groups.
  command::Tensor ends(command::Run& run) const {
    const command::Tensor drawn = run.normal(DType::f32, {batches + 1});
    const auto weight = [&](size_t i) { return drawn[i] < -1 ? 0 : std::exp(drawn[i] / 2); };
    double all = 1e-9, before = 0;
    for (size_t i = 0; i <= batches; ++i) all += weight(i);
    command::Tensor ends = run.output(DType::s32, {batches});
    const auto extent = static_cast<double>(o.groups_of_k ? k : m);
    for (size_t i = 0; i < batches; ++i) {
      before += weight(i);
      ends.set(i, std::round(before / all * extent));
    }
    ends.to_device();
    return ends;
  }
  // Returns a random number of rows for each group. Some of the numbers are 0 or out of range.
  command::Tensor counts(command::Run& run) const {
    const command::Tensor drawn = run.normal(DType::f32, {batches});
    command::Tensor counts = run.output(DType::s32, {batches});
    const auto most = static_cast<double>(m / batches);
    for (size_t i = 0; i < batches; ++i) counts.set(i, std::round((drawn[i] + 1) / 2 * most));
    counts.to_device();
    return counts;
  }
  // Returns whether the product computes this row.
  bool has_row(size_t row) const {
    if (!o.group_counts) return true;
    const size_t apart = m / batches;
    return static_cast<double>(row % apart) < (*tensors[ProductOperand::group_counts])[row / apart];
  }
  // Returns random indices of rows in A. Some occur repeatedly, and a few are out of range.
  command::Tensor rows_of_matrix(command::Run& run) const {
    const command::Tensor drawn = run.normal(DType::f32, {m});
    command::Tensor rows = run.output(DType::s32, {m});
    const double all = static_cast<double>(m) + 2;
    for (size_t i = 0; i < m; ++i) rows.set(i, std::floor(std::fmod(std::abs(drawn[i] * 1e6), all)) - 1);
    rows.to_device();
    return rows;
  }
  // Returns indices of rows in D. Each row occurs once or, if rows are added, each row in the first third of
  // D occurs about three times.
  command::Tensor rows_of_d(command::Run& run) {
    const command::Tensor drawn = run.normal(DType::f32, {m});
    command::Tensor rows = run.output(DType::s32, {m});
    std::vector<size_t> order(m);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return drawn[a] < drawn[b]; });
    product_rows.resize(m);
    for (size_t i = 0; i < m; ++i) {
      const size_t row = o.add_to_rows ? i % ((m + 2) / 3) : i;
      product_rows[row].push_back(order[i]);
      rows.set(order[i], static_cast<double>(row));
    }
    rows.to_device();
    return rows;
  }
  // Returns the rows of the product that are stored in, or added to, a row of D.
  std::vector<size_t> rows_of_product(size_t row_of_d) const {
    return o.scatters() ? product_rows[row_of_d] : std::vector{row_of_d};
  }
  // Returns the row of A that a row of the product uses, or nothing if the product uses zeros.
  std::optional<size_t> row_of_a(size_t row) const {
    if (!o.gathers()) return row;
    const double at = (*tensors[ProductOperand::a_rows])[row];
    if (at < 0 || at >= static_cast<double>(m)) return std::nullopt;
    return static_cast<size_t>(at);
  }
  // Returns the group that contains a row, or the number of groups if no group contains it.
  size_t group_of(size_t row) const {
    if (o.group_counts) return row / (m / batches);
    size_t group = 0;
    while (group < batches && end_of(group) <= row) ++group;
    return group;
  }
  size_t end_of(size_t group) const {
    return static_cast<size_t>((*tensors[ProductOperand::group_ends])[group]);
  }
  // Returns the number of the matrix of B that a group uses. If B has addresses, groups use the matrices in
  // reverse order.
  size_t matrix_of(size_t group) const { return o.b_addresses ? batches - 1 - group : group; }
  // Sets `b_addresses`, and returns B as a tensor that begins at the matrix of the first group.
  runtime::Argument addressed(const command::Tensor& b) {
    const runtime::View all = b.tensor().memory;
    const size_t bytes = all.bytes / batches;
    command::Tensor& addresses = *tensors[ProductOperand::b_addresses];
    for (size_t g = 0; g < batches; ++g)
      addresses.set(g, static_cast<double>(all.address + matrix_of(g) * bytes));
    addresses.to_device();
    const auto columns = static_cast<int64_t>(b.shape()[0]);
    return addressed_matrices({all.address + matrix_of(0) * bytes, bytes}, b.dtype(), columns,
                              static_cast<int64_t>(b.shape()[1]), columns);
  }
  size_t begin_of(size_t group) const { return group == 0 ? 0 : end_of(group - 1); }

  void add_to(std::vector<runtime::Argument>& arguments) const {
    if (o.alpha) arguments.push_back(runtime::scalar(static_cast<float>(kAlpha)));
    for (const ProductOperandRow& row : product_operands) {
      if (!o.has(row.operand)) continue;
      if (row.role == OperandRole::residual) arguments.push_back(runtime::scalar(static_cast<float>(kBeta)));
      arguments.push_back(comes_by_tma(row.role) ? tensors[row.operand]->tensor()
                                                 : tensors[row.operand]->pointer());
      if (row.is_matrix()) arguments.push_back(runtime::scalar(static_cast<uint32_t>(n)));
    }
  }

  // Returns the distance between lines of block scales of this length. Lines begin at multiples of 16 bytes.
  static uint64_t scales_apart(int64_t length) {
    return static_cast<uint64_t>((length + kScalesOfBox - 1) / kScalesOfBox * kScalesOfBox);
  }
  // Returns the block scales' factor for the products of up to 128 values of k, beginning at `depth`.
  double block_factor(size_t batch, size_t row, size_t col, size_t depth) const {
    double factor = 1;
    for (const ProductOperandRow& operand : product_operands) {
      if (operand.role != OperandRole::block_factor || !o.has(operand.operand)) continue;
      const auto all_m = static_cast<int64_t>(m), all_n = static_cast<int64_t>(n),
                 all_k = static_cast<int64_t>(k);
      const auto at =
          operand.at_depth(all_m, all_n, all_k, static_cast<int64_t>(batch), static_cast<int64_t>(row),
                           static_cast<int64_t>(col), static_cast<int64_t>(depth), o.grouped_rows());
      factor *= (*tensors[operand.operand])[static_cast<uint64_t>(at.line) *
                                                scales_apart(operand.of_batch(all_m, all_n, all_k).length) +
                                            static_cast<uint64_t>(at.element)];
    }
    return factor;
  }

  // Returns an element of D before its last factor (d_scale) is applied. dot(j) must return column j of the
  // product.
  Approximate output(const std::function<Dot(size_t col)>& dot, size_t batch, size_t row, size_t col) const {
    auto value = [&](const ProductOperandRow& operand, size_t j) -> double {
      if (operand.is_by_batch(o.grouped_rows()) && batch == batches) return 0;
      const auto at =
          operand.at(static_cast<int64_t>(m), static_cast<int64_t>(n), static_cast<int64_t>(batch),
                     static_cast<int64_t>(row), static_cast<int64_t>(j), o.grouped_rows());
      return (*tensors[operand.operand])[static_cast<size_t>(at)];
    };
    auto x = [&](size_t j) {
      return input_of(o, dot(j), kAlpha, kBeta, [&](const auto& operand) { return value(operand, j); });
    };
    if (o.gates()) return output_of_gate(o, x(2 * col), x(2 * col + 1));
    double inputs = 0;
    for (const ProductOperandRow& operand : product_operands)
      if (operand.role == OperandRole::inputs && o.has(operand.operand)) inputs = value(operand, col);
    return output_of(o, x(col), inputs);
  }
  // Sets two of every four values along k to zero, keeping the two largest. Returns the values that remain,
  // as a sparse matrix stores them, and sets its metadata.
  command::Tensor stored(command::Run& run, command::Tensor& whole, ProductOperand metadata) {
    const size_t rows = whole.count() / k, of_batch = static_cast<size_t>(whole.shape()[1]);
    const auto size = static_cast<size_t>(size_of(whole.dtype()));
    std::vector<std::byte> bytes(whole.count() * size);
    for (size_t group = 0; group < whole.count(); group += kSparseGroup) {
      std::array<size_t, kSparseGroup> order = {0, 1, 2, 3};
      std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return std::abs(whole[group + i]); });
      for (size_t i : {order[2], order[3]}) whole.set(group + i, 0);
      for (size_t i : order) write_element(&bytes[(group + i) * size], whole.dtype(), whole[group + i]);
    }
    std::vector<uint64_t> shape = whole.shape();
    shape[0] = k / 2;
    command::Tensor values = run.output(whole.dtype(), shape);
    size_t value = 0;
    for (size_t row = 0; row < rows; row += of_batch) {
      const SparseMatrix part = compress_2_4(whole.dtype(), &bytes[row * k * size],
                                             static_cast<int64_t>(of_batch), static_cast<int64_t>(k));
      for (size_t i = 0; i < part.values.size(); i += size)
        values.set(value++, read_element(&part.values[i], whole.dtype()));
      size_t word =
          matrix_of(row / of_batch) * part.metadata.size();  // the quotient is the number of the matrix
      for (const uint32_t one : part.metadata) tensors[metadata]->set(word++, static_cast<int32_t>(one));
    }
    values.to_device();
    tensors[metadata]->to_device();
    return values;
  }
  double last_factor() {
    double factor = 1;
    each(OperandRole::result_factor, [&](const command::Tensor& x) { factor *= x[0]; });
    return factor;
  }
  // Calls `work` for each operand of this role that the operation has.
  template <class Work>
  void each(OperandRole role, Work&& work) {
    for (const ProductOperandRow& row : product_operands)
      if (row.role == role && o.has(row.operand)) work(*tensors[row.operand]);
  }
};

// Returns random packed weights. If the run verifies results, sets `numbers`, on the host, to the numbers
// that they represent.
command::Tensor draw_weights(const PackedForm& form, command::Run& run, size_t n, size_t k, size_t groups,
                             command::Tensor& numbers) {
  // The run draws only a seed; the host then draws all weights from this seed.
  std::mt19937_64 random(run.normal(DType::f32, {1}).bits(0));
  std::normal_distribution<double> normal;
  const PackedDraw draw = draw_packed(
      form, static_cast<int64_t>(n), static_cast<int64_t>(k), [&] { return normal(random); }, run.verifies(),
      static_cast<int64_t>(groups));
  command::Tensor packed = run.output(DType::u32, {draw.packed.size()});
  for (size_t i = 0; i < draw.packed.size(); ++i) packed.set(i, draw.packed[i]);
  for (size_t i = 0; i < draw.numbers.size(); ++i) numbers.set(i, double{draw.numbers[i]});
  packed.to_device();
  return packed;
}

void run(const command::Fields& f, command::Run& run) {
  const GemmOperation o = operation(f);
  size_t m = static_cast<size_t>(f["m"]), n = static_cast<size_t>(f["n"]), k = static_cast<size_t>(f["k"]);
  size_t batches = static_cast<size_t>(f["batches"]);
  auto shape = [&](size_t inner, size_t outer, bool by_group) {
    std::vector<uint64_t> extents = {inner, outer};
    if (o.batched || (o.has_groups() && by_group)) extents.push_back(batches);
    return extents;
  };
  const bool of_rows = o.grouped_rows(), of_k = o.grouped_k();
  command::Tensor a = run.normal(o.a, o.a_k_major ? shape(k, m, false) : shape(m, k, false));
  std::optional<command::Tensor> packed;
  command::Tensor b =
      o.packed.is_packed()
          ? run.output(DType::f32, run.verifies() ? std::vector<uint64_t>{k, n, of_rows ? batches : 1}
                                                  : std::vector<uint64_t>{1})
          : run.normal(o.b, o.b_k_major ? shape(k, n, of_rows) : shape(n, k, of_rows));
  if (o.packed.is_packed()) packed.emplace(draw_weights(o.packed, run, n, k, of_rows ? batches : 1, b));
  const size_t columns = static_cast<size_t>(o.d_columns(f["n"]));
  Operands operands(o, run, m, n, k, batches);
  std::optional<command::Tensor> stored;
  if (o.a_metadata) stored = operands.stored(run, a, ProductOperand::a_metadata);
  if (o.b_metadata) stored = operands.stored(run, b, ProductOperand::b_metadata);
  command::Tensor d = run.output(o.d, shape(columns, m, of_k));

  auto ragged = [](const command::Tensor& x) {
    const auto row = static_cast<int64_t>(x.shape()[0]);
    return ragged_rows(x.tensor().memory, x.dtype(), row, row);
  };
  auto u32_of = [](size_t v) { return runtime::scalar(static_cast<uint32_t>(v)); };
  const command::Tensor& stored_b = o.b_metadata ? *stored : b;
  std::vector<runtime::Argument> arguments = {of_k           ? ragged(a)
                                              : o.gathers()  ? a.pointer()
                                              : o.a_metadata ? stored->tensor()
                                                             : a.tensor(),
                                              of_k            ? ragged(b)
                                              : packed        ? packed->pointer()
                                              : o.b_addresses ? operands.addressed(stored_b)
                                                              : stored_b.tensor(),
                                              o.scatters() ? d.pointer()
                                              : of_rows    ? ragged(d)
                                                           : d.tensor(),
                                              u32_of(m),
                                              u32_of(n),
                                              u32_of(k)};
  if (o.gathers()) arguments.insert(arguments.end(), {u32_of(k), u32_of(m)});
  if (o.scatters()) arguments.insert(arguments.end(), {u32_of(columns), u32_of(m)});
  if (o.b_addresses) arguments.push_back(runtime::scalar(uint64_t{arguments[1].memory.address}));
  operands.add_to(arguments);
  if (o.batched || o.has_groups()) arguments.push_back(u32_of(batches));
  const GemmTile chosen = checked(o, tile(f));
  const int most = f["sms"] ? f.small("sms") : kMostSplitCtas;
  const GemmGrid grid = gemm_grid(chosen, f["m"], f["n"], f["batches"], most, of_rows);
  std::optional<command::Tensor> workspace;
  if (const size_t bytes = gemm_workspace_bytes(chosen, grid)) {
    workspace.emplace(run.output(DType::f32, {bytes / 4}));
    workspace->poison();
    arguments.push_back(workspace->pointer());
  }
  run.launch(arguments);

  const DotProduct first = {k, o.a_k_major ? k : 1, o.a_k_major ? 1 : m, o.b_k_major ? k : 1,
                            o.b_k_major ? 1 : n};
  std::optional<DotProducts> dots;
  if (!o.has_groups() && !o.has_block_scales() && !o.gathers()) dots.emplace(run, a, b, m, n, batches, first);
  auto dot = [&](size_t batch, size_t i, size_t j) {
    if (dots) return (*dots)(batch, i, j);
    if (of_rows && batch == batches) return Dot{0, 0};
    const std::optional<size_t> row = operands.row_of_a(i);
    if (!row) return Dot{0, 0};
    DotProduct p = first;
    if (!o.has_groups()) p.a_start = batch * m * k;
    if (!of_k) p.b_start = operands.matrix_of(batch) * n * k;
    if (of_k) {
      const size_t begin = operands.begin_of(batch);
      p.k = operands.end_of(batch) - begin;
      p.a_start = begin * m, p.b_start = begin * n;
    }
    if (!o.has_block_scales()) return dot_product(a, b, *row, j, p);
    return scaled_dot_product(a, b, *row, j, p,
                              [&](size_t depth) { return operands.block_factor(batch, i, j, depth); });
  };
  auto output_of_row = [&](size_t row, size_t i) {
    const size_t batch = of_rows ? operands.group_of(row) : i / (m * columns);
    return operands.output([&](size_t j) { return dot(batch, row, j); }, batch, row, i % columns);
  };
  auto output = [&](size_t i) { return output_of_row(operands.rows_of_product(i / columns % m).front(), i); };
  // Rows that receive nothing remain zero. Whatever the order of additions is, each addition rounds a sum
  // that is at most the sum of all magnitudes.
  auto sum_of_rows = [&](size_t i) {
    command::Expected sum = {0, 0};
    double magnitude = 0, added = 0;
    for (const size_t row : operands.rows_of_product(i / columns % m)) {
      if (!operands.has_row(row)) continue;
      const command::Expected one = rounded(o, output_of_row(row, i), operands.last_factor());
      sum.value += one.value, sum.tolerance += one.tolerance;
      magnitude += std::abs(one.value) + one.tolerance, added += 1;
    }
    sum.tolerance += 1.01 * added * unit_roundoff(o.d) * magnitude;
    return sum;
  };
  const bool sums = o.add_to_rows || o.group_counts;
  auto start = [&] {
    sums ? d.zero() : d.poison();
    operands.each(OperandRole::greatest, [](command::Tensor& greatest) {
      greatest.set(0, 0);
      greatest.to_device();
    });
  };
  run.check(
      d, static_cast<double>(k),
      [&](size_t i) { return sums ? sum_of_rows(i) : rounded(o, output(i), operands.last_factor()); }, start);
  operands.each(OperandRole::greatest, [&](command::Tensor& greatest) {
    run.check(
        greatest, static_cast<double>(m * n * k * batches),
        [&](size_t) {
          command::Expected expected = {0, 0};
          for (size_t i = 0; i < m * columns * batches; ++i) {
            const Approximate y = output(i);
            if (std::abs(y.value) > expected.value) expected = {std::abs(y.value), y.lost};
          }
          return command::Expected{expected.value, 2 * expected.tolerance + 1e-6 * expected.value};
        },
        start);
  });
  double dm = static_cast<double>(m), dn = static_cast<double>(n), dk = static_cast<double>(k);
  const double of_a = o.a_metadata ? 0.5 : 1,
               of_b = o.b_metadata ? 0.5 : 1;  // share of the elements that is stored
  // If there are groups, m or k is the total over all groups, so the products are not multiplied by the
  // number of groups.
  const double db = static_cast<double>(batches), products = o.has_groups() ? 1 : db;
  const double bytes_of_b =
      packed ? 4 * static_cast<double>(packed->count()) : of_b * dn * dk * (of_k ? 1 : db) * size_of(o.a);
  run.measure(2 * dm * dn * dk * products,
              of_a * dm * dk * products * size_of(o.a) + bytes_of_b +
                  dm * static_cast<double>(columns) * size_of(o.d) * (of_rows ? 1 : db));
}

const command::Registration registration({
    .name = "gemm",
    .summary = "matrix product for every type, storage, epilogue and tile",
    .fields = {{"m", 512, "rows of D"},
               {"n", 512, "columns of D"},
               {"k", 512, "depth of the product"},
               {"batches", 1, "products, in consecutive batches, or groups"},
               {"groups_of_k", 0, "groups divide k, not rows", 1, 1, kSwitch},
               {"a", 0, "type of A", 1, 1, kInputs},
               {"b", 0, "type of B", 1, 1, {"as a", "bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8"}},
               {"d", 0, "type of D", 1, 1, kOutputs},
               {"a_major", 0, "the dimension along which A is contiguous", 1, 1, {"k", "m"}},
               {"b_major", 0, "the dimension along which B is contiguous", 1, 1, {"k", "n"}},
               {"packed", 0, "B has packed weights of a type", 1, 1, kWeights},
               {"packed_group", 128, "number of values along k that share a packed scale; 0 for all", 32, 0},
               {"packed_scales", 0, "type of the packed scales", 1, 1, kScales},
               {"promote", 0, "promote sums of 8-bit floats to f32 every 128 of k", 1, 1, kSwitch},
               {"alpha", 0, "a factor of the product", 1, 1, kSwitch},
               {"beta", 0, "add a factor of C", 1, 1, kSwitch},
               {"activation", 0, "activation of the result", 1, 1, kActivations},
               {"use", 0, "use of the activation: its value, its slope at separate inputs, or a gate", 1, 1,
                kUses},
#define PTXBUILDER_VECTOR(name, word, type, shape, role, meaning) {#name, 0, meaning, 1, 1, kSwitch},
#include "kernels/gemm/product.def"
               {"bm", 128, "rows of a tile", 64},
               {"bn", 256, "columns of a tile", 8},
               {"bk", 0, "depth of a stage; 0 for 128 bytes", 1, 0},
               {"stages", 0, "stages of the ring; 0 for as many as fit", 1, 0},
               {"consumers", 2, "warpgroups that multiply"},
               {"pingpong", 0, "two consumers process tiles in turn", 1, 1, kSwitch},
               {"swapped", 0, "rows of a tile run along n", 1, 1, kSwitch},
               {"cluster_m", 1, "CTAs of a cluster along rows"},
               {"cluster_n", 1, "CTAs of a cluster along columns"},
               {"split_k", 1, "CTAs that divide k"},
               {"split_last", 1, "the largest number of CTAs that divide k of a tile of the last wave"},
               {"group", 16, "rows or columns of tiles that are computed together"},
               {"raster", 0, "what a group consists of", 1, 1, {"rows", "columns"}},
               {"snake", 0, "every second group goes backwards", 1, 1, kSwitch},
               {"ctas_per_sm", 1, "CTAs per SM"},
               {"inside", 0, "no tile reaches past the output", 1, 1, kSwitch},
               {"overlaps", 1, "may begin before the previous launch has ended", 1, 1, kSwitch},
               {"sms", 0, "multiprocessors that the grid is for; 0 for the device's", 1, 0}},
    .build = build,
    .run = run,
    .choice = {.axes = {{"m", "M"}, {"n", "N"}, {"k", "K"}},
               .choose = choose_tile,
               .caution = rows_that_need_gaps},
    .forecast = forecast,
});

}  // namespace
}  // namespace ptxbuilder::kernels
