// Holds the state that a kernel under construction needs for its reports to the host. Kernels report waits
// that do not end (watchdog.h), and values that they check or print (check.h).
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

  // Returns the number of a report site at the current source line. An equal site that already exists is
  // reused.
  uint32_t site(ReportFormat::Site::Kind kind, std::string text, std::string types = {});
  // Adds a role. If `within` is true, the role consists of warps of the previously added role, and reports
  // then name these warps after the new role.
  void add_role(std::string name, int first_warp, int warps, bool within = false);
  void name_role(std::string name) { format_.roles.back().name = std::move(name); }
  // Emits code that makes each warp report its start and its end.
  void end();

  // Return the address `bytes` bytes after the start of this warp's slot, and the start of the report memory.
  gmem slot(uint32_t bytes = 0) const;
  gmem memory() const;
  // Writes the first half of this warp's slot. If the warp has diverged, one of its lanes writes.
  void write_state(report_format::WarpState state, uint32_t site) const;

 private:
  ReportFormat format_;
};

// Adds a parameter that points to memory, which the runtime allocates and passes. The kernel writes reports
// or profiles to this memory. The writes need registers, so the compilation no longer fails on advisories
// about spills and stack.
void add_own_pointer(Builder& builder, std::string_view name, std::string_view meaning);

// Creates a Reporting if a WatchdogScope or a ChecksScope is open; otherwise returns null.
std::shared_ptr<Reporting> begin_reporting(Builder& builder);

// Returns the Reporting of the kernel that is being emitted, or null if the kernel does not report anything.
Reporting* reporting();

// Returns true in exactly one of the lanes that execute this code together.
pred is_leader();
// Returns the mask of the lanes that exist in this warp if a CTA has `threads` threads. meet_warp()
// synchronizes these lanes.
u32 lanes_of_warp(uint32_t threads);
void meet_warp(uint32_t threads);

}  // namespace ptxbuilder::detail
