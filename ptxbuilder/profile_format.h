// Defines the format of the memory that a profiled kernel writes and the host reads.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace ptxbuilder {

// The part of the kernel's signature that the host needs to read the buffer.
struct ProfileFormat {
  // A role of the kernel, identified by its first warp in the CTA.
  struct Role {
    std::string name;
    uint32_t first_warp = 0, warps = 0;
    bool operator==(const Role&) const = default;
  };

  // The kinds of events. An event begins or ends a region or a span, or marks a value. Events of kind
  // span_begin and later kinds have a value: the marked value, or the number of the span.
  enum class Kind : uint8_t { begin, end, span_begin, span_end, mark_u32, mark_s32, mark_f32 };
  static constexpr bool has_value(Kind kind) { return kind >= Kind::span_begin; }
  static constexpr uint32_t kBefore = UINT32_MAX;  // `clock` of an event at the previous event's time
  struct Event {
    Kind kind;
    uint32_t name;       // index in `names`
    uint32_t clock;      // index of the word with the event's time, or kBefore; events may share a word
    uint32_t value = 0;  // index of the word that holds the event's value, if it has one
    auto operator<=>(const Event&) const = default;
  };
  // A point in the code that writes a record, given by the record's events in order.
  using Site = std::vector<Event>;

  uint32_t records = 0;            // number of units per warp; diverged lanes have an additional quarter
  std::vector<std::string> names;  // names of roles, regions, marks and spans
  std::vector<Role> roles;
  std::vector<Site> sites;

  bool operator==(const ProfileFormat&) const = default;
};

// Describes the buffer, which consists of units of 16 bytes. It begins with kCalibrationRecords records with
// three times each. For each CTA (x varies fastest) and each of its warps, a header, the warp's records, and
// the records of diverged lanes follow.
namespace profile_format {

// The first unit of a record. A record holds the clocks and values of one site's events. Its first unit holds
// the site's number and kWords words, and each further unit holds kWordsOfUnit words.
constexpr uint32_t kWords = 3, kWordsOfUnit = 4;
struct Record {
  uint32_t site;           // number of the site, counted from 1; 0 in the calibration
  uint32_t words[kWords];  // values, and clocks, which are the low bits of the multiprocessor's clock
};
constexpr uint32_t kMostUnits = 3, kMostWords = kWords + (kMostUnits - 1) * kWordsOfUnit;
constexpr uint32_t units_of(uint32_t words) {
  return words <= kWords ? 1 : 1 + (words - kWords + kWordsOfUnit - 1) / kWordsOfUnit;
}
// The sizes of a record and of a header.
constexpr uint32_t kRecordBytes = sizeof(Record), kHeaderRecords = 3;
// The number of records that measure the cost of recording.
constexpr uint32_t kCalibrationRecords = 32;
// Returns the space for records of diverged lanes, in units.
constexpr uint32_t apart_records(uint32_t records) { return records / 4; }
// Returns the position at which the records of diverged lanes begin. The last record of the warp begins
// within the warp's space, but may extend beyond it.
constexpr uint32_t place_of_apart(uint32_t records) { return records + kMostUnits - 1; }
constexpr uint32_t warp_records(uint32_t records) {
  return kHeaderRecords + place_of_apart(records) + apart_records(records);
}
constexpr uint32_t kLeastRecords = 32, kMostRecords = 1 << 20;
// The suffix in the names of regions that exist only in profiled kernels. Such a region waits for an
// operation right after the operation has been issued.
constexpr const char* kCompletion = " completion";
constexpr const char* kParameter = "profile";  // name of the kernel's last parameter, the buffer's address

// Contains the amount of data that a warp has recorded, and the place and the time at which the warp ran.
struct Header {
  uint32_t started, sm;  // 1 once the warp has begun, and the warp's multiprocessor
  uint32_t records;      // units that the warp's leader recorded or lost, written at the end
  uint32_t apart;        // units that diverged lanes recorded or lost
  // The multiprocessor's clock and the GPU-wide time when the warp began, and when it ended.
  uint64_t first_clock, first_nanoseconds;
  uint64_t last_clock, last_nanoseconds;  // 0 if the warp did not reach its end
};
static_assert(sizeof(Header) == kHeaderRecords * kRecordBytes);

}  // namespace profile_format

}  // namespace ptxbuilder
