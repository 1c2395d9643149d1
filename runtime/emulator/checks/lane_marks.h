// The last accesses of each word of a CTA's shared memory by lanes of one warp: only what the lanes do
// together orders these accesses (machine/lane_order.h).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

struct LaneMark {
  uint32_t wrote = 0, wrote_pc = 0;  // stamp; 0 if the writer is not known
  uint32_t read = 0, read_pc = 0;
  Lanes readers = 0;    // at the stamp `read`
  bool atomic = false;  // the write
  uint8_t writer_warp = 0, reader_warp = 0;
  std::array<uint8_t, 4> writers{};  // of each byte; nobody if that is not known

  static constexpr uint8_t nobody = 32;
};

class LaneMarks {
 public:
  explicit LaneMarks(size_t bytes) : blocks_(bytes / 4 / words + 1) {}

  LaneMark& operator[](uint32_t offset) {  // the mark of the word at an offset
    auto& block = blocks_[offset / 4 / words];
    if (!block) block = std::make_unique<LaneMark[]>(words);
    return block[offset / 4 % words];
  }

 private:
  static constexpr size_t words = 64;  // of a block: blocks that are never touched take no memory
  std::vector<std::unique_ptr<LaneMark[]>> blocks_;
};

}  // namespace ptxbuilder::runtime::emulator
