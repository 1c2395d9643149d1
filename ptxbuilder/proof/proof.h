// Proves that instructions read from shared memory what copies write to it, element by element.
#pragma once

#include "ptxbuilder/plan/record.h"

namespace ptxbuilder {

// An element that a copy or an instruction does not find at the expected address. Coordinates are those of
// the tile, and therefore those of the global tensor relative to the start of the copy.
struct Counterexample {
  using Element = ElementRecord;
  std::string operation;                  // "mma: B, step 1: n 0, k 16"
  std::optional<Element> wanted = {};     // the element that should be there
  std::optional<Element> found = {};      // the element that is there, if any
  std::optional<int64_t> wanted_at = {};  // its address, in bytes from the start of the stage
  std::optional<int64_t> address = {};    // address at which the operation reads or writes it
  bool puts = false;
  std::string reason = {};  // description of the problem
  Where where = {};

  std::string text() const;
};

// The result of a proof: everything that was proved, and the first statement that does not hold.
struct Proof {
  // A proved statement, and the number of elements for which it was tested.
  struct Link {
    std::string text;
    uint64_t elements = 0;
    Where where = {};
    // The bank conflicts of reads and writes by threads: the greatest number of rows or words, among those
    // that an instruction accesses at a time, that are in the same bank; 1 means no conflict. 0 if threads do
    // not access shared memory.
    int bank_ways = 0;
  };
  std::vector<Link> links;
  std::vector<std::string> unproved;             // readers of tiles that no copy in the record fills
  std::optional<Counterexample> counterexample;  // the first one; nothing after it has been tested

  explicit operator bool() const { return !counterexample; }
  uint64_t elements() const;
};

// Proves a kernel's record by following every element of every tile along its paths: from a tensor through a
// box or cp.async, or from registers, through the swizzle of shared memory, to wgmma through a descriptor, to
// ldmatrix, mma.sync and the registers of threads, and from accumulators to a tensor. The proof compares two
// independent computations: the addresses that the kernel computes, and what the hardware does with them
// according to the manual. The TMA unit writes boxes and exclusive-ors address bits (PTX ISA, "Tensor
// Swizzling Modes"); wgmma walks core matrices with a descriptor's offsets (PTX ISA, "Asynchronous Warpgroup
// Level Matrix Shared Memory Layout"); ldmatrix, stmatrix and wgmma distribute fragments over registers. If
// only the device knows the start of a view, every possible start is checked. Copies from and to addresses
// without a tile are not followed. Stages are not distinguished, since barriers order them, and the emulator
// checks the barriers.
Proof prove(const KernelRecord& record);

}  // namespace ptxbuilder
