// Specs of the blocks of tensors that the steps of a pipeline need, and their way to shared memory.
#pragma once

#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/tile/grid.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// The place of a block in its tensor, outermost first, is counted in blocks: block {i, j} of 64 x 32 begins
// at row 64 i and column 32 j.
using BlockIndex = std::vector<u32>;
// The block that a step needs. A lambda over device values; CTAs that share the block by multicast name the
// same one. That a map counts elements where blocks are meant is not known when the kernel is built, nor that
// CTAs name different blocks where these depend on more than their place: the emulator notes tiles that lie
// outside of their tensor, and multicast of parts of different blocks. Of what threads copy, nothing is said.
using IndexMap = std::function<BlockIndex(const GridIndex&)>;

// The extents of a block, outermost first; all but the last two are 1.
class BlockShape {
 public:
  BlockShape(std::initializer_list<int> extents) : extents_(extents) {}                         // NOLINT
  BlockShape(TileShape tile) : extents_{tile.rows, tile.cols}, panel_cols_(tile.panel_cols) {}  // NOLINT
  BlockShape(std::vector<int> extents) : extents_(std::move(extents)) {}                        // NOLINT

  const std::vector<int>& extents() const { return extents_; }
  int rows() const { return extents_.size() < 2 ? 1 : extents_[extents_.size() - 2]; }
  int cols() const { return extents_.back(); }
  int panel_cols() const { return panel_cols_; }  // of its tile in shared memory, as in TileShape

 private:
  std::vector<int> extents_;
  int panel_cols_ = 0;
};

// The options of a block's copies.
struct BlockOptions {
  // The tile in shared memory has this swizzle, or the widest that divides a row and whose alignment divides
  // the block.
  std::optional<Swizzle> swizzle = {};
  // The CTAs of the cluster along these axes need the same block, which is fetched once for all of them.
  ClusterAxes multicast = {};
  // The stage goes back to who fills it so many steps later, since products of so many steps may still be
  // reading it: with 1, the body of a step ends in wgmma_wait(1). Inputs of one delay share a ring of stages;
  // those of another, as an A that products in flight read next to a B that they do not, have a ring and
  // barriers of their own.
  int delay_release = 0;
  // Elements outside of the tensor arrive as this.
  OobFill fill = OobFill::zero;
  // The block is the same in all steps: an input is loaded once a run, and an output is written when the run
  // ends. Its map is given the index of the tile alone.
  bool fixed = false;
  // Blocks of a fixed input that are in shared memory or on the way at a time: with 2, that of the next tile
  // is loaded while one is computed.
  int fixed_stages = 1;
};

// The blocks of one operand of a pipeline.
class BlockSpec {
 public:
  // TMA copies the blocks of a tensor that has as many dimensions as a block.
  BlockSpec(TensorMap tensor, DType type, BlockShape shape, IndexMap index, BlockOptions options = {})
      : tensor_(tensor), type_(type), shape_(std::move(shape)), index_(std::move(index)), options_(options) {}
  // Threads copy what TMA does not: rows that do not begin at multiples of 16 bytes,
  // or are shorter. The widest cp.async that the strides and the block allow brings them or, where that is
  // below 4 bytes, loads and stores; the sidecar says which.
  template <class T>
  BlockSpec(const GlobalTensor<T, 2>& tensor, BlockShape shape, IndexMap index, BlockOptions options = {})
      : tile_of_([tensor](u32 row, u32 col) -> GlobalTile { return tensor.tile(row, col); }),
        type_(T::dtype),
        shape_(std::move(shape)),
        index_(std::move(index)),
        options_(options) {}

  bool by_threads() const { return !tensor_; }
  TensorMap tensor() const { return *tensor_; }
  // A block in global memory, for copies by threads.
  GlobalTile tile(u32 row, u32 col) const { return tile_of_(row, col); }
  DType dtype() const { return type_; }
  const BlockShape& shape() const { return shape_; }
  const IndexMap& index() const { return index_; }
  const BlockOptions& options() const { return options_; }

 private:
  std::optional<TensorMap> tensor_;
  std::function<GlobalTile(u32, u32)> tile_of_;
  DType type_;
  BlockShape shape_;
  IndexMap index_;
  BlockOptions options_;
};

namespace detail {

// The way of one operand's blocks between global and shared memory.
class BlockCopy {
 public:
  // `threads` copy what TMA does not. `name` is the operand's in errors, such as "in 0". Throws Error for a
  // block that no copy takes.
  BlockCopy(Kernel& kernel, BlockSpec spec, int stages, int threads, std::string name);

  const SharedTile& tile() const { return tile_; }
  const BlockSpec& spec() const { return spec_; }
  // The elected thread calls these, or each of those that copy with its number.
  void load(const TileView& to, const GridIndex& at, u32 thread) const;
  void store(const TileView& from, const GridIndex& at, u32 thread) const;

 private:
  // Returns the block's first element, outermost first.
  std::vector<u32> begin(const GridIndex& at) const;
  GlobalTile global(const GridIndex& at) const;
  // Calls copy(TiledCopy, thread) in the threads that copy.
  void by_threads(const GlobalTile& tile, const TileView& view, u32 thread, bool may_be_async,
                  const std::function<void(const class TiledCopy&)>& copy) const;

  Kernel& kernel_;
  BlockSpec spec_;
  int threads_;
  std::string name_;
  SharedTile tile_;
};

}  // namespace detail

}  // namespace ptxbuilder
