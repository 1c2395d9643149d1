// Proves that what TMA writes to shared memory is what wgmma reads there, element by element.
#pragma once

#include "ptxbuilder/tile/record.h"

namespace ptxbuilder {

// An element that a copy or an instruction does not find where it should. Coordinates are of the tile, so of
// the global tensor from where the copy begins.
struct Counterexample {
  struct Element {
    int row = 0, col = 0;
    bool operator==(const Element&) const = default;
  };
  std::string operation;                  // "mma: B, step 1: n 0, k 16"
  std::optional<Element> wanted = {};     // the element that should be there
  std::optional<Element> found = {};      // the element that is there, if any
  std::optional<int64_t> wanted_at = {};  // where it lies, in bytes from the start of the stage
  std::optional<int64_t> address = {};    // where the operation looks or writes
  std::string reason = {};                // what is wrong, in words
  Where where = {};

  std::string text() const;
};

struct Proof {
  // One thing that holds, and for how many elements it was tried.
  struct Link {
    std::string text;
    uint64_t elements = 0;
    Where where = {};
    // Of what threads read: how many of the rows that an instruction takes at a time lie in the same banks; 1
    // is none beside another. 0 where no thread reads.
    int bank_ways = 0;
  };
  std::vector<Link> links;
  std::vector<std::string> unproved;  // operands whose tile no tensor copy fills, as those of stores
  std::optional<Counterexample> counterexample;  // the first; what stands behind it is not tried

  explicit operator bool() const { return !counterexample; }
  uint64_t elements() const;
};

// Follows every element of every tile on the way from a tensor through a box, the swizzle of shared memory
// and a descriptor to an instruction. Two sides that know nothing of each other meet in memory: the TMA unit,
// which writes boxes and exclusive-ors address bits (PTX ISA, "Tensor Swizzling Modes"), and wgmma, which
// walks core matrices by a descriptor's offsets (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory
// Layout"). Rows whose first only the device knows are tried from every multiple of 8. What threads store to
// a tile is not followed.
Proof prove(const KernelRecord& record);

}  // namespace ptxbuilder
