// What a kernel does with its tiles: the numbers that its tensor copies and matrix instructions are made
// from.
#pragma once

#include <array>
#include <optional>

#include "ptxbuilder/tile/descriptor.h"

namespace ptxbuilder {

// A tile in shared memory; offsets are from the start of dynamic shared memory, a multiple of 1024.
struct TileRecord {
  std::string text;  // "bf16 128x64 tile, 128 B swizzle"
  DType dtype = DType::bf16;
  int rows = 0, cols = 0;
  uint32_t offset = 0;
  int stage_bytes = 0, stages = 1;
  // By which the address of a view moves on for each row that it skips, and for each panel of columns.
  int row_bytes = 0, panel_bytes = 0;
  int panel_cols = 0;

  bool operator==(const TileRecord&) const = default;
};

// A view: so many rows and columns of a tile, and the first of them; where only the device knows that, it may
// be any multiple of 8 rows, and any panel.
struct ViewRecord {
  int tile = 0;
  std::optional<int> first_row, first_col;
  int rows = 0, cols = 0;
};

// One tma_load or tma_store: a view and the box at some coordinates of a tensor.
struct CopyRecord {
  bool is_store = false;
  ViewRecord view;
  std::string map;  // the parameter's name
  TensorMapRecipe recipe;

  // One instruction: where its box lies, in bytes from the start of the view, and how far its first
  // coordinate is from the copy's.
  struct Box {
    int bytes = 0, cols = 0;
  };
  std::vector<Box> boxes;

  // A load that CTAs of a cluster share: the i-th of them along the axis fetches the i-th slice, whose rows
  // begin at `first_row` of the view and at `coordinate` rows from the copy's, for the CTAs of its mask, by
  // rank: masks[rank]. A plain copy has one slice and no masks.
  struct Slice {
    int first_row = 0, coordinate = 0, count = 0;
  };
  std::vector<Slice> slices;
  std::array<int, 2> cluster = {1, 1};
  bool along_y = false;
  std::vector<uint32_t> masks;

  Where where;
};

// One operand of a product in shared memory: a view, and what the descriptors of its instructions are made
// of.
struct OperandRecord {
  ViewRecord view;
  bool transposed = false;             // the view: its rows are k, and its columns m or n
  bool mn_major = false;               // the trans operand of the instructions
  uint64_t descriptor = 0;             // without the start address, which is the view's plus `start`
  std::vector<int> along_mn, along_k;  // bytes, by block and by step

  int start(int block, int step) const {
    return along_mn[static_cast<size_t>(block)] + along_k[static_cast<size_t>(step)];
  }
};

// One call of mma: D[m, n] += A[m, k] B[n, k], as blocks of 64 rows and steps of 32 bytes along k.
struct MmaRecord {
  DType a_type = DType::bf16;
  int m = 0, n = 0, k = 0;
  std::optional<OperandRecord> a;  // none where A is in registers
  OperandRecord b;
  Where where;
};

// One load_fragment: 64 rows of a view, m x k, by an ldmatrix of four 8x8 matrices for each step of 32 bytes
// along k.
struct FragmentRecord {
  ViewRecord view;
  bool transposed = false;  // the view
  bool trans = false;       // ldmatrix exchanges rows and columns
  Swizzle swizzle = Swizzle::none;
  std::vector<int> along_k;    // bytes, by step
  std::vector<int> by_thread;  // of 128: where the row that it names begins, in bytes, before swizzling
  Where where;
};

// Where byte `offset` of a matrix at `start` lies, from there, as threads compute it: bits from 7 on of its
// address are exclusive-ored onto those from 4 on. I is int64_t, or u32 on the device.
template <class I>
I swizzled_offset(I start, I offset, Swizzle swizzle) {
  const int mask = ((1 << static_cast<int>(swizzle)) - 1) << 4;
  return offset ^ ((start + offset) >> 3 & mask);
}

struct KernelRecord {
  std::string kernel;
  std::vector<TileRecord> tiles;
  std::vector<CopyRecord> copies;
  std::vector<MmaRecord> mmas;
  std::vector<FragmentRecord> fragments;

  // The number of a tile, which is added where it is new.
  int number(const TileRecord& tile) {
    for (size_t i = 0; i < tiles.size(); ++i)
      if (tiles[i] == tile) return static_cast<int>(i);
    tiles.push_back(tile);
    return static_cast<int>(tiles.size()) - 1;
  }
};

}  // namespace ptxbuilder
