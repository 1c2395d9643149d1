#include "ptxbuilder/tile/tile.h"

#include <fmt/format.h>

#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder {

SharedTile::SharedTile(Builder& builder, DType dtype, TileShape shape, Swizzle swizzle, int stages,
                       Where where)
    : owner_(&builder.state()), dtype_(dtype), shape_(shape), swizzle_(swizzle), stages_(stages) {
  if (shape.rows < 1 || shape.cols < 1 || stages < 1)
    throw Error(where, fmt::format("shared: rows, cols and stages must be positive, but are {}, {} and {}",
                                   shape.rows, shape.cols, stages));
  constexpr int kMost = 232448;  // elements of a byte in the shared memory of a CTA
  if (shape.rows > kMost || shape.cols > kMost || int64_t{shape.rows} * shape.cols > kMost)
    throw Error(where, fmt::format("shared: {} x {} elements are more than shared memory holds, {} bytes",
                                   shape.rows, shape.cols, kMost));
  int row_bytes = shape.cols * size_of(dtype);
  if (row_bytes % 16 != 0)
    throw Error(where, fmt::format("shared: a row of {} {} is {} B, which is no multiple of 16 B", shape.cols,
                                   name(dtype), row_bytes));
  int span = span_bytes(swizzle);
  if (span && row_bytes % span != 0)
    throw Error(where,
                fmt::format("shared: a row of {} {} is {} B, which is no multiple of the swizzle's {} B",
                            shape.cols, name(dtype), row_bytes, span));
  // A swizzle's pattern repeats every 8 rows; TMA asks for 128 bytes in any case.
  uint32_t alignment = std::max(128, 8 * span);
  uint64_t bytes = uint64_t(stage_bytes()) * static_cast<unsigned>(stages);
  uint32_t clamped = static_cast<uint32_t>(std::min<uint64_t>(bytes, 1u << 31));
  if (stages > 1 && static_cast<uint32_t>(stage_bytes()) % alignment != 0)
    throw Error(
        where, fmt::format("shared: a stage of {} B is no multiple of {} B, so the next would not be aligned",
                           stage_bytes(), alignment));
  offset_ = builder.allocate_shared(clamped, alignment, fmt::format("{} x {}", stages, describe()), where);
}

int SharedTile::panel_row_bytes() const {
  return swizzle_ == Swizzle::none ? shape_.cols * size_of(dtype_) : span_bytes(swizzle_);
}

std::string SharedTile::describe() const {
  return fmt::format(
      "{} {}x{} tile, {}", ptxbuilder::name(dtype_), shape_.rows, shape_.cols,
      swizzle_ == Swizzle::none ? "no swizzle" : fmt::format("{} B swizzle", span_bytes(swizzle_)));
}

TileView SharedTile::operator[](u32 stage) const {
  Builder& builder = Builder::current();
  auto known = builder.constant(stage);
  Where where = known ? known->where : Where{};
  if (&builder.state() != owner_)
    throw Error(where, fmt::format("{}: a tile of another kernel was used", builder.signature().kernel));
  if (known && known->value >= static_cast<uint64_t>(stages_))
    throw Error(where, fmt::format("stage {} of a {} with {}", known->value, describe(), stages_));
  TileView view(std::make_shared<SharedTile>(*this),
                builder.shared_base() + (stage * static_cast<uint32_t>(stage_bytes()) + offset_));
  view.rows_ = shape_.rows;
  return view;
}

TileView SharedTile::operator[](const Stage& stage) const {
  TileView view = (*this)[stage.index()];
  view.barrier_ = stage.full_barrier();
  view.on_copy_ = stage.on_copy();
  return view;
}

TileView TileView::rows(u32 first, int count, Where where) const {
  AtLine line(where);
  if (count < 1 || count % 8 != 0 || count > rows_)
    throw Error(where, fmt::format("rows: {} of {} rows; the count must be a multiple of 8", count, rows_));
  if (auto known = Builder::current(where).constant(first);
      known &&
      (known->value % 8 != 0 || known->value + static_cast<uint64_t>(count) > static_cast<uint64_t>(rows_)))
    throw Error(
        where, fmt::format("rows: {} from row {} of {}; the first must be a multiple of 8 within them", count,
                           known->value, rows_));
  TileView view = *this;
  view.address_ = address_ + first * static_cast<uint32_t>(tile_->panel_row_bytes());
  view.rows_ = count;
  return view;
}

TileView TileView::transposed() const {
  TileView view = *this;
  view.transposed_ = !transposed_;
  return view;
}

TileView TileView::on(smem barrier) const {
  TileView view = *this;
  view.barrier_ = barrier;
  return view;
}

}  // namespace ptxbuilder
