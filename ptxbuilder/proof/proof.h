// Proves for each element that instructions read the right element from shared memory, given the copies that
// have written the memory.
#pragma once

#include "ptxbuilder/plan/record.h"

namespace ptxbuilder {

// An element that a copy or an instruction does not find at the expected address. Coordinates are relative to
// the tile, and therefore also to the start of the copy in the global tensor.
struct Counterexample {
  using Element = ElementRecord;
  std::string operation;                  // "mma: B, step 1: n 0, k 16"
  std::optional<Element> wanted = {};     // the element that should be there
  std::optional<Element> found = {};      // the element that is found, if any
  std::optional<int64_t> wanted_at = {};  // its expected address, in bytes from the start of the stage
  std::optional<int64_t> address = {};    // address at which the operation reads or writes
  bool puts = false;
  std::string reason = {};  // description of the problem
  Where where = {};

  std::string text() const;
};

// The result of a proof: all proved statements, and a counterexample to the first statement that does not
// hold.
struct Proof {
  // A proved statement, and the number of elements for which it was checked.
  struct Link {
    std::string text;
    uint64_t elements = 0;
    Where where = {};
    // The bank conflicts of reads and writes by threads, given as the greatest number of rows or words in one
    // bank that an instruction accesses at the same time. 1 means no conflict. 0 means that threads do not
    // access shared memory.
    int bank_ways = 0;
  };
  std::vector<Link> links;
  std::vector<std::string> unproved;             // reads of tiles that no copy in the record fills
  std::optional<Counterexample> counterexample;  // the parts after it have not been checked

  explicit operator bool() const { return !counterexample; }
  uint64_t elements() const;
};

// Proves a kernel's record by following every element of every tile along its paths. A path begins at a
// tensor, through a box or cp.async, or in registers. It leads through the swizzle of shared memory to wgmma,
// through a descriptor, or to ldmatrix, mma.sync and the registers of threads. Accumulators are followed to a
// tensor. The proof compares two independent computations: the addresses that the kernel computes, and the
// behaviour of the hardware according to the manual. The TMA unit writes boxes and XORs address bits (PTX
// ISA, "Tensor Swizzling Modes"). wgmma walks core matrices with a descriptor's offsets (PTX ISA,
// "Asynchronous Warpgroup Level Matrix Shared Memory Layout"). ldmatrix, stmatrix and wgmma distribute
// fragments over registers. If the start of a view is a device value, every possible start is checked. Copies
// from and to addresses without a tile are not followed. The proof does not distinguish the stages of a ring
// over time. Barriers order the accesses to stages, and the emulator checks the barriers.
Proof prove(const KernelRecord& record);

}  // namespace ptxbuilder
