#include "ptxbuilder/tile/mma.h"

#include <fmt/format.h>

namespace ptxbuilder {
namespace {

using detail::TileContext;

constexpr int kRows = 64;   // of one wgmma
constexpr int kDepth = 16;  // its k, for 16-bit elements

// One operand of wgmma in shared memory: the descriptor of its start, and how many bytes it advances.
struct Operand {
  Operand(const TileView& view, const char* name, Where where) : view(view), name(name) {
    const SharedTile& tile = view.tile();
    if (tile.dtype() != DType::f16 && tile.dtype() != DType::bf16)
      throw Error(where,
                  fmt::format("mma: {} is a {}; only f16 and bf16 are supported", name, tile.describe()));
    if (tile.swizzle() == Swizzle::none)
      throw Error(where, fmt::format("mma: {} is a {}; wgmma reads tiles with 32, 64 or 128 B swizzle", name,
                                     tile.describe()));
    if (depth() % kDepth != 0)
      throw Error(where, fmt::format("mma: {} is {} deep along k, which is no multiple of {}", name, depth(),
                                     kDepth));
  }

  // Elements along m or n, and along k.
  int extent() const { return view.is_transposed() ? view.tile().cols() : view.row_count(); }
  int depth() const { return view.is_transposed() ? view.row_count() : view.tile().cols(); }

  // The swizzle's pattern is 8 rows of the span. Rows are m or n: SBO steps over 8 of them, and LBO is not
  // used (the manual's value is 1). Rows are k (transposed): LBO steps from panel to panel along m or n, SBO
  // over 8 rows of k.
  u64 descriptor() const {
    const SharedTile& tile = view.tile();
    uint32_t pattern = 8 * static_cast<uint32_t>(span_bytes(tile.swizzle()));
    uint32_t leading = view.is_transposed() ? static_cast<uint32_t>(tile.panel_bytes()) : 16;
    u64 address = u64((u32(view.address()) >> 4) & 0x3fff);
    return address | descriptor_bits(tile.swizzle(), leading, pattern);
  }

  // Bytes from the start of the operand to element (i, k), for the i and k at which an instruction may start.
  int advance(int i, int k) const {
    const SharedTile& tile = view.tile();
    int row = view.is_transposed() ? k : i;
    int col = view.is_transposed() ? i : k;
    return col / tile.panel_cols() * tile.panel_bytes() + row * tile.panel_row_bytes() +
           col % tile.panel_cols() * size_of(tile.dtype());
  }

  const TileView& view;
  const char* name;
};

}  // namespace

uint64_t descriptor_bits(Swizzle swizzle, uint32_t leading_bytes, uint32_t stride_bytes) {
  uint64_t layout =
      swizzle == Swizzle::none ? 0 : 4 - static_cast<uint64_t>(swizzle);  // 128 B is 1, 64 B 2, 32 B 3
  return layout << 62 | uint64_t{stride_bytes >> 4} << 32 | uint64_t{leading_bytes >> 4} << 16;
}

Accumulator::Accumulator(int m, int n, Where where)
    : m_(m), n_(n), accumulate_(pred(false)), in_flight_(std::make_shared<bool>(false)) {
  if (m < kRows || m % kRows != 0)
    throw Error(where, fmt::format("accumulator: m = {} must be a multiple of {}", m, kRows));
  if (n < 8 || n > 256 || n % 8 != 0)
    throw Error(where, fmt::format("accumulator: n = {} must be a multiple of 8 from 8 to 256", n));
  Builder& builder = Builder::current(where);
  registers_ = builder.declare_registers(Class::f32, m / kRows * (n / 2));
  TileContext::of(builder).in_flight.push_back(in_flight_);
}

Registers Accumulator::registers(int block, Where where) const {
  if (*in_flight_)
    throw Error(where, "accumulator: read while an mma may still write it; call wgmma_wait(0) first");
  if (block < 0 || block >= m_ / kRows)
    throw Error(where, fmt::format("accumulator: block {} of {}", block, m_ / kRows));
  return registers_.slice(block * (n_ / 2), n_ / 2);
}

f32 Accumulator::value(int block, int i, Where where) const {
  if (i < 0 || i >= n_ / 2)
    throw Error(where, fmt::format("accumulator: register {} of the {} of a block", i, n_ / 2));
  std::vector<Argument> from = {registers(block, where).slice(i, 1)};
  return f32(Builder::current(where).emit(isa::rows_def::mov_f32, from, std::nullopt, where)[0].handle());
}

void mma(Accumulator& d, const TileView& a_view, const TileView& b_view, Where where) {
  AtLine line(where);
  Operand a(a_view, "A", where), b(b_view, "B", where);
  DType type = a_view.tile().dtype();
  if (type != b_view.tile().dtype())
    throw Error(where, fmt::format("mma: A is a {} and B a {}; their types must be equal",
                                   a_view.tile().describe(), b_view.tile().describe()));
  if (a.extent() != d.m() || b.extent() != d.n() || a.depth() != b.depth())
    throw Error(where, fmt::format("mma: D {}x{} += A {}x{} B {}x{}: the shapes do not fit", d.m(), d.n(),
                                   a.extent(), a.depth(), b.depth(), b.extent()));

  Builder& builder = Builder::current(where);
  const isa::Row& row = isa::wgmma_mma_async(DType::f32, type, d.n(), false, where);
  u64 a_start = a.descriptor(), b_start = b.descriptor();
  pred accumulate = d.accumulate_;
  for (int block = 0; block < d.m() / kRows; ++block)
    for (int k = 0; k < a.depth(); k += kDepth) {
      pred scale_d = k == 0 ? accumulate : pred(true);
      std::vector<Argument> arguments = {d.registers_.slice(block * (d.n() / 2), d.n() / 2),
                                         a_start + (a.advance(block * kRows, k) >> 4),
                                         b_start + (b.advance(0, k) >> 4),
                                         scale_d,
                                         int64_t{1},
                                         int64_t{1},
                                         int64_t{a_view.is_transposed()},
                                         int64_t{b_view.is_transposed()}};
      builder.emit(row, arguments, std::nullopt, where);
    }
  d.accumulate_ = pred(true);
  *d.in_flight_ = true;
}

void wgmma_group(const std::function<void()>& body, Where where) {
  wgmma_fence(where);
  body();
  wgmma_commit_group(where);
}

void wgmma_wait(int pending, Where where) {
  wgmma_wait_group(pending, where);
  if (pending != 0) return;
  for (const auto& flag : TileContext::of(Builder::current(where)).in_flight)
    if (auto alive = flag.lock()) *alive = false;
}

}  // namespace ptxbuilder
