// Holds the state that a kernel being built needs for its reports to the host: on waits that do not end, and
// on values that it checks or prints. watchdog.h and check.h use it.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::detail {

class Reporting {
 public:
  explicit Reporting(ReportFormat format) : format_(std::move(format)) {}

  const ReportFormat& format() const { return format_; }
  bool watches() const { return format_.watchdog_milliseconds > 0; }
  bool checks() const { return format_.messages > 0; }

  // Returns the number of a site at the current source line. An existing site is reused if it is equal.
  uint32_t site(ReportFormat::Site::Kind kind, std::string text, std::string types = {});
  // Adds a role. Warps of the role before it that are also of this one belong to this one, if it is `within`.
  void add_role(std::string name, int first_warp, int warps, bool within = false);
  void name_role(std::string name) { format_.roles.back().name = std::move(name); }
  // Emit what each warp writes when it begins and when it has finished the kernel.
  void end();

  // Return the address that is `bytes` after the start of this warp's slot, and the start of the memory.
  gmem slot(uint32_t bytes = 0) const;
  gmem memory() const;
  // Writes the first half of the slot for this warp. If the warp has diverged, one of its lanes writes.
  void write_state(report_format::WarpState state, uint32_t site) const;

 private:
  ReportFormat format_;
};

// Adds a parameter to the kernel, which the runtime passes: a pointer to memory for data that the kernel
// writes in addition to its results. These writes need registers, so the kernel no longer fails on the
// advisories about spills and stack.
void add_own_pointer(Builder& builder, std::string_view name, std::string_view meaning);

// Creates a Reporting if the scope of a watchdog or of checks is open; otherwise returns null.
std::shared_ptr<Reporting> begin_reporting(Builder& builder);

// Returns the Reporting of the kernel that is being emitted, or null if it does not report anything.
Reporting* reporting();

// Returns true in exactly one of the lanes that execute this together.
pred is_leader();
// Returns the mask of this warp's lanes in a CTA of `threads` threads. These lanes meet in meet_warp().
u32 lanes_of_warp(uint32_t threads);
void meet_warp(uint32_t threads);

}  // namespace ptxbuilder::detail
