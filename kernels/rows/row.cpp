#include "kernels/rows/row.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/rows/element.h"
#include "ptxbuilder/registers/memory.h"

namespace ptxbuilder::kernels {
namespace {

// Returns the index of a tensor in the operation's list.
size_t place_of(const RowOperation& o, const std::string& tensor) {
  for (size_t i = 0; i < o.tensors.size(); ++i)
    if (o.tensors[i].name == tensor) return i;
  throw Error(fmt::format("{} has no tensor '{}'", o.name, tensor));
}

// Returns the first column of the warp's part of a row.
u32 first_column(const RowTile& t) {
  return t.is_shared() ? (ctaid_x() % t.ctas * (t.pieces * t.warps) + tid_x() / 32) * t.columns_of_warp()
                       : u32(0);
}

// Returns the warpgroup's tile of a tensor [rows, columns]. It begins at row `row`, and the warp's part
// begins at column `column`. If warps share a row, the rows of the tile are the parts of the warps, and the
// last parts may have fewer columns.
template <class T>
TensorTile<T> tile_of(const RowTile& t, gptr<T> start, u32 rows, u32 columns, u32 row, u32 column) {
  if (!t.is_shared()) return GlobalTensor(start, {rows, columns}).multiples_of(t.vector).tile(row, 0);
  const u32 of_warpgroup = column - tid_x() / 32 % RowTile::kWarps * t.columns_of_warp();
  TensorTile<T> tile{{start + (u64(row) * u64(columns) + u64(of_warpgroup)), t.columns_of_warp()}};
  tile.cols = select(row < rows, s32(columns) - s32(column), s32(0));
  tile.vector = t.vector;
  return tile;
}

// Loads the thread's columns of a tensor [columns].
Numbers columns_of(const RowProblem& problem, const Parameters& parameters, const std::string& tensor,
                   float unsaid, u32 column) {
  const RowTile& t = problem.tile;
  const RegisterLayout layout = t.layout();
  const auto& type = problem.types[place_of(*problem.operation, tensor)];
  if (!type) return Numbers(f32(unsaid), layout);
  return with_type(*type, [&]<class T>(T) {
    const auto row =
        tile_of(t, parameters.get<gptr<T>>(tensor), 1, parameters.get<u32>("columns"), 0, column);
    if (t.is_shared()) return widened(load<T>(row, layout));
    return broadcast(widened(load<T>(row, layout.reduced_cols())), layout);
  });
}

// Loads the thread's elements of a tensor [rows, columns].
template <class T>
RegisterTile<T> rows_of(const RowProblem& problem, const Parameters& parameters, const std::string& tensor,
                        float outside, u32 row, u32 column) {
  return load<T>(tile_of(problem.tile, parameters.get<gptr<T>>(tensor), parameters.get<u32>("rows"),
                         parameters.get<u32>("columns"), row, column),
                 problem.tile.layout(), T(outside));
}

// Loads a number for each row of the tile. The numbers are `stride` elements apart.
template <class T>
RegisterTile<T> number_of(const RowProblem& problem, const Parameters& parameters, gptr<T> start, int stride,
                          u32 row) {
  const RegisterLayout layout = problem.tile.layout().reduced_rows();
  const u32 rows = parameters.get<u32>("rows");
  if (problem.tile.is_shared())
    return RegisterTile<T>(T(start[u64(min(row, rows - 1)) * u64(stride)]), layout);
  return ptxbuilder::load<T>(GlobalTensor(start, {rows}, {stride}).as_col().tile(row, 0), layout);
}

}  // namespace

Parameters declare_parameters(Kernel& k, const RowProblem& problem, Where where,
                              const std::function<void(Parameters&)>& more) {
  Parameters p;
  const RowOperation& o = *problem.operation;
  for (size_t i = 0; i < o.tensors.size(); ++i)
    if (problem.types[i])
      p.add(o.tensors[i].name, Parameter::Kind::pointer,
            o.tensors[i].is_summed ? DType::f32 : *problem.types[i], o.tensors[i].meaning);
  for (const std::string& size : o.sizes())
    p.add(size, Parameter::Kind::scalar, DType::u32, "an extent of tensors");
  for (const RowTensor& t : o.tensors)
    for (size_t d = 0; d < t.strided.size(); ++d)
      p.add(t.stride_name(d), Parameter::Kind::scalar, DType::u64,
            "elements from one " + t.strided[d] + " to the next");
  for (const RowNumber& n : o.numbers) p.add(n.name, Parameter::Kind::scalar, DType::f32, n.meaning);
  if (more) more(p);
  p.declare(k, where);
  return p;
}

Row::Row(const RowProblem& problem, const Parameters& parameters, RowExchange& exchange, u32 block,
         Loaded loaded)
    : problem_(problem),
      parameters_(parameters),
      exchange_(exchange),
      layout_(problem.tile.layout()),
      loaded_(std::move(loaded)),
      row_(block * problem.tile.rows()),
      column_(first_column(problem.tile)) {}

Row::Row(const Row& row, u32 column)
    : problem_(row.problem_),
      parameters_(row.parameters_),
      exchange_(row.exchange_),
      layout_(row.layout_),
      row_(row.row_),
      column_(row.column_ + column),
      waiting_(row.waiting_) {}

void Row::for_pieces(const std::function<void(Row&)>& body) {
  const RowTile& t = problem_.tile;
  if (t.is_in_pieces) {
    for_(0, size("columns"), static_cast<uint32_t>(t.columns_of_piece()), [&](u32 column) {
      Row one(*this, column);
      body(one);
    });
  } else if (t.waits()) {
    for (int piece = 0; piece < t.pieces; ++piece) {
      waiting_->wait(piece);
      Row one(*this, u32(piece * t.columns_of_piece()));
      one.piece_ = piece;
      body(one);
    }
  } else {
    body(*this);
  }
}

Numbers Row::over_pieces(Reduction operation, const std::function<Numbers(Row&)>& of) {
  std::optional<Numbers> all;
  for_pieces([&](Row& piece) {
    const Numbers one = of(piece);
    all = !all ? one : operation == Reduction::add ? *all + one : max(*all, one);
  });
  return *all;
}

void Row::send_for(Kernel& kernel) {
  std::vector<WaitingRow::Tensor> tensors;
  for (const RowTensor& t : problem_.operation->tensors)
    if (t.use == RowTensor::Use::read && t.shape == std::vector<std::string>{"rows", "columns"})
      tensors.push_back(
          {t.name, type_of(t.name),
           parameters_.get<gmem>(t.name) +
               u64(row_) * u64(size("columns")) * static_cast<uint64_t>(size_of(type_of(t.name)))});
  waiting_ = std::make_shared<WaitingRow>(kernel, problem_.tile, tensors, column_, size("columns"));
}

bool Row::has(const std::string& tensor) const {
  return problem_.types[place_of(*problem_.operation, tensor)].has_value();
}
DType Row::type_of(const std::string& tensor) const {
  const auto& type = problem_.types[place_of(*problem_.operation, tensor)];
  if (!type) throw Error(fmt::format("{}: '{}' is not given", problem_.operation->name, tensor));
  return *type;
}

Numbers Row::load(const std::string& tensor, float outside) const {
  return with_type(type_of(tensor), [&]<class T>(T) {
    if (waiting_) {
      const Numbers x = widened(RegisterTile<T>::of_registers(layout_, waiting_->load(tensor, piece_)));
      return outside == 0 ? x : select(is_inside(), x, f32(outside));
    }
    auto loaded = loaded_.find(tensor);
    if (loaded == loaded_.end())
      loaded =
          loaded_
              .emplace(tensor, rows_of<T>(problem_, parameters_, tensor, outside, row_, column_).registers())
              .first;
    return widened(RegisterTile<T>::of_registers(layout_, loaded->second));
  });
}

void Row::store(const std::string& tensor, const Numbers& x) const {
  store_to(parameters_.get<gmem>(tensor), type_of(tensor), x);
}

void Row::store_to(gmem start, DType type, const Numbers& x) const {
  with_type(type, [&]<class T>(T) {
    ptxbuilder::store(tile_of(problem_.tile, gptr<T>(start), size("rows"), size("columns"), row_, column_),
                      narrowed<T>(x));
  });
}

Numbers Row::load_from(gmem start, DType type) const {
  return with_type(type, [&]<class T>(T) {
    return widened(ptxbuilder::load<T>(
        tile_of(problem_.tile, gptr<T>(start), size("rows"), size("columns"), row_, column_), layout_));
  });
}

Numbers Row::load_rows(const std::string& tensor, const RegisterTile<s32>& index) const {
  const RowTile& t = problem_.tile;
  if (index.count() != 1) throw Error("rows by an index: a thread has several rows");
  const u32 row = bit_cast<u32>(index.value(0)),
            rows = size(problem_.operation->tensors[place_of(*problem_.operation, tensor)].shape[0]);
  return with_type(type_of(tensor), [&]<class T>(T) {
    const gptr<T> start = parameters_.get<gptr<T>>(tensor);
    TensorTile<T> tile = tile_of(t, start, rows, size("columns"), row, column_);
    if (!t.is_shared()) {  // each thread has its own row, at its own address
      tile = TensorTile<T>{{start + u64(row) * u64(size("columns")), 0}};
      tile.cols = select(row < rows, s32(size("columns")), s32(0));
      tile.vector = t.vector;
    }
    return widened(ptxbuilder::load<T>(tile, layout_, T(NAN)));
  });
}

Numbers Row::load_columns(const std::string& tensor, float unsaid) const {
  return columns_of(problem_, parameters_, tensor, unsaid, column_);
}
std::function<Numbers(const Row&)> RowThreads::columns(const std::string& tensor, float unsaid) const {
  if (problem_.tile.is_wide)
    return [tensor, unsaid](const Row& row) { return row.load_columns(tensor, unsaid); };
  return [all = columns_of(problem_, parameters_, tensor, unsaid, first_column(problem_.tile))](const Row&) {
    return all;
  };
}

Numbers Row::load_number(const std::string& tensor) const {
  if (const auto loaded = loaded_.find(tensor); loaded != loaded_.end())
    return Numbers::of_registers(layout_.reduced_rows(), loaded->second);
  return number_of(problem_, parameters_, parameters_.get<gptr<f32>>(tensor), 1, row_);
}

RegisterTile<s32> Row::load_index(const std::string& tensor) const {
  // The lower half of a 64-bit number comes first.
  return number_of(problem_, parameters_, gptr<s32>(parameters_.get<gmem>(tensor)),
                   size_of(type_of(tensor)) / 4, row_);
}

Numbers Row::load_at(const std::string& tensor, const RegisterTile<s32>& index, float otherwise) const {
  const RegisterLayout& rows = index.layout();
  const RegisterTile<u32> of_tile = row_index(rows);
  return with_type(type_of(tensor), [&]<class T>(T) {
    const GlobalTensor all(parameters_.get<gptr<T>>(tensor), {size("rows"), size("columns")});
    return Numbers::of(rows, [&](int i) {
      Var<f32> value{f32(otherwise)};
      const u32 column = bit_cast<u32>(index.value(i)),
                row = problem_.tile.is_shared() ? row_ : row_ + of_tile.value(i);
      if_(row < size("rows") & column < size("columns"), [&] { value = f32(T(all(row, column).value())); });
      return value.value();
    });
  });
}

void Row::store_number(const std::string& tensor, const Numbers& x) const {
  if (!has(tensor)) return;
  const gptr<f32> start = parameters_.get<gptr<f32>>(tensor);
  if (!problem_.tile.is_shared()) {
    const GlobalTensor all(start, {size("rows")});
    ptxbuilder::store(all.as_col().tile(row_, 0), x);
  } else {
    if_((column_ + tid_x() % 32) == 0, [&] { start[row_] = x.value(0); });
  }
}

void Row::store_number_at(const std::string& tensor, u32 column, const Numbers& x) const {
  const RowTile& t = problem_.tile;
  const DType type = type_of(tensor);
  const u32 width = size(problem_.operation->tensors[place_of(*problem_.operation, tensor)].shape[1]);
  const RegisterTile<u32> of_tile = row_index(x.layout());
  const pred is_first =
      t.is_shared() ? (column_ + tid_x() % 32) == 0 : tid_x() % static_cast<uint32_t>(t.lanes) == 0;
  for (int i = 0; i < x.count(); ++i) {
    const u32 row = t.is_shared() ? row_ : row_ + of_tile.value(i);
    const u64 at = u64(row) * u64(width) + u64(column);
    if_(is_first & (row < size("rows")), [&] {
      if (is_integer(type)) {
        const gptr<s32> start(gmem(parameters_.get<gmem>(tensor)));
        const auto words = static_cast<uint64_t>(size_of(type) / 4);  // the lower word comes first
        start[at * words] = s32(x.value(i));
        if (words == 2) start[at * words + 1] = s32(0);
      } else {
        with_type(type, [&]<class T>(T) { parameters_.get<gptr<T>>(tensor)[at] = T(x.value(i)); });
      }
    });
  }
}

Numbers Row::reduce(Reduction operation, const Numbers& x) {
  return exchange({reduce_rows(operation, x)}).reduce(operation, [](const auto& own) { return own[0]; });
}

f32 Row::columns_of_part() const {
  const RowTile& t = problem_.tile;
  std::optional<s32> all;
  for (int piece = 0; piece < t.pieces; ++piece) {
    const s32 left =
        s32(size("columns")) - s32(column_ + static_cast<uint32_t>(piece * t.columns_of_piece()));
    const s32 one = min(max(left, s32(0)), s32(t.columns_of_warp()));
    all = all ? *all + one : one;
  }
  return f32(*all);
}

RegisterTile<u32> Row::column() const { return col_index(layout_) + column_; }

RegisterTile<pred> Row::is_inside() const {
  // The number of columns is a multiple of an access, so the elements of an access are all inside or all
  // outside.
  return (column() & ~static_cast<uint32_t>(problem_.tile.vector - 1)) < size("columns");
}
Numbers Row::inside(const Numbers& x) const { return select(is_inside(), x, f32(0)); }

RowSums::RowSums(Kernel& kernel, const RowTile& t)
    : layout_(t.layout()), threads_(t.warpgroups() * RegisterLayout::kThreads) {
  if (!t.is_wide) {
    in_registers_.emplace(Numbers(f32(0), layout_));
    return;
  }
  constexpr int kColumns = 32;  // number of columns in 128 bytes
  const int rows = (t.values_of_thread() + 3) / 4 * 4 * threads_ / kColumns;
  own_ = kernel.shared<f32>({rows, kColumns}, SwizzleNone, 1, "sums of rows")[0].address() + tid_x() * 16;
  for (int i = 0; i < t.values_of_thread(); i += 4)
    store(place(i), std::array<f32, 4>{f32(0), f32(0), f32(0), f32(0)});
}

// The accesses of a warp have 16 bytes each, and are adjacent.
sptr<f32> RowSums::place(int number) const { return sptr<f32>(*own_ + number / 4 * threads_ * 16); }

void RowSums::change(const std::function<f32(f32, int)>& next) {
  if (in_registers_) {
    const Numbers before = *in_registers_;
    *in_registers_ = Numbers::of(layout_, [&](int i) { return next(before.value(i), i); });
    return;
  }
  const int count = Numbers(f32(0), layout_).count();
  for (int i = 0; i < count; i += 4) {
    std::array<f32, 4> four = load<4>(place(i));
    for (int k = 0; k < 4 && i + k < count; ++k)
      four[static_cast<size_t>(k)] = next(four[static_cast<size_t>(k)], i + k);
    ptxbuilder::store(place(i), four);
  }
}

void RowSums::add(const Numbers& x) {
  change([&](f32 sum, int i) { return sum + x.value(i); });
}
void RowSums::add_product(const Numbers& x, const Numbers& y) {
  change([&](f32 sum, int i) { return fma(x.value(i), y.value(i), sum); });
}

Numbers RowSums::value() const {
  if (in_registers_) return *in_registers_;
  std::vector<std::array<f32, 4>> fours;
  return Numbers::of(layout_, [&](int i) {
    if (i % 4 == 0) fours.push_back(load<4>(place(i)));
    return fours[static_cast<size_t>(i / 4)][static_cast<size_t>(i % 4)];
  });
}

RowThreads::RowThreads(Kernel& kernel, const RowProblem& problem, const Parameters& parameters,
                       RowExchange& exchange)
    : kernel_(kernel), problem_(problem), parameters_(parameters), exchange_(exchange) {}

void RowThreads::for_each(const std::function<void(Row&)>& body, const std::vector<std::string>& ahead) {
  const RowTile& t = problem_.tile;
  const u32 first = ctaid_x() / t.ctas;
  const auto one = [&](u32 block, const Row::Loaded& loaded) {
    Row row(problem_, parameters_, exchange_, block, loaded);
    if (t.waits()) row.send_for(kernel_);
    body(row);
  };
  if (!problem_.operation->takes_turns()) return one(first, {});
  const auto registers_of = [&](const std::string& tensor, u32 block) {
    if (!problem_.operation->tensors[place_of(*problem_.operation, tensor)].has_columns())
      return number_of(problem_, parameters_, parameters_.get<gptr<f32>>(tensor), 1, block * t.rows())
          .registers();
    return with_type(*problem_.types[place_of(*problem_.operation, tensor)], [&]<class T>(T) {
      return rows_of<T>(problem_, parameters_, tensor, 0, block * t.rows(), first_column(t)).registers();
    });
  };
  std::map<std::string, std::vector<Var<u32>>> next;
  for (const std::string& tensor : ahead) {
    const bool has_columns = problem_.operation->tensors[place_of(*problem_.operation, tensor)].has_columns();
    // If a warp holds entire rows, other warps run while it waits for a number, so loading the number earlier
    // would only occupy a register.
    if (!has_columns && !t.is_shared()) continue;
    for (const u32& word : registers_of(tensor, first)) next[tensor].emplace_back(word);
  }
  const u32 step = nctaid_x() / t.ctas;
  for_(first, ceil_div(parameters_.get<u32>("rows"), t.rows()), step, [&](u32 block) {
    Row::Loaded loaded;
    for (auto& [tensor, words] : next) {
      for (const Var<u32>& word : words) loaded[tensor].push_back(word.value());
      const std::vector<u32> behind = registers_of(tensor, block + step);
      for (size_t i = 0; i < behind.size(); ++i) words[i] = behind[i];
    }
    one(block, loaded);
  });
}

std::optional<RowSums> RowThreads::sums(const std::string& tensor) const {
  if (!problem_.types[place_of(*problem_.operation, tensor)]) return {};
  return RowSums(kernel_, problem_.tile);
}

void RowThreads::store(const std::string& tensor, const std::optional<RowSums>& sums) const {
  if (!sums) return;
  const RowTile& t = problem_.tile;
  const auto to = tile_of(t, parameters_.get<gptr<f32>>(tensor), nctaid_x() / t.ctas,
                          parameters_.get<u32>("columns"), ctaid_x() / t.ctas, first_column(t));
  const Numbers x = sums->value();
  ptxbuilder::store(to, t.is_shared() ? x : reduce_cols(Reduction::add, x));
}

Kernel rows_kernel(const RowProblem& problem, const std::function<void(Kernel&, Parameters&)>& more,
                   const std::function<void(RowThreads&, const Parameters&)>& body, Where where) {
  const RowTile& t = problem.tile;
  Kernel k(problem.operation->name);
  const Parameters parameters = declare_parameters(k, problem, where, [&](Parameters& p) { more(k, p); });
  const std::string blocks =
      problem.operation->takes_turns() ? row_parts_rule(t) : fmt::format("ceil_div(rows, {})", t.rows());
  k.grid(t.ctas > 1 ? fmt::format("{} * {}", blocks, t.ctas) : blocks);
  k.builder().hold_at_once(static_cast<uint32_t>(t.at_once));
  RowExchange exchange(k, problem);
  k.warpgroups(t.warpgroups(), 0, [&](u32) {
    RowThreads threads(k, problem, parameters, exchange);
    body(threads, parameters);
    exchange.finish();
  });
  return k;
}

Kernel rows_kernel(const RowProblem& problem, const std::function<void(RowThreads&)>& body, Where where) {
  return rows_kernel(
      problem, [](Kernel&, Parameters&) {}, [&](RowThreads& threads, const Parameters&) { body(threads); },
      where);
}

Kernel row_kernel(const RowProblem& problem, const std::function<void(Row&)>& body, Where where) {
  return rows_kernel(
      problem, [&](RowThreads& threads) { threads.for_each(body); }, where);
}

}  // namespace ptxbuilder::kernels
