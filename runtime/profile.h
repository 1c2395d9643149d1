// The profile that a kernel has recorded: what each warp did and when, and a summary of the times.
#pragma once

#include <string>
#include <vector>

#include "runtime/argument.h"

namespace ptxbuilder::runtime {

// A profile. All times are in nanoseconds from the start of the kernel's first warp.
struct Profile {
  // A region that a warp executed.
  struct Region {
    uint32_t name;      // index in `names`
    int depth;          // number of enclosing regions in its warp
    double begin, end;  // as recorded
    double net;         // duration, without the cost of recording inside the region
    bool ended;         // whether its end was recorded; otherwise it ends with its enclosing region
  };
  // A value that a warp marked, and the time of the mark.
  struct Mark {
    uint32_t name;
    double time;
    double value;
  };
  // A period of time that may begin and end in different warps of a CTA.
  struct Span {
    uint32_t name, cta;
    uint32_t number;    // distinguishes spans with the same name
    double begin, end;  // as recorded
    bool ended;         // whether its end was recorded; otherwise it ends with the CTA
  };
  // The recording of one warp.
  struct Track {
    uint32_t sm, cta, warp;  // CTAs are numbered along x, y and z; warps are numbered in their CTA
    int role;                // index in `roles`; -1 if the kernel has no roles
    double begin, end;
    uint32_t recorded, lost;      // events recorded, and records lost
    double recording;             // the time that recording took
    std::vector<Region> regions;  // sorted by beginning
    std::vector<Mark> marks;
  };
  // The total time of the regions with the same name and nesting, over all warps of a role.
  struct Row {
    std::string role, region;  // `region` is, for example, "wait" or "tile/wait"; "" is the role itself
    size_t count;
    double total, share;  // `share` is relative to the role's time
    double p50, p95;
  };

  std::string kernel;
  std::vector<std::string> names, roles;
  std::vector<Track> tracks;
  std::vector<Span> spans;      // sorted by beginning
  double time = 0;              // duration of the kernel, to the end of its last warp
  double clock_period = 0;      // period of the multiprocessors' clocks, in nanoseconds
  double event_cost = 0;        // cost of an event that reads the clock itself, in a full record
  uint64_t recorded = 0;        // number of events
  uint64_t lost = 0, room = 0;  // records of events; `room` is per warp
  // The number of records per warp that another run needs to lose none. It is limited by 4 GB of memory,
  // and is 0 if no record was lost.
  uint32_t wanted = 0;
  uint64_t unfinished = 0;  // warps that did not finish; they have no track

  // rows() returns rows that are sorted by role and then by time. Spans have the role kSpans, and their
  // shares refer to the time of the CTAs with spans. These shares can exceed 1, because several spans may be
  // open at once.
  static constexpr const char* kSpans = "spans of CTAs";
  std::vector<Row> rows() const;
  std::string summary() const;  // the rows as a text table
};

// The memory to which a profiled kernel writes its records. It is the last argument of each launch. A new
// launch overwrites its contents.
class ProfileBuffer {
 public:
  // Creates a buffer for launches on `grid` or a smaller grid. Throws an Error if the kernel is not profiled,
  // or if its warps have space for more records than can be addressed.
  ProfileBuffer(Device& device, const Signature& signature, Dim3 grid, Where where = Where::here());

  operator Argument() const;  // NOLINT: meant to be implicit, as an argument of a launch
  Profile read() const;       // waits for queued work

 private:
  Signature signature_;
  Buffer buffer_;
};

// Decodes the memory of a ProfileBuffer. Throws an Error if a kernel with this signature cannot have written
// it.
Profile decode_profile(const Signature& signature, std::span<const std::byte> memory);

}  // namespace ptxbuilder::runtime
