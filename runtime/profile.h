// The profile that a kernel has recorded: what each warp did and when, and a summary of the times.
#pragma once

#include <string>
#include <vector>

#include "runtime/argument.h"

namespace ptxbuilder::runtime {

// All times are in nanoseconds from the start of the kernel's first warp.
struct Profile {
  // A region that a warp ran through.
  struct Region {
    uint32_t name;      // in `names`
    int depth;          // the number of enclosing regions of its warp
    double begin, end;  // as recorded
    double net;         // how long it took, less the cost of recording inside it
    bool ended;         // its end was recorded; otherwise it ends with the region around it
  };
  // A value that a warp marked, and the time of the mark.
  struct Mark {
    uint32_t name;
    double time;
    double value;
  };
  // A span goes from one place to another.
  struct Span {  // from one place to another, of any warps of a CTA
    uint32_t name, cta;
    uint32_t number;    // distinguishes spans of one name
    double begin, end;  // as recorded
    bool ended;         // its end was recorded; otherwise it ends with the CTA
  };
  // A track is what one warp recorded.
  struct Track {             // a warp
    uint32_t sm, cta, warp;  // a CTA's number counts along x, y and z; a warp's is that in its CTA
    int role;                // in `roles`; -1 if the kernel has no roles
    double begin, end;
    uint32_t recorded, lost;      // events, and records of several events
    double recording;             // the time that recording took
    std::vector<Region> regions;  // by their begin
    std::vector<Mark> marks;
  };
  // A row sums the times of the regions with one name and one nesting, over all warps of a role.
  struct Row {
    std::string role, region;  // such as "wait" or "tile/wait"; "" is the role itself
    size_t count;
    double total, share;  // of the role's time
    double p50, p95;
  };

  std::string kernel;
  std::vector<std::string> names, roles;
  std::vector<Track> tracks;
  std::vector<Span> spans;      // by their begin
  double time = 0;              // of the kernel, to the end of its last warp
  double clock_period = 0;      // of the clocks, in nanoseconds
  double event_cost = 0;        // the time that an event with a time of its own takes, in a full record
  uint64_t recorded = 0;        // events
  uint64_t lost = 0, room = 0;  // records of events; `room` is per warp
  // The room with which another run should lose no records, at most what 4 GB hold; 0 if none was lost.
  uint32_t wanted = 0;
  uint64_t unfinished = 0;  // warps that did not finish; they have no track

  // The rows are sorted by role, then by time. Spans have the role kSpans, whose time is the time of the CTAs
  // that have spans. Their shares can exceed 1 because several spans may be open at once.
  static constexpr const char* kSpans = "spans of CTAs";
  std::vector<Row> rows() const;
  std::string summary() const;  // the rows as a table of text
};

// The memory to which a profiled kernel records: the last argument of each launch. A new launch overwrites
// it.
class ProfileBuffer {
 public:
  // The buffer serves launches on `grid` or a smaller grid. Throws Error if the kernel is not profiled, or if
  // its warps have more room for records than can be addressed.
  ProfileBuffer(Device& device, const Signature& signature, Dim3 grid, Where where = Where::here());

  operator Argument() const;  // NOLINT: an argument of a launch
  Profile read() const;       // waits for queued work

 private:
  Signature signature_;
  Buffer buffer_;
};

// Decodes the memory of a ProfileBuffer. Throws Error unless a kernel of this signature can have written it.
Profile decode_profile(const Signature& signature, std::span<const std::byte> memory);

}  // namespace ptxbuilder::runtime
