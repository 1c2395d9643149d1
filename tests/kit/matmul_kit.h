// A matrix product in guarded memory that is compared with float64; the tests of Matmul share it.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "guarded_matrix.h"
#include "kernels/gemm/matmul_check.h"
#include "kernels/gemm/packed_draw.h"
#include "kernels/gemm/reference.h"

namespace ptxbuilder::test {

struct MatmulCase {
  kernels::GemmSize size;
  DType a = DType::bf16, b = DType::bf16, d = DType::bf16;
  bool a_k_major = true, b_k_major = true, fast_accumulation = true;
  bool in_place = false;  // C and D are one matrix
  float alpha = 1, beta = 0;
  kernels::Activation activation = kernels::Activation::none;
  kernels::ActivationUse use = kernels::ActivationUse::value;
  // Each of these fields states whether the case has an operand of product.def. For a matrix, the field
  // specifies the matrix's placement instead.
#define PTXBUILDER_VECTOR(name, ...) bool name = false;
#define PTXBUILDER_MATRIX(name, ...) Lie name##_lie = {};
#include "kernels/gemm/product.def"
  bool groups_of_k = false;
  kernels::PackedForm packed = {};
  int64_t rows_of_a = 0;  // number of rows of A, if a_rows is set
  float d_scale_is = 1, amax_was = 0;
  Lie a_lie, b_lie, d_lie;
  uint64_t seed = 1;
};

// Returns the number of rows of D. With d_rows, D has kMoreRows more rows than the product; with add_to_rows,
// about a third of them.
inline constexpr int64_t kMoreRows = 9;
inline int64_t rows_of_d(const MatmulCase& c) {
  return c.d_rows ? c.size.m + kMoreRows : c.add_to_rows ? c.size.m / 3 + kMoreRows : c.size.m;
}

// Returns the arguments of a case without the matrices' addresses; they determine a Matmul's operation.
inline kernels::MatmulArguments arguments_without_memory(const MatmulCase& c) {
  kernels::MatmulArguments p;
  p.m = c.size.m, p.n = c.size.n, p.k = c.size.k, p.batches = c.size.batches;
  p.a.type = c.a, p.b.type = c.b, p.d.type = c.d;
  p.a_k_major = c.a_k_major, p.b_k_major = c.b_k_major;
  p.alpha = c.alpha, p.beta = c.beta;
  p.activation = c.activation, p.use = c.use;
  p.groups_of_k = c.groups_of_k, p.packed = c.packed;
  p.rows_of_a = c.a_rows ? c.rows_of_a : 0;
  p.rows_of_d = c.d_rows || c.add_to_rows ? rows_of_d(c) : 0;
  p.fast_accumulation = c.fast_accumulation;
  constexpr runtime::Address kSomewhere = 256;
#define PTXBUILDER_VECTOR(name, ...) \
  if (c.name) p.name.address = kSomewhere;
#include "kernels/gemm/product.def"
  return p;
}

// Holds the matrices of a case on a device, and the results.
class MatmulTrial {
 public:
  MatmulTrial(runtime::Device& device, const MatmulCase& c)
      : device_(device),
        case_(c),
        operation_(operation_of(arguments_without_memory(c))),
        a_(device, c.a,
           c.a_rows      ? c.rows_of_a
           : c.a_k_major ? c.size.m
                         : c.size.k,
           c.a_k_major ? c.size.k : c.size.m, operation_.has_groups() ? 1 : c.size.batches, c.a_lie),
        b_(device, c.packed.is_packed() ? DType::f32 : c.b, c.b_k_major ? c.size.n : c.size.k,
           c.b_k_major ? c.size.k : c.size.n, operation_.grouped_k() ? 1 : c.size.batches, c.b_lie),
        d_(device, c.d, rows_of_d(c), operation_.d_columns(c.size.n), batches_of_d(), c.d_lie) {
#define PTXBUILDER_VECTOR(name, ...) add_operand(kernels::ProductOperand::name, {});
#define PTXBUILDER_MATRIX(name, ...) add_operand(kernels::ProductOperand::name, c.name##_lie);
#include "kernels/gemm/product.def"
    std::mt19937_64 random(c.seed);
    c.a_metadata ? fill_sparse(a_, random) : a_.fill_normal(random);
    if (c.packed.is_packed())
      fill_packed(random);
    else
      c.b_metadata ? fill_sparse(b_, random) : b_.fill_normal(random);
    if (!c.b_k_major) keep_columns_of_b();
    std::vector<int64_t> words;
    if (c.a_metadata) words = store_half(a_, c.a, c.size.m, c.a_lie);
    if (c.b_metadata) words = store_half(b_, c.b, c.size.n, c.b_lie);
    operation_.add_to_rows ? d_.fill_normal(random) : d_.poison();
    for (GuardedMatrix* x : {&a_, &b_, &d_}) x->to_device();
    for (const kernels::ProductOperandRow& row : kernels::product_operands) {
      GuardedMatrix& x = of(row.operand);
      if (row.role == kernels::OperandRole::greatest)
        x.fill(double{c.amax_was});
      else if (row.role == kernels::OperandRole::result_factor)
        x.fill(double{c.d_scale_is});
      else if (row.operand == kernels::ProductOperand::group_counts && operation_.has(row.operand))
        fill_counts(x, random);
      else if (row.role == kernels::OperandRole::groups && operation_.has(row.operand))
        fill_ends(x, random);
      else if (row.role == kernels::OperandRole::placement && operation_.has(row.operand))
        fill_addresses(x, random);
      else if (row.role == kernels::OperandRole::gather && operation_.has(row.operand))
        fill_rows(x, case_.rows_of_a, random);
      else if (row.operand == kernels::ProductOperand::add_to_rows && operation_.has(row.operand))
        fill_rows(x, rows_of_d(case_), random);
      else if (row.role == kernels::OperandRole::scatter && operation_.has(row.operand))
        fill_places(x, random);
      else if (row.role == kernels::OperandRole::sparsity && operation_.has(row.operand))
        x.fill_row(of_groups(words));
      else if (operation_.has(row.operand))
        x.fill_normal(random);
      else
        x.poison();
      x.to_device();
    }
  }

  kernels::MatmulArguments arguments() const {
    kernels::MatmulArguments p = arguments_without_memory(case_);
    p.a = a_.on_device(), p.b = (packed_ ? *packed_ : b_).on_device(), p.d = out().on_device();
    if (stored_) (case_.a_metadata ? p.a : p.b) = stored_->on_device();
    if (case_.b_addresses) p.b = matrix_of_b(case_.size.batches / 2);
#define PTXBUILDER_VECTOR(name, ...) \
  if (case_.name) p.name = of(kernels::ProductOperand::name).on_device().memory;
#define PTXBUILDER_MATRIX(name, ...) p.name = of(kernels::ProductOperand::name).on_device();
#include "kernels/gemm/product.def"
    if (!operation_.has_slope()) p.inputs = {};
    return p;
  }

  // Returns the arguments together with the workspace that the product needs, which is poisoned.
  kernels::MatmulArguments arguments(kernels::Matmul& matmul) {
    kernels::MatmulArguments p = arguments();
    const size_t bytes = matmul.workspace_bytes(p);
    if (bytes > workspace_.bytes()) workspace_ = runtime::Buffer(device_, bytes);
    if (bytes == 0) return p;
    p.workspace = workspace_.part(0, bytes);
    workspace_.fill(0xff);
    return p;
  }

  // Runs one product on a poisoned D, and returns the bytes of D's buffer, followed by those of amax.
  std::vector<std::byte> run(kernels::Matmul& matmul) {
    poison();
    matmul(arguments(matmul));
    device_.synchronize();
    return result();
  }
  std::vector<std::byte> result() const {
    std::vector<std::byte> all = out().from_device();
    const std::vector<std::byte> amax = greatest().from_device();
    all.insert(all.end(), amax.begin(), amax.end());
    return all;
  }
  void poison() {
    out().to_device();
    of(kernels::ProductOperand::amax).to_device();
  }

  // Returns the expected element, given the dot product (without alpha) and the bias.
  using Wanted = std::function<double(double sum, double bias, int64_t batch, int64_t row, int64_t column)>;

  // Returns a message about what is wrong with the results of run(), or "". Uses all processors. Without
  // `wanted`, the results are compared with the case's expected values. With `wanted`, they must agree within
  // 1e-4 (1 + |sum|).
  std::string wrong(const std::vector<std::byte>& result, const Wanted& wanted = nullptr) const {
    const size_t of_d = out().bytes().size();
    const std::vector<std::byte> got(result.begin(), result.begin() + static_cast<ptrdiff_t>(of_d)),
        amax(result.begin() + static_cast<ptrdiff_t>(of_d), result.end());
    if (const size_t at = out().first_touched(got); at != of_d)
      return fmt::format("byte {} of {} around D was overwritten", at, of_d);
    if (const size_t at = greatest().first_touched(amax); at != amax.size())
      return fmt::format("byte {} of {} around amax was overwritten", at, amax.size());
    if (is_other_row_touched(got)) return "a row of D that no row of the product becomes was overwritten";
    const int64_t rows = operation_.add_to_rows ? rows_of_d(case_) : case_.size.m * batches_of_d();
    std::atomic<int64_t> next = 0;
    std::mutex adding;
    Seen all;
    {
      std::vector<std::jthread> threads;
      for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
        threads.emplace_back([&] {
          Seen seen;
          for (int64_t row; (row = next++) < rows;)
            operation_.add_to_rows ? judge_added(got, row, wanted, seen)
                                   : judge_row(got, row / case_.size.m, row % case_.size.m, wanted, seen);
          const std::lock_guard lock(adding);
          all.add(seen);
        });
    }
    if (all.wrong > 0) return fmt::format("{} elements are wrong, one: {}", all.wrong, all.first);
    return wrong_amax(all, greatest().value_in(amax, 0, 0, 0));
  }

 private:
  // The findings about some rows: the number of wrong elements, bounds for the greatest |D| before D's
  // factor, and its stored value.
  struct Seen {
    size_t wrong = 0;
    std::string first;
    double least = 0, most = 0, stored = 0;

    void add(const Seen& other) {
      if (wrong == 0) first = other.first;
      wrong += other.wrong;
      least = std::max(least, other.least), most = std::max(most, other.most);
      stored = std::max(stored, other.stored);
    }
  };

  // On the host, B holds the numbers that the weights represent.
  void fill_packed(std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    const kernels::PackedDraw draw = draw_packed(
        case_.packed, case_.size.n, case_.size.k, [&] { return normal(random); }, true, case_.size.batches);
    b_.fill_row(draw.numbers);
    packed_.emplace(device_, DType::u32, 1, static_cast<int64_t>(draw.packed.size()), 1, Lie{});
    packed_->fill_bits(draw.packed);
    packed_->to_device();
  }
  int64_t batches_of_d() const { return operation_.grouped_rows() ? 1 : case_.size.batches; }
  // Every four consecutive elements of a row include at least two zeros.
  static void fill_sparse(GuardedMatrix& x, std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    std::array<int64_t, 2> kept = {};
    x.fill_by([&](int64_t, int64_t, int64_t column) {
      if (column % 4 == 0)
        for (int64_t& one : kept) one = static_cast<int64_t>(random() % 4);
      return std::ranges::count(kept, column % 4) > 0 ? 4 * normal(random) : 0.0;
    });
  }
  // Stores the nonzero half of a sparse matrix, and returns the words of its metadata.
  std::vector<int64_t> store_half(const GuardedMatrix& whole, DType type, int64_t rows, const Lie& lie) {
    const int64_t k = case_.size.k, batches = case_.size.batches;
    std::vector<SparseMatrix> all;
    std::vector<int64_t> words;
    for (int64_t batch = 0; batch < batches; ++batch) {
      all.push_back(compress_2_4(type, &whole.bytes()[whole.at(batch, 0, 0)], rows, k, whole.stride()));
      for (const uint32_t word : all.back().metadata) words.push_back(static_cast<int32_t>(word));
    }
    stored_.emplace(device_, type, rows, k / 2, batches, lie);
    stored_->fill_by([&](int64_t batch, int64_t row, int64_t column) {
      const int64_t at = (row * k / 2 + column) * size_of(type);
      return read_element(&all[static_cast<size_t>(batch)].values[static_cast<size_t>(at)], type);
    });
    stored_->to_device();
    return words;
  }
  // Draws the ends of groups of arbitrary sizes, many of them 0. Rows after the last group belong to no
  // group.
  void fill_ends(GuardedMatrix& x, std::mt19937_64& random) {
    const int64_t extent = operation_.groups_of_k ? case_.size.k : case_.size.m;
    std::vector<int64_t> ends;
    for (int64_t g = 0; g < case_.size.batches; ++g)
      ends.push_back(random() % 3 == 0 && g > 0 ? ends.back()
                                                : std::uniform_int_distribution<int64_t>(0, extent)(random));
    if (random() % 2 == 0) ends.back() = extent;
    std::ranges::sort(ends);
    x.fill_row(ends);
  }
  // Draws arbitrary numbers of rows, some of them out of range.
  void fill_counts(GuardedMatrix& x, std::mt19937_64& random) {
    std::vector<int64_t> counts;
    for (int64_t g = 0; g < case_.size.batches; ++g)
      counts.push_back(
          std::uniform_int_distribution<int64_t>(-2, case_.size.m / case_.size.batches + 2)(random));
    x.fill_row(counts);
  }
  // Draws a matrix of B for each group. Several groups may share a matrix, and some matrices may be unused.
  void fill_addresses(GuardedMatrix& x, std::mt19937_64& random) {
    std::vector<uint64_t> addresses;
    for (int64_t g = 0; g < case_.size.batches; ++g) {
      matrices_.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(case_.size.batches)));
      addresses.push_back(matrix_of_b(matrices_.back()).memory.address);
    }
    x.fill_bits(addresses);
  }
  // Returns the metadata of each group's matrix, taken from the metadata of all matrices.
  std::vector<int64_t> of_groups(const std::vector<int64_t>& words) const {
    if (matrices_.empty()) return words;
    const auto each = static_cast<ptrdiff_t>(words.size() / matrices_.size());
    std::vector<int64_t> all;
    for (const int64_t matrix : matrices_)
      all.insert(all.end(), words.begin() + matrix * each, words.begin() + (matrix + 1) * each);
    return all;
  }
  // Returns matrix `number` of B on the device.
  kernels::DeviceMatrix matrix_of_b(int64_t number) const {
    kernels::DeviceMatrix one = (stored_ ? *stored_ : b_).on_device();
    const int64_t bytes = number * one.batch_stride * size_of(one.type);
    one.memory.address += static_cast<uint64_t>(bytes), one.memory.bytes -= static_cast<size_t>(bytes);
    one.batch_stride = 0;
    return one;
  }
  // Returns whether row i of the product is computed.
  bool has_row(int64_t i) const {
    if (!operation_.group_counts) return true;
    const int64_t apart = case_.size.m / case_.size.batches;
    return static_cast<double>(i % apart) < of(kernels::ProductOperand::group_counts).value(0, 0, i / apart);
  }
  // Draws numbers of a matrix's `all` rows, some of them out of range.
  void fill_rows(GuardedMatrix& x, int64_t all, std::mt19937_64& random) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < case_.size.m; ++i)
      rows.push_back(random() % 16 == 0 ? (random() % 2 == 0 ? -1 : all)
                                        : std::uniform_int_distribution<int64_t>(0, all - 1)(random));
    x.fill_row(rows);
  }
  // Draws some of D's rows, each at most once, and some that D does not have.
  void fill_places(GuardedMatrix& x, std::mt19937_64& random) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < rows_of_d(case_); ++i) rows.push_back(i);
    std::ranges::shuffle(rows, random);
    rows.resize(static_cast<size_t>(case_.size.m));
    for (int64_t& row : rows)
      if (random() % 16 == 0) row = random() % 2 == 0 ? -1 : rows_of_d(case_);
    x.fill_row(rows);
  }
  // Returns the row of D that row i of the product becomes, or -1 if there is none.
  int64_t row_of_d(int64_t i) const {
    if (!has_row(i)) return -1;
    if (!operation_.scatters()) return i;
    using enum kernels::ProductOperand;
    const auto row = static_cast<int64_t>(of(operation_.add_to_rows ? add_to_rows : d_rows).value(0, 0, i));
    return row < rows_of_d(case_) ? row : -1;
  }
  // Returns whether the product has changed a row of D that it should leave alone.
  bool is_other_row_touched(const std::vector<std::byte>& got) const {
    if (!operation_.scatters() && !operation_.group_counts) return false;
    std::vector<bool> named(static_cast<size_t>(rows_of_d(case_)), false);
    for (int64_t i = 0; i < case_.size.m; ++i)
      if (const int64_t row = row_of_d(i); row >= 0) named[static_cast<size_t>(row)] = true;
    const std::vector<std::byte>& before = out().bytes();
    for (size_t row = 0; row < named.size(); ++row) {
      if (named[row]) continue;
      const auto at = static_cast<ptrdiff_t>(out().at(0, static_cast<int64_t>(row), 0));
      const ptrdiff_t bytes = operation_.d_columns(case_.size.n) * size_of(case_.d);
      if (!std::equal(got.begin() + at, got.begin() + at + bytes, before.begin() + at)) return true;
    }
    return false;
  }
  // Returns the row of A for row i of the product, or -1 if that row is zeros.
  int64_t row_of_a(int64_t i) const {
    if (!operation_.gathers()) return i;
    const auto row = static_cast<int64_t>(of(kernels::ProductOperand::a_rows).value(0, 0, i));
    return row < case_.rows_of_a ? row : -1;
  }
  int64_t end_of(int64_t group) const {
    return group < 0 ? 0 : static_cast<int64_t>(of(kernels::ProductOperand::group_ends).value(0, 0, group));
  }
  // Returns the group of a row; for a row in no group, it is the number of groups.
  int64_t group_of(int64_t row) const {
    if (operation_.group_counts) return row / (case_.size.m / case_.size.batches);
    int64_t group = 0;
    while (group < case_.size.batches && end_of(group) <= row) ++group;
    return group;
  }
  // Adds an operand. Its elements form one row if there are no gaps. An in-place C has the layout of D.
  void add_operand(kernels::ProductOperand which, const Lie& lie) {
    const kernels::ProductOperandRow& row = kernels::product_operands[static_cast<size_t>(which)];
    const auto& [m, n, k, batches] = case_.size;
    const DType type = operation_.type_of(row);
    if (!row.is_matrix())
      operands_.emplace_back(device_, type, 1, row.count(m, n, k, batches, operation_.grouped_rows()), 1,
                             lie);
    else if (which == kernels::ProductOperand::c)
      operands_.emplace_back(device_, type, m, n, batches_of_d(), case_.in_place ? case_.d_lie : lie);
    else
      operands_.emplace_back(device_, type, operation_.has(which) ? m : 0, n, batches_of_d(), lie);
  }
  GuardedMatrix& of(kernels::ProductOperand which) { return operands_[static_cast<size_t>(which)]; }
  const GuardedMatrix& of(kernels::ProductOperand which) const {
    return operands_[static_cast<size_t>(which)];
  }
  const GuardedMatrix& greatest() const { return of(kernels::ProductOperand::amax); }
  GuardedMatrix& out() { return case_.in_place ? of(kernels::ProductOperand::c) : d_; }
  const GuardedMatrix& out() const { return case_.in_place ? of(kernels::ProductOperand::c) : d_; }
  // Returns the element of an operand that applies to element (i, j) of the product.
  double value(const kernels::ProductOperandRow& row, int64_t batch, int64_t i, int64_t j) const {
    const auto& [m, n, k, batches] = case_.size;
    const GuardedMatrix& x = of(row.operand);
    const bool grouped_rows = operation_.grouped_rows();
    if (row.is_matrix()) return x.value(grouped_rows ? 0 : batch, i, j);
    if (row.is_by_batch(grouped_rows) && batch == batches) return 0;
    return x.value(0, 0, row.at(m, n, batch, i, j, grouped_rows));
  }

  // Returns the scale of the products that begin at index `depth` of k. The scale applies to at most 128 of
  // them.
  double block_factor(int64_t batch, int64_t i, int64_t j, int64_t depth) const {
    const auto& [m, n, k, batches] = case_.size;
    double factor = 1;
    for (const kernels::ProductOperandRow& row : kernels::product_operands) {
      if (row.role != kernels::OperandRole::block_factor || !operation_.has(row.operand)) continue;
      const auto at = row.at_depth(m, n, k, batch, i, j, depth, operation_.grouped_rows());
      factor *= of(row.operand).value(0, 0, at.line * row.of_batch(m, n, k).length + at.element);
    }
    return factor;
  }

  // Copies B with k innermost, so that a dot product reads contiguous numbers.
  void keep_columns_of_b() {
    const auto& [m, n, k, batches] = case_.size;
    for (int64_t batch = 0; batch < (operation_.grouped_k() ? 1 : batches); ++batch)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t depth = 0; depth < k; ++depth) columns_of_b_.push_back(*b_.values(batch, depth, j));
  }
  // Returns a column of B, whose elements are contiguous.
  const float* column_of_b(int64_t batch, int64_t j) const {
    if (case_.b_k_major) return b_.values(batch, j, 0);
    return columns_of_b_.data() + (batch * case_.size.n + j) * case_.size.k;
  }

  std::vector<kernels::Dot> dots_of(int64_t batch, int64_t i) const {
    std::vector<kernels::Dot> dots(static_cast<size_t>(case_.size.n), kernels::Dot{0, 0});
    const bool of_k = operation_.grouped_k();
    if (operation_.grouped_rows() && batch == case_.size.batches) return dots;
    const int64_t row = row_of_a(i);
    if (row < 0) return dots;
    const int64_t of_a = operation_.has_groups() ? 0 : batch,
                  of_b = of_k                ? 0
                         : matrices_.empty() ? batch
                                             : matrices_[static_cast<size_t>(batch)];
    const int64_t depth = case_.alpha == 0 ? 0 : of_k ? end_of(batch) : case_.size.k;
    const int64_t first = of_k ? end_of(batch - 1) : 0;
    const int64_t step = operation_.has_block_scales() ? kernels::kScaleBlock : std::max<int64_t>(depth, 1);
    std::vector<float> a;
    for (int64_t k = first; k < depth; ++k)
      a.push_back(*a_.values(of_a, case_.a_k_major ? row : k, case_.a_k_major ? k : row));
    for (size_t j = 0; j < dots.size(); ++j)
      for (int64_t k = first; k < depth; k += step) {
        const double factor =
            operation_.has_block_scales() ? block_factor(batch, i, static_cast<int64_t>(j), k) : 1;
        const kernels::Dot dot = kernels::dot_product(&a[static_cast<size_t>(k - first)],
                                                      column_of_b(of_b, static_cast<int64_t>(j)) + k,
                                                      static_cast<size_t>(std::min(depth - k, step)));
        dots[j].sum += factor * dot.sum, dots[j].magnitude += std::abs(factor) * dot.magnitude;
      }
    return dots;
  }

  // Returns the input of the activation.
  kernels::Approximate input(const kernels::Dot& dot, int64_t batch, int64_t i, int64_t j) const {
    return input_of(operation_, dot, double{case_.alpha}, double{case_.beta},
                    [&](const kernels::ProductOperandRow& row) { return value(row, batch, i, j); });
  }

  // For each column of D, calls `work` with the column and the value, before D's factor, in row i of the
  // product.
  template <class Work>
  void each_output(int64_t batch_of_d, int64_t i, const Wanted& wanted, Work&& work) const {
    const int64_t batch = operation_.grouped_rows() ? group_of(i) : batch_of_d;
    const std::vector<kernels::Dot> dots = dots_of(batch, i);
    const auto x = [&](int64_t j) { return input(dots[static_cast<size_t>(j)], batch, i, j); };
    for (int64_t j = 0; j < operation_.d_columns(case_.size.n); ++j) {
      kernels::Approximate y =
          operation_.gates()
              ? output_of_gate(operation_, x(2 * j), x(2 * j + 1))
              : output_of(
                    operation_, x(j),
                    operation_.has_slope() ? of(kernels::ProductOperand::inputs).value(batch_of_d, i, j) : 0);
      if (wanted) {
        const double sum = dots[static_cast<size_t>(j)].sum;
        const double bias = case_.bias ? of(kernels::ProductOperand::bias).value(0, 0, j) : 0;
        y = {wanted(sum, bias, batch, i, j), 1e-4 * (1 + std::abs(sum))};
      }
      work(j, y);
    }
  }
  // Returns the smallest and the largest number that may be stored for y. Rounding and clamping are
  // monotonic, so these numbers are stored for the ends of y's interval.
  std::pair<double, double> bounds(const kernels::Approximate& y) const {
    const double factor = case_.d_scale ? double{case_.d_scale_is} : 1;
    return std::minmax({stored(factor * (y.value - y.lost)), stored(factor * (y.value + y.lost))});
  }

  void judge_row(const std::vector<std::byte>& got, int64_t batch_of_d, int64_t i, const Wanted& wanted,
                 Seen& seen) const {
    if (!has_row(i)) return;
    const int64_t batch = operation_.grouped_rows() ? group_of(i) : batch_of_d;
    each_output(batch_of_d, i, wanted, [&](int64_t j, const kernels::Approximate& y) {
      seen.least = std::max(seen.least, std::abs(y.value) - y.lost);
      seen.most = std::max(seen.most, std::abs(y.value) + y.lost);
      const auto [low, high] = bounds(y);
      if (row_of_d(i) < 0) return;
      const double value = out().value_in(got, batch_of_d, row_of_d(i), j);
      seen.stored = std::max(seen.stored, std::abs(value));
      if ((low <= value && value <= high) || seen.wrong++ > 0) return;
      seen.first = fmt::format("D[{},{},{}] = {}, should be {} to {}", batch, i, j, value, low, high);
    });
  }

  // A row of D holds its previous contents plus the sum of the product's rows that are added to it. In any
  // order, each addition rounds a value that is at most the sum of all magnitudes.
  void judge_added(const std::vector<std::byte>& got, int64_t row, const Wanted& wanted, Seen& seen) const {
    const auto columns = static_cast<size_t>(operation_.d_columns(case_.size.n));
    std::vector<double> low(columns), high(columns), magnitude(columns);
    for (size_t j = 0; j < columns; ++j) {
      low[j] = high[j] = out().value(0, row, static_cast<int64_t>(j));
      magnitude[j] = std::abs(low[j]);
    }
    double added = 0;
    for (int64_t i = 0; i < case_.size.m; ++i) {
      if (row_of_d(i) != row) continue;
      added += 1;
      each_output(0, i, wanted, [&](int64_t j, const kernels::Approximate& y) {
        const auto at = static_cast<size_t>(j);
        const auto [least, most] = bounds(y);
        low[at] += least, high[at] += most;
        magnitude[at] += std::max(std::abs(least), std::abs(most));
      });
    }
    for (size_t j = 0; j < columns; ++j) {
      if (!(magnitude[j] < ptxbuilder::greatest(case_.d))) continue;  // sums may overflow in some order
      const double lost = 1.01 * added * unit_roundoff(case_.d) * magnitude[j];
      const double value = out().value_in(got, 0, row, static_cast<int64_t>(j));
      if ((low[j] - lost <= value && value <= high[j] + lost) || seen.wrong++ > 0) continue;
      seen.first =
          fmt::format("D[{},{}] = {}, should be {} to {}", row, j, value, low[j] - lost, high[j] + lost);
    }
  }

  // Returns the value rounded to D's type.
  double stored(double value) const { return decode(case_.d, encode(case_.d, value)); }

  std::string wrong_amax(const Seen& seen, double got) const {
    const double was = double{case_.amax_was};
    if (!case_.amax || got == was)
      return got == was && (!case_.amax || seen.least <= was)
                 ? ""
                 : fmt::format("amax is {}, was {}, and the greatest |D| is {} at least", got, was,
                               seen.least);
    if (!(got > was && seen.least <= got && got <= seen.most))
      return fmt::format("amax is {}, was {}, and the greatest |D| is {} to {}", got, was, seen.least,
                         seen.most);
    // The element with the greatest magnitude has been stored, and rounding is monotonic.
    const double as_stored =
        stored(double{static_cast<float>(got) * std::abs(case_.d_scale ? case_.d_scale_is : 1)});
    return as_stored == seen.stored
               ? ""
               : fmt::format("amax is {}, which is stored as {}, but the greatest |D| that is stored is {}",
                             got, as_stored, seen.stored);
  }

  runtime::Device& device_;
  MatmulCase case_;
  kernels::GemmOperation operation_;
  GuardedMatrix a_, b_, d_;
  std::optional<GuardedMatrix> packed_;
  std::optional<GuardedMatrix> stored_;  // the stored half of a sparse A or B
  std::vector<int64_t> matrices_;        // with b_addresses, the matrix of B for each group
  std::vector<float> columns_of_b_;      // indexed by batch and column; empty if B has k innermost
  std::vector<GuardedMatrix> operands_;  // indexed by ProductOperand
  runtime::Buffer workspace_;
};

inline std::string text(const MatmulCase& c) {
  constexpr const char* uses[] = {"", " as a slope", " as a gate"};
  std::string s =
      fmt::format("{} {}-major {} x {} {}-major {} -> {} {}", name(c.a), c.a_k_major ? "k" : "m",
                  text(c.a_lie), name(c.b), c.b_k_major ? "k" : "n", text(c.b_lie), name(c.d), text(c.d_lie));
  s += fmt::format(", {} x {} x {} x {}", c.size.m, c.size.n, c.size.k, c.size.batches);
  if (c.alpha != 1) s += fmt::format(", alpha {}", c.alpha);
  if (c.beta != 0) s += fmt::format(", beta {}{}", c.beta, c.in_place ? " in place" : ", C " + text(c.c_lie));
#define PTXBUILDER_VECTOR(name, ...) \
  if (c.name) s += ", " #name;
#include "kernels/gemm/product.def"
  if (!c.fast_accumulation) s += ", slow accumulation";
  if (c.activation != kernels::Activation::none)
    s += fmt::format(", {}{}", kernels::activation_words[static_cast<size_t>(c.activation)],
                     uses[static_cast<int>(c.use)]);
  if (c.use == kernels::ActivationUse::slope) s += " of " + text(c.inputs_lie);
  if (c.groups_of_k) s += " of k";
  if (c.packed.is_packed()) s += ", packed " + kernels::text(c.packed);
  if (c.amax) s += fmt::format(", which was {}", c.amax_was);
  if (c.d_scale) s += fmt::format(", D times {}", c.d_scale_is);
  return s;
}

}  // namespace ptxbuilder::test
