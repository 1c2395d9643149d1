// The format of the memory that a profiled kernel writes and the host reads.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace ptxbuilder {

// Part of the kernel's signature, which the host needs in addition to the buffer.
struct ProfileFormat {
  // A role of the kernel, by its first warp in the CTA.
  struct Role {
    std::string name;
    uint32_t first_warp = 0, warps = 0;
    bool operator==(const Role&) const = default;
  };

  // An event opens or closes a region or a span, or marks a value. The kinds from span_begin on have a value:
  // that of the mark, or the number of the span.
  enum class Kind : uint8_t { begin, end, span_begin, span_end, mark_u32, mark_s32, mark_f32 };
  static constexpr bool has_value(Kind kind) { return kind >= Kind::span_begin; }
  static constexpr uint32_t kBefore = UINT32_MAX;  // its time is that of the warp's previous event
  struct Event {
    Kind kind;
    uint32_t name;       // in `names`
    uint32_t clock;      // the word of the record that has its time, or kBefore; events at one time share it
    uint32_t value = 0;  // the word that has its value, if it has one
    auto operator<=>(const Event&) const = default;
  };
  // A place in the code that writes a record, with the events of the record in order.
  using Site = std::vector<Event>;

  uint32_t records = 0;  // units that each warp has room for; diverged lanes have room for a quarter more
  std::vector<std::string> names;  // of roles, regions and marks
  std::vector<Role> roles;
  std::vector<Site> sites;

  bool operator==(const ProfileFormat&) const = default;
};

// The buffer consists of units of 16 bytes: kCalibrationRecords with three times each, and then for each CTA,
// x fastest, and for each of its warps a header, the warp's records, and the records of diverged lanes.
namespace profile_format {

// A record holds the clocks and values of the events of one site. Its first unit has this many words after
// the number of the site; the units after it consist only of words.
constexpr uint32_t kWords = 3, kWordsOfUnit = 4;
struct Record {
  uint32_t site;           // from 1 on; 0 in the calibration
  uint32_t words[kWords];  // a clock has the low bits of the multiprocessor's
};
constexpr uint32_t kMostUnits = 3, kMostWords = kWords + (kMostUnits - 1) * kWordsOfUnit;
constexpr uint32_t units_of(uint32_t words) {
  return words <= kWords ? 1 : 1 + (words - kWords + kWordsOfUnit - 1) / kWordsOfUnit;
}
// The sizes of a record and of a header.
constexpr uint32_t kRecordBytes = sizeof(Record), kHeaderRecords = 3;
// The records that measure the cost of recording.
constexpr uint32_t kCalibrationRecords = 32;
// The room for records of diverged lanes.
constexpr uint32_t apart_records(uint32_t records) { return records / 4; }
// The last record begins within the room, and may extend beyond it.
constexpr uint32_t place_of_apart(uint32_t records) { return records + kMostUnits - 1; }
constexpr uint32_t warp_records(uint32_t records) {
  return kHeaderRecords + place_of_apart(records) + apart_records(records);
}
constexpr uint32_t kLeastRecords = 32, kMostRecords = 1 << 20;
// Regions whose names end with this are waits that only the profiled kernel has, right after the issue of
// what they wait for.
constexpr const char* kCompletion = " completion";
constexpr const char* kParameter = "profile";  // the kernel's last: the buffer's address

// A header states how much its warp recorded, and where and when it ran.
struct Header {
  uint32_t started, sm;  // 1 when the warp began, and the multiprocessor that it runs on
  uint32_t records;      // units that the warp's leader recorded and lost, written at the end
  uint32_t apart;        // the same for diverged lanes
  // The multiprocessor's clock and the GPU-wide time, at the beginning and the end.
  uint64_t first_clock, first_nanoseconds;
  uint64_t last_clock, last_nanoseconds;  // 0 if the warp did not reach its end
};
static_assert(sizeof(Header) == kHeaderRecords * kRecordBytes);

}  // namespace profile_format

}  // namespace ptxbuilder
