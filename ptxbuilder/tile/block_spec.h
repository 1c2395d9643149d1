// Describes the tensor blocks that the steps of a pipeline need, and copies them to and from shared memory.
#pragma once

#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/tile/grid.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// The position of a block in its tensor, outermost first, counted in blocks: block {i, j} of 64 x 32 begins
// at row 64 i and column 32 j.
using BlockIndex = std::vector<u32>;
// Maps a step to the block that it needs, in device values; CTAs that share a block by multicast must name
// the same block. Building a kernel does not detect a map that counts elements instead of blocks, nor, if the
// block depends on more than the CTA's position, CTAs that name different blocks. The emulator reports tiles
// outside their tensor, and multicast of parts of different blocks, but does not check blocks that threads
// copy.
using IndexMap = std::function<BlockIndex(const GridIndex&)>;

// The extents of a block, outermost first; all but the last two must be 1.
class BlockShape {
 public:
  BlockShape(std::initializer_list<int> extents) : extents_(extents) {}                         // NOLINT
  BlockShape(TileShape tile) : extents_{tile.rows, tile.cols}, panel_cols_(tile.panel_cols) {}  // NOLINT
  BlockShape(std::vector<int> extents) : extents_(std::move(extents)) {}                        // NOLINT

  const std::vector<int>& extents() const { return extents_; }
  int rows() const { return extents_.size() < 2 ? 1 : extents_[extents_.size() - 2]; }
  int cols() const { return extents_.back(); }
  int panel_cols() const { return panel_cols_; }  // columns per panel, as in TileShape

 private:
  std::vector<int> extents_;
  int panel_cols_ = 0;
};

// The options of a block's copies.
struct BlockOptions {
  // The swizzle of the tile in shared memory. The default is the widest swizzle that divides a row and whose
  // alignment divides the block.
  std::optional<Swizzle> swizzle = {};
  // The CTAs of the cluster along these axes need the same block, which is loaded once for all of them.
  ClusterAxes multicast = {};
  // The stage is handed back this number of steps later, since products in flight may still read it: with 1,
  // the body of a step ends with wgmma_wait(1). Inputs with equal delays share a ring of stages. Inputs with
  // another delay have a ring and barriers of their own; an example is an A that products in flight still
  // read, while they no longer read B.
  int delay_release = 0;
  // The value of elements outside the tensor.
  OobFill fill = OobFill::zero;
  // The block is the same in all steps: an input is loaded once per run, and an output is written when the
  // run ends. The index map receives only the index of the tile.
  bool fixed = false;
  // The number of blocks of a fixed input that may be in shared memory or being loaded at once. With 2, the
  // next tile's block is loaded while a tile is computed.
  int fixed_stages = 1;
};

// The blocks of one operand of a pipeline.
class BlockSpec {
 public:
  // TMA copies the blocks; the tensor must have as many dimensions as a block.
  BlockSpec(TensorMap tensor, DType type, BlockShape shape, IndexMap index, BlockOptions options = {})
      : tensor_(tensor), type_(type), shape_(std::move(shape)), index_(std::move(index)), options_(options) {}
  // Threads copy the blocks. This is for blocks that TMA cannot copy, because their rows do not begin at
  // multiples of 16 bytes or are shorter than 16 bytes. Threads use the widest cp.async that the strides and
  // the block allow or, if that is less than 4 bytes, loads and stores; the sidecar states which.
  template <class T>
  BlockSpec(const GlobalTensor<T, 2>& tensor, BlockShape shape, IndexMap index, BlockOptions options = {})
      : tile_of_([tensor](u32 row, u32 col) -> GlobalTile { return tensor.tile(row, col); }),
        type_(T::dtype),
        shape_(std::move(shape)),
        index_(std::move(index)),
        options_(options) {}

  bool by_threads() const { return !tensor_; }
  TensorMap tensor() const { return *tensor_; }
  // Returns a block in global memory, for copies made by threads.
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

// Copies one operand's blocks between global and shared memory.
class BlockCopy {
 public:
  // `threads` threads copy a block that TMA does not copy. Errors refer to the operand as `name`, such as "in
  // 0". Throws Error for a block that cannot be copied.
  BlockCopy(Kernel& kernel, BlockSpec spec, int stages, int threads, std::string name);

  const SharedTile& tile() const { return tile_; }
  const BlockSpec& spec() const { return spec_; }
  // The elected thread calls these functions. If threads copy, each copying thread calls them with its
  // number.
  void load(const TileView& to, const GridIndex& at, u32 thread) const;
  void store(const TileView& from, const GridIndex& at, u32 thread) const;

 private:
  // Returns the coordinates of the block's first element, outermost first.
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
