#include "ptxbuilder/tile/store.h"

#include <fmt/format.h>

namespace ptxbuilder {
namespace {

constexpr int kRows = 64;  // of one wgmma
constexpr int kBufferBytes = 64 * 128;

// Threads of one warpgroup, and barrier 0 is the whole CTA's: each warpgroup has one of its own.
void sync_warpgroup(u32 group, Where where) { bar_sync(group + 1, 128, where); }

// What one copy moves: `rows` x `cols` of the tensor. A buffer holds as many boxes as fit.
struct Box {
  int rows, cols;
  Swizzle swizzle;
  int bytes;
};

// The widest box whose columns divide `cols`, with the swizzle that spreads its rows over all banks.
Box upright_box(int cols, DType type) {
  for (Swizzle swizzle : {Swizzle::b128, Swizzle::b64, Swizzle::b32})
    if (int span = span_bytes(swizzle); cols * size_of(type) % span == 0)
      return {kRows, span / size_of(type), swizzle, kRows * span};
  return {kRows, 16 / size_of(type), Swizzle::none, kRows * 16};
}

// The highest box whose rows divide `cols`; as wide as the swizzle.
Box transposed_box(int cols, DType type) {
  int rows = kBufferBytes / (kRows * size_of(type));
  while (cols % rows != 0) rows -= 8;
  return {rows, 128 / size_of(type), Swizzle::b128, rows * 128};
}

// What is stored: accumulators as they are, or packed pairs that were kept.
struct Source {
  const Accumulator* accumulator = nullptr;
  const std::vector<Var<u32>>* kept = nullptr;
  u32 m, n;
  std::optional<u32> batch;
};

// The way of an accumulator's shape and type out. Everything static is decided here: a batch is the columns
// of the accumulator that pass through a buffer together.
class Store {
 public:
  Store(DType type, const Accumulator& shape, const StoreOptions& options, Where where)
      : builder_(Builder::current(where)),
        type_(type),
        rows_(shape.m()),
        options_(options),
        where_(where),
        cols_(options.cols ? options.cols : shape.n()),
        lane_(tid_x(where) & 31),
        warp_(warp_index(where) & 3) {
    const bool integers = shape.dtype() == DType::s32;
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16 && !(integers && type == DType::s32))
      throw Error(where, fmt::format("store: {} is none of f32, f16, bf16, or s32 of s32", name(type)));
    if (shape.dtype() != DType::f32 && !integers)
      throw Error(where, fmt::format("store: the accumulators are {}; it converts from f32 and s32",
                                     name(shape.dtype())));
    if (cols_ < 8 || cols_ > shape.n() || cols_ % 8 != 0)
      throw Error(
          where,
          fmt::format("store: {} columns of an accumulator with {}; it takes a multiple of 8 within them",
                      cols_, shape.n()));
    if (options.buffers < 1 || options.buffers > 2)
      throw Error(where, fmt::format("store: {} buffers of each warpgroup; 1 or 2", options.buffers));
    box_ = options.transposed ? transposed_box(cols_, type) : upright_box(cols_, type);
    boxes_across_ = options.transposed ? kRows / box_.cols : 1;
    int groups = kBufferBytes / (box_.bytes * boxes_across_);
    cols_per_box_ = options.transposed ? box_.rows : box_.cols;
    batch_cols_ = std::min(groups * cols_per_box_, cols_);
    boxes_ = batch_cols_ / cols_per_box_ * boxes_across_;
    staging_.emplace(builder_, type_, TileShape{box_.rows, box_.cols}, box_.swizzle,
                     boxes_ * options_.buffers * detail::warpgroups_in_role(), "store staging", where_);
    // Shared memory must not go away under the copies.
    detail::TileContext::of(builder_).at_role_end["store"] = [where = where_] {
      cp_async_bulk_wait_group_read.when((tid_x(where) & 127) == 0)(0, where);
    };
  }

  // For each 64 rows those of all columns.
  int batches() const { return rows_ / kRows * batches_of_block(); }

  // The i-th batch; they come in order, and again from the first.
  void emit(TensorMap to, const Source& from, int i) const {
    const int block = i / batches_of_block(), col = i % batches_of_block() * batch_cols_;
    u32 group = detail::warpgroup_in_cta(where_);
    u32 first_box = (group - detail::first_warpgroup_of_role()) * (boxes_ * options_.buffers);
    pred issues = (tid_x(where_) & 127) == 0;  // the thread that issues, commits and waits
    u32 box = first_box + i % options_.buffers * boxes_;
    // The copy that used this buffer last has read it. An odd number of batches ends with the buffer that the
    // next tile begins with.
    int pending = i == 0 && batches() % options_.buffers != 0 ? 0 : options_.buffers - 1;
    cp_async_bulk_wait_group_read.when(issues)(pending, where_);
    sync_warpgroup(group, where_);
    int count = std::min(batch_cols_, cols_ - col);
    StoreRecord record = record_of(to, i % options_.buffers, col, count);
    write((*staging_)[box].address(), from, block, col, count, record);
    fence_proxy_async_shared(where_);  // TMA reads through the async proxy what these threads wrote
    sync_warpgroup(group, where_);
    if_(
        issues,
        [&] {
          for (int b = 0; b < count / cols_per_box_ * boxes_across_; ++b) {
            record.boxes.push_back(corner(col, b));
            copy(to, (*staging_)[box + b], from, block, record.boxes.back());
          }
          cp_async_bulk_commit_group(where_);
        },
        where_);
    KernelRecord& kernel = detail::TileContext::of(builder_).record;
    record.tile = detail::record_view(kernel, (*staging_)[0]).tile;
    record.recipe = builder_.signature().parameters[builder_.parameter_index(to, where_)].tensor_map;
    kernel.stores.push_back(std::move(record));
  }

  // Elements 2 pair and 2 pair + 1 of a block, rounded: one register of a 16-bit type.
  u32 packed(const Source& from, int block, int pair) const {
    if (from.kept) return (*from.kept)[static_cast<size_t>(block * pairs() + pair)].value();
    std::vector<Argument> both;
    for (int e : {1, 0}) {
      if (options_.epilogue || from.accumulator->dtype() != DType::f32)
        both.emplace_back(value(from, block, 2 * pair + e));
      else
        both.emplace_back(from.accumulator->registers(block, where_).slice(2 * pair + e, 1));
    }
    return u32(builder_.emit(isa::cvt_pack(type_, where_), both, std::nullopt, where_)[0].handle());
  }
  int pairs() const { return cols_ / 4; }  // of a block

 private:
  int batches_of_block() const { return (cols_ + batch_cols_ - 1) / batch_cols_; }

  StoreRecord record_of(TensorMap to, int buffer, int col, int count) const {
    StoreRecord record;
    for (int group = 0; group < detail::warpgroups_in_role(); ++group)
      record.first_stages.push_back((group * options_.buffers + buffer) * boxes_);
    record.map = builder_.signature().parameters[builder_.parameter_index(to, where_)].name;
    record.transposed = options_.transposed;
    record.first_col = col;
    record.cols = count;
    record.where = where_;
    return record;
  }

  // The i-th box of a batch that begins with column `col`: which of the block's elements it begins with.
  StoreRecord::Box corner(int col, int i) const {
    return {i, options_.transposed ? i % boxes_across_ * box_.cols : 0,
            col + i / boxes_across_ * cols_per_box_};
  }

  // Stores a box of a batch.
  void copy(TensorMap to, const TileView& buffer, const Source& from, int block,
            const StoreRecord::Box& box) const {
    u32 row = from.m + (block * kRows + box.row), col = from.n + box.col;
    std::vector<u32> at = {col, row};
    if (options_.transposed) at = {row, col};
    if (from.batch) at.push_back(*from.batch);
    detail::tma_store({to, where_}, std::nullopt, buffer, {at.begin(), at.end()});
  }

  // Columns [col, col + count) of a block to a buffer.
  void write(smem buffer, const Source& from, int block, int col, int count, StoreRecord& record) const {
    for (int j = 0; j < count / 8; ++j) {
      if (size_of(type_) == 4) {
        write_wide(buffer, from, block, col, j, record);
      } else if (j % 2 == 0) {
        write_packed(buffer, from, block, col, j, std::min(2, count / 8 - j), record);
      }
    }
  }

  // Which element of a block a thread's i-th is, as the epilogue is told. I is u32, or int64_t for the
  // record.
  template <class I>
  static I row_of(I lane, I warp, int i) {
    return warp * 16 + (lane >> 2) + i / 2 % 2 * 8;
  }
  template <class I>
  static I col_of(I lane, int i) {
    return ((lane & 3) << 1) + (i / 4 * 8 + i % 2);
  }

  // Completes the record of an instruction.
  void add(StoreRecord& record, StoreRecord::Write write) const {
    for (int64_t thread = 0; thread < 128 && options_.epilogue; ++thread)
      for (int i : write.held)
        write.coordinates.push_back({static_cast<int>(row_of(thread % 32, thread / 32, i)),
                                     static_cast<int>(col_of(thread % 32, i))});
    record.writes.push_back(std::move(write));
  }

  // What `address(lane, warp)` gives for each thread of a warpgroup.
  static std::vector<int> by_thread(const std::function<int64_t(int64_t, int64_t)>& address) {
    std::vector<int> all;
    for (int thread = 0; thread < 128; ++thread)
      all.push_back(static_cast<int>(address(thread % 32, thread / 32)));
    return all;
  }

  // Element i of a block, in wgmma's order: row 8 (i / 2 % 2), column 8 (i / 4) + 2 (lane % 4) + i % 2.
  f32 value(const Source& from, int block, int i) const {
    const Accumulator& acc = *from.accumulator;
    f32 value =
        acc.dtype() == DType::s32 ? f32(acc.value<s32>(block, i, where_)) : acc.value(block, i, where_);
    if (!options_.epilogue) return value;
    u32 row = from.m + block * kRows + row_of(lane_, warp_, i), column = from.n + col_of(lane_, i);
    return options_.epilogue(value, row, column);
  }

  // `blocks` (1 or 2) 8-column blocks from the j-th: one stmatrix of 2 or 4 matrices, those of rows 0 to 7
  // and 8 to 15 of the warp's 16 for each block.
  void write_packed(smem buffer, const Source& from, int block, int col, int j, int blocks,
                    StoreRecord& record) const {
    std::vector<Value> registers;
    StoreRecord::Write write{16, 2 * blocks, options_.transposed, {}, {}, {}};
    for (int i = 0; i < 2 * blocks; ++i) {
      const int pair = col / 4 + 2 * j + i;
      registers.push_back(packed(from, block, pair));
      write.held.insert(write.held.end(), {2 * pair, 2 * pair + 1});
    }
    write.addresses =
        by_thread([&](int64_t lane, int64_t warp) { return packed_address(int64_t{0}, lane, warp, j); });
    add(record, std::move(write));
    std::vector<Argument> arguments = {packed_address(buffer, lane_, warp_, j), registers};
    builder_.emit(isa::stmatrix(2 * blocks, options_.transposed, where_), arguments, std::nullopt, where_);
  }

  // The 8 columns 8 j and on of f32 or s32. Upright, a thread stores pairs along its rows.
  void write_wide(smem buffer, const Source& from, int block, int col, int j, StoreRecord& record) const {
    auto bits = [&](int i) {
      return type_ == DType::s32 ? bit_cast<f32>(u32(from.accumulator->value<s32>(block, i, where_)), where_)
                                 : value(from, block, i);
    };
    const bool pairs = !options_.transposed;
    for (int half = 0; half < 2; ++half) {
      const int first = col / 2 + 4 * j + 2 * half;
      const std::array<f32, 2> both = {bits(first), bits(first + 1)};
      for (int e = 0; e < (pairs ? 1 : 2); ++e) {
        StoreRecord::Write write{pairs ? 8 : 4, 0, false, {}, {first + e}, {}};
        if (pairs) write.held.push_back(first + 1);
        write.addresses = by_thread(
            [&](int64_t lane, int64_t warp) { return wide_address(int64_t{0}, lane, warp, j, half, e); });
        add(record, std::move(write));
        sptr<f32> to(wide_address(buffer, lane_, warp_, j, half, e));
        if (pairs)
          ptxbuilder::store(to, both, where_);
        else
          to[0] = both[static_cast<size_t>(e)];
      }
    }
  }

  // Addresses are computed by threads, and on the host for the kernel's record: A is smem and I u32, or both
  // are int64_t.

  // Lane l gives the address of row l % 8 of matrix l / 8.
  template <class A, class I>
  A packed_address(A buffer, I lane, I warp, int j) const {
    I second_block = lane >> 4, lower_half = (lane >> 3) & 1;
    return options_.transposed ? chunk(buffer, second_block * 8 + (8 * j) + (lane & 7), warp * 2 + lower_half)
                               : upright_chunk(buffer, warp * 16 + (lane & 15), j, second_block);
  }

  // Of a pair of 32-bit elements in half `half` of the rows: of both, or, transposed, of element e.
  template <class A, class I>
  A wide_address(A buffer, I lane, I warp, int j, int half, int e) const {
    if (!options_.transposed) {
      I row = warp * 16 + (lane >> 2) + 8 * half;
      return upright_chunk(buffer, row, 2 * j, (lane & 3) >> 1) + ((lane & 1) << 3);
    }
    // Two boxes side by side hold the block's 64 rows; group over group of box_.rows columns.
    int first = 8 * j / box_.rows * boxes_across_ * box_.rows + 8 * j % box_.rows;
    I row = (warp >> 1) * box_.rows + first + ((lane & 3) << 1);
    I position = ((warp & 1) << 2) + 2 * half + (lane >> 4);
    I within = ((lane >> 2) & 3) << 2;
    return chunk(buffer, row + e, position) + within;
  }

  // The 16-byte chunk `first + second`, with `second` 0 or 1, of a row of the batch; `first` is even where
  // boxes have more than one.
  template <class A, class I>
  A upright_chunk(A buffer, I row, int first, I second) const {
    int across = box_.cols * size_of(type_) / 16;
    if (across == 1) return chunk(buffer + (second + first) * box_.bytes, row, I(0));
    return chunk(buffer + first / across * box_.bytes, row, second + first % across);
  }

  // Where a 16-byte chunk of a row lies: a swizzle of span S exclusive-ors the chunk's number with bits 7 and
  // up of the row's offset, modulo S / 16 (CUDA driver API, CUtensorMapSwizzle).
  template <class A, class I>
  A chunk(A buffer, I row, I number) const {
    uint32_t span = static_cast<uint32_t>(box_.cols * size_of(type_));
    I offset = row * span;
    return buffer + (offset + ((number ^ ((offset >> 7) & (span / 16 - 1))) << 4));
  }

  Builder& builder_;
  DType type_;
  int rows_;
  StoreOptions options_;
  Where where_;
  int cols_;
  u32 lane_, warp_;
  Box box_;
  int boxes_across_;               // side by side: the block's 64 rows, when transposed
  int cols_per_box_, batch_cols_;  // of the accumulator
  int boxes_;                      // of a buffer
  std::optional<SharedTile> staging_;
};

}  // namespace

void store(DType type, TensorMap to, const Accumulator& from, u32 m, u32 n, const StoreOptions& options,
           Where where) {
  AtLine line(where);
  const Store store(type, from, options, where);
  const Source source = {&from, nullptr, m, n, options.batch};
  for (int i = 0; i < store.batches(); ++i) store.emit(to, source, i);
}

struct DeferredStore::State {
  Store store;
  TensorMap to;
  std::vector<Var<u32>> kept;
  Var<u32> m, n;
  std::optional<Var<u32>> batch;
  Var<pred> holds;
};

DeferredStore::DeferredStore(DType type, TensorMap to, const Accumulator& shape, const StoreOptions& options,
                             Where where) {
  AtLine line(where);
  if (size_of(type) != 2)
    throw Error(
        where, fmt::format("deferred store: {} has no room in registers; it takes 16-bit types", name(type)));
  state_ = std::make_shared<State>(State{Store(type, shape, options, where),
                                         to,
                                         {},
                                         Var<u32>(0),
                                         Var<u32>(0),
                                         std::nullopt,
                                         Var<pred>(pred(false))});
  for (int i = 0; i < shape.m() / kRows * state_->store.pairs(); ++i) state_->kept.emplace_back(u32(0));
  if (options.batch) state_->batch.emplace(u32(0));
}

int DeferredStore::steps() const { return state_->store.batches(); }

void DeferredStore::take(const Accumulator& from, u32 m, u32 n, std::optional<u32> batch, Where where) {
  AtLine line(where);
  State& s = *state_;
  const Source source = {&from, nullptr, m, n, batch};
  const int pairs = s.store.pairs();
  for (size_t i = 0; i < s.kept.size(); ++i)
    s.kept[i] = s.store.packed(source, static_cast<int>(i) / pairs, static_cast<int>(i) % pairs);
  s.m = m;
  s.n = n;
  if (batch) *s.batch = *batch;
  s.holds = pred(true);
}

void DeferredStore::step(int i, Where where) {
  AtLine line(where);
  State& s = *state_;
  if_(
      s.holds,
      [&] {
        Source source = {nullptr, &s.kept, s.m, s.n, std::nullopt};
        if (s.batch) source.batch = s.batch->value();
        s.store.emit(s.to, source, i);
      },
      where);
}

void DeferredStore::skip(Where where) {
  AtLine line(where);
  state_->holds = pred(false);
}

void DeferredStore::finish(Where where) {
  for (int i = 0; i < steps(); ++i) step(i, where);
}

}  // namespace ptxbuilder
