// A profiled kernel writes to memory in this form, on which its code and the host's reader agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ptxbuilder {

// The host needs this beside the buffer; it is part of the kernel's signature.
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

// The buffer consists of units of 16 bytes: kCalibrationUnits events of an empty region, and then for each
// CTA, x fastest, and each of its warps a header, its events, and those of lanes that went apart.
namespace profile_format {

constexpr uint32_t kUnitBytes = 16, kCalibrationUnits = 32, kHeaderUnits = 4;
constexpr uint32_t apart_events(uint32_t events) { return events / 4; }
constexpr uint32_t warp_units(uint32_t events) { return kHeaderUnits + events + apart_events(events); }
constexpr uint32_t kMostNames = 255;  // an event has 8 bits for the number of a name
constexpr uint32_t kLeastEvents = kCalibrationUnits, kMostEvents = 1 << 20;
constexpr const char* kParameter = "profile";  // the kernel's last: the buffer's address

struct Header {
  uint32_t started, sm;  // 1 when the warp began, and the multiprocessor that it runs on
  uint32_t events;       // recorded and lost by the warp's leader, when it ended
  uint32_t apart;        // the same by lanes that went apart
  // The multiprocessor's clock and the time that all of them share, at both ends.
  uint64_t first_clock, first_nanoseconds;
  uint64_t last_clock, last_nanoseconds;  // 0 of a warp that did not come to its end
  uint64_t unused_too[2];
};
static_assert(sizeof(Header) == kHeaderUnits * kUnitBytes);

enum class EventKind : uint8_t { begin = 1, end, mark_u32, mark_s32, mark_f32 };

struct Event {
  EventKind kind;
  uint8_t name;  // its number; 0 in the calibration
  uint16_t unused;
  uint32_t payload;  // a mark's value
  uint64_t clock;
};
static_assert(sizeof(Event) == kUnitBytes);

}  // namespace profile_format

}  // namespace ptxbuilder
