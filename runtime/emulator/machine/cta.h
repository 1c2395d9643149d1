// One CTA: its shared memory, warps and barriers.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/barriers.h"
#include "runtime/emulator/machine/grid.h"
#include "runtime/emulator/machine/shadow.h"
#include "runtime/emulator/machine/tensor_memory.h"

namespace ptxbuilder::runtime::emulator {

class Cluster;
class Warp;

// The numbers of the B operand of the last wgmma. They are stored until the CTA's shared memory is written,
// because all four warps read the same matrix.
template <class T>
struct DecodedTile {
  uint64_t writes = ~uint64_t{0}, descriptor = 0;
  uint32_t shape = 0;
  std::vector<T> values;
};

class Cta {
 public:
  Cta(Cluster& cluster, uint32_t rank, Dim3 id);
  ~Cta();

  Cluster& cluster;
  const uint32_t rank;
  const Dim3 id;
  std::vector<std::byte> shared;
  Shadow shadow;  // the race check maintains it
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<Barrier, 16> barriers;
  std::unordered_map<uint32_t, std::unique_ptr<Mbarrier>> mbarriers;  // indexed by offset
  uint32_t mbarriers_from = ~0u, mbarriers_to = 0;                    // range of the offsets of all mbarriers
  uint32_t threads = 0, live_warps = 0;
  int64_t register_pool = 0;        // registers that setmaxnreg.inc can take
  uint32_t touching = 0;            // unfinished asynchronous operations that access this memory
  std::vector<Actor> wgmma_actors;  // one element per warpgroup
  std::unordered_map<uint32_t, WordOrder> ordered;  // words that order other accesses, indexed by offset
  // Reads of unwritten memory, with their program counters, which are reported when the CTA exits. If
  // findings are requested, the list has the first read of each instruction, otherwise only the first read.
  std::vector<std::pair<EmulatorError, uint32_t>> uninitialised;
  uint64_t writes = 0;                   // number of writes to shared memory
  std::unique_ptr<TensorMemory> tensor;  // null until the CTA allocates tensor memory
  DecodedTile<float> reals;
  DecodedTile<int32_t> wholes;

  // Returns the name of the object at an offset, for reports: a name from the sidecar such as "full[2]" or
  // "sA[1]+48", otherwise the PTX variable and an offset.
  std::string name(uint32_t offset) const;
  Mbarrier* mbarrier_near(uint32_t offset, uint32_t bytes) const;
  void lanes_done(Warp& warp);  // called when some of the warp's lanes have exited
  void warp_done();
  void complete(uint32_t barrier);
};

}  // namespace ptxbuilder::runtime::emulator
