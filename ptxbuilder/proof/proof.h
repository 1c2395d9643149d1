// Proves that what copies write to shared memory is what instructions read there, element by element.
#pragma once

#include "ptxbuilder/plan/record.h"

namespace ptxbuilder {

// An element that a copy or an instruction does not find where it should. Coordinates are of the tile, so of
// the global tensor from where the copy begins.
struct Counterexample {
  using Element = ElementRecord;
  std::string operation;                  // "mma: B, step 1: n 0, k 16"
  std::optional<Element> wanted = {};     // the element that should be there
  std::optional<Element> found = {};      // the element that is there, if any
  std::optional<int64_t> wanted_at = {};  // its place, in bytes from the start of the stage
  std::optional<int64_t> address = {};    // where the operation looks, or puts it
  bool puts = false;
  std::string reason = {};  // what is wrong, in words
  Where where = {};

  std::string text() const;
};

// A proof lists what was proved, and the first thing that does not hold.
struct Proof {
  // One thing that holds, and for how many elements it was tried.
  struct Link {
    std::string text;
    uint64_t elements = 0;
    Where where = {};
    // The conflicts of what threads read and write: how many of the rows or words that an instruction takes
    // at a time lie in the same banks; 1 means no conflict. 0 where no thread does.
    int bank_ways = 0;
  };
  std::vector<Link> links;
  std::vector<std::string> unproved;             // what reads a tile that no copy of the record fills
  std::optional<Counterexample> counterexample;  // the first; what follows it is not tried

  explicit operator bool() const { return !counterexample; }
  uint64_t elements() const;
};

// Follows every element of every tile on its ways: from a tensor by a box or by cp.async, or from registers,
// through the swizzle of shared memory, to wgmma by a descriptor, to ldmatrix, mma.sync and the registers of
// threads, and from accumulators to a tensor. Two sides that know nothing of each other meet in memory: the
// addresses that the kernel computes, and what the hardware makes of them, as the manual has it: the TMA
// unit, which writes boxes and exclusive-ors address bits (PTX ISA, "Tensor Swizzling Modes"), wgmma, which
// walks core matrices by a descriptor's offsets (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory
// Layout"), and the fragments of ldmatrix, stmatrix and wgmma. What begins where only the device knows is
// tried from everywhere it may begin. Copies from and to bare addresses are not followed, and stages are not
// distinguished: that is for barriers, which the emulator checks.
Proof prove(const KernelRecord& record);

}  // namespace ptxbuilder
