#include "ptxbuilder/tile/store.h"

#include <fmt/format.h>

namespace ptxbuilder {
namespace {

constexpr int kRows = 64;  // of one wgmma
constexpr int kBufferBytes = 64 * 128;
constexpr int kBuffers = 2;  // of each warpgroup

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

// One call of store(). Everything static is decided here: a batch is the columns of the accumulator that pass
// through a buffer together.
class Store {
 public:
  Store(DType type, const Accumulator& from, u32 m, u32 n, const StoreOptions& options, Where where)
      : builder_(Builder::current(where)),
        type_(type),
        from_(from),
        m_(m),
        n_(n),
        options_(options),
        where_(where),
        cols_(options.cols ? options.cols : from.n()),
        lane_(tid_x(where) & 31),
        warp_(warp_index(where) & 3) {
    if (from.dtype() != DType::f32)
      throw Error(where, fmt::format("store: the accumulators are {}; it converts from f32", name(from.dtype())));
    if (cols_ < 8 || cols_ > from.n() || cols_ % 8 != 0)
      throw Error(
          where,
          fmt::format("store: {} columns of an accumulator with {}; it takes a multiple of 8 within them",
                      cols_, from.n()));
    box_ = options.transposed ? transposed_box(cols_, type) : upright_box(cols_, type);
    boxes_across_ = options.transposed ? kRows / box_.cols : 1;
    int groups = kBufferBytes / (box_.bytes * boxes_across_);
    cols_per_box_ = options.transposed ? box_.rows : box_.cols;
    batch_cols_ = std::min(groups * cols_per_box_, cols_);
  }

  void emit(TensorMap to) const {
    int boxes = batch_cols_ / cols_per_box_ * boxes_across_;
    SharedTile staging(builder_, type_, {box_.rows, box_.cols}, box_.swizzle,
                       boxes * kBuffers * detail::warpgroups_in_role(), "store staging", where_);
    u32 group = detail::warpgroup_in_cta(where_);
    u32 first_box = (group - detail::first_warpgroup_of_role()) * (boxes * kBuffers);
    pred issues = (tid_x(where_) & 127) == 0;  // the thread that issues, commits and waits

    const int batches = from_.m() / kRows * ((cols_ + batch_cols_ - 1) / batch_cols_);
    int batch = 0;
    for (int block = 0; block < from_.m() / kRows; ++block)
      for (int col = 0; col < cols_; col += batch_cols_, ++batch) {
        u32 box = first_box + batch % kBuffers * boxes;
        // The copy that used this buffer last has read it. An odd number of batches ends with the buffer that
        // the next call begins with.
        int pending = batch == 0 && batches % kBuffers != 0 ? 0 : kBuffers - 1;
        cp_async_bulk_wait_group_read.when(issues)(pending, where_);
        sync_warpgroup(group, where_);
        int count = std::min(batch_cols_, cols_ - col);
        write(staging[box].address(), block, col, count);
        fence_proxy_async_shared(where_);  // TMA reads through the async proxy what these threads wrote
        sync_warpgroup(group, where_);
        if_(
            issues,
            [&] {
              for (int i = 0; i < count / cols_per_box_ * boxes_across_; ++i)
                copy(to, staging[box + i], block, col, i);
              cp_async_bulk_commit_group(where_);
            },
            where_);
      }
    // Shared memory must not go away under the copies.
    detail::TileContext::of(builder_).at_role_end["store"] = [where = where_] {
      cp_async_bulk_wait_group_read.when((tid_x(where) & 127) == 0)(0, where);
    };
  }

 private:
  // Stores the i-th box of a batch.
  void copy(TensorMap to, const TileView& from, int block, int col, int i) const {
    u32 row = m_ + block * kRows, first = n_ + (col + i / boxes_across_ * cols_per_box_);
    if (options_.transposed)
      tma_store({to, where_}, from, row + i % boxes_across_ * box_.cols, first);
    else
      tma_store({to, where_}, from, first, row);
  }

  // Columns [col, col + count) of a block to a buffer.
  void write(smem buffer, int block, int col, int count) const {
    Registers registers = from_.registers(block, where_).slice(col / 2, count / 2);
    for (int j = 0; j < count / 8; ++j) {
      if (type_ == DType::f32) {
        write_f32(buffer, registers, block, col, j);
      } else if (j % 2 == 0) {
        write_packed(buffer, registers, block, col, j, std::min(2, count / 8 - j));
      }
    }
  }

  // Register i of columns 8 j and on, in wgmma's order: row 8 (i / 2), column 2 (lane % 4) + i % 2.
  f32 value(const Registers& registers, int block, int col, int j, int i) const {
    std::vector<Argument> from = {registers.slice(4 * j + i, 1)};
    f32 value(builder_.emit(isa::rows_def::mov_f32, from, std::nullopt, where_)[0].handle());
    if (!options_.epilogue) return value;
    u32 row = m_ + block * kRows + warp_ * 16 + (lane_ >> 2) + i / 2 * 8;
    u32 column = n_ + (col + 8 * j) + ((lane_ & 3) << 1) + i % 2;
    return options_.epilogue(value, row, column);
  }

  // `blocks` (1 or 2) 8-column blocks from the j-th: one stmatrix of 2 or 4 matrices, those of rows 0 to 7
  // and 8 to 15 of the warp's 16 for each block. Lane l gives the address of row l % 8 of matrix l / 8.
  void write_packed(smem buffer, const Registers& registers, int block, int col, int j, int blocks) const {
    const isa::Row& pack = isa::cvt_pack(type_, where_);
    std::vector<Value> packed;
    for (int i = 0; i < 2 * blocks; ++i) {
      std::vector<Argument> pair;
      for (int e : {1, 0}) {
        if (options_.epilogue)
          pair.emplace_back(value(registers, block, col, j + i / 2, 2 * (i % 2) + e));
        else
          pair.emplace_back(registers.slice(4 * j + 2 * i + e, 1));
      }
      packed.push_back(builder_.emit(pack, pair, std::nullopt, where_)[0]);
    }
    u32 second_block = lane_ >> 4, lower_half = (lane_ >> 3) & 1;
    smem address = options_.transposed
                       ? chunk(buffer, second_block * 8 + (8 * j) + (lane_ & 7), warp_ * 2 + lower_half)
                       : upright_chunk(buffer, warp_ * 16 + (lane_ & 15), j, second_block);
    std::vector<Argument> arguments = {address, packed};
    builder_.emit(isa::stmatrix(2 * blocks, options_.transposed, where_), arguments, std::nullopt, where_);
  }

  // The 8 columns 8 j and on of f32. Upright, a thread stores pairs along its rows.
  void write_f32(smem buffer, const Registers& registers, int block, int col, int j) const {
    for (int half = 0; half < 2; ++half) {
      f32 low = value(registers, block, col, j, 2 * half),
          high = value(registers, block, col, j, 2 * half + 1);
      if (!options_.transposed) {
        u32 row = warp_ * 16 + (lane_ >> 2) + 8 * half;
        sptr<f32> to(upright_chunk(buffer, row, 2 * j, (lane_ & 3) >> 1) + ((lane_ & 1) << 3));
        ptxbuilder::store(to, std::array<f32, 2>{low, high}, where_);
        continue;
      }
      // Two boxes side by side hold the block's 64 rows; group over group of box_.rows columns.
      int first = 8 * j / box_.rows * boxes_across_ * box_.rows + 8 * j % box_.rows;
      u32 row = (warp_ >> 1) * box_.rows + first + ((lane_ & 3) << 1);
      u32 position = ((warp_ & 1) << 2) + 2 * half + (lane_ >> 4);
      u32 within = ((lane_ >> 2) & 3) << 2;
      sptr<f32>(chunk(buffer, row, position) + within)[0] = low;
      sptr<f32>(chunk(buffer, row + 1, position) + within)[0] = high;
    }
  }

  // The 16-byte chunk `first + second`, with `second` 0 or 1, of a row of the batch; `first` is even where
  // boxes have more than one.
  smem upright_chunk(smem buffer, u32 row, int first, u32 second) const {
    int across = box_.cols * size_of(type_) / 16;
    if (across == 1) return chunk(buffer + (second + first) * box_.bytes, row, 0);
    return chunk(buffer + first / across * box_.bytes, row, second + first % across);
  }

  // Where a 16-byte chunk of a row lies: a swizzle of span S exclusive-ors the chunk's number with bits 7 and
  // up of the row's offset, modulo S / 16 (CUDA driver API, CUtensorMapSwizzle).
  smem chunk(smem buffer, u32 row, u32 number) const {
    uint32_t span = static_cast<uint32_t>(box_.cols * size_of(type_));
    u32 offset = row * span;
    return buffer + (offset + ((number ^ ((offset >> 7) & (span / 16 - 1))) << 4));
  }

  Builder& builder_;
  DType type_;
  const Accumulator& from_;
  u32 m_, n_;
  const StoreOptions& options_;
  Where where_;
  int cols_;
  u32 lane_, warp_;
  Box box_;
  int boxes_across_;               // side by side: the block's 64 rows, when transposed
  int cols_per_box_, batch_cols_;  // of the accumulator
};

}  // namespace

template <class T>
void store(TensorMap to, const Accumulator& from, u32 m, u32 n, const StoreOptions& options, Where where) {
  AtLine line(where);
  Store(T::dtype, from, m, n, options, where).emit(to);
}

template void store<f32>(TensorMap, const Accumulator&, u32, u32, const StoreOptions&, Where);
template void store<f16>(TensorMap, const Accumulator&, u32, u32, const StoreOptions&, Where);
template void store<bf16>(TensorMap, const Accumulator&, u32, u32, const StoreOptions&, Where);

}  // namespace ptxbuilder
