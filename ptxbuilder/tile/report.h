// This is what a kernel that is being built knows of its reports to the host, on waits that do not end and on
// values that it checks or prints. It is the layer below watchdog.h and check.h.
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

  // The number of a site at the current source line: a new one, unless an equal site exists already.
  uint32_t site(ReportFormat::Site::Kind kind, std::string text, std::string types = {});
  void add_role(std::string name, int first_warpgroup, int warpgroups);
  void name_role(std::string name) { format_.roles.back().name = std::move(name); }
  // Emits what each warp writes when it begins, and when it is done with the kernel.
  void end();

  // The address of `bytes` after the start of this warp's slot, and of the memory.
  gmem slot(uint32_t bytes = 0) const;
  gmem memory() const;
  // Writes the first half of the slot, for this warp or, if it has diverged, for one of its lanes.
  void write_state(report_format::WarpState state, uint32_t site) const;

 private:
  ReportFormat format_;
};

// Gives the kernel one more parameter, a pointer that the runtime passes, for what it writes in addition to
// its results. Such a kernel waives spills and stack, since these writes take registers.
void add_own_pointer(Builder& builder, std::string_view name, std::string_view meaning);

// Creates a Reporting if a scope of a watchdog or of checks is open; returns null otherwise.
std::shared_ptr<Reporting> begin_reporting(Builder& builder);

// The Reporting of the kernel that is being emitted; null where it reports nothing.
Reporting* reporting();

// True in one of the lanes that come here together.
pred is_leader();
// The mask of this warp's lanes, in a CTA of so many threads. They meet in meet_warp().
u32 lanes_of_warp(uint32_t threads);
void meet_warp(uint32_t threads);

}  // namespace ptxbuilder::detail
