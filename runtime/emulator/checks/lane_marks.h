// The latest accesses by lanes of one warp to each word of a CTA's shared memory. The lanes are recorded
// because only synchronization between them orders these accesses (machine/lane_order.h).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

struct LaneMark {
  uint32_t wrote = 0, wrote_pc = 0;  // the last write's stamp, or 0 if its writer is not known
  uint32_t read = 0, read_pc = 0;
  Lanes readers = 0;    // lanes that read the word at the stamp `read`
  bool atomic = false;  // whether the write was atomic
  uint8_t writer_warp = 0, reader_warp = 0;
  std::array<uint8_t, 4> writers{};  // the lane that wrote each byte, or nobody if that is not known

  static constexpr uint8_t nobody = 32;
};

class LaneMarks {
 public:
  explicit LaneMarks(size_t bytes) : blocks_(bytes / 4 / words + 1) {}

  LaneMark& operator[](uint32_t offset) {  // the mark of the word at this offset
    auto& block = blocks_[offset / 4 / words];
    if (!block) block = std::make_unique<LaneMark[]>(words);
    return block[offset / 4 % words];
  }

 private:
  static constexpr size_t words = 64;  // words per block; blocks that are never accessed use no memory
  std::vector<std::unique_ptr<LaneMark[]>> blocks_;
};

}  // namespace ptxbuilder::runtime::emulator
