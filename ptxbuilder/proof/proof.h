// Proves that instructions read from shared memory what copies write to it, element by element.
#pragma once

#include "ptxbuilder/plan/record.h"

namespace ptxbuilder {

// An element that a copy or an instruction does not find at its place. Coordinates are those of the tile, and
// hence of the global tensor from the start of the copy.
struct Counterexample {
  using Element = ElementRecord;
  std::string operation;                  // "mma: B, step 1: n 0, k 16"
  std::optional<Element> wanted = {};     // the element that should be there
  std::optional<Element> found = {};      // the element that is there, if any
  std::optional<int64_t> wanted_at = {};  // its place, in bytes from the start of the stage
  std::optional<int64_t> address = {};    // the place where the operation reads or writes it
  bool puts = false;
  std::string reason = {};  // what is wrong, in words
  Where where = {};

  std::string text() const;
};

// The result of a proof: everything that was proved, and the first thing that does not hold.
struct Proof {
  // One proved statement, and the number of elements for which it was tested.
  struct Link {
    std::string text;
    uint64_t elements = 0;
    Where where = {};
    // The bank conflicts of threads' reads and writes: how many of the rows or words that an instruction
    // accesses at a time are in the same banks; 1 means no conflict. 0 if threads do not access shared
    // memory.
    int bank_ways = 0;
  };
  std::vector<Link> links;
  std::vector<std::string> unproved;             // readers of a tile that no copy of the record fills
  std::optional<Counterexample> counterexample;  // the first one; nothing after it is tested

  explicit operator bool() const { return !counterexample; }
  uint64_t elements() const;
};

// Follows every element of every tile along its paths: from a tensor through a box or cp.async, or from
// registers, through the swizzle of shared memory, to wgmma through a descriptor, to ldmatrix, mma.sync and
// the registers of threads, and from accumulators to a tensor. Two independent sides meet in memory: the
// addresses that the kernel computes, and what the hardware does with them according to the manual: the TMA
// unit, which writes boxes and exclusive-ors address bits (PTX ISA, "Tensor Swizzling Modes"), wgmma, which
// walks core matrices with a descriptor's offsets (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared
// Memory Layout"), and the fragments of ldmatrix, stmatrix and wgmma. If only the device knows the start of a
// view, every possible start is checked. Copies from and to bare addresses are not followed, and stages are
// not distinguished: barriers order the stages, and the emulator checks the barriers.
Proof prove(const KernelRecord& record);

}  // namespace ptxbuilder
