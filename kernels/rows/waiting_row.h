// A row whose parts wait in shared memory: each thread copies its own elements there, and reads them as often
// as it needs, with few registers and without a barrier.
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
    gmem start;  // where the row starts
  };

  // Starts the copies of all pieces of the tile, in order. The threads of a warp begin at `column`; elements
  // after `columns` are zeros.
  WaitingRow(Kernel& kernel, const RowTile& tile, const std::vector<Tensor>& tensors, u32 column,
             u32 columns);

  // Waits for this piece and all earlier ones.
  void wait(int piece);
  // Returns this thread's elements of a piece, in the order of the tile's layout.
  std::vector<u32> load(const std::string& tensor, int piece) const;

 private:
  // The part of shared memory that a thread uses. Adjacent threads use adjacent parts, one access after the
  // other.
  struct Place {
    smem first;  // the first address of this thread
    int copies;  // copies per access, of up to 16 bytes each
    int bytes;   // bytes per copy
  };
  smem address(const Place& place, int piece, int vector, int copy) const;

  const RowTile tile_;
  std::map<std::string, Place> places_;
  int arrived_ = 0;  // pieces that have arrived
};

}  // namespace ptxbuilder::kernels
