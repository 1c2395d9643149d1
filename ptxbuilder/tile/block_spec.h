// Describes the tensor blocks that the steps of a pipeline need, and copies the blocks to and from shared
// memory.
#pragma once

#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/tile/grid.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// The position of a block in its tensor, outermost dimension first, counted in blocks. For example, if blocks
// have 64 x 32 elements, block {i, j} begins at row 64 * i and column 32 * j.
using BlockIndex = std::vector<u32>;
// Maps a step to the block that the step needs, in device values. CTAs that share a block by multicast must
// return the same block. Building the kernel does not detect a map that counts elements instead of blocks. If
// the block does not depend only on the CTA's position, it also does not detect CTAs that return different
// blocks. The emulator reports tiles outside their tensor and multicasts of parts of different blocks, but
// does not check blocks that threads copy.
using IndexMap = std::function<BlockIndex(const GridIndex&)>;

// The extents of a block, outermost dimension first. All extents except the last two must be 1.
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

// The options for an operand's blocks and their copies.
struct BlockOptions {
  // The swizzle of the tile in shared memory. The default is the widest swizzle whose span divides a row and
  // whose alignment divides the block.
  std::optional<Swizzle> swizzle = {};
  // The axes of the cluster along which CTAs need the same block. The block is loaded once for all of these
  // CTAs.
  ClusterAxes multicast = {};
  // The number of steps by which the release of a stage is delayed, because products in flight may still read
  // the stage. With a delay of 1, for example, the body of each step ends with wgmma_wait(1). Inputs with
  // equal delays share a ring of stages and its barriers; inputs with different delays have separate rings.
  // Different delays are useful if, for example, products in flight still read A but no longer B.
  int delay_release = 0;
  // The value that loads use for elements outside the tensor.
  OobFill fill = OobFill::zero;
  // If true, the block is the same in all steps: an input is loaded once per run, and an output is written
  // when the run ends. The index map receives only the index of the tile.
  bool fixed = false;
  // The number of blocks of a fixed input that may be in shared memory or being loaded at once. With 2
  // stages, the next tile's block is loaded while the current tile is computed.
  int fixed_stages = 1;
};

// Specifies the blocks of one operand of a pipeline.
class BlockSpec {
 public:
  // Specifies blocks that TMA copies. The tensor must have the same number of dimensions as a block.
  BlockSpec(TensorMap tensor, DType type, BlockShape shape, IndexMap index, BlockOptions options = {})
      : tensor_(tensor), type_(type), shape_(std::move(shape)), index_(std::move(index)), options_(options) {}
  // Specifies blocks that threads copy. Use this for blocks that TMA cannot copy because their rows do not
  // begin at multiples of 16 bytes or are shorter than 16 bytes. Threads use the widest cp.async that the
  // strides and the block allow. If this width is less than 4 bytes, they use loads and stores. The sidecar
  // states which instructions are used.
  template <class T>
  BlockSpec(const GlobalTensor<T, 2>& tensor, BlockShape shape, IndexMap index, BlockOptions options = {})
      : tile_of_([tensor](u32 row, u32 col) -> GlobalTile { return tensor.tile(row, col); }),
        type_(T::dtype),
        shape_(std::move(shape)),
        index_(std::move(index)),
        options_(options) {}

  bool by_threads() const { return !tensor_; }
  TensorMap tensor() const { return *tensor_; }
  // Returns the block that begins at (row, col) in global memory, for copies made by threads.
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
  // Prepares the copies of an operand. `threads` is the number of threads that copy a block if TMA does not.
  // Errors refer to the operand as `name`, such as "in 0". Throws Error for a block that cannot be copied.
  BlockCopy(Kernel& kernel, BlockSpec spec, int stages, int threads, std::string name);

  const SharedTile& tile() const { return tile_; }
  const BlockSpec& spec() const { return spec_; }
  // Emit the copy of one block. If TMA copies, an elected thread calls these functions; otherwise, each
  // copying thread calls them with its number.
  void load(const TileView& to, const GridIndex& at, u32 thread) const;
  void store(const TileView& from, const GridIndex& at, u32 thread) const;

 private:
  // Returns the coordinates of the block's first element, outermost first.
  std::vector<u32> begin(const GridIndex& at) const;
  GlobalTile global(const GridIndex& at) const;
  // Calls copy(TiledCopy) in the threads that copy.
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
