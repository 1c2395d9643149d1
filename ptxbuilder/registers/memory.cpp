#include "ptxbuilder/registers/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "ptxbuilder/article.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/plan/bank_conflicts.h"
#include "ptxbuilder/registers/place.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/multicast.h"
#include "ptxbuilder/tile/thread_address.h"

namespace ptxbuilder::detail {
namespace {

constexpr int kAccessBytes = 16;  // size of the widest access, in bytes
constexpr int kWordBytes = 4;     // size of a register, in bytes

}  // namespace

int widest_vector(const RegisterLayout& layout, const ComposedLayout& memory, int element_bytes) {
  std::vector<int64_t> of_row, of_col;
  for (int64_t row = 0; row < layout.rows(); ++row) of_row.push_back(memory.layout()[0](row));
  for (int64_t col = 0; col < layout.cols(); ++col) of_col.push_back(memory.layout()[1](col));
  auto place = [&](int t, int v) {
    return memory.swizzle()(memory.offset() + of_row[static_cast<size_t>(layout.row(t, v))] +
                            of_col[static_cast<size_t>(layout.col(t, v))]);
  };
  auto fits = [&](int vector) {
    if (layout.values() % vector != 0) return false;
    for (int t = 0; t < RegisterLayout::kThreads; ++t)
      for (int v = 0; v < layout.values(); ++v)
        if (v % vector == 0 ? place(t, v) % vector != 0 : place(t, v) != place(t, v - 1) + 1) return false;
    return true;
  };
  int vector = kAccessBytes / element_bytes;
  while (vector > 1 && !fits(vector)) vector /= 2;
  return vector;
}

namespace {

// The shared-memory accesses of threads that hold a tile in a layout. Each access moves `vector` values.
struct VectorAccess {
  VectorAccess(const RegisterLayout& layout, const ComposedLayout& memory, int element_bytes, int vector)
      : vector(vector),
        // Rows and columns are exchanged, because a register layout counts elements along rows.
        access(memory.with(select(memory.layout(), {1, 0})), element_bytes, layout.thread_value()[0],
               first_elements(layout, vector)) {
    // To exchange accesses, an access must fill complete registers, and every thread must make all of its
    // accesses.
    if (vector * element_bytes >= kWordBytes && replicated_bits(layout) == 0)
      access = with_fewest_conflicts(access, vector * element_bytes);
  }
  VectorAccess(const RegisterLayout& layout, const ComposedLayout& memory, int element_bytes)
      : VectorAccess(layout, memory, element_bytes, widest_vector(layout, memory, element_bytes)) {}

  static std::vector<int64_t> first_elements(const RegisterLayout& layout, int vector) {
    std::vector<int64_t> elements;
    for (int v = 0; v < layout.values(); v += vector) elements.push_back(layout.of_value(v));
    return elements;
  }

  int vector;
  ThreadAccess access;
};

// Reorder words from the order of a thread's layout to the order of its accesses, and back.
std::vector<Value> in_order(const ThreadAccess& access, std::vector<Value> words) {
  if (!access.exchange()) return words;
  const Exchange exchange = *access.exchange();
  const pred exchanges = (thread_in_warpgroup() & exchange.thread_bit) != 0;
  const size_t each = words.size() / static_cast<size_t>(access.accesses());
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t other = i + static_cast<size_t>(exchange.access_bit) * each;
    if (((i / each) & static_cast<size_t>(exchange.access_bit)) != 0) continue;
    llvm::Value *low = words[i].handle(), *high = words[other].handle();
    words[i] = Value(select(exchanges.handle(), high, low));
    words[other] = Value(select(exchanges.handle(), low, high));
  }
  return words;
}

// Records the accesses of a load or store of a view.
void record(ThreadCopyRecord::Kind kind, std::string_view verb, const TileView& view,
            const VectorAccess& vectors, const RegisterLayout& layout) {
  ThreadCopyRecord r;
  r.kind = kind;
  r.dtype = view.tile().dtype();
  r.bytes = vectors.vector * size_of(r.dtype);
  r.text = fmt::format("{} {} by vectors of {} B", verb, layout.describe(), r.bytes);
  record_access(std::move(r), view, vectors.access, 0, vectors.access.accesses(),
                [&](int thread, int access, int i) {
                  const int value = access * vectors.vector + i;
                  return ElementRecord{layout.row(thread, value), layout.col(thread, value)};
                });
}

// Computes the addresses of a thread's global-memory accesses, indexed by the first value of each access, and
// determines which accesses are skipped.
class GlobalAddresses {
 public:
  GlobalAddresses(const GlobalTile& tile, int element_bytes, const RegisterLayout& layout)
      : tile_(tile),
        bytes_(element_bytes),
        places_(layout),
        rows_(additive_rows(layout)),
        cols_(additive_cols(layout)),
        of_thread_(tile.address) {
    Builder& builder = Builder::current();
    const auto down = tile.row_stride.known(), across = tile.col_stride.known();
    auto small = [](int64_t stride, int extent) { return stride >= 0 && stride * extent < 1 << 27; };
    const Index thread(thread_in_warpgroup());
    if (down && across && small(*down, layout.rows()) && small(*across, layout.cols()))
      sum_ = additive(layout, [&](int e) {
        return static_cast<int>((e / layout.cols() * *down + e % layout.cols() * *across) * bytes_);
      });
    if (sum_)
      of_thread_ = tile.address + u64(sum_of_bits(thread, sum_->bits).value());
    else if (rows_ && cols_)
      of_thread_ = tile.address + offset(sum_of_bits(thread, rows_->bits), sum_of_bits(thread, cols_->bits));
    // An extent of at least the tile's size needs no check.
    auto bounds = [&](const std::optional<s32>& extent, int most) {
      auto known = extent ? builder.constant(*extent) : std::nullopt;
      return extent && !(known && static_cast<int32_t>(known->value) >= most);
    };
    bounded_rows_ = bounds(tile.rows, layout.rows());
    bounded_cols_ = bounds(tile.cols, layout.cols());
  }

  gmem operator()(int value) {
    const auto v = static_cast<size_t>(value);
    if (sum_) return of_thread_ + u64(sum_->values[v]);
    if (!rows_ || !cols_) return tile_.address + offset(places_.row(value), places_.col(value));
    auto known = lines_.find(rows_->values[v]);
    if (known == lines_.end())
      known = lines_.emplace(rows_->values[v], of_thread_ + offset(rows_->values[v], 0)).first;
    return known->second + offset(0, cols_->values[v]);
  }

  bool bounded() const { return bounded_rows_ || bounded_cols_; }
  // Returns whether a value is inside the tile's bounds.
  pred inside(int value) const {
    const s32 row(places_.row(value)), col(places_.col(value));
    if (!bounded_cols_) return row < *tile_.rows;
    if (!bounded_rows_) return col < *tile_.cols;
    return row < *tile_.rows && col < *tile_.cols;
  }

 private:
  u64 offset(const ptxbuilder::Index& row, const ptxbuilder::Index& col) const {
    const u64 down = tile_.row_stride.times(row), across = tile_.col_stride.times(col);
    if (row.known() == 0) return across * static_cast<uint64_t>(bytes_);
    if (col.known() == 0) return down * static_cast<uint64_t>(bytes_);
    return (down + across) * static_cast<uint64_t>(bytes_);
  }

  GlobalTile tile_;
  int bytes_;
  Places places_;
  std::optional<Additive> rows_, cols_, sum_;
  gmem of_thread_;
  std::map<int, gmem> lines_;  // addresses of rows, indexed by the row that the value adds
  bool bounded_rows_ = false, bounded_cols_ = false;
};

// Collects the 32-bit registers that accesses fill, in order.
class Registers32 {
 public:
  explicit Registers32(DType dtype) : per_(per_word(dtype)), bits_(8 * size_of(dtype)) {}

  // Appends the result of an access of `elements` elements. `brought` contains complete registers, or one
  // register whose upper bits are 0.
  void append(const std::vector<u32>& brought, int elements) {
    if (elements >= per_) {
      words_.insert(words_.end(), brought.begin(), brought.end());
      return;
    }
    if (within_ == 0)
      words_.push_back(brought[0]);
    else
      words_.back() = words_.back() | brought[0] << (within_ * bits_);
    within_ = (within_ + elements) % per_;
  }
  const std::vector<u32>& words() const { return words_; }

 private:
  int per_, bits_, within_ = 0;
  std::vector<u32> words_;
};

// Loads `vector` elements into registers at each of `addresses`, which are indexed by the first value of each
// access.
template <class Addresses>
TileValues load_at(Addresses addresses, int vector, DType dtype, const RegisterLayout& layout) {
  TileValues x{dtype, layout, {}};
  const int bytes = vector * size_of(dtype);
  Registers32 narrow(dtype);  // filled by accesses of 1 or 2 bytes
  for (int v = 0; v < layout.values(); v += vector) {
    llvm::Value* address = addresses(v).handle();
    if (bytes >= 4) {
      llvm::Value* words = load(address, word_class(dtype), bytes / 4);
      for (int i = 0; i < bytes / 4; ++i) x.words.emplace_back(element(words, i));
    } else {
      narrow.append({u32(load_narrow(address, bytes))}, vector);
    }
  }
  for (u32 word : narrow.words()) x.words.push_back(word);
  return x;
}

template <class Addresses>
void store_at(Addresses addresses, int vector, const TileValues& x) {
  const int per = per_word(x.dtype), size = size_of(*x.dtype), bytes = vector * size;
  for (int v = 0; v < x.layout.values(); v += vector) {
    llvm::Value* address = addresses(v).handle();
    auto first = x.words.begin() + v / per;
    if (bytes >= 4) {
      detail::store(address, std::vector<Value>(first, first + bytes / 4));
      continue;
    }
    u32 word(first->handle());
    store_narrow(address, bytes, v % per ? (word >> (8 * (v % per) * size)).handle() : word.handle());
  }
}

// Returns a copy that moves a view to or from registers with a matrix instruction, and replaces a larger
// number of accesses of 2, 4 or 8 bytes. Returns nullopt if no matrix instruction fits. The instruction does
// not cause more bank conflicts: in the accesses that it replaces, four neighbouring lanes access each row of
// a matrix.
std::optional<TiledCopy> matrix_copy(bool stores, const TileView& view, int vector,
                                     const RegisterLayout& layout) {
  const int bytes = size_of(view.tile().dtype());
  if (layout.values() * bytes < kWordBytes || replicated_bits(layout) != 0 || vector * bytes >= kAccessBytes)
    return std::nullopt;
  const Signature& kernel = Builder::current().signature();
  if (!isa::stmatrix({.matrices = 1}).targets.has(isa::target(kernel.target).sm)) return std::nullopt;
  const int64_t rows = layout.rows(), cols = layout.cols();
  const ComposedLayout memory = view.layout();
  for (int matrices : {4, 2, 1})
    for (bool trans : {view.is_transposed(), !view.is_transposed()}) {
      if (trans && bytes != 2) continue;
      try {
        const Layout by_columns = composition(make_layout({cols, rows}, {rows, 1}), layout.thread_value());
        const CopyAtom atom =
            stores ? CopyAtom::stmatrix(matrices, trans) : CopyAtom::ldmatrix(matrices, trans);
        return TiledCopy(atom, view.tile().dtype(), by_columns, memory);
      } catch (const Error&) {
        continue;  // the rows of the matrices do not have 16 bytes
      }
    }
  return std::nullopt;
}

// Returns a tile whose elements threads can store; a splat is expanded to the tile that it represents.
TileValues for_storing(const TileValues& x) {
  if (!x.layout.is_splat()) return x;
  int vector = kAccessBytes / size_of(*x.dtype);
  while (vector > 1 && x.layout.elements() % (RegisterLayout::kThreads * vector) != 0) vector /= 2;
  return tile_layout_cast(x, strided(x.layout.extent(), vector));
}

TileExtent extent_of(const TileView& view) {
  TileExtent extent{view.row_count(), view.tile().cols()};
  return view.is_transposed() ? TileExtent{extent.cols, extent.rows} : extent;
}

void check_view(std::string_view what, const TileView& view, DType dtype, const RegisterLayout& layout) {
  if (view.tile().dtype() != dtype)
    throw Error(fmt::format("{}: the tile in registers is {}, but the one in shared memory is {}", what,
                            name(dtype), with_article(view.tile().describe())));
  TileExtent extent = extent_of(view);
  if (!(extent == layout.extent()))
    throw Error(fmt::format("{}: {} has {} x {} elements, but the view of {} has {} x {}", what,
                            layout.describe(), layout.rows(), layout.cols(),
                            with_article(view.tile().describe()), extent.rows, extent.cols));
}

// Returns the layout that load() uses by default: strided, with the widest vectors that divide the rows of a
// panel. In a transposed view, adjacent elements are not in the same row, so a view of 16-bit elements uses
// the layout that ldmatrix.trans loads.
RegisterLayout layout_for(const TileView& view) {
  TileExtent extent = extent_of(view);
  if (view.is_transposed() && size_of(view.tile().dtype()) == 2 && extent.rows % 64 == 0 &&
      extent.cols % 8 == 0)
    return wgmma_layout(extent.rows, extent.cols);
  int vector = kAccessBytes / size_of(view.tile().dtype());
  while (vector > 1 && extent.rows * extent.cols % (RegisterLayout::kThreads * vector) != 0) vector /= 2;
  return strided(extent, vector);
}

// Returns the number of elements in the widest accesses to a tile in global memory.
int global_vector(const GlobalTile& tile, const GlobalAddresses& addresses, int bytes,
                  const RegisterLayout& layout) {
  const bool by_columns = tile.row_stride.known() == 1 && tile.col_stride.known() != 1;
  if (!by_columns && tile.col_stride.known() != 1) return 1;
  const int line = by_columns ? layout.rows() : layout.cols();
  const auto pitch = by_columns ? tile.col_stride.known() : tile.row_stride.known();
  int step = (line + kAccessBytes - 1) / kAccessBytes * kAccessBytes;
  // Only the alignment of the pitch is needed, so a large pitch is reduced.
  if (pitch) step += static_cast<int>(*pitch & (kAccessBytes - 1));
  if (pitch == line && !addresses.bounded()) step = line;
  const Layout elements = by_columns ? make_layout({layout.rows(), layout.cols()}, {1, step})
                                     : make_layout({layout.rows(), layout.cols()}, {step, 1});
  return std::min(tile.vector, widest_vector(layout, {byte_swizzle(Swizzle::none), 0, elements}, bytes));
}

// Returns the number of a tile's rows (or columns) that are in the tensor, or nullopt if this number is known
// only on the device.
std::optional<int64_t> known_extent(const std::optional<s32>& left, int extent) {
  if (!left) return extent;
  const auto known = Builder::current().constant(*left);
  if (!known) return std::nullopt;
  return std::clamp<int64_t>(static_cast<int32_t>(known->value), 0, extent);
}

// Throws Error if several elements would be stored to the same address, because only one of them would
// remain.
void check_apart(const GlobalTile& to, const RegisterLayout& layout) {
  const auto rows = known_extent(to.rows, layout.rows()), cols = known_extent(to.cols, layout.cols());
  const auto down = to.row_stride.known(), across = to.col_stride.known();
  if (!rows || !cols || !down || !across) return;
  const int64_t a = std::abs(*down), b = std::abs(*across), meet = std::lcm(a, b);
  const bool several =
      meet == 0 ? (a == 0 && *rows > 1) || (b == 0 && *cols > 1) : meet / a < *rows && meet / b < *cols;
  if (several)
    throw Error(
        fmt::format("store: {} x {} elements have strides of {} between rows and {} between columns, so "
                    "several elements would share one address",
                    *rows, *cols, *down, *across));
}

// Returns the syntax of an access, such as "@{inside:pred} ld.global.v4.b32 {d:+b32x4}, [{a:gmem}];".
std::string access_text(std::string_view operation, int bytes, std::string_view operands) {
  constexpr std::string_view widths[] = {".u8", ".b16", ".b32", ".v2.b32", ".v4.b32"};
  return fmt::format("@{{inside:pred}} {}{} {}", operation, widths[std::countr_zero(unsigned(bytes))],
                     operands);
}

// Loads elements with a single instruction, guarded by a predicate. If the instruction is skipped, the
// registers retain `fill`. A predicate that is known on the host is not in a register, so no guard is emitted
// for it.
std::vector<u32> load_where(pred inside, gmem address, int bytes, u32 fill) {
  const size_t count = static_cast<size_t>(std::max(1, bytes / 4));
  if (auto known = Builder::current().constant(inside)) {
    if (known->value == 0) return std::vector<u32>(count, fill);
    if (bytes < 4) return {u32(load_narrow(address.handle(), bytes))};
    llvm::Value* loaded = load(address.handle(), Class::u32, bytes / 4);
    std::vector<u32> words;
    for (size_t i = 0; i < count; ++i) words.emplace_back(element(loaded, static_cast<int>(i)));
    return words;
  }
  if (bytes < 4) {
    Var<u16> narrow{u16(fill)};
    ptx(access_text("ld.global", bytes, "{d:+b16}, [{a:gmem}];"),
        {{"inside", inside}, {"d", narrow}, {"a", address}});
    return {u32(narrow.value())};
  }
  std::vector<Var<u32>> words;
  for (size_t i = 0; i < count; ++i) words.emplace_back(fill);
  const std::string hole =
      count == 1 ? "{d:+b32}, [{a:gmem}];" : fmt::format("{{d:+b32x{}}}, [{{a:gmem}}];", count);
  ptx(access_text("ld.global", bytes, hole), {{"inside", inside}, {"d", words}, {"a", address}});
  return {words.begin(), words.end()};
}

void store_where(pred inside, gmem address, int bytes, const std::vector<u32>& words) {
  if (auto known = Builder::current().constant(inside)) {
    if (known->value == 0) return;
    if (bytes < 4)
      store_narrow(address.handle(), bytes, words[0].handle());
    else
      store(address.handle(), std::vector<Value>(words.begin(), words.end()));
    return;
  }
  const PtxBinding v = bytes < 4 ? PtxBinding("v", u16(words[0])) : PtxBinding("v", words);
  const std::string hole = bytes < 4    ? "[{a:gmem}], {v:b16};"
                           : bytes == 4 ? "[{a:gmem}], {v:b32};"
                                        : fmt::format("[{{a:gmem}}], {{v:b32x{}}};", bytes / 4);
  ptx(access_text("st.global", bytes, hole), {{"inside", inside}, {"a", address}, v});
}

}  // namespace

namespace {

TileValues load_vectors(smem start, const VectorAccess& vectors, DType dtype, const RegisterLayout& layout) {
  ThreadAddresses<smem, Index> addresses(start, vectors.access, Index(thread_in_warpgroup()));
  auto at = [&](int value) { return addresses[value / vectors.vector]; };
  TileValues x = load_at(at, vectors.vector, dtype, layout);
  x.words = in_order(vectors.access, std::move(x.words));
  return x;
}

void store_vectors(smem start, const VectorAccess& vectors, const TileValues& x) {
  auto body = [&] {
    ThreadAddresses<smem, Index> addresses(start, vectors.access, Index(thread_in_warpgroup()));
    auto at = [&](int value) { return addresses[value / vectors.vector]; };
    store_at(at, vectors.vector, {x.dtype, x.layout, in_order(vectors.access, x.words)});
  };
  once_for_each_element(x.layout, body);
}

}  // namespace

TileValues load_shared(smem start, const ComposedLayout& memory, DType dtype, const RegisterLayout& layout) {
  return load_vectors(start, VectorAccess(layout, memory, size_of(dtype)), dtype, layout);
}

void store_shared(smem start, const ComposedLayout& memory, const TileValues& x) {
  store_vectors(start, VectorAccess(x.layout, memory, size_of(*x.dtype)), x);
}

TileValues load_view(const TileView& from, DType dtype, const std::optional<RegisterLayout>& layout) {
  RegisterLayout chosen = layout ? *layout : layout_for(from);
  check_view("load", from, dtype, chosen);
  if (chosen.is_splat())
    throw Error(fmt::format("load: {} holds one value for all elements", chosen.describe()));
  const int vector = widest_vector(chosen, from.layout(), size_of(dtype));
  if (auto copy = matrix_copy(false, from, vector, chosen)) {
    TileValues x{dtype, chosen, {}};
    auto& loaded = TileContext::of(Builder::current()).loaded_words;
    for (u32 word : ptxbuilder::load(*copy, from, thread_in_warpgroup())) {
      x.words.push_back(word_class(dtype) == Class::f32 ? Value(bit_cast<f32>(word)) : word);
      loaded[x.words.back().handle()] = loaded[word.handle()];
    }
    return x;
  }
  const VectorAccess vectors(chosen, from.layout(), size_of(dtype), vector);
  record(ThreadCopyRecord::Kind::to_registers, "load", from, vectors, chosen);
  return load_vectors(from.address(), vectors, dtype, chosen);
}

void store_view(const TileView& to, const TileValues& x) {
  check_view("store", to, *x.dtype, x.layout);
  if (to.filling()) to.filling()->write(to, "store", false);
  const TileValues stored = for_storing(x);
  const int vector = widest_vector(stored.layout, to.layout(), size_of(*x.dtype));
  if (auto copy = matrix_copy(true, to, vector, stored.layout)) {
    std::vector<u32> words;
    for (Value word : stored.words)
      words.push_back(word_class(x.dtype) == Class::f32 ? bit_cast<u32>(f32(word.handle()))
                                                        : u32(word.handle()));
    ptxbuilder::store(*copy, to, thread_in_warpgroup(), words);
    return;
  }
  const VectorAccess vectors(stored.layout, to.layout(), size_of(*x.dtype), vector);
  record(ThreadCopyRecord::Kind::from_registers, "store", to, vectors, stored.layout);
  store_vectors(to.address(), vectors, stored);
}

void store_peer(const TileView& to, const TileValues& x, const PeerCta& peer, std::optional<smem> barrier) {
  check_view("store_async", to, *x.dtype, x.layout);
  if (to.stage_barrier() && !to.filling())
    throw Error(
        "store_async: this is a consumer's stage; stores must go into a producer's stage, which acquire() "
        "returns");
  if (to.filling() && barrier)
    throw Error("store_async: a view of a pipeline's stage already has a barrier, so no other can be passed");
  if (!barrier && !to.filling())
    throw Error(
        "store_async: the view has no barrier to complete on: take it from a pipeline's stage, or pass one");
  const TileValues stored = for_storing(x);
  const int size = size_of(*x.dtype), vector = widest_vector(stored.layout, to.layout(), size);
  if (vector * size < kWordBytes)
    throw Error(fmt::format(
        "store_async: {} of {} in the view of {} has accesses of {} B, but st.async stores at least {} B; "
        "choose a layout with more neighbours in a thread, such as strided(...)",
        stored.layout.describe(), name(*x.dtype), with_article(to.tile().describe()), vector * size,
        kWordBytes));
  if (to.filling()) to.filling()->exchange(to, peer.axis);
  if (cluster_size(Builder::current()) == 1)  // an H100 stops with an illegal instruction
    throw Error("store_async: the kernel has no cluster; st.async needs one, such as that of k.cluster(2)");
  const u32 rank = rank_in_line(peer.axis, peer.place);
  const cluster_smem there = mapa(barrier ? *barrier : *to.stage_barrier(), rank);
  const VectorAccess vectors(stored.layout, to.layout(), size, vector);
  record(ThreadCopyRecord::Kind::from_registers, "store_async", to, vectors, stored.layout);
  once_for_each_element(stored.layout, [&] {
    ThreadAddresses<smem, Index> addresses(to.address(), vectors.access, Index(thread_in_warpgroup()));
    const std::vector<u32> words =
        registers_of({x.dtype, stored.layout, in_order(vectors.access, stored.words)});
    const int per = per_word(x.dtype);
    for (int v = 0; v < stored.layout.values(); v += vector) {
      const cluster_smem address = mapa(addresses[v / vector], rank);
      const auto* first = &words[static_cast<size_t>(v / per)];
      if (vector * size == 16)
        instruction<"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32">(
            address, {first[0], first[1], first[2], first[3]}, there);
      else if (vector * size == 8)
        instruction<"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32">(
            address, {first[0], first[1]}, there);
      else
        instruction<"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32">(address, first[0],
                                                                                      there);
    }
  });
}

TileValues load_global(const GlobalTile& from, DType dtype, const RegisterLayout& layout,
                       std::optional<Value> fill) {
  if (layout.is_splat())
    throw Error(fmt::format("load: {} holds one value for all elements", layout.describe()));
  const int size = size_of(dtype);
  GlobalAddresses addresses(from, size, layout);
  const int vector = global_vector(from, addresses, size, layout);
  if (!addresses.bounded()) return load_at(std::move(addresses), vector, dtype, layout);
  u32 word = 0;
  if (fill) word = registers_of(filled(dtype, *fill, splat(layout.extent())))[0];
  Registers32 registers(dtype);
  for (int v = 0; v < layout.values(); v += vector)
    registers.append(load_where(addresses.inside(v), addresses(v), vector * size, word), vector);
  return tile_of_registers(dtype, layout, registers.words());
}

void store_global(const GlobalTile& to, const TileValues& given) {
  const TileValues x = for_storing(given);
  const int size = size_of(*x.dtype);
  check_apart(to, x.layout);
  auto body = [&] {
    GlobalAddresses addresses(to, size, x.layout);
    const int vector = global_vector(to, addresses, size, x.layout), per = per_word(x.dtype);
    if (!addresses.bounded()) {
      store_at(std::move(addresses), vector, x);
      return;
    }
    const std::vector<u32> words = registers_of(x);
    for (int v = 0; v < x.layout.values(); v += vector) {
      const auto first = words.begin() + v / per;
      std::vector<u32> stored(first, first + std::max(1, vector * size / 4));
      if (v % per != 0) stored[0] = stored[0] >> (8 * (v % per) * size);
      store_where(addresses.inside(v), addresses(v), vector * size, stored);
    }
  };
  once_for_each_element(x.layout, body);
}

GlobalTile rows_of(gmem start, u32 pitch, DType dtype, const RegisterLayout& layout) {
  auto known = Builder::current().constant(pitch);
  if (known && known->value < static_cast<uint64_t>(layout.cols()) && layout.rows() > 1)
    throw Error(fmt::format("register tile: the rows have {} elements, but are only {} apart", layout.cols(),
                            known->value));
  GlobalTile tile{start, pitch};
  tile.vector = kAccessBytes / size_of(dtype);
  return tile;
}

}  // namespace ptxbuilder::detail
