#include "ptxbuilder/tile/report.h"

#include <algorithm>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/check.h"
#include "ptxbuilder/tile/watchdog.h"

namespace ptxbuilder::detail {

using namespace report_format;

uint32_t Reporting::site(ReportFormat::Site::Kind kind, std::string text, std::string types) {
  ReportFormat::Site site{kind, to_string(Where::here()), std::move(text), std::move(types)};
  const auto known = std::find(format_.sites.begin(), format_.sites.end(), site);
  const auto number = static_cast<uint32_t>(known - format_.sites.begin()) + 1;
  if (known == format_.sites.end()) format_.sites.push_back(std::move(site));
  return number;
}

void Reporting::add_role(std::string name, int first_warp, int warps, bool within) {
  // Reports use the first role in the list that contains a warp.
  format_.roles.insert(within && !format_.roles.empty() ? format_.roles.end() - 1 : format_.roles.end(),
                       {std::move(name), static_cast<uint32_t>(first_warp), static_cast<uint32_t>(warps)});
}

gmem Reporting::memory() const { return Builder::current().own_parameter(kReportParameter); }

// Emits the computation anew in each call, so that the address does not occupy registers between its uses.
gmem Reporting::slot(uint32_t bytes) const {
  const u32 warps = (ntid_x() + 31) >> 5;
  const u32 cta = ctaid_x() + nctaid_x() * (ctaid_y() + nctaid_y() * ctaid_z());
  const u32 index = (cta & (kMostCtas - 1)) * warps + (tid_x() >> 5);
  return memory() + (u64(index) * kWarpSlotBytes + uint64_t{kHeaderBytes + bytes} +
                     uint64_t{format_.messages} * kMessageBytes);
}

// Diverged lanes of a warp write the state in any order. Each write is a single store, so the state always
// consists of the values of one lane.
void Reporting::write_state(WarpState state, uint32_t site) const {
  const u32 cta = ctaid_x() + nctaid_x() * (ctaid_y() + nctaid_y() * ctaid_z());
  instruction<"st.relaxed.sys.global.v4.u32">.when(is_leader())(
      slot(), {u32(static_cast<uint32_t>(state)), u32(site), cta, smid()});
}

void Reporting::end() {
  Builder& builder = Builder::current();
  if (watches()) {
    meet_warp(builder.signature().threads);
    write_state(WarpState::ended, 0);
    builder.emit_at_entry([&] { write_state(WarpState::runs, 0); });
  }
  builder.signature().report = format_;
}

void add_own_pointer(Builder& builder, std::string_view name, std::string_view meaning) {
  Parameter pointer;
  pointer.name = name;
  pointer.kind = Parameter::Kind::pointer;
  pointer.dtype = DType::u64;
  pointer.meaning = meaning;
  builder.add_own_parameter(std::move(pointer));
  // The kernel may not have enough registers for the writes, so these advisories are permitted.
  builder.waive("spills");
  builder.waive("stack");
}

std::shared_ptr<Reporting> begin_reporting(Builder& builder) {
  ReportFormat format;
  format.watchdog_milliseconds = WatchdogScope::milliseconds();
  format.messages = ChecksScope::messages();
  if (!format.watchdog_milliseconds && !format.messages) return nullptr;
  add_own_pointer(builder, kReportParameter,
                  "where the kernel reports waits and checks, which the runtime passes");
  if (format.watchdog_milliseconds) watch_barriers(builder);
  return std::make_shared<Reporting>(std::move(format));
}

Reporting* reporting() { return TileContext::of(Builder::current()).reporting.get(); }

pred is_leader() { return (instruction<"activemask.b32">() & instruction<"mov.u32 %lanemask_lt">()) == 0; }

u32 lanes_of_warp(uint32_t threads) {
  const uint32_t rest = threads % 32;
  if (rest == 0) return 0xffffffff;
  return select(tid_x() >> 5 == threads / 32, u32((uint32_t{1} << rest) - 1), u32(0xffffffff));
}
void meet_warp(uint32_t threads) { bar_warp_sync(lanes_of_warp(threads)); }

}  // namespace ptxbuilder::detail
