#include "ptxbuilder/plan/register_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/plan/mma_atom.h"
#include "ptxbuilder/plan/offsets.h"
#include "ptxbuilder/plan/tiled_copy.h"

namespace ptxbuilder {
namespace {

constexpr int kThreads = RegisterLayout::kThreads;

void check_rows(std::string_view name, int m) {
  if (m < hopper::wgmma_rows || m % hopper::wgmma_rows != 0)
    throw Error(fmt::format("{}: m is {}, but must be a multiple of {}", name, m, hopper::wgmma_rows));
}

void check_multiple(std::string_view name, std::string_view extent, int n, int of) {
  if (n < of || n % of != 0)
    throw Error(fmt::format("{}: {} is {}, but must be a multiple of {}", name, extent, n, of));
}

// Returns the layout of the registers of one wgmma, repeated for `blocks` blocks, each of which is 64 rows
// below the previous one. `beside` is as in `MmaRegisters::beside`.
RegisterLayout of_wgmma(const std::string& name, int blocks, int cols, int beside) {
  Layout block = mma_registers({kThreads / 32, 2, beside, cols}, cols, 1);
  return RegisterLayout({blocks * hopper::wgmma_rows, cols},
                        repeated(block, {}, {{blocks, int64_t{hopper::wgmma_rows} * cols}}), name);
}

RegisterLayout of_a(std::string_view name, int bytes, int k) {
  check_multiple(name, "k", k, 32 / bytes);
  return of_wgmma(fmt::format("{}({})", name, k), 1, k, 4 / bytes);
}

}  // namespace

struct RegisterLayout::Plan {
  TileExtent extent;
  Layout layout;
  std::string name;
  bool splat = false;
  std::vector<int> threads, values;  // number that each thread and each value adds to the element
};

RegisterLayout::RegisterLayout(TileExtent extent, const Layout& thread_value, std::string name, Where where) {
  CallersLine line(where);
  auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("{}: {} of {} x {} elements: {}", name, to_string(thread_value), extent.rows,
                            extent.cols, what));
  };
  if (extent.rows < 1 || extent.cols < 1 || int64_t{extent.rows} * extent.cols > 1 << 20)
    refuse("it must have 1 to 2^20 elements");
  if (rank(thread_value) != 2 || size(thread_value[0]) != kThreads)
    refuse(fmt::format("its modes must be {} threads and their values", kThreads));
  auto plan = std::make_shared<Plan>(Plan{extent, thread_value, name, false, {}, {}});
  int elements = extent.rows * extent.cols;
  int64_t values = size(thread_value[1]);
  if (values > elements) refuse(fmt::format("{} values a thread", values));
  for (int64_t offset : offsets_of(thread_value[0])) plan->threads.push_back(static_cast<int>(offset));
  for (int64_t offset : offsets_of(thread_value[1])) plan->values.push_back(static_cast<int>(offset));
  plan->splat = elements > 1 && cosize(thread_value) == 1;
  if (!plan->splat) {
    std::vector<int> last(static_cast<size_t>(elements), -1);  // last thread found with each element
    for (int t = 0; t < kThreads; ++t)
      for (int v : plan->values) {
        int element = plan->threads[static_cast<size_t>(t)] + v;
        if (element < 0 || element >= elements) refuse(fmt::format("element {} does not exist", element));
        if (std::exchange(last[static_cast<size_t>(element)], t) == t)
          refuse(fmt::format("thread {} holds element {} twice", t, element));
      }
    if (auto left_out = std::find(last.begin(), last.end(), -1); left_out != last.end())
      refuse(fmt::format("no thread holds element {}", left_out - last.begin()));
  }
  plan_ = std::move(plan);
}

TileExtent RegisterLayout::extent() const { return plan_->extent; }
int RegisterLayout::values() const { return static_cast<int>(plan_->values.size()); }
const Layout& RegisterLayout::thread_value() const { return plan_->layout; }
bool RegisterLayout::is_splat() const { return plan_->splat; }
int RegisterLayout::of_thread(int thread) const { return plan_->threads[static_cast<size_t>(thread)]; }
int RegisterLayout::of_value(int value) const { return plan_->values[static_cast<size_t>(value)]; }

bool operator==(const RegisterLayout& a, const RegisterLayout& b) {
  return a.plan_ == b.plan_ || (a.extent() == b.extent() && a.is_splat() == b.is_splat() &&
                                a.plan_->threads == b.plan_->threads && a.plan_->values == b.plan_->values);
}

std::string RegisterLayout::describe() const {
  return fmt::format("{} {}", plan_->name, to_string(plan_->layout));
}

RegisterLayout RegisterLayout::reduced(bool keep_rows) const {
  const char* kept = keep_rows ? "rows" : "columns";
  TileExtent left = keep_rows ? TileExtent{rows(), 1} : TileExtent{1, cols()};
  if (is_splat()) return splat(left);
  if (!detail::additive_rows(*this) || !detail::additive_cols(*this))
    throw Error(
        fmt::format("{}: its rows and columns are not separate, so its {} cannot be reduced; layout_cast the "
                    "tile first{}",
                    describe(), kept,
                    rows() % hopper::wgmma_rows == 0 && cols() % 8 == 0
                        ? fmt::format(", for example to wgmma_layout({}, {})", rows(), cols())
                        : ""));
  Layout projection = make_layout({cols(), rows()}, {keep_rows ? 0 : 1, keep_rows ? 1 : 0});
  Layout threads = composition(projection, plan_->layout[0]);
  Layout values = filter(composition(projection, plan_->layout[1]));
  return RegisterLayout(left, concatenate<int64_t>({threads, values}),
                        fmt::format("the {} of {}", kept, plan_->name));
}

RegisterLayout RegisterLayout::reduced_rows(Where where) const {
  CallersLine line(where);
  return reduced(true);
}
RegisterLayout RegisterLayout::reduced_cols(Where where) const {
  CallersLine line(where);
  return reduced(false);
}

RegisterLayout wgmma_layout(int m, int n, Where where) {
  CallersLine line(where);
  check_rows("wgmma_layout", m);
  check_multiple("wgmma_layout", "n", n, 8);
  return of_wgmma(fmt::format("wgmma_layout({}, {})", m, n), m / hopper::wgmma_rows, n, 2);
}

RegisterLayout wgmma_row(int m, Where where) {
  CallersLine line(where);
  check_rows("wgmma_row", m);
  Layout rows = wgmma_layout(m, 8).reduced_rows().thread_value();
  return RegisterLayout({m, 1}, rows, fmt::format("wgmma_row({})", m));
}

RegisterLayout wgmma_col(int n, Where where) {
  CallersLine line(where);
  check_multiple("wgmma_col", "n", n, 8);
  Layout cols = wgmma_layout(hopper::wgmma_rows, n).reduced_cols().thread_value();
  return RegisterLayout({1, n}, cols, fmt::format("wgmma_col({})", n));
}

RegisterLayout wgmma_8bit(int k, Where where) {
  CallersLine line(where);
  return of_a("wgmma_8bit", 1, k);
}
RegisterLayout wgmma_32bit(int k, Where where) {
  CallersLine line(where);
  return of_a("wgmma_32bit", 4, k);
}

RegisterLayout wgmma_a(DType type, int m, int k, Where where) {
  CallersLine line(where);
  switch (type) {
    case DType::f16:
    case DType::bf16:
      return wgmma_layout(m, k);
    case DType::tf32:
      return wgmma_32bit(k);
    case DType::e4m3:
    case DType::e5m2:
    case DType::s8:
    case DType::u8:
      return wgmma_8bit(k);
    default:
      throw Error(fmt::format("wgmma_a: the type is {}, but must be f16, bf16, tf32, e4m3, e5m2, s8 or u8",
                              name(type)));
  }
}

// In every 16 columns, lanes 0 to 3 of every four hold the columns that begin at 0, 8, 4 and 12. The exchange
// with wgmma_layout is thus between lanes 0 and 1, and between lanes 2 and 3.
RegisterLayout wgmma_upcast_2x(int m, int k, Where where) {
  CallersLine line(where);
  check_rows("wgmma_upcast_2x", m);
  check_multiple("wgmma_upcast_2x", "k", k, 16);
  Layout layout = make_layout({{2, 2, 8, 4}, {4, 2, k / 16, m / hopper::wgmma_rows}},
                              {{8, 4, k, 16 * k}, {1, 8 * k, 16, hopper::wgmma_rows * k}});
  return RegisterLayout({m, k}, layout, fmt::format("wgmma_upcast_2x({}, {})", m, k));
}

RegisterLayout wgmma_upcast_4x(int m, int k, Where where) {
  CallersLine line(where);
  check_rows("wgmma_upcast_4x", m);
  check_multiple("wgmma_upcast_4x", "k", k, 32);
  Layout layout = make_layout({{4, 8, 4}, {8, 2, k / 32, m / hopper::wgmma_rows}},
                              {{8, k, 16 * k}, {1, 8 * k, 32, hopper::wgmma_rows * k}});
  return RegisterLayout({m, k}, layout, fmt::format("wgmma_upcast_4x({}, {})", m, k));
}

// In each block of 8 x 8 elements, lane l holds rows 2 * (l / 8) and 2 * (l / 8) + 1 of column 2 * (l % 4) +
// l / 4 % 2.
RegisterLayout wgmma_transposed(int m, int n, Where where) {
  CallersLine line(where);
  check_rows("wgmma_transposed", m);
  check_multiple("wgmma_transposed", "n", n, 8);
  Layout layout = make_layout({{4, 2, 4, 4}, {2, 2, n / 8, m / hopper::wgmma_rows}},
                              {{2, 1, 2 * n, 16 * n}, {n, 8 * n, 8, hopper::wgmma_rows * n}});
  return RegisterLayout({m, n}, layout, fmt::format("wgmma_transposed({}, {})", m, n));
}

RegisterLayout strided(TileExtent extent, int vector, Where where) {
  CallersLine line(where);
  int elements = extent.rows * extent.cols, step = kThreads * vector;
  if (vector < 1 || elements < 1 || elements % step != 0)
    throw Error(
        fmt::format("strided: {} x {} elements in vectors of {} were requested, but the number of elements "
                    "must be a multiple of {}",
                    extent.rows, extent.cols, vector, step));
  Layout layout = make_layout({kThreads, {vector, elements / step}}, {vector, {1, step}});
  return RegisterLayout(extent, layout,
                        fmt::format("strided({} x {}, {})", extent.rows, extent.cols, vector));
}

RegisterLayout splat(TileExtent extent, Where where) {
  CallersLine line(where);
  return RegisterLayout(extent, make_layout({kThreads, 1}, {0, 0}),
                        fmt::format("splat({} x {})", extent.rows, extent.cols));
}

namespace detail {
namespace {

template <class F>
std::optional<Additive> sum_of(const RegisterLayout& layout, F f) {
  Additive sum;
  for (size_t b = 0; b < sum.bits.size(); ++b) sum.bits[b] = f(layout.of_thread(1 << b));
  for (int v = 0; v < layout.values(); ++v) sum.values.push_back(f(layout.of_value(v)));
  for (int t = 0; t < kThreads; ++t) {
    int of_thread = 0;
    for (size_t b = 0; b < sum.bits.size(); ++b)
      if (t >> b & 1) of_thread += sum.bits[b];
    for (int v = 0; v < layout.values(); ++v)
      if (f(layout.element(t, v)) != of_thread + sum.values[static_cast<size_t>(v)]) return std::nullopt;
  }
  return sum;
}

}  // namespace

std::optional<Additive> additive(const RegisterLayout& layout, const std::function<int(int)>& f) {
  return sum_of(layout, f);
}

std::optional<Additive> additive_rows(const RegisterLayout& layout) {
  return sum_of(layout, [cols = layout.cols()](int element) { return element / cols; });
}

std::optional<Additive> additive_cols(const RegisterLayout& layout) {
  return sum_of(layout, [cols = layout.cols()](int element) { return element % cols; });
}

void check_part(const TilePart& part, TileExtent tile, std::string_view operation) {
  auto fits = [](int first, int count, int of, int extent) {
    return first >= 0 && count >= of && first % of == 0 && count % of == 0 && first <= extent - count;
  };
  if (!fits(part.row, part.rows, hopper::wgmma_rows, tile.rows) || !fits(part.col, part.cols, 8, tile.cols))
    throw Error(fmt::format(
        "{}: {} x {} elements from ({}, {}) of {} x {} were requested; they must be within these, rows in "
        "multiples of {} and columns in multiples of 8",
        operation, part.rows, part.cols, part.row, part.col, tile.rows, tile.cols, hopper::wgmma_rows));
}

int replicated_bits(const RegisterLayout& layout) {
  int mask = 0;
  for (int b = 0; b < 7; ++b)
    if (layout.of_thread(1 << b) == 0) mask |= 1 << b;
  return mask;
}

}  // namespace detail

}  // namespace ptxbuilder
