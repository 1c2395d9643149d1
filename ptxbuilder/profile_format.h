// A profiled kernel writes to memory in this form, on which its code and the host's reader agree.
#pragma once

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

  uint32_t events = 0;             // that each warp has room for; lanes that go apart have a quarter more
  std::vector<std::string> names;  // of roles, regions and marks, from number 1 on
  std::vector<Role> roles;

  bool operator==(const ProfileFormat&) const = default;
};

// The buffer consists of units of 8 bytes: kCalibrationUnits events of an empty region, and then for each
// CTA, x fastest, and each of its warps a header, its events, and those of lanes that went apart.
namespace profile_format {

// The size of a unit, and of a header in units.
constexpr uint32_t kUnitBytes = 8, kHeaderUnits = 8;
constexpr uint32_t kCalibrationUnits = 32,
                   kCalibrationTogether = 8;  // this many of them are written together
// The room of events of lanes that went apart.
constexpr uint32_t apart_events(uint32_t events) { return events / 4; }
// This many are written together, and the first of them have room; the others may be after the room of
// events.
constexpr uint32_t kUnitsTogether = 16;
// A warp's units are a multiple of 32 bytes, since headers are written by 16.
constexpr uint32_t warp_units(uint32_t events) {
  return (kHeaderUnits + events + kUnitsTogether + apart_events(events) + 3) / 4 * 4;
}
constexpr uint32_t kMostNames = 255;  // an event has 8 bits for the number of a name
constexpr uint32_t kLeastEvents = kCalibrationUnits, kMostEvents = 1 << 20;
// Regions whose names end so are waits of the profiled kernel alone, right after the issue of what they are
// for.
constexpr const char* kCompletion = " completion";
constexpr const char* kParameter = "profile";  // the kernel's last: the buffer's address

// A header says what its warp did, and where and when it ran.
struct Header {
  uint32_t started, sm;  // 1 when the warp began, and the multiprocessor that it runs on
  uint32_t events;       // units of events, recorded and lost, by the warp's leader, when it ended
  uint32_t apart;        // the same by lanes that went apart
  // The multiprocessor's clock and the time that all of them share, at both ends.
  uint64_t first_clock, first_nanoseconds;
  uint64_t last_clock, last_nanoseconds;  // 0 of a warp that did not come to its end
  uint64_t unused_too[2];
};
static_assert(sizeof(Header) == kHeaderUnits * kUnitBytes);

// An event opens or closes a region or a span, or marks a value; those from span_begin on have a value and
// take two units.
enum class EventKind : uint8_t { begin = 1, end, span_begin, span_end, mark_u32, mark_s32, mark_f32 };
constexpr bool has_value(EventKind kind) { return kind >= EventKind::span_begin; }
constexpr uint32_t units_of(EventKind kind) { return has_value(kind) ? 2 : 1; }

// A unit with the value of a mark, or the number of a span, in the place of its clock, follows such an event.
struct Event {
  EventKind kind;
  uint8_t name;  // its number; 0 in the calibration
  uint16_t unused;
  uint32_t clock;  // the low bits of the multiprocessor's
};
static_assert(sizeof(Event) == kUnitBytes);

}  // namespace profile_format

}  // namespace ptxbuilder
