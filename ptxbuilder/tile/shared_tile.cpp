#include "ptxbuilder/tile/shared_tile.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/article.h"
#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/plan/tiled_copy.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder {
namespace {

constexpr int kRowUnit = 16;  // TMA and wgmma need rows whose size is a multiple of this number of bytes

// Returns the offset of a coordinate from the start of a stage, in bytes, before the swizzle is applied.
u32 device_offset(const SharedTile& tile, const DeviceTuple& at) {
  return to_device(in_bytes(tile.layout(), size_of(tile.dtype())).layout())(at).value();
}

}  // namespace

SharedTile::SharedTile(Builder& builder, DType dtype, TileShape shape, Swizzle swizzle, int stages,
                       int row_unit, Where where)
    : owner_(&builder.state()),
      dtype_(dtype),
      shape_(shape),
      swizzle_(swizzle),
      stages_(stages),
      layout_(byte_swizzle(swizzle), 0, Layout()) {
  AtLine line(where);
  if (shape.rows < 1 || shape.cols < 1 || stages < 1)
    throw Error(fmt::format("shared: rows, cols and stages must be positive, but are {}, {} and {}",
                            shape.rows, shape.cols, stages));
  constexpr int kMost = hopper::shared_bytes;  // maximum number of elements, if each has one byte
  if (shape.rows > kMost || shape.cols > kMost || int64_t{shape.rows} * shape.cols > kMost)
    throw Error(fmt::format("shared: {} x {} elements do not fit in shared memory, which has {} bytes",
                            shape.rows, shape.cols, kMost));
  int row_bytes = shape.cols * size_of(dtype);
  if (row_bytes % row_unit != 0)
    throw Error(fmt::format("shared: a row of {} {} is {} B, but must be a multiple of 16 B", shape.cols,
                            ptxbuilder::name(dtype), row_bytes));
  int span = span_bytes(swizzle);
  if (span && row_bytes % span != 0)
    throw Error(fmt::format("shared: a row of {} {} is {} B, but must be a multiple of the swizzle's {} B",
                            shape.cols, ptxbuilder::name(dtype), row_bytes, span));
  if (int panel = shape.panel_cols; panel != 0) {
    if (span)
      throw Error(
          fmt::format("shared: panels of {} columns were requested for a tile with {} B swizzle, but such "
                      "panels are always as wide as the swizzle",
                      panel, span));
    if (panel < 1 || shape.cols % panel != 0 || panel * size_of(dtype) % 16 != 0)
      throw Error(
          fmt::format("shared: the width of a panel is {} columns, but must divide the row of {} {} and be a "
                      "multiple of 16 B",
                      panel, shape.cols, ptxbuilder::name(dtype)));
  }
  lay_out();
  if (stages > 1 && static_cast<uint32_t>(stage_bytes()) % alignment() != 0)
    throw Error(fmt::format(
        "shared: a stage is {} B, but must be a multiple of {} B, or the next one would not be aligned",
        stage_bytes(), alignment()));
}

SharedTile::SharedTile(Builder& builder, DType dtype, TileShape shape, Swizzle swizzle, int stages,
                       std::string name, Where where)
    : SharedTile(builder, dtype, shape, swizzle, stages, kRowUnit, where) {
  AtLine line(where);
  take_place(builder, std::move(name));
}

SharedTile SharedTile::for_threads(Builder& builder, DType dtype, TileShape shape, int stages,
                                   std::string name) {
  SharedTile tile(builder, dtype, shape, Swizzle::none, stages, size_of(dtype), Where::here());
  tile.take_place(builder, std::move(name));
  return tile;
}

void SharedTile::take_place(Builder& builder, std::string name) {
  if (name.empty()) {
    const auto& objects = builder.signature().shared;
    name = fmt::format("tile {} ({} {}x{})",
                       std::count_if(objects.begin(), objects.end(),
                                     [](const SharedObject& o) { return o.name.starts_with("tile "); }),
                       ptxbuilder::name(dtype_), shape_.rows, shape_.cols);
  }
  offset_ =
      builder.allocate_shared(std::move(name), static_cast<uint32_t>(stage_bytes()), stages_, alignment());
}

SharedTile::SharedTile(const SharedRegion& place, DType dtype, TileShape shape, Swizzle swizzle, int stages,
                       Where where)
    : SharedTile(Builder::current(where), dtype, shape, swizzle, stages, kRowUnit, where) {
  AtLine line(where);
  if (place.owner_ != owner_)
    throw Error(fmt::format("shared: {} belongs to another kernel, so a tile cannot take its place",
                            place.describe()));
  if (int64_t{stages} * stage_bytes() > place.bytes())
    throw Error(fmt::format("shared: {} x {} B of {} do not fit in the place of {}, which has {} B", stages,
                            stage_bytes(), with_article(describe()), place.describe(), place.bytes()));
  if (place.offset() % alignment() != 0)
    throw Error(
        fmt::format("shared: {} cannot take the place of {}, which begins at byte {} of shared memory; it "
                    "must begin at a multiple of {} B",
                    with_article(describe()), place.describe(), place.offset(), alignment()));
  offset_ = place.offset();
}

// Returns the size of a swizzle's pattern (8 rows), but at least 128, because TMA always needs an alignment
// of 128 bytes.
uint32_t SharedTile::alignment() const {
  return static_cast<uint32_t>(std::max(128, 8 * span_bytes(swizzle_)));
}

void SharedTile::lay_out() {
  layout_ = panel_layout(dtype_, shape_.rows, shape_.cols, swizzle_, shape_.panel_cols);
  panels_ = static_cast<int>(size(layout_.layout()[1][1]));
}

int SharedTile::linear_offset(int row, int col) const {
  return static_cast<int>(layout_.layout()({int64_t{row}, int64_t{col}})) * size_of(dtype_);
}

std::string SharedTile::describe() const {
  std::string swizzle =
      swizzle_ == Swizzle::none ? "no swizzle" : fmt::format("{} B swizzle", span_bytes(swizzle_));
  std::string panel = shape_.panel_cols ? fmt::format(" in panels of {}", shape_.panel_cols) : "";
  return fmt::format("{} {}x{} tile{}, {}", ptxbuilder::name(dtype_), shape_.rows, shape_.cols, panel,
                     swizzle);
}

TileView SharedTile::operator[](u32 stage) const {
  Builder& builder = Builder::current();
  auto known = builder.constant(stage);
  Where where = known ? known->where : Where{};
  if (&builder.state() != owner_)
    throw Error(where, fmt::format("{}: a tile of another kernel was used", builder.signature().kernel));
  if (known && known->value >= static_cast<uint64_t>(stages_))
    throw Error(where, fmt::format("stage {} of {} was requested, but there are only {}", known->value,
                                   with_article(describe()), stages_));
  TileView view(std::make_shared<SharedTile>(*this),
                builder.shared_base() + (stage * static_cast<uint32_t>(stage_bytes()) + offset_));
  view.rows_ = shape_.rows;
  if (known) view.stage_ = static_cast<int>(known->value);
  return view;
}

TileView SharedTile::operator[](const Stage& stage) const {
  TileView view = (*this)[stage.index()];
  view.stage_barrier_ = stage.full_barrier();
  view.filling_ = stage.filling();
  return view;
}

TileView TileView::rows(u32 first, int count, Where where) const {
  AtLine line(where);
  if (count < 1 || count % 8 != 0 || count > rows_)
    throw Error(fmt::format("rows: {} of {} rows were requested, but the count must be a multiple of 8",
                            count, rows_));
  auto known = Builder::current().constant(first);
  if (known &&
      (known->value % 8 != 0 || known->value + static_cast<uint64_t>(count) > static_cast<uint64_t>(rows_)))
    throw Error(
        fmt::format("rows: {} rows from row {} of {} were requested; the first must be a multiple of 8, and "
                    "all must exist",
                    count, known->value, rows_));
  TileView view = *this;
  view.address_ = address_ + device_offset(*tile_, {Index(first), 0});
  view.rows_ = count;
  if (known && first_row_)
    view.first_row_ = *first_row_ + static_cast<int>(known->value);
  else
    view.first_row_.reset();
  return view;
}

TileView TileView::cols(u32 first, int count, Where where) const {
  AtLine line(where);
  const int panel = tile_->panel_cols();
  if (count < 1 || count % panel != 0 || count > tile_->cols())
    throw Error(
        fmt::format("cols: {} of {} columns were requested, but the count must be a multiple of {}, a panel",
                    count, tile_->cols(), panel));
  auto known = Builder::current().constant(first);
  if (known && (known->value % static_cast<uint64_t>(panel) != 0 ||
                known->value + static_cast<uint64_t>(count) > static_cast<uint64_t>(tile_->cols())))
    throw Error(
        fmt::format("cols: {} columns from column {} of {} were requested; the first must be a multiple of "
                    "{}, a panel, and all must exist",
                    count, known->value, tile_->cols(), panel));
  TileView view = *this;
  auto part = std::make_shared<SharedTile>(*tile_);
  part->shape_.cols = count;
  part->lay_out();
  view.tile_ = std::move(part);
  view.address_ = address_ + device_offset(*tile_, {0, {0, Index(first / static_cast<uint32_t>(panel))}});
  if (known && first_col_)
    view.first_col_ = *first_col_ + static_cast<int>(known->value);
  else
    view.first_col_.reset();
  return view;
}

TileView TileView::transposed() const {
  TileView view = *this;
  view.transposed_ = !transposed_;
  return view;
}

ComposedLayout TileView::layout(Where where) const {
  AtLine line(where);
  const ComposedLayout& whole = tile_->layout();
  const auto pattern = static_cast<int>(whole.swizzle().period()) * size_of(tile_->dtype());
  if (whole_->panel_bytes() % pattern != 0 &&
      (!first_col_ || whole_->linear_offset(0, *first_col_) % pattern != 0))
    throw Error(
        fmt::format("view: the columns from {} of {} are in panels of {} B, which begin within the swizzle's "
                    "pattern of {} B; give the tile a multiple of 8 rows",
                    first_col_ ? std::to_string(*first_col_) : "anywhere", with_article(whole_->describe()),
                    whole_->panel_bytes(), pattern));
  const Layout rows = composition(whole.layout()[0], make_layout(rows_));
  const Layout upright = replace(whole.layout(), 0, rows);
  return whole.with(transposed_ ? select(upright, {1, 0}) : upright);
}

SharedRegion::SharedRegion(const SharedTile& tile)
    : owner_(tile.owner_),
      offset_(tile.offset()),
      bytes_(tile.stages() * tile.stage_bytes()),
      text_(fmt::format("{} stage{} of {}", tile.stages(), tile.stages() == 1 ? "" : "s",
                        with_article(tile.describe()))) {}

SharedRegion::SharedRegion(const TileView& view, Where where) : SharedRegion(view.whole()) {
  AtLine line(where);
  const SharedTile& tile = view.whole();
  text_ = fmt::format("{} x {} of {}", view.row_count(), view.tile().cols(), with_article(tile.describe()));
  if (!view.stage() || !view.first_row() || !view.first_col())
    throw Error(
        fmt::format("place: the start of {} is only known on the device; use host integers for its stage, "
                    "first row and first column",
                    text_));
  if (view.tile().panels() > 1 && view.row_count() < tile.rows())
    throw Error(
        fmt::format("place: {} is not contiguous but in {} pieces; use all rows, or the columns of one panel",
                    text_, view.tile().panels()));
  offset_ += static_cast<uint32_t>(*view.stage() * tile.stage_bytes() +
                                   tile.linear_offset(*view.first_row(), *view.first_col()));
  bytes_ = view.bytes();
}

int TileView::bytes() const { return row_count() * tile().cols() * size_of(tile().dtype()); }

}  // namespace ptxbuilder
