// A profiled kernel writes to memory in this form, on which its code and the host's reader agree.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace ptxbuilder {

// The host needs this in addition to the buffer; it is part of the kernel's signature.
struct ProfileFormat {
  // A role of the kernel, by its first warp in the CTA.
  struct Role {
    std::string name;
    uint32_t first_warp = 0, warps = 0;
    bool operator==(const Role&) const = default;
  };

  // An event opens or closes a region or a span, or marks a value. Those from span_begin on have a value: of
  // the mark, or the number of the span.
  enum class Kind : uint8_t { begin, end, span_begin, span_end, mark_u32, mark_s32, mark_f32 };
  static constexpr bool has_value(Kind kind) { return kind >= Kind::span_begin; }
  struct Event {
    Kind kind;
    uint32_t name;       // in `names`
    uint32_t clock;      // the word of the record that has its time; events at one time share it
    uint32_t value = 0;  // the word that has its value, if it has one
    auto operator<=>(const Event&) const = default;
  };
  // A site is a place in the code that writes a record: the events of the record, in order.
  using Site = std::vector<Event>;

  uint32_t records = 0;            // that each warp has room for; lanes that go apart have a quarter more
  std::vector<std::string> names;  // of roles, regions and marks
  std::vector<Role> roles;
  std::vector<Site> sites;

  bool operator==(const ProfileFormat&) const = default;
};

// The buffer consists of records: kCalibrationRecords with three times each, and then for each CTA, x
// fastest, and each of its warps a header, its records, and those of lanes that went apart.
namespace profile_format {

// The words of a record after the number of its site, which hold clocks and values.
constexpr uint32_t kWords = 3;

// The clocks and values of the events of one site.
struct Record {
  uint32_t site;           // from 1 on; 0 in the calibration
  uint32_t words[kWords];  // a clock has the low bits of the multiprocessor's
};
// The size of a record, and the room that a header takes.
constexpr uint32_t kRecordBytes = sizeof(Record), kHeaderRecords = 3;
// The records that measure the cost of recording.
constexpr uint32_t kCalibrationRecords = 32;
// The room of records of lanes that went apart.
constexpr uint32_t apart_records(uint32_t records) { return records / 4; }
constexpr uint32_t warp_records(uint32_t records) {
  return kHeaderRecords + records + apart_records(records);
}
constexpr uint32_t kLeastRecords = 32, kMostRecords = 1 << 20;
// Regions whose names end so are waits of the profiled kernel alone, right after the issue of what they are
// for.
constexpr const char* kCompletion = " completion";
constexpr const char* kParameter = "profile";  // the kernel's last: the buffer's address

// A header says what its warp did, and where and when it ran.
struct Header {
  uint32_t started, sm;  // 1 when the warp began, and the multiprocessor that it runs on
  uint32_t records;      // recorded and lost, by the warp's leader, when it ended
  uint32_t apart;        // the same by lanes that went apart
  // The multiprocessor's clock and the time that all of them share, at both ends.
  uint64_t first_clock, first_nanoseconds;
  uint64_t last_clock, last_nanoseconds;  // 0 of a warp that did not come to its end
};
static_assert(sizeof(Header) == kHeaderRecords * kRecordBytes);

}  // namespace profile_format

}  // namespace ptxbuilder
