// Defines the format of the host memory that a kernel writes to report waits that do not end, and values that
// it checks or prints. The host reads this memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ptxbuilder/profile_format.h"

namespace ptxbuilder {

// The part of the kernel's signature that the host needs to read the memory.
struct ReportFormat {
  // A source line of the kernel that reports a wait or a message.
  struct Site {
    // The kinds of objects for which a warp waits, and the kinds of messages.
    enum class Kind : uint8_t { mbarrier, barrier, cluster, counter, check, print, tile };

    Kind kind = Kind::mbarrier;
    std::string line;  // such as "gemm.cpp:41"
    std::string text;  // the object of a wait, or the text of a message with one {} for each value
    std::string types =
        {};  // one letter (u, s, f or p) for each value of a message; one letter for all values of a tile
    bool operator==(const Site&) const = default;
  };

  uint32_t watchdog_milliseconds = 0;  // limit of a wait; 0 if waits are not watched
  uint32_t messages = 0;               // number of messages that fit; 0 if the kernel has no messages
  std::vector<Site> sites;             // numbered from 1
  std::vector<ProfileFormat::Role> roles;

  bool operator==(const ReportFormat&) const = default;
};

// Describes the memory, which consists of a header, the messages, and a slot for each warp of the first
// kMostCtas CTAs. Further CTAs share these slots.
namespace report_format {

constexpr const char* kReportParameter = "report";  // name of the kernel's last parameter
constexpr uint32_t kHeaderBytes = 64, kWarpSlotBytes = 64, kMessageBytes = 64, kMostValues = 6;
constexpr const char* kGridBarrier = "the grid's barrier";  // text of a site that waits at a GridBarrier
constexpr uint32_t kMostCtas = 1 << 16;
constexpr uint32_t kMostMilliseconds = 1 << 20, kMostMessages = 1 << 20;

// The header at the start of the memory, which counts the messages.
struct ReportHeader {
  uint32_t messages;  // number of messages, including messages that did not fit
  uint32_t unused[15];
};
static_assert(sizeof(ReportHeader) == kHeaderBytes);

// The state of a warp. A warp writes `runs` at its first instruction, `at_barrier` before a barrier without a
// time limit, `waits` when a wait exceeds its limit, and `ended` at its end.
enum class WarpState : uint32_t { none, runs, at_barrier, waits, ended };

// Holds a warp's state, the site that the warp is executing, and the object for which it waits.
struct Slot {
  WarpState state;
  uint32_t site;
  uint32_t cta;  // number of the CTA; x varies fastest, then y, then z
  uint32_t sm;
  uint32_t lanes;     // mask of the lanes that wait
  uint32_t expected;  // expected parity, or smallest value of a counter that ends the wait
  uint32_t object;    // offset of the mbarrier in dynamic shared memory
  uint32_t unused;
  uint64_t counter;  // address of the counter
  uint64_t word;     // value of the mbarrier or the counter
  uint32_t unused_too[4];
};
static_assert(sizeof(Slot) == kWarpSlotBytes);

// A message: its site, the thread that wrote it, and its values.
struct ReportedMessage {
  uint32_t site;  // 0 until the message is complete
  uint32_t cta, thread, unused;
  uint64_t values[kMostValues];
};
static_assert(sizeof(ReportedMessage) == kMessageBytes);

// In a message about a tile, each value encodes an element with its row and column:
//    63  62 ... 48  47 ... 32  31 ... 0
//    1   row        column     bits
constexpr uint32_t kMostTileRows = 1 << 15, kMostTileCols = 1 << 16;
struct TileElementWord {
  uint32_t row, col, bits;
};
constexpr uint64_t kIsElement = uint64_t{1} << 63;  // a value without this bit ends the elements
constexpr TileElementWord tile_element(uint64_t word) {
  return {static_cast<uint32_t>(word >> 48) & (kMostTileRows - 1), static_cast<uint32_t>(word >> 32) & 0xffff,
          static_cast<uint32_t>(word)};
}

// The fields of an mbarrier's word in shared memory on Hopper. A count n is stored as 2^20 - n, as the code
// that ptxas generates for mbarrier.init and mbarrier.pending_count shows.
//    63      62 ... 43        42 ... 21    20 ... 1          0
//    parity  2^20 - pending   bytes        2^20 - expected   0
struct MbarrierWord {
  uint32_t parity, pending, expected;
  int32_t bytes;  // expected bytes that have not arrived yet
};

constexpr MbarrierWord decode(uint64_t word) {
  constexpr uint32_t kCounts = 1 << 20;
  const auto count = [&](int shift) {
    return (kCounts - static_cast<uint32_t>(word >> shift)) & (kCounts - 1);
  };
  const auto bytes = static_cast<int64_t>(word << 21) >> 42;  // a signed 22-bit number
  return {static_cast<uint32_t>(word >> 63), count(43), count(1), static_cast<int32_t>(bytes)};
}

// Packs the fields into the 64 bits of an mbarrier; this is the inverse of decode().
constexpr uint64_t encode(const MbarrierWord& m) {
  const auto count = [](uint32_t n, int shift) { return uint64_t{(0u - n) & 0xfffff} << shift; };
  return uint64_t{m.parity} << 63 | count(m.pending, 43) |
         (uint64_t{static_cast<uint32_t>(m.bytes)} & 0x3fffff) << 21 | count(m.expected, 1);
}

}  // namespace report_format

}  // namespace ptxbuilder
