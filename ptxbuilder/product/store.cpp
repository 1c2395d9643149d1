#include "ptxbuilder/product/store.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/product/scatter.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/commit.h"

namespace ptxbuilder {
namespace {

using detail::TileContext;
using detail::TileValues;

constexpr int kBufferBytes = 64 * 128;

// Describes the panels and boxes in which a tile passes through a buffer. A panel has 64 rows and `cols`
// columns, and its boxes have `box_cols` columns. The last panel contains the remaining columns. With
// `repeats`, it has the same width as the other panels, and shares some columns with the previous panel.
struct Passage {
  TileShape buffer;
  Swizzle swizzle;
  int cols, box_cols;
  bool repeats = false;
};

// Returns adjacent boxes as wide as the widest swizzle whose span divides the tile's rows. With `repeats`,
// boxes have the span of the 128-byte swizzle if the tile is wider but not a multiple of this span.
Passage upright(int cols, DType type, bool repeats) {
  const int widest = span_bytes(Swizzle::b128) / size_of(type);
  if (repeats && cols > widest && cols % widest != 0)
    return {{hopper::wgmma_rows, widest}, Swizzle::b128, widest, widest, true};
  const Swizzle swizzle = widest_swizzle(cols * size_of(type));
  const int box_cols = (swizzle == Swizzle::none ? 16 : span_bytes(swizzle)) / size_of(type);
  const int most = kBufferBytes / (hopper::wgmma_rows * size_of(type)) / box_cols * box_cols;
  const int at_once = std::min(most, cols);
  return {{hopper::wgmma_rows, at_once, swizzle == Swizzle::none ? box_cols : 0}, swizzle, at_once, box_cols};
}

// Returns boxes whose rows are the tile's columns. A box covers the greatest number of tile columns that
// divides `cols` and fits in a buffer.
Passage transposed(int cols, DType type) {
  const int row_bytes = hopper::wgmma_rows * size_of(type), most = kBufferBytes / row_bytes;
  int box_cols = most;
  while (cols % box_cols != 0) box_cols -= 8;
  const int at_once = std::min(most / box_cols * box_cols, cols);
  return {{at_once, hopper::wgmma_rows}, widest_swizzle(row_bytes), at_once, box_cols};
}

// The buffers of a role's warpgroups, and the path of a tile through them. This class computes everything
// that is known on the host.
class Staging {
 public:
  Staging(DType type, TileExtent tile, const StoreOptions& options)
      : builder_(Builder::current()),
        type_(type),
        tile_{tile.rows, options.pairs ? tile.cols / 2 : tile.cols},
        options_(options) {
    if (options.pairs && (options.transposed || tile.cols % 16 != 0))
      throw Error(
          fmt::format("store: pairs were requested for a tile of {} columns{}, but pairs must run along the "
                      "output's rows, in a multiple of 16 columns",
                      tile.cols, options.transposed ? ", transposed" : ""));
    if (options.places && options.places->inner_rows != 0 && options.transposed)
      throw Error("store: folded rows must be rows of the output, so they cannot be transposed");
    if (options.buffers < 1 || options.buffers > 4)
      throw Error(fmt::format("store: each warpgroup has {} buffers, but must have 1 to 4", options.buffers));
    if (tile_.rows % hopper::wgmma_rows != 0 || tile_.cols % 8 != 0 ||
        (!options.transposed && tile_.cols * size_of(type) % 16 != 0))
      throw Error(
          fmt::format("store: the tile is {} x {} {}, but its rows must be a multiple of {}, and its columns "
                      "multiples of 8 and of 16 B",
                      tile_.rows, tile_.cols, name(type), hopper::wgmma_rows));
    const int cols = options.columns != 0 ? options.columns : tile_.cols;
    if (cols < 8 || cols % 8 != 0 || tile_.cols % cols != 0)
      throw Error(fmt::format(
          "store: a panel has {} columns, but the number must be a multiple of 8 that divides the tile's {}",
          cols, tile_.cols));
    passage_ = options.transposed ? transposed(cols, type)
                                  : upright(cols, type, options.repeats && options.columns == 0);
    const int count = options.buffers * detail::warpgroups_in_role();
    if (!options.staging) {
      buffers_.emplace(builder_, type, passage_.buffer, passage_.swizzle, count, "store staging");
      return;
    }
    const int bytes = count * passage_.buffer.rows * passage_.buffer.cols * size_of(type);
    if (bytes > options.staging->bytes())
      throw Error(fmt::format(
          "store: the staging is in {}, which has {} B, but {} buffers of {} x {} {} for each of {} "
          "warpgroups need {} B",
          options.staging->describe(), options.staging->bytes(), options.buffers, passage_.buffer.rows,
          passage_.buffer.cols, name(type), detail::warpgroups_in_role(), bytes));
    buffers_.emplace(*options.staging, type, passage_.buffer, passage_.swizzle, count);
  }

  bool is_transposed() const { return options_.transposed; }
  bool has_pairs() const { return options_.pairs; }
  int buffers() const { return options_.buffers; }
  // Returns the part of the stored tile from which panel i is computed.
  TilePart source(int i) const {
    const TilePart at = part(i);
    return options_.pairs ? TilePart{at.row, 2 * at.col, at.rows, 2 * at.cols} : at;
  }
  RegisterLayout layout(int i) const {
    const TilePart at = part(i);
    return options_.pairs ? wgmma_32bit(at.cols) : wgmma_layout(at.rows, at.cols);
  }
  bool has_batches() const { return options_.batch.has_value(); }
  // Returns the number of panels in all blocks of 64 rows.
  int panels() const { return tile_.rows / hopper::wgmma_rows * panels_across(); }
  TilePart part(int i) const {
    int col = i % panels_across() * passage_.cols;
    if (passage_.repeats) col = std::min(col, tile_.cols - passage_.cols);
    return {i / panels_across() * hopper::wgmma_rows, col, hopper::wgmma_rows,
            std::min(passage_.cols, tile_.cols - col)};
  }

  // Returns the number of columns of panel i that are also in the previous panel.
  int repeated(int i) const {
    return i % panels_across() == 0 ? 0 : part(i - 1).col + part(i - 1).cols - part(i).col;
  }

  // Returns whether other stores may also use the buffers.
  bool is_shared() const { return options_.staging.has_value(); }
  // Returns the number of copies that have been issued since the last copy from panel i's buffer, if panels
  // are stored in order, tile by tile. If the buffers do not divide the number of panels, a tile's first
  // buffer may also be the previous tile's last buffer.
  int younger(int i) const {
    const bool anew = i == 0 && (is_shared() || panels() % options_.buffers != 0);
    return anew ? 0 : options_.buffers - 1;
  }

  // Stores panel i of a tile at row m, column n. The copy that last used the panel's buffer must not be among
  // the `pending` most recent copies. If threads store some panels, copies are not counted, and `pending`
  // must be 0.
  void emit(const std::optional<TensorMap>& map, int i, const TileValues& panel, u32 m, u32 n,
            const std::optional<u32>& batch, int pending) const {
    if (options_.scattered) return emit_scattered(i, panel, m, n, *batch);
    const TensorMap& to = *map;
    if (!options_.threads) return emit_by_tma(to, i, panel, m, n, batch, pending);
    const TilePart at = part(i);
    u32 end = options_.transposed ? m + (at.row + at.rows) : n + (at.col + at.cols);
    if_(
        end <= options_.threads->by_tma, [&] { emit_by_tma(to, i, panel, m, n, batch, 0); },
        [&] { emit_by_threads(panel, m + at.row, n + at.col, batch); });
  }

  int panels_across() const { return (tile_.cols + passage_.cols - 1) / passage_.cols; }

 private:
  void emit_by_tma(TensorMap to, int i, const TileValues& panel, u32 m, u32 n,
                   const std::optional<u32>& batch, int pending) const {
    const TilePart at = part(i);
    u32 group = detail::warpgroup_in_cta() - detail::first_warpgroup_of_role();
    detail::wait_stores_read(pending);
    sync_warpgroup();
    const TileView buffer = view((*buffers_)[group * options_.buffers + i % options_.buffers], at.cols);
    detail::RecordedApart written(TileContext::of(builder_));
    detail::store_view(options_.transposed ? buffer.transposed() : buffer, panel);
    StoreRecord record = record_of(written.take(), i % options_.buffers, at);
    detail::store_group([&] {
      for (int first = 0; first < at.cols; first += options_.transposed ? passage_.box_cols : at.cols)
        record.pieces.push_back(copy(to, buffer, at, first, m, n, batch));
    });
    kernel().stores.push_back(std::move(record));
  }

  // Stores a panel to scattered rows. All threads must have stored the buffer's previous contents before any
  // thread writes to the buffer again.
  void emit_scattered(int i, const TileValues& panel, u32 m, u32 n, u32 end) const {
    const TilePart at = part(i);
    u32 group = detail::warpgroup_in_cta() - detail::first_warpgroup_of_role();
    sync_warpgroup();
    const TileView buffer = view((*buffers_)[group * options_.buffers + i % options_.buffers], at.cols);
    {
      detail::RecordedApart apart(TileContext::of(builder_));
      detail::store_view(options_.transposed ? buffer.transposed() : buffer, panel);
    }
    sync_warpgroup();
    const u32 row = m + at.row, col = n + at.col;
    detail::scatter_rows(buffer, *options_.scattered, options_.transposed ? col : row,
                         options_.transposed ? row : col, end);
  }

  // Makes threads store a panel whose first element is at row m, column n of the output.
  void emit_by_threads(const TileValues& panel, u32 m, u32 n, const std::optional<u32>& batch) const {
    const ThreadStore& to = *options_.threads;
    u32 row = options_.transposed ? n : m, col = options_.transposed ? m : n;
    u64 first = u64(row) * u64(to.stride) + u64(col);
    if (batch) first = first + u64(*batch) * u64(to.rows) * u64(to.stride);
    GlobalTile tile{to.start + first * static_cast<uint64_t>(size_of(type_)), to.stride};
    tile.rows = s32(to.rows) - s32(row);
    tile.cols = s32(to.cols) - s32(col);
    if (options_.transposed) {
      std::swap(tile.row_stride, tile.col_stride);
      std::swap(tile.rows, tile.cols);
    }
    detail::store_global(tile, panel);
  }

  KernelRecord& kernel() const { return TileContext::of(builder_).record; }

  // Returns the part of a buffer that a panel of `cols` columns uses.
  TileView view(const TileView& buffer, int cols) const {
    if (cols == passage_.cols) return buffer;
    return options_.transposed ? buffer.rows(0, cols) : buffer.cols(0, cols);
  }

  // Stores a panel's columns, beginning at `first`: all columns or, if the store is transposed, one box.
  StoreRecord::Piece copy(TensorMap to, const TileView& buffer, const TilePart& at, int first, u32 m, u32 n,
                          const std::optional<u32>& batch) const {
    const int first_col = at.col + first;
    u32 row = m + at.row, col = n + first_col;
    std::vector<u32> coordinates = {col, row};
    if (options_.transposed) coordinates = {row, col};
    u32 outermost = batch.value_or(0);
    if (options_.place_of_batch) std::tie(to, outermost) = options_.place_of_batch(outermost);
    if (options_.places)
      coordinates =
          options_.transposed ? options_.places->at(col, row, batch) : options_.places->at(row, col, batch);
    else if (batch)
      coordinates.push_back(outermost);
    for (const uint32_t at : options_.outer) coordinates.push_back(u32(at));
    const bool whole = !options_.transposed || passage_.box_cols == at.cols;
    const TileView from = whole ? buffer : buffer.rows(first, passage_.box_cols);
    const int inner_rows = options_.places ? options_.places->inner_rows : 0;
    return {detail::tma_store({to}, std::nullopt, from, coordinates, inner_rows), first_col};
  }

  StoreRecord record_of(ThreadCopyRecord written, int buffer, const TilePart& at) const {
    StoreRecord record;
    record.written = std::move(written);
    record.tile = record.written.view.tile;
    for (int group = 0; group < detail::warpgroups_in_role(); ++group)
      record.stages.push_back(group * options_.buffers + buffer);
    record.transposed = options_.transposed;
    record.pairs = options_.pairs;
    record.first_col = at.col;
    record.cols = at.cols;
    return record;
  }

  Builder& builder_;
  DType type_;
  TileExtent tile_;
  StoreOptions options_;
  Passage passage_ = {};
  std::optional<SharedTile> buffers_;
};

// Applies the epilogue to the panels of a source and rounds the results.
class Finish {
 public:
  Finish(DType type, const StoreSource& from, const Epilogue& epilogue, const Staging& staging, u32 m, u32 n,
         const std::optional<u32>& batch)
      : type_(type),
        from_(from),
        epilogue_(epilogue),
        staging_(staging),
        place_{m, staging.has_pairs() ? n * 2 : n, batch, staging.is_transposed()} {
    if (staging.has_pairs() && !epilogue)
      throw Error("store: pairs of columns need an epilogue that makes one column of two");
    const bool is_float = type == DType::f32 || type == DType::f16 || type == DType::bf16 ||
                          type == DType::e4m3 || type == DType::e5m2;
    if (!is_float && (type != from.dtype() || epilogue))
      throw Error(
          fmt::format("store: {} cannot be stored as {}{}; a store rounds to f32, f16, bf16, e4m3 and e5m2, "
                      "and does not convert to other types",
                      name(from.dtype()), name(type), epilogue ? " through an epilogue" : ""));
  }

  TileValues operator()(int panel) const {
    const TilePart part = staging_.source(panel);
    TileValues x = from_.part(part);
    if (epilogue_) {
      x = detail::tile_convert(DType::f32, x);
      const PanelPlace place = {place_.row + part.row, place_.col + part.col, place_.batch,
                                place_.transposed};
      const RegisterTile<f32> y = [&] {
        AuthorsCode authors;
        return epilogue_(RegisterTile<f32>(x), place);
      }();
      if (const RegisterLayout wanted = staging_.layout(panel); !(y.layout() == wanted))
        throw Error(fmt::format("store: the epilogue made a tile of {} from a tile of {}{}",
                                y.layout().describe(), x.layout.describe(),
                                staging_.has_pairs() ? ", but must make " + wanted.describe() : ""));
      x = y.values();
    }
    return detail::tile_convert(type_, x);
  }

 private:
  DType type_;
  const StoreSource& from_;
  const Epilogue& epilogue_;
  const Staging& staging_;
  PanelPlace place_;
};

}  // namespace

StoreSource::StoreSource(const Accumulator& from)
    : dtype_(from.dtype()), extent_{from.m(), from.n()}, part_([&from](const TilePart& part) {
        return detail::load_accumulator(from, from.dtype(), part);
      }) {}

StoreSource::StoreSource(const TileValues& x)
    : dtype_(*x.dtype),
      extent_(x.layout.extent()),
      part_([x](const TilePart& part) { return detail::tile_part(x, part); }) {}

void store(DType type, TensorMap to, const StoreSource& from, u32 m, u32 n, const Epilogue& epilogue,
           const StoreOptions& options, Where where) {
  AtLine line(where);
  if (options.scattered) throw Error("store: scattered rows can only be stored by a PanelStore");
  const Staging staging(type, from.extent(), options);
  const Finish finish(type, from, epilogue, staging, m, n, options.batch);
  for (int i = 0; i < staging.panels(); ++i)
    staging.emit(to, i, finish(i), m, n, options.batch, staging.younger(i));
}

struct PanelStore::State {
  Staging staging;
  DType type;
  std::optional<TensorMap> to;
};

PanelStore::PanelStore(DType type, std::optional<TensorMap> to, TileExtent tile, const StoreOptions& options,
                       Where where) {
  AtLine line(where);
  if (to.has_value() == options.scattered.has_value())
    throw Error("panel store: give either a tensor map or scattered rows, not both");
  if (options.scattered && !options.batch)
    throw Error("panel store: scattered rows need a batch, which determines where they end");
  if (options.scattered && options.scattered->adds && !detail::can_add_rows(type))
    throw Error(
        fmt::format("panel store: the type of added rows is {}, but must be f32, f16 or bf16", name(type)));
  state_ = std::make_shared<const State>(State{Staging(type, tile, options), type, to});
}

int PanelStore::panel_columns() const { return state_->staging.source(0).cols; }

void PanelStore::store_panel(u32 number, const StoreSource& panel, u32 m, u32 n, const Epilogue& epilogue,
                             std::optional<u32> batch, Where where) const {
  AtLine line(where);
  const auto& [staging, type, to] = *state_;
  const TilePart first = staging.part(0);
  const uint32_t across = static_cast<uint32_t>(staging.panels_across());
  if (staging.repeated(staging.panels_across() - 1) > 0)
    throw Error(
        "store: panels that are stored by number cannot share columns; set the number of columns of a panel");
  const int panels = staging.panels();
  if (const auto known = Builder::current().constant(number);
      known && known->value >= static_cast<uint64_t>(panels))
    throw Error(fmt::format("store: panel {} was requested, but the tile has {}", known->value, panels));
  const u32 row = m + number / across * first.rows, col = n + number % across * first.cols;
  const Finish finish(type, panel, epilogue, staging, row, col, batch);
  staging.emit(to, 0, finish(0), row, col, batch, 0);
}

void PanelStore::store(const StoreSource& from, u32 m, u32 n, const Epilogue& epilogue,
                       std::optional<u32> batch, Where where) const {
  AtLine line(where);
  const auto& [staging, type, to] = *state_;
  const Finish finish(type, from, epilogue, staging, m, n, batch);
  for (int i = 0; i < staging.panels(); ++i)
    staging.emit(to, i, finish(i), m, n, batch, i == 0 ? 0 : staging.buffers() - 1);
}

struct DeferredStore::State {
  // A rounded panel that is held in registers until its step stores it.
  struct Kept {
    std::vector<llvm::Value*> words;
    RegisterLayout layout;
  };
  PanelStore panels;
  const Staging& staging;
  DType type;
  std::optional<TensorMap> to;
  std::vector<Kept> kept;
  Var<u32> m, n;
  std::optional<Var<u32>> batch;
  Var<pred> holds;
  Where taken = {};  // source line of the last take(); cleared by the next step
};

DeferredStore::DeferredStore(DType type, TensorMap to, TileExtent tile, const StoreOptions& options,
                             Where where)
    : DeferredStore(PanelStore(type, to, tile, options, where), where) {}

DeferredStore::DeferredStore(const PanelStore& panels, Where where) {
  AtLine line(where);
  const auto& [staging, type, to] = *panels.state_;
  if (size_of(type) != 2)
    throw Error(fmt::format("deferred store: {} needs too many registers; only 16-bit types are supported",
                            name(type)));
  state_ = std::make_shared<State>(
      State{panels, staging, type, to, {}, Var<u32>(0), Var<u32>(0), std::nullopt, Var<pred>(pred(false))});
  for (int i = 0; i < steps(); ++i) {
    const TileValues zeros =
        detail::tile_convert(type, detail::filled(DType::f32, f32(0), staging.layout(i)));
    std::vector<llvm::Value*> words = detail::tile_variables(zeros);
    // Columns that are also in the previous panel occupy registers only once. A word holds two 16-bit
    // elements of one of a thread's two rows.
    if (const int shared = staging.repeated(i)) {
      const std::vector<llvm::Value*>& before = state_->kept.back().words;
      std::copy(before.end() - shared / 4, before.end(), words.begin());
    }
    state_->kept.push_back({std::move(words), zeros.layout});
    detail::tile_assign(state_->kept.back().words, zeros.layout, {zeros.layout, zeros.words});
  }
  if (staging.has_batches()) state_->batch.emplace(u32(0));
  Builder::current().on_finish([state = state_] {
    if (state->taken)
      throw Error(
          state->taken,
          "take: no step() follows, so the last tile is not stored; call finish() after the last take()");
  });
}

int DeferredStore::steps() const { return state_->staging.panels(); }

void DeferredStore::take(const StoreSource& from, u32 m, u32 n, const Epilogue& epilogue,
                         std::optional<u32> batch, Where where) {
  AtLine line(where);
  State& s = *state_;
  const Finish finish(s.type, from, epilogue, s.staging, m, n, batch);
  for (int i = 0; i < steps(); ++i) {
    const TileValues panel = finish(i);
    const State::Kept& kept = s.kept[static_cast<size_t>(i)];
    detail::tile_assign(kept.words, kept.layout, {panel.layout, panel.words});
  }
  s.m = m;
  s.n = n;
  if (batch) *s.batch = *batch;
  s.holds = pred(true);
  s.taken = where;
}

void DeferredStore::step(int i, Where where) {
  AtLine line(where);
  State& s = *state_;
  if (i < 0 || i >= steps()) throw Error(fmt::format("step: {} of {}", i, steps()));
  s.taken = {};
  if_(s.holds, [&] {
    const State::Kept& kept = s.kept[static_cast<size_t>(i)];
    std::optional<u32> batch;
    if (s.batch) batch = s.batch->value();
    // Other stores may use a shared buffer between two steps.
    const int pending = s.staging.is_shared() ? 0 : s.staging.younger(i);
    s.staging.emit(s.to, i, detail::tile_read(kept.words, s.type, kept.layout), s.m, s.n, batch, pending);
  });
}

void DeferredStore::skip(Where where) {
  AtLine line(where);
  State& s = *state_;
  // Writes zeros, so that the tile is no longer live, and code before this point can use its registers.
  for (const State::Kept& kept : s.kept) {
    const TileValues zeros = detail::tile_convert(s.type, detail::filled(DType::f32, f32(0), kept.layout));
    detail::tile_assign(kept.words, kept.layout, {kept.layout, zeros.words});
  }
  // Panels that were stored in the meantime may have used the next step's buffer most recently.
  detail::wait_stores_read(0);
  s.holds = pred(false);
}

void DeferredStore::finish(Where where) {
  AtLine line(where);
  for (int i = 0; i < steps(); ++i) step(i);
}

}  // namespace ptxbuilder
