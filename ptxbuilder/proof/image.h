// Provides the basis of proofs: a map from addresses in shared memory to elements, and the addresses at which
// the TMA unit stores elements.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "ptxbuilder/proof/proof.h"

namespace ptxbuilder::detail {

using Element = Counterexample::Element;

// Returns the element of the view that is element i of a box. The box's first dimension varies fastest.
inline Element element_of(const CopyRecord& copy, const TmaBoxes::Box<int64_t>& box, uint32_t i) {
  Element e;
  for (size_t d = 0; d < copy.steps.size(); ++d) {
    const uint32_t extent = copy.recipe.box[d];
    const auto at = static_cast<int>(box.start[d] + i % extent);
    e.row += at * copy.steps[d].rows;
    e.col += at * copy.steps[d].cols;
    i /= extent;
  }
  return e;
}

// Returns the address at which the TMA unit stores a box's element (PTX ISA, "Tensor Swizzling Modes"). The
// unit stores a box in shared memory without gaps, the first dimension innermost. Then it permutes chunks of
// 16 bytes: the lowest 1, 2 or 3 bits of a chunk's number are XORed with the lowest bits of the number of the
// chunk's 128-byte line. Lines and chunks are counted from address 0 of shared memory.
inline uint32_t where_tma_puts(const TensorMapRecipe& recipe, uint32_t start, uint32_t element) {
  const auto size = static_cast<uint32_t>(size_of(recipe.dtype));
  const uint32_t byte = start + element * size, line = byte / 128;
  constexpr std::array<uint32_t, 4> taking_part = {1, 2, 4, 8};  // number of lines in a period of the swizzle
  const uint32_t lines = taking_part[static_cast<size_t>(recipe.swizzle)];
  return (byte / 16 ^ line % lines) * 16 + byte % 16;
}

// The elements of a tile, indexed by their addresses in a stage of the tile.
class Image {
 public:
  explicit Image(const TileRecord& tile)
      : tile_(tile), elements_(static_cast<size_t>(tile.stage_bytes / size_of(tile.dtype)), -1) {}

  bool holds(int64_t bytes) const { return bytes >= 0 && bytes < tile_.stage_bytes; }
  std::optional<Element> at(int64_t bytes) const {
    if (!holds(bytes) || elements_[index(bytes)] < 0) return std::nullopt;
    return Element{elements_[index(bytes)] / tile_.cols, elements_[index(bytes)] % tile_.cols};
  }
  void put(int64_t bytes, Element e) { elements_[index(bytes)] = e.row * tile_.cols + e.col; }
  std::optional<int64_t> place_of(Element e) const {
    auto found = std::find(elements_.begin(), elements_.end(), e.row * tile_.cols + e.col);
    if (found == elements_.end()) return std::nullopt;
    return (found - elements_.begin()) * size_of(tile_.dtype);
  }

 private:
  size_t index(int64_t bytes) const { return static_cast<size_t>(bytes / size_of(tile_.dtype)); }

  const TileRecord& tile_;
  std::vector<int> elements_;
};

// Returns the start of a view, relative to the start of dynamic shared memory.
inline int64_t start_of(const TileRecord& tile, int stage, Element corner) {
  return int64_t{tile.offset} + int64_t{stage} * tile.stage_bytes + int64_t{corner.row} * tile.row_bytes +
         int64_t{corner.col / tile.panel_cols} * tile.panel_bytes +
         int64_t{corner.col % tile.panel_cols} * size_of(tile.dtype);
}

// Returns the elements of the tile at which a view may begin.
std::vector<Element> corners(const ViewRecord& view, const TileRecord& tile);
std::string view_text(const ViewRecord& view, const TileRecord& tile);

// Returns the address of value `i` of a thread's access, in bytes from the start of the view.
int address_of(const ThreadCopyRecord& copy, int access, int thread, int i);

// The result of one part of a proof.
struct Tried {
  uint64_t elements = 0;
  std::optional<Counterexample> counterexample = {};
  int bank_ways = 0;  // as in Proof::Link
};

// Returns the greatest number of different words in one bank that the lanes of a phase access; 1 means no
// conflict. A phase consists of 8 rows of a matrix, or of the lanes that access 128 bytes. `addresses` holds
// each thread's address of an access of `bytes` bytes.
int bank_ways(std::span<const int> addresses, int64_t start, int bytes, int matrices);

// The following functions check parts of a proof, and are implemented in several files. try_copy() checks one
// TMA copy, for every position at which its view may begin, in all stages. If `reads` is true, the copy must
// find the expected elements in the images; otherwise, it fills the images.
Tried try_copy(const CopyRecord& copy, const TileRecord& tile, std::vector<Image>& images, bool reads);
std::string text_of(const CopyRecord& copy, const TileRecord& tile);
// Checks operand 'A' or 'B' of a product. If copies have loaded A into registers, A is one matrix. If A was
// computed, its layout determines the positions of its elements.
Tried try_operand(const MmaRecord& mma, char name, const TileRecord& tile, const std::vector<Image>& images);
std::string text_of(const MmaRecord& mma, char name, const TileRecord& tile);
Tried try_computed_a(const MmaRecord& mma);
Tried try_registers_of_a(const KernelRecord& kernel, const MmaRecord& mma);
// Checks the words of metadata that instructions with a sparse A read, in registers that copies have loaded.
Tried try_metadata(const KernelRecord& kernel, const MmaRecord& mma);
// Checks the accesses of threads to one stage of a tile, through a view that begins at `corner`. Writes fill
// the image, and reads are compared with it.
Tried try_thread_copy(const ThreadCopyRecord& copy, const TileRecord& tile, Element corner, int stage,
                      Image& image);
// Checks that the registers of an mma.sync hold a 16 x k part of A and an 8 x k part of B, for the same range
// of k.
Tried try_warp_mma(const KernelRecord& kernel, const WarpMmaRecord& mma);
// Checks that the elements of a register tile are stored at the right positions of the tensor.
Tried try_store(const KernelRecord& kernel, const StoreRecord& store);

}  // namespace ptxbuilder::detail
