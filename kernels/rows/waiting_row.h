// A row in shared memory. Each thread copies its own elements into shared memory and reads them as often as
// necessary, so that few registers and no barrier are needed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/rows/tile.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

class WaitingRow {
 public:
  struct Tensor {
    std::string name;
    DType type;
    gmem start;  // first element of the row
  };

  // Starts the copies of all pieces of the tile, in order. This warp's part begins at column `column`.
  // Elements at `columns` and above are zeros.
  WaitingRow(Kernel& kernel, const RowTile& tile, const std::vector<Tensor>& tensors, u32 column,
             u32 columns);

  // Waits for a piece and all earlier pieces.
  void wait(int piece);
  // Returns this thread's elements of a piece, in the order of the tile's layout, as registers.
  std::vector<u32> load(const std::string& tensor, int piece) const;

 private:
  // The place of a tensor in shared memory. For each copy, adjacent threads use adjacent memory.
  struct Place {
    smem first;  // first address of this thread
    int copies;  // number of copies per access; each copies up to 16 bytes
    int bytes;   // bytes per copy
  };
  smem address(const Place& place, int piece, int vector, int copy) const;

  const RowTile tile_;
  std::map<std::string, Place> places_;
  int arrived_ = 0;  // number of pieces that have arrived
};

}  // namespace ptxbuilder::kernels
