// The profile that a kernel recorded of itself: what each warp did when, and what that amounts to.
#pragma once

#include <string>
#include <vector>

#include "runtime/argument.h"

namespace ptxbuilder::runtime {

// Times are nanoseconds from the start of the kernel's first warp.
struct Profile {
  // A region that a warp ran through.
  struct Region {
    uint32_t name;      // in `names`
    int depth;          // the number of other regions of its warp that it is in
    double begin, end;  // as recorded
    double net;         // how long it took, without what recording costs in it
    bool ended;         // its end was recorded; otherwise it ends with what it is in
  };
  // A value that a warp marked, and when.
  struct Mark {
    uint32_t name;
    double time;
    double value;
  };
  // A span goes from one place to another.
  struct Span {  // from one place to another, of any warps of a CTA
    uint32_t name, cta;
    uint32_t number;    // which tells apart those of a name
    double begin, end;  // as recorded
    bool ended;         // its end was recorded; otherwise it ends with the CTA
  };
  // A track is what one warp recorded.
  struct Track {             // a warp
    uint32_t sm, cta, warp;  // a CTA's number counts along x, y and z; a warp's is that in its CTA
    int role;                // in `roles`; -1 where the kernel has none
    double begin, end;
    uint32_t recorded, lost;      // events; lost are those with a value twice
    std::vector<Region> regions;  // by their begin
    std::vector<Mark> marks;
  };
  // A row tells what the regions of one name and one place in others took, over all warps of a role.
  struct Row {
    std::string role, region;  // as "wait" or "tile/wait"; "" is the role itself
    size_t count;
    double total, share;  // of the role's time
    double p50, p95;
  };

  std::string kernel;
  std::vector<std::string> names, roles;
  std::vector<Track> tracks;
  std::vector<Span> spans;                    // by their begin
  double time = 0;                            // of the kernel, to the end of its last warp
  double clock_period = 0;                    // in nanoseconds, as the clocks have it
  double event_cost = 0;                      // what recording one event takes
  uint64_t recorded = 0, lost = 0, room = 0;  // events; a warp has room for so many
  // It is the room with which another run should lose no events, up to what 4 GB hold; 0 where none are lost.
  uint32_t wanted = 0;
  uint64_t unfinished = 0;  // warps that did not come to their end; they have no track

  // They come by role, and in it by time. Spans have the role kSpans, whose time is that of the CTAs that
  // have any, so that they share more than all of it where several are open at once.
  static constexpr const char* kSpans = "spans of CTAs";
  std::vector<Row> rows() const;
  std::string summary() const;  // these in words, as a table
};

// The memory that a profiled kernel records to: the last argument of its launches, the last of which is read.
class ProfileBuffer {
 public:
  // It is for launches on `grid` or a smaller one. Throws Error where the kernel is not profiled, and where
  // its warps have more room for events than can be addressed.
  ProfileBuffer(Device& device, const Signature& signature, Dim3 grid, Where where = Where::here());

  operator Argument() const;  // NOLINT: an argument of a launch
  Profile read() const;       // waits for what is queued

 private:
  Signature signature_;
  Buffer buffer_;
};

// Reads such memory. Throws Error where it is not what a kernel of this signature writes.
Profile decode_profile(const Signature& signature, std::span<const std::byte> memory);

}  // namespace ptxbuilder::runtime
