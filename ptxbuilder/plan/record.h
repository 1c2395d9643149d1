// Records how a kernel uses its tiles: the plans of its copies and matrix instructions. The code that emits
// the kernel evaluates these plans with device values, and the proof evaluates them with host integers.
#pragma once

#include <optional>

#include "ptxbuilder/layout/layout.h"
#include "ptxbuilder/plan/descriptor.h"
#include "ptxbuilder/plan/register_layout.h"
#include "ptxbuilder/plan/thread_access.h"
#include "ptxbuilder/plan/tma_boxes.h"

namespace ptxbuilder {

// A tile in shared memory. `offset` is relative to the start of dynamic shared memory, which is aligned to
// 1024 bytes.
struct TileRecord {
  std::string text;  // such as "bf16 128x64 tile, 128 B swizzle"
  DType dtype = DType::bf16;
  int rows = 0, cols = 0;
  uint32_t offset = 0;
  int stage_bytes = 0, stages = 1;
  // The number of bytes by which a view's address advances for each row, or for each panel, that precedes the
  // view.
  int row_bytes = 0, panel_bytes = 0;
  int panel_cols = 0;

  bool operator==(const TileRecord&) const = default;
};

// An element of a tile.
struct ElementRecord {
  int row = 0, col = 0;
  bool operator==(const ElementRecord&) const = default;
};

// A view of a tile, given by its extents and its first row and column. If the first row is a device value, it
// may be any multiple of `row_step`. If the first column is a device value, it may be any multiple of
// `col_step` or, if `col_step` is 0, the start of any panel.
struct ViewRecord {
  int tile = 0;
  std::optional<int> first_row, first_col;
  int rows = 0, cols = 0;
  int row_step = 8, col_step = 0;
};

// A TMA copy between a view and one or more boxes of a tensor.
struct CopyRecord {
  bool is_store = false;
  bool is_bulk = false;  // true if `recipe` describes contiguous bytes instead of a tensor map
  ViewRecord view;
  std::string map;  // name of the tensor map's parameter
  TensorMapRecipe recipe;

  TmaBoxes boxes;  // boxes of the view; one instruction copies each box
  // The number of view rows and columns by which a step along each dimension of the tensor map advances,
  // innermost dimension first.
  struct Step {
    int rows = 0, cols = 0;
  };
  std::vector<Step> steps;
  // The CTAs that share a load. Each CTA fetches some of the boxes for its entire group.
  MulticastGroups groups;

  Where where = Where::here();
};

// An operand of a product in shared memory: a view, and the terms from which the descriptors of the
// instructions are computed.
struct OperandRecord {
  ViewRecord view;
  bool transposed = false;             // true if the view's rows are along k, and its columns along m or n
  bool mn_major = false;               // value of the instructions' trans operand
  uint64_t descriptor = 0;             // descriptor without its start, which is the view's address + start()
  std::vector<int> along_mn, along_k;  // offsets in bytes, indexed by block and by step

  // Returns the offset in bytes from the start of the view to a block along m or n and a step along k.
  int start(int block, int step) const {
    return along_mn[static_cast<size_t>(block)] + along_k[static_cast<size_t>(step)];
  }
};

// A register that a copy by threads has loaded. `word` is the index of the register among those that each
// thread receives from all of its accesses in thread_copies[copy]. If `copy` is -1, nothing is known about
// the register.
struct LoadedWord {
  int copy = -1, word = 0;
};

// The metadata of a sparse A for one instruction: one register of each thread, and the sparsity selector. The
// selector determines the threads whose registers the instruction reads.
struct MetadataRecord {
  LoadedWord word;
  int selector = 0;
};

// One call to mma(): D[m, n] += A[m, k] B[n, k], divided into blocks of rows and columns, and into steps
// along k. A step is 32 bytes long. For a sparse A, which stores half of its k, a step covers 64 bytes of B.
struct MmaRecord {
  DType a_type = DType::bf16;
  int m = 0, n = 0, k = 0;
  std::optional<OperandRecord> a;  // empty if A is in registers
  OperandRecord b;
  // The registers of A, four for each step of each block, and the layout of A's elements in these registers.
  std::vector<LoadedWord> a_words;
  std::optional<RegisterLayout> a_layout;
  int block = 64;                             // number of rows of A that one instruction reads
  int columns = 0;                            // number of columns of B that one instruction reads
  std::vector<MetadataRecord> metadata = {};  // ordered by block, then by step; empty if A is dense
  bool is_sparse() const { return !metadata.empty(); }
  int a_k() const { return is_sparse() ? k / 2 : k; }  // number of elements that A stores along k
  Where where = Where::here();
};

// A copy that threads make between a view and their registers, or from global memory to a view. The lists are
// ordered by access and, within an access, by thread.
struct ThreadCopyRecord {
  // The direction of the copy.
  enum class Kind : uint8_t { from_global, to_registers, from_registers };
  Kind kind = Kind::from_global;
  std::string text;  // such as "load by 128 threads x 4 times ldmatrix.x4"
  ViewRecord view;
  DType dtype = DType::bf16;
  int threads = 0;
  int bytes = 0;       // number of contiguous bytes at one address
  int matrices = 0;    // number of matrices per ldmatrix or stmatrix; 0 for other instructions
  bool trans = false;  // true if the instruction exchanges rows and columns
  // The address of each access, in bytes from the start of the view.
  std::vector<int> addresses;
  // The elements of the view that each thread's registers hold, low bits first. For a copy from global
  // memory, the elements that each thread fetches.
  std::vector<ElementRecord> elements;
  Where where = Where::here();

  bool transposed = false;  // true if the register tile's rows are the columns of `elements`
  // The exchange of accesses, if there is one. `addresses` and `elements` are in the order in which a thread
  // makes its accesses, that is, the order after the exchange.
  std::optional<Exchange> exchange;

  int values() const {  // number of values that a thread holds for one access
    return (matrices > 0 ? 4 * matrices : bytes) / size_of(dtype);
  }
  int accesses() const { return static_cast<int>(addresses.size()) / threads; }
  // Returns the index of an access's i-th value among all values of the thread.
  int value(int thread, int access, int i) const {
    return (exchange ? exchange->made(thread, access) : access) * values() + i;
  }
  // Returns the index in `addresses` of a thread's access.
  size_t index(int access, int thread) const {
    return static_cast<size_t>(access) * static_cast<size_t>(threads) + static_cast<size_t>(thread);
  }
  // Returns the i-th element of a thread's access.
  const ElementRecord& element(int access, int thread, int i) const {
    return elements[index(access, thread) * static_cast<size_t>(values()) + static_cast<size_t>(i)];
  }
  // Returns the element that a thread holds as value `v`, counted over all of its accesses.
  const ElementRecord& held(int thread, int v) const {
    const int made = v / values();
    return element(exchange ? exchange->made(thread, made) : made, thread, v % values());
  }
};

// An mma.sync of one warp, with the layouts of its MmaAtom. `a` and `b` identify the copies that have loaded
// the registers.
struct WarpMmaRecord {
  int m = 0, n = 0;
  DType a_type = DType::bf16, b_type = DType::bf16;
  Layout layout_a, layout_b;
  std::vector<LoadedWord> a, b;
  Where where = Where::here();
};

// A store of a register tile. A warpgroup writes some columns of 64 rows to a buffer, which is a stage of a
// shared tile, and TMA stores boxes from the buffer.
struct StoreRecord {
  int tile = 0;
  std::vector<int> stages;  // stage that each warpgroup uses as its buffer
  bool transposed = false;  // true if the tensor's rows are the register tile's columns
  bool pairs = false;       // true if each column was computed from two columns of the accumulators
  int first_col = 0, cols = 0;
  ThreadCopyRecord written;  // copy from registers to the buffer
  // A part that TMA stores, and the column of the register tile at which the part begins.
  struct Piece {
    CopyRecord copy;
    int first_col = 0;
  };
  std::vector<Piece> pieces;
  Where where = Where::here();
};

// Lists all copies, products and stores of a kernel, for the proof.
struct KernelRecord {
  std::string kernel;
  std::vector<TileRecord> tiles;
  std::vector<CopyRecord> copies;
  std::vector<MmaRecord> mmas;
  std::vector<ThreadCopyRecord> thread_copies;
  std::vector<WarpMmaRecord> warp_mmas;
  std::vector<StoreRecord> stores;

  // Returns the index of a tile in `tiles`. Adds the tile if it is new.
  int number(const TileRecord& tile) {
    for (size_t i = 0; i < tiles.size(); ++i)
      if (tiles[i] == tile) return static_cast<int>(i);
    tiles.push_back(tile);
    return static_cast<int>(tiles.size()) - 1;
  }
};

}  // namespace ptxbuilder
