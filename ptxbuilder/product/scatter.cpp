#include "ptxbuilder/product/scatter.h"

#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/plan/thread_access.h"

namespace ptxbuilder::detail {
namespace {

constexpr int kBytes = 16;  // size of an access, in bytes
constexpr int kThreads = 128;

// A part of the buffer that one thread stores with one access.
struct Piece {
  smem from;
  u32 row, col;  // position in the matrix
  pred is_there;
};

// Adds 16 bytes of elements in shared memory to elements in global memory.
void add(DType type, gmem to, smem from) {
  if (type == DType::f32)
    instruction<"red.relaxed.gpu.global.add.v4.f32">(to, load<4>(sptr<f32>(from)));
  else if (type == DType::bf16)
    instruction<"red.relaxed.gpu.global.add.noftz.v4.bf16x2">(to, load<4>(sptr<u32>(from)));
  else
    instruction<"red.relaxed.gpu.global.add.noftz.v4.f16x2">(to, load<4>(sptr<u32>(from)));
}

}  // namespace

// Loads all row numbers first, so that the thread waits for them only once.
void scatter_rows(const TileView& buffer, const ScatteredRows& to, u32 row, u32 col, u32 end) {
  const int size = size_of(buffer.tile().dtype()), elements = kBytes / size;
  const int across = buffer.tile().cols() / elements, pieces = buffer.row_count() * across;
  const ComposedLayout bytes = in_bytes(buffer.layout(), size);
  const BasicComposedLayout<Index> layout(bytes.swizzle(), Index(bytes.offset()), to_device(bytes.layout()));
  const u32 thread = tid_x() % kThreads, last = max(end, u32(1)) - 1;
  std::vector<Piece> of_thread;
  for (int first = 0; first < pieces; first += kThreads) {
    const u32 piece = thread + first, in_buffer = piece / across;
    const u32 element = (piece - in_buffer * across) * elements;
    const u32 at = row + in_buffer, to_row = u32(s32(to.index[min(at, last)])), to_col = col + element;
    pred is_there = (at < end) & (to_row < to.rows) & (to_col < to.cols);
    if (pieces - first < kThreads) is_there = is_there & (piece < u32(pieces));
    const DeviceTuple place = {Index(in_buffer), Index(element)};
    of_thread.push_back({buffer.address() + layout(place).value(), to_row, to_col, is_there});
  }
  for (const Piece& piece : of_thread)
    if_(piece.is_there, [&] {
      const u64 element = u64(piece.row) * u64(to.stride) + u64(piece.col);
      const gmem place = to.start + element * static_cast<uint64_t>(size);
      if (to.adds)
        add(buffer.tile().dtype(), place, piece.from);
      else
        store(gptr<u32>(place), load<4>(sptr<u32>(piece.from)));
    });
}

}  // namespace ptxbuilder::detail
