// One CTA: its shared memory, its warps and its barriers.
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

// B of the last wgmma as numbers, kept until the CTA's shared memory is written: four warps read the same
// matrix.
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
  Shadow shadow;  // kept by the check of races
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<Barrier, 16> barriers;
  std::unordered_map<uint32_t, std::unique_ptr<Mbarrier>> mbarriers;  // by offset
  uint32_t mbarriers_from = ~0u, mbarriers_to = 0;                    // offsets that any of them covers
  uint32_t threads = 0, live_warps = 0;
  int64_t register_pool = 0;        // registers free for setmaxnreg.inc
  uint32_t touching = 0;            // asynchronous operations on this shared memory, issued and not done
  std::vector<Actor> wgmma_actors;  // of each warpgroup
  std::unordered_map<uint32_t, WordOrder> ordered;  // by word that orders others
  // Reads of unwritten memory, with their program counters, to be reported at exit: the first, or the first
  // of each instruction if findings are asked for.
  std::vector<std::pair<EmulatorError, uint32_t>> uninitialised;
  uint64_t writes = 0;                   // counts writes of shared memory, so that decoded tiles can be kept
  std::unique_ptr<TensorMemory> tensor;  // once the CTA has allocated some
  DecodedTile<float> reals;
  DecodedTile<int32_t> wholes;

  // Returns the name of what is there, for reports: "full[2]", "sA[1]+48" if the sidecar names it, otherwise
  // the PTX variable and an offset.
  std::string name(uint32_t offset) const;
  Mbarrier* mbarrier_near(uint32_t offset, uint32_t bytes) const;
  void lanes_done(Warp& warp);  // some of the warp's lanes have exited
  void warp_done();
  void complete(uint32_t barrier);
};

}  // namespace ptxbuilder::runtime::emulator
